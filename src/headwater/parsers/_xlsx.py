"""The parts of an XLSX workbook -> its sheets, and the rows of a sheet as the program shows them.

Rows are read one by one out of the compressed part: a sheet of a million rows, or one cell in the last corner of an
empty sheet, takes the memory of one row. A merged cell is known in every row and column that it covers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from headwater.parsers._column_names import Across
from headwater.parsers._numberformat import BUILT_IN, Shown, general, number_format
from headwater.parsers._package import DAMAGES, OFFICE, Element, Package, attribute, local, whole
from headwater.parsers._raised import power_of

_MAIN: Final = "{*}"
_REFERENCE: Final = re.compile(r"\$?([A-Za-z]{1,3})\$?(\d{1,7})")
# The two namespaces of the format: what programs write, and the strict one of the standard.
_SPACES: Final = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",
)
_CELL, _VALUE, _FORMULA, _INLINE = (
    frozenset(f"{{{space}}}{name}" for space in _SPACES) for name in ("c", "v", "f", "is")
)
_MAX_LETTERS: Final = 3
# Numbers that are remembered as shown: some MB.
_MAX_KNOWN: Final = 50_000
# The widest sheet there is; a cell that says it stands further right is a damaged one.
_MAX_COLUMNS: Final = 16_384
# Merged cells by the ten thousand are a drawing; filling them in would cost more than it tells.
_MAX_MERGES: Final = 20_000
_MERGE: Final = re.compile(rb"<(?:\w+:)?mergeCell\s[^>]*?ref=[\"']([A-Z0-9:]+)[\"']")
_PIECE_BYTES: Final = 1 << 20
# A reference to merged cells is shorter than this: what is kept from one piece to the next.
_OVERLAP_BYTES: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One sheet of a workbook."""

    name: str
    part: str
    hidden: bool = False
    is_chart: bool = False


@dataclass(slots=True)
class Workbook:
    """A workbook, opened: the texts that its sheets share and how it shows numbers."""

    package: Package
    sheets: list[Sheet] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # formulas without a value, errors
    _texts: list[str] = field(default_factory=list)
    _formats: list[Shown] = field(default_factory=list)
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def open(cls, package: Package) -> Workbook:
        """Read what all sheets need."""
        main = package.main()
        root = package.xml(main)
        relations = package.relations(main)
        book = cls(package)
        by_kind = {kind: target for kind, target in relations.values()}
        properties = root.find(f"{_MAIN}workbookPr")
        date1904 = properties is not None and properties.get("date1904") in ("1", "true")
        for sheet in root.iter(f"{_MAIN}sheet"):
            kind, part = relations.get(sheet.get(f"{{{OFFICE}}}id") or attribute(sheet, "id"), ("", ""))
            hidden = sheet.get("state", "visible") != "visible"
            name = sheet.get("name", "")
            book.sheets.append(Sheet(name=name, part=part, hidden=hidden, is_chart=kind != "worksheet"))
        if strings := by_kind.get("sharedStrings"):
            book._texts = [_string(item) for item in package.walk(strings, "{*}si")] if package.has(strings) else []
        styles = package.xml(by_kind.get("styles", "")) if by_kind.get("styles") else None
        book._formats = _formats(styles, date1904) if styles is not None else []
        return book

    def rows(self, sheet: Sheet) -> Iterator[list[str]]:
        """The rows from the top; where rows are missing, one empty row."""
        merges = _Merges(self.package, sheet.part)
        last = 0
        for row in self.package.walk(sheet.part, "{*}row"):
            number = whole(row.get("r"), last + 1)
            if number > last + 1:
                yield []
            last = number
            cells = self._cells(row)
            if merges:
                merges.fill(cells, number)
            yield _listed(cells)

    def _cells(self, row: Element) -> dict[int, str]:
        cells: dict[int, str] = {}
        column = -1
        for cell in row:
            if cell.tag not in _CELL:
                continue
            reference = cell.get("r")
            column = _column(reference.rstrip("0123456789")) if reference else column + 1
            if 0 <= column < _MAX_COLUMNS and (shown := self._shown(cell)):
                cells[column] = shown
        return cells

    def _shown(self, cell: Element) -> str:
        """What the cell shows."""
        kind = cell.get("t", "n")
        value: str | None = None
        for part in cell:
            tag = part.tag
            if tag in _VALUE:
                value = part.text or (value if value is None else "")
            elif tag in _INLINE:
                return _string(part)
            elif tag in _FORMULA and value is None:
                value = ""
        if not value:
            self.counts["no value"] += value is not None and kind != "str"
            return ""
        if kind == "s":
            return self._texts[place] if 0 <= (place := whole(value, -1)) < len(self._texts) else ""
        if kind == "b":
            return "TRUE" if value.strip() in ("1", "true") else "FALSE"
        self.counts["errors"] += kind == "e"
        return self._number(value, cell.get("s", "0")) if kind == "n" else str(value)

    def _number(self, value: str, style: str) -> str:
        """The number in its format; those that come again and again, such as days, are remembered."""
        if (shown := self._known.get((value, style))) is not None:
            return shown
        try:
            number = float(value)
        except ValueError:
            return value
        place = whole(style)
        shown = self._formats[place](number) if 0 <= place < len(self._formats) else general(number)
        if len(self._known) < _MAX_KNOWN:
            self._known[value, style] = shown
        return shown


