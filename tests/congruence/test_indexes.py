"""Random documents, queries and filters: tantivy, turbovec and PostgreSQL against the reference in memory.

Scores may differ in their last digits, so chunks whose reference scores are closer than that may change places; ranks
are compared by score, and what is found by membership above the cut.
"""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.filters import ALL, Compare, Contains, Filter, Has, In, Not, conjoin, disjoin
from headwater.selection import TICKET_BITS
from headwater.storage import _milvus_filter as milvus_filter
from headwater.storage import _ranking as tantivy_adapter
from headwater.storage.memory import MemoryTextIndex, MemoryVectorIndex
from headwater.storage.milvus import MilvusIndex
from headwater.storage.postgres_text import PostgresTextIndex
from headwater.storage.postgres_vectors import PostgresVectorIndex
from headwater.storage.text import TantivyIndex
from headwater.storage.vectors import TurbovecIndex
from headwater.testing._shelf import Pair, Shelf, ids_of, make_visible
from headwater.testing.milvus_server import MilvusServer
from headwater.testing.postgres_server import PostgresServer
from headwater.tokens import Cutter
from headwater.types import Matrix, Scored, Vector

DIM = 12
CUTTER = Cutter(dictionary=["东湖", "river bank"])

WORDS = [
    "heron",
    "river",
    "rivers",
    "bank",
    "PPR-9087",
    "C++",
    "3.14",
    "北京",
    "大学",
    "北京大学",
    "东湖",
    "湖东",
    "的",
]
# At most 30 words of at most 4 terms each: lengths up to 40 are exact in tantivy, and longer ones are tested apart.
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
queries = st.lists(st.sampled_from([*WORDS, "unknown", "湖", "ppr"]), max_size=6).map(" ".join)
tags = st.lists(st.sampled_from(["red", "blue", "heron"]), max_size=2, unique=True).map(tuple)
sections = st.sampled_from(["", "Methods", "Methods > Data", "结果"])

passages = st.fixed_dictionaries(
    {"text": texts, "section": sections, "pages": st.sampled_from([(), (1,), (2, 3)]), "code": st.booleans()}
)
documents = st.fixed_dictionaries(
    {
        "passages": st.lists(passages, min_size=1, max_size=4),
        "title": texts,
        "description": texts,
        "tags": tags,
        "owner": st.sampled_from(["ann", "bob"]),
        "archived": st.booleans(),
        "year": st.integers(2020, 2023),
    }
)
libraries = st.lists(documents, min_size=1, max_size=12)

leaves: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Compare, st.just("tag"), st.sampled_from(["=", "!="]), st.sampled_from(["red", "blue"])),
    st.builds(Compare, st.just("page"), st.sampled_from(["=", ">=", "<", "!="]), st.integers(1, 3)),
    st.builds(Compare, st.just("year"), st.sampled_from(["=", ">=", "<"]), st.integers(2020, 2023)),
    st.builds(Compare, st.just("owner"), st.just("="), st.sampled_from(["ann", "bob", "nobody"])),
    st.builds(Contains, st.just("section"), st.sampled_from(["methods", "结"])),
    st.builds(In, st.just("kind"), st.sampled_from([("code",), ("prose", "table")])),
    st.just(Has("archived")),
    st.just(ALL),
)
filters: st.SearchStrategy[Filter] = st.recursive(
    leaves,
    lambda inner: st.one_of(st.builds(Not, inner), st.builds(conjoin, inner, inner), st.builds(disjoin, inner, inner)),
    max_leaves=5,
)


def put(shelf: Shelf, library: Sequence[dict[str, Any]], vectors: Matrix | None = None) -> list[list[Pair]]:
    """The library's documents on the shelf, with gaps between the tickets."""
    pairs, start = [], 0
    for ticket, about in enumerate(library):
        found = about["passages"]
        rows = None if vectors is None else vectors[start : start + len(found)]
        start += len(found)
        pairs.append(
            shelf.put(
                3 * ticket + 1,
                *(one["text"] for one in found),
                chunks=[
                    {"section": one["section"], "pages": one["pages"], "kind": "code" if one["code"] else "prose"}
                    for one in found
                ],
                vectors=rows,
                title=about["title"],
                description=about["description"],
                tags=about["tags"],
                owner=about["owner"],
                archived=about["archived"],
                meta={"year": about["year"]},
            )
        )
    return pairs


