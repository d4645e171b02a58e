"""The tables of one text index in PostgreSQL: making them, changing them, asking them.

    text_1_postings     which chunks hold a term (see `_postgres_postings`)
    text_1_documents    each version: its block, its chunks, how long its fields are, its terms
    text_1_statistics   one row: what BM25 needs to know of all chunks

An index that is made anew is written into tables beside these, which take their names in the moment it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from headwater.errors import HomeDamaged
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._lanes import FIELDS
from headwater.storage._postgres_postings import Gathering, Postings, Room, together, unpacked

if TYPE_CHECKING:
    from headwater.storage._postgres import Connection

# In the order in which a search asks them: who drops them locks them in the same, and nobody waits for each other.
TABLES: Final = ("statistics", "documents", "postings")
# Of what is written into the tables; another one is for `headwater check --repair`.
FORMAT: Final = 1
# Above so many ranges it takes longer to send them than to leave the choice to numpy.
MAX_RANGES: Final = 20_000
NEW: Final = "_new"
MENDED: Final = "`headwater check --repair` builds it again from the catalog"

CREATE: Final = """
create table if not exists {postings} (
  term bigint not null, block bigint not null, chunks integer not null, payload bytea not null,
  primary key (term, block));
create table if not exists {documents} (
  ticket bigint primary key, block bigint not null, chunks integer not null, lengths bigint[] not null,
  terms bigint[] not null);
create table if not exists {statistics} (
  format integer not null, chunks bigint not null, lengths bigint[] not null, block bigint not null,
  room integer not null);
"""
# `offset 0` keeps the planner from joining whole tables: it knows nothing of a table that was filled a moment ago.
ASKED: Final = """
from unnest(%b::bigint[]) with ordinality as a(term, place)
cross join lateral (select * from {postings} p where p.term = a.term offset 0) p
"""
COUNTS: Final = "select a.place, sum(p.chunks) " + ASKED + " group by a.place"
LISTS: Final = "select a.place, p.block, p.chunks, p.payload " + ASKED
LISTS_ALLOWED: Final = (
    """
with allowed as materialized (
  select distinct d.block from unnest(%b::bigint[], %b::bigint[]) as r(low, high)
  cross join lateral (select block from {documents} d where d.ticket between r.low and r.high offset 0) d)
