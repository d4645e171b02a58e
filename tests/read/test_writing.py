"""Answers that a language model writes: shown what it needs, judged, tried again, and replaced where it fails."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.cite import joined
from headwater.engine import REFUSALS, Engine
from headwater.errors import BackendError, SettingError
from headwater.messages import Message, Piece, Tool
from headwater.models.chat import OpenAIChat
from headwater.models.extractive import ExtractiveGenerator
from headwater.protocols import LanguageModel
from headwater.reflect import judge
from headwater.rewrite import ModelRewriter, carried_over, condense, hyde, rewrites
from headwater.testing.chat_server import ChatServer
from headwater.types import Answer, Options, Query, Restart, Sentence, Step
from headwater.wording import Prompts

LEAVE = "How long is parental leave?"
GOOD = "Parents are entitled to 26 weeks of leave [1]. Of these, 18 weeks are paid in full [1]."


class Model:
    """Says what it is told to, one reply for each request, the last one again and again; an error is raised."""

    name, takes_tools = "scripted", False

    def __init__(self, *replies: Any, context_tokens: int = 8000) -> None:
        self.replies, self.context_tokens = list(replies), context_tokens
        self.seen: list[Sequence[Message]] = []
        self.schemas: list[Any] = []

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        deadline_seconds: float = 60.0,
    ) -> Iterator[Piece]:
        self.seen.append(messages)
        self.schemas.append(schema)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        parts = reply if isinstance(reply, list) else [reply]
        for part in parts:
            if isinstance(part, Exception):
                raise part
            for start in range(0, len(part), 5):
                yield Piece(text=part[start : start + 5])
        yield Piece(finish="stop")


def engine(filled: Any, model: LanguageModel, **other: Any) -> Engine:
    return Engine(filled.parts(), model, fallback=ExtractiveGenerator(), **other)


def query(text: str = LEAVE, **options: Any) -> Query:
    return Query(text=text, options=Options(**options))


# ------------------------------------------------------------------------------------------- writing


def test_a_model_writes_and_is_cited(filled: Any) -> None:
    model = Model(GOOD)
    *events, answer = engine(filled, model).stream(query())
    assert isinstance(answer, Answer)
    assert (answer.refused, answer.model, answer.degraded) == (False, "scripted", ())
    assert [one.quote for one in answer.citations] == [
        "Parents are entitled to 26 weeks of leave.",
        "Of these, 18 weeks are paid in full.",
    ]
    assert joined([event for event in events if isinstance(event, Sentence)])[0] == answer.text
    system, user = model.seen[0]
    assert (system.role, user.role) == ("system", "user")
    assert "[Source 1: Parental leave]\nParents are entitled" in user.content
    assert user.content.endswith("## Question\n\nHow long is parental leave?\n\n## Answer")


def test_headings_and_rules_are_no_statements(filled: Any) -> None:
    """They get no citation, though their words stand in a passage, and no mark, though they do not."""
    said = (
        "# Parental leave\n\n## What a parent gets [1]\nParents are entitled to 26 weeks of leave [1].\n\n"
        "| Parental leave | Weeks |\n|---|---| [1]\n| entitled to leave | 26 weeks | [1]\n\n"
        "---\nOf these, 18 weeks are paid in full.\n"
    )
    with ChatServer(said) as server:
        model = OpenAIChat(model="m", base_url=server.url)
        *events, answer = engine(filled, model).stream(query())
        model.close()
    assert isinstance(answer, Answer)
    assert answer.text == (
        "# Parental leave\n\n## What a parent gets\nParents are entitled to 26 weeks of leave [1].\n\n"
        "| Parental leave | Weeks |\n|---|---|\n| entitled to leave | 26 weeks [1] |\n\n"
        "---\nOf these, 18 weeks are paid in full [2]."
    )
    bare = [event for event in events if isinstance(event, Sentence) and not event.citations]
    assert [(one.text.strip(), one.support) for one in bare] == [
        ("# Parental leave", None),
        ("## What a parent gets", None),
        ("| Parental leave | Weeks |", None),
        ("|---|---|", None),
        ("---", None),
    ]


BLOCK = """```python
import pump

for speed in (1, 2):
    pump.start(speed)  # not [1]

    levels[0] = table[1]
```"""


@pytest.mark.parametrize("size", [4, 10_000])
def test_code_is_kept_as_it_was_written(shelf: Any, size: int) -> None:
    shelf.add("pump.md", f"The pump is started by this program.\n\n{BLOCK}\n\nThen it runs.", title="Pump")
    asked = query("How is the pump started by a program?")
    said = f"The pump is started by this program [1]:\n\n{BLOCK}\nThen it runs [1]."
    with ChatServer(said, script=["one-chunk"] if size > 4 else []) as server:
        model = OpenAIChat(model="m", base_url=server.url)
        *events, answer = engine(shelf, model).stream(asked)
        model.close()
    assert isinstance(answer, Answer)
    assert answer.text == f"The pump is started by this program: [1]\n\n{BLOCK}\n[2]\nThen it runs [3]."
    assert answer.citations[1].quote == BLOCK.removeprefix("```python\n").removesuffix("\n```")
    assert joined([event for event in events if isinstance(event, Sentence)])[0] == answer.text


def test_code_that_no_passage_has_is_marked_and_kept_or_left_out(filled: Any) -> None:
    other = "~~~sh\nsudo rm --recursive everything\n```\nshutdown now\n~~~"
    said = f"{GOOD}\n{other}\nOf these, 18 weeks are paid in full [1]."
    marked = engine(filled, Model(said)).ask(query())
    assert f"\n{other}\n[?]\nOf these" in marked.text
    removed = engine(filled, Model(said)).ask(query(unsupported="remove"))
    assert "sudo" not in removed.text
    assert removed.degraded == ("1 sentence was left out: no passage bears out what was said",)
    cut = engine(filled, Model(f"{GOOD}\n```sh\nhalf a block\n  of code")).ask(query())
    assert cut.text.endswith("\n```sh\nhalf a block\n  of code\n[?]")


def test_the_question_s_language_is_the_prompt_s(filled: Any) -> None:
    model = Model("员工每年享有十五天带薪年假 [1]。")
    answer = engine(filled, model).ask(query("员工每年有多少天年假？"))
    assert not answer.refused
    assert "以下内容可能包含相邻上下文，请根据问题筛选相关信息，忽略无关部分" in model.seen[0][0].content
    assert "[来源 1: 年假制度]" in model.seen[0][1].content


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        ([BackendError("the server is gone")], False),
        (["Parents are entitled to 26 weeks of leave [1]. Of th", BackendError("broke off")], True),
        (["  \n "], False),
    ],
)
def test_a_model_that_fails_is_replaced_and_that_is_said(filled: Any, failure: list[Any], shown: bool) -> None:
    *events, answer = engine(filled, Model(failure)).stream(query())
    assert isinstance(answer, Answer)
    assert not answer.refused and answer.model == ""
    (note,) = answer.degraded
    assert note.startswith("answered with sentences of the documents, for the model failed: ")
    restarts = [event for event in events if isinstance(event, Restart)]
    assert [event.reason for event in restarts] == ([note] if shown else [])
    after = events[events.index(restarts[0]) + 1 :] if shown else events
    assert joined([event for event in after if isinstance(event, Sentence)])[0] == answer.text
    assert answer.text == filled.engine().ask(query()).text


@pytest.mark.parametrize("trouble", ["cut", "stall", "error-event", "broken-event", "empty", "no-choices", "html"])
def test_whatever_a_server_does_there_is_an_answer_and_the_truth_about_it(filled: Any, trouble: str) -> None:
    with ChatServer(GOOD, script=[trouble]) as server:
        model = OpenAIChat(base_url=server.url, first_token_seconds=1, between_tokens_seconds=0.3, max_retries=0)
        answer = engine(filled, model).ask(query())
        model.close()
    assert "26 weeks" in answer.text and answer.citations
    assert len(answer.degraded) == 1 and "for the model failed" in answer.degraded[0]


@pytest.mark.parametrize(
    ("trouble", "says"), [("length", "cut off"), ("filter", "content filter"), ("early", "without a")]
)
def test_how_an_answer_ended_is_said(filled: Any, trouble: str, says: str) -> None:
    with ChatServer("Parents are entitled to 26 weeks of leave [1]." + " " * 44, script=[trouble]) as server:
        model = OpenAIChat(base_url=server.url)
        answer = engine(filled, model).ask(query())
        model.close()
    assert any(says in note for note in answer.degraded)


def test_without_a_fallback_the_error_is_the_caller_s(filled: Any) -> None:
    with pytest.raises(BackendError, match="gone"):
        Engine(filled.parts(), Model([BackendError("gone")])).ask(query())


def test_a_prompt_that_is_too_long_is_made_shorter(filled: Any) -> None:
    for number in range(6):
        filled.add(f"more-{number}.md", f"Leave of kind {number}: " + "parental leave is long and good. " * 40)
    with ChatServer(GOOD, script=["too-long"]) as server:
        model = OpenAIChat(base_url=server.url, max_retries=0, max_tokens=300)
        answer = engine(filled, model).ask(query(top_n=10))
        model.close()
    first, second = ("\n".join(said["content"] for said in request["messages"]) for request in server.requests)
    assert len(second) < len(first) and second.count("[Source") < first.count("[Source")
    assert answer.model == "gpt-4o-mini" and not answer.degraded


def test_the_room_of_the_model_bounds_the_context(filled: Any) -> None:
    for number in range(6):
        filled.add(f"more-{number}.md", f"Leave of kind {number}: " + "parental leave is long and good. " * 40)
    small, large = Model(GOOD, context_tokens=1200), Model(GOOD)
    for model in (small, large):
        engine(filled, model).ask(query(top_n=10))
    counts = [model.seen[0][1].content.count("[Source") for model in (small, large)]
    assert 0 < counts[0] < counts[1]


def test_a_request_picks_its_model(filled: Any) -> None:
    other = Model(GOOD)
    made = engine(filled, Model([BackendError("not me")]), named={"other": other}.__getitem__)
    assert made.ask(query(llm="other")).model == "scripted"
    assert made.ask(query(llm="extractive")).degraded == ()
    with pytest.raises(SettingError, match="no model is named"):
        engine(filled, other).ask(query(llm="nobody"))


def test_instructions_that_are_given_away_are_not_shown(filled: Any) -> None:
    class Parrot(Model):
        def stream(self, messages: Sequence[Message], **options: Any) -> Iterator[Piece]:
            self.replies = [f"Parents are entitled to 26 weeks of leave [1]. {messages[0].content}"]
            return super().stream(messages, **options)

    model = Parrot("")
    *events, answer = engine(filled, model).stream(query())
    assert isinstance(answer, Answer)
    said = "".join(event.text for event in events if isinstance(event, Sentence)) + answer.text
    assert "reference material" not in said.lower()
    assert any("repeated its instructions" in note for note in answer.degraded)


# ----------------------------------------------------------------------------------------- templates


def test_templates_are_prompts_and_new_text_is_not_refused(filled: Any) -> None:
    story = "The night nurse counted the weeks until her leave began. Outside, snow fell on the empty yard."
    model = Model(story)
    answer = engine(filled, model).ask(
        query("Continue the story of the nurse on parental leave.", template="continuation")
    )
    assert (answer.refused, answer.text) == (False, story)
    assert "continue a text" in model.seen[0][0].content
    assert engine(filled, Model(story)).ask(query(template="reading")).refused
    with pytest.raises(SettingError, match="no prompt is named 'nosuch'; there are: answer, "):
        engine(filled, model).ask(query(template="nosuch"))


def test_a_template_without_a_model_is_noted(filled: Any) -> None:
    answer = filled.engine().ask(query(template="setting"))
    assert any("needs a language model" in note for note in answer.degraded)


def test_a_home_s_own_prompt_is_used(filled: Any, tmp_path: Path) -> None:
    (tmp_path / "answer.en.txt").write_text("[system]\nBe a pirate.\n[user]\n{passages}\n{question} {braces}", "utf-8")
    (tmp_path / "haiku.en.txt").write_text("# ungrounded\n[user]\nA haiku: {question}", "utf-8")
    model = Model(GOOD)
    made = engine(filled, model, prompts=Prompts(tmp_path))
    made.ask(query())
    assert model.seen[0][0].content == "Be a pirate."
    assert model.seen[0][1].content.endswith("\nHow long is parental leave? {braces}")
    made.ask(query(template="haiku"))
    assert model.seen[1][0].content == "A haiku: How long is parental leave?"
    (tmp_path / "answer.en.txt").write_text("no parts", "utf-8")
    with pytest.raises(SettingError, match=r"no part under \[user\]"):
        made.ask(query())


@pytest.mark.parametrize("name", Prompts().names())
def test_every_prompt_ships_in_both_languages(name: str) -> None:
    for about, text in (("大坝有多高？", "zh"), ("How tall?", "en")):
        prompt = Prompts().get(name, about=about)
        assert prompt.user
        words = prompt.system + prompt.user
        assert ("一" <= max(words) <= "鿿" or "，" in words) == (text == "zh")
    assert Prompts().get("hyde", about="大坝").user == "基于以下问题，生成一个假设的、理想的答案：\n\n{query}"


# ---------------------------------------------------------------------------------------- reflection

MARKS = '{"accuracy": %d, "completeness": %d, "relevance": %d, "trustworthiness": %d, "suggestions": "look for pay"}'


def test_rounds_go_on_until_one_is_good_and_the_best_is_returned(filled: Any) -> None:
    model = Model(
        *("Parents are entitled to 26 weeks of leave [1].", MARKS % (5, 4, 5, 6)),
        *('{"queries": ["paid parental leave weeks"]}', GOOD, MARKS % (9, 8, 9, 10)),
    )
    *events, answer = engine(filled, model).stream(query(reflect=True))
    assert isinstance(answer, Answer)
    assert answer.verdict.score == 9.0 and "accuracy 9" in answer.verdict.reason
    assert "18 weeks" in answer.text
    rounds = [step.note for step in answer.trace if step.stage == "reflect"]
    assert len(rounds) == 2
    assert rounds[0].startswith("round 1: 5 of 10") and "to do: look for pay" in rounds[0]
    assert rounds[1].startswith("round 2: 9 of 10")
    # Nothing is shown before it is known which round stands, so nothing is taken back.
    assert not any(isinstance(event, Restart) for event in events)
    kinds = [type(event) for event in events]
    assert kinds.index(Sentence) > max(place for place, kind in enumerate(kinds) if kind is Step)
    assert "look for pay" in model.seen[2][1].content
    assert model.schemas[1] is not None and set(model.schemas[1]["properties"]) >= {"accuracy", "trustworthiness"}


def test_the_best_of_all_rounds_wins_not_the_last(filled: Any) -> None:
    worse = "Parents are entitled to 26 weeks of leave [1]."
    model = Model(
        *(GOOD, MARKS % (6, 6, 6, 6), '{"queries": []}', worse, MARKS % (3, 3, 3, 3)),
        *("[]", worse, MARKS % (2, 2, 2, 2)),
    )
    answer = engine(filled, model).ask(query(reflect=True, reflect_rounds=3))
    assert answer.verdict.score == 6.0 and "18 weeks" in answer.text
    assert sum(step.stage == "reflect" for step in answer.trace) == 3


@pytest.mark.parametrize(
    ("strategy", "deeper", "asked_again"), [("expand", True, False), ("rewrite", False, True), ("both", True, True)]
)
def test_the_strategy_says_what_the_next_round_does(
    filled: Any, strategy: Any, deeper: bool, asked_again: bool
) -> None:
    replies = [GOOD, MARKS % (5, 5, 5, 5), *(['{"queries": ["paid weeks"]}'] if asked_again else [])]
    model = Model(*replies, GOOD, MARKS % (9, 9, 9, 9))
    made = engine(filled, model)
    searched: list[Query] = []
    search = made.search
    made.search = lambda query: (searched.append(query), search(query))[1]  # type: ignore[method-assign]
    made.ask(query(reflect=True, reflect_strategy=strategy))
    assert searched[0].text == LEAVE
    assert [one.text for one in searched[1:]] == [LEAVE, *(["paid weeks"] if asked_again else [])]
    assert (searched[1].options.top_n > searched[0].options.top_n) == deeper
    assert (searched[1].options.candidates > searched[0].options.candidates) == deeper
    assert searched[1].options.synonyms == asked_again


def test_reflection_ends_with_the_deadline(filled: Any) -> None:
    model = Model(GOOD, MARKS % (5, 5, 5, 5), "[]")
    answer = engine(filled, model).ask(query(reflect=True, deadline_seconds=0.0, reflect_min_score=11.0))
    assert sum(step.stage == "reflect" for step in answer.trace) == 1
    assert any("reflection ended" in note for note in answer.degraded)
    assert not answer.refused


def test_a_further_round_ends_with_the_deadline_and_the_rounds_before_it_stand(filled: Any) -> None:
    class Slow(Model):
        given: list[float]  # how long each reply may take

        def stream(
            self, messages: Sequence[Message], *, deadline_seconds: float = 60.0, **rest: Any
        ) -> Iterator[Piece]:
            self.given.append(deadline_seconds)
            return super().stream(messages, deadline_seconds=deadline_seconds, **rest)

    late = [GOOD[:30], BackendError("no answer within 3 s")]
    model = Slow(GOOD, MARKS % (5, 5, 5, 5), '{"queries": []}', late, MARKS % (9, 9, 9, 9))
    model.given = []
    *events, answer = engine(filled, model).stream(query(reflect=True, reflect_rounds=2, deadline_seconds=3.0))
    assert isinstance(answer, Answer)
    assert model.given[0] == 60.0 and all(seconds <= 3.0 for seconds in model.given[1:])
    assert (answer.verdict.score, answer.model) == (5.0, "scripted") and "18 weeks" in answer.text
    written = [step.note for step in answer.trace if step.stage == "generate"]
    assert "which failed: no answer within 3 s" in written[1]
    assert answer.degraded == () and not any(isinstance(event, Restart) for event in events)


def test_that_the_time_was_over_is_said_whichever_round_stands(filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    worse = "Parents are entitled to 26 weeks of leave [1]."
    model = Model(GOOD, MARKS % (6, 6, 6, 6), '{"queries": []}', worse, MARKS % (3, 3, 3, 3), "[]")
    # The time is over while the second round is written: nobody is left to give it marks.
    monkeypatch.setattr("headwater.engine._Run._left", lambda _: 9.0 if len(model.seen) < 4 else -1.0)
    answer = engine(filled, model).ask(query(reflect=True, reflect_min_score=11.0))
    assert answer.verdict.score == 6.0 and "reflection ended after round 2" in answer.degraded[-1]


def test_without_a_model_the_citations_judge(filled: Any) -> None:
    answer = filled.engine().ask(query(reflect=True))
    rounds = [step.note for step in answer.trace if step.stage == "reflect"]
    assert not answer.refused and 1 <= len(rounds) <= 3
    assert rounds[0].startswith("round 1: ")


@pytest.mark.parametrize("said", ["I cannot judge.", '{"accuracy": "very"}', [BackendError("gone")], "{}"])
def test_a_judge_that_gives_no_marks_leaves_it_to_the_citations(filled: Any, said: Any) -> None:
    model = Model(GOOD, said)
    answer = engine(filled, model).ask(query(reflect=True, reflect_rounds=1))
    assert not answer.refused and answer.verdict.score > 7
    assert any("judged by its citations only" in note for note in answer.degraded)


@pytest.mark.parametrize(
    ("said", "score"),
    [
        (MARKS % (8, 8, 6, 6), 7.0),
        (
            '```json\n{"accuracy": "8/10", "completeness": 8.0, "relevance": {"score": 6}, "trustworthiness": 99}```',
            8.0,
        ),
        ("{'Accuracy': 8, 'completeness': 6", 7.0),
    ],
)
def test_marks_are_read_however_they_are_written(said: str, score: float) -> None:
    sentences = [Sentence(text="Parents are entitled to leave.")]
    found = judge(query(), sentences, model=Model(said), prompts=Prompts())
    assert found.verdict.score == score
    assert not found.verdict.accepted  # no marks make up for a missing source


def test_an_answer_that_rests_on_nothing_is_refused_whatever_its_marks(filled: Any) -> None:
    model = Model("The director owns 40 yachts.", MARKS % (10, 10, 10, 10))
    answer = engine(filled, model).ask(query(reflect=True))
    assert answer.refused and answer.text.startswith(REFUSALS["en"])


# ----------------------------------------------------------------------------------------- rewriting


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ('{"queries": ["one way", "another way", "How long is parental leave?"]}', ["one way", "another way"]),
        ("1. one way\n2) another way\n", ["one way", "another way"]),
        ('- "one way"\n- another way\n- third\n- fourth', ["one way", "another way", "third"]),
        ("```json\n['one way', 'another way',]\n```", ["one way", "another way"]),
        ('[{"query": "one way"}, {"query": "another way"}]', ["one way", "another way"]),
        ("Question: one way", ["one way"]),
        ("x" * 1000, []),
    ],
)
def test_other_ways_to_ask_survive_bad_output(said: str, found: list[str]) -> None:
    assert rewrites(Model(said), LEAVE, limit=3) == found


def test_a_rewriter_asks_the_model() -> None:
    rewriter = ModelRewriter(Model('{"queries": ["b", "c"]}'))
    assert rewriter.rewrites("a", limit=1, deadline_seconds=5) == ["b"]
    model = Model("十五天。")
    assert hyde(model, "年假多少天？") == "十五天。"
    assert model.seen[0][0].content == "基于以下问题，生成一个假设的、理想的答案：\n\n年假多少天？"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Is parental leave paid?", "Is parental leave paid?"),
        ('Standalone question: "Is parental leave paid?"\nBecause ...', "Is parental leave paid?"),
        ("x" * 1000, "Is it paid?"),
    ],
)
def test_a_follow_up_is_condensed(said: str, found: str) -> None:
    history = [Message(role="user", content=LEAVE), Message(role="assistant", content="26 weeks [1].")]
    model = Model(said)
    assert condense(model, history, "Is it paid?") == found
    assert "user: How long is parental leave?" in model.seen[0][-1].content
    assert condense(model, [], "Is it paid?") == "Is it paid?"


@pytest.mark.parametrize(
    ("before", "question", "about", "found"),
    [
        (LEAVE, "Is it paid?", "", "Is it paid? parental leave"),
        (LEAVE, "What about sick leave?", "", "What about sick leave?"),
        (LEAVE, "Which programming language is the payroll written in?", "", None),
        ("What does error PPR-9087 mean?", "How do I fix that?", "Pump manual", "How do I fix that? PPR-9087"),
        ("How high was the flood of 1998?", "And in 2003?", "", "And in 2003? flood"),
        ("How high was the flood of 1998?", "And when did it end?", "", "And when did it end? flood 1998"),
        ("What does error PPR-9087 mean?", "And PPR-9088?", "Pump manual", "And PPR-9088? error mean"),
        ("Who is the site manager in Lyon?", "And in Oslo?", "Lyon office", "And in Oslo? site manager"),
        ("Who was absent on 11 February 2025?", "And on 11 March?", "", "And on 11 March? absent 2025"),
        ("What does the Team plan cost?", "The Business plan?", "", "The Business plan? cost"),
        ("Who sent the letter?", "With whom was it discussed?", "", "With whom was it discussed? sent letter"),
        ("When was release 4.2 made?", "And 4.3?", "", "And 4.3? release made"),
        ("病假工资怎么算？", "那事假呢？", "请假", "那事假呢？ 工资"),
        ("Who is the site manager in Lyon?", "For contractors?", "Lyon office", "For contractors? Lyon"),
        ("Who sent Maria from Lyon to Oslo?", "And Tom?", "", "And Tom? sent Maria Lyon Oslo"),
        ("一线城市住宿标准是多少？", "二线城市呢？", "差旅标准", "二线城市呢？ 住宿标准"),
        ("上海的住宿标准是多少？", "那北京呢？", "差旅标准", "那北京呢？ 住宿标准"),
        ("病假要提前多久申请？", "那年假呢？", "", "那年假呢？ 提前 申请"),
        ("员工每年有多少天年假？", "怎么申请？", "年假制度", "怎么申请？ 年假"),
        ("水泵的最大流量是多少？", "它的功率呢？", "水泵手册", "它的功率呢？ 水泵"),
        ("QH-60的电池寿命是多久？", "那QH-40H呢？", "说明书", "那QH-40H呢？ 电池寿命"),
        ("How long does the TL-60 last?", "What about the TL-40H?", "", "What about the TL-40H? last"),
        ("报销标准是什么？", "食堂星期五供应什么菜？", "报销", None),
    ],
)
def test_without_a_model_a_follow_up_takes_its_subject_along(
    before: str, question: str, about: str, found: str | None
) -> None:
    history = [Message(role="user", content=before), Message(role="assistant", content="…")]
    assert carried_over(history, question, about=about) == (found or question)
    assert carried_over([], question) == question


def test_a_rewriter_is_what_the_search_asks(filled: Any) -> None:
    model = Model('{"queries": ["holiday weeks granted"]}')
    parts = replace(filled.parts(), rewriter=lambda options: ModelRewriter(model))
    results = Engine(parts, ExtractiveGenerator()).search(query("time off for fathers", rewrite=True, top_n=3))
    assert any(hit.uri == "holiday.md" for hit in results)
    assert model.seen
