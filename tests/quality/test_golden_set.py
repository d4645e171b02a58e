"""The golden set is what it says it is: sizes, languages, kinds, and answers that stand in their documents."""

import re
from collections import Counter

import pytest
from tests.quality.golden.regenerate import FOLDER, KINDS, GoldenDocument, GoldenSet, files, read_topics

from headwater.evaluate.dataset import read_set

WORDS = {"en": (80, 400)}
CHARACTERS = {"zh": (150, 700), "zh-Hant": (150, 700)}
WHAT_IS_COUNTED = re.compile(r"[\u4e00-\u9fff]|[A-Za-z0-9.,%-]+")


@pytest.fixture(scope="module")
def golden() -> GoldenSet:
    return read_topics()


def is_chinese(document: GoldenDocument) -> bool:
    return document.language.startswith("zh")


def test_the_files_are_those_of_the_topics(golden: GoldenSet) -> None:
    for name, content in files(golden):
        assert (FOLDER / name).read_text(encoding="utf-8") == content, "run python -m tests.quality.golden.regenerate"


def test_it_is_large_enough_and_half_of_it_is_chinese(golden: GoldenSet) -> None:
    assert len(golden.documents) >= 150
    assert len(golden.questions) >= 300
    assert 0.4 <= sum(map(is_chinese, golden.documents)) / len(golden.documents) <= 0.6
    assert sum(one.language == "zh-Hant" for one in golden.documents) >= 10
    asked = Counter(one.language for one in golden.questions)
    assert 0.4 <= asked["zh"] / len(golden.questions) <= 0.6


def test_every_kind_of_question_is_there_often_enough(golden: GoldenSet) -> None:
    kinds = Counter(one.kind for one in golden.questions)
    assert set(kinds) == set(KINDS)
    assert kinds["none"] >= 60
    assert kinds["cross"] >= 40
    assert min(kinds.values()) >= 25
    for kind in KINDS:
        assert {one.language for one in golden.questions if one.kind == kind} == {"zh", "en"}


def test_ids_and_texts_are_unique(golden: GoldenSet) -> None:
    for values in (
        [one.id for one in golden.documents],
        [one.text for one in golden.documents],
        [one.title for one in golden.documents],
        [one.id for one in golden.questions],
        [one.text for one in golden.questions],
    ):
        assert not [value for value, count in Counter(values).items() if count > 1]


def test_documents_are_short_and_in_the_language_they_claim(golden: GoldenSet) -> None:
    for document in golden.documents:
        counted = WHAT_IS_COUNTED.findall(document.text)
        least, most = {**WORDS, **CHARACTERS}[document.language]
        assert least <= len(counted) <= most, (document.id, len(counted))
        chinese = sum("\u4e00" <= one <= "\u9fff" for one in counted) / len(counted)
        assert (chinese > 0.5) == is_chinese(document), document.id


def test_answers_stand_in_their_documents_word_for_word(golden: GoldenSet) -> None:
    texts = {one.id: one.text for one in golden.documents}
    for question in golden.questions:
        assert bool(question.answers) == (question.kind != "none"), question
        assert (len(question.answers) > 1) == (question.kind == "multi") or question.kind == "code", question
        for document, words in question.answers.items():
            assert document in texts, question
            assert words.strip() and words in texts[document], (question.id, words)


def test_questions_across_languages_are_across_languages(golden: GoldenSet) -> None:
    chinese = {one.id: is_chinese(one) for one in golden.documents}
    for question in golden.questions:
        if question.kind == "cross":
            assert all(chinese[document] != (question.language == "zh") for document in question.answers), question


def test_headwater_reads_it_as_a_test_set(golden: GoldenSet) -> None:
    found = read_set(FOLDER)
    assert len(found.queries) == sum(one.kind != "none" for one in golden.questions)
    assert not found.unknown_documents
