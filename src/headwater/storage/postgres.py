"""The catalog in a PostgreSQL database, in a schema of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from headwater.errors import SettingError
from headwater.storage._catalog import IDLE_VECTORS, SqlCatalog
from headwater.storage._postgres_database import Pool, PostgresDatabase
from headwater.storage._postgres_schema import TABLES, prepare
from headwater.storage._rows import utc_now
from headwater.storage.postgres_lock import PostgresLock
from headwater.storage.scrub import LEFT_BEHIND
from headwater.types import Version

_VARIABLE: Final = "env:"


class PostgresCatalog(SqlCatalog):
    """A Catalog in PostgreSQL. One process at a time should commit; any number may read and enqueue, on any machine.

    The path is that of a catalog in a file and not used. `url` is an address or `env:NAME`, the variable that has it.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        writable: bool = True,
        now: Callable[[], str] = utc_now,
        idle_vectors: int = IDLE_VECTORS,
        url: str = "env:DATABASE_URL",
        schema: str = "headwater",
        create: bool = False,
    ) -> None:
        self._url = _resolved(url)
        self._pool = Pool(self._url, schema=schema)
        try:
            prepare(self._pool, writable=writable, create=create)
        except BaseException:
            self._pool.close()
            raise
        super().__init__(PostgresDatabase(self._pool, writable=writable), now=now, idle_vectors=idle_vectors)

    def place(self) -> dict[str, str]:
        """Which catalog this is, for people: never with a password."""
        pool = self._pool
        return {"use": "postgres", "host": pool.host, "database": pool.database, "schema": pool.schema}

    def identity(self) -> list[int]:
        """Numbers that no copy of this catalog has: those of the database and of the schema in their server."""
        sql = (
            "select cast(database.oid as bigint), cast(own.oid as bigint) from pg_database as database, "
            "pg_namespace as own where database.datname = current_database() and own.nspname = ?"
        )
        with self._database.reading() as db:
            return list(db.execute(sql, (self._pool.schema,)).fetchone())

    def commit(self, versions: Sequence[Version], *, until: Callable[[], None] = lambda: None) -> None:
        """As any catalog. It waits first: the indexes may be in the same database and wait for this transaction."""
        if versions:
            until()
        super().commit(versions)

    def lock(self, name: str) -> PostgresLock:
        """A lock that one process can hold, on whatever machine it runs."""
        return PostgresLock(self._url, schema=self._pool.schema, name=name)

    def scrub(self) -> None:
        """Write the tables anew, without a trace of what was removed. The server's log and its copies are not ours."""
        with self._database.writing(on_failure=self._numbers.forget) as db:
            for sql in LEFT_BEHIND:
                db.execute(sql)
        self._numbers.forget()
        with self._pool.alone() as raw:
            raw.execute(f"vacuum (full) {', '.join(TABLES)}".encode())


def _resolved(url: str) -> str:
    if not url.startswith(_VARIABLE):
        return url
    variable = url.removeprefix(_VARIABLE)
    if not os.environ.get(variable):
        raise SettingError(f"catalog.url is {url!r} and the environment has no {variable}; set it, or give an address")
    return os.environ[variable]
