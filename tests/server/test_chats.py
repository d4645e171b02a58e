"""Chats and their sessions: the unmodified client of RAGFlow, and plain HTTP."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from ragflow_sdk import RAGFlow
from tests.server.conftest import Running

LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
PUMP = "# Pump manual\n\nError PPR-9087 means the intake is blocked. Clean the screen and restart the pump.\n"
QUESTION = "How many weeks of leave are parents entitled to?"


@pytest.fixture(scope="module")
def keys(server: Running, settled: Any) -> dict[str, str]:
    """Two owners, one of them with documents in two collections; and keys with less."""
    made = {owner: server.key(owner, rights="admin") for owner in ("anna", "ben")}
    with server.client(made["anna"]) as client:
        for name, text in (("hr", LEAVE), ("ops", PUMP)):
            told = {"uri": name, "text": text, "collection": name, "mime": "text/markdown"}
            job = client.post("/api/v1/ingest/text", json=told).json()["data"]
            assert settled(client, job["job_id"])["state"] == "completed"
    made["reader"] = server.key("anna", rights="read")
    made["ops"] = server.key("anna", rights="write", collections=["ops"])
    return made


@pytest.fixture(scope="module")
def anna(server: Running, keys: dict[str, str]) -> Iterator[httpx2.Client]:
    with server.client(keys["anna"]) as client:
        yield client


def dataset_of(client: httpx2.Client, name: str) -> str:
    found = client.get("/api/v1/datasets", params={"name": name}).json()["data"]
    return str(found[0]["id"])


def lines_of(text: str) -> list[Any]:
    """The data of a stream."""
    return [json.loads(line.removeprefix("data:")) for line in text.splitlines() if line.startswith("data:")]


def test_the_client_of_ragflow(server: Running, keys: dict[str, str], anna: httpx2.Client) -> None:
    rag = RAGFlow(keys["anna"], server.base)
    chat = rag.create_chat("Handbook", dataset_ids=[dataset_of(anna, "hr")])
    assert chat.id and chat.name == "Handbook" and chat.prompt.top_n == 8
    assert [one.id for one in rag.list_chats()] == [chat.id]
    assert [one.id for one in rag.list_chats(name="Handbook")] == [chat.id]
    with pytest.raises(Exception, match="there is a chat named"):
        rag.create_chat("Handbook")
    chat.update({"name": "The handbook"})
    assert rag.list_chats(id=chat.id)[0].name == "The handbook"

    session = chat.create_session("Leave")
    assert session.name == "Leave" and session.messages[0]["content"].startswith("Hi!")
    (message,) = session.ask(QUESTION, stream=False)
    assert "26 weeks" in message.content and message.role == "assistant"
    assert any("26 weeks" in one["content"] for one in message.reference)
    assert {one["dataset_id"] for one in message.reference} == {dataset_of(anna, "hr")}
    pieces = list(session.ask("And how many are paid in full?", stream=True))
    assert "18 weeks" in pieces[-1].content and pieces[-1].reference
    assert all(pieces[-1].content.startswith(one.content.rstrip()[:10]) for one in pieces)

    kept = chat.list_sessions()
    assert [one.id for one in kept] == [session.id]
    assert [one["role"] for one in kept[0].messages] == ["assistant", "user", "assistant", "user", "assistant"]
    session.update({"name": "Parental leave"})
    assert chat.list_sessions(name="Parental leave")[0].id == session.id
    second = chat.create_session()
    chat.delete_sessions([session.id])
    assert [one.id for one in chat.list_sessions()] == [second.id]
    chat.delete_sessions()
    assert chat.list_sessions() == []
    rag.delete_chats([chat.id])
    assert rag.list_chats() == []


def test_a_chat_asks_only_its_datasets(anna: httpx2.Client) -> None:
    made = anna.post("/api/v1/chats", json={"name": "ops only", "collections": ["ops"]}).json()["data"]
    route = f"/api/v1/chats/{made['id']}/completions"
    told = anna.post(route, json={"question": "What does error PPR-9087 mean?", "stream": False}).json()["data"]
    assert "intake is blocked" in told["answer"] and told["citations"][0]["quote"] in PUMP
    again = {"question": QUESTION, "stream": False, "session_id": told["session_id"]}
    assert "26 weeks" not in anna.post(route, json=again).text
    # What a request says goes before what the chat says.
    assert "26 weeks" in anna.post(route, json={**again, "collections": ["hr"]}).json()["data"]["answer"]
    kept = anna.get(f"/api/v1/chats/{made['id']}/sessions/{told['session_id']}").json()["data"]
    assert [turn["role"] for turn in kept["turns"]] == ["user", "assistant"] * 3
    # It is a conversation like any other, until its chat goes.
    shown = anna.get("/api/v1/conversations", params={"page_size": 1000}).json()["data"]["conversations"]
    assert told["session_id"] in {one["id"] for one in shown}
    assert anna.delete(f"/api/v1/chats/{made['id']}").status_code == 200
    assert anna.get(f"/api/v1/conversations/{told['session_id']}").status_code == 404
    assert anna.get(f"/api/v1/chats/{made['id']}").status_code == 404


def test_what_a_chat_says_around_an_answer(anna: httpx2.Client) -> None:
    prompt = {"opener": "Good day.", "empty_response": "Nothing about that here.", "show_quote": False}
    made = anna.post("/api/v1/chats", json={"name": "words", "prompt": prompt}).json()["data"]
    route = f"/api/v1/chats/{made['id']}/completions"
    opened = anna.post(route, json={"stream": False}).json()["data"]
    assert opened["answer"] == "Good day." and opened["session_id"]
    assert lines_of(anna.post(route, json={}).text)[0]["data"]["answer"] == "Good day."
    refused = anna.post(route, json={"question": "Who won the cup in 1954?", "stream": False}).json()["data"]
    assert refused["refused"] and refused["answer"] == "Nothing about that here." and refused["reference"] == {}
    changed = anna.put(f"/api/v1/chats/{made['id']}", json={"prompt": {"opener": "Hello."}}).json()["data"]
    assert changed["prompt"]["opener"] == "Hello." and changed["prompt"]["empty_response"]
    anna.delete(f"/api/v1/chats/{made['id']}")


def test_a_stream_grows_and_ends_with_true(anna: httpx2.Client) -> None:
    made = anna.post("/api/v1/chats", json={"name": "stream", "llm": {"model_name": "extractive"}}).json()["data"]
    answer = anna.post(f"/api/v1/chats/{made['id']}/completions", json={"question": QUESTION})
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = [one["data"] for one in lines_of(answer.text)]
    assert told[-1] is True and "26 weeks" in told[-2]["answer"] and told[-2]["reference"]["total"] > 0
    assert len({one["session_id"] for one in told[:-1]}) == 1
    assert (
        anna.post(f"/api/v1/chats/{made['id']}/completions", json={"session_id": told[0]["session_id"]}).status_code
        == 400
    )
    anna.delete(f"/api/v1/chats/{made['id']}")


def test_what_a_typo_was_read_as(server: Running, keys: dict[str, str], anna: httpx2.Client) -> None:
    rag = RAGFlow(keys["anna"], server.base)
    session = rag.create_chat("typos", dataset_ids=[dataset_of(anna, "hr")]).create_session()
    (message,) = session.ask("How long is parentel leave?", stream=False)
    assert "26 weeks" in message.content and message.reference
    route = f"/api/v1/chats/{session.chat_id}/completions"
    for asked, corrected in (("How long is parentel leave?", {"parentel": "parental"}), (QUESTION, {})):
        assert anna.post(route, json={"question": asked, "stream": False}).json()["data"]["corrected"] == corrected
        assert lines_of(anna.post(route, json={"question": asked}).text)[-2]["data"]["corrected"] == corrected
    kept = anna.get(f"/api/v1/chats/{session.chat_id}/sessions/{session.id}").json()["data"]
    assert kept["turns"][-1]["corrected"] == {"parentel": "parental"}
    rag.delete_chats([session.chat_id])


def test_a_conversation_without_a_chat(anna: httpx2.Client) -> None:
    told = anna.post("/api/v1/chats", json={"question": QUESTION, "collections": ["hr"]}).json()["data"]
    id = told["conversation_id"]
    assert "26 weeks" in told["answer"]
    assert id not in {one["id"] for one in anna.get("/api/v1/chats").json()["data"]}
    assert len(anna.get(f"/api/v1/chats/{id}").json()["data"]["turns"]) == 2
    assert [one["id"] for one in anna.get(f"/api/v1/chats/{id}/sessions").json()["data"]] == [id]
    more = {"question": "And how many are paid in full?", "stream": False}
    assert anna.post(f"/api/v1/chats/{id}/completions", json=more).json()["data"]["session_id"] == id
    assert anna.put(f"/api/v1/chats/{id}", json={"name": "Leave"}).status_code == 200
    kept = anna.get(f"/api/v1/chats/{id}").json()["data"]
    assert kept["title"] == "Leave" and len(kept["turns"]) == 4
    assert anna.delete(f"/api/v1/chats/{id}").status_code == 200
    assert anna.get(f"/api/v1/chats/{id}").status_code == 404
    streamed = anna.post("/api/v1/chats", json={"question": QUESTION, "stream": True}).text
    assert "event: answer" in streamed


def test_chats_are_ones_own(server: Running, keys: dict[str, str], anna: httpx2.Client) -> None:
    hr, ops = dataset_of(anna, "hr"), dataset_of(anna, "ops")
    made = anna.post("/api/v1/chats", json={"name": "mine", "dataset_ids": [hr]}).json()["data"]
    session = anna.post(f"/api/v1/chats/{made['id']}/sessions", json={}).json()["data"]
    with server.client(keys["ben"]) as ben:
        own = ben.post("/api/v1/chats", json={"name": "mine"}).json()["data"]
        assert ben.post("/api/v1/chats", json={"name": "x", "dataset_ids": [hr]}).status_code == 404
        assert [one["id"] for one in ben.get("/api/v1/chats").json()["data"]] == [own["id"]]
        for method, path, body in (
            ("GET", "", None),
            ("PUT", "", {"name": "x"}),
            ("DELETE", "", None),
            ("GET", "/sessions", None),
            ("POST", "/sessions", {}),
            ("DELETE", "/sessions", {"ids": [session["id"]]}),
            ("GET", f"/sessions/{session['id']}", None),
            ("PUT", f"/sessions/{session['id']}", {"name": "x"}),
            ("DELETE", f"/sessions/{session['id']}", None),
            ("POST", "/completions", {"question": "leave"}),
            ("POST", "/completions", {"question": "leave", "session_id": session["id"]}),
        ):
            answer = ben.request(method, f"/api/v1/chats/{made['id']}{path}", json=body)
            assert answer.status_code == 404, (method, path, answer.text)
        told = {"question": "leave", "session_id": session["id"], "stream": False}
        assert ben.post(f"/api/v1/chats/{own['id']}/completions", json=told).status_code == 404
        assert ben.request("DELETE", "/api/v1/chats", json={"ids": [made["id"]]}).status_code == 404
    with server.client(keys["reader"]) as reader:
        assert reader.post("/api/v1/chats", json={"name": "more"}).status_code == 403
        assert reader.put(f"/api/v1/chats/{made['id']}", json={"name": "more"}).status_code == 403
        assert reader.delete(f"/api/v1/chats/{made['id']}").status_code == 403
        told = {"question": QUESTION, "stream": False}
        assert reader.post(f"/api/v1/chats/{made['id']}/completions", json=told).status_code == 200
    with server.client(keys["ops"]) as narrow:
        assert made["id"] not in narrow.get("/api/v1/chats").text
        assert narrow.post(f"/api/v1/chats/{made['id']}/completions", json={"question": "leave"}).status_code == 404
        wide = anna.post("/api/v1/chats", json={"name": "wide"}).json()["data"]
        told = {"question": QUESTION, "stream": False}
        assert "26 weeks" not in narrow.post(f"/api/v1/chats/{wide['id']}/completions", json=told).text
        assert narrow.post("/api/v1/chats", json={"name": "hr", "dataset_ids": [hr]}).status_code == 404
        assert narrow.post("/api/v1/chats", json={"name": "ok", "dataset_ids": [ops]}).status_code == 200
    assert anna.request("DELETE", "/api/v1/chats", json={"ids": None}).json()["data"]["chats"] == 3


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"name": "  "}, 422),
        ({"name": "x", "dataset_ids": ["0" * 20]}, 404),
        ({"name": "x", "llm": {"model_name": "no such model"}}, 404),
        ({"name": "x", "prompt": {"top_n": 0}}, 422),
    ],
)
def test_what_is_no_chat_is_refused(anna: httpx2.Client, body: dict[str, Any], status: int) -> None:
    assert anna.post("/api/v1/chats", json=body).status_code == status
