"""A small SQLite file beside the catalog -> a connection to it, for one look or one change; errors become ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headwater.errors import BackendError, DiskFull, HomeDamaged, HomeTooNew
from headwater.storage._read_only import address, may_write

BUSY_SECONDS: Final = 30.0
_KIND: Final = 0xFF  # the low byte of an extended SQLite error code


@contextmanager
def opened(path: Path, *, schema: str, version: int, without: str) -> Iterator[sqlite3.Connection]:
    """Made on first use. `without` says what a person has left who moves a damaged file away."""
    try:
        uri = address(path, writable=may_write(path))
        db = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            db.row_factory = sqlite3.Row
            found = db.execute("pragma user_version").fetchone()[0]
            if found > version:
                raise HomeTooNew(f"{path} was written by a newer headwater; install that version")
            if found < version:
                db.execute("pragma journal_mode = wal")
                db.executescript(f"begin immediate;{schema}pragma user_version = {version};commit;")
            db.execute("pragma foreign_keys = on")
            yield db
        finally:
            db.close()
    except sqlite3.Error as error:
        raise _failed(path, error, without) from error


def _failed(path: Path, error: sqlite3.Error, without: str) -> BackendError:
    kind = getattr(error, "sqlite_errorcode", 0) & _KIND
    if kind == sqlite3.SQLITE_FULL:
        return DiskFull(f"no room left for {path}; free some and try again")
    if kind in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return HomeDamaged(f"{path} cannot be read: {error}; move it away to begin with {without}")
    return BackendError(f"{path} cannot be used: {error}; check that the folder can be written to")
