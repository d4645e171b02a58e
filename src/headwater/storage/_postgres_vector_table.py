"""The table of one vector index in PostgreSQL, with pgvector: making it, filling it, asking it for the nearest.

Vectors are stored with 16 bits a number. The index beside them is an HNSW graph, which is made when there are enough of
them; without it, and above the dimensions that it can have, every vector is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.errors import BackendError, HomeDamaged
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._metric import COSINE, DISTANCE, INNER_PRODUCT
from headwater.storage._postgres import driver
from headwater.storage._postgres_postings import COPY_END, COPY_HEAD
from headwater.types import Ids, Vector

if TYPE_CHECKING:
    from headwater.storage._postgres import Connection, Postgres

EXTENSION: Final = "vector"
# `halfvec` came with 0.7, scans that go on until a filter has enough with 0.8.
LEAST_VERSION: Final = (0, 8)
MAX_DIM: Final = 16_000
MAX_INDEXED_DIM: Final = 4_000
# A row has to fit a page of 8 kB to lie in the table itself, where a scan is three times as fast.
MAX_INLINE_DIM: Final = 3_900
# What HNSW's search list may be.
MAX_EF_SEARCH: Final = 1_000
# How far a scan may go on for a filter: to the end of any table, within so many times the server's work_mem.
MAX_SCAN_TUPLES: Final = 2_147_483_647
SCAN_MEMORY: Final = 16
# Ids that are looked at together while a filter is not satisfied.
FETCH: Final = 500
# What the graph takes while it is made, beside the vectors: for each its neighbours on all layers, and its own place.
NEIGHBOUR_BYTES: Final = 12
NODE_BYTES: Final = 160
LEAST_MAINTENANCE_MB: Final = 64
MOST_MAINTENANCE_MB: Final = 2_048

Halves = npt.NDArray[np.float16]

OPERATORS: Final = {COSINE: "<=>", INNER_PRODUCT: "<#>", DISTANCE: "<->"}
CLASSES: Final = {COSINE: "halfvec_cosine_ops", INNER_PRODUCT: "halfvec_ip_ops", DISTANCE: "halfvec_l2_ops"}
NEW: Final = "_new"

# Added to 0 so that no index can serve it; a zero vector has no angle and counts as a right one.
EXACTLY: Final = "order by coalesce(nullif((t.embedding {operator} %s::halfvec) + 0, 'NaN'), 1), t.id limit %s"
ALL: Final = "select t.id from {table} t " + EXACTLY
AMONG: Final = """
select t.id from unnest(%b::bigint[], %b::bigint[]) as r(low, high)
cross join lateral (select * from {table} t where t.id >= r.low and t.id < r.high offset 0) t
"""
NEAREST: Final = "select id from {table} order by embedding {operator} %s::halfvec"


class Graph(NamedTuple):
    """How an HNSW index is made and asked."""

    m: int
    ef_construction: int
    ef_search: int


class VectorTable:
    """Of one space. Methods take a connection with a transaction of the caller's."""

    def __init__(self, space: str, *, dim: int, metric: str, graph: Graph, beside: bool = False) -> None:
        self.name, self._dim, self._graph = f"{space}{NEW if beside else ''}", dim, graph
        self.index = f"{self.name}_{metric}"
        self._words = {"table": self.name, "operator": OPERATORS[metric], "class": CLASSES[metric]}

    def _sql(self, text: str) -> bytes:
        return text.format_map(self._words).encode()

    # ------------------------------------------------------------------------------------------------- making

    def create(self, connection: Connection) -> None:
        """Make what is missing, the extension too."""
        _have_extension(connection)
        storage = "plain" if self._dim <= MAX_INLINE_DIM else "external"
        if not self.exists(connection):
            columns = f"id bigint primary key, embedding halfvec({self._dim}) not null"
            stored = f"alter table {{table}} alter column embedding set storage {storage}"
            connection.execute(self._sql(f"create table {{table}} ({columns}); {stored}"))

    def drop(self, connection: Connection) -> None:
        """With its index."""
        connection.execute(self._sql("drop table if exists {table}"))

    def take_the_place(self, connection: Connection, of: VectorTable) -> None:
        """Drop the other and be called as it was."""
        of.drop(connection)
        connection.execute(self._sql(f"alter table {{table}} rename to {of.name}"))

    def exists(self, connection: Connection) -> bool:
        """Whether anything was ever written; HomeDamaged where that has other dimensions."""
        sql = "select atttypmod from pg_attribute where attrelid = to_regclass(%s) and attname = 'embedding'"
        row = connection.execute(sql, (self.name,)).fetchone()
        if row is not None and row[0] != self._dim:
            raise HomeDamaged(
                f"the vector index {self.name} in PostgreSQL has {row[0]} dimensions, wanted {self._dim}; "
                "`headwater check --repair` builds it again from the catalog"
            )
        return row is not None

    # ----------------------------------------------------------------------------------------------- changing

    def change(self, connection: Connection, removed: Sequence[int], ids: Ids, rows: Halves) -> None:
        """Take versions out and put vectors in."""
        if removed:
            gone = Selection.of_tickets(removed)
            connection.execute(
                self._sql(
                    "delete from {table} t using unnest(%b::bigint[], %b::bigint[]) as r(low, high) "
                    "where t.id >= r.low and t.id < r.high"
                ),
                (gone.starts.tolist(), gone.stops.tolist()),
            )
        if len(ids):
            copying = self._sql("copy {table} (id, embedding) from stdin (format binary)")
            with connection.cursor().copy(copying) as copy:
                copy.write(_as_copied(ids, rows))

    def is_indexed(self, connection: Connection) -> bool:
        """Whether its graph is there and whole."""
        sql = "select indisvalid from pg_index where indexrelid = to_regclass(%s)"
        return connection.execute(sql, (self.index,)).fetchone() == (True,)

    def holds_at_least(self, connection: Connection, rows: int) -> bool:
        """Whether there are so many vectors."""
        counted = connection.execute(self._sql("select count(*) from (select 1 from {table} limit %s) t"), (rows,))
        return counted.fetchone() == (rows,)

    def make_index(self, connection: Connection, *, name: str | None = None, concurrently: bool = False) -> None:
        """The graph, with as much memory as it needs: without, making it takes several times as long."""
        counted = connection.execute(self._sql("select count(*) from {table}")).fetchone()
        each = 2 * self._dim + 3 * self._graph.m * NEIGHBOUR_BYTES + NODE_BYTES
        needed = math.ceil((counted[0] if counted else 0) * each / (1 << 20))
        memory = min(max(needed, LEAST_MAINTENANCE_MB), MOST_MAINTENANCE_MB)
        connection.execute("select set_config('maintenance_work_mem', %s, %s)", (f"{memory}MB", not concurrently))
        how = f"m = {self._graph.m}, ef_construction = {self._graph.ef_construction}"
        connection.execute(
            self._sql(
                f"create index {'concurrently' if concurrently else ''} {name or self.index} "
                f"on {{table}} using hnsw (embedding {{class}}) with ({how})"
            )
        )

    def rebuild_index(self, database: Postgres) -> None:
        """A new graph beside the one that is read, which then goes: nobody waits."""
        fresh = f"{self.index}{NEW}"
        with database.alone() as connection:
            connection.execute(f"drop index concurrently if exists {fresh}".encode())  # of one that was interrupted
            self.make_index(connection, name=fresh, concurrently=True)
            connection.execute("reset maintenance_work_mem")
        with database.writing() as connection:
            connection.execute(f"drop index if exists {self.index}".encode())
            connection.execute(f"alter index {fresh} rename to {self.index}".encode())

    # ------------------------------------------------------------------------------------------------- asking

    def tickets(self, connection: Connection) -> dict[int, int]:
        """Every version and how many vectors it has."""
        sql = f"select id >> {TICKET_BITS} as ticket, count(*) from {{table}} group by 1 order by 1"
        return dict(connection.execute(self._sql(sql), binary=True).fetchall())

    def held(self, connection: Connection, selection: Selection, limit: int) -> Ids:
        """At most so many ids that it has of the selection."""
        given = selection.starts.tolist(), selection.stops.tolist(), limit
        return _ids(connection.execute(self._sql(AMONG + " limit %s"), given, binary=True))

    def compared(self, connection: Connection, query: Vector, limit: int, selection: Selection) -> Ids:
        """The nearest of the selection: every one of its vectors is compared."""
        if selection.is_everything:
            return _ids(connection.execute(self._sql(ALL), (_literal(query), limit), binary=True))
        given = selection.starts.tolist(), selection.stops.tolist(), _literal(query), limit
        return _ids(connection.execute(self._sql(AMONG + EXACTLY), given, binary=True))

    def nearest(self, connection: Connection, query: Vector, limit: int, selection: Selection) -> Ids:
        """About the nearest of the selection, by the graph; fewer than `limit` where the graph leads to no more."""
        asked = {
            "hnsw.ef_search": min(max(self._graph.ef_search, limit), MAX_EF_SEARCH),
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": MAX_SCAN_TUPLES,
            "hnsw.scan_mem_multiplier": SCAN_MEMORY,
            "enable_seqscan": "off",
        }
        sets = ", ".join("set_config(%s, %s, true)" for _ in asked)
        connection.execute(f"select {sets}".encode(), [str(part) for pair in asked.items() for part in pair])
        if selection.is_everything:
            return _ids(connection.execute(self._sql(NEAREST + " limit %s"), (_literal(query), limit), binary=True))
        found: list[Ids] = []
        count = 0
        with connection.cursor("nearest", binary=True) as cursor:
            cursor.execute(self._sql(NEAREST), (_literal(query),), binary=True)
            while count < limit:
                some = _ids(cursor.fetchmany(FETCH))
                if not len(some):
                    break
                found.append(some[selection.contains(some)])
                count += len(found[-1])
        return np.concatenate(found)[:limit] if found else np.empty(0, dtype=np.int64)


