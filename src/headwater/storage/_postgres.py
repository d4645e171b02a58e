"""An address of a PostgreSQL database -> connections to it, with our tables in a schema of their own.

psycopg is imported here only, when a database is first named. Connections are opened when they are first needed and
kept for the next; one that broke is replaced, and a process that was forked starts with none. Every error of the
database leaves as a BackendError that says where it happened, without the password.
"""

from __future__ import annotations

import atexit
import math
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import BackendError, DiskFull, HomeDamaged, SettingError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]

INSTALL: Final = 'pip install "headwater[postgres]"'
# Letters that need no quoting anywhere, and no longer than PostgreSQL allows.
SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# Where extensions are found: `public` as a rule, `extensions` with some providers. One that is not there is ignored.
EXTENSION_SCHEMAS: Final = ("public", "extensions")
# What libpq understands as "at least": one second could be over before it began.
LEAST_CONNECT_SECONDS: Final = 2
# A server that is restarted answers again after about so long.
AGAIN_SECONDS: Final = 0.5
# Connections that wait for the next use: two legs of a search, the catalog and a writer, twice.
KEPT_IDLE: Final = 8
# A server that is gone without a word is given up after so long, not after the quarter of an hour that is usual.
SILENCE_MS: Final = 30_000
LIVELINESS: Final = {"keepalives_idle": 30, "keepalives_interval": 10, "tcp_user_timeout": SILENCE_MS}

READ: Final = "begin isolation level repeatable read read only"
WRITE: Final = "begin isolation level read committed read write"

# By SQLSTATE: what to do. The first two characters are the class.
REMEDIES: Final = {
    "28": "check the user and the password in the url",
    "3D": "make the database (`createdb NAME`), or correct its name in the url",
    "42501": "give the user the right to create and use the schema, or another schema with `schema = ...`",
    "25006": "this server only reads (a standby?); name the one that writes",
    "53300": "the server has too many connections; raise its max_connections or close some",
    "57P": "the server was stopped; start it and try again",
    "08": "see that the server runs and can be reached, and try again",
    "40": "try again",
}
# The server says nothing of an SQLSTATE where it refuses a connection.
REFUSALS: Final = (
    (re.compile(r'database "[^"]*" does not exist'), "3D"),
    (re.compile(r'role "[^"]*" does not exist|password|pg_hba\.conf'), "28"),
    (re.compile(r"too many clients|connection slots"), "53300"),
)
UNREACHABLE: Final = "08"
DISK_FULL: Final = "53100"
# A table or column of ours is missing, a page cannot be read.
DAMAGED: Final = ("42P01", "42703", "42804", "XX001", "XX002")


