"""Texts in Chinese and English -> unit vectors, by the small model that comes with the package.

A text's vector is the sum of its pieces' vectors: no network, no GPU, no wait. `training/` holds the recipe.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from headwater.errors import SettingError
from headwater.models._pieces import FOLDER, Pieces, load

if TYPE_CHECKING:
    from headwater.types import Matrix


class StaticEmbedder:
    """The bundled bilingual model. Loads on the first call; safe for use from several threads."""

    instant = True  # it waits for nobody, so a search calls it without a thread
    BATCH = 1024  # texts segmented at a time: bounds memory, and is enough to keep all cores busy

    def __init__(self, *, dim: int = 256) -> None:
        card = json.loads((FOLDER / "model.json").read_text(encoding="utf-8"))
        if dim not in card["dims"]:
            raise SettingError(
                f"the bundled model has vectors of {card['dims']} numbers, not {dim!r}: choose one of these"
            )
        self.name: str = card["name"]
        self.dim = dim
        self.fingerprint = f"{self.name}:{dim}:{card['sha256'][:16]}"
        self._damping: float = card["damping"]

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        """One row per text, the same for both roles; a text without a known piece gets a row of zeros."""
        del role
        out = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(texts), self.BATCH):
            self._model.embed(texts[start : start + self.BATCH], out[start : start + self.BATCH], damping=self._damping)
        return out

    @property
    def _model(self) -> Pieces:
        return load(FOLDER)
