"""A server that speaks the embeddings part of the OpenAI protocol, enforces limits, and fails on demand."""

from __future__ import annotations

import base64
import json
from collections import Counter, deque
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from threading import Event, Lock
from typing import Any

import numpy as np

from headwater.models.hashed import HashedEmbedder
from headwater.testing._loopback import Loopback

# Vectors come back this long, so that who forgets to normalise is found out.
LENGTH = 3.0
# Characters to a token: about right for English, and the limits only have to bite somewhere.
TOKEN_CHARS = 4


class OpenAIServer(Loopback):
    """`with OpenAIServer() as server:` then talk to `server.url`.

    `script` says what the next requests suffer, one word each; after it all goes well:
    ok, 429, 429-bare (without Retry-After), 500, 503, quota, hang, cut (half of the bytes), garbage, polite (an error
    with status 200), half (half of the vectors), empty (none of them), shuffle, unnumbered, twice (an index given
    twice), wrong-dim, nan, text (a vector that is not numbers), wait (until `released` is set; `waiting` says that one
    does).
    """

    def __init__(
        self,
        *,
        dim: int = 64,
        max_batch: int = 1000,
        max_tokens: int = 100_000,
        max_request_tokens: int = 1_000_000,
        key: str = "",
        base64_allowed: bool = True,
        retry_after: str = "0.05",
        script: Sequence[str] = (),
    ) -> None:
        self.dim, self.key, self.base64_allowed, self.retry_after = dim, key, base64_allowed, retry_after
        self.max_batch, self.max_tokens, self.max_request_tokens = max_batch, max_tokens, max_request_tokens
        self.script: deque[str] = deque(script)
        self.given: Counter[str] = Counter()  # how often each text's vector was sent in full
        self.requests: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.at_once = self.most_at_once = 0
        self.lock = Lock()
        self.waiting, self.released = Event(), Event()
        self._embedder = HashedEmbedder(dim=dim)
        super().__init__(_responder(self))

    def __exit__(self, *_: object) -> None:
        self.released.set()
        super().__exit__()

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """What it answers for these texts."""
        rows: list[list[float]] = (self._embedder.embed(texts, "passage") * LENGTH).tolist()
        return rows

    def refusal(self, body: dict[str, Any]) -> tuple[int, str] | None:
        """The limit that a request breaks, in the words of the services."""
        texts = body["input"]
        tokens = [len(text) // TOKEN_CHARS for text in texts]
        if body.get("encoding_format") == "base64" and not self.base64_allowed:
            return 400, "encoding_format must be float"
        if any(not text for text in texts):
            return 400, "input cannot be an empty string"
        if len(texts) > self.max_batch:
            return 400, f"batch size is invalid, it should not be larger than {self.max_batch}."
        if max(tokens) > self.max_tokens:
            return 413, f"inputs must have less than {self.max_tokens} tokens. Given: {max(tokens)}"
        if sum(tokens) > self.max_request_tokens:
            return 400, f"Requested {sum(tokens)} tokens, max {self.max_request_tokens} tokens per request: too many"
        return None


def _responder(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Responder(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            with server.lock:
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            finally:
                with server.lock:
                    server.at_once -= 1

        def _answer(self, body: dict[str, Any]) -> None:
            with server.lock:
                server.requests.append({**body, "authorization": self.headers.get("Authorization", "")})
                fault = server.script.popleft() if server.script else "ok"
            if self.path != "/v1/embeddings":
                self._error(404, "no such route")
            elif server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                self._error(401, f"Incorrect API key provided: {self.headers.get('Authorization')}")
            elif fault in ("429", "429-bare"):
                self._error(
                    429, "Rate limit reached", {} if fault == "429-bare" else {"Retry-After": server.retry_after}
                )
            elif fault == "quota":
                self._error(429, "You exceeded your current quota, please check your plan (insufficient_quota)")
            elif fault in ("500", "503"):
                self._error(int(fault), f"the server had an error with {self.headers.get('Authorization')}")
            elif fault == "hang":
                server.closing.wait(20)
                self.close_connection = True
            elif refused := server.refusal(body):
                self._error(*refused)
            else:
                self._vectors(body, fault)

        def _vectors(self, body: dict[str, Any], fault: str) -> None:
            texts: list[str] = body["input"]
            rows: list[dict[str, Any]] = [
                {"object": "embedding", "index": number, "embedding": _encoded(vector, body)}
                for number, vector in enumerate(server.vectors(texts))
            ]
            if fault == "wait":
                server.waiting.set()
                server.released.wait()
            if fault == "half":
                rows = rows[::2][: max(1, len(rows) // 2)]
            elif fault == "empty":
                rows = []
            elif fault == "shuffle":
                rows.reverse()
            elif fault == "unnumbered":
                rows = [{"embedding": row["embedding"]} for row in rows]
            elif fault == "twice":
                rows[-1]["index"] = 0
            elif fault == "wrong-dim":
                rows[-1]["embedding"] = [0.5] * (server.dim // 2)
            elif fault == "nan":
                rows[-1]["embedding"] = [float("nan")] * server.dim
            elif fault == "text":
                rows[-1]["embedding"] = ["much"] * server.dim
            if fault in ("ok", "wait", "shuffle", "unnumbered", "half"):
                with server.lock:
                    server.given.update(texts[int(str(row.get("index", n)))] for n, row in enumerate(rows))
            data = json.dumps({"object": "list", "model": body["model"], "data": rows}).encode()
            if fault == "polite":
                data = b'{"error": {"message": "upstream is asleep"}}'
            if fault == "garbage":
                data = b"<html>gateway</html>"
            self._send(200, data, cut=fault == "cut")

        def _error(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
            self._send(status, json.dumps({"error": {"message": message}}).encode(), headers=headers)

        def _send(self, status: int, data: bytes, *, cut: bool = False, headers: dict[str, str] | None = None) -> None:
            with server.lock:
                server.statuses.append(status)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)
            if cut:
                self.close_connection = True

    return Responder


def _encoded(vector: Sequence[float], body: dict[str, Any]) -> str | list[float]:
    if body.get("encoding_format") != "base64":
        return list(vector)
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()
