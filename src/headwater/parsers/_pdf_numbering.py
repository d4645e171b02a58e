"""What the words of a heading say about it: the number in front of it, its depth, a name such as Abstract."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headwater.parsers._pdf_paragraphs import Paragraph

# Deeper levels are all the same to a reader.
DEEPEST: Final = 6

_DECIMAL: Final = re.compile(
    r"(?:(?:appendix|附录)\s*)?([A-Z]|\d{1,3})((?:[.．]\d{1,3}){0,5})[.．、)]?\s+(?=\S)", re.IGNORECASE
)
CHAPTER: Final = re.compile(
    r"(?:chapter|part|appendix|kapitel)\s+(?:\d{1,3}|[A-Z]|[IVXL]{1,6})\b|第\s*[\d一二三四五六七八九十百〇零]{1,5}\s*[章篇部编卷]",
    re.IGNORECASE,
)
_SECTION: Final = re.compile(
    r"(?:section|§)\s*\d{1,3}\b|第\s*[\d一二三四五六七八九十百〇零]{1,5}\s*[节節条]", re.IGNORECASE
)
_CHINESE: Final = re.compile(r"[一二三四五六七八九十]{1,3}[、.．]\s*")
_CHINESE_INNER: Final = re.compile(r"[（(][一二三四五六七八九十]{1,3}[）)]\s*")
_ROMAN: Final = re.compile(r"[IVX]{1,5}[.．]\s+(?=\S)")
NAMED: Final = re.compile(
    r"(?:\d{1,2}[.．]?\s*)?(?:(?P<abstract>abstract|summary|摘\s*要|内容提要|zusammenfassung)|"
    r"(?P<references>references|bibliography|literature cited|参考文献|參考文獻|literatur)|"
    r"(?P<other>introduction|conclusions?|acknowledge?ments?|appendix|引\s*言|绪\s*论|结\s*论|致\s*谢|附\s*录))\s*[:：.]?",
    re.IGNORECASE,
)
CONTENTS: Final = re.compile(r"(?:table of )?contents|list of \w+|目\s*[录錄次]", re.IGNORECASE)
_SQUEEZED: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """Paragraph number `place` is a heading; one with `chars` only its first characters are."""

    place: int
    level: int
    title: str
    chars: int = 0


def style_of(paragraph: Paragraph) -> tuple[float, bool]:
    """The size and the weight that a paragraph starts with."""
    return paragraph.lines[0].size, paragraph.lines[0].bold


def squeezed(text: str) -> str:
    """Letters and digits only, in small letters: what two ways of writing a title have in common."""
    return _SQUEEZED.sub("", text).casefold()


def depth_of(text: str) -> int:
    """How deep the number in front of a heading says it lies; 0 where there is none."""
    if CHAPTER.match(text):
        return 1
    if _SECTION.match(text):
        return 2
    if found := _DECIMAL.match(text):
        # A single letter is a word as well: "A study of ...".
        if found[1].isdigit() or found[2] or found.group().rstrip().endswith((".", "．")):
            return 1 + len(re.findall(r"[.．]\d", found[2]))
        return 0
    if _CHINESE.match(text) or _ROMAN.match(text):
        return 1
    return 2 if _CHINESE_INNER.match(text) else 0
