"""The answerer without a model: which sentences it picks, in which order, and when it keeps silent."""

import re
from dataclasses import replace
from typing import Any

import pytest

from headwater.cite import cite
from headwater.models._reading import Question
from headwater.models.extractive import MIN_FOREIGN_COSINE, ExtractiveGenerator
from headwater.models.static import StaticEmbedder
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


def test_the_best_sentence_comes_first_and_the_others_in_the_order_of_the_text() -> None:
    said = answer("When was construction of the dam, how tall is the dam, who built the dam?", DAM)
    places = [DAM.index(line.rsplit(" [", 1)[0]) for line in said]
    assert len(places) > 2
    assert "Construction" in said[0]
    assert places[1:] == sorted(places[1:])
    assert "86,000" in answer("What does a new rope for the cableway cost?", ROPE)[0]
    assert answer("病假需要什么证明？", LEAVE)[0].startswith("病假需要")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("May visitors enter the pump hall?", "Visitors wear a badge. They may not enter the pump hall."),
        ("How many people work in Lyon?", "The Lyon office opened in 2016. 45 people work there."),
        ("水泵房的温度是多少？", "水泵房设在二楼。其温度为二十度。"),
        ("How do I reset the gauge?", "Open the lid of the gauge. Press the reset button of the gauge for 5 seconds."),
        (
            "Where is the reset code of the gauge entered?",
            "1. Open the gauge.\n2. Enter the reset code of the gauge.\n",
        ),
    ],
)
def test_what_points_back_and_steps_stay_behind_what_comes_before(question: str, text: str) -> None:
    said = [line.rsplit(" [", 1)[0] for line in answer(question, text)]
    assert len(said) == 2
    assert [text.index(line) for line in said] == sorted(text.index(line) for line in said)


def test_the_same_sentence_is_not_said_twice() -> None:
    copy = "Notes of the visit. The dam is 221 metres tall."
    said = answer("How tall is the dam?", "The dam is 221 metres tall.", copy)
    assert sum("221" in line for line in said) == 1


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        (
            "How many days of annual leave do employees get?",
            "Employees receive 18 days of paid annual leave per year.",
            "Employees receive 22 days of paid annual leave per year.",
        ),
        (
            "报销单要在多少天内提交？",
            "员工应在费用发生后30天内提交报销单。",
            "员工应在费用发生后60天内提交报销单，逾期不予受理。",
        ),
    ],
)
def test_two_versions_with_other_numbers_are_both_said(question: str, old: str, new: str) -> None:
    assert {line.rsplit(" [", 1)[0] for line in answer(question, old, new)} == {old, new}
    assert len(answer(question, new, f"{new} ")) == 1
    more = "Employees ask for annual leave in the system. 员工在系统中提交报销单。"
    said = answer(question, f"{old}\n\n{more}", new, max_sentences=2)
    assert {line.rsplit(" [", 1)[0] for line in said} == {old, new}


def test_a_heading_is_context_and_not_an_answer() -> None:
    text = (
        "# Parental leave\n\n26 weeks, of which 18 are paid in full.\n\n# Sick leave\n\nUp to 6 weeks, on full pay.\n"
    )
    said = answer("How long is parental leave?", text)
    assert said[0].startswith("26 weeks")
    assert not any("#" in line or line.startswith("Parental leave") for line in said)


def test_a_row_with_the_code_and_all_that_is_asked_of_it_is_an_answer_among_many_like_it() -> None:
    table = "| 编号 | 名称 | 价格 |\n|---|---|---|\n" + "".join(f"| SKU{n} | 商品{n} | {n}.5 |\n" for n in range(40))

    def said(question: str) -> list[str]:
        asked = context(question, table, table.replace("SKU", "商品编号SKU"), table.replace("SKU", "货号SKU"))
        # Little of the question's words, by their weight: that is how every row of a long list looks.
        hits = tuple(replace(hit, scores={"semantic": 0.2, "keyword": 10.0}) for hit in asked.hits)
        asked = replace(asked, hits=hits, best_keyword=100.0)
        return list(ExtractiveGenerator(embedder=StaticEmbedder()).generate(asked))

    assert said("SKU7的价格是多少？")[0] == "编号：SKU7；名称：商品7；价格：7.5。 [1]\n"
    assert said("SKU7的重量是多少？") == said("SKU77的价格是多少？") == []


def test_title_and_section_are_context_too() -> None:
    said = answer("How long is the parental leave?", "It is 26 weeks, of which 18 are paid.", title="Parental leave")
    assert said == ["It is 26 weeks, of which 18 are paid. [1]\n"]


