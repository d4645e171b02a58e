"""A server that speaks the rerank protocols of Cohere, Jina, DashScope and TEI, and lies on demand."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

from headwater.highlight import Terms
from headwater.testing._loopback import Loopback

DASHSCOPE_PATH = "/services/rerank/text-rerank/text-rerank"


class RerankServer(Loopback):
    """`with RerankServer("cohere") as server:` then talk to `server.url`. A score is the share of the query's words.

    `script` says what the next requests suffer, one word each; the last goes on for ever, and without one all is well:
    ok, 429, 500, hang, drip (a byte at a time), cut (half of the bytes), garbage, list (not an object), few (half of
    the results), none, twice (an index given twice), far (an index that was not asked for), text (a score in words),
    nan, null, bool.
    """

    def __init__(self, shape: str, *, key: str = "", script: Sequence[str] = ()) -> None:
        self.shape, self.key = shape, key
        self.script: deque[str] = deque(script)
        self.requests: list[dict[str, Any]] = []
        self.paths: list[str] = []
        super().__init__(_responder(self))

    def suffers(self) -> str:
        """What the next request suffers."""
        if not self.script:
            return "ok"
        return self.script.popleft() if len(self.script) > 1 else self.script[0]

    def scores(self, body: dict[str, Any]) -> list[float]:
        """What it thinks of the texts of a request."""
        asked = body.get("input", body)
        words = {asked["query"][word.start : word.end].lower() for word in Terms.of(asked["query"]).words}
        texts = asked.get("documents") or asked.get("texts") or []
        return [sum(word in text.lower() for word in words) / max(len(words), 1) for text in texts]

    def answer(self, body: dict[str, Any], suffering: str) -> Any:
        """What it says, in its shape: best first, as the services do."""
        name = "score" if self.shape == "tei" else "relevance_score"
        ranked = sorted(enumerate(self.scores(body)), key=lambda pair: -pair[1])
        results: list[dict[str, Any]] = [{"index": index, name: score} for index, score in ranked]
        wrong: dict[str, Any] = {"text": "high", "nan": float("nan"), "null": None, "bool": True}
        match suffering:
            case "few":
                results = results[: len(results) // 2]
            case "none":
                results = []
            case "twice":
                results[-1]["index"] = results[0]["index"]
            case "far":
                results[-1]["index"] = len(results)
            case "text" | "nan" | "null" | "bool":
                results[0][name] = wrong[suffering]
            case "list":
                return ["what?"]
        match self.shape:
            case "dashscope":
                return {"output": {"results": results}, "usage": {"total_tokens": 1}, "request_id": "1"}
            case "tei":
                return results
        return {"id": "1", "results": results, "meta": {"api_version": {"version": "2"}}}


def _responder(server: RerankServer) -> type[BaseHTTPRequestHandler]:
    class Responder(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append(body)
            server.paths.append(self.path)
            wanted = DASHSCOPE_PATH if server.shape == "dashscope" else "/rerank"
            if self.path != f"/v1{wanted}":
                return self._send(404, b"{}")
            if server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                return self._send(401, b'{"message": "invalid api token"}')
            suffering = server.suffers()
            if suffering in ("429", "500"):
                return self._send(int(suffering), b'{"message": "later"}', {"Retry-After": "0.05"})
            if suffering == "hang":
                server.closing.wait(60)
                return None
            content = json.dumps(server.answer(body, suffering)).encode()
            if suffering == "garbage":
                content = b"<html>hello</html>"
            return self._send(200, content, cut=suffering == "cut", drip=suffering == "drip")

        def _send(
            self,
            status: int,
            content: bytes,
            headers: dict[str, str] | None = None,
            *,
            cut: bool = False,
            drip: bool = False,
        ) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            try:
                for byte in content if drip else b"":
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    if server.closing.wait(0.1):
                        return
                if not drip:
                    self.wfile.write(content[: len(content) // 2] if cut else content)
            except OSError:  # nobody waits any more
                pass
            self.close_connection = self.close_connection or cut

    return Responder
