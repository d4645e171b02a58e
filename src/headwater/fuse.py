"""Rankings -> one score per id, and one order.

A ranking is what a leg of a search, or one way to ask, found: ids with scores, best first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from headwater.types import Fusion, Mode, Scored

Leg = Literal["keyword", "semantic", "substring"]
LEGS: Final[Mapping[Mode, tuple[Leg, ...]]] = {
    "keyword": ("keyword",),
    "semantic": ("semantic",),
    "hybrid": ("keyword", "semantic"),
    "substring": ("substring",),
}


def ranks(ranking: Sequence[Scored]) -> dict[int, int]:
    """Each id's rank from 1; equal scores share a rank, so that the order of ties in an index has no say."""
    found: dict[int, int] = {}
    rank, last = 0, None
    for place, (chunk_id, score) in enumerate(ranking, start=1):
        if score != last:
            rank, last = place, score
        found[chunk_id] = rank
    return found


def in_order(
    ids: Iterable[int],
    scores: Mapping[int, float],
    place: Callable[[Sequence[int]], Mapping[int, Any]],
    *,
    most: int | None = None,
) -> list[int]:
    """Best first, ties by place, among the first so many at least. What a `place` is, is asked for ties alone."""
    order = sorted(ids, key=scores.__getitem__, reverse=True)
    ties: list[tuple[int, int]] = []
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or scores[order[end]] != scores[order[start]]:
            if end - start > 1:
                ties.append((start, end))
            start = end
            if most is not None and start >= most:
                break
    if ties:
        places = place([id for start, end in ties for id in order[start:end]])
        for start, end in ties:
            order[start:end] = sorted(order[start:end], key=places.__getitem__)
    return order


def normalised(ranking: Sequence[Scored]) -> dict[int, float]:
    """Scores stretched over 0 to 1; all 1 when there is nothing to stretch between."""
    scores = [score for _, score in ranking]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if low == high:
        return {chunk_id: 1.0 for chunk_id, _ in ranking}
    return {chunk_id: (score - low) / (high - low) for chunk_id, score in ranking}


def covered(ranking: Sequence[Scored], best: float, *, chance: float = 0.0) -> dict[int, float]:
    """Scores as shares of the best one that there could be, 0 to 1, counted from what is covered by chance."""
    # A short title that fits exactly may be boosted above what the content alone can reach.
    most = max((score for _, score in ranking), default=0.0)
    whole = max(best, most)
    if whole <= 0:
        return {chunk_id: 1.0 for chunk_id, _ in ranking}
    return {chunk_id: max(0.0, max(score, 0.0) / whole - chance) / (1 - chance) for chunk_id, score in ranking}


def fuse(
    rankings: Mapping[Leg, Sequence[Scored]],
    *,
    method: Fusion = "rrf",
    weights: Mapping[Leg, float],
    k: int = 60,
    best_keyword: float = 0.0,
    chance: float = 0.0,
) -> dict[int, float]:
    """Several rankings -> one score per id; absent from a leg counts 0 there.

    `rrf` sums w/(k+rank), `weighted_score` sums w*score with each leg's scores stretched over 0 to 1. `adaptive` does
    that too, but takes of the words how much of the query a chunk covers (of `best_keyword`, which is all of it): where
    even the best hit has few of the query's words, as across languages, it is meaning that decides. What is covered up
    to `chance` counts for nothing: any text in the language of the query has that much of it. Weights are shares of the
    legs given: 1 and 1 are 0.5 and 0.5 (plain RRF), and a leg that failed does not lower the rest.
    """
    total = sum(weights[leg] for leg in rankings)
    # Legs that were all weighted 0 have to be told apart by something: they count alike.
    shares = {leg: weights[leg] / total if total else 1 / len(rankings) for leg in rankings}
    fused: dict[int, float] = {}
    for leg in sorted(rankings):  # a fixed order, for floating point addition is not associative
        if method == "rrf":
            points = {chunk_id: 1 / (k + rank) for chunk_id, rank in ranks(rankings[leg]).items()}
        elif method == "adaptive" and leg == "keyword":
            points = covered(rankings[leg], best_keyword, chance=chance)
        else:
            points = normalised(rankings[leg])
        for chunk_id, point in points.items():
            fused[chunk_id] = fused.get(chunk_id, 0.0) + shares[leg] * point
    return fused
