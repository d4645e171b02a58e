"""What a query asks for beyond its words: phrases, exclusions, all of something; and that odd text is plain text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.asked import Asked, Wording, enumerated, read


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ('flood "old bridge" -draft', Asked("flood old bridge", ("old bridge",), ("draft",))),
        ('pump -"old one" new', Asked("pump new", (), ("old one",))),
        ("“年假” 申请 -草稿", Asked("年假 申请", ("年假",), ("草稿",))),
        ("「走航式」是什么", Asked("走航式 是什么", ("走航式",))),
        ("水泵　－故障", Asked("水泵", (), ("故障",))),
        ('"one" "one" two -x -x,', Asked("one one two", ("one",), ("x",))),
    ],
)
def test_phrases_and_exclusions_are_read(text: str, asked: Asked) -> None:
    assert read(text) == asked


@pytest.mark.parametrize(
    "text",
    [
        'say "hi',
        "-",
        "a - b",
        "5 -3",
        "between -20 and -10 degrees",
        "well-known e-mail co-op",
        "-pump",
        '""',
        '"" -""',
        "--force",
        "PPR-9087",
        "《红楼梦》的作者",
        "it's 5 o'clock",
        '5" pipe',
        "",
        "-“”",
    ],
)
def test_anything_odd_is_plain_text(text: str) -> None:
    assert read(text) == Asked(text)


@given(st.text(alphabet=st.sampled_from('ab "-“”「」－　\n年假3'), max_size=30))
def test_reading_never_fails_and_never_empties_a_query(text: str) -> None:
    asked = read(text)
    assert any(map(str.isalnum, asked.text)) == any(map(str.isalnum, text))
    wording = Wording(asked.phrases, asked.excluded)
    assert not wording.missing(*asked.phrases) and isinstance(wording.holds(text), bool)


@pytest.mark.parametrize(
    ("phrase", "text", "holds"),
    [
        ("Old Bridge", "at the OLD\n  bridge.", True),
        ("old bridge", "old bridges", False),
        ("old bridge", "the old footbridge", False),
        ("年假", "員工每年享有十五天帶薪年假", True),
        ("年度預算", "年度预\n算已批准", True),
        ("ＰＰＲ－9087", "Error PPR-9087 means", True),
        ("C++", "written in C++, not C", True),
        ("3.5%", "it fell by 3.5% in May", True),
        ("MySQL数据库", "我们用mysql 数据库", False),
        ("数据库", "我们用mysql数据库", True),
        ("(a|b)", "see (a|b) above", True),
    ],
)
def test_a_phrase_is_found_as_it_stands(phrase: str, text: str, holds: bool) -> None:
    assert Wording([phrase]).holds(text) is holds
    assert Wording([phrase]).holds("", text) is holds
    assert Wording((), [phrase]).holds(text) is not holds


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("List all documents that mention thunder", "thunder"),
        ("list every pump", "pump"),
        ("Please list all of the notes about ice thickness.", "ice thickness"),
        ("show me all files containing PPR-9087", "PPR-9087"),
        ("How many documents mention the flood of 1998?", "the flood of 1998"),
        ("which notes are about leave?", "leave"),
        ("列出所有提到洪水的文档", "洪水"),
        ("请列举全部关于年假的文章", "年假"),
        ("有哪些文档提到了水位计？", "水位计"),
        ("多少篇文章提到年假？", "年假"),
        ("共有几篇笔记涉及结冰", "结冰"),
        ("提到结冰的文档有哪些？", "结冰"),
    ],
)
def test_a_question_that_asks_for_all_is_known(question: str, subject: str) -> None:
    assert enumerated(question) == subject


@pytest.mark.parametrize(
    "question",
    [
        "How many weeks of leave are there?",
        "Which expenses need a receipt?",
        "What are all these sensors for?",
        "Is the list of all stations complete?",
        "how many documents are there?",
        "list all",
        "青砚河有哪些支流？",
        "所有汽车的注册号码都是同一类型吗？",
        "《唐文粹》共收文、赋及诗各多少篇？",
        "列举一个导致免疫缺陷的原因。",
        "Which articles state that powers stay with member states?",
        "",
    ],
)
def test_an_ordinary_question_is_left_alone(question: str) -> None:
    assert enumerated(question) is None
