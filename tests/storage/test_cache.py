"""Results that are kept: never stale, never somebody else's, never more than allowed."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.build import open_home
from headwater.filters import ALL, Compare, Filter, Has, Not, conjoin, parse
from headwater.retrieve import compose
from headwater.storage.cache import MOST_HITS, ResultCache, key_of
from headwater.types import Hit, Labels, Options, Query, Results

PLAIN = {"generation": 1, "space": 1, "settings": ("a=1",)}


def results(text: str = "x", **changes: Any) -> Results:
    return replace(Results(query=Query(text=text)), **changes)


def test_the_one_not_asked_for_the_longest_goes_first() -> None:
    cache = ResultCache(2)
    cache.put(b"a", results("a"))
    cache.put(b"b", results("b"))
    assert cache.get(b"a") is not None
    cache.put(b"c", results("c"))
    assert [cache.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]
    assert len(cache) == 2


def test_nothing_is_kept_of_what_failed_in_part_or_is_large() -> None:
    cache = ResultCache(10)
    hit: Any = object.__new__(Hit)
    cache.put(b"a", results(degraded=("slow",)))
    cache.put(b"b", results(fallback_reason="query_too_short_for_semantic"))
    cache.put(b"c", results(hits=(hit,) * (MOST_HITS + 1)))
    assert len(cache) == 0
    ResultCache(0).put(b"a", results())
    assert ResultCache(0).get(b"a") is None


OTHER: dict[str, Any] = {
    "mode": "keyword", "fusion": "adaptive", "threshold_on": "fused", "enumerate": "always", "pack": "greedy_stop",
    "unsupported": "remove", "reflect_strategy": "expand", "threshold": 0.3, "mmr_lambda": 0.7,
}  # fmt: skip


def test_every_option_is_part_of_the_key() -> None:
    query = Query(text="leave")
    keys = {key_of(query, **PLAIN)}
    for field in fields(Options):
        default = getattr(Options(), field.name)
        if field.name in OTHER:
            value: Any = OTHER[field.name]
        elif isinstance(default, bool):
            value = not default
        else:
            value = default + 1 if isinstance(default, int | float) else f"{default}x"
        keys.add(key_of(replace(query, options=replace(Options(), **{field.name: value})), **PLAIN))
    assert len(keys) == len(fields(Options)) + 1


FILTERS = st.sampled_from(
    [
        ALL,
        parse('tag = "a"'),
        parse('tag = "b"'),
        Not(Has("archived")),
        Compare("owner", "=", "x"),
        parse('tag in ("a")'),
    ]
)
QUERIES = st.builds(
    Query,
    text=st.text(max_size=3),
    where=FILTERS,
    scope=FILTERS,
    options=st.builds(Options, top_n=st.integers(1, 3), rerank=st.sampled_from(["", "builtin"])),
)
REST = st.fixed_dictionaries(
    {
        "generation": st.integers(0, 2),
        "space": st.integers(1, 2),
        "settings": st.lists(st.text(max_size=2), max_size=2).map(tuple),
    }
)


@given(QUERIES, REST, QUERIES, REST)
@settings(max_examples=300)
def test_two_searches_share_a_key_only_if_they_are_the_same(
    one: Query, one_rest: dict[str, Any], other: Query, other_rest: dict[str, Any]
) -> None:
    same = (one, one_rest) == (other, other_rest)
    assert (key_of(one, **one_rest) == key_of(other, **other_rest)) is same


def test_a_filter_of_somebodys_own_is_never_kept() -> None:
    class Own:
        def matches(self, meta: Any) -> bool:
            return True

    own: Filter = Own()
    assert key_of(Query(text="x", where=own), **PLAIN) is None
    assert key_of(Query(text="x", scope=conjoin(Has("tag"), Not(own))), **PLAIN) is None
    assert key_of(Query(text="x", scope=conjoin(Has("tag"), Not(Has("a")))), **PLAIN) is not None


class NeverStale(RuleBasedStateMachine):
    """Whatever is added, removed and asked in between: with the cache and without it the hits are the same."""

    folder: Path

    def __init__(self) -> None:
        super().__init__()
        NeverStale.count += 1
        self.kb = open_home(self.folder / str(NeverStale.count))

    count = 0

    @rule(
        name=st.sampled_from("abc"), word=st.sampled_from(["flood", "pump", "leave", "洪水"]), tag=st.sampled_from("xy")
    )
    def add(self, name: str, word: str, tag: str) -> None:
        self.kb.add_text(f"The {word} is here, says {name}.", uri=f"{name}.txt", labels=Labels(tags=(tag,)))

    @rule(name=st.sampled_from("abc"))
    def remove(self, name: str) -> None:
        found = [record.id for record in self.kb.documents() if record.uri == f"{name}.txt"]
        self.kb.remove(*found)

    @rule(
        word=st.sampled_from(["flood", "pump", "洪水"]), tag=st.sampled_from(["", 'tag = "x"']), top_n=st.integers(1, 2)
    )
    def ask(self, word: str, tag: str, top_n: int) -> None:
        kept = self.kb.search(word, where=tag, top_n=top_n)
        fresh = self.kb.search(word, where=tag, top_n=top_n, options={"cache_size": 0})
        assert kept.hits == fresh.hits
        assert (kept.total, kept.generation) == (fresh.total, fresh.generation)

    @invariant()
    def nothing_grows_without_end(self) -> None:
        assert len(self.kb.results_cache) <= self.kb.options.cache_size

    def teardown(self) -> None:
        self.kb.close()


def test_the_cache_is_never_stale(tmp_path: Path) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    NeverStale.folder = tmp_path
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        NeverStale, settings=settings(max_examples=6, stateful_step_count=12, deadline=None)
    )


def test_a_second_search_is_answered_from_the_cache_and_no_one_elses(tmp_path: Path) -> None:
    with open_home(tmp_path / "kb") as kb:
        kb.add_text("The flood of 1998.", uri="a.txt")
        first = kb.search("flood")
        again = kb.search("flood")
        assert "cache" not in first.timings_ms
        assert set(again.timings_ms) == {"cache", "total"}
        assert again.hits == first.hits
        assert "cache" not in kb.search("flood", top_n=3).timings_ms
        assert "cache" not in kb.search("flood", where='tag = "x"').timings_ms
        assert "cache" not in kb.search("flood", options={"cache_size": 0}).timings_ms
        kb.owner = "somebody-else"
        assert len(kb.search("flood")) == 0


@pytest.mark.parametrize("size", [0, 1])
def test_the_setting_is_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setenv("HEADWATER_RETRIEVE__CACHE_SIZE", str(size))
    with open_home(tmp_path / "kb") as kb:
        kb.add_text("The flood of 1998.", uri="a.txt")
        for word in ("flood", "1998", "flood"):
            assert "cache" not in kb.search(word).timings_ms
        assert len(kb.results_cache) == size


class Slow(ResultCache):
    """One that takes its time and knows nothing."""

    def get(self, key: bytes, *, within_seconds: float = 0.0) -> Results | None:
        time.sleep(0.3)
        return None


def test_time_spent_on_asking_a_cache_is_taken_off_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    class Watching:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def retrieve(self, query: Query) -> Results:
            given.append(query.options.deadline_seconds)
            found: Results = self.inner.retrieve(query)
            return found

    monkeypatch.setattr("headwater.build.compose", lambda parts, options: Watching(compose(parts, options)))
    with open_home(tmp_path / "kb") as kb:
        kb.add_text("The flood of 1998.", uri="a.txt")
        plain = kb.search("flood", options={"deadline_seconds": 2.0})
        assert given == [2.0]
        vars(kb)["results_cache"] = Slow(10)
        results = kb.search("flood", options={"deadline_seconds": 2.0})
        assert 0 < given[-1] <= 1.7
        assert results.query.options.deadline_seconds == 2.0 and results.hits == plain.hits
        kb.search("flood", options={"deadline_seconds": 0.1})
        assert given[-1] == pytest.approx(0.005), "a search that has no time is made all the same, and says so"
