"""The stages around a search: what each does, that pages fit together, and what happens when one fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import BackendError, UnknownComponent
from headwater.filters import parse
from headwater.retrieve import compose
from headwater.selection import TICKET_BITS
from headwater.stages.collapse import alike, sketch
from headwater.stages.diverse import marginal
from headwater.types import Change, Chunk, Document, Hit, Options, Query, Results, Span, Version, document_id

SENTENCES = [
    f"{name} pump {number} was checked in week {number}." for number, name in enumerate("ABCDEFGHIJKLMNOPQRST")
]


class ByLength:
    """A reranker that likes short passages."""

    fingerprint = "by-length"

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
        return [1.0 / len(hit.chunk.text) for hit in hits]


class Broken:
    fingerprint = "broken"

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(hits, deadline_seconds)


def search(shelf: Any, text: str, *, reranker: Any = None, where: str = "", **options: Any) -> Results:
    parts = shelf.parts(reranker=lambda name: reranker)
    chosen = Options(**options)
    query = Query(text=text, where=parse(where), options=chosen)
    return compose(parts, chosen).retrieve(query)


def names(results: Results) -> list[str]:
    return [hit.chunk.name for hit in results]


@pytest.fixture
def pumps(shelf: Any) -> Any:
    """Twenty documents of one chunk about pumps, and one of five chunks."""
    for number, sentence in enumerate(SENTENCES):
        shelf.add(f"{number:02}.md", sentence, title=f"Note {number}")
    parts = [f"Part {n} of the manual speaks of valve {n}." for n in range(5)]
    shelf.add("manual.md", "\n\n".join(parts), chunks=parts, title="Manual")
    return shelf


STAGES: dict[str, dict[str, Any]] = {
    "rerank": {"rerank": "x", "rerank_depth": 6},
    "mmr": {"mmr_lambda": 0.5, "rerank_depth": 6},
    "collapse": {"collapse": True},
    "parent": {"parent": True},
    "window": {"window": 1},
    "feedback": {"feedback": True},
    "all": {"rerank": "x", "mmr_lambda": 0.7, "collapse": True, "parent": True, "window": 1, "feedback": True},
}


@pytest.mark.parametrize("options", STAGES.values(), ids=STAGES)
def test_pages_go_on_from_one_another(pumps: Any, options: dict[str, Any]) -> None:
    whole = search(pumps, "pump check manual valve", reranker=ByLength(), top_n=18, **options)
    assert len(whole) > 12
    assert [hit.rank for hit in whole] == list(range(1, len(whole) + 1))
    paged: list[str] = []
    for offset in range(0, 18, 3):
        page = search(pumps, "pump check manual valve", reranker=ByLength(), top_n=3, offset=offset, **options)
        assert [hit.rank for hit in page] == list(range(offset + 1, offset + len(page) + 1))
        paged += names(page)
    assert paged == names(whole)
    assert len(set(paged)) == len(paged)


@pytest.mark.parametrize("options", STAGES.values(), ids=STAGES)
def test_every_stage_keeps_filters_text_and_counts(pumps: Any, options: dict[str, Any]) -> None:
    pumps.add("secret.md", "The secret pump was checked.", tags=("secret",))
    results = search(pumps, "pump manual", reranker=ByLength(), where='not tag = "secret"', top_n=40, **options)
    assert "secret.md" not in [hit.uri for hit in results]
    for hit in results:
        document = pumps.catalog.document(hit.document_id)
        assert document.text[hit.chunk.span.start : hit.chunk.span.end] == hit.chunk.text
        for span in hit.found:
            assert hit.chunk.span.start <= span.start < span.end <= hit.chunk.span.end
    assert results.total >= len(results)
    assert {hit.document_id for hit in results} <= set(results.document_counts)
    assert results.degraded == ()
    assert "total" in results.timings_ms


@pytest.mark.parametrize("options", STAGES.values(), ids=STAGES)
def test_a_search_without_hits_stays_one(shelf: Any, options: dict[str, Any]) -> None:
    results = search(shelf, "pump", reranker=ByLength(), **options)
    assert (len(results), results.total, results.degraded) == (0, 0, ())


# --------------------------------------------------------------------------------------------- rerank


def test_a_reranker_orders_the_first_and_leaves_the_rest(filled: Any) -> None:
    plain = search(filled, "leave holiday pump", top_n=5)
    ranked = search(filled, "leave holiday pump", reranker=ByLength(), rerank="x", rerank_depth=3, top_n=5)
    head = sorted(names(plain)[:3], key=lambda name: [len(h.chunk.text) for h in plain if h.chunk.name == name])
    assert names(ranked) == [*head, *names(plain)[3:]]
    assert ["rerank" in hit.scores for hit in ranked] == [True] * 3 + [False] * (len(ranked) - 3)
    assert ranked[0].score == ranked[0].scores["rerank"]
    assert ranked[0].ranks["before_rerank"] == names(plain).index(names(ranked)[0]) + 1
    assert next(iter(ranked.document_counts)) == ranked[0].document_id


def test_a_share_mixes_both_orders(filled: Any) -> None:
    class Reversed(ByLength):
        share = 0.0

    plain = search(filled, "leave holiday pump", top_n=5)
    assert names(search(filled, "leave holiday pump", reranker=Reversed(), rerank="x", top_n=5)) == names(plain)


LET_GO = threading.Event()
FAILURES: dict[str, Any] = {
    "dead": BackendError("no connection"),
    "too few": lambda hits, _: [1.0],
    "no number": lambda hits, _: [float("nan")] * len(hits),
    "no numbers at all": lambda hits, _: ["x"] * len(hits),
    "slow": lambda hits, seconds: LET_GO.wait(60) and [1.0] * len(hits),
}


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failing_reranker_costs_its_deadline_and_no_more(filled: Any, answer: Any) -> None:
    LET_GO.clear()
    plain = search(filled, "leave holiday pump", top_n=5)
    began = time.perf_counter()
    results = search(filled, "leave holiday pump", reranker=Broken(answer), rerank="x", top_n=5, deadline_seconds=0.5)
    assert time.perf_counter() - began < 30.0
    LET_GO.set()
    assert names(results) == names(plain)
    (note,) = results.degraded
    assert note.startswith("rerank skipped, the fused order is kept: ")


def test_a_reranker_that_was_slow_is_not_begun_when_little_is_left(filled: Any) -> None:
    looker = Broken(lambda hits, _: time.sleep(0.2) or [1.0] * len(hits))
    parts = filled.parts(reranker=lambda name: looker)
    for seconds, calls in ((5.0, 1), (0.1, 1), (5.0, 2)):
        options = Options(rerank="x", deadline_seconds=seconds)
        results = compose(parts, options).retrieve(Query(text="leave", options=options))
        assert looker.calls == calls
        assert ("it takes about" in " ".join(results.degraded)) == (seconds < 1)


def test_an_unknown_reranker_is_refused_and_a_missing_one_told(filled: Any) -> None:
    def unknown(name: str) -> Any:
        raise UnknownComponent(f"no rerankers component is named {name!r}")

    with pytest.raises(UnknownComponent):
        compose(filled.parts(reranker=unknown), Options(rerank="nothing"))
    options = Options(rerank="builtin", related=True)
    results = compose(filled.parts(), options).retrieve(Query(text="leave", options=options))
    assert [note.split(" skipped")[0] for note in results.degraded] == ["related", "rerank"]
    assert len(results) > 0


# ------------------------------------------------------------------------------------------------ mmr


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=12),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
)
@example(relevance=[1.7976931348623157e308, -9.9792015476736e291], weight=0.0, seed=0)
def test_mmr_gives_every_hit_once_whatever_the_numbers(relevance: list[float], weight: float, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(relevance), 4)).astype(np.float32)
    vectors[seed % len(relevance)] = np.nan
    order = marginal(relevance, vectors, weight=weight)
    assert sorted(index for index, _ in order) == list(range(len(relevance)))
    assert all(np.isfinite(value) for _, value in order)
    values = [value for _, value in order]
    assert all(one >= other - 1e-9 for one, other in pairwise(values[1:]))


def test_mmr_is_the_formula() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    # Worth 1, 0.9 and 0 after stretching; the twin of the first costs 0.3.
    assert [index for index, _ in marginal([1.0, 0.95, 0.5], vectors, weight=0.7)] == [0, 1, 2]
    assert [index for index, _ in marginal([1.0, 0.95, 0.5], vectors, weight=0.3)] == [0, 2, 1]
    assert [index for index, _ in marginal([0.2, 0.9, 0.5], vectors, weight=1.0)] == [1, 2, 0]


def test_mmr_puts_twins_apart(shelf: Any) -> None:
    for number in range(3):
        shelf.add(f"pump{number}.md", f"The pump pump pump, copy {number}.")
    shelf.add("flood.md", "A flood hits the pump.")
    plain = search(shelf, "pump", top_n=4, mode="semantic")
    spread = search(shelf, "pump", top_n=4, mode="semantic", mmr_lambda=0.1)
    assert [hit.uri for hit in plain].index("flood.md") == 3
    assert [hit.uri for hit in spread].index("flood.md") == 1
    assert all("mmr" in hit.scores for hit in spread)


# ------------------------------------------------------------------------------------------- collapse


def test_copies_stand_behind_the_best_and_are_named(shelf: Any) -> None:
    notice = " ".join(
        f"Rule {n}: the pump of station {n} is checked every {n} weeks by the crew." for n in range(2, 12)
    )
    shelf.add("notice.md", notice)
    shelf.add("copy.md", f"Copy for the archive. {notice}")
    shelf.add("other.md", "The pump of the harbour is painted blue.")
    plain = search(shelf, "pump checked station", top_n=5)
    assert len(plain) == 3
    results = search(shelf, "pump checked station", top_n=5, collapse=True)
    assert len(results) == 2
    best = next(hit for hit in results if hit.duplicates)
    (behind,) = best.duplicates
    assert {best.chunk.name, behind} == {hit.chunk.name for hit in plain if hit.uri != "other.md"}
    other = {"notice.md": "copy.md", "copy.md": "notice.md"}[best.uri]
    assert f"also in: {other}" in best.reasons
    assert results.total == 2


def test_a_page_is_full_although_many_are_copies(shelf: Any) -> None:
    text = " ".join(f"word{n} pump" for n in range(30))
    for number in range(12):
        shelf.add(f"copy{number}.md", f"{text} {number}")
    for number in range(3):
        shelf.add(f"own{number}.md", f"pump {number} " + " ".join(f"own{number}x{n}" for n in range(20)))
    assert len(search(shelf, "pump", top_n=4, collapse=True)) == 4


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("", "", True),
        ("pump", "pump", True),
        ("pump", "valve", False),
        ("水位超过警戒线时立即上报值班室并记录时间", "水位超过警戒线时立即上报值班室并记录时间。", True),
        ("水位超过警戒线时立即上报值班室并记录时间", "每年五月检查一次水泵的进水口和格栅", False),
        (" ".join(map(str, range(100))), " ".join(map(str, range(5, 100))), True),
        (" ".join(map(str, range(100))), " ".join(map(str, range(50, 150))), False),
        ("Der Text ist gleich, Wort fuer Wort.", "DER TEXT IST GLEICH, WORT FUER WORT!", True),
    ],
)
def test_what_counts_as_a_copy(one: str, other: str, same: bool) -> None:
    assert alike(sketch(one), sketch(other)) is same
    assert alike(sketch(other), sketch(one)) is same


# --------------------------------------------------------------------------------- parents and windows


def add_family(shelf: Any, uri: str, parents: Sequence[Sequence[str]], *, section: str = "") -> Document:
    """A document cut into parents, each cut into children of a section; only the children are in the indexes."""
    (change,) = shelf.catalog.draw([Change(uri=uri, kind="put")])
    text = "\n\n".join(" ".join(children) for children in parents)
    document = Document(uri=uri, text=text, id=document_id("local", "default", uri))
    chunks: list[Chunk] = []
    count = sum(len(children) for children in parents)
    for number, children in enumerate(parents):
        whole = " ".join(children)
        parent = change.ticket << TICKET_BITS | count + number
        for child in children:
            start = text.index(child)
            own = change.ticket << TICKET_BITS | len(chunks)
            span = Span(start, start + len(child))
            chunk = Chunk(id=own, span=span, text=child, document_id=document.id, parent=parent, section=section)
            chunks.append(chunk)
    for number, children in enumerate(parents):
        whole = " ".join(children)
        start = text.index(whole)
        own = change.ticket << TICKET_BITS | count + number
        chunks.append(Chunk(id=own, span=Span(start, start + len(whole)), text=whole, document_id=document.id))
    indexed = chunks[:count]
    vectors = shelf.embedder.embed([chunk.text for chunk in indexed], "passage")
    shelf.text.add([(chunk, document) for chunk in indexed])
    shelf.vectors.add(np.array([chunk.id for chunk in indexed], dtype=np.int64), vectors)
    shelf.text.flush()
    shelf.vectors.flush()
    shelf.catalog.commit([Version(change=change, document=document, chunks=tuple(chunks), vectors=vectors)])
    return document


def test_children_become_one_parent_with_the_best_childs_score(shelf: Any) -> None:
    manual = [["The pump is blue.", "The pump pump hums."], ["The valve is red.", "Nothing else is."]]
    document = add_family(shelf, "manual.md", manual)
    plain = search(shelf, "pump", mode="keyword")
    assert len(plain) == 2
    results = search(shelf, "pump", mode="keyword", parent=True)
    (hit,) = results
    assert hit.chunk.text == "The pump is blue. The pump pump hums."
    assert hit.score == plain[0].score
    assert hit.found == tuple(one.chunk.span for one in plain)
    assert document.text[slice(*hit.found[0])] == plain[0].chunk.text
    assert "stands for 2 of its passages" in hit.reasons
    assert results.total == 1


def test_a_parent_outside_of_the_filter_is_not_shown(shelf: Any) -> None:
    """A filter on sections holds for what is shown: the larger passage of no one section stays away."""
    add_family(shelf, "manual.md", [["The pump is blue.", "The valve is red."]], section="Colours")
    assert search(shelf, "pump", mode="keyword", parent=True)[0].found
    (hit,) = search(shelf, "pump", mode="keyword", where='section = "Colours"', parent=True)
    assert (hit.chunk.text, hit.found) == ("The pump is blue.", ())


def test_a_passage_without_a_parent_stays(filled: Any) -> None:
    assert names(search(filled, "leave", parent=True)) == names(search(filled, "leave"))


def test_a_window_holds_the_neighbours_as_one_slice(pumps: Any) -> None:
    (hit, *_) = search(pumps, "valve 2", mode="keyword", where='uri = "manual.md"', window=1, top_n=3)
    document = pumps.catalog.document(hit.document_id)
    assert hit.chunk.text == document.text[hit.chunk.span.start : hit.chunk.span.end]
    assert "valve 1" in hit.chunk.text
    assert "valve 3" in hit.chunk.text
    assert "valve 2" in document.text[slice(*hit.found[0])]


def test_windows_that_overlap_become_one_block_and_none_is_shown_twice(pumps: Any) -> None:
    results = search(pumps, "valve", mode="keyword", window=1, top_n=20)
    blocks = [hit.chunk.span for hit in results if hit.uri == "manual.md"]
    assert blocks
    for one, other in pairwise(sorted(blocks)):
        assert one.end <= other.start
    found = [span for hit in results if hit.uri == "manual.md" for span in hit.found]
    assert len(found) == len(set(found)) == 5
    assert results.total == len(search(pumps, "valve", mode="keyword", top_n=20)) - 5 + len(blocks)


def test_a_window_stops_at_what_is_hidden_and_at_the_filter(shelf: Any) -> None:
    parts = ["The pump is blue.", "<!-- never show this -->", "The valve is red."]
    text = "\n".join(parts)
    start = text.index(parts[1])
    hidden = (Span(start, start + len(parts[1])),)
    shelf.add("comment.md", text, chunks=[parts[0], parts[2]], hidden=hidden)
    (hit,) = search(shelf, "pump", mode="keyword", window=2)
    assert hit.chunk.text == parts[0]


def test_windows_are_looked_at_again_as_a_whole(pumps: Any) -> None:
    class Sees:
        fingerprint = "sees"

        def __init__(self) -> None:
            self.texts: list[str] = []

        def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
            self.texts += [hit.chunk.text for hit in hits]
            return [float("valve 0" in hit.chunk.text and "valve 1" in hit.chunk.text) for hit in hits]

    looker = Sees()
    results = search(pumps, "valve 1", reranker=looker, rerank="x", window=1, top_n=3)
    assert "valve 0" in results[0].chunk.text
    assert results[0].scores["rerank"] == 1.0
    assert any("valve 0" in text and "valve 1" in text for text in looker.texts)


def test_a_document_that_was_replaced_meanwhile_is_left_as_it_was_found(pumps: Any) -> None:
    class Replacing:
        """Replaces the manual between the search and the widening."""

        fingerprint = "replacing"

        def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
            pumps.add("manual.md", "An entirely new text.")
            return [hit.score for hit in hits]

    results = search(pumps, "valve 2", reranker=Replacing(), rerank="x", window=1, mode="keyword", top_n=3)
    hit = next(hit for hit in results if hit.uri == "manual.md")
    assert "valve" in hit.chunk.text
    assert hit.found == ()


# ------------------------------------------------------------------------------------------- threshold


def test_a_threshold_on_relevance_is_a_share_of_the_embedders_own_range(filled: Any) -> None:
    parts = filled.parts(calibration=(0.2, 0.7))
    options = Options(threshold=0.5, threshold_on="relevance")
    results = compose(parts, options).retrieve(Query(text="leave", options=options))
    assert len(results) > 0
    for hit in results:
        assert hit.scores["relevance"] == pytest.approx(min(max((hit.scores["semantic"] - 0.2) / 0.5, 0), 1))
        assert hit.scores["semantic"] >= 0.45
    every = compose(parts, Options()).retrieve(Query(text="leave"))
    assert len(every) > len(results)


def test_without_a_calibration_the_threshold_is_told_and_not_applied(filled: Any) -> None:
    options = Options(threshold=0.5, threshold_on="relevance")
    results = compose(filled.parts(), options).retrieve(Query(text="leave", options=options))
    assert len(results) == len(compose(filled.parts(), Options()).retrieve(Query(text="leave")))
    assert "not known what cosines" in results.degraded[0]


def test_stages_compose_around_one_another(pumps: Any) -> None:
    """Every score of every stage is on the hit, and the reasons of the stages stand behind those of the words."""
    results = search(
        pumps, "pump", reranker=ByLength(), rerank="x", mmr_lambda=0.7, collapse=True, window=1, top_n=2, feedback=True
    )
    assert {"keyword", "fused", "feedback", "rerank", "mmr"} <= set(results[0].scores)
    assert {"feedback", "rerank", "collapse", "mmr", "window", "highlight", "total"} <= set(results.timings_ms)
    assert results.query.options.top_n == 2
    assert replace(results.query) == results.query