def driver() -> Any:
    """The module psycopg; BackendError where it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise BackendError(f"PostgreSQL was asked for and its driver cannot be loaded ({error}); {INSTALL}") from error
    return psycopg


class Postgres:
    """Connections to one database, with our tables in a schema of their own. Safe for several threads."""

    def __init__(self, url: str, *, schema: str = "headwater", connect_timeout_seconds: float = 5.0) -> None:
        self._psycopg = driver()
        if not SCHEMA_NAME.fullmatch(schema):
            raise SettingError(f"schema must be of the letters a-z, digits and _, got {schema!r}")
        try:
            named = self._psycopg.conninfo.conninfo_to_dict(url)
        except self._psycopg.Error as error:
            raise SettingError(
                "the url of PostgreSQL must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE; this one cannot be read"
            ) from error
        self.schema, self._url = schema, url
        # What is said of it in messages; a password in the address itself stays out.
        host = named.get("host") or named.get("hostaddr") or "the local socket"
        port = f":{named['port']}" if named.get("port") else ""
        self.place = f"{host}{port}, database {named.get('dbname') or named.get('user') or 'of the user'!s}"
        self._seconds = max(LEAST_CONNECT_SECONDS, math.ceil(connect_timeout_seconds))
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._process = os.getpid()
        self._has_schema = False
        self._users = 0

    # ------------------------------------------------------------------------------------------ transactions

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One read-only transaction: everything in it sees one moment."""
        with self._transaction(READ) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, committed at the end and rolled back on an error. The schema is there."""
        with self._ended(self.begin()) as connection:
            yield connection

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """Outside of a transaction, for commands that allow none."""
        connection = self._answering("select 1")
        try:
            with self.telling():
                yield connection
        finally:
            self._give_back(connection)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        with self._ended(self._answering(begin)) as connection:
            yield connection

    @contextmanager
    def _ended(self, connection: Connection) -> Iterator[Connection]:
        try:
            with self.telling():
                yield connection
        except BaseException:
            self.rollback(connection)
            raise
        self.commit(connection)

    def begin(self) -> Connection:
        """A transaction that outlives a call: it ends with `commit` or `rollback` of what is returned."""
        if not self._has_schema:
            with self._transaction(WRITE) as connection:
                self._make_schema(connection)
            # A session that looked for the schema while another one made it may go on not to see it.
            self._drop_idle()
            self._has_schema = True
        return self._answering(WRITE)

    def commit(self, connection: Connection) -> None:
        """Make what was written in it durable; the connection is given back."""
        try:
            with self.telling():
                connection.execute("commit")
        finally:
            self._give_back(connection)

    def rollback(self, connection: Connection) -> None:
        """As if nothing had been written in it; the connection is given back."""
        with suppress(self._psycopg.Error):
            connection.execute("rollback")
        self._give_back(connection)

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Errors of the database leave as a BackendError."""
        try:
            yield
        except self._psycopg.Error as error:
            raise self._told(error) from error

    def _answering(self, first: str) -> Connection:
        """Tried twice: after a restart of the server all the old connections are broken."""
        for attempt in (1, 2):
            connection: Connection | None = None
            try:
                connection = self._take() or self._connected()
                connection.execute(first)
                return connection
            except (self._psycopg.OperationalError, self._psycopg.InterfaceError) as error:
                if connection is not None:
                    connection.close()
                self._drop_idle()
                if attempt == 2 or _is_refusal(error):
                    raise self._told(error) from error
                time.sleep(AGAIN_SECONDS)
            except self._psycopg.Error as error:
                raise self._told(error) from error
        raise AssertionError

    # ------------------------------------------------------------------------------------------- connections

    def _connected(self) -> Connection:
        connection: Connection = self._psycopg.connect(
            self._url, autocommit=True, connect_timeout=self._seconds, application_name="headwater", **LIVELINESS
        )
        names = ", ".join(f'"{name}"' for name in (self.schema, *EXTENSION_SCHEMAS))
        connection.execute("select set_config('search_path', %s, false)", (names,))
        return connection

    def _take(self) -> Connection | None:
        with self._lock:
            if self._process != os.getpid():
                # The parent's: it goes on using them, so they are neither used nor closed here.
                _LEFT_TO_PARENTS.extend(self._idle)
                self._idle, self._process = [], os.getpid()
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection) -> None:
        idle = self._psycopg.pq.TransactionStatus.IDLE
        if not connection.closed and connection.info.transaction_status == idle:
            with self._lock:
                if len(self._idle) < KEPT_IDLE:
                    self._idle.append(connection)
                    return
        connection.close()

    def _drop_idle(self) -> None:
        with self._lock:
            left, self._idle = self._idle, []
        for connection in left:
            connection.close()

    def close(self) -> None:
        """Close the connections that nobody uses; of a shared one, when its last user closes it."""
        with _SHARED_LOCK:
            self._users -= 1
            if self._users > 0:
                return
            for key in [key for key, one in _SHARED.items() if one is self]:
                del _SHARED[key]
        if self._process == os.getpid():
            self._drop_idle()

    def _make_schema(self, connection: Connection) -> None:
        if connection.execute("select to_regnamespace(%s)", (self.schema,)).fetchone() == (None,):
            lock(connection, f"schema {self.schema}")
            connection.execute(f'create schema if not exists "{self.schema}"'.encode())

    # ------------------------------------------------------------------------------------------------ errors

    def _told(self, error: Exception) -> BackendError:
        state = getattr(error, "sqlstate", None) or ""
        said = " ".join(str(error).split())
        if not state and isinstance(error, self._psycopg.OperationalError):
            state = _refusal(said)
        if state == DISK_FULL:
            return DiskFull(f"no room left in PostgreSQL at {self.place}: {said}; free some, nothing is lost")
        if state in DAMAGED:
            return HomeDamaged(
                f"PostgreSQL at {self.place} does not hold what it should in the schema {self.schema!r}: {said}; "
                "`headwater check --repair` builds indexes again from the catalog"
            )
        remedy = next((REMEDIES[state[:size]] for size in (5, 3, 2) if state[:size] in REMEDIES), "")
        return BackendError(f"PostgreSQL at {self.place} failed: {said}{'; ' + remedy if remedy else ''}")


def _refusal(said: str) -> str:
    return next((state for words, state in REFUSALS if words.search(said)), UNREACHABLE)


def _is_refusal(error: Exception) -> bool:
    """Whether the server is there and says no: asking again would not help."""
    return (getattr(error, "sqlstate", None) or _refusal(str(error)))[:2] in ("28", "3D")


def lock(connection: Connection, name: str) -> None:
    """Wait until nobody else has the lock of this name in this database; it is let go with the transaction."""
    connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"headwater {name}",))


_SHARED: Final[dict[tuple[str, str], Postgres]] = {}
_SHARED_LOCK: Final = threading.Lock()
_LEFT_TO_PARENTS: Final[list[Any]] = []


def _close_all() -> None:
    for one in list(_SHARED.values()):
        one._users = 0
        one.close()


atexit.register(_close_all)  # a command that ended by an error has closed nothing


def shared(url: str, *, schema: str = "headwater") -> Postgres:
    """One pool for each database, schema and process, counted: closed when its last user closes it."""
    with _SHARED_LOCK:
        found = _SHARED.get((url, schema))
        if found is None:
            found = _SHARED[url, schema] = Postgres(url, schema=schema)
        found._users += 1
        return found
