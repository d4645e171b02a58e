"""A document -> passages of whole sentences, at least `minimum` of them together and never more than `size`.

A point ends a sentence only where one ends: not in 3.14, e.g., an address or an abbreviation; full-width marks do. No
passage repeats another. Tables, code, headings, quotes and hidden parts are treated as `recursive` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headwater.chunkers._layout import Blocks, Ruler, Stretch, stretches
from headwater.chunkers._making import chunk_of
from headwater.chunkers._packing import Bounds, packed
from headwater.chunkers._pieces import Cuts, Pieces, check_count, check_sizes, cutting
from headwater.chunkers._words import CLAUSES
from headwater.tokens import Unit, sentences
from headwater.types import Chunk, Document, Span


def sentence_starts(text: str, start: int, end: int) -> list[int]:
    """Where each sentence after the first one starts."""
    return [start + first for first, _ in sentences(text[start:end])[1:]]


def after_heading(pieces: Sequence[Span], stretch: Stretch) -> Callable[[int], bool]:
    """Whether a chunk may end before piece n: not where it would be a heading alone."""
    return lambda number: pieces[number - 1].end > stretch.body


SENTENCES: Final[tuple[Cuts, ...]] = (sentence_starts, *map(cutting, CLAUSES))


class SentenceChunker:
    """Cuts at the ends of sentences as soon as there are `minimum` of the unit."""

    def __init__(self, *, size: int = 512, minimum: int = 64, unit: Unit = "tokens") -> None:
        check_sizes(size=size, unit=unit, minimum=minimum)
        self.size, self.minimum, self.unit = size, minimum, unit
        self._pieces = Pieces(size=size, room=0, cuts=SENTENCES, fine=True)
        self.fingerprint = f"sentence/1 size={size} minimum={minimum} unit={unit}"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages; none for a document without text. Raises SourceError when there are too many."""
        ruler, blocks = Ruler(document.text, self.unit), Blocks(document.blocks)
        bounds = Bounds(ruler, size=self.size, minimum=self.minimum)
        chunks: list[Chunk] = []
        for stretch in stretches(document):
            pieces = list(self._pieces.of(ruler, stretch, blocks))
            for span in packed(pieces, bounds, after_heading(pieces, stretch)):
                chunks.append(chunk_of(document, span, path=stretch.path, blocks=blocks))
                check_count(chunks, document, size=self.size)
        return chunks
