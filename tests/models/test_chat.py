"""A language model behind the OpenAI protocol: every deviation servers are known for, and none may lose text or lie."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import BackendError, SettingError
from headwater.messages import Message, Piece, Tool
from headwater.models.chat import OpenAIChat
from headwater.models.known import OLLAMA_CONTEXT_TOKENS, UNKNOWN_CONTEXT_TOKENS, known_chat_model
from headwater.models.spending import Ledger
from headwater.protocols import LanguageModel
from headwater.testing.chat_server import USAGE, ChatServer
from headwater.write import Writing, said_object

TEXT = "The dam opened in 1936 [1]. 大坝高 221 米【2】。\n\n- It <b>holds</b> the river [1,2]."
ASK = [Message(role="system", content="Be brief."), Message(role="user", content="When did the dam open?")]
SEARCH = Tool(
    name="search_knowledge",
    description="Search.",
    parameters={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DASHSCOPE_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


@contextmanager
def serving(*replies: Any, **options: Any) -> Iterator[tuple[ChatServer, OpenAIChat]]:
    script, key, always = options.pop("script", ()), options.pop("key", ""), options.pop("always", "")
    quick = {"first_token_seconds": 1.0, "between_tokens_seconds": 0.6, "timeout_seconds": 5.0}
    with ChatServer(*replies, script=script, key=key) as server:
        server.always = always
        model = OpenAIChat(**{"model": "tiny", "base_url": server.url, **quick, **options})
        yield server, model
        model.close()


def heard(model: LanguageModel, **options: Any) -> tuple[str, Piece]:
    *pieces, last = model.stream(ASK, **{"deadline_seconds": 6.0, **options})
    return "".join(piece.text for piece in [*pieces, last]), last


def test_it_is_a_language_model() -> None:
    assert isinstance(OpenAIChat(), LanguageModel)


@pytest.mark.parametrize(
    "deviation",
    [
        *("ok", "slow", "whole", "no-done", "no-finish", "no-usage", "crlf", "tight", "comments", "bytes", "one-chunk"),
        *("think", "think-split", "reasoning", "parts", "message", "length", "filter"),
    ],
)
def test_no_text_is_lost(deviation: str) -> None:
    with serving(TEXT, script=[deviation]) as (server, model):
        text, last = heard(model)
    assert text == TEXT
    assert len(server.requests) == 1
    assert last.finish == {"length": "length", "filter": "content_filter"}.get(deviation, "stop")
    assert last.usage is not None
    if deviation == "no-usage":
        assert last.usage.input_tokens > 3 and last.usage.output_tokens > 15  # as we count
    else:
        assert (last.usage.input_tokens, last.usage.output_tokens) == (
            USAGE["prompt_tokens"],
            USAGE["completion_tokens"],
        )


def test_what_a_reasoning_model_thinks_before_a_closing_tag_is_not_shown() -> None:
    with serving(TEXT, script=["think-half"], model="deepseek-r1:7b") as (_, model):
        assert heard(model)[0] == TEXT
    with serving(TEXT, script=["ok"], model="deepseek-r1:7b") as (_, model):
        assert heard(model)[0] == TEXT  # it did not think: nothing is lost


@pytest.mark.parametrize("trouble", ["429", "503", "500", "html-502", "hang"])
def test_what_fails_before_the_first_token_is_asked_again(trouble: str) -> None:
    with serving(TEXT, script=[trouble]) as (server, model):
        assert heard(model)[0] == TEXT
        assert len(server.requests) == 2


@pytest.mark.parametrize("trouble", ["cut", "stall", "error-event", "broken-event"])
def test_what_fails_in_the_middle_is_an_error_and_is_not_asked_again(trouble: str) -> None:
    with serving(TEXT, script=[trouble]) as (server, model):
        pieces = []
        with pytest.raises(BackendError) as caught:
            for piece in model.stream(ASK, deadline_seconds=5):
                pieces.append(piece.text)
        assert TEXT.startswith("".join(pieces)) and "".join(pieces)
        assert len(server.requests) == 1
    words = {"cut": "broke off", "stall": "in the middle", "error-event": "out of memory", "broken-event": "not JSON"}
    assert words[trouble] in str(caught.value)


def test_a_stream_that_ends_early_says_so() -> None:
    with serving(TEXT, script=["early"]) as (_, model):
        writing = Writing(model, ASK, deadline_seconds=5)
        assert TEXT.startswith("".join(writing))
        assert writing.notes == ("the model's answer ended without a sign that it was complete",)


@pytest.mark.parametrize("nothing", ["empty", "no-choices"])
def test_a_model_that_says_nothing_has_failed(nothing: str) -> None:
    with serving(TEXT, script=[nothing]) as (_, model), pytest.raises(BackendError, match="said nothing"):
        list(Writing(model, ASK, deadline_seconds=5))


@pytest.mark.parametrize(
    ("trouble", "says"),
    [
        ("html", "not JSON"),
        ("polite", "upstream is asleep"),
        ("404", "check the model's name"),
        ("quota", "no quota left"),
        ("too-long", "maximum context length"),
    ],
)
def test_what_cannot_be_helped_is_said(trouble: str, says: str) -> None:
    with serving(TEXT, script=[trouble]) as (server, model), pytest.raises(BackendError, match=says):
        heard(model)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("refusal", "gone"),
    [
        ("no-stream", "stream"),
        ("no-usage-option", "stream_options"),
        ("no-temperature", "temperature"),
        ("no-max-tokens", "max_tokens"),
    ],
)
def test_what_a_server_does_not_take_is_left_out_from_then_on(refusal: str, gone: str) -> None:
    with serving(TEXT, script=[refusal]) as (server, model):
        assert heard(model)[0] == TEXT
        assert heard(model)[0] == TEXT
    first, *others = server.requests
    assert gone in first and len(others) == 2
    assert all(gone not in request for request in others)


def test_a_schema_gives_way_to_an_object_and_then_to_plain_text() -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}}
    with serving('{"score": 7}', script=["no-schema", "no-format"]) as (server, model):
        assert heard(model, schema=schema)[0] == '{"score": 7}'
    kinds = [request.get("response_format", {}).get("type") for request in server.requests]
    assert kinds == ["json_schema", "json_object", None]


@pytest.mark.parametrize(
    "written",
    [
        '{"score": 7, "why": "a \\"b\\""}',
        'Here you are:\n```json\n{"score": 7, "why": "a \\"b\\"",}\n```\nAnything else?',
        "{'score': 7, 'why': 'a \"b\"'}",
        '{"score": 7, "why": "a \\"b\\"',
        '<think>{"score": 1}</think>{score: 7, why: "a \\"b\\""} // done',
    ],
)
def test_broken_json_is_mended(written: str) -> None:
    from headwater.wording import Prompt

    with serving(written) as (_, model):
        found = said_object(model, Prompt(system="", user="judge"), schema={"type": "object"}, deadline_seconds=5)
    assert found["score"] == 7
    assert found["why"] in ('a "b"', 'a "b')


@pytest.mark.parametrize(
    "fragments", ["ok", "tool-no-index", "tool-no-id", "tool-object", "tool-index", "one-chunk", "whole"]
)
def test_tool_calls_are_put_together(fragments: str) -> None:
    calls = [("search_knowledge", {"question": "大坝有多高？"}), ("search_knowledge", {"question": "When?"})]
    with serving(calls, script=[fragments]) as (server, model):
        text, last = heard(model, tools=(SEARCH,))
    assert text == ""
    assert [call.name for call in last.tool_calls] == ["search_knowledge"] * 2
    assert [json.loads(call.arguments)["question"] for call in last.tool_calls] == ["大坝有多高？", "When?"]
    assert len({call.id for call in last.tool_calls}) == 2
    assert server.requests[0]["tools"][0]["function"]["name"] == "search_knowledge"


def test_the_old_form_of_a_call_is_understood() -> None:
    with serving([("search_knowledge", {"question": "When?"})], script=["tool-legacy"]) as (_, model):
        (call,) = heard(model, tools=(SEARCH,))[1].tool_calls
    assert (call.name, call.arguments) == ("search_knowledge", '{"question": "When?"}')


def test_a_model_without_tools_is_found_out() -> None:
    with serving(TEXT, script=["no-tools"]) as (server, model):
        assert model.takes_tools
        with pytest.raises(BackendError, match="does not take tools"):
            heard(model, tools=(SEARCH,))
        assert not model.takes_tools
        assert heard(model, tools=(SEARCH,))[0] == TEXT
        assert "tools" not in server.requests[-1]


def test_every_wait_has_its_end() -> None:
    with serving(TEXT, always="hang", first_token_seconds=0.2, max_retries=1) as (server, model):
        began = time.monotonic()
        with pytest.raises(BackendError, match=r"no answer within 0\.2 s; asked 2 times"):
            heard(model)
        assert time.monotonic() - began < 15  # it would hang for 20 s each time
        assert len(server.requests) == 2
    with serving(TEXT * 20, always="slow") as (_, model):
        began = time.monotonic()
        with pytest.raises(BackendError, match=r"not done within 0\.7 s"):
            heard(model, deadline_seconds=0.7)
        assert time.monotonic() - began < 15  # all of it takes a minute
    with serving(TEXT, always="429", max_retries=50) as (_, model), pytest.raises(BackendError, match="no time"):
        heard(model, deadline_seconds=0.4)


def test_who_stops_listening_is_not_talked_to() -> None:
    with serving(TEXT * 50, always="slow") as (_, model):
        pieces = model.stream(ASK)
        assert next(pieces).text
        began = time.monotonic()
        pieces.close()  # type: ignore[attr-defined]
        assert time.monotonic() - began < 15  # what is left takes minutes


def test_the_request_says_what_was_asked() -> None:
    with serving(TEXT, temperature=0.3, extra={"top_k": 5}) as (server, model):
        heard(model, max_tokens=77)
        heard(model)
    first, second = server.requests
    assert first["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ASK[1].content},
    ]
    assert (first["max_tokens"], second["max_tokens"]) == (77, 1024)
    assert (first["temperature"], first["top_k"], first["model"]) == (0.3, 5, "tiny")
    with serving(TEXT) as (server, model):
        heard(model)
    assert server.requests[0]["temperature"] == 0.0


# ----------------------------------------------------------------------------------------------- keys

KEY = "sk-verysecret123456"


@pytest.mark.parametrize("trouble", ["ok", "500", "error-event", "polite"])
def test_no_key_is_in_an_error(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(TEXT, key="another", script=[trouble] * 9) as (server, model):
        with pytest.raises(BackendError) as caught:
            heard(model)
        assert server.requests[0]["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(caught.value) and "verysecret" not in str(caught.value)
    assert "refused the key" in str(caught.value)
    assert KEY not in repr(model) + repr(vars(model))


def test_a_key_goes_only_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("DASHSCOPE_API_KEY", "ds-key")

    def sent(**options: Any) -> tuple[str, str]:
        endpoint = OpenAIChat(**options)._endpoint
        return endpoint.base_url, endpoint._api_key

    assert sent(model="gpt-4o-mini") == ("https://api.openai.com/v1", KEY)
    assert sent(model="qwen-plus") == ("https://dashscope.aliyuncs.com/compatible-mode/v1", "ds-key")
    assert sent(model="x", base_url="https://example.org/v1") == ("https://example.org/v1", "")
    assert sent(model="x", base_url="https://example.org/v1", api_key="mine")[1] == "mine"
    assert sent(model="qwen3:8b", base_url="http://127.0.0.1:11434/v1")[1] == ""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example.org/v1")
    assert sent(model="gpt-4o-mini") == ("https://gateway.example.org/v1", KEY)


def test_context_sizes_are_known() -> None:
    known = known_chat_model("Qwen/Qwen2.5-7B-Instruct")
    assert known is not None and known.context_tokens == 32_768
    assert OpenAIChat(model="gpt-4o-mini").context_tokens == 128_000
    assert OpenAIChat(model="qwen3:8b", base_url="http://localhost:11434/v1").context_tokens == OLLAMA_CONTEXT_TOKENS
    assert OpenAIChat(model="mine", base_url="http://localhost:1/v1").context_tokens == UNKNOWN_CONTEXT_TOKENS
    assert OpenAIChat(model="mine", context_tokens=999).context_tokens == 999


def test_a_server_that_says_how_much_it_takes_is_believed() -> None:
    with serving(TEXT, script=["too-long"]) as (_, model):
        with pytest.raises(BackendError):
            heard(model)
        assert model.context_tokens == 1500


def test_how_a_model_counts_is_learnt() -> None:
    long = [Message(role="user", content="word " * 214)]
    with serving(TEXT) as (_, model):
        assert model.count_tokens("word " * 100) == 100
        list(model.stream(long))
        assert model.count_tokens("word " * 100) == 150  # the server counted 321 where we counted 214


@pytest.mark.parametrize(
    "wrong",
    [{"max_tokens": 0}, {"timeout_seconds": 0}, {"tools": "maybe"}, {"tokens_a_day": -1}, {"api_key": "schlüssel\n"}],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError) as caught:
        OpenAIChat(**wrong)
    assert "schlüssel" not in str(caught.value)


# ------------------------------------------------------------------------------------------- spending


def test_the_cap_is_for_a_day_and_for_all_processes(tmp_path: Path) -> None:
    with serving(TEXT, tokens_a_day=700, spending_folder=tmp_path) as (server, model):
        heard(model)
        heard(model)
        assert Ledger(tmp_path).spent_today() == 2 * 333
        assert heard(model)[0] == TEXT  # 666 and a short question are below the cap
        assert server.requests[0]["max_tokens"] > server.requests[-1]["max_tokens"]
        assert server.requests[-1]["max_tokens"] <= 700 - 666  # a reply is no longer than what is left
        other = OpenAIChat(model="tiny", base_url=server.url, tokens_a_day=700, spending_folder=tmp_path)
        with pytest.raises(BackendError, match=r"cap of 700 tokens a day is reached \(999 used"):
            heard(other)
        assert len(server.requests) == 3
    (today,) = tmp_path.iterdir()
    today.write_text("12\nhalf a li")
    assert Ledger(tmp_path).spent_today() == 12
    today.rename(tmp_path / "2001-01-01")
    assert Ledger(tmp_path).spent_today() == 0


def test_half_an_answer_is_counted_too(tmp_path: Path) -> None:
    capped = {"tokens_a_day": 10_000, "spending_folder": tmp_path}
    with serving(TEXT * 5, script=["cut"], **capped) as (_, model), pytest.raises(BackendError):
        heard(model)
    assert Ledger(tmp_path).spent_today() > 20
