"""Judged questions and ways to search -> the figures of each way, and how it differs from the first of them.

The search is a call, so that a test set is searched in its index and a person's own questions in their own documents.
Differences are question by question, with the interval that chance explains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any, Final

import numpy as np

from headwater.evaluate.metrics import DEEPEST, Interval, interval, judged
from headwater.evaluate.run import ranked_documents
from headwater.types import Results

# "page" is the share of the right documents among those that come back: what a change of `top_n` moves.
TUNED: Final = ("ndcg@10", "mrr@10", "page")
LATE_PERCENT: Final = 95

Search = Callable[[str, Mapping[str, Any]], Results]
OnTried = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One way to search: what it changes, its means, how these differ from the first way's, and its latency."""

    changes: Mapping[str, Any]
    figures: Mapping[str, float]
    differences: Mapping[str, Interval]
    p95_ms: float


def variants(choices: Mapping[str, Sequence[Any]], *, now: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination, each as what it changes of the settings `now`; the first changes nothing.

    `keyword_weight` is a share, so the other leg gets the rest, and it says nothing where one leg is all there is.
    """
    found: list[dict[str, Any]] = [{}]
    names = [name for name, values in choices.items() if values]
    for values in product(*(choices[name] for name in names)):
        asked = dict(zip(names, values, strict=True))
        if asked.get("mode", now["mode"]) != "hybrid":
            asked.pop("keyword_weight", None)
        elif "keyword_weight" in asked:
            asked["semantic_weight"] = round(1 - float(asked["keyword_weight"]), 4)
        changes = {name: value for name, value in asked.items() if value != now[name]}
        if changes not in found:
            found.append(changes)
    return found


def tune(
    search: Search,
    questions: Mapping[str, Mapping[str, int]],
    ways: Sequence[Mapping[str, Any]],
    *,
    on_progress: OnTried | None = None,
) -> list[Tried]:
    """Search for every question in every way. `questions` are texts with the grades of documents, by their ids."""
    tried: list[Tried] = []
    first: dict[str, list[float]] = {}
    search(next(iter(questions)), {})  # the first search opens the index; nobody waits for that twice
    for number, changes in enumerate(ways):
        values: dict[str, list[float]] = {name: [] for name in TUNED}
        took: list[float] = []
        for at, (text, grades) in enumerate(questions.items(), start=1):
            began = perf_counter()
            results = search(text, changes)
            took.append((perf_counter() - began) * 1000)
            for name, value in _judged(results, grades).items():
                values[name].append(value)
            if on_progress is not None:
                on_progress(number * len(questions) + at, len(ways) * len(questions))
        first = first or values
        tried.append(
            Tried(
                changes=dict(changes),
                figures={name: float(np.mean(values[name])) for name in TUNED},
                differences={
                    name: interval([new - old for new, old in zip(values[name], first[name], strict=True)])
                    for name in TUNED
                },
                p95_ms=float(np.percentile(took, LATE_PERCENT)),
            )
        )
    return tried


def _judged(results: Results, grades: Mapping[str, int]) -> dict[str, float]:
    found = judged(ranked_documents(results)[:DEEPEST], grades)
    right = {document for document, grade in grades.items() if grade > 0}
    page = {hit.document_id for hit in results}
    return {"ndcg@10": found["ndcg@10"], "mrr@10": found["mrr@10"], "page": len(right & page) / max(1, len(right))}
