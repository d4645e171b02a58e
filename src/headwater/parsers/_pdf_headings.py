"""Paragraphs -> which of them are headings, and of what level: by the outline where there is one, else by the fonts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from headwater.parsers._pdf_numbering import CHAPTER, DEEPEST, Heading, depth_of, squeezed, style_of
from headwater.parsers._pdf_outline import Entry, by_outline
from headwater.parsers._pdf_paragraphs import Paragraph
from headwater.parsers._pdf_titles import is_beside_title, named_headings, title_of

# A heading is no longer than this, in characters and lines.
_MAX_CHARS: Final = 160
_MAX_LINES: Final = 3
# Sizes as shares of the body's: plainly larger; larger, where numbers or bold print say heading too; not smaller.
_LARGE: Final = 1.12
_LARGER: Final = 1.04
_AS_LARGE: Final = 0.96
_SENTENCE: Final = re.compile("[。，；,;]$|(?<![A-Z\\d])[.]$")
_WORDS: Final = re.compile(r"[^\W\d_]")
_LIST_MARK: Final = re.compile(r"[•●○◦▪■□◆◇▶►‣⁃∙·–—*-]\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headings:
    """What was found."""

    headings: tuple[Heading, ...] = ()
    title: str = ""


def find_headings(paragraphs: Sequence[Paragraph], outline: Sequence[Entry], *, title_hint: str = "") -> Headings:
    """The headings in order. `title_hint` is the title that the file gives itself."""
    places = [place for place, paragraph in enumerate(paragraphs) if not _says_nothing_by_size(paragraph)]
    if len(places) < len(paragraphs) and any(paragraphs[place].lines for place in places):
        printed = [paragraphs[place] for place in places]
        return _placed_back(find_headings(printed, outline, title_hint=title_hint), places)
    body, bold = _body(paragraphs)
    numbered = by_outline(paragraphs, outline)
    styled = [] if numbered else _by_fonts(paragraphs, body, body_bold=bold)
    found = {heading.place: heading for heading in numbered or styled}
    title = title_of(paragraphs, found, body=body, hint=title_hint, by_outline=bool(numbered))
    for heading in named_headings(paragraphs, found, body=body, by_outline=bool(numbered)):
        found[heading.place] = heading
    if title is not None:
        found[title.place] = title
        if not numbered:
            # What stands on the title page in its own styles is names and dates.
            found = {
                place: heading
                for place, heading in found.items()
                if not is_beside_title(heading, title, found=found, paragraphs=paragraphs)
            }
    ordered = tuple(found[place] for place in sorted(found))
    return Headings(headings=ordered, title=title.title if title else "")


def _says_nothing_by_size(paragraph: Paragraph) -> bool:
    """Whether beside print its size means nothing: in pictures a logo is large, and across a page a watermark is."""
    return bool(paragraph.lines) and (paragraph.lines[0].recognised or paragraph.lines[0].column < 0)


def _placed_back(found: Headings, places: Sequence[int]) -> Headings:
    """Headings found among these paragraphs only, by their places among all."""
    headings = tuple(replace(heading, place=places[heading.place]) for heading in found.headings)
    return replace(found, headings=headings)


def _body(paragraphs: Sequence[Paragraph]) -> tuple[float, bool]:
    """The size most of the text is set in, and whether that text is bold."""
    sizes: Counter[float] = Counter()
    bold: Counter[float] = Counter()
    for paragraph in paragraphs:
        if paragraph.kind in ("text", "caption"):
            for line in paragraph.lines:
                sizes[line.size] += len(line.text)
                bold[line.size] += len(line.text) * line.bold
    if not sizes:
        return 0.0, False
    size = max(sizes, key=lambda size: (sizes[size], -size))
    return size, bold[size] * 2 > sizes[size]


def _may_be_heading(paragraph: Paragraph) -> bool:
    text = paragraph.text
    return (
        paragraph.kind == "text"
        and len(paragraph.lines) <= _MAX_LINES
        and len(text) <= _MAX_CHARS
        and _WORDS.search(text) is not None
        and len(squeezed(text)) > 1  # the letters of an index
        and not _SENTENCE.search(text)
        and not _LIST_MARK.match(text)
    )


def _by_fonts(paragraphs: Sequence[Paragraph], body: float, *, body_bold: bool) -> list[Heading]:
    candidates: list[tuple[int, int]] = []  # place, depth
    for place, paragraph in enumerate(paragraphs):
        if not _may_be_heading(paragraph):
            continue
        size, bold = style_of(paragraph)
        depth = depth_of(paragraph.text)
        stands_out = bold and not body_bold
        if (
            size >= _LARGE * body
            or (size >= _LARGER * body and (depth or stands_out))
            or (size >= _AS_LARGE * body and stands_out and _is_followed(paragraphs, place))
            or (size >= _AS_LARGE * body and _is_chapter(paragraph) and (depth > 2 or _is_followed(paragraphs, place)))
        ):
            candidates.append((place, depth))
    candidates = _without_crowds(candidates, paragraphs)
    # "Chapter 1" in a line of its own and the title in the next are one heading.
    titles = {
        place + 1
        for (place, _depth), (after, depth) in pairwise(candidates)
        if after == place + 1 and not depth and CHAPTER.fullmatch(paragraphs[place].text.strip())
    }
    candidates = [(place, depth) for place, depth in candidates if place not in titles]
    levels = _levels(candidates, paragraphs)
    headings: list[Heading] = []
    above: list[tuple[int, int]] = []  # the open sections: level by style, level given
    for place, depth in candidates:
        level = levels[style_of(paragraphs[place]), depth]
        while above and above[-1][0] >= level:
            above.pop()
        # Without a number it lies one below what it stands under, however many styles are in between.
        given = level if depth else above[-1][1] + 1 if above else 1
        above.append((level, given))
        title = " ".join(paragraphs[one].text.strip() for one in (place, place + 1)[: 1 + (place + 1 in titles)])
        headings.append(Heading(place=place, level=min(given, DEEPEST), title=title))
    return headings


def _is_chapter(paragraph: Paragraph) -> bool:
    """Numbers that no list has, for headings in the font of the text."""
    text, lines = paragraph.text, paragraph.lines
    return (
        len(lines) == 1 and (CHAPTER.match(text) is not None or depth_of(text) >= 2) and not text.endswith((":", "："))
    )


def _is_followed(paragraphs: Sequence[Paragraph], place: int) -> bool:
    """Whether something stands under it: another paragraph that is longer, or a heading deeper than it."""
    after = paragraphs[place + 1] if place + 1 < len(paragraphs) else None
    return after is not None and not (
        after.kind == "text"
        and style_of(after) == style_of(paragraphs[place])
        and len(after.lines) == 1
        and not depth_of(after.text)
    )


def _without_crowds(candidates: list[tuple[int, int]], paragraphs: Sequence[Paragraph]) -> list[tuple[int, int]]:
    """Styles that are more text than heading are no headings: large print, labels of a drawing."""
    chars: Counter[tuple[float, bool]] = Counter()
    for paragraph in paragraphs:
        if paragraph.kind == "text":
            chars[style_of(paragraph)] += len(paragraph.text)
    said: Counter[tuple[float, bool]] = Counter()
    for place, _depth in candidates:
        said[style_of(paragraphs[place])] += len(paragraphs[place].text)
    return [
        (place, depth)
        for place, depth in candidates
        if said[style_of(paragraphs[place])] * 2 > chars[style_of(paragraphs[place])] or depth
    ]


def _levels(
    candidates: Sequence[tuple[int, int]], paragraphs: Sequence[Paragraph]
) -> dict[tuple[tuple[float, bool], int], int]:
    """For each style and depth of numbers the level: numbers say it, and styles without follow their size."""
    depths: dict[tuple[float, bool], Counter[int]] = {}
    for place, depth in candidates:
        depths.setdefault(style_of(paragraphs[place]), Counter())[depth] += 1
    levels: dict[tuple[tuple[float, bool], int], int] = {}
    level = 0
    chapters = any(CHAPTER.match(paragraphs[place].text) for place, _depth in candidates)
    for style in sorted(depths, key=lambda style: (-style[0], not style[1])):
        said = depths[style]
        numbered = [depth for depth in said if depth]
        # "一、" below "第一章", "1." below "Chapter 1": another kind of number, one level down.
        shift = int(
            chapters and bool(level) and min(numbered, default=0) == 1 and _is_inner(style, candidates, paragraphs)
        )
        own = min(numbered) + shift if numbered else level + 1
        for depth in said:
            levels[style, depth] = min(depth + shift if depth else own, DEEPEST)
        level = max(level, *(levels[style, depth] for depth in said)) if numbered else own
    return levels


def _is_inner(
    style: tuple[float, bool], candidates: Sequence[tuple[int, int]], paragraphs: Sequence[Paragraph]
) -> bool:
    return not any(
        CHAPTER.match(paragraphs[place].text) for place, _depth in candidates if style_of(paragraphs[place]) == style
    )
