"""Results that several processes share through a Redis server, in front of it those of this process.

A result is JSON under the name of its home and a key that holds all it depends on (`cache.key_of`), for a while, and
of one home only so many. A server that does not answer costs one short wait: then it is let alone for a time, searches
go on without it, and the log says so once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from headwater.errors import BackendError, SettingError
from headwater.stages._request import within
from headwater.storage._lineage import Lineage
from headwater.storage._results_json import packed, unpacked
from headwater.storage.cache import ResultCache, is_worth_keeping
from headwater.types import Results

Value = TypeVar("Value")

INSTALL: Final = "pip install 'headwater[redis]'"
PREFIX: Final = "headwater:results"
# After a failure the server is not asked for so long: a restart takes a few seconds.
LET_ALONE_SECONDS: Final = 30.0
# A search that has less time than this many waits does not ask: what is left is for searching.
WAITS: Final = 2
# Asked for at a time when everything of a home is taken out.
BATCH: Final = 500

logger = logging.getLogger("headwater.server.cache")


class RedisCache:
    """A Cache in a Redis server, for the home of `catalog`, which is at `generation`.

    `near` is what this process keeps for itself; `size` is how many of this home the server keeps.
    """

    def __init__(
        self,
        near: ResultCache,
        catalog: Path,
        *,
        generation: int,
        size: int,
        identity: list[int] | None = None,
        url: str,
        password: str = "",
        ttl_seconds: float = 300.0,
        timeout_seconds: float = 0.1,
        max_bytes: int = 1 << 20,
    ) -> None:
        self._near, self._size = near, size
        self._lineage = lineage = Lineage(catalog, generation=generation, identity=identity)
        self._ttl_ms, self._timeout, self._max_bytes = max(int(ttl_seconds * 1000), 1), timeout_seconds, max_bytes
        self._home = f"{PREFIX}:{lineage.name}"
        self._order = f"{PREFIX}-order:{lineage.name}"  # of this home's keys, by when they were last used
        self._where = _place(url)
        self._client, self._errors = _client(url, password=password, timeout_seconds=timeout_seconds)
        self._let_alone_until = 0.0
        self._told = False

    def get(self, key: bytes, *, within_seconds: float = float("inf")) -> Results | None:
        """What was put under the key by any process, or None; asks nobody where there is little time."""
        found = self._near.get(key)
        if found is not None or within_seconds < WAITS * self._timeout or self._size < 1:
            return found
        name = self._name(key)
        used = {name: time.time()}

        def asked() -> Any:
            pipe = self._client.pipeline(transaction=False)
            return pipe.get(name).zadd(self._order, used, xx=True).execute()[0]

        data = self._tried(asked)
        results = unpacked(data) if isinstance(data, bytes) and len(data) <= self._max_bytes else None
        if results is not None:
            self._near.put(key, results)
        return results

    def put(self, key: bytes, results: Results) -> None:
        """Keep it here and there, in the place of the one that was not asked for the longest."""
        self._near.put(key, results)
        self._lineage.reached(results.generation)
        if self._size < 1 or not is_worth_keeping(results):
            return
        data = packed(results)
        if data is None or len(data) > self._max_bytes:
            return
        name, now = self._name(key), time.time()

        def kept() -> None:
            pipe = self._client.pipeline(transaction=False)
            pipe.set(name, data, px=self._ttl_ms)
            pipe.zadd(self._order, {name: now})
            pipe.zremrangebyscore(self._order, 0, now - self._ttl_ms / 1000)
            pipe.pexpire(self._order, self._ttl_ms)
            over = pipe.zcard(self._order).execute()[-1] - self._size
            if over > 0:
                oldest = [one for one, _ in self._client.zpopmin(self._order, over)]
                self._client.unlink(*oldest)

        self._tried(kept)

    def clear(self) -> None:
        """Take out everything of this home; BackendError where the server cannot be asked to."""
        self._near.clear()

        def cleared() -> None:
            names = list(self._client.scan_iter(f"{self._home}:*", count=BATCH))
            for start in range(0, len(names), BATCH):
                self._client.unlink(*names[start : start + BATCH])
            self._client.unlink(self._order)

        try:
            self._translated(cleared)()
        except BackendError as error:
            raise BackendError(
                f"results at {self._where} could not be taken out: {error}; they go by themselves within "
                f"{self._ttl_ms / 1000:g} s, or take out the keys {PREFIX}* there"
            ) from error

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def __len__(self) -> int:
        return len(self._near)

    def _name(self, key: bytes) -> str:
        return f"{self._home}:{key.hex()}"

    def _tried(self, work: Callable[[], Value]) -> Value | None:
        """What the server says; None where it says nothing in time, and then it is let alone for a while."""
        if time.monotonic() < self._let_alone_until:
            return None
        try:
            # In a thread of its own: looking up the server's name knows no deadline.
            found = within(self._timeout, self._translated(work))
        except BackendError as error:
            self._let_alone_until = time.monotonic() + LET_ALONE_SECONDS
            if not self._told:
                self._told = True
                logger.warning("the result cache at %s does not answer (%s): searching without it", self._where, error)
            return None
        if self._told:
            self._told = False
            logger.info("the result cache at %s answers again", self._where)
        return found

    def _translated(self, work: Callable[[], Value]) -> Callable[[], Value]:
        def done() -> Value:
            try:
                return work()
            except self._errors as error:
                raise BackendError(f"{type(error).__name__}: {error}") from error

        return done


def _client(url: str, *, password: str, timeout_seconds: float) -> tuple[Any, tuple[type[Exception], ...]]:
    """A client that tries once and waits no longer than it may, and what it raises."""
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise SettingError(f"cache.use is 'redis' and its client is not installed; {INSTALL}") from error
    made: Any = redis.Redis
    waits = {"socket_timeout": timeout_seconds, "socket_connect_timeout": timeout_seconds}
    secret = {"password": password} if password else {}
    try:
        client = made.from_url(url, retry=Retry(NoBackoff(), 0), **waits, **secret)
    except ValueError as error:
        wanted = "redis://HOST:PORT/NUMBER, rediss:// with encryption, or unix://PATH"
        raise SettingError(f"cache.url must be {wanted}, got {_place(url)!r}") from error
    return client, (redis.RedisError, OSError)


def _place(url: str) -> str:
    """Where the server is, without what lets one in."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "an address that cannot be read"
