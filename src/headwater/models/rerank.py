"""A question and passages -> how well each answers, by the vectors of their pieces: needs no download.

Late interaction: every piece of the question looks for the piece most like it within a window of the passage, and the
best window counts (ColBERT's MaxSim, Khattab and Zaharia, SIGIR 2020, over the vectors of the bundled model). A window
instead of the whole passage makes nearness count. Pairs of pieces that stand side by side in both count on top. What
the passages came with counts as much as the best of them covers of the question: where words are shared it is right
already, and across languages it is not. The same goes for the cosine of another embedder, where there is one, which
counts as much as is known to suit it (`known.reranking_of`). The weights of the other three were fitted on questions
made from texts that are in none of the sets of docs/evaluation.md, which tells how.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from threading import Lock
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.errors import BackendError
from headwater.models._pieces import Pieces, load
from headwater.types import Hit

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

# Fitted (bench/rerank.py), as shares of what a passage came with.
WINDOW_WEIGHT: Final = 0.65
PAIR_WEIGHT: Final = 0.05
# Pieces to a block, and blocks to a window: 32 pieces are about two sentences. 64 and whole passages measured worse.
BLOCK: Final = 16
WINDOW_BLOCKS: Final = 2
BM25_K1: Final = 1.2
BM25_B: Final = 0.75
# Pieces of a passage that are looked at: four times a chunk of the usual size. A book as one chunk stays affordable.
MAX_PIECES: Final = 4096
MAX_QUESTION_PIECES: Final = 96  # of a page that was pasted as a question, the first
CACHED_PASSAGES: Final = 8192  # about 16 MB of piece numbers
BATCH: Final = 128  # passages cut at a time: the deadline is looked at in between
# Multiplications in one product of vectors. OpenBLAS wakes its threads for more than that, and on cores that are busy
# waiting for them takes ten times as long as doing without; and so little of the table stays in a core's cache.
PRODUCT: Final = 1 << 18
LEAST_AT_ONCE: Final = 16
# What the first call of a process needs to make ready, in seconds, on one core of 2020.
START_SECONDS: Final = 0.15


class _Question(NamedTuple):
    """The different pieces of a question, their shares of its meaning and rarity, and which stand side by side."""

    pieces: Ids
    vectors: Floats  # of length 1
    weights: Floats  # by the length that a piece's vector has in the model: rare and telling pieces have long ones
    rarities: Floats  # by how unlikely a piece is
    pairs: dict[tuple[int, int], float]  # places in `pieces`, with shares


class LateInteraction:
    """The built-in reranker. Loads on the first call; safe for use from several threads."""

    instant = True  # it looks at the deadline itself and waits for nobody

    fingerprint = "late-interaction/2"

    def __init__(self, *, meaning_weight: float = 0.0) -> None:
        """`meaning_weight` is what the cosine that a passage came with counts; for embedders that know better."""
        self._meaning_weight = meaning_weight
        self._cut: OrderedDict[tuple[int, int, int], Ids] = OrderedDict()
        self._lock = Lock()

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
        """One relevance per hit, higher is better. Raises BackendError when the time is over before it is done."""
        if not hits:
            return []
        deadline = perf_counter() + deadline_seconds
        model = load()
        if deadline_seconds < START_SECONDS and not model.is_ready:
            raise BackendError(f"{deadline_seconds * 1000:.0f} ms are left, and its start takes {START_SECONDS:g} s")
        passages = self._passages(model, hits, deadline)
        before = np.array([max(hit.score, 0.0) for hit in hits], dtype=np.float32)
        before /= max(float(before.max()), 1e-9)
        asked = _question(model, question)
        if asked is None or not any(map(len, passages)):
            return [float(score) for score in before]
        # All numbers are finite. Now and then a BLAS warns of an invalid one all the same.
        with np.errstate(invalid="ignore"):
            found = evidence(model, asked, passages)
        if self._meaning_weight:
            before = before + self._meaning_weight * _meaning(hits)
        total = before * found.covered + WINDOW_WEIGHT * found.windows + PAIR_WEIGHT * found.pairs
        return [float(score) for score in total]

    def _passages(self, model: Pieces, hits: Sequence[Hit], deadline: float) -> list[Ids]:
        """The pieces of each passage; those of an earlier question need no cutting."""
        keys = [(hit.chunk.id, *hit.chunk.span) for hit in hits]
        with self._lock:
            known = {key: self._cut[key] for key in keys if key in self._cut}
        strange = {key: hit.chunk.text for key, hit in zip(keys, hits, strict=True) if key not in known}
        for batch in _batches(list(strange.items()), BATCH):
            if perf_counter() >= deadline:
                raise BackendError("no time was left to read the passages")
            cut = model.cut([text for _, text in batch])
            # A copy: what is kept of a book must not keep all of it.
            known |= {key: pieces[:MAX_PIECES].copy() for (key, _), pieces in zip(batch, cut, strict=True)}
        with self._lock:
            for key in keys:
                self._cut[key] = known[key]
                self._cut.move_to_end(key)
            while len(self._cut) > CACHED_PASSAGES:
                self._cut.popitem(last=False)
        return [known[key] for key in keys]


def _meaning(hits: Sequence[Hit]) -> Floats:
    """The cosines that hits came with, stretched over 0 to 1; one that only words found is not near in meaning."""
    cosines = np.array([hit.scores.get("semantic", np.nan) for hit in hits], dtype=np.float32)
    known = cosines[~np.isnan(cosines)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
    stretched = (cosines - low) / (high - low) if high > low else np.ones_like(cosines)
    return np.where(np.isnan(cosines), np.float32(0.0), stretched).astype(np.float32)


def _batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _question(model: Pieces, text: str) -> _Question | None:
    """The question's pieces; None where the model knows none of them."""
    cut = model.cut([text])[0][:MAX_QUESTION_PIECES].tolist()
    order = list(dict.fromkeys(cut))
    pieces = np.array(order, dtype=np.int32)
    vectors = model.table[pieces].astype(np.float32)
    lengths = np.linalg.norm(vectors, axis=1).astype(np.float32)
    weights = lengths * model.scales[pieces]
    if not weights.any():
        return None
    weights = (weights / weights.sum()).astype(np.float32)
    rarities = -model.scores[pieces].astype(np.float32)
    place = {piece: number for number, piece in enumerate(order)}
    beside = dict.fromkeys((place[a], place[b]) for a, b in pairwise(cut) if a != b)
    shares = {pair: float(min(weights[pair[0]], weights[pair[1]])) for pair in beside}
    whole = sum(shares.values())
    return _Question(
        pieces=pieces,
        vectors=vectors / np.maximum(lengths, np.float32(1e-9))[:, None],
        weights=weights,
        rarities=rarities / max(float(rarities.sum()), 1e-9),
        pairs={pair: share / whole for pair, share in shares.items()} if whole else {},
    )


