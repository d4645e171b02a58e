"""A search past the time of its request answers with what it has."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Running

from headwater.testing.openai_server import OpenAIServer

# A fifth of it is left when the searches end: long enough for a busy machine to put the answer together.
REQUEST_SECONDS = 10.0


@pytest.fixture
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer() as made:
        yield made


@pytest.fixture
def embedding(tmp_path: Path, model: OpenAIServer) -> Iterator[Running]:
    """A server whose embedder is another server, and whose searches may take longer than its requests."""
    told = {"USE": "openai", "BASE_URL": model.url, "DIMENSIONS": str(model.dim), "API_KEY": "k", "MODEL": "m"}
    env = {f"HEADWATER_EMBED__{name}": value for name, value in told.items()}
    env |= {"HEADWATER_SERVER__DEADLINE_SECONDS": str(REQUEST_SECONDS), "HEADWATER_RETRIEVE__DEADLINE_SECONDS": "600"}
    running = Running(tmp_path / "home", env=env)
    yield running
    model.released.set()
    running.stop()


def test_a_leg_that_never_answers_costs_only_what_it_would_have_found(
    embedding: Running, model: OpenAIServer, settled: Any
) -> None:
    with embedding.client() as client:
        told = {"uri": "leave", "text": "Parents are entitled to 26 weeks of leave."}
        job = client.post("/api/v1/ingest/text", json=told).json()["data"]
        assert settled(client, job["id"])["state"] == "completed"
        model.script.extend(["wait"] * 100)
        bodies: list[dict[str, Any]] = [
            {"question": "weeks of leave"},
            {"question": [f"leave of {number} parents" for number in range(20)]},
            {"question": "parents leave", "options": {"deadline_seconds": 300}},
        ]
        store = client.get("/v1/vector_stores").json()["data"][0]["id"]
        searched = {"query": [f"weeks of {number} parents" for number in range(20)]}
        with ThreadPoolExecutor(len(bodies) + 1) as together:
            beside = together.submit(client.post, f"/v1/vector_stores/{store}/search", json=searched)
            answers = list(together.map(lambda body: client.post("/api/v1/retrieval", json=body), bodies))
    assert [answer.status_code for answer in answers] == [200] * len(bodies), [one.text for one in answers]
    files = beside.result()
    assert files.status_code == 200 and "26 weeks" in files.json()["data"][0]["content"][0]["text"], files.text
    assert any("not searched" in told for told in files.json()["degraded"])
    one, several, asked_for_more = (answer.json()["data"] for answer in answers)
    for found in (one, several["results"][0], asked_for_more):
        assert "26 weeks" in found["chunks"][0]["content"] and found["degraded"]
    assert all(found["degraded"] for found in several["results"])
    late = several["results"][-1]
    assert late["chunks"] == [] and "not searched" in late["degraded"][0]
    assert [found["question"] for found in several["results"]] == bodies[1]["question"]
