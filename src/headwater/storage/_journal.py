"""What was asked, said about answers, and told by other systems, each under its owner."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence
from typing import Any, Final

from headwater.storage._ledger_file import LedgerFile, now

ID_BYTES: Final = 8
# Of each owner; older searches are forgotten.
KEPT_SEARCHES: Final = 10_000
WRITTEN_TOGETHER: Final = 100
_APPLIED: Final = "update event set seen = ? where owner = ? and id = ?"


class Journal:
    """History, feedback and events."""

    def __init__(self, file: LedgerFile) -> None:
        self._file, self._lock = file, threading.Lock()
        self._unwritten: list[tuple[Any, ...]] = []

    # -- history
    def searched(
        self, owner: str, *, kind: str, query: str, mode: str, hits: Sequence[str], total: int, took_ms: float
    ) -> None:
        """Remember a search: in a moment, with others, for a search must not wait for a disk."""
        row = (owner, kind, query, mode, json.dumps(list(hits)), total, took_ms, now())
        with self._lock:
            self._unwritten.append(row)
            many = len(self._unwritten) >= WRITTEN_TOGETHER
        if many:
            self.flush()

    def flush(self) -> None:
        """Write the searches that were not written yet."""
        with self._lock:
            rows, self._unwritten = self._unwritten, []
        if not rows:
            return
        with self._file.writing() as db:
            db.executemany("insert into history values (null, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            sql = (
                "delete from history where owner = ? and id <= (select id from history where owner = ? "
                "order by id desc limit 1 offset ?)"
            )
            db.executemany(sql, [(owner, owner, KEPT_SEARCHES) for owner in sorted({row[0] for row in rows})])

    def history(self, owner: str, *, limit: int = 50, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """An owner's searches, the latest first, and how many there are."""
        self.flush()
        with self._file.reading() as db:
            total = int(db.execute("select count(*) from history where owner = ?", (owner,)).fetchone()[0])
            sql = "select * from history where owner = ? order by id desc limit ? offset ?"
            rows = db.execute(sql, (owner, limit, offset)).fetchall()
        told = [dict(row) for row in rows]
        for row in told:
            row.pop("owner")
            row["hits"] = json.loads(row["hits"])
        return told, total

    def clear_history(self, owner: str) -> int:
        """Forget an owner's searches."""
        self.flush()
        with self._file.writing() as db:
            return db.execute("delete from history where owner = ?", (owner,)).rowcount

    def forget(self, documents: Sequence[str]) -> int:
        """Erase what points to documents: searches that found them, and what was said about them."""
        self.flush()
        count = 0
        with self._file.writing() as db:
            for document in documents:
                pattern = f'%"{document}:%'
                count += db.execute("delete from history where hits like ?", (pattern,)).rowcount
                count += db.execute("delete from feedback where document = ?", (document,)).rowcount
                db.execute("delete from latest_event where document = ?", (document,))
        return count

    # -- feedback
    def said(self, owner: str, told: dict[str, Any]) -> str:
        """Keep a thumb or a click; return its id."""
        id = secrets.token_hex(ID_BYTES)
        columns = ("kind", "value", "query", "answer", "document", "chunk", "comment")
        with self._file.writing() as db:
            values = (id, owner, *(told[column] for column in columns), now())
            db.execute("insert into feedback values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        return id

    def feedback(self, owner: str, *, limit: int = 50, offset: int = 0) -> tuple[list[dict[str, Any]], int]:
        """An owner's, the latest first, and how many there are."""
        with self._file.reading() as db:
            total = int(db.execute("select count(*) from feedback where owner = ?", (owner,)).fetchone()[0])
            sql = "select * from feedback where owner = ? order by created desc, id limit ? offset ?"
            rows = [dict(row) for row in db.execute(sql, (owner, limit, offset))]
        for row in rows:
            row.pop("owner")
        return rows, total

    # -- events
    def event(self, owner: str, id: str, *, document: str, time: str) -> str:
        """Note an event: "new", "seen" where it was applied before, "late" where a newer one of the document came.

        It is new until `applied` says otherwise: a process that dies in between has not applied it.
        """
        with self._file.writing() as db:
            db.execute("insert or ignore into event values (?, ?, '')", (owner, id))
            if db.execute("select seen from event where owner = ? and id = ?", (owner, id)).fetchone()[0]:
                return "seen"
            row = db.execute("select time from latest_event where document = ?", (document,)).fetchone()
            if row is not None and time < row[0]:
                db.execute(_APPLIED, (now(), owner, id))
                return "late"
            sql = "insert into latest_event values (?, ?) on conflict(document) do update set time = excluded.time"
            db.execute(sql, (document, time))
            return "new"

    def applied(self, owner: str, id: str) -> None:
        """What the event asked for is done or promised durably: when it comes again it is nothing."""
        with self._file.writing() as db:
            db.execute(_APPLIED, (now(), owner, id))

    def unsee(self, owner: str, id: str) -> None:
        """The event could not be worked on after all: when it comes again it is new."""
        with self._file.writing() as db:
            db.execute("delete from event where owner = ? and id = ?", (owner, id))

    # -- webhooks
    def add_webhook(self, owner: str, *, url: str, secret: str, events: Sequence[str]) -> str:
        """Where to tell of finished jobs; return its id."""
        id = secrets.token_hex(ID_BYTES)
        with self._file.writing() as db:
            row = (id, owner, url, secret, json.dumps(list(events)), now())
            db.execute("insert into webhook values (?, ?, ?, ?, ?, ?)", row)
        return id

    def webhooks(self, owner: str) -> list[dict[str, Any]]:
        """An owner's, with their secrets: for whoever sends, not for whoever asks."""
        with self._file.reading() as db:
            rows = [dict(row) for row in db.execute("select * from webhook where owner = ? order by created", (owner,))]
        return [{**row, "events": json.loads(row["events"])} for row in rows]

    def remove_webhook(self, owner: str, id: str) -> bool:
        """Tell it nothing more."""
        with self._file.writing() as db:
            gone = db.execute("delete from webhook where owner = ? and id = ?", (owner, id)).rowcount > 0
            if gone:
                db.execute("delete from outbox where webhook = ?", (id,))
            return gone
