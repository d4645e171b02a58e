"""The text of a query -> what it asks for beyond its words: exact phrases, words to leave out, "all of them".

    flood "old bridge" -draft        passages with `old bridge` as it stands and without the word `draft`

Anything odd is plain text: a quotation mark without its partner, a hyphen by itself, a hyphen inside of a word or in
front of a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Final, NamedTuple

from headwater.tokens import fold, is_cjk

# What opens and closes a phrase. Brackets of titles, 《》, belong to the title.
_QUOTED: Final = r'"([^"\n]+)"|＂([^＂\n]+)＂|“([^“”\n]+)”|「([^「」\n]+)」|『([^『』\n]+)』'
_PHRASE: Final = re.compile(_QUOTED)
# A hyphen at the start of a word that begins with a letter: 5 -3 and 2025 -- draft exclude nothing.
_EXCLUSION: Final = re.compile(rf"(?:^|(?<=\s))[-－](?:(?:{_QUOTED})|([^\W\d_][^\s\"“”]*))")
_ENDS: Final = " \t,.;:!?，。；：！？、"
_SPACES: Final = re.compile(r"\s+")


class Asked(NamedTuple):
    """A query as it was read: `text` are the words to search for, without the marks and what is to be left out."""

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


def read(text: str) -> Asked:
    """What a text asks for. One that would have no word left is plain text."""
    excluded: list[str] = []

    def take(found: re.Match[str]) -> str:
        word = next(filter(None, found.groups())).strip(_ENDS)
        if not any(map(str.isalnum, word)):
            return found[0]
        excluded.append(word)
        return " "

    kept = _EXCLUSION.sub(take, text)
    phrases = [next(filter(None, found.groups())).strip() for found in _PHRASE.finditer(kept)]
    phrases = [phrase for phrase in phrases if any(map(str.isalnum, phrase))]
    words = _PHRASE.sub(lambda found: f" {next(filter(None, found.groups()))} ", kept) if phrases else kept
    if not any(map(str.isalnum, words)):
        return Asked(text)
    plain = words if not (phrases or excluded) else " ".join(words.split())
    return Asked(plain, tuple(dict.fromkeys(phrases)), tuple(dict.fromkeys(excluded)))


class Wording:
    """What a passage must hold word for word, and what it must not: upper case, width and old characters alike.

    White space may differ. A word of letters is a whole word: `-pump` leaves pumpkins in.
    """

    def __init__(self, phrases: Sequence[str] = (), excluded: Sequence[str] = ()) -> None:
        self.phrases, self.excluded = tuple(phrases), tuple(excluded)

    def __bool__(self) -> bool:
        return bool(self.phrases or self.excluded)

    @cached_property
    def _wanted(self) -> dict[str, re.Pattern[str]]:
        return {phrase: _pattern(phrase) for phrase in self.phrases}

    @cached_property
    def _unwanted(self) -> dict[str, re.Pattern[str]]:
        return {word: _pattern(word) for word in self.excluded}

    def missing(self, *texts: str) -> tuple[str, ...]:
        """The phrases that stand in none of the texts."""
        folded = [fold(text) for text in texts]
        return tuple(phrase for phrase, found in self._wanted.items() if not any(map(found.search, folded)))

    def present(self, *texts: str) -> tuple[str, ...]:
        """The excluded words that stand in one of the texts."""
        folded = [fold(text) for text in texts]
        return tuple(word for word, found in self._unwanted.items() if any(map(found.search, folded)))

    def holds(self, *texts: str) -> bool:
        """Whether every phrase stands in one of the texts, and nothing excluded in any."""
        return not self.missing(*texts) and not self.present(*texts)


# A letter or digit of a script that puts spaces between words; anything may stand beside a Chinese character.
_LETTER: Final = "[^\\W_\u2e80-\u31ff\u3400-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U000323af]"


def _pattern(words: str) -> re.Pattern[str]:
    text = _SPACES.sub(" ", fold(words).strip())
    parts: list[str] = []
    for before, char in zip(" " + text, text, strict=False):
        if is_cjk(before) and is_cjk(char):
            parts.append(r"\s*")  # a line may end inside of a Chinese word
        parts.append(r"\s+" if char == " " else re.escape(char))
    start = f"(?<!{_LETTER})" if _is_letter(text[:1]) else ""
    end = f"(?!{_LETTER})" if _is_letter(text[-1:]) else ""
    return re.compile(start + "".join(parts) + end)


def _is_letter(char: str) -> bool:
    return char.isalnum() and not is_cjk(char)


# ------------------------------------------------------------------------------------------------- all

_THINGS: Final = (
    r"documents?|docs?|files?|notes?|articles?|papers?|pages?|passages?|entries|bookmarks?|records?|emails?"
)
_VERBS: Final = (
    r"mention(?:s|ing|ed)?|contain(?:s|ing)?|discuss(?:es|ing)?|cover(?:s|ing)?|refer(?:s|ring)? to|"
    r"talk(?:s|ing)? about|(?:is|are|deal|deals|dealing)? ?(?:about|on|with)|includ(?:e|es|ing)"
)
_LISTS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # list all (the) documents that mention X · list every X
        rf"^(?:please\s+|can you\s+|could you\s+)?(?:list|enumerate|show(?: me)?|find|give me|name)\s+"
        rf"(?:all|every|each)\b(?:\s+of)?(?:\s+the)?(?:\s+(?:{_THINGS})\b)?"
        rf"(?:\s+(?:that|which|where))?(?:\s+(?:{_VERBS})\b)?\s*(?P<subject>.+)$",
        # how many documents mention X · which notes are about X
        rf"^(?:in\s+)?(?:how many|which|what)\s+(?:of the\s+)?(?:{_THINGS})\s+"
        rf"(?:that\s+|which\s+)?(?:{_VERBS})\s+(?P<subject>.+)$",
        # 列出所有提到…的文档 · 列举全部…
        r"^(?:请|帮我|请帮我)?(?:列出|列举|找出|给出)(?:所有|全部|一切)(?:的)?"
        r"(?:(?:文档|文章|文件|笔记|资料|页面|段落|书签|邮件|记录))?"
        r"(?:提到|提及|涉及|包含|含有|讲到|关于|有关|与)?(?P<subject>.+?)"
        r"(?:有关|相关)?的?(?:文档|文章|文件|笔记|资料|页面|段落|书签|邮件|记录)?$",
        # 有哪些文档提到… · 哪些笔记涉及… · 多少篇文章提到…
        r"^(?:一共|总共|共)?(?:有)?(?:哪些|多少[篇份个条]|几[篇份条])(?:的)?(?:文档|文章|文件|笔记|资料|页面|段落|书签|邮件|记录)?"
        r"(?:里|中)?(?:都)?(?:提到|提及|涉及|包含|含有|讲到|谈到)(?:了|过)?(?P<subject>.+)$",
        # 提到…的文档有哪些 · 关于…的文章有多少篇
        r"^(?:所有|全部)?(?:提到|提及|涉及|包含|含有|讲到|谈到|关于)(?:了|过)?(?P<subject>.+?)的"
        r"(?:文档|文章|文件|笔记|资料|页面|段落|书签|邮件|记录)(?:都)?有(?:哪些|多少[篇份个条]?|几[篇份条])$",
    )
)


def enumerated(text: str) -> str | None:
    """What all passages are wanted of, where a question asks for all of them; None for any other question."""
    plain = " ".join(text.split()).strip(_ENDS)
    for pattern in _LISTS:
        if found := pattern.match(plain):
            subject = found["subject"].strip(_ENDS)
            return subject if any(map(str.isalnum, subject)) else None
    return None
