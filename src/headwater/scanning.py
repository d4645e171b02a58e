"""Texts -> what each of their characters is good for -> the terms of three lanes.

One pass over the texts as an array of code points decides about each character from its class and its neighbours'.
Chinese runs are cut by jieba's dictionary in search mode. `native/lanes.c` and `native/words.c` do it in C, several
times as fast and mostly without the interpreter's lock, where they could be compiled; this is the same in numpy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from headwater.characters import (
    BREAK,
    CODE_CHAR,
    CODE_SEED,
    GRAM,
    HAN_CHAR,
    HAN_TEXT,
    SCRIPT_CHAR,
    WORD_CHAR,
    WORD_TEXT,
    tables,
)

try:
    from headwater import _native_lanes as native
except ImportError:  # no compiler was there when it was installed
    native = None  # type: ignore[assignment]

_Points = npt.NDArray[np.int32]

# Longer ones are keys and encoded data, which nobody types.
MAX_CODE_CHARS: Final = 100
# Distinct words before their stems are forgotten: about 10 MB.
_MAX_STEMS: Final = 100_000
_GAP: Final = np.int32(ord(" "))
# Stands between texts that are cut together. It is no white space, so that splitting keeps it.
_MARK: Final = "\0"
_POINT_BITS: Final = 21  # of a code point
_BETWEEN: Final = "   "  # the mark goes in the middle
_RUN: Final = re.compile(r"\S+")


class Term(NamedTuple):
    """A term of the words or codes lane and where it stands in the text."""

    start: int
    end: int
    term: str


class Pairs(IntEnum):
    """Which pairs of neighbouring characters of a text are terms of it."""

    ALL = 0  # as often as they occur
    APART = 1  # those that are no word of the same text: nearly half of them
    ONCE = 2  # of those, each once


class Scan(Protocol):
    """Texts that were looked through."""

    @property
    def folded(self) -> str:
        """The only text, folded."""

    def lanes(self, *, pairs: Pairs = Pairs.ALL) -> list[tuple[str, str, str]]:
        """Each text's words, pairs and codes with white space between."""

    def terms(self) -> list[Term]:
        """Codes, words as their stems, runs of other scripts and Chinese words of the only text."""


class Scanner(Protocol):
    """Looks through texts."""

    def scan(self, texts: Sequence[str]) -> Scan:
        """Some dozens together are faster than one by one."""

    def fold(self, text: str) -> str:
        """Lower case, full width to narrow, traditional to simplified, no accents: every character in its place."""


def scanner(*, stem: Callable[[str], str], accents: bool = False) -> Scanner:
    """The fastest there is. `stem` is asked for the stem of each word; `accents` keeps those of Latin letters."""
    if native is None:
        return NumpyScanner(stem=stem, accents=accents)
    known = tables()
    return native.Scanner(
        shift=_shift(accents=accents),
        kind=known.kind.astype(np.uint8),
        uses=known.uses,
        stemmer=stem,
        dictionary=_dictionary,
        term=Term,
    )


