"""A key for some collections sees nothing of what its owner does in the others: no question, no title, no count."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

SECRET = "quokka"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory, settled: Any) -> Iterator[dict[str, httpx2.Client]]:
    home: Path = tmp_path_factory.mktemp("narrow") / "home"
    server = Running(home)
    keys = {"wide": server.key("anna", rights="admin")}
    keys["narrow"] = server.key("anna", rights="admin", collections=("open",))
    made = {name: server.client(key) for name, key in keys.items()}
    for collection, text in (("open", "The pump moves water."), ("closed", f"The {SECRET} sleeps in the tower.")):
        told = {"uri": collection, "text": text, "collection": collection}
        job = made["wide"].post("/api/v1/ingest/text", json=told).json()["data"]
        assert settled(made["wide"], job["id"])["state"] == "completed"
    for question in ("pump water", f"Where does the {SECRET} sleep?"):
        name = "closed" if SECRET in question else "open"
        asked = {"question": question, "collections": [name]}
        hit = made["wide"].post("/api/v1/retrieval", json=asked).json()["data"]["chunks"][0]
        told = {"kind": "click", "query": question, "chunk_id": hit["id"]}
        assert made["wide"].post("/api/v1/feedback", json=told).status_code == 200
        assert made["wide"].post("/api/v1/conversations", json=asked).status_code == 200
    yield made
    for client in made.values():
        client.close()
    assert server.stop() == 0


@pytest.mark.parametrize("path", ["/api/v1/history", "/api/v1/feedback", "/api/v1/conversations"])
def test_what_was_asked_about_other_collections_is_not_listed(clients: dict[str, httpx2.Client], path: str) -> None:
    assert SECRET in clients["wide"].get(path).text and "pump" in clients["wide"].get(path).text
    assert SECRET not in clients["narrow"].get(path).text
    assert "pump" in clients["narrow"].get(path).text


def test_a_refusal_that_is_looked_at_again_shows_the_passages_of_its_collections(
    clients: dict[str, httpx2.Client],
) -> None:
    wide = clients["wide"]
    asked = {"question": "What is the price of tungsten in Peru?"}
    told = wide.post("/api/v1/conversations", json=asked).json()["data"]
    assert told["refused"] and {one["collection"] for one in told["hits"]} == {"open", "closed"}
    path = f"/api/v1/conversations/{told['conversation_id']}"
    seen = {name: client.get(path).json()["data"]["turns"][1]["hits"] for name, client in clients.items()}
    assert [one["chunk_id"] for one in seen["wide"]] == [one["chunk_id"] for one in told["hits"]]
    assert [one["text"] for one in seen["narrow"]] == ["The pump moves water."]
    assert all(one["span"] == hit["span"] for one, hit in zip(seen["wide"], told["hits"], strict=True))


def test_a_conversation_about_other_collections_is_not_there(clients: dict[str, httpx2.Client]) -> None:
    wide, narrow = clients["wide"], clients["narrow"]
    asked = {"question": f"Where does the {SECRET} sleep?", "collections": ["closed"]}
    id = wide.post("/api/v1/conversations", json=asked).json()["data"]["conversation_id"]
    goes_on = {"question": "And where does it wake up?", "conversation_id": id}
    answers = [
        narrow.get(f"/api/v1/conversations/{id}"),
        narrow.post("/api/v1/conversations", json=goes_on),
        narrow.post("/api/v1/conversations", json={**goes_on, "stream": True}),
        narrow.post("/api/v1/retrieval", json=goes_on),
        narrow.post("/api/v1/ask", json=goes_on),
        narrow.get(f"/api/v1/chats/{id}"),
        narrow.get(f"/api/v1/chats/{id}/sessions"),
        narrow.post(f"/api/v1/chats/{id}/completions", json={"question": "And where?", "stream": False}),
        narrow.put(f"/api/v1/conversations/{id}", json={"title": "Mine"}),
        narrow.delete(f"/api/v1/conversations/{id}"),
    ]
    assert [answer.status_code for answer in answers] == [404] * len(answers)
    assert SECRET not in "".join(answer.text for answer in answers)
    kept = wide.get(f"/api/v1/conversations/{id}").json()["data"]
    assert len(kept["turns"]) == 2 and SECRET in kept["title"]


def test_sessions_about_other_collections_go_with_their_chat_and_are_not_listed(
    clients: dict[str, httpx2.Client],
) -> None:
    wide, narrow = clients["wide"], clients["narrow"]
    ids = {one["name"]: one["id"] for one in wide.get("/api/v1/datasets").json()["data"]}
    chat = wide.post("/api/v1/chats", json={"name": "pumps", "dataset_ids": [ids["open"]]}).json()["data"]["id"]
    said = {"question": f"Where does the {SECRET} sleep?", "dataset_ids": [ids["closed"]], "stream": False}
    assert SECRET in wide.post(f"/api/v1/chats/{chat}/completions", json=said).text
    told = {"question": "What does the pump move?", "stream": False}
    session = narrow.post(f"/api/v1/chats/{chat}/completions", json=told).json()["data"]["session_id"]
    assert len(wide.get(f"/api/v1/chats/{chat}/sessions").json()["data"]) == 2
    assert [one["id"] for one in narrow.get(f"/api/v1/chats/{chat}/sessions").json()["data"]] == [session]
    before = len(wide.get("/api/v1/conversations", params={"page_size": 1000}).json()["data"]["conversations"])
    assert narrow.delete(f"/api/v1/chats/{chat}").status_code == 200
    after = len(wide.get("/api/v1/conversations", params={"page_size": 1000}).json()["data"]["conversations"])
    assert before - after == 2


def test_a_conversation_stays_with_the_key_whose_document_is_gone(
    clients: dict[str, httpx2.Client], settled: Any
) -> None:
    wide, narrow = clients["wide"], clients["narrow"]
    made = {}
    for collection, text in (("open", "The gauge reads seven."), ("closed", "The dial reads eleven.")):
        told = {"uri": f"short-{collection}", "text": text, "collection": collection}
        job = wide.post("/api/v1/ingest/text", json=told).json()["data"]
        settled(wide, job["id"])
        asked = {"question": "What does the gauge or the dial read?", "collections": [collection]}
        made[collection] = wide.post("/api/v1/conversations", json=asked).json()["data"]
        assert made[collection]["citations"]
        ids = {one["name"]: one["id"] for one in wide.get("/api/v1/datasets").json()["data"]}
        path = f"/api/v1/datasets/{ids[collection]}/documents"
        assert wide.request("DELETE", path, json={"ids": [job["document_id"]]}).status_code == 200
    seen = {name: narrow.get(f"/api/v1/conversations/{one['conversation_id']}") for name, one in made.items()}
    assert {name: answer.status_code for name, answer in seen.items()} == {"open": 200, "closed": 404}
    for one in made.values():
        assert wide.delete(f"/api/v1/conversations/{one['conversation_id']}").status_code == 200


def test_vector_stores_and_files_are_those_of_its_collections(clients: dict[str, httpx2.Client]) -> None:
    wide, narrow = clients["wide"], clients["narrow"]
    stores = {one["name"]: one["id"] for one in wide.get("/v1/vector_stores").json()["data"]}
    assert set(stores) == {"open", "closed"}
    assert [one["name"] for one in narrow.get("/v1/vector_stores").json()["data"]] == ["open"]
    files = {"file": (f"{SECRET}.md", f"The {SECRET} wakes up.".encode())}
    sent = wide.post("/v1/files", files=files, data={"purpose": "assistants"}).json()["id"]
    asked = {"query": "Who sleeps in the tower?"}  # what this key asks itself, it is shown
    for path in (
        "/v1/files",
        f"/v1/files/{sent}",
        f"/v1/files/{sent}/content",
        f"/v1/vector_stores/{stores['closed']}",
    ):
        assert SECRET not in narrow.get(path).text
    assert SECRET in wide.get("/v1/files").text
    assert narrow.post(f"/v1/vector_stores/{stores['closed']}/search", json=asked).status_code == 404
    assert SECRET not in str(narrow.post(f"/v1/vector_stores/{stores['open']}/search", json=asked).json()["data"])
    assert SECRET in str(wide.post(f"/v1/vector_stores/{stores['closed']}/search", json=asked).json()["data"])
    put = narrow.post(f"/v1/vector_stores/{stores['open']}/files", json={"file_id": sent})
    assert put.status_code == 404 and narrow.delete(f"/v1/files/{sent}").status_code == 404
    assert wide.delete(f"/v1/files/{sent}").status_code == 200


def test_counts_are_those_of_its_collections(clients: dict[str, httpx2.Client]) -> None:
    found = {name: client.get("/api/v1/status").json()["data"] for name, client in clients.items()}
    assert found["wide"]["documents"] > found["narrow"]["documents"] == 1
    assert found["wide"]["jobs"]["completed"] > 1 and found["narrow"]["jobs"] == {"completed": 1}


def test_pages_hold_what_it_may_see_however_much_is_elsewhere(clients: dict[str, httpx2.Client], settled: Any) -> None:
    wide, narrow = clients["wide"], clients["narrow"]
    for n in range(3):  # later than all that the narrow key may see
        told = {"uri": f"later-{n}", "text": f"Later {SECRET} {n}.", "collection": "closed"}
        settled(wide, wide.post("/api/v1/ingest/text", json=told).json()["data"]["id"])
        asked = {"question": f"Where does the {SECRET} sleep?", "collections": ["closed"]}
        assert wide.post("/api/v1/conversations", json=asked).status_code == 200
    listed = narrow.get("/api/v1/jobs", params={"page_size": 2}).json()["data"]
    assert [job["collection"] for job in listed["jobs"]] == ["open"] and listed["counts"] == {"completed": 1}
    assert narrow.get("/api/v1/jobs", params={"page_size": 2, "page": 2}).json()["data"]["jobs"] == []
    for asked in ({"page_size": 2}, {"page_size": 2, "q": "water"}):
        found = narrow.get("/api/v1/conversations", params=asked).json()["data"]["conversations"]
        assert "pump water" in [one["title"] for one in found] and SECRET not in str(found)


def test_conversations_that_hold_a_text_come_in_pages(clients: dict[str, httpx2.Client]) -> None:
    wide = clients["wide"]

    def ids(**asked: Any) -> list[str]:
        found = wide.get("/api/v1/conversations", params={"q": SECRET, **asked}).json()["data"]["conversations"]
        return [str(one["id"]) for one in found]

    for _ in range(3):
        asked = {"question": f"Where does the {SECRET} sleep?", "collections": ["closed"]}
        assert wide.post("/api/v1/conversations", json=asked).status_code == 200
    every = ids()
    assert len(every) > 2 and ids(page_size=2) + ids(page_size=2, page=2) == every[:4]


def test_what_is_of_all_collections_is_refused(clients: dict[str, httpx2.Client]) -> None:
    narrow = clients["narrow"]
    hook = {"url": "https://example.org/hook"}
    made = clients["wide"].post("/api/v1/webhooks", json=hook).json()["data"]["id"]
    answers = [
        narrow.delete("/api/v1/history"),
        narrow.post("/api/v1/webhooks", json=hook),
        narrow.get("/api/v1/webhooks"),
        narrow.delete(f"/api/v1/webhooks/{made}"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 4
    assert clients["wide"].get("/api/v1/webhooks").json()["data"][0]["id"] == made
    assert clients["wide"].get("/api/v1/history").json()["data"]["total"] > 0
