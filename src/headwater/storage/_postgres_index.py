"""What the text index and the vector index in PostgreSQL have in common: how changes become durable.

What is added is kept in memory until `flush`, which writes it in one transaction; when it becomes much, the transaction
begins earlier, and others see nothing of it before it ends. After an error the index is as it was last flushed. An
index that was cleared is written into tables beside those that others read, which take their place with `flush`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from headwater.errors import SettingError, UsageError
from headwater.storage._postgres import lock, shared

if TYPE_CHECKING:
    from headwater.storage._postgres import Connection, Postgres


class SpaceTables(Protocol):
    """The tables of one space. Methods take a connection with a transaction of the caller's."""

    def create(self, connection: Connection) -> None:
        """Make what is missing."""
        ...

    def drop(self, connection: Connection) -> None:
        """All of it."""
        ...

    def take_the_place(self, connection: Connection, of: Self) -> None:
        """Drop the others and be called as they were."""
        ...


Tables = TypeVar("Tables", bound=SpaceTables)


def space_of(path: Path, kind: str) -> str:
    """What the tables of an index are called, by the folder that another index of its space would have: `text_1`."""
    number = path.name.rpartition("-")[2]
    if not number.isdecimal():
        raise SettingError(f"an index in PostgreSQL is named by its space, as {kind}-1, got {path.name!r}")
    return f"{kind}_{int(number)}"


class PostgresIndex(Generic[Tables]):
    """One index. `tables` are those that are read; `beside` are written by what begins with `clear`."""

    def __init__(self, space: str, *, tables: Tables, beside: Tables, writable: bool, url: str, schema: str) -> None:
        self._space, self._writable, self._url, self._schema = space, writable, url, schema
        self._tables, self._beside = tables, beside
        self._lock = threading.RLock()
        self._shared: Postgres | None = None
        self._anew = False
        self._transaction: Connection | None = None  # from the first write until `flush`

    def _is_kept(self) -> bool:
        """Whether there is anything to write."""
        raise NotImplementedError

    def _send(self, connection: Connection, tables: Tables) -> None:
        """Write what is kept."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Keep nothing any more."""
        raise NotImplementedError

    def clear(self) -> None:
        """Drop everything, even what cannot be read; the next flush makes it durable."""
        self._check_writable()
        with self._lock:
            self._discard()
            self._anew = True

    def flush(self) -> None:
        """Make what was added and removed durable, and visible after `refresh`."""
        with self._lock:
            if not (self._is_kept() or self._anew or self._transaction):
                return
            connection = self._written()
            try:
                if self._anew:
                    with self._database().telling():
                        self._beside.take_the_place(connection, of=self._tables)
            except BaseException:
                self._discard()
                raise
            self._transaction, self._anew = None, False
            self._database().commit(connection)
            self.refresh()

    def refresh(self) -> None:
        """See what was last flushed, by this process or another: searches do anyway."""

    def release(self) -> None:
        """Let go of what was not flushed; reading goes on."""
        with self._lock:
            self._discard()

    def close(self) -> None:
        """Let go of connections; what was not flushed is lost."""
        with self._lock:
            self.release()
            database, self._shared = self._shared, None
            if database is not None:
                database.close()

    def drop(self) -> None:
        """Remove the tables: the space is no more."""
        self._check_writable()
        with self._lock:
            self._discard()
            with self._database().writing() as connection:
                self._alone(connection)
                for tables in (self._tables, self._beside):
                    tables.drop(connection)
            self.refresh()

    def keep_only(self, spaces: Collection[int]) -> None:
        """Remove the tables of this kind that belong to other spaces: they were dropped."""
        self._check_writable()
        kind = self._space.rpartition("_")[0]
        named = re.compile(rf"{kind}_(\d+)(_.*)?")
        with self._database().writing() as connection:
            asked = "select tablename from pg_tables where schemaname = %s"
            found = [named.fullmatch(name) for (name,) in connection.execute(asked, (self._schema,)).fetchall()]
            for match in found:
                if match is not None and int(match[1]) not in spaces:
                    connection.execute(f"drop table {match[0]}".encode())

    def _written(self) -> Connection:
        """Send what is kept, in a transaction that ends with `flush`; if that fails, all since the last one is lost."""
        database = self._database()
        tables = self._beside if self._anew else self._tables
        try:
            connection = self._transaction
            if connection is None:
                connection = self._transaction = database.begin()
                with database.telling():
                    self._alone(connection)
                    if self._anew:
                        tables.drop(connection)
                    tables.create(connection)
            with database.telling():
                self._send(connection, tables)
        except BaseException:
            self._discard()
            raise
        self._forget()
        return connection

    def _discard(self) -> None:
        """Go back to what was last flushed."""
        self._forget()
        self._anew = False
        connection, self._transaction = self._transaction, None
        if connection is not None:
            self._database().rollback(connection)

    def _alone(self, connection: Connection) -> None:
        """Nobody else writes to this space until the transaction ends."""
        lock(connection, f"{self._schema} {self._space}")

    def _database(self) -> Postgres:
        with self._lock:
            if self._shared is None:
                self._shared = shared(self._url, schema=self._schema)
            return self._shared

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError(f"the index {self._space} was opened for reading; open it with writable=True")
