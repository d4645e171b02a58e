"""Paragraphs and headings -> the text of the document, and spans, boxes, blocks, links and page starts in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.parsers import _outline
from headwater.parsers._pdf_captions import is_of_table
from headwater.parsers._pdf_numbering import Heading
from headwater.parsers._pdf_paragraphs import Paragraph
from headwater.parsers._pdf_read import turned_back
from headwater.parsers._pdf_shapes import Area, Line, Page
from headwater.types import BOX_UNITS, Block, Box, Link, Section, Span

_GAP: Final = "\n\n"
_NUMERIC: Final = re.compile(r"[+\-−–]?[$¥€£]?\d[\d.,%:/\- ]*(?:%|ms|s|kg|km|m|元|万|亿)?")
_YEAR: Final = re.compile(r"(?:19|20)\d\d年?")
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'`\[\]{}|\\^（）。，；！？、《》【】「」“”]+")
_ADDRESS_END: Final = ".,;:!?)'"
# How many paragraphs away a caption's table or text may stand.
_REACH: Final = 3


@dataclass(slots=True)
class Written:
    """The text, and all that points into it."""

    text: str = ""
    structure: tuple[Section, ...] = ()
    blocks: list[Block] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    hidden: list[Span] = field(default_factory=list)
    page_starts: tuple[int, ...] = ()


def write(paragraphs: Sequence[Paragraph], headings: Sequence[Heading], *, pages: Sequence[Page]) -> Written:
    """One text of all paragraphs, blank lines between them. `pages` are all pages of the file, in order."""
    written = Written()
    parts: list[str] = []
    spans: list[Span] = []
    firsts: dict[int, int] = {}
    length = 0
    for paragraph in paragraphs:
        if parts:
            parts.append(_GAP)
            length += len(_GAP)
        spans.append(Span(length, length + len(paragraph.text)))
        parts.append(paragraph.text)
        pieces: Sequence[tuple[int, Area, Line | None]] = (
            [(row.page, row.area, None) for row in paragraph.table.rows]
            if paragraph.table
            else [(line.page, line.area, line) for line in paragraph.lines]
        )
        for (start, end), (page, area, line) in zip(paragraph.places, pieces, strict=True):
            firsts.setdefault(page, length + start)
            written.boxes.append(_box(Span(length + start, length + end), area, pages[page]))
            written.links += _links(pages[page], area, line, Span(length + start, length + end))
        length += len(paragraph.text)
    written.text = "".join(parts)
    written.page_starts = _page_starts(firsts, len(pages), length)
    marks = {heading.place for heading in headings if not heading.chars}
    written.blocks = _blocks(paragraphs, spans, marks)
    written.hidden = [span for paragraph, span in zip(paragraphs, spans, strict=True) if paragraph.kind == "contents"]
    written.structure = _outline.sections(
        [_outline.Heading(heading.level, heading.title, spans[heading.place].start) for heading in headings], length
    )
    written.links = _with_addresses(written.text, written.links)
    return written


def _page_starts(firsts: dict[int, int], pages: int, end: int) -> tuple[int, ...]:
    """Where each page starts; one without text where the next one does."""
    starts = [0] * pages
    following = end
    for page in reversed(range(pages)):
        following = min(following, firsts.get(page, following))
        starts[page] = following
    if starts:
        starts[0] = 0
    return tuple(starts)


def _box(span: Span, area: Area, page: Page) -> Box:
    shown = turned_back(area, page)
    width, height = (page.height, page.width) if page.turn % 2 else (page.width, page.height)
    return Box(
        span.start,
        span.end,
        page.number + 1,
        _share(shown.left, width),
        _share(shown.top, height),
        _share(shown.right, width),
        _share(shown.bottom, height),
    )


def _share(place: float, whole: float) -> int:
    return min(max(round(place / whole * BOX_UNITS), 0), BOX_UNITS)


# -- blocks


def _blocks(paragraphs: Sequence[Paragraph], spans: Sequence[Span], headings: set[int]) -> list[Block]:
    blocks: list[Block] = []
    lines = {id(line): place for place, paragraph in enumerate(paragraphs) for line in paragraph.lines}
    for place, (paragraph, span) in enumerate(zip(paragraphs, spans, strict=True)):
        if paragraph.table is not None:
            rows = tuple(span.start + start for start, _end in paragraph.places)
            blocks.append(Block(kind="table", span=span, header=header_of(paragraph), rows=rows))
        elif paragraph.kind == "code":
            blocks.append(Block(kind="code", span=span))
        elif paragraph.kind == "caption":
            about = _about(place, paragraphs, headings)
            blocks.append(Block(kind="caption", span=span, about=None if about is None else spans[about]))
        elif paragraph.kind == "note":
            about = lines.get(id(paragraph.lines[0].refers))
            blocks.append(Block(kind="note", span=span, about=None if about is None else spans[about]))
    return blocks


def header_of(paragraph: Paragraph) -> str:
    """The column names of a table: its first row, where that reads like names, and the second where it groups those."""
    if paragraph.table is None:
        return ""
    first, *others = (row.cells for row in paragraph.table.rows)
    if paragraph.table.ruled and (names := _grouped(first, others)):
        return " | ".join(names)
    named = [cell for cell in first if cell]
    if any(map(_is_number, named)) or len(named) * 2 < len(first):
        return ""
    # Without rules, names stand above numbers; else they are labels in front of values.
    if not paragraph.table.ruled and not any(
        sum(_is_number(row[place]) for row in others) * 2 > len(others) for place in range(len(first))
    ):
        return ""
    return " | ".join(first)


def _grouped(above: Sequence[str], below: Sequence[Sequence[str]]) -> list[str]:
    """`2025 / Plan` for a column `Plan` under a name that spans several; nothing where the first row groups none.

    What stands in the first row alone is the title of the table.
    """
    if len(below) < 2:
        return []
    second, *others = below
    groups = [cell for cell in above if cell]
    spanned = [place for place, cell in enumerate(above) if not cell and second[place] and any(above[:place])]
    values = [place for place, cell in enumerate(second) if cell and any(_is_number(row[place]) for row in others)]
    if not spanned or not values or any(map(_is_number, (*groups, *second))):
        return []
    names, group = [], ""
    for upper, lower in zip(above, second, strict=True):
        group = upper or group
        joined = f"{group} / {lower}" if group and lower and len(groups) > 1 else lower or upper
        names.append(joined)
    return names if all(names) and len(set(names)) == len(names) else []


def _is_number(cell: str) -> bool:
    return _NUMERIC.fullmatch(cell) is not None and not _YEAR.fullmatch(cell)


def _about(place: int, paragraphs: Sequence[Paragraph], headings: set[int]) -> int | None:
    """The table of a caption, or else the nearest paragraph, rather the one before it."""
    if is_of_table(paragraphs[place].text):
        tables = [
            other
            for other in range(max(0, place - _REACH), min(len(paragraphs), place + _REACH + 1))
            if paragraphs[other].table is not None
        ]
        if tables:
            return min(tables, key=lambda other: (_distance(paragraphs, place, other), other))
    for step in range(1, len(paragraphs)):
        for other in (place - step, place + step):
            if 0 <= other < len(paragraphs) and paragraphs[other].kind == "text" and other not in headings:
                return other
    return None


def _distance(paragraphs: Sequence[Paragraph], place: int, other: int) -> tuple[int, float]:
    """In paragraphs, then in points where both stand in one column."""
    caption, table = paragraphs[place], paragraphs[other].table
    if table is None or (table.page, table.column) != caption.start:
        return abs(place - other), 0.0
    return abs(place - other), min(
        abs(table.area.top - caption.lines[-1].area.bottom), abs(caption.lines[0].area.top - table.area.bottom)
    )


# -- links


def _links(page: Page, area: Area, line: Line | None, span: Span) -> list[Link]:
    """The addresses behind the words of a line."""
    links: list[Link] = []
    for target_area, target in page.links:
        if target_area.bottom < area.top or target_area.top > area.bottom:
            continue
        if line is None or not line.words:
            if area.holds(target_area.centre, target_area.middle):
                links.append(Link(kind="url", target=target, span=span))
            continue
        under = [
            place for place, word in enumerate(line.words) if target_area.holds(word.area.centre, word.area.middle)
        ]
        if under:
            start = span.start + line.starts[under[0]]
            end = min(span.start + line.starts[under[-1]] + len(line.words[under[-1]].text), span.end)
            links.append(Link(kind="url", target=target, span=Span(start, end)))
    return links


def _with_addresses(text: str, links: list[Link]) -> list[Link]:
    """Addresses that are only written out, beside those that can be clicked."""
    taken = sorted(link.span for link in links)
    found = list(links)
    place = 0
    for match in _ADDRESS.finditer(text):
        while place < len(taken) and taken[place].end <= match.start():
            place += 1
        if place == len(taken) or taken[place].start >= match.end():
            target = match.group().rstrip(_ADDRESS_END)
            found.append(Link(kind="url", target=target, span=Span(match.start(), match.start() + len(target))))
    return sorted(found, key=lambda link: (link.span, link.target))
