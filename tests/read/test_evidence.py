"""Sentences are traced to the exact characters that bear them out, and what says otherwise is not supported."""

from collections.abc import Iterator
from typing import Any

import pytest

from headwater.cite import NO_SOURCE, cite, joined
from headwater.models.static import StaticEmbedder
from headwater.reflect import reflect
from headwater.types import Chunk, Context, Hit, Options, Query, Record, Sentence, Span

LEAVE = (
    "Parents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full. The leave must be requested from "
    "Anna Berg three months before it begins. It is not granted to contractors."
)
DAM = "The dam opened on 5 March 1936. It is 221 metres tall and holds 98.5% of the river. Visitors increased in 1990."
BRIDGE = "大桥于1998年8月18日通车，全长五百二十米。大桥由李明设计，不允许货车通行。每天有两万人经过。"
RENT = "The rent is EUR 6,400 a month. Turnover was EUR 12.4 million, up from EUR 9 million. Leave lapses on 31 March."
EMBEDDER = StaticEmbedder()


def context(*texts: str, **options: Any) -> Context:
    hits = tuple(
        Hit(
            chunk=Chunk(id=n << 20, span=Span(7, 7 + len(text)), text=text, document_id=f"d{n}"),
            record=Record(id=f"d{n}", uri=f"d{n}.md", title=""),
            score=1.0,
        )
        for n, text in enumerate(texts, start=1)
    )
    return Context(query=Query(text="x", options=Options(**options)), hits=hits)


def traced(said: str, *texts: str, embedder: Any = EMBEDDER) -> Sentence:
    given = texts or (LEAVE, DAM, BRIDGE, RENT)
    (sentence,) = cite([said], context(*given), embedder=embedder)
    for citation in sentence.citations:
        text = given[int(citation.document_id[1:]) - 1]
        assert text[citation.span.start - 7 : citation.span.end - 7] == citation.quote
    return sentence


@pytest.mark.parametrize("embedder", [EMBEDDER, None], ids=["meaning", "words"])
@pytest.mark.parametrize(
    ("said", "quote"),
    [
        ("Parents are entitled to twenty-six weeks of leave.", "26 weeks"),
        ("Parents get a leave of 26 weeks, to which they are entitled.", "26 weeks"),
        ("Paid in full are 18 weeks of these.", "18 weeks"),
        ("The leave is not granted to contractors.", "not granted"),
        ("The dam is 221 meters tall and holds 98.5 per cent of the river.", "221 metres"),
        ("The dam opened on March 5, 1936.", "1936"),
        ("大桥全长520米。", "五百二十米"),
        ("大橋由李明設計，不允許貨車通行。", "李明"),
        ("大桥于1998-8-18通车。", "通车"),
        ("大桥每天有20000人经过。", "两万人"),
    ],
)
def test_what_is_said_in_other_words_is_supported(said: str, quote: str, embedder: Any) -> None:
    sentence = traced(said, embedder=embedder)
    assert sentence.support == "supported"
    assert len(sentence.citations) == 1 and quote in sentence.citations[0].quote
    assert "[1]" in sentence.text


@pytest.mark.parametrize("embedder", [EMBEDDER, None], ids=["meaning", "words"])
@pytest.mark.parametrize(
    "said",
    [
        "Parents are entitled to 28 weeks of leave [1].",
        "Parents are entitled to twenty-eight weeks of leave [1].",
        "Parents are entitled to 26 days of leave [1].",
        "Parents are not entitled to 26 weeks of leave [1].",
        "The leave is granted to contractors [1].",
        "The leave must be requested from Carl Berg three months before it begins [1].",
        "Visitors decreased in 1990 [2].",
        "The dam opened on 5 April 1936 [2].",
        "大桥全长五百三十米【3】。",
        "大桥由王刚设计【3】。",
        "大桥允许货车通行【3】。",
        "大桥不是由李明设计的【3】。",
        "The rent is EUR 6,400 per year [4].",
        "Turnover fell to EUR 12.4 million [4].",
        "Leave lapses on 31 May [4].",
        "The mayor of the town owns a fine collection of old clocks [1].",
    ],
)
def test_what_says_otherwise_has_no_source(said: str, embedder: Any) -> None:
    sentence = traced(said, embedder=embedder)
    assert sentence.citations == () and sentence.support == "unsupported"
    assert NO_SOURCE in sentence.text


LEASE = (
    "The Tenant pays a deposit of three months' rent. The Landlord maintains the roof and the lifts. If the Tenant "
    "terminates, a fee of two months' rent is due. Lunch costs EUR 5.50 for employees and EUR 9 for guests. "
    "Turnover was EUR 12.4 million in 2024, up from EUR 10.9 million in 2023."
)
LEAVES = (
    "陪产假为20天，产假为158天。屋顶、外墙和电梯由甲方负责维修，门窗和暖气由乙方负责维修。"
    "国内航班一律经济舱，飞行时间超过六小时的国际航班可乘商务舱。"
)


@pytest.mark.parametrize("embedder", [EMBEDDER, None], ids=["meaning", "words"])
@pytest.mark.parametrize(
    "said",
    [
        "The Landlord pays a deposit of three months' rent.",
        "The Tenant maintains the roof and the lifts.",
        "The deposit is two months' rent.",
        "Lunch costs EUR 9 for employees and EUR 5.50 for guests.",
        "Turnover was EUR 12.4 million in 2023.",
        "产假为20天，陪产假为158天。",
        "屋顶、外墙和电梯由乙方负责维修。",
        "飞行时间超过六小时的国内航班可乘商务舱。",
    ],
)
def test_what_is_said_of_another_thing_is_not_supported(said: str, embedder: Any) -> None:
    assert traced(said, LEASE, LEAVES, embedder=embedder).support == "unsupported"
    assert traced(f"{said} [1][2]", LEASE, LEAVES, embedder=embedder).support in ("weak", "unsupported")


