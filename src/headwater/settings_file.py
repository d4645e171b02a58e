"""The text of a settings file and one setting -> the text with it; comments and everything else stay as they are."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from headwater.errors import SettingError

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def with_setting(text: str, name: str, value: Any) -> str:
    """The file with `name = value`, in the place where it stands or in a section of its own.

    SettingError where the file is written in a way that is better changed by hand.
    """
    section, _, key = name.rpartition(".")
    lines = text.splitlines()
    line = f"{key} = {written(value)}"
    start, end = _section(lines, section)
    at = next((n for n in range(start, end) if re.match(rf"\s*{re.escape(key)}\s*=", lines[n])), None)
    if at is not None:
        lines[at] = line
    elif section and start < 0:
        lines += [*([""] if lines and lines[-1].strip() else []), f"[{section}]", line]
    else:
        last = max([n for n in range(start, end) if lines[n].strip()], default=start - 1)
        lines.insert(last + 1, line)
    made = "\n".join(lines) + "\n"
    if not _is_changed_so(text, made, section, key, value):
        raise SettingError(
            f"{name} cannot be set in this file without losing something; write `{line}` into it yourself"
        )
    return made


def written(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {written(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False)


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _section(lines: list[str], section: str) -> tuple[int, int]:
    """The lines of a section, without its header; (-1, -1) where there is none. The top of the file has no name."""
    start = 0 if not section else -1
    for number, line in enumerate(lines):
        header = _HEADER.fullmatch(line)
        if header is None:
            continue
        if start >= 0:
            return start, number
        if ".".join(part.strip().strip('"') for part in header[1].split(".")) == section:
            start = number + 1
    return (start, len(lines)) if start >= 0 else (-1, -1)


def _is_changed_so(before: str, after: str, section: str, key: str, value: Any) -> bool:
    """Whether exactly this setting differs."""
    try:
        expected: dict[str, Any] = tomllib.loads(before)
        table = expected
        for part in filter(None, section.split(".")):
            table = table.setdefault(part, {})
        table[key] = list(value) if isinstance(value, tuple) else value
        return bool(tomllib.loads(after) == expected)
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        return False
