"""A table of HTML within Markdown -> a block that is cut between its rows and knows the names of its columns.

The marks stay in the text, which is the file's own. It is looked for by regular expressions, at the cost of its length.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from html import unescape
from typing import Final

from headwater.documents import Block, Span

_OPENS: Final = re.compile(r" {0,3}<table[\s>]", re.IGNORECASE)
_TABLE: Final = re.compile(r"<(/?)table\b", re.IGNORECASE)
_ROW: Final = re.compile(r"<tr\b", re.IGNORECASE)
_CELL: Final = re.compile(r"<t(?P<kind>[hd])\b[^<>]*>(?P<words>.*?)</t[hd]\s*>", re.IGNORECASE | re.DOTALL)
_MARK: Final = re.compile(r"<[^<>]*>")
# A longer row is no row of names.
_MAX_HEADER_CHARS: Final = 5_000


class HtmlTables:
    """Finds where tables end. After one that is never closed it looks for no other: that would cost the square."""

    def __init__(self) -> None:
        self._closed = True

    def end(self, text: str, lines: Sequence[Span], place: int) -> int:
        """The line after the table that begins with the one at `place`; `place` where none does."""
        start = lines[place].start
        if not self._closed or not _OPENS.match(text, start):
            return place
        depth = 0
        for found in _TABLE.finditer(text, start):
            depth += -1 if found[1] else 1
            if depth == 0:
                return bisect_left(lines, found.end(), key=lambda line: line.start)
        self._closed = False
        return place


def table_blocks(text: str, span: Span) -> list[Block]:
    """The block of a table that takes up these lines; none where it has no rows to tell apart."""
    rows = [found.start() for found in _ROW.finditer(text, *span)]
    if len(rows) < 2:
        return []
    # The first row stays with what stands in front of it: the caption, the start of the table.
    return [Block(kind="table", span=span, header=_names(text[rows[0] : rows[1]]), rows=(span.start, *rows[1:]))]


def _names(row: str) -> str:
    """The names of the columns, where the first row has cells of that kind."""
    cells = [] if len(row) > _MAX_HEADER_CHARS else list(_CELL.finditer(row))
    if not cells or any(cell["kind"].lower() != "h" for cell in cells):
        return ""
    return " | ".join(" ".join(unescape(_MARK.sub(" ", cell["words"])).split()) for cell in cells)
