"""Messages to those who want to know that a job has ended: written with the end itself, kept until they arrive.

A message is made in the transaction that ends its job, so that neither is there without the other whenever a process
dies. Those of one address go out in the order in which their jobs ended; only the oldest is ever sent.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headwater.storage._ledger_file import LedgerFile

ID_BYTES: Final = 8
# Of a job, what a message is made of: its work holds names of files and is nobody else's business.
_LEFT_OUT: Final = ("work", "due", "worker", "place", "stop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to one address. `job` are the fields of the job as it ended; `created` is in seconds since 1970."""

    id: str
    webhook: str
    url: str
    secret: str
    event: str
    job: Mapping[str, Any]
    attempts: int
    created: float


class Outbox:
    """What is still to be told. Safe for use from several threads and processes."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def take(self, *, limit: int, lease_seconds: float, now: float | None = None) -> list[Message]:
        """The oldest message of each address, where it is due; nobody else takes them until the lease is over."""
        at = time.time() if now is None else now
        with self._file.reading() as db:
            if db.execute("select 1 from outbox where due <= ? limit 1", (at,)).fetchone() is None:
                return []
        with self._file.writing() as db:
            sql = (
                "select o.*, w.url, w.secret from outbox o join webhook w on w.id = o.webhook where o.due <= ? and "
                "o.place in (select min(place) from outbox group by webhook) order by o.place limit ?"
            )
            rows = db.execute(sql, (at, limit)).fetchall()
            db.executemany(
                "update outbox set due = ?, attempts = attempts + 1 where id = ?",
                [(at + lease_seconds, row["id"]) for row in rows],
            )
        return [_message(row) for row in rows]

    def postpone(self, message: Message, *, until: float, reason: str) -> None:
        """It did not arrive: try it again at that time."""
        with self._file.writing() as db:
            db.execute("update outbox set due = ?, reason = ? where id = ?", (until, reason, message.id))

    def drop(self, message: Message) -> None:
        """It arrived, or it never will."""
        with self._file.writing() as db:
            db.execute("delete from outbox where id = ?", (message.id,))

    def waiting(self, webhooks: Sequence[str]) -> dict[str, tuple[int, str]]:
        """By address: how many messages wait, and why the oldest of them did not arrive."""
        oldest = "select reason from outbox f where f.webhook = o.webhook order by place limit 1"
        sql = (
            f"select webhook, count(*), ({oldest}) from outbox o "
            "where webhook in (select value from json_each(?)) group by webhook"
        )
        with self._file.reading() as db:
            rows = db.execute(sql, (json.dumps(list(webhooks)),)).fetchall()
        return {row[0]: (row[1], row[2]) for row in rows}

    def forget(self, documents: Sequence[str]) -> None:
        """Tell nobody of documents that are to be gone without a trace."""
        with self._file.writing() as db:
            db.executemany("delete from outbox where document = ?", [(document,) for document in documents])


def announce(db: sqlite3.Connection, job_id: str) -> None:
    """Write down, in the transaction under way, that a job has ended, for everybody who wants to know."""
    row = db.execute("select * from job where id = ?", (job_id,)).fetchone()
    if row is None:
        return
    event, at = f"job.{row['state']}", time.time()
    told = json.dumps({name: row[name] for name in row.keys() if name not in _LEFT_OUT})  # noqa: SIM118 - no mapping
    for webhook, events in db.execute("select id, events from webhook where owner = ?", (row["owner"],)).fetchall():
        if event in json.loads(events):
            db.execute(
                "insert into outbox(id, webhook, document, event, job, attempts, due, created, reason) "
                "values (?, ?, ?, ?, ?, 0, 0, ?, '')",
                (secrets.token_hex(ID_BYTES), webhook, row["document"], event, told, at),
            )


def _message(row: sqlite3.Row) -> Message:
    names = ("id", "webhook", "url", "secret", "event", "created")
    plain = {name: row[name] for name in names}
    return Message(**plain, job=json.loads(row["job"]), attempts=row["attempts"] + 1)
