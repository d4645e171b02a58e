"""Pages that a test writes down -> a real site on this machine, which remembers what it was asked."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Page:
    """What is answered. `drip` sends the body byte by byte, so many seconds apart; `cookies` are set, one a header."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()
    drip: float = 0.0
    declare: bool = True


class Site:
    """A site on all of this machine's addresses; `pages` by path, `asked` in order: (host, path, headers)."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Page | Callable[[dict[str, str]], Page]] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.local: list[str] = []  # the addresses that requests came in at
        site = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                told = {name.lower(): value for name, value in self.headers.items()}
                site.asked.append((told.get("host", ""), self.path, told))
                site.local.append(self.connection.getsockname()[0])
                found = site.pages.get(self.path, Page(b"nothing here", 404))
                page = found(told) if callable(found) else found
                self.send_response(page.status)
                if page.declare:
                    self.send_header("Content-Length", str(len(page.body)))
                for name, value in page.headers.items():
                    self.send_header(name, value)
                for cookie in page.cookies:
                    self.send_header("Set-Cookie", cookie)
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    if page.drip:
                        for number in range(len(page.body)):
                            self.wfile.write(page.body[number : number + 1])
                            self.wfile.flush()
                            time.sleep(page.drip)
                    else:
                        self.wfile.write(page.body)
                except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                    pass
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # a client that went away, or did not trust us

        self.server = Quiet(("0.0.0.0", 0), Answering)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def html(self, path: str, text: str, **headers: str) -> str:
        """Put a page there; return its address."""
        sent = {"Content-Type": "text/html; charset=utf-8", **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.pages[path] = Page(text.encode(), headers=sent)
        return self.url(path)

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
