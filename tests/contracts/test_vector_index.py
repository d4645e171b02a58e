import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import HomeDamaged, SettingError, UsageError
from headwater.filters import ALL
from headwater.protocols import VectorIndex
from headwater.selection import TICKET_BITS
from headwater.storage.memory import MemoryVectorIndex
from headwater.storage.vectors import INDEX_FILE, MARK_FILE, TurbovecIndex
from headwater.testing._shelf import Shelf, ids_of, make_visible, random_rows
from headwater.testing.contracts import VectorIndexContract


class TestMemory(VectorIndexContract):
    persistent = False

    def open_index(self, path: Path, shelf: Shelf) -> VectorIndex:
        return MemoryVectorIndex(dim=self.dim, select=shelf.select)


class TestTurbovec(VectorIndexContract):
    def open_index(self, path: Path, shelf: Shelf) -> VectorIndex:
        return TurbovecIndex(path, dim=self.dim, select=shelf.select, exact=shelf.exact)

    def test_a_reader_may_not_write(self, tmp_path: Path, shelf: Shelf) -> None:
        reader = TurbovecIndex(tmp_path / "index", dim=self.dim, select=shelf.select, exact=shelf.exact, writable=False)
        assert reader.search(self.unit(1), 10, ALL) == []
        one = np.array([1 << TICKET_BITS], dtype=np.int64)
        for write in (lambda: reader.add(one, self.unit(1)[None, :]), lambda: reader.remove([1]), reader.clear):
            with pytest.raises(UsageError, match="writable"):
                write()
        assert not (tmp_path / "index").exists()

    @pytest.mark.parametrize("setting", [{"bits": 5}, {"shortlist": 0}, {"dim": 0}, {"metric": "hamming"}])
    def test_settings_that_cannot_be(self, tmp_path: Path, setting: dict[str, object]) -> None:
        shelf = Shelf()
        with pytest.raises(SettingError, match=next(iter(setting))):
            TurbovecIndex(tmp_path, **{"dim": 8, "select": shelf.select, "exact": shelf.exact, **setting})

    def test_the_dead_are_left_out_and_replaced_by_the_next_best(self, index: VectorIndex, shelf: Shelf) -> None:
        rows = random_rows(2_000, self.dim)
        near = [self.unit(1, 0.001 * n) for n in range(1_000)]
        self.fill(index, shelf, {1: near, 2: [*rows]})
        shelf.take_off(1)
        found = index.search(self.unit(1), 10, ALL)
        assert len(found) == 10
        assert {id >> TICKET_BITS for id in ids_of(found)} == {2}

    def test_changed_settings_must_be_rebuilt(self, index: VectorIndex, shelf: Shelf, tmp_path: Path) -> None:
        self.fill(index, shelf, {1: [self.unit(1)]})
        for setting in ({"dim": self.dim + 8}, {"dim": self.dim, "bits": 2}):
            other = TurbovecIndex(tmp_path / "index", select=shelf.select, exact=shelf.exact, **setting)
            with pytest.raises(HomeDamaged, match=r"dimensions.*check --repair"):
                other.refresh()

    @pytest.mark.parametrize("content", [b"", b"garbage", bytes(70_000), None])
    def test_a_damaged_file(self, index: VectorIndex, shelf: Shelf, tmp_path: Path, content: bytes | None) -> None:
        self.fill(index, shelf, {n: [row] for n, row in enumerate(random_rows(300, self.dim), start=1)})
        file = tmp_path / "index" / INDEX_FILE
        file.write_bytes(file.read_bytes()[:9_000] if content is None else content)
        damaged = self.open_index(tmp_path / "index", shelf)
        with pytest.raises(HomeDamaged, match="check --repair"):
            damaged.refresh()
        damaged.clear()
        self.fill(damaged, shelf, {7: [self.unit(1)]})
        assert self.open_index(tmp_path / "index", shelf).tickets() == {7: 1}

    def test_a_writer_that_died_in_a_flush_holds_nobody_up_for_long(
        self, index: VectorIndex, shelf: Shelf, tmp_path: Path
    ) -> None:
        self.fill(index, shelf, {1: [self.unit(1)]})
        (tmp_path / "index" / MARK_FILE).write_text("writing 1", "utf-8")
        started = time.monotonic()
        assert self.open_index(tmp_path / "index", shelf).tickets() == {1: 1}
        assert time.monotonic() - started < 10


