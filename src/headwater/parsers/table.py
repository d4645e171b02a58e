"""Data files (CSV, TSV, JSON, JSON lines) in any encoding -> tables with their column names, one line a row.

Of CSV the delimiter, the quotes and the row of column names are found out; JSON that is no list of objects is written
as names and values. What is not what its name says is written as it is, and said so.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Any, Final

from headwater.clean import is_blank
from headwater.errors import EmptyDocument
from headwater.parsers._decode import decode
from headwater.parsers._draft import Draft
from headwater.parsers._json import write_objects, write_value
from headwater.parsers._rows import MAX_ROWS, Tables, write_tables
from headwater.types import Blob, Document

_JSON: Final = frozenset({"application/json", "application/ld+json", "application/geo+json"})
_LINES: Final = frozenset({"application/x-ndjson", "application/jsonl", "application/x-jsonlines"})
_SEPARATED: Final = {"text/csv": ",", "text/tab-separated-values": "\t"}
_DELIMITERS: Final = (",", "\t", ";", "|", "，", "\x01")
_SEPARATOR_LINE: Final = re.compile(r"\A\s*sep=(.)\r?\n", re.IGNORECASE)
# How much is looked at to tell the delimiter.
_SAMPLE_CHARS: Final = 65_536
_SAMPLE_ROWS: Final = 100
# A cell of text has paragraphs; one that swallows so many lines began with a quote that was never closed.
_MAX_CELL_LINES: Final = 500
_MAX_CELL_CHARS: Final = 10_000_000
_END: Final = "\ue000"  # a character that nobody uses
# So many lines that cannot be read are told one by one.
_MAX_TOLD: Final = 3


class TableParser:
    """Reads rows and records. `max_rows` is how many are read; the rest is left out, and said so."""

    mimes: frozenset[str] = frozenset({*_SEPARATED, *_JSON, *_LINES})

    def __init__(self, *, max_rows: int = MAX_ROWS) -> None:
        self.max_rows = max_rows

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is not text and EmptyDocument for what holds none."""
        decoded = decode(blob.data, blob.uri)
        if is_blank(decoded.text):
            raise EmptyDocument(f"{blob.uri} holds no text: {len(blob.data)} bytes, nothing but blanks")
        draft = Draft()
        problems = list(decoded.problems)
        if blob.mime in _LINES:
            written = self._lines(draft, decoded.text, problems)
        elif blob.mime in _JSON:
            written = self._json(draft, decoded.text, problems)
        else:
            written = self._separated(draft, decoded.text, problems, preferred=_SEPARATED.get(blob.mime, ","))
        text = draft.text()
        if is_blank(text):
            raise EmptyDocument(f"{blob.uri} holds no text: {len(blob.data)} bytes of empty cells or fields")
        return Document(
            uri=blob.uri,
            text=text,
            title=PurePosixPath(blob.uri).stem,
            content_type="table",
            mime=blob.mime or "text/csv",
            structure=draft.structure(),
            blocks=draft.in_order(),
            coverage=written.coverage(),
            updated=blob.modified,
            problems=(*problems, *written.problems()),
            meta=blob.meta,
        )

    # -------------------------------------------------------------------------------------- separated values

    def _separated(self, draft: Draft, text: str, problems: list[str], *, preferred: str) -> Tables:
        if said := _SEPARATOR_LINE.match(text):
            text, delimiter = text[said.end() :], said[1]
        else:
            delimiter = _delimiter(text[:_SAMPLE_CHARS], preferred)
        line = _open_quote(text, delimiter)
        if line == 1:
            problems.append("a quote is opened and never closed; quotes are shown as they are")
        elif line:
            problems.append(f"the quote that line {line} opens is never closed; from there on quotes are shown as is")
        return write_tables(draft, _rows(text, delimiter, open_quote=line), max_rows=self.max_rows)

    # ------------------------------------------------------------------------------------------------- JSON

    def _json(self, draft: Draft, text: str, problems: list[str]) -> Tables:
        try:
            value = _loads(text)
        except RecursionError:
            problems.append("it is nested too deeply to be read as JSON; shown as it is")
            return _as_it_is(draft, text)
        except ValueError as error:
            if _is_lines(text):
                return self._lines(draft, text, problems)
            problems.append(f"it is no valid JSON ({error}); shown as it is")
            return _as_it_is(draft, text)
        return write_value(draft, value, max_rows=self.max_rows)

    def _lines(self, draft: Draft, text: str, problems: list[str]) -> Tables:
        first = next(line for line in io.StringIO(text) if line.strip())
        if not _is_json(first) and _is_json(text):
            return write_value(draft, _loads(text), max_rows=self.max_rows)  # one value over several lines
        wrong: list[int] = []
        odd: list[Any] = []
        written = write_objects(draft, _objects(text, wrong, odd), max_rows=self.max_rows)
        if not written.rows and not odd:
            problems.append("none of its lines is valid JSON; shown as it is")
            return _as_it_is(draft, text)
        if odd:
            written.add(write_value(draft, odd, max_rows=self.max_rows))
        if wrong:
            told = ", ".join(map(str, wrong[:_MAX_TOLD]))
            problems.append(f"{len(wrong)} lines are no valid JSON and are left out, the first at {told}")
        return written


