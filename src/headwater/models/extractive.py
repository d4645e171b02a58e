"""Context -> an answer in the documents' own words: the sentences that answer the question best, each with its marker.

No model is asked. What a sentence is worth (`_worth`) comes from what it says of the question's words (rare ones count
more), with less credit for what its heading, its neighbours and its passage say, from what it means of the question in
other words or another language, and from holding the kind of thing that is asked for. Nothing comes out where the
passages say too little of what is asked (`_gate`): there is no answer, and that is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from headwater.facts import numbers, unlike
from headwater.models._gate import (
    FEW_PASSAGES,
    USUAL_GAP,
    USUAL_MEANING_STANDING_OUT,
    USUAL_STANDING_OUT,
    Signs,
    answers,
    covers,
)
from headwater.models._reading import CUES, NAME, WHO, Meant, Passage, Question
from headwater.models._worth import Features, worth
from headwater.protocols import Embedder
from headwater.statements import reading
from headwater.tokens import Cutter, fold, is_cjk
from headwater.types import Context

SHORT_CHARS: Final = 15  # in Chinese; other scripts write about three characters for one
# Saying again what was picked already costs up to so much (maximal marginal relevance).
REPEAT_COST: Final = 1.2
COPY: Final = 0.85  # so much in common with one that was picked, and it is not said at all
# Below the best sentence: what is further off belongs to another answer. Four would cost 2 % of the answers; six gains
# less than 1 % by a third sentence that is mostly about something else (build half of bench/answers.py).
FAR: Final = 5.0

# What has to be read from its beginning.
STEPS: Final = re.compile(
    r"\bhow (?:to|(?:do|can|should|must) (?:i|we|you|one))\b|怎么(?![样算办])|如何|怎样|步骤|流程"
)
# A sentence that can only be read after the one before it.
POINTS_BACK: Final = re.compile(
    r"^(?:it|its|they|them|their|he|him|his|she|her|this|that|these|those|then|also|but|and|or|so|however|otherwise|"
    r"afterwards|thereafter|therefore|instead|besides|moreover|both|neither|the (?:former|latter|same))\b|"
    r"\bthere[.!]?$|^(?:它|他|她|其(?!他|余|实)|该|此|这|那|上述|前者|后者|但|并|而|因此|所以|然后|随后|此外|另外|同时|否则|则|也)",
    re.IGNORECASE,
)

# A passage in another language shares no words with the question; without an embedder of our own only the cosine that
# it was found with can vouch for it. Embedders that know both languages put related texts above this, and hashed words
# get there only by sharing them.
MIN_FOREIGN_COSINE: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Candidate:
    number: int  # of its passage
    place: int  # among the statements of its passage
    index: int  # among all sentences
    text: str
    worth: float
    foreign: bool  # in another language than the question
    share: float  # of the question


class ExtractiveGenerator:
    """Answers with sentences of the passages, word for word, or not at all. Without an embedder words decide alone."""

    def __init__(self, *, cutter: Cutter | None = None, embedder: Embedder | None = None) -> None:
        self._cutter, self._embedder = cutter, embedder

    def generate(self, context: Context) -> Iterator[str]:
        """One line per sentence, each with the marker of its passage; nothing where the evidence is weak."""
        question = Question.of(context, self._cutter)
        meant = question.meant() if self._embedder else None
        found = self._candidates(question, meant)
        if not found or not _answered(question, meant, found, context):
            return
        picked = _pick(found, context.query.options.max_sentences)
        for one in _in_telling_order(
            picked, steps=bool(STEPS.search(question.terms.folded)), passages=question.passages
        ):
            yield f"{one.text} [{one.number + 1}]\n"

    def _candidates(self, question: Question, meant: Meant | None) -> list[_Candidate]:
        """Every sentence of every passage that may be an answer, with its worth."""
        features = self.features(question, meant)
        found: list[_Candidate] = []
        for index, (number, place) in enumerate(question.places):
            passage = question.passages[number]
            if _stands_aside(question, passage, place):
                continue
            text = _shown(passage, place)
            foreign = bool(features[index].foreign)
            share = question.share(number, place)
            found.append(_Candidate(number, place, index, text, worth(features[index]), foreign, share))
        return found

    def features(self, question: Question, meant: Meant | None) -> list[Features]:
        """What every sentence has to do with the question."""
        folded = question.terms.folded
        cues = [cue.given for cue in CUES if cue.asked.search(folded)]
        wants_name = bool(WHO.search(folded))
        words = [question.credited(*where) for where in question.places]
        wordless = 1 - min(1.0, max(words, default=0.0))
        made: list[Features] = []
        for index, (number, place) in enumerate(question.places):
            passage, statement = question.passages[number], question.passages[number].statements[place]
            text = passage.said(place)
            first = 1 / (1 + place)
            foreign = float(question.foreign(number, place))
            meaning = float(meant.shares[index]) if meant else 0.0
            cue = float(sum(bool(one.search(passage.folded, *statement[:2])) for one in cues))
            made.append(
                Features(
                    words=words[index],
                    rank=math.log2(1 + number),
                    passage_cosine=passage.cosine,
                    place=first,
                    cue=cue,
                    name=float(wants_name and bool(NAME.search(text))),
                    short=max(0.0, 1 - _weight_chars(text) / SHORT_CHARS),
                    is_question=float(text.endswith(("?", "？"))),
                    code=float(statement.kind == "code"),
                    meaning=meaning,
                    foreign=foreign,
                    foreign_meaning=foreign * meaning,
                    foreign_place=foreign * first,
                    wordless_meaning=wordless * meaning,
                    wordless_cue=wordless * cue,
                )
            )
        return made


def _stands_aside(question: Question, passage: Passage, place: int) -> bool:
    """Whether a sentence is no answer whatever it has in common with the question."""
    if question.terms.codes and not question.terms.codes & passage.all:
        return True  # what is said of another part number is no answer
    units = passage.units[place]
    if passage.statements[place].kind == "row":
        # Where one row of a table says what is asked, those that say nothing of it, or only a part of the same, are
        # about something else: 一线城市 beside 二线城市.
        wanted = question.terms.codes or frozenset(question.terms.units)
        rows = (found for found, one in zip(passage.units, passage.statements, strict=True) if one.kind == "row")
        return any(units & wanted < found & wanted for found in rows)
    if place not in passage.titles:
        return False
    # A title is said only where it has nothing under it and a word of the question that nothing else has.
    said = frozenset[str]().union(*(one.stated for one in question.passages))
    return passage.leads(place) or units <= said


def _answered(question: Question, meant: Meant | None, found: Sequence[_Candidate], context: Context) -> bool:
    """Whether the passages say enough of what is asked. What says everything asked of a code does, row that it is."""
    if any(question.says_all(one.number, one.place) for one in found):
        return True
    if meant is not None:
        return answers(signs_of(question, meant, found, context))
    cosines = [question.passages[one.number].cosine for one in found if one.foreign and one.number == 0]
    if max(cosines, default=0.0) >= MIN_FOREIGN_COSINE:
        return True
    best = max(found, key=lambda one: one.share + question.covered[one.number])
    return covers(best.share, question.covered[best.number])


def signs_of(question: Question, meant: Meant, found: Sequence[_Candidate], context: Context) -> Signs:
    """What speaks for an answer."""
    best = max(found, key=lambda one: (one.worth, -one.number, -one.place))
    passage = question.passages[best.number]
    keywords = [hit.scores["keyword"] for hit in context.hits if "keyword" in hit.scores]
    covered = question.covered[best.number]
    # Where words were not searched for, what the passage has of them stands in.
    keyword = max(keywords) / context.best_keyword if keywords and context.best_keyword else covered
    around = numbers(fold(f"{passage.label}\n{passage.text}"))
    lacking = any(unlike(number, around) for number in numbers(question.terms.folded))
    meaning, foreign = float(meant.shares[best.index]), float(best.foreign)
    others = [share for number, share in enumerate(question.covered) if number != best.number]
    beside = [share for number, share in meant.passages.items() if number != best.number]
    enough = len(others) >= FEW_PASSAGES - 1
    return Signs(
        sentence=best.share,
        keyword=keyword,
        missing_number=float(lacking),
        standing_out=covered - fmean(others) if enough else USUAL_STANDING_OUT,
        meaning=meaning,
        meaning_standing_out=meant.passages[best.number] - fmean(beside) if enough else USUAL_MEANING_STANDING_OUT,
        length=math.log(len(meant.near.weights)),
        gap=best.worth - median(one.worth for one in found) if len(found) >= FEW_PASSAGES else USUAL_GAP,
        foreign=foreign,
        foreign_keyword=foreign * keyword,
        foreign_meaning=foreign * meaning,
    )


def _pick(candidates: Sequence[_Candidate], most: int) -> list[_Candidate]:
    """The best one, then those close to it, each worth less the more it repeats of the others."""
    ordered = sorted(candidates, key=lambda one: (-one.worth, one.number, one.place))
    least = ordered[0].worth - FAR
    left = {one: _grams(one.text) for one in ordered if one.worth >= least}
    picked: dict[_Candidate, frozenset[str]] = {}
    while left and len(picked) < most:
        again = {
            one: max((_repeated(one, grams, *other) for other in picked.items()), default=0.0)
            for one, grams in left.items()
        }
        best = max(left, key=lambda one: one.worth - REPEAT_COST * again[one])
        if best.worth - REPEAT_COST * again[best] < least:
            break
        grams = left.pop(best)
        if again[best] < COPY:
            picked[best] = grams
    return list(picked)


def _repeated(one: _Candidate, grams: frozenset[str], other: _Candidate, said: frozenset[str]) -> float:
    """How much of a sentence another one says. Nothing where nearly the same words say other numbers."""
    overlap = _overlap(grams, said)
    return 0.0 if overlap >= COPY and _differ(one, other) else overlap


def _differ(one: _Candidate, other: _Candidate) -> bool:
    """Whether two sentences in nearly the same words say other numbers: an old rule and a new one, two rows."""
    mine, theirs = numbers(fold(one.text)), numbers(fold(other.text))
    return any(unlike(number, theirs) for number in mine) and any(unlike(number, mine) for number in theirs)


def _in_telling_order(picked: Sequence[_Candidate], *, steps: bool, passages: Sequence[Passage]) -> list[_Candidate]:
    """Passages in the order of their best sentence, which begins; the rest of a passage as its text has it.

    Steps stay in their order, and a sentence that points back stays behind the one it points to.
    """
    told: list[_Candidate] = []
    for number in dict.fromkeys(one.number for one in picked):
        best, *_ = found = [one for one in picked if one.number == number]
        found.sort(key=lambda one: one.place)
        first = found.index(best)
        passage = passages[number]
        if passage.is_step(best.place) or (steps and passage.statements[best.place].kind == "sentence"):
            first = 0
        while first and found[first - 1].place == found[first].place - 1 and POINTS_BACK.search(found[first].text):
            first -= 1
        told += [*found[first : found.index(best) + 1], *found[:first], *found[found.index(best) + 1 :]]
    return told


def _shown(passage: Passage, place: int) -> str:
    """A statement on one line; a row of a table with the names of its columns."""
    return reading(passage.text, passage.statements[place]) or _flat(passage.said(place))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, min(len(one), len(other)))


def _grams(text: str) -> frozenset[str]:
    letters = re.sub(r"\W+", "", fold(text))
    # Three letters tell words apart about as well as two Chinese characters do.
    size = 2 if is_cjk(letters[:1]) else 3
    return frozenset(letters[place : place + size] for place in range(max(1, len(letters) - size + 1)))


def _weight_chars(text: str) -> float:
    return len(text) if is_cjk(text[:1]) else len(text) / 3


def _flat(text: str) -> str:
    """On one line; a line break inside a Chinese sentence is no space."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    flat = lines[0]
    for line in filter(None, lines[1:]):
        flat += line if flat and is_cjk(flat[-1]) and is_cjk(line[0]) else f" {line}"
    return flat
