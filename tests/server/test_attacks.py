"""Requests that want what they may not have: each is refused, with the right status and name."""

import hashlib
import json
import re
import socket
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Running

from headwater.storage.ledger import dataset_id
from headwater.types import document_id

OTHERS = dataset_id("victim", "vault")
DOCUMENT = document_id("victim", "vault", "text:/gold")
GOLD = "The gold is under the third stone of the old bridge."


IDS: dict[str, str] = {}  # of what the victim has, by the names that stand in braces below


@pytest.fixture(scope="module")
def keys(server: Running, settled: Any) -> dict[str, str]:
    """A victim with a document, and keys for somebody else."""
    made = {
        "victim": server.key("victim", rights="admin"),
        "thief": server.key("thief", rights="admin"),
        "reader": server.key("thief", rights="read"),
        "narrow": server.key("thief", rights="write", collections=["mine"]),
        "expired": server.key("victim", rights="admin", expires="2020-01-01T00:00:00.000+00:00"),
    }
    with server.client(made["victim"]) as client:
        told = {"uri": "gold", "text": GOLD, "collection": "vault"}
        job = client.post("/api/v1/ingest/text", json=told).json()["data"]
        assert settled(client, job["job_id"])["state"] == "completed"
        IDS["job"] = job["job_id"]
        said = client.post("/api/v1/conversations", json={"question": "Where is the gold?"}).json()["data"]
        IDS["conversation"] = said["conversation_id"]
        IDS["chat"] = client.post("/api/v1/chats", json={"name": "gold", "collections": ["vault"]}).json()["data"]["id"]
        IDS["session"] = client.post(f"/api/v1/chats/{IDS['chat']}/sessions", json={}).json()["data"]["id"]
        hook = {"url": "https://example.org/x"}
        IDS["webhook"] = client.post("/api/v1/webhooks", json=hook).json()["data"]["id"]
        IDS["key"] = client.get("/api/v1/keys").json()["data"]["keys"][0]["id"]
    with server.client(made["thief"]) as client:
        assert client.post("/api/v1/datasets", json={"name": "mine"}).status_code == 200
    return made


def ask(where: str) -> dict[str, Any]:
    return {"question": "where is the gold", "where": where}


def completion(**given: Any) -> dict[str, Any]:
    return {"model": "headwater", "messages": SAID, **given}


def tool(name: str, **given: Any) -> dict[str, Any]:
    told = {"name": name, "arguments": given}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": told}


