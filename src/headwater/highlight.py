"""A query and a text -> where the query's words stand in it, said in reasons and shown in snippets.

Words are found in folded text, whose characters keep their places, so every match is a slice of the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from headwater.tokens import Cutter, Term, fold, is_cjk

SNIPPET_CHARS: Final = 50  # on either side of a word; checklist item 68, as is the number of snippets
MAX_SNIPPETS: Final = 3
MAX_SHOWN_WORDS: Final = 8  # more words than this explain nothing
STEM_PREFIX_CHARS: Final = 3  # English stems keep the first letters: only words that share them need stemming

# Words that say how a question is asked, not what it is about.
_STOP_WORDS: Final = """
a an the of in on at to for from by with about as into onto over under between during through and or but if then
than that this these those it its is are was were be been being am do does did done doing has have had having can
could will would shall should may might must not no nor so such there their they them he him his she her hers i me
my we us our you your also any some all each other both s t m re ve ll d
what which who whom whose when where why how please tell

的 了 是 在 有 和 与 及 或 被 由 对 于 以 为 从 到 向 把 将 会 能 可以 可 要 应该 应 需要 个 这 那 这个 那个
这些 那些 它 他 她 我 你 我们 你们 他们 它们 自己 着 过 地 得 之 其 而 也 都 就 还 又 并 等 上 下 中 里 内 时 后 前
一个 一种 请问 请 问 吗 呢 吧 啊 呀 么 嘛 不 很 最 更 比较 关于 进行 属于 叫 叫做 称为 是不是 有没有 能否 是否 可否
告诉 知道 什么 什么样 什么时候 时候 多少 几 几个 谁 哪 哪里 哪儿 哪个 哪些 哪位 哪种 哪一 哪年 哪两 哪两个 怎么
怎么样 怎样 如何 为什么 为何 何时 何地 何 多久 多长 多大 多高 多远 多重 多长时间 啥 咋 几种 几次 几年 几月 几天
"""
STOP_WORDS: Final = frozenset(_STOP_WORDS.split())
# What kind of thing is asked for, in words that seldom stand in the answer.
_KIND_WORDS: Final = """
many much long old far often tall high kind type name named called difference differences 名字 区别 差别
"""
KIND_WORDS: Final = frozenset(_KIND_WORDS.split())


# A letter or digit of a script that puts spaces between words: 3 is a word of its own in 战国无双3.
_LETTER: Final = "[^\\W_\u2e80-\u31ff\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U000323af]"

_WORD: Final = re.compile(f"{_LETTER}+(?:'{_LETTER}+)?")

# A part number, a product, an address: what stands for one thing and has no synonym.
_CODE: Final = re.compile(r"\.?[^\W\d_].*[\d+#@_]")
_CODE_SIGN: Final = re.compile(r"[\d+#@_]")
_JOINTS: Final = re.compile("[-_ ]")


class Match(NamedTuple):
    """`text[start:end]` is the query's `term`."""

    start: int
    end: int
    term: str


Found = tuple[str, Sequence[Match]]  # a text, and where the query's words stand in it


