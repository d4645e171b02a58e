"""Pieces of lines and tables of a page -> lines and tables in reading order, each with the number of its column.

The page is cut at gutters from left to right; where something crosses a gutter, above and below it apart. A gutter is
a strip that text on both sides leaves free, wide enough and beside enough lines that it is no accident.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headwater.parsers._pdf_shapes import CJK, Line, Page, Table, in_reading_order, make_line, rows_of

Item = Line | Table

# A gutter is at least so many font sizes wide; blanks of stretched lines are narrower or do not stand in a row.
_GUTTER: Final = 0.85
# So many lines on each side, or the gap is an accident.
_BESIDE: Final = 3
# A column has at least this share of the width it is cut from: less is the bullets of a list.
_NARROWEST: Final = 0.12
# Half of the lines of running text reach to the edge of their column, to within so many font sizes, or fill this
# share of its width.
_FULL: Final = 0.5
_RAGGED: Final = 4.0
_FILL: Final = 0.6
# Where something crosses a gutter, this share of the page stands in columns, in at most so many bands.
_IN_COLUMNS: Final = 0.3
_MAX_BANDS: Final = 15
# A narrower column than this share may be numbers or labels in front of lines.
_LABELS: Final = 0.25
# Lines on both sides of a gap that stand on the same baseline, of the shorter side: a table or a form, read by rows.
_SAME_ROWS: Final = 0.75
# A line of running text has so many characters in all but the narrowest columns.
_PROSE_CHARS: Final = 20
_MARK: Final = re.compile(r"[•●○◦▪■□◆◇▶►‣⁃∙·–—-]\s?\S")
# How many strips with few crossings are tried, and how deep columns lie inside each other.
_TRIES: Final = 6
_DEPTH: Final = 8


def in_order(page: Page, lines: Sequence[Line], *, tables: Sequence[Table] = ()) -> list[Item]:
    """The lines, each whole, and the tables as they are read."""
    if page.recognised:
        for line in lines:
            line.column = 0
        return list(lines)
    ordered: list[Item] = []
    for number, group in enumerate(_cut([*lines, *tables], None, _DEPTH)):
        for item in _by_rows(group, page.number):
            item.column = number
            ordered.append(item)
    return ordered


def _cut(items: Sequence[Item], hint: float | None, depth: int) -> Iterator[list[Item]]:
    """Groups of items that are read one after the other."""
    if depth and len(items) > 1:
        for place, crossing in _strips(items, hint):
            bands = list(_bands(items, place, crossing))
            known = hint is not None and abs(place - hint) < 2 * items[0].size
            in_columns = sum(len(band) for band in bands if _are_columns(band, place, known=known))
            if not in_columns or (crossing and (in_columns < _IN_COLUMNS * len(items) or len(bands) > _MAX_BANDS)):
                continue
            for band in bands:
                left = [item for item in band if item.area.centre < place]
                right = [item for item in band if item.area.centre >= place]
                if any(id(item) in crossing for item in band):
                    yield from _cut(band, None, depth - 1)
                elif _are_columns(band, place, known=True):
                    yield from _cut(left, None, depth - 1)
                    yield from _cut(right, None, depth - 1)
                else:
                    yield from _cut(band, place, depth - 1) if len(bands) > 1 else [list(band)]
            return
    if items:
        yield list(items)


def _strips(items: Sequence[Item], hint: float | None) -> list[tuple[float, set[int]]]:
    """Places where the page may be cut, with what crosses them, the fewest crossings first."""
    events: list[tuple[float, int]] = []
    for item in items:
        events += [(item.area.left, 1), (item.area.right, -1)]
    events.sort()
    left, right = events[0][0], max(item.area.right for item in items)
    margin = _NARROWEST * (right - left)
    size = sorted(item.size for item in items)[len(items) // 2]
    free: list[tuple[int, float, float]] = []  # crossings, start, end
    depth, start = 0, left
    for place, change in events:
        if place > start and left + margin < (start + place) / 2 < right - margin:
            free.append((depth, start, place))
        depth += change
        start = place
    strips: list[tuple[float, set[int]]] = []
    # Wide enough by itself, or beside neighbours that hardly more crosses.
    for crossings, start, end in sorted(free, key=lambda strip: (strip[0], strip[1] - strip[2])):
        if crossings * 2 > len(items) or len(strips) >= _TRIES:
            break
        if end - start < _GUTTER * size:
            continue
        place = (start + end) / 2
        crossing = {id(item) for item in items if item.area.left < start + 0.01 and item.area.right > end - 0.01}
        strips.append((place, crossing))
    if hint is not None and not strips and left < hint < right:
        crossing = {id(item) for item in items if item.area.left < hint < item.area.right}
        if not crossing:
            strips.append((hint, crossing))
    return strips


def _bands(items: Sequence[Item], place: float, crossing: set[int]) -> Iterator[list[Item]]:
    """From the top down: what crosses a strip, and what stands beside it between two such."""
    if not crossing:
        yield list(items)
        return
    band: list[Item] = []
    was_crossing = False
    for item in sorted(items, key=lambda item: (item.area.middle, item.area.left)):
        crosses = id(item) in crossing
        # A short piece beside what crosses belongs to its line.
        if not crosses and was_crossing and band and isinstance(item, Line):
            last = band[-1]
            crosses = isinstance(last, Line) and last.area.top < item.area.middle < last.area.bottom
        if band and crosses != was_crossing:
            yield band
            band = []
        band.append(item)
        was_crossing = crosses
    if band:
        yield band


def _are_columns(band: Sequence[Item], place: float, *, known: bool) -> bool:
    """Whether what stands left and right of a place is two columns and not the cells of rows."""
    left = [item for item in band if item.area.right <= place]
    right = [item for item in band if item.area.left >= place]
    if len(left) + len(right) < len(band) or not left or not right:
        return False
    sides = (_side(left, towards_right=True), _side(right, towards_right=False))
    fewest = min(side.lines for side in sides)
    if fewest < _BESIDE:
        return known
    paired = 0
    for middle in sides[0].middles:
        place_of = bisect_left(sides[1].middles, middle - left[0].size / 4)
        paired += place_of < len(sides[1].middles) and sides[1].middles[place_of] < middle + left[0].size / 4
    if paired < _SAME_ROWS * min(len(side.middles) for side in sides):
        return True
    if all(side.items * 2 >= side.lines for side in sides):
        return True  # lists beside each other
    # Both stand in the same rows: running text is long and fills its column, labels and values are short.
    widths = [side.right - side.left for side in sides]
    return all(side.chars >= _PROSE_CHARS and side.full >= _FULL for side in sides) and min(widths) >= _LABELS * sum(
        widths
    )


class _Side(NamedTuple):
    """What stands on one side of a strip."""

    left: float
    right: float
    middles: list[float]  # of its rows, from the top down
    lines: int  # with the rows of tables
    items: int  # rows that start with the mark of a list
    chars: int  # of the row in the middle by length; an ideograph counts twice
    full: float  # what share of its rows reaches to the gutter, or else fills most of the width


def _side(items: Sequence[Item], *, towards_right: bool) -> _Side:
    left, right = min(item.area.left for item in items), max(item.area.right for item in items)
    rows: list[list[Item]] = []
    for item in sorted(items, key=lambda item: item.area.middle):
        if rows and item.area.top < rows[-1][0].area.middle < item.area.bottom:
            rows[-1].append(item)
        else:
            rows.append([item])
    slack = _RAGGED * items[0].size
    wide = sum(
        max(item.area.right for item in row) - min(item.area.left for item in row) > _FILL * (right - left)
        for row in rows
    )
    reaching = sum(
        max(item.area.right for item in row) > right - slack
        if towards_right
        else min(item.area.left for item in row) < left + slack
        for row in rows
    )
    chars = sorted(
        sum(len(item.text) + len(CJK.findall(item.text)) for item in row if isinstance(item, Line)) for row in rows
    )
    return _Side(
        left=left,
        right=right,
        middles=[row[0].area.middle for row in rows],
        lines=len(rows) + sum(len(item.rows) - 1 for item in items if isinstance(item, Table)),
        items=sum(isinstance(row[0], Line) and _MARK.match(row[0].text) is not None for row in rows),
        chars=chars[len(chars) // 2],
        full=max(wide, reaching) / len(rows),
    )


def _by_rows(group: Sequence[Item], page: int) -> Iterator[Item]:
    """Pieces that stand beside each other as one line; tables in between where they stand."""
    lines = [item for item in group if isinstance(item, Line)]
    whole: list[Item] = [item for item in group if isinstance(item, Table)]
    for row in rows_of(lines):
        words = in_reading_order([word for line in row for word in line.words])
        whole.append(row[0] if len(row) == 1 else make_line(words, page))
    yield from sorted(whole, key=lambda item: (item.area.middle, item.area.left))
