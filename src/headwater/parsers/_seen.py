"""Text as a program wrote it -> as a reader sees it: what is not seen is gone, and a letter is one character.

Soft hyphens, blanks without a width, marks of the byte order and colours of a terminal are there for programs; a
ligature is two letters, and an accent belongs to its letter. Whoever searches types none of them apart. Joiners and
marks of direction stay: they change what is seen.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from headwater.characters import composed

_UNSEEN: Final = re.compile("[\xad\u200b\u2060\ufeff]")
# Colours and titles that a program tells its terminal: logs are full of them.
_TERMINAL: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\)")
_LIGATURE: Final = re.compile("[\ufb00-\ufb06]")


def as_seen(text: str) -> str:
    """The text with nothing in it that is not seen, its ligatures in letters and its accents on theirs."""
    if "\x1b" in text:
        text = _TERMINAL.sub("", text)
    if text.isascii():
        return text
    return _LIGATURE.sub(_letters, composed(_UNSEEN.sub("", text)))


def _letters(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", found[0])
