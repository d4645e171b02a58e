"""Query -> hits, best first.

Two legs rank chunk ids, by words and by meaning. The catalog says which ids are alive, the live ranks are fused, and
one page is read and checked against the filter again: an id the catalog does not know is not there. So an index may
be late, hold too much or fail, and what comes back is still true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter
from typing import Final, Literal

import numpy as np

from headwater.errors import BackendError, UsageError
from headwater.filters import Filter, conjoin
from headwater.highlight import Found, Terms, reasons, snippets
from headwater.protocols import Catalog, Embedder, Retriever, TextIndex, VectorIndex
from headwater.tokens import Cutter, fold
from headwater.types import Fusion, Hit, Mode, Options, Query, Results, Scored, Vector, attributes

Leg = Literal["keyword", "semantic"]
LEGS: Final[Mapping[Mode, tuple[Leg, ...]]] = {
    "keyword": ("keyword",),
    "semantic": ("semantic",),
    "hybrid": ("keyword", "semantic"),
}

TOO_SHORT: Final = "query_too_short_for_semantic"
SEMANTIC_FAILED: Final = "semantic_failed_fallback_to_keyword"
KEYWORD_FAILED: Final = "keyword_failed_fallback_to_semantic"

MIN_SEMANTIC_CHARS: Final = 2  # checklist item 69: one letter, or one Chinese character, has no meaning to compare
MAX_DOUBLINGS: Final = 4  # 16 times the candidates: more dead ids than that are for the sweep to remove
MAX_RUNS: Final = 10  # once more for every update that went through it; who writes faster than that is not waited for
PICKUP_SECONDS: Final = 0.02  # a pool that has not begun by then is full; the caller works rather than wait for itself

Place = tuple[str, int, int]  # document id, start, end: what ties are broken by


class Freshness:
    """Which generation of the catalog each index has been brought up to. Shared by all queries of an engine."""

    def __init__(self) -> None:
        self._seen: dict[Leg, int] = {}
        self._locks: dict[Leg, Lock] = {"keyword": Lock(), "semantic": Lock()}

    def bring(self, leg: Leg, index: TextIndex | VectorIndex, *, generation: int) -> None:
        """Refresh the index if it has not been since this generation; the first to notice does it for all."""
        if self._seen.get(leg, -1) < generation:
            with self._locks[leg]:
                if self._seen.get(leg, -1) < generation:
                    index.refresh()
                    self._seen[leg] = generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What retrieval works with. `pool` runs one leg beside the calling thread."""

    catalog: Catalog
    text: TextIndex
    vectors: VectorIndex
    embedder: Embedder
    pool: Executor
    cutter: Cutter = field(default_factory=Cutter)
    freshness: Freshness = field(default_factory=Freshness, init=False, compare=False)


def compose(parts: Parts, options: Options) -> Retriever:
    """The retriever these options ask for: stages nested around Hybrid, none of which is switched on yet."""
    return Hybrid(parts)


class Hybrid:
    """A Retriever over the words, the vectors, or both."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def retrieve(self, query: Query) -> Results:
        """Hits, best first, ties by document and span. Raises BackendError only when no leg could answer."""
        check(query)
        run = _Run(self._parts, query)
        results, torn = run.results()
        for _ in range(MAX_RUNS - 1):
            if not torn or run.clock.over:
                break
            results, torn = run.results()
        return results


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


# -------------------------------------------------------------------------------------------- fusion


def ranks(ranking: Sequence[Scored]) -> dict[int, int]:
    """Each id's rank from 1; equal scores share a rank, so that the order of ties in an index has no say."""
    found: dict[int, int] = {}
    rank, last = 0, None
    for place, (chunk_id, score) in enumerate(ranking, start=1):
        if score != last:
            rank, last = place, score
        found[chunk_id] = rank
    return found


def normalised(ranking: Sequence[Scored]) -> dict[int, float]:
    """Scores stretched over 0 to 1; all 1 when there is nothing to stretch between."""
    scores = [score for _, score in ranking]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    if low == high:
        return {chunk_id: 1.0 for chunk_id, _ in ranking}
    return {chunk_id: (score - low) / (high - low) for chunk_id, score in ranking}


