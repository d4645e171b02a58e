"""Nobody sees what is not theirs: random owners, keys, collections, filters and options over every route."""

import itertools
import random
import re
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

from headwater.storage.ledger import dataset_id
from headwater.types import document_id

OWNERS = ("anna", "ben", "cleo")
COLLECTIONS = ("alpha", "beta", "gamma")
SEED = 20_26
QUESTIONS = ("water pump", "水泵 阀门", "secret of anna", "secret of ben", "secret of cleo", "*")
FILTERS = (
    "",
    'owner = "anna"',
    'owner = "ben" or owner != "ben"',
    'collection = "alpha" or collection = "beta"',
    "not archived or archived",
    'user_id in ("anna", "ben", "cleo")',
    'title contains "secret"',
    'tag = "everybody" or not tag = "everybody"',
)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "keyword"},
    {"mode": "semantic"},
    {"mode": "substring"},
    {"options": {"collapse": True, "mmr_lambda": 0.5}},
    {"options": {"window": 2, "parent": True, "related": True}},
    {"options": {"synonyms": True, "feedback": True}},
    {"archived": True, "top_n": 50},
    {"vector_similarity_weight": 0.3, "similarity_threshold": 0.0, "page_size": 50},
)


@dataclass(frozen=True)
class Asker:
    """A key, and whose rows it may see: (owner, collection)."""

    client: httpx2.Client
    owner: str
    may_see: frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def askers(server: Running, settled: Any) -> Any:
    """Three owners with three collections each, one of them shared; and keys for all, for one, for two."""
    shared = {("ben", "beta"), ("cleo", "gamma")}
    clients: list[httpx2.Client] = []
    made: list[Asker] = []
    for owner in OWNERS:
        client = server.client(server.key(owner, rights="admin"))
        clients.append(client)
        for name in COLLECTIONS:
            scope = "shared" if (owner, name) in shared else "private"
            assert client.post("/api/v1/datasets", json={"name": name, "scope": scope}).status_code == 200
            for number in range(2):
                text = f"The secret of {owner} in {name}: water pump number {number}. 水泵的阀门在{owner}的{name}。"
                told = {"uri": f"note-{number}", "text": text, "collection": name, "tags": ["everybody", owner]}
                job = client.post("/api/v1/ingest/text", json={**told, "title": f"secret {owner}"}).json()["data"]
                assert settled(client, job["job_id"])["state"] == "completed"
            listed = client.get(f"/api/v1/datasets/{dataset_id(owner, name)}/documents").json()["data"]["docs"]
            archived = {"archived": True}
            client.put(f"/api/v1/datasets/{dataset_id(owner, name)}/documents/{listed[0]['id']}", json=archived)
        own = frozenset((owner, name) for name in COLLECTIONS)
        others = frozenset(one for one in shared if one[0] != owner)
        made.append(Asker(client, owner, own | others))
        for chosen in (("alpha",), ("beta", "gamma")):
            narrow = server.client(server.key(owner, rights="write", collections=chosen))
            clients.append(narrow)
            seen = {(owner, name) for name in chosen} | {one for one in others if one[1] in chosen}
            made.append(Asker(narrow, owner, frozenset(seen)))
    yield made
    for client in clients:
        client.close()


def rows(told: Any) -> set[tuple[str, str]]:
    """Every (owner, collection) that stands anywhere in an answer."""
    found: set[tuple[str, str]] = set()
    if isinstance(told, dict):
        if "collection" in told and "owner" in told:
            found.add((told["owner"], told["collection"]))
        for value in told.values():
            found |= rows(value)
    elif isinstance(told, list):
        for value in told:
            found |= rows(value)
    return found


def foreign_text(text: str, asker: Asker) -> list[str]:
    """Sentences of documents that the asker may not see."""
    every = itertools.product(OWNERS, COLLECTIONS)
    return [f"{o} in {c}" for o, c in every if (o, c) not in asker.may_see and f"secret of {o} in {c}" in text]


