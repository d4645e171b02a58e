"""A normalised address -> what its server answers, from an address that was judged, within limits of time and size.

The connection is made by number, to an address that `_address.judged` let through in the same moment, while the server
is asked for by name and its certificate is checked against the name: a name that means another machine a second later
gains nothing. Every wait is cut to what is left of the whole time, so that a server that drips cannot hold on.
"""

from __future__ import annotations

import ssl
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore2

from headwater.sources._address import PageError, Resolve, judged

# A server that is there takes a connection within this.
CONNECT_SECONDS: Final = 10.0
# No page is packed tighter than this; what is, was made to fill memories.
_PIECE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said: status, headers in lower case, and the body, unpacked. `cookies` are those it sets."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long one page may take in all, and how large it may be."""

    seconds: float
    bytes: int


class _Stream(httpcore2.NetworkStream):
    """A connection whose every wait ends with the whole time."""

    def __init__(self, inner: httpcore2.NetworkStream, end: float) -> None:
        self._inner, self._end = inner, end

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(self._end, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _left(self._end, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        inner = self._inner.start_tls(ssl_context, server_hostname, _left(self._end, httpcore2.ConnectTimeout))
        return _Stream(inner, self._end)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Network(httpcore2.NetworkBackend):
    """Connects only to addresses that were judged, whatever the name means by then."""

    def __init__(self, *, resolve: Resolve, allow_private: bool, end: float) -> None:
        self._resolve, self._allow_private, self._end = resolve, allow_private, end
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        failure: Exception | None = None
        for address in judged(host, port, resolve=self._resolve, allow_private=self._allow_private):
            patience = min(CONNECT_SECONDS, _left(self._end, httpcore2.ConnectTimeout))
            try:
                return _Stream(self._inner.connect_tcp(address, port, timeout=patience), self._end)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        assert failure is not None
        raise failure


def _left(end: float, late: type[Exception]) -> float:
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise late("the whole time is over")
    return seconds


def get(
    url: str,
    *,
    headers: Mapping[str, str],
    limits: Limits,
    resolve: Resolve,
    allow_private: bool,
    cut: bool = False,
    sent: bytes | None = None,
) -> Answer:
    """One request, no redirect followed. A larger body is refused, or with `cut` ends at the limit.

    With `sent` it is a POST of these bytes.
    """
    end = time.monotonic() + limits.seconds
    host = urlsplit(url).hostname or ""
    network = _Network(resolve=resolve, allow_private=allow_private, end=end)
    told = {**headers, "Accept-Encoding": "gzip, deflate", "Connection": "close"}
    if sent is not None:
        told["Content-Length"] = str(len(sent))
    try:
        # A pool for one request: no connection is shared between names that have one address.
        with (
            httpcore2.ConnectionPool(ssl_context=_context(), network_backend=network) as pool,
            pool.stream("GET" if sent is None else "POST", url, headers=list(told.items()), content=sent) as response,
        ):
            said = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers]
            told, cookies = dict(said), tuple(value for name, value in said if name == "set-cookie")
            pieces = _unpacked(response.iter_stream(), told.get("content-encoding", ""), url)
            body = _within(pieces, limits, url, end=end, declared=told.get("content-length", ""), cut=cut)
            return Answer(status=response.status, headers=told, cookies=cookies, body=body)
    except httpcore2.TimeoutException as error:
        raise PageError(f"{host} did not answer within {limits.seconds:g} s; try again later", again=True) from error
    except httpcore2.ConnectError as error:
        if isinstance(error.__cause__, ssl.SSLError) or isinstance(error.__context__, ssl.SSLError):
            raise PageError(f"{host} has no certificate that can be trusted ({error}); fetch it with a browser") from (
                error
            )
        raise PageError(f"{host} cannot be reached ({error}); check the address or try later", again=True) from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        raise PageError(f"{host} broke off ({type(error).__name__}: {error}); try again later", again=True) from error


@cache
def _context() -> ssl.SSLContext:
    """Made once: reading the certificates of the system takes longer than many a page."""
    return ssl.create_default_context()


def _unpacked(pieces: Iterable[bytes], packing: str, url: str) -> Iterator[bytes]:
    """The body as it was before it was packed, in pieces of a bounded size."""
    kind = packing.strip().lower()
    if kind in ("", "identity"):
        yield from pieces
        return
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise PageError(f"{url} came packed as {packing!r}, which nobody asked for")
    # 47: gzip or zlib, told by their first bytes. Some servers send deflate without a head at all.
    unpacker = zlib.decompressobj(47)
    begun = False
    for piece in pieces:
        rest = piece
        while rest:
            try:
                part = unpacker.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                if begun or kind != "deflate":
                    raise PageError(f"{url} came packed and cannot be unpacked: {error}", again=True) from error
                unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
                begun = True
                continue
            begun = True
            yield part
            rest = unpacker.unconsumed_tail


def _within(pieces: Iterator[bytes], limits: Limits, url: str, *, end: float, declared: str, cut: bool) -> bytes:
    if not cut and declared.isdecimal() and int(declared) > limits.bytes:
        raise PageError(f"{url} is {declared} bytes and {limits.bytes} are the limit; raise web.max_bytes to take it")
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > limits.bytes:
            if cut:
                return bytes(body[: limits.bytes])
            raise PageError(f"{url} is larger than {limits.bytes} bytes; raise web.max_bytes to take it")
        if time.monotonic() > end:
            raise httpcore2.ReadTimeout("the whole time is over")
    return bytes(body)
