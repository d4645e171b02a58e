"""Texts -> which of them say nearly the same: sketches that can be compared, and families.

A sketch is what is smallest among the hashes of a text's overlapping stretches of letters, in each of 64 drawers (one
permutation hashing): two texts agree in as many drawers as they share of their stretches. Case, blanks and punctuation
do not count, so it works alike for Chinese and English. All in numpy: some 30 million characters a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Final

import numpy as np
import numpy.typing as npt

Sketch = npt.NDArray[np.uint32]  # shape (DRAWERS,)
Sketches = npt.NDArray[np.uint32]  # shape (n, DRAWERS)

DRAWERS: Final = 64
EMPTY: Final = np.uint32(0xFFFF_FFFF)
# Four letters: two Chinese words, most of an English one. Shorter ones are shared by chance, longer ones by nobody
# after a few edits.
STRETCH: Final = 4
# Two texts that share so much of their stretches say the same to a reader: one word in twenty may differ.
ALIKE: Final = 0.7
# Below this a text has too few stretches to be told by them; then only equal texts are alike.
MIN_LETTERS: Final = 24
# A text is looked at in pieces: a character takes forty bytes on the way.
PIECE_CHARS: Final = 1 << 20
# Two sketches that agree in all drawers of some band are compared: 9 times of 10 at a likeness of 0.8, always at 0.9.
# More bands would find a few more and cost a row each.
BANDS, BAND_DRAWERS = 6, 5
_MIX, _MIX_AGAIN = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64(0xBF58_476D_1CE4_E5B9)
_BEYOND: Final = 0x10000  # what the table of letters knows
_DRAWER_BITS: Final = np.uint64(58)  # the upper 6 of 64 bits choose one of the 64 drawers


def sketch(text: str) -> Sketch:
    """What can be compared of a text; a short one has a sketch of its own."""
    drawers = np.full(DRAWERS, EMPTY, dtype=np.uint32)
    letters = np.empty(0, dtype=np.uint64)  # those that a stretch may begin with
    filled = False
    for start in range(0, len(text), PIECE_CHARS):
        letters = np.concatenate((letters, _letters(text[start : start + PIECE_CHARS])))
        if filled or len(letters) >= MIN_LETTERS:
            _fill(drawers, letters)
            letters, filled = letters[1 - STRETCH :], True
    if filled:
        return drawers
    # Of all of it at once, in every drawer: equal for equal texts and for no others.
    whole = np.uint64(0)
    for letter in letters.tolist():
        whole = _mixed(np.array([whole ^ np.uint64(letter)], dtype=np.uint64))[0]
    return np.full(DRAWERS, np.uint32(int(whole) & 0xFFFF_FFFE), dtype=np.uint32)


def _fill(drawers: Sketch, letters: npt.NDArray[np.uint64]) -> None:
    """Put what is smallest of these letters' stretches into the drawers."""
    if len(letters) < STRETCH:
        return
    stretches = np.zeros(len(letters) - STRETCH + 1, dtype=np.uint64)
    for place in range(STRETCH):
        # A letter takes 21 bits at most; four of them are folded into 64, which no stretch in use collides in.
        stretches = stretches * np.uint64(2_097_169) + letters[place : place + len(stretches)]
    hashes = _mixed(stretches)
    drawer, value = (hashes >> _DRAWER_BITS).astype(np.intp), hashes.astype(np.uint32)
    np.minimum.at(drawers, drawer, value)


def _letters(text: str) -> npt.NDArray[np.uint64]:
    """The letters and digits of a text, small, as numbers; rare signs beyond the table are all one letter."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    if len(codes) and int(codes.max()) >= _BEYOND:
        codes = np.minimum(codes, _BEYOND - 1)
    signs = _table()[codes]
    letters: npt.NDArray[np.uint64] = signs[signs > 0]
    return letters


@cache
def _table() -> npt.NDArray[np.uint64]:
    """For each sign the letter it stands for: itself made small, or 0 where it is blank or punctuation."""
    signs = (chr(code) for code in range(_BEYOND))
    table = np.array([ord(sign.lower()[0]) if sign.isalnum() else 0 for sign in signs], dtype=np.uint64)
    table[-1] = _BEYOND - 1
    return table


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread over all 64 bits (splitmix64)."""
    with np.errstate(over="ignore"):
        values = (values + _MIX) * _MIX_AGAIN
        values ^= values >> np.uint64(29)
        values *= _MIX
        mixed: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(32))
    return mixed


def likeness(one: Sketch, others: Sketches) -> npt.NDArray[np.float64]:
    """The share of their stretches that a text has in common with each of the others, about."""
    used = (one != EMPTY) | (others != EMPTY)
    equal = (one == others) & used
    share: npt.NDArray[np.float64] = equal.sum(axis=-1) / np.maximum(1, used.sum(axis=-1))
    return share


def families(texts: Sequence[str], *, alike: float = ALIKE) -> list[int]:
    """For each text the place of the first one that says nearly the same: its own where none before it does."""
    found: list[int] = []
    sketches = np.zeros((len(texts), DRAWERS), dtype=np.uint32)
    for place, text in enumerate(texts):
        sketches[place] = sketch(text)
        shares = likeness(sketches[place], sketches[:place])
        nearest = int(shares.argmax()) if place else 0
        found.append(found[nearest] if place and shares[nearest] >= alike else place)
    return found


def packed(drawers: Sketch) -> bytes:
    """A sketch to store, 128 bytes: 16 bits a drawer, which two texts share by chance once in 65,536."""
    return drawers.astype("<u2").tobytes()


def unpacked(stored: Sequence[bytes]) -> Sketches:
    """The opposite of `packed`, for several, as far as 16 bits go."""
    rows = np.frombuffer(b"".join(stored), dtype="<u2").reshape(len(stored), DRAWERS).astype(np.uint32)
    return np.where(rows == 0xFFFF, EMPTY, rows).astype(np.uint32)


def bands(stored: bytes, scope: str) -> list[int]:
    """Numbers of which two stored sketches of the same scope have one in common where they are alike."""
    width = 2 * BAND_DRAWERS
    named = scope.encode("utf-8", "surrogatepass")
    found = []
    for band in range(BANDS):
        part = blake2b(stored[band * width : (band + 1) * width], digest_size=8, key=bytes([band])).digest()
        found.append(int.from_bytes(blake2b(part + named, digest_size=8).digest(), "big", signed=True))
    return found
