"""The nouns of a page: words, rules, lines, tables and where they stand: in points, from the top left."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from headwater.parsers._raised import POWER_SIGN

# Ideographs, kana, their punctuation and full-width forms: scripts that put no blanks between words.
CJK_RANGES: Final = (
    "\u2e80-\u303f\u3040-\u30ff\u3105-\u312f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffee\U00020000-\U0003fffd"
)
CJK: Final = re.compile(f"[{CJK_RANGES}]")
# Quarter turns a text may be set at; 0 is upright.
UPRIGHT: Final = 0


class Area(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From top to bottom."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Half way down."""
        return (self.top + self.bottom) / 2

    @property
    def centre(self) -> float:
        """Half way across."""
        return (self.left + self.right) / 2

    def holds(self, across: float, down: float) -> bool:
        """Whether a point is inside."""
        return self.left <= across <= self.right and self.top <= down <= self.bottom


def hull(areas: Sequence[Area]) -> Area:
    """The smallest rectangle around all of them."""
    if len(areas) == 1:
        return areas[0]
    return Area(
        min(area.left for area in areas),
        min(area.top for area in areas),
        max(area.right for area in areas),
        max(area.bottom for area in areas),
    )


@dataclass(slots=True)
class Word:
    """What stands between two blanks. `blank` is whether the file itself has one in front of it."""

    text: str
    area: Area
    size: float
    baseline: float
    blank: bool = True
    hyphen: bool = False  # the line was broken inside a word here
    bold: bool = False
    mono: bool = False


@dataclass(slots=True)
class Line:
    """Words on one baseline, in reading order."""

    words: list[Word]
    page: int  # from 0
    area: Area
    size: float
    column: int = 0  # lines of one column, one below the other, have the same number
    bold: bool = False
    mono: bool = False
    text: str = ""
    starts: list[int] = field(default_factory=list)  # where each word starts in `text`
    baseline: float = 0.0  # of its first word
    hyphen: bool = False  # its last word goes on in the next line
    recognised: bool = False  # seen in a picture: its size is a guess
    note: int = 0  # which footnote of its page it is part of, from 1
    refers: Line | None = None  # of the first line of a footnote: the line with its mark


@dataclass(slots=True)
class Row:
    """A row of a table: what its cells say, and where it stands."""

    cells: list[str]
    page: int
    area: Area


@dataclass(slots=True)
class Table:
    """Rows of the same cells. `lefts` is where its columns start."""

    rows: list[Row]
    page: int
    area: Area
    size: float
    lefts: list[float]
    column: int = 0
    ruled: bool = True  # else only gaps tell that it is one
    closed: bool = True  # it ends where a rule says so; else it may go on in the next column


@dataclass(slots=True)
class Page:
    """One page as it was read."""

    number: int  # from 0
    width: float
    height: float
    turn: int = UPRIGHT  # quarter turns between the page as it is shown and as it is read
    lines: list[Line] = field(default_factory=list)  # pieces of lines, in the order of the file
    asides: list[Line] = field(default_factory=list)  # text set at another angle than most of the page
    rules: list[Area] = field(default_factory=list)  # straight lines that were drawn, horizontal or vertical
    blank: bool = False  # nothing is on it, no picture either
    recognised: bool = False  # by OCR: the lines are whole and in reading order
    links: list[tuple[Area, str]] = field(default_factory=list)


def make_line(words: list[Word], page: int) -> Line:
    """A line of these words, in the order they are read; its text has the blanks that a reader sees."""
    sizes: Counter[float] = Counter()
    bold = mono = chars = 0
    pieces: list[str] = []
    starts: list[int] = []
    length = 0
    spread = _is_spread(words)
    for place, word in enumerate(words):
        if place and (between := _between(words[place - 1], word, spread=spread)):
            pieces.append(between)
            length += 1
        starts.append(length)
        pieces.append(word.text)
        length += len(word.text)
        sizes[word.size] += len(word.text)
        chars += len(word.text)
        bold += len(word.text) * word.bold
        mono += len(word.text) * word.mono
    return Line(
        words=words,
        page=page,
        area=hull([word.area for word in words]),
        size=max(sizes, key=lambda size: (sizes[size], size)),
        bold=bold * 10 > chars * 8,  # a full stop in another font does not make a bold line plain
        mono=mono * 10 > chars * 9,
        text="".join(pieces),
        starts=starts,
        baseline=words[0].baseline,
        hyphen=words[-1].hyphen,
    )


