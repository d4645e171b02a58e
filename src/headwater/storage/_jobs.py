"""Work that was promised: a durable queue with priorities, leases and back-off, and what became of each piece.

    pending -> processing -> indexed -> completed | empty | failed | cancelled

A job that was being worked on when its worker died is pending again: doing it twice makes the same document. One that
is indexed is found by its words; its vectors are still to come, whoever makes them. One that somebody may be at is not
cancelled at once: it is asked to stop, and only who holds the home's lock can say how that ended.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Final, Literal

from headwater.storage._ledger_file import LedgerFile, now
from headwater.storage._outbox import announce

JobState = Literal["pending", "processing", "indexed", "completed", "empty", "failed", "cancelled"]
Kind = Literal["put", "delete", "label", "url"]
OPEN: Final = ("pending", "processing", "indexed")
ID_BYTES: Final = 8
# Finished jobs are kept for looking back; then the oldest go.
KEPT_FINISHED: Final = 100_000
# The pause after the first failure of a store or a model; it doubles up to the longest.
FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 300.0
# How far a document is that is found by its words.
WORDS_PERCENT: Final = 50
STOPPED: Final = "stopped as asked; the document is as it was before"
TOO_LATE: Final = "it was asked to stop, but was stored already"
_IS_OPEN: Final = "state in ('pending', 'processing', 'indexed')"  # as the index of open jobs has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work for one document. `work` is what the worker needs to know."""

    id: str
    owner: str
    collection: str
    document: str
    uri: str
    kind: Kind = "put"
    state: JobState = "pending"
    stage: str = ""
    percent: int = 0
    reason: str = ""
    attempts: int = 0
    priority: int = 0
    work: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    updated: str = ""
    due: float = 0.0
    worker: str = ""
    place: int = 0
    stop: str = ""  # when it was asked to stop

    @property
    def is_open(self) -> bool:
        """Whether there is still something to do."""
        return self.state in OPEN


