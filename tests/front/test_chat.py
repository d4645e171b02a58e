"""Conversations through the front doors: the library, the terminal, replay, and setting up a model."""

import json
import re
import sqlite3
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import headwater
from headwater import llm
from headwater.build import KnowledgeBase
from headwater.cli import cli
from headwater.config import load
from headwater.converse import MAX_STEPS, NO_MODEL
from headwater.engine import REFUSALS
from headwater.errors import NotFound, SettingError, UnknownComponent, UsageError
from headwater.home import CONVERSATIONS_FILE
from headwater.testing.chat_server import ChatServer
from headwater.testing.command import headwater as headwater_in_a_process
from headwater.types import Answer, Restart, Sentence

GOOD = "Parents are entitled to 26 weeks of leave [1]."


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def home(tmp_path: Path, handbook: Path) -> Path:
    with headwater.open(tmp_path / "kb") as kb:
        kb.add(handbook)
    return tmp_path / "kb"


@pytest.fixture
def kb(home: Path) -> Iterator[KnowledgeBase]:
    with headwater.open(home) as made:
        yield made


def with_model(home: Path, server: ChatServer, **settings: Any) -> KnowledgeBase:
    llm.install(home, {"use": "openai", "model": "tiny", "base_url": server.url, "max_retries": 0, **settings})
    return headwater.open(home)


# -------------------------------------------------------------------------------------- without a model


def test_follow_ups_are_understood_without_a_model(kb: KnowledgeBase) -> None:
    first = kb.chat("How long is parental leave?")
    assert "26 weeks" in first.text and first.conversation_id
    second = kb.chat("How much of it is paid?", conversation=first.conversation_id)
    assert second.conversation_id == first.conversation_id
    assert "18 weeks" in second.text
    assert second.trace[0].stage == "condense" and "leave" in second.trace[0].note
    third = kb.chat("Can it be taken in parts?", conversation=first.conversation_id)
    assert "two parts" in third.text
    chinese = kb.chat("员工每年有多少天年假？")
    assert "十五天" in chinese.text
    follow = kb.chat("怎么申请？", conversation=chinese.conversation_id)
    assert "提前两周" in follow.text and follow.query.text == "怎么申请？ 年假"


def test_another_question_leaves_the_subject_behind(kb: KnowledgeBase) -> None:
    first = kb.chat("How long is parental leave?")
    other = kb.chat("What does error PPR-9087 mean?", conversation=first.conversation_id)
    assert "intake is blocked" in other.text
    assert all(citation.uri.endswith("pump.md") for citation in other.citations)
    assert kb.chat("Which canteen serves fish?", conversation=first.conversation_id).text.startswith(REFUSALS["en"])


def test_a_short_question_of_its_own_is_not_taken_for_a_follow_up(kb: KnowledgeBase) -> None:
    kb.add_text("婚假为10天，须在领证后一年内使用。", uri="婚假.md")
    kb.add_text("QH-60记录仪的电池寿命为18个月。QH-60记录仪的价格为1680元。", uri="记录仪.md")
    first = kb.chat("QH-60的电池寿命是多久？")
    assert "18个月" in first.text
    other = kb.chat("婚假几天？", conversation=first.conversation_id)
    assert "10天" in other.text and other.query.text == other.trace[0].note == "婚假几天？"
    assert kb.chat("谢谢！", conversation=first.conversation_id).refused
    again = kb.chat("QH-60的电池寿命是多久？", conversation=first.conversation_id)
    assert "18个月" in again.text
    assert "1680" in kb.chat("价格呢？", conversation=first.conversation_id).text