def test_no_search_and_no_answer_has_a_foreign_row(askers: list[Asker]) -> None:
    chance = random.Random(SEED)
    asked = found = 0
    for _ in range(120):
        asker = chance.choice(askers)
        body: dict[str, Any] = {"question": chance.choice(QUESTIONS), "where": chance.choice(FILTERS)}
        body |= chance.choice(OPTIONS)
        if chance.random() < 0.3:
            body["dataset_ids"] = [dataset_id(chance.choice(OWNERS), chance.choice(COLLECTIONS))]
        if chance.random() < 0.3:
            uri = f"text:/note-{chance.randrange(2)}"
            body["document_ids"] = [document_id(chance.choice(OWNERS), chance.choice(COLLECTIONS), uri)]
        if chance.random() < 0.2:
            body["question"] = [body["question"], *chance.sample(QUESTIONS, 2)]
        route = "/api/v1/retrieval" if chance.random() < 0.7 or isinstance(body["question"], list) else "/api/v1/ask"
        answer = asker.client.post(route, json=body)
        asked += 1
        assert answer.status_code in (200, 404), answer.text
        assert not foreign_text(answer.text, asker), (asker.owner, body, answer.text)
        assert rows(answer.json()) <= asker.may_see, (asker.owner, body)
        found += "secret of" in answer.text
    assert asked == 120 and found > 40  # the test would see a foreign row if there were one


def said(question: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}]


def tool(name: str, **given: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}}


def any_document(chance: random.Random) -> str:
    return document_id(chance.choice(OWNERS), chance.choice(COLLECTIONS), f"text:/note-{chance.randrange(2)}")


def any_request(chance: random.Random, chats: list[str], conversations: list[str]) -> tuple[str, str, Any]:
    """Some way to ask, of every protocol, that names owners, collections and ids at random."""
    question, where = chance.choice(QUESTIONS), chance.choice(FILTERS)
    narrowed: dict[str, Any] = {"where": where, **chance.choice(OPTIONS)}
    if chance.random() < 0.3:
        narrowed["collections"] = [chance.choice(COLLECTIONS)]
    if chance.random() < 0.2:
        narrowed["document_ids"] = [any_document(chance)]
    stream, id = chance.random() < 0.5, any_document(chance)
    whose = (chance.choice(OWNERS), chance.choice(COLLECTIONS))
    store, file = dataset_id(*whose), document_id(*whose, "text:/note-1")
    kept = chance.choice([*conversations, ""])
    ways: list[tuple[str, str, Any]] = [
        (
            "POST",
            "/v1/chat/completions",
            {"model": "headwater", "messages": said(question), "stream": stream, **narrowed},
        ),
        ("POST", "/api/chat", {"messages": said(question), **narrowed}),
        ("POST", "/mcp", tool("search", query=question)),
        ("POST", "/mcp", tool("fetch", id=id)),
        ("POST", "/mcp", tool("fetch", id=f"{id}:0-40")),
        ("POST", "/mcp", tool("ask", question=question, collection=chance.choice(["", *COLLECTIONS]))),
        ("POST", "/mcp", tool("list_collections")),
        (
            "POST",
            "/api/v1/conversations",
            {"question": question, "stream": stream, "conversation_id": kept, **narrowed},
        ),
        (
            "POST",
            f"/api/v1/chats/{chance.choice(chats)}/completions",
            {"question": question, "stream": stream, **narrowed},
        ),
        ("GET", f"/api/v1/chats/{chance.choice(chats)}/sessions", None),
        ("GET", f"/api/v1/conversations/{chance.choice(conversations or ['none'])}", None),
        ("GET", "/api/v1/conversations?page_size=1000", None),
        ("GET", "/api/v1/chats", None),
        ("GET", "/api/v1/jobs?page_size=1000", None),
        ("GET", "/api/v1/history?page_size=1000", None),
        ("GET", "/api/v1/feedback?page_size=1000", None),
        ("GET", f"/api/v1/documents/{id}", None),
        ("GET", f"/api/v1/documents/{id}/stretch", None),
        ("GET", f"/api/v1/documents/{id}/passages", None),
        ("GET", f"/api/v1/why?query=secret&document={id}", None),
        ("POST", "/api/v1/why", {"question": question, "document": id, **narrowed}),
        ("GET", f"/api/v1/datasets/{dataset_id(chance.choice(OWNERS), chance.choice(COLLECTIONS))}/documents", None),
        ("GET", "/api/v1/datasets?page_size=1000", None),
        ("GET", "/api/v1/status", None),
        ("POST", "/api/v1/matches", {"question": question, "texts": [question]}),
        ("POST", f"/v1/vector_stores/{store}/search", {"query": question, "where": where, "max_num_results": 50}),
        ("GET", "/v1/vector_stores?limit=100", None),
        ("GET", f"/v1/vector_stores/{store}/files?limit=100", None),
        ("GET", f"/v1/vector_stores/{store}/files/{file}/content", None),
        ("GET", f"/v1/files/{file}/content", None),
        ("GET", "/v1/files", None),
    ]
    return chance.choice(ways)


