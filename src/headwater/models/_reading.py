"""A question and the passages at hand -> what each of their sentences says of it: in words, around it, in meaning."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from headwater.characters import CJK_CHAR
from headwater.highlight import STOP_WORDS, Terms
from headwater.models._meaning import Floats, Nearness, nearness
from headwater.statements import Statement, statements
from headwater.tokens import Cutter, fold, is_cjk, language
from headwater.types import Context, Hit

# What a word of the question is worth to a sentence, by where it stands. The sentence itself is 1. Fitted on the build
# half of bench/answers.py, by how often the right sentence won; they hold for what is meant as well.
HEADING_CREDIT: Final = 0.95  # title, section, heading, head of the table: what the sentence is about
BEFORE_CREDIT: Final = 0.45  # the sentence before: what "it" and "this" stand for
AFTER_CREDIT: Final = 0.13  # the sentence after: a question in the text, answered before it, is rare
CODE_WEIGHT: Final = 2.0  # a part number is what the question is about
# Of a sentence, in the question's script: with less than that its words are those of another language. Words with a
# capital letter are no English ones for that: names stand in every language.
OWN_SCRIPT_SHARE: Final = 1 / 3
CJK_OF_A_WORD: Final = 2  # characters that say what one Latin word says


@dataclass(frozen=True, slots=True)
class Cue:
    asked: re.Pattern[str]
    given: re.Pattern[str]


_HAN_DIGITS: Final = "一二三四五六七八九十百千万亿两零〇半"
CUES: Final = (
    Cue(
        re.compile(
            r"\bhow (?:many|much|long|old|far|often|tall|high|big|large|fast|deep)\b|多少|几|多[久长大高远重深]"
        ),
        re.compile(
            rf"\d|[{_HAN_DIGITS}]+[个年月天日次种位名岁元米公周倍成度人]|"
            r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred|thousand|million|billion|half|dozen)\b"
        ),
    ),
    Cue(
        re.compile(
            r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|time|century|decade)\b|"
            r"什么时候|何时|哪一?[年月天日]|几[年月日号点]|时间|日期|时期"
        ),
        re.compile(
            r"\b1\d{3}\b|\b20\d\d\b|\d\s*[年月日号点时]|世纪|年代|时期|\bcentur(?:y|ies)\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|"
            r"\b(?:january|february|march|april|june|july|august|september|october|november|december)\b|"
            r"\d(?:st|nd|rd|th)? (?:of )?may\b|\bmay \d"  # by itself it is mostly a verb
        ),
    ),
    Cue(
        re.compile(
            r"\bwhere\b|\b(?:what|which) (?:city|country|place|state|region|area)\b|"
            r"哪里|哪儿|何处|何地|什么地方|在哪|哪个?[省市县国城]"
        ),
        re.compile(r"[省市县区镇村路街国州]|位于|坐落|\b(?:in|at|near|located)\b"),
    ),
    Cue(
        re.compile(r"\bwhy\b|为什么|为何|原因"),
        re.compile(r"因为|由于|因此|所以|原因|为了|\b(?:because|due to|since|so that|in order to|reason)\b"),
    ),
)
# Names have capital letters, or the dot of a foreign name; the text must not be folded to see them.
WHO: Final = re.compile(r"\bwho(?:m|se)?\b|谁|哪一?位|什么人|何人")
NAME: Final = re.compile(r"\b[A-Z][\w'-]+ (?:[a-z]{1,3} )?[A-Z][\w'-]+|\w·\w")
_STEP: Final = re.compile(r"(?:^|\n)[ \t]*(?:\d{1,3}[.)、]|[（(]\d{1,2}[)）])[ \t]*\Z")
_LATIN_WORD: Final = re.compile(r"[A-Za-z\u00c0-\u024f]+")


@dataclass(frozen=True)
class Question:
    """A question with what the passages at hand say of it."""

    text: str
    terms: Terms
    passages: list[Passage]
    weights: Mapping[str, float]
    whole: float
    covered: list[float]  # the share of the question that each passage has

    @staticmethod
    def of(context: Context, cutter: Cutter | None) -> Question:
        """Reads every passage."""
        terms = Terms.of(context.query.text, cutter)
        read = [Passage.read(hit, terms) for hit in context.hits]
        weights = _weights(terms, read)
        whole = sum(weights.values()) or 1.0
        covered = [sum(weights[unit] for unit in passage.all) / whole for passage in read]
        return Question(context.query.text, terms, read, weights, whole, covered)

    @cached_property
    def language(self) -> str:
        return language(self.text)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Every sentence: the number of its passage, and its place there."""
        return [(number, place) for number, one in enumerate(self.passages) for place in range(len(one.statements))]

    def share(self, number: int, place: int) -> float:
        """How much of the question's words a sentence has, by weight."""
        return sum(self.weights[unit] for unit in self.passages[number].units[place]) / self.whole

    def credited(self, number: int, place: int) -> float:
        """The same with what stands around the sentence."""
        passage = self.passages[number]
        return sum(self.weights[unit] * passage.credit(unit, place) for unit in self.terms.units) / self.whole

    def says_all(self, number: int, place: int) -> bool:
        """Whether a sentence has the codes of the question, and with what it stands under every other word of it."""
        codes, passage = self.terms.codes, self.passages[number]
        own = passage.units[place]
        return bool(codes) and codes <= own and (own | passage.above[place]).issuperset(self.terms.units)

    def foreign(self, number: int, place: int) -> bool:
        """Whether a sentence is in another language than the question. One in both that has its words is not."""
        passage = self.passages[number]
        if passage.language == self.language:
            return False
        text = passage.said(place)
        chinese, latin = len(CJK_CHAR.findall(text)) / CJK_OF_A_WORD, _LATIN_WORD.findall(text)
        own = chinese if self.language == "zh" else sum(map(str.islower, latin))
        return not passage.units[place] or own < OWN_SCRIPT_SHARE * (chinese + len(latin))

    def meant(self) -> Meant | None:
        """What the sentences mean of the question; None where the model knows nothing of it."""
        texts = [self.passages[number].said(place) for number, place in self.places]
        over = [self.passages[number].over(place) for number, place in self.places]
        headings = list(dict.fromkeys(over))
        near = nearness(self.text, [*texts, *headings])
        if near is None or not texts:
            return None
        own, above = near.cosines[: len(texts)], near.cosines[len(texts) :]
        head = above[[headings.index(one) for one in over]]
        before = np.zeros_like(own)
        later = np.array([place > 0 for _, place in self.places])
        before[1:][later[1:]] = own[:-1][later[1:]]
        around = np.maximum(np.maximum(own, HEADING_CREDIT * head), BEFORE_CREDIT * before)
        numbers = np.array([number for number, _ in self.places])
        whole = {
            number: float(near.covered(np.maximum(own[numbers == number].max(0), head[numbers == number][0])))
            for number in dict.fromkeys(numbers.tolist())
        }
        return Meant(near, around, near.covered(around), whole)


