"""Markers are read whatever shape a model gives them, and text that looks like one stays text."""

import pytest

from headwater.markers import complete, named, split, without


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        ("The dam opened [1].", [1]),
        ("The dam opened【1】.", [1]),
        ("The dam opened ［2］.", [2]),
        ("The dam opened [1,2].", [1, 2]),
        ("The dam opened [1, 2 and 4].", [1, 2, 4]),
        ("The dam opened [1-3].", [1, 2, 3]),
        ("The dam opened [2–4].", [2, 3, 4]),
        ("The dam opened [ID:1].", [1]),
        ("The dam opened [ID: 1][ID: 3].", [1, 3]),
        ("大坝建成（来源 1）。", [1]),
        ("大坝建成(来源1、2)。", [1, 2]),
        ("大坝建成[来源 1: 大坝.md]。", [1]),
        ("The dam opened (Source 1).", [1]),
        ("The dam opened [Source 2: dam.md, page 3].", [2]),
        ("The dam opened [^1].", [1]),
        ("The dam opened 【3†source】.", [3]),
        ("The dam opened<sup>2</sup>.", [2]),
        ("The dam opened.¹", [1]),
        ("The dam opened¹².", [12]),
        ("大坝建成²。", [2]),
        ("The dam opened [[1]].", [1]),
        ("The dam opened [citation:4].", [4]),
        ("The dam opened [doc 1, doc 2].", [1, 2]),
        ("The dam opened.", []),
    ],
)
def test_every_shape_is_read(written: str, numbers: list[int]) -> None:
    assert named(written) == numbers
    bare = without(written)
    assert bare in ("The dam opened.", "大坝建成。")


@pytest.mark.parametrize(
    "written",
    ["array[2024] is set", "two parts: (1) the wall", "an area of 5 km²", "x[i]", "10³ litres", "[see below]"],
)
def test_what_only_looks_like_one_is_text(written: str) -> None:
    assert named(written) == []
    assert without(written) == written


def test_a_marker_stays_with_the_sentence_before_it() -> None:
    assert split("It opened in 1936. [1] It is tall.【2】 So it is.") == [
        "It opened in 1936. [1] ",
        "It is tall.【2】 ",
        "So it is.",
    ]


@pytest.mark.parametrize(
    "marker", ["[1]", "【1】", "[1, 2]", "(来源 1)", "[ID:1]", "[Source 1: dam.md]", "<sup>1</sup>"]
)
def test_a_marker_that_comes_in_pieces_is_waited_for(marker: str) -> None:
    text, buffer, ended = f"It opened in 1936. {marker} It is tall.", "", []
    for char in text:
        more, buffer = complete(buffer + char)
        ended += more
    assert ended == [f"It opened in 1936. {marker} "]
    assert buffer == "It is tall."


def test_a_bracket_that_never_closes_holds_nothing_up_for_long() -> None:
    ended, _ = complete("It opened in 1936. (" + "and so on " * 12 + "until the end. Next")
    assert ended
