"""What is known of a question and the passages at hand -> whether they answer it.

A logistic rule. Its weights were fitted as `bench/gate.py` does it, by another optimiser of the same loss, on one half
of the questions of bench/refusal.py, of questions across languages and of the golden set: those whose document is there
against those whose document was taken away, those of another domain, and those near the subjects that no document
answers. Run to its end, the script gives the same signs, values within 0.4 (within 1.4 for the two products with
`foreign`, which go against each other), and figures within 0.01. The other halves are reported (docs/trust.md). Without
an embedder, the share of the question that is covered decides alone.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple


class Signs(NamedTuple):
    """What speaks for an answer, of the sentence that is worth most and its passage."""

    sentence: float  # the share of the question's words, by weight, that it has
    keyword: float  # the best passage's score by words, as a share of the best that there could be
    missing_number: float  # a number of the question stands nowhere in the passage
    standing_out: float  # how much more of the question's words its passage has than the others have on average
    meaning: float  # the share of the question that it means
    meaning_standing_out: float  # how much more of the question its passage means than the others do on average
    length: float  # of the question: the logarithm of its pieces
    gap: float  # by how much it is worth more than the sentence in the middle
    foreign: float  # it is in another language than the question
    foreign_keyword: float
    foreign_meaning: float


# Where words speak for an answer, meaning adds what it has more than the other passages; across languages it decides.
WEIGHTS: Final = Signs(
    sentence=2.05,
    keyword=4.97,
    missing_number=-1.18,
    standing_out=-0.64,
    meaning=0.82,
    meaning_standing_out=2.58,
    length=1.19,
    gap=0.14,
    foreign=0.90,
    foreign_keyword=-8.68,
    foreign_meaning=5.04,
)
CONSTANT: Final = -6.29
# As a probability, chosen on the build halves. A half would be right where wrong answers and wrong refusals cost the
# same; a wrong answer shows its quote and can be seen to be wrong, a wrong refusal cannot.
LEAST_PROBABILITY: Final = 0.37
# What the comparisons are with too few passages or sentences to compare: about their middle among questions with an
# answer.
FEW_PASSAGES: Final = 3
USUAL_STANDING_OUT: Final = 0.3
USUAL_MEANING_STANDING_OUT: Final = 0.15
USUAL_GAP: Final = 6.0

# The share of the question, by weight, that a sentence and its passage cover on average, where that is all there is.
MIN_EVIDENCE: Final = 0.36


def answers(signs: Signs) -> bool:
    """Whether there is enough evidence to answer."""
    return probability(signs) >= LEAST_PROBABILITY


def probability(signs: Signs) -> float:
    """How likely the passages hold the answer."""
    odds = CONSTANT + sum(weight * sign for weight, sign in zip(WEIGHTS, signs, strict=True))
    return 1 / (1 + math.exp(-odds))


def covers(sentence: float, passage: float) -> bool:
    """Whether there is enough evidence by words alone."""
    return (sentence + passage) / 2 >= MIN_EVIDENCE
