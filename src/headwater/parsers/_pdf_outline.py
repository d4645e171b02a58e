"""The outline of a file -> which paragraphs are its headings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headwater.parsers._pdf_numbering import CHAPTER, DEEPEST, Heading, squeezed
from headwater.parsers._pdf_paragraphs import Paragraph

# An outline counts where so many of its entries, two at least, are found on their pages.
_MATCHED: Final = 0.5
_FEWEST: Final = 2
_LEADING_NUMBER: Final = re.compile(r"^(?:chapter|appendix|section|part|第)?[\da-z]{0,4}?[章节]?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the outline: its level from 1, the page it leads to from 0, how far down in points."""

    title: str
    level: int
    page: int
    top: float | None = None


def by_outline(paragraphs: Sequence[Paragraph], outline: Sequence[Entry]) -> list[Heading]:
    """A heading for each entry that is found in the text; none where most are not: then it is about something else."""
    pages: dict[int, list[int]] = {}
    for place, paragraph in enumerate(paragraphs):
        if paragraph.kind in ("text", "caption", "code"):
            pages.setdefault(paragraph.page, []).append(place)
    found: list[Heading] = []
    lost: list[Entry] = []
    taken: set[int] = set()
    for entry in outline:
        # Some programs aim at the foot of the page before.
        candidates = [*pages.get(entry.page, ()), *pages.get(entry.page + 1, ())]
        match = _matching(entry, candidates, paragraphs, taken)
        if match is None:
            lost.append(entry)
            continue
        taken.add(match)
        found.append(Heading(place=match, level=min(entry.level, DEEPEST), title=paragraphs[match].text.strip()))
    if len(found) < _FEWEST or len(found) < _MATCHED * len(outline):
        return []
    for entry in lost:
        match = _below(entry, pages.get(entry.page, ()), paragraphs, taken)
        if match is not None:
            taken.add(match)
            found.append(Heading(place=match, level=min(entry.level, DEEPEST), title=entry.title, chars=-1))
    return [_with_number(heading, paragraphs, taken) for heading in found]


def _matching(entry: Entry, candidates: Sequence[int], paragraphs: Sequence[Paragraph], taken: set[int]) -> int | None:
    """The paragraph that says what the entry says, perhaps with a number in front; the one nearest its height."""
    wanted = squeezed(entry.title)
    if not wanted:
        return None
    fitting = []
    for place in candidates:
        paragraph = paragraphs[place]
        if place in taken or len(paragraph.text) > len(entry.title) * 2 + 40:
            continue
        said = squeezed(paragraph.text)
        exact = said == wanted
        if (
            exact
            or (said.endswith(wanted) and _LEADING_NUMBER.match(said[: -len(wanted)]))
            or (wanted.endswith(said) and len(said) * 3 > len(wanted) * 2)
        ):
            apart = abs(paragraph.lines[0].area.top - entry.top) if entry.top is not None else 0.0
            fitting.append((paragraph.page != entry.page, apart, place))
    return min(fitting)[2] if fitting else None


def _below(entry: Entry, places: Sequence[int], paragraphs: Sequence[Paragraph], taken: set[int]) -> int | None:
    """The first paragraph at the height an entry leads to."""
    for place in places:
        if place not in taken and (entry.top is None or paragraphs[place].lines[0].area.bottom > entry.top):
            return place
    return None


def _with_number(heading: Heading, paragraphs: Sequence[Paragraph], taken: set[int]) -> Heading:
    """A line of its own such as "Chapter 1" above a heading is part of it."""
    above = heading.place - 1
    if above < 0 or above in taken or heading.chars:
        return heading
    paragraph = paragraphs[above]
    if (
        paragraph.kind == "text"
        and paragraph.page == paragraphs[heading.place].page
        and CHAPTER.fullmatch(paragraph.text.strip())
    ):
        title = f"{paragraph.text.strip()} {heading.title}"
        return Heading(place=above, level=heading.level, title=title)
    return heading
