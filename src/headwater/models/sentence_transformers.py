"""Texts -> unit vectors, by any model that sentence-transformers can load, from this machine's disk."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headwater.errors import BackendError, SettingError
from headwater.models._settings import Role, fingerprint, one_of, prefixes, sendable, whole
from headwater.models.http import refuse_if_offline
from headwater.models.known import known_model

if TYPE_CHECKING:
    from headwater.types import Matrix

INSTALL: Final = "pip install 'headwater[sentence-transformers]'"
HUB: Final = "https://huggingface.co"


class SentenceTransformersEmbedder:
    """A model of sentence-transformers. Loads on the first call; `download` allows it to fetch the weights then."""

    # Have what was embedded stored this often: a transformer does some dozens of texts a second.
    commit_texts: int = 1_000

    def __init__(
        self,
        *,
        model: str = "",
        device: str = "",
        batch_size: int = 32,
        max_tokens: int | None = None,
        show_progress: bool = False,
        download: bool = False,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        known_dims: Mapping[str, int] | None = None,
    ) -> None:
        if not model:
            raise SettingError(
                "embed.model is empty: give a folder or the name of a model, e.g. BAAI/bge-large-zh-v1.5"
            )
        one_of("device", device.partition(":")[0], ("", "cpu", "cuda", "mps"))
        self._name, self._device, self._download, self._show = model, device, download, show_progress
        self._batch_size = whole("batch_size", batch_size)
        self._max_tokens = None if max_tokens is None else whole("max_tokens", max_tokens, least=2)
        self._known = known_model(model)
        self._prefix = prefixes(self._known, query=query_prefix, passage=passage_prefix)
        plain = fingerprint("sentence-transformers", model, passage_prefix=self._prefix["passage"])
        self.fingerprint = plain + (f":{max_tokens}" if max_tokens else "")
        learnt = (known_dims or {}).get(self.fingerprint)  # by a home that has such vectors
        self._dim = learnt or (self._known.dim if self._known else None)
        self._lock = Lock()

    @property
    def dim(self) -> int:
        """Numbers in a vector; a model that is not known has to be loaded to tell."""
        return self._dim or int(self.embed(["dimension"], "passage").shape[1])

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """One unit row per text; a blank text gets zeros."""
        filled = [place for place, text in enumerate(texts) if text.strip()]
        if not filled:
            return np.zeros((len(texts), self.dim), dtype=np.float32)
        with self._lock:
            model = self._loaded
        found = model.encode(
            [self._prefix[role] + sendable(texts[place]) for place in filled],
            batch_size=self._batch_size,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=self._show,
        )
        rows = np.asarray(found, dtype=np.float32)
        if not np.isfinite(rows).all():
            raise BackendError(f"the model {self._name!r} gave numbers that are not finite")
        out = np.zeros((len(texts), rows.shape[1]), dtype=np.float32)
        out[filled] = rows
        return out

    @cached_property
    def _loaded(self) -> Any:
        if self._download:
            refuse_if_offline(HUB)
        else:
            os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read at import: keeps its libraries from asking the hub
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise BackendError(
                f"the embedder sentence-transformers needs {error.name}, which is not installed: {INSTALL}"
            ) from error
        try:
            model = SentenceTransformer(
                self._name, device=self._device or None, local_files_only=not self._download, prompts={}
            )
        except (OSError, ValueError, RuntimeError) as error:
            hint = "" if self._download else "; embed.download = true lets it fetch the weights"
            raise BackendError(f"the model {self._name!r} cannot be loaded ({error}){hint}") from error
        if self._max_tokens is not None:
            model.max_seq_length = self._max_tokens
        return model
