"""Cancelling what a real server has in hand: by its own routes, by RAGFlow's client, with a parser that is at it."""

import io
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ragflow_sdk import RAGFlow
from reportlab.pdfgen import canvas
from tests.server.conftest import DONE_SECONDS, Running

from headwater.sandbox import limits
from headwater.server.app import SHUTDOWN_SECONDS
from headwater.storage.ledger import STOPPED
from headwater.testing.openai_server import OpenAIServer

PUMP = b"# Pump\n\nThe pump moves water.\n"
PAGES = 1000  # takes some dozens of seconds to read


@pytest.fixture
def slow() -> Iterator[OpenAIServer]:
    with OpenAIServer(script=["wait"] * 100) as made:
        yield made


@pytest.fixture
def embedding(tmp_path: Path, slow: OpenAIServer) -> Iterator[Running]:
    """A server whose embedder is another server."""
    told = {"USE": "openai", "BASE_URL": slow.url, "DIMENSIONS": str(slow.dim), "API_KEY": "k", "MODEL": "m"}
    running = Running(tmp_path / "home", env={f"HEADWATER_EMBED__{name}": value for name, value in told.items()})
    yield running
    slow.released.set()
    running.stop()


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + DONE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.03)


def test_a_document_that_waits_for_its_vectors_is_stopped(embedding: Running, slow: OpenAIServer, settled: Any) -> None:
    with embedding.client() as client:
        made = client.post("/api/v1/ingest/text", json={"uri": "pump", "text": PUMP.decode()}).json()["data"]
        job = made["job_id"]
        assert slow.waiting.wait(DONE_SECONDS)
        asked = client.post(f"/api/v1/jobs/{job}/cancel")
        told = asked.json()["data"]
        assert asked.status_code == 200 and told["stopping"] is True and told["state"] == "indexed"
        again = client.post(f"/api/v1/jobs/{job}/cancel")
        assert again.status_code == 200 and again.json()["data"]["stopping"] is True
        slow.released.set()
        done = settled(client, job)
        assert (done["state"], done["reason"], done["stopping"]) == ("cancelled", STOPPED, False)
        assert client.post("/api/v1/retrieval", json={"question": "pump"}).json()["data"]["chunks"] == []
        once_more = client.post(f"/api/v1/jobs/{job}/cancel")
        assert once_more.status_code == 200 and once_more.json()["data"]["state"] == "cancelled"
        assert client.post(f"/api/v1/jobs/{job}/retry").status_code == 200
        assert settled(client, job)["state"] == "completed"
        late = client.post(f"/api/v1/jobs/{job}/cancel")
        assert late.status_code == 409 and "the job is completed" in late.json()["message"]
        assert client.post("/api/v1/retrieval", json={"question": "pump"}).json()["data"]["chunks"]


def test_a_server_ends_while_its_embedder_hangs_and_its_jobs_are_done_later(
    embedding: Running, slow: OpenAIServer, settled: Any
) -> None:
    with embedding.client() as client:
        made = client.post("/api/v1/ingest/text", json={"uri": "pump", "text": PUMP.decode()}).json()["data"]
        assert slow.waiting.wait(DONE_SECONDS)
    embedding.process.terminate()
    assert embedding.process.wait(SHUTDOWN_SECONDS + DONE_SECONDS) == 0
    assert "whose job is done at the next start" in embedding.log.read_text("utf-8")
    slow.released.set()
    embedding.start()
    with embedding.client() as client:
        assert settled(client, made["job_id"])["state"] == "completed"
        assert client.post("/api/v1/retrieval", json={"question": "pump"}).json()["data"]["chunks"]


def test_the_client_of_ragflow_stops_what_is_in_hand(embedding: Running, slow: OpenAIServer) -> None:
    rag = RAGFlow(embedding.key("anna", rights="admin"), embedding.base)
    dataset = rag.create_dataset("handbook")
    (document,) = dataset.upload_documents([{"display_name": "pump.md", "blob": PUMP}])
    assert slow.waiting.wait(DONE_SECONDS)
    assert dataset.list_documents()[0].run == "RUNNING"
    dataset.async_cancel_parse_documents([document.id])
    slow.released.set()
    until(lambda: dataset.list_documents()[0].run == "CANCEL")
    assert dataset.list_documents()[0].chunk_count == 0
    ((id, run, chunks, _),) = dataset.parse_documents([document.id])
    assert (id, run) == (document.id, "DONE") and chunks > 0


def test_what_is_stopped_can_be_started_before_it_has_ended(embedding: Running, slow: OpenAIServer) -> None:
    with embedding.client() as client:
        dataset = client.post("/api/v1/datasets", json={"name": "gauges"}).json()["data"]["id"]
        route = f"/api/v1/datasets/{dataset}"
        sent = client.post(f"{route}/documents", files=[("file", ("pump.md", PUMP))]).json()["data"][0]
        assert slow.waiting.wait(DONE_SECONDS)
        stopped = client.request("DELETE", f"{route}/chunks", json={"document_ids": [sent["id"]]}).json()["data"]
        assert stopped == {"cancelled": 0, "stopping": 1}
        (started,) = client.post(f"{route}/chunks", json={"document_ids": [sent["id"]]}).json()["data"]["jobs"]
        assert started != sent["job_id"]
        slow.released.set()
        until(lambda: client.get(f"/api/v1/jobs/{started}").json()["data"]["state"] == "completed")
        assert client.get(f"/api/v1/jobs/{sent['job_id']}").json()["data"]["state"] == "cancelled"
        assert client.get(f"{route}/documents").json()["data"]["docs"][0]["run"] == "DONE"


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system for the processes of the server")
def test_a_parser_at_a_long_document_is_killed(server: Running, settled: Any) -> None:
    with server.client() as client:
        dataset = client.post("/api/v1/datasets", json={"name": "long"}).json()["data"]["id"]
        files: Any = [("file", ("long.pdf", long_pdf()))]
        (sent,) = client.post(f"/api/v1/datasets/{dataset}/documents", files=files).json()["data"]
        job = f"/api/v1/jobs/{sent['job_id']}"
        until(lambda: client.get(job).json()["data"]["stage"] == "parse" and parsers(server))
        (at_it,) = parsers(server)
        assert client.post(f"{job}/cancel").status_code == 200
        done = settled(client, sent["job_id"])
        assert (done["state"], done["reason"]) == ("cancelled", STOPPED)
        assert at_it not in parsers(server)
        (listed,) = client.get(f"/api/v1/datasets/{dataset}/documents").json()["data"]["docs"]
        assert (listed["run"], listed["chunk_count"]) == ("CANCEL", 0)


def parsers(server: Running) -> list[int]:
    """The processes that parse for a server."""
    found = []
    for pid in limits.descendants(server.process.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"headwater.sandbox.worker" in command:
            found.append(pid)
    return found


def long_pdf() -> bytes:
    out = io.BytesIO()
    drawn = canvas.Canvas(out)
    for page in range(PAGES):
        for line in range(40):
            drawn.drawString(60, 800 - 18 * line, f"Page {page}, line {line}: gauge {line * page} stood at {line} m.")
        drawn.showPage()
    drawn.save()
    return out.getvalue()