def covered(ranking: Sequence[Scored], best: float) -> dict[int, float]:
    """Scores as shares of the best one that there could be, 0 to 1."""
    # A short title that fits exactly may be boosted above what the content alone can reach.
    most = max((score for _, score in ranking), default=0.0)
    whole = max(best, most)
    return {chunk_id: max(score, 0.0) / whole if whole > 0 else 1.0 for chunk_id, score in ranking}


def fuse(
    rankings: Mapping[Leg, Sequence[Scored]],
    *,
    method: Fusion = "rrf",
    weights: Mapping[Leg, float],
    k: int = 60,
    best_keyword: float = 0.0,
) -> dict[int, float]:
    """Several rankings -> one score per id; absent from a leg counts 0 there.

    `rrf` sums w/(k+rank), `weighted_score` sums w*score with each leg's scores stretched over 0 to 1. `adaptive` does
    that too, but takes of the words how much of the query a chunk covers (of `best_keyword`, which is all of it): where
    even the best hit has few of the query's words, as across languages, it is meaning that decides. Weights are shares
    of the legs given: 1 and 1 are 0.5 and 0.5 (plain RRF), and a leg that failed does not lower the rest.
    """
    total = sum(weights[leg] for leg in rankings)
    # Legs that were all weighted 0 have to be told apart by something: they count alike.
    shares = {leg: weights[leg] / total if total else 1 / len(rankings) for leg in rankings}
    fused: dict[int, float] = {}
    for leg in sorted(rankings):  # a fixed order, for floating point addition is not associative
        if method == "rrf":
            points = {chunk_id: 1 / (k + rank) for chunk_id, rank in ranks(rankings[leg]).items()}
        elif method == "adaptive" and leg == "keyword":
            points = covered(rankings[leg], best_keyword)
        else:
            points = normalised(rankings[leg])
        for chunk_id, point in points.items():
            fused[chunk_id] = fused.get(chunk_id, 0.0) + shares[leg] * point
    return fused


# ------------------------------------------------------------------------------------------- one run


class _Clock:
    """Milliseconds per stage, and how much of the deadline is left."""

    def __init__(self, deadline_seconds: float) -> None:
        self.began = perf_counter()
        self.deadline = self.began + deadline_seconds
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        try:
            yield
        finally:
            took = (perf_counter() - begin) * 1000
            self.milliseconds[name] = self.milliseconds.get(name, 0.0) + took

    @property
    def left(self) -> float:
        return max(0.0, self.deadline - perf_counter())

    @property
    def over(self) -> bool:
        return self.left == 0.0

    def timings(self) -> dict[str, float]:
        return {**self.milliseconds, "total": (perf_counter() - self.began) * 1000}


