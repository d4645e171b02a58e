"""Any document -> its passages: spans of the original text, in order, each a piece of one section.

The text is cut at the coarsest separator (paragraphs, then lines, sentences, clauses, words, characters) that gives
pieces small enough, one level deeper only inside a piece that is still too large; neighbouring pieces are then packed
together up to `size`. A chunk begins with the last `overlap` of the one before it, from the start of a sentence where
one fits, else of a clause or a word. Everything is measured against offsets that are found once: time is linear.

- No chunk crosses a section; a heading with nothing under it joins what follows under the same parent.
- A table is cut between rows, and parts that lack its header carry it in `index_text`; code is cut between lines.
- A caption or a note carries in `index_text` what it is about, where that stands in another chunk.
- What a mail quotes is in chunks of its own.
- What the document hides (frontmatter, comments) is in no chunk, and no chunk reaches across it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headwater.chunkers._layout import Blocks, Ruler, Stretch, stretches
from headwater.chunkers._making import chunk_of
from headwater.chunkers._pieces import LINED, Cuts, Pieces, check_count, check_sizes, cutting
from headwater.chunkers._words import CLAUSE, CLAUSES, LINE, PARAGRAPH, SENTENCE, skip_blanks, word_start
from headwater.errors import SettingError
from headwater.tokens import Unit
from headwater.types import Chunk, Document, Span

_NATURAL: Final[tuple[Cuts, ...]] = tuple(map(cutting, (PARAGRAPH, LINE, SENTENCE, *CLAUSES)))


class RecursiveChunker:
    """Cuts any text. `separators` (each a string, or several of equal rank) take the place of the natural ones."""

    def __init__(
        self,
        *,
        size: int = 512,
        overlap: int = 64,
        unit: Unit = "tokens",
        separators: Sequence[str | Sequence[str]] | None = None,
    ) -> None:
        check_sizes(size=size, overlap=overlap, unit=unit)
        self.size, self.overlap, self.unit = size, overlap, unit
        levels = None if separators is None else _levels(separators)
        cuts = _NATURAL if levels is None else tuple(map(cutting, levels))
        self._pieces = Pieces(size=size, room=overlap, cuts=cuts)
        self._any_separator = (
            None if levels is None else re.compile("|".join(level.pattern for level in levels) or "(?!)")
        )
        names = "natural" if separators is None else json.dumps(list(separators), ensure_ascii=False)
        self.fingerprint = f"recursive/1 size={size} overlap={overlap} unit={unit} separators={names}"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages; none for a document without text. Raises SourceError when there are too many."""
        ruler, blocks = Ruler(document.text, self.unit), Blocks(document.blocks)
        return self.cut(document, stretches(document), ruler=ruler, blocks=blocks)

    def cut(self, document: Document, parts: Iterable[Stretch], *, ruler: Ruler, blocks: Blocks) -> list[Chunk]:
        """The passages of some stretches of a document."""
        chunks: list[Chunk] = []
        for stretch in parts:
            for span in self._pack(ruler, self._pieces.of(ruler, stretch, blocks), blocks):
                chunks.append(chunk_of(document, span, path=stretch.path, blocks=blocks))
                check_count(chunks, document, size=self.size)
        return chunks

    def _pack(self, ruler: Ruler, pieces: Iterator[Span], blocks: Blocks) -> Iterator[Span]:
        """Neighbouring pieces together up to `size`, each chunk after the first with its overlap in front."""
        start = end = reach = -1
        for piece in pieces:
            if end < 0:
                start = piece.start
            elif piece.end <= reach:
                end = piece.end
                continue
            else:
                yield Span(start, end)
                start = self._overlap(ruler, Span(start, end), piece, blocks)
            end, reach = piece.end, ruler.reach(start, self.size)
        if end >= 0:
            yield Span(start, end)

    def _overlap(self, ruler: Ruler, before: Span, piece: Span, blocks: Blocks) -> int:
        """Where the chunk that goes on with `piece` starts: as early in the chunk before as overlap and size allow."""
        text = ruler.text
        low = max(ruler.back(before.end, self.overlap), ruler.back(piece.end, self.size), before.start + 1)
        if low >= before.end:
            return piece.start
        lined = [block for block in blocks.touching(low, before.end) if block.kind in LINED] if blocks.all else []
        if lined:
            start = text.find("\n", low - 1, before.end) + 1 or piece.start
            for block in lined:
                if block.rows and block.span.start < start < block.span.end:
                    row = bisect_left(block.rows, start)
                    start = block.rows[row] if row < len(block.rows) else block.span.end
        else:
            start = self._good_start(text, low, before.end)
        start = skip_blanks(text, start, max(start, before.end))
        return start if start < before.end else piece.start

    def _good_start(self, text: str, low: int, end: int) -> int:
        if text[low - 1] == "\n":
            return low
        window = text[low:end]
        for pattern in (LINE, SENTENCE, CLAUSE) if self._any_separator is None else (self._any_separator,):
            if (match := pattern.search(window)) and match.end() < len(window):
                return low + match.end()
        return word_start(text, low, end)


def _levels(separators: Sequence[str | Sequence[str]]) -> list[re.Pattern[str]]:
    """One pattern per level. Words and characters, often written as " " and "", come last in any case."""
    if isinstance(separators, str):
        raise SettingError(f'chunk.separators must be a list such as ["\\n\\n", "。"], got {separators!r}')
    levels = []
    for level in separators:
        group = [level] if isinstance(level, str) else level
        if not isinstance(group, list | tuple) or not all(isinstance(separator, str) for separator in group):
            raise SettingError(f"chunk.separators must hold strings or lists of strings, got {level!r}")
        if escaped := [re.escape(separator) for separator in group if separator.strip(" ")]:
            levels.append(re.compile("|".join(escaped)))
    return levels
