"""A question and passages -> how well each answers, by a cross-encoder in an ONNX file on this machine.

The folder is one that transformers would read as a sequence classifier with one label or two, with `model.onnx` (or
`onnx/model.onnx`, or a quantised file) and `tokenizer.json` in it: bge-reranker, jina-reranker, ms-marco-MiniLM and
their like. `headwater models pull` fetches such folders; nothing is fetched from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headwater.errors import BackendError, SettingError
from headwater.models._onnx import (
    DEFAULT_MAX_TOKENS,
    Precision,
    batches,
    digest_of,
    find_folder,
    find_model,
    most_positions,
    opened,
    read_json,
)
from headwater.models._settings import one_of, sendable, share_of, whole
from headwater.models.known import known_reranker
from headwater.types import Hit

SECTION: Final = "rerank"
# A question takes at most this share of the tokens: what is longer was pasted, and the passage has to be seen too.
QUESTION_SHARE: Final = 0.5
# Characters to a token at most, roughly; what lies far behind the last token that fits need not be cut into tokens.
TOKEN_CHARS: Final = 12
# The newest batch counts this much in what the next one is expected to take.
NEWEST_SHARE: Final = 0.5

Pair = tuple[list[int], list[int]]  # tokens, and for each 0 for the question's side and 1 for the passage's


class OnnxReranker:
    """A local cross-encoder. The folder is read at once, the model on the first call. Safe for several threads."""

    def __init__(
        self,
        *,
        model: str = "",
        models_folder: Path | None = None,
        precision: Precision = "auto",
        max_tokens: int | None = None,
        batch_size: int = 16,
        threads: int = 0,
        device: str = "cpu",
        share: float = 1.0,
        title: bool = True,
    ) -> None:
        one_of("precision", precision, ("auto", "fp32", "int8"), section=SECTION)
        known = known_reranker(model)
        self._batch_size = whole("batch_size", batch_size, section=SECTION)
        self._threads = whole("threads", threads, least=0, section=SECTION)
        self._device = one_of("device", device, ("cpu", "cuda"), section=SECTION)
        self._folder = find_folder(model, models_folder, hub_id=known.hub_id if known else "", section=SECTION)
        self._file = find_model(self._folder, precision, section=SECTION)
        config = read_json(self._folder / "config.json")
        positions = most_positions(config)
        length = (known.max_tokens if known else 0) or positions or DEFAULT_MAX_TOKENS
        length = length if max_tokens is None else whole("max_tokens", max_tokens, least=8, section=SECTION)
        self._max_tokens = min(length, positions) if positions else length
        self._padding = int(config.get("pad_token_id") or 0)
        self.share = share_of(share, section=SECTION)  # read by the stage: how much it counts beside the fused score
        self._title = title
        told = [self._max_tokens, title]
        self.fingerprint = f"onnx:{self._folder.name}:{digest_of(self._file, self._folder, told)}"
        self._lock = Lock()

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
        """One logit per hit. Raises BackendError, also as soon as it is clear that the time will not do."""
        if not hits:
            return []
        deadline = perf_counter() + deadline_seconds
        model = self._model
        pairs = model.pairs(sendable(question), [self._passage(hit) for hit in hits], limit=self._max_tokens)
        lengths = [len(tokens) for tokens, _ in pairs]
        scores = [0.0] * len(hits)
        left, pace = sum(lengths), 0.0  # tokens to go, seconds a token
        for batch in batches(lengths, self._batch_size):
            now, tokens = perf_counter(), sum(lengths[number] for number in batch)
            if now + pace * tokens >= deadline:
                done = len(hits) - sum(1 for length in lengths if length <= lengths[batch[0]])
                raise BackendError(
                    f"{self._folder.name} has no time left ({deadline_seconds:.2f} s for {len(hits)} passages, "
                    f"{max(done, 0)} done): give it more, or set retrieve.rerank_depth lower"
                )
            for number, found in zip(batch, model.run([pairs[number] for number in batch], self._padding), strict=True):
                scores[number] = float(found)
            newest = (perf_counter() - now) / max(tokens, 1)
            pace = newest if not pace else pace + NEWEST_SHARE * (newest - pace)
            left -= tokens
            if left and perf_counter() + pace * left > deadline:
                raise BackendError(
                    f"{self._folder.name} needs about {pace * sum(lengths):.2f} s for {len(hits)} passages and has "
                    f"{deadline_seconds:.2f} s: give it more, or set retrieve.rerank_depth lower"
                )
        if not np.isfinite(scores).all():
            raise BackendError(f"{self._file} gave numbers that are not finite; try rerank.precision = 'fp32'")
        return scores

    def _passage(self, hit: Hit) -> str:
        text = hit.chunk.text[: self._max_tokens * TOKEN_CHARS]
        told = hit.record.title.strip() if self._title else ""
        return sendable(text if not told or text.lstrip("# ").startswith(told) else f"{told}\n{text}")

    @property
    def _model(self) -> _Model:
        with self._lock:
            return self._loaded

    @cached_property
    def _loaded(self) -> _Model:
        session, tokenizer = opened(
            self._file, self._folder, threads=self._threads, device=self._device, section=SECTION
        )
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return _Model(session=session, tokenizer=tokenizer, folder=self._folder)


class _Model:
    """The session and the tokenizer, and how the latter puts two texts together."""

    def __init__(self, *, session: Any, tokenizer: Any, folder: Path) -> None:
        self._session, self._tokenizer, self._folder = session, tokenizer, folder
        self._inputs = {given.name for given in session.get_inputs()}
        known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
        if not self._inputs <= known or "input_ids" not in self._inputs:
            raise BackendError(f"the model in {folder} wants {sorted(self._inputs)}; known are {sorted(known)}")
        self._output = session.get_outputs()[0].name

    def pairs(self, question: str, passages: Sequence[str], *, limit: int) -> list[Pair]:
        """Every pair as tokens. What is too long is cut at the end of the passage, and a long question at its own."""
        (asked,) = self._tokenizer.encode_batch([question], add_special_tokens=False)
        most = int(limit * QUESTION_SHARE)
        if len(asked.ids) > most:
            asked.truncate(most)
        made = []
        added = self._tokenizer.num_special_tokens_to_add(True)
        for told in self._tokenizer.encode_batch(list(passages), add_special_tokens=False):
            told.truncate(max(limit - added - len(asked.ids), 1))
            pair = self._tokenizer.post_process(asked, told, True)
            made.append((pair.ids, pair.type_ids))
        return made

    def run(self, batch: Sequence[Pair], padding: int) -> npt.NDArray[np.float32]:
        """A logit for each pair; of two labels, how far the second is above the first."""
        width = max(len(tokens) for tokens, _ in batch)
        ids = np.full((len(batch), width), padding, dtype=np.int64)
        sides, mask = np.zeros_like(ids), np.zeros_like(ids)
        for row, (tokens, types) in enumerate(batch):
            ids[row, : len(tokens)], sides[row, : len(tokens)], mask[row, : len(tokens)] = tokens, types, 1
        offered: Mapping[str, npt.NDArray[np.int64]] = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": sides,
            "position_ids": np.maximum(np.cumsum(mask, axis=1) - 1, 0),
        }
        try:
            found = self._session.run([self._output], {name: offered[name] for name in self._inputs})[0]
        except Exception as error:  # onnxruntime's classes have no common one
            raise BackendError(f"the model in {self._folder} failed: {error}") from error
        logits = np.asarray(found, dtype=np.float32).reshape(len(batch), -1)
        if logits.shape[1] not in (1, 2):
            raise SettingError(
                f"the model in {self._folder} gives {logits.shape[1]} numbers for a pair; a cross-encoder gives 1 or 2"
            )
        one: npt.NDArray[np.float32] = logits[:, -1] - (logits[:, 0] if logits.shape[1] == 2 else 0)
        return one