class _Run:
    """The state of one retrieval: which legs still work, what was lost on the way, what was seen dead."""

    def __init__(self, parts: Parts, query: Query) -> None:
        self.parts, self.query, self.options = parts, query, query.options
        self.clock = _Clock(query.options.deadline_seconds)
        self.where: Filter = conjoin(query.scope, query.where)
        self.legs: tuple[Leg, ...] = LEGS[query.options.mode]
        self.fallback_reason: str | None = None
        self.degraded: dict[str, None] = {}  # a set that keeps its order
        self.vector: Vector | None = None
        self.best_keyword = 0.0
        self.dead: set[int] = set()
        self.generation = 0
        if "semantic" in self.legs and len(fold(query.text).strip()) < MIN_SEMANTIC_CHARS:
            self.legs, self.fallback_reason = ("keyword",), TOO_SHORT

    @property
    def mode(self) -> Mode:
        return "hybrid" if len(self.legs) > 1 else self.legs[0]

    def results(self) -> tuple[Results, bool]:
        """The results, and whether an update went through them so that they should be made again."""
        self.generation = self.parts.catalog.generation()
        rankings, places, torn = self._live()
        with self.clock.stage("fuse"):
            scores = self._scores(rankings)
            order = sorted(self._above_threshold(scores), key=lambda id: (-self._score(scores[id]), places[id]))
            page = order[self.options.offset : self.options.offset + self.options.top_n]
        hits, missing = self._hits(page, scores, {leg: ranks(ranking) for leg, ranking in rankings.items()})
        results = Results(
            query=self.query,
            hits=hits,
            total=len(order),
            mode_used=self.mode,
            fallback_reason=self.fallback_reason,
            degraded=tuple(self.degraded),
            document_counts=dict(Counter(places[chunk_id][0] for chunk_id in order)),
            timings_ms=self.clock.timings(),
            generation=self.generation,
        )
        return results, torn or missing

    def _live(self) -> tuple[dict[Leg, list[Scored]], dict[int, Place], bool]:
        """The rankings without the dead, deeper and deeper until a page is full or the legs have no more.

        Torn: an id died while we looked, so its document's new version may be one we have not looked for.
        """
        wanted = self.options.offset + self.options.top_n
        limit = max(self.options.candidates, wanted)
        for _ in range(MAX_DOUBLINGS + 1):
            rankings = self._rankings(limit)
            ids = list(dict.fromkeys(chunk_id for ranking in rankings.values() for chunk_id, _ in ranking))
            with self.clock.stage("locate"):
                places = self.parts.catalog.locate(ids)
            exhausted = all(len(ranking) < limit for ranking in rankings.values())
            if len(places) >= wanted or exhausted or self.clock.over:
                break
            limit *= 2
        gone = set(ids) - places.keys() - self.dead
        torn = bool(gone) and self.parts.catalog.generation() != self.generation
        self.dead |= gone
        live = {leg: [one for one in ranking if one.chunk_id in places] for leg, ranking in rankings.items()}
        return live, places, torn

    # -- legs

    def _rankings(self, limit: int) -> dict[Leg, list[Scored]]:
        """What each leg finds. A leg that fails is left out from then on, as long as another one answers."""
        found: dict[Leg, list[Scored]] = {}
        failed: dict[Leg, BackendError] = {}
        semantic = self.parts.pool.submit(self._semantic, limit) if "semantic" in self.legs else None
        if "keyword" in self.legs:
            try:
                found["keyword"] = self._keyword(limit)
            except BackendError as error:
                failed["keyword"] = error
        if semantic is not None:
            try:
                found["semantic"] = self._await(semantic, lambda: self._semantic(limit))
            except BackendError as error:
                failed["semantic"] = error
        if "semantic" in failed and "keyword" not in self.legs:
            found["keyword"] = self._keyword(limit)
        if not found:
            raise failed["keyword"]
        for leg, failure in failed.items():
            self.degraded[f"{leg} search failed: {failure}"] = None
            self.fallback_reason = SEMANTIC_FAILED if leg == "semantic" else KEYWORD_FAILED
            self.legs = tuple(found)
        return found

    def _keyword(self, limit: int) -> list[Scored]:
        with self.clock.stage("refresh"):
            self.parts.freshness.bring("keyword", self.parts.text, generation=self.generation)
        with self.clock.stage("keyword"):
            if self.options.fusion == "adaptive" and len(self.legs) > 1:
                self.best_keyword = self.parts.text.best_score(self.query.text)
            return self.parts.text.search(self.query.text, limit, self.where)

    def _semantic(self, limit: int) -> list[Scored]:
        with self.clock.stage("refresh_vectors"):
            self.parts.freshness.bring("semantic", self.parts.vectors, generation=self.generation)
        with self.clock.stage("semantic"):
            if self.vector is None:
                self.vector = self.parts.embedder.embed([self.query.text], "query")[0]
            # A zero vector is as far from everything: ranking by it would be ranking by id.
            return self.parts.vectors.search(self.vector, limit, self.where) if self.vector.any() else []

    def _await(self, future: Future[list[Scored]], work: Callable[[], list[Scored]]) -> list[Scored]:
        wait([future], timeout=min(PICKUP_SECONDS, self.clock.left))
        if future.cancel():
            return work()
        try:
            return future.result(timeout=self.clock.left)
        except TimeoutError:
            raise BackendError(f"no result within {self.options.deadline_seconds:g} s, went on without it") from None

    # -- scores

    def _scores(self, rankings: Mapping[Leg, list[Scored]]) -> dict[int, dict[str, float]]:
        weights: dict[Leg, float] = {"keyword": self.options.keyword_weight, "semantic": self.options.semantic_weight}
        options, best = self.options, self.best_keyword
        fused = fuse(rankings, method=options.fusion, weights=weights, k=options.rrf_k, best_keyword=best)
        scores: dict[int, dict[str, float]] = {chunk_id: {} for chunk_id in fused}
        for leg, ranking in rankings.items():
            for chunk_id, score in ranking:
                scores[chunk_id][leg] = score
        for chunk_id, score in fused.items():
            scores[chunk_id]["fused"] = score
        return scores

    def _score(self, scores: Mapping[str, float]) -> float:
        """The score of the mode: one leg alone keeps its own, which says more than a rank."""
        return scores["fused"] if len(self.legs) > 1 else scores[self.legs[0]]

    def _above_threshold(self, scores: dict[int, dict[str, float]]) -> list[int]:
        least, on = self.options.threshold, self.options.threshold_on
        if least is None:
            return list(scores)
        if on == "semantic" and "semantic" not in self.legs:
            self.degraded[f"threshold {least:g} not applied: it is on the cosine, and only words were compared"] = None
            return list(scores)
        if on == "semantic":
            self._complete_cosines(scores)
        # A chunk whose vector is still to come has no cosine: it was found by its words, and stays.
        return [chunk_id for chunk_id, score in scores.items() if score.get(on, least) >= least]

    def _complete_cosines(self, scores: dict[int, dict[str, float]]) -> None:
        """Give what only the words found its cosine too, so that the threshold means the same for every hit."""
        lacking = [chunk_id for chunk_id, score in scores.items() if "semantic" not in score]
        if lacking and self.vector is not None:
            ids, matrix = self.parts.catalog.vectors(lacking)
            for chunk_id, cosine in zip(ids.tolist(), (matrix @ self.vector).astype(np.float64).tolist(), strict=True):
                scores[chunk_id]["semantic"] = cosine

    # -- page

    def _hits(
        self, page: Sequence[int], scores: Mapping[int, Mapping[str, float]], places: Mapping[Leg, Mapping[int, int]]
    ) -> tuple[tuple[Hit, ...], bool]:
        with self.clock.stage("read"):
            rows = self.parts.catalog.chunks(page)
        hits: list[Hit] = []
        with self.clock.stage("highlight"):
            terms = Terms.of(self.query.text, self.parts.cutter)
            heads: dict[str, dict[str, Found]] = {}  # by document: several hits of one share its title and address
            for rank, chunk_id in enumerate(page, start=self.options.offset + 1):
                chunk, record = rows.get(chunk_id, (None, None))
                # The index was asked to filter already; what a caller may not see is worth asking twice.
                if chunk is None or record is None or not self.where.matches(attributes(record, chunk)):
                    continue
                matches = terms.find(chunk.text)
                head = heads.get(record.id)
                if head is None:
                    head = heads[record.id] = _found(
                        terms,
                        title=record.title,
                        tags=" ".join(record.tags),
                        description=record.description,
                        address=record.uri,
                    )
                fields = {**head, **_found(terms, section=chunk.section)}
                hits.append(
                    Hit(
                        chunk=chunk,
                        record=record,
                        score=self._score(scores[chunk_id]),
                        rank=rank,
                        scores=scores[chunk_id],
                        ranks={leg: ranked[chunk_id] for leg, ranked in places.items() if chunk_id in ranked},
                        reasons=reasons(terms, chunk.text, matches, fields=fields, scores=scores[chunk_id]),
                        highlights=snippets(chunk.text, matches) if self.options.highlight else (),
                    )
                )
        return tuple(hits), any(chunk_id not in rows for chunk_id in page)


def _found(terms: Terms, **fields: str) -> dict[str, Found]:
    return {name: (field, terms.find(field)) for name, field in fields.items() if field}
