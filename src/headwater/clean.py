"""Text -> the text that is indexed: the same words, without what no reader sees. Never applied to `Document.text`.

Only layout and invisible characters change. Every sign that means something (%, +, @, #, /, any script) stays.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Blanks of any width: tab, no-break, the typographic spaces, the ideographic one.
_BLANK: Final = " \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
# What ends a line or a page in some system or other.
_LINE_END: Final = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
# Control characters, soft hyphens, zero-width characters, marks of direction, byte-order marks inside the text.
_UNSEEN: Final = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
)
_INVISIBLE: Final = re.compile(f"[{_UNSEEN}]")
_VISIBLE: Final = re.compile(rf"[^\s{_UNSEEN}]")
_PLAIN: Final = bytes((ord("\n"), *range(ord(" "), ord("~") + 1)))
_BLANKS: Final = re.compile(f"[{_BLANK}]{{2,}}|[{_BLANK[1:]}]")
_MANY_LINES: Final = re.compile(f"\n(?:[{_BLANK}]*\n){{2,}}")


def clean(text: str, content_type: str = "text") -> str:
    """The text as the indexes see it. Of `code` the layout stays, of anything else runs of blanks become one."""
    # Most text is plain; to see that takes a tenth of the time of searching it for all that may be wrong.
    plain = text.isascii() and not text.encode().translate(None, _PLAIN)
    if not plain:
        text = _INVISIBLE.sub("", _LINE_END.sub("\n", text))
        if not unicodedata.is_normalized("NFC", text):
            text = unicodedata.normalize("NFC", text)
    if content_type != "code":
        if not plain or "  " in text:
            text = _BLANKS.sub(" ", text)
        if "\n\n\n" in text or "\n \n" in text:
            text = _MANY_LINES.sub("\n\n", text)
    return text.strip()


def is_blank(text: str) -> bool:
    """Whether there is nothing to see: blanks, line ends and invisible characters only."""
    return _VISIBLE.search(text) is None
