"""Pieces of lines and rules of a page -> tables, and the pieces that are in none.

A table is a grid of rules; or rules above and below only, with columns that the gaps between the words show.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from headwater.parsers._pdf_join import joined
from headwater.parsers._pdf_shapes import Area, Line, Page, Row, Table, Word, hull, in_reading_order, make_line, rows_of

# Rules that meet are drawn to within this many points.
_MEET: Final = 3.0
# A page with more is a drawing; each pair of rules is looked at.
_MAX_RULES: Final = 1500
# Words of one cell stand closer than this share of the font size; a blank is a quarter to a third of it.
_CELL_GAP: Final = 0.7
# Of the cells of a grid so many hold something, or it is a form or a drawing.
_FILLED: Final = 0.4
# Of the rows between two rules so many have two cells or more, or it is text between rules.
_TABULAR: Final = 0.6
# A wide gap may be crossed by so many of the rows: headings over several columns.
_CROSSED: Final = 0.15
# Text in columns fills them line by line; of table cells few reach so far across their column, so many times.
_PROSE_FILL: Final = 0.5
_PROSE_ROWS: Final = 6
# A row of dots, as a table of contents has between a title and its page.
LEADER: Final = re.compile(r"(?:[.．·…]\s?){4,}")
# Rows that go on below the last rule follow each other at most so many font sizes apart.
_ROW_PITCH: Final = 2.6


def find_tables(page: Page) -> tuple[list[Table], list[Line]]:
    """The tables of a page from the top down, and the pieces of lines that are left."""
    flat = _merged([rule for rule in page.rules if rule.width >= rule.height], flat=True)
    upright = _merged([rule for rule in page.rules if rule.width < rule.height], flat=False)
    left = page.lines
    tables: list[Table] = []
    if not flat or len(flat) + len(upright) > _MAX_RULES:
        return tables, left
    for crossing, standing in _grids(flat, upright):
        area = hull([*crossing, *standing])
        inside = [line for line in left if area.holds(line.area.centre, line.area.middle)]
        table = _grid_table(crossing, standing, inside, page.number)
        if table is not None:
            tables.append(table)
            taken = {id(line) for line in inside}
            left = [line for line in left if id(line) not in taken]
            flat = [rule for rule in flat if not area.holds(rule.centre, rule.middle)]
    for group in _stacks(flat):
        for table, inside in _open_tables(group, left, page):
            tables.append(table)
            taken = {id(line) for line in inside}
            left = [line for line in left if id(line) not in taken]
    return sorted(tables, key=lambda table: table.area.top), left


def _merged(rules: list[Area], *, flat: bool) -> list[Area]:
    """Pieces of one rule put together."""
    if flat:
        rules = sorted(rules, key=lambda rule: (round(rule.middle), rule.left))
    else:
        rules = sorted(rules, key=lambda rule: (round(rule.centre), rule.top))
    whole: list[Area] = []
    for rule in rules:
        if whole:
            last = whole[-1]
            aligned = abs(last.middle - rule.middle) if flat else abs(last.centre - rule.centre)
            apart = rule.left - last.right if flat else rule.top - last.bottom
            if aligned <= _MEET / 2 and apart <= _MEET:
                whole[-1] = hull([last, rule])
                continue
        whole.append(rule)
    return whole


def _grids(flat: list[Area], upright: list[Area]) -> Iterator[tuple[list[Area], list[Area]]]:
    """Rules that meet, directly or through others: horizontal and vertical ones of each set."""
    parents = list(range(len(flat) + len(upright)))

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    for index, standing in enumerate(upright, len(flat)):
        for place, lying in enumerate(flat):
            across = lying.left - _MEET <= standing.centre <= lying.right + _MEET
            if across and standing.top - _MEET <= lying.middle <= standing.bottom + _MEET:
                parents[root(place)] = root(index)
    sets: dict[int, tuple[list[Area], list[Area]]] = {}
    for place, rule in enumerate((*flat, *upright)):
        sets.setdefault(root(place), ([], []))[place >= len(flat)].append(rule)
    for lying_rules, standing_rules in sets.values():
        if len(lying_rules) >= 2 and standing_rules:
            yield lying_rules, standing_rules


def _distinct(places: Sequence[float]) -> list[float]:
    """Places in order, those that are all but the same once."""
    found: list[float] = []
    for place in sorted(places):
        if not found or place - found[-1] > _MEET:
            found.append(place)
    return found


def _grid_table(flat: list[Area], upright: list[Area], inside: list[Line], page: int) -> Table | None:
    frame = hull(flat)
    levels = _distinct([rule.middle for rule in flat])
    edges = _distinct([frame.left, frame.right, *(rule.centre for rule in upright)])
    if len(edges) < 3 or len(levels) < 2 or not inside:
        return None
    bands: list[list[Line]] = [[] for _ in range(len(levels) + 1)]
    for line in inside:
        bands[bisect_right(levels, line.area.middle)].append(line)
    # Without rules between the rows, each line of text is one.
    ruled = len(levels) > 3
    rows: list[Row] = []
    for band in bands:
        for lines in [band] if ruled and band else rows_of(band):
            middle = hull([line.area for line in lines]).middle
            own = [edge for edge in edges if _stands(edge, upright, middle, outer=(edges[0], edges[-1]))]
            cells: list[list[Word]] = [[] for _ in edges[1:]]
            for line in lines:
                for word in line.words:
                    start = own[max(0, min(bisect_right(own, word.area.centre) - 1, len(own) - 2))]
                    cells[min(edges.index(start), len(cells) - 1)].append(word)
            rows.append(_row([_cell(words, page) for words in cells], lines, page))
    return _table(rows, edges[:-1], inside, page)


def _stands(edge: float, upright: list[Area], middle: float, *, outer: tuple[float, float]) -> bool:
    """Whether a vertical rule parts the cells of a row at this height; where none does, a cell spans two columns."""
    return edge in outer or any(
        abs(rule.centre - edge) <= _MEET and rule.top - _MEET <= middle <= rule.bottom + _MEET for rule in upright
    )


def _cell(words: list[Word], page: int) -> str:
    """The words of a cell, line by line, as one text."""
    if not words:
        return ""
    rows = rows_of([make_line([word], page) for word in words])
    lines = [make_line(in_reading_order([word for piece in row for word in piece.words]), page) for row in rows]
    text = lines[0].text
    for before, line in pairwise(lines):
        text = joined(text, line.text, hyphen=before.hyphen)
    return text


def _row(cells: list[str], lines: Sequence[Line], page: int) -> Row:
    return Row(cells=cells, page=page, area=hull([line.area for line in lines]))


def _table(rows: list[Row], lefts: list[float], inside: Sequence[Line], page: int) -> Table | None:
    """A table without its empty rows and columns, where it is one."""
    rows = [row for row in rows if any(row.cells)]
    used = [place for place in range(len(lefts)) if any(row.cells[place] for row in rows)]
    if len(rows) < 2 or len(used) < 2:
        return None
    for row in rows:
        row.cells = [row.cells[place] for place in used]
    filled = sum(bool(cell) for row in rows for cell in row.cells)
    if filled < _FILLED * len(rows) * len(used):
        return None
    return Table(
        rows=rows,
        page=page,
        area=hull([line.area for line in inside]),
        size=inside[0].size,
        lefts=[lefts[place] for place in used],
    )


def _stacks(flat: list[Area]) -> Iterator[list[Area]]:
    """Rules of the same length one below the other, two or more."""
    stacks: list[list[Area]] = []
    for rule in sorted(flat, key=lambda rule: rule.middle):
        for stack in stacks:
            if abs(stack[0].left - rule.left) <= 2 * _MEET and abs(stack[0].right - rule.right) <= 2 * _MEET:
                # A double rule is one.
                if rule.middle - stack[-1].middle > _MEET:
                    stack.append(rule)
                break
        else:
            stacks.append([rule])
    yield from (stack for stack in stacks if len(stack) > 1)


def _open_tables(stack: list[Area], lines: list[Line], page: Page) -> Iterator[tuple[Table, list[Line]]]:
    """Tables between rules of one stack: runs of gaps between them that hold cells beside each other."""
    left, right = stack[0].left - _MEET, stack[0].right + _MEET
    column = [line for line in lines if left <= line.area.left and line.area.right <= right]
    first = 0
    while first < len(stack) - 1:
        last = first
        inside: list[Line] = []
        while last < len(stack) - 1:
            band = [line for line in column if stack[last].middle < line.area.middle < stack[last + 1].middle]
            if not _is_tabular(band):
                break
            inside += band
            last += 1
        if last > first:
            below = [line for line in column if line.area.middle > stack[last].middle]
            table = _aligned_table(inside, below, page)
            if table is not None:
                yield table
        first = max(last, first + 1)


def split_cells(line: Line, *, gap: float = _CELL_GAP) -> list[Line]:
    """A line cut at gaps of so many font sizes, which are too wide for a blank."""
    pieces: list[list[Word]] = []
    for word in line.words:
        before = pieces[-1][-1] if pieces else None
        if before is not None and word.area.left - before.area.right < gap * max(word.size, before.size):
            pieces[-1].append(word)
        else:
            pieces.append([word])
    return [make_line(words, line.page) for words in pieces] if len(pieces) > 1 else [line]


def _is_tabular(band: list[Line]) -> bool:
    rows = rows_of([cell for line in band for cell in split_cells(line)])
    many = [row for row in rows if len(row) > 1]
    # Programs in a frame have gaps in their lines too, and so have tables of contents.
    other = sum(line.mono or LEADER.search(line.text) is not None for line in band)
    if not rows or len(many) < _TABULAR * len(rows) or other > len(rows) / 3:
        return False
    if len(rows) < _PROSE_ROWS:
        return True
    # Two columns of running text have two pieces in every row too, and fill their columns.
    edges = gutters(rows)
    reach = [0.0] * (len(edges) + 1)
    for row in rows:
        for cell in row:
            place = bisect_right(edges, cell.area.centre)
            reach[place] = max(reach[place], cell.area.right)
    cells = [cell for row in many for cell in row]
    full = sum(
        len(cell.words) > 3 and cell.area.right > reach[bisect_right(edges, cell.area.centre)] - 2 * cell.size
        for cell in cells
    )
    return full < _PROSE_FILL * len(cells)


def gutters(rows: Sequence[Sequence[Line]], *, crossed: float = _CROSSED) -> list[float]:
    """Where columns part: the middles of the gaps that all but few rows leave free."""
    events: list[tuple[float, int]] = []
    for row in rows:
        for cell in row:
            events += [(cell.area.left, 1), (cell.area.right, -1)]
    events.sort()
    size = rows[0][0].size
    allowed = crossed * len(rows)
    gutters: list[float] = []
    depth = 0
    seen = False
    free_from = 0.0
    for place, change in events:
        before, depth = depth, depth + change
        if before > allowed >= depth:
            free_from = place
        elif before <= allowed < depth:
            if seen and place - free_from >= _CELL_GAP * size * 0.8:
                gutters.append((free_from + place) / 2)
            seen = True
    return gutters


def _aligned_table(inside: list[Line], below: list[Line], page: Page) -> tuple[Table, list[Line]] | None:
    pieces = [cell for line in inside for cell in split_cells(line)]
    edges = gutters(rows_of(pieces))
    if not edges:
        return None
    taken = list(inside)
    # Below the last rule rows may go on, where the table is broken over columns or has no rule at its foot.
    bottom = max(line.area.middle for line in inside)
    extended = False
    for row in rows_of(below):
        cells = [cell for line in row for cell in split_cells(line)]
        if row[0].area.middle - bottom > _ROW_PITCH * row[0].size or not fits(cells, edges):
            break
        pieces += cells
        taken += row
        bottom = row[0].area.middle
        extended = True
    table = _filled(pieces, edges, taken, page.number)
    if table is None:
        return None
    table.closed = not extended
    return table, taken


def aligned_table(lines: Sequence[Line], *, gap: float, crossed: float) -> Table | None:
    """A table of lines whose cells only the gaps tell apart, where they stand below each other."""
    rows = [split_cells(line, gap=gap) for line in lines]
    edges = gutters(rows, crossed=crossed)
    table = _filled([cell for row in rows for cell in row], edges, lines, lines[0].page) if edges else None
    if table is not None:
        table.ruled = False
    return table


def _filled(pieces: Sequence[Line], edges: Sequence[float], taken: Sequence[Line], page: int) -> Table | None:
    """The pieces in their rows and columns."""
    rows: list[Row] = []
    for line in rows_of(pieces):
        texts = cells_of(line, edges)
        if rows and not texts[0] and not (len(texts) > 2 and all(texts[1:])):
            # The first cell is empty: the text of the others goes on.
            rows[-1].cells = [joined(old, new) if new else old for old, new in zip(rows[-1].cells, texts, strict=True)]
            rows[-1].area = hull([rows[-1].area, *(cell.area for cell in line)])
        else:
            rows.append(_row(texts, line, page))
    lefts = [min(cell.area.left for cell in pieces), *edges]
    for place in range(len(lefts)):
        within = [cell.area.left for cell in pieces if bisect_right(edges, cell.area.centre) == place]
        lefts[place] = min(within, default=lefts[place])
    return _table(rows, lefts, taken, page)


def fits(cells: Sequence[Line], edges: Sequence[float]) -> bool:
    """Whether a row is one of this table: two cells or more, and none reaches over the edge of its column."""
    places = [bisect_right(edges, cell.area.left) for cell in cells]
    return len(set(places)) > 1 and all(
        place == bisect_right(edges, cell.area.right) for place, cell in zip(places, cells, strict=True)
    )


def cells_of(row: Sequence[Line], edges: Sequence[float]) -> list[str]:
    """What stands in each column of a row."""
    texts = ["" for _ in range(len(edges) + 1)]
    for cell in row:
        place = bisect_right(edges, cell.area.centre)
        texts[place] = joined(texts[place], cell.text) if texts[place] else cell.text
    return texts


def continued(table: Table, line: Line) -> Row | None:
    """The row of a table that a line at the head of the next column is, or None."""
    cells = split_cells(line) if line.words else []
    if table.closed or len(cells) != len(table.lefts):
        return None
    offset = cells[0].area.left - table.lefts[0]
    aligned = all(
        abs(cell.area.left - left - offset) <= cell.size for cell, left in zip(cells, table.lefts, strict=True)
    )
    return _row([cell.text for cell in cells], [line], line.page) if aligned else None


def resumed(table: Table, other: Table) -> bool:
    """Whether a table at the head of the next column or page is the rest of this one."""
    if len(table.lefts) != len(other.lefts):
        return False
    offset = other.lefts[0] - table.lefts[0]
    return all(abs(right - left - offset) <= 2 * _MEET for left, right in zip(table.lefts, other.lefts, strict=True))
