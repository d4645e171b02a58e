"""Text that a model writes -> its sentences, each with the numbers of the passages it names, however it writes them.

`[1]`, `【1】`, `[1, 2]`, `[1-3]`, `[ID:1]`, `(来源 1)`, `[Source 1: leave.md]`, `[^1]`, `【1†source】`, `<sup>1</sup>`,
superscripts; before the full stop or after it. What else stands in brackets is text: years, indexes, lists.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from headwater.tokens import sentences

_WORD: Final = (
    r"(?:id|source|sources|src|ref|reference|citation|cite|doc|document|passage|"
    r"来源|来源于|出处|引用|参考|资料|段落|文档)"
)
_LIST: Final = rf"\d{{1,3}}(?:\s*(?:[,，、;；&-]|[–—~至]|and|和)\s*(?:{_WORD}\s*[:：#]?\s*)?\d{{1,3}})*"
_SUPERSCRIPTS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹"
# Four digits are a year. In round brackets a number needs a word before it: (1) counts the items of a list.
MARKER: Final = re.compile(
    rf"[ \t]?(?:[\[【［〔]{{1,2}}\s*(?:{_WORD}\s*[:：#]?\s*|\^|#)?(?P<square>{_LIST})"
    rf"(?:\s*†[^\]】]{{0,30}}|\s*[:：|]\s*[^\]】\n]{{1,160}})?\s*[\]】］〕]{{1,2}}"
    rf"|[(（]\s*(?:见\s*|see\s+)?{_WORD}\s*[:：#]?\s*(?P<round>{_LIST})\s*[)）]"
    rf"|<sup>\s*\[?(?P<sup>{_LIST})\]?\s*</sup>"
    # Two letters and a small number are a unit: m², km³.
    rf"|(?:(?<=[^\W\d_]{{3}})|(?<=[\u3400-\u9fff]{{2}})|(?<=[.,。，！？!?]))(?P<small>[{_SUPERSCRIPTS}]+))",
    re.IGNORECASE,
)
# Where a marker may have begun that the next piece of a stream completes.
_UNFINISHED: Final = re.compile(
    r"[ \t]?(?:[\[【［〔(（][^\]】］〕)）\n]{0,60}|<(?:/?s?|su|sup|sup>[^<\n]{0,8}(?:</?s?u?p?)?))\Z", re.IGNORECASE
)
LAST_MARKERS: Final = re.compile(
    rf"(?:{re.sub(r'[?]P<[a-z]+>', '?:', MARKER.pattern)})+(?=[\s.。!！?？;；…]*\Z)", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"\d+")
_RANGE: Final = re.compile(r"(\d{1,3})\s*[-–—~至]\s*(\d{1,3})")
MOST_OF_A_RANGE: Final = 20  # nobody cites more passages at once: it is something else
_SMALL: Final = str.maketrans(_SUPERSCRIPTS, "0123456789")


def named(text: str) -> list[int]:
    """The numbers that the markers of a text name, from 1, each once, in order."""
    found: dict[int, None] = {}
    for marker in MARKER.finditer(text):
        said = next(filter(None, marker.groups()), "").translate(_SMALL)
        for low, high in _RANGE.findall(said):
            if int(low) < int(high) <= int(low) + MOST_OF_A_RANGE:
                found.update(dict.fromkeys(range(int(low), int(high) + 1)))
        found.update(dict.fromkeys(map(int, _NUMBER.findall(said))))
    return sorted(found) if _RANGE.search(text) else list(found)


def without(text: str) -> str:
    """The text without its markers."""
    return MARKER.sub("", text)


def split(text: str) -> list[str]:
    """Sentences, each with the markers that follow it. Together they are the text, and there is at least one."""
    shown = MARKER.sub(lambda marker: " " * len(marker[0]), text)
    starts = [0, *(start for start, _ in sentences(shown)[1:]), len(text)]
    return [text[low:high] for low, high in pairwise(starts)]


def complete(text: str) -> tuple[list[str], str]:
    """The sentences of a stream's text so far that have ended, and the rest: the next may still get its marker."""
    open_at = _UNFINISHED.search(text)
    known, held = (text[: open_at.start()], text[open_at.start() :]) if open_at else (text, "")
    *ended, rest = split(known)
    return ended, rest + held
