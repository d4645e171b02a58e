"""Texts -> unit vectors, by any server that speaks the OpenAI protocol: OpenAI, DashScope, Zhipu, Ollama, vLLM, TEI.

A request that is too large is halved, one that fails for now is sent again, and what a failed call had already been
given is kept for the next one: nothing is paid for twice.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headwater.errors import BackendError, SettingError
from headwater.models._settings import Role, fingerprint, one_of, prefixes, sendable, whole
from headwater.models.http import FIRST_WAIT_SECONDS, Endpoint, Patience, TooLarge, shown
from headwater.models.known import OPENAI, PROVIDERS, known_model, provider_of

if TYPE_CHECKING:
    from headwater.types import Matrix, Vector

# A person waits for a query: it is asked again once, and words alone must do if that fails too.
QUERY_RETRIES: Final = 1
QUERY_TIMEOUT_SECONDS: Final = 10.0
# How many answers in a row may bring nothing usable.
EMPTY_ANSWERS: Final = 4
# A text that is too long for the model is cut at its end by a quarter at a time, not below this many characters.
SHORTER: Final = 0.75
SHORTEST_CHARS: Final = 64
# Some text to learn a vector's length from.
PROBE: Final = "dimension"


class OpenAIEmbedder:
    """A model behind `/embeddings`. Safe for use from several threads."""

    # Have what was embedded stored this often: a stop then costs seconds, not an hour of requests.
    commit_texts: int = 2_000

    def __init__(
        self,
        *,
        model: str = "text-embedding-3-small",
        base_url: str = "",
        api_key: str = "",
        dimensions: int | None = None,
        batch_size: int | None = None,
        concurrency: int = 4,
        requests_per_minute: int = 0,
        timeout_seconds: float = 60.0,
        max_retries: int = 8,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        encoding_format: str = "auto",
        known_dims: Mapping[str, int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        there = os.environ if environment is None else environment
        known = known_model(model)
        home = PROVIDERS.get(known.provider) if known else None
        url = base_url or there.get("OPENAI_BASE_URL", "") or (home or OPENAI).base_url
        provider = provider_of(url)
        self.model = model
        self._batch_size = whole("batch_size", provider.batch_size if batch_size is None else batch_size)
        self._concurrency = whole("concurrency", concurrency)
        self._dimensions = None if dimensions is None else whole("dimensions", dimensions)
        one_of("encoding_format", encoding_format, ("auto", "base64", "float"))
        self._base64 = provider.base64 if encoding_format == "auto" else encoding_format == "base64"
        if not isinstance(timeout_seconds, int | float) or timeout_seconds <= 0:
            raise SettingError(f"embed.timeout_seconds must be more than 0, got {timeout_seconds!r}")
        retries = whole("max_retries", max_retries, least=0)
        self._patience: Mapping[Role, Patience] = {
            "passage": Patience(timeout_seconds=timeout_seconds, max_retries=retries),
            "query": Patience(
                timeout_seconds=min(timeout_seconds, QUERY_TIMEOUT_SECONDS), max_retries=min(retries, QUERY_RETRIES)
            ),
        }
        self._prefix = prefixes(known, query=query_prefix, passage=passage_prefix)
        self.fingerprint = fingerprint(
            "openai", model, passage_prefix=self._prefix["passage"], dimensions=self._dimensions
        )
        learnt = (known_dims or {}).get(self.fingerprint)  # by a home that has such vectors
        self._dim = self._dimensions or learnt or (known.dim if known else None)
        variable = provider.key_variables[0]
        key = (api_key or next(filter(None, map(there.get, provider.key_variables)), "")).strip()
        if not key.isascii() or not key.isprintable():
            raise SettingError("embed.api_key holds characters that no key has (it is not shown here); copy it again")
        self._endpoint = Endpoint(
            url,
            api_key=key,
            requests_per_minute=whole("requests_per_minute", requests_per_minute, least=0),
            key_hint=f'set {variable}, or api_key = "env:{variable}" in the section embed of headwater.toml',
        )
        self._lock = Lock()
        self._kept: dict[str, Vector] = {}  # what the last call got before it failed

    @property
    def dim(self) -> int:
        """Numbers in a vector; where neither the settings nor the table of models say, the server is asked once."""
        if self._dim is None:
            found = self._request([PROBE], self._patience["query"])
            if 0 not in found:
                raise BackendError(f"{self._name} gave no vector to learn its length from; set embed.dimensions")
            self._dim = len(found[0])
        return self._dim

    @property
    def at_once(self) -> int:
        """How many texts are under way at a time: fewer in a call leave connections idle."""
        return self._batch_size * self._concurrency

    def embed(self, texts: Sequence[str], role: Role) -> Matrix:
        """One unit row per text; a blank text gets zeros. What a text has over the model's length is left out."""
        work = _Work([self._prefix[role] + sendable(text) if text.strip() else "" for text in texts], self.dim)
        with self._lock:
            kept, self._kept = self._kept, {}
        work.take(kept)
        work.divide(self._batch_size)
        if work.queue:
            self._run(work, self._patience[role])
        return work.rows

    def close(self) -> None:
        """Let go of the connections; the next call makes new ones."""
        self._endpoint.close()

    # -------------------------------------------------------------------------------------- the batches

    def _run(self, work: _Work, patience: Patience) -> None:
        threads = min(self._concurrency, len(work.queue))
        try:
            if threads == 1:
                self._drain(work, patience)
                return
            with ThreadPoolExecutor(threads, thread_name_prefix="headwater-embed") as pool:
                for future in [pool.submit(self._drain, work, patience) for _ in range(threads)]:
                    future.result()
        except BackendError as error:
            with self._lock:
                self._kept = work.finished()
            done = int(work.done.sum())
            raise BackendError(f"{error} (model {self.model!r}, {done} of {len(work.texts)} texts embedded)") from error

    def _drain(self, work: _Work, patience: Patience) -> None:
        """Take batches until there are none, or another thread has given up."""
        try:
            while not work.stopped.is_set() and (batch := work.next(self._batch_size)):
                try:
                    self._fill(work, batch, patience)
                except TooLarge as error:
                    self._lessen(work, [place for place in batch if not work.done[place]], error)
        except BackendError:
            work.stopped.set()
            raise

    def _lessen(self, work: _Work, batch: list[int], error: TooLarge) -> None:
        """Two halves instead of a batch; of a single text, the beginning."""
        if len(batch) > 1:
            half = (len(batch) + 1) // 2
            work.queue.extendleft([batch[half:], batch[:half]])
            if not error.for_now:
                with self._lock:
                    self._batch_size = min(self._batch_size, half)
            return
        text = work.sent[batch[0]]
        if len(text) <= SHORTEST_CHARS:
            raise BackendError(str(error)) from error
        work.sent[batch[0]] = text[: int(len(text) * SHORTER)]
        work.queue.appendleft(batch)

    def _fill(self, work: _Work, batch: list[int], patience: Patience) -> None:
        """Rows for the texts at these places; of a half answer, the missing ones are asked for again."""
        missing, empty = batch, 0
        while empty < EMPTY_ANSWERS:
            found = self._request([work.sent[place] for place in missing], patience, stopped=work.stopped)
            for number, vector in found.items():
                work.put(missing[number], self._unit(vector))
            missing = [place for place in missing if not work.done[place]]
            if not missing:
                return
            empty = 0 if found else empty + 1
            self._endpoint.hold(FIRST_WAIT_SECONDS * 2**empty)
        raise BackendError(f"{self._name} left out {len(missing)} of {len(batch)} vectors, {empty} times")

    # -------------------------------------------------------------------------------------- one request

    def _request(self, texts: Sequence[str], patience: Patience, *, stopped: Event | None = None) -> dict[int, Vector]:
        """Vectors by the place of their text, as far as the server gave them."""
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        encoded = self._base64
        body["encoding_format"] = "base64" if encoded else "float"
        try:
            answer = self._endpoint.post(
                "embeddings", body, patience=patience, divisible=len(texts) > 1, stopped=stopped
            )
        except BackendError as error:
            if encoded and "encoding_format" in str(error):
                self._base64 = False
                return self._request(texts, patience, stopped=stopped)
            raise
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            return {}
        found: dict[int, Vector] = {}
        for number, row in enumerate(rows):
            if not isinstance(row, dict):
                return {}
            # Only a whole answer may leave its indexes out.
            index = row.get("index", number if len(rows) == len(texts) else None)
            if not isinstance(index, int) or not 0 <= index < len(texts) or index in found:
                return {}  # nobody can tell which vector is whose
            found[index] = self._decoded(row.get("embedding"))
        return found

    def _decoded(self, given: Any) -> Vector:
        try:
            if isinstance(given, str):
                return np.frombuffer(base64.b64decode(given, validate=True), dtype="<f4")
            vector = np.asarray(given, dtype=np.float32)
        except (ValueError, TypeError, binascii.Error) as error:
            raise BackendError(f"{self._name} gave a vector that is not made of numbers ({error})") from error
        if vector.ndim != 1 or not len(vector):
            raise BackendError(f"{self._name} gave something of shape {vector.shape} for a vector")
        return vector

    def _unit(self, vector: Vector) -> Vector:
        if len(vector) != self.dim:
            raise BackendError(
                f"{self._name} gave a vector of {len(vector)} numbers for the model {self.model!r}, wanted {self.dim}: "
                f"another model answers there, or embed.dimensions is wrong; nothing was stored"
            )
        if not np.isfinite(vector).all():
            raise BackendError(f"{self._name} gave a vector with numbers that are not finite; nothing was stored")
        length = float(np.linalg.norm(vector.astype(np.float64)))
        return vector / np.float32(length) if length > 0 else vector

    @property
    def _name(self) -> str:
        return shown(self._endpoint.base_url)


