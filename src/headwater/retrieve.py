"""Query -> hits, best first.

Two legs rank chunk ids, by words and by meaning. The catalog says which ids are alive, the live ranks are fused, and
one page is read and checked against the filter again: an id the catalog does not know is not there. So an index may
be late, hold too much or fail, and what comes back is still true. `compose` nests the stages that a request asks for
around that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from headwater.asked import Wording
from headwater.cores import cores
from headwater.errors import BackendError
from headwater.filters import Filter, In, conjoin
from headwater.fuse import LEGS, Leg, covered, fuse, in_order, normalised, ranks
from headwater.highlight import has_code
from headwater.protocols import Catalog, Embedder, Reranker, Retriever, Rewriter, TextIndex, VectorIndex
from headwater.stages._request import Pace, check, understood
from headwater.stages._threshold import reached
from headwater.stages._under_way import Beside, Clock, Company, Freshness
from headwater.stages.collapse import Collapsed
from headwater.stages.corrected import Corrected
from headwater.stages.diverse import Diverse
from headwater.stages.everything import everything
from headwater.stages.listed import Listed
from headwater.stages.page import Explainer, Paged
from headwater.stages.parent import Parents
from headwater.stages.rerank import Reranked
from headwater.stages.several import Fed, Several
from headwater.stages.substring import containing
from headwater.stages.trace import Ran, Trace
from headwater.stages.window import Windowed
from headwater.tokens import Cutter, fold
from headwater.types import Hit, Mode, Options, Query, Results, Scored, Vector, attributes

__all__ = [
    "LEGS",
    "Freshness",
    "Hybrid",
    "Leg",
    "Parts",
    "check",
    "compose",
    "covered",
    "fuse",
    "normalised",
    "ranks",
    "understood",
]

TOO_SHORT: Final = "query_too_short_for_semantic"
SEMANTIC_FAILED: Final = "semantic_failed_fallback_to_keyword"
KEYWORD_FAILED: Final = "keyword_failed_fallback_to_semantic"
PHRASE_MISSING: Final = "phrase_not_found_fallback_to_words"

MIN_SEMANTIC_CHARS: Final = 2  # checklist item 69: one letter, or one Chinese character, has no meaning to compare
MAX_DOUBLINGS: Final = 4  # 16 times the candidates: more dead ids than that are for the sweep to remove
# With exact phrases or exclusions what fails them is dropped like the dead, and there may be much of it.
MAX_DOUBLINGS_WORDED: Final = 10
MOST_NARROWED: Final = 2_000  # documents with a phrase that a filter names; where there are more it is a common one
MAX_RUNS: Final = 10  # once more for every update that went through it; who writes faster than that is not waited for
HAND_OVER_SECONDS: Final = 0.001  # a thread that is free begins in a tenth of that
PICKUP_SECONDS: Final = 0.02  # a pool that has not begun by then is full; the caller works rather than wait for itself

Place = tuple[str, int, int]  # document id, start, end: what ties are broken by
NOWHERE: Final[Place] = ("", 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What retrieval works with. `pool` runs one leg beside the calling thread."""

    catalog: Catalog
    text: TextIndex
    vectors: VectorIndex
    embedder: Embedder
    pool: Executor
    cutter: Cutter = field(default_factory=Cutter)
    reranker: Callable[[str], Reranker] | None = None  # by name; raises for one that does not exist
    rewriter: Callable[[Options], Rewriter | None] | None = None  # none where no language model is set up
    synonyms: Callable[[str], Sequence[str]] | None = None  # other ways to write a question
    written: Callable[[Sequence[str]], Set[str]] | None = None  # of some words, those that people write
    related: Callable[[Retriever], Retriever] | None = None  # a stage that follows links
    # The embedder's cosine of texts that have nothing to do with each other, and of those that belong together.
    calibration: tuple[float, float] | None = None
    pace: Pace = field(default_factory=Pace, compare=False)
    trace: Trace | None = field(default=None, compare=False)  # for one search that is to be explained
    freshness: Freshness = field(default_factory=Freshness, init=False, compare=False)
    company: Company = field(default_factory=Company, init=False, compare=False)

    def refresh_words(self) -> None:
        """Let the search by words see what the catalog has now."""
        self.freshness.bring("keyword", self.text, generation=self.catalog.generation())