SAID = [{"role": "user", "content": "Where is the gold?"}]
MINE = dataset_id("thief", "mine")
RETRIEVAL = "/api/v1/retrieval"
# who, method, path, JSON body, statuses that are right
ATTACKS: list[tuple[str, str, str, Any, set[int]]] = [
    # without a key, or with a bad one
    ("", "GET", "/api/v1/datasets", None, {401}),
    ("", "POST", RETRIEVAL, ask(""), {401}),
    ("", "GET", "/metrics", None, {401}),
    ("", "GET", "/api/v1/settings", None, {401}),
    ("expired", "GET", "/api/v1/datasets", None, {401}),
    ("hw_guess", "GET", "/api/v1/datasets", None, {401}),
    ("' or 1=1 --", "GET", "/api/v1/datasets", None, {401}),
    # with too few rights
    ("reader", "POST", "/api/v1/datasets", {"name": "x"}, {403}),
    ("reader", "DELETE", "/api/v1/datasets", {"ids": None}, {403}),
    ("reader", "POST", "/api/v1/ingest/text", {"uri": "x", "text": "x"}, {403}),
    (
        "reader",
        "POST",
        "/api/v1/events",
        {"id": "1", "type": "created", "document": {"id": "x", "content": "x"}},
        {403},
    ),
    ("reader", "GET", "/metrics", None, {403}),
    ("reader", "GET", "/api/v1/settings", None, {403}),
    ("narrow", "GET", "/metrics", None, {403}),
    ("narrow", "POST", "/api/v1/datasets", {"name": "other"}, {403}),
    ("narrow", "POST", "/api/v1/ingest/text", {"uri": "x", "text": "x", "collection": "vault"}, {403}),
    # as somebody else
    (
        "thief",
        "POST",
        "/api/v1/events",
        {"id": "9", "type": "deleted", "document": {"id": "gold", "user_id": "victim"}},
        {403},
    ),
    # ids of somebody else
    ("thief", "POST", RETRIEVAL, {"question": "gold", "dataset_ids": [OTHERS]}, {404}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "kb_ids": [OTHERS]}, {404}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "document_ids": [DOCUMENT]}, {404}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "doc_ids": [DOCUMENT]}, {404}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "collections": ["vault"]}, {404}),
    ("thief", "POST", f"/api/v1/dataset/{OTHERS}/retrieval", {"question": "gold"}, {404}),
    ("thief", "POST", "/api/v1/ask", {"question": "gold", "dataset_ids": [OTHERS]}, {404}),
    ("thief", "GET", f"/api/v1/datasets/{OTHERS}/documents/{DOCUMENT}", None, {404}),
    ("thief", "GET", f"/api/v1/datasets/{MINE}/documents/{DOCUMENT}", None, {404}),
    ("thief", "GET", f"/api/v1/datasets/{MINE}/documents/{DOCUMENT}/text", None, {404}),
    ("thief", "GET", f"/api/v1/datasets/{MINE}/documents/{DOCUMENT}/chunks", None, {404}),
    ("thief", "DELETE", f"/api/v1/datasets/{MINE}/documents", {"ids": [DOCUMENT]}, {404}),
    ("thief", "PUT", f"/api/v1/datasets/{MINE}/documents/{DOCUMENT}", {"title": "x"}, {404}),
    ("thief", "POST", f"/api/v1/datasets/{MINE}/chunks", {"document_ids": [DOCUMENT]}, {404}),
    ("thief", "GET", f"/api/v1/why?query=gold&document={DOCUMENT}", None, {404}),
    ("thief", "GET", f"/api/v1/documents/{DOCUMENT}", None, {404}),
    ("thief", "GET", f"/api/v1/documents/{DOCUMENT}/stretch", None, {404}),
    ("thief", "GET", f"/api/v1/documents/{DOCUMENT}/passages", None, {404}),
    ("thief", "GET", f"/api/v1/documents/{DOCUMENT}/boxes?start=0&end=9", None, {404}),
    ("thief", "GET", f"/api/v1/documents/{DOCUMENT}/pages/1", None, {404}),
    ("thief", "POST", f"/api/v1/documents/{DOCUMENT}/reindex", {}, {404}),
    ("thief", "POST", "/api/v1/why", {"question": "gold", "document": DOCUMENT}, {404}),
    ("thief", "POST", "/api/v1/feedback", {"document_id": DOCUMENT}, {404}),
    ("thief", "POST", "/api/v1/feedback", {"chunk_id": f"{DOCUMENT}:0-9"}, {404}),
    ("thief", "GET", "/api/v1/jobs/{job}", None, {404}),
    ("thief", "POST", "/api/v1/jobs/{job}/retry", {}, {404}),
    ("thief", "POST", "/api/v1/jobs/{job}/cancel", {}, {404}),
    ("thief", "GET", "/api/v1/conversations/{conversation}", None, {404}),
    ("thief", "PUT", "/api/v1/conversations/{conversation}", {"title": "mine"}, {404}),
    ("thief", "DELETE", "/api/v1/conversations/{conversation}", None, {404}),
    (
        "thief",
        "POST",
        "/api/v1/conversations",
        {"question": "And where exactly?", "conversation_id": "{conversation}", "stream": True},
        {404},
    ),
    ("thief", "GET", "/api/v1/chats/{conversation}", None, {404}),
    ("thief", "GET", "/api/v1/chats/{chat}", None, {404}),
    ("thief", "GET", "/api/v1/chats/{chat}/sessions", None, {404}),
    ("thief", "POST", "/api/v1/chats/{chat}/completions", {"question": "gold"}, {404}),
    ("thief", "POST", "/api/v1/chats/{chat}/completions", {"question": "gold", "session_id": "{session}"}, {404}),
    ("thief", "DELETE", "/api/v1/chats", {"ids": ["{chat}"]}, {404}),
    ("thief", "POST", "/api/v1/chats", {"name": "x", "dataset_ids": [OTHERS]}, {404}),
    ("thief", "DELETE", "/api/v1/webhooks/{webhook}", None, {404}),
    ("thief", "DELETE", "/api/v1/keys/{key}", None, {404}),
    ("thief", "POST", "/api/v1/keys", {"owner": "victim", "rights": "read"}, {403}),
    ("thief", "POST", "/api/v1/keys", {"owner": "local", "rights": "admin"}, {403}),
    # the same by other protocols
    ("", "GET", "/v1/models", None, {401}),
    ("", "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {401}),
    ("thief", "POST", "/v1/chat/completions", completion(dataset_ids=[OTHERS]), {404}),
    ("thief", "POST", "/v1/chat/completions", completion(document_ids=[DOCUMENT], stream=True), {404}),
    ("thief", "POST", "/v1/chat/completions", completion(where='") or (owner = "victim'), {400}),
    ("thief", "POST", "/v1/chat/completions", completion(where='owner = "victim"'), {200}),
    ("", "GET", "/v1/vector_stores", None, {401}),
    ("", "GET", "/v1/files", None, {401}),
    ("reader", "POST", "/v1/vector_stores", {"name": "x"}, {403}),
    ("reader", "DELETE", f"/v1/vector_stores/{MINE}", None, {403}),
    ("narrow", "POST", "/v1/vector_stores", {"name": "other"}, {403}),
    ("thief", "GET", f"/v1/vector_stores/{OTHERS}", None, {404}),
    ("thief", "GET", f"/v1/vector_stores/{OTHERS}/files", None, {404}),
    ("thief", "POST", f"/v1/vector_stores/{OTHERS}/search", {"query": "where is the gold"}, {404}),
    ("thief", "GET", f"/v1/vector_stores/{MINE}/files/{DOCUMENT}", None, {404}),
    ("thief", "GET", f"/v1/vector_stores/{MINE}/files/{DOCUMENT}/content", None, {404}),
    ("thief", "POST", f"/v1/vector_stores/{MINE}/files", {"file_id": DOCUMENT}, {404}),
    ("thief", "DELETE", f"/v1/vector_stores/{MINE}/files/{DOCUMENT}", None, {404}),
    ("thief", "GET", f"/v1/files/{DOCUMENT}/content", None, {404}),
    ("thief", "DELETE", f"/v1/files/{DOCUMENT}", None, {404}),
    ("thief", "GET", "/v1/files/..%2f..%2fledger.sqlite/content", None, {404}),
    (
        "thief",
        "POST",
        f"/v1/vector_stores/{MINE}/search",
        {"query": "gold", "filters": {"type": "eq", "key": "owner", "value": "victim"}, "where": "not archived"},
        {200},
    ),
    ("thief", "POST", "/api/chat", {"messages": SAID, "collections": ["vault"]}, {404}),
    ("thief", "POST", "/api/chat", {"messages": SAID, "where": 'owner = "victim" or not archived'}, {200}),
    ("thief", "POST", "/mcp", tool("search", query="where is the gold"), {200}),
    ("thief", "POST", "/mcp", tool("fetch", id=DOCUMENT), {200}),
    ("thief", "POST", "/mcp", tool("ask", question="where is the gold", collection="vault"), {200}),
    ("reader", "POST", "/mcp", tool("add", text="mine", collection="vault"), {200}),
    # filters that want to be more
    ("thief", "POST", RETRIEVAL, ask('owner = "victim"'), {200}),
    ("thief", "POST", RETRIEVAL, ask('owner = "thief" or owner = "victim"'), {200}),
    ("thief", "POST", RETRIEVAL, ask('") or (owner = "victim'), {400}),
    ("thief", "POST", RETRIEVAL, ask("'; drop table document; --"), {400}),
    ("thief", "POST", RETRIEVAL, ask('user_id = "victim" or not archived'), {200}),
    ("thief", "POST", RETRIEVAL, ask("(" * 5000), {400}),
    ("thief", "POST", RETRIEVAL, ask("not " * 3000 + "archived"), {400, 422}),
    (
        "thief",
        "POST",
        RETRIEVAL,
        {
            "question": "gold",
            "metadata_condition": {
                "logic": "or",
                "conditions": [{"name": "owner", "comparison_operator": "is", "value": "victim"}],
            },
        },
        {200},
    ),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "scope": "all", "owner": "victim"}, {200}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "options": {"scope": "all"}}, {400}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "options": {"cache_size": 0}}, {400}),
    # more than anybody needs
    ("thief", "POST", RETRIEVAL, {"question": "gold", "options": {"candidates": 10**9}}, {400}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "top_n": 10**9}, {422}),
    ("thief", "POST", RETRIEVAL, {"question": "gold", "page": 10**30}, {422}),
    ("thief", "POST", RETRIEVAL, {"question": ["gold"] * 1000}, {422}),
    ("thief", "POST", RETRIEVAL, {"question": "g" * 1_000_000}, {422}),
    # paths and names
    ("thief", "GET", "/..%2f..%2fetc%2fpasswd", None, {404}),
    ("thief", "GET", "/%2e%2e/%2e%2e/app.py", None, {404}),
    ("thief", "GET", "/__init__.py", None, {404}),
    ("thief", "GET", f"/api/v1/datasets/{MINE}/documents/..%2f..%2fledger.sqlite", None, {404}),
    ("thief", "POST", "/api/v1/ask", {"question": "gold", "template": "../../etc/passwd"}, {400, 404}),
    ("thief", "POST", "/api/v1/ask", {"question": "gold", "llm": "../../x"}, {400, 404}),
    # addresses that lead inside
    ("thief", "POST", "/api/v1/ingest/url", {"url": "file:///etc/passwd"}, {400}),
    ("thief", "POST", "/api/v1/ingest/url", {"url": "http://user:secret@example.org/"}, {400}),
    ("thief", "POST", "/api/v1/ingest/html", {"url": "javascript:alert(1)", "html": "<p>x</p>"}, {400}),
    ("thief", "POST", "/api/v1/webhooks", {"url": "gopher://127.0.0.1/"}, {400}),
    # text that is none
    ("thief", "POST", "/api/v1/datasets", {"name": "\x00\x01"}, {400, 422}),
    ("thief", "POST", "/api/v1/datasets", {"name": "x" * 10_000}, {422}),
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack[0]} {attack[1]} {attack[2]}"[:60])
def test_attacks_are_refused(
    server: Running, keys: dict[str, str], attack: tuple[str, str, str, Any, set[int]]
) -> None:
    who, method, path, body, right = attack
    sent = json.dumps(body)
    for name, id in IDS.items():
        path, sent = path.replace(f"{{{name}}}", id), sent.replace(f"{{{name}}}", id)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with server.client(keys.get(who, who)) as client:
        answer = client.request(method, path, content=sent if body is not None else None, headers=headers)
    assert answer.status_code in right, answer.text
    assert "third stone" not in answer.text
    if answer.status_code >= 400 and path.startswith("/v1"):
        assert answer.json()["error"]["message"] and answer.json()["error"]["code"]
    elif answer.status_code >= 400:
        told = answer.json()
        assert told["data"] is None and told["code"] != 0 and told["message"]
        names = {401: "AUTHENTICATION_ERROR", 403: "AUTHENTICATION_ERROR", 404: "DATA_ERROR", 400: "ARGUMENT_ERROR"}
        assert told["error"] == names.get(answer.status_code, told["error"])
    elif "id" not in (body or {}).get("params", {}).get("arguments", {}):  # whose refusal repeats the id
        assert DOCUMENT not in answer.text