class _Work:
    """The texts of one call, and how far it has come."""

    def __init__(self, texts: list[str], dim: int) -> None:
        self.texts, self.sent = texts, list(texts)
        self.rows = np.zeros((len(texts), dim), dtype=np.float32)
        self.done = np.array([not text for text in texts], dtype=bool)
        self.queue: deque[list[int]] = deque()
        self.stopped = Event()

    def take(self, kept: Mapping[str, Vector]) -> None:
        """Fill in what an earlier call was given."""
        for place, text in enumerate(self.texts):
            if text in kept and len(kept[text]) == self.rows.shape[1]:
                self.put(place, kept[text])

    def divide(self, batch_size: int) -> None:
        """Queue what is left to do."""
        left = np.flatnonzero(~self.done).tolist()
        self.queue.extend(left[start : start + batch_size] for start in range(0, len(left), batch_size))

    def next(self, batch_size: int) -> list[int]:
        """A batch, not larger than the server was found to take; empty when there is none."""
        try:
            batch = self.queue.popleft()
        except IndexError:
            return []
        if len(batch) > batch_size:
            self.queue.appendleft(batch[batch_size:])
        return batch[:batch_size]

    def put(self, place: int, row: Vector) -> None:
        """The vector of the text at a place."""
        self.rows[place] = row
        self.done[place] = True

    def finished(self) -> dict[str, Vector]:
        """What is done, by text."""
        return {self.texts[place]: self.rows[place] for place in np.flatnonzero(self.done) if self.texts[place]}
