"""A document -> the stretches that are cut: by section, without what is hidden, quotes apart; measured, with blocks."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from headwater.chunkers._words import skip_blanks
from headwater.tokens import Unit, token_spans
from headwater.types import Block, Document, Section, Span
from headwater.wanted import check

# Some hundredths of a second: so often it is looked whether a text is still wanted while it is measured.
STEP_TOKENS: Final = 1 << 16
_UNDERLINE: Final = re.compile(r"[ \t]*(?:=+|-+)[ \t]*(?:\n|\Z)")


_Item = TypeVar("_Item")
_END: Final = itemgetter(1)  # of a span or a stretch


class Stretch(NamedTuple):
    """A part of the text under one heading that no chunk reaches out of; up to `body` it is headings."""

    start: int
    end: int
    body: int
    path: str


class Ruler:
    """Lengths of stretches of one text. A token counts for a stretch when any part of it lies inside."""

    def __init__(self, text: str, unit: Unit) -> None:
        self.text = text
        self._starts: array[int] | None = _token_starts(text) if unit == "tokens" else None

    def reach(self, start: int, limit: int) -> int:
        """The furthest end for which `start` to there measures at most `limit`."""
        if self._starts is None:
            return min(start + limit, len(self.text))
        first = bisect_left(self._starts, start)
        # Whatever is no white space is part of a token: this one may have begun before.
        if start < len(self.text) and not self.text[start].isspace() and self._token(first) != start:
            first -= 1
        return self._token(first + limit)

    def back(self, end: int, limit: int) -> int:
        """The earliest start from which up to `end` measures at most `limit`."""
        if self._starts is None:
            return max(end - limit, 0)
        return self._token(max(0, bisect_left(self._starts, end) - limit))

    def _token(self, number: int) -> int:
        """Where a token starts, or the end of the text where there are not so many."""
        starts = self._starts or ()
        return starts[number] if number < len(starts) else len(self.text)


def _token_starts(text: str) -> array[int]:
    """Where every token starts. Raises NotWanted where nobody wants to know any more: 100 MB take seconds."""
    starts, tokens = array("i"), map(itemgetter(0), token_spans(text))
    before = -1
    while len(starts) > before:
        check()
        before = len(starts)
        starts.extend(islice(tokens, STEP_TOKENS))
    return starts


class Blocks:
    """The blocks of a document by place; they may lie inside one another."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.all = sorted(blocks, key=lambda block: block.span)
        self._own = _Places([block.span for block in self.all])
        self._tied = sorted((block for block in blocks if block.about), key=lambda block: block.about or block.span)
        self._about = _Places([block.about or block.span for block in self._tied])

    def touching(self, start: int, end: int) -> Iterator[Block]:
        """Those that have a character of it, in order."""
        return (self.all[number] for number in self._own.touching(start, end))

    def about(self, start: int, end: int) -> Iterator[Block]:
        """Those elsewhere that say something about it: the caption of a table, the notes of a slide."""
        tied = (self._tied[number] for number in self._about.touching(start, end))
        return (block for block in tied if not (start <= block.span.start and block.span.end <= end))


