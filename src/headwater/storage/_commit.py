"""Versions -> the rows of one transaction: what they replace goes, what they bring comes, in bulk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from headwater.selection import TICKET_BITS
from headwater.storage._alike import forget_sketches, write_sketches
from headwater.storage._links import link_rows
from headwater.storage._rows import (
    KIND_NUMBERS,
    RECORD_COLUMNS,
    Term,
    outline_row,
    readable,
    record_of,
    record_row,
    row_record,
    storable,
    term_row,
    terms_of,
)
from headwater.storage._sql import Connection
from headwater.types import Chunk, Space, Version, document_id, indexed_count, stacked, text_hash

# A passage of a book is read without the book: at most two parts of this many characters, some 100 KB of Chinese.
PART_CHARS: Final = 32768
# A late put must not bring a removed document back. Nobody is late by this many removals.
KEPT_FLOORS: Final = 10_000
# SQLite allows 999 parameters in its oldest builds.
PARAMETERS: Final = 500
# Terms and sections whose numbers are remembered between commits; past it, they are looked up afresh.
REMEMBERED: Final = 200_000

_RECORD_LIST: Final = RECORD_COLUMNS.split(", ")
_PUT_DOCUMENT: Final = (
    f"insert into document({RECORD_COLUMNS}) values ({', '.join('?' * len(_RECORD_LIST))}) "
    f"on conflict(id) do update set {', '.join(f'{name} = excluded.{name}' for name in _RECORD_LIST[1:])}"
)
_RAISE_FLOOR: Final = "insert into floor values (?, ?) on conflict(document) do update set ticket = excluded.ticket"
# Everything of a version but its postings, which are found by its document's attributes.
_RANGES: Final = ("chunk", "text", "index_text")
_VECTORS_OF: Final = (
    f"select vector from json_each(?) as given cross join chunk on chunk.id >= given.value << {TICKET_BITS} "
    f"and chunk.id < (given.value + 1) << {TICKET_BITS}"
)
# A drop of a large space is done in pieces, so that other writers wait for less than a second.
PIECE_VERSIONS: Final = 2_000


@dataclass(slots=True)
class _Standing:
    """Where one document stands while the versions of a commit are applied to it, one after the other."""

    ticket: int = 0  # of its live version
    content: int = 0  # the ticket under which that version's content came
    floor: int = 0  # what is not above it comes too late
    created: str = ""
    put: Version | None = None  # of this commit
    failed: Version | None = None
    gone: bool = False
    touched: bool = False


@dataclass(slots=True)
class Numbers:
    """The numbers of terms and sections as of a generation: what another process wrote since makes them doubtful."""

    generation: int = -1
    terms: dict[Term, int] = field(default_factory=dict)
    sections: dict[str | bytes, int] = field(default_factory=dict)

    def forget(self) -> None:
        """After a rollback the numbers given in it are no longer true."""
        self.generation = -1
        self.terms.clear()
        self.sections.clear()


class Commit:
    """One call of `SqlCatalog.commit`, inside its transaction."""

    def __init__(self, db: Connection, *, space: Space, numbers: Numbers, now: str, idle_vectors: int) -> None:
        self.db, self.space, self.numbers, self.now = db, space, numbers, now
        self.idle_vectors = idle_vectors
        self.dead: set[int] = set()
        self.replaced: dict[str, int] = {}  # by document: the ticket that was alive before this commit

    def apply(self, versions: Sequence[Version]) -> None:
        """Make each version its document's only one."""
        generation = int(self.db.execute("select generation from counters").fetchone()[0])
        known = len(self.numbers.terms) + len(self.numbers.sections)
        if self.numbers.generation != generation or known > REMEMBERED:
            self.numbers.forget()
        self.numbers.generation = generation + 1
        self.db.execute("update counters set generation = ?", (generation + 1,))

        ids = [document_id(v.change.owner, v.change.collection, v.change.uri) for v in versions]
        standings = self._standings(list(dict.fromkeys(ids)))
        for id, version in zip(ids, versions, strict=True):
            self._step(standings[id], id, version)
        touched = {id: standing for id, standing in standings.items() if standing.touched}

        abandoned = self._take_away()
        self._write_documents(touched)
        puts = [(id, s.put) for id, s in touched.items() if s.put is not None]
        self._write_versions(puts, generation + 1)
        self._retire_vectors(abandoned)
        self._write_floors(touched)
        self.db.executemany(
            "insert into dead values (?) on conflict do nothing", [(ticket,) for ticket in sorted(self.dead)]
        )
        self.db.executemany(
            "delete from queue where document = ? and ticket = ?",
            [(id, version.change.ticket) for id, version in zip(ids, versions, strict=True)],
        )

    # --------------------------------------------------------------------------------------- outcomes

    def _standings(self, ids: list[str]) -> dict[str, _Standing]:
        given = json.dumps(ids)
        found = {id: _Standing() for id in ids}
        sql = (
            "select id, document.ticket, coalesce(content, 0), created from document "
            "left join version on version.ticket = document.ticket "
            "where id in (select value from json_each(?) as named)"
        )
        for id, ticket, content, created in self.db.execute(sql, (given,)):
            found[id].ticket, found[id].content, found[id].created = ticket, content, readable(created)
        sql = "select document, ticket from floor where document in (select value from json_each(?) as named)"
        for id, ticket in self.db.execute(sql, (given,)):
            found[id].floor = ticket
        return found

    def _step(self, standing: _Standing, id: str, version: Version) -> None:
        ticket = version.change.ticket
        if ticket <= max(standing.content, standing.floor):
            if ticket not in (standing.ticket, standing.content):
                self.dead.add(ticket)
            return
        standing.touched = True
        if version.state == "failed":
            standing.failed, standing.floor = version, ticket
            if not standing.ticket:
                self._date(standing, version)
            self.dead.add(ticket)
            return
        if standing.ticket:
            self.dead.add(standing.ticket)
            if standing.put is None:
                self.replaced[id] = standing.ticket
        standing.failed = None
        if version.document is None and version.state != "empty":
            standing.put, standing.ticket, standing.floor, standing.gone = None, 0, ticket, True
            standing.content, standing.created = 0, ""
        else:
            standing.put, standing.ticket, standing.content, standing.gone = version, ticket, ticket, False
            self._date(standing, version)

    def _date(self, standing: _Standing, version: Version) -> None:
        """The day a document came stays with it, where it does not tell one itself."""
        told = version.document.created if version.document is not None else ""
        standing.created = told or standing.created or self.now

    # ------------------------------------------------------------------------------------------- rows

    def _take_away(self) -> set[int]:
        """Remove what the replaced versions had, in every space; return the vectors their chunks pointed to."""
        if not self.replaced:
            return set()
        sql = f"select {RECORD_COLUMNS} from document where id in (select value from json_each(?) as named)"
        records = [row_record(row) for row in self.db.execute(sql, (json.dumps(list(self.replaced)),))]
        forget_sketches(self.db, records)
        terms = [(term, record.ticket) for record in records for term in terms_of(record)]
        self._number_terms({term for term, _ in terms})
        numbers = self.numbers.terms
        self.db.executemany(
            "delete from posting where term = ? and ticket = ?", [(numbers[term], ticket) for term, ticket in terms]
        )
        sql = (
            "select ticket from json_each(?) as named "
            "cross join version on version.document = named.value and version.generation = 0"
        )
        beside = [ticket for (ticket,) in self.db.execute(sql, (json.dumps(list(self.replaced)),))]
        self.dead.update(beside)
        return take_away(self.db, sorted([*self.replaced.values(), *beside]))

    def _write_documents(self, touched: dict[str, _Standing]) -> None:
        rows, failures, gone, postings, sketches = [], [], [], [], []
        for id, standing in touched.items():
            shown = standing.put or (standing.failed if not standing.ticket else None)
            if shown is not None:
                record = record_of(shown, id=id, created=standing.created, now=self.now)
                rows.append(record_row(record))
                if record.ticket:
                    postings.append((record.ticket, terms_of(record)))
                    if shown.sketch:
                        sketches.append((record, shown.sketch))
            if standing.failed is not None and standing.ticket:
                failures.append((storable(standing.failed.error), id))
            elif standing.gone and standing.failed is None:
                gone.append((id,))
        self.db.executemany(_PUT_DOCUMENT, rows)
        self.db.executemany("update document set state = 'failed', error = ? where id = ?", failures)
        self.db.executemany("delete from document where id = ?", gone)
        write_sketches(self.db, sketches)
        self._write_postings(postings)

    def _write_postings(self, postings: list[tuple[int, set[Term]]]) -> None:
        self._number_terms(set().union(*(terms for _, terms in postings)))
        numbers = self.numbers.terms
        rows = sorted([(numbers[term], ticket) for ticket, terms in postings for term in terms])
        self.db.executemany("insert into posting values (?, ?)", rows)

    def fill(self, versions: Mapping[int, Version]) -> None:
        """Store versions beside the live ones, by whose tickets they are given."""
        sql = (
            "select live.ticket, live.document, live.state, live.content from json_each(?) as given "
            "cross join version as live on live.ticket = given.value and live.generation != 0 "
            "where not exists (select 1 from version as beside "
            "where beside.document = live.document and beside.space = ? and beside.generation = 0)"
        )
        rows = self.db.execute(sql, (json.dumps(list(versions)), self.space.id)).fetchall()
        puts = [(id, replace(versions[live], state=state)) for live, id, state, _ in rows]
        contents = {versions[live].change.ticket: content for live, _, _, content in rows}
        self._write_versions(puts, 0, contents)

    def _write_versions(
        self, puts: list[tuple[str, Version]], generation: int, contents: Mapping[int, int] | None = None
    ) -> None:
        puts.sort(key=lambda put: put[1].change.ticket)
        versions, outlines, texts, differing, links = [], [], [], [], []
        for id, version in puts:
            ticket, document = version.change.ticket, version.document
            count = indexed_count(version.chunks)
            content = contents[ticket] if contents is not None else ticket
            versions.append((ticket, id, self.space.id, count, version.state, generation, content))
            if document is None:
                continue
            if (outline := outline_row(document)) is not None:
                outlines.append((ticket, *outline))
                links += link_rows(ticket, document.links)
            first = ticket << TICKET_BITS
            for part, start in enumerate(range(0, len(document.text), PART_CHARS)):
                body = document.text[start : start + PART_CHARS].encode("utf-8", "surrogatepass")
                texts.append((first + part, body))
            differing += [index_text_row(c) for c in version.chunks if c.index_text and c.index_text != c.text]
        self.db.executemany("insert into version values (?, ?, ?, ?, ?, ?, ?)", versions)
        self.db.executemany("insert into outline values (?, ?, ?, ?, ?, ?, ?)", outlines)
        self.db.executemany("insert into link values (?, ?)", links)
        self.db.executemany("insert into text values (?, ?)", texts)
        self.db.executemany("insert into index_text values (?, ?, ?)", differing)
        self._write_chunks([version for _, version in puts])

    def _write_chunks(self, versions: list[Version]) -> None:
        chunks = list(chain.from_iterable(version.chunks for version in versions))
        self._number_sections({chunk.section for chunk in chunks if chunk.section})
        sections, vectors = self.numbers.sections, self._write_vectors(versions)
        rows = [
            (
                chunk.id,
                chunk.span[0],
                chunk.span[1],
                sections[storable(chunk.section)] if chunk.section else 0,
                chunk.pages[0] if chunk.pages else 0,
                chunk.pages[-1] if chunk.pages else 0,
                KIND_NUMBERS[chunk.kind],
                chunk.parent,
                vectors.get(chunk.id, 0),
            )
            for chunk in chunks
        ]
        self.db.executemany("insert into chunk values (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    # ---------------------------------------------------------------------------------------- vectors

    def _write_vectors(self, versions: list[Version]) -> dict[int, int]:
        """Store the vectors of texts that have none yet; return the vector's number by chunk id."""
        filled = [(v, v.vectors) for v in versions if v.vectors is not None and len(v.vectors)]
        if not filled:
            return {}
        chunks = [chunk for version, rows in filled for chunk in version.chunks[: len(rows)]]
        hashes = [key for version, rows in filled for key in version.hashes or _hashes(version.chunks[: len(rows)])]
        embedder = embedder_number(self.db, self.space)
        numbers = known_numbers(self.db, embedder, hashes)
        used = list(numbers.values())
        number = int(self.db.execute("select coalesce(max(id), 0) from vector").fetchone()[0])
        data = stacked([rows for _, rows in filled]).astype("<f2").data.cast("B")
        width = self.space.dim * 2
        rows = []
        for place, key in enumerate(hashes):
            if key not in numbers:
                numbers[key] = number = number + 1
                rows.append((number, embedder, key, data[place * width : (place + 1) * width]))
        self.db.executemany("insert into vector values (?, ?, ?, ?)", rows)
        self.db.executemany("delete from idle where vector = ?", [(vector,) for vector in used])
        return {chunk.id: numbers[key] for chunk, key in zip(chunks, hashes, strict=True)}

    def _retire_vectors(self, abandoned: set[int]) -> None:
        """Vectors that no chunk points to any more stay for a while: the text may come back."""
        if not abandoned:
            return
        retire_vectors(self.db, abandoned, keep=self.idle_vectors)

    def _write_floors(self, touched: dict[str, _Standing]) -> None:
        raised = [(id, s.floor) for id, s in touched.items() if s.floor > s.ticket]
        settled = [(id,) for id, s in touched.items() if s.floor <= s.ticket]
        self.db.executemany(_RAISE_FLOOR, raised)
        self.db.executemany("delete from floor where document = ?", settled)
        if raised:
            self.db.execute(
                "delete from floor where ticket <= (select ticket from floor order by ticket desc limit 1 offset ?)",
                (KEPT_FLOORS,),
            )

    # ---------------------------------------------------------------------------------------- numbers

    def _number_terms(self, terms: set[Term]) -> None:
        numbers = self.numbers.terms
        unknown = [term for term in terms if term not in numbers]
        rows = list(map(term_row, unknown))
        self.db.executemany("insert into term(key, value) values (?, ?) on conflict do nothing", rows)
        found = self.db.each("select id from term where key = ? and value = ?", rows)
        numbers.update(zip(unknown, (number for (number,) in found), strict=True))

    def _number_sections(self, paths: Iterable[str]) -> None:
        numbers = self.numbers.sections
        unknown = [path for path in map(storable, paths) if path not in numbers]
        rows = [(path,) for path in unknown]
        self.db.executemany("insert into section(path) values (?) on conflict do nothing", rows)
        found = self.db.each("select id from section where path = ?", rows)
        numbers.update(zip(unknown, (number for (number,) in found), strict=True))


def _hashes(chunks: Sequence[Chunk]) -> list[bytes]:
    return [text_hash(chunk.searchable_text) for chunk in chunks]


def index_text_row(chunk: Chunk) -> tuple[object, ...]:
    """What stands before and after the chunk's own text; all of it before, and nothing after, where it is reworded."""
    before, found, after = chunk.index_text.partition(chunk.text) if chunk.text else (chunk.index_text, "", "")
    return chunk.id, storable(before), storable(after) if found else None


def take_away(db: Connection, tickets: Sequence[int]) -> set[int]:
    """Remove all that these versions had but postings; return the vectors their chunks pointed to."""
    ranges = [(ticket << TICKET_BITS, (ticket + 1) << TICKET_BITS) for ticket in tickets]
    vectors = {vector for (vector,) in db.execute(_VECTORS_OF, (json.dumps(list(tickets)),))}
    for table in _RANGES:
        db.executemany(f"delete from {table} where id >= ? and id < ?", ranges)
    for table in ("version", "outline", "link"):
        db.executemany(f"delete from {table} where ticket = ?", [(ticket,) for ticket in tickets])
    return vectors - {0}


def embedder_number(db: Connection, space: Space) -> int:
    """The number under which the vectors of the space's embedder are stored; a new one where there is none."""
    named = (space.embedder, space.dim)
    db.execute("insert into embedder(fingerprint, dim) values (?, ?) on conflict do nothing", named)
    return int(db.execute("select id from embedder where fingerprint = ? and dim = ?", named).fetchone()[0])


def known_numbers(db: Connection, embedder: int, hashes: Sequence[bytes]) -> dict[bytes, int]:
    """The vectors there are for texts of these hashes."""
    found: dict[bytes, int] = {}
    for start in range(0, len(hashes), PARAMETERS):
        some = hashes[start : start + PARAMETERS]
        sql = f"select hash, id from vector where hash in ({', '.join('?' * len(some))}) and embedder = ?"
        found.update(db.execute(sql, (*some, embedder)))
    return found


def retire_vectors(db: Connection, candidates: Iterable[int], *, keep: int) -> None:
    """List those of the vectors that no chunk points to as idle, and drop the longest idle beyond `keep`."""
    db.execute(
        "insert into idle(vector) select value from json_each(?) as given "
        "where not exists (select 1 from chunk where vector = value and vector != 0) order by value "
        "on conflict do nothing",
        (json.dumps(sorted(candidates)),),
    )
    excess = int(db.execute("select count(*) from idle").fetchone()[0]) - keep
    if excess > 0:
        oldest = "select vector from idle order by place limit ?"
        db.execute(f"delete from vector where id in ({oldest})", (excess,))
        db.execute("delete from idle where place in (select place from idle order by place limit ?)", (excess,))
