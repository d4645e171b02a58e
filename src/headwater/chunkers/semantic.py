"""A document -> passages that end where the topic changes, as the embedder sees it.

All sentences (or paragraphs) of a document are embedded in one call. Between any two of them stands how alike the few
before are to the few after; where that is a low point, among the lowest of the document, a passage may end. `minimum`
and `size` bound what comes out: what is still too large is parted where its sides are least alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from headwater.chunkers._layout import Blocks, Ruler, stretches
from headwater.chunkers._making import chunk_of
from headwater.chunkers._packing import Bounds, packed
from headwater.chunkers._pieces import Pieces, check_count, check_sizes, cutting
from headwater.chunkers._words import PARAGRAPH
from headwater.chunkers.sentence import SENTENCES
from headwater.errors import SettingError
from headwater.protocols import Embedder
from headwater.tokens import Unit
from headwater.types import Chunk, Document, Matrix, Span

Grain = Literal["sentences", "paragraphs"]
Gaps = npt.NDArray[np.float32]
# Gaps that differ by less are one as good as the other; the later one fills the passage.
_ALIKE: Final = 0.01


class SemanticChunker:
    """Cuts where neighbouring `grain`s drift apart. `drift` is the share of all gaps that may be cut at."""

    def __init__(
        self,
        *,
        embedder: Callable[[], Embedder],
        size: int = 512,
        minimum: int = 64,
        unit: Unit = "tokens",
        grain: Grain = "sentences",
        window: int = 3,
        drift: float = 0.25,
    ) -> None:
        check_sizes(size=size, unit=unit, minimum=minimum)
        _check(grain=grain, window=window, drift=drift)
        self.size, self.minimum, self.unit = size, minimum, unit
        self.window, self.drift, self._embedder = window, drift, embedder
        cuts = SENTENCES if grain == "sentences" else (cutting(PARAGRAPH), *SENTENCES)
        self._pieces = Pieces(size=size, room=0, cuts=cuts, fine=True)
        settings = f"size={size} minimum={minimum} unit={unit} grain={grain} window={window} drift={drift}"
        # The embedder is part of it: another one cuts elsewhere.
        self.fingerprint = f"semantic/1 {settings} embedder=({embedder().fingerprint})"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages; none for a document without text. Raises SourceError when there are too many."""
        ruler, blocks = Ruler(document.text, self.unit), Blocks(document.blocks)
        bounds = Bounds(ruler, size=self.size, minimum=self.minimum)
        parts = [(stretch, list(self._pieces.of(ruler, stretch, blocks))) for stretch in stretches(document)]
        gaps = self._gaps(document.text, [pieces for _, pieces in parts])
        inner = np.concatenate(gaps) if gaps else np.empty(0, dtype=np.float32)
        low = float(np.quantile(inner, self.drift)) if len(inner) else 0.0
        chunks: list[Chunk] = []
        for (stretch, pieces), alike in zip(parts, gaps, strict=True):
            for span in _passages(pieces, alike, low=low, bounds=bounds, body=stretch.body):
                chunks.append(chunk_of(document, span, path=stretch.path, blocks=blocks))
                check_count(chunks, document, size=self.size)
        return chunks

    def _gaps(self, text: str, parts: Sequence[Sequence[Span]]) -> list[Gaps]:
        """For every stretch, between any two of its pieces, how alike the few before are to the few after."""
        if all(len(pieces) < 2 for pieces in parts):
            return [np.empty(0, dtype=np.float32) for _ in parts]
        vectors = self._embedder().embed([text[start:end] for pieces in parts for start, end in pieces], "passage")
        ends = np.cumsum([len(pieces) for pieces in parts])[:-1]
        return [_between(rows, self.window) for rows in np.split(vectors, ends)]


def _between(rows: Matrix, window: int) -> Gaps:
    if len(rows) < 2:
        return np.empty(0, dtype=np.float32)
    before, after = rows[:-1].copy(), rows[1:].copy()
    for step in range(1, window):
        before[step:] += rows[: -1 - step]
        after[:-step] += rows[1 + step :]
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    gaps: Gaps = np.einsum("ij,ij->i", before, after) / np.maximum(lengths, np.finfo(np.float32).tiny)
    return gaps


def _passages(pieces: Sequence[Span], gaps: Gaps, *, low: float, bounds: Bounds, body: int) -> Iterator[Span]:
    """Gap n stands before piece n + 1. What a low point does not end in time ends where it is least alike."""
    fenced = np.concatenate([[np.inf], gaps, [np.inf]])
    dips = (gaps <= low) & (gaps <= fenced[:-2]) & (gaps <= fenced[2:])
    # Nowhere is a heading left alone.
    cuts = {number for number in (dips.nonzero()[0] + 1).tolist() if pieces[number - 1].end > body}
    first = 0
    for number in range(1, len(pieces)):
        while first < number and not bounds.fits(pieces[first].start, pieces[number].end):
            begin = pieces[first].start
            ends = [(n, pieces[n - 1].end) for n in range(first + 1, number + 1)]
            fair = [n for n, end in ends if end > body and bounds.enough(begin, end)]
            least = min((gaps[n - 1] for n in fair), default=0.0) + _ALIKE
            first = max((n for n in fair if gaps[n - 1] <= least), default=number)
            cuts.add(first)
        if number in cuts:
            if bounds.enough(pieces[first].start, pieces[number - 1].end):
                first = number
            else:
                cuts.discard(number)
    yield from packed(pieces, bounds, cuts.__contains__)


def _check(*, grain: Any, window: Any, drift: Any) -> None:
    if grain not in get_args(Grain):
        raise SettingError(f"chunk.grain must be 'sentences' or 'paragraphs', got {grain!r}")
    if type(window) is not int or window < 1:
        raise SettingError(f"chunk.window must be a whole number of at least 1, got {window!r}")
    if type(drift) not in (int, float) or not 0 <= drift <= 1:
        raise SettingError(f"chunk.drift must be between 0 and 1, got {drift!r}")