class _Merges:
    """The merged cells of a sheet, found ahead of its rows: in the file they stand behind them."""

    def __init__(self, package: Package, part: str) -> None:
        found = []
        for reference in _references(package, part):
            first, _, second = reference.partition(":")
            start, end = _REFERENCE.fullmatch(first), _REFERENCE.fullmatch(second)
            if start and end:
                top, bottom = int(start[2]), int(end[2])
                found.append((top, bottom, _column(start[1]), min(_column(end[1]), _MAX_COLUMNS - 1)))
        self._areas = sorted(found[:_MAX_MERGES])
        self._tops = [area[0] for area in self._areas]
        self._values: dict[tuple[int, int], str] = {}
        self._open: list[tuple[int, int, int, int]] = []
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._areas)

    def fill(self, cells: dict[int, str], number: int) -> None:
        """Put the text of merged cells into the row, whose number is higher than the last one's."""
        stop = bisect_right(self._tops, number)
        self._open = [area for area in (*self._open, *self._areas[self._next : stop]) if area[1] >= number]
        self._next = stop
        for top, _, left, right in self._open:
            if number == top:
                self._values[top, left] = cells.get(left, "")
            if value := self._values.get((top, left), ""):
                cells[left] = value
                # A title over a whole sheet need not be told in every column.
                for column in range(left + 1, min(right, left + 64) + 1):
                    cells[column] = Across(value)


def _references(package: Package, part: str) -> Iterator[str]:
    rest = b""
    with package.open(part) as stream:
        while True:
            try:
                piece = stream.read(_PIECE_BYTES)
            except DAMAGES as error:
                raise package.damaged(error) from error
            data = rest + piece
            last = 0
            for found in _MERGE.finditer(data):
                yield found[1].decode("ascii")
                last = found.end()
            if not piece:
                return
            rest = data[max(last, len(data) - _OVERLAP_BYTES) :]


def _listed(cells: dict[int, str]) -> list[str]:
    listed = [""] * (max(cells) + 1) if cells else []
    for column, value in cells.items():
        listed[column] = value
    return listed


@cache
def _column(letters: str) -> int:
    """The number of a column from its letters; -1 for what is none."""
    if not letters.isascii() or not letters.isalpha() or len(letters) > _MAX_LETTERS:
        return -1
    place = 0
    for letter in letters.upper():
        place = place * 26 + ord(letter) - 64
    return place - 1


def _string(item: Element) -> str:
    """The text of a string, however many formats it is in, without the reading aids of Japanese."""
    parts: list[str] = []
    for part in item:
        if local(part) == "t":
            parts.append(part.text or "")
        elif local(part) == "r":
            words = "".join(inside.text or "" for inside in part if local(inside) == "t")
            raised = any(found.get("val") == "superscript" for found in part.iter(f"{_MAIN}vertAlign"))
            parts.append(power_of(words, parts) if raised else words)
    return "".join(parts)


def _formats(styles: Element, date1904: bool) -> list[Shown]:
    """How each style of the workbook shows a number."""
    codes = dict(BUILT_IN)
    for found in styles.iter(f"{_MAIN}numFmt"):
        codes[whole(found.get("numFmtId"), -1)] = found.get("formatCode", "")
    used = styles.find(f"{_MAIN}cellXfs")
    ids = [] if used is None else [whole(style.get("numFmtId")) for style in used]
    return [number_format(codes.get(id, "General"), date1904) for id in ids]
