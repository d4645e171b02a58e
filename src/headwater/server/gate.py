"""Every request in, every answer out: ids, limits, who may call from where, headers, one line in the log."""

import asyncio
import re
import secrets
import time
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.config import Server
from headwater.server import logs, wire
from headwater.server.tracing import Tracing

MAX_PLAIN_BYTES = 32 * 1024**2  # of a body that is no upload
SLOW_SECONDS = 30.0  # between two pieces of a body
# A body that has taken longer than that must have come at the pace of a modem: dripping holds a connection, not work.
LEAST_BYTES_PER_SECOND = 1024
# Names of headers as a browser lists them.
_NAMES = re.compile(r"[\w-]+( ?, ?[\w-]+){0,63}", re.ASCII)
_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_PORT = re.compile(r":\d+$")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "testserver"})
# What a person installed in the browser may send pages here, and do nothing else without a key.
_EXTENSIONS = frozenset({"chrome-extension", "moz-extension", "safari-web-extension"})
SENT_PAGES = "/api/v1/ingest/html"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; frame-src 'self' blob:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
# What a page of another origin may read of an answer, beside what every page may.
EXPOSED = b"content-disposition, openai-poll-after-ms, retry-after, x-request-id"
HEADERS = {
    b"content-security-policy": CONTENT_SECURITY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
}


