"""One SQLite file, many readers and one writer in this process; every SQLite error becomes one of ours, here."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any, Final

from headwater.errors import BackendError, DiskFull, HeadwaterError, HomeDamaged, NotFound, UsageError
from headwater.storage._read_only import address, address_alone, may_write
from headwater.storage._sql import Connection
from headwater.storage.schema import prepare

# Another process writes for less than a second at a time; who waits longer than this is stuck.
BUSY_SECONDS: Final = 30.0
# Readers map the file: no copying of pages, and all threads share the one copy of the operating system. What was read
# counts as resident, although it can be dropped at any time: the bound keeps a million chunks under 3 GB.
MAP_BYTES: Final = 1 << 30
# Bulk loading writes a page again and again; copying the log back every 32 MiB does it once.
LOG_PAGES: Final = 4096
LOG_BYTES: Final = 64 << 20
# What a large batch changes: with less, pages go to the log before the transaction is done with them, and then again.
WRITER_KIB: Final = 64 << 10
# A failed write on a disk with less than this left is a full disk, whatever SQLite calls it.
ROOM_BYTES: Final = 1 << 20
# SQLite allows 999 parameters in its oldest builds.
PARAMETERS: Final = 999
_INSERT: Final = re.compile(r"(insert into .+? values )(\((?:\?, )*\?\))( on conflict.*)?", re.DOTALL)
# The low byte of an extended SQLite error code is the kind of error.
_KIND: Final = 0xFF
# A file of one byte is an empty one to SQLite.
_EMPTY_BYTES: Final = 1
# The indexes beside a catalog, which are made once it has tables.
_INDEXES: Final = ("text-*", "vectors-*")
# What SQLite says where the index of its log finds no room: the disk or somebody's part of it is full.
_NO_ROOM_BESIDE: Final = (sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE)
# What Python's module says, without a code, of a text that is not UTF-8.
_UNDECODABLE: Final = "Could not decode to UTF-8"


class FileConnection(sqlite3.Connection):
    """A connection to the file. Statements that PostgreSQL is asked in one go cost nothing here one by one."""

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """One statement for each of many parameters. Rows that are inserted go in many at a time.

        For every statement the interpreter's lock is let go and taken again, and whoever indexes has other threads that
        want it: 300,000 rows took it from each other 300,000 times.
        """
        insert = _INSERT.fullmatch(sql)
        if insert is None:
            return super().executemany(sql, parameters)
        into, row, conflict = insert.groups(default="")
        rows = list(parameters)
        at_once = PARAMETERS // row.count("?")
        whole = len(rows) - len(rows) % at_once
        wide = f"insert or fail{into.removeprefix('insert')}{', '.join([row] * at_once)}{conflict}"
        for start in range(0, whole, at_once):
            self.execute(wide, list(chain.from_iterable(rows[start : start + at_once])))
        return super().executemany(sql, rows[whole:])

    def each(self, sql: str, parameters: Sequence[Sequence[Any]], /) -> list[Any]:
        """The first row, or None, that a statement finds for each of many parameters, in their order."""
        return [self.execute(sql, row).fetchone() for row in parameters]

    def stream(self, sql: str, /) -> Iterator[Any]:
        """Every row of a statement, read as it is asked for."""
        return self.execute(sql)


class Database:
    """Connections for readers come from a pool, so there are as many as ever read at the same time."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        # What cannot be written to can still be read; who writes all the same is told so then.
        self.path, self.writable = path, writable and may_write(path)
        self._alone = False  # there is no room beside the file: only one process at a time can read it
        self._lock, self._pool_lock = threading.Lock(), threading.Lock()
        self._idle: list[FileConnection] = []
        self._closed = False
        self._writer: FileConnection | None = None
        if not self.writable and not path.exists():
            raise NotFound(f"there is no catalog at {str(path)!r}; make one with `headwater add SOURCE`")
        _refuse_emptied(path)
        with self._translated():
            try:
                db = self._prepared()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in _NO_ROOM_BESIDE or os.name != "posix":
                    raise
                self._alone, self.writable = True, False
                db = self._prepared()
        if self.writable:
            self._writer = db
        else:
            self._give_back(self._as_reader(db))

    def _prepared(self) -> FileConnection:
        """The first connection: whether the file can be used, and the tables of a new one."""
        db = self._connect(read_only=not self.writable)
        try:
            prepare(db, self.path, writable=self.writable, written_by=own_version)
            if self.writable:
                db.execute("pragma synchronous = full")
                db.execute(f"pragma cache_size = -{WRITER_KIB}")
                db.execute(f"pragma wal_autocheckpoint = {LOG_PAGES}")
                db.execute(f"pragma journal_size_limit = {LOG_BYTES}")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def reading(self, *, snapshot: bool = False) -> Iterator[FileConnection]:
        """A connection that sees what is committed; with `snapshot`, all its statements see the same."""
        try:
            db = self._idle.pop()
        except IndexError:
            with self._translated():
                db = self._as_reader(self._connect(read_only=not self.writable))
        try:
            with self._translated():
                if snapshot:
                    db.execute("begin")
                yield db
        finally:
            if snapshot and db.in_transaction:
                with suppress(sqlite3.Error):
                    db.execute("rollback")
            self._give_back(db)

    def _give_back(self, db: FileConnection) -> None:
        with self._pool_lock:
            if self._closed or self._alone:
                db.close()
            else:
                self._idle.append(db)

    @contextmanager
    def writing(
        self, *, on_failure: Callable[[], None] = lambda: None, durable: bool = True
    ) -> Iterator[FileConnection]:
        """One transaction: all of it is on disk when the block ends, or none of it if the block raises.

        One that is not durable outlives this process, and a power cut only once a later one that is durable has ended.
        """
        with self._lock, self._translated():
            db = self._writer
            if db is None and self._alone:
                raise self._full()
            if db is None:
                what = "closed" if self._closed else "open for reading only"
                told = f"the catalog {str(self.path)!r} is {what}; open it for writing"
                raise UsageError(
                    told if may_write(self.path) else f"{told}, with the permission to write to its folder"
                )
            if not durable:
                db.execute("pragma synchronous = normal")
            try:
                db.execute("begin immediate")
                yield db
                db.execute("commit")
            except BaseException:
                on_failure()
                if db.in_transaction:
                    with suppress(sqlite3.Error):  # the first error is the one to tell
                        db.execute("rollback")
                raise
            finally:
                if not durable:
                    db.execute("pragma synchronous = full")

    def checked(self, rules: Callable[[Connection], list[str]], /) -> list[str]:
        """What the rules find wrong in one snapshot, and what SQLite itself does."""
        found = []
        with self.reading(snapshot=True) as db:
            try:
                lines = [row[0] for row in db.execute("pragma quick_check(20)")]
                found += [f"the file is damaged: {line}" for line in lines if line != "ok"]
                found += rules(db)
            except sqlite3.DatabaseError as error:
                found.append(
                    f"the file is damaged: {error}; put back a copy, or move it away and add the documents again"
                )
        return found

    def close(self) -> None:
        """Close every connection that is not in use; those close when they are given back."""
        with self._lock:
            with self._pool_lock:
                self._closed = True
                while self._idle:
                    self._idle.pop().close()
            if self._writer is not None:
                with suppress(sqlite3.Error):  # the log is as good as the file; it is only tidied up here
                    self._writer.execute("pragma wal_checkpoint(truncate)")
                self._writer.close()
                self._writer = None

    def _connect(self, *, read_only: bool) -> FileConnection:
        if self._closed:
            raise UsageError(f"the catalog {str(self.path)!r} is closed; open it again")
        return sqlite3.connect(
            address_alone(self.path) if self._alone else address(self.path, writable=not read_only),
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=64,
            factory=FileConnection,
        )

    @staticmethod
    def _as_reader(db: FileConnection) -> FileConnection:
        db.execute(f"pragma mmap_size = {MAP_BYTES}")
        db.execute("pragma query_only = 1")
        return db

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._as_ours(error) from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise self._garbled(error) from error
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise self._full() from error

    def _as_ours(self, error: sqlite3.Error) -> HeadwaterError:
        kind = getattr(error, "sqlite_errorcode", 0) & _KIND
        name = str(self.path)
        if kind == sqlite3.SQLITE_FULL:
            return self._full()
        if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return HomeDamaged(
                f"the catalog {name!r} cannot be read: {error}; put back a copy of it, "
                "or move it away and add the documents again"
            )
        if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return BackendError(
                f"another process has been writing to {name!r} for over {BUSY_SECONDS:.0f} seconds; try again"
            )
        if kind == sqlite3.SQLITE_IOERR and shutil.disk_usage(self.path.parent).free < ROOM_BYTES:
            return self._full()
        if str(error).startswith(_UNDECODABLE):
            return self._garbled(error)
        return BackendError(f"the catalog {name!r} could not be used: {error}; nothing acknowledged is lost")

    def _garbled(self, error: Exception) -> HomeDamaged:
        return HomeDamaged(
            f"bytes in the catalog {str(self.path)!r} were damaged: {error}; `headwater check --repair` gives up the "
            "documents whose text they are, for you to add again, or put back a copy"
        )

    def _full(self) -> DiskFull:
        where = str(self.path.parent)
        return DiskFull(f"the disk of {where!r} is full; nothing acknowledged is lost: make room and try again")


def _refuse_emptied(path: Path) -> None:
    """Raise HomeDamaged for a file without bytes that had tables; SQLite would make new ones and drop the log.

    The file is looked at last: whoever makes its tables at this moment has given it bytes before anything is beside it.
    """
    log = path.with_name(f"{path.name}-wal")
    indexes = [folder for name in _INDEXES for folder in sorted(path.parent.glob(name)) if any(folder.glob("*"))]
    beside = [*indexes, *([log] if log.exists() and log.stat().st_size else [])]
    if beside and path.exists() and path.stat().st_size <= _EMPTY_BYTES:
        raise HomeDamaged(
            f"the catalog {str(path)!r} is empty, but {beside[0].name} beside it is not: it was cut off; "
            "put back a copy of it, or move it away and add the documents again"
        )


def own_version() -> str:
    """That of this headwater."""
    try:
        return metadata.version("headwater")
    except metadata.PackageNotFoundError:
        return "(not installed)"
