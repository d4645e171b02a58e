"""A server that speaks the chat part of the OpenAI protocol, and every deviation from it that servers are known for."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import Any

from headwater.testing._loopback import Loopback

Body = dict[str, Any]
# A text, or tool calls as (name, arguments): what the model answers to a request.
Said = str | list[tuple[str, Any]]

PIECE_CHARS = 4
# Between pieces that are said to be slow.
SLOW_SECONDS = 0.15
USAGE = {"prompt_tokens": 321, "completion_tokens": 12, "total_tokens": 333}

REFUSALS = {
    "no-stream": (400, "stream is not supported by this server"),
    "no-usage-option": (400, "Unrecognized request argument supplied: stream_options"),
    "no-schema": (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    "no-format": (400, "'response_format' is not supported"),
    "no-tools": (400, "registry.ollama.ai/library/gemma2:2b does not support tools"),
    "no-temperature": (400, "Unsupported value: 'temperature' does not support 0 with this model."),
    "no-max-tokens": (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    "too-long": (400, "This model's maximum context length is 1500 tokens. Please reduce the length of the messages."),
    "404": (404, "model 'nosuch' not found"),
    "500": (500, "internal error"),
    "503": (503, "model is loading"),
    "429": (429, "Rate limit reached"),
    "quota": (429, "You exceeded your current quota (insufficient_quota)"),
}


class ChatServer(Loopback):
    """`with ChatServer("an answer") as server:` then talk to `server.url`.

    `replies` are what the model says, one for each request that succeeds, the last one for all that follow; or a
    function of the request. `script` says what the next requests suffer, one word each:

    ok, a refusal of REFUSALS, hang, slow (pieces come slowly), stall (the first piece, then nothing), cut (the
    connection breaks in the middle), early (it ends in the middle, without a mark), html (a page with status 200),
    html-502, polite (an error with status 200), error-event (an error in the middle), whole (does not stream though
    asked to), no-choices (every event without choices), empty (no text at all), no-done, no-finish, no-usage, crlf,
    tight (`data:` without a space), comments, bytes (a byte at a time), one-chunk, think, think-split, think-half (only
    the closing tag), reasoning (in a field of its own), parts (content as a list), message (not delta), length,
    filter, broken-event, tool-index, tool-no-index, tool-no-id, tool-object, tool-legacy.
    """

    def __init__(self, *replies: Said | Callable[[Body], Said], key: str = "", script: Sequence[str] = ()) -> None:
        self.replies: deque[Said | Callable[[Body], Said]] = deque(replies or ("fine",))
        self.script: deque[str] = deque(script)
        self.key = key
        self.always = ""  # suffered by every request that the script leaves alone
        self.requests: list[Body] = []
        self._lock = Lock()
        super().__init__(_responder(self))

    def fate(self, body: Body) -> str:
        """What this request suffers; remembers the request."""
        with self._lock:
            self.requests.append(body)
            return self.script.popleft() if self.script else self.always or "ok"

    def reply(self, body: Body) -> Said:
        """What the model says to it."""
        with self._lock:
            said = self.replies.popleft() if len(self.replies) > 1 else self.replies[0]
        return said(body) if callable(said) else said


def _events(said: Said, fate: str) -> Iterator[Body | None]:
    """The events of a stream; None where it breaks."""
    if fate == "no-choices":
        yield from ({"choices": []} for _ in range(3))
        return
    yield _delta({"role": "assistant", "content": ""})
    if fate == "reasoning":
        yield _delta({"reasoning_content": "Let me think about [9]."})
    texts = [] if fate == "empty" else _pieces(said, fate)
    for number, text in enumerate(texts):
        if number == len(texts) // 2 and fate in ("cut", "early", "stall", "error-event", "broken-event"):
            yield None
            return
        content: Any = [{"type": "text", "text": text}] if fate == "parts" else text
        yield _delta({"content": content}, name="message" if fate == "message" else "delta")
    if not isinstance(said, str):
        yield from _tool_events(said, fate)
    if fate not in ("no-finish",):
        ended = {"length": "length", "filter": "content_filter"}.get(fate)
        yield _delta({}, finish=ended or ("stop" if isinstance(said, str) else "tool_calls"))
    if fate != "no-usage":
        yield {"choices": [], "usage": USAGE}


def _pieces(said: Said, fate: str) -> list[str]:
    if not isinstance(said, str):
        return []
    thought = {"think": "<think>\nHmm [7].\n</think>\n\n", "think-half": "Hmm [7].\n</think>\n\n"}
    thought["think-split"] = thought["think"]
    text = thought.get(fate, "") + said
    size = 1 if fate == "think-split" else len(text) if fate == "one-chunk" else PIECE_CHARS
    return [text[start : start + size] for start in range(0, len(text), max(1, size))]


def _delta(said: Body, *, finish: str | None = None, name: str = "delta") -> Body:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, name: said, "finish_reason": finish}]}


def _tool_events(calls: list[tuple[str, Any]], fate: str) -> Iterator[Body]:
    """Every call, its arguments in pieces of three characters."""
    for number, (name, arguments) in enumerate(calls):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        first: Body = {"index": number, "id": f"call-{number}", "type": "function", "function": {"name": name}}
        if fate in ("tool-no-index", "tool-no-id"):
            del first["index"]
        if fate == "tool-no-id":
            del first["id"]
        if fate == "tool-object":
            yield _delta({"tool_calls": [{**first, "function": {"name": name, "arguments": arguments}}]})
            continue
        if fate == "tool-legacy":
            yield _delta({"function_call": {"name": name, "arguments": text}})
            continue
        yield _delta({"tool_calls": [first]})
        for start in range(0, len(text), 3):
            fragment: Body = {"function": {"arguments": text[start : start + 3]}}
            if fate not in ("tool-no-index", "tool-no-id"):
                fragment["index"] = number
            yield _delta({"tool_calls": [fragment]})


def _responder(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Responder(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": "tiny"}, {"id": "other"}]}
            self._send(200 if self.path == "/v1/models" else 404, json.dumps(models).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fate = server.fate({**body, "authorization": self.headers.get("Authorization", "")})
            try:
                self._answer(body, fate)
            except (BrokenPipeError, ConnectionResetError):  # the client has heard enough
                self.close_connection = True

        def _answer(self, body: Body, fate: str) -> None:
            if self.path != "/v1/chat/completions":
                self._send(404, b'{"error": {"message": "no such route"}}')
            elif server.key and self.headers.get("Authorization") != f"Bearer {server.key}":
                said = f"Incorrect API key provided: {self.headers.get('Authorization')}"
                self._send(401, json.dumps({"error": {"message": said}}).encode())
            elif fate in REFUSALS:
                status, message = REFUSALS[fate]
                headers = {"Retry-After": "0.05"} if fate == "429" else {}
                self._send(status, json.dumps({"error": {"message": message}}).encode(), headers=headers)
            elif fate == "hang":
                server.closing.wait(20)
                self.close_connection = True
            elif fate in ("html", "html-502"):
                page = b"<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"
                self._send(200 if fate == "html" else 502, page, mime="text/html")
            elif fate == "polite":
                self._send(200, b'{"error": {"message": "upstream is asleep"}}')
            elif body.get("stream") and fate != "whole":
                self._stream(server.reply(body), fate)
            else:
                self._whole(server.reply(body))

        def _whole(self, said: Said) -> None:
            message: Body = {"role": "assistant", "content": said if isinstance(said, str) else None}
            if not isinstance(said, str):
                message["tool_calls"] = [
                    {"id": f"call-{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
                    for n, (name, given) in enumerate(said)
                ]
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send(200, json.dumps({"choices": [choice], "usage": USAGE}).encode())

        def _stream(self, said: Said, fate: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            end = "\r\n" if fate == "crlf" else "\n"
            mark = "data:" if fate == "tight" else "data: "
            if fate == "comments":
                self._chunk(f": OPENROUTER PROCESSING{end}{end}event: message{end}id: 1{end}")
            for event in _events(said, fate):
                if event is None:
                    self._break(fate)
                    return
                if fate == "slow":
                    server.closing.wait(SLOW_SECONDS)
                line = f"{mark}{json.dumps(event, ensure_ascii=False)}{end}{end}"
                if fate == "comments":
                    line = f": ping{end}{end}{line}"
                if fate == "bytes":
                    for byte in line.encode():
                        self._chunk(bytes([byte]))
                else:
                    self._chunk(line)
            if fate != "no-done":
                self._chunk(f"{mark}[DONE]{end}{end}")
            self._chunk(b"")

        def _break(self, fate: str) -> None:
            if fate == "cut":
                self.wfile.write(b"ffff\r\ndata: {")
                self.wfile.flush()
                self.close_connection = True
            elif fate == "early":
                self._chunk(b"")
            elif fate == "stall":
                server.closing.wait(20)
                self.close_connection = True
            else:
                said = '{"error": {"message": "out of memory"}}' if fate == "error-event" else '{"choices": [{"del'
                self._chunk(f"data: {said}\n\n")
                self._chunk("data: [DONE]\n\n")
                self._chunk(b"")

        def _chunk(self, data: str | bytes) -> None:
            raw = data.encode() if isinstance(data, str) else data
            self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
            self.wfile.flush()

        def _send(
            self, status: int, data: bytes, *, mime: str = "application/json", headers: dict[str, str] | None = None
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Type", mime)
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return Responder
