"""Searching with phrases and exclusions, going through everything, and following links: on a real home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.build import KnowledgeBase, open_home
from headwater.retrieve import PHRASE_MISSING
from headwater.sample import copy_to, questions
from headwater.stages.related import Edge, pagerank
from headwater.types import Document, Labels, Results

MODES = ("hybrid", "keyword", "semantic")
FILLER = 300


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    """Three hundred documents about gauges, of which three have the words side by side."""
    with open_home(tmp_path_factory.mktemp("asked") / "kb") as opened:
        filler = [
            Document(
                uri=f"filler-{n}.txt", text=f"The bridge is old and the gauge is near it. Note {n} on bridge and gauge."
            )
            for n in range(FILLER)
        ]
        opened.add_documents(filler)
        opened.add_text("Read it at the OLD\nbridge each day.", uri="one.txt")
        opened.add_text("Nobody crosses the old bridge in the rain.", uri="two.txt", labels=Labels(tags=("wet",)))
        opened.add_text("A gauge for those who need one.", uri="three.txt", labels=Labels(title="Old bridge"))
        opened.add_text("舊橋上的水位計每天早上讀數。", uri="four.txt")
        yield opened


def uris(results: Results) -> set[str]:
    return {hit.uri for hit in results}


@pytest.mark.parametrize("mode", MODES)
def test_a_phrase_is_found_wherever_it_ranks(kb: KnowledgeBase, mode: Any) -> None:
    results = kb.search('gauge "old bridge"', mode=mode, top_n=10)
    assert uris(results) == {"one.txt", "two.txt", "three.txt"}
    assert results.total == 3 and results.fallback_reason is None
    assert all('exact words: "old bridge"' in hit.reasons for hit in results)
    assert results.query.text == 'gauge "old bridge"'
    assert uris(kb.search('"old bridge"', mode=mode, where='tag = "wet"')) == {"two.txt"}
    assert uris(kb.search('"旧桥"', mode=mode)) == {"four.txt"}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_excluded_is_nowhere_however_deep_it_takes(kb: KnowledgeBase, mode: Any) -> None:
    results = kb.search("gauge bridge -note", mode=mode, top_n=10, options={"candidates": 10})
    assert {"one.txt", "two.txt", "three.txt"} <= uris(results)
    assert not any("note" in hit.chunk.text.lower() for hit in results)
    assert uris(kb.search('bridge -note -"crosses the old bridge" -gauge', mode=mode)) <= {"one.txt", "four.txt"}
    assert not kb.search("bridge -bridge", mode="keyword")


@pytest.mark.parametrize("mode", MODES)
def test_a_phrase_that_nobody_has_is_told_and_the_words_are_searched_for(kb: KnowledgeBase, mode: Any) -> None:
    results = kb.search('"bridge of sighs" gauge', mode=mode)
    assert results.fallback_reason == PHRASE_MISSING
    plain = kb.search("bridge of sighs gauge", mode=mode)
    assert [hit.chunk.name for hit in results] == [hit.chunk.name for hit in plain]
    barred = kb.search('"bridge of sighs" -note', mode=mode)
    assert barred.fallback_reason == PHRASE_MISSING and not any("Note" in hit.chunk.text for hit in barred)


def test_pages_of_a_phrase_search_go_on_from_one_another(kb: KnowledgeBase) -> None:
    whole = [hit.chunk.name for hit in kb.search('"near it"', top_n=20, options={"rerank": ""})]
    pages = [kb.search('"near it"', top_n=5, offset=n, options={"rerank": ""}) for n in (0, 5, 10, 15)]
    assert [hit.chunk.name for page in pages for hit in page] == whole
    assert pages[0].total >= 100


def test_exact_characters_need_no_marks(kb: KnowledgeBase) -> None:
    assert not kb.search('"old bridge"', mode="substring")
    assert uris(kb.search("old bridge", mode="substring")) == {"two.txt"}


def test_stages_keep_to_the_phrase(kb: KnowledgeBase) -> None:
    options = {"synonyms": True, "feedback": True, "mmr_lambda": 0.5, "collapse": True, "window": 1, "related": True}
    assert uris(kb.search('gauge "old bridge" -crosses', options=options, top_n=10)) == {"one.txt", "three.txt"}


@pytest.mark.parametrize("text", ['"', "-", '- " -', '"" a', "a -", "--", "“", '-"', "\\", '"a" -a'])
def test_odd_marks_are_never_an_error(kb: KnowledgeBase, text: str) -> None:
    for mode in ("hybrid", "keyword", "semantic", "substring"):
        kb.search(text, mode=mode)  # type: ignore[arg-type]


def test_an_answer_keeps_to_the_phrase_and_tells_the_question_as_it_was(kb: KnowledgeBase) -> None:
    answer = kb.ask('Who crosses the "old bridge" -gauge?')
    assert answer.query.text == 'Who crosses the "old bridge" -gauge?'
    assert [citation.uri for citation in answer.citations] == ["two.txt"]


# ------------------------------------------------------------------------------------------- enumeration


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder = tmp_path_factory.mktemp("station")
    with open_home(folder / "kb") as opened:
        opened.add(copy_to(folder / "documents"))
        yield opened


def test_everything_is_counted(kb: KnowledgeBase) -> None:
    results = kb.search("list all documents that mention the gauge", options={"enumerate": "auto"}, top_n=5)
    assert results.listed == "gauge"
    assert results.total == FILLER + 1 and len(results.document_counts) == FILLER + 1
    assert len(results) == 5
    second = kb.search("list all documents that mention the gauge", options={"enumerate": "auto"}, top_n=5, offset=5)
    assert not uris(results) & uris(second)
    narrow = kb.search("list all documents that mention the bridge", where='tag = "wet"', options={"enumerate": "auto"})
    assert (narrow.total, dict(narrow.document_counts)) == (1, {narrow[0].document_id: 1})


def test_each_document_comes_once_before_any_comes_twice(station: KnowledgeBase) -> None:
    results = station.search("which documents mention flood?", options={"enumerate": "auto"}, top_n=50)
    count = len(results.document_counts)
    assert results.total == len(results) == sum(results.document_counts.values()) > count > 1
    assert len(uris(results)) == count == len({hit.uri for hit in results.hits[:count]})
    assert all("flood" in f"{hit.title} {hit.chunk.section} {hit.chunk.text}".lower() for hit in results)


@pytest.mark.parametrize(
    ("question", "opening"),
    [
        ("Which documents mention flood?", "“flood” in"),
        ("有哪些文档提到了洪水？", "份文档"),
    ],
)
def test_the_answer_is_a_list_with_a_citation_for_each(station: KnowledgeBase, question: str, opening: str) -> None:
    answer = station.ask(question, options={"enumerate": "auto", "top_n": 2})
    found = station.search(question, options={"enumerate": "auto", "top_n": 50})
    count = len(found.document_counts)
    first, *lines = answer.text.splitlines()
    assert not answer.refused
    assert opening in first and str(count) in first and str(found.total) in first
    assert str(count - 2) in first, "how many more there are"
    assert len(lines) == 2 == len({citation.document_id for citation in answer.citations})
    for citation in answer.citations:
        text = station.document(citation.document_id).text
        assert text[citation.span.start : citation.span.end] == citation.quote
        assert citation.support == "supported"


def test_what_nobody_mentions_is_searched_for_as_usual(station: KnowledgeBase) -> None:
    results = station.search("which documents mention zeppelins?", options={"enumerate": "auto"})
    plain = station.search("which documents mention zeppelins?", options={"enumerate": "never"})
    assert not results.listed and uris(results) == uris(plain)


def test_ordinary_questions_are_answered_the_same(station: KnowledgeBase) -> None:
    for asked in questions():
        auto = station.search(asked["text"], options={"enumerate": "auto"})
        never = station.search(asked["text"], options={"enumerate": "never"})
        assert [hit.chunk.name for hit in auto] == [hit.chunk.name for hit in never], asked["text"]


def test_it_can_be_asked_for_and_switched_off(station: KnowledgeBase) -> None:
    assert station.search("thunder", options={"enumerate": "always"}).listed == "thunder"
    assert not station.search("list all documents that mention thunder", options={"enumerate": "never"}).listed


# ----------------------------------------------------------------------------------------------- related


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[KnowledgeBase]:
    notes = {
        "weir.md": "# The weir\n\nThe weir holds the river back. Its gate is described in [[gate]].",
        "gate.md": "# Sluice\n\nTurn the wheel twice.",
        "log.md": "# Journal\n\nWent to see [[The weir]] and had lunch.",
        "far.md": "# Bakery\n\nBread at dawn.",
        "part.md": "# Stock\n\nThe QX-7731 is kept on shelf four.",
        "use.md": "# Order\n\nSend two QX-7731 to the weir keeper by Monday.",
    }
    folder = tmp_path / "vault"
    folder.mkdir()
    for name, text in notes.items():
        (folder / name).write_text(text, encoding="utf-8")
    with open_home(tmp_path / "kb") as opened:
        opened.add(folder)
        yield opened


def names(results: Results) -> list[str]:
    return [Path(hit.uri).name for hit in results]


def test_neighbours_come_in_with_the_reason(vault: KnowledgeBase) -> None:
    plain = vault.search("weir holds river", mode="keyword", top_n=10)
    assert "gate.md" not in names(plain)
    results = vault.search("weir holds river", mode="keyword", top_n=10, options={"related": True})
    told = {Path(hit.uri).name: hit.reasons for hit in results}
    assert "linked from “The weir”" in told["gate.md"]
    assert "far.md" not in told
    assert results.total == plain.total + len(results) - len(plain)
    assert all(0 < hit.scores["related"] <= 0.5 for hit in results if "related" in hit.scores)


def test_a_shared_rare_word_ties_documents(vault: KnowledgeBase) -> None:
    results = vault.search("shelf four", mode="keyword", top_n=10, options={"related": True})
    assert any("shares “qx-7731” with “Stock”" in hit.reasons for hit in results if Path(hit.uri).name == "use.md")


@pytest.mark.parametrize("question", ["weir river", "the weir", "wheel", "QX-7731", "bread", "lunch at the weir"])
def test_no_stronger_hit_gives_way(vault: KnowledgeBase, question: str) -> None:
    plain = vault.search(question, top_n=10)
    results = vault.search(question, top_n=10, options={"related": True})
    kept = [hit.chunk.id for hit in results if "related" not in hit.scores]
    assert kept == [hit.chunk.id for hit in plain][: len(kept)], "the others stay in their order"
    strength = [hit.score for hit in results]
    for place, hit in enumerate(results):
        if "related" in hit.scores:
            assert all(score >= hit.score for score in strength[:place])
            assert all(score <= hit.score for score in strength[place + 1 :])


def test_pagerank_is_told_and_moves_hits_only_where_it_has_weight(vault: KnowledgeBase) -> None:
    plain = vault.search("weir river", top_n=10)
    told = vault.search("weir river", top_n=10, options={"related": True})
    found = [hit for hit in told if "related" not in hit.scores]
    assert [hit.chunk.id for hit in found] == [hit.chunk.id for hit in plain][: len(found)]
    ranks = {hit.document_id: hit.scores["pagerank"] for hit in found}
    assert max(ranks.values()) == 1.0 and all(0 <= rank <= 1 for rank in ranks.values())
    whole = vault.search("weir river", top_n=10, options={"related": True, "related_weight": 1.0})
    moved = [hit.scores["pagerank"] for hit in whole if "related" not in hit.scores]
    assert moved == sorted(moved, reverse=True) and len(set(moved)) > 1
    assert [hit.score for hit in whole] == sorted((hit.score for hit in whole), reverse=True)


def test_filters_hold_for_neighbours(vault: KnowledgeBase) -> None:
    results = vault.search("weir", mode="keyword", where='title != "Sluice"', options={"related": True})
    assert "gate.md" not in names(results)
    assert "gate.md" not in names(vault.search("weir river -wheel", mode="keyword", options={"related": True}))


def test_it_is_off_unless_it_is_asked_for(vault: KnowledgeBase) -> None:
    assert not vault.options.related
    assert all("related" not in hit.scores for hit in vault.search("weir river"))


def test_a_walk_stays_near_its_seeds() -> None:
    edges = [Edge(a, b, 1.0, "") for a, b in (("s", "a"), ("a", "s"), ("a", "b"), ("b", "c"), ("s", "d"), ("d", "s"))]
    worth = pagerank(edges, {"s": 1.0})
    assert sum(worth.values()) == pytest.approx(1.0)
    assert worth["s"] > worth["d"] > worth["b"] > worth["c"] and worth["a"] > worth["b"]
    assert pagerank([], {"s": 2.0, "t": 2.0}) == pytest.approx({"s": 0.5, "t": 0.5})


# ------------------------------------------------------------------------------------------------ folder


def test_a_folder_limits_the_search(tmp_path: Path) -> None:
    with open_home(tmp_path / "kb") as kb:
        for folder in ("hr", "hr/leave", "hr2", "ops", ""):
            kb.add_text("The weir is open.", uri=f"{folder or 'top'}.txt", labels=Labels(folder=folder))
        assert uris(kb.search("weir", folder="hr")) == {"hr.txt", "hr/leave.txt"}
        assert uris(kb.search("weir", folder="hr/leave/")) == {"hr/leave.txt"}
        assert uris(kb.search("weir", folder="hr", where='folder = "hr"')) == {"hr.txt"}
        assert not kb.search("weir", folder="nowhere")
        (tmp_path / "notes" / "deep").mkdir(parents=True)
        (tmp_path / "notes" / "deep" / "a.txt").write_text("The weir is shut.", encoding="utf-8")
        kb.add(tmp_path / "notes")
        found = kb.search("weir", folder=str(tmp_path / "notes"))
        assert [Path(hit.uri).name for hit in found] == ["a.txt"]
        assert [Path(hit.uri).name for hit in kb.search("weir", folder="deep")] == ["a.txt"]


@pytest.mark.parametrize("kind", ["chapter", "character", "setting", "outline", "timeline", "whatever I like"])
def test_a_content_type_is_free_text(tmp_path: Path, kind: str) -> None:
    with open_home(tmp_path / "kb") as kb:
        kb.add_text("The weir is open.", uri="a.txt", labels=Labels(content_type=kind))
        kb.add_text("The weir is shut.", uri="b.txt")
        assert uris(kb.search("weir", where=f'content_type = "{kind}"')) == {"a.txt"}
        assert uris(kb.search("weir", where=f'type in ("{kind}", "x")')) == {"a.txt"}


TABLE = """# Loggers

## Error codes

| Code | Meaning |
|---|---|
| E01 | Battery low |
| E02 | Memory full |

## Holidays

- 1 January: New Year
- 1 May: Labour Day

## Flood report

The water rose. The road was shut.
"""


@pytest.mark.parametrize(
    ("question", "lines"),
    [
        ("List all error codes", ["Code: E01; Meaning: Battery low", "Code: E02; Meaning: Memory full"]),
        ("List all holidays", ["1 January: New Year", "1 May: Labour Day"]),
        ("List all documents that mention memory", ["Code: E02; Meaning: Memory full"]),
        ("List all documents that mention flood", ["The water rose"]),
    ],
)
def test_what_stands_under_the_words_is_listed_whole(tmp_path: Path, question: str, lines: list[str]) -> None:
    with open_home(tmp_path / "kb") as opened:
        opened.add_text(TABLE, uri="loggers.md", labels=Labels(title="Loggers"))
        answer = opened.ask(question)
    said = [line.removeprefix("- ") for line in answer.text.splitlines()[1:]]
    assert len(said) == len(lines), answer.text
    assert all(line.startswith(start) for line, start in zip(said, lines, strict=True)), answer.text
    assert all(citation.support == "supported" for citation in answer.citations)
