"""The rows at the top of a table -> which of them are titles, which hold column names, and what those are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headwater.parsers._draft import one_line

Row = Sequence[str]

# Column names are short, and at least so many of the columns have one.
MAX_NAME_CHARS: Final = 80
_MIN_NAMED_SHARE: Final = 0.5
# Of the values under a name so many are numbers where the column is one of numbers.
_MIN_NUMBER_SHARE: Final = 0.6
_NAME_JOINT: Final = " / "
# A row of titles above the names; more of them are a table of another kind.
_MAX_TITLE_ROWS: Final = 10

_NUMBER: Final = re.compile(
    r"[(（]?[+\-−±~≈<>≤≥]{0,2}\s?(?:[¥￥$€£₩]|USD|CNY|RMB|EUR)?\s?[+\-−]?(?:\d[\d,， ]*)?(?:\.\d+)?(?:[eE][+-]?\d+)?"
    r"\s?(?:[%％‰元万亿℃°]|USD|CNY|RMB|EUR|[a-zA-Zμ]{1,3})?[)）]?"
)
_DATE: Final = re.compile(
    r"\d{1,4}\s?[-/.年]\s?\d{1,2}(?:\s?[-/.月]\s?\d{1,4}\s?日?|\s?月)?(?:[T ]?\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?Z?"
    r"|\d{1,2}:\d{2}(?::\d{2})?"
)
_YEAR: Final = re.compile(r"(?:19|20)\d{2}(?:年|[-/年.]?(?:Q[1-4]|\d{1,2}月?))?|\d{1,2}月")
_FAULT: Final = re.compile(r"#[A-Z]{2,}[A-Z0-9/_]*[!?]?")
_NO_WORDS: Final = frozenset({"true", "false", "是", "否", "yes", "no", "y", "n", "-", "—", "/"})
SENTENCE_END: Final = ("。", "！", "？", "；")


class Across(str):
    """The text of a merged cell, in the columns to the right of where it stands: known there, not written again."""

    __slots__ = ()


def column_letters(place: int) -> str:
    """The name of a column in a sheet: A, B, ..., Z, AA."""
    letters = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        letters = chr(65 + letter) + letters
    return letters


def extent(rows: Sequence[Row]) -> tuple[int, int]:
    """The first column with anything in it, and the one after the last."""
    used = [[place for place, cell in enumerate(row) if cell and not isinstance(cell, Across)] for row in rows]
    return (
        min((places[0] for places in used if places), default=0),
        max((places[-1] + 1 for places in used if places), default=0),
    )


def titles_of(sample: Sequence[Row]) -> Sequence[Row]:
    """The rows above a table that hold one text only, however many columns it spans."""
    for count, row in enumerate(sample[:_MAX_TITLE_ROWS]):
        cells = [cell for cell in row if cell]
        if len(set(cells)) > 1:
            return sample[:count]
        if len(cells) > 1 and not any(isinstance(cell, Across) for cell in cells):
            return sample[:count]
    return []


def rows_of_names(sample: Sequence[Row]) -> int:
    """How many rows at the top hold column names: 0, 1 or 2."""
    if len(sample) < 2 or not _could_be_names(sample[0]):
        return 0
    if len(sample) > 2 and _is_grouped(sample[0], sample[1]):
        return 2 if _stand_above_figures(sample[1], sample[2:]) or _subdivides(sample[0], sample[1]) else 1
    named = [cell for cell in sample[0] if cell]
    if len(set(named)) < len(named):
        return 0
    return int(_has_evidence(sample[0], sample[1:]))


def _could_be_names(row: Row) -> bool:
    cells = [cell for cell in row if cell]
    if len(cells) < max(2, _MIN_NAMED_SHARE * len(row)):
        return False
    words = [cell for cell in cells if not _YEAR.fullmatch(cell.strip())]
    return bool(words) and all(
        len(cell) <= MAX_NAME_CHARS and not cell.endswith(SENTENCE_END) and not _is_figure(cell) for cell in words
    )


def _is_grouped(above: Row, below: Row) -> bool:
    """Whether the upper of two rows names groups of columns and the lower one the columns."""
    if not _could_be_names(below):
        return False
    names = [cell for cell in _combined(above, below) if cell]
    groups = [place for place, cell in enumerate(above) if isinstance(cell, Across) or not cell]
    subdivided = [place for place in groups if place < len(below) and below[place]]
    return bool(subdivided) and len(set(names)) == len(names) and any(isinstance(above[p], Across) for p in groups)


def _has_evidence(names: Row, below: Sequence[Row]) -> bool:
    """Whether the values under the names are of another kind, or at least not the same words."""
    if _stand_above_figures(names, below):
        return True
    columns = [{row[place] for row in below if place < len(row)} for place in range(len(names))]
    return not any(name and name in column for name, column in zip(names, columns, strict=True))


def _stand_above_figures(names: Row, below: Sequence[Row]) -> bool:
    """Whether under one of the names there are mostly figures."""
    for place, name in enumerate(names):
        values = [row[place] for row in below if place < len(row) and row[place]]
        if name and values and sum(map(is_value, values)) >= _MIN_NUMBER_SHARE * len(values):
            return True
    return False


def _subdivides(above: Row, below: Row) -> bool:
    """Whether the lower row only names parts of what spans columns; a row of values says something in all of them."""
    for place, (upper, lower) in enumerate(zip(above, below, strict=False)):
        spans = isinstance(upper, Across) or (place + 1 < len(above) and isinstance(above[place + 1], Across))
        if upper and not spans and lower and lower != upper:
            return False
    return True


def names_of(rows: Sequence[Row], width: int) -> list[str]:
    """One name per column; a column without one goes by its letter."""
    combined: Sequence[str] = rows[0] if len(rows) == 1 else _combined(rows[0], rows[1])
    for row in rows[2:]:
        combined = _combined(combined, row)
    names = [one_line(name) for name in (*combined, *[""] * width)][:width]
    return [name or column_letters(place) for place, name in enumerate(names)]


def _combined(above: Row, below: Row) -> list[str]:
    """`2025 / Q1` for a column `Q1` under a group `2025`; a name that spans both rows stands once."""
    joined = []
    for place in range(max(len(above), len(below))):
        upper = above[place] if place < len(above) else ""
        lower = below[place] if place < len(below) else ""
        joined.append(upper + _NAME_JOINT + lower if upper and lower and upper != lower else str(upper or lower))
    return joined


def _is_figure(cell: str) -> bool:
    """Whether a cell holds a number, an amount or a date, as shown, or a fault in place of one."""
    cell = cell.strip()
    if not any(map(str.isdigit, cell)):
        return _FAULT.fullmatch(cell) is not None
    return bool(_NUMBER.fullmatch(cell) or _DATE.fullmatch(cell))


def is_value(cell: str) -> bool:
    """Whether a cell holds what is no word: a figure, yes or no, a dash for none."""
    return _is_figure(cell) or cell.strip().lower() in _NO_WORDS
