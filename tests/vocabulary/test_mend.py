"""What a model wrote for JSON becomes the value it meant, and never an endless loop."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.mend import mended, mended_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure! [1] says so: {"a": 1} Hope that helps.', {"a": 1}),
        ('```json\n{"a": [1, 2,],}\n```', {"a": [1, 2]}),
        ("```\n[\"x\", 'y']\n```", ["x", "y"]),
        ("{'a': 'it\\'s', b: true, c: None}", {"a": "it's", "b": True, "c": None}),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('{"a": "he said "no" twice"}', {"a": 'he said "no" twice'}),
        ('{"a": {"b": [1, {"c": "cut off', {"a": {"b": [1, {"c": "cut off"}]}}),
        ('{"a": 1, "b":', {"a": 1, "b": None}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": 1, // one\n /* two */ "b": 2 # three\n}', {"a": 1, "b": 2}),
        ("{“准确”：8，“建议”：“再搜索”}", {"准确": 8, "建议": "再搜索"}),
        ('{"a": "\\u5927\\u575d"}', {"a": "大坝"}),
        ('[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        ('{"a": 7.5, "b": -3}', {"a": 7.5, "b": -3}),
    ],
)
def test_what_was_meant(written: str, meant: Any) -> None:
    assert mended(written) == meant


@pytest.mark.parametrize("written", ["", "no braces here", "see [1] and [12]", "1936"])
def test_where_there_is_none_it_says_so(written: str) -> None:
    with pytest.raises(ValueError, match="no JSON"):
        mended(written)


def test_an_object_is_an_object() -> None:
    assert mended_object('[{"a": 1}]') == {"a": 1}
    with pytest.raises(ValueError, match="no JSON object"):
        mended_object('["a"]')


@given(VALUES.filter(lambda value: isinstance(value, dict | list) and value))
def test_good_json_is_left_alone(value: Any) -> None:
    assert mended(json.dumps(value)) == value


@given(VALUES.filter(lambda value: isinstance(value, dict)), st.integers(0, 200))
def test_half_of_it_is_read_to_its_end(value: Any, cut: int) -> None:
    written = json.dumps(value)[: cut + 1]
    assert isinstance(mended(written), dict)


@given(st.text(alphabet="{}[]\"':,\\ab1 \n/*#", max_size=60))
def test_any_noise_ends(text: str) -> None:
    with suppress(ValueError):
        mended(text)


def test_brackets_without_end_are_refused() -> None:
    with pytest.raises(ValueError, match="too deeply"):
        mended("[" * 100_000)