class Gate:
    """An ASGI layer around the application."""

    def __init__(
        self, app: ASGIApp, *, settings: Server, open_access: bool, allowed_hosts: tuple[str, ...] = ("*",)
    ) -> None:
        self.app, self.settings, self.open_access, self.allowed_hosts = app, settings, open_access, allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        given = headers.get("x-request-id", "")
        scope["headwater.request_id"] = id = given if _ID.fullmatch(given) else secrets.token_hex(8)
        passage = _Passage(scope, send, id=id, origin=self._allowed_origin(scope, headers))
        began = time.perf_counter()
        state = _state(scope)
        tracing = state.tracing if state is not None else Tracing()
        # Whatever can be looked at can be asked after: HEAD is a GET whose body the server does not send.
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        with tracing.request(scope["method"], headers) as span:
            try:
                await self._pass(inner, receive, passage=passage, headers=headers)
            finally:  # a defect is answered further out, with 500
                passage.status, scope["route"] = passage.status or 500, inner.get("route")
                self._note(scope, passage, began)
                tracing.ended(span, route=_route(scope), status=passage.status, id=id)

    async def _pass(self, scope: Scope, receive: Receive, *, passage: "_Passage", headers: dict[str, str]) -> None:
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            fault, told = refusal
            if (state := _state(scope)) is not None:
                state.meters.errors.labels(fault.name).inc()
            await wire.failed(fault, told, path=scope["path"])(scope, receive, passage.send)
        elif scope["method"] == "OPTIONS" and passage.origin:
            await _preflight(passage.send, asked=headers.get("access-control-request-headers", ""))
        else:
            await self.app(scope, _Body(receive, limit=self._limit(headers)).receive, passage.send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[wire.Fault, str] | None:
        host = _PORT.sub("", headers.get("host", "").lower())
        if "*" not in self.allowed_hosts and host not in self.allowed_hosts:
            told = f"this server does not answer for the host {host!r}"
            return wire.Fault(400, "ARGUMENT_ERROR"), told
        origin = headers.get("origin", "")
        if (
            origin
            and scope["method"] not in _SAFE_METHODS
            and not self._allowed_origin(scope, headers)
            and not headers.get("authorization")
        ):
            # A page of somebody else's in the person's own browser: it has no key, and the server may need none.
            told = f"pages of {origin!r} may not call this server; see server.cors_origins"
            return wire.Fault(403, "AUTHENTICATION_ERROR"), told
        if (length := headers.get("content-length", "")) and (
            not length.isdigit() or int(length) > self._limit(headers)
        ):
            told = f"a body may have {self._limit(headers)} bytes, got {length!r}"
            return wire.Fault(413, "ARGUMENT_ERROR"), told
        return None

    def _allowed_origin(self, scope: Scope, headers: dict[str, str]) -> str:
        """The origin of a page that may call: the server's own, one of the settings; extensions send pages."""
        origin = headers.get("origin", "")
        kind, _, host = origin.partition("://")
        own = host.lower() == headers.get("host", "").lower()
        sends = kind in _EXTENSIONS and scope["path"] == SENT_PAGES
        return origin if origin and (own or sends or origin in self.settings.cors_origins) else ""

    def _limit(self, headers: dict[str, str]) -> int:
        upload = headers.get("content-type", "").lower().startswith("multipart/form-data")
        most = self.settings.max_body_bytes
        return most if upload else min(most, MAX_PLAIN_BYTES)

    def _note(self, scope: Scope, passage: "_Passage", began: float) -> None:
        seconds = time.perf_counter() - began
        path = _route(scope)
        if (state := _state(scope)) is not None:
            state.meters.requests.labels(scope["method"], path, str(passage.status)).observe(seconds)
        if path not in ("/metrics", "/healthz", "/readyz"):
            logs.tell(
                "Request",
                request_id=passage.id,
                method=scope["method"],
                route=path,
                status=passage.status,
                latency_ms=round(seconds * 1000, 2),
            )


class _Passage:
    """The way out: adds the headers that every answer has."""

    def __init__(self, scope: Scope, send: Send, *, id: str, origin: str) -> None:
        self._scope, self._send, self.id, self.origin, self.status = scope, send, id, origin, 0

    async def send(self, message: Message) -> None:
        """Pass an answer on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message.get("headers", [])}
            added = [(name, value) for name, value in HEADERS.items() if name not in present]
            added.append((b"x-request-id", self.id.encode()))
            if self.origin:
                added += [(b"access-control-allow-origin", self.origin.encode("latin-1")), (b"vary", b"Origin")]
                added.append((b"access-control-expose-headers", EXPOSED))
            if b"cache-control" not in present:
                added.append((b"cache-control", b"no-store"))
            message["headers"] = [*message.get("headers", []), *added]
        await self._send(message)


class _Body:
    """The way in: counts what comes, and does not wait for ever."""

    def __init__(self, receive: Receive, *, limit: int) -> None:
        self._receive, self._limit, self._bytes, self._whole = receive, limit, 0, False
        self._began = time.monotonic()

    async def receive(self) -> Message:
        """The next piece."""
        if self._whole:
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), SLOW_SECONDS)
        except TimeoutError:
            # Of a kind that whoever reads the body passes on as it is.
            raise HTTPException(408, f"nothing of the body came for {SLOW_SECONDS:g} s") from None
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            took = time.monotonic() - self._began
            if not self._whole and took > SLOW_SECONDS and self._bytes < took * LEAST_BYTES_PER_SECOND:
                raise HTTPException(408, f"{self._bytes} bytes of the body came in {took:.0f} s; send it faster")
            if self._bytes > self._limit:
                raise HTTPException(413, f"a body may have {self._limit} bytes, and more came")
        return message


def _route(scope: Scope) -> str:
    """The route as it is written, without what stands in its braces."""
    return str(getattr(scope.get("route"), "path", "other"))


def _state(scope: Scope) -> Any:
    """What the server shares; None before it has started."""
    return getattr(scope["app"].state, "headwater", None) if "app" in scope else None


async def _preflight(send: Any, *, asked: str) -> None:
    """To an origin that may call: clients of OpenAI and of MCP send headers of their own, which change with them."""
    names = asked if _NAMES.fullmatch(asked) else "authorization, content-type, x-request-id"
    allowed = [
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", names.encode("latin-1")),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": allowed})
    await send({"type": "http.response.body", "body": b""})


LOOPBACK_HOSTS = tuple(sorted(_LOOPBACK))