def test_another_subject_takes_the_place_of_the_old_one(kb: KnowledgeBase) -> None:
    kb.add_text("The site manager in Lyon is Claire Dubois. The site manager in Oslo is Kari Moen.", uri="offices.md")
    kb.add_text(
        "# Meals\n\n| Country | Dinner |\n|---|---|\n| France | 30 EUR |\n| Norway | 45 EUR |\n", uri="meals.md"
    )
    first = kb.chat("Who is the site manager in Lyon?")
    assert "Claire Dubois" in first.citations[0].quote
    second = kb.chat("And in Oslo?", conversation=first.conversation_id)
    assert second.query.text == "And in Oslo? site manager"
    assert "Kari Moen" in second.citations[0].quote
    # One that only begins like a follow-up is asked by itself, where the old words lead to no answer.
    other = kb.chat("Which deposit do guests leave for keys, towels, bicycles, umbrellas and lockers?")
    third = kb.chat("What about dinner in France?", conversation=other.conversation_id)
    assert third.query.text == "What about dinner in France?"
    assert [citation.quote for citation in third.citations] == ["| France | 30 EUR |"]


def test_conversations_persist(home: Path) -> None:
    with headwater.open(home) as kb:
        first = kb.chat("How long is parental leave?")
    with headwater.open(home) as kb:
        second = kb.chat("How much of it is paid?", conversation=first.conversation_id)
        assert "18 weeks" in second.text
        (listed,) = kb.conversations.latest()
        assert (listed.title, listed.count) == ("How long is parental leave?", 4)
        turns = kb.conversations.get(listed.id).turns
        assert [turn.role for turn in turns] == ["user", "assistant"] * 2
        assert turns[1].citations == first.citations and turns[1].answer_id == first.id
        with pytest.raises(NotFound):
            kb.chat("and?", conversation="nosuch")


def test_evidence_that_is_gone_or_out_of_reach_is_not_carried(home: Path) -> None:
    with headwater.open(home) as kb:
        first = kb.chat("How long is parental leave?")
        kb.remove(first.citations[0].document_id)
        second = kb.chat("Is it paid?", conversation=first.conversation_id)
        assert all("leave.md" not in hit.uri for hit in second.hits)
        chinese = kb.chat("员工每年有多少天年假？")
        follow = kb.chat("怎么申请它？", conversation=chinese.conversation_id, where='tag = "ops"')
        assert all(hit.uri.endswith("pump.md") for hit in follow.hits)


def test_without_documents_and_without_a_model_it_says_so(kb: KnowledgeBase) -> None:
    answer = kb.chat("你好！", use_knowledge_base=False)
    assert (answer.text, answer.refused, answer.hits) == (NO_MODEL["zh"], True, ())


# ------------------------------------------------------------------------------------------ with a model


def test_a_model_decides_when_to_search(home: Path) -> None:
    calls = [("search_knowledge", {"question": "How long is parental leave?"})]
    with ChatServer("Hello!", calls, GOOD) as server, with_model(home, server) as kb:
        greeting = kb.chat("Hi there")
        assert greeting.text == "Hello!" and greeting.citations == ()
        assert greeting.degraded == ("the model answered without searching the documents",)
        *events, answer = kb.chat_stream("How long is the leave for parents?", conversation=greeting.conversation_id)
    assert isinstance(answer, Answer) and answer.text == GOOD and answer.model == "tiny"
    assert answer.citations[0].quote == "Parents are entitled to 26 weeks of leave."
    assert answer.degraded == () and answer.hits
    written = [step.note for step in answer.trace if step.stage == "generate"]
    assert written == ["0 sentences by tiny, 1 calls, 321+12 tokens", "1 sentences by tiny, 321+12 tokens"]
    assert [event.text for event in events if isinstance(event, Sentence)] == [GOOD]
    _, asked, told = server.requests
    assert asked["tools"][0]["function"]["name"] == "search_knowledge"
    assert [message["role"] for message in asked["messages"]] == ["system", "user", "assistant", "user"]
    *_, call, result = told["messages"]
    assert call["tool_calls"][0]["function"]["name"] == "search_knowledge"
    assert result["role"] == "tool" and result["tool_call_id"] == call["tool_calls"][0]["id"]
    assert "[Source 1: Parental leave" in result["content"]


@pytest.mark.parametrize(
    "broken", ["{'question': 'parental leave", "parental leave", '{"q": ["x"]}', "", '{"getInformation']
)
def test_broken_arguments_still_search(home: Path, broken: str) -> None:
    with ChatServer([("getInformation", broken)], GOOD) as server, with_model(home, server) as kb:
        answer = kb.chat("How long is parental leave?")
    assert answer.text == GOOD
    assert len(server.requests) == 2


