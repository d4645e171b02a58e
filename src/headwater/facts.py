"""A text -> what in it cannot be said in other words: numbers with their units, dates, names, and what is denied.

Numbers are values, however they are written (26, 二十六, twenty-six); dates are years, months and days; units are one
word for all their spellings. A name is a word with a capital letter, or what the Chinese dictionary calls a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from math import isclose
from typing import Final, NamedTuple

from headwater.tokens import fold, is_cjk

# ------------------------------------------------------------------------------------------ numbers

_HAN_DIGITS: Final = dict(
    zip("零〇一二三四五六七八九两壹贰叁肆伍陆柒捌玖", [0, *range(10), 2, *range(1, 10)], strict=True)
)
_HAN_TENS: Final = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1000, "仟": 1000}
_HAN_LARGE: Final = {"万": 10_000, "亿": 100_000_000}
_HAN_NUMBER: Final = f"[{''.join(_HAN_DIGITS)}{''.join(_HAN_TENS)}{''.join(_HAN_LARGE)}]"
_ONES: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS: Final[Mapping[str, int]] = {
    **{word: value for value, word in enumerate(_ONES)},
    **{word: 10 * value for value, word in enumerate(_TENS, start=2)},
    "dozen": 12,
}
_ORDINALS: Final[Mapping[str, int]] = {
    **{"first": 1, "second": 2, "third": 3, "fifth": 5, "eighth": 8, "ninth": 9, "twelfth": 12},
    **{f"{word}th": value for value, word in enumerate(_ONES) if value not in (0, 1, 2, 3, 5, 8, 9, 12)},
    **{f"{word[:-1]}ieth": 10 * value for value, word in enumerate(_TENS, start=2)},
}
_SCALES: Final = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SPOKEN: Final = "|".join((*_WORDS, *_SCALES, *_ORDINALS))
_MONTHS: Final = "january february march april may june july august september october november december".split()
_MONTH: Final = "|".join(f"{month}|{month[:3]}" for month in _MONTHS)
# One word for all spellings of a unit. Plurals lose their s before they are looked up.
_UNITS: Final[Mapping[str, str]] = {
    spelling: spellings.split()[0]
    for spellings in (
        "% percent ％ pct",
        "year 年 周年 岁",
        "month 个月",
        "week 周 星期 礼拜",
        "day 天 日",
        "hour 小时 h hr 钟头",
        "minute 分钟 min",
        "second 秒 秒钟 sec",
        "metre 米 公尺 meter m",
        "kilometre 公里 千米 kilometer km",
        "centimetre 厘米 公分 centimeter cm",
        "millimetre 毫米 millimeter mm",
        "kilogram 公斤 千克 kg kilo",
        "gram 克 g",
        "tonne 吨 ton",
        "litre 升 liter l",
        "mile 英里",
        "foot 英尺 feet ft",
        "inch 英寸 in",
        "yuan 元 人民币 rmb",
        "dollar 美元 usd",
        "euro 欧元 eur",
        "pound 英镑 gbp",
        "degree 度 ° ℃",
        "person 人 名 people 位",
        "time 次",
        "hectare 公顷 ha",
        "point 分",
    )
    for spelling in spellings.split()
}
_UNIT_SPELLINGS: Final = "|".join(
    re.escape(one) + (r"s?\b" if one.isascii() and one.isalpha() else "")
    for one in sorted(_UNITS, key=len, reverse=True)
)
_UNIT: Final = re.compile(rf"\s?-?(?:多|余|个)?(?:per cent|{_UNIT_SPELLINGS})")
# What a number is counted for: 6,400 a month, 3 days per week, 48000元/月.
_TIMES: Final = {"月": "month", "年": "year", "天": "day", "日": "day", "周": "week", "小时": "hour"}
_PER: Final = re.compile(
    r"\s?(?:(?:(?:an?|per|each|every)\s|/\s?)(hour|day|week|month|year)\b|[/每](小时|[月年天日周]))"
)
_PLAIN: Final = r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_NUMBER: Final = re.compile(
    rf"(?P<ymd>(?P<year>\d{{4}})\s?[-/年.]\s?(?P<month>\d{{1,2}})(?:\s?[-/月.]\s?(?P<day>\d{{1,2}})日?|月))(?!\d)"
    rf"|(?P<md>(?<!\d)(?P<month2>\d{{1,2}}|{_HAN_NUMBER}{{1,2}})月(?P<day2>\d{{1,2}}|{_HAN_NUMBER}{{1,3}})[日号])"
    rf"|(?P<named>(?:(?P<day3>\d{{1,2}})(?:st|nd|rd|th)? )?\b(?P<month3>{_MONTH})\b\.?"
    rf"(?: (?P<day4>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?,?(?: (?P<year3>\d{{4}}))?)"
    rf"|(?P<per>百分之(?P<share>{_PLAIN}|{_HAN_NUMBER}+(?:点{_HAN_NUMBER}+)?))"
    rf"|(?P<plain>{_PLAIN})(?P<ordinal>st|nd|rd|th)?(?:\s?(?P<scale>hundred|thousand|million|billion|trillion|万亿|亿|万|千|百)(?![a-z]))?"
    rf"|(?P<han>{_HAN_NUMBER}+(?:点{_HAN_NUMBER}+)?)"
    rf"|\b(?P<words>(?:{_SPOKEN})(?:(?:[- ]|,? and )(?:{_SPOKEN}))*)\b"
)
_ITEM_NUMBER: Final = re.compile(r"\d{1,3}[.)、]\s")

ROUNDING: Final = 1e-12  # what sums of floating point numbers are off by


class Number(NamedTuple):
    """A value, what it counts where that is known, where it stands, and for how long a time it is counted."""

    value: float
    unit: str
    start: int
    end: int
    per: str = ""


def numbers(folded: str) -> list[Number]:
    """Every number of a folded text. One is left out where it is written as a word: it mostly means "a"."""
    return list(_numbers(folded))


def _numbers(folded: str) -> Iterator[Number]:
    for found in _NUMBER.finditer(folded):
        start, end = found.span()
        parts = found.groupdict()
        if parts["ymd"] or parts["md"] or parts["named"]:
            yield from _date(parts, start, end)
        elif share := parts["share"]:
            yield Number(_value(share), "%", start, end)
        elif plain := parts["plain"]:
            if start and (folded[start - 1].isalpha() and not is_cjk(folded[start - 1])):
                continue  # a part of a code
            if _ITEM_NUMBER.match(folded, start) and not folded[:start].rpartition("\n")[2].strip():
                continue  # the number of an item counts nothing
            scale = parts["scale"] or ""
            value = float(plain.replace(",", "")) * (_SCALES.get(scale) or _han(scale) or 1 if scale else 1)
            yield _counted(value, folded, start, end)
        elif han := parts["han"]:
            value = _value(han)
            if len(han) > 1 or (value > 1 and han in _HAN_DIGITS):
                yield _counted(value, folded, start, end)
        elif words := parts["words"]:
            value = _spoken(words)
            if value > 1:
                yield _counted(value, folded, start, end)


def _date(parts: Mapping[str, str | None], start: int, end: int) -> Iterator[Number]:
    if year := parts["year"] or parts["year3"]:
        yield Number(float(year), "year", start, end)
    named = parts["month3"]
    month = parts["month"] or parts["month2"]
    dated = year or parts["day3"] or parts["day4"]
    if named and (dated or named != "may"):  # may is mostly a verb
        yield Number(
            float(next(n for n, name in enumerate(_MONTHS, 1) if name.startswith(named))), "of year", start, end
        )
    elif month:
        yield Number(_value(month), "of year", start, end)
    if day := parts["day"] or parts["day2"] or parts["day3"] or parts["day4"]:
        yield Number(_value(day), "of month", start, end)


def _counted(value: float, folded: str, start: int, end: int) -> Number:
    """A number with the unit that follows it."""
    found = _UNIT.match(folded, end)
    unit = _unit(found[0]) if found else ""
    end = found.end() if found and unit else end
    per = _PER.match(folded, end)
    return Number(value, unit, start, end, (per[1] or _TIMES[per[2]]) if per else "")


def _unit(written: str) -> str:
    spelling = written.strip(" -").lstrip("多余")
    spelling = "%" if spelling == "per cent" else spelling
    for one in (spelling, spelling.removesuffix("s"), spelling.removeprefix("个")):
        if one in _UNITS:
            return _UNITS[one]
    return ""


def _value(text: str) -> float:
    return float(text.replace(",", "")) if text[0].isdigit() else _han(text)


def _han(text: str) -> float:
    """三百二十 is 320, 二〇二四 is 2024, 一点五万 is 15000."""
    whole, _, rest = text.partition("点")
    if rest:
        tail = "".join(char for char in rest if char in _HAN_DIGITS)
        scale = 1
        for char in rest[len(tail) :]:
            scale *= _HAN_LARGE.get(char) or _HAN_TENS.get(char) or 1
        return float(f"{int(_han(whole))}.{''.join(str(_HAN_DIGITS[char]) for char in tail) or 0}") * scale
    if all(char in _HAN_DIGITS for char in whole):
        return float("".join(str(_HAN_DIGITS[char]) for char in whole) or 0)
    total = part = digit = 0
    for char in whole:
        if char in _HAN_DIGITS:
            digit = _HAN_DIGITS[char]
        elif char in _HAN_TENS:
            part += (digit or 1) * _HAN_TENS[char]
            digit = 0
        else:
            total = (total + part + digit or 1) * _HAN_LARGE[char]
            part = digit = 0
    return float(total + part + digit)


def _spoken(words: str) -> float:
    total = part = 0
    for word in re.split(r"[^a-z]+", words):
        if word in _SCALES:
            if _SCALES[word] == _SCALES["hundred"]:
                part = (part or 1) * _SCALES[word]
            else:
                total, part = total + (part or 1) * _SCALES[word], 0
        else:
            part += _WORDS.get(word, _ORDINALS.get(word, 0))
    return float(total + part)


def unlike(said: Number, given: list[Number]) -> bool:
    """Whether none of the numbers given is the same one."""
    return not any(
        isclose(one.value, said.value, rel_tol=ROUNDING) and _fits(said.unit, one.unit) and _fits(said.per, one.per)
        for one in given
    )


def _fits(one: str, other: str) -> bool:
    # 8日 is a day of a month or eight days; only what stands before it tells.
    return not one or not other or one == other or {one, other} == {"day", "of month"}


# Where something begins and where it ends. A currency may stand before its number.
_BEGINS: Final = re.compile(r"(?:\bfrom\s(?:[a-z]{3}\s?|[€$£¥])?|[从由自])\Z")
_ENDS: Final = re.compile(r"(?:\b(?:to|until|till)\s(?:[a-z]{3}\s?|[€$£¥])?|[到至])\Z")
_BEFORE_CHARS: Final = 12  # of the text before a number, that say whether it is a beginning


def turned(said: str, given: str) -> bool:
    """Whether what one folded text goes from is what the other goes to: from 83 to 74, from 74 to 83."""
    ones, others = _ends(said), _ends(given)
    return any(
        (same := {begins for other, begins in others if not unlike(number, [other])}) and begins not in same
        for number, begins in ones
    )


def _ends(folded: str) -> list[tuple[Number, bool]]:
    """The numbers that something begins or ends with, and whether it begins."""
    found = []
    for number in numbers(folded):
        before = folded[max(0, number.start - _BEFORE_CHARS) : number.start]
        begins = _BEGINS.search(before) is not None
        if begins or _ENDS.search(before):
            found.append((number, begins))
    return found


# -------------------------------------------------------------------------------------------- names

_NAME_TAGS: Final = frozenset({"nr", "nrt", "nrfg", "ns", "nt", "nz"})
LEAST_STEM: Final = 4
LONGEST_ENDING: Final = 3
_LEADING: Final = "和与在于由被对为是及等以从到向把将的"
_CAPITAL: Final = re.compile(
    r"(?<![\w'’])(?:[A-Z][^\W_\u2e80-\U000323af]*(?:['’-][A-Z]?[^\W_\u2e80-\U000323af]+)*|[a-z]+[A-Z]\w*|[^\W\d_\u2e80-\U000323af]+\d[^\W_\u2e80-\U000323af]*)"
)
_SENTENCE_START: Final = re.compile(r"(?:^|[.!?。！？:：;；\n\"“(\[]\s*)$")
# Capital letters that a title or a heading gives to any word.
_SMALL: Final = frozenset(
    (
        "the a an in on at of for to by with from and or but it he she they we this that these those his her its their "
        "there here when while where after before during since as if because although however thus therefore moreover "
        "also i"
    ).split()
)


def names(text: str) -> list[str]:
    """Names and codes in order, each once, folded. The first word of a sentence may be any word and is left out."""
    found: dict[str, None] = {}
    for one in _CAPITAL.finditer(text):
        word = one[0]
        plain = word[0].isupper() and word[1:].islower()
        first = _SENTENCE_START.search(text[max(0, one.start() - 3) : one.start()]) is not None
        if fold(word) in _SMALL or (plain and first) or len(word) < 2:
            continue
        found[fold(word)] = None
    folded = fold(text)
    if any(map(is_cjk, folded)):
        for word, tag in _tagged(folded):
            if tag in _NAME_TAGS and len(word) > 1 and is_cjk(word[0]):
                found[word.lstrip(_LEADING) if len(word) > 2 else word] = None
    return [name for name in found if len(name) > 1]


@cache
def _tagger() -> object:
    import rjieba

    return rjieba


def _tagged(folded: str) -> list[tuple[str, str]]:
    return _tagger().tag(folded)  # type: ignore[attr-defined, no-any-return]


def absent(name: str, folded: str) -> bool:
    """Whether a name does not stand in a folded text; endings and hyphens of English names may differ."""
    if name in folded:
        return False
    if is_cjk(name[0]):
        return True
    if name.replace("-", " ") in folded.replace("-", " "):
        return False
    # Germany and German, Brazil and Brazilian, Norman and Normans share all but their endings.
    stem = name[: max(LEAST_STEM, len(name) - LONGEST_ENDING)]
    return not name.isalpha() or len(name) < LEAST_STEM or not re.search(rf"\b{re.escape(stem)}\w{{0,6}}\b", folded)


# ----------------------------------------------------------------------------------------- polarity

_DENIED: Final = re.compile(
    r"\b(?:not|never|no|neither|nor|none|nobody|nothing|without|cannot|hardly|unable to)\b"
    r"|\b(?:fail(?:s|ed)? to|lack(?:s|ed)?)\b"
    r"|n't\b"
    r"|不(?!仅|但|过|断|久|少|同|得不|锈|可思议|论|妨|止|料|禁|由)|没(?![收落])有?|未(?![来必免])"
    r"|无(?![论数线人机])|非(?![常洲凡法])|并非|毫无|从未|拒绝|禁止"
)
# Words of which one says the opposite of the other, by stem: whoever says one where the source says the other is wrong.
_OPPOSITES: Final = tuple(
    tuple(re.compile("|".join(rf"\b{word}" if word.isascii() else word for word in side.split())) for side in pair)
    for pair in (
        ("increas ris(?:e|es|ing)\\b rose\\b grew\\b grow higher\\b climb gain up\\s(?:from|by)\\b "
         "增加 上升 增长 上涨 升高 提高 增多 攀升 上调 增至 升至",
         "decreas fall(?:s|en|ing)?\\b fell\\b declin lower(?:s|ed|ing)?\\b drop reduc down\\s(?:from|by)\\b "
         "减少 下降 下跌 降低 减低 下滑 下调 降至 减至 跌至"),
        ("before\\b prior\\b 之前 以前", "after\\b following\\b 之后 以后"),
        ("north 北部 北方 以北", "south 南部 南方 以南"),
        ("east 东部 东方 以东", "west 西部 西方 以西"),
        ("largest biggest greatest highest most\\b 最大 最高 最多", "smallest least lowest fewest 最小 最低 最少"),
        ("open(?:s|ed)?\\b 开放 打开", "clos(?:e|es|ed)\\b shut 关闭"),
        ("allow permit 允许 可以", "forbid forbad prohibit ban(?:s|ned)?\\b 禁止 不得"),
        ("won\\b win(?:s)?\\b 获胜 战胜", "lost\\b lose(?:s)?\\b 失败 落败 输给"),
        ("始于 开始 begins?\\b began\\b start", "结束 终止 end(?:s|ed)?\\b finish"),
        ("positive 阳性 积极", "negative 阴性 消极"),
        ("left\\b 左侧 左边", "right\\b 右侧 右边"),
        ("包括 包含 includ", "不包括 不含 exclud"),
        ("at\\sleast\\b no(?:t)?\\s(?:less|fewer)\\sthan 至少 不少于 不低于",
         "at\\smost\\b up\\sto\\b no(?:t)?\\smore\\sthan 至多 不超过 不高于"),
    )
)  # fmt: skip
_CLAUSE: Final = re.compile(r"[,;:.!?](?!\d)|[，；：。！？、]")
# How far a denial reaches: so many words, or Chinese characters.
_REACH_WORDS: Final = 4
_REACH_CHARS: Final = 6
_TOKEN: Final = re.compile(r"[a-z0-9'-]+|\S")


class Denial(NamedTuple):
    """A word that denies, and the stretch of text that it denies."""

    start: int
    reach: int  # where what is denied ends


def denials(folded: str) -> list[Denial]:
    """Every word of a folded text that denies something."""
    found = []
    for cue in _DENIED.finditer(folded):
        end, count, chars = cue.end(), 0, 0
        for token in _TOKEN.finditer(folded, cue.end()):
            if _CLAUSE.match(folded, token.start()) or count >= _REACH_WORDS or chars >= _REACH_CHARS:
                break
            wide = is_cjk(token[0])
            chars, count = chars + wide, count + (not wide and len(token[0]) > 2)
            end = token.end()
        found.append(Denial(cue.start(), end))
    return found


# Paid and unpaid. What is left must be a word of the other text, so that under and until have no opposite.
_UNDONE: Final = re.compile(r"\b(?:un|non-?)(?!less\b)([a-z]{4,})")


def opposed(said: str, given: str) -> bool:
    """Whether one folded text says up and the other only down, or one paid and the other only unpaid."""
    if _undoes(said, given) or _undoes(given, said):
        return True
    for first, second in _OPPOSITES:
        one = bool(first.search(said)), bool(second.search(said))
        other = bool(first.search(given)), bool(second.search(given))
        if (one == (True, False) and other == (False, True)) or (one == (False, True) and other == (True, False)):
            return True
    return False


def _undoes(one: str, other: str) -> bool:
    return any(
        re.search(rf"\b{word}\b", other) and not re.search(rf"\b{word}\b", one) and found[0] not in other
        for found in _UNDONE.finditer(one)
        for word in [found[1]]
    )