def rows_of(lines: Sequence[Line]) -> list[list[Line]]:
    """Pieces of lines that stand beside each other, from the top down and from left to right."""
    rows: list[list[Line]] = []
    top = bottom = 0.0
    for line in sorted(lines, key=lambda line: (line.area.middle, line.area.left)):
        middle = line.area.middle
        if rows and top < middle < bottom:
            rows[-1].append(line)
            # The tallest sets the row: a superscript beside it does not widen it.
            if line.area.height > bottom - top:
                top, bottom = line.area.top, line.area.bottom
        else:
            rows.append([line])
            top, bottom = line.area.top, line.area.bottom
    for row in rows:
        row.sort(key=lambda line: line.area.left)
    return rows


# A letter of a script that is written from right to left, and one of any other or a digit.
_LEFTWARDS: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_RIGHTWARDS: Final = re.compile("[A-Za-z0-9\u00c0-\u058f\u0900-\u1fff]")
# A raised mark is smaller than this share of the words beside it, and stands by that share of their size higher.
_SMALLER: Final = 0.85
_HIGHER: Final = 0.15
# What a raised figure opens with.
_FIGURE: Final = re.compile(r"[-+−–]?\d")
# Words further apart than so many font sizes are cells.
_CELL_GAP: Final = 2.0


def in_reading_order(words: list[Word]) -> list[Word]:
    """The words of a row, which stand from left to right, as they are read: in Arabic or Hebrew from right to left.

    Numbers and words of other scripts inside keep their own order. Cells of a table stay where they are.
    """
    leftwards = sum(len(_LEFTWARDS.findall(word.text)) for word in words)
    if leftwards * 2 <= sum(len(_RIGHTWARDS.findall(word.text)) for word in words) + leftwards:
        return words
    if any(after.area.left - before.area.right > _CELL_GAP * after.size for before, after in pairwise(words)):
        return words
    ordered: list[Word] = []
    for is_rightwards, group in groupby(reversed(words), key=lambda word: _RIGHTWARDS.search(word.text) is not None):
        run = list(group)
        ordered += reversed(run) if is_rightwards else run
    return ordered


# Gaps in shares of the font size. Less than the first is kerning, even where the file says blank between ideographs;
# a gap wider than the second between ideographs was put there to be seen.
_TOUCHING: Final = 0.12
_SEEN_GAP: Final = 0.9
# So many words before a line is said to be spread.
_FEWEST_SPREAD: Final = 4


def _between(before: Word, word: Word, *, spread: bool) -> str:
    """What a reader sees between two words: a blank, the sign of a power, or nothing."""
    if _is_apart(before, word, spread=spread):
        return " "
    # Behind letters no figure changes.
    touches_figure = before.text[-1:].isdecimal() and _FIGURE.match(word.text) is not None
    raised = touches_figure and is_raised(word.size, word.baseline, before.size, before.baseline)
    return POWER_SIGN if raised else ""


def is_raised(
    size: float, baseline: float, size_beside: float, baseline_beside: float, *, higher: float = _HIGHER
) -> bool:
    """Whether something is set smaller and higher than what stands beside it. Baselines are from the top."""
    return size < _SMALLER * size_beside and baseline < baseline_beside - higher * size_beside


def _is_apart(before: Word, word: Word, *, spread: bool) -> bool:
    """Whether a blank belongs between two words. Stretched lines put gaps between ideographs that mean nothing."""
    # From right to left the word before stands to the right.
    apart = max(word.area.left - before.area.right, before.area.left - word.area.right)
    gap = apart / max(word.size, before.size, 1.0)
    if before.text and CJK.match(before.text[-1]) and CJK.match(word.text[0]):
        return not spread and (gap > _SEEN_GAP or word.blank)
    return word.blank or gap > _TOUCHING


def _is_spread(words: Sequence[Word]) -> bool:
    """Whether single ideographs stand apart all along the line: then the blanks are layout."""
    if len(words) < _FEWEST_SPREAD:
        return False
    single = sum(len(word.text) == 1 and CJK.match(word.text) is not None for word in words)
    return single * 2 > len(words)