def compose(parts: Parts, options: Options) -> Retriever:
    """The retriever these options ask for: stages nested around Hybrid, the innermost first."""
    exact = options.mode == "substring"  # whoever asks for exact characters wants nothing else
    reranker = parts.reranker(options.rerank) if parts.reranker and options.rerank and not exact else None

    def seen(stage: str, made: Retriever) -> Retriever:
        return made if parts.trace is None else parts.trace.around(stage, made)

    core: Retriever = seen("fused", Hybrid(parts, explains=False))
    made = core
    if (options.rewrite or options.hyde or options.synonyms) and not exact:
        rewriter = parts.rewriter(options) if parts.rewriter else None
        made = seen("rewrite", Several(made, pool=parts.pool, rewriter=rewriter, variants=parts.synonyms))
    if options.feedback and not exact:
        made = seen("feedback", Fed(made, cutter=parts.cutter))
    if reranker is not None:
        made = seen("rerank", Reranked(made, reranker=reranker, pace=parts.pace))
    if options.collapse:
        made = seen("collapse", Collapsed(made))
    if options.mmr_lambda is not None:
        made = seen("mmr", Diverse(made, catalog=parts.catalog))
    if options.related and parts.related is not None and not exact:
        made = seen("related", parts.related(made))
    if options.parent:
        made = seen("parent", Parents(made, catalog=parts.catalog))
    if options.window:
        made = seen("window", Windowed(made, catalog=parts.catalog, reranker=reranker, pace=parts.pace))
    if options.enumerate != "never" and not exact:
        made = seen("enumerate", Listed(made, catalog=parts.catalog, text_index=parts.text, cutter=parts.cutter))
    if options.typos and not exact:
        made = Corrected(
            made, text_index=parts.text, cutter=parts.cutter, refresh=parts.refresh_words, written=parts.written
        )
    lacking = _lacking(parts, options)
    if made is core and not lacking and parts.trace is None:
        return Hybrid(parts)
    return Paged(made, cutter=parts.cutter, lacking=lacking)


def _lacking(parts: Parts, options: Options) -> list[str]:
    """What is asked for and cannot be had here."""
    lacking = []
    if options.related and parts.related is None:
        lacking.append("related skipped: nothing here knows which documents link to which")
    if options.rerank and parts.reranker is None:
        lacking.append(f"rerank skipped: there is no reranker {options.rerank!r} here")
    return lacking


class Hybrid:
    """A Retriever over the words, the vectors, or both. A stage around it that explains hits needs no reasons of it."""

    def __init__(self, parts: Parts, *, explains: bool = True) -> None:
        self._parts, self._explains = parts, explains

    def retrieve(self, query: Query) -> Results:
        """Hits, best first, ties by document and span. Raises BackendError only when no leg could answer."""
        check(query)
        read = understood(query) if self._explains else query
        run = _Run(self._parts, read, explains=self._explains)
        with self._parts.company.joined():
            results, torn = run.results()
            for _ in range(MAX_RUNS - 1):
                if not torn or run.clock.over:
                    break
                results, torn = run.results()
        return replace(results, query=query)


# ------------------------------------------------------------------------------------------- one run