class Terms:
    """The words of a query that say something: `words` to find and show, `units` to weigh how much of it is covered.

    A unit is a stem, a code, or two neighbouring Chinese characters; those need no agreement on where a word ends.
    """

    def __init__(self, text: str, cutter: Cutter) -> None:
        self._cutter = cutter
        self.folded = fold(text)
        found = _whole_codes(list(cutter.words_in(text)))
        self.words = self._telling(found, STOP_WORDS | KIND_WORDS) or self._telling(found, STOP_WORDS) or tuple(found)
        self.han = tuple(dict.fromkeys(self._han()))
        self.codes = frozenset(word.term for word in self.words if _CODE.match(word.term))
        # By stem, how the query writes it: what a reader is shown.
        others = [word for word in self.words if not is_cjk(word.term[0])]
        self._written = {word.term: text[word.start : word.end] for word in reversed(others)}
        self._solid = {_JOINTS.sub("", term): term for term in self._written}
        self.units = tuple(dict.fromkeys((*self._grams(), *reversed(self._written))))
        self._meant: dict[str, tuple[str, ...]] = {}  # by word of a text
        self._starts = tuple({term[:STEM_PREFIX_CHARS] for term in self._written if term.isalnum()})
        self._code_pattern = _code_pattern(self._written)

    @staticmethod
    def of(text: str, cutter: Cutter | None = None) -> Terms:
        """The terms of a text, cut with the plain dictionary unless told otherwise."""
        return Terms(text, cutter or _plain_cutter())

    def find(self, text: str) -> list[Match]:
        """Every place of every word, in order; words inside longer ones included."""
        folded = fold(text)
        found = [Match(*place, term) for term in self.han for place in _places(term, folded)]
        found += (
            Match(start, end, term)
            for start, end in self._runs(folded, 0, len(folded))
            for term in self._terms_of(folded[start:end])
        )
        return sorted(set(found))

    def covered(self, text: str, spans: Sequence[tuple[int, int]]) -> list[frozenset[str]]:
        """For each span of the text the units that stand in it."""
        folded = fold(text)
        grams = [unit for unit in self.units if is_cjk(unit[0])]
        found = [{gram for gram in grams if folded.find(gram, start, end) >= 0} for start, end in spans]
        for units, (start, end) in zip(found, spans, strict=True):
            for low, high in self._runs(folded, start, end):
                units.update(self._terms_of(folded[low:high]))
        return [frozenset(units) for units in found]

    def shown(self, term: str) -> str:
        """The term as the query writes it."""
        return self._written.get(term, term)

    def _telling(self, found: Sequence[Term], stop: frozenset[str]) -> tuple[Term, ...]:
        """Those that are no stop word, nor a part of one, such as the 时候 of 什么时候."""
        stops = [word for word in found if self.folded[word.start : word.end] in stop]
        others = [word for word in found if word not in stops]
        # 中 is no stop word inside of 中国: the longer word says something.
        stops = [word for word in stops if not any(_inside(word, other) for other in others)]
        return tuple(word for word in others if not any(_inside(word, stop) for stop in stops))

    def _runs(self, folded: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Whole words that begin like a term, and codes. A pattern of all terms would take milliseconds to compile."""
        for beginning in self._starts:
            place = folded.find(beginning, start, end)
            while place >= 0:
                if place == start or _begins(folded, place):
                    run = _WORD.match(folded, place, end)
                    assert run is not None  # it begins with letters or digits
                    yield run.span()
                place = folded.find(beginning, place + 1, end)
        if self._code_pattern is not None:
            for run in self._code_pattern.finditer(folded, start, end):
                if not _is_letter(folded, run.start() - 1) and not _is_letter(folded, run.end()):
                    yield run.span()

    def _terms_of(self, word: str) -> tuple[str, ...]:
        """The query's terms that a run of the text stands for: itself as a code, or its stem."""
        known = self._meant.get(word)
        if known is None:
            solid = _JOINTS.sub("", word)
            cut = [self._cutter.stem(word)] if word.isascii() and word.isalpha() else self._cutter.cut(word).words
            stem = cut[0] if len(cut) == 1 else ""
            itself = (self._solid[solid],) if solid in self._solid else ()
            known = self._meant[word] = (*itself, stem) if stem != solid and stem in self._written else itself
        return known

    def _places(self) -> list[int]:
        """Where the telling words have Chinese characters."""
        return sorted({place for word in self.words if is_cjk(word.term[0]) for place in range(word.start, word.end)})

    def _han(self) -> Iterator[str]:
        """The Chinese words; one character by itself is in every text, so it is taken with its neighbours."""
        inside = set(self._places())
        for start, _, term in self.words:
            if is_cjk(term[0]) and len(term) > 1:
                yield term
            elif is_cjk(term[0]):
                pairs = [self.folded[low : low + 2] for low in (start - 1, start) if {low, low + 1} <= inside]
                yield from pairs or [term]

    def _grams(self) -> list[str]:
        """Two by two the characters of the telling words, across the border of two that stand side by side."""
        inside = self._places()
        beside = {first for first, second in pairwise(inside) if second == first + 1}
        after = {first + 1 for first in beside}
        return [
            self.folded[place : place + 2] if place in beside else self.folded[place]
            for place in inside
            if place in beside or place not in after
        ]


def has_code(text: str, cutter: Cutter) -> bool:
    """Whether a text names a part number, a product, an address; of most it is seen at once that they do not."""
    return _CODE_SIGN.search(fold(text)) is not None and bool(Terms.of(text, cutter).codes)


@cache
def _plain_cutter() -> Cutter:
    return Cutter()


def _inside(word: Term, other: Term) -> bool:
    return other.start <= word.start and word.end <= other.end and (word.start, word.end) != (other.start, other.end)


def _whole_codes(found: Sequence[Term]) -> list[Term]:
    """Without the parts of a code that has a number or a sign in it; words that are only hyphenated are their parts."""
    torn = [word for word in found if not word.term.isalnum() and not is_cjk(word.term[0])]
    whole = [word for word in torn if not _JOINTS.sub("", word.term.replace(".", "").replace("'", "")).isalpha()]
    return [
        word
        for word in found
        if not any(_inside(word, code) for code in whole) and (word not in torn or word in whole or "'" in word.term)
    ]


def _code_pattern(written: Iterable[str]) -> re.Pattern[str] | None:
    """Finds the codes among the terms, also where PPR-9087 is written PPR 9087."""
    codes = (re.escape(term) for term in sorted(written, key=len, reverse=True) if not term.isalnum())
    parts = [re.sub(r"(?:\\-|_)", "[-_ ]?", code) for code in codes]
    return re.compile("|".join(parts)) if parts else None


def _begins(text: str, place: int) -> bool:
    """Whether the letter there is the first of a word, of which an apostrophe inside is a part: once, as in `don't`."""
    if _is_letter(text, place - 1):
        return False
    first = True
    while text[place - 1] == "'" and _is_letter(text, place - 2):
        place -= 2
        while _is_letter(text, place - 1):
            place -= 1
        first = not first
    return first


def _is_letter(text: str, place: int) -> bool:
    """Whether a letter or digit stands there that would make a longer word of what is beside it."""
    return 0 <= place < len(text) and text[place].isalnum() and not is_cjk(text[place])


def _places(word: str, folded: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    start = folded.find(word)
    while start >= 0:
        found.append((start, start + len(word)))
        start = folded.find(word, start + 1)
    return found


# --------------------------------------------------------------------------------------------- shown


def snippets(text: str, matches: Sequence[Match]) -> tuple[str, ...]:
    """The stretches around the matches that hold the most different words, in the order of the text."""
    lows: list[int] = []
    highs: list[int] = []
    inside: list[set[str]] = []
    for start, end, term in matches:
        low, high = max(0, start - SNIPPET_CHARS), min(len(text), end + SNIPPET_CHARS)
        if highs and low <= highs[-1]:
            highs[-1] = max(high, highs[-1])
            inside[-1].add(term)
        else:
            lows.append(low)
            highs.append(high)
            inside.append({term})
    most_words = sorted(range(len(lows)), key=lambda place: -len(inside[place]))
    return tuple(_snippet(text, lows[place], highs[place]) for place in sorted(most_words[:MAX_SNIPPETS]))


def _snippet(text: str, low: int, high: int) -> str:
    first, last = low + SNIPPET_CHARS, high - SNIPPET_CHARS  # a window that was cut begins and ends so far from a word
    while 0 < low < first and _joined(text, low):
        low += 1
    while last < high < len(text) and _joined(text, high):
        high -= 1
    shown = text[low:high].strip()
    return ("…" if low else "") + shown + ("…" if high < len(text) else "")


def _joined(text: str, place: int) -> bool:
    """Whether a cut here would go through a word."""
    before, after = text[place - 1], text[place]
    return before.isalnum() and after.isalnum() and not (is_cjk(before) or is_cjk(after))


def reasons(
    terms: Terms,
    text: str,
    matches: Sequence[Match],
    *,
    fields: Mapping[str, Found],
    scores: Mapping[str, float],
    forms: tuple[Terms, Sequence[Match]] | None = None,
) -> tuple[str, ...]:
    """Why a passage was found, in words: codes, then fields, then the text's own words, then the cosine.

    `forms` are the dates and numbers of the query as the other language writes them.
    """
    found: dict[str, Found] = {f"{name} matches": field for name, field in fields.items()}
    found["words"] = (text, matches)
    codes = terms.codes & {match.term for _, places in found.values() for match in places}
    said = [f"exact code: {', '.join(map(terms.shown, sorted(codes)))}"] if codes else []
    said += (f"{name}: {_list(terms, *where)}" for name, where in found.items() if where[1])
    if forms is not None and forms[1]:
        said.append(f"other forms: {_list(forms[0], text, forms[1])}")
    if "semantic" in scores:
        said.append(f"semantic similarity {scores['semantic']:.2f}")
    return tuple(said)


def _list(terms: Terms, text: str, matches: Sequence[Match]) -> str:
    """The words that were found; Chinese ones that overlap or touch are shown as they stand together."""
    shown: dict[str, None] = {}
    run: tuple[int, int] | None = None
    for start, end, term in matches:
        if not is_cjk(term[0]):
            shown[terms.shown(term)] = None
            continue
        if run and start <= run[1]:
            shown.pop(text[slice(*run)], None)
            run = (run[0], max(end, run[1]))
        else:
            run = (start, end)
        shown[text[slice(*run)]] = None
    longest = [word for word in shown if not any(word != other and word in other for other in shown)]
    return ", ".join(longest[:MAX_SHOWN_WORDS])