def test_what_was_attacked_is_still_there(server: Running, keys: dict[str, str]) -> None:
    with server.client(keys["victim"]) as client:
        assert "third stone" in client.post(RETRIEVAL, json=ask("")).text
        # What nobody else was told is told to the victim in the same words.
        accepts = {"Accept": "application/json, text/event-stream"}
        for route, body in (
            ("/v1/chat/completions", completion(dataset_ids=[OTHERS])),
            ("/api/chat", {"messages": SAID, "collections": ["vault"]}),
            ("/mcp", tool("search", query="where is the gold")),
            ("/mcp", tool("fetch", id=DOCUMENT)),
            ("/mcp", tool("ask", question="where is the gold", collection="vault")),
        ):
            assert "third stone" in client.post(route, json=body, headers=accepts).text, route
        for path in ("jobs/{job}", "conversations/{conversation}", "chats/{chat}", "chats/{chat}/sessions/{session}"):
            assert client.get(f"/api/v1/{path.format(**IDS)}").status_code == 200, path
        assert IDS["webhook"] in client.get("/api/v1/webhooks").text
        assert len(client.get("/api/v1/keys").json()["data"]["keys"]) >= 1
    with server.client(keys["thief"]) as client:
        assert "victim" not in client.get("/api/v1/keys").text