select a.place, p.block, p.chunks, case when p.block in (select block from allowed) then p.payload end
"""
    + ASKED
)
TAKEN_OUT: Final = """
delete from {postings} p using unnest(%b::bigint[], %b::bigint[]) as k(term, block)
where p.term = k.term and p.block = k.block returning p.term, p.block, p.chunks, p.payload
"""
BY_INDEX: Final = """
select set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
set_config('enable_seqscan', 'off', true)
"""


class Statistics(NamedTuple):
    """Of all chunks: how many, and how long each field is together."""

    chunks: int
    lengths: list[int]
    room: Room = Room()


NOTHING: Final = Statistics(0, [0] * len(FIELDS))


class TextTables:
    """Of one space. Methods take a connection with a transaction of the caller's."""

    def __init__(self, space: str, *, beside: bool = False) -> None:
        self._names = {table: f"{space}_{table}{NEW if beside else ''}" for table in TABLES}

    def _sql(self, text: str) -> bytes:
        return text.format_map(self._names).encode()

    # ------------------------------------------------------------------------------------------------ making

    def create(self, connection: Connection) -> None:
        """Make what is missing."""
        connection.execute(self._sql(CREATE))
        if connection.execute(self._sql("select 1 from {statistics}")).fetchone() is None:
            connection.execute(
                self._sql("insert into {statistics} values (%s, %s, %s, %s, %s)"),
                (FORMAT, 0, NOTHING.lengths, *NOTHING.room),
            )

    def drop(self, connection: Connection) -> None:
        """All of it."""
        connection.execute(f"drop table if exists {', '.join(self._names.values())}".encode())

    def take_the_place(self, connection: Connection, of: TextTables) -> None:
        """Drop the others and be called as they were."""
        of.drop(connection)
        for table, name in self._names.items():
            connection.execute(f"alter table {name} rename to {of._names[table]}".encode())

    def exist(self, connection: Connection) -> bool:
        """Whether anything was ever written."""
        return connection.execute("select to_regclass(%s)", (self._names["statistics"],)).fetchone() != (None,)

    # ----------------------------------------------------------------------------------------------- changing

    def change(self, connection: Connection, removed: Sequence[int], added: Gathering) -> None:
        """Take versions out and put versions in; one that is in both is replaced."""
        gone = sorted({*removed, *added.cut})
        if not gone:
            return
        known = self.statistics(connection) or NOTHING
        connection.execute(BY_INDEX)
        chunks, lengths = known.chunks, np.array(known.lengths, dtype=np.int64)
        keys: set[tuple[int, int]] = set()
        sql = "delete from {documents} where ticket = any(%b) returning block, chunks, lengths, terms"
        for block, count, sums, terms in connection.execute(self._sql(sql), (gone,), binary=True):
            chunks, lengths = chunks - count, lengths - sums
            keys.update((term, block) for term in terms)
        blocks, room = known.room.placed({ticket: cut.chunks for ticket, cut in added.cut.items()})
        new = added.postings(blocks)
        # A block above the last was begun just now.
        shared = new.where(new.blocks <= known.room.block)
        keys.update(zip(shared.terms.tolist(), shared.blocks.tolist(), strict=True))
        kept = self._taken_out(connection, keys)
        kept = kept.where(~Selection.of_tickets(gone).contains(kept.ids))
        with connection.cursor().copy(
            self._sql("copy {postings} (term, block, chunks, payload) from stdin (format binary)")
        ) as copy:
            for part in together([kept, new]).copied():
                copy.write(part)
        self._describe(connection, added, blocks)
        for cut in added.cut.values():
            chunks, lengths = chunks + cut.chunks, lengths + cut.lengths
        connection.execute(
            self._sql("update {statistics} set format = %s, chunks = %s, lengths = %s, block = %s, room = %s"),
            (FORMAT, chunks, lengths.tolist(), *room),
        )

    def _taken_out(self, connection: Connection, keys: set[tuple[int, int]]) -> Postings:
        if not keys:
            return together([])
        terms, blocks = (list(column) for column in zip(*sorted(keys), strict=True))
        rows: list[Any] = connection.execute(self._sql(TAKEN_OUT), (terms, blocks), binary=True).fetchall()
        return unpacked(rows) if rows else together([])

    def _describe(self, connection: Connection, added: Gathering, blocks: dict[int, int]) -> None:
        columns = "copy {documents} (ticket, block, chunks, lengths, terms) from stdin (format binary)"
        with connection.cursor().copy(self._sql(columns)) as copy:
            copy.set_types(["int8", "int8", "int4", "int8[]", "int8[]"])
            for ticket, cut in added.cut.items():
                copy.write_row((ticket, blocks[ticket], cut.chunks, cut.lengths, np.unique(cut.terms).tolist()))

    # ------------------------------------------------------------------------------------------------- asking

    def statistics(self, connection: Connection) -> Statistics | None:
        """None in tables that were made after the moment that this transaction sees."""
        row = connection.execute(
            self._sql("select format, chunks, lengths, block, room from {statistics}"), binary=True
        ).fetchone()
        if row is None:
            return None
        format, chunks, lengths, block, room = row
        if format != FORMAT or len(lengths) != len(FIELDS):
            raise HomeDamaged(
                f"the text index in PostgreSQL has format {format}, and this release reads {FORMAT}; {MENDED}"
            )
        return Statistics(chunks, lengths, Room(block, room))

    def tickets(self, connection: Connection, statistics: Statistics) -> dict[int, int]:
        """Every version and how many chunks it has; HomeDamaged where the tables do not agree."""
        rows = connection.execute(self._sql("select ticket, chunks from {documents} order by ticket"), binary=True)
        found: dict[int, int] = dict(rows.fetchall())
        connection.execute(self._sql("select term, block, chunks, payload from {postings} limit 1"))
        held = sum(found.values())
        if held != statistics.chunks:
            counted = statistics.chunks
            raise HomeDamaged(f"the text index in PostgreSQL has {held} chunks, it counts {counted}; {MENDED}")
        return found

    def counts(self, connection: Connection, terms: list[int]) -> dict[int, int]:
        """By a term's place from 1 on, how many chunks have it; those that none has are left out."""
        rows = connection.execute(self._sql(COUNTS), (terms,), binary=True)
        return {place: int(chunks) for place, chunks in rows}

    def lists(self, connection: Connection, terms: list[int], selection: Selection) -> tuple[dict[int, int], Postings]:
        """The same counts; and the postings of terms, by place, of those blocks that the selection touches at least."""
        if selection.is_everything or len(selection.starts) > MAX_RANGES:
            rows = connection.execute(self._sql(LISTS), (terms,), binary=True).fetchall()
        else:
            low, high = selection.starts >> TICKET_BITS, (selection.stops - 1) >> TICKET_BITS
            asked = (low.tolist(), high.tolist(), terms)
            rows = connection.execute(self._sql(LISTS_ALLOWED), asked, binary=True).fetchall()
        rows.sort(key=_place)  # sums of floats depend on the order of what is added up
        counts: dict[int, int] = {}
        for place, _, chunks, _ in rows:
            counts[place] = counts.get(place, 0) + chunks
        read: list[Any] = [row for row in rows if row[3] is not None]
        return counts, unpacked(read) if read else together([])


def _place(row: tuple[Any, ...]) -> Any:
    return row[0], row[1]
