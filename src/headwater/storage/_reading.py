"""Rows of the catalog -> chunks, records and matrices, by as few statements as there are tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import numpy as np

from headwater.selection import TICKET_BITS
from headwater.storage._commit import PART_CHARS
from headwater.storage._halves import HALF, floats
from headwater.storage._rows import KINDS, RECORD_COLUMNS, readable, row_record
from headwater.storage._sql import Connection
from headwater.storage.selecting import pages
from headwater.types import Chunk, Matrix, Record, Span

# A list of ids is one parameter: one statement for any number, and it measured faster than many parameters.
GIVEN: Final = "(select value from json_each(?) as given)"
# The same for names: the alias tells PostgreSQL, which asks for a type, that these are texts.
NAMED: Final = "(select value from json_each(?) as named)"
# The chunks of such a list. The cross join keeps SQLite from walking the table instead of the list.
CHUNKS: Final = "json_each(?) as given cross join chunk on chunk.id = given.value"
ITS_VERSION: Final = f"cross join version on version.ticket = chunk.id >> {TICKET_BITS}"
CHUNK_COLUMNS: Final = (
    "chunk.id, version.document, chunk.start, chunk.stop, chunk.section, chunk.first_page, chunk.last_page, "
    "chunk.kind, chunk.parent"
)


def listed(ids: Iterable[int]) -> str:
    """For GIVEN and CHUNKS: each once, in order, which is a quarter faster. Takes the integers of numpy as well."""
    return json.dumps(sorted({*map(int, ids)}))


def read_owners(db: Connection, tickets: Iterable[int]) -> dict[int, tuple[int, str]]:
    """Of live versions the first id behind those that the indexes hold of it, and the document.

    Chunks of one have ids from its first on.
    """
    sql = (
        "select version.ticket, version.chunks, version.document from json_each(?) as given "
        "cross join version on version.ticket = given.value"
    )
    rows = db.execute(sql, (listed(tickets),)).fetchall()
    return {ticket: ((ticket << TICKET_BITS) + chunks, document) for ticket, chunks, document in rows}


def count(db: Connection, table: str) -> int:
    """How many rows."""
    return int(db.execute(f"select count(*) from {table}").fetchone()[0])


def supersede(db: Connection, earlier: Sequence[tuple[str, int]]) -> None:
    """Who still works under an earlier ticket of a document has lost: a swept ticket must never come alive."""
    db.executemany(
        "insert into floor values (?, ?) "
        "on conflict(document) do update set ticket = max(floor.ticket, excluded.ticket)",
        earlier,
    )
    db.executemany(
        "insert into dead select ? where not exists (select 1 from version where ticket = ?) on conflict do nothing",
        [(ticket, ticket) for _, ticket in earlier],
    )


def draw(db: Connection, tickets: int) -> int:
    """Take so many tickets; return the first."""
    last = int(db.execute("select ticket from counters").fetchone()[0])
    db.execute("update counters set ticket = ?", (last + tickets,))
    return last + 1


def read_records(db: Connection, ids: Collection[str]) -> dict[str, Record]:
    """Those that exist, by id."""
    rows = db.execute(f"select {RECORD_COLUMNS} from document where id in {NAMED}", (json.dumps(list(ids)),))
    return {record.id: record for record in map(row_record, rows)}


def read_names(db: Connection, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Uri and title of those that exist, by id."""
    sql = "select document.id, uri, title from json_each(?) as named cross join document on document.id = named.value"
    rows = db.execute(sql, (json.dumps(list(ids)),))
    return {id: (readable(uri), readable(title)) for id, uri, title in rows}


def read_hashes(db: Connection, ids: Collection[str]) -> dict[str, str]:
    """What the content was hashed to of those that exist and were read well, by id."""
    sql = (
        "select document.id, document.content_hash from json_each(?) as named "
        "cross join document on document.id = named.value where document.state = 'completed'"
    )
    return {id: readable(told) for id, told in db.execute(sql, (json.dumps(list(ids)),))}


def read_versions(db: Connection, tickets: Iterable[int]) -> list[Record]:
    """The records of the documents whose live versions these are."""
    sql = f"select document from version where generation != 0 and ticket in {GIVEN}"
    return list(read_records(db, {id for (id,) in db.execute(sql, (listed(tickets),))}).values())


def statistics(db: Connection) -> dict[str, int]:
    """Counts of everything."""
    states = dict(
        db.execute("select state, count(*) from document where state in ('failed', 'empty') group by state").fetchall()
    )
    generation, last_ticket = db.execute("select generation, ticket from counters").fetchone()
    live = "select cast(coalesce(sum(chunks), 0) as bigint) from version where generation != 0"
    return {
        "documents": count(db, "document"),
        "chunks": db.execute(live).fetchone()[0],
        "vectors": count(db, "vector") - count(db, "idle"),
        "collections": count(db, "(select distinct owner, collection from document) as known"),
        "pending": count(db, "queue"),
        "failed": states.get("failed", 0),
        "empty": states.get("empty", 0),
        "with_problems": count(db, "document where problems != '[]'"),
        "dead": count(db, "dead"),
        "generation": generation,
        "last_ticket": last_ticket,
    }


def read_chunks(db: Connection, rows: Sequence[Sequence[Any]]) -> list[Chunk]:
    """From rows of CHUNK_COLUMNS, with their texts."""
    numbers = {row[4] for row in rows} - {0}
    sections: dict[int, Any] = {}
    if numbers:
        sections = dict(db.execute(f"select id, path from section where id in {GIVEN}", (listed(numbers),)))
    ids = listed(row[0] for row in rows)
    reworded = {
        id: (readable(before), readable(after))
        for id, before, after in db.execute(f"select id, before, after from index_text where id in {GIVEN}", (ids,))
    }
    parts = _parts(db, rows)
    found = []
    for id, document, start, stop, section, first, last, kind, parent in rows:
        text = _slice(parts, id, start, stop)
        before, after = reworded.get(id, ("", None))
        found.append(
            Chunk(
                id=id,
                document_id=document,
                span=Span(start, stop),
                text=text,
                index_text=before if after is None else before + text + after,
                section=readable(sections[section]) if section else "",
                pages=pages(first, last),
                kind=KINDS[kind],
                parent=parent,
            )
        )
    return found


def _parts(db: Connection, rows: Sequence[Sequence[Any]]) -> dict[int, str]:
    """Every part of a text that the chunks of these rows touch."""
    wanted: set[int] = set()
    for id, _, start, stop, *_ in rows:
        first = id >> TICKET_BITS << TICKET_BITS
        wanted.update(range(first + start // PART_CHARS, first + max(stop - 1, start) // PART_CHARS + 1))
    bodies = db.execute(f"select id, body from text where id in {GIVEN}", (listed(wanted),))
    return {id: readable(body) for id, body in bodies}


def _slice(parts: dict[int, str], id: int, start: int, stop: int) -> str:
    first = id >> TICKET_BITS << TICKET_BITS
    low, high = start // PART_CHARS, max(stop - 1, start) // PART_CHARS
    text = "".join(parts.get(first + part, "") for part in range(low, high + 1))
    return text[start - low * PART_CHARS : stop - low * PART_CHARS]


def as_matrix(rows: Sequence[bytes], dim: int) -> Matrix:
    """Stored half floats as a matrix of floats."""
    return floats(np.frombuffer(b"".join(rows), dtype=HALF)).reshape(len(rows), dim)
