"""JSON as a language model wrote it -> the value it meant.

What stands around it is left out: talk, fences. Inside it may have single quotes or none, commas too many or too few,
comments, Python's words for true and nothing, line breaks in strings, and it may stop in the middle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

# Deeper than anybody's answer; what goes on opening brackets is not JSON.
MAX_DEPTH: Final = 50

_FENCE: Final = re.compile(r"```(?:json[c5]?)?\s*\n?(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_BLANK: Final = re.compile(r"(?:\s|//[^\n]*|#[^\n]*|/\*.*?(?:\*/|\Z))*", re.DOTALL)
_WORD: Final = re.compile(r"[^\s,:{}\[\]\"'，：]+")
_CLOSING: Final = {'"': '"', "'": "'", "“": "”", "‘": "’"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: Final[Mapping[str, Any]] = {
    **{"true": True, "false": False, "null": None},
    **{"none": None, "nan": None, "undefined": None},
}
_HEX_DIGITS: Final = 4


def mended(text: str) -> Any:
    """The first object or list in the text. ValueError where there is none."""
    parts = [fenced[1] for fenced in _FENCE.finditer(text)] + [text]
    for part in reversed(parts):  # most often all of it is JSON
        with suppress(ValueError, RecursionError):
            whole = json.loads(part, strict=False)
            if isinstance(whole, dict | list):
                return whole
    for part in parts:
        start = _opening(part)
        if start is None:
            continue
        try:
            return json.JSONDecoder(strict=False).raw_decode(part, start)[0]
        except (ValueError, RecursionError):
            return _Reader(part, start).value(0)
    raise ValueError(f"there is no JSON in {text[:80]!r}")


def mended_object(text: str) -> dict[str, Any]:
    """The first object in the text; a list of one object stands for it. ValueError where there is none."""
    value = mended(text)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if not isinstance(value, dict):
        raise ValueError(f"there is no JSON object in {text[:80]!r}")
    return value


def _opening(text: str) -> int | None:
    """Where the value begins: a brace wins over a bracket before it, for `[1]` in talk is a marker."""
    brace = text.find("{")
    if brace >= 0:
        before = re.search(r"\[\s*\Z", text[:brace])
        return before.start() if before else brace
    bracket = re.search(r"\[(?!\d+\])", text)
    return bracket.start() if bracket else None


class _Reader:
    """Reads on whatever it meets, and always to an end: every step takes at least a character."""

    def __init__(self, text: str, place: int) -> None:
        self.text, self.place = text, place

    def value(self, depth: int) -> Any:
        self._skip()
        if depth > MAX_DEPTH:
            raise ValueError("the JSON is nested too deeply")
        char = self._peek()
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._list(depth)
        if char in _CLOSING:
            return self._string(_CLOSING[char])
        return self._bare()

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _skip(self) -> None:
        found = _BLANK.match(self.text, self.place)
        assert found is not None  # it matches nothing at all too
        self.place = found.end()

    def _object(self, depth: int) -> dict[str, Any]:
        self.place += 1
        found: dict[str, Any] = {}
        while True:
            self._skip()
            char = self._peek()
            if char in ("}", ""):
                self.place += 1
                return found
            if char == "]":  # the brace was forgotten
                return found
            if char in ",，:：":
                self.place += 1
                continue
            key = self.value(depth + 1)
            self._skip()
            if self._peek() in (":", "："):
                self.place += 1
                self._skip()
                if self._peek() in ("", "}", ","):
                    found[str(key)] = None
                else:
                    found[str(key)] = self.value(depth + 1)
            elif self._peek():  # a word that belongs to nothing; one at the end was cut off
                continue

    def _list(self, depth: int) -> list[Any]:
        self.place += 1
        found: list[Any] = []
        while True:
            self._skip()
            char = self._peek()
            if char in ("]", ""):
                self.place += 1
                return found
            if char == "}":  # the bracket was forgotten
                return found
            if char in ",，:：":
                self.place += 1
                continue
            found.append(self.value(depth + 1))

    def _string(self, closing: str) -> str:
        self.place += 1
        parts: list[str] = []
        while char := self._peek():
            self.place += 1
            if char == "\\":
                parts.append(self._escape())
            elif char == closing and self._ends():
                break
            else:
                parts.append(char)
        return "".join(parts)

    def _ends(self) -> bool:
        """A quote inside a string that was not escaped is followed by more of the string."""
        rest = self.text[self.place :].lstrip()[:1]
        return rest in ("", ",", "，", ":", "：", "}", "]", '"', "'", "\n", "`")

    def _escape(self) -> str:
        char = self._peek()
        self.place += 1
        if char == "u":
            digits = self.text[self.place : self.place + _HEX_DIGITS]
            if re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                self.place += _HEX_DIGITS
                return chr(int(digits, 16))
            return ""
        return _ESCAPES.get(char, char)

    def _bare(self) -> Any:
        word = _WORD.match(self.text, self.place)
        if word is None:
            self.place += 1
            return None
        self.place = word.end()
        if word[0].lower() in _WORDS:
            return _WORDS[word[0].lower()]
        for kind in (int, float):
            try:
                return kind(word[0].replace("_", ""))
            except ValueError:
                continue
        return word[0]
