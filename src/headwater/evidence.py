"""A sentence and a passage -> the characters that bear the sentence out, and how well: by words, by meaning, by facts.

Words say where to look: the sentence that has most of what is said. Meaning lets
other words stand for the same. Facts decide: a number, a name, a denial or a direction that the source does not have
makes a sentence unsupported however much else is the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from headwater.facts import Denial, Number, absent, denials, names, numbers, opposed, turned, unlike
from headwater.highlight import Terms
from headwater.protocols import Embedder
from headwater.statements import reading, statements
from headwater.swaps import swaps
from headwater.tokens import fold, is_cjk, language
from headwater.types import Hit, Matrix, Support

# All of these were chosen on the build half of bench/citations.py.
SUPPORTED_SHARE: Final = 0.62  # of a sentence's words that its source must have, where the meaning says nothing
WEAK_SHARE: Final = 0.33  # what two sentences on one subject share anyway
CLAUSE_SHARE: Final = 0.4  # of each clause: half a sentence does not make up for the other half
LEAST_CLAUSE: Final = 3  # units; shorter ones are names and phrases
CONTEXT_CREDIT: Final = 0.6  # for words of the title and of what stands before: what "it" stands for
NEXT_BEST: Final = 0.12
LEAST_PART: Final = 0.2  # of a sentence, that a passage must have to be one of two that bear it out
LEAST_PART_UNITS: Final = 2
SAME_SHARE: Final = 0.78  # of a sentence: so much in one place is nearly the same
WINDOWS: Final = 3  # places of a passage that are looked at closely
# Where the vectors agree so much, fewer of the words need to be there; by so much for each step of the cosine.
NEAR_COSINE: Final = 0.6
COSINE_WEIGHT: Final = 0.5
SAME_WORD_COSINE: Final = 0.4  # of two words in the same place: then one may stand for the other

_CLAUSE: Final = re.compile(r"[,;:!?]\s|[，；：。！？]|\s(?:and|while|but)\s|而")
_FULL_NAME: Final = re.compile(r"(?<![\w'])(?=([A-Z][\w'-]+) ([A-Z][\w'-]+))")
_END: Final = re.compile(r"[.。！？!?;；…]+\Z")


class Source(NamedTuple):
    """`passage[start:end]` and how well it bears a sentence out. `share` is how much of the sentence it has."""

    start: int
    end: int
    support: Support
    share: float


class Claim:
    """A sentence that wants a source. Its facts are read when they are first needed."""

    def __init__(self, body: str, embedder: Embedder | None = None) -> None:
        self.body, self._embedder = body, embedder

    @cached_property
    def plain(self) -> str:
        """Without white space, and without the bullet that a writer puts before it."""
        return "".join(self.body.removeprefix("- ").removeprefix("* ").split())

    @cached_property
    def folded(self) -> str:
        return fold(self.body)

    @cached_property
    def wording(self) -> str:
        """Without its numbers, which can be written in many ways and are compared by themselves."""
        chars = list(self.body)
        for number in self.numbers:
            chars[number.start : number.end] = " " * (number.end - number.start)
        return "".join(chars)

    @cached_property
    def terms(self) -> Terms:
        return Terms.of(self.wording)

    @cached_property
    def numbers(self) -> list[Number]:
        return numbers(self.folded)

    @cached_property
    def names(self) -> list[str]:
        return names(self.body)

    @cached_property
    def full_names(self) -> list[tuple[str, str]]:
        """Words with capital letters that follow each other, two by two."""
        return [(fold(one), fold(other)) for one, other in _FULL_NAME.findall(self.body)]

    @cached_property
    def denials(self) -> list[Denial]:
        return denials(self.folded)

    @cached_property
    def clauses(self) -> list[frozenset[str]]:
        """The units of each clause that has enough of them."""
        cuts = [0, *(found.start() for found in _CLAUSE.finditer(self.body)), len(self.body)]
        found = self.terms.covered(self.wording, list(pairwise(cuts)))
        return [units for units in found if len(units) >= LEAST_CLAUSE]

    @cached_property
    def cuts(self) -> list[tuple[Claim, Claim]]:
        """The sentence cut in two between clauses, in every way that leaves enough on either side."""
        made = []
        for found in _CLAUSE.finditer(self.body):
            parts = [
                Claim(text.strip(), self._embedder) for text in (self.body[: found.start()], self.body[found.end() :])
            ]
            if all(len(part.terms.units) + len(part.numbers) >= LEAST_PART_UNITS for part in parts):
                made.append((parts[0], parts[1]))
        # Halves that are alike in size are the likelier parts.
        return sorted(made, key=lambda pair: abs(len(pair[0].body) - len(pair[1].body)))

    @cached_property
    def vector(self) -> Matrix | None:
        return self._embedder.embed([self.body], "passage") if self._embedder else None

    @cached_property
    def language(self) -> str:
        return language(self.body)


@dataclass(frozen=True, slots=True)
class _Window:
    start: int
    end: int
    place: int  # among the statements
    units: frozenset[str]
    before: frozenset[str]  # in what the passage is about, and in its sentences before
    share: float


class Passage:
    """A passage that sentences are traced back to."""

    def __init__(self, hit: Hit, embedder: Embedder | None = None) -> None:
        self.hit, self.text = hit, hit.chunk.text
        self._embedder = embedder
        self._places = [place for place, char in enumerate(self.text) if not char.isspace()]
        self._dense = "".join(self.text[place] for place in self._places)

    @cached_property
    def folded(self) -> str:
        return fold(self.text)

    @cached_property
    def label(self) -> str:
        """What the passage is said to be about."""
        return f"{self.hit.title}\n{self.hit.chunk.section}"

    @cached_property
    def language(self) -> str:
        return language(self.text)

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        return [(one.start, one.end) for one in statements(self.text)] or [(0, len(self.text))]

    @cached_property
    def _rows(self) -> dict[str, tuple[int, int]]:
        """The rows of tables by how they are read aloud, without white space."""
        read = ((reading(self.text, one), one) for one in statements(self.text))
        return {"".join(said.split()): (one.start, one.end) for said, one in read if said}

    @cached_property
    def _vectors(self) -> Matrix:
        assert self._embedder is not None
        return self._embedder.embed([self.text[start:end] for start, end in self.spans], "passage")

    def states(self, plain: str) -> bool:
        """Whether it is a statement of the passage word for word, and no heading in it."""
        return self.verbatim(plain) in self.spans

    def verbatim(self, plain: str) -> tuple[int, int] | None:
        """Where it stands word for word; white space may differ, for generated text has its own line breaks."""
        start = self._dense.find(plain) if plain else -1
        if start < 0:
            return self._rows.get(plain)
        return self._places[start], self._places[start + len(plain) - 1] + 1

    def source(self, claim: Claim) -> Source:
        """The characters it rests on and how well they support it."""
        exact = self.verbatim(claim.plain) or self.verbatim(_END.sub("", claim.plain))
        if exact:
            return Source(*exact, "supported", 1.0)
        if claim.language != self.language:
            return self._translated(claim)
        windows = self._windows(claim)
        # Where the best place says otherwise, one that has less to do with it says nothing.
        found = [(self._judged(claim, one), one) for one in windows if one.share >= windows[0].share - NEXT_BEST]
        order: Sequence[Support] = ("supported", "weak", "unsupported")
        best, window = min(found, key=lambda pair: (order.index(pair[0].support), -pair[0].share))
        if best.support == "supported" and self._rivalled(claim, window, windows):
            return best._replace(support="weak")
        return best

    def _rivalled(self, claim: Claim, window: _Window, windows: Sequence[_Window]) -> bool:
        """Whether another place says more of it, with another number: the number found is that of something else."""
        return any(window.units < one.units and _elsewhere(claim, self.folded[one.start : one.end]) for one in windows)

    def _translated(self, claim: Claim) -> Source:
        """Words cannot tell whether a translation is right; only its numbers can."""
        best = max(self._windows(claim), key=lambda window: window.share)
        lacking = any(unlike(number, numbers(self.folded)) for number in claim.numbers)
        span = (best.start, best.end) if best.units else (0, len(self.text))
        return Source(*span, "unsupported" if lacking else "weak", best.share)

    def _windows(self, claim: Claim) -> list[_Window]:
        """The sentences that have most of its words, best first."""
        terms, spans = claim.terms, self.spans
        covered = terms.covered(self.text, spans)
        before = terms.covered(self.label, [(0, len(self.label))])[0]
        made: list[_Window] = []
        for place, (units, (start, end)) in enumerate(zip(covered, spans, strict=True)):
            here = numbers(self.folded[start:end]) if claim.numbers else []
            counted = sum(not unlike(number, here) for number in claim.numbers)
            whole = max(1, len(terms.units) + len(claim.numbers))
            share = (len(units) + counted + CONTEXT_CREDIT * len(before - units)) / whole
            made.append(_Window(start, end, place, units, before, share))
            before = before | units
        return sorted(made, key=lambda one: (-one.share, one.start))[:WINDOWS]

    def _judged(self, claim: Claim, window: _Window) -> Source:
        text = self.text[window.start : window.end]
        folded = self.folded[window.start : window.end]
        share = window.share + COSINE_WEIGHT * max(0.0, self._cosine(claim, window) - NEAR_COSINE)
        support: Support = "supported" if share >= SUPPORTED_SHARE else "weak" if share >= WEAK_SHARE else "unsupported"
        if support == "supported" and any(self._lacks(clause, window) for clause in claim.clauses):
            support = "weak"
        here = numbers(folded)
        if _more(claim.numbers, here):
            lacking = _more(claim.numbers, numbers(self.folded))
            support = "unsupported" if lacking else _least(support, "weak")
        elif support != "unsupported":
            support = _least(support, self._named(claim, text, folded))
        if support == "supported" and (self._swapped(claim.folded, folded) or self._astray(claim, text)):
            support = "weak"
        if support != "unsupported" and (
            opposed(claim.folded, folded) or turned(claim.folded, folded) or contradicts(claim, folded)
        ):
            support = "unsupported"
        return Source(window.start, window.end, support, window.share)

    def _astray(self, claim: Claim, text: str) -> bool:
        """Whether a clause says of one thing what the source says of another, in another of its clauses."""
        given = [fold(clause) for clause in _clauses(text)]
        if len(given) == 1:
            return False
        for part in map(Claim, _clauses(claim.body)):
            scored = [(_shared(part, clause), clause) for clause in given]
            most = max(score for score, _ in scored)
            best = [clause for score, clause in scored if score == most] if most >= LEAST_PART_UNITS else []
            if any(_elsewhere(part, clause) or self._swapped(part.folded, clause, from_start=False) for clause in best):
                return True
        return False

    def _swapped(self, claim: str, folded: str, *, from_start: bool = True) -> bool:
        """Whether something else stands in a place of the sentence than in the source, all around being the same."""
        for said, given in swaps(claim, folded, from_start=from_start):
            if self._embedder is None:
                return True
            one, other = self._embedder.embed([said, given], "passage")
            if float(one @ other) < SAME_WORD_COSINE:
                return True
        return False

    def _lacks(self, clause: frozenset[str], window: _Window) -> bool:
        return len(clause & (window.units | window.before)) < CLAUSE_SHARE * len(clause)

    def _cosine(self, claim: Claim, window: _Window) -> float:
        if claim.vector is None or self._embedder is None:
            return 0.0
        return float(claim.vector[0] @ self._vectors[window.place])

    def _named(self, claim: Claim, text: str, folded: str) -> Support:
        """What the names say. Nowhere in the passage: another name. Elsewhere in it: it may be what "it" stands for."""
        missing = [name for name in claim.names if absent(name, folded)]
        around = f"{self.folded}\n{fold(self.label)}"
        if any(absent(name, around) for name in missing):
            return "unsupported"
        if any(_apart(pair, folded) and _apart(pair, around) for pair in claim.full_names):
            return "weak"
        late = [name for name in missing if claim.folded.find(name) > SUBJECT_SHARE * len(claim.folded)]
        strangers = late and [name for name in names(text) if name not in claim.folded]
        return "weak" if strangers else "supported"


def _clauses(text: str) -> list[str]:
    cuts = [0, *(cut for found in _CLAUSE.finditer(text) for cut in found.span()), len(text)]
    return [part for start, end in zip(cuts[::2], cuts[1::2], strict=True) if (part := text[start:end].strip())]


def _shared(part: Claim, clause: str) -> int:
    """How many of the words and numbers of a clause another one has."""
    there = numbers(clause)
    (units,) = part.terms.covered(clause, [(0, len(clause))])
    return len(units) + sum(not unlike(number, there) for number in part.numbers)


def _elsewhere(part: Claim, clause: str) -> bool:
    """Whether a number that is said is not in the clause, which has another one for it."""
    there = numbers(clause)
    others = [one for one in there if unlike(one, part.numbers)]
    return any(unlike(number, there) and any(one.unit == number.unit for one in others) for number in part.numbers)


def _more(said: Sequence[Number], given: Sequence[Number]) -> bool:
    """Whether a number is said that is not given, or more often than it is given."""
    left = list(given)
    for number in said:
        same = next((one for one in left if not unlike(number, [one])), None)
        if same is None:
            return True
        left.remove(same)
    return False


def _apart(pair: tuple[str, str], folded: str) -> bool:
    """Whether the two words of a name do not stand together."""
    first, second = (re.escape(word) for word in pair)
    return not re.search(rf"{first}\W+(?:\w+\W+)?{second}", folded)


def _least(one: Support, other: Support) -> Support:
    order: Sequence[Support] = ("unsupported", "weak", "supported")
    return min(one, other, key=order.index)


def contradicts(claim: Claim, given: str) -> bool:
    """Whether one of them denies what the other says."""
    there = denials(given)
    if claim.denials and not there:
        return True
    return _denied_only(claim.folded, claim.denials, given, there) or _denied_only(
        given, there, claim.folded, claim.denials
    )


def _denied_only(said: str, said_denials: Sequence[Denial], given: str, given_denials: Sequence[Denial]) -> bool:
    """Whether something is denied in the first text that stands undenied in the second."""
    for denial in said_denials:
        words = _telling(said[denial.start : denial.reach])
        if not words:
            continue
        # What also stands undenied in the same text is not what this denial is about.
        words = [word for word in words if all(_inside(place, said_denials) for place in _places(word, said))]
        found = [place for word in words for place in _places(word, given)]
        if found and not any(_inside(place, given_denials) for place in found):
            return True
    return False


_WORD: Final = re.compile(r"[a-z][a-z0-9-]{3,}")
SUBJECT_SHARE: Final = 0.34  # of a sentence, from its start: where its subject stands, which a source may name before
_CUE_WORDS: Final = frozenset(
    "not never neither none nobody nothing without cannot hardly unable fail failed fails".split()
)


def _telling(stretch: str) -> list[str]:
    """What is denied: its words, or pairs of Chinese characters."""
    found = [word[:6] for word in _WORD.findall(stretch) if word not in _CUE_WORDS]
    found += (
        one + other for one, other in pairwise(stretch) if is_cjk(one) and is_cjk(other) and one not in "不没未无非"
    )
    return found


def _inside(place: int, denied: Sequence[Denial]) -> bool:
    return any(one.start <= place < one.reach for one in denied)


def _places(word: str, text: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(word), text)]


# ------------------------------------------------------------------------------------ several passages


def traced(claim: Claim, passages: Sequence[Passage], *, named: Sequence[int] = ()) -> list[tuple[int, Source]]:
    """The passages that bear a sentence out, by their place, with what they are worth; empty where none does.

    Those that it names come first. A weak one is kept only where it is named: a guess is no reason for a citation.
    """
    found = {place: passages[place].source(claim) for place in named}
    if good := _supported(found):
        return good
    found.update({place: passage.source(claim) for place, passage in enumerate(passages) if place not in found})
    if good := _supported(found):
        return [max(good, key=lambda pair: pair[1].share)]
    near = [place for place, source in found.items() if source.share >= LEAST_PART]
    if max((source.share for source in found.values()), default=1.0) >= SAME_SHARE:
        near = []  # one place says nearly the same and is not enough: parts of it are not more
    if spread := _spread(claim, [(place, passages[place]) for place in near]):
        return spread
    return [(place, found[place]) for place in named if found[place].support == "weak"]


def _supported(found: Mapping[int, Source]) -> list[tuple[int, Source]]:
    return [pair for pair in found.items() if pair[1].support == "supported"]


def _spread(claim: Claim, passages: Sequence[tuple[int, Passage]]) -> list[tuple[int, Source]]:
    """Two sources, each for its part of the sentence, where it can be cut in two so."""
    if not passages:
        return []
    for first, second in claim.cuts:
        sources = []
        for part in (first, second):
            found = [(place, passage.source(part)) for place, passage in passages]
            good = [pair for pair in found if pair[1].support == "supported"]
            if not good:
                break
            sources.append(max(good, key=lambda pair: pair[1].share))
        if len(sources) == len((first, second)):
            return sources
    return []
