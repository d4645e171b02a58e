"""What each character is, what it folds to, and what it is good for between two others: tables for cutting text.

They are made of Python's own character data and of `folding.txt`, once, and kept in a file: making them at every start
takes longer than a search, and another Python's data would cut a text differently from the index that holds it.
`python -m headwater.characters` makes the file again; the indexes must then be made again too.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
import zlib
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

FILE: Final = Path(__file__).with_name("characters.bin")

# What a character can be. Four bits, so that a character and its two neighbours make an index into a small table.
# BREAK is no character's class: it stands between texts that are cut together.
_OTHER, _LETTER, _DIGIT, _JOINT, _PLUS, _DOT, _QUOTE, BREAK, SCRIPT, _HAN = range(10)
_WORD: Final = frozenset({_LETTER, _DIGIT})
_CODE: Final = frozenset({_LETTER, _DIGIT, _JOINT, _PLUS, _DOT})
_CJK: Final = frozenset({SCRIPT, _HAN})

HAN_RANGES: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
)
SCRIPT_RANGES: Final = (
    "\u1100-\u11ff\u3041-\u309f\u30a1-\u30fa\u30fc-\u318f\u31a0-\u31ff\ua960-\ua97f\uac00-\ud7fb\uff66-\uffdc"
)
CJK_CHAR: Final = re.compile(f"[{HAN_RANGES}{SCRIPT_RANGES}]")
# Above this no character folds and none is part of a word; tables end here and reading them clips.
_TABLE_SIZE: Final = 0x323B0 + 1
# Characters that fold to another or combine: Han and hangul, about half of all, do neither.
_CHANGING: Final = (range(0x3400), range(0xA000, 0xAC00), range(0xF900, 0x10000), range(0x1D400, 0x1D800))
_LOOKALIKES: Final = dict(zip("‐‑‒–−‘’ʼ", "-----'''", strict=True))
# Latin letters with a stroke, which is no accent to Unicode, and the i that lacks its dot.
_STROKES: Final = dict(zip("øłđðħŧı", "olddhti", strict=True))

# A letter with its accents behind it, as some systems write the names of files; kana with their marks; Korean letters.
_IN_PARTS: Final = re.compile("[^\\W\\d_][\u0300-\u036f\u3099\u309a]+|[\u1100-\u11ff]+")

# What the middle one of three characters is good for.
GRAM, HAN_TEXT, WORD_TEXT, WORD_CHAR, CODE_SEED, CODE_CHAR, SCRIPT_CHAR, HAN_CHAR = (1 << bit for bit in range(8))


class Tables(NamedTuple):
    """Read-only."""

    shift: npt.NDArray[np.int32]  # by code point: add this to fold it
    kind: npt.NDArray[np.uint16]  # by folded code point: its class
    uses: npt.NDArray[np.uint8]  # by three classes: what the middle one is good for
    accents: npt.NDArray[np.int32]  # of letters that lose an accent: the code point, and what to add to keep it


def made() -> Tables:
    """The tables as this Python's character data has them."""
    points = np.arange(_TABLE_SIZE, dtype=np.int32)
    folded = points.copy()
    kind = np.full(_TABLE_SIZE, _OTHER, dtype=np.uint16)
    everything = points.tobytes().decode("utf-32-le", "surrogatepass")
    for run in re.finditer(r"[^\W_]+", everything):
        kind[run.start() : run.end()] = _LETTER
    for ranges, name in ((SCRIPT_RANGES, SCRIPT), (HAN_RANGES, _HAN)):
        for first, last in re.findall("(.)-(.)", ranges):
            kind[ord(first) : ord(last) + 1] = name
    for point in itertools.chain(*_CHANGING):
        char = chr(point)
        form = unicodedata.normalize("NFKC", char).casefold()
        if form != char:
            folded[point] = ord(form if len(form) == 1 else char.lower() if len(char.lower()) == 1 else char)
        if char.isdecimal():
            kind[point] = _DIGIT
        elif not char.isalnum() and unicodedata.category(char)[0] == "M":
            kind[point] = _LETTER
    folded[[ord(char) for char in _LOOKALIKES]] = [ord(char) for char in _LOOKALIKES.values()]
    source, target = _simplified()
    folded[source] = target
    folded = folded[folded[folded]]  # a compatibility form may fold to a traditional one
    plain = np.array([_without_accent(point) for point in folded.tolist()], dtype=np.int32)
    accented = (plain != folded).nonzero()[0].astype(np.int32)
    for chars, name in (("-_@&", _JOINT), ("+#", _PLUS), (".", _DOT), ("'", _QUOTE)):
        kind[[ord(char) for char in chars]] = name
    uses = np.zeros(16**3, dtype=np.uint8)
    for before, middle, after in itertools.product(range(_HAN + 1), repeat=3):
        uses[before << 8 | middle << 4 | after] = _use(before, middle, after)
    return Tables(plain - points, kind, uses, np.stack([accented, (folded - points)[accented]], axis=1))


