"""The bundled model's vocabulary: text -> pieces, and each piece's vector. Shared by what embeds and what reranks.

`native/pieces.c` cuts and adds up in C, ten times as fast, where it could be compiled. Without it, a few texts are cut
here and many by `tokenizers`: the pieces are the same.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from headwater.errors import BackendError

try:
    from headwater import _native_pieces as native
except ImportError:  # no compiler was there when it was installed
    native = None  # type: ignore[assignment]

Bytes = np.ndarray[Any, np.dtype[np.bytes_]]
Codes = np.ndarray[Any, np.dtype[np.int8]]
Numbers = np.ndarray[Any, np.dtype[np.floating[Any]]]
Ids = np.ndarray[Any, np.dtype[np.int32]]
Vectors = np.ndarray[Any, np.dtype[np.float32]]

# Up to so many texts are cut by looking pieces up in the file; for more, a tree or a dictionary of them is made.
FEW_TEXTS = 8
# So many characters are cut by ourselves before the tokenizer is loaded, which takes as long: one search reranks half
# of it, so a command that searches once never loads it.
CHARS_BEFORE_LOADING = 60_000
# What a character that is no piece costs, on top of the unlikeliest piece: as in `tokenizers`.
UNKNOWN_PENALTY = 10.0
UNKNOWN = "[UNK]"
FOLDER = Path(__file__).parent / "static_data"
# Han and hangul: none has another form, but for `fold`.
UNCHANGED = ((0x3400, 0x9FFF), (0xAC00, 0xD7A3))
# Characters that no other beside them changes when text is normalized and put into lower case: Latin and Cyrillic
# letters, signs, kana, wide and narrow forms. Not Greek, whose last sigma differs, nor anything that combines.
LONE = (
    *((0x00, 0x24F), (0x400, 0x482), (0x48A, 0x52F), (0x2010, 0x2027), (0x2030, 0x205E), (0x2190, 0x23FF)),
    *((0x2500, 0x27BF), (0x3000, 0x3029), (0x3030, 0x303F), (0x3041, 0x3096), (0x30A1, 0x30FE), (0xFF01, 0xFF9D)),
)
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
        return "_native" in self.__dict__ or "_numbers" in self.__dict__

    def cut(self, texts: Sequence[str]) -> list[Ids]:
        """The pieces of each text, in order."""
        if not self._compiled(len(texts)):
            return [np.array(found, dtype=np.int32) for found in self.segment(texts)]
        return [np.frombuffer(found, dtype=np.int32) for found in self._native.cut(texts)]

    def embed(self, texts: Sequence[str], out: Vectors, *, damping: float) -> None:
        """Write each text's vector into its row, all zeros where the model knows nothing of it.

        It is the sum of its pieces; a piece seen n times counts n ** damping, so that no word drowns the others.
        """
        if self._compiled(len(texts)):
            self._native.embed(texts, out, out.shape[1], damping)
            return
        for row, pieces in zip(out, self.segment(texts), strict=True):
            self._sum(pieces, row, damping)

    def _compiled(self, texts: int) -> bool:
        """Whether so many texts are for the compiled code. Its tree of pieces is not made for one question alone."""
        return native is not None and (texts > FEW_TEXTS or "_native" in self.__dict__)

    def _sum(self, pieces: list[int], out: Vectors, damping: float) -> None:
        counts = Counter(pieces)
        which = np.fromiter(counts.keys(), np.int64, len(counts))
        weights = np.fromiter(counts.values(), np.float32, len(counts)) ** np.float32(damping) * self.scales[which]
        np.matmul(weights, self.table[which, : len(out)].astype(np.float32), out=out)
        length = np.sqrt(np.dot(out, out))
        if length > 0:
            out /= length

    @cached_property
    def _native(self) -> native.Pieces:
        return native.Pieces(
            spelled=self.pieces,
            likelihoods=self.scores / self.steps,
            unknown=self._unknown_score,
            spelling=self._spelling(),
            plain=_plain,
            fold=self.fold,
            table=self.table,
            scales=self.scales,
        )

    def _spelling(self) -> Ids:
        """Of each character what `runs` has for it, wherever it stands; -1 where that depends on those around it."""
        found = np.full(1 << 16, -1, dtype=np.int32)
        for first, last in LONE:
            for char in map(chr, range(first, last + 1)):
                form = _plain(char).translate(self.fold)
                found[ord(char)] = ord(form) if len(form) == 1 else -1 if any(map(str.isalnum, form)) else ord(" ")
        for first, last in UNCHANGED:
            found[first : last + 1] = np.arange(first, last + 1)
        for point, form in self.fold.items():
            found[point] = ord(form) if found[point] == point else found[point]
        return found

    def runs(self, text: str) -> list[str]:
        """The stretches of letters, digits or Chinese characters of a text, in the spelling the model knows."""
        plain = _plain(text)
        return RUNS.findall(plain if plain.isascii() else plain.translate(self.fold))

    def segment(self, given: Sequence[str]) -> list[list[int]]:
        """`cut` without a compiler. A few are cut here; for many, the tokenizer's own threads are worth loading."""
        texts = [self.runs(text) for text in given]
        if len(texts) <= FEW_TEXTS:
            words = self._words([run for runs in texts for run in runs if run.isascii()])
            return [
                [p for run in runs for p in ((words[run],) if run in words else self._cut(run, self._looked_up(run)))]
                for runs in texts
            ]
        numbers = self._numbers
        known = {run for runs in texts for run in runs if run.isascii() and run in numbers}
        strange = sorted({run for runs in texts for run in runs if run not in known})
        self._cut_here[0] += sum(map(len, strange))
        if self._cut_here[0] > CHARS_BEFORE_LOADING:
            cut = self._cut_many(strange)
        else:
            cut = {run: self._cut(run, self._numbers) for run in strange}
        return [[piece for run in runs for piece in ((numbers[run],) if run in known else cut[run])] for runs in texts]

    def _cut(self, run: str, numbers: Mapping[str, int]) -> list[int]:
        """The likeliest pieces of a run: the Viterbi path that `tokenizers` takes, ties and all."""
        likelihoods, unknown, size = self._likelihoods, self._unknown_score, len(run)
        longest = self._longest // (1 if run.isascii() else 3 if "\u3400" <= run[0] <= "\u9fff" else 2)  # bytes each
        best, came_from, last = [0.0] + [-math.inf] * size, [0] * (size + 1), [-1] * (size + 1)
        for start in range(size):
            before = best[start]
            for end in range(start + 1, min(size, start + longest) + 1):
                piece = numbers.get(run[start:end], -1)
                if piece >= 0:
                    likelihood = before + likelihoods[piece]
                elif end == start + 1:
                    likelihood = before + unknown
                else:
                    continue
                if likelihood > best[end]:
                    best[end], came_from[end], last[end] = likelihood, start, piece
        found, place = [], size
        while place:
            if last[place] >= 0:
                found.append(last[place])
            place = came_from[place]
        return found[::-1]

    def known(self, words: Sequence[str]) -> frozenset[str]:
        """Those of the words that are a piece as they are."""
        return frozenset(self._words(words))

    def _words(self, runs: Sequence[str]) -> dict[str, int]:
        """Those of the runs that are a piece as they are: all are looked for at once."""
        return {run: number for run, number in zip(runs, self._find(runs), strict=True) if number >= 0} if runs else {}

    def _looked_up(self, run: str) -> dict[str, int]:
        """The pieces inside a run, found in the file."""
        parts = {run[i:j] for i in range(len(run)) for j in range(i + 1, min(len(run), i + self._longest) + 1)}
        listed = sorted(parts)
        return {part: number for part, number in zip(listed, self._find(listed), strict=True) if number >= 0}

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
    def _likelihoods(self) -> list[float]:
        found: list[float] = (self.scores / self.steps).tolist()
        return found

    @cached_property
    def _unknown_score(self) -> float:
        return float(self.scores.min()) / self.steps - UNKNOWN_PENALTY

    @cached_property
    def _spelled(self) -> list[str]:
        return b"\n".join(self.pieces.tolist()).decode().split("\n")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return dict(zip(self._spelled, range(len(self.pieces)), strict=True))

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer, models

        vocabulary = list(zip(self._spelled, self._likelihoods, strict=True))
        return Tokenizer(models.Unigram(vocabulary, unk_id=self._unknown, byte_fallback=False))

    @cached_property
    def _cut_here(self) -> list[int]:
        return [0]  # characters, so far

    @cached_property
    def _unknown(self) -> int:
        return self._find([UNKNOWN])[0]

    def _cut_many(self, runs: Sequence[str]) -> dict[str, list[int]]:
        cut, unknown = self._tokenizer.encode_batch_fast(runs, add_special_tokens=False), self._unknown
        found = [one.ids for one in cut]
        known = ([n for n in ids if n != unknown] if unknown in ids else ids for ids in found)
        return dict(zip(runs, known, strict=True))


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


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