@pytest.mark.parametrize(
    "said",
    [
        "The deposit is three months' rent.",
        "A fee of two months' rent is due where the Tenant terminates.",
        "In 2023 turnover was EUR 10.9 million.",
        "产假为158天，陪产假为20天。",
        "门窗和暖气由乙方维修。",
        "超过六小时的国际航班可乘商务舱。",
    ],
)
def test_what_is_said_of_the_same_thing_in_another_order_is_supported(said: str) -> None:
    assert traced(said, LEASE, LEAVES).support == "supported"


@pytest.mark.parametrize("marker", ["", "[1]", "[3]", "[99]", "【3】", "(来源 1)"])
def test_a_marker_is_moved_to_where_it_belongs(marker: str) -> None:
    sentence = traced(f"The dam opened on March 5, 1936 {marker}.")
    assert [citation.document_id for citation in sentence.citations] == ["d2"]


def test_of_two_markers_the_wrong_one_is_dropped() -> None:
    sentence = traced("Parents are entitled to twenty-six weeks of leave [1][2].")
    assert [citation.document_id for citation in sentence.citations] == ["d1"]


@pytest.mark.parametrize("markers", ["", " [1][2]", " [3]"])
def test_a_sentence_of_two_passages_cites_both(markers: str) -> None:
    said = f"Parents are entitled to 26 weeks of leave, and the dam is 221 metres tall{markers}."
    sentence = traced(said)
    assert sorted(citation.document_id for citation in sentence.citations) == ["d1", "d2"]
    assert sentence.support == "supported"
    alone = traced(said, LEAVE)
    assert alone.support != "supported"


def test_a_name_that_stands_before_is_what_it_stands_for() -> None:
    text = "Marie Curie was a physicist. She was born in Warsaw in 1867."
    assert traced("Marie Curie was born in Warsaw in 1867.", text).support == "supported"
    assert traced("Marie Curie was born in London in 1867.", text).citations == ()


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_in_a_stream_markers_resolve_as_sentences_end(size: int) -> None:
    text = "Parents are entitled to 26 weeks of leave. 【1】 大桥全长520米(来源 3)。The dam is 221 meters tall [ID:2]."
    sent: list[tuple[int, Sentence]] = []
    given = 0

    def pieces() -> Iterator[str]:
        nonlocal given
        for start in range(0, len(text), size):
            given = start + size
            yield text[start : start + size]

    for sentence in cite(pieces(), context(LEAVE, DAM, BRIDGE), embedder=EMBEDDER):
        sent.append((given, sentence))
    assert [one.citations[0].document_id for _, one in sent] == ["d1", "d3", "d2"]
    assert sent[0][0] < text.index("The dam")  # it did not wait for the end
    whole, citations = joined([one for _, one in sent])
    assert [one.marker for one in citations] == [1, 2, 3]
    assert "【" not in whole and "ID" not in whole and "来源" not in whole


def test_unsupported_sentences_are_marked_or_removed_and_the_rest_stands() -> None:
    said = "Parents are entitled to 26 weeks of leave [1]. The mayor owns a yacht in Monaco [1]. Anything else?"
    marked = list(cite([said], context(LEAVE)))
    assert [one.support for one in marked] == ["supported", "unsupported", None]
    removed: list[str] = []
    kept = list(cite([said], context(LEAVE, unsupported="remove"), on_removed=removed.append))
    assert [one.support for one in kept] == ["supported", None]
    assert removed == ["The mayor owns a yacht in Monaco."]
    verdict = reflect(Query(text="How long is the leave of parents?"), marked)
    assert verdict.accepted and "1 not at all" in verdict.reason
    assert not reflect(Query(text="Who owns a yacht?"), marked[1:]).accepted


def test_new_text_and_talk_without_passages_are_not_marked() -> None:
    from dataclasses import replace

    story = "Once upon a time a nurse lived in a small town."
    assert [one.text for one in cite([story], replace(context(LEAVE), grounded=False))] == [story]
    assert [one.text for one in cite([story], context())] == [story]


def test_the_number_of_an_item_is_no_number() -> None:
    text = "1. The rent is due in advance.\n2. The deposit is three months' rent.\n5. The roof is the owner's."
    assert traced("The deposit is three months' rent [1].", text).support == "supported"
    assert traced("The deposit is five months' rent [1].", text).support == "unsupported"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_table_keeps_its_shape_and_its_head_needs_no_source(size: int) -> None:
    said = "Costs:\n\n| Item | Amount to be paid |\n|---|---|\n| Rent | EUR 6,400 a month. Due |\n| Tax | EUR 99 |\n"
    pieces = [said[place : place + size] for place in range(0, len(said), size)]
    text, citations = joined(list(cite(pieces, context(RENT), embedder=EMBEDDER)))
    assert text.splitlines()[2:] == [
        "| Item | Amount to be paid |",
        "|---|---|",
        "| Rent | EUR 6,400 a month. Due [1] |",
        f"| Tax | EUR 99 {NO_SOURCE} |",
    ]
    assert [citation.quote for citation in citations] == ["The rent is EUR 6,400 a month."]
