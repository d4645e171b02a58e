"""Texts -> vectors without a model: every word and every pair of characters is hashed onto a few dimensions.

Texts that share words come out near each other, and so do different spellings and inflections that share stems or pairs
of characters. It knows no synonyms. It needs no download, and gives the same numbers on every machine, for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Final, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from headwater.errors import SettingError
from headwater.tokens import Cutter
from headwater.types import Matrix

# Each term is spread over four places: two terms that collide in one of them still differ in the others.
_PLACES: Final = 4
# Of the 64 bits a term is mixed to, each place takes fifteen and its sign one.
_PLACE_BITS: Final = 15
# Texts at a time: cutting is fastest with some dozens, and the arrays in between stay small.
_BATCH: Final = 64
# Bytes of UTF-8 beyond which a longer term says no more: nine letters, three Chinese characters.
_MAX_BYTES: Final = 9


class HashedEmbedder:
    """A projection of hashed terms. The role makes no difference: a question is weighed like a passage."""

    def __init__(self, *, dim: int = 256) -> None:
        if not isinstance(dim, int) or not 8 <= dim <= 1 << _PLACE_BITS:
            raise SettingError(f"embed.dim must be a whole number from 8 to {1 << _PLACE_BITS}, got {dim!r}")
        self.dim = dim
        self.fingerprint = f"hashed-{dim}/1"

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        """One unit row per text; a text without a single term gets zeros."""
        parts = [self._batch(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        return np.concatenate(parts) if parts else np.zeros((0, self.dim), dtype=np.float32)

    def _batch(self, texts: Sequence[str]) -> Matrix:
        counted = [Counter(f"{words} {grams}".split()) for words, grams, _ in _cutter().cut_many(texts)]
        terms = list(map(str.encode, chain.from_iterable(counted)))
        counts = np.fromiter(chain.from_iterable(found.values() for found in counted), np.float64, len(terms))
        lengths = np.fromiter(map(len, terms), np.float64, len(terms))
        # A word that occurs twice says more than one that occurs once, but not twice as much. And without a corpus to
        # count in, length is the best sign of how much a term tells: `the` and `的` are short.
        weights = (1.0 + np.log(counts)) * np.minimum(lengths, _MAX_BYTES) / _MAX_BYTES
        bits = _mixed(np.fromiter(map(crc32, terms), np.uint64, len(terms)))
        rows = np.repeat(np.arange(len(texts)) * self.dim, [len(found) for found in counted])
        flat = np.zeros(len(texts) * self.dim)
        for place in range(_PLACES):
            part = (bits >> np.uint64(place * (_PLACE_BITS + 1))).astype(np.int64)
            places = rows + (part & ((1 << _PLACE_BITS) - 1)) % self.dim
            signs = np.where(part & (1 << _PLACE_BITS), 1.0, -1.0)
            flat += np.bincount(places, weights=signs * weights, minlength=len(flat))
        matrix = flat.reshape(len(texts), self.dim)
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        unit: Matrix = np.divide(matrix, norms, out=np.zeros_like(matrix), where=norms > 0).astype(np.float32)
        return unit


@cache
def _cutter() -> Cutter:
    return Cutter(accents=True)  # the same numbers for ever


def _mixed(seeds: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Every bit of the seed into every bit of the result: the finalizer of SplitMix64 (Steele, Lea, Flood; 2014)."""
    bits = seeds + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
