"""A page without text -> the same page with the lines that recognition sees in its picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headwater.parsers._pdf_render import picture
from headwater.parsers._pdf_shapes import Area, Page, Word, make_line

# What recognition is trained on: 200 dots an inch; a page is measured in 72 points an inch.
_SCALE: Final = 200 / 72
# Letters take this share of the height of their line's box.
_LETTERS: Final = 0.8
_ALIKE: Final = 0.3

Recogniser = Callable[[npt.NDArray[np.uint8]], list[tuple[str, tuple[int, int, int, int]]]]


def recogniser() -> Recogniser | None:
    """What turns a picture into lines of text with their boxes in pixels; None where it is not installed."""
    from headwater.parsers import _ocr

    return _ocr.recognise if _ocr.available() else None


def recognised_page(page: Any, number: int, *, recognise: Recogniser) -> Page:
    """The lines of a page, in reading order."""
    width, height = page.get_size()
    pixels = picture(page, scale=_SCALE)
    across, down = width / max(pixels.shape[1], 1), height / max(pixels.shape[0], 1)
    found = []
    for text, (left, top, right, bottom) in recognise(pixels):
        words = " ".join(text.split())
        if words:
            found.append((words, Area(left * across, top * down, right * across, bottom * down)))
    heights = sorted(area.height for _words, area in found)
    usual = heights[len(heights) // 2] if heights else 0.0
    read = Page(number=number, width=width, height=height, recognised=True)
    for words, area in found:
        # No two boxes of a scan are quite equally high: what is about as high as most is of one size.
        tall = usual if abs(area.height - usual) <= _ALIKE * usual else area.height
        size = max(round(tall * _LETTERS * 2) / 2, 1.0)
        line = make_line([Word(text=words, area=area, size=size, baseline=area.bottom)], number)
        line.recognised = True
        read.lines.append(line)
    return read
