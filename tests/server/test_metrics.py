"""Every number of /metrics moves when the thing happens that it counts."""

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

from headwater import llm
from headwater.testing.chat_server import USAGE, ChatServer

LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
GOOD = "Parents are entitled to 26 weeks of leave [1]."
QUESTION = "How many weeks of leave do parents get?"
Number = Callable[..., float]


@pytest.fixture(scope="module")
def model() -> Iterator[ChatServer]:
    with ChatServer(GOOD) as made:
        yield made


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, model: ChatServer) -> Iterator[Running]:
    home = tmp_path_factory.mktemp("metrics") / "home"
    llm.install(home, {"use": "openai", "model": "tiny", "base_url": model.url, "max_retries": 0}, name="tiny")
    made = Running(home)
    yield made
    assert made.stop() == 0


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[httpx2.Client]:
    with running.client() as made:
        yield made


@pytest.fixture(scope="module")
def number(client: httpx2.Client) -> Number:
    """The sum of a metric over the rows that have these labels."""

    def read(name: str, **labels: str) -> float:
        total = 0.0
        for line in client.get("/metrics").text.splitlines():
            found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if found and all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
                total += float(found[2])
        return total

    return read


@pytest.fixture(scope="module")
def document(client: httpx2.Client, number: Number, settled: Any) -> str:
    """A document, and the numbers of indexing it."""
    passes = number("rag_index_duration_seconds_count", status="ok")
    ended = number("rag_documents_indexed_total", state="completed")
    told = {"uri": "leave", "text": LEAVE, "mime": "text/markdown"}
    made = client.post("/api/v1/ingest/text", json=told).json()["data"]
    assert settled(client, made["job_id"])["state"] == "completed"
    end = time.monotonic() + 60
    while number("rag_index_duration_seconds_count", status="ok") == passes:
        assert time.monotonic() < end
    assert number("rag_index_duration_seconds_sum") > 0
    assert number("rag_documents_indexed_total", state="completed") == ended + 1
    for name in ("rag_documents", "rag_chunks", "rag_vectors"):
        assert number(name) >= 1, name
    return str(made["document_id"])


def test_a_search(client: httpx2.Client, number: Number, document: str) -> None:
    names = ("rag_search_duration_seconds_count", "rag_search_results_count_count")
    before = [number(name, mode="hybrid") for name in names]
    stages = {stage: number("rag_stage_duration_seconds_count", stage=stage) for stage in ("keyword", "semantic")}
    hits, cached = number("rag_search_results_count_sum"), number("rag_cache_hits_total")
    shown = len(client.post("/api/v1/retrieval", json={"question": "parental leave"}).json()["data"]["chunks"])
    assert [number(name, mode="hybrid") for name in names] == [one + 1 for one in before]
    assert shown and number("rag_search_results_count_sum") == hits + shown
    assert all(number("rag_stage_duration_seconds_count", stage=stage) > count for stage, count in stages.items())
    assert number("rag_cache_hits_total") == cached
    client.post("/api/v1/retrieval", json={"question": "parental leave"})
    assert number("rag_cache_hits_total") == cached + 1
    assert number("rag_search_duration_seconds_count", status="ok") == sum(before[:1]) + 2


ANSWERED: list[tuple[str, dict[str, Any]]] = [
    ("/api/v1/ask", {"question": QUESTION, "llm": "tiny"}),
    ("/api/v1/ask", {"question": QUESTION, "llm": "tiny", "stream": True}),
    ("/api/v1/conversations", {"question": QUESTION, "llm": "tiny", "stream": True}),
    ("/v1/chat/completions", {"model": "tiny", "messages": [{"role": "user", "content": QUESTION}]}),
    ("/api/chat", {"selectedChatModel": "tiny", "messages": [{"role": "user", "content": QUESTION}]}),
]


