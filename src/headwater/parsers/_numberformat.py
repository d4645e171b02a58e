"""The format code of a cell -> a function from its number to what the sheet shows: `12.50%`, `¥1,200.00`, `2025-03-01`.

Covers what people use: digits, thousands, percent, powers, fractions, currencies, literals, sections for negative
numbers and zero, conditions, dates and durations. A code beyond that shows the plain number.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import cache, partial
from math import isfinite
from typing import Final

Shown = Callable[[float], str]

# The codes that a file names by number only. The dates of 14 and 22 follow the reader's country: here the order that
# nobody takes for another, year first.
BUILT_IN: Final = {
    **{0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?"},
    **{13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM"},
    **{19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)"},
    **{38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 44: "#,##0.00", 45: "mm:ss"},
    **{46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@"},
    # Those of Chinese and Japanese editions.
    **{27: 'yyyy"年"m"月"', 28: 'm"月"d"日"', 29: 'm"月"d"日"', 30: "m-d-yy", 31: 'yyyy"年"m"月"d"日"'},
    **{32: 'h"时"mm"分"', 33: 'h"时"mm"分"ss"秒"', 34: 'AM/PMh"时"mm"分"', 35: 'AM/PMh"时"mm"分"ss"秒"'},
    **{36: 'yyyy"年"m"月"', 50: 'yyyy"年"m"月"', 51: 'm"月"d"日"', 52: 'yyyy"年"m"月"', 53: 'm"月"d"日"'},
    **{54: 'm"月"d"日"', 55: 'AM/PMh"时"mm"分"', 56: 'AM/PMh"时"mm"分"ss"秒"', 57: 'yyyy"年"m"月"', 58: 'm"月"d"日"'},
}
_TOKEN: Final = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)|\[(?P<bracket>[^\]]*)\]'
    r"|(?P<general>General)|(?P<half>AM/PM|A/P|上午/下午)|(?P<power>E[+-])(?=[0#?])|(?P<date>y+|m+|d+|h+|s+|a{3,4})"
    r"|(?P<digits>[0#?][0#?,]*(?:\.[0#?,]*)?|\.[0#?]+)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION: Final = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?[\d.]+)")
_COMPARED: Final[dict[str, Callable[[float, float], bool]]] = {
    **{"<": operator.lt, ">": operator.gt, "=": operator.eq},
    **{"<=": operator.le, ">=": operator.ge, "<>": operator.ne},
}
_CURRENCY: Final = re.compile(r"\$([^-\]]*)(?:-[0-9A-Fa-f]+)?")
_ELAPSED: Final = re.compile(r"[hms]+", re.IGNORECASE)
_FRACTION: Final = re.compile(r"(?P<whole>[#0?]+\s+)?[#0?]+/(?P<below>\d+|[#0?]+)")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CHINESE_DAYS: Final = "一二三四五六日"
# Day 0 of the two calendars of Excel. The first one believes that 1900 had a 29 February, so it is off before March.
_FIRST_DAY: Final = datetime(1899, 12, 30)
_FIRST_DAY_1904: Final = datetime(1904, 1, 1)
_LAST_DAY: Final = 2_958_465
_FALSE_LEAP_DAY: Final = 60
# What a cell shows of a number without a format. Whole numbers keep all the digits that a sheet stores: they are the
# numbers of orders and accounts, and people search for them.
_GENERAL_DIGITS: Final = 11
_WHOLE_DIGITS: Final = 15
_MAX_DIGITS: Final = 30
_MAX_BELOW_DIGITS: Final = 5
# Excel takes codes of up to 255 characters; a longer one is a trap for whoever follows it.
_MAX_CODE_CHARS: Final = 1000

_Token = tuple[str, str]


def general(number: float) -> str:
    """A number without a format."""
    if not isfinite(number):
        return str(number)
    if number == int(number) and abs(number) < 10**_WHOLE_DIGITS:
        return str(int(number))
    shown = f"{number:.{_GENERAL_DIGITS - 1}g}"
    if "e" in shown:
        power = shown.partition("e")
        return f"{power[0]}E{power[2][0]}{power[2][1:].lstrip('0').zfill(2)}"
    return shown


@cache
def number_format(code: str, date1904: bool = False) -> Shown:
    """The function for a code. Numbers that it cannot show are shown plain."""
    if len(code) > _MAX_CODE_CHARS:
        return general
    parts = [_tokens(part) for part in _split(code)]
    sections = [_section(tokens, date1904) for tokens in parts if tokens != [("general", "General")]]
    if not code or (not sections and len(parts) <= 1):
        return general
    shown = [_section(tokens, date1904) for tokens in parts]
    conditions = [_condition(tokens) for tokens in parts]

    def show(number: float) -> str:
        if not isfinite(number):
            return str(number)
        place, minus = _choose(number, conditions)
        if number < 0 and _is_dated(parts[place]):
            return general(number)  # there are no days before the first
        try:
            text = shown[place](abs(number) if minus is not None else number)
        except (ValueError, OverflowError, InvalidOperation, ZeroDivisionError):
            return general(number)
        return (minus or "") + text

    return show


def _choose(number: float, conditions: list[Callable[[float], bool] | None]) -> tuple[int, str | None]:
    """Which section shows the number, and the sign in front, or None where the section is to see the sign itself."""
    for place, condition in enumerate(conditions[:3]):
        if condition is not None and condition(number):
            return place, "-" if number < 0 and place == 0 else ""
    count = len(conditions)
    if any(conditions):
        return min(count - 1, sum(condition is not None for condition in conditions)), "-" if number < 0 else ""
    if number < 0:
        return (1, "") if count > 1 else (0, "-")
    return (2, "") if number == 0 and count > 2 else (0, "")


def _split(code: str) -> list[str]:
    """The sections between semicolons that are no literals; the fourth is for text."""
    sections = [""]
    for found in _TOKEN.finditer(code):
        if found["other"] == ";":
            sections.append("")
        else:
            sections[-1] += found[0]
    return sections[:3]


def _tokens(section: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(section):
        kind = match.lastgroup or "other"
        found.append((kind, match[kind]))
    return found


def _condition(tokens: list[_Token]) -> Callable[[float], bool] | None:
    for kind, value in tokens:
        if kind == "bracket" and (found := _CONDITION.fullmatch(value.strip())):
            return partial(_fits, _COMPARED[found[1]], float(found[2]))
    return None


def _fits(compare: Callable[[float, float], bool], limit: float, number: float) -> bool:
    return compare(number, limit)


def _section(tokens: list[_Token], date1904: bool) -> Shown:
    if _is_dated(tokens):
        return _dated(tokens, date1904)
    plain = "".join(value for kind, value in tokens if kind in ("digits", "other"))
    if fraction := _FRACTION.search(plain):
        return _fractional(fraction)
    return _numeric(tokens)


def _is_dated(tokens: list[_Token]) -> bool:
    return any(kind == "date" or (kind == "bracket" and _ELAPSED.fullmatch(value)) for kind, value in tokens)


def _literal(kind: str, value: str) -> str:
    """What stands in a format beside digits and dates."""
    if kind == "bracket":
        currency = _CURRENCY.fullmatch(value)
        return currency[1] if currency else ""
    return {"space": " ", "fill": ""}.get(kind, value)


# ----------------------------------------------------------------------------------------------- numbers


def _numeric(tokens: list[_Token]) -> Shown:
    """Digits with what stands before, between and behind them."""
    places = [place for place, (kind, _) in enumerate(tokens) if kind == "digits"]
    percents = sum(value.count("%") for kind, value in tokens if kind == "other")
    if any(kind == "general" or value == "@" for kind, value in tokens):
        return lambda number: "".join(
            general(number) if kind == "general" or value == "@" else _literal(kind, value) for kind, value in tokens
        ).strip()
    if not places:
        constant = "".join(_literal(kind, value) for kind, value in tokens).strip()
        return lambda number: constant
    first, last = places[0], places[-1]
    power = next((place for place, (kind, _) in enumerate(tokens) if kind == "power"), None)
    before = "".join(_literal(kind, value) for kind, value in tokens[:first])
    after = "".join(_literal(kind, value) for kind, value in tokens[last + 1 :])
    picture = "".join(value for kind, value in tokens[first : power or last + 1] if kind == "digits")
    whole, _, decimals = picture.partition(".")
    scale = len(whole) - len(whole.rstrip(",")) if not decimals else len(picture) - len(picture.rstrip(","))
    decimals, whole = decimals.strip(","), whole.rstrip(",")
    if power is not None:
        exponent = tokens[last][1]
        return lambda number: before + _powered(number, len(decimals), len(exponent), tokens[power][1]) + after
    if len(places) > 1 and not decimals:
        between = tokens[first : last + 1]
        return lambda number: before + _spread(number, between, picture) + after

    def show(number: float) -> str:
        value = Decimal(repr(number)).scaleb(2 * percents - 3 * scale)
        return (before + _digits(value, whole, decimals) + after).strip()

    return show


def _digits(value: Decimal, whole: str, decimals: str) -> str:
    rounded = value.quantize(Decimal(1).scaleb(-min(len(decimals), _MAX_DIGITS)), ROUND_HALF_UP)
    left, _, right = f"{abs(rounded):f}".partition(".")
    needed = sum(sign == "0" for sign in whole)
    left = left.lstrip("0").zfill(needed) if needed else left.lstrip("0")
    if "," in whole:
        left = f"{int(left):,}".rjust(len(left), "0") if left else left
    # Of decimals only those that are written as 0 are always shown.
    shown = right.rstrip("0").ljust(len(decimals.rstrip("#?")), "0") if decimals else ""
    return left + ("." + shown if shown else "")


def _spread(number: float, between: list[_Token], picture: str) -> str:
    """The digits of a whole number with signs between them, such as `000-00-0000`."""
    left = _digits(Decimal(repr(number)), picture, "").replace(",", "")
    shown = ""
    for kind, value in reversed(between):
        if kind != "digits":
            shown = _literal(kind, value) + shown
        else:
            taken = left[-len(value) :]
            left, shown = left[: len(left) - len(taken)], taken + shown
    return left + shown


def _powered(number: float, decimals: int, exponent: int, mark: str) -> str:
    digits, _, power = f"{number:.{min(decimals, _MAX_DIGITS)}E}".partition("E")
    sign = "-" if power.startswith("-") else "+" if mark.endswith("+") else ""
    return f"{digits}E{sign}{power.lstrip('+-').lstrip('0').zfill(exponent)}"


def _fractional(fraction: re.Match[str]) -> Shown:
    below = fraction["below"]
    fixed = below.isdecimal() and set(below) != {"0"}
    # Words such as 1/4 and 3/16; a longer part below the line is a damaged format.
    largest = int(below[:_MAX_BELOW_DIGITS]) if fixed else 10 ** len(below[:_MAX_BELOW_DIGITS]) - 1

    def show(number: float) -> str:
        whole, rest = divmod(number, 1) if fraction["whole"] else (0, number)
        part = Fraction(round(rest * largest), largest) if fixed else Fraction(rest).limit_denominator(largest)
        if part == 1 and fraction["whole"]:
            whole, part = whole + 1, Fraction(0)
        above = int(part * largest) if fixed else part.numerator
        shown = f"{above}/{largest if fixed else part.denominator}" if part else ""
        return " ".join(filter(None, [str(int(whole)) if whole or not shown else "", shown]))

    return show


# ------------------------------------------------------------------------------------------------- dates


def moment(number: float, date1904: bool = False) -> datetime:
    """The day and time that a number stands for."""
    if not -1 < number <= _LAST_DAY:
        raise ValueError(number)
    start = _FIRST_DAY_1904 if date1904 else _FIRST_DAY
    if not date1904 and number < _FALSE_LEAP_DAY:
        number += 1
    return start + timedelta(days=int(number), milliseconds=round((number - int(number)) * 86_400_000))


def _dated(tokens: list[_Token], date1904: bool) -> Shown:
    pieces = _told_apart(tokens)
    halves = any(kind == "half" for kind, _ in pieces)
    shows_fraction = any(kind == "second fraction" for kind, _ in pieces)

    def show(number: float) -> str:
        if not shows_fraction:
            number = round(number * 86_400) / 86_400
        when = None if all(kind != "date" for kind, _ in pieces) else moment(number, date1904)
        return "".join(_dated_piece(kind, value, when, number, halves) for kind, value in pieces).strip()

    return show


def _told_apart(tokens: list[_Token]) -> list[_Token]:
    """The same with `m` as minutes (`n`) next to hours and seconds, and fractions of a second."""
    pieces: list[_Token] = []
    dates = [place for place, (kind, _) in enumerate(tokens) if kind == "date"]
    for place, (kind, value) in enumerate(tokens):
        if kind == "bracket" and _ELAPSED.fullmatch(value):
            pieces.append(("elapsed", value.lower()))
        elif kind == "date" and value[0] in "mM" and len(value) <= 2:
            before = [tokens[p][1][0].lower() for p in dates if p < place][-1:]
            after = [tokens[p][1][0].lower() for p in dates if p > place][:1]
            hours = any(k == "bracket" and _ELAPSED.fullmatch(v) for k, v in tokens[:place])
            minutes = before == ["h"] or after == ["s"] or (hours and not before)
            pieces.append((kind, ("n" if minutes else "m") * len(value)))
        elif kind == "date":
            pieces.append((kind, value.lower()))
        elif kind == "digits" and pieces and pieces[-1][0] in ("date", "elapsed") and value.startswith("."):
            pieces.append(("second fraction", value))
        else:
            pieces.append((kind, value))
    return pieces


def _dated_piece(kind: str, value: str, when: datetime | None, number: float, halves: bool) -> str:
    if kind == "elapsed":
        seconds = round(number * 86_400)
        return str(seconds // {"h": 3600, "m": 60, "s": 1}[value[0]]).zfill(len(value))
    if kind == "second fraction":
        return f"{(number * 86_400) % 1:.{len(value) - 1}f}"[1:]
    if when is None or kind not in ("date", "half"):
        return _literal(kind, value)
    if kind == "half":
        first, _, second = value.partition("/")
        return first if when.hour < 12 else second
    hour = (when.hour % 12 or 12) if halves else when.hour
    length = len(value)
    day = _DAYS[when.weekday()]
    words = {
        "y": f"{when.year:04d}" if length > 2 else f"{when.year % 100:02d}",
        "m": _MONTHS[when.month - 1][: {3: 3, 4: None, 5: 1}.get(length, 3)] if length > 2 else "",
        "d": (day[:3] if length == 3 else day) if length > 2 else "",
        "a": ("星期" if length > 3 else "周") + _CHINESE_DAYS[when.weekday()],
    }
    if word := words.get(value[0], ""):
        return word
    figure = {"m": when.month, "d": when.day, "h": hour, "n": when.minute, "s": when.second}[value[0]]
    return str(figure).zfill(min(length, 2))