def test_at_most_three_steps(home: Path) -> None:
    calls = [("search_knowledge", {"question": "parental leave"})]

    def reply(body: dict[str, Any]) -> Any:
        return calls if body.get("tools") else GOOD

    with ChatServer(reply) as server, with_model(home, server) as kb:
        answer = kb.chat("How long is parental leave?")
    assert len(server.requests) == MAX_STEPS == 3
    assert "tools" not in server.requests[-1] and answer.text == GOOD
    with ChatServer(calls) as server, with_model(home, server) as kb:
        answer = kb.chat("How long is parental leave?")
        assert len(server.requests) == MAX_STEPS
    assert "26 weeks" in answer.text and "gave no answer" in answer.degraded[0]


def test_without_the_documents_there_is_one_step_and_no_tool(home: Path) -> None:
    with ChatServer("Paris [1].") as server, with_model(home, server) as kb:
        answer = kb.chat("What is the capital of France?", use_knowledge_base=False)
    assert (answer.text, answer.citations) == ("Paris.", ())
    assert answer.degraded == ("the documents were not used",)
    assert len(server.requests) == 1 and "tools" not in server.requests[0]


def test_a_model_without_tools_gets_the_same_by_a_plan(home: Path) -> None:
    replies = (GOOD, "How much of parental leave is paid?", "Of these, 18 weeks are paid in full [1].")
    with ChatServer(*replies, script=["no-tools"]) as server, with_model(home, server) as kb:
        first = kb.chat("How long is parental leave?")
        assert first.text == GOOD and first.degraded == ()
        second = kb.chat("And paid?", conversation=first.conversation_id)
        assert second.query.text == "How much of parental leave is paid?"
        assert "18 weeks" in second.text
    with ChatServer(GOOD) as server, with_model(home, server, tools="no") as kb:
        assert kb.chat("How long is parental leave?").text == GOOD
        assert "tools" not in server.requests[0]


def test_reflection_in_a_conversation_goes_by_the_plan(home: Path) -> None:
    marks = '{"accuracy": 9, "completeness": 9, "relevance": 9, "trustworthiness": 9, "suggestions": ""}'
    with ChatServer(GOOD, marks) as server, with_model(home, server) as kb:
        answer = kb.chat("How long is parental leave?", options={"reflect": True})
    assert answer.text == GOOD and answer.verdict.score == 9.0
    assert [step.note[:8] for step in answer.trace if step.stage == "reflect"] == ["round 1:"]
    assert all("tools" not in request for request in server.requests)


@pytest.mark.parametrize("trouble", ["cut", "500", "empty", "html"])
def test_a_model_that_fails_in_a_conversation_is_replaced(home: Path, trouble: str) -> None:
    with ChatServer(GOOD * 3, script=[trouble]) as server, with_model(home, server) as kb:
        *events, answer = kb.chat_stream("How long is parental leave?")
    assert isinstance(answer, Answer)
    assert "26 weeks" in answer.text and answer.citations and answer.model == ""
    assert "for the model failed" in answer.degraded[0]
    shown = [event for event in events if isinstance(event, Sentence | Restart)]
    withdrawn = max((place for place, event in enumerate(shown) if isinstance(event, Restart)), default=-1)
    assert " ".join(event.text for event in shown[withdrawn + 1 :] if isinstance(event, Sentence)) == answer.text


def test_a_search_that_finds_no_answer_is_a_refusal(home: Path) -> None:
    calls = [("search_knowledge", {"question": "Which canteen serves fish?"})]
    with ChatServer(calls, "The material does not say.") as server, with_model(home, server) as kb:
        answer = kb.chat("Which canteen serves fish?")
    assert answer.refused and answer.text.startswith(REFUSALS["en"]) and answer.citations == ()


