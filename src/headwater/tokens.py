"""Text -> what can be matched, counted and cut: three lexical lanes, token counts, sentences.

The lanes, each cut the same way for the index and for a query:

- words: Chinese by dictionary (in search mode: long words and the words inside them), other scripts by runs of letters
  and digits, English ones stemmed.
- grams: every two neighbouring characters of a Chinese, Japanese or Korean run; a character that stands alone is one.
- codes: what words tear apart: `PPR-9087`, `C++`, `.NET`, `3.14`, `v1.2.3`, `a_b.c`, `foo@bar.com`, `AK47`.

All of them read folded text: lower case, narrow forms, simplified characters, Latin letters without accents. Folding
keeps every character's place.
One pass over the text as an array of code points decides about each character from its class and its neighbours'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from types import ModuleType
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.characters import (
    BREAK,
    CJK_CHAR,
    CODE_CHAR,
    CODE_SEED,
    GRAM,
    HAN_CHAR,
    HAN_RANGES,
    HAN_TEXT,
    SCRIPT,
    SCRIPT_CHAR,
    SCRIPT_RANGES,
    WORD_CHAR,
    WORD_TEXT,
    tables,
)

Unit = Literal["chars", "tokens"]


def is_cjk(char: str) -> bool:
    """Whether it is a Chinese, Japanese or Korean character (not a mark)."""
    return CJK_CHAR.match(char) is not None


# ------------------------------------------------------------------------------------------- folding

_Points = npt.NDArray[np.int32]


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


def _fold(points: _Points, *, accents: bool = False) -> _Points:
    folded: _Points = points + _shift(accents=accents).take(points, mode="clip")
    return folded


def fold(text: str) -> str:
    """Lower case, full width to narrow, traditional to simplified, no accents: in place, so offsets stay true."""
    if text.isascii():
        return text.lower()
    return _text(_fold(_points(text)))


# --------------------------------------------------------------------------------------------- lanes


class Lanes(NamedTuple):
    """The terms of a text, in order."""

    words: list[str]
    grams: list[str]
    codes: list[str]


class QueryLanes(NamedTuple):
    """The terms of a query, and of each of its dictionary words the terms that stand side by side where it occurs.

    The terms of a phrase are in the grams lane where they are CJK; any other is in the codes or else the words lane.
    """

    words: list[str]
    grams: list[str]
    codes: list[str]
    phrases: list[list[str]]


class Term(NamedTuple):
    """A term of the words or codes lane and where it stands in the text."""

    start: int
    end: int
    term: str


# Longer ones are keys and encoded data, which nobody types.
_MAX_CODE_CHARS: Final = 100
# Distinct words of an ingest before their stems are forgotten: about 10 MB.
_MAX_STEMS: Final = 100_000
_GAP: Final = np.int32(ord(" "))
# Stands between texts that are cut together. It is no white space, so that splitting keeps it.
_MARK: Final = "\0"
_POINT_BITS: Final = 21  # of a code point
_BETWEEN: Final = "   "  # the mark goes in the middle
_RUN: Final = re.compile(r"\S+")


class _Stems(dict[str, str]):
    """Each word's stem, remembered: a look-up is three times as fast as the stemmer's own."""

    def __init__(self) -> None:
        import Stemmer

        # Without its own memory, whose upkeep costs three times the stemming.
        self._stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord

    def __missing__(self, word: str) -> str:
        if len(self) >= _MAX_STEMS:
            self.clear()
        stem = self[word] = self._stem(word)
        return stem


@cache
def _jieba() -> ModuleType:
    """Loaded at the first Chinese character, for it reads its dictionary for 0.1 s."""
    import rjieba

    return rjieba


class _Characters:
    """Texts as folded code points with their classes, a space at either end, and the uses of those in between."""

    __slots__ = ("kinds", "points", "uses")

    def __init__(self, texts: Sequence[str], *, accents: bool) -> None:
        known = tables()
        points = _fold(_points(f" {_BETWEEN.join(texts)} "), accents=accents)
        kinds = known.kind.take(points, mode="clip")
        if len(texts) > 1:
            marks = np.cumsum([len(text) + len(_BETWEEN) for text in texts[:-1]]) - 1
            points[marks], kinds[marks] = ord(_MARK), BREAK
        self.uses = known.uses.take((kinds[:-2] << 8) | (kinds[1:-1] << 4) | kinds[2:])
        self.points, self.kinds = points, kinds

    @property
    def has_cjk(self) -> bool:
        """Whether a text has a Chinese, Japanese or Korean character."""
        return bool((self.kinds > BREAK).any())

    def grams(self, beside: Iterable[str] = ()) -> str:
        """The pairs, but for those of a text that are words of it: `beside` has words, marked off as the texts are."""
        places = (self.uses & GRAM).nonzero()[0] + 1
        kept = np.where(self.kinds >= BREAK, self.points, _GAP)
        held = [_two_together(_points(f" {words} ")) for words in beside]
        if held and sum(map(len, held)):
            known = np.sort(np.concatenate(held))
            found = _keys(kept, places)
            near = known.searchsorted(found).clip(max=len(known) - 1)
            places = places[known[near] != found]
        spaced = np.empty((len(places), 3), dtype=np.int32)
        spaced[:, 0] = kept[places]
        spaced[:, 1] = kept[places + 1]
        spaced[:, 2] = _GAP
        return _text(spaced)

    def runs(self, use: int, with_space: int) -> str:
        """The runs of characters good for that with a space after each."""
        places = (self.uses & with_space).nonzero()[0]
        return _text(np.where((self.uses & use).take(places), self.points.take(places + 1), _GAP))

    def only(self, use: int) -> str:
        """The characters good for that in their places, all others blank."""
        return _text(np.where(self.uses & use, self.points[1:-1], _GAP))

    def codes(self) -> Iterator[Term]:
        seeds: list[int] = (self.uses & CODE_SEED).nonzero()[0].tolist()
        if not seeds:
            return
        text = self.only(CODE_CHAR) + " "
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
            if len(code) <= _MAX_CODE_CHARS:
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


class Cutter:
    """Cuts text into lanes. The dictionary changes queries and highlights only, so it needs no re-indexing.

    `accents` keeps those of Latin letters, for what was made when they were kept.
    """

    def __init__(self, *, dictionary: Iterable[str] = (), accents: bool = False) -> None:
        self._stems, self._accents = _Stems(), accents
        self._dictionary = frozenset(word for word in map(str.strip, map(fold, dictionary)) if word)
        lengths: dict[str, set[int]] = {}
        for word in self._dictionary:
            lengths.setdefault(word[0], set()).add(len(word))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    @cached_property
    def with_accents(self) -> Cutter:
        """The same that keeps the accents of Latin letters."""
        return Cutter(dictionary=self._dictionary, accents=True)

    def cut(self, text: str) -> Lanes:
        """The terms of each lane, as often as they occur."""
        words, grams, codes = self.cut_joined(text)
        return Lanes(words.split(), grams.split(), codes.split())

    def cut_joined(self, text: str) -> tuple[str, str, str]:
        """The same with white space between, for an index that splits there."""
        return self.cut_many([text])[0]

    def cut_many(self, texts: Sequence[str], *, once: bool = False) -> list[tuple[str, str, str]]:
        """`cut_joined` of each, faster together: some dozens of chunks are a good number.

        `once` leaves a pair out that is also a word of the same text: nearly half of them, for whoever looks for a pair
        among the words as well.
        """
        if not texts:
            return []
        seen = _Characters(texts, accents=self._accents)
        marks = _MARK * (len(texts) - 1)
        han = scripts = marks
        grams = marks
        if seen.has_cjk:
            han = " ".join(_jieba().cut_for_search(seen.runs(HAN_CHAR, HAN_TEXT)))
            scripts = seen.only(SCRIPT_CHAR) if (seen.kinds == SCRIPT).any() else marks
            grams = seen.grams((han, scripts) if once else ())
        words = " ".join(map(self._stems.__getitem__, seen.runs(WORD_CHAR, WORD_TEXT).split()))
        codes = " ".join(code for _, _, code in seen.codes())
        lanes = (lane.split(_MARK) for lane in (han, words, scripts, grams, codes))
        return [(" ".join(filter(str.strip, parts)), pairs, code) for *parts, pairs, code in zip(*lanes, strict=True)]

    def stem(self, word: str) -> str:
        """The term of one word of Latin letters, in lower case: what `cut` makes of it."""
        return self._stems[word]

    def query(self, text: str) -> QueryLanes:
        """The terms of a query, with a phrase for each word of the dictionary in it."""
        phrases: list[list[str]] = []
        for _, _, word in self._known(fold(text)):
            words, grams, codes = self.cut(word)
            # A single character is a gram only where it stands alone, so it says nothing about the word.
            pairs = [gram for gram in grams if len(gram) > 1]
            phrases += [pairs] * bool(pairs)
            phrases += ([term] for term in codes or words * (not grams))
        return QueryLanes(*self.cut(text), phrases)

    def words_in(self, text: str) -> list[Term]:
        """The terms of the words and codes lanes and the dictionary's words, with their places, in order."""
        seen = _Characters([text], accents=self._accents)
        found = list(seen.codes())
        found += self._known(_text(seen.points[1:-1]))
        for run in _RUN.finditer(seen.only(WORD_CHAR)):
            found.append(Term(*run.span(), self._stems[run[0]]))
        for run in _RUN.finditer(seen.only(SCRIPT_CHAR)):
            found.append(Term(*run.span(), run[0]))
        for run in _RUN.finditer(seen.only(HAN_CHAR)):
            for term, start, end in _jieba().tokenize(run[0], mode="search"):
                found.append(Term(run.start() + start, run.start() + end, term))
        return sorted(found)

    def _known(self, folded: str) -> Iterator[Term]:
        """The dictionary's words in it: leftmost, longest, and whole where words have spaces between."""
        place = 0
        while self._lengths and place < len(folded):
            for length in self._lengths.get(folded[place], ()):
                end = place + length
                if folded[place:end] in self._dictionary and not (_inside(folded, place) or _inside(folded, end)):
                    yield Term(place, end, folded[place:end])
                    place = end - 1
                    break
            place += 1


