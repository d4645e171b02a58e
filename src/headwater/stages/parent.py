"""Hits -> the larger passages that they were cut from.

Several children of one parent become one hit, at the place and with the score of the best of them. What was found
stays known, for citations and marks: `Hit.found` holds the children's spans. A passage without a parent stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headwater.filters import Filter, conjoin
from headwater.protocols import Catalog, Retriever
from headwater.stages._request import Watch, first, made, wanted
from headwater.types import Chunk, Hit, Query, Results, attributes

STAGE = "parent"
# Children to a parent, about: asked of the one inside at once.
OVER_FETCH: Final = 3


class Parents:
    """A Retriever of parents."""

    def __init__(self, inner: Retriever, *, catalog: Catalog) -> None:
        self._inner, self._catalog = inner, catalog

    def retrieve(self, query: Query) -> Results:
        """As many hits as asked for, if there are so many parents."""
        watch, need = Watch(query), wanted(query)
        where = conjoin(query.scope, query.where)
        count = need * OVER_FETCH
        while True:
            asked = first(query, count)
            results = watch.inside(lambda asked=asked: self._inner.retrieve(asked))  # type: ignore[misc]
            seen = results.hits[:count]
            kept = self._grouped(seen, where)
            if len(kept) >= need or len(seen) < count or watch.left == 0.0:
                break
            count *= OVER_FETCH
        return made(results, kept[:need], stage=STAGE, watch=watch, fewer=len(seen) - len(kept))

    def _grouped(self, hits: Sequence[Hit], where: Filter) -> list[Hit]:
        rows = self._catalog.chunks([hit.chunk.parent for hit in hits if hit.chunk.parent])
        groups: dict[int, list[Hit]] = {}
        parents: dict[int, Chunk] = {}
        for hit in hits:
            parent, record = rows.get(hit.chunk.parent, (None, None))
            # A filter on sections or pages holds for what is shown, not only for what was found.
            fits = parent is not None and record is not None and where.matches(attributes(record, parent))
            if parent is not None and fits and _holds(parent, hit.chunk):
                parents[parent.id] = parent
                groups.setdefault(parent.id, []).append(hit)
            else:
                groups[hit.chunk.id] = [hit]
        return [_widened(parents[id], group) if id in parents else group[0] for id, group in groups.items()]


def _holds(parent: Chunk, child: Chunk) -> bool:
    return parent.span.start <= child.span.start and child.span.end <= parent.span.end


def _widened(parent: Chunk, children: Sequence[Hit]) -> Hit:
    best = children[0]
    spans = tuple(child.chunk.span for child in children)
    said = f"stands for {len(children)} of its passages" if len(children) > 1 else "stands for a passage of it"
    duplicates = tuple(name for child in children for name in child.duplicates)
    return replace(best, chunk=parent, found=spans, duplicates=duplicates, reasons=(*best.reasons, said))
