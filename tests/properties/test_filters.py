"""Laws of the filter language over any filter and any document."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from headwater import filters
from headwater.errors import FilterError
from headwater.filters import ALL, All, And, Compare, Contains, Filter, Has, In, Not, Or, Value, conjoin, disjoin

KEYS = st.one_of(
    st.sampled_from(["tag", "page", "section", "date", "archived", "meta.a-b", "作者", "_x"]),
    st.from_regex(r"[^\W\d][\w-]{0,5}(\.[\w-]{1,3})?", fullmatch=True).filter(
        lambda key: key.lower() not in {"and", "or", "not", "in", "contains", "true", "false"}
    ),
)
DATES = st.sampled_from(["2025", "2025-01", "2025-01-01", "2025-01-01T08:00", "2025-01-01T08:00:30Z", "2024-12-31"])
TEXTS = st.one_of(DATES, st.sampled_from(["x", "X", "and", '"', "\\", "Ｘ y", ""]), st.text(max_size=6))
VALUES: st.SearchStrategy[Value] = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
)
OPS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LEAVES: st.SearchStrategy[Filter] = st.one_of(
    st.just(ALL),
    st.builds(Compare, KEYS, OPS, VALUES),
    st.builds(Contains, KEYS, TEXTS),
    st.builds(In, KEYS, st.lists(VALUES, max_size=3).map(tuple)),
    st.builds(Has, KEYS),
)


def nested(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(And, parts), st.builds(Or, parts), st.builds(Not, inner))


FILTERS = st.recursive(LEAVES, nested, max_leaves=8)
METAS: st.SearchStrategy[Mapping[str, Value | tuple[Value, ...]]] = st.dictionaries(
    st.sampled_from(["tag", "page", "section", "date", "archived", "meta.a-b", "作者", "_x"]),
    st.one_of(VALUES, st.lists(VALUES, max_size=3).map(tuple)),
)


@given(FILTERS)
def test_what_is_written_is_read_back(where: Filter) -> None:
    again = filters.parse(filters.to_text(where))
    assert again == where
    assert hash(again) == hash(where)


@given(FILTERS, METAS)
def test_what_is_read_back_means_the_same(where: Filter, meta: Mapping[str, Value]) -> None:
    assert filters.parse(filters.to_text(where)).matches(meta) is where.matches(meta)


@given(st.lists(FILTERS, max_size=4), METAS)
def test_conjoin_is_all_and_disjoin_is_any(several: list[Filter], meta: Mapping[str, Value]) -> None:
    held = [where.matches(meta) for where in several]
    together = conjoin(*several)
    assert together.matches(meta) is all(held)
    assert disjoin(*several).matches(meta) is any(held)
    parts = together.parts if isinstance(together, And) else (together,)
    assert not any(isinstance(part, And) for part in parts)
    assert together == ALL or not any(isinstance(part, All) for part in parts)


@given(KEYS, VALUES, METAS)
def test_not_equal_is_exactly_not_equal(key: str, value: Value, meta: Mapping[str, Value]) -> None:
    assert Compare(key, "!=", value).matches(meta) is not Compare(key, "=", value).matches(meta)
    assert Compare(key, "=", value).matches(meta) is In(key, (value,)).matches(meta)


@given(VALUES, VALUES)
def test_two_values_of_a_kind_stand_in_exactly_one_relation(stored: Value, literal: Value) -> None:
    held = [filters.test("<", stored, literal), filters.test("=", stored, literal), filters.test(">", stored, literal)]
    assert sum(held) <= 1
    if isinstance(stored, str) == isinstance(literal, str):
        assert sum(held) == 1
    assert filters.test("<=", stored, literal) is (held[0] or held[1])
    assert filters.test(">=", stored, literal) is (held[2] or held[1])


@given(OPS, VALUES, st.lists(VALUES, max_size=4).map(tuple))
def test_several_values_match_when_any_does(op: filters.Op, literal: Value, stored: tuple[Value, ...]) -> None:
    ask = all if op == "!=" else any
    assert Compare("k", op, literal).matches({"k": stored}) is ask(filters.test(op, one, literal) for one in stored)


SCRAPS = st.text(alphabet="ab=<>!&|()[],\"'\\ 12.-*＝（“”、and or not in contains", max_size=40)
CUT_SHORT = st.builds(lambda where, length: filters.to_text(where)[:length], FILTERS, st.integers(1, 60))


@given(st.one_of(st.text(), SCRAPS, CUT_SHORT))
def test_any_text_is_a_filter_or_a_filter_error(text: str) -> None:
    try:
        where = filters.parse(text)
    except FilterError as error:
        assert "expected" in str(error)
        assert "got" in str(error)
        assert "Example" in str(error)
    else:
        assert filters.parse(filters.to_text(where)) == where