def _have_extension(connection: Connection) -> None:
    """pgvector in this database, made if need be."""
    psycopg = driver()
    asked = "select extversion from pg_extension where extname = %s"
    if connection.execute(asked, (EXTENSION,)).fetchone() is None:
        remedy = (
            "install pgvector on the server (https://github.com/pgvector/pgvector) and let somebody with the right run "
            "`create extension vector with schema public` in this database, or use another vector index"
        )
        try:
            # In `public`, where homes in other schemas of this database find it too.
            connection.execute(f"create extension if not exists {EXTENSION} with schema public".encode())
        except psycopg.OperationalError:
            raise
        except psycopg.Error as error:
            said = " ".join(str(error).split())
            raise BackendError(
                f"the vector index needs the extension pgvector, and it cannot be had: {said}; {remedy}"
            ) from error
    row = connection.execute(asked, (EXTENSION,)).fetchone()
    version = row[0] if row is not None else ""
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < LEAST_VERSION:
        wanted = ".".join(map(str, LEAST_VERSION))
        raise BackendError(
            f"pgvector must be {wanted} or newer, got {version!r}; install a newer one and run "
            "`alter extension vector update` in this database"
        )


def _ids(rows: Iterable[tuple[Any, ...]]) -> Ids:
    return np.array([id for (id,) in rows], dtype=np.int64)


def _literal(vector: Vector) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"


def _as_copied(ids: Ids, rows: Halves) -> bytes:
    """The rows as `copy ... (format binary)` reads them; all are of one size, so numpy writes them at once."""
    dim = rows.shape[1]
    head = [("fields", ">i2"), ("id_bytes", ">i4"), ("id", ">i8"), ("bytes", ">i4"), ("dim", ">i2"), ("unused", ">i2")]
    made = np.zeros(len(ids), dtype=np.dtype([*head, ("numbers", ">f2", (dim,))]))
    made["fields"], made["id_bytes"], made["id"] = 2, 8, ids
    made["bytes"], made["dim"], made["numbers"] = 4 + 2 * dim, dim, rows
    return COPY_HEAD + made.tobytes() + COPY_END
