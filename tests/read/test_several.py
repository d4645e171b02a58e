"""Asking in several ways at once: rewritten, imagined, with synonyms, with the words of the first hits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from headwater.enhance import Synonyms, parse_table
from headwater.errors import BackendError, SettingError
from headwater.protocols import Rewriter
from headwater.retrieve import compose
from headwater.spellings import respelled
from headwater.stages.several import telling
from headwater.tokens import Cutter
from headwater.types import Options, Query, Results


class Table:
    """A rewriter that looks its answers up."""

    def __init__(self, ways: Sequence[str] = (), answer: str = "") -> None:
        self.ways, self.answer, self.asked = ways, answer, [0, 0]

    def rewrites(self, question: str, *, limit: int, deadline_seconds: float) -> Sequence[str]:
        self.asked[0] += 1
        return self.ways

    def imagined(self, question: str, *, deadline_seconds: float) -> str:
        self.asked[1] += 1
        return self.answer


class Failing:
    """A rewriter that answers after some seconds, or when it is let go, that it cannot."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.let_go = seconds, Event()

    def rewrites(self, question: str, *, limit: int, deadline_seconds: float) -> Sequence[str]:
        self.let_go.wait(self.seconds)
        raise BackendError("the model is gone")

    def imagined(self, question: str, *, deadline_seconds: float) -> str:
        self.let_go.wait(self.seconds)
        raise BackendError("the model is gone")


def search(shelf: Any, text: str, *, rewriter: Any = None, synonyms: Any = None, **options: Any) -> Results:
    parts = shelf.parts(rewriter=lambda _: rewriter, synonyms=synonyms)
    chosen = Options(**options)
    return compose(parts, chosen).retrieve(Query(text=text, options=chosen))


def uris(results: Results) -> list[str]:
    return [hit.uri for hit in results]


def test_another_way_to_ask_finds_what_the_question_does_not(filled: Any) -> None:
    rewriter = Table(["screen", "bridge"])
    assert isinstance(rewriter, Rewriter)
    plain = search(filled, "PPR-9087 intake", mode="keyword")
    assert uris(plain) == ["pump.md"]
    results = search(filled, "PPR-9087 intake", mode="keyword", rewrite=True, rewriter=rewriter)
    assert uris(results) == ["pump.md", "flood.txt"]
    assert "found by another way to ask" in results[1].reasons
    assert results[0].scores["rewrite"] > results[1].scores["rewrite"]
    # The best of each of three ways: the question counts 1, the two others together half of that.
    assert results[0].scores["rewrite"] == pytest.approx((1 + 0.25) / 1.5)
    assert results[1].scores["rewrite"] == pytest.approx(0.25 / 1.5)
    assert results.total == 2
    assert results.degraded == ()


def test_what_is_far_ahead_stays_ahead(shelf: Any) -> None:
    """Another way to ask that likes something else does not outvote what has all of the question's words."""
    shelf.add("right.md", "The dose of aspirin after a stroke in children was halved.")
    for number in range(6):
        shelf.add(f"near{number}.md", f"A dose of salt for dinner {number}.")
        shelf.add(f"other{number}.md", f"Quantity of medicine, report {number}, amount and medicine.")
    question = "dose of aspirin after a stroke in children"
    ways = ["quantity of medicine", "amount of medicine report"]
    results = search(shelf, question, mode="keyword", rewrite=True, rewriter=Table(ways))
    assert uris(results)[0] == "right.md"
    assert any(uri.startswith("other") for uri in uris(results)), "what only they find comes in"


def test_no_more_ways_than_allowed_and_none_twice(filled: Any) -> None:
    rewriter = Table(["screen", "screen", "holiday", "bridge"])
    results = search(filled, "holiday", mode="keyword", rewrite=True, rewrites=2, rewriter=rewriter)
    assert set(uris(results)) == {"holiday.md", "pump.md"}


def test_an_imagined_answer_is_compared_by_meaning(filled: Any) -> None:
    rewriter = Table(answer="A holiday 假 休假 leave for everybody")
    plain = search(filled, "Which days are free?")
    results = search(filled, "Which days are free?", hyde=True, rewriter=rewriter)
    assert uris(results) != uris(plain)
    assert uris(results)[0] in {"leave.md", "holiday.md", "年假.md"}
    assert rewriter.asked == [0, 1]
    assert search(filled, "leave", mode="keyword", hyde=True, rewriter=rewriter).mode_used == "keyword"


@pytest.mark.parametrize("option", ["rewrite", "hyde"])
def test_a_model_that_fails_or_is_late_costs_its_share_of_the_time(filled: Any, option: str) -> None:
    plain = search(filled, "leave")
    for rewriter, words in ((Failing(), "the model is gone"), (Failing(60.0), "not done within")):
        began = time.perf_counter()
        results = search(filled, "leave", rewriter=rewriter, deadline_seconds=0.6, **{option: True})
        assert time.perf_counter() - began < 30.0
        rewriter.let_go.set()
        assert uris(results) == uris(plain)
        (note,) = results.degraded
        assert note.startswith(f"{option} skipped")
        assert words in note


