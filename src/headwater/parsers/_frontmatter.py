"""The YAML between `---` lines at the top of a note -> what the note says about itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

import yaml

from headwater.filters import Value
from headwater.types import Meta

# More than any person writes about a note; beyond it the lines are taken for text.
_MAX_CHARS: Final = 65_536

_FENCED: Final = re.compile(r"---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_ENTRY: Final = re.compile(r"^([\w-]+)[ \t]*:[ \t]+(\S.*)$", re.MULTILINE)
_OPENS_WITH_KEY: Final = re.compile(r"\s*(?:#[^\n]*\n\s*)*[\w\"' -]+:(?:\s|$)")

_TAGS: Final = ("tags", "tag")
_ALIASES: Final = ("aliases", "alias")
_DESCRIPTIONS: Final = ("description", "summary")
_CREATED: Final = ("created", "date")
_UPDATED: Final = ("updated", "modified", "lastmod")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontmatter:
    """What was said, and where the text after it starts. `end` is 0 where there is none."""

    end: int = 0
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    created: str = ""
    updated: str = ""
    meta: Meta = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def read_frontmatter(text: str) -> Frontmatter:
    """The frontmatter of a text. Bad YAML is read line by line as far as that goes, and noted as a problem."""
    fenced = _FENCED.match(text, 0, _MAX_CHARS)
    if fenced is None:
        return Frontmatter()
    problems: list[str] = []
    try:
        said = yaml.safe_load(fenced[1])
    # Beyond YAMLError: dates such as 2025-13-01 and numbers too long to read, and nesting without end.
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        if not _OPENS_WITH_KEY.match(fenced[1]):
            return Frontmatter()
        said = dict(_ENTRY.findall(fenced[1]))
        problems.append(f"frontmatter is not valid YAML, read line by line: {_first_line(error)}")
    if said is None:
        return Frontmatter(end=fenced.end())
    if not isinstance(said, Mapping):
        return Frontmatter()  # a rule, some text and another rule
    return _sorted_out({str(key): value for key, value in said.items()}, fenced.end(), problems)


def _sorted_out(said: dict[str, Any], end: int, problems: list[str]) -> Frontmatter:
    fields = {key.lower(): key for key in said}
    tags = [tag for name in _TAGS for tag in _words(said.pop(fields[name], None) if name in fields else None)]
    aliases = [name for key in _ALIASES for name in _names(said.pop(fields[key], None) if key in fields else None)]
    taken = {}
    for name, keys in (("description", _DESCRIPTIONS), ("created", _CREATED), ("updated", _UPDATED)):
        present = [said.pop(fields[key]) for key in keys if key in fields and _is_scalar(said[fields[key]])]
        taken[name] = next((str(_value(value)).strip() for value in present if value is not None), "")
    # `date` stays an attribute of its own: it is the document's date, whatever its file says.
    dated = {"date": taken["created"]} if "date" in fields and taken["created"] else {}
    title = said.pop(fields["title"]) if "title" in fields and _is_scalar(said[fields["title"]]) else None
    meta: dict[str, Value | tuple[Value, ...]] = {**dated}
    if aliases:
        meta["aliases"] = tuple(dict.fromkeys(aliases))
    for key, value in said.items():
        if isinstance(value, list) and all(map(_is_scalar, value)):
            meta[key] = tuple(_value(part) for part in value if part is not None)
        elif not _is_scalar(value):
            problems.append(f"frontmatter {key!r} is nested and was left out; only plain values and lists are kept")
        elif value is not None:
            meta[key] = _value(value)
    return Frontmatter(
        end=end,
        title="" if title is None else str(_value(title)).strip(),
        description=taken["description"],
        tags=tuple(dict.fromkeys(tags)),
        created=taken["created"],
        updated=taken["updated"],
        meta=meta,
        problems=tuple(problems),
    )


def _names(value: Any) -> list[str]:
    """Other names of a note as a list, or in one string between commas; unlike tags they may hold blanks."""
    parts = value if isinstance(value, list) else re.split("[,，、]", str(_value(value))) if _is_scalar(value) else []
    names = [str(_value(part)).strip() for part in parts if _is_scalar(part) and part is not None]
    return [name for name in names if name]


def _words(value: Any) -> list[str]:
    """Tags as a list, or in one string between commas or blanks; `#` in front is dropped."""
    parts = (
        value if isinstance(value, list) else re.split(r"[,，、\s]+", str(_value(value))) if _is_scalar(value) else []
    )
    words = [str(_value(part)).strip().lstrip("#") for part in parts if _is_scalar(part) and part is not None]
    return [word for word in words if word]


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool | date)


def _value(value: Any) -> Value:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, str | bool | float):
        return value
    # A number that no store holds as one is kept as it is written.
    return value if isinstance(value, int) and value.bit_length() < 64 else str(value or "")


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
