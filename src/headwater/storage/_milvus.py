"""Calls to a Milvus server -> what they give, or a BackendError that says what failed, where, and what to do.

The client is imported with the first call: that takes half a second and fetches nothing. It may neither write to our
log nor put a project's `.env` into our environment, which it does by default. Every call has a time limit. A server
that is gone is told at once, and is connected to anew with the next call; one that did not answer in time is let alone
for a while, so that not every search waits for it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headwater.errors import BackendError, SettingError

CLIENT: Final = "pymilvus"
INSTALL: Final = 'pip install "headwater[milvus]"'
SCHEMES: Final = ("http", "https", "tcp")
# What its logger writes goes to stderr, with traces, for each error that we translate and tell ourselves.
LOGGERS: Final = (CLIENT, f"{CLIENT}.milvus_client", f"{CLIENT}.bulk_writer")
SILENT: Final = logging.CRITICAL + 1
# The variable by which gRPC is told whether to look after its threads in forked processes.
FORK_SUPPORT: Final = "GRPC_ENABLE_FORK_SUPPORT"
# Codes of the server: too many calls of a kind.
RATE_LIMIT: Final = 8
# Its reasons hold traces of Go; what matters stands in front.
MAX_REASON: Final = 300
TOO_LATE: Final = "DEADLINE_EXCEEDED"
LET_ALONE_SECONDS: Final = 10.0


class CollectionGone(BackendError):
    """The collection is not there, or not in the server's memory."""


class GraphMissing(BackendError):
    """The collection has no graph; whoever made it was stopped before it had one."""


KINDS: Final[Mapping[int, type[BackendError]]] = {100: CollectionGone, 101: CollectionGone, 700: GraphMissing}


class Connection:
    """One connection to a server, opened with the first call. Safe for several threads."""

    def __init__(self, uri: str, *, token: str = "", timeout_seconds: float = 5.0) -> None:
        if timeout_seconds <= 0:
            raise SettingError(f"timeout_seconds must be more than 0, got {timeout_seconds!r}")
        self.place, secret = _place(uri)
        self._uri, self._token, self._timeout = uri, token, timeout_seconds
        # Should a message of the server or the client hold one of them.
        self._secrets = [found for found in (token, token.partition(":")[2], secret) if found]
        self._turn = threading.Lock()
        self._client: Any = None
        self._let_alone_until, self._late = 0.0, ""

    def call(self, what: str, work: Callable[..., Any], *, seconds: float = 0.0, **given: Any) -> Any:
        """`work(client, timeout=…, **given)`; `what` says what it is for, as in 'searching'.

        It has the time of the settings, or `seconds` where that is more.
        """
        if time.monotonic() < self._let_alone_until:
            raise BackendError(self._late)
        client = self._connected()
        pymilvus, grpc = sys.modules[CLIENT], sys.modules["grpc"]
        try:
            return work(client, timeout=max(self._timeout, seconds), **given)
        except (pymilvus.MilvusException, grpc.RpcError) as error:
            raise self._told(what, error) from error

    def now(self) -> int:
        """The server's time: who waits for it sees all that was written before."""
        # A server that has no such call gives 0, which means the latest.
        found: int = self.call(
            "asking for the time", lambda client, **given: client._get_connection().alloc_timestamp(**given)
        )
        return found

    def close(self) -> None:
        """Let go of it; the next call opens it again."""
        with self._turn:
            if self._client is not None:
                self._client.close()
            self._client = None

    def _connected(self) -> Any:
        with self._turn:
            if self._client is None:
                pymilvus = _imported()
                grpc = sys.modules["grpc"]
                try:
                    # One of its own: those that it shares are never closed.
                    self._client = pymilvus.MilvusClient(
                        uri=self._uri, token=self._token, timeout=self._timeout, dedicated=True
                    )
                except (pymilvus.MilvusException, grpc.RpcError) as error:
                    raise self._told("connecting", error) from error
            return self._client

    def _told(self, what: str, error: Any) -> BackendError:
        code = error.code() if callable(error.code) else error.code
        kind = KINDS.get(code, BackendError)
        # The client says of a refused token that it could not connect; what went over the line is behind that.
        behind = [error]
        while (inner := behind[-1].__cause__) is not None and inner not in behind:
            behind.append(inner)
        wire = [one for one in behind if callable(getattr(one, "details", None))]
        name = str(wire[-1].code().name) if wire else ""
        reason = str(wire[-1].details() if wire else getattr(error, "message", error))
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        # The client puts what it did around what the server said.
        reason = " ".join(reason.rpartition("message=")[2].split())[:MAX_REASON]
        told = f"Milvus at {self.place}: {what} failed: {reason or name}; {self._remedy(name, reason)}"
        if name == TOO_LATE:
            self._late, self._let_alone_until = told, time.monotonic() + LET_ALONE_SECONDS
        return kind(told)

    def _remedy(self, name: str, reason: str) -> str:
        low = reason.lower()
        if name == "UNAUTHENTICATED" or "auth" in low or "api key" in low:
            return 'check `token` of [vector_index]: "env:NAME", where NAME holds "user:password" or an API key'
        if name == TOO_LATE or "timeout" in low:
            return "it took too long; try again, or raise `timeout_seconds` of [vector_index]"
        if name == "UNAVAILABLE" or "connect" in low:
            return "check that the server runs and that `uri` of [vector_index] is its address"
        return "try again; the log of the server may say more"


def _imported() -> Any:
    """The client, silent and without the variables that it reads from files."""
    if (there := sys.modules.get(CLIENT)) is not None:  # somebody else's, who has set it up as they like
        return there
    # Or what gRPC does after a fork ends one in forty processes that are started with one, before they begin.
    os.environ.setdefault(FORK_SUPPORT, "0")
    before = set(os.environ)
    try:
        import pymilvus
    except ImportError as error:
        raise BackendError(f"the vector index is in Milvus and its client is not installed; {INSTALL}") from error
    finally:
        for name in set(os.environ) - before:
            del os.environ[name]
    for name in LOGGERS:
        logging.getLogger(name).setLevel(SILENT)
    return pymilvus


def _place(uri: str) -> tuple[str, str]:
    """Where the server is, without what lets one in, and that."""
    wanted = "http://HOST:PORT, or https:// with encryption"
    try:
        parts = urlsplit(uri)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise SettingError(f"uri of [vector_index] must be {wanted}: {error}") from error
    if parts.scheme not in SCHEMES or not parts.hostname:
        shown = uri.rpartition("@")[2]
        raise SettingError(f"uri of [vector_index] must be {wanted}, got {shown!r}")
    return f"{parts.hostname}{port}", parts.password or ""
