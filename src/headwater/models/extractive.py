"""Context -> an answer in the documents' own words: the sentences that cover the question best, each with its marker.

No model is asked. A sentence is worth what it says of the question's words (rare ones count more), with less credit for
what its heading, its neighbours and its passage say, and a little for holding the kind of thing that is asked for.
Nothing comes out where the passages say too little of what is asked (`_gate`): there is no answer, and that is said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from headwater.facts import absent, names
from headwater.highlight import STOP_WORDS, Terms
from headwater.models._gate import FEW_PASSAGES, Signs, answers
from headwater.protocols import Embedder
from headwater.statements import Statement, statements
from headwater.tokens import Cutter, fold, is_cjk, language
from headwater.types import Context, Hit

# What a word of the question is worth to a sentence, by where it stands. The sentence itself is 1. These, down to
# REPEAT_COST, were fitted together on the build half of bench/answers.py, by how often the right sentence won.
HEADING_CREDIT: Final = 0.95  # title, section, heading, head of the table: what the sentence is about
BEFORE_CREDIT: Final = 0.45  # the sentence before: what "it" and "this" stand for
AFTER_CREDIT: Final = 0.13  # the sentence after: a question in the text, answered before it, is rare
RANK_COST: Final = 0.08  # per doubling of the rank: retrieval saw more than these passages
FIRST_BONUS: Final = 0.04  # in the best passage
PASSAGE_NEARNESS: Final = 0.42  # for the cosine of question and passage
NEARNESS: Final = 0.19  # and of question and sentence
PLACE_BONUS: Final = 0.25  # shared by the places of a passage, 1, 1/2, 1/3 ...: who is asked answers first
CUE_BONUS: Final = 0.22  # holds a number, a date ... where one is asked for
NAME_BONUS: Final = 0.06  # holds a name where a person is asked for
SHORT_COST: Final = 0.15  # fragments say little
QUESTION_COST: Final = 0.34  # a question is no answer
REPEAT_COST: Final = 0.23  # saying again what was picked already (maximal marginal relevance)
CODE_WEIGHT: Final = 2.0  # a part number is what the question is about
SHORT_CHARS: Final = 15  # in Chinese; other scripts write about three characters for one
CODE_COST: Final = 0.3  # a line of code is an answer only where nothing else is
COPY: Final = 0.85  # so much in common with one that was picked, and it is not said at all
CLOSE: Final = 0.5  # of the best sentence's worth: what is further off belongs to another answer

# A passage in another language shares no words with the question; only the cosine can vouch for it. Embedders that know
# both languages put related texts above this, and hashed words get there only by sharing them.
MIN_FOREIGN_COSINE: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Cue:
    asked: re.Pattern[str]
    given: re.Pattern[str]


_HAN_DIGITS: Final = "一二三四五六七八九十百千万亿两零〇半"
_CUES: Final = (
    _Cue(
        re.compile(
            r"\bhow (?:many|much|long|old|far|often|tall|high|big|large|fast|deep)\b|多少|几|多[久长大高远重深]"
        ),
        re.compile(
            rf"\d|[{_HAN_DIGITS}]+[个年月天日次种位名岁元米公周倍成度人]|"
            r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million|billion|half|dozen)\b"
        ),
    ),
    _Cue(
        re.compile(
            r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|time|century|decade)\b|"
            r"什么时候|何时|哪一?[年月天日]|几[年月日号点]|时间|日期|时期"
        ),
        re.compile(
            r"\b1\d{3}\b|\b20\d\d\b|\d\s*[年月日号点时]|世纪|年代|时期|\bcentur(?:y|ies)\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|"
            r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b"
        ),
    ),
    _Cue(
        re.compile(
            r"\bwhere\b|\b(?:what|which) (?:city|country|place|state|region|area)\b|"
            r"哪里|哪儿|何处|何地|什么地方|在哪|哪个?[省市县国城]"
        ),
        re.compile(r"[省市县区镇村路街国州]|位于|坐落|\b(?:in|at|near|located)\b"),
    ),
    _Cue(
        re.compile(r"\bwhy\b|为什么|为何|原因"),
        re.compile(r"因为|由于|因此|所以|原因|为了|\b(?:because|due to|since|so that|in order to|reason)\b"),
    ),
)
# Names have capital letters, or the dot of a foreign name; the text must not be folded to see them.
_WHO: Final = re.compile(r"\bwho(?:m|se)?\b|谁|哪一?位|什么人|何人")
_NAME: Final = re.compile(r"\b[A-Z][\w'-]+ (?:[a-z]{1,3} )?[A-Z][\w'-]+|\w·\w")


@dataclass(frozen=True, slots=True)
class _Candidate:
    passage: int
    place: int  # among the statements of its passage
    text: str
    worth: float
    foreign: bool  # in another language than the question, and near it in meaning
    share: float  # of the question
    cosine: float | None
    grams: frozenset[str]


class ExtractiveGenerator:
    """Answers with sentences of the passages, word for word, or not at all."""

    def __init__(self, *, cutter: Cutter | None = None, embedder: Embedder | None = None) -> None:
        self._cutter, self._embedder = cutter, embedder

    def generate(self, context: Context) -> Iterator[str]:
        """One line per sentence, each with the marker of its passage; nothing where the evidence is weak."""
        question = _Question.of(context, self._cutter)
        found = self._candidates(question, context)
        if not found or not self._answered(question, found, context):
            return
        for one in _in_reading_order(_pick(found, context.query.options.max_sentences)):
            yield f"{one.text} [{one.passage + 1}]\n"

    def _candidates(self, question: _Question, context: Context) -> list[_Candidate]:
        """Every sentence of every passage, with its worth."""
        terms, weights = question.terms, question.weights
        cues = [cue.given for cue in _CUES if cue.asked.search(terms.folded)]
        wants_name = bool(_WHO.search(terms.folded))
        asked_in = language(context.query.text)
        cosines = self._cosines(question, context)
        found: list[_Candidate] = []
        for number, passage in enumerate(question.passages):
            foreign = asked_in != passage.language and passage.cosine >= MIN_FOREIGN_COSINE
            if terms.codes and not terms.codes & passage.all:
                continue  # what is said of another part number is no answer
            # Where one row of a table says what is asked, those that say nothing of it are about something else.
            rows = any(units for units, one in zip(passage.units, passage.statements, strict=True) if one.kind == "row")
            for place, statement in enumerate(passage.statements):
                if statement.kind == "row" and rows and not passage.units[place]:
                    continue
                text = passage.text[statement.start : statement.end]
                cosine = cosines.get((number, place))
                worth = sum(weights[unit] * passage.credit(unit, place) for unit in terms.units) / question.whole
                worth += FIRST_BONUS * (number == 0) - RANK_COST * math.log2(1 + number)
                worth += PASSAGE_NEARNESS * passage.cosine + NEARNESS * (cosine or 0.0) + PLACE_BONUS / (1 + place)
                worth += CUE_BONUS * sum(bool(cue.search(passage.folded, *statement[:2])) for cue in cues)
                worth += NAME_BONUS * (wants_name and bool(_NAME.search(text)))
                worth -= SHORT_COST * max(0.0, 1 - _weight_chars(text) / SHORT_CHARS)
                worth -= QUESTION_COST * text.endswith(("?", "？")) + CODE_COST * (statement.kind == "code")
                share = question.share(passage.units[place])
                found.append(_Candidate(number, place, _flat(text), worth, foreign, share, cosine, _grams(text)))
        return found

    def _cosines(self, question: _Question, context: Context) -> Mapping[tuple[int, int], float]:
        """How near the question each sentence is, by passage and place."""
        if self._embedder is None:
            return {}
        places = [
            (number, place) for number, one in enumerate(question.passages) for place in range(len(one.statements))
        ]
        texts = [question.passages[number].said(place) for number, place in places]
        rows = self._embedder.embed([context.query.text, *texts], "passage")
        return dict(zip(places, (rows[1:] @ rows[0]).tolist(), strict=True))

    def _answered(self, question: _Question, found: Sequence[_Candidate], context: Context) -> bool:
        """Whether the passages say enough of what is asked."""
        # Where the best passage is in the question's own language, words can be compared, and the signs decide.
        if any(one.foreign and one.passage == 0 for one in found):
            return True
        # The sentence that speaks most for an answer, which need not be the first that is picked.
        best = max(found, key=lambda one: one.share + question.covered[one.passage] + 0.5 * (one.cosine or 0.0))
        others = [number for number in range(len(question.passages)) if number != best.passage]
        enough = len(question.passages) >= FEW_PASSAGES
        keywords = [hit.scores["keyword"] for hit in context.hits if "keyword" in hit.scores]
        nearest = question.nearest(found)
        hit = context.hits[best.passage]
        around = fold(f"{hit.title}\n{hit.chunk.section}\n{hit.chunk.text}")
        return answers(
            Signs(
                sentence=best.share,
                passage=question.covered[best.passage],
                cosine=best.cosine,
                keyword=max(keywords) / context.best_keyword if keywords and context.best_keyword else None,
                missing_name=any(absent(name, around) for name in names(context.query.text)),
                standing_out=question.covered[best.passage] - fmean(question.covered[one] for one in others)
                if enough
                else None,
                nearer=nearest.get(best.passage, 0.0) - fmean(nearest.get(one, 0.0) for one in others)
                if enough
                else None,
            )
        )


@dataclass(frozen=True, slots=True)
class _Question:
    """A question with what the passages at hand say of it."""

    terms: Terms
    passages: list[_Passage]
    weights: Mapping[str, float]
    whole: float
    covered: list[float]  # the share of the question that each passage has

    @staticmethod
    def of(context: Context, cutter: Cutter | None) -> _Question:
        terms = Terms.of(context.query.text, cutter)
        read = [_Passage.read(hit, terms) for hit in context.hits]
        weights = _weights(terms, read)
        whole = sum(weights.values()) or 1.0
        covered = [sum(weights[unit] for unit in passage.all) / whole for passage in read]
        return _Question(terms, read, weights, whole, covered)

    def share(self, units: frozenset[str]) -> float:
        return sum(self.weights[unit] for unit in units) / self.whole

    def nearest(self, found: Sequence[_Candidate]) -> dict[int, float]:
        """By passage, the cosine of its sentence that is nearest the question."""
        best: dict[int, float] = {}
        for one in found:
            best[one.passage] = max(best.get(one.passage, 0.0), one.cosine or 0.0)
        return best


@dataclass(frozen=True, slots=True)
class _Passage:
    text: str
    folded: str
    statements: list[Statement]
    units: list[frozenset[str]]  # of the question, in each statement
    above: list[frozenset[str]]  # in its title, section and heading
    all: frozenset[str]
    language: str
    cosine: float

    @staticmethod
    def read(hit: Hit, terms: Terms) -> _Passage:
        text = hit.chunk.text
        found = statements(text)
        headings = sorted({one.heading for one in found if one.heading})
        spans = [*((one.start, one.end) for one in found), *headings]
        label = f"{hit.title}\n{hit.chunk.section}"
        about = terms.covered(label, [(0, len(label))])[0]
        units = terms.covered(text, spans)
        under = dict(zip(headings, units[len(found) :], strict=True))
        return _Passage(
            text=text,
            folded=fold(text),
            statements=found,
            units=units[: len(found)],
            above=[about | under[one.heading] if one.heading else about for one in found],
            all=about.union(*units),
            language=language(text),
            cosine=hit.scores.get("semantic", 0.0),
        )

    def said(self, place: int) -> str:
        return self.text[self.statements[place].start : self.statements[place].end]

    def credit(self, unit: str, place: int) -> float:
        """What a unit is worth to a statement, by the nearest place it stands in."""
        if unit in self.units[place]:
            return 1.0
        if unit in self.above[place]:
            return HEADING_CREDIT
        if place and unit in self.units[place - 1]:
            return BEFORE_CREDIT
        if place + 1 < len(self.units) and unit in self.units[place + 1]:
            return AFTER_CREDIT
        return 0.0


def _weights(terms: Terms, passages: Sequence[_Passage]) -> Mapping[str, float]:
    """Each unit's weight: rare among the sentences at hand is telling, and what none of them has counts most."""
    units = [found for passage in passages for found in passage.units]
    weights: dict[str, float] = {}
    for unit in terms.units:
        count = sum(unit in found for found in units)
        weights[unit] = math.log(1 + (len(units) + 1) / (0.5 + count)) * (CODE_WEIGHT if unit in terms.codes else 1.0)
        if not count and is_cjk(unit[0]) and not STOP_WORDS.isdisjoint(unit):
            weights[unit] = 0.0  # a pair that nobody writes, made of a word and a particle
    return weights


def _pick(candidates: Sequence[_Candidate], most: int) -> list[_Candidate]:
    """The best one, then those close to it, each worth less the more it repeats of the others."""
    left = sorted(candidates, key=lambda one: (-one.worth, one.passage, one.place))
    first = left.pop(0)
    picked = [first]
    while left and len(picked) < most:
        worth, best = max(
            ((one.worth - REPEAT_COST * max(_overlap(one, other) for other in picked), one) for one in left),
            key=lambda pair: pair[0],
        )
        if worth < CLOSE * first.worth:
            break
        left.remove(best)
        if max(_overlap(best, other) for other in picked) < COPY:
            picked.append(best)
    return picked


def _in_reading_order(picked: Sequence[_Candidate]) -> list[_Candidate]:
    """Passages in the order of their best sentence, sentences in the order of the text."""
    order = list(dict.fromkeys(one.passage for one in picked))
    return sorted(picked, key=lambda one: (order.index(one.passage), one.place))


def _overlap(one: _Candidate, other: _Candidate) -> float:
    return len(one.grams & other.grams) / max(1, min(len(one.grams), len(other.grams)))


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
