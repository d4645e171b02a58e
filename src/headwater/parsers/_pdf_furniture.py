"""Pages -> what runs along their edges: headers, footers, page numbers. It is left out of the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from headwater.parsers._pdf_shapes import Line, Page

# Headers and footers stand in these shares of the height.
_EDGE: Final = 0.12
# Seen at the same place with the same words on so many pages, and on this share of them.
_REPEATS: Final = 3
_SHARE: Final = 0.3
# Where most pages have a line at the same height, its words may change from chapter to chapter.
_BAND_SHARE: Final = 0.4
# Points by which the same line differs from page to page.
_STEP: Final = 4.0
# A raised mark is smaller than this share of the words beside it, and stands by that share of their size higher.
_SMALLER: Final = 0.85
_HIGHER: Final = 0.1
_NUMBERS: Final = re.compile(r"\d+|(?<![^\W\d_])[ivxlcdm]+(?![^\W\d_])", re.IGNORECASE)
_PAGE_NUMBER: Final = re.compile(
    r"(?:page|p\.|seite|第)?\s*[-–—]?\s*(?:\d{1,5}|[ivxlcdm]{1,8})\s*[-–—]?\s*"
    r"(?:页|頁|(?:of|/|von|de|共)\s*(?:共\s*)?\d{1,5}\s*(?:页|頁)?)?",
    re.IGNORECASE,
)


class Furniture:
    """What was seen at the edges of the pages so far; a long document comes in several lots."""

    def __init__(self) -> None:
        self._texts: Counter[tuple[str, int]] = Counter()
        self._places: Counter[tuple[int, float]] = Counter()
        self._pages = 0
        self._has_body = False

    def learn(self, pages: Sequence[Page]) -> None:
        """Count what stands at the edges of more pages."""
        for page in pages:
            if not page.lines:
                continue
            self._pages += 1
            edge = list(_edge_lines(page))
            self._texts.update({(_words(line.text), _height(line, page)) for line in edge})
            self._places.update({(_height(line, page), line.size) for line in edge})
        self._has_body = self._has_body or any(len(self._at_edges(page)) < len(page.lines) for page in pages)

    def cleared(self, page: Page) -> list[Line]:
        """The lines of a page without its furniture."""
        edge = self._at_edges(page)
        # Where all would go on every page, it was the text: slides, labels.
        if len(edge) == len(page.lines) and not self._has_body:
            return page.lines
        return [line for line in page.lines if id(line) not in edge]

    def _at_edges(self, page: Page) -> set[int]:
        return {id(line) for line in _edge_lines(page) if self._is_furniture(line, page)}

    def _is_furniture(self, line: Line, page: Page) -> bool:
        if _PAGE_NUMBER.fullmatch(line.text.strip()):
            if _is_mark(line, page):
                return False
            if _is_outermost(line, page):
                return True
        height = _height(line, page)
        repeats = sum(self._texts[_words(line.text), height + step] for step in (-1, 0, 1))
        enough = min(_REPEATS, max(2, self._pages))
        if repeats >= enough and repeats >= _SHARE * self._pages:
            return True
        place = sum(self._places[height + step, line.size] for step in (-1, 0, 1))
        return (
            (repeats > 1 or _is_beside_number(line, page))
            and self._pages >= 2 * _REPEATS
            and place >= _BAND_SHARE * self._pages
            and _is_outermost(line, page)
        )


def _is_beside_number(line: Line, page: Page) -> bool:
    """Whether the number of the page stands in the same row."""
    return any(
        other is not line
        and line.area.top < other.area.middle < line.area.bottom
        and _PAGE_NUMBER.fullmatch(other.text.strip())
        for other in page.lines
    )


def _is_mark(line: Line, page: Page) -> bool:
    """Whether a number is the mark of a footnote: smaller and higher than the words that follow it at once."""
    return any(
        line.size < _SMALLER * other.size
        and line.baseline < other.baseline - _HIGHER * other.size
        and other.area.top < line.area.middle < other.area.bottom
        and -other.size / 2 < other.area.left - line.area.right < other.size
        for other in page.lines
    )


def _edge_lines(page: Page) -> Iterator[Line]:
    for line in page.lines:
        if line.area.bottom < _EDGE * page.height or line.area.top > (1 - _EDGE) * page.height:
            yield line


def _height(line: Line, page: Page) -> int:
    """Where it stands, from the nearer edge: pages of other sizes keep their margins."""
    if line.area.middle < page.height / 2:
        return round(line.area.middle / _STEP)
    return -round((page.height - line.area.middle) / _STEP) - 2


def _words(text: str) -> str:
    return _NUMBERS.sub("#", text.strip())


def _is_outermost(line: Line, page: Page) -> bool:
    """Whether no other line stands between it and the edge of the page."""
    if line.area.middle < page.height / 2:
        return all(other.area.middle > line.area.top for other in page.lines)
    return all(other.area.middle < line.area.bottom for other in page.lines)
