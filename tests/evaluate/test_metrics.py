"""The metrics are those of trec_eval: by hand, and against ir-measures over made-up rankings."""

import math

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import AP, RR, P, R, nDCG

from headwater.evaluate.metrics import METRICS, interval, judged

THEIRS = {
    "ndcg@10": nDCG @ 10,
    "recall@5": R @ 5,
    "recall@10": R @ 10,
    "recall@100": R @ 100,
    "mrr@10": RR @ 10,
    "map@10": AP @ 10,
    "precision@5": P @ 5,
}

documents = st.integers(0, 150).map(str)
rankings = st.lists(documents, unique=True, max_size=130)
judgements = st.dictionaries(documents, st.integers(0, 3), min_size=1, max_size=25)


def test_by_hand() -> None:
    grades = {"a": 2, "b": 1, "c": 0, "d": 1}
    found = judged(["c", "a", "x", "d"], grades)
    gain = 2 / math.log2(3) + 1 / math.log2(5)
    ideal = 2 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert found["ndcg@10"] == pytest.approx(gain / ideal)
    assert found["recall@5"] == found["recall@10"] == found["recall@100"] == pytest.approx(2 / 3)
    assert found["mrr@10"] == pytest.approx(1 / 2)
    assert found["map@10"] == pytest.approx((1 / 2 + 2 / 4) / 3)
    assert found["precision@5"] == pytest.approx(2 / 5)
    assert set(found) == set(METRICS) == set(THEIRS)


def test_cuts_are_where_they_say() -> None:
    def at(rank: int) -> dict[str, float]:
        return judged([f"x{n}" for n in range(1, rank)] + ["right"], {"right": 1})

    assert (at(5)["recall@5"], at(6)["recall@5"]) == (1.0, 0.0)
    assert (at(10)["ndcg@10"] > 0, at(11)["ndcg@10"]) == (True, 0.0)
    assert (at(10)["mrr@10"], at(11)["mrr@10"], at(11)["map@10"]) == (0.1, 0.0, 0.0)
    assert (at(100)["recall@100"], at(101)["recall@100"]) == (1.0, 0.0)


def test_nothing_found_and_nothing_relevant_are_zero() -> None:
    assert set(judged([], {"a": 1}).values()) == {0.0}
    assert set(judged(["a"], {"a": 0}).values()) == {0.0}


@given(rankings, judgements)
def test_metrics_equal_those_of_trec_eval(ranking: list[str], grades: dict[str, int]) -> None:
    scored = {"q": {document: float(len(ranking) - place) for place, document in enumerate(ranking)}}
    theirs = ir_measures.calc_aggregate(THEIRS.values(), {"q": grades}, scored)
    ours = judged(ranking, grades)
    for name, measure in THEIRS.items():
        # Where nothing is found or relevant, one of their providers answers with no number at all.
        expected = 0.0 if math.isnan(theirs[measure]) else theirs[measure]
        assert ours[name] == pytest.approx(expected), name


def test_intervals_are_the_same_every_time_and_hold_the_mean() -> None:
    values = [0.0, 1.0, 0.5, 0.25, 1.0, 0.75] * 20
    first, second = interval(values), interval(values)
    assert first == second
    assert first.low < first.mean < first.high
    assert first.mean == pytest.approx(sum(values) / len(values))
    wide = interval(values[:12])
    assert wide.high - wide.low > first.high - first.low
    assert interval([0.3] * 10) == interval([0.3] * 10)
    assert interval([0.5] * 10).low == interval([0.5] * 10).high == 0.5


def test_an_interval_is_about_as_wide_as_theory_says() -> None:
    values = [float(n % 2) for n in range(400)]
    found = interval(values)
    standard_error = 0.5 / math.sqrt(400)
    assert found.high - found.low == pytest.approx(2 * 1.96 * standard_error, rel=0.1)
