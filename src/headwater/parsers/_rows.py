"""Rows of cells -> tables in a draft: one line `| a | b |` a row, the column names found, and where each row starts.

Rows are taken one by one, so a table of any length costs no more memory than its text. What stands above the column
names in a row of its own becomes a caption. In a table of many columns every cell carries its column's name, and what
would be too long for one line is written as lines of `name: value`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import Final

from headwater.parsers._bands import bands_of, has_gap, is_between, within
from headwater.parsers._column_names import (
    MAX_NAME_CHARS,
    SENTENCE_END,
    Across,
    Row,
    column_letters,
    extent,
    names_of,
    rows_of_names,
    titles_of,
)
from headwater.parsers._draft import Draft, one_line, plain_lines
from headwater.types import Block, Span

# A sheet of this many rows is data for a database; what is beyond it is left out, and said so.
MAX_ROWS: Final = 200_000
# How many rows are looked at to tell the column names.
_SAMPLE_ROWS: Final = 50
# So many columns are told apart by eye; in more of them a cell needs its column's name beside it.
_MAX_PLAIN_COLUMNS: Final = 12
_MAX_PLAIN_CHARS: Final = 600
# A row of this length fills a chunk by itself; it is text with some fields rather than a row.
_MAX_ROW_CHARS: Final = 1_500
# Tables side by side are written one after the other, so their rows are held: so many cells, some 50 MB, else they
# stay one.
_MAX_CELLS_BESIDE: Final = 500_000
# So many lines alone between empty ones are a title of what follows, more are text.
_MAX_LINES_OF_TITLE: Final = 2


@dataclass(slots=True)
class Tables:
    """What was written of a stream of rows."""

    tables: int = 0
    without_header: int = 0
    rows: int = 0
    left_out: int = 0
    title: Span | None = None  # a line that may belong to the table to come

    def add(self, other: Tables) -> None:
        """Count these too."""
        self.tables += other.tables
        self.without_header += other.without_header
        self.rows += other.rows
        self.left_out += other.left_out

    def coverage(self) -> dict[str, int]:
        """The counts under their names."""
        return {"tables": self.tables, "tables_without_header": self.without_header, "rows": self.rows}

    def problems(self) -> list[str]:
        """What a reader should know, in words."""
        found = []
        if self.without_header:
            found.append(f"{self.without_header} of {self.tables} tables have no row of column names")
        if self.left_out:
            found.append(f"{self.left_out} rows beyond the first {self.rows} were left out; cut the file in parts")
        return found


def write_tables(draft: Draft, rows: Iterable[Row], *, max_rows: int = MAX_ROWS) -> Tables:
    """Write all rows: one table, or several that empty rows or columns keep apart. Blank rows are not written."""
    written = Tables()
    _write_all(draft, _Feed(rows), written, max_rows)
    return written


def write_table(draft: Draft, rows: Sequence[Row], *, header_rows: int | None = None) -> Tables:
    """Write these rows as one table; at least `header_rows` of them hold column names, where that is known."""
    written = Tables()
    feed = _Feed(row for row in rows if any(row))
    if feed.skip_blank():
        _write_one(draft, feed, written, MAX_ROWS, header_rows=header_rows)
    return written


def write_records(draft: Draft, names: Sequence[str], rows: Iterable[Row], *, max_rows: int = MAX_ROWS) -> Tables:
    """Write rows whose column names are known. A row may have more cells: `name: value` in them."""
    written = Tables()
    feed = _Feed(rows)
    draft.gap()
    if feed.skip_blank():
        table = _Table(draft, [one_line(name) for name in names], feed.peek(_SAMPLE_ROWS))
        table.line([*table.names])
        _write_rows(draft, table, feed, written, max_rows=max_rows, one=True)
        written.left_out = feed.count()
    return written


def _write_all(draft: Draft, feed: _Feed, written: Tables, max_rows: int) -> None:
    while feed.skip_blank():
        if written.rows >= max_rows or draft.length >= draft.max_chars * 9 // 10:
            written.left_out += feed.count()
            break
        beside = _side_by_side(draft, feed, written)
        for rows in beside:
            _write_all(draft, _Feed(rows), written, max_rows)
        if not beside:
            _write_one(draft, feed, written, max_rows)


def _side_by_side(draft: Draft, feed: _Feed, written: Tables) -> list[list[Row]]:
    """The rows to come, once for each of the tables that stand side by side in them; none where that is not clear.

    What spans all of them is their title. Rows after blank ones go with them until something stands between.
    """
    sample = feed.peek(_SAMPLE_ROWS)
    titles = len(titles_of(sample))
    if not has_gap(sample[titles:]):
        return []
    rows = feed.stretch(_MAX_CELLS_BESIDE)
    found = ((above, bands_of(rows[above:])) for above in range(titles + 1))
    above, bands = next(((above, bands) for above, bands in found if bands), (0, []))
    if not bands:
        return []
    for row in [feed.take() for _ in range(above)]:
        written.title = draft.paragraph(one_line(" ".join(dict.fromkeys(filter(None, row)))))
    taken = [feed.take() for _ in rows[above:]]
    left = _MAX_CELLS_BESIDE
    while feed.skip_blank():
        left -= sum(map(len, rows))
        rows = feed.stretch(left)
        if not rows or any(is_between(row, bands) for row in rows):
            break
        taken += [[], *[feed.take() for _ in rows]]
    return [[within(row, band) for row in taken] for band in bands]


def _write_one(draft: Draft, feed: _Feed, written: Tables, max_rows: int, *, header_rows: int | None = None) -> None:
    sample = feed.peek(_SAMPLE_ROWS)
    first, width = extent(sample)
    if width - first < 2:
        _write_column(draft, feed, written, first)
        return
    draft.gap()
    titles = [] if header_rows else titles_of(sample)
    about = [written.title] if written.title is not None else []
    written.title = None
    about += [draft.line(one_line(" ".join(dict.fromkeys(filter(None, feed.take()))))) for _ in titles]
    sample = [row[first:width] for row in sample[len(titles) :]]
    header = max(header_rows or 0, rows_of_names(sample))
    names = names_of(sample[:header], width - first) if header else []
    draft.gap()
    table = _Table(draft, names, sample, first=first, width=width)
    for _ in range(header):
        table.line(feed.take()[first:width])
    _write_rows(draft, table, feed, written, max_rows=max_rows, one=header_rows is not None)
    written.without_header += not header
    if table.whole is not None:
        draft.blocks += [Block(kind="caption", span=span, about=table.whole) for span in about]


def _write_rows(draft: Draft, table: _Table, feed: _Feed, written: Tables, *, max_rows: int, one: bool) -> None:
    """Rows until the table ends: at the end, at the limit, or where after a blank row another one starts."""
    while feed.more() and written.rows < max_rows and draft.length < draft.max_chars * 9 // 10:
        if feed.at_blank():
            feed.skip_blank()
            if not one and feed.more() and table.is_another(feed.peek(_SAMPLE_ROWS)):
                break
            continue
        table.row(feed.take())
        written.rows += 1
    table.close()
    written.tables += 1


def _write_column(draft: Draft, feed: _Feed, written: Tables, column: int) -> None:
    """A stretch of one column is no table: its cells are paragraphs, the last perhaps a title of what follows."""
    count = 0
    while feed.more() and not feed.at_blank():
        if extent([feed.peek(1)[0]])[1] > column + 1:
            return
        cell = feed.take()[column]
        span = draft.paragraph(cell)
        count += 1
        titled = count <= _MAX_LINES_OF_TITLE and len(cell) <= MAX_NAME_CHARS and not cell.endswith(SENTENCE_END)
        written.title = span if titled else None
    written.rows += count


class _Table:
    """One table being written; more than one block where a row is too long for a line."""

    def __init__(
        self, draft: Draft, names: list[str], sample: Sequence[Row], *, first: int = 0, width: int | None = None
    ) -> None:
        self.draft, self.names, self.first = draft, names, first
        self.records = width is None
        self.width = len(names) if width is None else width
        chars = median(sum(map(len, row)) for row in sample) if sample else 0
        self.labelled = bool(names) and (self.width - first > _MAX_PLAIN_COLUMNS or chars > _MAX_PLAIN_CHARS)
        self.whole: Span | None = None
        self._starts: list[int] = []
        self._header = " | ".join(names)

    def line(self, cells: Row) -> None:
        """One line of the table. A bar inside a cell is no border."""
        written = ("" if isinstance(cell, Across) else one_line(cell).replace("|", "\\|") for cell in cells)
        span = self.draft.line("| " + " | ".join(written) + " |")
        self._starts.append(span.start)

    def row(self, cells: Row) -> None:
        """One row, in the way that reads best."""
        inside, beyond = cells[self.first : self.width], cells[self.width :]
        # Columns that come only far down in a sheet have no name but their letter; fields of a record bring theirs.
        extra = [f"{column_letters(place)}: {cell}" for place, cell in enumerate(cells[: self.first]) if cell]
        extra += [
            cell if self.records else f"{column_letters(self.width + place)}: {cell}"
            for place, cell in enumerate(beyond)
            if cell
        ]
        if self.names and sum(map(len, cells)) > _MAX_ROW_CHARS:
            self.close()
            pairs = [f"{name}: {plain_lines(cell)}" for name, cell in zip(self.names, inside, strict=False) if cell]
            self.draft.paragraph("\n".join([*pairs, *extra]))
            self.draft.gap()
        elif self.labelled:
            pairs = [f"{name}: {cell}" for name, cell in zip(self.names, inside, strict=False) if cell]
            self.line([*pairs, *extra])
        else:
            self.line([*inside, *[""] * (self.width - self.first - len(inside)), *extra])

    def is_another(self, sample: Sequence[Row]) -> bool:
        """Whether what comes after a blank row is a table of its own rather than more of this one."""
        begin, end = extent(sample)
        if end - begin < 2:
            return True
        rest = sample[len(titles_of(sample)) :]
        if begin < self.first or end > self.width:
            return len(rest) > 1
        inside = [row[self.first : self.width] for row in rest]
        return bool(rows_of_names(inside)) and names_of(inside[:1], len(inside[0])) != self.names

    def close(self) -> None:
        """The end of a block of rows."""
        if self._starts:
            span = Span(self._starts[0], self.draft.length - 1)
            self.draft.blocks.append(Block(kind="table", span=span, header=self._header, rows=tuple(self._starts)))
            self.whole = self.whole or span
            self._starts = []


class _Feed:
    """Rows with a look ahead."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: Iterator[Row] = iter(rows)
        self._ahead: deque[Row] = deque()

    def more(self) -> bool:
        return bool(self._ahead) or self._fetch()

    def _fetch(self) -> bool:
        for row in self._rows:
            self._ahead.append(row)
            return True
        return False

    def take(self) -> Row:
        self.more()
        return self._ahead.popleft()

    def at_blank(self) -> bool:
        return self.more() and not any(self._ahead[0])

    def skip_blank(self) -> bool:
        """Whether a row is left after the blank ones."""
        while self.at_blank():
            self._ahead.popleft()
        return self.more()

    def peek(self, count: int) -> list[Row]:
        """The next rows up to a blank one."""
        while len(self._ahead) < count and self._fetch():
            if not any(self._ahead[-1]):
                break
        rows: list[Row] = []
        for row in self._ahead:
            if len(rows) == count or not any(row):
                break
            rows.append(row)
        return rows

    def stretch(self, most_cells: int) -> list[Row]:
        """The next rows up to a blank one; none where they hold more cells than these."""
        count = cells = 0
        while (count < len(self._ahead) or self._fetch()) and any(self._ahead[count]):
            cells += len(self._ahead[count])
            count += 1
            if cells > most_cells:
                return []
        return list(islice(self._ahead, count))

    def count(self) -> int:
        """How many rows with something in them are left; they are gone afterwards."""
        left = sum(1 for row in self._ahead if any(row)) + sum(1 for row in self._rows if any(row))
        self._ahead.clear()
        return left