class _Run:
    """The state of one retrieval: which legs still work, what was lost on the way, what was seen dead."""

    def __init__(self, parts: Parts, query: Query, *, explains: bool) -> None:
        self.parts, self.query, self.options, self.explains = parts, query, query.options, explains
        self.clock = Clock(query.options.deadline_seconds)
        self.where: Filter = conjoin(query.scope, query.where)
        self.wording = Wording(query.phrases or (), query.excluded)
        self.worded: dict[int, bool] = {}  # which chunks hold it
        self.legs: tuple[Leg, ...] = LEGS[query.options.mode]
        self.fallback_reason: str | None = None
        self.degraded: dict[str, None] = {}  # a set that keeps its order
        self.vector: Vector | None = None
        self.best_keyword = 0.0
        self.owners: dict[int, str | None] = {}  # the document of a chunk; None for the dead
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
        self.owners = {}
        if self.wording.phrases:
            self._narrow()
        rankings, documents, torn = self._live()
        with self.clock.stage("fuse"):
            fused = self._fused(rankings)
            # One leg alone keeps its own score, which says more than a rank.
            own = fused if len(self.legs) > 1 else dict(rankings[self.legs[0]])
            every = self.options.threshold is not None or self.parts.trace is not None
            scores = self._scores(fused, rankings, fused) if every else {}
            allowed = self._above_threshold(scores) if every else fused
            end = self.options.offset + self.options.top_n
            order = in_order(allowed, own, self._places, most=end if self.parts.trace is None else None)
            page = order[self.options.offset : end]
            scores = scores or self._scores(page, rankings, fused)
        hits, missing = self._hits(page, own, scores, {leg: ranks(ranking) for leg, ranking in rankings.items()})
        results = Results(
            query=self.query,
            hits=hits,
            total=len(order),
            mode_used=self.mode,
            fallback_reason=self.fallback_reason,
            degraded=tuple(self.degraded),
            document_counts=dict(Counter(documents[chunk_id] for chunk_id in order)),
            leg_counts={str(leg): len(ranking) for leg, ranking in rankings.items()},
            timings_ms=self.clock.timings(),
            generation=self.generation,
        )
        if self.parts.trace is not None:
            self.parts.trace.ran(
                Ran(
                    query=self.query,
                    rankings={str(leg): ranking for leg, ranking in rankings.items()},
                    scores=scores,
                    order=order,
                    documents=documents,
                    vector=self.vector,
                    fallback_reason=self.fallback_reason,
                    degraded=tuple(self.degraded),
                )
            )
        return results, torn or missing

    def _narrow(self) -> None:
        """Look only into documents that hold the phrases; where none does, go by the words and say so."""
        catalog = self.parts.catalog
        with self.clock.stage("refresh"):
            self.parts.freshness.bring("keyword", self.parts.text, generation=self.generation)
        with self.clock.stage("phrases"):
            found, lacking = everything(
                " ".join(self.wording.phrases),
                lambda chunk, record: self.wording.holds(chunk.text, record.title),
                where=conjoin(self.query.scope, self.query.where),
                catalog=catalog,
                text_index=self.parts.text,
                left=self.clock.left,
                together=" ".join(self.wording.phrases),
                most=MOST_NARROWED,
            )
        documents = tuple(dict.fromkeys(held.record.id for held in found))
        if lacking:
            self.degraded[f"exact words may stand in more passages: {lacking}"] = None
        if not documents:
            self.fallback_reason = PHRASE_MISSING
            self.wording = Wording((), self.query.excluded)
            self.worded.clear()
        elif len(documents) <= MOST_NARROWED:
            self.where = conjoin(self.query.scope, self.query.where, In("id", documents))

    def _worded(self, documents: dict[int, str]) -> dict[int, str]:
        """Those that hold the phrases and nothing that was excluded."""
        new = [chunk_id for chunk_id in documents if chunk_id not in self.worded]
        for chunk_id, (chunk, record) in self.parts.catalog.chunks(new).items():
            self.worded[chunk_id] = self.wording.holds(chunk.text, record.title)
        return {chunk_id: document for chunk_id, document in documents.items() if self.worded.get(chunk_id)}

    def _live(self) -> tuple[dict[Leg, list[Scored]], dict[int, str], bool]:
        """The rankings without the dead, deeper and deeper until a page is full or the legs have no more, with the
        document of each id.

        Torn: an id died while we looked, so its document's new version may be one we have not looked for.
        """
        wanted = self.options.offset + self.options.top_n
        limit = max(self.options.candidates, wanted)
        for _ in range((MAX_DOUBLINGS_WORDED if self.wording else MAX_DOUBLINGS) + 1):
            rankings = self._rankings(limit)
            ids = {chunk_id for ranking in rankings.values() for chunk_id, _ in ranking}
            self._locate(ids)
            alive = {chunk_id: owner for chunk_id in ids if (owner := self.owners[chunk_id]) is not None}
            documents = self._worded(alive) if self.wording else alive
            exhausted = all(len(ranking) < limit for ranking in rankings.values())
            if len(documents) >= wanted or exhausted or self.clock.over:
                break
            limit *= 2
        gone = ids - alive.keys() - self.dead
        torn = bool(gone) and self.parts.catalog.generation() != self.generation
        self.dead |= gone
        live = {leg: [one for one in ranking if one.chunk_id in documents] for leg, ranking in rankings.items()}
        return live, documents, torn

    def _locate(self, ids: Iterable[int]) -> None:
        with self.clock.stage("locate"):
            new = [chunk_id for chunk_id in ids if chunk_id not in self.owners]
            if new:
                alive = self.parts.catalog.owners(new, generation=self.generation)
                self.owners.update((chunk_id, alive.get(chunk_id)) for chunk_id in new)

    def _places(self, ids: Sequence[int]) -> dict[int, Place]:
        found = self.parts.catalog.locate(ids)
        return {id: found.get(id, NOWHERE) for id in ids}  # what died meanwhile is missed when it is read

    # -- legs

    def _rankings(self, limit: int) -> dict[Leg, list[Scored]]:
        """What each leg finds. A leg that fails is left out from then on, as long as another one answers."""
        if self.legs == ("substring",):
            return {"substring": self._substring()}
        found: dict[Leg, list[Scored]] = {}
        failed: dict[Leg, BackendError] = {}
        semantic = self._begun(limit) if "semantic" in self.legs else None
        if "keyword" in self.legs:
            try:
                found["keyword"] = self._keyword(limit)
            except BackendError as error:
                failed["keyword"] = error
        if semantic is not None and "keyword" in found and semantic.is_under_way:
            self._locate({chunk_id for chunk_id, _ in found["keyword"]})
        if "semantic" in self.legs:
            try:
                found["semantic"] = self._semantic(limit) if semantic is None else self._await(semantic, limit)
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

    def _substring(self) -> list[Scored]:
        """All there are: exact characters are asked for to see every place of them."""
        with self.clock.stage("refresh"):
            self.parts.freshness.bring("keyword", self.parts.text, generation=self.generation)
        with self.clock.stage("substring"):
            found, lacking = containing(
                self.query.text,
                where=self.where,
                catalog=self.parts.catalog,
                text_index=self.parts.text,
                left=self.clock.left,
            )
            self.degraded.update(dict.fromkeys(lacking))
            return found

    def _begun(self, limit: int) -> Beside[list[Scored]] | None:
        """The semantic leg in a thread of its own, or None where it is no faster there.

        The search by words never lets go of the interpreter, the one by meaning does while it scans its codes: side by
        side they take as long as the longer one, if that scan is begun first. Where other searches run there is no core
        to spare for it, and handing over costs more than it brings; but an embedder that is waited for is worth it.
        """
        instant = getattr(self.parts.embedder, "instant", False)
        if instant and (len(self.legs) == 1 or self.parts.company.count > 1 or cores() == 1):
            return None
        beside = Beside(self.parts.pool, lambda: self._semantic(limit))
        if instant:
            beside.begun.wait(HAND_OVER_SECONDS)
        return beside

    def _await(self, beside: Beside[list[Scored]], limit: int) -> list[Scored]:
        if beside.is_withdrawn(after_seconds=min(PICKUP_SECONDS, self.clock.left)):
            if getattr(self.parts.embedder, "instant", False):
                return self._semantic(limit)
            beside.go_alone(self.parts.company.places)  # a model that never answers is not waited for past the deadline
        try:
            return beside.result(self.clock.left)
        except TimeoutError:
            raise BackendError(f"no result within {self.options.deadline_seconds:g} s, went on without it") from None

    # -- scores

    def _fused(self, rankings: Mapping[Leg, list[Scored]]) -> dict[int, float]:
        options = self.options
        weights: dict[Leg, float] = {
            "keyword": options.keyword_weight,
            "semantic": options.semantic_weight,
            "substring": 1,
        }
        best = self.best_keyword
        # Other words may be there by chance, a code is not: across languages it may be all that is shared.
        chance = 0.0 if has_code(self.query.text, self.parts.cutter) else options.chance_coverage
        return fuse(rankings, method=options.fusion, weights=weights, k=options.rrf_k, best_keyword=best, chance=chance)

    @staticmethod
    def _scores(
        ids: Iterable[int], rankings: Mapping[Leg, list[Scored]], fused: Mapping[int, float]
    ) -> dict[int, dict[str, float]]:
        """Of each id what every leg gave it, and all together."""
        by_leg = {leg: dict(ranking) for leg, ranking in rankings.items()}
        return {
            id: {**{leg: found[id] for leg, found in by_leg.items() if id in found}, "fused": fused[id]} for id in ids
        }

    def _above_threshold(self, scores: dict[int, dict[str, float]]) -> list[int]:
        kept, lacking = reached(
            scores,
            self.options,
            compared="semantic" in self.legs,
            calibration=self.parts.calibration,
            complete=lambda: self._complete_cosines(scores),
        )
        if lacking:
            self.degraded[lacking] = None
        return kept

    def _complete_cosines(self, scores: dict[int, dict[str, float]]) -> None:
        """Give what only the words found its cosine too, so that the threshold means the same for every hit."""
        lacking = [chunk_id for chunk_id, score in scores.items() if "semantic" not in score]
        if lacking and self.vector is not None:
            ids, matrix = self.parts.catalog.vectors(lacking)
            for chunk_id, cosine in zip(ids.tolist(), (matrix @ self.vector).astype(np.float64).tolist(), strict=True):
                scores[chunk_id]["semantic"] = cosine

    # -- page

    def _hits(
        self,
        page: Sequence[int],
        own: Mapping[int, float],
        scores: Mapping[int, Mapping[str, float]],
        places: Mapping[Leg, Mapping[int, int]],
    ) -> tuple[tuple[Hit, ...], bool]:
        with self.clock.stage("read"):
            rows = self.parts.catalog.chunks(page)
        hits: list[Hit] = []
        with self.clock.stage("highlight"):
            told = Explainer(self.query, self.parts.cutter) if self.explains and page else None
            for rank, chunk_id in enumerate(page, start=self.options.offset + 1):
                chunk, record = rows.get(chunk_id, (None, None))
                # The index was asked to filter already; what a caller may not see is worth asking twice.
                if chunk is None or record is None or not self.where.matches(attributes(record, chunk)):
                    continue
                hit = Hit(
                    chunk=chunk,
                    record=record,
                    score=own[chunk_id],
                    rank=rank,
                    scores=scores[chunk_id],
                    ranks={leg: ranked[chunk_id] for leg, ranked in places.items() if chunk_id in ranked},
                )
                hits.append(hit if told is None else told.hit(hit, rank))
        return tuple(hits), any(chunk_id not in rows for chunk_id in page)
