"""What stages share: how they ask the one inside for more, how much time is left, and how results are put together.

A stage asks for the first so many hits of the one inside and gives back the first so many of its own: only the
outermost, `Paged`, knows about pages. So that page two goes on where page one ended, how many hits a stage looks at
does not depend on the page, as long as the page lies within them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from queue import Empty, SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, Final, TypeVar

from headwater.asked import read
from headwater.errors import BackendError, HeadwaterError, UsageError
from headwater.types import Hit, Query, Results

Value = TypeVar("Value")

# The newest run of a stage counts this much in what it is expected to take: a few runs are enough to adapt.
NEWEST_SHARE: Final = 0.3


class Pace:
    """How long each stage has taken lately, in seconds. Shared by all queries of an engine."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def likely(self, stage: str) -> float:
        """What it is expected to take; nothing is expected of one that never ran."""
        return self._seconds.get(stage, 0.0)

    def took(self, stage: str, seconds: float) -> None:
        """Remember a run."""
        before = self._seconds.get(stage, seconds)
        self._seconds[stage] = before + NEWEST_SHARE * (seconds - before)


class Watch:
    """The time of one stage in one search: its own, and what is left of the request's."""

    def __init__(self, query: Query) -> None:
        self._deadline = perf_counter() + query.options.deadline_seconds
        self._own = 0.0
        self._since = perf_counter()

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self._deadline - perf_counter())

    def inside(self, work: Callable[[], Value]) -> Value:
        """Do what is not this stage's own work."""
        self._own += perf_counter() - self._since
        try:
            return work()
        finally:
            self._since = perf_counter()

    @property
    def seconds(self) -> float:
        """The stage's own time up to now."""
        return self._own + perf_counter() - self._since


def check(query: Query) -> None:
    """Refuse what cannot be searched for."""
    options = query.options
    if not query.text.strip():
        raise UsageError(f"a query needs at least one word, got {query.text!r}; to see all documents, list them")
    if options.top_n < 1 or options.offset < 0 or options.candidates < 1:
        got = f"top_n={options.top_n!r}, offset={options.offset!r}, candidates={options.candidates!r}"
        raise UsageError(f"top_n and candidates start at 1 and offset at 0, got {got}")
    if min(options.keyword_weight, options.semantic_weight) < 0 or options.rrf_k < 0:
        got = f"{options.keyword_weight!r}, {options.semantic_weight!r}, {options.rrf_k!r}"
        raise UsageError(f"keyword_weight, semantic_weight and rrf_k cannot be negative, got {got}")
    if not 0 <= options.chance_coverage < 1:
        raise UsageError(f"chance_coverage is a share from 0 to below 1, got {options.chance_coverage!r}")


def understood(query: Query) -> Query:
    """The query with its phrases and exclusions taken out of its text; one that was read already stays as it is."""
    if query.phrases is not None or query.options.mode == "substring":
        return query
    asked = read(query.text)
    return replace(query, text=asked.text, phrases=asked.phrases, excluded=asked.excluded)


def wanted(query: Query) -> int:
    """How many hits, from the first, a request needs."""
    return query.options.offset + query.options.top_n


def first(query: Query, count: int, **changes: Any) -> Query:
    """The same request for the first `count` hits."""
    return replace(query, options=replace(query.options, offset=0, top_n=max(count, 1), **changes))


def made(
    results: Results, hits: Sequence[Hit], *, stage: str, watch: Watch, fewer: int = 0, lacking: Iterable[str] = ()
) -> Results:
    """What a stage gives back: its hits, documents in their order, its time, and what did not work."""
    timings = {**results.timings_ms, stage: results.timings_ms.get(stage, 0.0) + watch.seconds * 1000}
    return replace(
        results,
        hits=tuple(hits),
        total=max(results.total - fewer, len(hits)),
        document_counts=in_order(hits, results.document_counts),
        degraded=tuple(dict.fromkeys((*results.degraded, *lacking))),
        timings_ms=timings,
    )


def in_order(hits: Iterable[Hit], counts: Mapping[str, int]) -> dict[str, int]:
    """The counts by document, the documents of the hits first."""
    ahead = {hit.document_id: counts.get(hit.document_id, 1) for hit in hits}
    return {**ahead, **{id: count for id, count in counts.items() if id not in ahead}}


def place(hit: Hit) -> tuple[str, int, int]:
    """What ties are broken by."""
    return hit.document_id, hit.chunk.span.start, hit.chunk.span.end


def with_score(hit: Hit, stage: str, value: float, **changes: Any) -> Hit:
    """The hit with one more score."""
    return replace(hit, scores={**hit.scores, stage: value}, **changes)


def stretched(scores: Sequence[float]) -> list[float]:
    """Scores over 0 to 1; all 1 where there is nothing between them, 0 for what is no number."""
    there = [score for score in scores if isfinite(score)]
    low, high = min(there, default=0.0), max(there, default=0.0)
    if high <= low:
        return [1.0 if isfinite(score) else 0.0 for score in scores]
    # By halves where they are further apart than the largest number there is.
    part = 1.0 if isfinite(high - low) else 0.5
    span = part * high - part * low
    return [(part * score - part * low) / span if isfinite(score) else 0.0 for score in scores]


def within(seconds: float, work: Callable[[], Value]) -> Value:
    """Do it in a thread of its own and wait so long for it; BackendError when it is not done by then.

    What goes on too long is left behind, so that a server that never answers costs its deadline and no more.
    """
    done: SimpleQueue[tuple[Value | None, HeadwaterError | None]] = SimpleQueue()

    def run() -> None:
        try:
            done.put((work(), None))
        except HeadwaterError as error:
            done.put((None, error))
        except BaseException as error:
            done.put((None, BackendError(f"{type(error).__name__}: {error}")))
            raise

    Thread(target=run, daemon=True, name="headwater-within").start()
    try:
        value, failure = done.get(timeout=max(seconds, 0.0))
    except Empty:
        raise BackendError(f"not done within {seconds:.2f} s") from None
    if failure is not None:
        raise failure
    return value  # type: ignore[return-value]