def test_a_row_of_a_table_is_quoted_as_a_row() -> None:
    head = "| Code | Meaning |\n|---|---|\n"
    table = f"{head}| E-11 | No echo |\n| E-14 | Weak echo. Clean the antenna |\n| E-21 | Low power |\n"
    said = answer("What is the meaning of code E-14?", table)
    assert said == ["Code: E-14; Meaning: Weak echo. Clean the antenna. [1]\n"]
    (sentence,) = cite(said, context("x", table))
    (citation,) = sentence.citations
    assert (citation.quote, sentence.support) == ("| E-14 | Weak echo. Clean the antenna |", "supported")
    assert sentence.text == "Code: E-14; Meaning: Weak echo. Clean the antenna [1]."


def test_a_row_with_only_a_part_of_what_another_has_is_about_something_else() -> None:
    table = "| 城市级别 | 住宿 |\n|---|---|\n| 一线城市 | 600 |\n| 二线城市 | 450 |\n| 其他城市 | 350 |\n"
    assert answer("二线城市的住宿标准", table) == ["城市级别：二线城市；住宿：450。 [1]\n"]
    assert len(answer("一线城市和二线城市的住宿标准", table)) == 2


def test_a_row_without_the_head_of_its_table_is_quoted_as_it_stands() -> None:
    rows = "| E-11 | No echo |\n| E-14 | Weak echo |\n| E-21 | Low power |\n"
    assert answer("What is the meaning of code E-14?", rows) == ["| E-14 | Weak echo | [1]\n"]


def test_a_chinese_table_is_read_in_chinese() -> None:
    table = "| 站点 | 票价 |\n| --- | --- |\n| 上站 | 100元 |\n| 下站 | 80元 |\n"
    assert answer("上站的票价是多少？", table)[0] == "站点：上站；票价：100元。 [1]\n"


GLOSSARY = """| 中文 | English | Meaning 释义 |
|---|---|---|
| 水位 | stage | Height of the water above the zero of a gauge 水面高于水尺零点的高度 |
| 洪峰 | flood peak | Highest discharge of one flood 一次洪水的最大流量 |
| 率定 | rating | Relation between stage and discharge 水位与流量的关系 |
"""
MEETING = "今年汛期共发生洪水 6 次。最大洪峰流量为每秒 1840 立方米，于 7 月 29 日出现在石桥站。全部洪水的报汛均无迟报。"


@pytest.mark.parametrize("question", ["今年汛期最大的洪峰流量是多少？", "最大洪峰流量出现在哪个站？"])
def test_a_row_in_both_languages_is_not_foreign(question: str) -> None:
    """What lets a translation count for the words that it cannot share would count twice."""
    said = list(ExtractiveGenerator(embedder=StaticEmbedder()).generate(context(question, MEETING, GLOSSARY)))
    assert any("1840" in one for one in said) and said[0].endswith("[1]\n")


def test_which_sentences_are_in_another_language() -> None:
    read = Question.of(context("洪峰是什么？", GLOSSARY, "The flood peak is the highest discharge.", MEETING), None)
    assert [read.foreign(*place) for place in read.places] == [True, False, True, True, False, False, False]
    read = Question.of(context("What is a GPS rating?", MEETING + "断面位置每年用GPS率定。", GLOSSARY), None)
    assert [read.foreign(*place) for place in read.places] == [True] * 4 + [False] * 3


GUIDE = """软件包管理手册

目录

2.1.6 软件包依赖关系 ........ 12
2.1.7 软件仓库 ........ 14

首页 > 手册 > 软件包依赖关系

2.1.6 软件包依赖关系

每个软件包在控制文件里写明需要哪些别的软件包。
安装时会先装好它们。

2.1.7 软件仓库

仓库放在镜像站上。
"""


@pytest.mark.parametrize("question", ["什么是软件包依赖关系？", "软件包依赖关系", "软件包的依赖关系写在哪里？"])
@pytest.mark.parametrize("embedder", [None, StaticEmbedder()], ids=["words", "meaning"])
def test_headings_contents_and_menus_are_no_answers(question: str, embedder: Any) -> None:
    said = list(ExtractiveGenerator(embedder=embedder).generate(context(question, GUIDE, title="软件包管理手册")))
    assert any("控制文件" in line for line in said)
    assert not any(name in line for line in said for name in ("2.1", "....", "首页", "目录", "手册"))