def test_no_protocol_and_no_list_has_a_foreign_row(askers: list[Asker]) -> None:
    chance = random.Random(SEED + 1)
    chats: list[str] = []
    for owner in OWNERS:
        own = next(one for one in askers if one.owner == owner)
        chats.append(own.client.post("/api/v1/chats", json={"name": f"of {owner}"}).json()["data"]["id"])
        asked = {"kind": "thumb", "value": 1, "query": f"secret of {owner} in alpha"}
        assert own.client.post("/api/v1/feedback", json=asked).status_code == 200
    conversations: list[str] = []
    found: dict[str, int] = {}
    for _ in range(400):
        asker = chance.choice(askers)
        method, path, body = any_request(chance, chats, conversations)
        headers = {"Accept": "application/json, text/event-stream"}
        answer = asker.client.request(method, path, json=body, headers=headers)
        assert answer.status_code in (200, 404), (asker.owner, path, body, answer.text)
        # What was asked for is repeated in histories and refusals, without the colon that stands in the documents.
        foreign = [one for one in foreign_text(answer.text, asker) if f"secret of {one}:" in answer.text]
        assert not foreign, (asker.owner, path, body, answer.text)
        if answer.headers["content-type"].startswith("application/json"):
            assert rows(answer.json()) <= asker.may_see, (asker.owner, path, body)
        if path.startswith("/api/v1/jobs"):
            listed = {(asker.owner, job["collection"]) for job in answer.json()["data"]["jobs"]}
            assert listed and listed <= asker.may_see
        if (made := re.search(r'"conversation_id": ?"(\w+)"', answer.text)) and made[1] not in conversations:
            conversations.append(made[1])
        key = re.sub(r"[0-9a-f]{16,}", "…", path.partition("?")[0])
        found[key] = found.get(key, 0) + ("secret of" in answer.text)
    # The test would see a foreign row if there were one: every kind of answer showed some of its own.
    for key in ("/v1/chat/completions", "/api/chat", "/mcp", "/api/v1/conversations", "/api/v1/chats/…/completions"):
        assert found.get(key), found
    for key in ("/api/v1/history", "/api/v1/feedback", "/api/v1/documents/…/stretch", "/api/v1/documents/…/passages"):
        assert found.get(key), found
    for key in ("/v1/vector_stores/…/search", "/v1/vector_stores/…/files/…/content", "/v1/files/…/content"):
        assert found.get(key), found
    assert conversations


def test_a_conversation_of_somebody_else_is_unknown_everywhere(askers: list[Asker]) -> None:
    checked = 0
    for asker in askers:
        told = asker.client.post("/api/v1/conversations", json={"question": f"secret of {asker.owner}"}).json()["data"]
        id = told["conversation_id"]
        for other in askers:
            if other.owner == asker.owner:
                continue
            send = other.client.request
            answers = [
                send("GET", f"/api/v1/conversations/{id}"),
                send("GET", f"/api/v1/chats/{id}"),
                send("GET", f"/api/v1/chats/{id}/sessions"),
                send("POST", "/api/v1/conversations", json={"question": "and?", "conversation_id": id}),
                send("POST", f"/api/v1/chats/{id}/completions", json={"question": "and?"}),
                send("PUT", f"/api/v1/conversations/{id}", json={"title": "mine"}),
                send("DELETE", f"/api/v1/conversations/{id}"),
                send("DELETE", f"/api/v1/chats/{id}"),
            ]
            assert {one.status_code for one in answers} == {404}, [one.text for one in answers]
            checked += len(answers)
        assert asker.client.get(f"/api/v1/conversations/{id}").status_code == 200
    assert checked > 300


