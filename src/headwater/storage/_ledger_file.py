"""The ledger's SQLite file: its tables, and a connection per thread."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from headwater.errors import BackendError, DiskFull, HomeDamaged, HomeTooNew
from headwater.storage._read_only import address, may_write

BUSY_SECONDS: Final = 30.0
_KIND: Final = 0xFF  # the low byte of an extended SQLite error code

_FIRST: Final = """
create table key(
  id text primary key, hash blob not null unique, owner text not null, name text not null, collections text not null,
  rights text not null, created text not null, expires text not null, revoked text not null, used text not null);
create table dataset(
  id text primary key, owner text not null, collection text not null, name text not null, description text not null,
  scope text not null, options text not null, created text not null, updated text not null,
  unique(owner, collection), unique(owner, name));
create table original(
  document text primary key, owner text not null, collection text not null, uri text not null, hash text not null,
  name text not null, mime text not null, bytes integer not null, created text not null);
create index original_owner on original(owner, collection);
create index original_hash on original(hash);
create table job(
  id text primary key, owner text not null, collection text not null, document text not null, uri text not null,
  kind text not null, state text not null, stage text not null, percent integer not null, reason text not null,
  attempts integer not null, priority integer not null, work text not null, created text not null,
  updated text not null, due real not null, worker text not null, place integer not null);
create index job_owner on job(owner, created);
create index job_open on job(state, priority, place) where state in ('pending', 'processing', 'indexed');
create index job_document on job(document, place);
create table event(owner text not null, id text not null, seen text not null, primary key(owner, id)) without rowid;
create table latest_event(document text primary key, time text not null) without rowid;
create table history(
  id integer primary key, owner text not null, kind text not null, query text not null, mode text not null,
  hits text not null, total integer not null, took_ms real not null, created text not null);
create index history_owner on history(owner, id);
create table feedback(
  id text primary key, owner text not null, kind text not null, value integer not null, query text not null,
  answer text not null, document text not null, chunk text not null, comment text not null, created text not null);
create index feedback_owner on feedback(owner, created);
create table webhook(
  id text primary key, owner text not null, url text not null, secret text not null, events text not null,
  created text not null);
create table counter(name text primary key, value integer not null) without rowid;
insert into counter values ('place', 0);
"""

# What people changed of documents, which indexing them again must not undo.
_CHANGED: Final = "create table change(document text primary key, work text not null) without rowid;"

# How conversations are answered, and which conversations are answered so.
_CHATS: Final = """
create table chat(
  id text primary key, owner text not null, name text not null, told text not null, created text not null,
  updated text not null, unique(owner, name));
create table chat_session(session text primary key, owner text not null, chat text not null) without rowid;
create index chat_session_chat on chat_session(owner, chat);
"""

# What is still to be told to webhooks; the rowid is the order in which jobs ended.
_OUTBOX: Final = """
create table outbox(
  place integer primary key, id text not null unique, webhook text not null, document text not null,
  event text not null, job text not null, attempts integer not null, due real not null, created real not null,
  reason text not null);
create index outbox_webhook on outbox(webhook, place);
create index outbox_document on outbox(document);
"""

# When somebody asked for a job in hand to be stopped; whoever works on it may be another process.
_STOP: Final = "alter table job add column stop text not null default '';"

# Files that wait to be put into datasets, and which were put together. The documents of a file have its uri.
_FILES: Final = """
create table file(
  id text primary key, owner text not null, uri text not null, hash text not null, name text not null,
  mime text not null, bytes integer not null, purpose text not null, collections text not null, created text not null);
create index file_owner on file(owner, id);
create index file_uri on file(uri);
create index file_hash on file(hash);
create index original_uri on original(uri);
create table file_batch(
  id text primary key, dataset text not null, files text not null, created text not null, cancelled text not null);
create index file_batch_dataset on file_batch(dataset);
"""

# Step n takes a file of version n to n + 1. Steps are never edited, only added.
STEPS: Final = (_FIRST, _CHANGED, _CHATS, _OUTBOX, _STOP, _FILES)


def now() -> str:
    """The time, as the ledger writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class LedgerFile:
    """Safe for use from several threads and processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._open: list[sqlite3.Connection] = []
        with self._translated():
            self._migrate(self._connection())

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees what is committed."""
        with self._translated():
            yield self._connection()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: on disk when the block ends, or nothing of it."""
        with self._translated():
            db = self._connection()
            db.execute("begin immediate")
            try:
                yield db
                db.execute("commit")
            except BaseException:
                if db.in_transaction:
                    db.execute("rollback")
                raise

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            for db in self._open:
                db.close()
            self._open.clear()
        self._local = threading.local()

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "db", None)
        if found is None:
            uri = address(self.path, writable=may_write(self.path))
            found = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            found.row_factory = sqlite3.Row
            found.execute("pragma synchronous = full")
            self._local.db = found
            with self._lock:
                self._open.append(found)
        return found

    def _migrate(self, db: sqlite3.Connection) -> None:
        version = int(db.execute("pragma user_version").fetchone()[0])
        if version > len(STEPS):
            raise HomeTooNew(f"{str(self.path)!r} was written by a newer headwater; install that version")
        if version == len(STEPS):
            return
        db.execute("pragma journal_mode = wal")
        db.execute("begin immediate")
        try:
            # Another process may have been quicker: what is still to do is known only under the lock.
            for step in STEPS[int(db.execute("pragma user_version").fetchone()[0]) :]:
                for statement in step.split(";"):
                    if statement.strip():
                        db.execute(statement)
            db.execute(f"pragma user_version = {len(STEPS)}")
            db.execute("commit")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind = getattr(error, "sqlite_errorcode", 0) & _KIND
            if kind == sqlite3.SQLITE_FULL:
                raise DiskFull(f"no room left for {self.path}; free some and try again") from error
            if kind in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise HomeDamaged(f"{self.path} cannot be read: {error}; put back a copy of it") from error
            raise BackendError(f"{self.path} cannot be used: {error}; try again") from error