def test_there_are_forty() -> None:
    assert len(ATTACKS) >= 40


def raw(server: Running, data: bytes, *, wait_seconds: float = 10.0) -> bytes:
    """Bytes as they are, for what no client would send."""
    host, port = server.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait_seconds) as connection:
        connection.sendall(data)
        return connection.recv(65536)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", ""])
def test_a_rebound_name_is_not_answered(server: Running, host: str) -> None:
    answer = raw(server, f"GET /api/v1/datasets HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1.evil.example"])
def test_a_page_of_somebody_else_cannot_post(server: Running, origin: str) -> None:
    with server.client() as client:
        answer = client.post("/api/v1/datasets", json={"name": "x"}, headers={"Origin": origin})
        assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers
        preflight = client.options(
            "/api/v1/datasets", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
        )
        assert "access-control-allow-origin" not in preflight.headers


def test_pages_of_a_named_origin_call_as_their_client_does(tmp_path: Path) -> None:
    origin = "https://wiki.example.org"
    running = Running(tmp_path / "home", env={"HEADWATER_SERVER__CORS_ORIGINS": json.dumps([origin])})
    # What the client of OpenAI for browsers asks for.
    asked = "authorization,content-type,x-stainless-lang,x-stainless-retry-count"
    told = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
    with running.client() as client:
        preflight = client.options("/v1/chat/completions", headers=told)
        assert preflight.status_code == 204 and preflight.headers["access-control-allow-origin"] == origin
        assert preflight.headers["access-control-allow-headers"] == asked
        odd = client.options("/v1/models", headers={**told, "Access-Control-Request-Headers": "a b: c, *"})
        assert odd.headers["access-control-allow-headers"] == "authorization, content-type, x-request-id"
        answer = client.post("/api/v1/datasets", json={"name": "x"}, headers={"Origin": origin})
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == origin
        assert "retry-after" in answer.headers["access-control-expose-headers"]
        elsewhere = client.options("/v1/models", headers={**told, "Origin": "https://evil.example"})
        assert "access-control-allow-headers" not in elsewhere.headers
    assert running.stop() == 0


