"""The text of a settings file and one setting -> the text with or without it; all else stays, comments too."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from headwater.errors import SettingError

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def from_text(text: str) -> Any:
    """A value in the environment or on the command line: TOML where it is that, plain text otherwise."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


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
        lines += [*([""] if lines and lines[-1].strip() else []), f"[{'.'.join(map(_key, _path(section)))}]", line]
    else:
        last = max([n for n in range(start, end) if lines[n].strip()], default=start - 1)
        lines.insert(last + 1, line)
    made = "\n".join(lines) + "\n"
    if not _is_changed_so(text, made, section, key, value):
        raise SettingError(
            f"{name} cannot be set in this file without losing something; write `{line}` into it yourself"
        )
    return made


def without_setting(text: str, name: str) -> str:
    """The file without that setting, and without its section where nothing else is left in it."""
    section, _, key = name.rpartition(".")
    lines = text.splitlines()
    start, end = _section(lines, section)
    at = next((n for n in range(start, end) if re.match(rf"\s*{re.escape(key)}\s*=", lines[n])), None)
    if at is None:
        return text
    del lines[at]
    if section and not any(line.strip() for line in lines[start : end - 1]):
        del lines[start - 1 : end - 1]
        while lines and not lines[-1].strip():
            lines.pop()
    made = "\n".join(lines) + "\n" if lines else ""
    if not _is_gone(text, made, section, key):
        raise SettingError(f"{name} cannot be taken out of this file without losing something; do it yourself")
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
        if _named(header[1]) == _path(section):
            start = number + 1
    return (start, len(lines)) if start >= 0 else (-1, -1)


def _is_changed_so(before: str, after: str, section: str, key: str, value: Any) -> bool:
    """Whether exactly this setting differs."""
    try:
        expected: dict[str, Any] = tomllib.loads(before)
        table = expected
        for part in _path(section):
            table = table.setdefault(part, {})
        table[key] = list(value) if isinstance(value, tuple) else value
        return bool(tomllib.loads(after) == expected)
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        return False


def _is_gone(before: str, after: str, section: str, key: str) -> bool:
    """Whether exactly this setting is missing, and its table where that was all it held."""
    try:
        left = tables = tomllib.loads(before)
        for part in _path(section):
            tables = tables[part]
        del tables[key]
        return bool(_filled(tomllib.loads(after)) == _filled(left))
    except (tomllib.TOMLDecodeError, KeyError, TypeError):
        return False


def _filled(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Without tables that hold nothing."""
    inner = {key: _filled(value) if isinstance(value, Mapping) else value for key, value in tree.items()}
    return {key: value for key, value in inner.items() if value != {}}


def _path(section: str) -> list[str]:
    """A section's name, and the name within it, in which there may be dots: `llm.qwen2.5`."""
    return [part for part in section.split(".", 1) if part]


def _named(header: str) -> list[str]:
    """What a header names."""
    try:
        tree, found = tomllib.loads(f"[{header}]"), []
    except tomllib.TOMLDecodeError:
        return []
    while tree:
        ((part, tree),) = tree.items()
        found.append(part)
    return found