class Jobs:
    """The queue of a home. Safe for use from several threads and processes."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def add(
        self,
        *,
        owner: str,
        collection: str,
        document: str,
        uri: str,
        kind: Kind,
        work: Mapping[str, Any],
        priority: int = 0,
    ) -> Job:
        """Promise some work; an earlier promise for the same document that nobody began is replaced by this one."""
        told: dict[str, Any] = {"owner": owner, "collection": collection, "document": document, "uri": uri}
        (id,) = self.add_all([Job(id="", **told, kind=kind, work=work, priority=priority)])
        found = self.get(id)
        assert found is not None
        return found

    def add_all(self, jobs: Sequence[Job]) -> list[str]:
        """The same for many, all of them or none; return the ids that they were given."""
        at, ids = now(), []
        with self._file.writing() as db:
            for job in jobs:
                ids.append(secrets.token_hex(ID_BYTES))
                self._insert(db, replace(job, id=ids[-1], created=at))
        return ids

    def _insert(self, db: sqlite3.Connection, job: Job) -> None:
        waits = "select id from job where document = ? and state = 'pending' and kind = ?"
        for (earlier,) in db.execute(waits, (job.document, job.kind)).fetchall():
            replaced = "update job set state = 'cancelled', reason = 'replaced by a later one', updated = ?"
            db.execute(f"{replaced} where id = ?", (job.created, earlier))
            announce(db, earlier)
        db.execute("update counter set value = value + 1 where name = 'place'")
        place = db.execute("select value from counter where name = 'place'").fetchone()[0]
        whose = (job.id, job.owner, job.collection, job.document, job.uri, job.kind)
        db.execute(
            "insert into job values (?, ?, ?, ?, ?, ?, 'pending', 'queue', 0, '', 0, ?, ?, ?, ?, 0, '', ?, '')",
            (*whose, job.priority, json.dumps(dict(job.work)), job.created, job.created, place),
        )
        if place % 1000 == 0:
            db.execute(f"delete from job where not {_IS_OPEN} and place <= ?", (place - KEPT_FINISHED,))

    def get(self, id: str) -> Job | None:
        """One by its id, whoever's it is: the caller checks."""
        with self._file.reading() as db:
            row = db.execute("select * from job where id = ?", (id,)).fetchone()
        return _job(row) if row else None

    def of(
        self,
        owner: str,
        *,
        states: Sequence[str] = (),
        collections: Sequence[str] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Job]:
        """An owner's, the latest first; those of some collections, or of all."""
        sql, values = "select * from job where owner = ?", [owner]
        if states:
            sql += f" and state in ({', '.join('?' * len(states))})"
            values += states
        if collections is not None:
            sql += f" and collection in ({_marks(collections)})"
            values += collections
        with self._file.reading() as db:
            rows = db.execute(f"{sql} order by place desc limit ? offset ?", (*values, limit, offset)).fetchall()
        return [_job(row) for row in rows]

    def latest(self, documents: Sequence[str]) -> dict[str, Job]:
        """By document: the last job of each."""
        sql = (
            "select * from job where place in (select max(place) from job "
            "where document in (select value from json_each(?)) group by document)"
        )
        with self._file.reading() as db:
            rows = db.execute(sql, (json.dumps(list(documents)),)).fetchall()
        return {row["document"]: _job(row) for row in rows}

    def open_documents(self, owner: str, collection: str) -> list[Job]:
        """Jobs of a collection that are not finished, or failed, the last of each document."""
        sql = (
            "select * from job where owner = ? and collection = ? and kind in ('put', 'url') and place in "
            "(select max(place) from job where owner = ? and collection = ? group by document) order by place"
        )
        with self._file.reading() as db:
            rows = db.execute(sql, (owner, collection, owner, collection)).fetchall()
        return [_job(row) for row in rows]

    def due(self, kinds: Sequence[Kind]) -> bool:
        """Whether there is a job to do now, or one that a worker left."""
        left = "state in ('pending', 'indexed') and due <= ? or state = 'processing' or stop != ''"
        sql = f"select 1 from job where {_IS_OPEN} and ({left}) and kind in ({_marks(kinds)}) limit 1"
        with self._file.reading() as db:
            return db.execute(sql, (time.time(), *kinds)).fetchone() is not None

    def take(self, worker: str, *, limit: int, kinds: Sequence[Kind], most_bytes: int = 0) -> list[Job]:
        """The next jobs that are due, the most urgent first and then the oldest; they are this worker's now.

        One at least, and more as long as all of them together have no more than `most_bytes` where that is said.
        """
        with self._file.reading() as db:
            waits = f"select 1 from job where state = 'pending' and kind in ({_marks(kinds)}) limit 1"
            if db.execute(waits, kinds).fetchone() is None:
                return []
        with self._file.writing() as db:
            sql = (
                f"select * from job where state = 'pending' and due <= ? and kind in ({_marks(kinds)}) "
                "order by priority desc, place limit ?"
            )
            rows = db.execute(sql, (time.time(), *kinds, limit)).fetchall()
            if most_bytes:
                sizes = accumulate(int(json.loads(row["work"]).get("bytes", 0)) for row in rows)
                rows = rows[: max(1, sum(size <= most_bytes for size in sizes))]
            at = now()
            db.executemany(
                "update job set state = 'processing', worker = ?, attempts = attempts + 1, updated = ? where id = ?",
                [(worker, at, row["id"]) for row in rows],
            )
        return [job for row in rows if (job := self.get(row["id"])) is not None]

    def take_indexed(self, worker: str, *, limit: int) -> list[Job]:
        """The next jobs whose documents are found by their words and lack vectors; they stay indexed meanwhile."""
        with self._file.reading() as db:
            if db.execute("select 1 from job where state = 'indexed' limit 1").fetchone() is None:
                return []
        with self._file.writing() as db:
            sql = "select id from job where state = 'indexed' and due <= ? order by priority desc, place limit ?"
            ids = [row[0] for row in db.execute(sql, (time.time(), limit)).fetchall()]
            taken = "update job set worker = ?, attempts = attempts + 1 where id = ?"
            db.executemany(taken, [(worker, id) for id in ids])
        return [job for id in ids if (job := self.get(id)) is not None]

    def indexed(self, id: str) -> None:
        """Its document is found by its words from now on; the vectors are another piece of work."""
        with self._file.writing() as db:
            sql = (
                "update job set state = 'indexed', stage = 'embed', percent = ?, attempts = 0, due = 0, worker = '', "
                "updated = ? where id = ? and state = 'processing'"
            )
            db.execute(sql, (WORDS_PERCENT, now(), id))

    def recover(self, *, kinds: Sequence[Kind], older_than: str = "9") -> int:
        """Jobs of workers that are gone are pending again; only who can know that they are gone may say so."""
        with self._file.reading() as db:
            left = f"select 1 from job where state = 'processing' and kind in ({_marks(kinds)}) limit 1"
            if db.execute(left, kinds).fetchone() is None:
                return 0
        with self._file.writing() as db:
            sql = (
                "update job set state = 'pending', stage = 'queue', worker = '', updated = ? "
                f"where state = 'processing' and updated < ? and kind in ({_marks(kinds)})"
            )
            return db.execute(sql, (now(), older_than, *kinds)).rowcount

    def fetched(self, job: Job, work: Mapping[str, Any]) -> None:
        """The bytes of a page are here: from now on it is a document like any other."""
        with self._file.writing() as db:
            sql = (
                "update job set kind = 'put', state = 'pending', stage = 'fetch', percent = 10, work = ? "
                "where id = ? and kind = 'url' and state = 'processing'"
            )
            db.execute(sql, (json.dumps(dict(work)), job.id))

    def progress(self, id: str, *, stage: str, percent: int, work: Mapping[str, Any] | None = None) -> None:
        """How far a job has come."""
        with self._file.writing() as db:
            db.execute(
                "update job set stage = ?, percent = max(percent, ?), updated = ? "
                "where id = ? and state in ('processing', 'indexed')",
                (stage, percent, now(), id),
            )
            if work is not None:
                db.execute("update job set work = ? where id = ?", (json.dumps(dict(work)), id))

    def finish(self, id: str, state: JobState, reason: str = "") -> None:
        """How it ended; whoever wants to know of that is told, whatever happens to this process. An end is for good."""
        stage, percent = ("store", 90) if state == "indexed" else ("done", 100)
        said = f"iif(stop != '' and ? = 'completed', '{TOO_LATE}', ?)"
        with self._file.writing() as db:
            sql = f"update job set state = ?, stage = ?, percent = ?, reason = {said}, updated = ? where id = ?"
            values = (state, stage, percent, state, reason, now(), id)
            ended = db.execute(f"{sql} and {_IS_OPEN}", values).rowcount > 0 and state not in OPEN
            if ended:
                announce(db, id)

    def postpone(self, job: Job, reason: str) -> None:
        """A store or a model failed: try again after a pause that doubles. What is indexed stays so."""
        pause = min(FIRST_PAUSE_SECONDS * 2 ** max(0, job.attempts - 1), LONGEST_PAUSE_SECONDS)
        with self._file.writing() as db:
            db.execute(
                "update job set state = iif(state = 'indexed', state, 'pending'), stage = 'queue', reason = ?, "
                f"due = ?, worker = '', updated = ? where id = ? and {_IS_OPEN}",
                (reason, time.time() + pause, now(), job.id),
            )

    def cancel(self, id: str) -> Job | None:
        """End a job that nobody can have stored anything for, or ask whoever is at it to stop; None where it has ended.

        What was taken before may have left an open change behind: that too is for whoever holds the home's lock.
        """
        at = now()
        untouched = "(kind = 'url' or state = 'pending' and attempts = 0)"
        with self._file.writing() as db:
            sql = (
                "update job set state = 'cancelled', stage = 'done', reason = iif(state = 'pending', reason, ?), "
                f"updated = ? where id = ? and {_IS_OPEN} and {untouched}"
            )
            if db.execute(sql, (STOPPED, at, id)).rowcount:
                announce(db, id)
            else:
                asked = f"update job set stop = iif(stop = '', ?, stop) where id = ? and {_IS_OPEN}"
                if not db.execute(asked, (at, id)).rowcount:
                    return None
        return self.get(id)

    def stopping(self) -> list[Job]:
        """Those that were asked to stop and have not ended, the oldest first."""
        with self._file.reading() as db:
            rows = db.execute(f"select * from job where {_IS_OPEN} and stop != '' order by place").fetchall()
        return [_job(row) for row in rows]

    def retry(self, id: str) -> bool:
        """Do a job again that failed or was cancelled."""
        with self._file.writing() as db:
            sql = (
                "update job set state = 'pending', stage = 'queue', percent = 0, reason = '', attempts = 0, due = 0, "
                "stop = '', updated = ? where id = ? and state in ('failed', 'cancelled', 'empty')"
            )
            return db.execute(sql, (now(), id)).rowcount > 0

    def prioritise(self, id: str, priority: int) -> None:
        """Say how urgent it is; more is sooner."""
        with self._file.writing() as db:
            db.execute("update job set priority = ?, updated = ? where id = ?", (priority, now(), id))

    def counts(self, owner: str | None = None, *, collections: Sequence[str] | None = None) -> dict[str, int]:
        """How many are in each state: of all, of an owner, of some collections of an owner."""
        sql = "select state, count(*) from job"
        values: list[str] = []
        if owner is not None:
            sql, values = f"{sql} where owner = ?", [owner]
            if collections is not None:
                sql, values = f"{sql} and collection in ({_marks(collections)})", [owner, *collections]
        with self._file.reading() as db:
            return {row[0]: row[1] for row in db.execute(f"{sql} group by state", values)}

    def forget(self, documents: Sequence[str]) -> None:
        """Drop the jobs of documents that are gone."""
        with self._file.writing() as db:
            db.executemany("delete from job where document = ? and state != 'processing'", [(d,) for d in documents])


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


def _job(row: object) -> Job:
    told = dict(row)  # type: ignore[call-overload]
    return Job(**{**told, "work": json.loads(told["work"])})