def test_without_a_model_it_is_told(filled: Any) -> None:
    results = search(filled, "leave", rewrite=True, hyde=True)
    assert results.degraded == ("rewrite and hyde skipped: no language model is set up",)
    assert uris(results) == uris(search(filled, "leave"))


# ------------------------------------------------------------------------------------------ synonyms


@pytest.fixture
def table() -> Synonyms:
    return Synonyms.read(None, Cutter())


@pytest.mark.parametrize(
    ("text", "same", "across"),
    [
        ("How long is parental leave?", "maternity leave", "产假"),
        ("the colour of the dam", "color", "大坝"),
        ("员工请假的流程", "程序", "employee"),
        ("Employees who RESIGNED", "quit", "辞职"),
        ("高血壓的症狀", "", "hypertension"),  # traditional characters
    ],
)
def test_the_table_knows_other_words_and_the_other_language(table: Synonyms, text: str, same: str, across: str) -> None:
    variants = table.variants(text)
    assert any(same in variant for variant in variants)
    assert across in variants[-1]
    if same:
        assert variants[0].startswith(text)


def test_the_longest_word_wins_and_a_part_of_a_word_is_none(table: Synonyms) -> None:
    assert "time off" not in " ".join(table.variants("parental leave"))
    assert table.variants("unrelated xylophones") == []
    assert table.variants("") == []
    assert table.variants("carport") == []  # neither car nor port


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("colour", "color"),
        ("neighbourhoods", "neighborhoods"),
        ("organisation", "organization"),
        ("optimising", "optimizing"),
        ("analysed", "analyzed"),
        ("theatre", "theater"),
        ("fibres", "fibers"),
        ("catalogue", "catalog"),
        ("defences", "defenses"),
        ("travelled", "traveled"),
        ("haemoglobin", "hemoglobin"),
        ("paediatrics", "pediatrics"),
    ],
)
def test_both_spellings_are_asked_for(british: str, american: str, table: Synonyms) -> None:
    assert respelled(american) in (british, "")
    assert respelled(british) == american
    assert american in table.variants(f"the {british} of 1998")[0].split()


@pytest.mark.parametrize(
    "word",
    "hour four your size prize advise exercise promised river water number doctor analysis this 水位 noise".split(),
)
def test_words_that_only_look_alike_keep_their_spelling(word: str) -> None:
    assert respelled(word) == ""


def test_another_spelling_finds_what_the_question_does_not(shelf: Any, table: Synonyms) -> None:
    shelf.add("a.md", "The armor was traveling by rail.")
    parts = shelf.parts(synonyms=table.variants)
    for on in (False, True):
        options = Options(mode="keyword", synonyms=on)
        assert bool(compose(parts, options).retrieve(Query(text="armour", options=options)).hits) is on


def test_traditional_and_simplified_characters_are_one(shelf: Any) -> None:
    shelf.add("a.md", "高血壓的症狀")
    assert uris(search(shelf, "高血压的症状", mode="keyword")) == ["a.md"]


def test_a_home_adds_its_own_lines(tmp_path: Path) -> None:
    (tmp_path / "synonyms.tsv").write_text("# ours\nQY-05\tLower Mill\t下磨坊\n", encoding="utf-8")
    variants = Synonyms.read(tmp_path, Cutter()).variants("level at QY-05")
    assert variants == ["level at QY-05 Lower Mill", "下磨坊"]


def test_a_line_with_one_word_is_refused() -> None:
    with pytest.raises(SettingError, match=r"line 2.*'alone'"):
        parse_table("one\ttwo\nalone\n", "synonyms.tsv")


def test_the_option_switches_them_on(filled: Any, table: Synonyms) -> None:
    parts = filled.parts(synonyms=table.variants)
    for on in (False, True):
        options = Options(mode="keyword", synonyms=on)
        results = compose(parts, options).retrieve(Query(text="time off", options=options))
        assert ("leave.md" in uris(results)) is on


# ------------------------------------------------------------------------------------------ feedback


def test_words_that_the_first_hits_share_are_asked_for(shelf: Any) -> None:
    for number in range(4):
        shelf.add(f"turbine{number}.md", f"The turbine number {number} drives a generator with a flywheel.")
    shelf.add("flywheel.md", "A flywheel and a generator stand in the museum.")
    for number in range(20):
        shelf.add(f"other{number}.md", f"Report {number} speaks of paint and of nothing else.")
    cutter = Cutter()
    plain = search(shelf, "turbine", mode="keyword", top_n=10)
    words = telling("turbine", [*plain.hits, *search(shelf, "report", mode="keyword", top_n=30).hits], cutter)
    assert {"generat", "flywheel"} <= set(words)
    assert "turbin" not in words
    assert "flywheel.md" not in uris(plain)
    # Among hits of one kind only nothing tells them apart, and nothing is added.
    assert uris(search(shelf, "turbine", mode="keyword", top_n=10, feedback=True))[:4] == uris(plain)[:4]


def test_feedback_of_no_hits_is_none(shelf: Any) -> None:
    assert telling("turbine", [], Cutter()) == []
    assert len(search(shelf, "turbine", feedback=True)) == 0
