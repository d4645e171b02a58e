"""The catalog in dictionaries: so plain that it is easy to see it is right. Others are compared with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from headwater.errors import UsageError
from headwater.filters import Filter
from headwater.selection import Selection
from headwater.storage._alike import alike_among
from headwater.storage._links import links_among
from headwater.storage._rows import as_document, check_space, families_of, for_documents, record_of, utc_now
from headwater.storage._version_rules import check_versions
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
    indexed_count,
    text_hash,
)


@dataclass(slots=True)
class _Open:
    """An open change, and an earlier ticket under which it may have left something in the indexes."""

    change: Change
    previous: int = 0


# What a vector is stored under: embedder, dimensions, and the hash of the text.
_Text = tuple[str, int, bytes]


class MemoryCatalog:
    """A Catalog that is gone when its process is. The path is taken for the sake of a common signature."""

    def __init__(self, path: Path | str = "", *, now: Callable[[], str] = utc_now) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._generation = self._ticket = self._last_space = 0
        self._spaces: list[Space] = []
        self._queue: dict[str, _Open] = {}  # by document id, oldest first
        self._records: dict[str, Record] = {}
        self._versions: dict[str, Version] = {}  # by document id: the live one
        self._beside: dict[int, dict[str, Version]] = {}  # by space id: those that stand beside the live ones
        self._contents: dict[str, int] = {}  # by document id: the ticket under which the live content came
        self._floors: dict[str, int] = {}  # by document id: what is not above it comes too late
        self._sketches: dict[str, bytes] = {}  # by document id
        self._dead: set[int] = set()
        self._vectors: dict[_Text, Vector] = {}

    def generation(self) -> int:
        """Grows with every commit that readers can see."""
        return self._generation

    # ------------------------------------------------------------------------------------------ spaces

    def space(self) -> Space | None:
        """The active space, or None in a new home."""
        return next((space for space in self._spaces if space.state == "active"), None)

    def open_space(self, space: Space) -> Space:
        """Make the first space, or return the active one if it fits."""
        with self._lock:
            active = self.space() or self._make(replace(space, state="active"))
            check_space(active, space)
            return active

    def _make(self, space: Space) -> Space:
        self._last_space += 1
        made = replace(space, id=self._last_space)
        self._spaces.append(made)
        return made

    def spaces(self) -> list[Space]:
        """Every space, oldest first."""
        with self._lock:
            return list(self._spaces)

    def open_shadow(self, space: Space) -> Space:
        """The space to fill: the shadow or retired one that is made with the same, else a new shadow."""
        with self._lock:
            wanted = (space.embedder, space.dim, space.chunker)
            for there in self._spaces:
                if (there.embedder, there.dim, there.chunker) == wanted:
                    if there.state == "active":
                        raise UsageError("the home is made with these settings already; there is nothing to reindex")
                    return there
            self._keep_spaces([there for there in self._spaces if there.state != "shadow"])
            made = self._make(replace(space, state="shadow"))
            self._beside[made.id] = {}
            return made

    def behind(self, space: Space) -> list[tuple[str, int]]:
        """Documents whose live version has none beside it in this space."""
        with self._lock:
            there = self._beside[space.id]
            return [(id, version.change.ticket) for id, version in self._versions.items() if id not in there]

    def reserve(self, tickets: int) -> int:
        """Take so many tickets; return the first."""
        with self._lock:
            self._ticket += tickets
            return self._ticket - tickets + 1

    def fill(self, space: Space, versions: Mapping[int, Version]) -> None:
        """Store versions beside the live ones that they were made from, by the ticket of the live one."""
        check_versions(versions.values(), space)
        with self._lock:
            live = {version.change.ticket: (id, version.state) for id, version in self._versions.items()}
            there = self._beside[space.id]
            for ticket, version in versions.items():
                id, state = live.get(ticket, ("", version.state))
                if id and id not in there:
                    there[id] = replace(version, state=state)
                    self._keep_vectors(version, space)

    def unfill(self, space: Space, tickets: Sequence[int]) -> None:
        """Take versions away again that stand beside live ones; their documents are behind."""
        with self._lock:
            taken = set(map(int, tickets))
            there = self._beside[space.id]
            self._beside[space.id] = {id: v for id, v in there.items() if v.change.ticket not in taken}

    def switch(self, space: Space) -> bool:
        """Make it the active space, unless a document is behind; the active one is retired."""
        with self._lock:
            active = self.space()
            if active is None or space.id not in self._beside:
                raise UsageError(f"there is no space {space.id} beside the active one; open it first")
            if self.behind(space):
                return False
            self._generation += 1
            self._beside[active.id], self._versions = self._versions, self._beside.pop(space.id)
            for id, version in self._versions.items():
                ticket, chunks = version.change.ticket, indexed_count(version.chunks)
                self._records[id] = replace(self._records[id], ticket=ticket, chunks=chunks)
            retired, activated = replace(active, state="retired"), replace(space, state="active")
            changed = {active.id: retired, space.id: activated}
            kept = [there for there in self._spaces if there.state != "retired" or there.id == space.id]
            self._keep_spaces([changed.get(there.id, there) for there in kept])
            return True

    def drop_space(self, space: Space) -> None:
        """Forget a space that is not active."""
        with self._lock:
            self._keep_spaces([there for there in self._spaces if there.id != space.id or there.state == "active"])

    def clear_away(self) -> None:
        """Nothing is left of a dropped space."""

    def _keep_spaces(self, spaces: list[Space]) -> None:
        self._spaces = spaces
        self._beside = {space.id: self._beside[space.id] for space in spaces if space.id in self._beside}

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

    def commit(self, versions: Sequence[Version], *, until: Callable[[], None] = lambda: None) -> None:
        """Make each version its document's only one and close its change, all or nothing."""
        if not versions:
            return
        check_versions(versions, self.space())
        until()
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
        content = self._contents.get(id, 0)
        if ticket <= max(content, self._floors.get(id, 0)):
            if ticket not in (live, content):
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
            self._contents.pop(id, None)
            self._sketches.pop(id, None)
            self._dead.update(there.pop(id).change.ticket for there in self._beside.values() if id in there)
            if version.document is None and version.state != "empty":
                self._floors[id] = ticket
            else:
                self._versions[id], self._contents[id] = version, ticket
                self._records[id] = record_of(version, id=id, created=earlier.created if earlier else "", now=now)
                self._keep_vectors(version, self.space())
                if version.sketch:
                    self._sketches[id] = version.sketch

    def _keep_vectors(self, version: Version, space: Space | None) -> None:
        if version.vectors is not None and space is not None:
            # Rounded as a store rounds them, so that both hold the same numbers.
            rows = version.vectors.astype(np.float16).astype(np.float32)
            for chunk, row in zip(version.chunks, rows, strict=False):
                self._vectors.setdefault((space.embedder, space.dim, text_hash(chunk.searchable_text)), row)

    def note(self, document_id: str, problem: str) -> None:
        """Add a problem to a document that exists, once; without its stamp and hash."""
        with self._lock:
            record = self._records.get(document_id)
            if record is not None and problem not in record.problems:
                problems = (*record.problems, problem)
                self._records[document_id] = replace(record, problems=problems, stamp="", content_hash="")

    def dead(self) -> list[int]:
        """Tickets whose chunks the indexes may still hold and must not."""
        with self._lock:
            return sorted(self._dead)

    def buried(self, tickets: Sequence[int]) -> None:
        """The indexes hold nothing of these any more."""
        with self._lock:
            self._dead.difference_update(map(int, tickets))

    def tickets(self, space: Space | None = None) -> Mapping[int, int]:
        """Every ticket of a space, else of the active one, that has chunks in the indexes, and how many."""
        with self._lock:
            versions = self._beside.get(space.id, self._versions) if space else self._versions
            counts = {version.change.ticket: indexed_count(version.chunks) for version in versions.values()}
            return {ticket: count for ticket, count in counts.items() if count}

    def last_ticket(self) -> int:
        """The highest ticket ever drawn."""
        return self._ticket

    # ----------------------------------------------------------------------------------------- reading

    def select(self, where: Filter) -> Selection:
        """The chunk ids that the filter allows, by asking it about every chunk."""
        with self._lock:
            found = self._chunks([self._versions]).values()
            return Selection.of_ids([c.id for c, record in found if where.matches(attributes(record, c))])

    def owners(self, ids: Sequence[int], *, generation: int | None = None) -> dict[int, str]:
        """For those that are alive and that the indexes hold: the document's id."""
        held = {chunk.id: id for versions in self._all() for id, one in versions.items() for chunk in one.indexed}
        return {id: held[id] for id in map(int, ids) if id in held}

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

    def families(self, ids: Sequence[int]) -> Mapping[int, int]:
        """For those that are alive: the lowest id among them whose text is nearly the same, else its own."""
        return families_of(self.chunks(ids))

    def alike(self, document_id: str) -> list[tuple[str, float]]:
        """Other documents of its owner and collection that are nearly the same, most alike first."""
        with self._lock:
            return alike_among({id: (self._records[id], sketch) for id, sketch in self._sketches.items()}, document_id)

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, str]]:
        """References within a collection, (from, to), that begin or end at one of these documents."""
        with self._lock:
            live = [self._records[id] for id in self._versions]
            return links_among(filter(None, map(self.document, self._versions)), live, document_ids)

    def is_pending(self, document_id: str) -> bool:
        """Whether a change of it is open."""
        return document_id in self._queue

    def vectors(self, ids: Sequence[int]) -> tuple[Ids, Matrix]:
        """The vectors of those that are alive and have one."""
        with self._lock:
            embedded = self._embedded()
            alive = {id: embedded[id] for id in map(int, ids) if id in embedded}
            rows = [self._vectors[text] for text in alive.values()]
            active = self.space()
            dim = len(rows[0]) if rows else active.dim if active else 0
            return np.array(list(alive), dtype=np.int64), np.array(rows, dtype=np.float32).reshape(len(rows), dim)

    def known_vectors(self, hashes: Sequence[bytes], space: Space | None = None) -> dict[bytes, Vector]:
        """Vectors of a space's embedder, else of the active one's, for texts of these hashes."""
        with self._lock:
            maker = space or self.space()
            named = {key: (maker.embedder, maker.dim, key) for key in hashes} if maker else {}
            return {key: self._vectors[text] for key, text in named.items() if text in self._vectors}

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
            names = ("structure", "blocks", "links", "page_starts", "hidden", "boxes")
            outline = {name: getattr(told, name) for name in names}
            return as_document(record, text=told.text, outline=outline)

    def record(self, document_id: str) -> Record | None:
        """The document without its text."""
        return self._records.get(document_id)

    def content_hashes(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Of those that exist and were read well: what their content was hashed to."""
        known = ((id, self._records.get(id)) for id in document_ids)
        return {id: record.content_hash for id, record in known if record and record.state == "completed"}

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
            return {
                "documents": len(records),
                "chunks": sum(self.tickets().values()),
                "vectors": len(set(self._embedded().values())),
                "collections": len({(record.owner, record.collection) for record in records}),
                "pending": len(self._queue),
                "failed": sum(record.state == "failed" for record in records),
                "empty": sum(record.state == "empty" for record in records),
                "with_problems": sum(bool(record.problems) for record in records),
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

    def _all(self) -> list[dict[str, Version]]:
        return [self._versions, *self._beside.values()]

    def _live(self) -> set[int]:
        return {version.change.ticket for versions in self._all() for version in versions.values()}

    def _chunks(self, among: Sequence[Mapping[str, Version]] = ()) -> dict[int, tuple[Chunk, Record]]:
        """Every chunk by id, of all spaces unless told."""
        return {
            chunk.id: (replace(chunk, document_id=id), self._records[id])
            for versions in among or self._all()
            for id, version in versions.items()
            for chunk in version.chunks
        }

    def _embedded(self) -> dict[int, _Text]:
        """By the ids of all chunks that came with a vector: what it is stored under."""
        found: dict[int, _Text] = {}
        for space in self._spaces:
            for version in self._beside.get(space.id, self._versions).values():
                rows = version.vectors if version.vectors is not None else ()
                for chunk in version.chunks[: len(rows)]:
                    found[chunk.id] = (space.embedder, space.dim, text_hash(chunk.searchable_text))
        return found


def _id(change: Change) -> str:
    return document_id(change.owner, change.collection, change.uri)