def test_header_tricks(server: Running, keys: dict[str, str]) -> None:
    with server.client(keys["thief"]) as client:
        for headers in (
            {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1"},
            {"X-Owner": "victim", "X-User-Id": "victim"},
            {"X-Original-URL": f"/api/v1/datasets/{OTHERS}/documents"},
        ):
            answer = client.get("/api/v1/datasets", headers=headers)
            assert OTHERS not in answer.text
    with server.client() as client:
        for value in ("Basic dGhpZWY6eA==", "Bearer", "bearer hw_x", keys["victim"]):
            assert client.get("/api/v1/datasets", headers={"Authorization": value}).status_code == 401


def test_bodies_that_are_too_large(server: Running, keys: dict[str, str]) -> None:
    head = f"POST {RETRIEVAL} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {keys['thief']}\r\n"
    assert raw(server, f"{head}Content-Length: 99999999999\r\n\r\n".encode()).startswith(b"HTTP/1.1 413")
    assert raw(server, f"{head}Content-Length: -5\r\n\r\n".encode()).startswith(b"HTTP/1.1 4")


def chunked(size: int) -> Any:
    piece = b"x" * 1_000_000
    for _ in range(size // len(piece)):
        yield piece


def test_a_body_without_a_length_is_counted(server: Running, keys: dict[str, str]) -> None:
    with server.client(keys["thief"]) as client:
        answer = client.post(RETRIEVAL, content=chunked(40_000_000), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: +5\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "X-Bad Name: 1\r\n",
        f"X-Long: {'x' * 200_000}\r\n",
    ],
)
def test_requests_that_two_servers_would_read_differently(server: Running, head: str) -> None:
    sent = f"POST {RETRIEVAL} HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Connection: close\r\n\r\nGET /metrics"
    answer = raw(server, sent.encode())
    assert re.match(rb"HTTP/1\.1 4\d\d", answer), answer[:200]
    assert answer.count(b"HTTP/1.1") == 1


def test_an_id_of_a_request_cannot_be_used_to_write_headers(server: Running, keys: dict[str, str]) -> None:
    for given in ("a b", "x" * 65, "é", 'x"; drop'):
        head = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-ID: {given}\r\nConnection: close\r\n\r\n"
        answer = raw(server, head.encode("latin-1"))
        assert answer.startswith(b"HTTP/1.1 200") and given.encode("latin-1") not in answer


def test_deep_json_is_refused(server: Running, keys: dict[str, str]) -> None:
    with server.client(keys["thief"]) as client:
        deep = '{"question":' + "[" * 100_000 + "]" * 100_000 + "}"
        answer = client.post(RETRIEVAL, content=deep, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422)
        assert client.post(RETRIEVAL, content=b'{"question": "\\ud800"}').status_code == 422
        assert client.post(RETRIEVAL, content=b"\xff\xfe").status_code in (400, 422)


def test_an_archive_cannot_leave_the_home(server: Running, keys: dict[str, str], settled: Any) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("../../escaped.txt", "out")
        archive.writestr("word/document.xml", "<x/>")
    with server.client(keys["thief"]) as client:
        files = [("file", ("../../../escaped.docx", packed.getvalue()))]
        made = client.post(f"/api/v1/datasets/{MINE}/documents", files=files).json()["data"][0]
        assert made["name"] == "escaped.docx"
        assert settled(client, made["job_id"])["state"] in ("failed", "empty", "completed")
    assert not [p for p in server.home.parent.parent.rglob("escaped*")]


@pytest.mark.parametrize("name", ["../escaped.txt", "/escaped.txt", "a/../../escaped.txt", "..\\escaped.txt"])
def test_a_packed_home_cannot_leave_the_home(tmp_path: Path, name: str) -> None:
    packed = tmp_path / "home.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        told = {name: {"bytes": 3, "sha256": hashlib.sha256(b"out").hexdigest()}}
        archive.writestr("manifest.json", json.dumps({"format": 1, "version": "0.1.0", "entries": told}))
        archive.writestr(name, "out")
    command = [sys.executable, "-m", "headwater", "unpack", str(packed), "--home", str(tmp_path / "in" / "home")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode in (1, 2) and "Traceback" not in ended.stderr
    assert not list(tmp_path.rglob("escaped*")) and not Path("/escaped.txt").exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://0x7f.1/",
        "http://10.0.0.1/",
        "http://169.254.169.254/",
    ],
)
def test_webhooks_do_not_reach_private_addresses(server: Running, keys: dict[str, str], url: str) -> None:
    with server.client(keys["thief"]) as client:
        answer = client.post("/api/v1/webhooks", json={"url": url})
        assert answer.status_code == 400 and answer.json()["error"] == "ARGUMENT_ERROR"
        assert url not in client.get("/api/v1/webhooks").text


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[fe80::1]/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://１２７.０.０.１/",
        "http://169.254.169.254/latest",
        "http://localhost/",
    ],
)
def test_pages_of_private_networks_are_not_fetched(
    server: Running, keys: dict[str, str], settled: Any, url: str
) -> None:
    with server.client(keys["thief"]) as client:
        answer = client.post("/api/v1/ingest/url", json={"url": url, "collection": "mine"})
        if answer.status_code != 200:
            assert answer.status_code in (400, 422)
            return
        job = settled(client, answer.json()["data"]["job_id"])
    assert job["state"] == "failed" and re.search("private|never fetched", job["reason"]), job


def test_secrets_are_neither_stored_nor_told(server: Running, keys: dict[str, str]) -> None:
    held = b"".join(path.read_bytes() for path in server.home.iterdir() if path.name.startswith("ledger"))
    assert b"victim" in held
    assert not any(key.encode() in held for key in keys.values())
    with server.client(keys["victim"]) as client:
        hook = client.post("/api/v1/webhooks", json={"url": "https://example.org/x"}).json()["data"]
        assert hook["secret"] not in client.get("/api/v1/webhooks").text
        client.delete(f"/api/v1/webhooks/{hook['id']}")
    assert not any(key in server.log.read_text() for key in keys.values())


def test_slow_headers_and_halves_hold_nobody_up(server: Running, keys: dict[str, str]) -> None:
    host, port = server.base.removeprefix("http://").split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(50)]
    for connection in held:
        connection.sendall(b"POST /api/v1/retrieval HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
    began = time.perf_counter()
    with server.client(keys["victim"]) as client:
        assert json.loads(client.post(RETRIEVAL, json=ask("")).text)["code"] == 0
    assert time.perf_counter() - began < 5
    for connection in held:
        connection.close()
