"""A prompt's name and a language -> its wording, which a person can replace by a file in the home.

A prompt is a text file `NAME.LANGUAGE.txt` with a part under `[system]` and one under `[user]`; `{name}` stands for a
value. What comes from documents is put between fences that nobody can guess, and what looks like a fence, a role or
a source's label in it is taken apart with a space, so that a document cannot speak as anybody else.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from headwater.errors import SettingError
from headwater.tokens import language

Language = Literal["zh", "en"]
ANSWER: Final = "answer"
# Sixteen hex digits: nobody guesses them, and they cost about ten tokens.
FENCE_BYTES: Final = 8

# Letters in a row, without spaces and signs, that nobody writes by chance.
GIVEN_AWAY_CHARS: Final = 48

_STOP: Final = re.compile(r"[.。;；\n]")
_SECRET: Final = re.compile(r"<<<(?:data|end) ([0-9a-f]{8,})>>>")
_PART: Final = re.compile(r"^\[(system|user)\]\s*$", re.MULTILINE)
_PLACE: Final = re.compile(r"\{([a-z_]+)\}")
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
_FREELY: Final = "# ungrounded"
# Marks that servers turn into roles and turns, fences like ours, and labels like ours: (found, where the space goes).
_MARKS: Final = re.compile(
    r"<(?=\|)|\|(?=>)|<(?=/?s>)|<(?=/?(?:think|tool_call|tool_response|system|start_of_turn|end_of_turn)\b)"
    r"|<(?=<)|>(?=>)|\[(?=/?INST\])|<(?=<SYS>>)"
    r"|(?<=\[)(?=\s*(?:source|来源|ID\s*[:：])\s*\d)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to say: who the model is, and what is asked of it. `grounded`: every sentence must rest on a passage."""

    system: str
    user: str
    grounded: bool = True

    def filled(self, values: Mapping[str, str]) -> Prompt:
        """With values in their places; braces inside a value stay as they are."""

        def put(found: re.Match[str]) -> str:
            return values.get(found[1], found[0])

        return Prompt(system=_PLACE.sub(put, self.system), user=_PLACE.sub(put, self.user), grounded=self.grounded)


class Prompts:
    """The prompts that ship, with those of a folder over them."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def get(self, name: str, *, about: str) -> Prompt:
        """The prompt in the language of a text; an unknown name is refused with those that exist."""
        wanted = language(about)
        for spoken in (wanted, *(other for other in ("zh", "en") if other != wanted)):
            text = self._read(f"{name}.{spoken}.txt") if _NAME.fullmatch(name) else None
            if text is not None:
                return _parsed(text, f"{name}.{spoken}.txt")
        raise SettingError(f"no prompt is named {name!r}; there are: {', '.join(self.names())}")

    def names(self) -> list[str]:
        """Every prompt, the home's own among them."""
        files = [entry.name for entry in (resources.files("headwater") / "prompts").iterdir()]
        if self._folder is not None and self._folder.is_dir():
            files += [path.name for path in self._folder.iterdir()]
        return sorted({name.split(".")[0] for name in files if name.endswith(".txt")})

    def _read(self, file: str) -> str | None:
        own = self._folder / file if self._folder is not None else None
        if own is not None and own.is_file():
            try:
                return own.read_text(encoding="utf-8-sig")
            except (UnicodeDecodeError, OSError) as error:
                raise SettingError(f"{own} cannot be read: {error}; write it as UTF-8 or remove it") from error
        shipped = resources.files("headwater") / "prompts" / file
        return shipped.read_text(encoding="utf-8") if shipped.is_file() else None


def _parsed(text: str, file: str) -> Prompt:
    pieces = _PART.split(text)
    parts = dict(zip(pieces[1::2], (piece.strip() for piece in pieces[2::2]), strict=True))
    if not parts.get("user"):
        raise SettingError(f"the prompt {file} has no part under [user]; see the prompts that ship for the layout")
    return Prompt(system=parts.get("system", ""), user=parts["user"], grounded=_FREELY not in pieces[0])


@dataclass(frozen=True, slots=True)
class Fence:
    """Two lines that only this request knows."""

    opening: str
    closing: str

    @staticmethod
    def new() -> Fence:
        """One that was never used before."""
        secret = secrets.token_hex(FENCE_BYTES)
        return Fence(f"<<<data {secret}>>>", f"<<<end {secret}>>>")

    def around(self, text: str) -> str:
        """The text as data."""
        return f"{self.opening}\n{text}\n{self.closing}"


def harmless(text: str) -> str:
    """Text of a document as a model may read it: its words are the same, and its marks are marks no more."""
    return _MARKS.sub(lambda mark: f"{mark[0]} ", text)


def repeats(said: str, instructions: str) -> bool:
    """Whether a text gives away what a model was told: a fence, or a long stretch of the instructions."""
    plain, told = _dense(said), _dense(instructions)
    if any(secret in said for secret in _SECRET.findall(instructions)):
        return True
    if not told:
        return False
    # A Chinese character says about as much as three letters.
    size = GIVEN_AWAY_CHARS // 3 if language(instructions) == "zh" else GIVEN_AWAY_CHARS
    starts = range(0, max(1, len(told) - size + 1), max(1, size // 4))
    stretches = [told[start : start + size] for start in starts]
    # A whole sentence of them is enough too, if it is not a short one.
    stretches += [one for line in _STOP.split(instructions) if len(one := _dense(line)) >= size // 2]
    return any(stretch in plain for stretch in stretches)


def _dense(text: str) -> str:
    return re.sub(r"\W+", "", text).lower()
