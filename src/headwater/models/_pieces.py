"""The bundled model's vocabulary: text -> pieces, and each piece's vector. Shared by what embeds and what reranks."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from headwater.errors import BackendError

Bytes = np.ndarray[Any, np.dtype[np.bytes_]]
Codes = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.floating[Any]]]

# Up to so many texts are cut by ourselves: loading the tokenizer takes as long as cutting a thousand.
FEW_TEXTS = 8
# What a character that is no piece costs, on top of the unlikeliest piece: as in `tokenizers`.
UNKNOWN_PENALTY = 10.0
UNKNOWN = "[UNK]"
FOLDER = Path(__file__).parent / "static_data"
RUNS = re.compile(r"[a-z]+|[0-9]+|[\u3400-\u9fff]+|[^\W_a-z0-9\u3400-\u9fff]+")


@dataclass(frozen=True)
class Pieces:
    """The loaded model. All of it is read-only, so threads share it. Pieces are sorted by their bytes."""

    pieces: Bytes  # memory-mapped, as is the table
    scores: Numbers  # log-probabilities
    table: Codes  # 256 bytes a piece
    scales: Numbers
    fold: dict[int, str]
    steps: int

    @property
    def is_ready(self) -> bool:
        """Whether what cuts many texts is loaded."""
        return "_tokenizer" in self.__dict__

    def runs(self, text: str) -> list[str]:
        """The stretches of letters, digits or Chinese characters of a text, in the spelling the model knows."""
        plain = unicodedata.normalize("NFKC", text).lower()
        return RUNS.findall(plain if plain.isascii() else plain.translate(self.fold))

    def segment(self, texts: Sequence[list[str]]) -> list[list[int]]:
        """The pieces of each text. A few runs are cut here; for many, the tokenizer's own threads are worth loading."""
        words = self._words if len(texts) > FEW_TEXTS else {}
        strange = sorted({run for runs in texts for run in runs if run not in words})
        cut = self._cut_many(strange) if words else {run: self._cut(run) for run in strange}
        return [[piece for run in runs for piece in ((words[run],) if run in words else cut[run])] for runs in texts]

    def _cut(self, run: str) -> list[int]:
        """The likeliest pieces of a run: the Viterbi path that `tokenizers` takes, ties and all."""
        places = [(i, j) for i in range(len(run)) for j in range(i + 1, min(len(run), i + self._longest) + 1)]
        best: list[tuple[float, int, int]] = [(0.0, 0, -1)] + [(-math.inf, 0, -1)] * len(run)
        for (start, end), piece in zip(places, self._find([run[i:j] for i, j in places]), strict=True):
            if piece >= 0:
                likelihood = best[start][0] + float(self.scores[piece]) / self.steps
            elif end == start + 1:
                likelihood = best[start][0] + self._unknown_score
            else:
                continue
            if likelihood > best[end][0]:
                best[end] = (likelihood, start, piece)
        found, place = [], len(run)
        while place:
            _, place, piece = best[place]
            if piece >= 0:
                found.append(piece)
        return found[::-1]

    def _find(self, texts: Sequence[str]) -> list[int]:
        """The number of each text's piece, or -1."""
        encoded = (text.encode() for text in texts)
        wanted = np.array([one if len(one) <= self._longest else b"" for one in encoded], dtype=self.pieces.dtype)
        places = np.minimum(np.searchsorted(self.pieces, wanted), len(self.pieces) - 1)
        found: list[int] = np.where(self.pieces[places] == wanted, places, -1).tolist()
        return found

    @cached_property
    def _longest(self) -> int:
        return int(self.pieces.dtype.itemsize)

    @cached_property
    def _unknown_score(self) -> float:
        return float(self.scores.min()) / self.steps - UNKNOWN_PENALTY

    @cached_property
    def _words(self) -> dict[str, int]:
        """Latin words and numbers that are one piece: most of English needs no segmentation."""
        listed = ((piece.decode(), number) for number, piece in enumerate(self.pieces.tolist()))
        return {piece: number for piece, number in listed if piece.isascii() and piece.isalnum()}

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer, models

        scored = zip(self.pieces.tolist(), (self.scores / self.steps).tolist(), strict=True)
        vocabulary = [(piece.decode(), score) for piece, score in scored]
        return Tokenizer(models.Unigram(vocabulary, unk_id=self._unknown, byte_fallback=False))

    @cached_property
    def _unknown(self) -> int:
        return self._find([UNKNOWN])[0]

    def _cut_many(self, runs: Sequence[str]) -> dict[str, list[int]]:
        cut = self._tokenizer.encode_batch_fast(runs, add_special_tokens=False)
        return {run: [n for n in found.ids if n != self._unknown] for run, found in zip(runs, cut, strict=True)}


_LOADING = Lock()


@cache
def _read(folder: Path) -> Pieces:
    try:
        card = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        fold = json.loads((folder / "fold.json").read_text(encoding="utf-8"))
        return Pieces(
            pieces=np.load(folder / "pieces.npy", mmap_mode="r"),
            scores=np.load(folder / "scores.npy").astype(np.float64),
            table=np.load(folder / "weights.npy", mmap_mode="r"),
            scales=np.load(folder / "scales.npy").astype(np.float32),
            fold=str.maketrans(fold),
            steps=card["score_steps"],
        )
    except (OSError, ValueError) as error:
        raise BackendError(f"the bundled model cannot be read ({error}): install headwater again") from error


def load(folder: Path = FOLDER) -> Pieces:
    """The model, read once for all that use it."""
    with _LOADING:
        return _read(folder)
