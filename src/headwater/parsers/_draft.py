"""Headings, paragraphs, blocks and pages, in the order of reading -> the text of a document and the spans into it.

A parser of a format that is no text itself writes what a reader sees into a draft, line by line. Every span that comes
back begins at the start of a line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from headwater.errors import SourceError
from headwater.parsers._outline import Heading, sections
from headwater.parsers._seen import as_seen
from headwater.types import Block, Kind, Section, Span

PATH_JOINT: Final = " > "
# A longer line is no title; what is cut off stays in the text.
MAX_TITLE_CHARS: Final = 200
# Fifty books: what is longer came out of a small file that repeats itself without end.
MAX_CHARS: Final = 50_000_000

# What ends a line in some program or other, and what cannot be stored: zero characters, halves of a character.
_LINE_END: Final = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_SPACES: Final = re.compile(r"\s+")


def one_line(text: str) -> str:
    """The text without line ends: what a cell of a table or a title is."""
    return _UNSTORABLE.sub("\ufffd", _SPACES.sub(" ", as_seen(text)).strip())


def plain_lines(text: str) -> str:
    """The text with nothing but `\\n` at the end of a line, without blanks before it and around the whole."""
    text = _UNSTORABLE.sub("\ufffd", _LINE_END.sub("\n", as_seen(text).replace("\r\n", "\n")))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n").rstrip()


class Draft:
    """Text that grows at its end."""

    def __init__(self, *, max_chars: int = MAX_CHARS) -> None:
        self.length = 0
        self.blocks: list[Block] = []
        self.page_starts: list[int] = []
        self.hidden: list[Span] = []
        self.max_chars = max_chars
        self._parts: list[str] = []
        self._headings: list[Heading] = []
        self._prose: list[Span] = []
        self._after_gap = True

    def line(self, text: str) -> Span:
        """These lines, right under what is there; `text` holds no line end but `\\n`, and is not empty."""
        start = self.length
        self._parts.append(text + "\n")
        self.length += len(text) + 1
        self._after_gap = False
        if self.length > self.max_chars:
            raise SourceError(
                f"its text is longer than {self.max_chars} characters, the limit for one document; cut it in parts"
            )
        return Span(start, self.length - 1)

    def gap(self) -> None:
        """An empty line, unless there is one."""
        if not self._after_gap:
            self._parts.append("\n")
            self.length += 1
            self._after_gap = True

    def paragraph(self, text: str) -> Span | None:
        """A paragraph of its own, or nothing where the text is blank."""
        text = plain_lines(text)
        if not text.strip():
            return None
        self.gap()
        self._prose.append(self.line(text))
        return self._prose[-1]

    def heading(self, text: str, level: int) -> Span | None:
        """A heading, with all that follows under it up to the next of its level."""
        title = one_line(text)
        if not title:
            return None
        self.gap()
        span = self.line(title)
        self.gap()
        self._headings.append(Heading(level, title[:MAX_TITLE_CHARS], span.start))
        return span

    def block(self, kind: Kind, text: str, *, about: Span | None = None) -> Span | None:
        """A paragraph that is something else than prose."""
        span = self.paragraph(text)
        if span is not None:
            self._prose.pop()
            self.blocks.append(Block(kind=kind, span=span, about=about))
        return span

    def prose_before(self, place: int) -> Span | None:
        """The last paragraph that ends before a place."""
        last = bisect_right(self._prose, place, key=lambda span: span.end)
        return self._prose[last - 1] if last else None

    def page(self) -> None:
        """A new page starts here."""
        self.gap()
        self.page_starts.append(self.length)

    def text(self) -> str:
        """All that was written."""
        return "".join(self._parts)

    def in_order(self) -> tuple[Block, ...]:
        """The blocks by their place in the text."""
        return tuple(sorted(self.blocks, key=lambda block: block.span))

    def structure(self) -> tuple[Section, ...]:
        """The sections, each with what stands under it."""
        return sections(self._headings, self.length)
