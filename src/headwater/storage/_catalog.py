"""The catalog in SQL: documents, chunks, vectors, the queue of changes and the index that filters use.

The same statements for every database that is behind it: what differs between them, their connections hide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Final

import numpy as np

from headwater.filters import ALL, Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage import _spaces, _texts
from headwater.storage._alike import find_alike
from headwater.storage._check import check, mend
from headwater.storage._commit import PARAMETERS, Commit, Numbers
from headwater.storage._links import find_links
from headwater.storage._owners import Held, Owners
from headwater.storage._reading import (
    CHUNK_COLUMNS,
    CHUNKS,
    ITS_VERSION,
    as_matrix,
    count,
    draw,
    listed,
    read_chunks,
    read_hashes,
    read_names,
    read_owners,
    read_records,
    read_versions,
    statistics,
    supersede,
)
from headwater.storage._rows import (
    LIGHT_COLUMNS,
    RECORD_COLUMNS,
    as_document,
    change_row,
    check_space,
    families_of,
    for_documents,
    light_record,
    packed,
    readable,
    row_change,
    row_outline,
    row_record,
    storable,
)
from headwater.storage._sql import Connection, Store
from headwater.storage._version_rules import check_versions
from headwater.storage.selecting import Selector
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
)

# Vectors of texts that are gone and may come back (a file moved, an edit undone): 40 MB at 384 dimensions.
IDLE_VECTORS: Final = 50_000
# Up to here it is cheaper to read the allowed documents and sort them than to walk all of them in order.
SORTED_HERE: Final = 2_000
# The highest number that a limit may be.
_ALL_OF_THEM: Final = (1 << 63) - 1

_CHANGE_COLUMNS: Final = "owner, collection, uri, kind, labels, stamp, payload, about"
_ENQUEUE: Final = f"""
insert into queue(document, {_CHANGE_COLUMNS}, place, ticket, previous, attempts, since)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, ?)
on conflict(document) do update set
  kind = excluded.kind, labels = excluded.labels, stamp = excluded.stamp, payload = excluded.payload,
  about = excluded.about, previous = max(queue.previous, queue.ticket), ticket = 0, attempts = 0, since = excluded.since