def _without_accent(point: int) -> int:
    """The letter from a to z that this one is, with something above, below or through it; or the character itself."""
    char = chr(point)
    parts = _STROKES.get(char) or unicodedata.normalize("NFD", char)
    is_latin = parts[0].isascii() and parts[0].isalpha() and all(map(unicodedata.combining, parts[1:]))
    return ord(parts[0]) if is_latin else point


def _simplified() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    lines = Path(__file__).with_name("folding.txt").read_text("utf-8").splitlines()
    source, target = (np.array([ord(char) for char in line], dtype=np.int32) for line in lines[-2:])
    return source, target


def _use(before: int, kind: int, after: int) -> int:
    word = kind in _WORD or (kind == _QUOTE and before == after == _LETTER)
    edge = BREAK in (before, kind)
    seed = (
        # 3.14, a_b, PPR-9087, foo@bar
        (kind in (_JOINT, _PLUS, _DOT) and before in _WORD and after in _WORD)
        # AK47, 35cm
        or (kind in _WORD and after in _WORD and kind != after)
        # C++, C#
        or (kind == _PLUS and before in _WORD)
        # .NET
        or (kind == _DOT and before not in _CODE and after == _LETTER)
    )
    return (
        GRAM * (kind == BREAK or (kind in _CJK and (after in _CJK or before not in _CJK)))
        # Each run and one space after it.
        | HAN_TEXT * (edge or _HAN in (before, kind))
        | WORD_TEXT * (edge or word or before in _WORD)
        | WORD_CHAR * (word or kind == BREAK)
        | CODE_SEED * (seed or kind == BREAK)
        | CODE_CHAR * (kind in _CODE or kind == BREAK)
        | SCRIPT_CHAR * (kind in (SCRIPT, BREAK))
        | HAN_CHAR * (kind in (_HAN, BREAK))
    )


def composed(text: str) -> str:
    """The text with every letter and its accents as one character, where there is one. Nothing else is changed."""
    if unicodedata.is_normalized("NFC", text):
        return text
    return _IN_PARTS.sub(lambda found: unicodedata.normalize("NFC", found[0]), text)


@cache
def tables() -> Tables:
    """The tables that ship."""
    data = zlib.decompress(FILE.read_bytes())
    shift_end = _TABLE_SIZE * 4
    kind_end = shift_end + _TABLE_SIZE
    uses_end = kind_end + 16**3
    return Tables(
        np.frombuffer(data[:shift_end], dtype="<i4").astype(np.int32, copy=False),
        np.frombuffer(data[shift_end:kind_end], dtype=np.uint8).astype(np.uint16),
        np.frombuffer(data[kind_end:uses_end], dtype=np.uint8),
        np.frombuffer(data[uses_end:], dtype="<i4").astype(np.int32, copy=False).reshape(-1, 2),
    )


def packed(made: Tables) -> bytes:
    """The file's content."""
    shift, kind, uses, accents = made
    parts = (shift.astype("<i4"), kind.astype(np.uint8), uses, accents.astype("<i4"))
    return zlib.compress(b"".join(part.tobytes() for part in parts), 9)


if __name__ == "__main__":
    FILE.write_bytes(packed(made()))
