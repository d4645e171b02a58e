"""The client of OpenAI, as it is on PyPI, against a real server."""

import base64
import struct
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.server.conftest import Running

from headwater.server.dialogue import Growing
from headwater.types import Answer, Query, Restart, Sentence

LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
ANNUAL = "# 年假制度\n\n员工每年享有十五天带薪年假。入职不满一年的员工按月折算。\n"
SECRET = "# Vault\n\nThe code of the vault is kingfisher.\n"


@pytest.fixture(scope="module")
def keys(server: Running, settled: Any) -> dict[str, str]:
    """A key for each of two owners, each with documents of its own."""
    found = {owner: server.key(owner, rights="admin") for owner in ("anna", "bert")}
    for owner, uri, text in (("anna", "leave", LEAVE), ("anna", "年假", ANNUAL), ("bert", "vault", SECRET)):
        with server.client(found[owner]) as client:
            told = {"uri": uri, "text": text, "mime": "text/markdown", "collection": uri}
            job = client.post("/api/v1/ingest/text", json=told).json()["data"]["job_id"]
            assert settled(client, job)["state"] == "completed"
    return found


@pytest.fixture(scope="module")
def client(server: Running, keys: dict[str, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=keys["anna"], max_retries=0) as made:
        yield made


def ask(question: str, *before: tuple[str, str]) -> list[Any]:
    said = [{"role": role, "content": content} for role, content in before]
    return [*said, {"role": "user", "content": question}]


def test_models(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert names[0] == "headwater" and "extractive" in names
    assert client.models.retrieve("headwater").owned_by == "headwater"


def test_a_completion_with_its_citations(client: openai.OpenAI) -> None:
    made = client.chat.completions.create(model="headwater", messages=ask("How many weeks of leave do parents get?"))
    choice = made.choices[0]
    assert "26 weeks" in (choice.message.content or "") and choice.finish_reason == "stop"
    assert made.usage and made.usage.completion_tokens > 0 and made.usage.prompt_tokens > 10
    assert made.usage.total_tokens == made.usage.completion_tokens + made.usage.prompt_tokens
    citations: Any = (made.model_extra or {})["citations"]
    assert "26 weeks" in citations[0]["quote"] and citations[0]["document_id"]
    start, end = citations[0]["span"]
    assert LEAVE[start:end] == citations[0]["quote"]


def test_a_stream_adds_up_to_the_answer(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="headwater",
            messages=ask("每年有多少天带薪年假？"),
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "十五天" in text
    last = next(chunk for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason)
    extra: Any = last.model_extra
    assert text == extra["headwater"]["answer"] and "十五天" in extra["citations"][0]["quote"]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage and chunks[-1].usage.total_tokens > 0
    assert len({chunk.id for chunk in chunks}) == 1


@pytest.mark.parametrize(("word", "corrected"), [("parentel", {"parentel": "parental"}), ("parental", {})])
def test_what_a_typo_was_read_as(client: openai.OpenAI, word: str, corrected: dict[str, str]) -> None:
    asked: Any = {"model": "headwater", "messages": ask(f"How long is {word} leave?")}
    made = client.chat.completions.create(**asked)
    assert "26 weeks" in (made.choices[0].message.content or "")
    told: Any = made.model_extra
    assert told["headwater"]["corrected"] == corrected
    *_, last = client.chat.completions.create(**asked, stream=True)
    extra: Any = last.model_extra
    assert last.choices[0].finish_reason == "stop" and extra["headwater"]["corrected"] == corrected


def test_a_stream_ends_with_the_mark(server: Running, keys: dict[str, str]) -> None:
    asked = {"model": "headwater", "messages": ask("parental leave"), "stream": True}
    with server.client(keys["anna"]) as plain:
        answer = plain.post("/v1/chat/completions", json=asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n") and '"usage"' not in answer.text


def test_what_was_withdrawn_is_followed_by_the_whole_answer() -> None:
    query = Query(text="x")
    growing = Growing()
    sent = [
        growing.add(Sentence(text="One.")),
        growing.add(Sentence(text="Two.")),
        growing.add(Sentence(text="\n- three")),
    ]
    assert "".join(sent) == "One. Two.\n- three" and not growing.withdrawn
    assert growing.add(Answer(query=query, text="One. Two.\n- three")) == ""
    growing = Growing()
    sent = [growing.add(Sentence(text="Wrong.")), growing.add(Restart(reason="no passage says so"))]
    sent += [growing.add(Sentence(text="Right.")), growing.add(Answer(query=query, text="Right. And more."))]
    assert "".join(sent) == "Wrong.\n\n(no passage says so)\n\nRight. And more." and growing.withdrawn
    assert Growing().add(Answer(query=query, text="There is none.")) == "There is none."


def test_a_follow_up_is_understood_from_what_was_said(client: openai.OpenAI) -> None:
    before = (("user", "How long is parental leave?"), ("assistant", "Parents are entitled to 26 weeks of leave."))
    made = client.chat.completions.create(
        model="extractive", messages=ask("And how many of these are paid in full?", *before)
    )
    assert "18 weeks" in (made.choices[0].message.content or "")


def test_parts_of_a_message_and_our_own_options(client: openai.OpenAI) -> None:
    parts: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "How long is parental leave?"}]}]
    made = client.chat.completions.create(model="headwater", messages=parts, extra_body={"collections": ["年假"]})
    told: Any = made.model_extra
    assert all("weeks" not in one["quote"] for one in told["citations"])
    made = client.chat.completions.create(model="headwater", messages=parts, extra_body={"collections": ["leave"]})
    assert "26 weeks" in (made.choices[0].message.content or "")


