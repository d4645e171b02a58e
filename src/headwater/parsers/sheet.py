"""Workbooks (XLSX, XLSM, ODS, XLS, XLSB) -> a section per sheet, its tables row by row, numbers and dates as shown.

XLSX and ODS are read here as streams, for the sake of number formats, merged cells and sheets of any size; the binary
formats go through calamine, which knows values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from pathlib import PurePosixPath
from typing import Any, Final

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers import _opensheet
from headwater.parsers._column_names import Row
from headwater.parsers._draft import Draft
from headwater.parsers._numberformat import general
from headwater.parsers._ole import MAGIC, check_ole
from headwater.parsers._package import Package, Properties
from headwater.parsers._rows import MAX_ROWS, Tables, write_tables
from headwater.parsers._xlsx import Workbook
from headwater.types import Blob, Document

_XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_ODS: Final = "application/vnd.oasis.opendocument.spreadsheet"
_BINARY: Final = frozenset({"application/vnd.ms-excel", "application/vnd.ms-excel.sheet.binary.macroenabled.12"})
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BOOK_IN_BINARY: Final = b"xl/workbook.bin"
# The binary format holds a sheet as a whole; calamine takes about this much memory for so many cells: 0.5 GB.
_MAX_BINARY_CELLS: Final = 16_000_000


class SheetParser:
    """Reads workbooks. `max_rows` is how many rows of one are read; the rest is left out, and said so."""

    mimes: frozenset[str] = frozenset(
        {_XLSX, "application/vnd.ms-excel.sheet.macroenabled.12", "application/vnd.ms-excel.template", _ODS, *_BINARY}
    )

    def __init__(self, *, max_rows: int = MAX_ROWS) -> None:
        self.max_rows = max_rows

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is no workbook or is locked, and EmptyDocument for one without a cell."""
        draft = Draft()
        said = Properties()
        problems: list[str] = []
        if blob.data.startswith(_OLE) or _BOOK_IN_BINARY in blob.data[-1_000_000:]:
            sheets = _binary(blob)
            problems.append("numbers are shown without their formats, for the file is in a binary format; save as XLSX")
            book = None
        else:
            package = Package(blob, save_as="XLSX")
            if package.has(_opensheet.CONTENT):
                book = None
                sheets = [(name, hidden, _opensheet.rows(package, name)) for name, hidden in _opensheet.sheets(package)]
            else:
                book = Workbook.open(package)
                said = package.properties()
                sheets = [(s.name, s.hidden, book.rows(s)) for s in book.sheets if not s.is_chart]
        written = self._write(draft, sheets, problems)
        if book is not None:
            problems += _told(book, draft)
        if not draft.blocks and not written.rows:
            raise EmptyDocument(f"{blob.uri} holds no text: {len(sheets)} sheets without a cell that shows anything")
        return Document(
            uri=blob.uri,
            text=draft.text(),
            title=said.title or PurePosixPath(blob.uri).stem,
            description=said.description,
            tags=said.tags,
            content_type="table",
            mime=blob.mime or _XLSX,
            structure=draft.structure(),
            blocks=draft.in_order(),
            coverage={**written.coverage(), "sheets": len(sheets)},
            created=said.created,
            updated=said.updated or blob.modified,
            problems=(*problems, *written.problems()),
            meta={**blob.meta, **({"author": said.author} if said.author else {})},
        )

    def _write(self, draft: Draft, sheets: Iterable[tuple[str, bool, Iterable[Row]]], problems: list[str]) -> Tables:
        written = Tables()
        empty = []
        for name, hidden, rows in sheets:
            draft.heading(name or "Sheet", 1)
            one = write_tables(draft, rows, max_rows=max(0, self.max_rows - written.rows))
            written.add(one)
            if not one.rows and not one.left_out:
                empty.append(name)
            if hidden:
                problems.append(f"the sheet {name!r} is hidden in the workbook; its cells are in the text all the same")
        if empty:
            problems.append(f"sheets without a cell: {', '.join(map(repr, empty))}")
        return written


def _told(book: Workbook, draft: Draft) -> list[str]:
    """What the cells of an XLSX workbook lack."""
    problems = []
    if missing := book.counts["no value"]:
        problems.append(
            f"{missing} formulas have no stored value and are left out; open the file in Excel or LibreOffice, "
            "let it calculate, and save it"
        )
    if errors := book.counts["errors"]:
        problems.append(f"{errors} cells show an error such as #N/A")
    if charts := sum(sheet.is_chart for sheet in book.sheets):
        problems.append(f"{charts} sheets hold a chart and no cells")
    return problems


def _binary(blob: Blob) -> list[tuple[str, bool, Iterator[Row]]]:
    from io import BytesIO

    from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetVisibleEnum

    if blob.data.startswith(MAGIC):
        check_ole(blob.data, blob.uri)
    try:
        book = CalamineWorkbook.from_filelike(BytesIO(blob.data))
        return [
            (sheet.name, sheet.visible != SheetVisibleEnum.Visible, _values(book.get_sheet_by_name(sheet.name), blob))
            for sheet in book.sheets_metadata
        ]
    except PasswordError as error:
        raise SourceError(
            f"cannot read {blob.uri}: it is locked with a password; save a copy without one and add that"
        ) from error
    except (CalamineError, OSError, ValueError) as error:
        raise SourceError(
            f"cannot read {blob.uri}: the workbook is damaged ({error}); open it in Excel and save it as XLSX"
        ) from error


def _values(sheet: Any, blob: Blob) -> Iterator[Row]:
    if sheet.height * sheet.width > _MAX_BINARY_CELLS:
        raise SourceError(f"cannot read {blob.uri}: a sheet spans {sheet.height} rows and {sheet.width} columns")
    # Rows above the first used one are not given, and neither are the columns before it.
    for row in sheet.iter_rows():
        yield [_shown(value) for value in row]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return general(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ") if value.time() != time() else value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
    return str(value)
