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
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from headwater.attach import JOINT, is_part, removal, with_parts
from headwater.errors import HomeLocked, UsageError
from headwater.filters import Compare, conjoin
from headwater.indexer import Indexer, Progress, stamped
from headwater.protocols import Catalog, Source
from headwater.types import Blob, Change, Document, Failure, Labels, Record, Report, Version, document_id

# How often a process looks whether another one that holds the lock has finished.
POLL_SECONDS = 0.05

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A source, and how to tell what has gone from it: documents under a path, or those that name it in their meta."""

    source: Source
    root: str = ""
    mark: tuple[str, str] | None = None


class Lock(Protocol):
    """One writer at a time, among all processes."""

    def acquire(self, *, timeout_seconds: float) -> None:
        """Raises HomeLocked, which says who holds it."""
        ...

    def release(self) -> None:
        """Let the next one in."""
        ...


class Intake:
    """The way in. `indexer` is called when there is work, `open_source` gives the source for what a person named.

    `expect` is told what will be read, in order. `let_go` makes the indexes give up their own write
    locks before the home's lock is released.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        indexer: Callable[[], Indexer],
        open_source: Callable[[str, Labels, str], Opened],
        lock: Lock,
        let_go: Callable[[], None],
        owner: str,
        lock_timeout_seconds: float,
        expect: Callable[[Sequence[Change]], None] = lambda _: None,
    ) -> None:
        self.catalog, self.indexer, self.open_source, self.owner = catalog, indexer, open_source, owner
        self.expect = expect
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
        tried: dict[str, str] | None = None,
    ) -> Report:
        """Add what people name; only what changed is worked on. `prune` removes what is no longer there.

        Who adds the same again and again gives `tried`, by uri the stamps of what was worked on: what could not be
        read is not tried again while it is as it was.
        """
        if not sources:
            raise UsageError("nothing to add: name at least one file or folder")
        for source in sources:
            if not isinstance(source, str | os.PathLike):
                raise UsageError(f"a source is a path or an address, got {source!r}; of a list, write *sources")
        _check(collection, labels)
        started = time.perf_counter()
        before = dict(self.catalog.stamps(self.owner, collection))
        scanned: dict[str, Change] = {}
        opened = []
        for source in sources:
            opened.append(self.open_source(os.fspath(source), labels, collection))
            scanned.update((change.uri, stamped(change)) for change in opened[-1].source.scan())
        roots = [one.root for one in opened if one.root]
        puts = [c for c in scanned.values() if not _is_known(c, before.get(c.uri)) and not _was_tried(c, tried)]
        # Folders that could not be listed: nothing is known.
        closed = [uri for uri in scanned if "://" not in uri and Path(uri).is_dir()]
        gone = {
            uri: known
            for uri, known in before.items()
            if uri not in scanned
            and _is_under(uri, roots)
            and not _is_under(uri, closed)
            and not self._is_part(uri, known)
        }
        moved_from = dict(gone)
        gone |= self._unlisted(opened, collection, scanned)
        deletes = [removal(known) for known in gone.values()] if prune else []
        unchanged = len(scanned) - len(puts)
        unread: tuple[Failure, ...] = tuple(why for one in opened for why in getattr(one.source, "failures", ()))
        if dry_run:
            new = sum(change.uri not in before for change in puts)
            return Report(
                added=new,
                updated=len(puts) - new,
                unchanged=unchanged,
                removed=len(deletes),
                missing=() if prune else tuple(sorted(gone)),
                failed=unread,
                took_ms=_since(started),
            )
        report = self._apply([*puts, *deletes], before, on_progress)
        # A list that could not be had at first stands among the documents that failed; now it was read.
        lists = [before[one.mark[1]] for one in opened if one.mark is not None and one.mark[1] in before]
        if read := [known for known in lists if known.state == "failed" and not known.chunks]:
            self.remove(read)
        if tried is not None:
            tried.update((change.uri, change.stamp) for change in puts)
        if moved := self._moved(puts, before, moved_from if not prune else {}):
            report = _sum(report, self._apply([removal(known) for known in moved], before, None))
        left = [] if prune else sorted(gone.keys() - {known.uri for known in moved})
        return replace(
            report,
            unchanged=report.unchanged + unchanged,
            missing=tuple(left),
            failed=report.failed + unread,
            took_ms=_since(started),
        )

    def add_blob(self, blob: Blob, *, collection: str, labels: Labels, dry_run: bool = False) -> Report:
        """Add one document whose bytes are at hand; the same bytes under the same uri are no work."""
        _check(collection, labels, uri=blob.uri)
        started = time.perf_counter()
        uri = blob.uri
        change = Change(uri=uri, kind="put", owner=self.owner, collection=collection, labels=labels, payload=blob)
        known = self.catalog.record(document_id(self.owner, collection, uri))
        if dry_run:
            held = known.content_hash.partition(" ")[0] if known is not None and known.state == "completed" else ""
            same = held == blake2b(blob.data, digest_size=16).hexdigest()
            return Report(
                added=int(known is None),
                updated=int(known is not None and not same),
                unchanged=int(same),
                took_ms=_since(started),
            )
        report = self._apply([change], {uri: known} if known else {}, None)
        return replace(report, took_ms=_since(started))

    def add_documents(self, documents: Iterable[Document], *, on_progress: OnProgress | None = None) -> int:
        """Add documents that are text already, in bulk; return how many were new or changed."""
        with self.writing():
            return self.indexer().load(documents, on_progress)

    def remove(self, records: Sequence[Record]) -> int:
        """Remove documents; they are gone for every reader when this returns. The indexes follow later."""
        parts = {record.id: record for record in with_parts(self.catalog, records)}
        changes = self.catalog.draw([removal(record) for record in parts.values()])
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
        self.expect([change for change in changes if change.kind == "put" and change.payload is None])
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

    def _unlisted(self, opened: Sequence[Opened], collection: str, scanned: Mapping[str, Change]) -> dict[str, Record]:
        """Documents that a list named once and names no more. A list that does not name all it has says nothing."""
        found: dict[str, Record] = {}
        for one in opened:
            if one.mark is not None and getattr(one.source, "is_whole", True):
                own = conjoin(Compare("owner", "=", self.owner), Compare("collection", "=", collection))
                listed = self.catalog.records(conjoin(own, Compare(one.mark[0], "=", one.mark[1])))
                found |= {r.uri: r for r in listed if r.uri not in scanned and r.meta.get(one.mark[0]) == one.mark[1]}
        return found

    def _is_part(self, uri: str, known: Record) -> bool:
        """Whether a document came inside another: it has no file of its own and goes when that one goes."""
        if JOINT not in uri:
            return False
        record = self.catalog.record(known.id)
        return record is not None and is_part(uri, record.meta)


def _check(collection: str, labels: Labels, *, uri: str = "") -> None:
    for label in (collection, uri, labels.title, labels.folder, *labels.tags):
        if not isinstance(label, str):
            raise UsageError(f"names, folders and tags are texts, got {label!r}")
        if any("\ud800" <= character <= "\udfff" for character in label):  # how Python has bytes that are no UTF-8
            raise UsageError(f"names, folders and tags are Unicode text, got {label!r}; write it in UTF-8")
    if not collection.strip():
        raise UsageError(f"a collection needs a name, got {collection!r}; leave it out for 'default'")


def _is_known(change: Change, known: Record | None) -> bool:
    """Whether a document is as it was when it was last read, and was read well."""
    return known is not None and known.state == "completed" and bool(change.stamp) and known.stamp == change.stamp


def _was_tried(change: Change, tried: Mapping[str, str] | None) -> bool:
    return tried is not None and bool(change.stamp) and tried.get(change.uri) == change.stamp


def _is_under(uri: str, roots: Sequence[str]) -> bool:
    return any(uri == root or uri.startswith(root.rstrip("/") + "/") for root in roots)


def _sum(first: Report, second: Report) -> Report:
    return replace(first, removed=first.removed + second.removed, failed=first.failed + second.failed)


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
