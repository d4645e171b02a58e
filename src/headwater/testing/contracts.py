"""What every index must do, as test suites: subclass one, say how your index is opened, run pytest.

class TestMyIndex(TextIndexContract):
    def open_index(self, path, shelf):
        return MyIndex(path, select=shelf.select, cutter=self.cutter)
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.errors import BackendError
from headwater.filters import ALL, NOTHING, parse
from headwater.protocols import TextIndex, VectorIndex
from headwater.selection import TICKET_BITS
from headwater.testing._shelf import (
    FILTERS,
    HOSTILE,
    Pair,
    Shelf,
    alongside,
    ids_of,
    make_visible,
    mixed_documents,
    random_rows,
)
from headwater.tokens import Cutter
from headwater.types import Vector


class TextIndexContract:
    """For a TextIndex."""

    persistent = True  # what is flushed outlives the object

    def open_index(self, path: Path, shelf: Shelf) -> TextIndex:
        """The index under test in this folder, which may not exist yet; it is opened anew several times."""
        raise NotImplementedError

    @cached_property
    def cutter(self) -> Cutter:
        """What cuts the texts; it has one word of its own."""
        return Cutter(dictionary=["涵崧科技"])

    @pytest.fixture
    def shelf(self) -> Shelf:
        return Shelf()

    @pytest.fixture
    def index(self, tmp_path: Path, shelf: Shelf) -> TextIndex:
        return self.open_index(tmp_path / "index", shelf)

    @staticmethod
    def fill(index: TextIndex, *documents: list[Pair]) -> None:
        index.add([pair for document in documents for pair in document])
        make_visible(index)

    @staticmethod
    def found(index: TextIndex, text: str, limit: int = 10) -> list[int]:
        """The tickets of what a search finds, in order."""
        return [id >> TICKET_BITS for id in ids_of(index.search(text, limit, ALL))]

    # -- life of an entry

    def test_a_new_index_is_empty(self, index: TextIndex) -> None:
        assert index.search("anything", 10, ALL) == []
        assert index.tickets() == {}
        index.refresh()
        index.flush()
        assert index.search("anything", 10, ALL) == []

    def test_added_is_found_after_flush_and_refresh(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "the heron waits", "by the river"), shelf.put(2, "a fox runs"))
        assert ids_of(index.search("heron", 10, ALL)) == [1 << TICKET_BITS]
        assert ids_of(index.search("rivers", 10, ALL)) == [1 << TICKET_BITS | 1]
        assert index.tickets() == {1: 2, 2: 1}

    def test_adding_twice_changes_nothing(self, index: TextIndex, shelf: Shelf) -> None:
        pairs = [*shelf.put(1, "heron one", "heron two"), *shelf.put(2, "heron three")]
        self.fill(index, pairs)
        before = index.search("heron", 10, ALL)
        index.add(pairs)
        self.fill(index, pairs)
        assert ids_of(index.search("heron", 10, ALL)) == ids_of(before)
        assert index.tickets() == {1: 2, 2: 1}

    def test_removed_is_gone(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "heron one", "heron two"), shelf.put(2, "heron three"))
        index.remove([1])
        make_visible(index)
        assert self.found(index, "heron") == [2]
        assert index.tickets() == {2: 1}
        index.remove([2])
        make_visible(index)
        assert index.search("heron", 10, ALL) == []

    def test_removing_the_unknown_is_fine(self, index: TextIndex, shelf: Shelf) -> None:
        index.remove([7])
        index.remove([])
        self.fill(index, shelf.put(1, "heron"))
        index.remove([7, 8])
        make_visible(index)
        assert self.found(index, "heron") == [1]

    def test_removed_and_added_in_one_flush(self, index: TextIndex, shelf: Shelf) -> None:
        first = shelf.put(1, "heron")
        self.fill(index, first)
        index.remove([1])
        self.fill(index, first, shelf.put(2, "heron heron"))
        assert sorted(self.found(index, "heron")) == [1, 2]

    def test_clear_drops_everything_before_it(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "heron"))
        index.add(shelf.put(2, "heron"))
        index.clear()
        self.fill(index, shelf.put(3, "heron"))
        assert index.tickets() == {3: 1}
        assert self.found(index, "heron") == [3]

    def test_what_was_not_flushed_is_lost_and_the_rest_survives(
        self, index: TextIndex, shelf: Shelf, tmp_path: Path
    ) -> None:
        self.fill(index, shelf.put(1, "heron"))
        index.add(shelf.put(2, "heron"))
        index.release()
        index.refresh()
        assert self.found(index, "heron") == [1]
        self.fill(index, shelf.put(3, "heron and more"))
        index.close()
        if self.persistent:
            again = self.open_index(tmp_path / "index", shelf)
            assert sorted(self.found(again, "heron")) == [1, 3]
            assert again.tickets() == {1: 1, 3: 1}

    def test_a_second_reader_follows(self, index: TextIndex, shelf: Shelf, tmp_path: Path) -> None:
        if not self.persistent:
            return
        reader, early = (self.open_index(tmp_path / "index", shelf) for _ in range(2))
        assert early.search("heron", 10, ALL) == []
        self.fill(index, shelf.put(1, "heron"))
        assert self.found(reader, "heron") == [1]
        index.remove([1])
        self.fill(index, shelf.put(2, "heron"))
        for one in (reader, early):
            one.refresh()
            assert self.found(one, "heron") == [2]

    # -- order

    def test_best_first_and_at_most_limit(self, index: TextIndex, shelf: Shelf) -> None:
        filler = "river bank and reeds in the long grass"
        self.fill(index, *(shelf.put(n, " ".join(["heron"] * n) + " " + filler * (7 - n)) for n in range(1, 7)))
        found = index.search("heron", 4, ALL)
        assert self.found(index, "heron", 4) == [6, 5, 4, 3]
        assert [scored.score for scored in found] == sorted((scored.score for scored in found), reverse=True)
        assert found[0].score > found[-1].score > 0
        assert len(index.search("heron", 100, ALL)) == 6
        assert index.search("heron", 0, ALL) == []

    def test_ties_are_ordered_by_id_also_where_they_are_cut(self, index: TextIndex, shelf: Shelf) -> None:
        order = [9, 3, 40, 1, 12, 8, 5, 33, 2, 21]
        for ticket in order:  # each in a flush of its own, so that nothing is in order by chance
            self.fill(index, shelf.put(ticket, "heron by the river", "a heron flew", "a heron flew"))
        flew = [ticket << TICKET_BITS | ordinal for ticket in sorted(order) for ordinal in (1, 2)]
        for limit in (1, 3, 10, 19, 20):
            assert ids_of(index.search("heron flew", limit, ALL)) == flew[:limit]

    def test_a_title_beats_tags_beats_description_beats_content_beats_address(
        self, index: TextIndex, shelf: Shelf
    ) -> None:
        plain: dict[str, Any] = {"title": "fox", "tags": ("fox",), "description": "fox", "uri": "fox"}
        self.fill(
            index,
            shelf.put(1, "fox", **{**plain, "uri": "heron"}),
            shelf.put(2, "heron", **plain),
            shelf.put(3, "fox", **{**plain, "description": "heron"}),
            shelf.put(4, "fox", **{**plain, "tags": ("heron",)}),
            shelf.put(5, "fox", **{**plain, "title": "heron"}),
        )
        assert self.found(index, "heron") == [5, 4, 3, 2, 1]

    # -- words

    def test_the_best_score_is_what_covering_all_of_a_query_would_give(self, index: TextIndex, shelf: Shelf) -> None:
        assert index.best_score("heron") == 0.0, "an empty index covers nothing"
        full = shelf.put(1, "heron river 水位 " * 20)
        self.fill(index, full, shelf.put(2, "the heron waits"), shelf.put(3, "a fox runs"))
        query = "heron river 水位"
        (best, *_) = index.search(query, 10, ALL)
        assert best.chunk_id >> TICKET_BITS == 1
        assert 0.7 < best.score / index.best_score(query) <= 1.05, "it holds every word many times"
        less = index.search("heron walrus giraffe", 10, ALL)[0].score / index.best_score("heron walrus giraffe")
        assert less < 0.3, "words that nothing holds count as not covered"
        assert index.best_score("heron heron") == index.best_score("heron")
        for odd in ("", " ", "?!", "\ud800", '"'):
            assert index.best_score(odd) >= 0.0

    def test_words_that_are_known(self, index: TextIndex, shelf: Shelf) -> None:
        assert dict(index.known(["heron"])) == {}, "an empty index knows no word"
        self.fill(index, shelf.put(1, "heron one", "a heron and a river"), shelf.put(2, "a fox runs", title="Badgers"))
        stems = [self.cutter.stem(word) for word in ("heron", "rivers", "badger", "walrus")]
        assert dict(index.known([*stems, "", "?!", "run"])) == {"heron": 2, "river": 1, "badger": 1, "run": 1}
        assert dict(index.known([])) == {}
        assert dict(index.known(["heron", "heron"])) == {"heron": 2}
        guesses = [f"{first}{second}heron" for first in "abcdefghij" for second in "abcdefghijklmnopqrst"]
        assert dict(index.known([*guesses, "heron"])) == {"heron": 2}
        index.remove([1])
        make_visible(index)
        assert "badger" in index.known(["badger"])

    def test_english_words_in_every_form(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "Rivers were running"), shelf.put(2, "ＦＵＬＬ width"))
        assert self.found(index, "river runs") == [1]
        assert self.found(index, "full") == [2]

    def test_chinese_words_and_parts_of_unknown_ones(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(
            index,
            shelf.put(1, "南京市长江大桥于一九六八年建成"),
            shelf.put(2, "珠海涵崧科技有限公司"),
            shelf.put(3, "今天天气很好"),
        )
        assert self.found(index, "长江大桥")[0] == 1
        assert self.found(index, "涵崧")[0] == 2
        assert self.found(index, "天气") == [3]

    def test_a_word_of_the_dictionary_wins_where_it_stands_whole(self, index: TextIndex, shelf: Shelf) -> None:
        scattered = "涵崧来到科技馆，崧科一词不存在，涵崧和科技各自成词，涵崧，科技"
        self.fill(
            index, shelf.put(1, scattered.replace("崧科", "")), shelf.put(2, "珠海涵崧科技有限公司的年度总结报告")
        )
        assert self.found(index, "涵崧科技")[0] == 2

    def test_traditional_finds_simplified_and_back(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "我爱中国"), shelf.put(2, "臺灣的圖書館"))
        assert self.found(index, "中國") == [1]
        assert self.found(index, "图书馆") == [2]

    def test_only_what_holds_all_of_the_words(self, index: TextIndex, shelf: Shelf) -> None:
        """Every word and pair, in the text or in the title; the order is that of the scores."""
        self.fill(
            index,
            shelf.put(1, "a heron at the river"),
            shelf.put(2, "a heron"),
            shelf.put(3, "the river", title="Heron"),
            shelf.put(4, "北京大学的河"),
            shelf.put(5, "北京的大学"),
        )

        def found(text: str, all_of: str) -> list[int]:
            return sorted(id >> TICKET_BITS for id in ids_of(index.search(text, 10, ALL, all_of=all_of)))

        assert found("herons", "heron") == [1, 2, 3]
        assert found("heron river", "river herons") == [1, 3]
        assert found("北京大学", "北京大学") == [4]
        assert found("北京大学", "北京") == [4, 5]
        assert found("heron", "heron badger") == []
        assert found("heron", "!?") == [1, 2, 3]

    def test_codes_stay_whole(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(
            index,
            shelf.put(1, "part PPR-9087 is out of stock"),
            shelf.put(2, "part PPR-9088 is in stock, 9087 pieces"),
            shelf.put(3, "written in C++ of course"),
            shelf.put(4, "written in C of course"),
        )
        assert self.found(index, "ppr-9087")[0] == 1
        assert self.found(index, "C++")[0] == 3

    def test_hostile_text_is_harmless(self, index: TextIndex, shelf: Shelf) -> None:
        documents = [shelf.put(1, "a plain pelican")]
        for ticket, text in enumerate(HOSTILE, start=2):
            documents.append(shelf.put(ticket, text, title=text, tags=(text,), description=text, uri=text))
        self.fill(index, *documents)
        for text in HOSTILE:
            found = index.search(text, 10, ALL)
            assert len(found) <= 10 and all(np.isfinite(scored.score) for scored in found), ascii(text[:20])
        assert self.found(index, "pelican") == [1]
        for text in ("a" * 10_000, "词" * 10_000, "'; DROP TABLE chunks; --"):
            assert self.found(index, text, 100), text[:20]

    # -- filters

    def test_filters_mean_what_they_mean(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, *mixed_documents(shelf, count=30))
        everything = ids_of(index.search("heron", 1_000, ALL))
        assert len(everything) == 90
        for where in map(parse, FILTERS):
            matching = shelf.allowed(where)
            allowed = [id for id in everything if id in matching]
            assert ids_of(index.search("heron", 1_000, where)) == allowed, where
            assert ids_of(index.search("heron", 5, where)) == allowed[:5], where

    def test_nothing_allowed_finds_nothing(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "heron"))
        assert index.search("heron", 10, NOTHING) == []

    def test_searches_go_on_while_others_write(self, index: TextIndex, shelf: Shelf) -> None:
        self.fill(index, shelf.put(1, "heron of old"))

        def write() -> None:
            for ticket in range(2, 22):
                self.fill(index, shelf.put(ticket, "heron of the new kind"))
                index.remove([ticket - 1] if ticket > 2 else [])

        alongside(write, lambda: self.found(index, "heron")[:1])
        assert set(self.found(index, "old")) == {1}


class VectorIndexContract:
    """For a VectorIndex."""

    persistent = True
    dim = 20

    def open_index(self, path: Path, shelf: Shelf) -> VectorIndex:
        """The index under test, of `dim` dimensions, in this folder, which may not exist yet."""
        raise NotImplementedError

    @pytest.fixture
    def shelf(self) -> Shelf:
        return Shelf()

    @pytest.fixture
    def index(self, tmp_path: Path, shelf: Shelf) -> VectorIndex:
        return self.open_index(tmp_path / "index", shelf)

    def unit(self, *coordinates: float) -> Vector:
        row = np.zeros(self.dim, dtype=np.float32)
        row[: len(coordinates)] = coordinates
        return row / max(float(np.linalg.norm(row)), 1e-9)

    def fill(self, index: VectorIndex, shelf: Shelf, documents: dict[int, list[Vector]], visible: bool = True) -> None:
        for ticket, rows in documents.items():
            shelf.put(ticket, *("text" for _ in rows), vectors=np.array(rows))
        ids = [ticket << TICKET_BITS | n for ticket, rows in documents.items() for n in range(len(rows))]
        index.add(np.array(ids, dtype=np.int64), np.array([row for rows in documents.values() for row in rows]))
        if visible:
            make_visible(index)

    def found(self, index: VectorIndex, vector: Vector, limit: int = 10) -> list[int]:
        return [id >> TICKET_BITS for id in ids_of(index.search(vector, limit, ALL))]

    def test_a_new_index_is_empty(self, index: VectorIndex) -> None:
        assert index.search(self.unit(1), 10, ALL) == []
        assert index.tickets() == {}
        make_visible(index)
        assert index.search(self.unit(1), 10, ALL) == []

    def test_best_first_by_cosine_and_at_most_limit(self, index: VectorIndex, shelf: Shelf) -> None:
        rows = {n: [self.unit(np.cos(n / 10), np.sin(n / 10))] for n in (3, 1, 15, 7)}
        self.fill(index, shelf, rows)
        found = index.search(self.unit(1), 10, ALL)
        assert [id >> TICKET_BITS for id in ids_of(found)] == [1, 3, 7, 15]
        assert [scored.score for scored in found] == pytest.approx([np.cos(n / 10) for n in (1, 3, 7, 15)], abs=1e-3)
        assert self.found(index, self.unit(1), 2) == [1, 3]
        assert self.found(index, self.unit(5), 2) == [1, 3]
        assert index.search(self.unit(1), 0, ALL) == []

    def test_ties_are_ordered_by_id_also_where_they_are_cut(self, index: VectorIndex, shelf: Shelf) -> None:
        order = [9, 3, 700, 1, 12, 8, *range(100, 600)]
        for some in (order[:3], order[3:5], order[5:]):
            self.fill(index, shelf, {ticket: [self.unit(1, 1)] for ticket in some})
        for limit in (1, 4, 506):
            assert self.found(index, self.unit(1), limit) == sorted(order)[:limit]

    def test_adding_twice_and_removing(self, index: VectorIndex, shelf: Shelf) -> None:
        documents = {1: [self.unit(1), self.unit(0, 1)], 2: [self.unit(1, 1)]}
        for _ in range(2):
            self.fill(index, shelf, documents, visible=False)
            self.fill(index, shelf, documents)
            assert index.tickets() == {1: 2, 2: 1}
            assert self.found(index, self.unit(1)) == [1, 2, 1]
        index.remove([1, 77])
        index.remove([])
        make_visible(index)
        assert index.tickets() == {2: 1}
        assert self.found(index, self.unit(1)) == [2]

    def test_clear_drops_everything_before_it(self, index: VectorIndex, shelf: Shelf) -> None:
        self.fill(index, shelf, {1: [self.unit(1)]})
        index.clear()
        self.fill(index, shelf, {2: [self.unit(1)]})
        assert index.tickets() == {2: 1}

    def test_zero_vectors(self, index: VectorIndex, shelf: Shelf) -> None:
        self.fill(index, shelf, {1: [self.unit(), self.unit(1)]})
        assert index.search(self.unit(), 10, ALL) == []
        assert ids_of(index.search(self.unit(1), 10, ALL)) == [1 << TICKET_BITS | 1, 1 << TICKET_BITS]

    def test_wrong_vectors_are_refused(self, index: VectorIndex, shelf: Shelf) -> None:
        self.fill(index, shelf, {1: [self.unit(1)]})
        one = np.array([2 << TICKET_BITS], dtype=np.int64)
        with pytest.raises(BackendError, match=f"{self.dim}.*{self.dim + 1}"):
            index.add(one, np.ones((1, self.dim + 1), dtype=np.float32))
        with pytest.raises(BackendError, match="NaN"):
            index.add(one, np.full((1, self.dim), np.nan, dtype=np.float32))
        with pytest.raises(BackendError, match=f"{self.dim}.*{self.dim + 1}"):
            index.search(np.ones(self.dim + 1, dtype=np.float32), 10, ALL)
        make_visible(index)
        assert index.tickets() == {1: 1}

    def test_what_was_not_flushed_is_lost_and_the_rest_survives(
        self, index: VectorIndex, shelf: Shelf, tmp_path: Path
    ) -> None:
        self.fill(index, shelf, {1: [self.unit(1)]})
        self.fill(index, shelf, {2: [self.unit(1)]}, visible=False)
        index.release()
        index.refresh()
        assert self.found(index, self.unit(1)) == [1]
        self.fill(index, shelf, {3: [self.unit(1)]})
        index.close()
        if self.persistent:
            again = self.open_index(tmp_path / "index", shelf)
            assert self.found(again, self.unit(1)) == [1, 3]

    def test_a_second_reader_follows(self, index: VectorIndex, shelf: Shelf, tmp_path: Path) -> None:
        if not self.persistent:
            return
        reader, early = (self.open_index(tmp_path / "index", shelf) for _ in range(2))
        assert early.search(self.unit(1), 10, ALL) == []
        self.fill(index, shelf, {1: [self.unit(1)]})
        assert self.found(reader, self.unit(1)) == [1]
        index.remove([1])
        self.fill(index, shelf, {2: [self.unit(1)]})
        for one in (reader, early):
            one.refresh()
            assert self.found(one, self.unit(1)) == [2]
        # Whoever writes next goes on from there.
        self.fill(reader, shelf, {3: [self.unit(1)]})
        index.refresh()
        assert self.found(index, self.unit(1)) == [2, 3]

    def test_filters_mean_what_they_mean(self, index: VectorIndex, shelf: Shelf) -> None:
        rows = random_rows(90, self.dim)
        documents = mixed_documents(shelf, count=30, vectors=rows)
        index.add(np.array([chunk.id for pairs in documents for chunk, _ in pairs], dtype=np.int64), rows)
        make_visible(index)
        everything = ids_of(index.search(rows[0], 1_000, ALL))
        assert len(everything) == 90
        for where in map(parse, FILTERS):
            matching = shelf.allowed(where)
            allowed = [id for id in everything if id in matching]
            assert ids_of(index.search(rows[0], 1_000, where)) == allowed, where
            assert ids_of(index.search(rows[0], 5, where)) == allowed[:5], where
        assert index.search(rows[0], 5, NOTHING) == []

    def test_searches_go_on_while_others_write(self, index: VectorIndex, shelf: Shelf) -> None:
        rows = random_rows(600, self.dim)
        self.fill(index, shelf, {1: [self.unit(1)], **{n: [rows[n]] for n in range(100, 600)}})

        def write() -> None:
            for ticket in range(2, 42):
                self.fill(index, shelf, {ticket: [*rows[:30]]})
                index.remove([ticket - 1] if ticket > 2 else [])

        alongside(write, lambda: self.found(index, self.unit(1), 1))
        assert self.found(index, self.unit(1), 1) == [1]
