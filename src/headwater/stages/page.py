"""All hits from the first -> the page that was asked for, each hit numbered, explained and marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headwater.asked import Wording
from headwater.forms import forms
from headwater.highlight import Found, Match, Terms, reasons, snippets
from headwater.protocols import Retriever
from headwater.stages._request import Watch, first, understood, wanted
from headwater.stages.substring import found_at, plain
from headwater.tokens import Cutter, fold
from headwater.types import Hit, Query, Results
from headwater.typos import Corrections, corrected

STAGE = "highlight"


class Paged:
    """The outermost Retriever: only it knows about pages. Explaining is done for what is shown, once, at the end."""

    def __init__(self, inner: Retriever, *, cutter: Cutter, lacking: Sequence[str] = ()) -> None:
        self._inner, self._cutter, self._lacking = inner, cutter, tuple(lacking)

    def retrieve(self, query: Query) -> Results:
        """One page of the hits of the one inside."""
        watch, whole = Watch(query), Watch(query)
        read = understood(query)
        results = watch.inside(lambda: self._inner.retrieve(first(read, wanted(query))))
        page = results.hits[query.options.offset : wanted(query)]
        told = Explainer(read, self._cutter, results.corrected)
        hits = tuple(told.hit(hit, query.options.offset + rank) for rank, hit in enumerate(page, start=1))
        inside = {stage: ms for stage, ms in results.timings_ms.items() if stage not in (STAGE, "total")}
        timings = {**inside, STAGE: watch.seconds * 1000, "total": whole.seconds * 1000}
        degraded = (*results.degraded, *self._lacking)
        return replace(results, query=query, hits=hits, timings_ms=timings, degraded=degraded)


class Explainer:
    """Says of a hit which words of the query stand where."""

    def __init__(self, query: Query, cutter: Cutter, corrections: Corrections | None = None) -> None:
        text = corrected(query.text, corrections or {})
        self._terms = Terms.of(text, cutter)
        self._corrected = {
            cutter.stem(meant.lower()): f"{typed} → {meant}" for typed, meant in (corrections or {}).items()
        }
        written = forms(fold(text))
        self._forms = Terms.of("\n".join(written), cutter) if written else None
        self._wording = Wording(query.phrases or ())
        self._shows = query.options.highlight
        self._exact = plain(query.text.strip()) if query.options.mode == "substring" else ""
        self._heads: dict[str, dict[str, Found]] = {}  # by document: several hits of one share its title and address

    def hit(self, hit: Hit, rank: int) -> Hit:
        """The hit with its rank, the reasons and the marks; reasons that a stage gave come last."""
        text, record = hit.chunk.text, hit.record
        if self._exact:
            places = [Match(start, start + len(self._exact), self._exact) for start in found_at(self._exact, text)]
            said: tuple[str, ...] = (
                (f"contains {text[places[0].start : places[0].end]!r} {len(places)} times",) if places else ()
            )
            marks = snippets(text, places) if self._shows else ()
            return hit.explained(rank=rank, reasons=(*said, *hit.reasons), highlights=marks)
        matches = self._terms.find(text)
        others = self._forms.find(text) if self._forms is not None else []
        head = self._heads.get(record.id)
        if head is None:
            tags = " ".join(record.tags)
            head = self._found(title=record.title, tags=tags, description=record.description, address=record.uri)
            self._heads[record.id] = head
        fields = {**head, **self._found(section=hit.chunk.section)}
        also = (self._forms, others) if self._forms is not None else None
        said = reasons(self._terms, text, matches, fields=fields, scores=hit.scores, forms=also)
        if self._corrected:
            there = {match.term for _, places in ((text, matches), *fields.values()) for match in places}
            said = (*said, *(f"typed otherwise: {told}" for stem, told in self._corrected.items() if stem in there))
        if self._wording:
            lacking = self._wording.missing(text, record.title)
            exact = [phrase for phrase in self._wording.phrases if phrase not in lacking]
            said = (*(f'exact words: "{phrase}"' for phrase in exact), *said)
        marks = snippets(text, sorted({*matches, *others}) if others else matches) if self._shows else ()
        return hit.explained(rank=rank, reasons=(*said, *hit.reasons), highlights=marks)

    def _found(self, **fields: str) -> dict[str, Found]:
        return {name: (field, self._terms.find(field)) for name, field in fields.items() if field}
