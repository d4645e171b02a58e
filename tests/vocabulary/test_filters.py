"""What each piece of the filter language says, by example."""

from collections.abc import Callable

import pytest

from headwater import filters
from headwater.errors import FilterError
from headwater.filters import ALL, NOTHING, And, Compare, Contains, Filter, Has, In, Not, Or, Value, conjoin, disjoin

META: filters.Attributes = {
    "tag": ("x", "年报"),
    "page": (3, 4),
    "section": "Results > Methods",
    "date": "2025-01-01T08:00:00Z",
    "archived": False,
    "collection": "default",
    "作者": "张三",
    "meta.rank": 2.5,
    "empty": (),
}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", ALL),
        (" \n ", ALL),
        ("*", ALL),
        ('tag = "x"', Compare("tag", "=", "x")),
        ("tag == 'x'", Compare("tag", "=", "x")),
        ("tag=x", Compare("tag", "=", "x")),
        ("tag<>x", Compare("tag", "!=", "x")),
        (r'tag = "a \"b\" \\ c"', Compare("tag", "=", r'a "b" \ c')),
        (r"tag = 'it\'s'", Compare("tag", "=", "it's")),
        ("作者 = 张三", Compare("作者", "=", "张三")),
        ("作者 ＝ “张 三”", Compare("作者", "=", "张 三")),
        ("page >= 3", Compare("page", ">=", 3)),
        ("page ≥ 3", Compare("page", ">=", 3)),
        ("rank < -1.5e3", Compare("rank", "<", -1500.0)),
        ("date >= 2025-01-01", Compare("date", ">=", "2025-01-01")),
        ("date < 2025-01-01T10:00:00Z", Compare("date", "<", "2025-01-01T10:00:00Z")),
        ("version = v1.2.3", Compare("version", "=", "v1.2.3")),
        ("language = c++", Compare("language", "=", "c++")),
        ("archived = TRUE", Compare("archived", "=", True)),
        ("archived", Has("archived")),
        ("not archived", Not(Has("archived"))),
        ("!archived", Not(Has("archived"))),
        ('section CONTAINS "Methods"', Contains("section", "Methods")),
        ("section contains 2025", Contains("section", "2025")),
        ("section not contains draft", Not(Contains("section", "draft"))),
        ('tag in ("a", b, 3)', In("tag", ("a", "b", 3))),
        ("tag IN [a]", In("tag", ("a",))),
        ("tag in （甲，乙、丙）", In("tag", ("甲", "乙", "丙"))),
        ("tag in ()", In("tag", ())),
        ("tag not in (a)", Not(In("tag", ("a",)))),
        ("a or b and c", Or((Has("a"), And((Has("b"), Has("c")))))),
        ("a && b || !c", Or((And((Has("a"), Has("b"))), Not(Has("c"))))),
        ("(a or b) and c", And((Or((Has("a"), Has("b"))), Has("c")))),
        ("not not a", Not(Not(Has("a")))),
        ('note = "and"', Compare("note", "=", "and")),
        ("meta.author-name = x", Compare("meta.author-name", "=", "x")),
    ],
)
def test_parse(text: str, tree: Filter) -> None:
    assert filters.parse(text) == tree


def test_the_example_of_the_docstring_parses_and_matches() -> None:
    text = 'tag = "x" and (page >= 3 or section contains "Methods") and date >= 2025-01-01 and not archived'
    where = filters.parse(text)
    assert text in str(filters.__doc__)
    assert where.matches(META)
    assert not where.matches({**META, "archived": True})
    assert not where.matches({**META, "page": (1,), "section": "Introduction"})


@pytest.mark.parametrize(("alias", "key"), filters.ALIASES.items())
def test_other_spellings_of_a_key_mean_the_key(alias: str, key: str) -> None:
    assert filters.parse(f"{alias} = 1") == Compare(key, "=", 1) == Compare(alias, "=", 1)


def test_the_aliases_are_the_documented_ones() -> None:
    assert set(filters.ALIASES) == {"tags", "pages", "type", "user_id", "project_id", "sections"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tag = x", True),
        ("tag = y", False),
        ("tag != x", False),
        ("tag != y", True),
        ("tag = X", False),
        ("tag in (y, 年报)", True),
        ("page > 3", True),
        ("page < 3", False),
        ("page != 5", True),
        ("page = 3.0", True),
        ("page = '3'", False),
        ("section > A", True),
        ("section > 3", False),
        ("missing = 1", False),
        ("missing != 1", True),
        ("not missing = 1", True),
        ("missing < 1 or missing >= 1", False),
        ("missing", False),
        ("not missing", True),
        ("empty", False),
        ("empty != 1", True),
        ("archived", False),
        ("archived = false", True),
        ("archived = 0", True),
        ("tag", True),
        ("section contains METHODS", True),
        ("section contains ＭＥＴＨＯＤＳ", True),
        ("section contains ''", True),
        ("page contains 3", False),
        ("tag contains 年", True),
        ("meta.rank >= 2.5", True),
        ("作者 = 张三", True),
    ],
)
def test_meaning(text: str, expected: bool) -> None:
    assert filters.parse(text).matches(META) is expected