def test_a_title_is_said_where_nothing_else_has_what_is_asked() -> None:
    said = answer("LS-22", "Rope inspection\n\n1.2.3 Document LS-22\n", title="Rope")
    assert said == ["1.2.3 Document LS-22 [1]\n"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("2.1.6 软件包依赖关系", "title"),
        ("3.2 Scope of delivery", "title"),
        ("第三章 总则", "title"),
        ("附录A 术语表", "title"),
        ("Chapter 4 The river", "title"),
        ("**Fees**", "title"),
        ("Installation .......... 17", "title"),
        ("Home > Docs > Install", "title"),
        ("Opening hours", "title"),
        ("Opening hours: 9 to 17", "sentence"),
        ("2.5 kg of flour", "sentence"),
        ("第五条 员工应当遵守规定。", "sentence"),
        ("Room 12", "sentence"),
        ("The pump stands in the cellar of the old mill and is never switched off", "sentence"),
        ("2024年 > 2023年，增长百分之五。", "sentence"),
        ("等等……", "sentence"),
    ],
)
def test_titles_are_told_from_what_says_something(line: str, kind: str) -> None:
    (found, *_) = statements(f"{line}\n\nMore text follows here.\n")
    assert (found.kind, found.start, found.end) == (kind, 0, len(line))


def test_numbered_items_are_no_titles_when_they_follow_each_other() -> None:
    text = "办理流程：\n一、提交申请\n二、部门审批\n三、人事备案\n"
    assert [one.kind for one in statements(text)] == ["sentence"] * 4
    assert [one.kind for one in statements("一、适用范围\n本规定适用于全体员工。\n")] == ["title", "sentence"]


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


def test_rows_without_the_code_that_is_asked_for_are_about_something_else() -> None:
    table = "| Code | Remedy |\n|---|---|\n| E-14 | Wipe the sensor |\n| E-30 | Send the sensor back |\n"
    assert answer("What does error E-14 of the sensor mean?", table) == ["Code: E-14; Remedy: Wipe the sensor. [1]\n"]


@pytest.mark.parametrize(
    "text",
    [
        "After lightning everybody leaves the mast, and work may go on\n30 minutes after the last thunder.",
        "上冰作业时两个人为一组前后的间距不得小于十米并且每个人都要系好\n安全绳以后才能离开岸边。",
    ],
)
def test_a_sentence_is_not_cut_where_its_line_is_full(text: str) -> None:
    assert [text[one.start : one.end] for one in statements(text)] == [text]
    first, second = text.split("\n")
    assert len(statements(f"{first}.\n{second}")) == len(statements(f"{first[-12:]}\n{second}")) == 2


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


FAQ = """问：怎么退款？
答：收货后30天内将未使用的商品寄回，我们在收到包裹后7天内退还货款。运费不退。

问：有手机应用吗？
答：有安卓版。苹果版正在规划。

问：多久能收到货？
答：江浙沪次日达，其他地区三到五天。
"""


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [("怎么退款？", "答：收货后30天内", "运费不退。"), ("有手机应用吗？", "答：有安卓版。", "苹果版正在规划。")],
)
def test_a_question_in_the_text_is_not_said_and_its_answer_is(question: str, first: str, last: str) -> None:
    said = list(ExtractiveGenerator(embedder=StaticEmbedder()).generate(context(question, FAQ, DAM, ROPE)))
    assert said[0].startswith(first) and said[-1].startswith(last), said
    assert not any("问：" in line for line in said)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Q: Is there an app?\nA: There is one.", ["title", "sentence"]),
        ("Is there an app?\n\nThere is one.", ["title", "sentence"]),
        ("He came. Did he stay?\nNobody knows.", ["sentence"] * 3),  # a line that says something else as well
        ("Who was it?\nWhen was it?\nNobody knows.", ["sentence", "sentence", "sentence"]),
        ("Nobody knows.\nWho was it?", ["sentence", "sentence"]),
    ],
)
def test_a_question_on_its_line_names_what_follows(text: str, kinds: list[str]) -> None:
    found = statements(text)
    assert [one.kind for one in found] == kinds
    if kinds[0] == "title":
        assert found[1].heading == found[0][:2]


def test_may_is_a_month_only_beside_a_number() -> None:
    lease = (
        "Either party may end the lease early. The tenant may not let the rooms of the lease to others. The lease ends "
        "on 3 May 2028. The lease may be renewed."
    )
    (said,) = answer("When does the lease end?", lease, DAM, ROPE, max_sentences=1)
    assert said.startswith("The lease ends on 3 May 2028.")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (
            "What are the differences between the QH-40 and the QH-60?",
            "The gauge QH-40 is splash-proof. The gauge QH-60 is waterproof.",
        ),
        ("QH-40和QH-60有什么区别？", "QH-40可防泼溅。QH-60可浸泡在水中。"),
    ],
)
def test_a_difference_is_asked_for_and_need_not_be_said(question: str, text: str) -> None:
    asked = Question.of(context(question, text, DAM, LEAVE), None)
    assert asked.covered == [1.0, 0.0, 0.0]
