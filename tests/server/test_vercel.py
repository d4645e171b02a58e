"""The UI message stream of the Vercel AI SDK: its parts, and the SDK's own reader on them."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

from headwater import llm
from headwater.testing.chat_server import ChatServer

TOOLS = Path(__file__).parent / ".tools"
READER = Path(__file__).parent / "vercel_reader.mjs"
LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
ROOF = "<html><body><article><h1>Roof</h1><p>The roof was mended in May 2019 with slate.</p></article></body></html>"
SECRET = "# Vault\n\nThe code of the vault is kingfisher.\n"
GOOD = "Parents are entitled to 26 weeks of leave [1]."


@pytest.fixture(scope="module")
def model() -> Iterator[ChatServer]:
    with ChatServer(GOOD) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, model: ChatServer) -> Iterator[Running]:
    """A server whose settings also name a model that calls tools."""
    home = tmp_path_factory.mktemp("vercel") / "home"
    llm.install(home, {"use": "openai", "model": "tiny", "base_url": model.url, "max_retries": 0}, name="tiny")
    made = Running(home)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def key(running: Running, settled: Any) -> str:
    found = {owner: running.key(owner, rights="admin") for owner in ("anna", "bert")}
    for owner, uri, text in (("anna", "leave", LEAVE), ("bert", "vault", SECRET)):
        with running.client(found[owner]) as client:
            told = {"uri": uri, "text": text, "mime": "text/markdown"}
            job = client.post("/api/v1/ingest/text", json=told).json()["data"]["job_id"]
            assert settled(client, job)["state"] == "completed"
    with running.client(found["anna"]) as client:
        page = {"url": "https://example.org/roof", "html": ROOF}
        job = client.post("/api/v1/ingest/html", json=page).json()["data"]["job_id"]
        assert settled(client, job)["state"] == "completed"
    return found["anna"]


@pytest.fixture(scope="module")
def client(running: Running, key: str) -> Iterator[httpx2.Client]:
    with running.client(key) as made:
        yield made


def message(role: str, text: str) -> dict[str, Any]:
    return {"id": f"m-{text[:8]}", "role": role, "parts": [{"type": "text", "text": text}]}


def parts_of(client: httpx2.Client, *said: dict[str, Any], **beside: Any) -> list[dict[str, Any]]:
    answer = client.post("/api/chat", json={"id": "c1", "messages": list(said), **beside})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache" and answer.headers["x-accel-buffering"] == "no"
    *lines, end, nothing = answer.text.split("\n\n")
    assert (end, nothing) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def text_of(parts: list[dict[str, Any]]) -> str:
    return "".join(part["delta"] for part in parts if part["type"] == "text-delta")


def test_the_parts_and_their_order(client: httpx2.Client) -> None:
    parts = parts_of(client, message("user", "How many weeks of leave do parents get?"))
    kinds = [part["type"] for part in parts if part["type"] != "data-step"]
    assert kinds[:3] == ["start", "start-step", "text-start"] and kinds[-2:] == ["finish-step", "finish"]
    assert parts[0]["messageId"]
    assert kinds.index("text-start") < kinds.index("text-delta") < kinds.index("text-end")
    assert kinds.index("text-end") < kinds.index("source-document") < kinds.index("data-citations")
    assert len({part["id"] for part in parts if part["type"].startswith("text-")}) == 1
    assert "26 weeks" in text_of(parts)
    source = next(part for part in parts if part["type"] == "source-document")
    assert source["title"] == "Parental leave" and source["mediaType"]
    cited = next(part for part in parts if part["type"] == "data-citations")["data"]
    assert source["sourceId"] == str(cited[0]["marker"]) and "26 weeks" in cited[0]["quote"]


def test_what_a_typo_was_read_as(client: httpx2.Client) -> None:
    for word, corrected in (("parentel", {"parentel": "parental"}), ("parental", {})):
        parts = parts_of(client, message("user", f"How long is {word} leave?"))
        assert "26 weeks" in text_of(parts)
        verdict = next(part for part in parts if part["type"] == "data-verdict")["data"]
        assert verdict["corrected"] == corrected and verdict["accepted"]


def test_a_page_is_a_source_with_its_address(client: httpx2.Client) -> None:
    parts = parts_of(client, message("user", "When was the roof mended?"))
    assert next(part["url"] for part in parts if part["type"] == "source-url") == "https://example.org/roof"


def test_a_follow_up_and_the_earlier_shape_of_a_message(client: httpx2.Client) -> None:
    before = [
        message("user", "How long is parental leave?"),
        message("assistant", "Parents are entitled to 26 weeks of leave."),
    ]
    parts = parts_of(client, *before, {"role": "user", "content": "And how many of these are paid in full?"})
    assert "18 weeks" in text_of(parts)


def test_a_tool_that_the_model_uses_is_shown(client: httpx2.Client, model: ChatServer) -> None:
    model.replies.clear()
    model.replies.extend([[("getInformation", {"question": "parental leave"})], GOOD])
    parts = parts_of(client, message("user", "How long is the leave for parents?"), selectedChatModel="tiny")
    asked = next(part for part in parts if part["type"] == "tool-input-available")
    found = next(part for part in parts if part["type"] == "tool-output-available")
    assert (asked["toolName"], asked["input"]) == ("getInformation", {"question": "parental leave"})
    assert found["toolCallId"] == asked["toolCallId"] and "26 weeks" in found["output"]["passages"][0]["text"]
    assert text_of(parts) == GOOD


def test_without_the_documents(client: httpx2.Client, model: ChatServer) -> None:
    model.replies.clear()
    model.replies.append("Hello!")
    before = len(model.requests)
    parts = parts_of(client, message("user", "Hi"), selectedChatModel="tiny", useKnowledgeBase=False)
    assert text_of(parts) == "Hello!" and len(model.requests) == before + 1 and "tools" not in model.requests[-1]
    assert not any(part["type"].startswith(("source", "tool")) for part in parts)


def test_a_withdrawn_text_is_ended_and_named(client: httpx2.Client, model: ChatServer) -> None:
    model.replies.clear()
    # It says something, and then breaks off: the documents' own sentences take its place.
    model.replies.append("Parents are entitled to 26 weeks of leave. " * 3)
    model.script.append("cut")
    parts = parts_of(client, message("user", "How long is parental leave?"), selectedChatModel="tiny")
    started = [part["id"] for part in parts if part["type"] == "text-start"]
    assert started == [part["id"] for part in parts if part["type"] == "text-end"] == ["text-1", "text-2"]
    assert [part["data"]["withdrawn"] for part in parts if part["type"] == "data-restart"] == ["text-1"]
    last = "".join(part["delta"] for part in parts if part.get("id") == "text-2" and part["type"] == "text-delta")
    assert "26 weeks" in last and parts[-1]["type"] == "finish"


def test_nobody_reads_what_is_somebody_elses(client: httpx2.Client) -> None:
    parts = parts_of(client, message("user", "What is the code of the vault?"))
    assert "kingfisher" not in json.dumps(parts) and text_of(parts)


def test_what_is_wrong_is_said_before_the_stream(client: httpx2.Client, running: Running, key: str) -> None:
    said = {"messages": [message("user", "x")]}
    assert client.post("/api/chat", json={**said, "selectedChatModel": "gpt-9"}).status_code == 404
    assert client.post("/api/chat", json={"messages": []}).status_code == 422
    assert client.post("/api/chat", json={"messages": [message("assistant", "x")]}).status_code == 400
    assert client.post("/api/chat", json={**said, "where": "((("}).status_code == 400
    with running.client("wrong") as stranger:
        assert stranger.post("/api/chat", json=said).status_code == 401


@pytest.mark.system
def test_the_reader_of_the_sdk(running: Running, key: str, model: ChatServer) -> None:
    node = shutil.which("node")
    assert node and (TOOLS / "node_modules" / "ai").exists(), "needs node, and `make browser` for the package `ai`"
    model.replies.clear()
    model.replies.extend([[("getInformation", {"question": "parentel leave"})], GOOD])
    given = {
        "api": f"{running.base}/api/chat",
        "key": key,
        "messages": [message("user", "How long is parental leave?")],
        "body": {"selectedChatModel": "tiny", "useKnowledgeBase": True},
    }
    ran = subprocess.run(
        [node, str(READER), str(TOOLS), json.dumps(given)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    read = json.loads(ran.stdout)
    parts = {part["type"]: part for part in read["message"]["parts"]}
    assert read["message"]["role"] == "assistant" and read["message"]["metadata"]["refused"] is False
    assert parts["text"]["text"] == GOOD and parts["text"]["state"] == "done"
    assert parts["tool-getInformation"]["state"] == "output-available"
    assert parts["tool-getInformation"]["output"]["passages"]
    assert parts["source-document"]["title"] == "Parental leave"
    assert "26 weeks" in parts["data-citations"]["data"][0]["quote"]
    assert parts["data-verdict"]["data"]["corrected"] == {"parentel": "parental"}
    assert read["chunks"][0] == "start" and read["chunks"][-1] == "finish" and "data-step" in read["chunks"]
