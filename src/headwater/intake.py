"""What a person adds -> changes in the queue -> a report of what became of them.

Decides which documents need work (by stamp, without reading them), queues those, and sees them through: here, or by
waiting while another process that holds the home's lock does it.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from headwater.errors import HomeLocked, NotFound, UsageError
from headwater.indexer import Indexer, Progress, stamped
from headwater.protocols import Catalog, Source
from headwater.types import Blob, Change, Document, Failure, Labels, Record, Report, Version, document_id

# How often a process looks whether another one that holds the lock has finished.
POLL_SECONDS = 0.05

OnProgress = Callable[[Progress], None]


class Lock(Protocol):
    """One writer at a time, among all processes."""

    def acquire(self, *, timeout_seconds: float) -> None:
        """Raises HomeLocked, which says who holds it."""
        ...

    def release(self) -> None:
        """Let the next one in."""
        ...


class Intake:
    """The way in. `indexer` is called when there is work, `files` gives the source for a path.

    `let_go` makes the indexes give up their own write locks before the home's lock is released.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        indexer: Callable[[], Indexer],
        files: Callable[[Path, Labels, str], Source],
        lock: Lock,
        let_go: Callable[[], None],
        owner: str,
        lock_timeout_seconds: float,
    ) -> None:
        self.catalog, self.indexer, self.files, self.owner = catalog, indexer, files, owner
        self.lock, self.let_go, self.lock_timeout_seconds = lock, let_go, lock_timeout_seconds
        self._guard, self._depth = threading.RLock(), 0

    def add(
        self,
        sources: Sequence[str | os.PathLike[str]],
        *,
        collection: str,
        labels: Labels,
        prune: bool = False,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Report:
        """Add files and folders; only what changed is worked on. `prune` removes what is no longer there."""
        if not sources:
            raise UsageError("nothing to add: name at least one file or folder")
        started = time.perf_counter()
        before = dict(self.catalog.stamps(self.owner, collection))
        scanned: dict[str, Change] = {}
        roots = []
        for source in sources:
            path = _existing(source)
            roots.append(path.as_posix())
            scanned.update((change.uri, stamped(change)) for change in self.files(path, labels, collection).scan())
        puts = [c for c in scanned.values() if not _is_known(c, before.get(c.uri))]
        closed = [uri for uri in scanned if Path(uri).is_dir()]  # folders that could not be listed: nothing is known
        gone = {
            uri: known
            for uri, known in before.items()
            if uri not in scanned and _is_under(uri, roots) and not _is_under(uri, closed)
        }
        deletes = [self._delete(known) for known in gone.values()] if prune else []
        unchanged = len(scanned) - len(puts)
        if dry_run:
            new = sum(change.uri not in before for change in puts)
            return Report(
                added=new,
                updated=len(puts) - new,
                unchanged=unchanged,
                removed=len(deletes),
                missing=() if prune else tuple(sorted(gone)),
                took_ms=_since(started),
            )
        report = self._apply([*puts, *deletes], before, on_progress)
        if moved := self._moved(puts, before, gone if not prune else {}):
            report = _sum(report, self._apply([self._delete(known) for known in moved], before, None))
        left = [] if prune else sorted(gone.keys() - {known.uri for known in moved})
        total = replace(report, unchanged=report.unchanged + unchanged, missing=tuple(left))
        return replace(total, took_ms=_since(started))

    def add_blob(self, blob: Blob, *, collection: str, labels: Labels) -> Report:
        """Add one document whose bytes are at hand; the same bytes under the same uri are no work."""
        started = time.perf_counter()
        uri = blob.uri
        change = Change(uri=uri, kind="put", owner=self.owner, collection=collection, labels=labels, payload=blob)
        known = self.catalog.record(document_id(self.owner, collection, uri))
        report = self._apply([change], {uri: known} if known else {}, None)
        return replace(report, took_ms=_since(started))

    def add_documents(self, documents: Iterable[Document], *, on_progress: OnProgress | None = None) -> int:
        """Add documents that are text already, in bulk; return how many were new or changed."""
        with self.writing():
            return self.indexer().load(documents, on_progress)

    def remove(self, records: Sequence[Record]) -> int:
        """Remove documents; they are gone for every reader when this returns. The indexes follow later."""
        changes = self.catalog.draw([self._delete(record) for record in records])
        self.catalog.commit([Version(change=change) for change in changes])
        return len(changes)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the home's write lock, for several adds in a row; raises HomeLocked if another process has it."""
        with self._guard:
            if self._depth == 0:
                self.lock.acquire(timeout_seconds=0.0)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self.let_go()
                    self.lock.release()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Hold the home's write lock, after waiting for whoever has it; raises HomeLocked when that takes too long."""
        end = time.monotonic() + self.lock_timeout_seconds
        with ExitStack() as held:
            while True:
                try:
                    held.enter_context(self.writing())
                    break
                except HomeLocked:
                    if time.monotonic() > end:
                        raise
                    time.sleep(POLL_SECONDS)
            yield

    def _apply(self, changes: list[Change], before: Mapping[str, Record], on_progress: OnProgress | None) -> Report:
        """Queue changes, see them through, and tell what became of them."""
        if not changes:
            return Report()
        self.indexer()  # settings that do not fit the home are refused before anything is queued
        self.catalog.enqueue(changes)
        self._work(on_progress)
        counts = Counter[str]()
        failed, chunks = [], 0
        for change in changes:
            known = before.get(change.uri)
            now = self.catalog.record(document_id(change.owner, change.collection, change.uri))
            if change.kind == "delete":
                counts["removed"] += 1
            elif now is None or now.state in ("failed", "empty"):
                failed.append(Failure(uri=change.uri, reason=now.error if now else "it was removed meanwhile"))
            elif known is not None and known.ticket == now.ticket:
                counts["unchanged"] += 1
            else:
                counts["added" if known is None or not known.ticket else "updated"] += 1
                chunks += now.chunks
        return Report(
            added=counts["added"],
            updated=counts["updated"],
            unchanged=counts["unchanged"],
            removed=counts["removed"],
            failed=tuple(failed),
            chunks=chunks,
        )

    def _work(self, on_progress: OnProgress | None) -> None:
        """Index what is queued, or wait while the process that holds the lock does."""
        pending, since = self.catalog.pending(), time.monotonic()
        while pending:
            try:
                with self.writing():
                    self.indexer().run(on_progress)
            except HomeLocked:
                if time.monotonic() - since > self.lock_timeout_seconds:
                    raise
                time.sleep(POLL_SECONDS)
            left = self.catalog.pending()
            if left != pending:
                pending, since = left, time.monotonic()

    def _moved(self, puts: list[Change], before: Mapping[str, Record], gone: Mapping[str, Record]) -> list[Record]:
        """Documents whose file is gone while the same bytes came in under another name: the file was moved."""
        if not gone:
            return []
        new = [self.catalog.record(document_id(c.owner, c.collection, c.uri)) for c in puts if c.uri not in before]
        arrived = {record.content_hash.partition(" ")[0] for record in new if record is not None}
        return [record for record in gone.values() if record.content_hash.partition(" ")[0] in arrived - {""}]

    def _delete(self, record: Record) -> Change:
        return Change(uri=record.uri, kind="delete", owner=record.owner, collection=record.collection)


def _existing(source: str | os.PathLike[str]) -> Path:
    text = os.fspath(source)
    if "://" in text:
        raise UsageError(f"addresses cannot be added yet, got {text!r}; save the page as a file and add that")
    path = Path(text).absolute()
    if not path.exists():
        raise NotFound(
            f"there is no file or folder {text!r}; check the spelling (looked in {path.parent.as_posix()!r})"
        )
    return path


def _is_known(change: Change, known: Record | None) -> bool:
    """Whether a document is as it was when it was last read, and was read well."""
    return known is not None and known.state == "completed" and bool(change.stamp) and known.stamp == change.stamp


def _is_under(uri: str, roots: Sequence[str]) -> bool:
    return any(uri == root or uri.startswith(root.rstrip("/") + "/") for root in roots)


def _sum(first: Report, second: Report) -> Report:
    return replace(first, removed=first.removed + second.removed, failed=first.failed + second.failed)


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
