"""The bundled sample: small, true to its own questions, and answered by a real knowledge base."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.build import KnowledgeBase, open_home
from headwater.sample import copy_to, questions

MAX_BYTES = 60_000
ANSWERED = [question for question in questions() if "file" in question]
UNANSWERED = [question for question in questions() if "file" not in question]


@pytest.fixture(scope="module")
def station(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_to(tmp_path_factory.mktemp("sample") / "station")


@pytest.fixture(scope="module")
def kb(station: Path) -> Iterator[KnowledgeBase]:
    with open_home(station.parent / "kb") as base:
        report = base.add(station)
        assert report.added == len(files(station))
        assert not report.failed
        yield base


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def name(question: dict[str, Any]) -> str:
    return str(question["text"])


def test_the_sample_is_small_and_bilingual(station: Path) -> None:
    assert 14 <= len(files(station)) <= 20
    assert sum(path.stat().st_size for path in files(station)) < MAX_BYTES
    assert [question["language"] for question in ANSWERED].count("zh") == 8
    assert [question["language"] for question in ANSWERED].count("en") == 8
    assert sorted(question["language"] for question in UNANSWERED) == ["en", "en", "zh", "zh"]


@pytest.mark.parametrize("question", ANSWERED, ids=name)
def test_the_phrase_stands_in_the_file_and_not_in_the_question(station: Path, question: dict[str, Any]) -> None:
    assert question["phrase"] in (station / question["file"]).read_text(encoding="utf-8")
    assert question["phrase"] not in question["text"] or question["phrase"] == "E-14"


@pytest.mark.parametrize("question", ANSWERED, ids=name)
def test_the_answer_cites_the_right_passage(kb: KnowledgeBase, station: Path, question: dict[str, Any]) -> None:
    answer = kb.ask(question["text"])
    assert not answer.refused, answer.verdict
    uri = (station / question["file"]).absolute().as_posix()
    quotes = [citation.quote for citation in answer.citations if citation.uri == uri]
    assert any(question["phrase"] in quote for quote in quotes), answer.text
    for citation in answer.citations:
        assert kb.document(citation.document_id).text[slice(*citation.span)] == citation.quote


@pytest.mark.parametrize("question", UNANSWERED, ids=name)
def test_what_the_sample_does_not_say_is_refused(kb: KnowledgeBase, question: dict[str, Any]) -> None:
    answer = kb.ask(question["text"])
    assert answer.refused, answer.text
    assert not answer.citations


def test_a_second_copy_is_no_work(kb: KnowledgeBase, station: Path) -> None:
    copy_to(station)
    report = kb.add(station)
    assert (report.added, report.updated, report.unchanged) == (0, 0, len(files(station)))
