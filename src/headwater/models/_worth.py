"""What a sentence has to do with a question -> what it is worth as an answer, on the scale of log odds.

The weights were fitted together as `bench/gate.py` does it (whose own run is within 0.7 of each): how likely the
sentence with the answer wins among all sentences of the passages at hand. A sentence in another language than the
question shares no words with it; there its meaning counts more, and so it does for every sentence where none has many
of the question's words.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Features(NamedTuple):
    """Of one sentence. Each is between 0 and about 1 but for the rank."""

    words: float  # the share of the question's words, by weight, in it and around it
    rank: float  # of its passage: how often it doubled
    passage_cosine: float
    place: float  # among the sentences of its passage: 1, 1/2, 1/3 ...: who is asked answers first
    cue: float  # how often it holds a number, a date ... where one is asked for
    name: float  # holds a name where a person is asked for
    short: float  # fragments say little
    is_question: float  # a question is no answer
    code: float  # a line of code is an answer only where nothing else is
    meaning: float  # the share of the question that it and what it stands under mean
    foreign: float  # in another language than the question
    foreign_meaning: float
    foreign_place: float
    wordless_meaning: float  # the meaning, by how little of the question's words any sentence has
    wordless_cue: float


WEIGHTS: Final = Features(
    words=4.71,
    rank=-0.81,
    passage_cosine=4.63,
    place=2.12,
    cue=2.43,
    name=0.58,
    short=0.0,
    is_question=-4.27,
    code=-3.0,  # by hand: the test sets have none
    meaning=5.15,
    foreign=-0.36,
    foreign_meaning=10.71,
    foreign_place=-1.41,
    wordless_meaning=5.59,
    wordless_cue=-1.07,
)


def worth(features: Features) -> float:
    """Higher is better; a difference of one makes a sentence e times as likely to be the answer."""
    return sum(weight * feature for weight, feature in zip(WEIGHTS, features, strict=True))
