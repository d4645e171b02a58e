"""A question -> other ways to write it, without a language model: synonyms, spellings, the other language.

The table is plain text, one line a group of words that mean the same, apart by tabs; `synonyms.tsv` of a home adds
lines. Chinese words are looked for as they stand, English ones by their stems. British and American spellings are made
by rule (`spellings`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from headwater.errors import SettingError
from headwater.spellings import respelled
from headwater.tokens import Cutter, fold, is_cjk, language

FILE_NAME: Final = "synonyms.tsv"
# Of one group so many other words go into a question: more of them drown its own.
MOST_OTHERS: Final = 3
COMMENT: Final = "#"
_LETTERS: Final = re.compile("[a-z]+")

Group = tuple[str, ...]


class Synonyms:
    """A table of words that mean the same."""

    def __init__(self, groups: Iterable[Group], cutter: Cutter) -> None:
        self._cutter = cutter
        self._groups: list[Group] = []
        self._by_key: dict[str, list[int]] = {}
        for group in groups:
            for word in group:
                self._by_key.setdefault(self._key(word), []).append(len(self._groups))
            self._groups.append(group)
        # The longest first: 年假 before 假.
        self._han = sorted({len(key) for key in self._by_key if key and is_cjk(key[0])}, reverse=True)
        self._longest = max((len(key.split()) for key in self._by_key if key and not is_cjk(key[0])), default=0)

    @staticmethod
    def read(home: Path | None, cutter: Cutter) -> Synonyms:
        """The table that comes with the package, with the lines of a home's own."""
        text = (resources.files("headwater") / FILE_NAME).read_text(encoding="utf-8")
        groups = list(parse_table(text, FILE_NAME))
        own = home / FILE_NAME if home is not None else None
        if own is not None and own.exists():
            groups += parse_table(own.read_text(encoding="utf-8"), str(own))
        return Synonyms(groups, cutter)

    def variants(self, text: str) -> list[str]:
        """The question with the other words of its language added, and in the words of the other language."""
        found = self._found(fold(text))
        others = list(dict.fromkeys(word for number, own in found for word in self._others(number, own)))
        here = language(text)
        same = [word for word in others if language(word) == here]
        other_spellings = filter(None, map(respelled, _LETTERS.findall(fold(text))))
        same += [word for word in dict.fromkeys(other_spellings) if word not in same]
        across = [word for word in others if language(word) != here]
        made = [f"{text} {' '.join(same)}"] if same else []
        if across:
            made.append(" ".join(across))
        return made

    def _others(self, number: int, own: str) -> list[str]:
        return [word for word in self._groups[number] if self._key(word) != own][:MOST_OTHERS]

    def _found(self, folded: str) -> list[tuple[int, str]]:
        """Groups that the text has a word of, with that word, in the order of the text."""
        found: list[tuple[int, int, str]] = []
        taken = [False] * len(folded)
        for length in self._han:
            for start in range(len(folded) - length + 1):
                key = folded[start : start + length]
                if is_cjk(key[0]) and key in self._by_key and not any(taken[start : start + length]):
                    taken[start : start + length] = [True] * length
                    found += [(start, number, key) for number in self._by_key[key]]
        words = [term for term in self._cutter.words_in(folded) if not is_cjk(term.term[0])]
        for count in range(self._longest, 0, -1):
            for at in range(len(words) - count + 1):
                run = words[at : at + count]
                key = " ".join(term.term for term in run)
                start, end = run[0].start, run[-1].end
                if key in self._by_key and not any(taken[start:end]):
                    taken[start:end] = [True] * (end - start)
                    found += [(start, number, key) for number in self._by_key[key]]
        return [(number, key) for _, number, key in sorted(found)]

    def _key(self, word: str) -> str:
        folded = fold(word)
        if folded and is_cjk(folded[0]):
            return folded
        return " ".join(term.term for term in self._cutter.words_in(folded))


def parse_table(text: str, name: str) -> list[Group]:
    """The groups of a table; SettingError for a line with a single word."""
    groups: list[Group] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith(COMMENT):
            continue
        words: Sequence[str] = [word.strip() for word in line.split("\t") if word.strip()]
        if len(words) < 2:
            raise SettingError(f"{name}, line {number}: a group has two words or more, apart by tabs, got {line!r}")
        groups.append(tuple(words))
    return groups