def _inside(text: str, place: int) -> bool:
    """Whether a word that is written without spaces goes on across this place."""
    around = text[max(place - 1, 0) : place + 1]
    return place > 0 and len(around) == 2 and around.isalnum() and not any(map(is_cjk, around))


# ------------------------------------------------------------------------------------------ counting

# Measured on 3,000 chunks of Chinese and English news, encyclopaedia, medicine and documentation against the
# vocabularies o200k, cl100k and Qwen's. English: 1.0 to 1.2 of their counts; Chinese: 1.15 to 1.3 of o200k's, 1.3 to
# 1.5 of Qwen's, 0.7 to 1.1 of cl100k's, which cuts rarer characters into bytes. So today's models keep a budget.
_TOKEN: Final = re.compile(rf"[{HAN_RANGES}{SCRIPT_RANGES}]|\d{{1,3}}|[^\W\d_{HAN_RANGES}{SCRIPT_RANGES}]{{1,6}}|\S")


def count_tokens(text: str) -> int:
    """About how many tokens a language model sees, rather too many than too few.

    A CJK character is one, and so is any sign; six letters or three digits of a run are one; white space is none.
    """
    return len(_TOKEN.findall(text))


def token_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the tokens that `count_tokens` counts start and end."""
    return (token.span() for token in _TOKEN.finditer(text))


def length(text: str, unit: Unit) -> int:
    """How long the text is in that unit."""
    return len(text) if unit == "chars" else count_tokens(text)


_LATIN_WORD: Final = re.compile(r"[A-Za-z\u00c0-\u024f]+")


def language(text: str) -> Literal["zh", "en"]:
    """The language to answer in: Chinese where there are more than two CJK characters to a Latin word."""
    return "zh" if len(CJK_CHAR.findall(text)) > 2 * len(_LATIN_WORD.findall(text)) else "en"


# ----------------------------------------------------------------------------------------- sentences

_CLOSERS: Final = "\"'”’」』》〉）)】\\]»"
_STOP: Final = re.compile(
    rf"(?P<line>[\n\r\f\v\u2028\u2029])"
    rf"|(?P<wide>[!?]*[。！？｡][。！？｡!?]*[{_CLOSERS}]*)"
    rf"|(?P<narrow>[.!?．]+[{_CLOSERS}]*(?=\s|\Z|[{HAN_RANGES}{SCRIPT_RANGES}“「『（《]))"
)
_LAST_WORD: Final = re.compile(r"[^\W_]+(?:\.[^\W_]+)*\Z")
_NEXT_WORD: Final = re.compile(r"\s*[\"'“‘(\[]*(\w+)")
# What stands at the start of a line and makes it its own: headings, list items, quotes, tables, fences.
_LINE_MARK: Final = re.compile(r"\s*(?:[#>|*+•·\-=~`]|\d+[.)、]|[（(]?[一二三四五六七八九十\d]+[）)、]|\Z)")
# After these a full stop ends no sentence.
_ABBREVIATION: Final = re.compile(
    r"mrs?|ms|dr|prof|st|gen|sen|rep|gov|vs|figs?|eqs?|nos?|vol|pp|cf|viz|approx|dept|incl|resp|ca|e\.g|i\.e",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION: Final = 3  # of those that are not listed
# What a sentence starts with after an abbreviation that may end one: "in the U.S. The".
_STARTER: Final = re.compile(
    r"The|This|That|These|Those|They|Its?|He|She|We|You|In|On|At|And|But|An?|If|When|However|For"
)
# A line of at least this many characters that goes on in small letters was broken by an editor, not by its writer.
_WRAPPED_CHARS: Final = 40


def sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence starts and ends. Together they hold everything but white space; a line is at least one."""
    spans: list[tuple[int, int]] = []
    start = line = 0
    for stop in _STOP.finditer(text):
        if stop.lastgroup == "line":
            wraps, line = _wraps(text, line, stop.start()), stop.end()
            if wraps:
                continue
        elif stop[0].startswith(".") and not _ends(text, start, stop):
            continue
        spans.append((start, stop.end()))
        start = stop.end()
    spans.append((start, len(text)))
    return [span for span in (_trim(text, *span) for span in spans) if span[0] < span[1]]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip())


def _wraps(text: str, line: int, end: int) -> bool:
    following = text[end + 1 : end + 200]
    return (
        end - line >= _WRAPPED_CHARS
        and (following[:1].islower() or text[end - 1] == ",")
        and not _LINE_MARK.match(following)
        and not _LINE_MARK.match(text, line, end)
    )


def _ends(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether this full stop is the end of a sentence."""
    before = text[start : stop.start()]
    last = _LAST_WORD.search(before[-_MAX_CODE_CHARS:])
    word = last[0] if last else ""
    if word and before.strip() == word and (word.isdigit() or len(word) == 1):
        return False  # the number of a list item
    following = _NEXT_WORD.match(text, stop.end(), stop.end() + _MAX_CODE_CHARS)
    if not following or is_cjk(following[1]):
        return True
    goes_on = following[1][0].islower()
    if len(stop[0]) > 1:
        return not goes_on  # dots, or a quote or bracket that closes
    if _ABBREVIATION.fullmatch(word):
        return False
    if len(word) == 1 or "." in word:
        return _STARTER.fullmatch(following[1]) is not None
    return not goes_on or len(word) > _LONGEST_ABBREVIATION
