"""Fusion depends on ranks or scores only, never on the order in which an index lists ties."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.retrieve import Leg, covered, fuse, normalised, ranks
from headwater.types import Fusion as Method
from headwater.types import Scored

EQUAL: dict[Leg, float] = {"keyword": 0.5, "semantic": 0.5}
scores = st.floats(min_value=-5, max_value=50, allow_nan=False).map(lambda score: round(score, 1))
methods = st.sampled_from(["rrf", "weighted_score", "adaptive"])
weights = st.floats(min_value=0.01, max_value=10)


def ranking(found: dict[int, float]) -> list[Scored]:
    return sorted((Scored(id, score) for id, score in found.items()), key=lambda one: (-one.score, one.chunk_id))


rankings = st.dictionaries(st.integers(0, 30), scores, max_size=20).map(ranking)


@given(rankings, rankings, methods, weights, weights)
def test_every_candidate_has_one_positive_or_zero_score(
    keyword: list[Scored], semantic: list[Scored], method: Method, first: float, second: float
) -> None:
    fused = fuse(
        {"keyword": keyword, "semantic": semantic}, method=method, weights={"keyword": first, "semantic": second}
    )
    assert set(fused) == {one.chunk_id for one in (*keyword, *semantic)}
    assert all(0 <= score <= 1 + 1e-9 for score in fused.values())


@given(rankings, rankings, methods, st.randoms(use_true_random=False))
def test_the_order_of_ties_has_no_say(
    keyword: list[Scored], semantic: list[Scored], method: Method, random: object
) -> None:
    shuffled = list(keyword)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    shuffled.sort(key=lambda one: -one.score)
    one = fuse({"keyword": keyword, "semantic": semantic}, method=method, weights=EQUAL)
    other = fuse({"semantic": semantic, "keyword": shuffled}, method=method, weights=EQUAL)
    assert one == other


@given(rankings, methods)
def test_one_leg_keeps_its_order(keyword: list[Scored], method: Method) -> None:
    fused = fuse({"keyword": keyword}, method=method, weights=EQUAL)
    for better, worse in pairwise(keyword):
        assert fused[better.chunk_id] >= fused[worse.chunk_id]
        if method == "rrf":
            assert (fused[better.chunk_id] > fused[worse.chunk_id]) == (better.score > worse.score)


@given(rankings, rankings, methods, st.floats(min_value=0.1, max_value=100))
def test_weights_are_shares(keyword: list[Scored], semantic: list[Scored], method: Method, times: float) -> None:
    both: dict[Leg, list[Scored]] = {"keyword": keyword, "semantic": semantic}
    one = fuse(both, method=method, weights={"keyword": 0.3, "semantic": 0.7})
    other = fuse(both, method=method, weights={"keyword": 0.3 * times, "semantic": 0.7 * times})
    assert one == pytest.approx(other)


@given(rankings, rankings)
def test_plain_rrf_is_the_paper_up_to_a_constant(keyword: list[Scored], semantic: list[Scored]) -> None:
    fused = fuse({"keyword": keyword, "semantic": semantic}, weights=EQUAL, k=60)
    for id, score in fused.items():
        expected = sum(1 / (60 + found[id]) for found in (ranks(keyword), ranks(semantic)) if id in found)
        assert score == pytest.approx(expected / 2)


@given(rankings, rankings, st.integers(0, 30), methods)
def test_a_better_place_is_never_worth_less(
    keyword: list[Scored], semantic: list[Scored], id: int, method: Method
) -> None:
    without = [one for one in keyword if one.chunk_id != id]
    first = [Scored(id, max((one.score for one in without), default=0.0) + 1), *without]
    last = [*without, Scored(id, min((one.score for one in without), default=0.0) - 1)]
    scored = [
        fuse({"keyword": found, "semantic": semantic}, method=method, weights=EQUAL)[id] for found in (first, last)
    ]
    assert scored[0] >= scored[1]


@given(rankings)
def test_stretched_scores_span_zero_to_one(keyword: list[Scored]) -> None:
    found = normalised(keyword)
    if len({one.score for one in keyword}) > 1:
        assert (min(found.values()), max(found.values())) == (0.0, 1.0)
    else:
        assert all(value == 1.0 for value in found.values())


def test_the_numbers_of_the_source_designs() -> None:
    keyword, semantic = [Scored(1, 9.0), Scored(2, 5.0), Scored(3, 1.0)], [Scored(2, 0.9), Scored(4, 0.5)]
    both: dict[Leg, list[Scored]] = {"keyword": keyword, "semantic": semantic}
    weighted = fuse(both, weights={"keyword": 0.3, "semantic": 0.7})
    assert weighted[2] == pytest.approx(0.3 / 62 + 0.7 / 61)
    assert weighted[1] == pytest.approx(0.3 / 61)
    summed = fuse(both, method="weighted_score", weights={"keyword": 0.7, "semantic": 0.3})
    assert summed == pytest.approx({1: 0.7, 2: 0.7 * 0.5 + 0.3, 3: 0.0, 4: 0.0})
    assert fuse(both, weights={"keyword": 0.0, "semantic": 0.0})[2] == pytest.approx((1 / 62 + 1 / 61) / 2)
    assert math.isclose(fuse({"semantic": semantic}, weights={"keyword": 0.7, "semantic": 0.3})[2], 1 / 61)


found_by_words = st.dictionaries(
    st.integers(0, 30), st.floats(min_value=0.1, max_value=50).map(lambda score: round(score, 1)), max_size=20
).map(ranking)
bests = st.floats(min_value=0.0, max_value=200)


@given(found_by_words, bests)
def test_coverage_is_a_share_in_the_order_of_the_scores(keyword: list[Scored], best: float) -> None:
    found = covered(keyword, best)
    assert set(found) == {one.chunk_id for one in keyword}
    assert all(0 < share <= 1 for share in found.values())
    for better, worse in pairwise(keyword):
        assert (found[better.chunk_id] > found[worse.chunk_id]) == (better.score > worse.score)
    if keyword and best >= keyword[0].score:
        assert found[keyword[0].chunk_id] == pytest.approx(keyword[0].score / best)


@given(found_by_words, rankings)
def test_what_covers_nothing_leaves_the_order_to_meaning(keyword: list[Scored], semantic: list[Scored]) -> None:
    """Where the words of the query are nowhere, its best score is far above what was found."""
    fused = fuse({"keyword": keyword, "semantic": semantic}, method="adaptive", weights=EQUAL, best_keyword=1e9)
    meaning = normalised(semantic)
    for better, worse in pairwise(semantic):
        if meaning[better.chunk_id] - meaning[worse.chunk_id] > 1e-6:
            assert fused[better.chunk_id] > fused[worse.chunk_id]


@given(found_by_words, rankings, bests, bests)
def test_words_count_the_more_the_more_they_cover(
    keyword: list[Scored], semantic: list[Scored], one: float, other: float
) -> None:
    both: dict[Leg, list[Scored]] = {"keyword": keyword, "semantic": semantic}
    low, high = sorted((one, other))
    covers_more = fuse(both, method="adaptive", weights=EQUAL, best_keyword=low)
    covers_less = fuse(both, method="adaptive", weights=EQUAL, best_keyword=high)
    for scored in keyword:
        assert covers_more[scored.chunk_id] >= covers_less[scored.chunk_id] - 1e-12


def test_adaptive_by_hand() -> None:
    keyword, semantic = [Scored(1, 6.0), Scored(2, 3.0)], [Scored(2, 0.9), Scored(3, 0.8), Scored(1, 0.4)]
    both: dict[Leg, list[Scored]] = {"keyword": keyword, "semantic": semantic}
    weights: dict[Leg, float] = {"keyword": 0.8, "semantic": 0.2}
    fused = fuse(both, method="adaptive", weights=weights, best_keyword=12.0)
    assert fused == pytest.approx({1: 0.8 * 0.5, 2: 0.8 * 0.25 + 0.2, 3: 0.2 * 0.8})
    across = fuse(both, method="adaptive", weights=weights, best_keyword=120.0)
    assert sorted(across, key=lambda id: -across[id]) == [2, 3, 1]
    assert fuse({"keyword": keyword}, method="adaptive", weights=weights, best_keyword=0.0) == {1: 1.0, 2: 0.5}
