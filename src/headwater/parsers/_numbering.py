"""The numbering part of a Word document -> the number or bullet in front of each paragraph of a list.

Word stores no numbers: it stores to which list and level a paragraph belongs, and counts when it draws. So do we.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headwater.parsers._package import Element, attribute, local, whole

_BULLET: Final = "-"
_LEVELS: Final = 9
_PLACEHOLDER: Final = re.compile(r"%([1-9])")
_CHINESE: Final = "〇一二三四五六七八九"
_FORMAL: Final = "零壹贰叁肆伍陆柒捌玖"
_STEMS: Final = "甲乙丙丁戊己庚辛壬癸"
_BRANCHES: Final = "子丑寅卯辰巳午未申酉戌亥"
_ROMAN: Final = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc")),
    *((50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
# Beyond this a roman number is longer than the line it stands in.
_MAX_ROMAN: Final = 4_999


@dataclass(frozen=True, slots=True)
class _Level:
    start: int = 1
    format: str = "decimal"
    text: str = ""
    restart: int | None = None  # the level whose next number starts this one anew; 0 never


class Numbering:
    """Counts through a document, paragraph by paragraph."""

    def __init__(self, root: Element | None) -> None:
        self._lists: dict[str, tuple[str, dict[int, _Level]]] = {}
        self._counts: dict[str, list[int | None]] = {}
        self.style_levels: dict[str, tuple[str, int]] = {}  # paragraph styles that bring a level with them
        if root is not None:
            self._read(root)

    def _read(self, root: Element) -> None:
        abstract: dict[str, dict[int, _Level]] = {}
        linked: dict[str, str] = {}
        styles: dict[str, dict[str, int]] = {}
        for found in root:
            if local(found) == "abstractNum":
                name = attribute(found, "abstractNumId")
                abstract[name] = {whole(attribute(lvl, "ilvl")): _level(lvl) for lvl in _all(found, "lvl")}
                styles[name] = {
                    attribute(style, "val"): whole(attribute(lvl, "ilvl"))
                    for lvl in _all(found, "lvl")
                    for style in _all(lvl, "pStyle")
                }
                for link in _all(found, "styleLink"):
                    linked[attribute(link, "val")] = name
        # A list may only point to a style whose list holds the levels.
        for found in root:
            if local(found) == "abstractNum":
                for link in _all(found, "numStyleLink"):
                    target = linked.get(attribute(link, "val"), "")
                    abstract[attribute(found, "abstractNumId")] = abstract.get(target, {})
        for found in root:
            if local(found) != "num":
                continue
            number = attribute(found, "numId")
            name = next((attribute(part, "val") for part in _all(found, "abstractNumId")), "")
            levels = dict(abstract.get(name, {}))
            overridden = False
            for override in _all(found, "lvlOverride"):
                place = whole(attribute(override, "ilvl"))
                for level in _all(override, "lvl"):
                    levels[place], overridden = _level(level), True
                for start in _all(override, "startOverride"):
                    old = levels.get(place, _Level())
                    levels[place] = _Level(whole(attribute(start, "val"), 1), old.format, old.text, old.restart)
                    overridden = True
            # Lists of one definition count on, unless they say where to start.
            self._lists[number] = (f"{name}/{number}" if overridden else name, levels)
            for style, level in styles.get(name, {}).items():
                self.style_levels.setdefault(style, (number, level))

    def label(self, number: str, level: int) -> str:
        """What stands in front of the next paragraph of this list and level; nothing where nothing does."""
        if number not in self._lists or not 0 <= level < _LEVELS:
            return ""
        counter, levels = self._lists[number]
        counts = self._counts.setdefault(counter, [None] * _LEVELS)
        own = levels.get(level, _Level())
        before = counts[level]
        counts[level] = own.start if before is None else before + 1
        for deeper in range(level + 1, _LEVELS):
            restart = levels.get(deeper, _Level()).restart
            if restart is None or (restart and level < restart):
                counts[deeper] = None
        for upper in range(level):
            if counts[upper] is None:
                counts[upper] = levels.get(upper, _Level()).start
        if own.format == "none":
            return own.text if "%" not in own.text else ""
        if own.format == "bullet":
            return _BULLET

        def figure(found: re.Match[str]) -> str:
            place = int(found[1]) - 1
            return _formatted(counts[place] or 0, levels.get(place, _Level()).format)

        return _PLACEHOLDER.sub(figure, own.text or f"%{level + 1}.").strip()


def _level(found: Element) -> _Level:
    said = {local(part): attribute(part, "val") for part in found}
    restart = said.get("lvlRestart")
    return _Level(
        whole(said.get("start", "1"), 1),
        said.get("numFmt", "decimal"),
        said.get("lvlText", ""),
        None if restart is None else whole(restart),
    )


def _all(element: Element, name: str) -> list[Element]:
    return [part for part in element if local(part) == name]


def _formatted(count: int, format: str) -> str:
    shown = _FORMATS.get(format)
    return shown(count) if shown is not None and count > 0 else str(count)


def _letters(count: int) -> str:
    # After z comes aa, then bb: the letter is repeated.
    return chr(97 + (count - 1) % 26) * min(1 + (count - 1) // 26, 9)


def _roman(count: int) -> str:
    if count > _MAX_ROMAN:
        return str(count)
    shown = ""
    for value, letters in _ROMAN:
        while count >= value:
            shown, count = shown + letters, count - value
    return shown


def _chinese(count: int, signs: str = _CHINESE, units: str = "十百千") -> str:
    """一, 十二, 一百零三."""
    if count >= 10_000:
        return str(count)
    zero = "零" if signs is _CHINESE else signs[0]
    shown = ""
    figures = str(count)
    for place, figure in enumerate(figures):
        unit = len(figures) - place - 1
        if figure != "0":
            shown += signs[int(figure)] + (units[unit - 1] if unit else "")
        elif shown and not shown.endswith(zero):
            shown += zero
    shown = shown.rstrip(zero)
    return shown[1:] if 10 <= count < 20 and signs is _CHINESE else shown


def _digits(count: int) -> str:
    return "".join(_CHINESE[int(figure)] for figure in str(count))


def _circled(count: int) -> str:
    return chr(0x2460 + count - 1) if count <= 20 else str(count)


def _of(signs: str) -> Callable[[int], str]:
    return lambda count: signs[(count - 1) % len(signs)]


_FORMATS: Final[dict[str, Callable[[int], str]]] = {
    "lowerLetter": _letters,
    "upperLetter": lambda count: _letters(count).upper(),
    "lowerRoman": _roman,
    "upperRoman": lambda count: _roman(count).upper(),
    "decimalZero": lambda count: f"{count:02d}",
    "decimalFullWidth": lambda count: "".join(chr(0xFF10 + int(figure)) for figure in str(count)),
    "decimalEnclosedCircle": _circled,
    "decimalEnclosedCircleChinese": _circled,
    "decimalEnclosedParen": lambda count: f"({count})",
    "decimalEnclosedFullstop": lambda count: f"{count}.",
    "chineseCounting": _chinese,
    "chineseCountingThousand": _chinese,
    "taiwaneseCounting": _chinese,
    "taiwaneseCountingThousand": _chinese,
    "japaneseCounting": _chinese,
    "chineseLegalSimplified": lambda count: _chinese(count, _FORMAL, "拾佰仟"),
    "ideographDigital": _digits,
    "japaneseDigitalTenThousand": _digits,
    "ideographTraditional": _of(_STEMS),
    "ideographZodiac": _of(_BRANCHES),
    "bullet": lambda count: _BULLET,
}
