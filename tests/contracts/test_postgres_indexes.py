"""The indexes in PostgreSQL: what every index must do, and what only these can get wrong."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from headwater.errors import BackendError, HomeDamaged, SettingError, UsageError
from headwater.filters import ALL, Compare
from headwater.protocols import TextIndex, VectorIndex
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._postgres_vector_table import CLASSES
from headwater.storage.memory import MemoryTextIndex
from headwater.storage.postgres_text import PostgresTextIndex
from headwater.storage.postgres_vectors import PostgresVectorIndex
from headwater.testing._shelf import Shelf, alongside, ids_of, make_visible, random_rows
from headwater.testing.contracts import TextIndexContract, VectorIndexContract


class InDatabase:
    """Every test has a database of its own; what it opened is closed."""

    url: str
    opened: list[Any]

    @pytest.fixture(autouse=True)
    def database(self, postgres_url: str) -> Iterator[None]:
        self.url, self.opened = postgres_url, []
        yield
        for index in self.opened:
            index.close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, options="-c search_path=headwater") as connection:
            return connection.execute(sql.encode()).fetchall()

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.url, options="-c search_path=headwater") as connection:
            connection.execute(sql.encode())

    def tables(self) -> list[str]:
        return [name for (name,) in self.rows("select tablename from pg_tables where schemaname = 'headwater'")]


class TestText(InDatabase, TextIndexContract):
    def open_index(self, path: Path, shelf: Shelf, **settings: Any) -> TextIndex:
        given = {"select": shelf.select, "cutter": self.cutter, "url": self.url, **settings}
        self.opened.append(PostgresTextIndex(path.with_name("text-1"), **given))
        return self.opened[-1]

    def test_a_reader_may_not_write_and_makes_nothing(self, tmp_path: Path, shelf: Shelf) -> None:
        reader = self.open_index(tmp_path / "index", shelf, writable=False)
        assert reader.search("heron", 10, ALL) == [] and reader.best_score("heron") == 0.0
        for write in (lambda: reader.add(shelf.put(1, "heron")), lambda: reader.remove([1]), reader.clear):
            with pytest.raises(UsageError, match="writable"):
                write()
        assert self.tables() == [] and not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "setting", [{"k1": -1.0}, {"b": 1.5}, {"boosts": {"titel": 2.0}}, {"lanes": {"words": -1.0}}]
    )
    def test_settings_that_cannot_be(self, tmp_path: Path, setting: dict[str, object]) -> None:
        with pytest.raises(SettingError, match=next(iter(setting))):
            self.open_index(tmp_path / "index", Shelf(), **setting)
        with pytest.raises(SettingError, match="text-1"):
            PostgresTextIndex(tmp_path / "index", select=Shelf().select, cutter=self.cutter, url=self.url)

    def test_k1_b_and_boosts_are_settings(self, tmp_path: Path, shelf: Shelf) -> None:
        rows = [shelf.put(1, "heron heron river", title="x"), shelf.put(2, "heron"), shelf.put(3, "fox", title="heron")]
        seen = set()
        for number, setting in enumerate([{}, {"k1": 0.0}, {"k1": 1.5, "b": 1.0}, {"boosts": {"title": 0.0}}]):
            index = self.open_index(tmp_path / "index", shelf, schema=f"home_{number}", **setting)
            reference = MemoryTextIndex(cutter=self.cutter, **setting)  # type: ignore[arg-type]
            for one in (index, reference):
                self.fill(one, *rows)
            found, wanted = index.search("heron", 10, ALL), reference.search("heron", 10, ALL)
            assert ids_of(found) == ids_of(wanted)
            assert [one.score for one in found] == pytest.approx([one.score for one in wanted], rel=1e-12)
            seen.add(tuple(round(one.score, 6) for one in found))
        assert len(seen) == 4

    @pytest.mark.parametrize("kept", [1, 5_000])
    def test_nobody_sees_what_was_not_flushed(
        self, index: TextIndex, shelf: Shelf, tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headwater.storage.postgres_text.MOST_KEPT", kept)
        self.fill(index, shelf.put(1, "heron"))
        other = self.open_index(tmp_path / "index", shelf)
        index.add(shelf.put(2, "heron"))
        index.remove([1])
        index.add(shelf.put(3, "heron"))
        for one in (index, other):
            one.refresh()
            assert self.found(one, "heron") == [1] and one.tickets() == {1: 1}
        make_visible(index)
        other.refresh()
        assert sorted(self.found(other, "heron")) == [2, 3]

    @pytest.mark.parametrize("kept", [1, 5_000])
    def test_an_index_that_is_made_anew_is_seen_when_it_is_done(
        self, index: TextIndex, shelf: Shelf, tmp_path: Path, kept: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headwater.storage.postgres_text.MOST_KEPT", kept)
        self.fill(index, shelf.put(1, "heron"))
        other = self.open_index(tmp_path / "index", shelf)
        index.clear()
        index.add(shelf.put(2, "heron"))
        assert self.found(index, "heron") == self.found(other, "heron") == [1]
        index.release()
        make_visible(index)
        assert self.found(other, "heron") == [1], "given up"
        index.clear()
        self.fill(index, shelf.put(3, "heron"), shelf.put(4, "heron"))
        assert self.found(other, "heron") == [3, 4]
        assert sorted(self.tables()) == ["text_1_documents", "text_1_postings", "text_1_statistics"]

    def test_searches_go_on_while_it_is_made_anew(self, index: TextIndex, shelf: Shelf, tmp_path: Path) -> None:
        rows = [shelf.put(1, "heron"), shelf.put(2, "heron")]
        self.fill(index, *rows)
        reader = self.open_index(tmp_path / "index", shelf, writable=False)

        def write() -> None:
            for _ in range(15):
                index.clear()
                self.fill(index, *rows)

        alongside(write, lambda: self.found(reader, "heron"))

    def test_spaces_and_schemas_are_apart(self, index: TextIndex, shelf: Shelf, tmp_path: Path) -> None:
        others = [
            self.open_index(tmp_path / "index", shelf, schema="another"),
            PostgresTextIndex(Path("text-2"), select=shelf.select, cutter=self.cutter, url=self.url),
        ]
        self.opened.append(others[1])
        for ticket, one in enumerate([index, *others], start=1):
            self.fill(one, shelf.put(ticket, "heron"))
        for ticket, one in enumerate([index, *others], start=1):
            assert self.found(one, "heron") == [ticket] and one.tickets() == {ticket: 1}
        others[1].drop()
        assert others[1].search("heron", 10, ALL) == [] and self.found(index, "heron") == [1]
        assert all(name.startswith("text_1_") for name in self.tables())

    def test_only_the_spaces_that_are_left_are_kept(self, index: TextIndex, shelf: Shelf) -> None:
        for number in (2, 12):
            other = PostgresTextIndex(Path(f"text-{number}"), select=shelf.select, cutter=self.cutter, url=self.url)
            self.opened.append(other)
            self.fill(other, shelf.put(number, "heron"))
        self.fill(index, shelf.put(1, "heron"))
        self.execute("create table text_of_somebody (id integer); create table vectors_2 (id integer)")
        index.keep_only([1, 12])  # type: ignore[attr-defined]
        left = {name.rpartition("_")[0] for name in self.tables()}
        assert left == {"text_1", "text_12", "text_of", "vectors"}
        assert self.found(index, "heron") == [1] and self.found(other, "heron") == [12]

    def test_what_is_removed_leaves_nothing(
        self, index: TextIndex, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.fill(index, *(shelf.put(ticket, f"heron {ticket}", "北京大学", title="t") for ticket in range(1, 30)))
        assert self.rows("select count(*) from text_1_postings") != [(0,)]
        monkeypatch.setattr("headwater.storage.postgres_text.REMOVED_AT_ONCE", 7)
        index.remove(range(1, 30))  # type: ignore[arg-type]
        make_visible(index)
        for table in ("postings", "documents"):
            assert self.rows(f"select count(*) from text_1_{table}") == [(0,)]
        assert self.rows("select chunks, lengths from text_1_statistics") == [(0, [0] * 7)]

    def test_a_common_word_is_few_rows(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, *(shelf.put(ticket, *["heron"] * 10) for ticket in range(1, 201)))
        for ticket in range(201, 221):  # one by one
            self.fill(index, shelf.put(ticket, *["heron"] * 10))
        sizes = sorted(size for (size,) in self.rows("select chunks from text_1_postings where chunks > 100"))
        # The word, and the document's uri, in blocks of some hundred chunks.
        assert sum(sizes) == 2 * 2_200 and len(sizes) <= 12
        assert len(index.search("heron", 5_000, ALL)) == 2_200

    def test_a_word_that_stands_there_more_often_than_16_bits_can_count(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "heron " * 70_000), shelf.put(2, "heron fox"))
        reference = MemoryTextIndex(cutter=self.cutter)
        self.fill(reference, shelf.put(1, "heron " * 70_000), shelf.put(2, "heron fox"))
        for query in ("heron", "fox"):
            found, wanted = index.search(query, 10, ALL), reference.search(query, 10, ALL)
            assert ids_of(found) == ids_of(wanted)
            assert [one.score for one in found] == pytest.approx([one.score for one in wanted], rel=1e-12)

    @pytest.mark.parametrize(
        "harm",
        [
            "drop table text_1_postings",
            "drop table text_1_statistics cascade; create table text_1_statistics (format integer)",
            "update text_1_statistics set format = 0",
            "alter table text_1_postings drop column payload",
        ],
    )
    def test_damage_is_told_and_mended(self, index: TextIndex, shelf: Shelf, tmp_path: Path, harm: str) -> None:
        self.fill(index, shelf.put(1, "heron"))
        self.execute(harm)
        damaged = self.open_index(tmp_path / "index", shelf)
        for ask in (lambda: damaged.search("heron", 10, ALL), damaged.tickets):
            with pytest.raises(HomeDamaged, match="check --repair"):
                ask()
        damaged.clear()
        self.fill(damaged, shelf.put(2, "heron"))
        assert self.found(damaged, "heron") == self.found(index, "heron") == [2]

    def test_a_lost_document_is_noticed(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "heron"), shelf.put(2, "heron"))
        self.execute("delete from text_1_documents where ticket = 1")
        with pytest.raises(HomeDamaged, match=r"has 1 chunks, it counts 2.*check --repair"):
            index.tickets()


class TestVectors(InDatabase, VectorIndexContract):
    def open_index(self, path: Path, shelf: Shelf, **settings: Any) -> VectorIndex:
        given = {"dim": self.dim, "select": shelf.select, "exact": shelf.exact, "url": self.url, **settings}
        self.opened.append(PostgresVectorIndex(path.with_name("vectors-1"), **given))
        return self.opened[-1]

    def test_a_reader_may_not_write_and_makes_nothing(self, tmp_path: Path, shelf: Shelf) -> None:
        reader = self.open_index(tmp_path / "index", shelf, writable=False)
        assert reader.search(self.unit(1), 10, ALL) == []
        one = np.array([1 << TICKET_BITS], dtype=np.int64)
        for write in (lambda: reader.add(one, self.unit(1)[None, :]), lambda: reader.remove([1]), reader.clear):
            with pytest.raises(UsageError, match="writable"):
                write()
        assert self.tables() == [] and not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "setting",
        [
            *({"m": 1}, {"m": 101}, {"ef_construction": 3}, {"ef_construction": 20}, {"ef_search": 0}),
            *({"shortlist": 0}, {"dim": 0}, {"dim": 16_001}, {"metric": "hamming"}, {"schema": 'x"; drop'}),
        ],
    )
    def test_settings_that_cannot_be(self, tmp_path: Path, setting: dict[str, object]) -> None:
        with pytest.raises(SettingError, match=next(iter(setting))):
            self.open_index(tmp_path / "index", Shelf(), **setting).tickets()

    def test_other_dimensions_must_be_rebuilt(self, index: VectorIndex, shelf: Shelf, tmp_path: Path) -> None:
        self.fill(index, shelf, {1: [self.unit(1)]})
        other = self.open_index(tmp_path / "index", shelf, dim=self.dim + 8)
        with pytest.raises(HomeDamaged, match=r"dimensions.*check --repair"):
            other.tickets()
        other.clear()
        other.add(np.array([2 << TICKET_BITS]), np.ones((1, self.dim + 8), dtype=np.float32))
        make_visible(other)
        assert other.tickets() == {2: 1}

    def test_numbers_that_16_bits_cannot_hold_are_refused(self, index: VectorIndex) -> None:
        with pytest.raises(BackendError, match="65,504"):
            index.add(np.array([1 << TICKET_BITS]), np.full((1, self.dim), 7e4, dtype=np.float32))

    def test_the_dead_are_left_out_and_replaced_by_the_next_best(self, index: VectorIndex, shelf: Shelf) -> None:
        near = [self.unit(1, 0.001 * n) for n in range(1_000)]
        self.fill(index, shelf, {1: near, 2: [*random_rows(2_000, self.dim)]})
        shelf.take_off(1)
        found = index.search(self.unit(1), 10, ALL)
        assert len(found) == 10
        assert {id >> TICKET_BITS for id in ids_of(found)} == {2}

    @pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
    def test_every_metric_orders_by_its_own_definition(self, tmp_path: Path, shelf: Shelf, metric: str) -> None:
        random = np.random.default_rng(7)
        rows = (random.standard_normal((300, self.dim)) * random.uniform(0.2, 4, (300, 1))).astype(np.float16)
        query = random.standard_normal(self.dim).astype(np.float32)
        exact = rows.astype(np.float64)
        scores = {
            "cosine": exact @ query / np.linalg.norm(exact, axis=1),
            "ip": exact @ query,
            "l2": -np.linalg.norm(exact - query, axis=1),
        }[metric]
        index = self.open_index(tmp_path / "index", shelf, metric=metric, shortlist=20)
        self.fill(index, shelf, {1: [*rows.astype(np.float32)]})
        best = [int(place) for place in np.argsort(-scores)[:10]]
        assert [id & 0xFFFFF for id in ids_of(index.search(query, 10, ALL))] == best

    def test_dimensions_above_those_of_a_graph_are_compared(
        self, tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headwater.storage.postgres_vectors.INDEX_FROM", 1)
        rows = random_rows(20, 4_100)
        index = self.open_index(tmp_path / "index", shelf, dim=4_100)
        self.fill(index, shelf, {n: [row] for n, row in enumerate(rows, start=1)})
        index.release()
        assert self.rows("select indexname from pg_indexes where indexdef like '%%hnsw%%'") == []
        for n, row in enumerate(rows, start=1):
            assert self.found(index, row, 1) == [n]

    # -- the graph

    GRAPH = "select indexdef from pg_indexes where schemaname = 'headwater' and indexdef like '%hnsw%'"

    @pytest.fixture
    def graph(self, tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> VectorIndex:
        """Of 3,000 vectors, which are enough for one; of more than 100 allowed ones the graph is asked."""
        monkeypatch.setattr("headwater.storage.postgres_vectors.INDEX_FROM", 1_000)
        monkeypatch.setattr("headwater.storage.postgres_vectors.COMPARE_ALL", 100)
        index = self.open_index(tmp_path / "index", shelf, shortlist=50)
        self.fill(index, shelf, {n: [row] for n, row in enumerate(random_rows(3_000, self.dim), start=1)})
        assert self.rows(self.GRAPH) == [], "it is made afterwards"
        index.release()
        return index

    def test_a_graph_is_made_when_a_writer_lets_go(self, graph: VectorIndex) -> None:
        ((made,),) = self.rows(self.GRAPH)
        assert "halfvec_cosine_ops" in made and "m='16'" in made and "ef_construction='128'" in made

    def test_letting_go_does_not_fail_where_a_graph_cannot_be_made(
        self, index: VectorIndex, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr("headwater.storage.postgres_vectors.INDEX_FROM", 1)
        self.fill(index, shelf, {1: [self.unit(1)]})
        with monkeypatch.context() as patch:
            patch.setitem(CLASSES, "cosine", "no_such_class")
            broken = self.open_index(Path("index"), shelf)
            self.fill(broken, shelf, {2: [self.unit(1)]})
            broken.release()
        assert "could not be made" in caplog.text and "no_such_class" in caplog.text
        assert self.rows(self.GRAPH) == [] and self.found(broken, self.unit(1)) == [1, 2]
        index.release()
        assert len(self.rows(self.GRAPH)) == 1

    def test_the_graph_finds_the_nearest_and_a_filter_loses_none(self, graph: VectorIndex, shelf: Shelf) -> None:
        rows, hits = random_rows(3_000, self.dim), {}
        for every in (1, 4, 17, 50):
            allowed = np.arange(1, 3_001, every)
            shelf.select = lambda _, allowed=allowed: Selection.of_tickets(allowed)  # type: ignore[method-assign,misc]
            index = self.open_index(Path("index"), shelf, shortlist=50)
            found = 0
            for query in random_rows(20, self.dim, seed=1):
                best = allowed[np.argsort(-(rows[allowed - 1] @ query))[:10]]
                found += len(set(best.tolist()) & set(self.found_of(index, query)))
            hits[every] = found / 200
        assert hits[1] >= 0.95 and hits[4] >= 0.95 and hits[17] >= 0.95
        assert hits[50] == 1.0, "so few are compared"

    @staticmethod
    def found_of(index: VectorIndex, query: Any) -> list[int]:
        where = Compare("tag", "=", "x")
        return [id >> TICKET_BITS for id in ids_of(index.search(query, 10, where))]

    def test_the_graph_is_really_asked(self, graph: VectorIndex, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where everything would have to be compared, this fails."""
        monkeypatch.setattr("headwater.storage._postgres_vector_table.VectorTable.compared", None)
        query = random_rows(3_000, self.dim)[1234]
        assert self.found(graph, query, 1) == [1235]
        assert len(graph.search(query, 40, ALL)) == 40

    def test_where_the_graph_leads_to_too_few_all_are_compared(self, graph: VectorIndex, shelf: Shelf) -> None:
        """Zero vectors are in no graph of angles, and the dead are in every one."""
        self.fill(graph, shelf, {4_000: [self.unit()]})
        everything = graph.search(self.unit(1), 4_000, ALL)
        assert len(everything) == 3_001
        assert {id >> TICKET_BITS: score for id, score in everything}[4_000] == 0.0

    def test_what_comes_after_the_graph_is_in_it(self, graph: VectorIndex, shelf: Shelf) -> None:
        self.fill(graph, shelf, {5_000: [self.unit(1, 1)]})
        graph.remove([7])
        make_visible(graph)
        graph.release()
        assert self.found(graph, self.unit(1, 1), 1) == [5_000]
        assert 7 not in self.found(graph, random_rows(3_000, self.dim)[6])

    def test_a_graph_can_be_made_anew_with_other_settings(self, graph: VectorIndex, shelf: Shelf) -> None:
        other = self.open_index(Path("index"), shelf, m=8, ef_construction=64)
        with closing(other):
            self.execute("create index vectors_1_cosine_new on vectors_1 (id)")  # one that was interrupted
            other.rebuild()  # type: ignore[attr-defined]
        ((made,),) = self.rows(self.GRAPH)
        assert "m='8'" in made and "ef_construction='64'" in made and "vectors_1_cosine " in made
        assert self.found(graph, random_rows(3_000, self.dim)[1234], 1) == [1235]

    # -- the extension

    def test_without_pgvector_it_says_what_to_do(
        self, tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("headwater.storage._postgres_vector_table.EXTENSION", "no_such_extension")
        index = self.open_index(tmp_path / "index", shelf)
        with pytest.raises(BackendError, match=r"pgvector.*cannot be had.*create extension vector"):
            self.fill(index, shelf, {1: [self.unit(1)]})
        monkeypatch.undo()
        self.fill(index, shelf, {1: [self.unit(1)]})
        assert index.tickets() == {1: 1}

    def test_an_old_pgvector_is_named(self, tmp_path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.storage._postgres_vector_table.LEAST_VERSION", (99, 0))
        index = self.open_index(tmp_path / "index", shelf)
        with pytest.raises(BackendError, match=r"99\.0 or newer, got '0\..*alter extension vector update"):
            self.fill(index, shelf, {1: [self.unit(1)]})

    def test_two_homes_in_one_database_share_the_extension(self, tmp_path: Path, shelf: Shelf) -> None:
        for ticket, schema in enumerate(("one", "two"), start=1):
            index = self.open_index(tmp_path / "index", shelf, schema=schema)
            self.fill(index, shelf, {ticket: [self.unit(1)]})
            assert index.tickets() == {ticket: 1}
