"""Hits -> one of every family of near-duplicates, with the names of the others.

Two passages are near-duplicates when most runs of four words (or Chinese characters) of either stand in the other: a
page and its copy with another header, two versions of a notice. The first in rank stands for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final
from zlib import crc32

import numpy as np

from headwater.protocols import Retriever
from headwater.stages._request import Watch, first, made, wanted
from headwater.tokens import fold
from headwater.types import Hit, Query, Results

STAGE = "collapse"
# Broder's shingling: runs of four tokens tell a copy from a passage on the same subject.
SHINGLE_TOKENS: Final = 4
# Of a passage's shingles the smallest so many hashes stand for it: enough to tell 0.9 from 0.7 nearly always.
SKETCH: Final = 64
# Shared shingles of all: a copy with one sentence changed in twenty keeps about this much. With 0.8 two reports of one
# event were taken for one, and the one that answers stood behind the other (docs/evaluation.md).
SAME: Final = 0.9
# Asked of the one inside at once: most searches have few duplicates.
OVER_FETCH: Final = 2
_TOKEN: Final = re.compile("[\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]|[^\\W_\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff]+")
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


class Collapsed:
    """A Retriever without near-duplicates: each stands behind the best of its family, which names it."""

    def __init__(self, inner: Retriever) -> None:
        self._inner = inner

    def retrieve(self, query: Query) -> Results:
        """As many hits as asked for, if the one inside has so many that differ."""
        watch, need = Watch(query), wanted(query)
        count = need * OVER_FETCH
        while True:
            asked = first(query, count)
            results = watch.inside(lambda asked=asked: self._inner.retrieve(asked))  # type: ignore[misc]
            seen = results.hits[:count]
            kept = families(seen)
            if len(kept) >= need or len(seen) < count or watch.left == 0.0:
                break
            count *= OVER_FETCH
        return made(results, kept[:need], stage=STAGE, watch=watch, fewer=len(seen) - len(kept))


def families(hits: Sequence[Hit]) -> list[Hit]:
    """The first of each family, in order, with the names of the others."""
    sketches: list[frozenset[int]] = []
    members: list[list[Hit]] = []
    for hit in hits:
        own = sketch(hit.chunk.text)
        at = next((number for number, other in enumerate(sketches) if alike(own, other)), None)
        if at is None:
            sketches.append(own)
            members.append([hit])
        else:
            members[at].append(hit)
    return [_standing_for(best, others) for best, *others in members]


def sketch(text: str) -> frozenset[int]:
    """The smallest hashes of the runs of tokens; of a text shorter than a run, of all of it."""
    tokens = _TOKEN.findall(fold(text))
    hashes = np.array([crc32(token.encode("utf-8", "surrogatepass")) for token in tokens], dtype=np.uint64)
    if len(hashes) < SHINGLE_TOKENS:
        return frozenset([crc32(" ".join(tokens).encode("utf-8", "surrogatepass"))])
    runs = np.zeros(len(hashes) - SHINGLE_TOKENS + 1, dtype=np.uint64)
    for step in range(SHINGLE_TOKENS):
        runs = (runs ^ hashes[step : step + len(runs)]) * _PRIME
    return frozenset(np.unique(runs ^ (runs >> np.uint64(29)))[:SKETCH].tolist())


def alike(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether the texts behind two sketches share most of their runs: Jaccard, estimated from the smallest of both."""
    size = min(SKETCH, max(len(one), len(other)))
    smallest = frozenset(sorted(one | other)[:size])
    return len(smallest & one & other) >= SAME * len(smallest)


def _standing_for(best: Hit, others: Iterable[Hit]) -> Hit:
    behind = tuple(others)
    if not behind:
        return best
    said = f"also in: {', '.join(dict.fromkeys(other.uri for other in behind))}"
    names = tuple(other.chunk.name for other in behind)
    return replace(best, duplicates=(*best.duplicates, *names), reasons=(*best.reasons, said))
