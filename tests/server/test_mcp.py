"""The client of MCP, as it is on PyPI, against a real server over HTTP and a real process over stdio."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.server.conftest import Running

from headwater.build import open_home
from headwater.storage.ledger import Ledger

LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
SECRET = "# Vault\n\nThe code of the vault is kingfisher.\n"
TOOLS = ["add", "ask", "fetch", "list_collections", "search"]


@pytest.fixture(scope="module")
def keys(server: Running, settled: Any) -> dict[str, str]:
    """A key for each of two owners, each with a document of its own; and one that may only read."""
    found = {owner: server.key(owner, rights="write") for owner in ("anna", "bert")}
    for owner, uri, text in (("anna", "leave", LEAVE), ("bert", "vault", SECRET)):
        with server.client(found[owner]) as client:
            told = {"uri": uri, "text": text, "mime": "text/markdown", "collection": f"of {owner}"}
            job = client.post("/api/v1/ingest/text", json=told).json()["data"]["job_id"]
            assert settled(client, job)["state"] == "completed"
    return {**found, "reader": server.key("anna", rights="read")}


def over_http(server: Running, key: str, use: Callable[[Client], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60.0) as http,
            Client(streamable_http_client(f"{server.base}/mcp", http_client=http)) as client,
        ):
            return await use(client)

    return asyncio.run(main())


def over_stdio(home: Path, use: Callable[[Client], Awaitable[Any]], **env: str) -> Any:
    async def main() -> Any:
        arguments = ["-m", "headwater", "mcp", "--home", str(home)]
        started = StdioServerParameters(command=sys.executable, args=arguments, env=env)
        with open(home.parent / "stdio.log", "a", encoding="utf-8") as log:
            async with Client(stdio_client(started, errlog=log)) as client:
                return await use(client)

    return asyncio.run(main())


async def call(client: Client, name: str, **given: Any) -> Any:
    """What a tool answers: one text that holds JSON."""
    answer = await client.call_tool(name, given)
    assert not answer.is_error, answer.content
    assert [one.type for one in answer.content] == ["text"]
    return json.loads(answer.content[0].text)  # type: ignore[union-attr]


async def refused(client: Client, name: str, **given: Any) -> str:
    answer = await client.call_tool(name, given)
    assert answer.is_error
    return str(answer.content[0].text)  # type: ignore[union-attr]


async def search_and_fetch(client: Client) -> None:
    """What ChatGPT does with a connector."""
    assert sorted(tool.name for tool in (await client.list_tools()).tools) == TOOLS
    found = (await call(client, "search", query="weeks of parental leave"))["results"]
    assert {"id", "title", "url", "text"} <= set(found[0]) and "26 weeks" in found[0]["text"]
    read = await call(client, "fetch", id=found[0]["id"])
    assert {"id", "title", "text", "url", "metadata"} == set(read)
    assert read["id"] == found[0]["id"] and read["text"].strip() == LEAVE.strip()
    assert read["metadata"]["passage"] == found[0]["text"]
    assert (await call(client, "fetch", id=found[0]["document_id"]))["text"] == read["text"]
    answer = await call(client, "ask", question="How many weeks of leave do parents get?")
    assert "26 weeks" in answer["answer"] and not answer["refused"]
    start, end = answer["citations"][0]["span"]
    assert read["text"][start:end] == answer["citations"][0]["quote"]


async def ask_with_a_typo(client: Client) -> None:
    """What a typo was read as is told, and nothing stands beside the results."""
    found = await call(client, "search", query="parentel leave")
    assert set(found) == {"results"} and "26 weeks" in found["results"][0]["text"]
    assert all(one["corrected"] == {"parentel": "parental"} for one in found["results"])
    assert all("corrected" not in one for one in (await call(client, "search", query="parental leave"))["results"])
    answer = await call(client, "ask", question="How long is parentel leave?")
    assert "26 weeks" in answer["answer"] and answer["corrected"] == {"parentel": "parental"}


async def add_and_find(client: Client) -> None:
    """What is added is found a moment later."""
    promised = await call(client, "add", text="The heron nests in the old mill.", title="Birds", collection="birds")
    assert promised["status"] == "pending" and promised["document_id"]
    end = time.monotonic() + 60
    while True:
        found = (await call(client, "search", query="where does the heron nest"))["results"]
        if any("old mill" in one["text"] and one["title"] == "Birds" for one in found):
            break
        assert time.monotonic() < end, found
        await asyncio.sleep(0.1)
    listed = (await call(client, "list_collections"))["collections"]
    assert next(one["documents"] for one in listed if one["name"] == "birds") == 1
    assert "not both" in await refused(client, "add", text="a", url="https://example.org/")


async def add_two_that_begin_alike(client: Client) -> None:
    """Texts without a title: each is kept, called by its first line, and the same again is the same document."""
    head = "# Minutes of the weekly meeting of the committee for the maintenance of the upper and the lower weir\n\n"
    texts = [f"{head}The {what} was mended." for what in ("sluice", "turbine")]
    made = [await call(client, "add", text=text, collection="minutes") for text in (*texts, texts[0])]
    ids = [one["document_id"] for one in made]
    assert len(set(ids)) == 2 and ids[0] == ids[2]
    end = time.monotonic() + 60
    for what, id in zip(("sluice", "turbine"), ids, strict=False):
        while True:
            found = (await call(client, "search", query=f"the {what} was mended"))["results"]
            if mine := [one for one in found if one["document_id"] == id]:
                break
            assert time.monotonic() < end, found
            await asyncio.sleep(0.1)
        assert what in mine[0]["text"] and mine[0]["title"] == head.strip("# \n")[:80] == made[0]["title"]


def test_texts_that_begin_alike(server: Running, keys: dict[str, str]) -> None:
    over_http(server, keys["anna"], add_two_that_begin_alike)


def test_search_and_fetch_over_http(server: Running, keys: dict[str, str]) -> None:
    over_http(server, keys["anna"], search_and_fetch)


def test_what_a_typo_was_read_as(server: Running, keys: dict[str, str]) -> None:
    over_http(server, keys["anna"], ask_with_a_typo)


def test_add_over_http(server: Running, keys: dict[str, str]) -> None:
    over_http(server, keys["anna"], add_and_find)


def test_a_key_sees_and_does_what_it_may(server: Running, keys: dict[str, str]) -> None:
    async def as_bert(client: Client) -> str:
        found = (await call(client, "search", query="code of the vault"))["results"]
        assert "kingfisher" in found[0]["text"]
        listed = (await call(client, "list_collections"))["collections"]
        assert [one["name"] for one in listed] == ["of bert"]
        return str(found[0]["id"])

    vault = over_http(server, keys["bert"], as_bert)

    async def as_reader(client: Client) -> None:
        for question in ("code of the vault", "kingfisher"):
            assert "kingfisher" not in json.dumps((await call(client, "search", query=question))["results"])
        for id in (vault, vault.partition(":")[0], "nothing"):
            assert "nothing has the id" in await refused(client, "fetch", id=id)
        assert "kingfisher" not in json.dumps(await call(client, "ask", question="What is the code of the vault?"))
        assert "no dataset is named" in await refused(client, "ask", question="x", collection="of bert")
        assert "right to write" in await refused(client, "add", text="A note.")

    over_http(server, keys["reader"], as_reader)


def test_a_search_is_counted_logged_and_remembered_like_any_other(server: Running, keys: dict[str, str]) -> None:
    question = "how many weeks are paid in full"

    async def ask_once(client: Client) -> None:
        await call(client, "search", query=question)

    admin = server.key("anna", rights="admin")
    with server.client(admin) as client:
        before = _searches(client)
        over_http(server, keys["anna"], ask_once)
        assert _searches(client) == before + 1
        assert client.get("/api/v1/history").json()["data"]["history"][0]["query"] == question
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    told = next(line for line in reversed(lines) if line["message"] == "Retrieval completed")
    assert told["owner"] == "anna" and told["query_chars"] == len(question) and told["final_count"] > 0
    request = next(line for line in lines if line["message"] == "Request" and line["request_id"] == told["request_id"])
    assert request["route"] == "/mcp"


def _searches(client: httpx2.Client) -> float:
    lines = client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("rag_search_duration_seconds_count"))


def test_without_a_valid_key_nothing_is_answered(server: Running, keys: dict[str, str]) -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accepts = {"Accept": "application/json, text/event-stream"}
    for key in ("", "wrong"):
        with server.client(key) as client:
            answer = client.post("/mcp", json=asked, headers=accepts)
            assert answer.status_code == 401 and answer.json()["error"] == "AUTHENTICATION_ERROR"
            assert "search" not in answer.text


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_home(tmp_path / "home") as kb:
        kb.add_text(LEAVE, uri="leave", mime="text/markdown")
        kb.for_owner("bert").add_text(SECRET, uri="vault", mime="text/markdown")
    return tmp_path / "home"


def test_over_stdio(home: Path) -> None:
    async def both(client: Client) -> None:
        await search_and_fetch(client)
        await add_and_find(client)
        assert "kingfisher" not in json.dumps(await call(client, "search", query="code of the vault"))

    over_stdio(home, both)


def test_a_key_over_stdio(home: Path) -> None:
    ledger = Ledger(home)
    secret = ledger.keys.create("bert", rights="read")[1]
    ledger.close()

    async def as_bert(client: Client) -> None:
        assert "kingfisher" in (await call(client, "search", query="code of the vault"))["results"][0]["text"]
        assert "26 weeks" not in json.dumps(await call(client, "search", query="parental leave"))
        assert "right to write" in await refused(client, "add", text="A note.")

    over_stdio(home, as_bert, HEADWATER_KEY=secret)
