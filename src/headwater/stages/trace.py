"""What the stages of one search had in their hands, for whoever wants to know why something was found or not.

A search is traced by giving its parts a Trace; the stages themselves do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.protocols import Retriever
from headwater.types import Hit, Query, Results, Scored, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run of the legs."""

    query: Query
    rankings: Mapping[str, Sequence[Scored]]  # by leg, only what is alive and held what was asked for word for word
    scores: Mapping[int, Mapping[str, float]]  # of all of these, by stage
    order: Sequence[int]  # what passed the threshold, best first
    documents: Mapping[int, str]  # whose chunks they are
    fallback_reason: str | None
    degraded: tuple[str, ...]
    vector: Vector | None = None  # of the query; none where meaning was not asked


@dataclass(slots=True)
class Trace:
    """Filled by the search that it is given to."""

    runs: list[Ran] = field(default_factory=list)
    stages: dict[str, Sequence[Hit]] = field(default_factory=dict)  # in order; the widest that each gave back

    def ran(self, run: Ran) -> None:
        """Remember a run of the legs."""
        self.runs.append(run)

    def around(self, stage: str, inner: Retriever) -> Retriever:
        """The stage, watched."""
        return _Watched(stage, inner, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """One search, from inside. Passages go by their public ids, `document_id:start-end`, best first."""

    results: Results
    total: int
    ids: tuple[str, ...]
    query_vector: tuple[float, ...]  # empty where meaning was not asked
    keywords: tuple[str, ...]  # the telling words of the query, as it writes them
    terms: Mapping[str, tuple[str, ...]]  # by lane of the index: what was looked up
    aggregation: Mapping[str, int]  # document id -> passages among `total`
    highlights: Mapping[str, tuple[str, ...]]
    fields: Mapping[str, Mapping[str, Any]]  # by passage: its text, and what filters see of it
    found: Mapping[str, int] = field(default_factory=dict)  # by leg and by stage: how many passages it gave


class _Watched:
    def __init__(self, stage: str, inner: Retriever, trace: Trace) -> None:
        self._stage, self._inner, self._trace = stage, inner, trace

    def retrieve(self, query: Query) -> Results:
        """What the stage gives, remembered."""
        results = self._inner.retrieve(query)
        if len(results.hits) >= len(self._trace.stages.get(self._stage, ())):
            self._trace.stages.pop(self._stage, None)  # so that the order is that of the nesting
            self._trace.stages[self._stage] = results.hits
        return results
