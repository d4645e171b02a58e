"""Rows of a sheet -> the bands of columns in which tables stand side by side, where it is clear that they do.

An empty column also sets the figures at the right of one table apart from the rest, so each band has to be a table by
itself: with column names, and with a first column that tells its rows apart.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from headwater.parsers._column_names import Row, is_value, names_of, rows_of_names, titles_of

# More than this beside each other is a drawing.
MAX_BANDS: Final = 12

Band = tuple[int, int]  # the first column, and the one after the last


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What stands in one band: from which row to which, the name of its first column, and what is in it."""

    top: int
    bottom: int
    name: str
    keys: tuple[str, ...]


def has_gap(rows: Sequence[Row]) -> bool:
    """Whether a column is empty between others."""
    return len(_stretches(rows)) > 1


def bands_of(rows: Sequence[Row]) -> list[Band]:
    """The bands of two tables or more, from the left edge to the right; none where the rows may be one table."""
    bands = _stretches(rows)
    if not 1 < len(bands) <= MAX_BANDS:
        return []
    parts = [part for band in bands if (part := _part(rows, band)) is not None]
    if len(parts) < len(bands) or not _are_apart(parts):
        return []
    return [(0, bands[0][1]), *bands[1:-1], (bands[-1][0], sys.maxsize)]


def within(row: Row, band: Band) -> Row:
    """What a row holds in a band, in the same columns."""
    return [*[""] * band[0], *row[band[0] : band[1]]]


def is_between(row: Row, bands: Sequence[Band]) -> bool:
    """Whether a row holds anything between the bands."""
    return any(any(row[left[1] : right[0]]) for left, right in pairwise(bands))


def _stretches(rows: Sequence[Row]) -> list[Band]:
    places = {place for row in rows for place, cell in enumerate(row) if cell}
    starts = sorted(place for place in places if place - 1 not in places)
    ends = sorted(place + 1 for place in places if place + 1 not in places)
    return list(zip(starts, ends, strict=True))


def _part(rows: Sequence[Row], band: Band) -> _Part | None:
    """The table in a band; None where a row of it is empty, it has no column names, or its first column has gaps."""
    width = band[1] - band[0]
    inside = [[*row[band[0] : band[1]], *[""] * width][:width] for row in rows]
    used = [place for place, row in enumerate(inside) if any(row)]
    table = inside[used[0] : used[-1] + 1]
    body = table[len(titles_of(table)) :]
    header = rows_of_names(body)
    keys = tuple(row[0] for row in body[header:])
    if not header or not all(keys) or len(used) < len(table):
        return None
    return _Part(top=used[0], bottom=used[-1], name=names_of(body[:header], width)[0], keys=keys)


def _are_apart(parts: Sequence[_Part]) -> bool:
    """Whether the rows of one do not go on in the next: each has its own kind of key, or the same kind once more."""
    if len({part.name for part in parts}) == 1:
        return True
    if any(len(set(part.keys)) < len(part.keys) for part in parts):
        return False
    same_rows = len({(part.top, part.bottom) for part in parts}) == 1
    return not same_rows or not any(is_value(key) for part in parts for key in part.keys)
