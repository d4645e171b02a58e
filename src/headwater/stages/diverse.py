"""Hits -> the same in another order, each as relevant and as unlike those before it as can be.

Maximal marginal relevance: the next hit is the one with the most `lambda * relevance - (1 - lambda) * the cosine with
the nearest of those already chosen`. Carbonell and Goldstein, SIGIR 1998.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headwater.errors import BackendError
from headwater.protocols import Catalog, Retriever
from headwater.stages._request import Watch, first, made, stretched, wanted, with_score
from headwater.types import Hit, Matrix, Query, Results

STAGE = "mmr"


class Diverse:
    """A Retriever whose first hits differ from one another. `mmr_lambda` 1 is relevance only, 0 diversity only."""

    def __init__(self, inner: Retriever, *, catalog: Catalog) -> None:
        self._inner, self._catalog = inner, catalog

    def retrieve(self, query: Query) -> Results:
        """The first `rerank_depth` hits of the one inside in another order, then the others as they were."""
        watch, options = Watch(query), query.options
        depth = min(options.rerank_depth, options.candidates)
        results = watch.inside(lambda: self._inner.retrieve(first(query, max(wanted(query), depth))))
        head, tail = results.hits[:depth], results.hits[depth:]
        weight = 1.0 if options.mmr_lambda is None else options.mmr_lambda
        try:
            vectors = self._vectors(head)
        except BackendError as error:
            lacking = [f"mmr skipped, the order is kept: {error}"]
            return made(results, results.hits, stage=STAGE, watch=watch, lacking=lacking)
        order = marginal([hit.score for hit in head], vectors, weight=weight)
        chosen = [with_score(head[index], STAGE, value) for index, value in order]
        return made(results, [*chosen, *tail], stage=STAGE, watch=watch)

    def _vectors(self, hits: Sequence[Hit]) -> Matrix:
        """One row per hit; a chunk without a vector is like nothing else."""
        ids, found = self._catalog.vectors([hit.chunk.id for hit in hits])
        rows = dict(zip(ids.tolist(), found, strict=True))
        dim = found.shape[1] if len(found) else 1
        zero = np.zeros(dim, dtype=np.float32)
        return np.array([rows.get(hit.chunk.id, zero) for hit in hits], dtype=np.float32).reshape(len(hits), dim)


def marginal(relevance: Sequence[float], vectors: Matrix, *, weight: float) -> list[tuple[int, float]]:
    """The order, as places of the input each with its worth when it was chosen; ties by place. NaN is worth least."""
    worth = np.array(stretched(relevance), dtype=np.float64)
    rows = np.nan_to_num(np.asarray(vectors, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows /= np.where(lengths > 0, lengths, 1.0)
    # Nothing is chosen yet: the first is judged by its relevance alone.
    nearest = np.zeros(len(worth))
    left = np.ones(len(worth), dtype=bool)
    order: list[tuple[int, float]] = []
    for _ in range(len(worth)):
        value = np.where(left, weight * worth - (1 - weight) * nearest, -np.inf)
        index = int(np.argmax(value))  # the first of equals
        order.append((index, float(value[index])))
        left[index] = False
        # One row at a time: a product of all with all would wake threads that busy cores wait for.
        cosines = rows @ rows[index]
        nearest = np.maximum(nearest, cosines) if len(order) > 1 else cosines
    return order