@pytest.mark.parametrize(
    ("stored", "comparison", "expected"),
    [
        ("2025-01-01T08:00", "<= 2025-01-01", True),
        ("2025-01-01T23:59:59Z", "<= 2025-01-01", True),
        ("2025-01-02", "<= 2025-01-01", False),
        ("2025-01-01T08:00", "= 2025-01-01", True),
        ("2025-01-01 08:00", "= 2025-01-01", True),
        ("2025-01-01T08:00", "> 2025-01-01", False),
        ("2025-01-31", "= 2025-01", True),
        ("2025-02-01", "= 2025-01", False),
        ("2025-01-31", "<= 2025-01", True),
        ("2025-06-01", "= 2025", True),
        ("2025-06-01", "= '2025'", True),
        ("2025-06-01", "!= 2025", False),
        ("2024-12-31", ">= 2025", False),
        ("2025-01-01T10:00:00.123+00:00", "= 2025-01-01T10:00:00Z", True),
        ("2025-01-01T10:00:01Z", "> 2025-01-01T10:00:00Z", True),
        ("2025-01", "< 2025-01-15", True),
        ("2025", "= 2025-01-01", False),
        ("2025-01-01x", "= 2025-01-01", False),
        ("30", "< 2025", False),
    ],
)
def test_dates_compare_at_the_precision_of_the_literal(stored: str, comparison: str, expected: bool) -> None:
    assert filters.parse(f"date {comparison}").matches({"date": stored}) is expected


@pytest.mark.parametrize(
    ("text", "place", "expected", "got"),
    [
        ("tag =", 6, "a value", "the end"),
        ("tag = and", 7, "a value", "'and'"),
        ("= 3", 1, "a key", "'='"),
        ('"tag" = 3', 1, "a key", "'\"tag\"'"),
        ("3 = page", 1, "a key", "'3'"),
        ("tag = 'x", 7, "a closing quote", "x"),
        ("tag = x $", 9, "a name, a value or a sign", "'$'"),
        ("(tag = x", 9, "a closing parenthesis", "the end"),
        ("tag = x)", 8, "the end", "')'"),
        ("tag = x y", 9, "and, or", "'y'"),
        ("tag in x", 8, "a list", "'x'"),
        ("tag in (x y)", 11, "a comma", "'y'"),
        ("tag in (x", 10, "a comma", "the end"),
        ("tag in (,)", 9, "a value", "','"),
        ("section contains (", 18, "a text", "'('"),
        ("a and", 6, "a key", "the end"),
        ("page > 1e999", 8, "sensible size", "'1e999'"),
    ],
)
def test_a_bad_filter_says_where_what_and_how(text: str, place: int, expected: str, got: str) -> None:
    with pytest.raises(FilterError) as caught:
        filters.parse(text)
    message = str(caught.value)
    assert f"at character {place}:" in message
    assert expected in message.split("got", maxsplit=1)[0]
    assert got in message.split("got", maxsplit=1)[1]
    assert "Example: tag = " in message


@pytest.mark.parametrize("key", ["date", "created", "updated"])
@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
def test_before_and_after_are_said_of_dates(key: str, op: filters.Op) -> None:
    for wrong in ("2025/01/31", "2025-1-31", "2025年", "yesterday"):
        with pytest.raises(FilterError, match=f"expected a date such as 2025, .*got '{wrong}'"):
            filters.parse(f"tag = hr and {key} {op} {wrong}")
    for good in ("2025", "2025-01", "2025-01-31", "2025-01-31T08:00"):
        assert filters.parse(f"{key} {op} {good}").key == key
    for other in (f'{key} {op} "spring"', f"{key} = spring", f"edition {op} 2025/01/31"):
        assert filters.parse(other) is not None


def test_depth_and_length_are_bounded() -> None:
    deep = filters.MAX_DEPTH
    assert filters.parse("(" * deep + "a" + ")" * deep) == Has("a")
    for hostile in ("(" * (deep + 1) + "a" + ")" * (deep + 1), "not " * (deep + 1) + "a", "(" * 9_000, "!" * 9_000):
        with pytest.raises(FilterError, match=f"at most {deep} levels"):
            filters.parse(hostile)
    with pytest.raises(FilterError, match="at most 10,000 characters, got 10,001"):
        filters.parse("a" * 10_001)
    with pytest.raises(FilterError, match="sensible size"):
        filters.parse("a = " + "9" * 5_000)


def test_conjoin_and_disjoin() -> None:
    a, b, c = Has("a"), Has("b"), Has("c")
    assert conjoin() == conjoin(ALL, ALL) == ALL
    assert conjoin(ALL, a) == a
    assert conjoin(a, And((b, ALL)), And((And((c, a)), b))) == And((a, b, c, a, b))
    assert disjoin() == NOTHING
    assert disjoin(a) == a
    assert disjoin(a, b) == Or((a, b))
    assert not NOTHING.matches(META)


def test_a_filter_is_never_part_of_another_ones_text() -> None:
    hostile = 'x" or collection != "default'
    where = conjoin(Compare("tag", "=", hostile), Compare("collection", "=", "default"))
    assert filters.parse(filters.to_text(where)) == where
    assert not where.matches(META)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Has("two words"),
        lambda: Has("and"),
        lambda: Has(""),
        lambda: Compare("a", "like", 1),  # type: ignore[arg-type]
        lambda: Compare("a", "=", float("nan")),
        lambda: Compare("a", "=", None),  # type: ignore[arg-type]
        lambda: In("a", ["b"]),  # type: ignore[arg-type]
        lambda: Contains("a", 3),  # type: ignore[arg-type]
        lambda: And((Has("a"),)),
        lambda: Or(()),
    ],
)
def test_a_tree_that_has_no_text_is_refused(make: Callable[[], Filter]) -> None:
    with pytest.raises(FilterError, match="got"):
        make()


@pytest.mark.parametrize(("op", "stored", "literal", "expected"), [("=", 1, True, True), ("contains", "Ab", "B", True)])
def test_one_value_against_one_literal(op: filters.Op, stored: Value, literal: Value, expected: bool) -> None:
    assert filters.test(op, stored, literal) is expected
