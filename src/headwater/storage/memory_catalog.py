"""The catalog in dictionaries: so plain that it is easy to see it is right. Others are compared with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from headwater.filters import Filter
from headwater.selection import Selection
from headwater.storage._rows import (
    as_document,
    check_space,
    check_version,
    for_documents,
    indexed_count,
    record_of,
)
from headwater.types import (
    Change,
    Chunk,
    Document,
    Ids,
    Matrix,
    Record,
    Space,
    Vector,
    Version,
    attributes,
    document_id,
    text_hash,
)


@dataclass(slots=True)
class _Open:
    """An open change, and an earlier ticket under which it may have left something in the indexes."""

    change: Change
    previous: int = 0


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class MemoryCatalog:
    """A Catalog that is gone when its process is. The path is taken for the sake of a common signature."""

    def __init__(self, path: Path | str = "", *, now: Callable[[], str] = _utc_now) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._generation = self._ticket = 0
        self._space: Space | None = None
        self._queue: dict[str, _Open] = {}  # by document id, oldest first
        self._records: dict[str, Record] = {}
        self._versions: dict[str, Version] = {}  # by document id: the live one
        self._floors: dict[str, int] = {}  # by document id: what is not above it comes too late
        self._dead: set[int] = set()
        self._vectors: dict[bytes, Vector] = {}

    def generation(self) -> int:
        """Grows with every commit that readers can see."""
        return self._generation

    # ------------------------------------------------------------------------------------------ spaces

    def space(self) -> Space | None:
        """The active space, or None in a new home."""
        return self._space

    def open_space(self, space: Space) -> Space:
        """Make the first space, or return the active one if it fits."""
        with self._lock:
            if self._space is None:
                self._space = replace(space, id=1, state="active")
            check_space(self._space, space)
            return self._space

    # ------------------------------------------------------------------------------------------- queue

    def enqueue(self, changes: Iterable[Change]) -> int:
        """Remember the latest change per document; one that replaces another keeps its place."""
        with self._lock:
            latest = {_id(change): change for change in changes}
            for id, change in latest.items():
                earlier = self._queue.get(id)
                previous = max(earlier.previous, earlier.change.ticket) if earlier else 0
                self._queue[id] = _Open(replace(change, ticket=0, attempts=0), previous)
            return len(latest)

    def claim(self, limit: int) -> list[Change]:
        """Open changes, oldest first, each under a fresh ticket."""
        with self._lock:
            claimed = []
            for id, waiting in list(self._queue.items())[:limit]:
                self._supersede(id, max(waiting.previous, waiting.change.ticket))
                self._ticket += 1
                change = replace(waiting.change, ticket=self._ticket, attempts=waiting.change.attempts + 1)
                self._queue[id] = _Open(change)
                claimed.append(change)
            return claimed

    def draw(self, changes: Sequence[Change]) -> list[Change]:
        """Give each a fresh ticket without queueing; an open change of the same document is taken over."""
        with self._lock:
            drawn = []
            for change in changes:
                self._ticket += 1
                drawn.append(replace(change, ticket=self._ticket))
                id = document_id(change.owner, change.collection, change.uri)
                if waiting := self._queue.get(id):
                    self._supersede(id, max(waiting.previous, waiting.change.ticket))
                    self._queue[id] = _Open(replace(waiting.change, ticket=self._ticket))
            return drawn

    def _supersede(self, id: str, earlier: int) -> None:
        """Who still works under an earlier ticket has lost."""
        if earlier:
            self._floors[id] = max(self._floors.get(id, 0), earlier)
            if earlier not in self._live():
                self._dead.add(earlier)

    def pending(self) -> int:
        """How many changes are open."""
        return len(self._queue)

    def close(self, changes: Sequence[Change]) -> None:
        """These changes need no commit; their stamps are recorded and an earlier failure is over."""
        with self._lock:
            for change in changes:
                self._close(change)
                version = self._versions.get(_id(change))
                if change.kind == "put" and version is not None and version.change.ticket <= change.ticket:
                    record = self._records[_id(change)]
                    error = "" if record.state == "failed" else record.error
                    stamp = change.stamp or record.stamp
                    self._records[record.id] = replace(record, stamp=stamp, state=version.state, error=error)

    def _close(self, change: Change) -> None:
        waiting = self._queue.get(_id(change))
        if waiting is not None and waiting.change.ticket == change.ticket:
            del self._queue[_id(change)]

    # ---------------------------------------------------------------------------------------- versions

    def commit(self, versions: Sequence[Version]) -> None:
        """Make each version its document's only one and close its change, all or nothing."""
        if not versions:
            return
        for version in versions:
            check_version(version, self._space)
        with self._lock:
            now = self._now()
            self._generation += 1
            for version in versions:
                self._commit(version, now)
                self._close(version.change)

    def _commit(self, version: Version, now: str) -> None:
        id, ticket = _id(version.change), version.change.ticket
        live = self._versions[id].change.ticket if id in self._versions else 0
        earlier = self._records.get(id)
        if ticket <= max(live, self._floors.get(id, 0)):
            if ticket != live:
                self._dead.add(ticket)
        elif version.state == "failed":
            self._floors[id] = ticket
            self._dead.add(ticket)
            if earlier is not None and live:
                self._records[id] = replace(earlier, state="failed", error=version.error)
            else:
                self._records[id] = record_of(version, id=id, created=earlier.created if earlier else "", now=now)
        else:
            if live:
                self._dead.add(live)
            self._versions.pop(id, None)
            self._records.pop(id, None)
            if version.document is None and version.state != "empty":
                self._floors[id] = ticket
            else:
                self._versions[id] = version
                self._records[id] = record_of(version, id=id, created=earlier.created if earlier else "", now=now)
                self._keep_vectors(version)

    def _keep_vectors(self, version: Version) -> None:
        if version.vectors is not None:
            # Rounded as a store rounds them, so that both hold the same numbers.
            rows = version.vectors.astype(np.float16).astype(np.float32)
            for chunk, row in zip(version.chunks, rows, strict=False):
                self._vectors.setdefault(text_hash(chunk.searchable_text), row)

    def dead(self) -> list[int]:
        """Tickets whose chunks the indexes may still hold and must not."""
        with self._lock:
            return sorted(self._dead)

    def buried(self, tickets: Sequence[int]) -> None:
        """The indexes hold nothing of these any more."""
        with self._lock:
            self._dead.difference_update(map(int, tickets))

    def tickets(self) -> Mapping[int, int]:
        """Every live ticket that has chunks in the indexes, and how many."""
        with self._lock:
            counts = {version.change.ticket: indexed_count(version.chunks) for version in self._versions.values()}
            return {ticket: count for ticket, count in counts.items() if count}

    def last_ticket(self) -> int:
        """The highest ticket ever drawn."""
        return self._ticket

    # ----------------------------------------------------------------------------------------- reading

    def select(self, where: Filter) -> Selection:
        """The chunk ids that the filter allows, by asking it about every chunk."""
        with self._lock:
            found = self._chunks().values()
            return Selection.of_ids([c.id for c, record in found if where.matches(attributes(record, c))])

    def locate(self, ids: Sequence[int]) -> dict[int, tuple[str, int, int]]:
        """For those that are alive: (document id, start, end)."""
        return {id: (chunk.document_id, *chunk.span) for id, (chunk, _) in self.chunks(ids).items()}

    def chunks(self, ids: Sequence[int]) -> dict[int, tuple[Chunk, Record]]:
        """For those that are alive: the chunk with its text, and its document's record."""
        with self._lock:
            alive = self._chunks()
        return {id: alive[id] for id in map(int, ids) if id in alive}

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """The live chunks of a document in order, without the larger ones they were cut from."""
        with self._lock:
            version = self._versions.get(document_id)
            if version is None:
                return []
            alive = self._chunks()
            return [alive[chunk.id][0] for chunk in version.chunks[: indexed_count(version.chunks)]]

    def vectors(self, ids: Sequence[int]) -> tuple[Ids, Matrix]:
        """The vectors of those that are alive and have one."""
        with self._lock:
            texts = {id: chunk.searchable_text for id, (chunk, _) in self.chunks(ids).items() if id in self._embedded()}
            rows = [self._vectors[text_hash(text)] for text in texts.values()]
            dim = self._space.dim if self._space else 0
            return np.array(list(texts), dtype=np.int64), np.array(rows, dtype=np.float32).reshape(len(rows), dim)

    def known_vectors(self, hashes: Sequence[bytes]) -> dict[bytes, Vector]:
        """Vectors already held for texts of these hashes."""
        with self._lock:
            return {key: self._vectors[key] for key in hashes if key in self._vectors}

    def document(self, document_id: str) -> Document | None:
        """The document with its text."""
        with self._lock:
            record = self._records.get(document_id)
            if record is None:
                return None
            version = self._versions.get(document_id)
            told = version.document if version is not None else None
            if told is None:
                return as_document(record, text="", outline={})
            outline = {name: getattr(told, name) for name in ("structure", "blocks", "links", "page_starts", "hidden")}
            return as_document(record, text=told.text, outline=outline)

    def record(self, document_id: str) -> Record | None:
        """The document without its text."""
        return self._records.get(document_id)

    def records(self, where: Filter, *, limit: int | None = None, offset: int = 0) -> list[Record]:
        """The documents that the filter allows, by collection and uri. Chunk-level keys allow any document."""
        allowed = for_documents(where)
        with self._lock:
            found = [record for record in self._records.values() if allowed.matches(attributes(record))]
        found.sort(key=lambda record: (record.collection, record.uri, record.owner))
        return found[offset : None if limit is None else offset + limit]

    def stamps(self, owner: str, collection: str) -> Mapping[str, Record]:
        """By uri: what is known of a collection's documents."""
        with self._lock:
            of_both = [r for r in self._records.values() if (r.owner, r.collection) == (owner, collection)]
        return {record.uri: record for record in of_both}

    def statistics(self) -> Mapping[str, int]:
        """Counts of everything."""
        with self._lock:
            records = self._records.values()
            embedded = self._embedded()
            used = {text_hash(c.searchable_text) for id, (c, _) in self._chunks().items() if id in embedded}
            return {
                "documents": len(records),
                "chunks": sum(self.tickets().values()),
                "vectors": len(used),
                "collections": len({(record.owner, record.collection) for record in records}),
                "pending": len(self._queue),
                "failed": sum(record.state == "failed" for record in records),
                "empty": sum(record.state == "empty" for record in records),
                "dead": len(self._dead),
                "generation": self._generation,
                "last_ticket": self._ticket,
            }

    def check(self) -> list[str]:
        """Nothing can go wrong inside dictionaries."""
        return []

    def repair(self) -> None:
        """Nothing to mend."""

    def close_store(self) -> None:
        """Nothing to let go of."""

    def _live(self) -> set[int]:
        return {version.change.ticket for version in self._versions.values()}

    def _chunks(self) -> dict[int, tuple[Chunk, Record]]:
        """Every live chunk by id."""
        return {
            chunk.id: (replace(chunk, document_id=id), self._records[id])
            for id, version in self._versions.items()
            for chunk in version.chunks
        }

    def _embedded(self) -> set[int]:
        """The ids of live chunks that came with a vector."""
        filled = [v for v in self._versions.values() if v.vectors is not None]
        return {chunk.id for v in filled for chunk in v.chunks[: len(v.vectors if v.vectors is not None else ())]}


def _id(change: Change) -> str:
    return document_id(change.owner, change.collection, change.uri)
