"""Cutting in two threads gives what cutting in one gives, whatever becomes of the other one."""

import threading
from collections.abc import Iterator

import pytest

from headwater.storage._cutting import LARGE_BATCH, Cutting, Lanes, Manner
from headwater.tokens import Cutter, Pairs

CUTTER = Cutter()
TEXTS = [f"passage {number} of the river 水位观测记录 PPR-{number}" for number in range(2 * LARGE_BATCH)]
OTHERS = [f"another {number} 北京大学" for number in range(LARGE_BATCH)]


@pytest.fixture
def cutting() -> Iterator[Cutting]:
    made = Cutting(CUTTER, threads=2)
    yield made
    made.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headwater-cut")]


Terms = tuple[list[str], ...]


def terms(lanes: Lanes) -> Terms:
    """How much white space there is depends on what was cut together."""
    return tuple(lane.split() for lane in lanes)


def together(slices: Iterator[tuple[int, list[Lanes]]], count: int) -> list[Terms]:
    found: dict[int, Terms] = {}
    for start, lanes in slices:
        for place, one in enumerate(lanes, start):
            assert place not in found
            found[place] = terms(one)
    assert len(found) == count
    return [found[place] for place in range(count)]


def cut(texts: list[str]) -> list[Terms]:
    return [terms(lanes) for lanes in CUTTER.cut_many(texts, pairs=Pairs.ONCE)]


@pytest.fixture(scope="module")
def wanted() -> list[Terms]:
    return cut(TEXTS)


def test_two_threads_cut_what_one_cuts(cutting: Cutting, wanted: list[Terms]) -> None:
    assert together(cutting.slices(TEXTS), len(TEXTS)) == wanted


def test_they_cut_as_an_earlier_release_did(cutting: Cutting) -> None:
    texts = [f"à Zürich {text}" for text in TEXTS]
    wanted = [terms(lanes) for lanes in CUTTER.with_accents.cut_many(texts)]
    assert together(cutting.slices(texts, Manner(Pairs.ALL, accents=True)), len(texts)) == wanted
    assert "zürich" in wanted[0][0] and "水位" in wanted[0][1]


def test_what_was_begun_is_gone_on_with(cutting: Cutting, wanted: list[Terms]) -> None:
    cutting.begin(TEXTS)
    cutting.begin(OTHERS)
    begun = cutting._begun[0]
    while begun.todo:  # the other thread does all of it alone
        threading.Event().wait(0.01)
    assert together(cutting.slices(TEXTS[:3]), 3) == wanted[:3]  # a small batch has nothing to do with it
    assert together(cutting.slices(TEXTS), len(TEXTS)) == wanted
    assert together(cutting.slices(OTHERS), len(OTHERS)) == cut(OTHERS)


def test_what_was_begun_for_nothing_is_dropped(cutting: Cutting, wanted: list[Terms]) -> None:
    cutting.begin(OTHERS)
    assert together(cutting.slices(TEXTS), len(TEXTS)) == wanted
    assert not cutting._begun


def test_what_goes_wrong_in_the_other_thread_is_told(cutting: Cutting) -> None:
    cutting.begin([*TEXTS, 7])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        list(cutting.slices([*TEXTS, 7]))  # type: ignore[list-item]


def test_giving_up_in_the_middle(cutting: Cutting, wanted: list[Terms]) -> None:
    slices = cutting.slices(TEXTS)
    assert next(slices)[1]
    slices.close()
    assert together(cutting.slices(TEXTS), len(TEXTS)) == wanted
