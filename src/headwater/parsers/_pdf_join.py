"""Two lines of a paragraph -> one text, with the blank or the hyphen between them that the author meant."""

from __future__ import annotations

import re
from typing import Final

from headwater.parsers._pdf_shapes import CJK, CJK_RANGES

_HYPHENS: Final = "-\u2010\u00ad"
_BROKEN_WORD: Final = re.compile(r"[^\W\d_]{2,}$")
_GOES_ON: Final = re.compile(r"[^\W\d_]+")
# First parts of compounds that keep their hyphen wherever the line breaks.
_COMPOUND: Final = frozenset(
    "self non well high low long short half full cross multi co re pre post anti ex all one two three four "
    "first second state real large small open end user time data e".split()
)
_SPACED: Final = re.compile(f"[{CJK_RANGES}] [A-Za-z0-9]|[A-Za-z0-9] [{CJK_RANGES}]")


def joined(before: str, after: str, *, hyphen: bool = False, known: frozenset[str] = frozenset()) -> str:
    """Both in one line. `hyphen`: the file has one after `before`, which is not in the text; `known`: words seen."""
    glue, cut = glue_between(before, after, hyphen=hyphen, known=known)
    return before[: len(before) - cut] + glue + after


def glue_between(
    before: str, after: str, *, hyphen: bool = False, known: frozenset[str] = frozenset()
) -> tuple[str, int]:
    """What comes between two lines, and how many characters go from the end of the first."""
    if not before or not after:
        return "", 0
    printed = not hyphen and before[-1] in _HYPHENS
    if hyphen or printed:
        left = _BROKEN_WORD.search(before[: len(before) - printed])
        right = _GOES_ON.match(after)
        broken = left and right and (before[-1] == "\u00ad" or _is_broken(left.group(), right.group(), known))
        # Else it is a dash, a range of numbers, a name such as X-ray: as it is printed.
        return ("", int(printed)) if broken else ("-" if hyphen else "", 0)
    first, second = CJK.match(before[-1]) is not None, CJK.match(after[0]) is not None
    if first != second:
        # One side is Latin: the author's own habit decides, seen in the rest of the paragraph.
        letter = after[0] if first else before[-1]
        return (" " if letter.isalnum() and _SPACED.search(before + "\n" + after) else ""), 0
    return ("" if first else " "), 0


def _is_broken(left: str, right: str, known: frozenset[str]) -> bool:
    """Whether the hyphen only marks the end of the line."""
    if not right[0].islower() or not left[-1].islower():
        return False
    whole, compound = (left + right).lower(), f"{left}-{right}".lower()
    if compound in known:
        return whole in known
    return whole in known or left.lower() not in _COMPOUND
