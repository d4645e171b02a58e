"""Vectors -> a collection in a Milvus server -> ids ranked by cosine, or by another metric of the same shortlist.

The server's graph finds a shortlist and the catalog's exact vectors decide its order. A row is a chunk id, its ticket
and its vector; everything else about a chunk is in the catalog, which is the truth.

Changes are kept here until `flush` sends them: what the server acknowledged is in its log and survives its death. A
search waits until the server has seen all that was written before the last `refresh` or `flush`, and no longer.

A collection belongs to one home and one space. The folder of the space holds a file with the home's name, a random one,
and the collection's name has its first digits, so homes on one server are told apart. A copy of a home has the name and
not the file's number: it must not write where its original writes and is told to build an index of its own. Collections
of spaces whose folder is gone are dropped with the next write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from headwater.errors import SettingError, UsageError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage import _milvus_home as homes
from headwater.storage._failures import damaged, failed
from headwater.storage._metric import COSINE, check_metric
from headwater.storage._milvus import CollectionGone, Connection, GraphMissing
from headwater.storage._milvus_filter import filters_of, tickets_in
from headwater.storage._milvus_rows import WINDOW, Rows
from headwater.storage._shortlist import GROWTH, best, checked
from headwater.types import Ids, Matrix, Scored, Vector

Found = TypeVar("Found")

# Of so few allowed rows all are scored exactly, which misses nothing: behind a filter that allows a tenth of 10,000 the
# graph finds 0.9975 of the best 10 at most, however widely it is searched.
SCORE_ALL: Final = 2_048
# Behind a filter the graph is searched so much wider than the shortlist is long: of the best 10 of 30 % of 10,000 it
# found 0.98 with 1 and all with 8.
FILTERED_EF: Final = 8
MAX_EF: Final = 32_768  # the most that the server takes
# A filter that needs more parts than this is not sent while fetching more and checking may do.
MAX_PARTS: Final = 4
# Filters that are remembered, none of them longer than this.
MAX_WIDE: Final = 1_000
MAX_WIDE_CHARS: Final = 1_000
# Rows that are kept here for the next flush at most: 400 MB of 1,024 dimensions.
MAX_WAITING: Final = 100_000


class MilvusIndex:
    """Ranks chunks by cosine. The server is connected to at first use."""

    def __init__(
        self,
        path: Path,
        *,
        dim: int,
        select: Callable[[Filter], Selection],
        exact: Callable[[Sequence[int]], tuple[Ids, Matrix]],
        writable: bool = True,
        uri: str = "http://127.0.0.1:19530",
        token: str = "",
        collection: str = "headwater",
        m: int = 16,
        ef_construction: int = 128,
        ef: int = 64,
        shortlist: int = 120,
        metric: str = COSINE,
        timeout_seconds: float = 5.0,
    ) -> None:
        check_metric(metric)
        least = {"dim": (dim, 1), "shortlist": (shortlist, 1), "m": (m, 2), "ef": (ef, 1)}
        for name, (value, low) in {**least, "ef_construction": (ef_construction, 1)}.items():
            if value < low:
                raise SettingError(f"{name} must be {low} or more, got {value!r}")
        homes.check_name(collection)
        self.path, self.dim, self._collection = Path(path), dim, collection
        self._select, self._exact, self._writable, self._metric = select, exact, writable, metric
        self._ef, self._shortlist = ef, shortlist
        self._connection = Connection(uri, token=token, timeout_seconds=timeout_seconds)
        self._graph = {"M": m, "efConstruction": ef_construction}
        self._lock = threading.RLock()
        self._rows: Rows | None = None  # of a collection that was looked at and is loaded
        self._since = 0  # the server's time that a search waits for; 0 for none yet
        self._wide: set[str] = set()  # filters that allow more than a few
        self._tidied = False  # whether collections of dropped spaces were looked for
        self._forget_changes()

    # ------------------------------------------------------------------------------------------ writing

    def add(self, ids: Ids, vectors: Matrix) -> None:
        """Index these; adding what is there already is harmless. Ids of one ticket come in one call, from ordinal 0."""
        self._check_writable()
        new = np.asarray(ids, dtype=np.int64)
        rows = checked(vectors, dim=self.dim, rows=len(new))
        order = np.argsort(new, kind="stable")
        new, rows = new[order], rows[order]
        tickets, starts = np.unique(new >> TICKET_BITS, return_index=True)
        with self._lock:
            for ticket, start, stop in zip(tickets.tolist(), starts, (*starts[1:], len(new)), strict=True):
                self._added[ticket] = (new[start:stop], rows[start:stop])
            self._waiting += len(new)
            if self._waiting >= MAX_WAITING:
                # The catalog does not know them yet: nobody is shown them before the caller has flushed and committed.
                self.flush()

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        self._check_writable()
        with self._lock:
            self._removed.update(tickets)
            for ticket in tickets:
                self._added.pop(ticket, None)

    def flush(self) -> None:
        """Make what was added and removed durable, and visible after `refresh`."""
        with self._lock:
            if not (self._added or self._removed or self._cleared):
                return
            try:
                self._send()
            except CollectionGone:  # somebody dropped it under our eyes; what it held is for `check --repair`
                self._rows = None
                self._send()
            self._forget_changes()

    def _send(self) -> None:
        rows = self._to_write()
        if rows is not None:
            for filter in tickets_in(np.array(sorted(self._removed), dtype=np.int64)):
                rows.delete(filter)
            before = homes.unsealed(self.path)
            unsealed = rows.put(self._added, unsealed=before)
            if unsealed != before:
                homes.note_unsealed(self.path, unsealed)
        self._see_all()

    def clear(self) -> None:
        """Drop everything, even what cannot be read; the next flush makes it durable."""
        self._check_writable()
        with self._lock:
            self._forget_changes()
            self._cleared = True

    def release(self) -> None:
        """Let go of the right to write; reading goes on. What was not flushed is lost."""
        with self._lock:
            self._forget_changes()

    def close(self) -> None:
        """Let go of the connection; what was not flushed is lost."""
        with self._lock:
            self._forget_changes()
            self._rows, self._tidied = None, False
            self._connection.close()

    def _forget_changes(self) -> None:
        self._added: dict[int, tuple[Ids, Matrix]] = {}
        self._removed: set[int] = set()
        self._cleared = False
        self._waiting = 0

    def _to_write(self) -> Rows | None:
        """The collection, made where it is missing or is to be made anew; None where it would stay empty."""
        if not (self._added or self._cleared) and self._current() is None:
            return None
        try:
            own = homes.own_name(self.path, mend=self._cleared)
        except OSError as error:
            raise failed("vector", self.path, error) from error
        rows = self._rows_of(own)
        if self._cleared:
            rows.drop()
            homes.note_unsealed(self.path, 0)
            self._rows = None
        if not self._tidied:
            for name in homes.left_behind(self.path, rows.names(), collection=self._collection, own=own):
                Rows(self._connection, name, own=own).drop()
            self._tidied = True
        if self._rows is None:
            if not self._is_there(rows):
                rows.create(dim=self.dim, metric=self._metric, graph=self._graph)
            self._load(rows, patient=True)
        return self._rows

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError(f"the vector index {str(self.path)!r} was opened for reading; open it with writable=True")

    # ------------------------------------------------------------------------------------------- opening

    def refresh(self) -> None:
        """See what was last flushed, by this process or another."""
        # Asked even where nothing was written yet: a server that is away is better told before documents are read.
        self._see_all()
        self._current()

    def _see_all(self) -> None:
        """Searches from here on see what was written so far."""
        now = self._connection.now()
        with self._lock:
            self._since = max(self._since, now)

    def _current(self) -> Rows | None:
        """What to read; None where nothing was written yet."""
        rows = self._rows
        if rows is not None:
            return rows
        with self._lock:
            own = homes.read_name(self.path)
            if own is None:
                return None
            rows = self._rows_of(own)
            if not self._is_there(rows):
                return None
            if not self._since:  # whoever reads without a refresh sees what there was at first
                self._see_all()
            self._load(rows, patient=False)
            return rows

    def _load(self, rows: Rows, *, patient: bool) -> None:
        try:
            rows.load(patient=patient)
        except GraphMissing as error:
            raise damaged("vector", self.path, str(error)) from error
        self._rows = rows

    def _rows_of(self, own: str) -> Rows:
        name = homes.collection_name(self._collection, self.path, own=own)
        return Rows(self._connection, name, own=own)

    def _is_there(self, rows: Rows) -> bool:
        """Whether the collection exists; one that is not ours, or not as it should be, is refused."""
        dim = rows.dim()
        if dim is None:
            return False
        if dim != self.dim:
            where = f"collection {rows.name!r} at {self._connection.place}"
            raise damaged("vector", self.path, f"{where} has {dim} dimensions, wanted {self.dim}")
        return True

    # ------------------------------------------------------------------------------------------- reading

    def tickets(self) -> dict[int, int]:
        """Every ticket it holds and how many chunks of it."""
        held = self._read(lambda rows: rows.ids("", since=self._since))
        if held is None:
            return {}
        tickets, counts = np.unique(held >> TICKET_BITS, return_counts=True)
        return dict(zip(tickets.tolist(), counts.tolist(), strict=True))

    def search(self, vector: Vector, limit: int, where: Filter) -> list[Scored]:
        """Best first by the exact metric, ties by id, at most `limit`; only what the filter allows."""
        given = checked(vector[None, :], dim=self.dim, rows=1)[0]
        if limit <= 0 or not given.any():
            return []
        selection = self._select(where)
        if selection.is_empty:
            return []
        found = self._read(lambda rows: self._ranked(rows, given, limit, selection))
        return [] if found is None else found

    def _read(self, work: Callable[[Rows], Found]) -> Found | None:
        """What comes of it; None where nothing was written yet."""
        for last in (False, True):
            rows = self._current()
            if rows is None:
                return None
            try:
                return work(rows)
            except CollectionGone:  # somebody has made it anew, or the server has put it out of its memory
                self._rows = None
                if last:
                    raise
        raise AssertionError

    def _ranked(self, rows: Rows, vector: Vector, limit: int, selection: Selection) -> list[Scored]:
        filters = filters_of(selection)
        wanted = max(self._shortlist, limit + limit // 5)
        few = None if selection.is_everything else self._few(rows, filters)

        def likely(wanted: int) -> tuple[Ids, Matrix, bool]:
            if few is not None:
                return *self._exact(few.tolist()), True
            candidates, exhausted = self._candidates(rows, vector, wanted, selection, filters)
            return *self._exact(candidates.tolist()), exhausted

        return best(likely, limit, wanted=wanted, query=vector, metric=self._metric)

    def _few(self, rows: Rows, filters: Sequence[str]) -> Ids | None:
        """All ids that filters allow, where there are only few."""
        if len(filters) > MAX_PARTS or filters[0] in self._wide:
            return None
        found: Ids = np.empty(0, dtype=np.int64)
        for filter in filters:
            found = np.concatenate((found, rows.some(filter, SCORE_ALL + 1, since=self._since)))
            if len(found) > SCORE_ALL:
                # Most searches have the same one, that of their owner: what it allows need not be looked at each time.
                if len(self._wide) < MAX_WIDE and len(filters) == 1 and len(filter) < MAX_WIDE_CHARS:
                    self._wide.add(filter)
                return None
        return found

    def _candidates(
        self, rows: Rows, vector: Vector, wanted: int, selection: Selection, filters: Sequence[str]
    ) -> tuple[Ids, bool]:
        """About `wanted` allowed ids, the likeliest; and whether there are no more."""
        if len(filters) > MAX_PARTS and wanted * GROWTH <= WINDOW:
            found, exhausted = self._nearest(rows, vector, wanted * GROWTH, "")
            return found[selection.contains(found)], exhausted
        parts = [self._nearest(rows, vector, wanted, filter) for filter in filters]
        return np.concatenate([found for found, _ in parts]), all(exhausted for _, exhausted in parts)

    def _nearest(self, rows: Rows, vector: Vector, wanted: int, filter: str) -> tuple[Ids, bool]:
        since, asked = self._since, min(wanted, WINDOW)
        ef = max(self._ef, min(FILTERED_EF * asked, MAX_EF)) if filter else self._ef
        found = rows.nearest(vector, asked, filter=filter, ef=ef, since=since)
        if len(found) == asked and wanted <= WINDOW:
            return found, False
        if len(found) < asked:
            # A graph may lose some of its nodes when many are deleted, and zero vectors are in none.
            there = rows.count(filter, since=since)
            if there <= len(found):
                return found, True
            if there > WINDOW >= wanted:
                return found, False
        return rows.ids(filter, since=since), True
