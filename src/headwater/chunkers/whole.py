"""A document -> passages as its writer made them: every question with its answer, or the document as a whole.

For short answers to frequent questions, notes, bookmarks: what is short is not cut. Pairs of `Q:` and `A:`, `问：` and
`答：`, and headings that ask, start a passage each. What is larger than `size` is cut as `recursive` does.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from headwater.chunkers._layout import Blocks, Ruler, Stretch, clipped, stretches
from headwater.chunkers._making import chunk_of
from headwater.chunkers._pieces import LINED, check_count, check_sizes
from headwater.chunkers._words import skip_blanks, trimmed
from headwater.chunkers.recursive import RecursiveChunker
from headwater.tokens import Unit
from headwater.types import Chunk, Document, Section, Span

# A line of its own, with or without marks and numbers. A pattern that starts with a letter is searched for quickly, so
# the newline before it is part of it and a text is given one in front.
_MARKS: Final = r"\n[ \t#>*_-]*(?:\d{1,4}[.)、][ \t]*)?[*_]*"
_NUMBER: Final = r"[ \t]*\d{0,4}[*_]*[ \t]*[.:：、)）]"
_QUESTION: Final = re.compile(rf"{_MARKS}(?:[Qq]|Question|QUESTION|问题?|提问){_NUMBER}[*_ \t]*(?=\S)")
_ANSWER: Final = re.compile(rf"{_MARKS}(?:[Aa]|Answer|ANSWER|答案?|回答|答复){_NUMBER}")
# Fewer are a dialogue in a text, not a list of questions.
_FEW: Final = 3
# Looked at to tell what a document is: a list of questions begins with some.
_SEEN_CHARS: Final = 8_000
_ASKS: Final = ("?", "？")


class WholeChunker:
    """Leaves entries and short documents whole."""

    def __init__(self, *, size: int = 2048, unit: Unit = "tokens") -> None:
        check_sizes(size=size, unit=unit)
        self.size, self.unit = size, unit
        self._recursive = RecursiveChunker(size=size, overlap=0, unit=unit)
        self.fingerprint = f"whole/1 size={size} unit={unit}"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages; none for a document without text. Raises SourceError when there are too many."""
        text = document.text
        ruler, blocks, parts = Ruler(text, self.unit), Blocks(document.blocks), list(stretches(document))
        chunks: list[Chunk] = []
        for start, end in _whole(document, parts, blocks):
            inside = list(clipped(parts, start, end))
            span = trimmed(text, start, end)
            if span.start >= span.end:
                continue
            if span.end <= ruler.reach(span.start, self.size):
                # A heading says what all of an entry is about; that of a document's beginning does not.
                path = inside[0].path if len(inside) == 1 or inside[0].start > parts[0].start else ""
                chunks.append(chunk_of(document, span, path=path, blocks=blocks))
            else:
                chunks += self._recursive.cut(document, inside, ruler=ruler, blocks=blocks)
            check_count(chunks, document, size=self.size)
        return chunks


def is_faq(document: Document) -> bool:
    """Whether it is a list of questions with their answers."""
    asking = len(_asking(document.structure))
    if asking >= _FEW and 2 * asking >= len(document.structure):
        return True
    return len(_questions(document.text[:_SEEN_CHARS])) >= _FEW


def _whole(document: Document, parts: Sequence[Stretch], blocks: Blocks) -> Iterator[Span]:
    """What is to stay whole, as far as nothing hidden stands in between."""
    edges: set[int] = set()
    if questions := _questions(document.text):
        edges.update(part.start for part in parts)
        edges.update(_with_heading(parts, start) for start in questions)
    elif asking := _asking(document.structure):
        level = max(section.level for section in asking)
        starts = (section.span.start for section in document.structure if section.level <= level)
        edges.update(_with_heading(parts, start) for start in starts)
    places = sorted(edge for edge in edges if not any(_cut_by_lines(blocks, edge)))
    last = parts[0].start if parts else 0
    for number, part in enumerate(parts, start=1):
        for edge in places[bisect_left(places, part.start) : bisect_left(places, part.end)]:
            if skip_blanks(document.text, last, edge) < edge:
                yield Span(last, edge)
            last = edge
        following = parts[number].start if number < len(parts) else len(document.text)
        if number == len(parts) or _hides(document.hidden, part.end, following):
            yield Span(last, part.end)
            last = following


def _cut_by_lines(blocks: Blocks, place: int) -> Iterator[bool]:
    """Whether it is inside a table or code, where a question is only a cell or a comment."""
    return (block.kind in LINED and block.span.start < place for block in blocks.touching(place, place + 1))


def _hides(hidden: tuple[Span, ...], start: int, end: int) -> bool:
    place = bisect_right(hidden, start, key=lambda span: span.end)
    return place < len(hidden) and hidden[place].start < end


def _with_heading(parts: Sequence[Stretch], start: int) -> int:
    """The start of an entry, or of the heading right above it."""
    place = bisect_right(parts, start, key=lambda part: part.end)
    if place < len(parts) and parts[place].start <= start <= parts[place].body:
        return parts[place].start
    return start


def _questions(text: str) -> list[int]:
    """Where each question starts that an answer follows before the next question."""
    text = "\n" + text
    questions = [match.start() for match in _QUESTION.finditer(text)]
    answers = [match.start() for match in _ANSWER.finditer(text)] if questions else []
    found = []
    for start, following in pairwise((*questions, len(text))):
        place = bisect_left(answers, start)
        if place < len(answers) and answers[place] < following:
            found.append(start)
    return found


def _asking(structure: Sequence[Section]) -> list[Section]:
    """Sections whose heading is a question."""
    return [section for section in structure if section.title.rstrip("*_ ").endswith(_ASKS)]
