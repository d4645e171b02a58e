"""What has a name in most papers: the title, the abstract, the references."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from headwater.parsers._pdf_numbering import CONTENTS, NAMED, Heading, depth_of, squeezed, style_of
from headwater.parsers._pdf_paragraphs import Paragraph

# The title is this much larger than the body and stands on one of the first pages with text.
_TITLE: Final = 1.2
_TITLE_PAGES: Final = 2
# An abstract stands on one of these.
_ABSTRACT_PAGES: Final = 4
# A title page says no more than this.
_TITLE_PAGE_CHARS: Final = 500
# It may be longer than another heading.
_MAX_CHARS: Final = 320
_MAX_LINES: Final = 4
# Names are not smaller than the text.
_AS_LARGE: Final = 0.96
_LETTERS: Final = re.compile(r"[^\W\d_]")
# An abstract often starts in the line of its heading.
_RUN_IN: Final = re.compile(
    r"(abstract|summary|摘\s*要)\s*[:：.—–-]+\s*(?=\S)|【(摘\s*要)】|\[(摘\s*要|abstract)\]", re.IGNORECASE
)


def title_of(
    paragraphs: Sequence[Paragraph], found: Mapping[int, Heading], *, body: float, hint: str, by_outline: bool
) -> Heading | None:
    """The largest print at the start, where no heading looks the same."""
    texts = [place for place, paragraph in enumerate(paragraphs) if paragraph.kind == "text"]
    pages = sorted({paragraphs[place].page for place in texts})[:_TITLE_PAGES]
    first = [place for place in texts if paragraphs[place].page in pages]
    named = squeezed(hint)
    for place in first:
        if named and squeezed(paragraphs[place].text) == named:
            return Heading(place=place, level=1, title=paragraphs[place].text.strip())
    candidates = [
        place for place in first if _may_be_title(paragraphs[place]) and style_of(paragraphs[place])[0] >= _TITLE * body
    ]
    if not candidates:
        return None
    best = max(candidates, key=lambda place: (style_of(paragraphs[place])[0], -place))
    title_page = _is_title_page(paragraphs, best)
    # Headings of the same style make it one of them, unless they are numbered and it is not.
    same = [
        place
        for place, heading in found.items()
        if style_of(paragraphs[place]) == style_of(paragraphs[best])
        and abs(place - best) > 1
        and not depth_of(heading.title)
        and not CONTENTS.fullmatch(heading.title)
        and not by_outline
        and not title_page
    ]
    before = [place for place in found if place < best and depth_of(paragraphs[place].text)]
    if same or before or depth_of(paragraphs[best].text) or (by_outline and best in found):
        return None
    return Heading(place=best, level=1, title=paragraphs[best].text.strip())


def _is_title_page(paragraphs: Sequence[Paragraph], place: int) -> bool:
    """Whether a page starts with this and says little else, and others follow."""
    page = paragraphs[place].page
    on_it = [paragraph for paragraph in paragraphs if paragraph.page == page]
    return (
        on_it[0] is paragraphs[place]
        and sum(len(paragraph.text) for paragraph in on_it) <= _TITLE_PAGE_CHARS
        and paragraphs[-1].page > page
    )


def _may_be_title(paragraph: Paragraph) -> bool:
    text = paragraph.text
    return len(paragraph.lines) <= _MAX_LINES and len(text) <= _MAX_CHARS and _LETTERS.search(text) is not None


def named_headings(
    paragraphs: Sequence[Paragraph], found: Mapping[int, Heading], *, body: float, by_outline: bool
) -> list[Heading]:
    """Abstract and references, where their line says no more than that or the text runs on after it."""
    named: list[Heading] = []
    for place, paragraph in enumerate(paragraphs):
        text = paragraph.text.strip()
        # An outline or a number knows better how deep it lies.
        if paragraph.kind != "text" or (place in found and (by_outline or depth_of(text))):
            continue
        early = paragraph.page < _ABSTRACT_PAGES
        whole = NAMED.fullmatch(text) if paragraph.lines[0].size >= _AS_LARGE * body else None
        # Chapters have a summary and references of their own; their style says how deep.
        if whole and ((whole["abstract"] and early) or (whole["references"] and place not in found)):
            named.append(Heading(place=place, level=1, title=text.rstrip(":：. ")))
        elif early and (start := _RUN_IN.match(text)):
            label = next(group for group in start.groups() if group)
            named.append(Heading(place=place, level=1, title=label, chars=start.end()))
    return named


def is_beside_title(
    heading: Heading, title: Heading, *, found: Mapping[int, Heading], paragraphs: Sequence[Paragraph]
) -> bool:
    """Whether it stands on the title's page in a style that no heading elsewhere has: a name, a date."""
    paragraph = paragraphs[heading.place]
    if heading is title or depth_of(paragraph.text) or NAMED.fullmatch(paragraph.text.strip()) or heading.chars:
        return False
    if paragraph.page != paragraphs[title.place].page:
        return False
    if _is_title_page(paragraphs, title.place):
        return True
    style = style_of(paragraph)
    return not any(
        style_of(paragraphs[place]) == style
        and (
            paragraphs[place].page != paragraph.page
            or depth_of(paragraphs[place].text)
            or NAMED.fullmatch(paragraphs[place].text.strip())
        )
        for place in found
        if place != heading.place
    )
