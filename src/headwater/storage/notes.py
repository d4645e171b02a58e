"""What a language model wrote about passages -> a SQLite file in the home, so that nothing is paid for twice."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headwater.errors import BackendError

# Another process may be writing; a note is written in a millisecond.
_WAIT_SECONDS: Final = 30.0


class SqliteNotes:
    """Texts by key. The file is made with the first one; several processes may share it. Safe for several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def get(self, key: bytes) -> str | None:
        """What was put under this key."""
        if self._db is None and not self.path.exists():
            return None
        with self._opened() as db:
            row = db.execute("select text from note where key = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0]).decode("utf-8", "surrogatepass")

    def put(self, key: bytes, text: str) -> None:
        """Keep it; when this returns it is durable."""
        with self._opened() as db:
            db.execute("insert or replace into note values (?, ?)", (key, text.encode("utf-8", "surrogatepass")))

    def close(self) -> None:
        """Let go of the file."""
        with self._turn:
            if self._db is not None:
                self._db.close()
                self._db = None

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._turn:
            try:
                if self._db is None:
                    self._db = sqlite3.connect(
                        self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
                    )
                    self._db.execute("pragma journal_mode = wal")
                    self._db.execute("pragma synchronous = full")
                    self._db.execute("create table if not exists note(key blob primary key, text blob) without rowid")
                yield self._db
            except sqlite3.Error as error:
                raise BackendError(
                    f"{str(self.path)!r} cannot be used: {error}; it only saves calls of the language model: "
                    "move it away to go on without it"
                ) from error
