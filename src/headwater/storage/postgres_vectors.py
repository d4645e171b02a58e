"""Vectors -> a table with pgvector in PostgreSQL -> ids ranked by cosine, or by another metric.

pgvector gives a shortlist, and the catalog's exact vectors decide its order. A table of a few thousand, and a filter
that allows a few thousand, are compared one by one; above, an HNSW graph is asked, which goes on until the filter has
enough; and where the graph leads to too few, everything that is allowed is compared. So a filter loses no neighbours.

The graph is made when a writer lets go and has left enough vectors: putting the first hundred thousand into a table
and making the graph afterwards takes a fraction of the time of putting them into a graph one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from headwater.errors import BackendError, SettingError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._metric import COSINE, check_metric
from headwater.storage._postgres_index import PostgresIndex, space_of
from headwater.storage._postgres_vector_table import MAX_DIM, MAX_INDEXED_DIM, Graph, Halves, VectorTable
from headwater.storage._shortlist import best, checked
from headwater.types import Ids, Matrix, Scored, Vector

if TYPE_CHECKING:
    from headwater.storage._postgres import Connection

logger = logging.getLogger("headwater.storage.vectors")

# What pgvector allows.
M: Final = (2, 100)
EF_CONSTRUCTION: Final = (4, 1_000)
EF_SEARCH: Final = (1, 1_000)
# From so many vectors on there is a graph; below, comparing all takes milliseconds and misses nothing.
INDEX_FROM: Final = 20_000
# Of so few allowed vectors all are compared.
COMPARE_ALL: Final = 5_000
# Above so many ranges the ids that the graph gives are checked here, whatever the filter allows.
MAX_RANGES: Final = 20_000
# Where a table that was made anew took the old one's place in the very moment of a search, the search begins again,
# so often at most.
MOMENTS: Final = 10
# Vectors kept in memory before they are sent: 32 MB of 16-bit numbers.
MOST_KEPT: Final = 1 << 24


class PostgresVectorIndex(PostgresIndex[VectorTable]):
    """Ranks chunks by cosine. The database is asked at first use; the table is made by the first `flush`."""

    def __init__(
        self,
        path: Path,
        *,
        dim: int,
        select: Callable[[Filter], Selection],
        exact: Callable[[Sequence[int]], tuple[Ids, Matrix]],
        writable: bool = True,
        url: str = "env:DATABASE_URL",
        schema: str = "headwater",
        m: int = 16,
        ef_construction: int = 128,
        ef_search: int = 200,
        shortlist: int = 120,
        metric: str = COSINE,
    ) -> None:
        check_metric(metric)
        if not 1 <= dim <= MAX_DIM or shortlist < 1:
            raise SettingError(
                f"dim must be between 1 and {MAX_DIM} and shortlist 1 or more, got {dim!r} and {shortlist!r}"
            )
        limits = {
            "m": (m, M),
            "ef_construction": (ef_construction, EF_CONSTRUCTION),
            "ef_search": (ef_search, EF_SEARCH),
        }
        for name, (value, (least, most)) in limits.items():
            if not least <= value <= most:
                raise SettingError(f"{name} must be between {least} and {most}, got {value!r}")
        if ef_construction < 2 * m:
            raise SettingError(f"ef_construction must be at least twice m, got {ef_construction!r} and m = {m!r}")
        space, graph = space_of(path, "vectors"), Graph(m, ef_construction, ef_search)
        tables, beside = (VectorTable(space, dim=dim, metric=metric, graph=graph, beside=new) for new in (False, True))
        super().__init__(space, tables=tables, beside=beside, writable=writable, url=url, schema=schema)
        self.dim, self._select, self._exact, self._metric = dim, select, exact, metric
        self._shortlist = shortlist
        self._added: dict[int, tuple[Ids, Halves]] = {}
        self._numbers = 0  # that are kept
        self._removed: set[int] = set()
        self._seen: tuple[bool, bool] | None = None  # whether the table is there, and its graph; None: look
        self._grew = False

    # ------------------------------------------------------------------------------------------------ writing

    def add(self, ids: Ids, vectors: Matrix) -> None:
        """Index these; adding what is there already is harmless. Ids of one ticket come in one call, from ordinal 0."""
        self._check_writable()
        new = np.asarray(ids, dtype=np.int64)
        rows = checked(vectors, dim=self.dim, rows=len(new))
        with np.errstate(over="ignore"):
            halves = rows.astype(np.float16)
        if not np.isfinite(halves).all():
            raise BackendError("a vector has a number above 65,504, which 16 bits cannot hold; use unit vectors")
        tickets = new >> TICKET_BITS
        with self._lock:
            for ticket in np.unique(tickets).tolist():
                own = tickets == ticket
                self._drop_kept(ticket)
                self._added[ticket] = (new[own], halves[own])
                self._numbers += int(own.sum()) * self.dim
            if self._numbers >= MOST_KEPT:
                self._written()

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        self._check_writable()
        with self._lock:
            for ticket in map(int, tickets):
                self._drop_kept(ticket)
                self._removed.add(ticket)

    def release(self) -> None:
        """Let go of what was not flushed; reading goes on. Makes the graph where enough was flushed for one."""
        super().release()
        with self._lock:
            grew, self._grew = self._grew, False
            if not grew or self.dim > MAX_INDEXED_DIM:
                return
            try:
                with self._database().writing() as connection:
                    self._alone(connection)
                    if not self._tables.is_indexed(connection) and self._tables.holds_at_least(connection, INDEX_FROM):
                        self._tables.make_index(connection)
            except BackendError as error:
                # Letting go must not fail: a search compares all meanwhile, and the next writer makes it.
                self._grew = True
                logger.warning("the graph of the vector index %s could not be made: %s", self._space, error)
            self.refresh()

    def rebuild(self) -> None:
        """Make the graph anew, with the settings of now, while others read the old one."""
        self._check_writable()
        with self._lock:
            with self._database().reading() as connection:
                there = self._tables.exists(connection) and self._tables.is_indexed(connection)
            if there:
                self._tables.rebuild_index(self._database())

    def _drop_kept(self, ticket: int) -> None:
        gone = self._added.pop(ticket, None)
        self._numbers -= gone[1].size if gone is not None else 0

    def _is_kept(self) -> bool:
        return bool(self._added or self._removed)

    def _send(self, connection: Connection, tables: VectorTable) -> None:
        kept = [self._added[ticket] for ticket in sorted(self._added)]
        ids = np.concatenate([own for own, _ in kept]) if kept else np.empty(0, dtype=np.int64)
        rows = np.concatenate([rows for _, rows in kept]) if kept else np.empty((0, self.dim), dtype=np.float16)
        tables.change(connection, sorted({*self._removed, *self._added}), ids, rows)
        self._grew = self._grew or bool(kept)

    def _forget(self) -> None:
        self._added, self._removed, self._numbers = {}, set(), 0

    # ------------------------------------------------------------------------------------------------ reading

    def refresh(self) -> None:
        """See what was last flushed, by this process or another: searches do anyway."""
        self._seen = None

    def tickets(self) -> Mapping[int, int]:
        """Every ticket it holds and how many chunks of it."""
        with self._database().reading() as connection:
            return self._tables.tickets(connection) if self._tables.exists(connection) else {}

    def search(self, vector: Vector, limit: int, where: Filter) -> list[Scored]:
        """Best first by the exact metric, ties by id, at most `limit`; only what the filter allows."""
        given = checked(vector[None, :], dim=self.dim, rows=1)[0]
        length = float(np.linalg.norm(given))
        if limit <= 0 or length == 0:
            return []
        selection = self._select(where)
        if selection.is_empty:
            return []
        query = given / length if self._metric == COSINE else given
        wanted = max(self._shortlist, limit + limit // 5)

        def likely(wanted: int) -> tuple[Ids, Matrix, bool]:
            candidates, exhausted = self._candidates(query, wanted, selection)
            return *self._exact(candidates.tolist()), exhausted

        return best(likely, limit, wanted=wanted, query=given, metric=self._metric)

    def _candidates(self, query: Vector, wanted: int, selection: Selection) -> tuple[Ids, bool]:
        """About `wanted` allowed ids, the likeliest; and whether there are no more."""
        for _ in range(MOMENTS):
            with self._database().reading() as connection:
                there, indexed = self._seen or self._looked(connection)
                if not there:
                    break
                found, exhausted = self._chosen(connection, query, wanted, selection=selection, indexed=indexed)
                if len(found) or self._tables.holds_at_least(connection, 1):
                    return found, exhausted
        return np.empty(0, dtype=np.int64), True

    def _chosen(
        self, connection: Connection, query: Vector, wanted: int, *, selection: Selection, indexed: bool
    ) -> tuple[Ids, bool]:
        table = self._tables
        if indexed:
            few = len(selection.starts) <= MAX_RANGES and not selection.is_everything
            most = max(COMPARE_ALL, wanted)
            held = table.held(connection, selection, most + 1) if few else None
            if held is not None and len(held) <= wanted:
                return held, True
            if held is None or len(held) > most:
                found = table.nearest(connection, query, wanted, selection)
                if len(found) == wanted:
                    return found, False
        found = table.compared(connection, query, wanted, selection)
        return found, len(found) < wanted

    def _looked(self, connection: Connection) -> tuple[bool, bool]:
        there = self._tables.exists(connection)
        self._seen = found = (there, there and self._tables.is_indexed(connection))
        return found
