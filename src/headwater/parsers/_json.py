"""A value of JSON -> a draft: lists of objects as tables, all else as lines `name: value` with dotted names.

Numbers stay as they are written. Nested objects are flattened into their parent's row; a list inside a row stays in one
cell. A list of objects inside an object becomes a section of its own, under its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from headwater.parsers._draft import PATH_JOINT, Draft, one_line, plain_lines
from headwater.parsers._rows import MAX_ROWS, Tables, write_records

# How many objects are looked at for the names of the columns, and how many names make a table.
_SAMPLE_OBJECTS: Final = 200
_MAX_COLUMNS: Final = 200
# Text of more lines than one, or of this length, stands in a paragraph of its own.
_LONG_CHARS: Final = 200
# An object with more fields is a part of the document of its own.
_MAX_FIELDS: Final = 20
# Deeper names say nothing to a reader; what is below is written as it is.
_MAX_DEPTH: Final = 12


def write_value(draft: Draft, value: Any, *, max_rows: int = MAX_ROWS) -> Tables:
    """Write a value of any shape."""
    written = Tables()
    if is_table(value):
        return write_objects(draft, value, max_rows=max_rows)
    if isinstance(value, list):
        value = (
            {str(place): item for place, item in enumerate(value, 1)} if any(map(_is_nested, value)) else {"": value}
        )
    if isinstance(value, Mapping):
        _write_object(draft, value, (), written, max_rows)
    else:
        draft.paragraph(shown(value))
    return written


def write_objects(draft: Draft, objects: Iterable[Mapping[str, Any]], *, max_rows: int = MAX_ROWS) -> Tables:
    """Write objects as the rows of a table, one by one."""
    coming = iter(objects)
    first = [flattened(item) for item in islice(coming, _SAMPLE_OBJECTS)]
    names = list(dict.fromkeys(name for item in first for name in item))[:_MAX_COLUMNS]
    known = set(names)

    def rows() -> Iterator[list[str]]:
        yield from map(row, first)
        yield from (row(flattened(item)) for item in coming)

    def row(item: Mapping[str, str]) -> list[str]:
        later = [f"{name}: {value}" for name, value in item.items() if name not in known and value]
        return [item.get(name, "") for name in names] + later

    return write_records(draft, names, rows(), max_rows=max_rows)


def is_table(value: Any) -> bool:
    """Whether a value is a list of objects."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) and item for item in value)


def flattened(item: Mapping[str, Any], above: str = "", depth: int = 0) -> dict[str, str]:
    """An object with its nested ones, as text by dotted name."""
    flat: dict[str, str] = {}
    for key, value in item.items():
        name = f"{above}.{key}" if above else str(key)
        if isinstance(value, Mapping) and value and depth < _MAX_DEPTH:
            flat |= flattened(value, name, depth + 1)
        else:
            flat[name] = shown(value)
    return flat


def shown(value: Any, depth: int = 0) -> str:
    """A value on its own as a reader would write it."""
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if _is_nested(value) and depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {shown(item, depth + 1)}" for key, item in value.items())
    if isinstance(value, list):
        joint = "; " if any(map(_is_nested, value)) else ", "
        return joint.join(shown(item, depth + 1) for item in value)
    return str(value)


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping | list)


def _write_object(draft: Draft, item: Mapping[str, Any], path: tuple[str, ...], written: Tables, max_rows: int) -> None:
    """First what is said in a line each, then the lists of objects, each under its name."""
    later: list[tuple[str, Any]] = []
    _write_lines(draft, item, "", later)
    for name, value in later:
        inner = (*path, name)
        draft.heading(PATH_JOINT.join(inner) if len(inner) > _MAX_DEPTH else name, min(len(inner), _MAX_DEPTH))
        if is_table(value):
            written.add(write_objects(draft, value, max_rows=max(0, max_rows - written.rows)))
        elif isinstance(value, Mapping):
            _write_object(draft, value, inner, written, max_rows)
        else:
            for place, part in enumerate(value, 1):
                words = shown(part)
                draft.line(f"{place}. {one_line(words)}" if len(words) <= _LONG_CHARS else plain_lines(words))


def _write_lines(
    draft: Draft, item: Mapping[str, Any], above: str, later: list[tuple[str, Any]], depth: int = 0
) -> None:
    draft.gap()
    for key, value in item.items():
        name = f"{above}.{key}" if above else str(key)
        if _is_part(value, depth):
            later.append((name, value))
        elif isinstance(value, Mapping) and value and depth < _MAX_DEPTH:
            _write_lines(draft, value, name, later, depth + 1)
        else:
            words = shown(value)
            front = f"{name}: " if name else ""
            if "\n" in words or len(words) > _LONG_CHARS:
                draft.paragraph(front + words)
                draft.gap()
            elif one_line(front + words):
                draft.line(one_line(front + words))


def _is_part(value: Any, depth: int) -> bool:
    """Whether a value is a part of the document of its own rather than some fields."""
    if isinstance(value, list):
        return any(map(_is_nested, value))
    is_top = isinstance(value, Mapping) and depth == 0
    return is_top and (len(value) > _MAX_FIELDS or any(is_table(item) for item in value.values()))
