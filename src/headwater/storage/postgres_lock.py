"""One writer per catalog, on whatever machine: a lock that the server takes back when its holder's connection ends.

Same shape and messages as the lock of a home in a folder. Who holds it stands in a table, for people.
"""

from __future__ import annotations

import json
import os
import platform
import time
import weakref
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Final

from headwater.errors import BackendError, HomeLocked, UsageError
from headwater.storage._postgres import driver
from headwater.storage._postgres_database import Pool
from headwater.storage.lock import POLL_SECONDS, own, sentence

# A holder whose machine was switched off is noticed by the server after about 25 seconds, not after two hours.
_LIVELINESS: Final = "set tcp_keepalives_idle = 10; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3"
# The server is far: asking it every 50 ms would be rude.
_POLLS: Final = 4

_held: weakref.WeakSet[PostgresLock] = weakref.WeakSet()
_left_to_parents: Final[list[Any]] = []


class PostgresLock:
    """Held by one process and by one object in it: taking it twice is a mistake, not a wait."""

    def __init__(self, url: str, *, schema: str, name: str) -> None:
        self._pool, self._name = Pool(url, schema=schema), name
        self._connection: Any = None

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._connection is not None

    def acquire(self, *, timeout_seconds: float = 0.0) -> None:
        """Take the lock, waiting at most so long; raise HomeLocked, which says who has it."""
        if self.held:
            raise UsageError(f"the lock {self._name!r} is already held by this object; release it first")
        connection = self._pool.connected(_LIVELINESS)
        try:
            self._wait(connection, until=time.monotonic() + timeout_seconds)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        _held.add(self)

    def release(self) -> None:
        """Let others write; fine if it is not held, or if the server let go of it with the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        _held.discard(self)
        with suppress(driver().Error):
            self._say(connection, {})
            connection.execute("select pg_advisory_unlock_all()")
        connection.close()

    def holder(self) -> dict[str, Any]:
        """What the last process to take it said of itself: pid, host, command, since. Empty when it was released."""
        with suppress(BackendError), closing(self._pool.connected("select 1")) as connection, self._pool.telling():
            return self._told(connection)
        return {}

    def __enter__(self) -> PostgresLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def _wait(self, connection: Any, *, until: float) -> None:
        with self._pool.telling():
            while not self._try_lock(connection):
                holder = self._told(connection)
                if _is_this_process(holder) or time.monotonic() >= until:
                    raise HomeLocked(sentence(f"the catalog at {self._pool.place}", holder))
                time.sleep(POLL_SECONDS * _POLLS)
            self._say(connection, {**own(), "host": platform.node()})

    def _try_lock(self, connection: Any) -> bool:
        key = f"headwater {self._pool.schema} {self._name}"
        sql = "select pg_try_advisory_lock(hashtextextended(%s, 0))"
        return bool(connection.execute(sql, (key,)).fetchone()[0])

    def _told(self, connection: Any) -> dict[str, Any]:
        row = connection.execute("select told from holder where name = %s", (self._name,)).fetchone()
        said = json.loads(row[0]) if row else {}
        return said if isinstance(said, dict) else {}

    def _say(self, connection: Any, said: dict[str, Any]) -> None:
        sql = "insert into holder values (%s, %s) on conflict(name) do update set told = excluded.told"
        connection.execute(sql, (self._name, json.dumps(said)))

    def _drop_in_child(self) -> None:
        """A forked child shares the connection: it must neither use nor end it, nor keep it open."""
        connection, self._connection = self._connection, None
        with suppress(OSError):
            os.close(connection.fileno())
        _left_to_parents.append(connection)


def _is_this_process(holder: dict[str, Any]) -> bool:
    return holder.get("pid") == os.getpid() and holder.get("host") == platform.node()


def _drop_all_in_child() -> None:
    for lock in list(_held):
        lock._drop_in_child()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_all_in_child)