def test_nobody_reads_what_is_somebody_elses(client: openai.OpenAI, server: Running, keys: dict[str, str]) -> None:
    question = ask("What is the code of the vault?")
    mine = client.chat.completions.create(model="headwater", messages=question)
    assert "kingfisher" not in mine.model_dump_json()
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=keys["bert"], max_retries=0) as other:
        assert "kingfisher" in other.chat.completions.create(model="headwater", messages=question).model_dump_json()


@pytest.mark.parametrize("packed", [None, "float", "base64"])
def test_embeddings(client: openai.OpenAI, packed: Any) -> None:
    given = {} if packed is None else {"encoding_format": packed}
    made = client.embeddings.create(model="headwater", input=["parental leave", "年假"], **given)
    rows = [one.embedding for one in made.data]
    if packed == "base64":  # asked for by name, it comes as it is
        rows = [list(struct.unpack(f"<{len(raw) // 4}f", raw)) for raw in map(base64.b64decode, rows)]  # type: ignore[arg-type]
    assert [one.index for one in made.data] == [0, 1] and made.usage.prompt_tokens > 0
    for row in rows:
        assert len(row) > 32 and sum(x * x for x in row) == pytest.approx(1.0, abs=1e-4)


def test_fewer_dimensions(client: openai.OpenAI) -> None:
    whole = client.embeddings.create(model="headwater", input="parental leave").data[0].embedding
    few = client.embeddings.create(model="headwater", input="parental leave", dimensions=16).data[0].embedding
    length = sum(x * x for x in whole[:16]) ** 0.5
    assert few == pytest.approx([x / length for x in whole[:16]], abs=1e-5)
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="headwater", input="x", dimensions=99_999)


def test_errors_are_those_of_the_client(client: openai.OpenAI, server: Running) -> None:
    stranger = openai.OpenAI(base_url=f"{server.base}/v1", api_key="wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError) as refused:
        stranger.models.list()
    assert refused.value.code == "AUTHENTICATION_ERROR" and "headwater key create" in refused.value.message
    with pytest.raises(openai.NotFoundError, match="no model is named 'gpt-9'"):
        client.chat.completions.create(model="gpt-9", messages=ask("x"))
    with pytest.raises(openai.NotFoundError, match="no embedding model"):
        client.embeddings.create(model="gpt-9", input="x")
    with pytest.raises(openai.BadRequestError, match="last message"):
        client.chat.completions.create(model="headwater", messages=[{"role": "assistant", "content": "x"}])
    with pytest.raises(openai.BadRequestError, match="must be text"):
        client.embeddings.create(model="headwater", input=[[1, 2]])
    with pytest.raises(openai.UnprocessableEntityError, match="messages"):
        client.chat.completions.create(model="headwater", messages=[])
    with pytest.raises(openai.BadRequestError, match="filter"):
        client.chat.completions.create(model="headwater", messages=ask("x"), extra_body={"where": "((("})
