"""A SQLite file with rows that were deleted -> the same file without a trace of them, and an empty log.

Deleting a row leaves its bytes on pages that are free and in the write-ahead log. Here the file is written anew and the
log is emptied, so that what was deleted cannot be read from either.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headwater.errors import BackendError

BUSY_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1
# What a catalog keeps of documents that are gone; the generation tells every process to forget the numbers of it.
LEFT_BEHIND: Final = (
    "delete from vector where id in (select vector from idle)",
    "delete from idle",
    "delete from term where id not in (select term from posting)",
    "delete from section where id not in (select section from chunk)",
    "update counters set generation = generation + 1",
)


def scrub(path: Path, statements: Sequence[tuple[str, Iterable[tuple[object, ...]]]] = ()) -> bool:
    """Run statements in one transaction, then write the file anew; whether there is such a file.

    Raises BackendError where somebody reads from the log for so long that it cannot be emptied.
    """
    if not path.exists():
        return False
    with _opened(path) as db:
        db.execute("pragma secure_delete = on")
        db.execute("begin immediate")
        for sql, rows in statements:
            for row in rows:
                db.execute(sql, row)
        db.execute("commit")
        db.execute("vacuum")
        _empty_log(db, path)
    return True


def scrub_catalog(path: Path) -> None:
    """Out of a catalog: vectors that no chunk points to, words and headings that no document has any more.

    The generation grows with it, so that every process forgets the numbers it has of them.
    """
    scrub(path, [(sql, [()]) for sql in LEFT_BEHIND])


def owners(path: Path, table: str) -> list[str]:
    """Everybody who has a row in a table of a file that may not be there."""
    if not path.exists():
        return []
    with _opened(path) as db:
        return [str(row[0]) for row in db.execute(f"select distinct owner from {table}")]


def _empty_log(db: sqlite3.Connection, path: Path) -> None:
    end = time.monotonic() + BUSY_SECONDS
    while True:
        busy, *_ = db.execute("pragma wal_checkpoint(truncate)").fetchone()
        if not busy:
            return
        if time.monotonic() > end:
            raise BackendError(
                f"the log of {str(path)!r} cannot be emptied while a program reads from it; "
                "stop it and run `headwater forget` again"
            )
        time.sleep(POLL_SECONDS)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            yield db
        finally:
            db.close()
    except sqlite3.Error as error:
        raise BackendError(f"{str(path)!r} could not be cleaned: {error}; run `headwater forget` again") from error