class Evidence(NamedTuple):
    """What speaks for each passage, and how much of the question the best of them covers."""

    windows: Floats  # the question's pieces in the best window, 0 to 1
    pairs: Floats  # the question's pairs of neighbours, 0 to 1
    covered: float


def evidence(model: Pieces, asked: _Question, passages: Sequence[Ids]) -> Evidence:
    """All passages at once: one product of the question's pieces with the different pieces of all passages."""
    count, wide = len(passages), len(asked.pieces)
    nothing = np.zeros(1, dtype=np.int32)
    lengths = np.array([max(len(pieces), 1) for pieces in passages])
    joined = np.concatenate([pieces if len(pieces) else nothing for pieces in passages])
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    owner = np.repeat(np.arange(count), lengths)
    # Of the question's pieces which one stands at each place, from 1; 0 for another.
    code = np.zeros(len(model.scales), dtype=np.int32)
    code[asked.pieces] = np.arange(1, wide + 1)
    codes = code[joined]
    counts = np.bincount(owner * (wide + 1) + codes, minlength=count * (wide + 1)).reshape(count, wide + 1)[:, 1:]
    windows = _windows(model, asked, joined, lengths=lengths, starts=starts)
    windows[[not len(pieces) for pieces in passages]] = 0.0
    return Evidence(windows, _pairs(asked, codes, owner, count=count), _covered(asked, counts, lengths))


def _windows(
    model: Pieces, asked: _Question, joined: Ids, *, lengths: npt.NDArray[Any], starts: npt.NDArray[Any]
) -> Floats:
    seen = np.zeros(len(model.scales), dtype=bool)
    seen[joined] = True
    different = np.flatnonzero(seen)
    place = np.zeros(len(seen), dtype=np.int32)
    place[different] = np.arange(len(different))
    cosines = _cosines(model, asked, different)[:, place[joined]]
    blocks = -(-lengths // BLOCK)
    first = np.concatenate(([0], np.cumsum(blocks)[:-1]))
    owner = np.repeat(np.arange(len(lengths)), blocks)
    best = np.maximum.reduceat(cosines, starts[owner] + (np.arange(len(owner)) - first[owner]) * BLOCK, axis=1)
    window = best.copy()
    for step in range(1, WINDOW_BLOCKS):
        same = owner[:-step] == owner[step:]
        window[:, :-step] = np.where(same, np.maximum(window[:, :-step], best[:, step:]), window[:, :-step])
    found: Floats = np.maximum.reduceat(asked.weights @ window, first).astype(np.float32)
    return found


def _cosines(model: Pieces, asked: _Question, different: npt.NDArray[Any]) -> Floats:
    """Of each piece of the question with each of these, a few at a time: see PRODUCT."""
    found = np.empty((len(asked.pieces), len(different)), dtype=np.float32)
    step = max(LEAST_AT_ONCE, PRODUCT // asked.vectors.size)
    for start in range(0, len(different), step):
        vectors = model.table[different[start : start + step]].astype(np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        found[:, start : start + step] = asked.vectors @ vectors.T / np.maximum(lengths, np.float32(1e-9))
    return found


def _pairs(asked: _Question, codes: Ids, owner: npt.NDArray[Any], *, count: int) -> Floats:
    if not asked.pairs or len(codes) < 2:
        return np.zeros(count, dtype=np.float32)
    wide = len(asked.pieces) + 1
    number = np.full(wide * wide, -1, dtype=np.int32)
    for index, (one, other) in enumerate(asked.pairs):
        number[(one + 1) * wide + other + 1] = index
    pair = number[codes[:-1] * wide + codes[1:]]
    places = np.flatnonzero((pair >= 0) & (owner[:-1] == owner[1:]))
    there = np.zeros((count, len(asked.pairs)), dtype=np.float32)
    there[owner[places], pair[places]] = 1.0
    return there @ np.array(list(asked.pairs.values()), dtype=np.float32)


def _covered(asked: _Question, counts: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> float:
    """The best share of the question's pieces that one passage holds, by rarity, repeated ones counting as in BM25."""
    norm = BM25_K1 * (1 - BM25_B + BM25_B * lengths / lengths.mean())
    return float(((counts / (counts + norm[:, None])) @ asked.rarities).max())
