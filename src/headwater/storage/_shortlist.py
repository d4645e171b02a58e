"""Likely chunks, asked for in growing numbers -> the best of them by their exact vectors. For every vector index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from headwater.errors import BackendError
from headwater.storage._metric import similarities
from headwater.types import Ids, Matrix, Scored, Vector

GROWTH: Final = 4
# So many of the same score are put in order by id; of more the engine picks.
MAX_TIES: Final = 4096

# About so many likely ids with their exact vectors, of the living; and whether there are no more.
Likely = Callable[[int], tuple[Ids, Matrix, bool]]


def checked(vectors: Matrix, *, dim: int, rows: int) -> Matrix:
    """The vectors, one for each of so many ids; BackendError for what cannot be indexed or searched for."""
    given = np.asarray(vectors, dtype=np.float32)
    if given.ndim != 2 or given.shape[1] != dim:
        raise BackendError(
            f"the vector index has {dim} dimensions, got vectors of shape {given.shape}; "
            "use the embedder that the home was made with"
        )
    if len(given) != rows:
        raise BackendError(f"one vector for each id is needed, got {len(given)} for {rows}")
    if not np.isfinite(given).all():
        raise BackendError("a vector holds NaN or infinity; the embedder that made it is broken")
    return given


def best(likely: Likely, limit: int, *, wanted: int, query: Vector, metric: str) -> list[Scored]:
    """Best first by the metric, ties by id, at most `limit`, of `wanted` likely ones at first.

    More are asked for while there are too few, or while the last of them ties with what a longer list might hold.
    """
    while True:
        ids, rows, exhausted = likely(wanted)
        scores = similarities(query, rows, metric) if len(ids) else np.empty(0)
        order = np.lexsort((ids, -scores))
        ids, scores = ids[order], scores[order]
        enough = len(ids) >= limit and (scores[limit - 1] > scores[-1] or wanted >= MAX_TIES)
        if exhausted or enough:
            return list(map(Scored, ids[:limit].tolist(), scores[:limit].tolist()))
        wanted *= GROWTH
