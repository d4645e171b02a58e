"""Hits -> each with its neighbours in the document, as one block that is a slice of the document's text.

The window of a hit is itself and `window` chunks on either side. Windows of one document that touch become one block,
at the place of the best hit in it. With a reranker the blocks are looked at again as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from headwater.errors import BackendError
from headwater.filters import Filter, conjoin
from headwater.protocols import Catalog, Reranker, Retriever
from headwater.stages._request import Pace, Watch, first, made, wanted
from headwater.stages.rerank import rescored
from headwater.types import Chunk, Document, Hit, Query, Results, Span, attributes

STAGE = "window"
# Hits widened whatever the page, so that pages go on from one another; more than any page shows, and each document
# among them is read as a whole.
POOL: Final = 32
# So many windows may grow together: a document full of hits would become one block else.
MOST_WINDOWS: Final = 3


@dataclass(frozen=True, slots=True)
class _Text:
    """A document with its chunks that the indexes hold, in order, and the place of each."""

    document: Document
    chunks: Sequence[Chunk]
    places: dict[int, int]


@dataclass(slots=True)
class _Block:
    """Chunks `low` to `high` of one document, and the hits in them, best first."""

    text: _Text
    low: int
    high: int
    hits: list[Hit]


class Windowed:
    """A Retriever of blocks. `reranker` looks at them again; none keeps the order of their best hits."""

    def __init__(self, inner: Retriever, *, catalog: Catalog, reranker: Reranker | None, pace: Pace) -> None:
        self._inner, self._catalog, self._reranker, self._pace = inner, catalog, reranker, pace

    def retrieve(self, query: Query) -> Results:
        """The hits of the one inside, widened."""
        watch = Watch(query)
        pool = max(wanted(query), POOL)
        results = watch.inside(lambda: self._inner.retrieve(first(query, pool)))
        where = conjoin(query.scope, query.where)
        seen = results.hits[:pool]
        blocks = self._blocks(seen, reach=query.options.window, where=where)
        hits = [_block_hit(block) if isinstance(block, _Block) else block for block in blocks]
        lacking: list[str] = []
        if self._reranker is not None and hits:
            try:
                hits = rescored(query.text, hits, reranker=self._reranker, pace=self._pace, left=watch.left)
            except BackendError as error:
                lacking.append(f"windows not reranked: {error}")
        fewer = len(seen) - len(hits)
        return made(results, hits[: wanted(query)], stage=STAGE, watch=watch, fewer=fewer, lacking=lacking)

    def _blocks(self, hits: Sequence[Hit], *, reach: int, where: Filter) -> list[_Block | Hit]:
        texts: dict[str, _Text | None] = {}
        blocks: list[_Block | Hit] = []
        for hit in hits:
            if hit.document_id not in texts:
                texts[hit.document_id] = self._read(hit.document_id)
            text = texts[hit.document_id]
            if text is None or hit.chunk.id not in text.places or hit.found:
                blocks.append(hit)  # replaced meanwhile, or widened to its parent already
                continue
            low, high = _window(text, hit, reach=reach, where=where)
            if not _taken_in(blocks, hit, low=low, high=high, most=MOST_WINDOWS * (2 * reach + 1)):
                low, high = _apart(blocks, text, at=text.places[hit.chunk.id], low=low, high=high)
                blocks.append(_Block(text, low, high, [hit]))
        return blocks

    def _read(self, document_id: str) -> _Text | None:
        document, chunks = self._catalog.document(document_id), self._catalog.chunks_of(document_id)
        if document is None:
            return None
        parents = {chunk.parent for chunk in chunks}
        own = [chunk for chunk in chunks if chunk.id not in parents]
        own = [chunk for chunk in own if document.text[chunk.span.start : chunk.span.end] == chunk.text]
        return _Text(document, own, {chunk.id: place for place, chunk in enumerate(own)})


def _window(text: _Text, hit: Hit, *, reach: int, where: Filter) -> tuple[int, int]:
    """Its first and last chunk: as far as the filter allows, and never across what no chunk may hold."""
    low = high = text.places[hit.chunk.id]
    for _ in range(reach):
        if low > 0 and _joins(text, low - 1, low) and where.matches(attributes(hit.record, text.chunks[low - 1])):
            low -= 1
    for _ in range(reach):
        beyond = high + 1
        if (
            beyond < len(text.chunks)
            and _joins(text, high, beyond)
            and where.matches(attributes(hit.record, text.chunks[beyond]))
        ):
            high = beyond
    return low, high


def _joins(text: _Text, one: int, other: int) -> bool:
    """Whether nothing hidden, such as a comment, stands between two neighbours."""
    start, end = text.chunks[one].span.end, text.chunks[other].span.start
    return not any(span.start < end and span.end > start for span in text.document.hidden)


def _taken_in(blocks: Sequence[_Block | Hit], hit: Hit, *, low: int, high: int, most: int) -> bool:
    """Let a block of the same document that this window overlaps or that holds the hit take it in."""
    for block in blocks:
        if isinstance(block, Hit) or block.hits[0].document_id != hit.document_id:
            continue
        inside = block.low <= block.text.places[hit.chunk.id] <= block.high
        touches = low <= block.high and high >= block.low
        union = min(low, block.low), max(high, block.high)
        free = not any(
            isinstance(other, _Block)
            and other is not block
            and other.text is block.text
            and union[0] <= other.high
            and other.low <= union[1]
            for other in blocks
        )
        if inside or (touches and free and union[1] - union[0] < most):
            if touches and free and union[1] - union[0] < most:
                block.low, block.high = union
            block.hits.append(hit)
            return True
    return False


def _apart(blocks: Sequence[_Block | Hit], text: _Text, *, at: int, low: int, high: int) -> tuple[int, int]:
    """The part of a window around `at` that no earlier block has."""
    for block in blocks:
        if isinstance(block, _Block) and block.text is text:
            if block.high < at:
                low = max(low, block.high + 1)
            elif block.low > at:
                high = min(high, block.low - 1)
    return low, high


def _block_hit(block: _Block) -> Hit:
    best, chunks = block.hits[0], block.text.chunks[block.low : block.high + 1]
    if len(chunks) == 1 and len(block.hits) == 1:
        return best
    span = Span(min(chunk.span.start for chunk in chunks), max(chunk.span.end for chunk in chunks))
    pages = [page for chunk in chunks for page in chunk.pages]
    chunk = replace(
        best.chunk,
        span=span,
        text=block.text.document.text[span.start : span.end],
        index_text="",
        pages=tuple(range(min(pages), max(pages) + 1)) if pages else (),
    )
    said = (
        f"with {len(chunks) - len(block.hits)} neighbours"
        if len(block.hits) == 1
        else (f"{len(block.hits)} passages found, with their neighbours")
    )
    spans = tuple(hit.chunk.span for hit in block.hits)
    duplicates = tuple(name for hit in block.hits for name in hit.duplicates)
    return replace(best, chunk=chunk, found=spans, duplicates=duplicates, reasons=(*best.reasons, said))
