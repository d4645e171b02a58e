"""Vectors as they were added -> a file of them that is mapped, for reading a hundred here and there in no time.

The catalog holds every vector too, and is the truth; there a hundred of them take a millisecond, which is what makes
this second copy worth its place on the disk. It may know fewer than the index beside it: whoever asks is told which.

Rows are numbered in the order they came. They are on disk before the list of their ids is longer, so a list never tells
of rows that are not there; what a crash left behind its end is cut off by the next write. A vector that comes again is
a new row, and the last one counts. When most rows are of the dead the living go into a new file: its number is at the
head of the list, which is replaced at once.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.storage._halves import HALF, floats
from headwater.types import Ids, Matrix

LIST_FILE: Final = "exact.ids"
ROWS_FILE: Final = "exact-{}.f16"
ROWS_FILES: Final = "exact-*.f16"
# What the list begins with: how many dimensions a row has, and the number of the file of rows.
HEAD: Final = 2
NUMBER: Final = np.dtype("<i8")
# The living move when there are twice as many rows, but never for a file that is small anyway.
MOSTLY_DEAD: Final = 2
WORTH_MOVING: Final = 4096
# Rows copied at a time.
PIECE: Final = 16_384

_Places = npt.NDArray[np.intp]
_Halves = npt.NDArray[np.float16]


class _Seen(NamedTuple):
    """The list as it was read: ids in order, where their rows are, and the rows."""

    serial: int
    length: int
    ids: Ids
    places: _Places | None  # None: the n-th id has the n-th row
    rows: _Halves


class ExactRows:
    """The copy in a folder. One process writes; any number read, each what was there when it last loaded."""

    def __init__(self, folder: Path, *, dim: int) -> None:
        self.folder, self.dim = folder, dim
        self._seen: _Seen | None = None
        self._new: list[tuple[Ids, _Halves]] = []
        self._anew = False  # what is there counts for nothing

    def load(self) -> None:
        """See what was last written."""
        if not self._new and not self._anew:
            self._seen = self._read()

    def of(self, ids: Ids) -> tuple[npt.NDArray[np.bool_], Matrix]:
        """Which of these are known, and the vectors of those, in the same order."""
        seen = self._seen
        if seen is None or not len(seen.ids):
            return np.zeros(len(ids), dtype=np.bool_), np.empty((0, self.dim), dtype=np.float32)
        known, rows = _looked_up(seen, ids)
        return known, floats(rows)

    # ------------------------------------------------------------------------------------------ writing

    def add(self, ids: Ids, rows: Matrix) -> None:
        """Keep these for the next `write`."""
        self._new.append((ids, rows[:, : self.dim].astype(HALF)))

    def clear(self) -> None:
        """Drop everything with the next `write`."""
        self._seen, self._new, self._anew = None, [], True

    def forget(self) -> None:
        """Drop what was not written."""
        self._seen, self._new, self._anew = None, [], False

    def write(self, held: Ids) -> None:
        """Make what was added durable. `held` is what the index has, in order: all else is of the dead."""
        if not self._new and not self._anew:
            return
        seen = None if self._anew else self._current()
        coming = sum(len(ids) for ids, _ in self._new)
        if seen is None:
            self._begin(self._new)
        elif seen.length + coming > max(WORTH_MOVING, MOSTLY_DEAD * len(held)):
            self._begin([*self._living(seen, held), *self._new])
        else:
            self._append(seen)
        self._new, self._anew = [], False

    def _current(self) -> _Seen | None:
        """What is on disk, read only where it is not what was seen last: who writes one document should not wait."""
        seen = self._seen
        if seen is not None:
            with suppress(FileNotFoundError), (self.folder / LIST_FILE).open("rb") as told:
                head = np.frombuffer(told.read(HEAD * NUMBER.itemsize), dtype=NUMBER)
                count = os.fstat(told.fileno()).st_size // NUMBER.itemsize - HEAD
                if head.tolist() == [self.dim, seen.serial] and count == seen.length:
                    return seen
        return self._read()

    def _append(self, seen: _Seen) -> None:
        own = self.folder / ROWS_FILE.format(seen.serial)
        with own.open("r+b") as rows:
            _end_at(rows, seen.length * self.dim * HALF.itemsize)
            _write_rows(rows.fileno(), [some for _, some in self._new])
        new = np.concatenate([ids for ids, _ in self._new])
        with (self.folder / LIST_FILE).open("r+b") as told:
            _end_at(told, (HEAD + seen.length) * NUMBER.itemsize)
            told.write(new.astype(NUMBER).tobytes())
        in_order = seen.places is None and (not seen.length or seen.ids[-1] < new[0]) and (new[1:] > new[:-1]).all()
        if in_order:
            ids = np.concatenate((seen.ids, new))
            self._seen = _Seen(seen.serial, len(ids), ids, None, self._mapped(seen.serial, len(ids)))
        else:
            self._seen = self._read()

    def _living(self, seen: _Seen, held: Ids) -> list[tuple[Ids, _Halves]]:
        """What of the rows is held by the index and does not come anew."""
        fresh = np.concatenate([ids for ids, _ in self._new])
        kept = held[np.isin(held, seen.ids) & ~np.isin(held, fresh)]
        pieces = [kept[start : start + PIECE] for start in range(0, len(kept), PIECE)]
        return [(piece, _looked_up(seen, piece)[1]) for piece in pieces]

    def _begin(self, pieces: list[tuple[Ids, _Halves]]) -> None:
        """A new file of rows with a list of its own, and the ones before it gone."""
        self.folder.mkdir(parents=True, exist_ok=True)
        serial = self._unused()
        own = self.folder / ROWS_FILE.format(serial)
        with own.open("wb") as rows:
            _write_rows(rows.fileno(), [some for _, some in pieces])
        fresh = self.folder / f"{LIST_FILE}.new"
        head = np.array([self.dim, serial], dtype=np.int64)
        with fresh.open("wb") as told:
            told.write(np.concatenate([head, *(ids for ids, _ in pieces)]).astype(NUMBER).tobytes())
            told.flush()
            os.fsync(told.fileno())
        fresh.replace(self.folder / LIST_FILE)
        self._seen = self._read()
        for other in self.folder.glob(ROWS_FILES):
            if other != own:
                with suppress(PermissionError):  # somebody has it mapped, where that forbids it: then the next one
                    other.unlink()

    def _unused(self) -> int:
        used = [path.stem.removeprefix("exact-") for path in self.folder.glob(ROWS_FILES)]
        return max((int(number) for number in used if number.isdecimal()), default=0) + 1

    # ------------------------------------------------------------------------------------------- reading

    def _read(self) -> _Seen | None:
        """What the list tells of; None where there is none, or one of vectors of another size."""
        try:
            told = np.fromfile(self.folder / LIST_FILE, dtype=NUMBER).astype(np.int64, copy=False)
        except FileNotFoundError:
            return None
        if len(told) < HEAD or told[0] != self.dim:
            return None
        serial, ids = int(told[1]), told[HEAD:]
        try:
            # A list that was damaged may be too long: mapped rows that are not there would end the process.
            whole = (self.folder / ROWS_FILE.format(serial)).stat().st_size // (self.dim * HALF.itemsize)
            ids = ids[:whole]
            rows = self._mapped(serial, count := len(ids))
        except FileNotFoundError:  # another process has moved the living in this moment
            return None
        if (ids[1:] > ids[:-1]).all():
            return _Seen(serial, count, ids, None, rows)
        order = np.argsort(ids, kind="stable")
        last = np.append(ids[order][1:] != ids[order][:-1], True)
        return _Seen(serial, count, ids[order][last], order[last], rows)

    def _mapped(self, serial: int, count: int) -> _Halves:
        if not count:
            return np.empty((0, self.dim), dtype=HALF)
        with (self.folder / ROWS_FILE.format(serial)).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), count * self.dim * HALF.itemsize, access=mmap.ACCESS_READ)
        if hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_RANDOM)  # or a disk reads a hundred rows around each that is asked for
        return np.frombuffer(mapped, dtype=HALF).reshape(count, self.dim)


def _looked_up(seen: _Seen, ids: Ids) -> tuple[npt.NDArray[np.bool_], _Halves]:
    found = seen.ids.searchsorted(ids).clip(max=len(seen.ids) - 1)
    known = seen.ids[found] == ids
    places = found if seen.places is None else seen.places[found]
    return known, seen.rows.take(places if known.all() else places[known], axis=0)


def _end_at(file: IO[bytes], size: int) -> None:
    """Go there, and cut off what a crash left behind it; a file that is mapped cannot be cut everywhere."""
    if file.seek(0, os.SEEK_END) > size:
        file.truncate(size)
        file.seek(size)


def _write_rows(descriptor: int, pieces: list[_Halves]) -> None:
    """At the place where the file is, durably."""
    for piece in pieces:
        rest = np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)