@pytest.mark.parametrize(("path", "body"), ANSWERED)
def test_an_answer(
    *, client: httpx2.Client, number: Number, document: str, model: ChatServer, path: str, body: dict[str, Any]
) -> None:
    answers, generated = number("rag_answers_total"), number("rag_stage_duration_seconds_count", stage="generate")
    kinds = {kind: number("rag_tokens_total", model="tiny", kind=kind) for kind in ("prompt", "completion")}
    asked = len(model.requests)
    assert "26 weeks" in client.post(path, json=body).text
    assert number("rag_answers_total") == answers + 1
    replies = len(model.requests) - asked
    assert replies > 0
    assert number("rag_tokens_total", model="tiny", kind="prompt") == kinds["prompt"] + replies * USAGE["prompt_tokens"]
    wanted = kinds["completion"] + replies * USAGE["completion_tokens"]
    assert number("rag_tokens_total", model="tiny", kind="completion") == wanted
    if "ask" in path:
        assert number("rag_stage_duration_seconds_count", stage="generate") == generated + 1


def test_a_refusal(client: httpx2.Client, number: Number, document: str) -> None:
    refused = number("rag_answers_total", outcome="refused")
    client.post("/api/v1/ask", json={"question": "Who won the cup in 1954?"})
    assert number("rag_answers_total", outcome="refused") == refused + 1


@pytest.mark.parametrize(
    ("send", "code"),
    [
        ({"method": "GET", "url": "/api/v1/jobs/none"}, "DATA_ERROR"),
        ({"method": "POST", "url": "/api/v1/retrieval", "json": {"question": "x", "where": "("}}, "ARGUMENT_ERROR"),
        ({"method": "POST", "url": "/api/v1/retrieval", "json": {}}, "ARGUMENT_ERROR"),
        ({"method": "PATCH", "url": "/api/v1/datasets"}, "ARGUMENT_ERROR"),
        ({"method": "GET", "url": "/api/v1/no/such/route"}, "DATA_ERROR"),
        ({"method": "GET", "url": "/api/v1/me", "headers": {"Authorization": "Bearer x"}}, "AUTHENTICATION_ERROR"),
        ({"method": "GET", "url": "/api/v1/me", "headers": {"Host": "evil.example"}}, "ARGUMENT_ERROR"),
        (
            {"method": "POST", "url": "/api/v1/datasets", "json": {}, "headers": {"Origin": "https://evil.example"}},
            "AUTHENTICATION_ERROR",
        ),
    ],
)
def test_an_error(client: httpx2.Client, number: Number, send: dict[str, Any], code: str) -> None:
    before = number("rag_errors_total", code=code)
    assert client.request(**send).status_code >= 400
    assert number("rag_errors_total", code=code) == before + 1


def test_a_model_that_fails_is_an_answer_that_says_so(
    client: httpx2.Client, number: Number, document: str, model: ChatServer
) -> None:
    degraded = number("rag_answers_total", outcome="degraded")
    model.script.extend(["500"] * 3)
    client.post("/api/v1/ask", json={"question": QUESTION, "llm": "tiny"})
    model.script.clear()
    assert number("rag_answers_total", outcome="degraded") == degraded + 1


def test_jobs_that_wait_and_that_fail(client: httpx2.Client, number: Number, settled: Any, running: Running) -> None:
    failed, ended = number("rag_jobs_failed"), number("rag_documents_indexed_total", state="failed")
    # This machine itself is a private address: nothing is fetched.
    job = client.post("/api/v1/ingest/url", json={"url": "http://127.0.0.1:9/x"}).json()["data"]["job_id"]
    assert settled(client, job)["state"] == "failed"
    assert number("rag_jobs_failed") == failed + 1
    assert number("rag_documents_indexed_total", state="failed") == ended + 1
    with running.client() as one:
        texts = [{"uri": f"n{n}", "text": f"The weir of {n} was rebuilt."} for n in range(40)]
        jobs = [one.post("/api/v1/ingest/text", json=text).json()["data"]["job_id"] for text in texts]
        assert number("rag_queue_depth") >= 1
        for job in jobs:
            assert settled(one, job)["state"] == "completed"
    assert number("rag_queue_depth") == 0


def test_requests_are_counted_by_their_route(client: httpx2.Client, number: Number) -> None:
    labels = {"method": "GET", "route": "/api/v1/jobs/{job_id}", "status": "404"}
    before = number("http_request_duration_seconds_count", **labels)
    client.get("/api/v1/jobs/none")
    assert number("http_request_duration_seconds_count", **labels) == before + 1
    assert "/api/v1/jobs/none" not in client.get("/metrics").text
