"""A way to answer requests -> a server on a free port of this machine, for as long as a `with` block lasts."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Self

POLL_SECONDS = 0.02  # a test waits so long for its server to end


class Loopback:
    """What the servers of the tests share: an address, a beginning and an end. `closing` tells who waits to stop."""

    def __init__(self, responder: type[BaseHTTPRequestHandler]) -> None:
        self.closing = Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), responder)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": POLL_SECONDS}, daemon=True)

    @property
    def url(self) -> str:
        """What to give as base_url."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
