"""The postings of a question's terms -> chunk ids in order, by the BM25 of every text index.

All is in arrays with one place for each posting. A score is a sum over postings of one chunk, always in the order of
the question's terms, so that chunks with the same words have the same score to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.selection import Selection
from headwater.storage._lanes import FIELDS, REQUIRED_IN, Question, Term, worth
from headwater.storage._postgres_postings import Postings
from headwater.storage._postgres_text_tables import Statistics
from headwater.types import Ids, Scored

Key = tuple[str, str]  # (field, token)
_Scores = npt.NDArray[np.float64]


class Counted(NamedTuple):
    """What the rarity of a question's terms is reckoned from."""

    chunks: int
    held: Mapping[Key, int]

    def containing(self, field: str, token: str) -> int:
        """How many chunks have a token in a field."""
        return self.held.get((field, token), 0)


NOTHING_COUNTED = Counted(0, {})


def keys_of(question: Question, needed: Iterable[str]) -> list[Key]:
    """Every field and token whose postings a search has to see, once, in a fixed order."""
    asked = [term[:2] for term in question.all_terms]
    phrased = [term[:2] for phrase in question.phrases for terms in phrase for term in terms]
    return list(dict.fromkeys([*asked, *phrased, *((field, token) for token in needed for field in REQUIRED_IN)]))


class Ranking:
    """The chunks that have any of the terms. `counts` and the postings' terms are places in `keys`, from 1 on."""

    def __init__(
        self,
        keys: Sequence[Key],
        counts: Mapping[int, int],
        postings: Postings,
        *,
        statistics: Statistics,
        k1: float,
        b: float,
    ) -> None:
        self.counted = Counted(
            statistics.chunks, {key: counts.get(place, 0) for place, key in enumerate(keys, start=1)}
        )
        self._places = {key: place for place, key in enumerate(keys)}
        # Postings come by term: those of the n-th are from bounds[n] to bounds[n + 1].
        self._bounds = np.searchsorted(postings.terms, np.arange(1, len(keys) + 2)).tolist()
        self._ids, self._rows = _dense(postings.ids)
        means = np.array(
            [statistics.lengths[FIELDS.index(field)] / max(statistics.chunks, 1) for field, _ in keys], dtype=np.float64
        )
        # Where no chunk has the field there is no posting to divide.
        mean = np.where(means > 0, means, 1.0)[postings.terms - 1]
        length = 1 - b + b * postings.lengths / mean
        self._share = postings.frequencies * (k1 + 1) / (postings.frequencies + k1 * length)

    def best(self, question: Question, *, needed: Sequence[str], selection: Selection, limit: int) -> list[Scored]:
        """The best of those that hold all that is needed and are allowed; ties by id."""
        totals = self._sums(question.all_terms)
        for phrase in question.phrases:
            totals += self._phrase(phrase)
        keep = (totals > 0) & selection.contains(self._ids)
        for token in needed:
            keep &= self._holding(token)
        ids, scores = self._ids[keep], totals[keep]
        if len(ids) > limit:
            # All that score as high as the last that counts, so that ties are cut by id.
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            ids, scores = ids[scores >= least], scores[scores >= least]
        order = np.lexsort((ids, -scores))[:limit]
        return list(map(Scored, ids[order].tolist(), scores[order].tolist()))

    def _sums(self, terms: Sequence[Term]) -> _Scores:
        """For each chunk what it scores by these terms."""
        slices = [self._slice(term[:2]) for term in terms]
        rows = [self._rows[part] for part in slices]
        shares = [self._share[part] * self._worth(term) for term, part in zip(terms, slices, strict=True)]
        if not rows:
            return np.zeros(len(self._ids))
        sums = np.bincount(np.concatenate(rows), weights=np.concatenate(shares), minlength=len(self._ids))
        return sums.astype(np.float64, copy=False)

    def _phrase(self, phrase: Sequence[Sequence[Term]]) -> _Scores:
        """On top: what the places of a phrase score in chunks that have a term of each."""
        total = np.zeros(len(self._ids))
        if any(all(self._is_empty(term) for term in terms) for terms in phrase):
            return total
        whole = np.ones(len(self._ids), dtype=np.bool_)
        for terms in phrase:
            part = self._sums(terms)
            whole &= part > 0
            total += part
        return np.where(whole, total, 0.0)

    def _holding(self, token: str) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(self._ids), dtype=np.bool_)
        for field in REQUIRED_IN:
            found[self._rows[self._slice((field, token))]] = True
        return found

    def _worth(self, term: Term) -> float:
        return worth(term, chunks=self.counted.chunks, containing=self.counted.containing)

    def _is_empty(self, term: Term) -> bool:
        part = self._slice(term[:2])
        return bool(part.start == part.stop)

    def _slice(self, key: Key) -> slice:
        place = self._places[key]
        return slice(self._bounds[place], self._bounds[place + 1])


def _dense(ids: Ids) -> tuple[Ids, npt.NDArray[np.intp]]:
    """The different ids in order, and for each given one its place among them. Ids come in runs that are in order."""
    if not len(ids):
        return ids, np.empty(0, dtype=np.intp)
    order = np.argsort(ids, kind="stable")
    in_order = ids[order]
    first = np.concatenate(([True], in_order[1:] != in_order[:-1]))
    places = np.empty(len(ids), dtype=np.intp)
    places[order] = np.cumsum(first) - 1
    return in_order[first], places