def test_models_are_chosen_by_name(home: Path) -> None:
    with ChatServer(GOOD) as server:
        llm.install(home, {"base_url": server.url, "max_retries": 0}, name="small")
        with headwater.open(home) as kb:
            assert kb.writers.names() == ["extractive", "small"]
            assert kb.ask("How long is parental leave?").model == ""
            answer = kb.ask("How long is parental leave?", options={"llm": "small"})
            assert (answer.model, server.requests[0]["model"]) == ("small", "small")
            with pytest.raises(UnknownComponent, match="there are: extractive, small"):
                kb.ask("x", options={"llm": "nosuch"})


def test_a_key_is_named_not_written_and_never_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer(GOOD, key="sk-mine-123456") as server:
        monkeypatch.setenv("MY_KEY", "sk-mine-123456")
        with with_model(home, server, api_key="env:MY_KEY") as kb:
            assert kb.ask("How long is parental leave?").model == "tiny"
        shown = CliRunner().invoke(cli, ["config", "show", "--home", str(home)]).output
        assert "env:MY_KEY" in shown and "sk-mine" not in shown
        llm.install(home, {"base_url": server.url, "api_key": "sk-mine-123456"}, name="plain")
        assert "sk-mine" not in CliRunner().invoke(cli, ["config", "show", "--home", str(home)]).output


def test_the_cap_is_kept_in_the_home(home: Path) -> None:
    with ChatServer(GOOD) as server, with_model(home, server, tokens_a_day=900) as kb:
        answers = [kb.ask("How long is parental leave?") for _ in range(3)]
        assert [answer.model for answer in answers[:1]] == ["tiny"]
        capped = answers[-1]
        assert capped.model == "" and "cap of 900 tokens a day is reached" in capped.degraded[0]
    assert 1 <= len(server.requests) < 3


# ----------------------------------------------------------------------------------------------- replay


def test_an_answer_is_replayed_and_marked_when_its_sources_change(home: Path, handbook: Path) -> None:
    with headwater.open(home) as kb:
        answer = kb.chat("How long is parental leave?")
        kept = kb.replay(answer.id)
        assert (kept.text, kept.citations, kept.stale) == (answer.text, answer.citations, ())
        assert kept.generation == answer.generation > 0 and kept.options["top_n"] == 8
        assert [one.name for one in kept.passages] == [hit.chunk.name for hit in answer.hits]
        (handbook / "pump.md").write_text("# Pump manual\n\nAnother text.\n", encoding="utf-8")
        kb.add(handbook)
        assert kb.replay(answer.id).stale == ()  # it is not cited
        (handbook / "hr" / "leave.md").write_text("# Parental leave\n\nParents get 30 weeks.\n", encoding="utf-8")
        kb.add(handbook)
        assert [Path(uri).name for uri in kb.replay(answer.id).stale] == ["leave.md"]
    shown = CliRunner().invoke(cli, ["replay", answer.id, "--again", "--home", str(home)])
    assert shown.exit_code == 0, shown.output
    assert answer.text in shown.output and "stale: 1 of its sources" in shown.output and "30 weeks" in shown.output
    every = CliRunner().invoke(cli, ["replay", "--stale", "--again", "--home", str(home)])
    assert f"{answer.id}: answered" in every.output
    assert "- Parents are entitled to 26 weeks of leave [1]." in every.output
    assert "+ Parents get 30 weeks [1]." in every.output
    assert f'[1] {(handbook / "hr" / "leave.md").as_posix()}:18-39  "Parents get 30 weeks."' in every.output
    with headwater.open(home) as kb:
        kb.chat("How long is parental leave?")
        assert kb.stale() == []  # asked anew since
    none = CliRunner().invoke(cli, ["replay", "--stale", "--home", str(home)])
    assert none.output == "no answer that is kept is stale\n"
    for wrong in ([], [answer.id, "--stale"]):
        assert isinstance(CliRunner().invoke(cli, ["replay", *wrong, "--home", str(home)]).exception, UsageError)
    opened = CliRunner().invoke(cli, ["chat", "--home", str(home)], input=f"/open {answer.conversation_id}\n")
    assert "stale: its sources changed since" in opened.output
    plain = json.loads(CliRunner().invoke(cli, ["replay", answer.id, "--json", "--home", str(home)]).output)
    assert plain["text"] == answer.text and plain["stale"]


