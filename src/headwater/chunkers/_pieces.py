"""A stretch of text -> pieces that may stand alone, of at most a given size; what belongs together stays in one.

A piece of a table is a row, a piece of code a line; a note or a caption is one piece where it fits. How prose is cut is
the strategy's own.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, get_args

from headwater.chunkers._layout import Blocks, Ruler, Stretch
from headwater.chunkers._words import LINE, skip_blanks, trimmed, word_end
from headwater.errors import SettingError, SourceError
from headwater.selection import MAX_CHUNKS
from headwater.tokens import Unit
from headwater.types import Block, Chunk, Document, Span

# Where to cut between two places, in order.
Cuts = Callable[[str, int, int], Iterable[int]]
# Blocks that are cut between rows or lines; the others are prose that stands apart.
LINED: Final = frozenset({"table", "code", "image"})


class Pieces:
    """Cuts at the coarsest of `cuts` that gives pieces of at most `size`; with `fine`, at all of them.

    `room` is how much of a torn word's piece is left free for the overlap in front of it.
    """

    def __init__(self, *, size: int, room: int, cuts: Sequence[Cuts], fine: bool = False) -> None:
        self.size, self.room, self.cuts, self.fine = size, room, cuts, fine

    def of(self, ruler: Ruler, stretch: Stretch, blocks: Blocks) -> Iterator[Span]:
        """The stretch in pieces, blocks apart from the prose around them. The first is never a heading alone."""
        text = ruler.text
        start, stop = trimmed(text, stretch.start, stretch.end)
        if start >= stop:
            return
        if not self.fine and stop <= ruler.reach(start, self.size):
            yield Span(start, stop)
            return
        for block in blocks.touching(start, stop) if blocks.all else ():
            begin, end = max(start, block.span.start), min(stop, block.span.end)
            if end <= start or block.kind == "quote":  # a quote is a stretch of its own already
                continue
            yield from self._split(ruler, Span(start, begin), stretch.body, 0)
            # A heading right before it must not stay behind alone, so they fit together or the block is cut.
            measured_from = stretch.start if stretch.body >= begin else begin
            if end <= ruler.reach(measured_from, self.size):
                yield trimmed(text, begin, end)
            elif block.kind in LINED:
                yield from self._lines(ruler, Span(begin, end), block)
            else:
                yield from self._split(ruler, Span(begin, end), stretch.body, 0)
            start = end
        yield from self._split(ruler, Span(start, stop), stretch.body, 0)

    def _split(self, ruler: Ruler, span: Span, body: int, level: int) -> Iterator[Span]:
        """Cut at one level's separators, and what is still too large at the next. Never right behind a heading."""
        start, end = trimmed(ruler.text, *span)
        if start >= end:
            return
        if (not self.fine or level) and end <= ruler.reach(start, self.size):
            yield Span(start, end)
        elif level == len(self.cuts):
            yield from self.torn(ruler, Span(start, end))
        else:
            last = start
            for cut in self.cuts[level](ruler.text, start, end):
                if cut > body and last < cut < end:
                    yield from self._split(ruler, Span(last, cut), body, level + 1)
                    last = cut
            yield from self._split(ruler, Span(last, end), body, level + 1)

    def _lines(self, ruler: Ruler, span: Span, block: Block) -> Iterator[Span]:
        """The rows or lines of a block. A row of a table stays whole, however long."""
        last = span.start
        for cut in (*line_starts(ruler.text, span, block), span.end):
            start, end = trimmed(ruler.text, last, cut)
            last = cut
            if start < end and (block.kind == "table" or end <= ruler.reach(start, self.size)):
                yield Span(start, end)
            elif start < end:
                yield from self.torn(ruler, Span(start, end))

    def torn(self, ruler: Ruler, span: Span) -> Iterator[Span]:
        """Words up to the limit, or characters where there are none."""
        start, end = span
        while (limit := ruler.reach(start, self.size - self.room)) < end:
            cut = word_end(ruler.text, start, limit)
            yield trimmed(ruler.text, start, cut)
            start = skip_blanks(ruler.text, cut, end)
        yield Span(start, end)


def line_starts(text: str, span: Span, block: Block) -> list[int]:
    """Where the rows of a table or the lines of anything else start, after the first of the span."""
    if block.kind == "table" and block.rows:
        return list(block.rows[bisect_right(block.rows, span.start) : bisect_left(block.rows, span.end)])
    return [found.end() for found in LINE.finditer(text, *span)]


def cutting(pattern: re.Pattern[str]) -> Cuts:
    """Cut behind every match."""
    return lambda text, start, end: [match.end() for match in pattern.finditer(text, start, end)]


def check_sizes(*, size: Any, overlap: Any = 0, unit: Any = "tokens", minimum: Any = 0) -> None:
    """Refuse what cannot be, by the name of its setting."""
    if type(size) is not int or size < 1:
        raise SettingError(f"chunk.size must be a whole number of at least 1, got {size!r}")
    if type(overlap) is not int or not 0 <= overlap < size:
        raise SettingError(f"chunk.overlap must be at least 0 and below chunk.size ({size}), got {overlap!r}")
    if type(minimum) is not int or not 0 <= minimum <= size:
        raise SettingError(f"chunk.minimum must be at least 0 and at most chunk.size ({size}), got {minimum!r}")
    if unit not in get_args(Unit):
        raise SettingError(f"chunk.unit must be 'tokens' or 'chars', got {unit!r}")


def check_count(chunks: Sequence[Chunk], document: Document, *, size: int) -> None:
    """Refuse a document that gives more chunks than ids can tell apart."""
    if len(chunks) > MAX_CHUNKS:
        raise SourceError(
            f"{document.uri} gives more than {MAX_CHUNKS} chunks of {size}; cut the file in parts or raise chunk.size"
        )
