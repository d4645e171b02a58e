"""A word that nobody wrote -> the words that may have been meant, each with how unlikely the slip is.

A slip is a letter too many or too few, another letter, or two letters the wrong way round. Which of the words it was is
for whoever knows what the documents hold (`stages/corrected.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from string import ascii_lowercase
from typing import Final

from headwater.highlight import STOP_WORDS
from headwater.scanning import Term
from headwater.tokens import fold

Corrections = Mapping[str, str]  # as it was typed -> what was asked for in its place

LEAST_LETTERS: Final = 4  # of three letters nearly every other three are one slip away
TWO_SLIPS_LETTERS: Final = 8
# The longest words that are written have 45 letters. What is longer is encoded data or a key that stuck, and the ways
# that two slips lead to it are as many as the square of its letters, each as long as it.
MOST_LETTERS: Final = 45
# With fewer letters a name inside of a question is left alone: another name is always near.
NAME_LETTERS: Final = 6

# How unlikely a slip is, as the logarithm of so many to one. Most often letters change places, are doubled or not, or a
# vowel stands for another; the first letter is nearly always right (Pollock and Zamora, CACM 1984).
DOUBLED: Final = 0.0
SWAPPED: Final = 0.0
OTHER_VOWEL: Final = 0.5
TOO_MANY: Final = 1.0
TOO_FEW: Final = 1.5
OTHER_LETTER: Final = 2.0
FIRST_LETTER: Final = 3.0
SECOND_SLIP: Final = 3.0

_VOWELS: Final = "aeiouy"
_WORD: Final = re.compile(rf"[^\W\d_]{{{LEAST_LETTERS},}}")
_JOINED: Final = re.compile(r"[-']")


def may_hold_typos(text: str) -> bool:
    """Whether there is a word of Latin letters in it that is long enough."""
    return any(fold(found).isascii() for found in _WORD.findall(text))


def doubtful(text: str, terms: Sequence[Term], *, quoted: Sequence[str] = ()) -> list[Term]:
    """Those words of a query that may be typed wrong: no code or part of one, no abbreviation, nothing quoted."""
    folded = fold(text)
    codes = [term for term in terms if not _JOINED.sub("", folded[term.start : term.end]).isalpha()]
    exact = {word for phrase in quoted for word in _WORD.findall(fold(phrase))}
    shouted = text.isupper()

    def is_doubtful(term: Term) -> bool:
        word, typed = folded[term.start : term.end], text[term.start : term.end]
        return (
            _WORD.fullmatch(word) is not None
            and len(word) <= MOST_LETTERS
            and word.isascii()
            and word not in STOP_WORDS
            and word not in exact
            and (shouted or typed[1:].islower())
            and (shouted or typed.islower() or len(word) >= NAME_LETTERS or not text[: term.start].strip())
            and not any(code.start <= term.start and term.end <= code.end for code in codes)
        )

    return [term for term in terms if is_doubtful(term)]


def slips(word: str) -> dict[str, float]:
    """Every word that becomes this one by one slip, with how unlikely that is.

    Nobody puts a letter in front of a word by mistake: who types `apolitical` does not mean `political`.
    """
    made: dict[str, float] = {}
    for other, slip in _slips(word):
        cost = slip if other[:1] == word[:1] else slip + FIRST_LETTER
        if cost < made.get(other, inf):
            made[other] = cost
    made.pop(word, None)
    if word[:1] != word[1:2]:
        made.pop(word[1:], None)
    return made


def two_slips(word: str) -> dict[str, float]:
    """The words that become this one by two slips that are often made; none for a short word."""
    made: dict[str, float] = {}
    if len(word) < TWO_SLIPS_LETTERS:
        return made
    for between, first in set(_usual_slips(word)):
        for other, second in _usual_slips(between):
            cost = first + second + SECOND_SLIP
            if other[0] == word[0] and cost < made.get(other, inf):
                made[other] = cost
    made.pop(word, None)
    return made


def corrected(text: str, corrections: Corrections) -> str:
    """The text with what was asked for in the place of what was typed, whole words only."""
    return _WORD.sub(lambda found: corrections.get(found[0], found[0]), text) if corrections else text


def told(corrections: Corrections) -> list[str]:
    """What a reader should know of words that were asked for as others."""
    return [f"nothing has the word {typed!r}; {meant!r} was asked for instead" for typed, meant in corrections.items()]


def _usual_slips(word: str) -> Iterator[tuple[str, float]]:
    """Those that are made often, some dozens."""
    for place, letter in enumerate(word):
        before, after = word[:place], word[place + 1 :]
        yield before + after, DOUBLED if letter in (before[-1:], after[:1]) else TOO_MANY
        yield before + letter + letter + after, DOUBLED
        if after and after[0] != letter:
            yield before + after[0] + letter + after[1:], SWAPPED
        if letter in _VOWELS:
            yield from ((before + other + after, OTHER_VOWEL) for other in _VOWELS if other != letter)


def _slips(word: str) -> Iterator[tuple[str, float]]:
    yield from _usual_slips(word)
    for place in range(len(word) + 1):
        before, after = word[:place], word[place:]
        yield from ((before + letter + after, TOO_FEW) for letter in ascii_lowercase)
        if after:
            yield from ((before + letter + after[1:], OTHER_LETTER) for letter in ascii_lowercase)
