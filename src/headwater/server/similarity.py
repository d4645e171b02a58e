"""Hits -> their similarities from 0 to 1, as clients of RAGFlow and Dify read them: comparable from search to search.

The score that orders hits has no bounds: BM25 has none, and neither has what a reranker says. So a similarity is that
of the legs, before anything looked at the hits again, which is also what `similarity_threshold` is compared with.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from headwater.types import Hit

# The BM25 that counts as half: that of a passage with two or three rare words of the question.
HALF_BM25: Final = 10.0


def similarities(hits: Sequence[Hit], mode: str) -> list[float]:
    """One for each hit. One that was put above another is at least as similar, so the order is the same."""
    found: list[float] = []
    least = 0.0
    for hit in reversed(hits):
        least = max(least, _of_legs(hit.scores, mode))
        found.append(least)
    return found[::-1]


def by_meaning(scores: Mapping[str, float]) -> float:
    """The cosine; opposites are as unlike as strangers. 0 where only words found it."""
    return _clipped(scores.get("semantic", 0.0))


def by_words(scores: Mapping[str, float]) -> float:
    """BM25 as a share: 0 for none, half for `HALF_BM25`, never quite 1."""
    score = max(0.0, float(scores.get("keyword", scores.get("substring", 0.0))))
    return score / (score + HALF_BM25)


def _of_legs(scores: Mapping[str, float], mode: str) -> float:
    if mode == "semantic":
        return by_meaning(scores)
    if mode in ("keyword", "substring") or "fused" not in scores:
        return by_words(scores)
    return _clipped(scores["fused"])  # shares of 1, whatever the method


def _clipped(score: float) -> float:
    return min(1.0, max(0.0, float(score)))
