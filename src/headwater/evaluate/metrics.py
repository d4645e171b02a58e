"""A ranking and the judgements of its query -> figures, equal to those of trec_eval; and how sure they are.

nDCG has the grade as its gain and log2(rank + 1) as its discount. The others know only relevant (a grade of 1 or more)
and not. MAP divides by all relevant documents, also by those that cannot be among the first ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final

import numpy as np
import numpy.typing as npt

METRICS: Final = ("ndcg@10", "recall@5", "recall@10", "recall@100", "mrr@10", "map@10", "precision@5")
DEEPEST: Final = 100  # the largest cut of the above

# 2,000 draws put the ends of a 95 % interval within about 2 % of its width; more changes nothing that one would print.
DRAWS: Final = 2_000
BLOCK: Final = 100  # draws in memory at a time
SEED: Final = 20_261_116
COVERED: Final = 95  # per cent


def judged(ranking: Sequence[str], grades: Mapping[str, int]) -> dict[str, float]:
    """Every metric of one ranking, best first, no document twice."""
    found = [max(0, grades.get(document, 0)) for document in ranking[:DEEPEST]]
    relevant = sum(grade > 0 for grade in grades.values())
    return {name: _metric(name, found, grades, relevant) if relevant else 0.0 for name in METRICS}


def _metric(name: str, found: Sequence[int], grades: Mapping[str, int], relevant: int) -> float:
    kind, _, cut = name.partition("@")
    first = found[: int(cut)]
    match kind:
        case "ndcg":
            ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[: int(cut)]
            return _gain(first) / _gain(ideal)
        case "recall":
            return sum(grade > 0 for grade in first) / relevant
        case "precision":
            return sum(grade > 0 for grade in first) / int(cut)
        case "mrr":
            return next((1 / rank for rank, grade in enumerate(first, start=1) if grade > 0), 0.0)
    hits = [rank for rank, grade in enumerate(first, start=1) if grade > 0]
    return sum(count / rank for count, rank in enumerate(hits, start=1)) / relevant


def _gain(grades: Sequence[int]) -> float:
    return sum(grade / log2(rank + 1) for rank, grade in enumerate(grades, start=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean, and between what it lies in 95 of 100 samples of as many queries."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """The mean of one value per query with its bootstrap interval (percentiles; always the same draws).

    For a comparison, `values` are the differences query by query: the interval is then the paired one.
    """
    sample: npt.NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if not len(sample):
        return Interval(mean=0.0, low=0.0, high=0.0)
    random = np.random.default_rng(SEED)
    means = [sample[random.integers(0, len(sample), (BLOCK, len(sample)))].mean(axis=1) for _ in range(DRAWS // BLOCK)]
    outside = (100 - COVERED) / 2
    low, high = np.percentile(np.concatenate(means), [outside, 100 - outside])
    return Interval(mean=float(sample.mean()), low=float(low), high=float(high))
