"""The answerer without a model: which sentences it picks, in which order, and when it keeps silent."""

import re
from typing import Any

import pytest

from headwater.models.extractive import MIN_FOREIGN_COSINE, ExtractiveGenerator
from headwater.protocols import Generator
from headwater.statements import statements
from headwater.types import Chunk, Context, Hit, Options, Query, Record, Span


def context(
    question: str, *passages: str, title: str = "", section: str = "", cosine: float = 0.0, **options: Any
) -> Context:
    hits = tuple(
        Hit(
            chunk=Chunk(id=n << 20, span=Span(0, len(text)), text=text, document_id=f"d{n}", section=section),
            record=Record(id=f"d{n}", uri=f"d{n}.md", title=title),
            score=1.0,
            scores={"semantic": cosine},
        )
        for n, text in enumerate(passages, start=1)
    )
    return Context(query=Query(text=question, options=Options(**options)), hits=hits)


def answer(question: str, *passages: str, **about: Any) -> list[str]:
    return list(ExtractiveGenerator().generate(context(question, *passages, **about)))


DAM = (
    "The dam is named after a president. It was built by six companies. Construction of the dam began in 1931 and "
    "it opened in 1936. The dam is 221 metres tall. Visitors may walk across the top."
)
ROPE = "The cableway rope is inspected every spring. A new rope costs 86,000 yuan. The old rope is kept as a spare."
LEAVE = "员工每年享有十五天带薪年假。年假须提前两周在系统中申请。申请由部门主管批准。病假需要医院证明。"


def test_it_fits_the_protocol() -> None:
    assert isinstance(ExtractiveGenerator(), Generator)


@pytest.mark.parametrize(
    ("question", "first", "phrase"),
    [
        ("When did the dam open?", DAM, "opened in 1936"),
        ("How tall is the dam?", DAM, "221 metres"),
        ("What does a new rope for the cableway cost?", ROPE, "86,000 yuan"),
        ("年假要提前多久申请？", LEAVE, "提前两周"),
        ("员工有多少天年假？", LEAVE, "十五天"),
        ("請問病假需要什麼？", LEAVE, "医院证明"),
    ],
)
def test_the_sentence_with_the_answer_is_among_the_picked(question: str, first: str, phrase: str) -> None:
    others = [text for text in (DAM, ROPE, LEAVE) if text != first]
    for passages in ((first, *others), (*others, first)):
        said = answer(question, *passages)
        assert any(phrase in line for line in said)
        assert 1 <= len(said) <= 3
        for line in said:
            text, number = re.fullmatch(r"(.+) \[(\d)\]\n", line).groups()  # type: ignore[union-attr]
            assert text in passages[int(number) - 1]


def test_no_more_sentences_than_asked_for() -> None:
    assert len(answer("When did the dam open?", DAM, max_sentences=1)) == 1


@pytest.mark.parametrize(
    "question",
    [
        "Who won the chess championship in Paris?",
        "What is the capital of Mongolia?",
        "食堂星期五供应什么菜？",
        "谁获得了诺贝尔文学奖？",
        "What does error ZX-1234 mean?",
    ],
)
def test_it_keeps_silent_without_evidence(question: str) -> None:
    assert answer(question, DAM, ROPE, LEAVE) == []
    assert answer(question) == []


def test_a_code_must_be_the_right_one() -> None:
    manual = "Error PPR-9087 means that the intake is blocked."
    assert answer("What does error PPR-9087 mean?", manual)
    assert answer("What does error PPR 9087 mean?", manual)
    assert answer("What does error PPR-9088 mean?", manual) == []


def test_sentences_come_in_the_order_of_the_text() -> None:
    said = answer("When was construction of the dam, how tall is the dam, who built the dam?", DAM)
    places = [DAM.index(line.rsplit(" [", 1)[0]) for line in said]
    assert len(places) > 1
    assert places == sorted(places)


def test_the_same_sentence_is_not_said_twice() -> None:
    copy = "Notes of the visit. The dam is 221 metres tall."
    said = answer("How tall is the dam?", "The dam is 221 metres tall.", copy)
    assert sum("221" in line for line in said) == 1


def test_a_heading_is_context_and_not_an_answer() -> None:
    text = (
        "# Parental leave\n\n26 weeks, of which 18 are paid in full.\n\n# Sick leave\n\nUp to 6 weeks, on full pay.\n"
    )
    said = answer("How long is parental leave?", text)
    assert said[0].startswith("26 weeks")
    assert not any("#" in line or line.startswith("Parental leave") for line in said)


def test_title_and_section_are_context_too() -> None:
    said = answer("How long is the parental leave?", "It is 26 weeks, of which 18 are paid.", title="Parental leave")
    assert said == ["It is 26 weeks, of which 18 are paid. [1]\n"]


def test_a_row_of_a_table_is_quoted_as_a_row() -> None:
    head = "| Code | Meaning |\n|---|---|\n"
    table = f"{head}| E-11 | No echo |\n| E-14 | Weak echo. Clean the antenna |\n| E-21 | Low power |\n"
    said = answer("What is the meaning of code E-14?", table)
    assert said[0] == "| E-14 | Weak echo. Clean the antenna | [1]\n"
    assert not any("Code" in line or "---" in line for line in said)


def test_a_foreign_passage_needs_the_cosine() -> None:
    question = "How many days of annual leave are there?"
    assert answer(question, LEAVE, cosine=MIN_FOREIGN_COSINE - 0.1) == []
    said = answer(question, LEAVE, cosine=MIN_FOREIGN_COSINE + 0.1)
    assert said
    assert any("十五天" in line for line in said)


def test_lines_that_an_editor_broke_are_one_sentence() -> None:
    said = answer(
        "How tall is the dam in the valley?", "The dam in the valley above the town is\n221 metres tall. It is old."
    )
    assert said[0].count("\n") == 1


def test_statements_know_what_they_are() -> None:
    text = "# H\n\nOne. Two.[3] Three.\n\n- item a\n- item b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```\nrun()\n```\n"
    found = [
        (one.kind, text[one.start : one.end], one.heading and text[slice(*one.heading)]) for one in statements(text)
    ]
    assert found == [
        ("sentence", "One.", "H"),
        ("sentence", "Two.", "H"),
        ("sentence", "Three.", "H"),
        ("sentence", "item a", "H"),
        ("sentence", "item b", "H"),
        ("row", "| 1 | 2 |", "| x | y |"),
        ("code", "run()", "H"),
    ]