"""


class SqlCatalog(_texts.Texts):
    """A Catalog in a database. One process at a time should commit; any number may read and enqueue."""

    def __init__(self, database: Store, *, now: Callable[[], str], idle_vectors: int) -> None:
        self._database = database
        self._now, self._idle_vectors = now, idle_vectors
        self._selector, self._numbers, self._owners = Selector(), Numbers(), Owners()

    def generation(self) -> int:
        """Grows with every commit that readers can see."""
        with self._database.reading() as db:
            return int(db.execute("select generation from counters").fetchone()[0])

    # ------------------------------------------------------------------------------------------ spaces

    def space(self) -> Space | None:
        """The active space, or None in a new home."""
        with self._database.reading() as db:
            return _spaces.active_space(db)

    def open_space(self, space: Space) -> Space:
        """Make the first space, or return the active one if it fits; raise SpaceMismatch with the remedy."""
        active = self.space()
        if active is None:
            with self._database.writing() as db:
                active = _spaces.active_space(db)  # another process may have been quicker
                if active is None:
                    return _spaces.make_space(db, replace(space, state="active"))
        check_space(active, space)
        return active

    def spaces(self) -> list[Space]:
        """Every space, oldest first."""
        with self._database.reading() as db:
            return _spaces.all_spaces(db)

    def open_shadow(self, space: Space) -> Space:
        """The space to fill: the shadow or retired one that is made with the same, else a new shadow."""
        with self._database.writing() as db:
            return _spaces.open_shadow(db, space)

    def behind(self, space: Space) -> list[tuple[str, int]]:
        """Documents whose live version has none beside it in this space, in the order they came."""
        with self._database.reading() as db:
            return _spaces.behind(db, space)

    def reserve(self, tickets: int) -> int:
        """Take so many tickets; return the first."""
        with self._database.writing() as db:
            return draw(db, tickets)

    def fill(self, space: Space, versions: Mapping[int, Version]) -> None:
        """Store versions beside the live ones that they were made from, by the ticket of the live one."""
        check_versions(versions.values(), space)
        with self._database.writing(on_failure=self._numbers.forget) as db:
            self._work(db, space).fill(versions)

    def unfill(self, space: Space, tickets: Sequence[int]) -> None:
        """Take versions away again that stand beside live ones; their documents are behind."""
        with self._database.writing() as db:
            _spaces.unfill(db, space, tickets, keep=self._idle_vectors)

    def switch(self, space: Space) -> bool:
        """Make it the active space in one transaction, unless a document is behind."""
        with self._database.writing() as db:
            return _spaces.switch(db, space)

    def drop_space(self, space: Space) -> None:
        """Forget a space that is not active."""
        with self._database.writing() as db:
            _spaces.drop(db, space)

    def clear_away(self) -> None:
        """Remove what dropped spaces have left, a piece at a time."""
        left = True
        while left:
            with self._database.writing() as db:
                left = _spaces.clear_piece(db, keep=self._idle_vectors)

    # ------------------------------------------------------------------------------------------- queue

    def enqueue(self, changes: Iterable[Change]) -> int:
        """Remember changes durably, the latest per (owner, collection, uri); return how many."""
        latest = {document_id(c.owner, c.collection, c.uri): c for c in changes}
        if not latest:
            return 0
        since = self._now()
        rows = [(id, *change_row(change)) for id, change in latest.items()]
        with self._database.writing() as db:
            place = int(db.execute("select place from counters").fetchone()[0])
            db.executemany(_ENQUEUE, [(*row, place + n, since) for n, row in enumerate(rows, 1)])
            db.execute("update counters set place = ?", (place + len(rows),))
        return len(latest)

    def claim(self, limit: int) -> list[Change]:
        """Open changes, oldest first, each under a fresh ticket. What an earlier ticket left behind is dead."""
        with self._database.writing() as db:
            sql = (
                f"select document, max(ticket, previous), attempts, {_CHANGE_COLUMNS} from queue order by place limit ?"
            )
            rows = db.execute(sql, (limit,)).fetchall()
            if not rows:
                return []
            first = draw(db, len(rows))
            claimed = [row_change(row[3:], ticket=first + n, attempts=row[2] + 1) for n, row in enumerate(rows)]
            db.executemany(
                "update queue set ticket = ?, previous = 0, attempts = ? where document = ?",
                [(change.ticket, change.attempts, row[0]) for change, row in zip(claimed, rows, strict=True)],
            )
            supersede(db, [(row[0], row[1]) for row in rows if row[1]])
            return claimed

    def draw(self, changes: Sequence[Change]) -> list[Change]:
        """Give each a fresh ticket without queueing; an open change of the same document is taken over."""
        if not changes:
            return []
        # A number that a power cut takes back is drawn again: what the indexes hold of it gives way to what comes then.
        with self._database.writing(durable=False) as db:
            first = draw(db, len(changes))
            drawn = [replace(change, ticket=first + n) for n, change in enumerate(changes)]
            if count(db, "queue"):
                self._take_over(db, [(document_id(c.owner, c.collection, c.uri), c.ticket) for c in drawn])
        return drawn

    def _take_over(self, db: Connection, tickets: Iterable[tuple[str, int]]) -> None:
        for document, ticket in tickets:
            sql = "select max(ticket, previous) from queue where document = ?"
            if row := db.execute(sql, (document,)).fetchone():
                supersede(db, [(document, row[0])] if row[0] else [])
                db.execute("update queue set ticket = ?, previous = 0 where document = ?", (ticket, document))

    def pending(self) -> int:
        """How many changes are open, claimed or not."""
        with self._database.reading() as db:
            return count(db, "queue")

    def close(self, changes: Sequence[Change]) -> None:
        """These changes need no commit (nothing had changed); they will not be claimed again.

        Their stamps are recorded, so that equal ones need no reading next time, and a document that had failed is
        again what its live version is.
        """
        named = [(document_id(c.owner, c.collection, c.uri), c) for c in changes]
        if not named:
            return
        with self._database.writing() as db:
            db.executemany("delete from queue where document = ? and ticket = ?", [(id, c.ticket) for id, c in named])
            db.executemany(
                "update document set stamp = coalesce(nullif(?, ''), stamp), "
                "error = case when state = 'failed' then '' else error end, "
                "state = (select state from version where version.ticket = document.ticket) "
                "where id = ? and ticket != 0 and ticket <= ?",
                [(storable(c.stamp), id, c.ticket) for id, c in named if c.kind == "put"],
            )

    # ---------------------------------------------------------------------------------------- versions

    def commit(self, versions: Sequence[Version], *, until: Callable[[], None] = lambda: None) -> None:
        """In one transaction make each version its document's only one and close its change.

        A version whose document already has a higher ticket changes nothing. A failed one keeps the earlier version
        alive with its stamp and hash, so that the next scan tries again, and records the reason. An empty one
        replaces the earlier version: that text is gone. `until` is called before the transaction ends.
        """
        if not versions:
            return
        space = self.space()
        check_versions(versions, space)
        assert space is not None  # or the check had raised
        with self._database.writing(on_failure=self._numbers.forget) as db:
            self._work(db, space).apply(versions)
            until()

    def _work(self, db: Connection, space: Space) -> Commit:
        return Commit(db, space=space, numbers=self._numbers, now=self._now(), idle_vectors=self._idle_vectors)

    def note(self, document_id: str, problem: str) -> None:
        """Add a problem to a document that exists, once; without its stamp and hash, so that the next scan reads it."""
        with self._database.writing() as db:
            record = read_records(db, {document_id}).get(document_id)
            if record is not None and problem not in record.problems:
                sql = "update document set problems = ?, stamp = '', content_hash = '' where id = ?"
                db.execute(sql, (packed([*record.problems, problem]), document_id))

    def dead(self) -> list[int]:
        """Tickets whose chunks the indexes may still hold and must not."""
        with self._database.reading() as db:
            return [row[0] for row in db.execute("select ticket from dead order by ticket")]

    def buried(self, tickets: Sequence[int]) -> None:
        """The indexes hold nothing of these any more."""
        if not len(tickets):
            return
        with self._database.writing(durable=False) as db:  # removing them again is harmless
            db.executemany("delete from dead where ticket = ?", [(int(ticket),) for ticket in tickets])

    def tickets(self, space: Space | None = None) -> Mapping[int, int]:
        """Every ticket of a space, else of the active one, that has chunks in the indexes, and how many."""
        sql = (
            "select ticket, chunks from version where chunks != 0 "
            "and space = coalesce(?, (select id from space where state = 'active'))"
        )
        with self._database.reading() as db:
            return dict(db.execute(sql, (space.id if space else None,)).fetchall())

    def last_ticket(self) -> int:
        """The highest ticket ever drawn."""
        with self._database.reading() as db:
            return int(db.execute("select ticket from counters").fetchone()[0])

    # ----------------------------------------------------------------------------------------- reading

    def select(self, where: Filter) -> Selection:
        """The chunk ids that the filter allows."""
        with self._database.reading() as db:
            generation = int(db.execute("select generation from counters").fetchone()[0])
            found = self._selector.remembered(where, generation)
        if found is not None:
            return found
        with self._database.reading(snapshot=True) as db:
            return self._selector.select(db, where)

    def owners(self, ids: Sequence[int], *, generation: int | None = None) -> dict[int, str]:
        """For those that are alive and that the indexes hold: the document's id."""
        return self._owners.of(ids, generation, self._read_owners)

    def _read_owners(self, tickets: Set[int]) -> Held:
        with self._database.reading() as db:
            return read_owners(db, tickets)

    def locate(self, ids: Sequence[int]) -> dict[int, tuple[str, int, int]]:
        """For those that are alive: (document id, start, end)."""
        sql = f"select chunk.id, version.document, chunk.start, chunk.stop from {CHUNKS} {ITS_VERSION}"
        with self._database.reading() as db:
            rows = db.execute(sql, (listed(ids),)).fetchall()
        return {id: (document, start, stop) for id, document, start, stop in rows}

    def chunks(self, ids: Sequence[int]) -> dict[int, tuple[Chunk, Record]]:
        """For those that are alive: the chunk with its text, and its document's record."""
        sql = f"select {CHUNK_COLUMNS} from {CHUNKS} {ITS_VERSION}"
        with self._database.reading(snapshot=True) as db:
            rows = db.execute(sql, (listed(ids),)).fetchall()
            records = read_records(db, {row[1] for row in rows})
            found = {chunk.id: chunk for chunk in read_chunks(db, rows)}
        return {id: (found[id], records[found[id].document_id]) for id in map(int, ids) if id in found}

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """The live chunks of a document in order; the larger ones they were cut from are read by their ids."""
        sql = (
            f"select {CHUNK_COLUMNS} from version join chunk on chunk.id >= version.ticket << {TICKET_BITS} "
            f"and chunk.id < (version.ticket << {TICKET_BITS}) + version.chunks "
            "where version.ticket = (select ticket from document where id = ?) order by chunk.id"
        )
        with self._database.reading(snapshot=True) as db:
            return read_chunks(db, db.execute(sql, (storable(document_id),)).fetchall())

    def families(self, ids: Sequence[int]) -> Mapping[int, int]:
        """For those that are alive: the lowest id among them whose text is nearly the same, else its own."""
        return families_of(self.chunks(ids))

    def alike(self, document_id: str) -> list[tuple[str, float]]:
        """Other documents of its owner and collection that are nearly the same, most alike first."""
        with self._database.reading(snapshot=True) as db:
            record = read_records(db, {document_id}).get(document_id)
            return find_alike(db, record) if record is not None else []

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, str]]:
        """References within a collection, (from, to), that begin or end at one of these documents."""
        with self._database.reading(snapshot=True) as db:
            known = read_records(db, set(document_ids)).values()
            return find_links(db, list(known), lambda tickets: read_versions(db, tickets))

    def is_pending(self, document_id: str) -> bool:
        """Whether a change of it is open."""
        with self._database.reading() as db:
            return db.execute("select 1 from queue where document = ?", (document_id,)).fetchone() is not None

    def vectors(self, ids: Sequence[int]) -> tuple[Ids, Matrix]:
        """The exact vectors of those that are alive, in any order, with their ids."""
        sql = f"select chunk.id, vector.data from {CHUNKS} cross join vector on vector.id = chunk.vector"
        with self._database.reading() as db:
            rows = db.execute(sql, (listed(ids),)).fetchall()
            space = _spaces.active_space(db) if not rows else None
        found = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
        dim = len(rows[0][1]) // 2 if rows else space.dim if space else 0
        return found, as_matrix([row[1] for row in rows], dim)

    def known_vectors(self, hashes: Sequence[bytes], space: Space | None = None) -> dict[bytes, Vector]:
        """Vectors of a space's embedder, else of the active one's, for texts of these hashes: the embedding cache."""
        wanted = list(dict.fromkeys(hashes))
        rows: list[tuple[bytes, bytes]] = []
        with self._database.reading() as db:
            space = space or _spaces.active_space(db)
            if space is None:
                return {}
            embedder = "(select id from embedder where fingerprint = ? and dim = ?)"
            for start in range(0, len(wanted), PARAMETERS):
                some = wanted[start : start + PARAMETERS]
                given = ", ".join("?" * len(some))
                sql = f"select hash, data from vector where hash in ({given}) and embedder = {embedder}"
                rows += db.execute(sql, (*some, space.embedder, space.dim)).fetchall()
        return dict(zip([row[0] for row in rows], as_matrix([row[1] for row in rows], space.dim), strict=True))

    def document(self, document_id: str) -> Document | None:
        """The document with its text."""
        with self._database.reading(snapshot=True) as db:
            record = read_records(db, {document_id}).get(document_id)
            if record is None:
                return None
            bounds = (record.ticket << TICKET_BITS, (record.ticket + 1) << TICKET_BITS)
            parts = db.execute("select body from text where id >= ? and id < ? order by id", bounds).fetchall()
            sql = "select structure, blocks, links, pages, hidden, boxes from outline where ticket = ?"
            outline = db.execute(sql, (record.ticket,)).fetchone()
            text = "".join(readable(part) for (part,) in parts)
            return as_document(record, text=text, outline=row_outline(outline) if outline else {})

    def record(self, document_id: str) -> Record | None:
        """The document without its text."""
        with self._database.reading() as db:
            return read_records(db, {document_id}).get(document_id)

    def content_hashes(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Of those that exist and were read well: what their content was hashed to."""
        with self._database.reading() as db:
            return read_hashes(db, document_ids)

    def names(self, document_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Of those that exist: uri and title."""
        with self._database.reading() as db:
            return read_names(db, document_ids)

    def records(self, where: Filter, *, limit: int | None = None, offset: int = 0) -> list[Record]:
        """The documents that the filter allows, by collection and uri. Chunk-level keys allow any document."""
        reduced = for_documents(where)
        with self._database.reading(snapshot=True) as db:
            if reduced == ALL:
                sql = f"select {RECORD_COLUMNS} from document order by collection, uri, owner limit ? offset ?"
                return [row_record(row) for row in db.execute(sql, (_ALL_OF_THEM if limit is None else limit, offset))]
            allowed = self._allowed(db, reduced)
            if len(allowed) <= SORTED_HERE:
                found = sorted(read_records(db, allowed).values(), key=lambda r: (r.collection, r.uri, r.owner))
                return found[offset : None if limit is None else offset + limit]
            in_order = (id for (id,) in db.execute("select id from document order by collection, uri, owner"))
            kept = [id for id in in_order if id in allowed][offset : None if limit is None else offset + limit]
            records = read_records(db, kept)
        return [records[id] for id in kept]

    def _allowed(self, db: Connection, where: Filter) -> set[str]:
        """The ids of the documents that the filter allows; those without a live version are asked one by one."""
        selection = self._selector.select(db, where)
        versions = db.execute("select ticket, document from version where generation != 0").fetchall()
        firsts = np.fromiter((row[0] for row in versions), dtype=np.int64, count=len(versions)) << TICKET_BITS
        allowed = {versions[n][1] for n in np.flatnonzero(selection.contains(firsts)).tolist()}
        for row in db.execute(f"select {RECORD_COLUMNS} from document where ticket = 0"):
            if where.matches(attributes(record := row_record(row))):
                allowed.add(record.id)
        return allowed

    def collections(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Of every owner's every collection: documents and chunks."""
        sql = "select owner, collection, count(*), cast(sum(chunks) as bigint) from document group by owner, collection"
        with self._database.reading() as db:
            return {(owner, name): (documents, chunks) for owner, name, documents, chunks in db.execute(sql)}

    def stamps(self, owner: str, collection: str) -> Mapping[str, Record]:
        """By uri: identity, state, error, chunks, stamp, content hash and ticket; the rest is for `record` to tell."""
        sql = f"select {LIGHT_COLUMNS} from document where owner = ? and collection = ?"
        with self._database.reading() as db:
            rows = db.execute(sql, (storable(owner), storable(collection))).fetchall()
        light = [light_record(row, owner=owner, collection=collection) for row in rows]
        return {record.uri: record for record in light}

    def statistics(self) -> Mapping[str, int]:
        """documents, chunks, vectors, collections, pending, failed, empty, with_problems, dead, generation, ..."""
        with self._database.reading(snapshot=True) as db:
            return statistics(db)

    def check(self) -> list[str]:
        """What is wrong inside the catalog itself, in words; empty when all is well."""
        return self._database.checked(check)

    def repair(self) -> None:
        """Mend what can be mended from within: rows of nothing go, a document that lost its text says so."""
        with self._database.writing(on_failure=self._numbers.forget) as db:
            mend(db)
        self._numbers.forget()

    def close_store(self) -> None:
        """Let go of files and connections."""
        self._database.close()
