"""A selection is a set of ids: whatever sets do, it does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.selection import MAX_CHUNKS, TICKET_BITS, Selection

SIZE = 60
UNIVERSE = np.arange(SIZE)
RANGES = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=8)
IDS = st.sets(st.integers(0, SIZE - 1))


def members(selection: Selection) -> set[int]:
    return set(UNIVERSE[selection.contains(UNIVERSE)].tolist())


def of(ranges: list[tuple[int, int]]) -> tuple[Selection, set[int]]:
    selection = Selection.of_ranges([low for low, _ in ranges], [high for _, high in ranges])
    return selection, {number for low, high in ranges for number in range(low, high)}


def check(selection: Selection) -> None:
    """Sorted, disjoint, not touching, none empty."""
    assert selection.starts.dtype == selection.stops.dtype == np.int64
    assert (selection.starts < selection.stops).all()
    assert (selection.stops[:-1] < selection.starts[1:]).all()
    assert selection.is_empty is (len(selection.starts) == 0)


@given(RANGES)
def test_ranges_in_any_order_are_their_union(ranges: list[tuple[int, int]]) -> None:
    selection, expected = of(ranges)
    check(selection)
    assert members(selection) == expected
    assert selection == Selection.of_ids(sorted(expected))


@given(RANGES, RANGES)
def test_and_or_not_are_those_of_sets(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    (a, in_a), (b, in_b) = of(left), of(right)
    everything = set(range(SIZE))
    for selection, expected in ((a & b, in_a & in_b), (a | b, in_a | in_b), (~a, everything - in_a)):
        check(selection)
        assert members(selection) == expected
    assert ~~a == a
    assert a & ~a == Selection.nothing()
    assert a | ~a == Selection.everything()
    assert (a | ~a).is_everything


@given(RANGES, RANGES)
def test_equal_sets_are_equal_selections(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    (a, in_a), (b, in_b) = of(left), of(right)
    assert (a == b) is (in_a == in_b)
    assert a != "a"
    if in_a == in_b:
        assert hash(a) == hash(b)


@given(RANGES, IDS)
def test_within_is_the_intersection_with_what_is_present(ranges: list[tuple[int, int]], present: set[int]) -> None:
    selection, expected = of(ranges)
    found = selection.within(np.array(sorted(present), dtype=np.int64))
    assert found.tolist() == sorted(expected & present)


@given(IDS, st.lists(st.integers(0, SIZE - 1), max_size=20))
def test_ids_in_any_order_and_repeated(ids: set[int], asked: list[int]) -> None:
    selection = Selection.of_ids([*ids, *ids])
    check(selection)
    assert members(selection) == ids
    assert selection.contains(asked).tolist() == [number in ids for number in asked]


@given(st.sets(st.integers(0, 1000), max_size=6), st.integers(0, 1001), st.integers(0, MAX_CHUNKS - 1))
def test_a_ticket_is_all_of_its_chunks(tickets: set[int], ticket: int, ordinal: int) -> None:
    selection = Selection.of_tickets(list(tickets))
    check(selection)
    assert bool(selection.contains([ticket << TICKET_BITS | ordinal])[0]) is (ticket in tickets)


def test_neighbouring_tickets_are_one_range() -> None:
    assert len(Selection.of_tickets([7, 5, 6, 9]).starts) == 2


def test_everything_and_nothing() -> None:
    everything, nothing = Selection.everything(), Selection.nothing()
    assert everything.is_everything
    assert not everything.is_empty
    assert nothing.is_empty
    assert not nothing.is_everything
    assert ~everything == nothing
    assert ~nothing == everything
    assert everything.contains([0, 2**62]).all()
    assert not nothing.contains([0, 2**62]).any()
    assert nothing.within(UNIVERSE).tolist() == []
    assert everything.within(UNIVERSE).tolist() == UNIVERSE.tolist()
    assert Selection.of_ids([]) == Selection.of_ranges([], []) == Selection.of_tickets([]) == nothing


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 2)])
def test_contains_keeps_the_shape(shape: tuple[int, ...]) -> None:
    asked = np.zeros(shape, dtype=np.int64)
    assert Selection.of_ids([0]).contains(asked).shape == shape
    assert Selection.nothing().contains(asked).shape == shape