def _delimiter(sample: str, preferred: str) -> str:
    """The sign that cuts the most rows into the same number of cells."""
    best, delimiter = (0.0, 0), preferred
    for sign in dict.fromkeys((preferred, *_DELIMITERS)):
        if sign not in sample:
            continue
        rows = [row for row in islice(_rows(sample, sign), _SAMPLE_ROWS) if any(row)]
        # The last row of a sample may be torn.
        counts = Counter(len(row) for row in rows[: len(rows) - 1] or rows)
        width, times = max(counts.items(), key=lambda item: (item[1] * (item[0] > 1), item[0]), default=(0, 0))
        if width < 2:
            continue
        score = (times / counts.total(), width)
        # Another sign than the one that the name of the file promises has to be clearly better.
        if score[0] > best[0] + (0.1 if best[0] else 0.0) or (best[0] < 0.5 and score > best):
            best, delimiter = score, sign
    return delimiter


def _rows(text: str, delimiter: str, *, open_quote: int = 0) -> Iterator[list[str]]:
    """The rows; from the line that opens a quote and never closes it on, quotes are characters like others."""
    csv.field_size_limit(_MAX_CELL_CHARS)
    lines: Iterator[str] = io.StringIO(text, newline="")
    quoted = islice(lines, open_quote - 1) if open_quote else lines
    for row in csv.reader(quoted, delimiter=delimiter, skipinitialspace=True):
        yield [cell.strip() for cell in row]
    for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True, quoting=csv.QUOTE_NONE):
        yield [cell.strip() for cell in row]


def _open_quote(text: str, delimiter: str) -> int:
    """The line, from 1, of a quote that nobody closes and that would make one cell of all that follows; 0 for none."""
    if '"' not in text:
        return 0
    csv.field_size_limit(_MAX_CELL_CHARS)
    # What is put behind the text comes out as a row of its own, or within the cell that a quote keeps open.
    lines = chain(io.StringIO(text, newline=""), ("\n", _END))
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    begins, last = 1, 1
    row: list[str] = []
    try:
        for row in reader:
            if any(cell.count("\n") > _MAX_CELL_LINES for cell in row if "\n" in cell):
                return begins
            begins, last = reader.line_num + 1, begins
    except csv.Error:
        return begins
    return 0 if row == [_END] else last


def _loads(text: str) -> Any:
    # Numbers as they are written: 3.50 is a price, and 20 digits are a number of something.
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)


def _is_lines(text: str) -> bool:
    """Whether the first lines are values of their own."""
    lines = [line for line in islice(io.StringIO(text), _MAX_TOLD) if line.strip()]
    return len(lines) > 1 and all(line.lstrip().startswith(("{", "[")) and _is_json(line) for line in lines)


def _is_json(line: str) -> bool:
    try:
        _loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _objects(text: str, wrong: list[int], odd: list[Any]) -> Iterator[Mapping[str, Any]]:
    """The objects, one a line; what is no object goes to `odd`, the numbers of lines that cannot be read to `wrong`."""
    for number, line in enumerate(io.StringIO(text), 1):
        if not line.strip():
            continue
        try:
            value = _loads(line)
        except (ValueError, RecursionError):
            wrong.append(number)
            continue
        if isinstance(value, Mapping):
            yield value
        else:
            odd.append(value)


def _as_it_is(draft: Draft, text: str) -> Tables:
    draft.paragraph(text)
    return Tables()
