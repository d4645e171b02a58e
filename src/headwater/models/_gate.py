"""What is known of a question and the passages at hand -> whether they answer it.

A logistic rule of six signs. Its weights were fitted on one half of the questions of bench/refusal.py, those whose
document is there against those whose document was taken away and those of another domain; the other half is reported.
Where a sign is missing (no embedder, no search by words), the share of the question that is covered decides alone.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

# Each sign's weight on the scale of log odds.
SENTENCE_WEIGHT: Final = 1.09  # the share of the question's words, by weight, that the best sentence has
COSINE_WEIGHT: Final = 2.03  # of the question and that sentence
KEYWORD_WEIGHT: Final = 6.46  # the best passage's score by words, as a share of the best that there could be
MISSING_NAME_WEIGHT: Final = -0.67  # a name of the question stands nowhere in the passage
STANDING_OUT_WEIGHT: Final = 3.24  # how much more of the question its passage has than the others have on average
NEARER_WEIGHT: Final = 3.72  # how much nearer in meaning it is than the best of the others are on average
CONSTANT: Final = -4.25
# As a probability. A half would be right where wrong answers and wrong refusals cost the same; a wrong answer shows
# its quote and can be seen to be wrong, a wrong refusal cannot.
LEAST_PROBABILITY: Final = 0.28
# What the two comparisons are with too few passages to compare: their middle among questions with an answer.
FEW_PASSAGES: Final = 3
USUAL_STANDING_OUT: Final = 0.3
USUAL_NEARER: Final = 0.2

# The share of the question, by weight, that a sentence and its passage cover on average, where that is all there is.
MIN_EVIDENCE: Final = 0.36


class Signs(NamedTuple):
    """What speaks for an answer in the passages."""

    sentence: float
    passage: float
    cosine: float | None
    keyword: float | None
    missing_name: bool
    standing_out: float | None
    nearer: float | None


def answers(signs: Signs) -> bool:
    """Whether there is enough evidence to answer."""
    if signs.cosine is None or signs.keyword is None:
        return (signs.sentence + signs.passage) / 2 >= MIN_EVIDENCE
    return probability(signs) >= LEAST_PROBABILITY


def probability(signs: Signs) -> float:
    """How likely the passages hold the answer."""
    odds = (
        CONSTANT
        + SENTENCE_WEIGHT * signs.sentence
        + COSINE_WEIGHT * (signs.cosine or 0.0)
        + KEYWORD_WEIGHT * (signs.keyword or 0.0)
        + MISSING_NAME_WEIGHT * signs.missing_name
        + STANDING_OUT_WEIGHT * (USUAL_STANDING_OUT if signs.standing_out is None else signs.standing_out)
        + NEARER_WEIGHT * (USUAL_NEARER if signs.nearer is None else signs.nearer)
    )
    return 1 / (1 + math.exp(-odds))
