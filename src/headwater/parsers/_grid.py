"""A table of HTML -> its rows of cells, or nothing where it only arranges a page.

A cell that spans rows is repeated in each, so that every row can be read alone; one that spans columns fills the first,
and among the names of columns is a part of each of theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.parsers._words import words_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
else:
    Element = Any

# No table for readers is wider or goes on for longer; a page that claims so costs only time.
_MAX_SPAN: Final = 64
_MAX_CELLS: Final = 200_000
# Cells of a table are words and numbers; one with more is a part of the page.
_MAX_CELL_CHARS: Final = 1000
_ARRANGED: Final = ("h1", "h2", "h3", "h4", "h5", "h6", "form", "article", "section", "pre")
_DIGIT: Final = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Cell:
    """The words of one cell and the links among them: what is written and where it leads."""

    text: str
    links: tuple[tuple[str, str], ...] = ()
    across: str = ""  # what the cell says that spans this column too, from further left


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: what stands over it, its column names where it has any, and its rows."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


def grid_of(table: Element) -> Grid | None:
    """The table, or None where it is there for the looks of the page."""
    caption = next((words_of(child) for child in table if child.tag == "caption"), "")
    marked = bool(caption) or next(table.iter("th"), None) is not None
    arranged = next(table.iterdescendants(*_ARRANGED), None)
    if next(table.iterdescendants("table"), None) is not None or (arranged is not None and not marked):
        return None
    rows, heads = _rows(table)
    width = max((len(row) for row in rows), default=0)
    rows = [row + [Cell("")] * (width - len(row)) for row in rows]
    # A column without a word is there for a picture or for room.
    kept = [column for column in range(width) if any(row[column].text for row in rows)]
    rows = [[row[column] for column in kept] for row in rows]
    if not rows or (len(kept) < 2 and not caption):
        return None
    if not marked and (len(rows) < 2 or any(len(cell.text) > _MAX_CELL_CHARS for row in rows for cell in row)):
        return None
    heads = heads or _unmarked_header(rows)
    header = tuple(_together(column) for column in zip(*rows[:heads], strict=True)) if heads else ()
    return Grid(caption, header, tuple(map(tuple, rows[heads:])))


def line_of(cells: tuple[str, ...]) -> str:
    """A row as it is written; a bar inside a cell is no border."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _rows(table: Element) -> tuple[list[list[Cell]], int]:
    """Every row with its spans filled, and how many of the first name the columns."""
    rows: list[list[Cell]] = []
    heads, counted, taken = 0, True, 0
    below: dict[int, tuple[int, Cell]] = {}
    for line in table.iter("tr"):
        cells = [cell for cell in line if cell.tag in ("td", "th")]
        if not cells or taken > _MAX_CELLS:
            continue
        row: list[Cell] = []
        for cell in cells:
            _carry(row, below)
            made = Cell(words_of(cell), _links(cell))
            wide, high = _span(cell, "colspan"), _span(cell, "rowspan")
            if high > 1:
                below[len(row)] = (high - 1, made)
            row.append(made)
            row += [Cell("", across=made.text)] * (wide - 1)
        _carry(row, below)
        taken += len(row)
        if any(cell.text for cell in row):
            rows.append(row)
            above = line.getparent()
            is_head = all(cell.tag == "th" for cell in cells) or (above is not None and above.tag == "thead")
            counted = counted and is_head
            heads += counted
    # A table of names only, in the first row of which the columns are named.
    return rows, heads if heads < len(rows) else min(heads, 1)


def _carry(row: list[Cell], below: dict[int, tuple[int, Cell]]) -> None:
    """Fill in what reaches down from the rows above."""
    while (place := len(row)) in below:
        left, cell = below[place]
        row.append(cell)
        if left > 1:
            below[place] = (left - 1, cell)
        else:
            del below[place]


def _span(cell: Element, name: str) -> int:
    said = cell.get(name, "1").strip()
    return min(int(said), _MAX_SPAN) if said.isdecimal() and len(said) < 9 and int(said) > 0 else 1


def _links(cell: Element) -> tuple[tuple[str, str], ...]:
    return tuple(
        (words, link.get("href", "")) for link in cell.iter("a") if link.get("href") and (words := words_of(link))
    )


def _unmarked_header(rows: list[list[Cell]]) -> int:
    """1 where the first row holds names and what is below it numbers."""
    first = [cell.text for cell in rows[0]]
    named = all(first) and len(set(first)) == len(first) and not any(map(_DIGIT.search, first))
    return int(named and len(rows) > 1 and any(_DIGIT.search(cell.text) for row in rows[1:] for cell in row))


def _together(column: tuple[Cell, ...]) -> str:
    """The name of a column that stands in several rows: under a name that spans columns each has that and its own."""
    if not any(cell.text for cell in column):
        return ""
    return " ".join(dict.fromkeys(filter(None, (cell.text or cell.across for cell in column))))
