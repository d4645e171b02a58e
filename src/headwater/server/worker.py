"""Promised jobs -> searchable documents: the thread that works while the server answers.

One process at a time holds the home's lock and indexes; the others wait for it. A pass takes some jobs, gives their
changes to the catalog's queue, runs the indexer, and writes down what became of each. Killed anywhere, the jobs are
open and are done again, which makes the same documents.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from headwater.build import KnowledgeBase
from headwater.errors import BackendError, HeadwaterError, HomeLocked, SourceError, UsageError
from headwater.indexer import Progress, stamped
from headwater.server import logs
from headwater.server.by_hand import relabelled
from headwater.server.refresher import Refresher
from headwater.server.stopping import Stopping
from headwater.server.words_first import WordsFirst, is_slow
from headwater.sources._stand_in import LISTED_IN, says_nothing, stand_in
from headwater.storage.ledger import Job, JobState, Ledger, Original
from headwater.types import Blob, Change, Labels, Record

if TYPE_CHECKING:
    from headwater.sources.web import PageError, Unchanged

# A pass ends after so many jobs or bytes, so that what is done can be seen and others get the lock.
PASS_JOBS = 64
PASS_BYTES = 64 * 1024**2
SLOW_JOBS = 4  # where vectors take long: so many are made before it is looked again for what is new
# Jobs of other processes are noticed this often; those of this one wake the thread.
IDLE_SECONDS = 1.0
LOCKED_SECONDS = 0.2
# How far each stage of the write path is, in percent.
PERCENT = {"fetch": 10, "parse": 30, "chunk": 45, "embed": 60, "store": 85}
NICE = 10  # searches come first
# While somebody waits for an answer, indexing rests as long as it worked: threads of one process take turns, and a
# search has a hundred small turns to take. No rest is longer than that, so that indexing goes on however busy it is.
REST = 1.0
LONGEST_REST_SECONDS = 0.25
FETCHED_AT_ONCE = 4
LEASE_SECONDS = 120  # longer than any page may take

OnDone = Callable[[Job], None]


class _Stopped(Exception):
    """The worker is to end: what it has in hand is left to the next."""


class Worker:
    """Works on the jobs of one home, in a thread of its own (`start`) or in this one (`run`)."""

    def __init__(
        self,
        kb: KnowledgeBase,
        ledger: Ledger,
        *,
        attempts: int,
        on_done: OnDone | None = None,
        on_pass: Callable[[float, bool], None] | None = None,
    ) -> None:
        self.kb, self.ledger, self.attempts, self.on_done, self.on_pass = kb, ledger, attempts, on_done, on_pass
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._awake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._fetcher: threading.Thread | None = None  # slow pages hold nothing else up
        self.refresher = Refresher(kb)
        self._wanted = threading.Event()
        self._pause_until, self._failures = 0.0, 0
        self._told: dict[str, str] = {}
        self._stopping = Stopping(kb, ledger, change_of=self._change, finish=self._finish)
        # How many requests are being answered now: those come first. None for a worker that answers nobody.
        self.in_flight: Callable[[], int] | None = None

    def start(self) -> None:
        """Begin to work beside what this process does."""
        self._thread = threading.Thread(target=self.run, name="headwater-worker", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to do."""
        self._awake.set()
        self._wanted.set()

    def stop(self, *, timeout_seconds: float = 30.0) -> None:
        """End as soon as what is being stored is stored. What is left is there the next time."""
        self._stop.set()
        self.wake()
        end = time.monotonic() + timeout_seconds
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        self.refresher.stop(timeout_seconds=max(0.0, end - time.monotonic()))

    @property
    def is_working(self) -> bool:
        """Whether something is under way beside what this process does: after `stop`, a request that hangs."""
        return self._thread is not None and self._thread.is_alive()

    def run(self) -> None:
        """Work until `stop`."""
        self._step_back()
        self._fetcher = threading.Thread(target=self._keep_fetching, name="headwater-fetcher", daemon=True)
        self._fetcher.start()
        self.refresher.start()
        while not self._stop.is_set():
            try:
                self.ledger.journal.flush()
                busy = self.step()
            except (BackendError, UsageError, OSError) as error:  # the ledger, the lock, the disk: only waiting helps
                logs.warn("The worker cannot work", error=error, reason=str(error))
                busy = False
                self._stop.wait(IDLE_SECONDS)
            if not busy:
                self._awake.wait(IDLE_SECONDS)
                self._awake.clear()

    def step(self) -> bool:
        """One pass; whether there was something to do."""
        self.ledger.jobs.recover(kinds=("url",), older_than=lease_end())
        fetched = self._fetch() if self._fetcher is None else False
        waiting = self.ledger.jobs.due(("put", "label"))
        left = time.monotonic() >= self._pause_until and self.kb.catalog.pending() > 0
        if not waiting and not left:
            return fetched
        try:
            with self.kb.writing():
                self.ledger.jobs.recover(kinds=("put", "label"))
                self._pass()
        except HomeLocked:
            self._stop.wait(LOCKED_SECONDS)
        return True

    # -------------------------------------------------------------------------------------- one pass

    def _pass(self) -> None:
        self._stopping.settle_left()
        jobs = self.ledger.jobs.take(self.name, limit=PASS_JOBS, kinds=("put", "label"), most_bytes=PASS_BYTES)
        # Vectors that take long are made only when nothing waits to be found by its words.
        jobs = jobs or self.ledger.jobs.take_indexed(self.name, limit=SLOW_JOBS)
        self._stopping.begin(jobs)
        began = time.perf_counter()
        failure: HeadwaterError | None = None
        try:
            puts = [job for job in jobs if job.kind == "put"]
            changes = {job.id: change for job in puts if not self._is_gone(job) and (change := self._change(job))}
            by_uri = {(job.uri): job for job in puts}
            indexer = self.kb.indexer
            indexer.rest = self._rest if self.in_flight is not None else None
            indexer.unwanted = self._stopping.unwanted
            if is_slow(indexer):
                found = self._find_by_words(WordsFirst.beside(indexer), puts, changes)
                jobs = [job for job in jobs if job.id not in found]
            self.kb.catalog.enqueue(changes.values())
            indexer.run(lambda progress: self._tell(by_uri, progress))
            self._stopping.look()
            for job in jobs:
                if job.kind == "label" and self._stopping.is_asked(job):
                    self._stopping.settle(job)
                else:
                    self._relabel(job)
        except _Stopped:
            return  # the jobs are taken up again by whoever works next
        except (BackendError, UsageError) as error:  # the latter: settings that do not fit the home
            failure = error
        self._failures = self._failures + 1 if failure else 0
        if failure is not None:
            self._pause_until = time.monotonic() + min(2.0**self._failures, 60.0)
            logs.warn("Indexing failed", error=failure, reason=str(failure), jobs=len(jobs))
        self._stopping.begin(())
        for job in jobs:
            self._close(job, failure)
        if self.on_pass is not None:
            self.on_pass(time.perf_counter() - began, failure is None)

    def _is_gone(self, job: Job) -> bool:
        """Whether its document was there, found by its words, and was removed before it had vectors."""
        return job.state == "indexed" and not _has_text(self.kb.catalog.record(job.document))

    def _find_by_words(self, indexer: WordsFirst, puts: Sequence[Job], changes: dict[str, Change]) -> set[str]:
        """Make documents that are not there yet found by their words; the jobs whose vectors wait for a later pass.

        What is no work any more is taken out of `changes`. One that is there already stays as it is until all of it
        can be replaced.
        """
        catalog = self.kb.catalog
        new = [job for job in puts if job.id in changes and not _has_text(catalog.record(job.document))]
        if not new:
            return set()
        by_uri = {job.uri: job for job in new}
        indexer.take_in([changes[job.id] for job in new], lambda progress: self._tell(by_uri, progress))
        found = set()
        for job in new:
            del changes[job.id]
            record = catalog.record(job.document)
            if record is not None and record.state == "indexed":
                self.ledger.jobs.indexed(job.id)
                found.add(job.id)
        return found

    def _rest(self, worked_seconds: float) -> None:
        """Let the requests that are being answered go first."""
        if self.in_flight is not None and self.in_flight() > 0:
            self._stop.wait(min(REST * worked_seconds, LONGEST_REST_SECONDS))

    def _change(self, job: Job) -> Change | None:
        work = job.work
        try:
            data = self.ledger.originals.read(work["hash"])
        except HeadwaterError as error:
            self._finish(job, "failed", str(error))
            return None
        told = {key: tuple(v) if isinstance(v, list) else v for key, v in work.get("found", {}).items()}
        blob = Blob(uri=job.uri, data=data, mime=work["mime"], modified=work.get("modified", ""), meta=told)
        change = Change(
            uri=job.uri,
            kind="put",
            owner=job.owner,
            collection=job.collection,
            labels=labels_of(self._labels(job)),
            stamp=work.get("stamp", ""),
            payload=blob,
        )
        return stamped(change)

    def _labels(self, job: Job) -> dict[str, Any]:
        """What was said with the bytes, and over it what was changed by hand."""
        told: dict[str, Any] = dict(job.work.get("labels", {}))
        changes: dict[str, Any] = dict(self.ledger.originals.changed(job.document).get("changes", {}))
        meta = {**told.get("meta", {}), **changes.pop("meta", {})}
        return {**told, **changes, "meta": {key: value for key, value in meta.items() if value is not None}}

    def _relabel(self, job: Job) -> None:
        """The document as it is stored, with what was changed of it by hand."""
        work = self.ledger.originals.changed(job.document)
        document = self.kb.catalog.document(job.document) if work else None
        if document is not None and (changed := relabelled(document, work)) != document:
            self.kb.indexer.load([changed])

    def _tell(self, jobs: dict[str, Job], progress: Progress) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._stopping.look()
        job = jobs.get(progress.uri)
        if job is not None and job.state == "indexed" and progress.stage not in ("embed", "store"):
            return  # it has been there
        if job is not None and progress.stage and self._told.get(job.id) != progress.stage:
            self._told[job.id] = progress.stage
            self.ledger.jobs.progress(job.id, stage=progress.stage, percent=PERCENT.get(progress.stage, 20))

    def _close(self, job: Job, failure: HeadwaterError | None) -> None:
        self._told.pop(job.id, None)
        current = self.ledger.jobs.get(job.id)
        if current is None or current.state not in ("processing", "indexed"):
            return
        record = self.kb.catalog.record(job.document)
        if failure is not None:
            if current.stop:
                self._stopping.settle(job)
                return
            if job.attempts < self.attempts:
                self.ledger.jobs.postpone(job, str(failure))
                return
            self._withdraw(job)
            self._finish(job, "failed", f"given up after {job.attempts} attempts: {failure}")
        elif record is None:
            self._finish(job, "cancelled", "the document was removed meanwhile")
        elif record.state in ("failed", "empty") and job.kind == "put":
            self._finish(job, "failed" if record.state == "failed" else "empty", record.error)
        else:
            self.ledger.jobs.finish(job.id, "indexed")
            self._finish(job, "completed")

    def _withdraw(self, job: Job) -> None:
        """Take an open change out of the catalog's queue."""
        change = Change(uri=job.uri, kind="put", owner=job.owner, collection=job.collection)
        self.kb.catalog.close(self.kb.catalog.draw([change]))

    def _finish(self, job: Job, state: JobState, reason: str = "") -> None:
        self.ledger.jobs.finish(job.id, state, reason)
        if self.on_done is not None and (done := self.ledger.jobs.get(job.id)) is not None:
            self.on_done(done)

    # ----------------------------------------------------------------------------------------- pages

    def _fetch(self) -> bool:
        """Fetch the pages that were promised; their jobs are puts from then on."""
        jobs = self.ledger.jobs.take(self.name, limit=FETCHED_AT_ONCE, kinds=("url",))
        if jobs:
            known = [self._known(job) for job in jobs]
            with ThreadPoolExecutor(len(jobs), thread_name_prefix="headwater-page") as pages:
                web = self.kb.web
                found = list(pages.map(lambda job, stamp: web.tried(str(job.work["url"]), stamp=stamp), jobs, known))
            for job, stamp, page in zip(jobs, known, found, strict=True):
                self._take_page(job, page, stamp)
        return bool(jobs)

    def _known(self, job: Job) -> str:
        """The stamp of the page as it is kept; empty where it is not."""
        kept, record = self.ledger.originals.get(job.document), self.kb.catalog.record(job.document)
        return record.stamp.rpartition(" ")[0] if kept is not None and record is not None else ""

    def _take_page(self, job: Job, page: "Blob | Unchanged | PageError", stamp: str) -> None:
        current = self.ledger.jobs.get(job.id)
        if current is None or current.state != "processing":
            return  # it was cancelled meanwhile
        try:
            if isinstance(page, Exception):
                raise page
            self.ledger.jobs.fetched(job, self._fetched(job, page, stamp))
        except (SourceError, BackendError) as error:
            # A page that cannot be had says whether it may be had later.
            again = isinstance(error, BackendError) or bool(getattr(error, "again", False))
            if again and job.attempts < self.attempts:
                self.ledger.jobs.postpone(job, str(error))
            elif isinstance(error, SourceError) and _is_listed(job):
                blob = stand_in(Change(uri=job.uri, kind="put", labels=labels_of(job.work["labels"])), str(error))
                self.ledger.jobs.fetched(job, self._kept(job, blob))
            else:
                self._finish(job, "failed", str(error))

    def _keep_fetching(self) -> None:
        while not self._stop.is_set():
            try:
                busy = self._fetch()
            except (BackendError, OSError) as error:
                logs.warn("Pages cannot be fetched", error=error, reason=str(error))
                busy = False
            if busy:
                self._awake.set()
            else:
                self._wanted.wait(IDLE_SECONDS)
                self._wanted.clear()

    def _fetched(self, job: Job, page: "Blob | Unchanged", stamp: str) -> dict[str, Any]:
        """The work of a job whose page is here; one that did not change is the one that is kept."""
        from headwater.sources.web import stamp_of

        if not isinstance(page, Blob):
            kept = self.ledger.originals.get(job.document)
            if kept is None:
                raise BackendError("the page that was kept was removed in this moment; it is fetched again")
            return {**job.work, "hash": kept.hash, "mime": kept.mime, "stamp": stamp, "modified": kept.created}
        if _is_listed(job) and says_nothing(page):
            raise SourceError("the page holds no text")
        self._check_room(job, len(page.data))
        return {**self._kept(job, page), "stamp": stamp_of(page)}

    def _check_room(self, job: Job, size: int) -> None:
        quota, used = self.kb.config.server().owner_quota_bytes, self.ledger.originals.used(job.owner)
        if quota and used + size > quota:
            raise SourceError(
                f"the page has {size} bytes, and {job.owner!r} keeps {used} of {quota} that are allowed; "
                "delete documents or raise server.owner_quota_bytes"
            )

    def _kept(self, job: Job, blob: Blob) -> dict[str, Any]:
        """The work of a job whose bytes are here, and safe from now on."""
        original = Original(
            document=job.document,
            owner=job.owner,
            collection=job.collection,
            uri=job.uri,
            hash=self.ledger.originals.write(blob.data),
            name=job.uri.rstrip("/").rpartition("/")[2] or "page.html",
            mime=blob.mime,
            bytes=len(blob.data),
        )
        self.ledger.originals.keep(original)
        told = {"hash": original.hash, "mime": blob.mime, "modified": blob.modified, "bytes": original.bytes}
        found = {key: list(value) if isinstance(value, tuple) else value for key, value in blob.meta.items()}
        return {**job.work, **told, "found": found}

    def _step_back(self) -> None:
        """Let searches come first; the threads that the indexer makes are of the same kind."""
        with suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


def _is_listed(job: Job) -> bool:
    """Whether a list says enough of a page to stand in for it."""
    return LISTED_IN in job.work.get("labels", {}).get("meta", {})


def _has_text(record: Record | None) -> bool:
    return record is not None and bool(record.ticket)


def lease_end() -> str:
    """A page whose fetching began before this has lost its worker."""
    return (datetime.now(UTC) - timedelta(seconds=LEASE_SECONDS)).isoformat(timespec="milliseconds")


def labels_of(told: dict[str, Any]) -> Labels:
    """Labels as a job keeps them."""
    meta = {key: tuple(value) if isinstance(value, list) else value for key, value in told.get("meta", {}).items()}
    return Labels(**{**told, "tags": tuple(told.get("tags", ())), "meta": meta})
