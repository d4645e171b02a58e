"""A question that asks for all of something -> every passage that holds all of its words, counted by document.

Where the question is no such one, or no passage holds all the words, the hits of the one inside stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from headwater.asked import Wording, enumerated
from headwater.filters import conjoin
from headwater.highlight import Terms
from headwater.protocols import Catalog, Retriever, TextIndex
from headwater.stages._request import Watch, made, wanted
from headwater.stages.everything import Held, everything
from headwater.tokens import Cutter, is_cjk
from headwater.types import Chunk, Hit, Query, Record, Results

STAGE = "enumerate"


class Listed:
    """A Retriever that goes through everything where it is asked to: the best passage of each document comes first."""

    def __init__(self, inner: Retriever, *, catalog: Catalog, text_index: TextIndex, cutter: Cutter) -> None:
        self._inner, self._catalog, self._text_index, self._cutter = inner, catalog, text_index, cutter

    def retrieve(self, query: Query) -> Results:
        """All that hold the words, else what the one inside finds."""
        watch = Watch(query)
        results = watch.inside(lambda: self._inner.retrieve(query))
        subject = enumerated(query.text)
        if subject is None and query.options.enumerate == "always":
            subject = query.text
        if subject is None:
            return results
        terms, wording = Terms.of(subject, self._cutter), Wording(query.phrases or (), query.excluded)
        needed = needed_terms(terms)

        def holds(chunk: Chunk, record: Record) -> bool:
            said = f"{record.title}\n{chunk.section}\n{chunk.text}"
            return needed <= {match.term for match in terms.find(said)} and wording.holds(chunk.text, record.title)

        found, lacking = everything(
            subject,
            holds,
            where=conjoin(query.scope, query.where),
            catalog=self._catalog,
            text_index=self._text_index,
            left=watch.left,
        )
        if not found or not needed:
            return results
        counts = Counter(held.record.id for held in found)
        hits = [_hit(held, rank) for rank, held in enumerate(spread(found), start=1)]
        whole = replace(
            results, total=len(hits), document_counts=dict(counts), mode_used="keyword", listed=_shown(terms, subject)
        )
        notes = [f"the list may not be complete: {lacking}"] if lacking else []
        return made(whole, hits[: wanted(query)], stage=STAGE, watch=watch, lacking=notes)


def needed_terms(terms: Terms) -> frozenset[str]:
    """What a passage has to hold: every word of the query that says something."""
    return frozenset(terms.han) | {word.term for word in terms.words if not is_cjk(word.term[0])}


def spread(found: Sequence[Held]) -> list[Held]:
    """The best of every document in their order, then the second of every one, and so on."""
    turns: Counter[str] = Counter()
    placed: list[tuple[int, int, Held]] = []
    for place, held in enumerate(found):
        turns[held.record.id] += 1
        placed.append((turns[held.record.id], place, held))
    return [held for _, _, held in sorted(placed, key=lambda one: one[:2])]


def _hit(held: Held, rank: int) -> Hit:
    scores = {"keyword": held.score}
    said = ("holds every word that is asked for",)
    return Hit(chunk=held.chunk, record=held.record, score=held.score, scores=scores, ranks={STAGE: rank}, reasons=said)


def _shown(terms: Terms, subject: str) -> str:
    """The telling words as the question has them."""
    places = sorted({(word.start, word.end) for word in terms.words})
    return subject[places[0][0] : max(end for _, end in places)] if places else subject