class TestTwoBits(TestTurbovec):
    dim = 16

    def open_index(self, path: Path, shelf: Shelf) -> VectorIndex:
        return TurbovecIndex(path, dim=self.dim, select=shelf.select, exact=shelf.exact, bits=2)

    def test_changed_settings_must_be_rebuilt(self, index: VectorIndex, shelf: Shelf, tmp_path: Path) -> None:
        self.fill(index, shelf, {1: [self.unit(1)]})
        other = TurbovecIndex(tmp_path / "index", select=shelf.select, exact=shelf.exact, dim=self.dim)
        with pytest.raises(HomeDamaged, match="2 bits, wanted"):
            other.refresh()


WRITER = """
import sys
from pathlib import Path
import numpy as np
from headwater.storage.vectors import TurbovecIndex
from headwater.testing._shelf import Shelf, random_rows
shelf, rows = Shelf(), random_rows(50, 32)
index = TurbovecIndex(Path(sys.argv[1]), dim=32, select=shelf.select, exact=shelf.exact)
for ticket in range(int(sys.argv[2]), 10**6):
    index.add(np.arange(50, dtype=np.int64) + (ticket << 20), rows)
    if ticket % 3 == 0:
        index.remove([ticket - 2])
    index.flush()
    print(ticket, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_killed_at_any_moment_nothing_flushed_is_lost_and_readers_see_whole_indexes(tmp_path: Path) -> None:
    shelf, random, first, loads = Shelf(), np.random.default_rng(0), 1, 0
    reader = TurbovecIndex(tmp_path / "index", dim=32, select=shelf.select, exact=shelf.exact, writable=False)
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "index"), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [int(writer.stdout.readline())]
            until = time.monotonic() + float(random.uniform(0, 0.15))
            while time.monotonic() < until:
                reader.refresh()
                assert set(reader.tickets().values()) == {50}
                loads += 1
            writer.send_signal(signal.SIGKILL)
            said += [int(line) for line in writer.stdout]
        reader.refresh()
        expected = {ticket: 50 for ticket in range(1, said[-1] + 1) if ticket % 3 != 1 or ticket + 2 > said[-1]}
        # The one after the last that was told may have been flushed too, with its removal.
        after = {**expected, said[-1] + 1: 50}
        if (said[-1] + 1) % 3 == 0:
            del after[said[-1] - 1]
        assert reader.tickets() in (expected, after)
        first = max(reader.tickets()) + 1
    assert loads > 10


def test_recall_of_a_shortlist(tmp_path: Path) -> None:
    """Of 20,000 vectors in a narrow cone, where codes of few bits are at their worst."""
    spread = (1 / np.sqrt(np.arange(1, 129))).astype(np.float32)
    rows = random_rows(20_000, 128) * spread + spread[::-1] * 0.03
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    ids = np.arange(1, len(rows) + 1, dtype=np.int64) << TICKET_BITS
    places = {id: place for place, id in enumerate(ids.tolist())}

    def exact(wanted: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return np.array(wanted, dtype=np.int64), rows[[places[id] for id in wanted]]

    index = TurbovecIndex(tmp_path, dim=128, select=Shelf().select, exact=exact)
    index.add(ids, rows)
    make_visible(index)
    hits = 0
    for query in rows[::400] + random_rows(50, 128, seed=1) * np.float32(0.02):
        best = ids[np.argsort(-(rows @ query))[:10]]
        hits += len(set(best.tolist()) & set(ids_of(index.search(query, 10, ALL))))
    assert hits / 500 >= 0.97


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
def test_every_metric_orders_by_its_own_definition(metric: str, tmp_path: Path) -> None:
    shelf, random = Shelf(), np.random.default_rng(7)
    # Of different lengths: for unit vectors the three agree.
    rows = (random.standard_normal((40, 8)) * random.uniform(0.2, 4.0, (40, 1))).astype(np.float16).astype(np.float32)
    query = random.standard_normal(8).astype(np.float32)
    shelf.put(1, *(f"row {n}" for n in range(40)), vectors=rows)
    ids = (1 << TICKET_BITS) + np.arange(40)
    wanted = {
        "cosine": rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query),
        "ip": rows @ query,
        "l2": 1 / (1 + np.linalg.norm(rows - query, axis=1)),
    }
    order = {name: [int(ids[place]) for place in np.argsort(-scores)] for name, scores in wanted.items()}
    assert len(set(map(tuple, order.values()))) == 3
    turbovec = TurbovecIndex(tmp_path / "index", dim=8, select=shelf.select, exact=shelf.exact, metric=metric)
    for index in (turbovec, MemoryVectorIndex(dim=8, select=shelf.select, metric=metric)):
        index.add(ids, rows)
        make_visible(index)
        found = index.search(query, 40, ALL)
        assert ids_of(found) == order[metric]
        assert [one.score for one in found] == pytest.approx(sorted(wanted[metric], reverse=True), abs=1e-2)