class _Places:
    """Finds the spans that touch a stretch, each in logarithmic time, also where they lie inside one another."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [span.start for span in spans]
        # The furthest end of one span, of two, of four ...: what ends too early is passed over many at a time.
        self._ends = [[span.end for span in spans]]
        while len(self._ends[-1]) > 1:
            below = self._ends[-1]
            self._ends.append([max(below[place : place + 2]) for place in range(0, len(below), 2)])

    def touching(self, start: int, end: int) -> Iterator[int]:
        last = bisect_left(self._starts, end)
        number = self._next(0, start)
        while number < last:
            yield number
            number = self._next(number + 1, start)

    def _next(self, number: int, start: int) -> int:
        """The first from `number` on that ends after `start`, or how many there are."""
        level, place = 0, number
        while True:
            while place % 2 == 0 and level + 1 < len(self._ends):
                level, place = level + 1, place // 2
            if place >= len(self._ends[level]):
                return len(self._starts)
            if self._ends[level][place] > start:
                break
            place += 1
        while level:
            level, place = level - 1, place * 2
            place += self._ends[level][place] <= start
        return place


def stretches(document: Document) -> Iterator[Stretch]:
    """All of the text that chunks may hold, in order."""
    quotes = sorted(block.span for block in document.blocks if block.kind == "quote")
    for region in _regions(document):
        for part in _visible(region, document.hidden):
            if quotes:
                yield from _apart(document.text, part, quotes)
            else:
                yield part


def _from(items: Sequence[_Item], first: int) -> Iterator[_Item]:
    """Those from `first` on, without a copy: there may be tens of thousands, and only the next few are looked at."""
    return (items[number] for number in range(first, len(items)))


def clipped(parts: Sequence[Stretch], start: int, end: int) -> Iterator[Stretch]:
    """What of the stretches, which are in order, lies between two places."""
    for part in _from(parts, bisect_right(parts, start, key=_END)):
        if part.start >= end:
            break
        yield part._replace(start=max(part.start, start), end=min(part.end, end))


def pages_of(document: Document, span: Span) -> tuple[int, ...]:
    """The pages that a span stands on, first to last."""
    starts = document.page_starts
    if not starts:
        return ()
    first, last = bisect_right(starts, span.start), bisect_left(starts, span.end)
    return tuple(range(max(first, 1), max(last, 1) + 1))


def _regions(document: Document) -> Iterator[Stretch]:
    """The text by section, a heading that has nothing under it together with what follows."""
    text = document.text
    bare: Stretch | None = None
    bare_until = 0
    for start, end, sections in _segments(document):
        path = sections[-1].path if sections else ""
        body = _body_start(text, start, end) if sections and sections[-1].span.start == start else start
        if bare is not None and start >= bare_until:
            yield bare
            bare = None
        region = Stretch(start if bare is None else bare.start, end, body, path)
        if body < end:
            yield region
            bare = None
        else:
            bare, bare_until = region, sections[-2].span.end if len(sections) > 1 else len(text)
    if bare is not None:
        yield bare


def _segments(document: Document) -> Iterator[tuple[int, int, list[Section]]]:
    """The text between any two section boundaries, with the sections it is in from the outermost."""
    waiting = sorted(document.structure, key=lambda section: (section.span.start, -section.span.end), reverse=True)
    edges = {0, len(document.text), *(edge for section in document.structure for edge in section.span)}
    inside: list[Section] = []
    for start, end in pairwise(sorted(edges)):
        while inside and inside[-1].span.end <= start:
            inside.pop()
        while waiting and waiting[-1].span.start <= start:
            inside.append(waiting.pop())
        if skip_blanks(document.text, start, end) < end:
            yield start, end, inside


def _body_start(text: str, start: int, end: int) -> int:
    """The first character after the heading at `start`, its underline and blanks; `end` if there is none."""
    start = skip_blanks(text, start, end)
    newline = text.find("\n", start, end)
    if newline < 0:
        return end
    underline = _UNDERLINE.match(text, newline + 1, end)
    after = underline.end() if underline else newline + 1
    return skip_blanks(text, after, end)


def _visible(region: Stretch, hidden: tuple[Span, ...]) -> Iterator[Stretch]:
    """The region without what is hidden, in as many parts as that leaves."""
    start = region.start
    for gap in _from(hidden, bisect_right(hidden, start, key=_END)):
        if gap.start >= region.end:
            break
        if gap.start > start:
            yield region._replace(start=start, end=gap.start)
        start = max(start, gap.end)
    if start < region.end:
        yield region._replace(start=start)


def _apart(text: str, stretch: Stretch, quotes: list[Span]) -> Iterator[Stretch]:
    """What a mail quotes of another apart from what it says itself; a heading stays with whatever follows it."""
    start = stretch.start
    for edge in (edge for quote in _from(quotes, bisect_right(quotes, start, key=_END)) for edge in quote):
        if edge >= stretch.end:
            break
        if edge > max(start, stretch.body) and skip_blanks(text, start, edge) < edge:
            yield stretch._replace(start=start, end=edge)
            start = edge
    if start < stretch.end:
        yield stretch._replace(start=start)