@dataclass(frozen=True, slots=True)
class Meant:
    """What sentences mean of a question, each with what it stands under and after."""

    near: Nearness
    around: Floats  # sentences by pieces of the question
    shares: Floats  # of the question, for each sentence
    passages: Mapping[int, float]  # the share that each passage means


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage with what each of its sentences says of the question."""

    text: str
    label: str  # title and section
    folded: str
    statements: list[Statement]
    units: list[frozenset[str]]  # of the question, in each statement
    above: list[frozenset[str]]  # in its title, section and heading
    all: frozenset[str]
    language: str
    cosine: float
    titles: frozenset[int]  # statements that only name what follows

    @staticmethod
    def read(hit: Hit, terms: Terms) -> Passage:
        """Cuts it into statements and finds the question's words in each."""
        text = hit.chunk.text
        found = statements(text)
        headings = sorted({one.heading for one in found if one.heading})
        spans = [*((one.start, one.end) for one in found), *headings]
        label = f"{hit.title}\n{hit.chunk.section}"
        about = terms.covered(label, [(0, len(label))])[0]
        units = terms.covered(text, spans)
        under = dict(zip(headings, units[len(found) :], strict=True))
        names = {_bare(hit.title), *map(_bare, hit.chunk.section.split(" > "))}
        return Passage(
            text=text,
            label=label,
            folded=fold(text),
            statements=found,
            units=units[: len(found)],
            above=[about | under[one.heading] if one.heading else about for one in found],
            all=about.union(*units),
            language=language(text),
            cosine=hit.scores.get("semantic", 0.0),
            titles=frozenset(
                place
                for place, one in enumerate(found)
                if one.kind == "title" or (one.kind == "sentence" and _bare(text[one.start : one.end]) in names)
            ),
        )

    @property
    def stated(self) -> frozenset[str]:
        """The units that something else than a title says, or stands under."""
        said = (place for place in range(len(self.units)) if place not in self.titles)
        return frozenset[str]().union(*(self.units[place] | self.above[place] for place in said))

    def said(self, place: int) -> str:
        """The words of a statement."""
        return self.text[self.statements[place].start : self.statements[place].end]

    def is_step(self, place: int) -> bool:
        """Whether a statement is a numbered item."""
        return _STEP.search(self.text, 0, self.statements[place].start) is not None

    def over(self, place: int) -> str:
        """What a statement stands under."""
        heading = self.statements[place].heading
        return f"{self.label}\n{self.text[slice(*heading)]}" if heading else self.label

    def leads(self, place: int) -> bool:
        """Whether a title has something under it."""
        return place + 1 < len(self.statements) and place + 1 not in self.titles

    def credit(self, unit: str, place: int) -> float:
        """What a unit is worth to a statement, by the nearest place it stands in."""
        if unit in self.units[place]:
            return 1.0
        if unit in self.above[place]:
            return HEADING_CREDIT
        if place and unit in self.units[place - 1]:
            return BEFORE_CREDIT
        if place + 1 < len(self.units) and place + 1 not in self.titles and unit in self.units[place + 1]:
            return AFTER_CREDIT  # a title is about what comes after it
        return 0.0


def _bare(text: str) -> str:
    return re.sub(r"\W+", "", fold(text))


def _weights(terms: Terms, passages: Sequence[Passage]) -> Mapping[str, float]:
    """Each unit's weight: rare among the sentences at hand is telling, and what none of them has counts most."""
    units = [found for passage in passages for found in passage.units]
    weights: dict[str, float] = {}
    for unit in terms.units:
        count = sum(unit in found for found in units)
        weights[unit] = math.log(1 + (len(units) + 1) / (0.5 + count)) * (CODE_WEIGHT if unit in terms.codes else 1.0)
        if not count and is_cjk(unit[0]) and not STOP_WORDS.isdisjoint(unit):
            weights[unit] = 0.0  # a pair that nobody writes, made of a word and a particle
    return weights