def test_every_id_of_somebody_else_is_unknown(askers: list[Asker]) -> None:
    checked = 0
    for asker in askers:
        for owner, name in itertools.product(OWNERS, COLLECTIONS):
            dataset = f"/api/v1/datasets/{dataset_id(owner, name)}"
            id = document_id(owner, name, "text:/note-1")
            seen = (owner, name) in asker.may_see
            routes = [f"{dataset}/documents", f"{dataset}/documents/{id}", f"{dataset}/documents/{id}/text"]
            routes.append(f"{dataset}/documents/{id}/chunks")
            for route in routes:
                answer = asker.client.get(route)
                assert answer.status_code == (200 if seen else 404), (asker.owner, route, answer.text)
                assert seen or answer.json()["message"] == asker.client.get(
                    route.replace(dataset_id(owner, name), "0" * 20)
                ).json()["message"].replace("0" * 20, dataset_id(owner, name))
                checked += 1
            # An id of a foreign document under a dataset of one's own.
            mine = f"/api/v1/datasets/{dataset_id(*next(iter(asker.may_see)))}/documents/{id}"
            if (owner, name) not in asker.may_see:
                assert asker.client.get(mine).status_code == 404
                assert asker.client.get("/api/v1/why", params={"query": "x", "document": id}).status_code == 404
                told = {"kind": "click", "document_id": id}
                assert asker.client.post("/api/v1/feedback", json=told).status_code == 404
    assert checked > 100


def test_no_vector_store_and_no_file_of_somebody_else_is_known(askers: list[Asker]) -> None:
    """Also a file that was sent and is in no store yet: it belongs to the reach of the key that sent it."""
    sent = {}
    for asker in askers:
        files = {"file": ("note.txt", f"sent by {asker.owner}".encode())}
        told = asker.client.post("/v1/files", files=files, data={"purpose": "assistants"}).json()
        sent[told["id"]] = asker
    whole = {asker.owner: asker for asker in askers[::-1] if len({one for _, one in asker.may_see}) == len(COLLECTIONS)}
    for asker in askers:
        for owner, name in itertools.product(OWNERS, COLLECTIONS):
            store, id = f"/v1/vector_stores/{dataset_id(owner, name)}", document_id(owner, name, "text:/note-1")
            seen = (owner, name) in asker.may_see
            routes = [store, f"{store}/files", f"{store}/files/{id}", f"{store}/files/{id}/content"]
            for route in (*routes, f"/v1/files/{id}", f"/v1/files/{id}/content"):
                answer = asker.client.get(route)
                assert answer.status_code == (200 if seen else 404), (asker.owner, route, answer.text)
                unknown = route.replace(dataset_id(owner, name), "0" * 20).replace(id, "1" * 20)
                told = asker.client.get(unknown).json()["error"]["message"]
                said = told.replace("0" * 20, dataset_id(owner, name)).replace("1" * 20, id)
                assert seen or answer.json()["error"]["message"] == said
            answer = asker.client.post(f"{store}/search", json={"query": "secret"})
            assert answer.status_code == (200 if seen else 404), answer.text
        listed = {one["id"] for one in asker.client.get("/v1/files").json()["data"]}
        own = {
            id for id, by in sent.items() if by is asker or (whole[asker.owner] is asker and by.owner == asker.owner)
        }
        assert listed == own
        for id in sent:
            for route in (f"/v1/files/{id}", f"/v1/files/{id}/content"):
                assert asker.client.get(route).status_code == (200 if id in own else 404)
            if id not in own:
                assert asker.client.delete(f"/v1/files/{id}").status_code == 404
    for id, asker in sent.items():
        assert asker.client.delete(f"/v1/files/{id}").status_code == 200


