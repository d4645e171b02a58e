"""A place in a text -> the nearest place where it may be cut: between words, never inside what is drawn as one."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from headwater.tokens import is_cjk
from headwater.types import Span

PARAGRAPH: Final = re.compile(r"\n\s*\n\s*|\f\s*")
LINE: Final = re.compile(r"\n\s*")
# A pattern that starts with a set of characters is searched for ten times as fast as one that starts with a choice.
CLAUSES: Final = (re.compile(r"[；;](?:\s+|(?<=；))"), re.compile(r"[，、：,:](?:\s+|(?<=[，、：]))"))
# Good enough to cut at, and far cheaper than telling every sentence: before a point stands no initial, no number of a
# list and no title, and after it no small letter.
SENTENCE: Final = re.compile(
    r"[。！？….!?](?:(?<=[。！？…])[。！？…!?]*[”’」』）》\"']*\s*"
    r"|(?<![\s(.]\w\.)(?<!\b(?:Dr|Mr|Ms|St|No|vs)\.)(?<!\b(?:Mrs|Fig)\.)(?<!\bProf\.)[.!?]*[\"')\]”’]*\s+(?=[^a-z\s]))"
)
CLAUSE: Final = re.compile("|".join(pattern.pattern for pattern in CLAUSES))
_BLANKS: Final = re.compile(r"\s+")
# Words are shorter; what is longer (encoded data, addresses) may be torn.
_MAX_WORD_CHARS: Final = 40
# Marks on one letter, parts of one emoji.
_MAX_CLUSTER_CHARS: Final = 16
_JOINER: Final = "\u200d"


def skip_blanks(text: str, start: int, end: int) -> int:
    """The first place that is no white space."""
    blanks = _BLANKS.match(text, start, end)
    return start if blanks is None else blanks.end()


def trimmed(text: str, start: int, end: int) -> Span:
    """Without the white space at either end."""
    start = skip_blanks(text, start, end)
    if start < end and text[end - 1].isspace():
        end = start + len(text[start:end].rstrip())
    return Span(start, end)


def word_end(text: str, start: int, limit: int) -> int:
    """The end of the last whole word at or before `limit`, or the limit where a word is longer than any."""
    if text[limit].isspace() or text[limit - 1].isspace():
        return limit
    tail = text[max(start + 1, limit - _MAX_WORD_CHARS) : limit]
    blank = max(tail.rfind(" "), tail.rfind("\n"), tail.rfind("\t"))
    if blank >= 0:
        return limit - len(tail) + blank + 1
    cut = limit
    while cut > limit - len(tail) and _in_word(text, cut):
        cut -= 1
    cut = limit if _in_word(text, cut) else cut
    lowest = max(start + 1, cut - _MAX_CLUSTER_CHARS)
    whole = next((place for place in range(cut, lowest - 1, -1) if not _in_cluster(text, place)), cut)
    return max(whole, start + 1)


def word_start(text: str, low: int, end: int) -> int:
    """The first start of a word at or after `low`, or `low` where a word is longer than any."""
    blanks = _BLANKS.search(text, low, min(end, low + _MAX_WORD_CHARS))
    if blanks and text[low : blanks.start()].isascii():
        return blanks.end() if _in_word(text, low) else low
    for start in range(low, min(end, low + _MAX_WORD_CHARS)):
        if not _in_word(text, start) and not _in_cluster(text, start):
            return start
    return low


def _in_word(text: str, place: int) -> bool:
    """Whether the characters on both sides belong to one word of a script that has spaces."""
    before, after = text[place - 1], text[place]
    if is_cjk(before) or is_cjk(after):
        return False
    return not before.isspace() and not after.isspace() and (before.isalnum() or after.isalnum())


def _in_cluster(text: str, place: int) -> bool:
    """Whether both sides are drawn as one: a letter and its marks, the parts of an emoji."""
    before, after = text[place - 1], text[place]
    return _JOINER in (before, after) or unicodedata.category(after) in ("Mn", "Mc", "Me", "Sk")
