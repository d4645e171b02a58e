"""An address of a PostgreSQL database -> connections that take the catalog's statements, written for SQLite as well.

Placeholders, lists of parameters and the one table whose name PostgreSQL has another use for are translated; many rows
are inserted by COPY, and other statements for many rows are sent without waiting for each. One process writes at a
time: a transaction that writes begins by taking its turn.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import BackendError, HomeDamaged, UsageError
from headwater.storage._postgres import Postgres, driver
from headwater.storage._sql import Connection

if TYPE_CHECKING:
    import psycopg

# Another process writes for seconds at a time; who waits longer than this is stuck.
BUSY_SECONDS: Final = 30
# Looking for rows that belong to nothing compares tables of a million rows in memory, or takes hours.
WORK_MEMORY: Final = "256MB"
# Below it, COPY costs more round trips than it saves.
COPIED_ROWS: Final = 8
# Rows of a statement whose rows are not all to be in memory: parts of text, of 100 KB at most.
STREAMED_ROWS: Final = 64
# Statements are few; those made of filters differ in the number of their parameters alone.
TRANSLATED: Final = 1_000

_TURN: Final = (
    f"set local lock_timeout = '{BUSY_SECONDS}s'; set local work_mem = '{WORK_MEMORY}'; "
    "lock table turn in exclusive mode"
)
_NOT_DURABLE: Final = "; set local synchronous_commit = off"
_INSERT: Final = re.compile(r"insert into (\w+)(\([\w, ]+\))? values \((?:\?, )*\?\)")
_PARAMETER: Final = re.compile(r"json_each\(\?\) as (given|named)|\?")
_TYPES: Final = {"given": "bigint", "named": "text"}
# The extension pgvector has a type of this name, and a table's name is that of a type as well.
_VECTOR_TABLE: Final = re.compile(r"\b(from|into|join) vector\b")
# What stands behind the last slash of a uri: a column of its own here, for its index takes no long values.
_FILE: Final = "lower(replace(uri, rtrim(uri, replace(uri, '/', '')), ''))"
# What may be of any length is looked up by its digest, as its index is made (`_postgres_schema`).
_LOOKED_UP: Final = (
    re.compile(r"(?<=from term where )(key) = (\$\d+)(?: and (value) = (\$\d+))?"),
    re.compile(r"(?<=term\.id where )(key) = (\$\d+)"),
    re.compile(r"(?<=from section where )(path) = (\$\d+)"),
    re.compile(r"(?<=from document where )(uri|lower\(title\)) = (\$\d+)"),
)
_TARGETS: Final = re.compile(r"(?<=from link where )target in \(([^)]*)\)")

# SQLSTATE of what a catalog cannot be read with: no such table, column, schema or function; broken pages.
_MISSING: Final = ("42P01", "42703", "3F000", "42883")
_BROKEN: Final = ("XX001", "XX002")
_LOCKED: Final = "55P03"
_TOO_LONG: Final = "54000"


@lru_cache(TRANSLATED)
def translated(sql: str) -> tuple[str, tuple[tuple[int, str], ...]]:
    """A statement as PostgreSQL takes it, and which of its parameters are lists, of what."""
    if "?" not in sql:
        return _renamed(sql), ()
    lists: list[tuple[int, str]] = []
    places = count(1)

    def numbered(found: re.Match[str]) -> str:
        place, kind = next(places), found[1]
        if kind is None:
            return f"${place}"
        lists.append((place - 1, kind))
        return f"unnest(${place}::{_TYPES[kind]}[]) as {kind}(value)"

    return _by_digest(_renamed(_PARAMETER.sub(numbered, sql))), tuple(lists)


def _renamed(sql: str) -> str:
    return _VECTOR_TABLE.sub(r"\1 vectors as vector", sql).replace("cross join", "join").replace(_FILE, "file")


def _by_digest(sql: str) -> str:
    for pattern in _LOOKED_UP:
        sql = pattern.sub(_digested, sql)
    return _TARGETS.sub(
        lambda found: f"digest_of(target) in ({', '.join(f'digest_of({one}::text)' for one in found[1].split(', '))})",
        sql,
    )


def _digested(found: re.Match[str]) -> str:
    told = [part for part in found.groups() if part]
    pairs = zip(told[::2], told[1::2], strict=True)
    return " and ".join(f"digest_of({column}) = digest_of({place}::text)" for column, place in pairs)


def _filled(parameters: Sequence[Any], lists: tuple[tuple[int, str], ...]) -> Sequence[Any]:
    """Lists come as JSON: numbers look the same to PostgreSQL, but for their brackets."""
    if not lists:
        return parameters
    values = list(parameters)
    for place, kind in lists:
        given = values[place]
        values[place] = "{" + given[1:-1] + "}" if kind == "given" else json.loads(given)
    return values


class Pool(Postgres):
    """The catalog's own connections: they take any text, and their errors are those of a catalog."""

    def __init__(self, url: str, *, schema: str) -> None:
        super().__init__(url, schema=schema)
        told = self._psycopg.conninfo.conninfo_to_dict(url)
        self.host = str(told.get("host") or told.get("hostaddr") or "local")
        if told.get("port"):
            self.host += f":{told['port']}"
        self.database = str(told.get("dbname") or told.get("user") or "")

    @contextmanager
    def one_by_one(self) -> Iterator[ServerConnection]:
        """A connection outside of a transaction: each of its statements sees what is committed then."""
        lent = ServerConnection(self._take() or self._answering("select 1"), again=self._replaced)
        try:
            with self.telling():
                yield lent
        finally:
            self._give_back(lent.raw)

    def connected(self, first: str) -> psycopg.Connection[Any]:
        """A connection that has executed a statement and is the caller's to close."""
        return self._answering(first)

    def _replaced(self, broken: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
        broken.close()
        self._drop_idle()
        return self._answering("select 1")

    def _connected(self) -> psycopg.Connection[Any]:
        from headwater.storage._escaped import adapt

        connection = super()._connected()
        connection.execute("set client_encoding = 'UTF8'")
        adapt(connection)
        return connection

    def _told(self, error: Exception) -> BackendError:
        state = getattr(error, "sqlstate", None) or ""
        said = " ".join(str(error).split())
        if state == _LOCKED:
            return BackendError(
                f"another process has been writing to the catalog at {self.place} for over {BUSY_SECONDS} seconds; "
                "try again"
            )
        if state in _MISSING or state in _BROKEN:
            return HomeDamaged(
                f"the catalog in schema {self.schema!r} at {self.place} cannot be read: {said}; put back a copy of it, "
                "or name another schema with `catalog.schema` and add the documents again"
            )
        if state == _TOO_LONG:
            return BackendError(f"PostgreSQL at {self.place} refused a name that is too long: {said}; shorten it")
        return super()._told(error)


class ServerConnection:
    """A connection of the shape that the catalog's statements ask for, over one of psycopg's."""

    def __init__(
        self,
        raw: psycopg.Connection[Any],
        *,
        again: Callable[[psycopg.Connection[Any]], psycopg.Connection[Any]] | None = None,
    ) -> None:
        self.raw, self._again = raw, again

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        """One statement; outside of a transaction, over another connection where this one turns out to be broken."""
        text, lists = translated(sql)
        values = _filled(parameters, lists)
        try:
            return self._cursor().execute(text, values or None, binary=True)
        except driver().OperationalError:
            if self._again is None or not self.raw.closed:
                raise
        self.raw = self._again(self.raw)
        return self._cursor().execute(text, values or None, binary=True)

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object:
        """Rows that are only inserted are copied; other statements are sent without waiting for each."""
        rows = list(parameters)
        insert = _INSERT.fullmatch(sql)
        if insert is not None and len(rows) >= COPIED_ROWS:
            table = "vectors" if insert[1] == "vector" else insert[1]
            with self._cursor().copy(f"copy {table}{insert[2] or ''} from stdin".encode()) as copy:
                for row in rows:
                    copy.write_row(row)
        elif rows:
            text, lists = translated(sql)
            self._cursor().executemany(text, [_filled(row, lists) for row in rows])
        return None

    def each(self, sql: str, parameters: Sequence[Sequence[Any]], /) -> list[Any]:
        """The first row, or None, that a statement finds for each of many parameters, in their order."""
        if not parameters:
            return []
        text, lists = translated(sql)
        cursor = self._cursor()
        cursor.executemany(text, [_filled(row, lists) for row in parameters], returning=True)
        found = [cursor.fetchone()]
        while cursor.nextset():
            found.append(cursor.fetchone())
        return found

    def stream(self, sql: str, /) -> Iterator[Any]:
        """Every row of a statement, some at a time; within a transaction only."""
        self.execute(f"declare streamed no scroll cursor for {sql}")
        while rows := self.execute(f"fetch {STREAMED_ROWS} from streamed").fetchall():
            yield from rows
        self.execute("close streamed")

    def _cursor(self) -> Any:
        from psycopg import RawCursor

        return RawCursor(self.raw)


class PostgresDatabase:
    """Many readers and one writer. `pool` leads to a schema that holds a catalog."""

    def __init__(self, pool: Pool, *, writable: bool) -> None:
        self.pool, self.writable = pool, writable
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def reading(self, *, snapshot: bool = False) -> Iterator[ServerConnection]:
        """A connection that sees what is committed; with `snapshot`, all its statements see the same."""
        self._refuse_closed()
        if not snapshot:
            with self.pool.one_by_one() as db:
                yield db
            return
        with self.pool.reading() as raw:
            yield ServerConnection(raw)

    @contextmanager
    def writing(
        self, *, on_failure: Callable[[], None] = lambda: None, durable: bool = True
    ) -> Iterator[ServerConnection]:
        """One transaction: all of it is kept when the block ends, or none of it if the block raises.

        One that is not durable outlives this process, and a crash of the server only after a moment.
        """
        self._refuse_closed()
        if not self.writable:
            raise UsageError(f"the catalog at {self.pool.place} is open for reading only; open it for writing")
        with self._lock:
            try:
                with self.pool.writing() as raw:
                    raw.execute((_TURN if durable else _TURN + _NOT_DURABLE).encode())
                    yield ServerConnection(raw)
            except BaseException:
                on_failure()
                raise

    def checked(self, rules: Callable[[Connection], list[str]], /) -> list[str]:
        """What the rules find wrong in one snapshot. PostgreSQL finds broken pages when it reads them."""
        with self.reading(snapshot=True) as db:
            db.execute(f"set local work_mem = '{WORK_MEMORY}'")
            return rules(db)

    def close(self) -> None:
        """Let go of every connection that is not in use."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.pool.close()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise UsageError(f"the catalog at {self.pool.place} is closed; open it again")
