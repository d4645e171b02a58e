"""The mapped copy of exact vectors: what it knows is right, whatever a crash, a reader or another size left there."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import DiskFull
from headwater.filters import Compare
from headwater.selection import TICKET_BITS, Selection
from headwater.storage import _exact_rows
from headwater.storage._exact_rows import LIST_FILE, ROWS_FILE, ROWS_FILES, ExactRows
from headwater.storage._halves import HALF, floats
from headwater.storage.vectors import TurbovecIndex
from headwater.testing._shelf import random_rows
from headwater.types import Ids, Matrix

DIM = 24
ANYBODY = Compare("owner", "=", "local")


def ids(*numbers: int) -> Ids:
    return np.array(numbers, dtype=np.int64)


def written(folder: Path, numbers: Ids, rows: Matrix, *, held: Ids | None = None) -> ExactRows:
    made = ExactRows(folder, dim=rows.shape[1])
    made.load()
    made.add(numbers, rows)
    made.write(numbers if held is None else held)
    return made


def loaded(folder: Path, dim: int = DIM) -> ExactRows:
    made = ExactRows(folder, dim=dim)
    made.load()
    return made


def halves(rows: Matrix) -> Matrix:
    return rows.astype(np.float16).astype(np.float32)


def test_every_half_float_is_the_same_number() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(HALF)
    finite = every[np.isfinite(every)]
    found = floats(finite.reshape(2, -1))
    assert found.dtype == np.float32
    assert found.ravel().tolist() == finite.astype(np.float64).tolist()
    assert np.signbit(found.ravel()).tolist() == np.signbit(finite).tolist()


def test_what_was_written_is_known_to_whoever_loads_it(tmp_path: Path) -> None:
    rows = random_rows(5, DIM)
    own = written(tmp_path, ids(10, 20, 30, 40, 50), rows)
    for copy in (own, loaded(tmp_path)):
        known, found = copy.of(ids(50, 11, 10))
        assert known.tolist() == [True, False, True]
        assert np.array_equal(found, halves(rows[[4, 0]]))


def test_what_was_not_written_is_not_known(tmp_path: Path) -> None:
    copy = ExactRows(tmp_path, dim=DIM)
    copy.add(ids(1), random_rows(1, DIM))
    assert copy.of(ids(1))[0].tolist() == [False]
    copy.forget()
    copy.write(ids())
    assert not (tmp_path / LIST_FILE).exists()


def test_ids_may_come_in_any_order_and_the_last_of_one_counts(tmp_path: Path) -> None:
    first, second = random_rows(3, DIM), random_rows(3, DIM) * 0.5
    copy = written(tmp_path, ids(30, 40, 50), first)
    copy.add(ids(10, 40, 60), second)
    copy.write(ids(10, 30, 40, 50, 60))
    for one in (copy, loaded(tmp_path)):
        known, found = one.of(ids(10, 30, 40, 50, 60))
        assert known.all()
        assert np.array_equal(found, halves(np.stack([second[0], first[0], second[1], first[2], second[2]])))


def test_a_reader_sees_what_came_since_when_it_loads(tmp_path: Path) -> None:
    rows = random_rows(4, DIM)
    writer = written(tmp_path, ids(1, 2), rows[:2])
    reader = loaded(tmp_path)
    writer.add(ids(3, 4), rows[2:])
    writer.write(ids(1, 2, 3, 4))
    assert reader.of(ids(1, 3))[0].tolist() == [True, False]
    reader.load()
    assert np.array_equal(reader.of(ids(3, 1))[1], halves(rows[[2, 0]]))


@pytest.mark.parametrize("rest", [b"\1", b"\1" * 100, b"\1" * DIM * 2 * 7])
def test_rows_that_a_crash_left_behind_the_list_are_written_over(tmp_path: Path, rest: bytes) -> None:
    rows = random_rows(3, DIM)
    written(tmp_path, ids(1, 2), rows[:2])
    with (tmp_path / ROWS_FILE.format(1)).open("ab") as file:
        file.write(rest)
    written(tmp_path, ids(3), rows[2:], held=ids(1, 2, 3))
    assert (tmp_path / ROWS_FILE.format(1)).stat().st_size == 3 * DIM * 2
    assert np.array_equal(loaded(tmp_path).of(ids(1, 2, 3))[1], halves(rows))


def test_a_list_that_was_cut_in_an_id_ends_before_it(tmp_path: Path) -> None:
    rows = random_rows(3, DIM)
    written(tmp_path, ids(1, 2), rows[:2])
    with (tmp_path / LIST_FILE).open("r+b") as file:
        file.truncate((2 + 2) * 8 - 3)
    assert loaded(tmp_path).of(ids(1, 2))[0].tolist() == [True, False]
    written(tmp_path, ids(3), rows[2:], held=ids(1, 3))
    known, found = loaded(tmp_path).of(ids(1, 2, 3))
    assert known.tolist() == [True, False, True]
    assert np.array_equal(found, halves(rows[[0, 2]]))


def test_a_list_that_is_longer_than_its_rows_is_believed_as_far_as_they_go(tmp_path: Path) -> None:
    rows = random_rows(3, DIM)
    written(tmp_path, ids(1, 2, 3), rows)
    with (tmp_path / ROWS_FILE.format(1)).open("r+b") as file:
        file.truncate(2 * DIM * 2 + 5)
    known, found = loaded(tmp_path).of(ids(1, 2, 3))
    assert known.tolist() == [True, True, False]
    assert np.array_equal(found, halves(rows[:2]))


def test_a_copy_of_another_size_or_without_its_rows_is_none(tmp_path: Path) -> None:
    written(tmp_path, ids(1), random_rows(1, DIM))
    assert loaded(tmp_path, DIM + 8).of(ids(1))[0].tolist() == [False]
    again = random_rows(1, DIM + 8)
    written(tmp_path, ids(1), again)
    assert np.array_equal(loaded(tmp_path, DIM + 8).of(ids(1))[1], halves(again))
    assert [path.name for path in tmp_path.glob(ROWS_FILES)] == [ROWS_FILE.format(2)]
    (tmp_path / ROWS_FILE.format(2)).unlink()
    assert loaded(tmp_path, DIM + 8).of(ids(1))[0].tolist() == [False]


def test_the_living_move_when_most_rows_are_of_the_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exact_rows, "WORTH_MOVING", 10)
    monkeypatch.setattr(_exact_rows, "PIECE", 3)
    rows = random_rows(21, DIM)
    writer = written(tmp_path, np.arange(20, dtype=np.int64), rows[:20])
    before = loaded(tmp_path)
    held = ids(3, 4, 8, 15, 16, 100)
    writer.add(ids(4, 100), rows[[20, 0]])
    writer.write(held)
    assert [path.name for path in tmp_path.glob(ROWS_FILES)] == [ROWS_FILE.format(2)]
    assert (tmp_path / ROWS_FILE.format(2)).stat().st_size == 6 * DIM * 2
    expected = halves(rows[[3, 20, 8, 15, 16, 0]])
    for copy in (writer, loaded(tmp_path)):
        known, found = copy.of(held)
        assert known.all()
        assert np.array_equal(found, expected)
        assert not copy.of(ids(0, 5, 19))[0].any()
    # Who had mapped the rows before goes on with what it knows.
    assert np.array_equal(before.of(ids(4, 19))[1], halves(rows[[4, 19]]))
    before.load()
    assert np.array_equal(before.of(held)[1], expected)


# ---------------------------------------------------------------------------------------- in an index


class _Catalog:
    """Counts what is asked of it: the copy is there to spare it."""

    def __init__(self, rows: Matrix) -> None:
        self.rows, self.asked = rows, 0

    def exact(self, wanted: list[int]) -> tuple[Ids, Matrix]:
        self.asked += len(wanted)
        numbers = np.array(wanted, dtype=np.int64)
        return numbers, halves(self.rows[(numbers >> TICKET_BITS) - 1])

    def select(self, _: object) -> Selection:
        return Selection.of_tickets(np.arange(1, len(self.rows) + 1))


def _index(folder: Path, catalog: _Catalog) -> TurbovecIndex:
    return TurbovecIndex(folder, dim=DIM, select=catalog.select, exact=catalog.exact)


def _filled(folder: Path, catalog: _Catalog) -> TurbovecIndex:
    index = _index(folder, catalog)
    index.add(np.arange(1, len(catalog.rows) + 1, dtype=np.int64) << TICKET_BITS, catalog.rows)
    index.flush()
    return index


def test_the_copy_gives_the_same_order_as_the_catalog(tmp_path: Path) -> None:
    catalog = _Catalog(random_rows(900, DIM))
    written_here = _filled(tmp_path / "index", catalog)
    opened = _index(tmp_path / "index", catalog)
    queries = random_rows(10, DIM)
    found = [[index.search(query, 20, ANYBODY) for query in queries] for index in (written_here, opened)]
    assert catalog.asked == 0
    for path in (tmp_path / "index").glob("exact*"):
        path.unlink()
    # As an index of a release without a copy.
    found.append([_index(tmp_path / "index", catalog).search(query, 20, ANYBODY) for query in queries])
    assert catalog.asked > 0
    assert found[0] == found[1] == found[2]


def test_what_the_copy_lacks_comes_from_the_catalog(tmp_path: Path) -> None:
    catalog = _Catalog(random_rows(900, DIM))
    whole = _filled(tmp_path / "whole", catalog)
    _filled(tmp_path / "part", catalog)
    with (tmp_path / "part" / LIST_FILE).open("r+b") as file:
        file.truncate((2 + 450) * 8)
    part = _index(tmp_path / "part", catalog)
    for query in random_rows(10, DIM):
        assert part.search(query, 20, ANYBODY) == whole.search(query, 20, ANYBODY)
    assert 0 < catalog.asked < 10 * 160


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = _Catalog(random_rows(600, DIM))
    index = _index(tmp_path / "index", catalog)
    index.add(np.arange(1, 601, dtype=np.int64) << TICKET_BITS, catalog.rows)
    write = os.write

    def fails(descriptor: int, data: bytes) -> int:
        write(descriptor, bytes(data)[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", fails)
        with pytest.raises(DiskFull, match="free some"):
            index.flush()
    index.flush()
    again = _index(tmp_path / "index", catalog)
    assert len(again.search(catalog.rows[7], 5, ANYBODY)) == 5
    assert again.search(catalog.rows[7], 1, ANYBODY)[0].chunk_id == 8 << TICKET_BITS
    assert catalog.asked == 0