@cache
def _dictionary() -> native.Dictionary:
    """Asked for at the first Chinese character. Its tables stay in their files, so processes share them."""
    folder = Path(__file__).with_name("dictionary")
    return native.Dictionary(**{path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")})


@cache
def _jieba() -> ModuleType:
    """Loaded at the first Chinese character, for it reads its dictionary for 0.1 s."""
    import rjieba

    return rjieba


# --------------------------------------------------------------------------------------------- folding


def _points(text: str) -> _Points:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.int32)


def _text(points: _Points) -> str:
    return points.tobytes().decode("utf-32-le", "surrogatepass")


@cache
def _shift(*, accents: bool) -> _Points:
    """By code point, what to add to fold it."""
    known = tables()
    if not accents:
        return known.shift
    shift = known.shift.copy()
    shift[known.accents[:, 0]] = known.accents[:, 1]
    return shift


def _fold(points: _Points, *, accents: bool) -> _Points:
    folded: _Points = points + _shift(accents=accents).take(points, mode="clip")
    return folded


@cache
def _folding() -> Scanner:
    return scanner(stem=str)


def fold(text: str) -> str:
    """Lower case, full width to narrow, traditional to simplified, no accents: in place, so offsets stay true."""
    return text.lower() if text.isascii() else _folding().fold(text)


# ------------------------------------------------------------------------------------------------ numpy


class _Stems(dict[str, str]):
    """Each word's stem, remembered: a look-up is three times as fast as stemming."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._stem = stem

    def __missing__(self, word: str) -> str:
        if len(self) >= _MAX_STEMS:
            self.clear()
        stem = self[word] = self._stem(word)
        return stem


class NumpyScanner:
    """A Scanner that needs no compiler."""

    def __init__(self, *, stem: Callable[[str], str], accents: bool = False) -> None:
        self._stem, self._accents = _Stems(stem).__getitem__, accents

    def fold(self, text: str) -> str:
        """As the protocol says."""
        return _text(_fold(_points(text), accents=self._accents))

    def scan(self, texts: Sequence[str]) -> NumpyScan:
        """As the protocol says."""
        return NumpyScan(texts, stem=self._stem, accents=self._accents)


class NumpyScan:
    """Texts as folded code points with their classes, a space at either end, and the uses of those in between."""

    def __init__(self, texts: Sequence[str], *, stem: Callable[[str], str], accents: bool) -> None:
        known = tables()
        self._stem, self._count = stem, len(texts)
        points = _fold(_points(f" {_BETWEEN.join(texts)} "), accents=accents)
        kinds = known.kind.take(points, mode="clip")
        if len(texts) > 1:
            marks = np.cumsum([len(text) + len(_BETWEEN) for text in texts[:-1]]) - 1
            points[marks], kinds[marks] = ord(_MARK), BREAK
        self._uses = known.uses.take((kinds[:-2] << 8) | (kinds[1:-1] << 4) | kinds[2:])
        self._points, self._kinds = points, kinds

    @property
    def folded(self) -> str:
        """As the protocol says."""
        return _text(self._points[1:-1])

    def lanes(self, *, pairs: Pairs = Pairs.ALL) -> list[tuple[str, str, str]]:
        """As the protocol says."""
        if not self._count:
            return []
        marks = _MARK * (self._count - 1)
        han = scripts = grams = marks
        if (self._kinds > BREAK).any():
            runs = self._runs(HAN_CHAR, HAN_TEXT)
            han = " ".join(_jieba().cut_for_search(runs)) if runs.strip(f" {_MARK}") else marks
            scripts = self._only(SCRIPT_CHAR)
            grams = self._grams((han, scripts) if pairs else (), once=pairs == Pairs.ONCE)
        latin = " ".join(map(self._stem, self._runs(WORD_CHAR, WORD_TEXT).split()))
        codes = " ".join(code for _, _, code in self._codes())
        lanes = (lane.split(_MARK) for lane in (han, latin, scripts, grams, codes))
        return [(" ".join(filter(str.strip, parts)), held, code) for *parts, held, code in zip(*lanes, strict=True)]

    def terms(self) -> list[Term]:
        """As the protocol says."""
        latin = (Term(*run.span(), self._stem(run[0])) for run in _RUN.finditer(self._only(WORD_CHAR)))
        han = (
            Term(run.start + start, run.start + end, word)
            for run in self._places(HAN_CHAR)
            for word, start, end in _jieba().tokenize(run.term, mode="search")
        )
        return [*self._codes(), *latin, *self._places(SCRIPT_CHAR), *han]

    def _places(self, use: int) -> Iterator[Term]:
        return (Term(*run.span(), run[0]) for run in _RUN.finditer(self._only(use)))

    def _grams(self, beside: Sequence[str], *, once: bool) -> str:
        """The pairs, but for those of a text that are words of it: `beside` has words, marked off as the texts are.

        `once` is without those that the text has before.
        """
        places = (self._uses & GRAM).nonzero()[0] + 1
        kept = np.where(self._kinds >= BREAK, self._points, _GAP)
        held = [_two_together(_points(f" {words} ")) for words in beside]
        if held and sum(map(len, held)):
            known = np.sort(np.concatenate(held))
            found = _keys(kept, places)
            near = known.searchsorted(found).clip(max=len(known) - 1)
            places = places[known[near] != found]
        if once:
            _, firsts = np.unique(_keys(kept, places), return_index=True)
            # The marks between the texts stand among the pairs, and each of them is needed.
            places = places[np.sort(firsts)]
        spaced = np.empty((len(places), 3), dtype=np.int32)
        spaced[:, 0] = kept[places]
        spaced[:, 1] = kept[places + 1]
        spaced[:, 2] = _GAP
        return _text(spaced)

    def _runs(self, use: int, with_space: int) -> str:
        """The runs of characters good for that with a space after each."""
        places = (self._uses & with_space).nonzero()[0]
        return _text(np.where((self._uses & use).take(places), self._points.take(places + 1), _GAP))

    def _only(self, use: int) -> str:
        """The characters good for that in their places, all others blank."""
        return _text(np.where(self._uses & use, self._points[1:-1], _GAP))

    def _codes(self) -> Iterator[Term]:
        seeds: list[int] = (self._uses & CODE_SEED).nonzero()[0].tolist()
        if not seeds:
            return
        text = self._only(CODE_CHAR) + " "
        end = 0
        for seed in seeds:
            if seed < end:
                continue
            start, end = text.rfind(" ", 0, seed) + 1, text.index(" ", seed)
            run = text[start:end]
            body = run.lstrip("-_@&+#.")
            if len(body) == len(run) - 1 and run[0] == "." and body[0].isalpha():
                body = run  # .NET
            code = body.rstrip("-_@&.")
            if len(code) <= MAX_CODE_CHARS:
                yield Term(end - len(body), end - len(body) + len(code), code)


def _keys(points: _Points, places: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """A number for each of the texts and the two characters that stand at these places in it."""
    which = np.cumsum(points == ord(_MARK), dtype=np.int64).take(places)
    wide = points.astype(np.int64)
    return (which << 2 * _POINT_BITS) | (wide.take(places) << _POINT_BITS) | wide.take(places + 1)


def _two_together(points: _Points) -> npt.NDArray[np.int64]:
    """The words of two characters, as `_keys`."""
    inside = (points != _GAP) & (points != ord(_MARK))
    starts = ~inside[:-3] & inside[1:-2] & inside[2:-1] & ~inside[3:]
    return _keys(points, starts.nonzero()[0] + 1)
