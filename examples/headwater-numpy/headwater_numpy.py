"""Vectors -> one file of numpy -> ids ranked by cosine. A whole vector index in a page, as a plugin.

Everything is compared with everything, so it is exact, and good for some ten thousand passages. What another store
needs is the same: the ids are given, the filter is a selection of ids, and the catalog says what is alive.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from headwater.errors import BackendError, HomeDamaged, UsageError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.types import Ids, Matrix, Scored, Vector

FILE_NAME = "vectors.npz"


class NumpyIndex:
    """Ranks chunks by cosine. `precision` is a setting: `[vector_index] precision = "float16"`."""

    def __init__(
        self,
        path: Path,  # the folder of this index; nobody else writes to it
        *,
        dim: int,
        select: Callable[[Filter], Selection],
        writable: bool = True,
        precision: str = "float32",
    ) -> None:
        self._file, self._dim, self._select, self._writable = Path(path) / FILE_NAME, dim, select, writable
        self._precision = np.dtype(precision)
        self._lock = threading.RLock()
        self._rows: tuple[Ids, Matrix] | None = None  # sorted by id; replaced, never changed: searches need no lock
        self._is_changed = False

    # ------------------------------------------------------------------------------------------ writing

    def add(self, ids: Ids, vectors: Matrix) -> None:
        """Put these in the place of what their tickets had."""
        new, rows = np.asarray(ids, dtype=np.int64), self._checked(vectors)
        with self._lock:
            self.remove(np.unique(new >> TICKET_BITS).tolist())
            held, there = self._current()
            together = np.concatenate((held, new))
            order = np.argsort(together)
            self._rows = together[order], np.concatenate((there, rows))[order]

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets."""
        if not self._writable:
            raise UsageError("the index was opened for reading; open it with writable=True")
        with self._lock:
            if not self._is_changed:
                self.refresh()
            held, rows = self._current()
            keep = ~Selection.of_tickets(tickets).contains(held)
            self._rows, self._is_changed = (held[keep], rows[keep]), True

    def clear(self) -> None:
        """Drop everything, even what cannot be read."""
        with self._lock:
            self._rows, self._is_changed = self._nothing(), True

    def flush(self) -> None:
        """Durable from here on, and never half of it: a new file takes the place of the old one."""
        with self._lock:
            if not self._is_changed:
                return
            ids, rows = self._current()
            draft = self._file.with_suffix(".new")
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with draft.open("wb") as file:
                    np.savez(file, ids=ids, rows=rows.astype(self._precision))
                    file.flush()
                    os.fsync(file.fileno())
                draft.replace(self._file)
            except OSError as error:
                raise BackendError(f"{str(self._file)!r} cannot be written: {error}; make room or mend it") from error
            self._is_changed = False

    def release(self) -> None:
        """Forget what was not flushed; reading goes on."""
        with self._lock:
            if self._is_changed:
                self.close()

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._rows, self._is_changed = None, False

    # ------------------------------------------------------------------------------------------ reading

    def refresh(self) -> None:
        """See what was last flushed, by this process or another."""
        with self._lock:
            if not self._is_changed:
                self._rows = self._loaded()

    def search(self, vector: Vector, limit: int, where: Filter) -> list[Scored]:
        """Best first, ties by id; only what the filter allows."""
        query = self._checked(np.asarray(vector)[None, :])[0].astype(np.float64)
        length = float(np.linalg.norm(query))
        if limit <= 0 or length == 0:
            return []
        ids, rows = self._current()
        allowed = self._select(where).contains(ids)
        ids, exact = ids[allowed], rows[allowed].astype(np.float64)
        # In 64 bits and rounded, so that equal vectors have equal scores.
        lengths = np.linalg.norm(exact, axis=1) * length
        scores = np.round(exact @ query / np.where(lengths > 0, lengths, 1.0), 7)
        best = np.lexsort((ids, -scores))[:limit]
        return list(map(Scored, ids[best].tolist(), scores[best].tolist()))

    def tickets(self) -> Mapping[int, int]:
        """Every ticket and how many chunks of it; what `headwater check` compares with the catalog."""
        tickets, counts = np.unique(self._current()[0] >> TICKET_BITS, return_counts=True)
        return dict(zip(tickets.tolist(), counts.tolist(), strict=True))

    # ------------------------------------------------------------------------------------------- inside

    def _current(self) -> tuple[Ids, Matrix]:
        if self._rows is None:
            self.refresh()
        assert self._rows is not None
        return self._rows

    def _loaded(self) -> tuple[Ids, Matrix]:
        try:
            with np.load(self._file) as stored:
                ids, rows = stored["ids"], stored["rows"].astype(np.float32)
        except FileNotFoundError:
            return self._nothing()
        except (OSError, ValueError, KeyError) as error:
            # HomeDamaged is what `headwater check --repair` clears and fills again from the catalog.
            raise HomeDamaged(f"{str(self._file)!r} cannot be read: {error}; run `headwater check --repair`") from error
        return ids, rows

    def _nothing(self) -> tuple[Ids, Matrix]:
        return np.empty(0, dtype=np.int64), np.empty((0, self._dim), dtype=np.float32)

    def _checked(self, vectors: Matrix) -> Matrix:
        given = np.asarray(vectors, dtype=np.float32)
        if given.ndim != 2 or given.shape[1] != self._dim:
            raise BackendError(f"the index has {self._dim} dimensions, got vectors of shape {given.shape}")
        if not np.isfinite(given).all():
            raise BackendError("a vector holds NaN or infinity; the embedder that made it is broken")
        return given
