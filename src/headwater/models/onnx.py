"""Texts -> unit vectors, by a transformer in an ONNX file on this machine.

The folder is one that sentence-transformers would read, with `model.onnx` (or `onnx/model.onnx`, or a quantised file)
and `tokenizer.json` in it. `headwater models pull` fetches such folders; nothing is fetched from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headwater.errors import BackendError
from headwater.models._onnx import (
    DEFAULT_MAX_TOKENS,
    Precision,
    Tokens,
    batches,
    digest_of,
    find_folder,
    find_model,
    most_positions,
    opened,
    read_json,
)
from headwater.models._settings import Role, one_of, prefixes, sendable, whole
from headwater.models.known import KnownModel, known_model

if TYPE_CHECKING:
    from headwater.types import Matrix


class OnnxEmbedder:
    """A local transformer. The folder is read at once, the model on the first call. Safe for several threads."""

    # Have what was embedded stored this often: a transformer does some dozens of texts a second.
    commit_texts: int = 1_000

    def __init__(
        self,
        *,
        model: str = "",
        models_folder: Path | None = None,
        precision: Precision = "auto",
        pooling: str = "auto",
        max_tokens: int | None = None,
        batch_size: int = 32,
        threads: int = 0,
        device: str = "cpu",
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        known_dims: Mapping[str, int] | None = None,
    ) -> None:
        one_of("precision", precision, ("auto", "fp32", "int8"))
        one_of("pooling", pooling, ("auto", "mean", "cls", "last"))
        self._batch_size = whole("batch_size", batch_size)
        self._threads = whole("threads", threads, least=0)
        self._device = one_of("device", device, ("cpu", "cuda"))
        known = known_model(model)
        folder = find_folder(model, models_folder, hub_id=known.hub_id if known else "", section="embed")
        self._file = find_model(folder, precision, section="embed")
        self._card = _Card.read(folder, known, pooling=pooling, max_tokens=max_tokens)
        self._prefix = prefixes(known, query=query_prefix, passage=passage_prefix)
        told = [self._card.pooling, self._card.max_tokens, self._prefix["passage"]]
        self.fingerprint = f"onnx:{folder.name}:{digest_of(self._file, folder, told)}"
        self._learnt = (known_dims or {}).get(self.fingerprint)  # by a home that has such vectors
        self._lock = Lock()

    @property
    def dim(self) -> int:
        """Numbers in a vector: as the folder says, else as the model does."""
        return self._card.dim or self._learnt or int(self.embed([" ."], "passage").shape[1])

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """One unit row per text; a blank text gets zeros. What a text has over the model's length is left out."""
        model = self._model
        filled = [place for place, text in enumerate(texts) if text.strip()]
        encoded = model.encode([self._prefix[role] + sendable(texts[place]) for place in filled])
        rows: dict[int, npt.NDArray[np.float32]] = {}
        for batch in batches([len(tokens) for tokens in encoded], self._batch_size):
            vectors = model.run([encoded[number] for number in batch])
            rows.update({filled[number]: row for number, row in zip(batch, vectors, strict=True)})
        dim = self._card.dim or (len(next(iter(rows.values()))) if rows else self.dim)
        out = np.zeros((len(texts), dim), dtype=np.float32)
        for place, row in rows.items():
            if len(row) != dim:
                raise BackendError(f"{self._file} gave vectors of {len(row)} numbers; its configuration says {dim}")
            out[place] = row
        if not np.isfinite(out).all():
            raise BackendError(f"{self._file} gave numbers that are not finite; try embed.precision = 'fp32'")
        return out

    @property
    def _model(self) -> _Model:
        with self._lock:
            return self._loaded

    @cached_property
    def _loaded(self) -> _Model:
        session, tokenizer = opened(
            self._file, self._card.folder, threads=self._threads, device=self._device, section="embed"
        )
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._card.max_tokens, direction="right")
        return _Model(session=session, tokenizer=tokenizer, card=self._card)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """What the files beside the model say about it."""

    folder: Path
    pooling: str
    max_tokens: int
    dim: int | None
    dense: bool  # a layer of its own behind the pooling, which most ONNX files leave out

    @staticmethod
    def read(folder: Path, known: KnownModel | None, *, pooling: str, max_tokens: int | None) -> _Card:
        config, pooled = read_json(folder / "config.json"), read_json(folder / "1_Pooling" / "config.json")
        sentence = read_json(folder / "sentence_bert_config.json")
        modules = read_json(folder / "modules.json", list)
        flags = {
            "cls": "pooling_mode_cls_token",
            "last": "pooling_mode_lasttoken",
            "mean": "pooling_mode_mean_tokens",
        }
        said = next((name for name, flag in flags.items() if pooled.get(flag)), "")
        said = said or {"lasttoken": "last"}.get(mode := str(pooled.get("pooling_mode", "")), mode)
        positions = most_positions(config)
        lengths = [sentence.get("max_seq_length"), known.max_tokens if known else None, positions, DEFAULT_MAX_TOKENS]
        length = next(int(found) for found in lengths if found)
        length = min(length, positions) if positions else length
        dense = any("Dense" in str(module.get("type")) for module in modules)
        wanted = pooling if pooling != "auto" else said or (known.pooling if known else "mean")
        return _Card(
            folder=folder,
            pooling=one_of("pooling", wanted, ("mean", "cls", "last")),
            max_tokens=whole("max_tokens", length if max_tokens is None else max_tokens, least=2),
            dim=None if dense else pooled.get("word_embedding_dimension") or config.get("hidden_size"),
            dense=dense,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    session: Any
    tokenizer: Any
    card: _Card

    def encode(self, texts: Sequence[str]) -> list[Tokens]:
        return [np.array(found.ids, dtype=np.int64) for found in self.tokenizer.encode_batch(texts)] if texts else []

    def run(self, batch: Sequence[Tokens]) -> npt.NDArray[np.float32]:
        """Unit rows for texts of about one length."""
        width = max(len(tokens) for tokens in batch)
        ids = np.zeros((len(batch), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        offered = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.maximum(np.cumsum(mask, axis=1) - 1, 0),
        }
        wanted = {given.name for given in self.session.get_inputs()}
        if not wanted <= offered.keys():
            raise BackendError(f"the model in {self.card.folder} wants {sorted(wanted)}; known are {sorted(offered)}")
        names = [given.name for given in self.session.get_outputs()]
        ready = next((name for name in names if name == "sentence_embedding"), "")
        if self.card.dense and not ready:
            raise BackendError(f"the model in {self.card.folder} needs a dense layer that its ONNX file does not have")
        inputs = {name: offered[name] for name in wanted}
        try:
            found = np.asarray(self.session.run([ready or names[0]], inputs)[0], dtype=np.float32)
        except Exception as error:  # onnxruntime's classes have no common one
            raise BackendError(f"the model in {self.card.folder} failed: {error}") from error
        rows = found if found.ndim == 2 else pool(found, mask, self.card.pooling)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: npt.NDArray[np.float32] = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
        return unit


def pool(states: npt.NDArray[np.float32], mask: Tokens, how: str) -> npt.NDArray[np.float32]:
    """One row for each text from the rows of its tokens, padding left out."""
    if how == "cls":
        first: npt.NDArray[np.float32] = states[:, 0]
        return first
    if how == "last":
        last: npt.NDArray[np.float32] = states[np.arange(len(states)), mask.sum(axis=1) - 1]
        return last
    weights = mask[:, :, None].astype(np.float32)
    mean: npt.NDArray[np.float32] = (states * weights).sum(axis=1) / weights.sum(axis=1)
    return mean
