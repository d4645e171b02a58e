"""A query and a document -> where it stood in every stage of that search, what kept it out, and what would bring it in.

The search runs as it always does, watched (`stages/trace.py`), and once more for a page without end, which tells the
ranks beyond the first page. A change is only named after it was tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from headwater.asked import Wording, read
from headwater.causes import (
    Cause,
    Change,
    Explanation,
    Standing,
    lexical,
    no_words,
    out_of_reach,
    says_nothing,
    unknown,
)
from headwater.errors import NotFound
from headwater.filters import ALL, And, Compare, Filter, conjoin, to_text
from headwater.highlight import Terms
from headwater.protocols import Retriever
from headwater.retrieve import Parts, compose, understood
from headwater.stages.trace import Ran, Trace
from headwater.types import Hit, Query, Record, Results, attributes
from headwater.typos import corrected, told

# Ranks are told up to here: nobody turns so many pages.
DEEPEST: Final = 2_000
# Deeper looks for a passage that no leg has reached, each so much further than the one before.
DEEPER: Final = 4
_PASSAGE: Final = re.compile(r"([0-9a-f]{20}):\d+-\d+")


def parted(document: str) -> tuple[str, str]:
    """A document as it was named -> its own name, and that of the passage where one was meant (`id:start-end`)."""
    found = _PASSAGE.fullmatch(document)
    return (found[1], document) if found else (document, "")


def why(
    parts: Parts,
    query: Query,
    document: str,
    *,
    record: Callable[[str], Record],
    ids: Sequence[str] = (),
    archived: Filter = ALL,
) -> Explanation:
    """The explanation for a document, or for one passage of it.

    `record` finds what the caller may see and raises NotFound for anything else; `ids` are those that the document
    would have if it is still to come. `archived` is the part of the scope that keeps archived documents out.
    """
    name, passage = parted(document)
    try:
        found = record(name)
    except NotFound:
        return unknown(query.text, document, pending=any(map(parts.catalog.is_pending, ids)))
    return _Case(parts, query, found, passage=passage, archived=archived).explained()


class _Case:
    """One query and one document."""

    def __init__(self, parts: Parts, query: Query, record: Record, *, passage: str, archived: Filter) -> None:
        self.given, self.query, self.record, self.passage = query, understood(query), record, passage
        self.archived = archived
        scope = query.scope
        open_parts = [part for part in (scope.parts if isinstance(scope, And) else (scope,)) if part != archived]
        self.open_scope = conjoin(*open_parts)  # with the archived ones
        self.parts, self.options = parts, query.options
        self.all = parts.catalog.chunks_of(record.id)
        self.chunks = [chunk for chunk in self.all if passage in ("", chunk.name)]
        self.ids = {chunk.id for chunk in self.chunks}
        self.wording = Wording(self.query.phrases or (), self.query.excluded)
        self.results = self.searched(self.query)
        self.meant = corrected(self.query.text, self.results.corrected)  # with what was asked for in place of typos

    # -- running

    def searched(self, query: Query, trace: Trace | None = None) -> Results:
        """The search itself."""
        parts = self.parts if trace is None else replace(self.parts, trace=trace)
        made: Retriever = compose(parts, query.options)
        return made.retrieve(query)

    @cached_property
    def deep(self) -> tuple[Results, Trace]:
        """The same without an end of the page."""
        trace = Trace()
        wanted = self.options.offset + self.options.top_n
        options = replace(self.options, offset=0, top_n=max(wanted, min(DEEPEST, self.options.candidates * 2)))
        return self.searched(replace(self.query, options=options), trace), trace

    @cached_property
    def run(self) -> Ran | None:
        """What the legs did with the question itself."""
        return next((run for run in self.deep[1].runs if run.query.text == self.meant), None)

    def is_it(self, hit: Hit) -> bool:
        """Whether a hit stands for what was asked for."""
        if hit.document_id != self.record.id:
            return False
        return not self.passage or hit.chunk.name == self.passage

    def at(self, hits: Sequence[Hit]) -> int | None:
        """Its rank among hits."""
        return next((rank for rank, hit in enumerate(hits, start=1) if self.is_it(hit)), None)

    def helps(self, change: Change) -> bool:
        """Whether a search with this change finds it."""
        return self.at(self.searched(self.changed(change)).hits) is not None

    def worked(self, change: Change) -> Change | None:
        """The change, with a longer page where it takes one; None where it does not bring the document in."""
        if change.untried or self.helps(change):
            return change
        rank = self.at(self.searched(self.changed(change, top_n=DEEPEST)).hits)
        if rank is None:
            return None
        page = Change(
            f"{change.said} and top_n >= {rank}",
            {**change.options, "top_n": rank},
            where=change.where,
            text=change.text,
            archived=change.archived,
        )
        return page if self.helps(page) else None

    def changed(self, change: Change, **further: Any) -> Query:
        """The query with it."""
        query = self.query
        if change.text is not None:
            query = replace(understood(replace(self.given, text=change.text, phrases=None)), options=query.options)
        if change.where is not None:
            query = replace(query, where=change.where)
        if change.archived:
            query = replace(query, scope=self.open_scope)
        return replace(query, options=replace(query.options, **{**change.options, **further}))

    # -- telling

    def explained(self) -> Explanation:
        """The whole of it."""
        rank = self.at(self.results.hits)
        if rank is not None:
            shown = self.results.hits[rank - 1]
            cause = Cause("", f"it is hit {shown.rank}" + (f": {shown.reasons[0]}" if shown.reasons else ""))
            changes: Iterator[Change] = iter(())
            rank = shown.rank
        else:
            cause = self._cause()
            changes = (worked for change in cause.changes if (worked := self.worked(change)) is not None)
        change = next(changes, None)
        matched, missing, lanes = lexical(self.meant, self._texts(), self.parts.cutter)
        stages = self._stages() if self.chunks else ()
        return Explanation(
            query=self.given.text,
            document=self.passage or self.record.id,
            found=rank is not None,
            cause=cause.name,
            reason=cause.reason,
            document_id=self.record.id,
            uri=self.record.uri,
            title=self.record.title,
            rank=rank,
            change=change.said if change else "",
            changes=change.arguments() if change else {},
            stages=stages,
            matched=matched,
            missing=missing,
            lanes=lanes,
            filters=self._clauses(),
            notes=self._notes(),
        )

    def _texts(self) -> list[str]:
        head = [self.record.title, " ".join(self.record.tags), self.record.description, self.record.uri]
        return [*head, *(chunk.searchable_text for chunk in self.chunks)]

    def _notes(self) -> tuple[str, ...]:
        notes = [*told(self.results.corrected), *self.results.degraded]
        if self.results.fallback_reason:
            notes.append(self.results.fallback_reason)
        if self.record.error and self.record.ticket:
            notes.append(f"its last update failed, and what is searched is the text before it: {self.record.error}")
        if self.record.state == "indexed":
            notes.append("its vectors are still to come: only its words can be found")
        return tuple(dict.fromkeys(notes))

    def _fits(self, where: Filter) -> bool:
        return any(where.matches(attributes(self.record, chunk)) for chunk in self.chunks)

    def _clauses(self) -> dict[str, bool]:
        where = self.query.where
        parts = where.parts if isinstance(where, And) else () if where == ALL else (where,)
        return {to_text(part): self._fits(part) for part in parts}

    def _stages(self) -> tuple[Standing, ...]:
        trace = self.deep[1]
        found: list[Standing] = []
        if self.run is not None:
            for leg, ranking in self.run.rankings.items():
                places = ((n, one) for n, one in enumerate(ranking, start=1) if one.chunk_id in self.ids)
                rank, best = next(places, (None, None))
                name = self._named(best.chunk_id) if best else ""
                score = best.score if best else None
                found.append(Standing(stage=leg, of=len(ranking), rank=rank, score=score, passage=name))
        for stage, hits in trace.stages.items():
            found.append(self._standing(stage, hits))
        return (*found, self._standing("page", self.results.hits))

    def _standing(self, stage: str, hits: Sequence[Hit]) -> Standing:
        rank = self.at(hits)
        if rank is None:
            return Standing(stage=stage, of=len(hits))
        hit = hits[rank - 1]
        return Standing(stage=stage, of=len(hits), rank=rank, score=hit.score, passage=hit.chunk.name)

    def _named(self, chunk_id: int) -> str:
        return next(chunk.name for chunk in self.chunks if chunk.id == chunk_id)

    # -- judging

    def _cause(self) -> Cause:
        """What kept it out: the first thing on the way that did."""
        unseen = out_of_reach(self.record, self.chunks, archived=self.archived)
        if unseen is not None:
            return unseen
        judges: tuple[Callable[[], Cause | None], ...] = (
            self._filtered,
            self._worded,
            self._late,
            self._saying_nothing,
            self._below_threshold,
            self._unreached,
            self._merged,
            self._outranked,
        )
        return next((cause for judge in judges if (cause := judge()) is not None), self._lost())

    def _filtered(self) -> Cause | None:
        failing = [part for part in self._parts() if not self._fits(part)]
        if not failing and self._fits(self.query.where):
            return None
        left = conjoin(*(part for part in self._parts() if part not in failing))
        said = ", ".join(to_text(part) for part in failing) or to_text(self.query.where)
        kept = left if failing else ALL
        elsewhere = any(isinstance(part, Compare) and part.key == "collection" for part in failing)
        reason = f"it is in the collection {self.record.collection!r}" if elsewhere else f"no passage of it fits {said}"
        name = "collection" if elsewhere else "filter"
        return Cause(name, reason, (Change(f"drop {said} from the filter", where=kept),))

    def _parts(self) -> Sequence[Filter]:
        where = self.query.where
        return where.parts if isinstance(where, And) else () if where == ALL else (where,)

    def _worded(self) -> Cause | None:
        if not self.wording or self.results.listed:
            return None
        allowed = [chunk for chunk in self.chunks if self.query.where.matches(attributes(self.record, chunk))]
        title = self.record.title
        if any(self.wording.holds(chunk.text, title) for chunk in allowed):
            return None
        barred = Wording((), self.wording.excluded)
        asked = read(self.given.text)
        if not any(barred.holds(chunk.text, title) for chunk in allowed):
            words = barred.present(title, *(chunk.text for chunk in allowed))
            without = _put_together(asked.text, asked.phrases, [w for w in asked.excluded if w not in words])
            reason = f"it has {', '.join(map(repr, words))}, which the query leaves out"
            return Cause("excluded", reason, (Change(f"drop {_dashed(words)} from the query", text=without),))
        if self.results.fallback_reason:  # no passage at all has the phrase, so it was not asked for
            return None
        lacking = self.wording.missing(title, *(chunk.text for chunk in allowed)) or self.wording.phrases
        kept = [phrase for phrase in asked.phrases if phrase not in lacking]
        reason = f"no passage of it has {', '.join(map(repr, lacking))} word for word"
        without = _put_together(asked.text, kept, asked.excluded)
        return Cause("phrase", reason, (Change("leave the quotation marks out", text=without),))

    def _late(self) -> Cause | None:
        """Whether something was skipped for want of time, and would have found it."""
        if not self.results.degraded:
            return None
        more = Change("give it more time: budget = 60s", options={"deadline_seconds": 60.0})
        again = self.searched(self.changed(more))
        hurried = [note for note in self.results.degraded if note not in again.degraded]
        return Cause("deadline", hurried[0], (more,)) if hurried and self.at(again.hits) is not None else None

    def _saying_nothing(self) -> Cause | None:
        if self.options.mode == "substring" or not says_nothing(self.meant, self.parts.cutter):
            return None
        own = Terms.of(self.record.title, self.parts.cutter)
        words = [own.shown(word.term) for word in own.words][:3]
        named = [Change(f"add a word that tells: {w}", text=f"{self.given.text} {w}") for w in words]
        return Cause("stop_words", "the query has only words that stand in every text", tuple(named))

    def _below_threshold(self) -> Cause | None:
        run, least = self.run, self.options.threshold
        if run is None or least is None:
            return None
        on = self.options.threshold_on
        scores = [run.scores[id].get(on) for id in self.ids if id in run.scores and id not in run.order]
        known = [score for score in scores if score is not None]
        if not known or any(id in run.order for id in self.ids):
            return None
        best = max(known)
        enough = _floored(best)
        reason = f"its {on} score is {best:.3f}, and the threshold is {least:g}"
        changes = (Change(f"threshold <= {enough:g}", options={"threshold": enough}),)
        return Cause("threshold", reason, changes)

    def _unreached(self) -> Cause | None:
        """No leg has it among what was considered."""
        run = self.run
        if run is None or self.ids & run.scores.keys():
            return None
        whole = max(1, int(self.parts.catalog.statistics()["chunks"]))
        deep = self.options.candidates
        while deep < whole:
            deep = min(whole, deep * DEEPER)
            trace = Trace()
            options = replace(self.options, candidates=deep, offset=0, rerank="", window=0, parent=False)
            self.searched(replace(self.query, options=options), trace)
            ran = next((one for one in trace.runs if one.query.text == self.meant), None)
            ranks = [] if ran is None else [_first(ranking, self.ids) for ranking in ran.rankings.values()]
            reached = min((rank for rank in ranks if rank is not None), default=None)
            if reached is not None:
                return self._beyond(reached)
        return self._wordless()

    def _beyond(self, reached: int) -> Cause:
        more = {"candidates": reached}
        bare = {"rerank": "", "collapse": False, "mmr_lambda": None}
        changes = (
            Change(f"candidates >= {reached}", options=more),
            Change(f"candidates >= {reached} and nothing reordered", options={**more, **bare}),
            *self._other_ways(),
        )
        reason = f"its best rank in a leg is {reached}, and {self.options.candidates} are considered"
        return Cause("candidates", reason, changes)

    def _wordless(self) -> Cause:
        """No leg can reach it: it has none of the words, and meaning was not asked."""
        return no_words(self.meant, self._texts(), self.parts.cutter, query=self.query, changes=self._other_ways())

    def _other_ways(self) -> tuple[Change, ...]:
        options = self.options
        ways = [
            Change("mode = hybrid", options={"mode": "hybrid", "threshold": None})
            if options.mode != "hybrid"
            else None,
            Change("synonyms = true", options={"synonyms": True}) if not options.synonyms else None,
            Change("related = true", options={"related": True}) if not options.related else None,
            Change("mode = substring", options={"mode": "substring"}) if options.mode != "substring" else None,
        ]
        return tuple(way for way in ways if way is not None)

    def _merged(self) -> Cause | None:
        """It stands behind or inside of another hit."""
        deep, trace = self.deep
        names = {chunk.name for chunk in self.chunks}
        for hit in (*trace.stages.get("collapse", ()), *deep.hits):
            if names & set(hit.duplicates) and self.at(deep.hits) is None:
                reason = f"it is nearly the same as {hit.chunk.name} of {hit.uri}, which stands for both"
                changes = (Change("collapse = false", options={"collapse": False}),)
                return Cause("duplicate", reason, changes)
        if not self.passage:
            return None
        spans = [chunk.span for chunk in self.chunks]
        for hit in self.results.hits:
            inside = hit.document_id == self.record.id and any(
                hit.chunk.span.start <= span.start and span.end <= hit.chunk.span.end for span in spans
            )
            if inside:
                name = "parent" if self.options.parent and any(chunk.parent for chunk in self.chunks) else "window"
                off = {"parent": False, "window": 0}
                reason = f"it is inside of hit {hit.rank}, {hit.chunk.name}"
                return Cause(name, reason, (Change(f"{name} off", options=off),))
        return None

    def _outranked(self) -> Cause | None:
        """It is there, too far down: which stage put it there."""
        deep, trace = self.deep
        final = self.at(deep.hits)
        wanted = self.options.offset + self.options.top_n
        ranks = {stage: self.at(hits) for stage, hits in trace.stages.items()}
        before: int | None = None
        demoted = ""
        for stage, rank in ranks.items():
            if stage in _DEMOTING and before is not None and before <= wanted and (rank is None or rank > wanted):
                demoted = stage
            before = rank if rank is not None else before
        page = Change(f"top_n >= {(final or 0) - self.options.offset}", options={"top_n": (final or 1)})
        if final is not None and final <= self.options.offset:
            first = Change(f"offset <= {final - 1}", options={"offset": 0})
            return Cause("offset", f"it is hit {final}, before this page", (first,))
        if demoted:
            moved = f"it was at {_last_rank(ranks, demoted)} before {demoted} and is at {final or 'none'} after it"
            off = Change(f"{demoted} off", options=_DEMOTING[demoted])
            return Cause(demoted, moved, (off, *((page,) if final else ())))
        fused = ranks.get("fused")
        depth = min(self.options.rerank_depth, self.options.candidates)
        if "rerank" in ranks and fused is not None and fused > depth:
            deeper = {"rerank_depth": fused, "candidates": max(self.options.candidates, fused)}
            reason = f"it is at {fused} of the fused order, and the first {depth} are looked at again"
            changes = (Change(f"rerank_depth >= {fused}", options=deeper), *((page,) if final else ()))
            return Cause("rerank_depth", reason, changes)
        if final is None:
            return None
        return Cause("top_n", f"it is hit {final}, and the page ends at {wanted}", (page,))

    def _lost(self) -> Cause:
        wide = Change(
            "every stage off",
            options={"rerank": "", "collapse": False, "mmr_lambda": None, "parent": False, "window": 0, "top_n": 1000},
        )
        return Cause("rank", "it is among the candidates and further down than was looked", (wide,))


# What switches off a stage that moves hits down.
_DEMOTING: Final[Mapping[str, Mapping[str, Any]]] = {
    "rerank": {"rerank": ""},
    "mmr": {"mmr_lambda": None},
    "rewrite": {"rewrite": False, "hyde": False, "synonyms": False},
    "feedback": {"feedback": False},
    "related": {"related": False},
}


def _last_rank(ranks: Mapping[str, int | None], stage: str) -> int | None:
    names = list(ranks)
    earlier = [ranks[name] for name in names[: names.index(stage)] if ranks[name] is not None]
    return earlier[-1] if earlier else None


def _first(ranking: Sequence[Any], ids: set[int]) -> int | None:
    return next((rank for rank, one in enumerate(ranking, start=1) if one.chunk_id in ids), None)


def _floored(score: float) -> float:
    """A little below, with three digits."""
    return int(score * 1000 - (score < 0)) / 1000


def _dashed(words: Sequence[str]) -> str:
    return " ".join(f"-{word}" for word in words)


def _put_together(text: str, phrases: Sequence[str], excluded: Sequence[str]) -> str:
    """The query in its own language again."""
    for phrase in phrases:
        text = text.replace(" ".join(phrase.split()), f'"{phrase}"', 1)
    return " ".join([text, *(f'-"{word}"' if " " in word else f"-{word}" for word in excluded)])
