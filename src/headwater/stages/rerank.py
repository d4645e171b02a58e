"""Hits -> the first of them again, in the order of a reranker that looks at the question and each passage together.

Only the first `rerank_depth` are looked at; the others follow as they were. A reranker that fails, is late or answers
nonsense changes nothing: the order stays and `degraded` says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from headwater.errors import BackendError
from headwater.protocols import Reranker, Retriever
from headwater.stages._request import Pace, Watch, first, made, place, stretched, wanted, with_score, within
from headwater.types import Hit, Query, Results

STAGE = "rerank"


class Reranked:
    """A Retriever in another's order.

    A reranker may have a `share`: how much its scores count beside those that the hits came with, both stretched over
    0 to 1. Without one its score is all that counts. One that says it is `instant` is called without a thread.
    """

    def __init__(self, inner: Retriever, *, reranker: Reranker, pace: Pace) -> None:
        self._inner, self._reranker, self._pace = inner, reranker, pace

    def retrieve(self, query: Query) -> Results:
        """The hits of the one inside, the first of them in the reranker's order."""
        watch = Watch(query)
        # A preset that considers few candidates has few looked at again.
        depth = min(query.options.rerank_depth, query.options.candidates)
        results = watch.inside(lambda: self._inner.retrieve(first(query, max(wanted(query), depth))))
        head, tail = results.hits[:depth], results.hits[depth:]
        if not head:
            return made(results, results.hits, stage=STAGE, watch=watch)
        try:
            scored = rescored(query.text, head, reranker=self._reranker, pace=self._pace, left=watch.left)
        except BackendError as error:
            lacking = [f"rerank skipped, the fused order is kept: {error}"]
            return made(results, results.hits, stage=STAGE, watch=watch, lacking=lacking)
        return made(results, [*scored, *tail], stage=STAGE, watch=watch)


def rescored(text: str, hits: Sequence[Hit], *, reranker: Reranker, pace: Pace, left: float) -> list[Hit]:
    """Hits in the reranker's order, ties by place; BackendError when there is no sound answer in the time left."""
    likely = pace.likely(reranker.fingerprint)
    if left == 0.0:
        raise BackendError("no time was left")
    if left <= likely:
        raise BackendError(f"{left * 1000:.0f} ms are left, and it takes about {likely * 1000:.0f} ms")
    watch = Watch(Query(text=text))
    if getattr(reranker, "instant", False):
        scores = list(reranker.score(text, hits, deadline_seconds=left))
    else:
        scores = list(within(left, lambda: reranker.score(text, hits, deadline_seconds=left)))
    pace.took(reranker.fingerprint, watch.seconds)
    if len(scores) != len(hits):
        raise BackendError(f"{reranker.fingerprint!r} gave {len(scores)} scores for {len(hits)} passages")
    if not all(isinstance(score, int | float) and isfinite(score) for score in scores):
        raise BackendError(f"{reranker.fingerprint!r} gave a score that is no number")
    share = float(getattr(reranker, "share", 1.0))
    final = scores if share >= 1.0 else _mixed(scores, [hit.score for hit in hits], share)
    told = [
        with_score(hit, STAGE, float(score), score=float(total), ranks={**hit.ranks, "before_rerank": rank})
        for rank, (hit, score, total) in enumerate(zip(hits, scores, final, strict=True), start=1)
    ]
    return sorted(told, key=lambda hit: (-hit.score, place(hit)))


def _mixed(scores: Sequence[float], before: Sequence[float], share: float) -> list[float]:
    pairs = zip(stretched(scores), stretched(before), strict=True)
    return [share * new + (1 - share) * old for new, old in pairs]
