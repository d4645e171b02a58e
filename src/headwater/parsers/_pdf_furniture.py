"""Pages -> what runs along their edges: headers, footers, page numbers. It is left out of the text."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from headwater.parsers._pdf_shapes import Line, Page, is_raised

# Headers and footers stand in these shares of the height.
_EDGE: Final = 0.12
# Seen at the same place with the same words on so many pages, and on this share of them.
_REPEATS: Final = 3
_SHARE: Final = 0.3
# Where most pages have a line at the same height, its words may change from chapter to chapter.
_BAND_SHARE: Final = 0.4
# Points by which the same line differs from page to page.
_STEP: Final = 4.0
# The mark of a footnote stands by this share of the size of the words beside it higher.
_HIGHER: Final = 0.1
# The height of what is set at another angle, which may stand anywhere.
_ASIDE: Final = 1_000_000
# Print larger than the text by so much that counts along with the pages is their headings.
_LARGER: Final = 1.3
_NUMBERS: Final = re.compile(r"\d+|(?<![^\W\d_])[ivxlcdm]+(?![^\W\d_])", re.IGNORECASE)
# A line with more numbers is a row of figures; only one of the first may be the page's.
_MAX_NUMBERS: Final = 8
_MAX_DIGITS: Final = 9  # no page's number has more
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
            self._texts.update({(aside.text, _ASIDE) for aside in page.asides})
            self._texts.update({(words, _height(line, page)) for line in edge for words in _readings(line, page)})
            self._places.update({(_height(line, page), line.size) for line in edge})
        self._has_body = self._has_body or any(len(self._at_edges(page)) < len(page.lines) for page in pages)

    def cleared(self, page: Page) -> list[Line]:
        """The lines of a page without its furniture."""
        edge = self._at_edges(page)
        # Where all would go on every page, it was the text: slides, labels.
        if len(edge) == len(page.lines) and not self._has_body:
            return page.lines
        return [line for line in page.lines if id(line) not in edge]

    def cleared_asides(self, page: Page) -> list[Line]:
        """What is set at another angle, without what is drawn over page after page: a watermark."""
        return [aside for aside in page.asides if not self._is_often(self._texts[aside.text, _ASIDE])]

    def _at_edges(self, page: Page) -> set[int]:
        edge = [line for line in _edge_lines(page) if self._is_furniture(line, page)]
        ids = {id(line) for line in edge}
        # What repeats beside words that do not is a cell of a table that goes on for pages: a unit, a name, a number.
        return {
            id(line)
            for line in edge
            if self._is_page_number(line, page) or all(id(other) in ids for other in _beside(line, page))
        }

    def _is_furniture(self, line: Line, page: Page) -> bool:
        if self._is_page_number(line, page):
            return True
        if _PAGE_NUMBER.fullmatch(line.text.strip()) and _is_mark(line, page):
            return False
        repeats = self._repeats(line, page)
        if self._is_often(repeats):
            return True
        height = _height(line, page)
        place = sum(self._places[height + step, line.size] for step in (-1, 0, 1))
        return (
            (repeats > 1 or any(self._is_page_number(other, page) for other in _beside(line, page)))
            and self._pages >= 2 * _REPEATS
            and place >= _BAND_SHARE * self._pages
            and _is_outermost(line, page)
        )

    def _is_page_number(self, line: Line, page: Page) -> bool:
        """Whether it is the number of the page: alone in its row, or counting along with the pages."""
        return (
            _PAGE_NUMBER.fullmatch(line.text.strip()) is not None
            and not _is_mark(line, page)
            and _is_outermost(line, page)
            and (not _beside(line, page) or self._is_often(self._repeats(line, page)))
        )

    def _repeats(self, line: Line, page: Page) -> int:
        """On how many pages it stands at this height."""
        height = _height(line, page)
        return max(sum(self._texts[words, height + step] for step in (-1, 0, 1)) for words in _readings(line, page))

    def _is_often(self, repeats: int) -> bool:
        return repeats >= min(_REPEATS, max(2, self._pages)) and repeats >= _SHARE * self._pages


def _beside(line: Line, page: Page) -> list[Line]:
    """What stands in the same row."""
    return [other for other in page.lines if other is not line and line.area.top < other.area.middle < line.area.bottom]


def _is_mark(line: Line, page: Page) -> bool:
    """Whether a number is the mark of a footnote: smaller and higher than the words that follow it at once."""
    return any(
        is_raised(line.size, line.baseline, other.size, other.baseline, higher=_HIGHER)
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


def _readings(line: Line, page: Page) -> set[str]:
    """The words of a line as they would be on another page: all the same, or one of its numbers counting the pages.

    Other numbers that change from page to page are no furniture: they are the rows of a table.
    """
    text = line.text.strip()
    readings = {text}
    if line.size > _LARGER * _usual_size(page):
        return readings
    for found in itertools.islice(_NUMBERS.finditer(text), _MAX_NUMBERS):
        number = found.group()[:_MAX_DIGITS]
        counted = f"{int(number) - page.number:+d}" if number.isdecimal() else ""
        readings.add(f"{text[: found.start()]}#{counted}{text[found.end() :]}")
    return readings


def _usual_size(page: Page) -> float:
    sizes: Counter[float] = Counter()
    for line in page.lines:
        sizes[line.size] += len(line.text)
    return max(sizes, key=lambda size: (sizes[size], size), default=0.0)


def _is_outermost(line: Line, page: Page) -> bool:
    """Whether no other line stands between it and the edge of the page."""
    if line.area.middle < page.height / 2:
        return all(other.area.middle > line.area.top for other in page.lines)
    return all(other.area.middle < line.area.bottom for other in page.lines)
