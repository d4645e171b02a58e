"""A question with a word that no passage has -> asked with the likeliest word that one has.

What counts is how unlikely the slip is, how many passages have the word, and whether it is one that people write. A
word that people write is left as it is, though no passage has it: somebody means it. What was found for the corrected
question carries what was asked for instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain, takewhile
from math import log
from typing import Final

from headwater.errors import BackendError
from headwater.filters import ALL, conjoin
from headwater.protocols import Retriever, TextIndex
from headwater.scanning import Term
from headwater.spellings import respelled
from headwater.stages._request import Watch, made
from headwater.tokens import Cutter, fold
from headwater.types import Query, Results
from headwater.typos import LEAST_LETTERS, Corrections, corrected, doubtful, may_hold_typos, slips, two_slips

STAGE = "typos"
# What a word counts as many as that no passage has: whoever meant it finds nothing, and no other word in its place.
ABSENT: Final = 0.5
# Below so many letters the first one is right: `amass` is not meant for `mass`.
FIRST_LETTER_LETTERS: Final = 6
# What a stem may lack of a name.
TAILS: Final = ("", "s", "e", "es")
# Of a page that was pasted as a question, the first; looking for what was meant with one takes a millisecond.
MOST_UNKNOWN: Final = 32
MOST_LOOKED_FOR: Final = 3
# Of the likeliest words, so many are looked for where the caller may look.
MOST_TRIED: Final = 3
# A word that people write is so much likelier than one that may be a name of somebody's own, as a logarithm.
WRITTEN: Final = 2.0
# Without these a word may be one that people write.
ENDINGS: Final = ("s", "es", "d", "ed", "ing", "ly", "er", "ers")
BEGINNINGS: Final = ("re", "un", "de", "dis", "mis", "non", "over", "under", "out", "pre", "sub", "inter")

Written = Callable[[Sequence[str]], Set[str]]  # of these words, those that people write


class Corrected:
    """A Retriever that asks the one inside with its typos mended; where there are none it is only asked."""

    def __init__(
        self,
        inner: Retriever,
        *,
        text_index: TextIndex,
        cutter: Cutter,
        refresh: Callable[[], None],
        written: Written | None = None,
    ) -> None:
        self._inner, self._index, self._cutter = inner, text_index, cutter
        self._refresh, self._written = refresh, written

    def retrieve(self, query: Query) -> Results:
        """The hits of the one inside, and what was asked for in the place of what."""
        watch = Watch(query)
        try:
            found = self._corrections(query)
        except BackendError:  # the search by words has the same trouble, and says so
            found = {}
        if not found:
            return self._inner.retrieve(query)
        asked = replace(query, text=corrected(query.text, found))
        results = watch.inside(lambda: self._inner.retrieve(asked))
        return replace(made(results, results.hits, stage=STAGE, watch=watch), query=query, corrected=found)

    def _corrections(self, query: Query) -> Corrections:
        if not may_hold_typos(query.text) or not hasattr(self._index, "known"):
            return {}
        terms = self._cutter.words_in(query.text)
        unknown = self._unknown(doubtful(query.text, terms, quoted=query.phrases or ()))
        if not unknown:
            return {}
        self._refresh()  # a document that was just added may have it
        unknown = self._unknown(unknown)[:MOST_UNKNOWN]
        words = list(dict.fromkeys(query.text[term.start : term.end] for term in unknown))
        real = self._real([fold(word) for word in words])
        found: dict[str, str] = {}
        for typed in [word for word in words if fold(word) not in real or respelled(fold(word))][:MOST_LOOKED_FOR]:
            meant = self._meant(fold(typed), query, is_real=fold(typed) in real)
            if meant:
                found[typed] = meant.upper() if typed.isupper() else meant.title() if typed[0].isupper() else meant
        return found

    def _unknown(self, terms: Sequence[Term]) -> list[Term]:
        known = self._index.known([term.term for term in terms]) if terms else {}
        return [term for term in terms if term.term not in known]

    def _real(self, words: Sequence[str]) -> set[str]:
        """Those that people write, or that are made from what people write."""
        if self._written is None:
            return set()
        made_from = {word: _made_from(word) for word in words}
        written = self._written([*dict.fromkeys(chain.from_iterable(made_from.values()))])
        return {word for word, forms in made_from.items() if not written.isdisjoint(forms)}

    def _meant(self, word: str, query: Query, *, is_real: bool) -> str:
        """What a word was meant for, that a passage has where the query may look; empty where nothing comes near."""
        if self._index.search(word, 1, ALL):
            return ""  # it stands among tags, or in an address
        where = conjoin(query.scope, query.where)
        likely = self._likeliest({other: 0.0}) if (other := respelled(word)) else None
        if not likely and not is_real:
            likely = self._likeliest(_near(word))
            if likely is None and self._written is not None and (further := two_slips(word)):
                written = self._written(list(further))  # by two slips anything may become a name
                likely = self._likeliest({other: cost for other, cost in further.items() if other in written})
        return next((one for one in likely or () if self._index.search(one, 1, where)), "")

    def _likeliest(self, ways: Mapping[str, float]) -> list[str] | None:
        """Those that passages have, best first; none that is less likely than a word that none has.

        None, and not an empty list, where none of them is a word at all.
        """
        written = self._written(list(ways)) if self._written is not None and ways else frozenset()
        stems = {other: self._cutter.stem(other) for other in ways}
        known = self._index.known(list(dict.fromkeys(stems.values())))
        points = {
            other: log(known.get(stem, ABSENT)) - ways[other] + WRITTEN * (other in written)
            for other, stem in stems.items()
            if other in written or (stem in known and _is_whole(other, stem))
        }
        best = sorted(points, key=lambda other: (-points[other], other))
        return list(takewhile(lambda other: stems[other] in known, best))[:MOST_TRIED] if best else None


def _near(word: str) -> dict[str, float]:
    found = slips(word)
    if len(word) >= FIRST_LETTER_LETTERS:
        return found
    return {other: cost for other, cost in found.items() if other[0] == word[0]}


def _made_from(word: str) -> list[str]:
    parts = [word.removesuffix(end) for end in ENDINGS if word.endswith(end)]
    parts += (word.removeprefix(begin) for begin in BEGINNINGS if word.startswith(begin))
    return [word, *(part for part in parts if len(part) >= LEAST_LETTERS)]


def _is_whole(other: str, stem: str) -> bool:
    """Whether a stem is the word but for a short ending: `warrenly` has the stem of Warren, and nobody writes it."""
    return any(other == stem + tail for tail in TAILS) or (other[-1] == "y" and other[:-1] + "i" == stem)