def test_a_replay_tells_what_was_read_for_a_typo(home: Path) -> None:
    with headwater.open(home) as kb:
        answer = kb.chat("How long is parentel leave?")
        assert kb.replay(answer.id).corrected == answer.corrected == {"parentel": "parental"}
        plain = kb.chat("How long is parental leave?")
        assert kb.replay(plain.id).corrected == {}
    shown = run("replay", answer.id, "--home", str(home))
    assert "nothing has the word 'parentel'; 'parental' was asked for instead" in shown.stderr
    assert "asked for instead" not in run("replay", plain.id, "--home", str(home)).stderr
    again = run("replay", answer.id, "--again", "--home", str(home))
    assert again.stderr.count("asked for instead") == 1  # it is still so, and was said already
    told = json.loads(run("replay", answer.id, "--json", "--home", str(home)).output)
    assert told["corrected"] == {"parentel": "parental"}


def test_an_answer_that_was_kept_before_typos_were_read_is_replayed(home: Path) -> None:
    with headwater.open(home) as kb:
        answer = kb.chat("How long is parental leave?")
    with sqlite3.connect(home / CONVERSATIONS_FILE) as db:
        db.execute("update answer set kept = json_remove(kept, '$.corrected')")
    db.close()
    with headwater.open(home) as kb:
        assert (kb.replay(answer.id).text, kb.replay(answer.id).corrected) == (answer.text, {})


def test_what_is_kept_is_a_setting(home: Path) -> None:
    (home / "headwater.toml").write_text('[answers]\nkeep = "all"\n')
    with headwater.open(home) as kb:
        answer = kb.ask("How long is parental leave?")
        assert kb.replay(answer.id).text == answer.text
    (home / "headwater.toml").write_text('[answers]\nkeep = "none"\n')
    with headwater.open(home) as kb:
        assert kb.ask("How long is parental leave?").id == ""
        chatted = kb.chat("How long is parental leave?")
        assert chatted.id == "" and chatted.conversation_id
    (home / "headwater.toml").write_text('[answers]\nkeep = "some"\n')
    with pytest.raises(SettingError, match=r"answers\.keep must be one of"):
        headwater.open(home)


# ---------------------------------------------------------------------------------------------- terminal