def assert_same(got: list[Scored], everything: list[Scored], limit: int, tolerance: float) -> None:
    """`got` is a correct first `limit` of the reference's full result."""
    truth = {scored.chunk_id: scored.score for scored in everything}
    wanted = everything[:limit]
    assert len(got) == len(wanted)
    assert len(set(ids_of(got))) == len(got)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.chunk_id in truth, "found what the reference does not find or the filter does not allow"
        assert mine.score == pytest.approx(theirs.score, rel=tolerance, abs=tolerance)
        assert truth[mine.chunk_id] == pytest.approx(theirs.score, rel=2 * tolerance, abs=2 * tolerance)
    exact = {id for id, score in truth.items() if sum(abs(score - other) <= tolerance for other in truth.values()) == 1}
    apart = [id for id in ids_of(wanted) if id in exact]
    assert [id for id in ids_of(got) if id in exact] == apart


@settings(max_examples=settings.default.max_examples // 3)
@given(
    library=libraries,
    first=st.integers(1, 12),
    cases=st.lists(st.tuples(queries, filters), min_size=3, max_size=6),
    removed=st.sets(st.integers(0, 11), max_size=3),
)
def test_tantivy_with_the_last_changes_beside_it(
    *, library: list[dict[str, Any]], first: int, cases: list[tuple[str, Filter]], removed: set[int]
) -> None:
    """Scores differ by what a few chunks do to an average length; what is found does not."""
    shelf = Shelf()
    pairs = put(shelf, library)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index = TantivyIndex(path, select=shelf.select, cutter=CUTTER, heap_mb=15, fresh_share=100.0)
        reader = TantivyIndex(path, select=shelf.select, cutter=CUTTER, writable=False)
        reference = MemoryTextIndex(cutter=CUTTER)
        gone = [3 * ticket + 1 for ticket in sorted(removed)]
        for batch in ([pair for document in pairs[:first] for pair in document], *pairs[first:]):
            for one in (index, reference):
                one.add(batch)
                one.flush()
            reader.refresh()
        for one in (index, reference):
            one.remove(gone)
            one.flush()
        for one in (index, reference, reader):
            one.refresh()
        assert dict(index.tickets()) == dict(reader.tickets()) == reference.tickets()
        for query, where in cases:
            got = index.search(query, 1_000, where)
            assert got == reader.search(query, 1_000, where)
            assert sorted(ids_of(got)) == sorted(ids_of(reference.search(query, 1_000, where)))
            for all_of in (query, query[:3]):
                mine = index.search(query, 1_000, where, all_of=all_of)
                assert sorted(ids_of(mine)) == sorted(ids_of(reference.search(query, 1_000, where, all_of=all_of)))
            assert got == sorted(got, key=lambda scored: (-scored.score, scored.chunk_id))
            terms = CUTTER.cut(query).words
            assert set(index.known(terms)) >= set(reference.known(terms))
        index.close()


@settings(max_examples=settings.default.max_examples // 3)  # an example is an index on disk and several searches
@given(
    library=libraries,
    cases=st.lists(st.tuples(queries, filters, st.integers(1, 20)), min_size=3, max_size=6),
    at_once=st.booleans(),
    way=st.sampled_from(["ranges", "ids", "tickets", "check", "check, then tickets"]),
)
def test_tantivy(
    *, library: list[dict[str, Any]], cases: list[tuple[str, Filter, int]], at_once: bool, way: str
) -> None:
    shelf = Shelf()
    pairs = put(shelf, library)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tantivy_adapter, "MAX_RANGES", 4 if way == "ranges" else 0)
        patch.setattr(tantivy_adapter, "MAX_SET", {"ids": 2_000, "tickets": 15}.get(way, 0))
        patch.setattr(tantivy_adapter, "MAX_FETCH", 1 if way.endswith("then tickets") else 20_000)
        patch.setattr(tantivy_adapter, "TIE_MARGIN", 1)
        index = TantivyIndex(Path(folder) / "index", select=shelf.select, cutter=CUTTER, heap_mb=15)
        reference = MemoryTextIndex(cutter=CUTTER)
        for batch in [[pair for document in pairs for pair in document]] if at_once else pairs[:4]:
            for one in (index, reference):
                one.add(batch)
                one.flush()
        for one in (index, reference):
            one.refresh()
        assert dict(index.tickets()) == reference.tickets()
        for query, where, limit in cases:
            got = index.search(query, limit, where)
            assert_same(got, reference.search(query, 1_000, where), limit, tolerance=1e-4)
            assert got == sorted(got, key=lambda scored: (-scored.score, scored.chunk_id))
            terms = CUTTER.cut(query).words
            assert set(index.known(terms)) == set(reference.known(terms))
        index.close()


def test_tantivy_rounds_long_passages_by_little(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    shelf = Shelf()
    pairs = [
        pair
        for ticket in range(1, 60)
        for pair in shelf.put(ticket, " ".join(random.choice(WORDS, size=random.integers(50, 400))))
    ]
    index = TantivyIndex(tmp_path / "index", select=shelf.select, cutter=CUTTER, heap_mb=15)
    reference = MemoryTextIndex(cutter=CUTTER)
    for one in (index, reference):
        one.add(pairs)
        make_visible(one)
    wanted = {scored.chunk_id: scored.score for scored in reference.search("heron 北京大学 PPR-9087", 100, ALL)}
    got = {scored.chunk_id: scored.score for scored in index.search("heron 北京大学 PPR-9087", 100, ALL)}
    assert len(wanted) == 59
    assert got.keys() == wanted.keys()
    assert [got[id] for id in wanted] == pytest.approx(list(wanted.values()), rel=0.05)


def vectors_and_query(library: Sequence[dict[str, Any]], *, seed: int, coarse: bool) -> tuple[Matrix, Vector]:
    """A vector for each passage; small whole numbers make equal vectors, opposite ones and zero vectors likely."""
    random = np.random.default_rng(seed)
    count = sum(len(about["passages"]) for about in library)
    rows = random.integers(-1, 2, (count, DIM)) * (random.random((count, 1)) < 0.9)
    if coarse:
        rows[:, 3:] = 0
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return vectors, random.standard_normal(DIM).astype(np.float32)


@given(
    library=libraries,
    where=filters,
    limit=st.integers(1, 20),
    seed=st.integers(0, 10_000),
    score_all=st.sampled_from([0, 512]),
    coarse=st.booleans(),
)
def test_turbovec(
    *, library: list[dict[str, Any]], where: Filter, limit: int, seed: int, score_all: int, coarse: bool
) -> None:
    vectors, query = vectors_and_query(library, seed=seed, coarse=coarse)
    shelf = Shelf()
    pairs = [pair for document in put(shelf, library, vectors) for pair in document]
    ids = np.array([chunk.id for chunk, _ in pairs], dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.storage.vectors.SCORE_ALL", score_all)
        index = TurbovecIndex(Path(folder) / "index", dim=DIM, select=shelf.select, exact=shelf.exact, shortlist=30)
        reference = MemoryVectorIndex(dim=DIM, select=shelf.select)
        for one in (index, reference):
            one.add(ids, vectors)
            one.remove([1] if seed % 2 else [])
            make_visible(one)
        assert index.tickets() == reference.tickets()
        got = index.search(query, limit, where)
        assert_same(got, reference.search(query, 1_000, where), limit, tolerance=1e-6)
        assert got == sorted(got, key=lambda scored: (-scored.score, scored.chunk_id))
        index.close()
        again = TurbovecIndex(Path(folder) / "index", dim=DIM, select=shelf.select, exact=shelf.exact, shortlist=30)
        assert again.search(query, limit, where) == got
    assert all(scored.chunk_id >> TICKET_BITS for scored in got)


SCHEMAS = (f"example_{number}" for number in itertools.count(1))


@pytest.fixture(scope="module")
def postgres_examples(postgres_server: PostgresServer) -> str:
    """One database for all examples, each of which has a schema of its own."""
    return postgres_server.url("congruence")


@settings(max_examples=settings.default.max_examples // 2)
@given(
    library=libraries,
    cases=st.lists(st.tuples(queries, filters, st.integers(1, 20)), min_size=3, max_size=6),
    at_once=st.booleans(),
    removed=st.sets(st.integers(0, 11), max_size=4),
    again=st.sets(st.integers(0, 11), max_size=4),
    scoring=st.sampled_from([{}, {"k1": 0.0}, {"k1": 2.0, "b": 0.0}, {"b": 1.0, "boosts": {"title": 0.0, "url": 3.0}}]),
    block=st.sampled_from([1, 4, 512]),
    own_block=st.sampled_from([1, 128]),
    ranges=st.sampled_from([0, 20_000]),
)
def test_postgres_text(  # noqa: PLR0917
    postgres_examples: str,
    library: list[dict[str, Any]],
    cases: list[tuple[str, Filter, int]],
    at_once: bool,
    removed: set[int],
    again: set[int],
    scoring: dict[str, Any],
    block: int,
    own_block: int,
    ranges: int,
) -> None:
    """Scores are the reference's to the last digits, whatever was put in, taken out and put in again."""
    shelf = Shelf()
    pairs = put(shelf, library)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.storage._postgres_postings.BLOCK_CHUNKS", block)
        patch.setattr("headwater.storage._postgres_postings.OWN_BLOCK", own_block)
        patch.setattr("headwater.storage._postgres_text_tables.MAX_RANGES", ranges)
        place = {"url": postgres_examples, "schema": next(SCHEMAS)}
        index = PostgresTextIndex(Path("text-1"), select=shelf.select, cutter=CUTTER, **scoring, **place)
        reference = MemoryTextIndex(cutter=CUTTER, **scoring)
        gone = [3 * ticket + 1 for ticket in sorted(removed)]
        for batch in [[pair for document in pairs for pair in document]] if at_once else pairs:
            for one in (index, reference):
                one.add(batch)
                one.flush()
        for one in (index, reference):
            one.remove(gone)
            one.flush()
            for ticket in sorted(again & set(range(len(pairs)))):
                one.add(pairs[ticket])
            make_visible(one)
        assert dict(index.tickets()) == reference.tickets()
        for query, where, limit in cases:
            got = index.search(query, limit, where)
            assert_same(got, reference.search(query, 1_000, where), limit, tolerance=1e-9)
            assert got == sorted(got, key=lambda scored: (-scored.score, scored.chunk_id))
            for all_of in (query, query[:3]):
                mine = index.search(query, 1_000, where, all_of=all_of)
                assert_same(mine, reference.search(query, 1_000, where, all_of=all_of), 1_000, tolerance=1e-9)
            assert index.best_score(query) == pytest.approx(reference.best_score(query))
            terms = CUTTER.cut(query).words
            assert dict(index.known(terms)) == reference.known(terms)
        index.drop()
        index.close()


@settings(max_examples=settings.default.max_examples // 2)
@given(
    library=libraries,
    where=filters,
    limit=st.integers(1, 20),
    seed=st.integers(0, 10_000),
    graph=st.booleans(),
    compare_all=st.sampled_from([0, 5_000]),
    metric=st.sampled_from(["cosine", "ip", "l2"]),
    coarse=st.booleans(),
)
def test_postgres_vectors(  # noqa: PLR0917
    postgres_examples: str,
    library: list[dict[str, Any]],
    where: Filter,
    limit: int,
    seed: int,
    graph: bool,
    compare_all: int,
    metric: str,
    coarse: bool,
) -> None:
    random = np.random.default_rng(seed)
    count = sum(len(about["passages"]) for about in library)
    rows = random.integers(-1, 2, (count, DIM)) * (random.random((count, 1)) < 0.9)
    if coarse:
        rows[:, 3:] = 0
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    query = random.standard_normal(DIM).astype(np.float32)
    shelf = Shelf()
    pairs = [pair for document in put(shelf, library, vectors) for pair in document]
    ids = np.array([chunk.id for chunk, _ in pairs], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.storage.postgres_vectors.INDEX_FROM", 1 if graph else 10**6)
        patch.setattr("headwater.storage.postgres_vectors.COMPARE_ALL", compare_all)
        place: dict[str, Any] = {"url": postgres_examples, "schema": next(SCHEMAS), "metric": metric, "shortlist": 30}
        index = PostgresVectorIndex(Path("vectors-1"), dim=DIM, select=shelf.select, exact=shelf.exact, **place)
        reference = MemoryVectorIndex(dim=DIM, select=shelf.select, metric=metric)
        for one in (index, reference):
            one.add(ids, vectors)
            one.remove([1] if seed % 2 else [])
            make_visible(one)
            one.release()
        assert index.tickets() == reference.tickets()
        got = index.search(query, limit, where)
        assert_same(got, reference.search(query, 1_000, where), limit, tolerance=1e-6)
        assert got == sorted(got, key=lambda scored: (-scored.score, scored.chunk_id))
        index.drop()
        index.close()


@pytest.fixture(scope="module")
def milvus(milvus_server: MilvusServer, tmp_path_factory: pytest.TempPathFactory) -> MilvusIndex:
    """One for all examples: the server takes two seconds to make a collection. What is alive is told by each."""
    nothing = Shelf()
    return MilvusIndex(
        tmp_path_factory.mktemp("home") / "vectors-1",
        dim=DIM,
        select=nothing.select,
        exact=nothing.exact,
        uri=milvus_server.uri,
        token=milvus_server.token,
        shortlist=30,
    )


@pytest.mark.system
@settings(max_examples=settings.default.max_examples // 3, suppress_health_check=list(HealthCheck))
@given(
    library=libraries,
    cases=st.lists(st.tuples(filters, st.integers(1, 20)), min_size=2, max_size=4),
    seed=st.integers(0, 10_000),
    way=st.sampled_from(["few", "one filter", "parts", "check, then parts"]),
    coarse=st.booleans(),
)
def test_milvus(
    milvus: MilvusIndex,
    *,
    library: list[dict[str, Any]],
    cases: list[tuple[Filter, int]],
    seed: int,
    way: str,
    coarse: bool,
) -> None:
    vectors, query = vectors_and_query(library, seed=seed, coarse=coarse)
    shelf = Shelf()
    pairs = [pair for document in put(shelf, library, vectors) for pair in document]
    ids = np.array([chunk.id for chunk, _ in pairs], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(milvus, "_select", shelf.select)
        patch.setattr(milvus, "_exact", shelf.exact)
        patch.setattr("headwater.storage.milvus.SCORE_ALL", 512 if way == "few" else 0)
        patch.setattr("headwater.storage.milvus.MAX_PARTS", 0 if way.startswith("check") else 100)
        patch.setattr(milvus_filter, "MAX_SET", 2 if way.endswith("parts") else 5_000)
        patch.setattr(milvus_filter, "MAX_RANGES", 1 if way.endswith("parts") else 8)
        reference = MemoryVectorIndex(dim=DIM, select=shelf.select)
        milvus.remove(list(milvus.tickets()))
        for one in (milvus, reference):
            one.add(ids, vectors)
            one.flush()
            one.remove([1] if seed % 2 else [])
            make_visible(one)
        assert milvus.tickets() == reference.tickets()
        for where, limit in cases:
            got = milvus.search(query, limit, where)
            assert_same(got, reference.search(query, 1_000, where), limit, tolerance=1e-6)
            assert got == sorted(got, key=lambda scored: (-scored.score, scored.chunk_id))
