"""A question and texts -> how near each piece of the question comes to something in each text, by the bundled model.

Late interaction, sentence by sentence: what other words or another language say of the question counts as far as their
vectors agree. Needs no download.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.models._pieces import load

Floats = npt.NDArray[np.float32]

MAX_QUESTION_PIECES: Final = 96  # of a page that was pasted as a question, the first
TINY: Final = 1e-9


class Nearness(NamedTuple):
    """The shares of the question's pieces in its meaning, and for each text the cosine of what comes nearest each."""

    weights: Floats  # one per piece; their sum is 1
    cosines: Floats  # texts by pieces

    def covered(self, cosines: Floats) -> Floats:
        """How much of the question is meant, 0 to 1, for rows of cosines."""
        found: Floats = cosines @ self.weights
        return found


def nearness(question: str, texts: Sequence[str]) -> Nearness | None:
    """None where the model knows nothing of the question."""
    model = load()
    asked, *cut = model.cut([question, *texts])
    pieces = np.array(list(dict.fromkeys(asked[:MAX_QUESTION_PIECES].tolist())), dtype=np.int64)
    if not len(pieces):
        return None
    vectors, lengths = _directions(model.table[pieces])
    weights = lengths * model.scales[pieces]
    if not weights.any():
        return None
    cosines = np.zeros((len(texts), len(pieces)), dtype=np.float32)
    joined = np.concatenate(cut) if cut else asked[:0]
    if len(joined):
        seen = np.zeros(len(model.scales), dtype=bool)
        seen[joined] = True
        different = np.flatnonzero(seen)
        place = np.zeros(len(seen), dtype=np.int32)
        place[different] = np.arange(len(different))
        near = (_directions(model.table[different])[0] @ vectors.T)[place[joined]]
        sizes = np.array([len(text) for text in cut])
        filled = sizes > 0
        starts = np.concatenate(([0], np.cumsum(sizes[filled])[:-1]))
        cosines[filled] = np.maximum.reduceat(near, starts, axis=0)
    return Nearness((weights / weights.sum()).astype(np.float32), np.maximum(cosines, 0.0))


def _directions(rows: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Rows of length 1, and the lengths that they had."""
    vectors = rows.astype(np.float32)
    lengths: Floats = np.linalg.norm(vectors, axis=1).astype(np.float32)
    vectors /= np.maximum(lengths, np.float32(TINY))[:, None]
    return vectors, lengths