def run(*arguments: str, typed: str = "") -> Any:
    result = CliRunner().invoke(cli, list(arguments), input=typed)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_chat_in_the_terminal(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    typed = (
        "How long is parental leave?\n\nHow much of it is paid?\n/sources\n/list\n/model\n/model nosuch\n/docs off\n"
        f"Hello\n/docs on\n/export {file}\n/new\n/sources\n/help\n/nosuch\n/quit\nnever read\n"
    )
    result = run("chat", "--home", str(home), typed=typed)
    assert result.exit_code == 0, result.output
    assert "26 weeks" in result.output and "18 weeks" in result.output
    assert NO_MODEL["en"] in result.output and "there is no /nosuch" in result.output
    assert "no model is named 'nosuch'" in result.output and "never read" not in result.output
    exported = json.loads(file.read_text(encoding="utf-8"))
    assert [turn["role"] for turn in exported["turns"]] == ["user", "assistant"] * 3
    for turn in exported["turns"][1::2]:  # what `headwater replay` takes is said with every answer
        assert f"headwater replay {turn['answer_id']}" in result.output
    again = run("chat", "--home", str(home), "--conversation", exported["id"], typed="/open " + exported["id"] + "\n")
    assert "Hello" in again.output
    assert isinstance(CliRunner().invoke(cli, ["chat", "--home", str(home), "--conversation", "x"]).exception, NotFound)


def test_a_line_in_another_encoding_does_not_end_the_talk(home: Path) -> None:
    typed = "育儿假有多长？\n".encode("gb18030") + b"How long is parental leave?\n"
    for handling in ("strict", "surrogateescape"):  # of a terminal in UTF-8, and of one that says nothing
        environment = {"PYTHONIOENCODING": f"utf-8:{handling}"}
        outcome = headwater_in_a_process("chat", "--home", str(home), given=typed, environment=environment)
        assert outcome.code == 0, outcome.error
        assert "26 weeks" in outcome.output


def test_ask_takes_a_model_a_template_and_reflection(home: Path) -> None:
    with ChatServer("Once upon a time there was a nurse.") as server:
        llm.install(home, {"base_url": server.url, "max_retries": 0}, name="small")
        asked = ["ask", "Tell of parental leave", "--home", str(home), "--llm", "small", "--template", "continuation"]
        assert "Once upon a time" in run(*asked).output
    result = run("ask", "How long is parental leave?", "--home", str(home), "--reflect", "--json")
    assert "round 1" in result.output
    asked = ["ask", "How long is parental leave?", "--home", str(home), "--llm", "small"]
    invented = "The director owns 40 yachts in Monaco [1]."
    with ChatServer(f"Parents are entitled to 26 weeks of leave [1]. {invented}") as server:
        llm.install(home, {"base_url": server.url, "max_retries": 0}, name="small")
        shown = run(*asked).output
    assert shown.startswith("Parents are entitled to 26 weeks of leave [1]. The director owns 40 yachts in Monaco [?].")
    with ChatServer(invented) as server:
        llm.install(home, {"base_url": server.url, "max_retries": 0}, name="small")
        shown = run(*asked).output
    assert re.search(r"\(withdrawn: no sentence has a source\)\n" + re.escape(REFUSALS["en"]), shown)


def test_a_model_is_set_up_and_tried(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "ollama_url", lambda: "")
    with ChatServer("OK") as server:
        result = run("llm", "setup", "--home", str(home), typed=f"{server.url}\ntiny\n")
        assert result.exit_code == 0 and "tiny said 'OK'" in result.output and "there are: tiny, other" in result.output
        tested = run("llm", "test", "--home", str(home), "--json")
        assert json.loads(tested.stdout)["text"] == "OK"
    settings = load(home).component("generate")
    assert settings[1:] == ("openai", {"model": "tiny", "base_url": server.url})


def test_a_model_that_does_not_answer_is_not_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer("OK", key="needed") as server:
        arguments = ["llm", "setup", "--home", str(home), "--base-url", server.url, "--model", "tiny"]
        refused = CliRunner().invoke(cli, arguments)
        assert "nothing was written" in str(refused.exception) and not (home / "headwater.toml").exists()
        unset = CliRunner().invoke(cli, [*arguments, "--key-variable", "MY_KEY"])
        assert "the environment has no 'MY_KEY'" in str(unset.exception)
        monkeypatch.setenv("MY_KEY", "needed")
        assert run(*arguments, "--key-variable", "MY_KEY", "--name", "fast").exit_code == 0
    text = (home / "headwater.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["llm"]["fast"]["api_key"] == "env:MY_KEY"
    assert "no language model is set up" in str(CliRunner().invoke(cli, ["llm", "test", "--home", str(home)]).exception)


def test_settings_that_are_there_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "headwater.toml"
    file.write_text('# mine\n[retrieve]\ntop_n = 5\n\n[generate]\nuse = "extractive"\n# old\n\n[llm.a]\nmodel = "x"\n')
    llm.install(tmp_path, {"use": "openai", "model": 'od"d', "base_url": "http://127.0.0.1:1/v1"})
    llm.install(tmp_path, {"model": "y"}, name="a")
    llm.install(tmp_path, {"model": "z"}, name="b")
    read = tomllib.loads(file.read_text(encoding="utf-8"))
    assert read["retrieve"] == {"top_n": 5} and file.read_text(encoding="utf-8").startswith("# mine\n")
    assert read["generate"]["model"] == 'od"d' and read["llm"] == {"a": {"model": "y"}, "b": {"model": "z"}}
    with pytest.raises(SettingError):
        llm.install(tmp_path, {}, name="not a name")


def test_a_local_ollama_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatServer("OK") as server:
        monkeypatch.setattr(llm, "OLLAMA", type("Here", (), {"base_url": server.url}))
        assert llm.ollama_url() == server.url
        assert llm.models_at(server.url) == ["tiny", "other"]
    assert llm.ollama_url() == ""
    assert llm.models_at("http://127.0.0.1:1/v1") == []
