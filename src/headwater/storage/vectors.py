"""Vectors -> a turbovec index on disk -> ids ranked by cosine, or by another metric of the same shortlist.

turbovec scans codes of a few bits for a shortlist, and exact vectors decide its order: those of a copy beside the index
(`_exact_rows`), else the catalog's. There is no graph, so adding and removing cost next to nothing and a filter loses
no neighbours. Codes are not calibrated: at 4 bits the best 10 of 100,000 are among a shortlist of 100 in 99.95 % of
cases without and 100 % with it, and calibrating later rewrites the file.

In the process that writes, searches see changes at once, flushed or not: the catalog decides what is alive. A change
is durable after `flush`. turbovec's `sync` survives a crash at any byte, but not a reader at any byte: it changes the
file in place. So a second file holds a mark that is another one before and after each `sync`: a reader that finds the
same settled mark before and after loading has a whole index, and one that finds the mark it knows need not load.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import turbovec

from headwater.errors import BackendError, SettingError, UsageError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._exact_rows import ExactRows
from headwater.storage._failures import failed
from headwater.storage._metric import COSINE, check_metric
from headwater.storage._shortlist import best, checked
from headwater.types import Ids, Matrix, Scored, Vector

INDEX_FILE: Final = "vectors.tvim"
MARK_FILE: Final = "mark"
SETTLED: Final = "settled"
WRITING: Final = "writing"

BITS: Final = (2, 3, 4)
# turbovec takes only multiples; zeros behind the last coordinate change no cosine.
DIM_STEP: Final = 8
# Of so few allowed rows all are scored exactly: that is as fast as a shortlist and misses nothing.
SCORE_ALL: Final = 512
# Above this share of allowed rows it is faster to fetch more and check: an allow-list of half of 100,000 takes 4.9 ms,
# a plain search 0.5 ms.
CHECK_SHARE: Final = 0.3
# What is looked at again, for as many hits as a search considers: at 4 bits the best 100 of 100,000 are among 160 in
# 98.7 % of cases, the best 10 in 99.97 %.
SHORTLIST: Final = 160
MARGIN: Final = 1.6

# A reader waits so long for a `sync`, which takes milliseconds, before it takes the writer for dead; and so long in all
# for an index that cannot be read while somebody may be writing.
POLL_SECONDS: Final = 0.005
SYNC_SECONDS: Final = 0.3
GIVE_UP_SECONDS: Final = 3.0
# Under a writer that never rests the index that was loaded so often is good enough: a row that moved meanwhile may have
# another one's codes, and the next refresh loads again.
MAX_LOADS: Final = 3


# The dimensions and bits that the engine was used with in this process, or is about to be.
_READY: Final[set[tuple[int, int]]] = set()


def _use_once(dim: int, bits: int) -> None:
    turbovec.IdMapIndex(dim=dim, bit_width=bits).add_with_ids(
        np.ones((1, dim), dtype=np.float32), np.zeros(1, dtype=np.uint64)
    )


class _State(NamedTuple):
    index: Any
    ids: Ids  # what the index holds, sorted


class TurbovecIndex:
    """Ranks chunks by cosine. Files are opened at first use."""

    def __init__(
        self,
        path: Path,
        *,
        dim: int,
        select: Callable[[Filter], Selection],
        exact: Callable[[Sequence[int]], tuple[Ids, Matrix]],
        writable: bool = True,
        bits: int = 4,
        shortlist: int = SHORTLIST,
        metric: str = COSINE,
    ) -> None:
        check_metric(metric)
        if bits not in BITS:
            raise SettingError(f"bits must be one of {', '.join(map(str, BITS))}, got {bits!r}")
        if dim < 1 or shortlist < 1:
            raise SettingError(f"dim and shortlist must be 1 or more, got {dim!r} and {shortlist!r}")
        self.path, self.dim, self._bits, self._shortlist = Path(path), dim, bits, shortlist
        self._select, self._exact, self._writable, self._metric = select, exact, writable, metric
        self._rows = ExactRows(self.path, dim=dim)
        self._lock = threading.RLock()
        self._state: _State | None = None
        self._mark = ""
        self._dirty = False

    # ------------------------------------------------------------------------------------------ writing

    def expect(self) -> None:
        """Vectors will come: the engine, whose first use takes a tenth of a second, gets ready in the background."""
        shape = (self.dim + -self.dim % DIM_STEP, self._bits)
        if shape not in _READY:
            _READY.add(shape)
            threading.Thread(target=_use_once, args=shape, name="headwater-vectors-ready", daemon=True).start()

    def add(self, ids: Ids, vectors: Matrix) -> None:
        """Index these; adding what is there already is harmless. Ids of one ticket come in one call, from ordinal 0."""
        new = np.asarray(ids, dtype=np.int64)
        rows = self._checked(vectors, rows=len(new))
        with self._lock:
            # Before anything is touched: a ticket that comes again replaces what it had.
            self.remove(np.unique(new >> TICKET_BITS).tolist())
            if not len(new):
                return
            index, held = self._current()
            if not (new[1:] > new[:-1]).all():
                order = np.argsort(new, kind="stable")
                new, rows = new[order], rows[order]
            try:
                index.add_with_ids(rows, new.astype(np.uint64))
            except ValueError as error:
                raise BackendError(f"the vector index refused {len(new)} vectors: {error}") from error
            self._rows.add(new, rows)
            together = np.concatenate((held, new))
            if len(held) and held[-1] > new[0]:
                together.sort(kind="stable")
            self._state = _State(index, together)

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        if not len(tickets):
            return
        with self._lock:
            index, held = self._adopted()
            gone = Selection.of_tickets(tickets).within(held)
            if not len(gone):
                return
            # Searches that start from here on do not allow them any more; one under way may stumble, and says so.
            keep = np.ones(len(held), dtype=np.bool_)
            keep[np.searchsorted(held, gone)] = False
            self._state = _State(index, held[keep])
            for one in gone.tolist():
                index.remove(one)

    def flush(self) -> None:
        """Make what was added and removed durable, and visible after `refresh`."""
        with self._lock:
            if not self._dirty:
                return
            index, held = self._current()
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                self._rows.write(held)
                self._set_mark(WRITING)
                index.sync(str(self.path / INDEX_FILE))
                self._mark = self._set_mark(SETTLED)
            except OSError as error:
                raise failed("vector", self.path, error) from error
            self._dirty = False

    def clear(self) -> None:
        """Drop everything, even what cannot be read; the next flush makes it durable."""
        self._check_writable()
        with self._lock:
            self._state, self._dirty = self._empty(), True
            self._rows.clear()

    def release(self) -> None:
        """Let go of the right to write; reading goes on. What was not flushed is lost."""
        with self._lock:
            if self._dirty:
                self.close()

    def close(self) -> None:
        """Let go of files and locks; what was not flushed is lost."""
        with self._lock:
            self._state, self._mark, self._dirty = None, "", False
            self._rows.forget()

    def _adopted(self) -> _State:
        """What to change: the state on disk, if another process wrote since, and from here on our own."""
        self._check_writable()
        if not self._dirty:
            self.refresh()
        self._dirty = True
        return self._current()

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError(
                f"the vector index in {str(self.path)!r} was opened for reading; open it with writable=True"
            )

    def _checked(self, vectors: Matrix, *, rows: int) -> Matrix:
        """The rows as turbovec wants them."""
        given = checked(vectors, dim=self.dim, rows=rows)
        if missing := -self.dim % DIM_STEP:
            given = np.concatenate((given, np.zeros((len(given), missing), dtype=np.float32)), axis=1)
        return np.ascontiguousarray(given)

    # ------------------------------------------------------------------------------------------- opening

    def refresh(self) -> None:
        """See what was last flushed, by this process or another."""
        with self._lock:
            if self._dirty or (self._state is not None and self._read_mark() == self._mark):
                return
            self._state, self._mark = self._load()

    def _current(self) -> _State:
        state = self._state
        if state is None:
            self.refresh()
            state = self._state
            assert state is not None
        return state

    def _empty(self) -> _State:
        index = turbovec.IdMapIndex(dim=self.dim + -self.dim % DIM_STEP, bit_width=self._bits)
        return _State(index, np.empty(0, dtype=np.int64))

    def _load(self) -> tuple[_State, str]:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        for attempt in itertools.count(1):
            before = self._settled_mark()
            problem: Exception | None = None
            try:
                state = self._load_once()
                self._rows.load()
            except (OSError, ValueError) as error:
                problem = error
            after = self._read_mark()
            if problem is None and (after == before or attempt == MAX_LOADS):
                return state, before
            settled = after == before and not after.startswith(WRITING)
            if problem is not None and (settled or time.monotonic() > deadline):
                raise failed("vector", self.path, problem) from problem
        raise AssertionError

    def _settled_mark(self) -> str:
        """The mark, after a `sync` under way has ended or, it seems, been killed."""
        deadline = time.monotonic() + SYNC_SECONDS
        while (mark := self._read_mark()).startswith(WRITING) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return mark

    def _load_once(self) -> _State:
        with warnings.catch_warnings():
            # After a crash in `sync` turbovec loads what was flushed before and warns: that is what flushing means.
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                index = turbovec.IdMapIndex.load(str(self.path / INDEX_FILE))
            except FileNotFoundError:
                return self._empty()
        wanted = self._empty().index
        if (index.dim, index.bit_width) != (wanted.dim, wanted.bit_width):
            raise ValueError(
                f"it has {index.dim} dimensions of {index.bit_width} bits, wanted {wanted.dim} of {wanted.bit_width}"
            )
        # turbovec has no list of its ids, but every row scores 0 against the zero vector: 7 ms for 100,000.
        _, found = index.search(np.zeros((1, index.dim), dtype=np.float32), len(index))
        ids = np.sort(found[0].astype(np.int64))  # `np.unique` would import numpy's masked arrays, for 20 ms
        distinct = len(ids) - int((ids[1:] == ids[:-1]).sum())
        if distinct != len(index):
            raise ValueError(f"it says that it has {len(index)} vectors and has {distinct}")
        return _State(index, ids)

    def _read_mark(self) -> str:
        try:
            return (self.path / MARK_FILE).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""

    def _set_mark(self, phase: str) -> str:
        # Not made durable: after a power cut there are no readers left to be told.
        mark = f"{phase} {uuid.uuid4().hex}"
        fresh = self.path / f"{MARK_FILE}.new"
        fresh.write_text(mark, "utf-8")
        fresh.replace(self.path / MARK_FILE)
        return mark

    # ------------------------------------------------------------------------------------------- reading

    def tickets(self) -> dict[int, int]:
        """Every ticket it holds and how many chunks of it."""
        tickets, counts = np.unique(self._current().ids >> TICKET_BITS, return_counts=True)
        return dict(zip(tickets.tolist(), counts.tolist(), strict=True))

    def search(self, vector: Vector, limit: int, where: Filter) -> list[Scored]:
        """Best first by the exact metric, ties by id, at most `limit`; only what the filter allows."""
        given = self._checked(vector[None, :], rows=1)
        length = float(np.linalg.norm(given))
        if limit <= 0 or length == 0:
            return []
        query = given / length
        selection = self._select(where)
        if selection.is_empty:
            return []
        wanted = max(self._shortlist, int(limit * MARGIN))

        def likely(wanted: int) -> tuple[Ids, Matrix, bool]:
            candidates, exhausted = self._candidates(query, wanted, selection)
            return *self._exactly(candidates, selection), exhausted

        return best(likely, limit, wanted=wanted, query=given[0, : self.dim], metric=self._metric)

    def _candidates(self, query: Matrix, wanted: int, selection: Selection) -> tuple[Ids, bool]:
        """About `wanted` allowed ids, the likeliest; and whether there are no more."""
        index, held = self._current()
        if selection.is_everything:
            return self._nearest(index, query, wanted), wanted >= len(held)
        places = np.searchsorted(held, (selection.starts, selection.stops))
        allowed = int((places[1] - places[0]).sum())
        if allowed <= max(SCORE_ALL, wanted):
            return selection.within(held), True
        if allowed == len(held):
            return self._nearest(index, query, wanted), wanted >= len(held)
        if allowed < CHECK_SHARE * len(held):
            try:
                return self._nearest(index, query, wanted, selection.within(held)), False
            except KeyError:
                pass  # One of them was removed in this moment: check afterwards instead.
        fetch = wanted * len(held) // allowed + wanted
        found = self._nearest(index, query, fetch)
        return found[selection.contains(found)], fetch >= len(held)

    @staticmethod
    def _nearest(index: Any, query: Matrix, wanted: int, allowed: Ids | None = None) -> Ids:
        permitted = None if allowed is None else allowed.astype(np.uint64)
        _, found = index.search(query, wanted, allowlist=permitted)
        ids: Ids = found[0].astype(np.int64)
        return ids

    def _exactly(self, candidates: Ids, selection: Selection) -> tuple[Ids, Matrix]:
        """The exact vectors, of the living."""
        if selection.is_open:  # the dead may be among them, and only the catalog knows
            return self._exact(candidates.tolist())
        known, rows = self._rows.of(candidates)
        if known.all():
            return candidates, rows
        others, more = self._exact(candidates[~known].tolist())
        return np.concatenate((candidates[known], others)), np.concatenate((rows, more))
