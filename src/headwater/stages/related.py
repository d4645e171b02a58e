"""Hits -> the same, with documents in between that the strong ones link to, are linked from, or share a rare word with.

The documents around the strong hits are a small graph. Personalised PageRank over it (Haveliwala, WWW 2002) says which
neighbour is nearest to all of them, and what it gives is never worth more than half of the hit it comes from: no hit
that is stronger gives way to it. Hits are told their own PageRank, and move by it only as far as it is given weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from headwater.asked import Wording
from headwater.filters import Compare, Filter, conjoin
from headwater.highlight import STOP_WORDS
from headwater.protocols import Catalog, Retriever, TextIndex
from headwater.stages._request import Watch, first, made, stretched, wanted
from headwater.tokens import Cutter
from headwater.types import Hit, Query, Results, attributes

STAGE = "related"
# Hits that strength is measured among whatever the page, so that pages go on from one another.
POOL: Final = 32
SEEDS: Final = 5  # documents whose neighbours are looked for
STRONG: Final = 0.5  # of the best hit's score: what is weaker may be there by chance, and so would its neighbours be
MOST_RELATED: Final = 3  # that come in: a page is for what was asked
CREDIT: Final = 0.5  # of the strength of the hit that leads to it
SHARED_WEIGHT: Final = 0.5  # of an edge by a shared word; somebody meant a link
RARE_PASSAGES: Final = 6  # a word in more passages than that is not rare
RARE_WORDS: Final = 8  # of each of the strongest hits, the rarest
RARE_HITS: Final = 3
RESTART: Final = 0.15  # the usual damping of 0.85
ROUNDS: Final = 20  # 0.85 to the 20th: what is left to move is 4 %


class Edge(NamedTuple):
    """A tie between two documents and what it is called from the one that was found."""

    source: str
    target: str
    weight: float
    said: str


class Related:
    """A Retriever that lets neighbours of its strong hits in. Filters hold for them as for any hit."""

    def __init__(self, inner: Retriever, *, catalog: Catalog, text_index: TextIndex, cutter: Cutter) -> None:
        self._inner, self._catalog, self._text_index, self._cutter = inner, catalog, text_index, cutter

    def retrieve(self, query: Query) -> Results:
        """The hits of the one inside in their order, neighbours after all that are stronger."""
        watch, need = Watch(query), wanted(query)
        results = watch.inside(lambda: self._inner.retrieve(first(query, max(need, POOL))))
        strengths = stretched([hit.score for hit in results.hits])
        seeds: dict[str, tuple[Hit, float]] = {}
        for found, strength in zip(results.hits, strengths, strict=True):
            if strength >= STRONG and len(seeds) < SEEDS:
                seeds.setdefault(found.document_id, (found, strength))
        where = conjoin(query.scope, query.where)
        edges = [*self._links(seeds), *self._shared([hit for hit, _ in seeds.values()][:RARE_HITS], where)]
        worth = pagerank(edges, {id: strength for id, (_, strength) in seeds.items()})
        results, strengths = _told(results, strengths, worth, weight=query.options.related_weight)
        near = self._near(edges, seeds, worth, known={hit.document_id for hit in results.hits})
        pulled = [
            hit
            for document_id, edge, strength in near[: 2 * MOST_RELATED]
            if (hit := self._hit(document_id, query, where, edge=edge, strength=strength, seeds=seeds)) is not None
        ][:MOST_RELATED]
        if not pulled:
            return made(results, results.hits[:need], stage=STAGE, watch=watch)
        low, high = min(hit.score for hit in results.hits), max(hit.score for hit in results.hits)
        placed = [replace(hit, score=low + hit.score * (high - low)) for hit in pulled]
        hits = _placed(list(results.hits), strengths, placed, [hit.score for hit in pulled])
        counts = {**results.document_counts, **{hit.document_id: 1 for hit in placed}}
        whole = replace(results, total=results.total + len(placed), document_counts=counts)
        return made(whole, hits[:need], stage=STAGE, watch=watch)

    def _links(self, seeds: Mapping[str, tuple[Hit, float]]) -> list[Edge]:
        """References of the seeds in both directions, and those among their neighbours."""
        pairs = self._catalog.links(list(seeds))
        around = list(dict.fromkeys(id for pair in pairs for id in pair if id not in seeds))
        named = {id: f"“{hit.title or hit.uri}”" for id, (hit, _) in seeds.items()}
        edges: list[Edge] = []
        for source, target in dict.fromkeys([*pairs, *self._catalog.links(around[: SEEDS * SEEDS])]):
            edges.append(Edge(source, target, 1.0, f"linked from {named.get(source, '')}"))
            edges.append(Edge(target, source, 1.0, f"links to {named.get(target, '')}"))
        return edges

    def _shared(self, hits: Sequence[Hit], where: Filter) -> list[Edge]:
        """Documents that have a rare word with one of the hits in common."""
        edges: list[Edge] = []
        for hit in hits:
            lanes = self._cutter.cut(hit.chunk.text)
            told = (word for word in lanes.words if len(word) > 1 and word not in STOP_WORDS)
            words = dict.fromkeys([*lanes.codes, *told])
            rarity = {word: self._text_index.best_score(word) for word in words}
            for word in sorted(rarity, key=lambda word: (-rarity[word], word))[:RARE_WORDS]:
                found = self._text_index.search(word, RARE_PASSAGES + 1, where)
                if len(found) > RARE_PASSAGES:
                    continue
                said = f"shares “{word}” with “{hit.title or hit.uri}”"
                for chunk, record in self._catalog.chunks([one.chunk_id for one in found]).values():
                    # The index looks at addresses too: files of one folder share those words.
                    if record.id != hit.document_id and self._has(word, chunk.text):
                        edges.append(Edge(hit.document_id, record.id, SHARED_WEIGHT, said))
        return edges

    def _has(self, word: str, text: str) -> bool:
        lanes = self._cutter.cut(text)
        return word in lanes.words or word in lanes.codes

    def _near(
        self,
        edges: Sequence[Edge],
        seeds: Mapping[str, tuple[Hit, float]],
        worth: Mapping[str, float],
        *,
        known: set[str],
    ) -> list[tuple[str, Edge, float]]:
        """Neighbours of the seeds, nearest first, each with the tie that leads to it and how strong it is."""
        leading: dict[str, Edge] = {}
        for edge in edges:
            if edge.source in seeds and edge.target not in known:
                held = leading.get(edge.target)
                if held is None or seeds[edge.source][1] > seeds[held.source][1]:
                    leading[edge.target] = edge
        most = max((worth.get(id, 0.0) for id in leading), default=0.0) or 1.0
        strength = {id: CREDIT * seeds[edge.source][1] * worth.get(id, 0.0) / most for id, edge in leading.items()}
        order = sorted(leading, key=lambda id: (-strength[id], id))
        return [(id, leading[id], strength[id]) for id in order]

    def _hit(
        self,
        document_id: str,
        query: Query,
        where: Filter,
        *,
        edge: Edge,
        strength: float,
        seeds: Mapping[str, tuple[Hit, float]],
    ) -> Hit | None:
        """Its passage that fits the question best, else its first; None where it may not be seen."""
        found = self._text_index.search(query.text, 1, conjoin(where, Compare("id", "=", document_id)))
        ids = [one.chunk_id for one in found] or [chunk.id for chunk in self._catalog.chunks_of(document_id)[:1]]
        wording = Wording(query.phrases or (), query.excluded)
        for chunk, record in self._catalog.chunks(ids).values():
            if where.matches(attributes(record, chunk)) and wording.holds(chunk.text, record.title):
                scores = {STAGE: strength}
                return Hit(chunk=chunk, record=record, score=strength, scores=scores, reasons=(edge.said,))
        return None


def pagerank(edges: Iterable[Edge], seeds: Mapping[str, float]) -> dict[str, float]:
    """How often a walk is at each document that starts at the seeds, by their weights, and returns to them."""
    outgoing: dict[str, dict[str, float]] = {}
    for edge in edges:
        ties = outgoing.setdefault(edge.source, {})
        ties[edge.target] = max(edge.weight, ties.get(edge.target, 0.0))
    total = sum(seeds.values()) or 1.0
    start = {id: weight / total for id, weight in seeds.items()}
    worth = dict(start)
    for _ in range(ROUNDS):
        moved = {id: RESTART * share for id, share in start.items()}
        for id, share in sorted(worth.items()):
            ties = outgoing.get(id, {})
            out = sum(ties.values())
            for target, weight in ties.items():
                moved[target] = moved.get(target, 0.0) + (1 - RESTART) * share * weight / out
            if not ties:  # a dead end: back to the seeds
                for seed, part in start.items():
                    moved[seed] = moved.get(seed, 0.0) + (1 - RESTART) * share * part
        worth = moved
    return worth


def _told(
    results: Results, strengths: Sequence[float], worth: Mapping[str, float], *, weight: float
) -> tuple[Results, list[float]]:
    """Hits with their documents' PageRank, as a share of the highest; it moves them as far as it has weight."""
    most = max(worth.values(), default=0.0) or 1.0
    ranks = [worth.get(hit.document_id, 0.0) / most for hit in results.hits]
    told = [
        replace(hit, scores={**hit.scores, "pagerank": rank}) for hit, rank in zip(results.hits, ranks, strict=True)
    ]
    if not weight or not told:
        return replace(results, hits=tuple(told)), list(strengths)
    mixed = [(1 - weight) * own + weight * rank for own, rank in zip(strengths, ranks, strict=True)]
    low, high = min(hit.score for hit in told), max(hit.score for hit in told)
    order = sorted(range(len(told)), key=lambda n: (-mixed[n], n))
    moved = tuple(replace(told[n], score=low + mixed[n] * (high - low)) for n in order)
    return replace(results, hits=moved), [mixed[n] for n in order]


def _placed(hits: list[Hit], strengths: Sequence[float], pulled: Sequence[Hit], theirs: Sequence[float]) -> list[Hit]:
    """Each that comes in behind the last hit that is at least as strong."""
    made_of: list[tuple[Hit, float]] = list(zip(hits, strengths, strict=True))
    for hit, strength in zip(pulled, theirs, strict=True):
        after = max((place for place, (_, other) in enumerate(made_of, start=1) if other >= strength), default=0)
        made_of.insert(after, (hit, strength))
    return [hit for hit, _ in made_of]
