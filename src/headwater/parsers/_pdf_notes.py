"""The lines of a page in reading order -> which of them are footnotes, and what line each is a note to.

A footnote is set smaller than the text, stands at the foot of its column below text, and opens with a mark. That the
mark stands behind a word of the page, or a rule above the first note, says that it is one and not small print.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from headwater.parsers._pdf_shapes import Area, Line, Page, Table

# Of the size of the text: 9 points below 10 are notes, rounding is not.
_SMALLER: Final = 0.93
# Notes end in this lower part of the page.
_FOOT: Final = 0.6
# A rule stands so many font sizes or less above the first note.
_RULE_REACH: Final = 2.5
_MARK: Final = re.compile(
    r"(?P<sign>\d{1,3}(?!\d|[.,:/%-]\d)|[*∗†‡§¶]{1,3}|[①-⑳]|[⁰¹²³⁴-⁹]{1,3})(?:[.)）、](?!\d))?\s?(?=\S)"
)
_RAISED: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹∗", "0123456789*")
# What a list of sources or notes is headed with; that list is no footnote.
_LIST_HEADING: Final = re.compile(
    r"\W*(?:\d{1,2}\.?\s*)?(?:references|bibliography|literature|works cited|(?:end)?notes|sources|"
    r"参考文献|參考文獻|注释|註釋|参考资料)\W*",
    re.IGNORECASE,
)


def body_size(pages: Sequence[Page]) -> float:
    """The size that most characters of these pages are set in; 0 where nothing is."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            sizes[line.size] += len(line.text)
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else 0.0


def mark_notes(items: Sequence[Line | Table], page: Page, *, body: float) -> None:
    """Number the lines of each footnote of a page, from 1, and tell the first which line it is a note to."""
    if page.recognised:
        return  # sizes are guesses
    number = 0
    for _column, group in groupby(items, key=lambda item: item.column):
        column = list(group)
        foot = _small_end(column, body)
        if not foot or foot[-1].area.bottom < _FOOT * page.height:
            continue
        above = column[-len(foot) - 1] if len(foot) < len(column) else _lowest_above(foot, items)
        if above is None or _heads_a_list(above):
            continue
        small = {id(line) for line in foot}
        text = [item for item in items if isinstance(item, Line) and id(item) not in small]
        for note in _notes(foot, text, has_rule=_has_rule(above, foot[0], page.rules)):
            number += 1
            for line in note:
                line.note = number


def _small_end(column: Sequence[Line | Table], body: float) -> list[Line]:
    """The lines at the end of a column that are smaller than the text."""
    foot: list[Line] = []
    for item in reversed(column):
        if isinstance(item, Table) or item.mono or item.size > _SMALLER * body:
            break
        foot.append(item)
    return foot[::-1]


def _lowest_above(foot: Sequence[Line], items: Sequence[Line | Table]) -> Line | Table | None:
    """What stands above notes that run below all columns; nothing where something stands beside them."""
    small = {id(line) for line in foot}
    others = [item for item in items if id(item) not in small]
    lowest = max(others, key=lambda item: item.area.bottom, default=None)
    return lowest if lowest is not None and lowest.area.bottom <= foot[0].area.middle else None


def _heads_a_list(item: Line | Table) -> bool:
    """Whether what follows is a list of sources, or what a table has below it."""
    return isinstance(item, Table) or item.bold or _LIST_HEADING.fullmatch(item.text) is not None


def _has_rule(above: Line | Table, first: Line, rules: Sequence[Area]) -> bool:
    """Whether a line is drawn between the text and the notes."""
    reach = max(above.area.bottom, first.area.top - _RULE_REACH * first.size)
    return any(
        reach - 1 <= rule.middle <= first.area.top + first.size / 4
        and rule.height < first.size / 4
        and rule.left <= first.area.left + first.size
        and rule.right > first.area.left + first.size
        for rule in rules
    )


def _notes(foot: Sequence[Line], text: Sequence[Line], *, has_rule: bool) -> Iterator[list[Line]]:
    """The lines of each note; what stands before the first is none."""
    note: list[Line] = []
    sign = ""
    for line in foot:
        found = _MARK.match(line.text)
        own = found["sign"].translate(_RAISED) if found else ""
        if own and (not sign or _follows(sign, own)):
            refers = _referring(own, text)
            if refers is not None or has_rule:
                if note:
                    yield note
                line.refers, note, sign = refers, [], own
        if sign:
            note.append(line)
    if note:
        yield note


def _follows(before: str, sign: str) -> bool:
    """Whether a mark comes after another: the next number, or another sign. A line may begin with any number."""
    if before.isdecimal() and sign.isdecimal():
        return int(sign) == int(before) + 1
    return not sign.isdecimal() and sign != before


def _referring(sign: str, text: Sequence[Line]) -> Line | None:
    """The line of the text where a word carries the mark."""
    if sign.isdecimal():
        raised = sign.translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        # Behind a letter or a closing mark; the decimals of a number and the parts of a name ("x-1") are none.
        # Behind a figure only where it is raised.
        before = r"(?:[^\W\d_]|(?<!\d)[.,;:!?]|[)\]”’\"'。，；：！？、）》」]|\d\^)"
        pattern = rf"{before}(?:{sign}(?![\w%]|[.,]\d)|{raised})"
    else:
        pattern = rf"\S\s?(?<!{re.escape(sign[0])}){re.escape(sign)}(?!{re.escape(sign[0])})"
    found = re.compile(pattern)
    return next((line for line in text if found.search(line.text.translate(_STARS))), None)


_STARS: Final = str.maketrans("∗", "*")
