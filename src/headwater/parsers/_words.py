"""An element of HTML -> the words a reader sees in it, on one line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from headwater.parsers._raised import POWER_SIGN
from headwater.parsers._seen import as_seen

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
else:
    Element = Any

# What is never read: programs, forms, what is drawn, and how a character is pronounced.
UNREAD: Final = frozenset(
    "script style noscript template head title meta link iframe object embed svg canvas audio video button input "
    "select textarea option datalist rt rp map dialog".split()
)
INLINE: Final = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark math meter output progress q "
    "ruby rb s samp small span strike strong sub sup time tt u var wbr img mi mo mn mrow msup msub nobr".split()
)
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary"))
_BLANKS: Final = re.compile(r"\s+")
_CJK: Final = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
# A line end in the source between Chinese characters is no space.
_CJK_BREAK: Final = re.compile(rf"(?<=[{_CJK}])[ \t]*[\r\n]\s*(?=[{_CJK}])")
_HIDDEN_STYLE: Final = re.compile(r"(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_POWER: Final = re.compile(r"[-+−]?\d{1,3}")
_NUMBER: Final = re.compile(r"\d{1,3}")
_NOTE_LINK: Final = re.compile(r"(?:^|[\s-])(?:noteref|footnote-?ref)(?:$|\s)")
# How the number of a note stands in the text: behind a figure it must not become part of it.
NOTE_MARK: Final = ("[^", "]")


def is_unread(element: Element) -> bool:
    """Whether a browser would not show it, or shows it as no text."""
    tag = element.tag
    if not isinstance(tag, str) or (tag in UNREAD and not (tag == "button" and _is_heading(element))):
        return True
    if _is_folded(element):
        return False
    if element.get("hidden") is not None or element.get("aria-hidden") == "true":
        return True
    style = element.get("style")
    return style is not None and bool(_HIDDEN_STYLE.search(style))


def _is_heading(button: Element) -> bool:
    """Whether a button is all that a heading or a term says: it opens the answer below."""
    above = button.getparent()
    if above is None or above.tag not in _HEADINGS:
        return False
    return len(above) == 1 and not (above.text or "").strip() and not (button.tail or "").strip()


def _is_folded(element: Element) -> bool:
    """Whether a reader sees it by a click: another tab, an answer that is folded away."""
    role = element.get("role")
    if role == "tabpanel" or (role == "region" and element.get("aria-labelledby")):
        return True
    return bool(element.get("hidden") == "until-found")


def one_blank(words: str) -> str:
    """Runs of blanks made one, and none between Chinese characters that a line end parts."""
    return _BLANKS.sub(" ", _CJK_BREAK.sub("", as_seen(words)))


def is_power(element: Element) -> bool:
    """Whether a raised number is an exponent: 10² must not become 102."""
    return element.tag == "sup" and bool(_POWER.fullmatch(_short(element))) and element.find("a") is None


def is_note_mark(element: Element) -> bool:
    """Whether a link is the bare number of a note: 25 with note 3 must not become 253."""
    if element.tag != "a" or not element.get("href") or not _NUMBER.fullmatch(_short(element)):
        return False
    if _NOTE_LINK.search(" ".join(element.get(name) or "" for name in ("epub:type", "role", "class"))):
        return True
    above = element.getparent()
    return any(child.tag == "sup" for child in element) or (above is not None and above.tag == "sup")


def _short(element: Element) -> str:
    """Its words, with those of one element inside it; nothing where there is more: that is no mark."""
    if not len(element):
        return element.text or ""
    inside = element[0]
    if len(element) > 1 or len(inside) or not isinstance(inside.tag, str):
        return ""
    return f"{element.text or ''}{inside.text or ''}{inside.tail or ''}"


def words_of(element: Element) -> str:
    """All its words in one line."""
    return one_blank("".join(_pieces(element, " "))).strip()


def lines_of(element: Element) -> str:
    """Its words as they are laid out in the source: the text of code."""
    return "".join(_pieces(element, "\n"))


def _pieces(element: Element, line_end: str) -> list[str]:
    from lxml import etree

    pieces: list[str] = []
    walk = etree.iterwalk(element, events=("start", "end"))
    for event, inside in walk:
        if event == "start":
            if is_unread(inside):
                walk.skip_subtree()
                continue
            if inside.tag == "br" or (inside.tag not in INLINE and inside is not element and pieces):
                pieces.append(line_end if line_end == " " or inside.tag == "br" else "")
            if is_power(inside) and pieces and pieces[-1][-1:].isalnum():
                pieces.append(POWER_SIGN)
            if inside is not element and is_note_mark(inside):
                pieces.append(NOTE_MARK[0])
            pieces.append(inside.text or "")
        elif inside is not element:
            if is_note_mark(inside):
                pieces.append(NOTE_MARK[1])
            if line_end == " " and inside.tag not in INLINE:
                pieces.append(" ")
            pieces.append(inside.tail or "")
    return pieces
