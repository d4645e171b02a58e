"""Captions: which paragraphs are one, and what each belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headwater.parsers._pdf_shapes import Line

_NUMBER: Final = r"(?:[A-Z]?\d{1,3}(?:[.\-–]\d{1,3})*[a-z]?|[IVX]{1,5})"
_OPENING: Final = re.compile(
    rf"(?:(?P<table>Table|Tab\.|TABLE|表|附表|Tabelle|Tableau|Tabla)|"
    rf"(?P<figure>Figure|Fig\.|FIGURE|FIG\.|Chart|Listing|Algorithm|Scheme|Plate|图|圖|附图|Abbildung|Abb\.|Figura))"
    rf"\s?{_NUMBER}(?P<mark>\s*[:：.．—–|]\s*|\s+|$)"
)
# A sentence that begins with "Table 1 shows" is no caption; a caption is short and seldom ends a sentence.
_MAX_CHARS: Final = 400
_VERB: Final = re.compile(
    r"(?:shows?|gives?|lists?|presents?|reports?|compares?|summari[sz]es|illustrates?|depicts?|describes?|contains?|"
    r"provides?|is|are|was|were|has|have|can|and|or|in|of|below|above)\b|[给列显示展可中是为与和说总、，所]"
)


def opens_caption(text: str) -> bool:
    """Whether a line may be the first of a caption."""
    found = _OPENING.match(text)
    return found is not None and not (found["mark"].isspace() and _VERB.match(text, found.end()))


def is_caption(lines: Sequence[Line]) -> bool:
    """Whether a paragraph is a caption: it opens like one and is not too long."""
    return opens_caption(lines[0].text) and sum(len(line.text) for line in lines) <= _MAX_CHARS


def is_of_table(text: str) -> bool:
    """Whether a caption belongs to a table rather than to a figure."""
    found = _OPENING.match(text)
    return found is not None and found["table"] is not None