def test_nobody_changes_what_is_somebody_elses(askers: list[Asker]) -> None:
    for asker in askers:
        for owner, name in itertools.product(OWNERS, COLLECTIONS):
            if owner == asker.owner:
                continue
            dataset = f"/api/v1/datasets/{dataset_id(owner, name)}"
            id = document_id(owner, name, "text:/note-1")
            refused = 403 if (owner, name) in asker.may_see else 404
            send = asker.client.request
            answers = [
                send("PUT", dataset, json={"name": "mine"}),
                send("DELETE", "/api/v1/datasets", json={"ids": [dataset_id(owner, name)]}),
                send("DELETE", f"{dataset}/documents", json={"ids": [id]}),
                send("PUT", f"{dataset}/documents/{id}", json={"archived": True}),
                send("POST", f"{dataset}/chunks", json={"document_ids": [id]}),
                send("DELETE", f"{dataset}/chunks", json={"document_ids": [id]}),
                send("POST", f"{dataset}/documents/{id}/chunks", json={"content": "x"}),
                send("DELETE", f"{dataset}/documents/{id}/chunks", json={}),
                send("POST", f"{dataset}/documents", files=[("file", ("x.txt", b"x"))]),
                send(
                    "POST", "/api/v1/ingest/text", json={"uri": "u", "text": "t", "dataset_id": dataset_id(owner, name)}
                ),
            ]
            store = f"/v1/vector_stores/{dataset_id(owner, name)}"
            answers += [
                send("POST", store, json={"name": "mine"}),
                send("DELETE", store),
                send("POST", f"{store}/files", json={"file_id": id}),
                send("POST", f"{store}/files/{id}", json={"attributes": {"mine": True}}),
                send("DELETE", f"{store}/files/{id}"),
                send("POST", f"{store}/file_batches", json={"file_ids": [id]}),
                send("POST", f"{store}/file_batches/batch-1/cancel"),
                send("DELETE", f"/v1/files/{id}"),
            ]
            assert [one.status_code for one in answers] == [refused] * len(answers), [one.text for one in answers]


def test_lists_jobs_history_and_feedback_are_ones_own(askers: list[Asker]) -> None:
    for asker in askers:
        listed = asker.client.get("/api/v1/datasets", params={"page_size": 100}).json()["data"]
        assert {(one["owner"], one["collection"]) for one in listed} == asker.may_see
        own = {document_id(asker.owner, name, uri) for name in COLLECTIONS for uri in ("text:/note-0", "text:/note-1")}
        jobs = asker.client.get("/api/v1/jobs", params={"page_size": 100}).json()["data"]["jobs"]
        assert jobs and {job["document_id"] for job in jobs} <= own
        for other in askers:
            if other.owner != asker.owner:
                theirs = other.client.get("/api/v1/jobs").json()["data"]["jobs"][0]["id"]
                assert asker.client.get(f"/api/v1/jobs/{theirs}").status_code == 404
                assert asker.client.post(f"/api/v1/jobs/{theirs}/retry").status_code == 404
        asker.client.post("/api/v1/retrieval", json={"question": f"asked by {asker.owner}"})
        kept = asker.client.get("/api/v1/history", params={"page_size": 1000}).json()["data"]["history"]
        others = [f"asked by {owner}" for owner in OWNERS if owner != asker.owner]
        assert kept and not {row["query"] for row in kept} & set(others)


def test_a_cached_result_is_of_the_same_caller(askers: list[Asker]) -> None:
    for _ in range(2):
        for asker in askers:
            answer = asker.client.post("/api/v1/retrieval", json={"question": "the very same question about water"})
            assert rows(answer.json()) <= asker.may_see
            assert not foreign_text(answer.text, asker)


def test_what_is_no_longer_shared_is_no_longer_seen(askers: list[Asker]) -> None:
    ben, anna = (next(one for one in askers if one.owner == name) for name in ("ben", "anna"))
    question = {"question": "secret of ben in beta", "dataset_ids": [dataset_id("ben", "beta")]}
    assert anna.client.post("/api/v1/retrieval", json=question).status_code == 200
    ben.client.put(f"/api/v1/datasets/{dataset_id('ben', 'beta')}", json={"scope": "private"})
    assert anna.client.post("/api/v1/retrieval", json=question).status_code == 404
    text = anna.client.post("/api/v1/retrieval", json={"question": "secret of ben in beta"}).text
    ben.client.put(f"/api/v1/datasets/{dataset_id('ben', 'beta')}", json={"scope": "shared"})
    assert "secret of ben in beta:" not in text
