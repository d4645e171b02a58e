"""The dates and numbers of a query -> the words with which the other language or notation writes the same.

`20世纪70年代` is `1970s` and `70s`, `august 2009` is `8` and `月`, `66 million` is `6600` and `万`, `第33届` is `33rd`
and `xxxiii`. The text comes folded: lower case, narrow forms, simplified characters. One expression finds everything
from left to right, each place once; a table says what is made of it. A rule that is not sure gives nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Final

# More than a question holds. A pasted page must not become hundreds of words to ask for.
MAX_FORMS: Final = 32

_Found = re.Match[str]

# ------------------------------------------------------------------------------------------- numerals

_DIGIT_OF: Final = {"零": 0, "〇": 0, "两": 2, **{char: value for value, char in enumerate("一二三四五六七八九", 1)}}
_TO_DIGITS: Final = {ord(char): str(value) for char, value in _DIGIT_OF.items()}
_ONE_TO_NINE: Final = "一二三四五六七八九"
_NUMERAL: Final = f"零〇两{_ONE_TO_NINE}十百千"
_LONGEST_NUMERAL: Final = 16  # 九千九百九十九万九千九百九十九 has fifteen characters
# Digits in a row are a year or a name such as 九一一. Two (三四) say about how many, four others (七七八八) are idioms.
_IN_A_ROW: Final = re.compile(f"[一二][零〇{_ONE_TO_NINE}]{{3}}|[{_ONE_TO_NINE}][零〇{_ONE_TO_NINE}]{{2}}")
# Below ten thousand. A last digit needs 十 or 零 before it: 一百五 is 150 to some and no number to others.
_SECTION: Final = re.compile(
    f"(?:([两{_ONE_TO_NINE}])千)?(?:[零〇]?([两{_ONE_TO_NINE}])百)?(?:[零〇]?([{_ONE_TO_NINE}]?)十)?"
    f"(?:(?:\\A|(?<=十)|[零〇])([{_ONE_TO_NINE}]))?"
)
_SCALES: Final = {"亿": 100_000_000, "万": 10_000}
_LAST_IN_DIGITS: Final = 100_000_000  # from here on people write units, not a row of noughts


def _section(run: str) -> int | None:
    """A numeral below ten thousand; two is 两 where it stands alone."""
    parts = _SECTION.fullmatch(run)
    if run == "两":
        return _DIGIT_OF[run]
    if parts is None or not run:
        return None
    thousands, hundreds, tens, ones = parts.groups()
    ten = 0 if tens is None else _DIGIT_OF.get(tens, 1)  # 十 by itself is one ten
    return 1000 * _DIGIT_OF.get(thousands, 0) + 100 * _DIGIT_OF.get(hundreds, 0) + 10 * ten + _DIGIT_OF.get(ones, 0)


def _number(run: str) -> int | None:
    """The whole number that digits or a proper Chinese numeral write."""
    if run.isascii():
        return int(run.replace(",", ""))
    if _IN_A_ROW.fullmatch(run):
        return int(run.translate(_TO_DIGITS))
    for unit, scale in _SCALES.items():
        head, found, tail = run.rpartition(unit)
        if found:
            return _scaled(head, tail, scale=scale)
    return _section(run)


def _scaled(head: str, tail: str, *, scale: int) -> int | None:
    """So many 万 or 亿 and what comes after. 两万零五 is 20,005; 两万五, which is 25,000, is left alone."""
    many = _number(head) if head else None
    rest = _number(tail) if tail else 0
    if many is None or rest is None or len(tail) == 1 or rest >= scale:
        return None
    return many * scale + rest


def _in_digits(*runs: str | None) -> Iterator[str]:
    """The digits of numerals of two characters or more: one alone stands in too many words."""
    for run in runs:
        if run and len(run) > 1 and not run.isascii():
            value = _number(run)
            if value is not None and 10 <= value < _LAST_IN_DIGITS:
                yield str(value)


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_ROMAN_PARTS: Final = ((50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"))
_FIRST_WITH_C: Final = 90  # xc; kings and yearly games stay below
_ROMAN: Final = re.compile(r"(?:xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
# Names, sizes, the editor, the light, and the letters that stand for what is left out.
_NOT_ROMAN: Final = frozenset("vi xi xl lv li lx liv xx xxx".split())


def _roman(number: int) -> Iterator[str]:
    """Where it has two letters or more: one alone is a letter."""
    letters, left = "", number
    for value, part in _ROMAN_PARTS:
        letters += part * (left // value)
        left %= value
    if len(letters) > 1 and number < _FIRST_WITH_C:
        yield letters


def _from_roman(letters: str) -> int:
    total = 0
    for value, part in _ROMAN_PARTS:
        while letters.startswith(part):
            total, letters = total + value, letters[len(part) :]
    return total


# ------------------------------------------------------------------------------------------- amounts

_POWER_OF: Final = {
    **{"": 0, "十": 1, "百": 2, "千": 3, "万": 4, "亿": 8, "万亿": 12},
    **{"million": 6, "billion": 9, "trillion": 12},
}
_ENGLISH_UNITS: Final = ("trillion", "billion", "million")
_CHINESE_UNITS: Final = ("万亿", "亿", "万")
_TOO_MUCH: Final = 10**15  # nobody agrees what comes after the trillions
_MOST_DECIMALS: Final = 3  # 12.3456789 million is written by nobody


def _times(number: str, power: int) -> int | None:
    """A number with or without decimals times a power of ten, where that is a whole number."""
    whole, _, decimals = number.replace("点", ".").partition(".")
    value = _number(whole)
    decimals = decimals.translate(_TO_DIGITS)
    if value is None or len(decimals) > power:
        return None
    return int(f"{value}{decimals.ljust(power, '0')}")


def _amount(value: int | None, units: tuple[str, ...]) -> Iterator[str]:
    """The number and the greatest unit of these that goes into it."""
    if value is None or value >= _TOO_MUCH:
        return
    for unit in units:
        power = _POWER_OF[unit]
        whole, rest = divmod(value, 10**power)
        decimals = str(rest).zfill(power).rstrip("0")
        if whole and len(decimals) <= _MOST_DECIMALS:
            yield from (f"{whole}.{decimals}" if decimals else str(whole), unit)
        if whole:
            return


# --------------------------------------------------------------------------------------------- tables

_MONTHS: Final = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH_OF: Final = {
    **{name: number for number, name in enumerate(_MONTHS, 1)},
    **{name[:3]: number for number, name in enumerate(_MONTHS, 1)},
    "sept": 9,
}
_ORDINALS: Final = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth"),
    *("nineteenth", "twentieth"),
)
_LAST_CENTURY, _THIS_CENTURY = 20, 21
_CENTURIES: Final = 30  # 30世纪 may be meant, 70世纪 is a slip

# ---------------------------------------------------------------------------------------------- rules


def _chinese_decade(found: _Found) -> Iterator[str]:
    century, tens, year = found["decade_century"], found["decade_tens"], found["decade_year"]
    if year:
        yield f"{_number(year)}s"
        yield from _in_digits(year)
        return
    number = _number(century) if century else _THIS_CENTURY if found["decade_this"] else _LAST_CENTURY
    if number is None or not 0 < number <= _CENTURIES:
        return
    dated = century or found["decade_this"] or found["decade_last"]
    # 五六十年代 are two decades.
    for ten in [int(tens[0])] if tens.isascii() else [_DIGIT_OF[char] for char in tens[:-1] or "一"]:
        if ten > 1 or dated:  # 10年代 alone is of either century
            yield f"{100 * (number - 1) + 10 * ten}s"
        if ten > 1:  # 10s is ten seconds
            yield f"{10 * ten}s"
    yield from _in_digits(century, tens)


def _chinese_century(found: _Found) -> Iterator[str]:
    number = _number(found["century_number"])
    if number is not None and 0 < number <= _CENTURIES:
        yield _ordinal(number)
        yield from _ORDINALS[number - 1 : number]
    yield from _in_digits(found["century_number"])


def _chinese_month(found: _Found) -> Iterator[str]:
    number = _number(found["month_number"])
    if number is not None and 0 < number <= len(_MONTHS):
        yield from (_MONTHS[number - 1], _MONTHS[number - 1][:3])
    yield from _in_digits(found["month_number"])


def _chinese_ordinal(found: _Found) -> Iterator[str]:
    number = _number(found["ordinal_number"])
    if number:
        yield _ordinal(number)
        if found["ordinal_of"] == "届":
            yield from _roman(number)
    yield from _in_digits(found["ordinal_number"])


def _chinese_reign(found: _Found) -> Iterator[str]:
    yield from _roman(_number(found["reign_number"]) or 0)
    yield from _in_digits(found["reign_number"])


def _chinese_amount(found: _Found) -> Iterator[str]:
    number, unit = found["amount_number"], found["amount_unit"]
    power = _POWER_OF[found["amount_tens"] or ""] + _POWER_OF[unit]
    yield from _amount(_times(number, power), _ENGLISH_UNITS)
    yield from _in_digits(*(() if "点" in number else (number,)))


def _chinese_numeral(found: _Found) -> Iterator[str]:
    yield from _amount(_number(found[0]), _ENGLISH_UNITS)  # 一亿三千万
    yield from _in_digits(found[0])


def _english_decade(found: _Found) -> Iterator[str]:
    year = found["years"]
    if len(year) > 2 and year.endswith("00"):  # the 2000s have no decade of two digits
        yield from ("年代", year)
    else:
        yield from (year[-2:], "年代", year)


def _english_month(found: _Found) -> Iterator[str]:
    name = found["month_after"] or found["month_before"]
    yield from (str(_MONTH_OF[name]), "月")
    if found["day_suffix"]:
        yield str(int(found["day"]))


def _english_ordinal(found: _Found) -> Iterator[str]:
    yield str(int(found["nth"]))
    if found["nth_century"]:
        yield "世纪"


def _english_century(found: _Found) -> Iterator[str]:
    word = found["century_word"]
    yield from (str(_ORDINALS.index(word) + 1) if word in _ORDINALS else "21", "世纪")


def _english_amount(found: _Found) -> Iterator[str]:
    yield from _amount(_times(found["million_number"], _POWER_OF[found["million_unit"]]), _CHINESE_UNITS)


def _roman_numeral(found: _Found) -> Iterator[str]:
    letters = found[0]
    if letters not in _NOT_ROMAN and _ROMAN.fullmatch(letters):
        yield str(_from_roman(letters))


# A number starts where no other one goes on, not inside a word, not after 数 or 几, which make it a guess, nor after
# the 周 or 星期 of a week day: 周五十二点 is Friday at twelve.
_DIGITS_START: Final = r"(?<![0-9a-z])(?<![0-9][.,/])"
_NUMERAL_START: Final = f"(?<![{_NUMERAL}万亿数几周])(?<!星期)"
_WHOLE: Final = f"(?:{_DIGITS_START}[0-9]{{1,4}}|{_NUMERAL_START}[{_NUMERAL}]{{1,{_LONGEST_NUMERAL}}})"
_DECIMAL: Final = r"(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,12})(?:\.[0-9]{1,6})?"
_SPACE: Final = r"\s?"
_ANY_MONTH: Final = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_ANY_ORDINAL: Final = "|".join(sorted((*_ORDINALS, "twenty-first", "twenty first"), key=len, reverse=True))
_CENTURY_WORD: Final = r"[\s-]centur(?:y|ies)"
_DAY: Final = "(?:0?[1-9]|[12][0-9]|3[01])"
_YEAR: Final = "(?:1[0-9]|20)[0-9]{2}"
_WORD_END: Final = "(?![0-9a-z])"

# The first that fits at a place takes it, so those that say more stand before those that say less.
_RULES: Final[dict[str, tuple[str, Callable[[_Found], Iterator[str]]]]] = {
    "chinese_decade": (
        rf"(?:(?:(?P<decade_century>{_WHOLE}){_SPACE}世纪的?{_SPACE}|(?P<decade_last>上个?世纪的?{_SPACE})"
        rf"|(?P<decade_this>本世纪的?{_SPACE}))?"
        rf"(?:{_DIGITS_START}(?P<decade_tens>[1-9]0|{_NUMERAL_START}[二三四五六七八九]{{0,2}}十)"
        rf"|(?<![0-9a-z])(?P<decade_year>[12][0-9]{{2}}0|{_NUMERAL_START}[一二][零〇{_ONE_TO_NINE}]{{2}}[零〇])))"
        rf"{_SPACE}年代",
        _chinese_decade,
    ),
    "chinese_century": (rf"(?P<century_number>{_WHOLE}){_SPACE}世纪", _chinese_century),
    # Not how long (近三月, 上一月), nor what only begins with 月.
    "chinese_month": (
        rf"(?<![这那每某上下前后近隔头])(?P<month_number>{_DIGITS_START}(?:1[0-2]|0?[1-9])"
        rf"|{_NUMERAL_START}(?:十[一二]?|[{_ONE_TO_NINE}])){_SPACE}月(?![球亮饼薪嫂牙租])",
        _chinese_month,
    ),
    "chinese_ordinal": (
        rf"第{_SPACE}(?P<ordinal_number>{_WHOLE}){_SPACE}(?P<ordinal_of>[届次任代章条号集季版页卷位名个周天])",
        _chinese_ordinal,
    ),
    # A ruler's name stands before it; 四世同堂, 三生三世 and 二世祖 are none.
    "chinese_reign": (
        rf"(?<=[\u4e00-\u9fff·])(?<![生第这那每某])(?P<reign_number>{_WHOLE})世(?![纪界代间事袭孙同态俗因祖])",
        _chinese_reign,
    ),
    "chinese_amount": (
        rf"(?P<amount_number>{_DIGITS_START}{_DECIMAL}|{_NUMERAL_START}[{_NUMERAL}]{{1,{_LONGEST_NUMERAL}}}"
        rf"(?:点[零〇{_ONE_TO_NINE}]{{1,{_MOST_DECIMALS}}})?){_SPACE}[多余]?(?P<amount_tens>[十百千])?[多余]?"
        rf"(?P<amount_unit>万亿|亿|万)(?![{_NUMERAL}万亿])",
        _chinese_amount,
    ),
    "chinese_numeral": (
        rf"{_NUMERAL_START}[{_NUMERAL}万亿]{{2,{_LONGEST_NUMERAL}}}(?![{_NUMERAL}万亿])",
        _chinese_numeral,
    ),
    # 30s is half a minute as often as a decade; nothing is said to take 70s.
    "english_decade": (rf"{_DIGITS_START}(?P<years>(?:1[0-9]|20)[0-9]0|[5-9]0)['’]?s{_WORD_END}", _english_decade),
    # `may` after a number is the month only where no verb can follow: covid 19 may cause.
    "english_month": (
        rf"{_DIGITS_START}(?:(?P<day>{_DAY})(?P<day_suffix>st|nd|rd|th)?(?:\sof)?|{_YEAR})[\s.,-]{{1,2}}"
        rf"(?P<month_after>may(?=\s?(?:[^a-z\s]|\Z))|(?!may\b)(?:{_ANY_MONTH})){_WORD_END}"
        rf"|(?<![0-9a-z])(?P<month_before>{_ANY_MONTH})"
        rf"(?=[\s.,-]{{1,2}}(?:the\s)?(?:{_DAY}(?:st|nd|rd|th)?|{_YEAR}){_WORD_END})",
        _english_month,
    ),
    "english_ordinal": (
        rf"{_DIGITS_START}(?P<nth>[0-9]{{1,4}})(?:st|nd|rd|th){_WORD_END}(?P<nth_century>{_CENTURY_WORD})?",
        _english_ordinal,
    ),
    "english_century": (rf"(?<![a-z])(?<![a-z]-)(?P<century_word>{_ANY_ORDINAL}){_CENTURY_WORD}", _english_century),
    "english_amount": (
        rf"{_DIGITS_START}(?P<million_number>{_DECIMAL})[\s-]?(?P<million_unit>million|billion|trillion)s?{_WORD_END}",
        _english_amount,
    ),
    # After a word, as a number of a name: super bowl xxxiii, henry iii.
    "roman_numeral": (rf"(?:(?<=[^\W0-9_]\s)|(?<=[\u4e00-\u9fff]))[ivxl]{{2,9}}{_WORD_END}(?!['’])", _roman_numeral),
}
# What every rule starts with, so that most places are passed without trying them all.
_START: Final = rf"(?=[0-9{_NUMERAL}上本第]|(?<![0-9a-z])[a-z])"


@cache
def _form() -> re.Pattern[str]:
    """Made for the first text that may hold a number: it takes 10 to 20 ms, which a start need not wait for."""
    return re.compile(_START + f"(?:{'|'.join(f'(?P<{name}>{rule})' for name, (rule, _) in _RULES.items())})")


# Without one of these nothing above fits, and most questions have none.
_MAY_HOLD: Final = re.compile(rf"[0-9{_NUMERAL}]|(?<![0-9a-z])[ivxl]{{2,9}}{_WORD_END}|centur")
# The words of the text that a form may be: 1970 does not stand in 1970's, nor 5 in 5.05.
_WORD: Final = re.compile(r"[0-9]+(?:\.[0-9]+)+|[0-9a-z]+(?:['’][a-z]+)?")


def forms(text: str) -> list[str]:
    """The other forms of the dates and numbers in a folded text, in order, each once; none that the text itself has."""
    if not _MAY_HOLD.search(text):
        return []
    found: dict[str, None] = {}
    for place in _form().finditer(text):
        found.update(dict.fromkeys(_RULES[place.lastgroup or ""][1](place)))
        if len(found) >= 2 * MAX_FORMS:  # half of them may stand in the text
            break
    words = frozenset(_WORD.findall(text)) if found else frozenset()
    missing = (form for form in found if (form not in words if form.isascii() else form not in text))
    return list(islice(missing, MAX_FORMS))
