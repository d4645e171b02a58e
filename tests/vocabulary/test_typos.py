"""Which words of a question may be typed wrong, and what may have been meant."""

from __future__ import annotations

import pytest

from headwater.tokens import Cutter
from headwater.typos import MOST_LETTERS, corrected, doubtful, may_hold_typos, slips, told, two_slips

CUTTER = Cutter()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("warrenty", "warranty"),  # another letter
        ("goverment", "government"),  # one too few
        ("univversity", "university"),  # one too many
        ("langauge", "language"),  # two the wrong way round
        ("ommunity", "community"),  # the first one lost
        ("seige", "siege"),
    ],
)
def test_one_slip(typed: str, meant: str) -> None:
    assert meant in slips(typed)
    assert typed not in slips(typed)


@pytest.mark.parametrize(("typed", "meant"), [("accomodatoin", "accommodation"), ("embarrasssed", "embarrassed")])
def test_two_slips_of_a_long_word(typed: str, meant: str) -> None:
    assert meant in {**slips(typed), **two_slips(typed)}
    assert two_slips("seigge") == {}


def test_what_happens_often_is_likelier() -> None:
    made = slips("comittee")
    assert made["committee"] < made["comittees"] < made["vomittee"]
    assert slips("seige")["siege"] < slips("seige")["seine"]


def test_a_letter_in_front_is_no_slip() -> None:
    assert "political" not in slips("apolitical")
    assert "internal" in slips("iinternal")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what is the warrenty of it", ["warrenty"]),
        ("the pmp of PPRX-9087 and ABCD-12 at foo@exampel.com", []),  # three letters, codes, an address
        ("is v2alpha or beta_flag set in config.yaml", []),
        ("what does NASSA do with getUserNmae", []),  # abbreviations, names of programs
        ("WARRENTY PERIOD", ["WARRENTY", "PERIOD"]),
        ("who was Hamaz, Bismark and Zürrich", ["Bismark", "Zürrich"]),  # of short names another is always near
        ("Hamaz who", ["Hamaz"]),
        ("well-knwon don't", ["well", "knwon"]),
        ("保修期 warrenty 多长", ["warrenty"]),
        ("保修期多长 12345", []),
        ("w" * MOST_LETTERS, ["w" * MOST_LETTERS]),
        ("w" * (MOST_LETTERS + 1) + " warrenty", ["warrenty"]),  # a key that stuck
    ],
)
def test_which_words_may_be_wrong(text: str, words: list[str]) -> None:
    found = doubtful(text, CUTTER.words_in(text))
    assert [text[term.start : term.end] for term in found] == words
    assert may_hold_typos(text) or not words


def test_quoted_words_are_left_alone() -> None:
    text = "old brigde over the rivver"
    found = doubtful(text, CUTTER.words_in(text), quoted=["old brigde"])
    assert [text[term.start : term.end] for term in found] == ["rivver"]


def test_a_correction_takes_the_place_of_whole_words() -> None:
    assert corrected("warrenty warrentys Warrenty", {"warrenty": "warranty"}) == "warranty warrentys Warrenty"
    assert corrected("as it is", {}) == "as it is"
    assert told({"warrenty": "warranty"}) == ["nothing has the word 'warrenty'; 'warranty' was asked for instead"]
