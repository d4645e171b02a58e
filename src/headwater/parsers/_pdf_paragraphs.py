"""Lines and tables in reading order -> paragraphs, with the text of each and where its lines stand in it.

A paragraph ends where the distance to the next line grows, the font changes, a line is indented or stops short. It goes
on in the next column or page where its last line is full and ends no sentence; what floats in between is moved aside.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

from headwater.parsers._pdf_captions import is_caption, opens_caption
from headwater.parsers._pdf_join import glue_between
from headwater.parsers._pdf_shapes import CJK, Line, Table
from headwater.parsers._pdf_tables import continued, resumed

# Distances between baselines, as shares of the usual one: more ends a paragraph.
_PARAGRAPH_GAP: Final = 1.25
# The usual distance is the smallest that this share of all lines have; without any, so many font sizes.
_USUAL: Final = 0.15
_DEFAULT_LEADING: Final = 1.35
# Font sizes by which a line is indented, and the share of its column that a short line leaves free.
_INDENT: Final = 0.9
_SHORT: Final = 0.25
# The share of the next line's width that is free beside the end of a paragraph, whatever it ends with.
_ROOM: Final = 0.4
# Font sizes that a line may leave free and still be full: none but rounding, or a mark that hangs over the edge; and
# the share of such lines where the text is set to the edge.
_FULL: Final = 0.1
_FULL_CJK: Final = 1.2
_JUSTIFIED: Final = 0.5
# Another size is one that a reader sees.
_SIZE_STEP: Final = 0.06
# In fonts of one width a character takes this share of the size.
_MONO_WIDTH: Final = 0.6
# How far back the end of a paragraph is looked at for joining the next line to it.
_TAIL: Final = 400
# So many tables and captions may float between two parts of a paragraph, and any number of notes.
_MAX_FLOATING: Final = 4
# So many lines with leaders make a table of contents.
_CONTENTS_LINES: Final = 3

_ITEM: Final = re.compile(
    r"(?:[•●○◦▪■□◆◇▶►‣⁃∙·–—*-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,4})[.)]|（?[一二三四五六七八九十\d]{1,3}[）、]|[①-⑳]|\[\d{1,3}\])\s*\S"
)
_SENTENCE_END: Final = re.compile("[.。!！?？:：;；…]['\"”’」』）)\\]】]*$")
_LEADER: Final = re.compile(r"(?:[.．·…]\s?){4,}\s*(?:\d{1,5}|[ivxlcdm]{1,8})$|(?:[.．·…]\s?){6,}$", re.IGNORECASE)
_ENDS_WITH_NUMBER: Final = re.compile(r"\s(?:\d{1,5}|[ivxlcdm]{1,8})$", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")

_Extents = dict[tuple[int, int], tuple[float, float]]  # left and right edge, by page and column
ParagraphKind = Literal["text", "table", "caption", "code", "contents", "note"]


@dataclass(slots=True)
class Paragraph:
    """Lines that are read as one, or a table."""

    kind: ParagraphKind
    lines: list[Line] = field(default_factory=list)
    table: Table | None = None
    text: str = ""
    places: list[tuple[int, int]] = field(default_factory=list)  # where its lines, or rows, stand in `text`
    heading: int = 0  # its level, where it is one

    @property
    def page(self) -> int:
        """Where it starts."""
        return self.table.page if self.table else self.lines[0].page

    @property
    def end(self) -> tuple[int, int]:
        """The page and column where it ends."""
        last = self.table or self.lines[-1]
        return (self.table.rows[-1].page if self.table else last.page), last.column

    @property
    def start(self) -> tuple[int, int]:
        """The page and column where it starts."""
        first = self.table or self.lines[0]
        return first.page, first.column


def paragraphs_of(items: Sequence[Line | Table]) -> list[Paragraph]:
    """The paragraphs of a document, with their text."""
    leading = _leadings(items)
    extents = _extents(items)
    found = list(_grouped(items, leading, extents))
    found = _rejoined(list(_with_contents(found)), extents)
    broken = any(_ends_in_hyphen(line) for paragraph in found for line in paragraph.lines)
    known = frozenset(_vocabulary(found)) if broken else frozenset()
    for paragraph in found:
        _write(paragraph, known)
    return found


def _leadings(items: Sequence[Line | Table]) -> dict[float, float]:
    """For each font size the usual distance between baselines."""
    steps: dict[float, Counter[float]] = {}
    for before, item in pairwise(items):
        if isinstance(before, Line) and isinstance(item, Line) and before.size == item.size:
            step = item.baseline - before.baseline
            if (before.page, before.column) == (item.page, item.column) and 0.8 < step / item.size < 2.2:
                steps.setdefault(item.size, Counter())[round(step * 2) / 2] += 1
    return {
        size: min(step for step, count in seen.items() if count >= _USUAL * seen.total() or count == max(seen.values()))
        for size, seen in steps.items()
    }


def _extents(items: Sequence[Line | Table]) -> _Extents:
    """Left and right edge of each column of each page."""
    extents: _Extents = {}
    for item in items:
        left, right = extents.get((item.page, item.column), (item.area.left, item.area.right))
        extents[item.page, item.column] = (min(left, item.area.left), max(right, item.area.right))
    return extents


def _grouped(
    items: Sequence[Line | Table],
    leading: dict[float, float],
    extents: _Extents,
) -> Iterator[Paragraph]:
    """Paragraphs inside columns; tables with the rows that stand at the head of the next column."""
    lines: list[Line] = []
    table: Table | None = None
    for item in items:
        if isinstance(item, Table):
            if lines:
                yield _paragraph(lines)
                lines = []
            if table is not None and (item.page, item.column) != (table.page, table.column) and resumed(table, item):
                _extend(table, item)
                continue
            table = item
            yield Paragraph(kind="table", table=item)
            continue
        moved = table is not None and (item.page, item.column) != (table.rows[-1].page, table.column)
        if table is not None and not lines and moved and (row := continued(table, item)):
            table.rows.append(row)
            continue
        table = None
        if lines and _breaks(lines, item, leading, extents):
            yield _paragraph(lines)
            lines = []
        lines.append(item)
    if lines:
        yield _paragraph(lines)


def _extend(table: Table, rest: Table) -> None:
    """Add the rest of a table; a header that is printed again is left out."""
    repeated = rest.rows[0].cells == table.rows[0].cells
    table.rows += rest.rows[repeated:]
    table.closed = rest.closed
    table.column = rest.column


def _paragraph(lines: list[Line]) -> Paragraph:
    if lines[0].note:
        return Paragraph(kind="note", lines=lines)
    if all(line.mono for line in lines):
        return Paragraph(kind="code", lines=lines)
    return Paragraph(kind="caption" if is_caption(lines) else "text", lines=lines)


def _place(line: Line) -> tuple[int, int, int]:
    return line.page, line.column, line.note


def _same_style(before: Line, line: Line) -> bool:
    same_size = abs(before.size - line.size) <= max(0.5, _SIZE_STEP * line.size)
    return same_size and before.mono == line.mono and before.bold == line.bold


def _breaks(
    lines: list[Line],
    line: Line,
    leading: dict[float, float],
    extents: _Extents,
) -> bool:
    """Whether a line starts a new paragraph after these."""
    before = lines[-1]
    if before.note and (before.page, before.note) == (line.page, line.note):
        return False
    if _place(before) != _place(line) or not _same_style(before, line):
        return True
    step = line.baseline - before.baseline
    usual = leading.get(line.size, _DEFAULT_LEADING * line.size)
    if step > max(usual, line.size) * _PARAGRAPH_GAP or step < -line.size:
        return True
    if line.mono or before.hyphen:
        return False
    if _LEADER.search(before.text) or _ITEM.match(line.text) or opens_caption(line.text):
        return True
    return _is_indented(lines, line, extents) or _stops_short(before, extents) or _leaves_room(lines, line)


def _is_indented(lines: list[Line], line: Line, extents: _Extents) -> bool:
    """Whether its left edge says that a paragraph starts."""
    before, indent = lines[-1], _INDENT * line.size
    shift = line.area.left - before.area.left
    if len(lines) > 1:
        # A line further in starts a paragraph; one further out follows an item that hangs.
        settled = abs(lines[-2].area.left - before.area.left) < indent or _ITEM.match(lines[0].text)
        return shift > indent or (shift < -indent and bool(settled) and not _is_centred(lines, line))
    if shift > indent and not _ITEM.match(before.text):
        return _is_short(before, extents) and not _is_centred(lines, line)
    return False


def _is_centred(lines: list[Line], line: Line) -> bool:
    return all(abs(other.area.centre - line.area.centre) < line.size for other in lines)


def _is_short(line: Line, extents: _Extents) -> bool:
    left, right = extents[line.page, line.column]
    return line.area.right < right - _SHORT * (right - left)


def _stops_short(line: Line, extents: _Extents) -> bool:
    return _SENTENCE_END.search(line.text) is not None and _is_short(line, extents)


def _leaves_room(lines: list[Line], line: Line) -> bool:
    """Whether the next line is so much longer that its first words would have fitted: nobody breaks a line there."""
    before = lines[-1]
    left = min(before.area.left, line.area.left)
    room = line.area.right - before.area.right
    return room > _ROOM * (line.area.right - left) and not _is_centred(lines, line)


def _with_contents(paragraphs: list[Paragraph]) -> Iterator[Paragraph]:
    """Entries of a table of contents put together, one line each."""
    entries = [_is_entry(paragraph) for paragraph in paragraphs]
    marked = list(entries)
    # A chapter's entry has no dots in most books: it stands beside others and ends with the number of a page.
    for places in (range(1, len(marked)), range(len(marked) - 2, -1, -1)):
        step = -places.step
        for place in places:
            marked[place] = marked[place] or (marked[place + step] and _may_be_entry(paragraphs[place]))
    place = 0
    while place < len(paragraphs):
        end = place
        while end < len(paragraphs) and marked[end]:
            end += 1
        if sum(entries[place:end]) >= _CONTENTS_LINES:
            lines = [line for paragraph in paragraphs[place:end] for line in paragraph.lines]
            yield Paragraph(kind="contents", lines=lines)
        else:
            end = max(end, place + 1)
            yield from paragraphs[place:end]
        place = end


def _may_be_entry(paragraph: Paragraph) -> bool:
    lines = paragraph.lines
    return paragraph.kind in ("text", "caption") and len(lines) == 1 and bool(_ENDS_WITH_NUMBER.search(lines[0].text))


def _is_entry(paragraph: Paragraph) -> bool:
    return bool(paragraph.lines) and _LEADER.search(paragraph.lines[-1].text) is not None


def _is_full(line: Line, extents: _Extents) -> bool:
    free = _FULL_CJK if CJK.match(line.text[-1]) else _FULL
    return line.area.right >= extents[line.page, line.column][1] - free * line.size


def _justified(paragraphs: Sequence[Paragraph], extents: _Extents) -> set[tuple[int, int]]:
    """The columns whose lines mostly end at the edge."""
    lines: Counter[tuple[int, int]] = Counter()
    full: Counter[tuple[int, int]] = Counter()
    for paragraph in paragraphs:
        for line in paragraph.lines:
            lines[line.page, line.column] += 1
            full[line.page, line.column] += _is_full(line, extents)
    return {place for place, count in full.items() if count >= _JUSTIFIED * lines[place]}


def _rejoined(paragraphs: list[Paragraph], extents: _Extents) -> list[Paragraph]:
    """Paragraphs that a column or page breaks are whole again; what stood in between comes before or after them."""
    whole: list[Paragraph] = []
    justified = _justified(paragraphs, extents)
    for paragraph in paragraphs:
        place = len(whole) - 1
        floating = 0
        while place >= 0 and whole[place].kind in ("caption", "table", "note") and floating < _MAX_FLOATING:
            floating += whole[place].kind != "note"
            place -= 1
        if place >= 0 and _goes_on(whole[place], paragraph, extents, justified):
            floats = whole[place + 1 :]
            first = whole[place].page
            if not floats or all(one.page == paragraph.page for one in floats):
                whole[place].lines += paragraph.lines
                continue
            if all(one.page == first for one in floats):
                whole[place:] = [*floats, whole[place]]
                whole[-1].lines += paragraph.lines
                continue
        whole.append(paragraph)
    return whole


def _goes_on(before: Paragraph, after: Paragraph, extents: _Extents, justified: set[tuple[int, int]]) -> bool:
    """Whether a paragraph at the head of a column is the rest of one at the foot of another."""
    # Columns below 0 are what stands beside the text.
    apart = before.end != after.start and before.end[1] >= 0 and after.start[1] >= 0
    if before.kind != "text" or after.kind != "text" or not apart:
        return False
    last, first = before.lines[-1], after.lines[0]
    if not _same_style(last, first):
        return False
    if last.hyphen:
        return True
    left, _right = extents[first.page, first.column]
    if _ITEM.match(first.text) or first.area.left > left + _INDENT * first.size:
        return False
    if _SENTENCE_END.search(last.text):
        # Where lines are set to the edge, the last one of a paragraph seldom ends there.
        return (last.page, last.column) in justified and _is_full(last, extents)
    small = first.text[0].islower() or CJK.match(first.text[0]) is not None
    return not _is_short(last, extents) and (small or len(before.lines) > 1)


def _ends_in_hyphen(line: Line) -> bool:
    return line.hyphen or line.text.endswith(("-", "\u2010"))


def _vocabulary(paragraphs: Sequence[Paragraph]) -> Iterator[str]:
    """The words of the document, for telling which hyphens are its own."""
    for paragraph in paragraphs:
        for line in paragraph.lines:
            words = _WORD.findall(line.text)
            yield from (word.lower() for word in (words[:-1] if _ends_in_hyphen(line) else words))


def _write(paragraph: Paragraph, known: frozenset[str]) -> None:
    """Fill in the text of a paragraph and the places of its lines."""
    if paragraph.table is not None:
        lines = ["| " + " | ".join(map(_cell, row.cells)) + " |" for row in paragraph.table.rows]
        _write_lines(paragraph, lines)
    elif paragraph.kind == "code":
        left = min(line.area.left for line in paragraph.lines)
        width = _MONO_WIDTH * paragraph.lines[0].size
        _write_lines(paragraph, [" " * round((line.area.left - left) / width) + line.text for line in paragraph.lines])
    elif paragraph.kind == "contents":
        _write_lines(paragraph, [line.text for line in paragraph.lines])
    else:
        text = ""
        for place, line in enumerate(paragraph.lines):
            hyphen = bool(place) and paragraph.lines[place - 1].hyphen
            glue, cut = glue_between(text[-_TAIL:], line.text, hyphen=hyphen, known=known)
            if cut:
                text = text[:-cut]
                start, end = paragraph.places[-1]
                paragraph.places[-1] = (start, end - cut)
            text += glue
            paragraph.places.append((len(text), len(text) + len(line.text)))
            text += line.text
        paragraph.text = text


def _cell(text: str) -> str:
    return text.replace("|", "¦")


def _write_lines(paragraph: Paragraph, lines: Sequence[str]) -> None:
    start = 0
    for line in lines:
        indent = len(line) - len(line.lstrip(" "))
        paragraph.places.append((start + indent, start + len(line)))
        start += len(line) + 1
    paragraph.text = "\n".join(lines)
