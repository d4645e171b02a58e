"""MCP at /mcp (streamable HTTP): every request on its own, with the key that it carries."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from headwater.server import wire
from headwater.server.auth import Caller, authenticate
from headwater.server.state import State, state_of

PATH = "/mcp"
CALLER = "headwater.caller"  # in the scope of a request, once its key was looked at
MISSING = 'MCP is not installed here; install it with `pip install "headwater[mcp]"`'
_SCHEME = "bearer "


def install(app: FastAPI) -> None:
    """Answer at /mcp, and run what that needs as long as the server runs."""
    endpoint = _Endpoint()
    # Only POST: there is no session to end, and nothing to send that was not asked for.
    endpoint.route = Route(PATH, endpoint=endpoint, methods=["POST"], include_in_schema=False)
    app.router.routes.append(endpoint.route)
    if find_spec("mcp") is not None:
        app.state.lifespans.append(lambda: endpoint.running(app))


class _Endpoint:
    """An ASGI application that knows its caller before anything is read."""

    def __init__(self) -> None:
        self._inner: Any = None
        self.route: Route | None = None

    @asynccontextmanager
    async def running(self, app: FastAPI) -> AsyncIterator[None]:
        """The tools, as long as the server runs."""
        from mcp.server.transport_security import TransportSecuritySettings

        from headwater.server.tools import server_of

        def state() -> State:
            found: State = app.state.headwater
            return found

        server = server_of(state, _caller)
        # Hosts and origins were looked at before, at the gate, with the settings of this server.
        server.streamable_http_app(
            stateless_http=True,
            json_response=True,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        async with server.session_manager.run():
            self._inner = server.session_manager
            try:
                yield
            finally:
                self._inner = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at the key, then let the tools answer."""
        scope["route"] = self.route  # for the log and the numbers
        request = Request(scope)
        said = request.headers.get("authorization", "")
        secret = said[len(_SCHEME) :].strip() if said.lower().startswith(_SCHEME) else None
        scope[CALLER] = authenticate(state_of(request), secret, request)
        if self._inner is None:
            raise wire.NotHere(MISSING)
        await self._inner.handle_request(scope, receive, send)


def _caller(request: Any) -> Caller:
    found: Caller = request.scope[CALLER]
    return found
