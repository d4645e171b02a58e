"""Lines of a column in order -> the same with tables in place of lines whose cells stand below each other.

For tables without any rules: rows one after the other, each with gaps too wide for a blank, at the same places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final

from headwater.parsers._pdf_shapes import Line, Table
from headwater.parsers._pdf_tables import LEADER, aligned_table, split_cells

# So many rows, or it is an accident.
_FEWEST_ROWS: Final = 3
# Gaps between cells, in font sizes; wider than in a table with rules, for nothing else says that it is one.
_GAP: Final = 1.3
# Rows follow each other within so many font sizes.
_PITCH: Final = 3.0
_MARK: Final = re.compile(r"(?:[•●○◦▪■□◆◇▶►‣⁃∙·–—*-]|\(?(?:\d{1,3}|[a-zA-Z])[.)]|\[\d{1,3}\])$")

Item = Line | Table


def with_loose_tables(items: Sequence[Item]) -> list[Item]:
    """Of one page; the lines have all their words."""
    found: list[Item] = []
    for _column, group in groupby(items, key=lambda item: item.column):
        found += _column_with_tables(list(group))
    return found


def _column_with_tables(items: list[Item]) -> Iterator[Item]:
    place = 0
    while place < len(items):
        end = _end_of_run(items, place)
        table = _table([item for item in items[place:end] if isinstance(item, Line)])
        if table is not None:
            table.column = items[place].column
            yield table
        else:
            end = place + 1
            yield items[place]
        place = end


def _end_of_run(items: list[Item], place: int) -> int:
    """Where rows end that start here and leave the same gaps free."""
    free: list[tuple[float, float]] = []
    end = place
    for end in range(place, len(items)):
        item = items[end]
        if not isinstance(item, Line) or not item.words:
            return end
        before = items[end - 1]
        if end > place and item.area.middle - before.area.middle > _PITCH * item.size:
            return end
        if end > place and item.area.left > free[0][0] and item.area.right < items[place].area.right + item.size:
            continue  # only the last cells: their text goes on
        if not _has_cells(item):
            return end
        gaps = list(_gaps(split_cells(item, gap=_GAP)))
        left = _shared(free, gaps, least=item.size / 2) if end > place else gaps
        if not left or (len(left) < len(free) and end - place >= _FEWEST_ROWS):
            return end
        free = left
    return end + 1


def _gaps(cells: Sequence[Line]) -> Iterator[tuple[float, float]]:
    for before, cell in pairwise(cells):
        yield before.area.right, cell.area.left


def _shared(
    some: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]], *, least: float
) -> list[tuple[float, float]]:
    """What both leave free, where it is wide enough."""
    shared = []
    for start, end in some:
        for other_start, other_end in others:
            left, right = max(start, other_start), min(end, other_end)
            if right - left >= least:
                shared.append((left, right))
    return shared


def _has_cells(line: Line) -> bool:
    if line.mono or LEADER.search(line.text):
        return False
    cells = split_cells(line, gap=_GAP)
    return len(cells) > 1 and not (len(cells) == 2 and _MARK.match(cells[0].text))


def _table(lines: list[Line]) -> Table | None:
    if len(lines) < _FEWEST_ROWS:
        return None
    return aligned_table(lines, gap=_GAP, crossed=0.0)
