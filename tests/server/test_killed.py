"""A server that is killed while files come in: what it acknowledged is indexed, once, and no job is stuck."""

import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

from headwater.build import open_home
from headwater.storage.ledger import Ledger

OPEN = ("pending", "processing", "indexed")
DONE_SECONDS = 120.0


def text_of(name: str) -> bytes:
    return f"# Note {name}\n\nThe water at gauge {name} rose to {len(name)} metres. 水位站 {name} 的记录。\n".encode()


def upload(server: Running, dataset: str, *, acknowledged: set[str], stop: threading.Event, prefix: str) -> None:
    """Upload as fast as it goes, and remember what was acknowledged, until the server is gone."""
    number = 0
    with server.client() as client:
        while not stop.is_set():
            names = [f"{prefix}-{number + n}.md" for n in range(3)]
            number += 3
            try:
                files: Any = [("file", (name, text_of(name))) for name in names]
                answer = client.post(f"/api/v1/datasets/{dataset}/documents", files=files)
            except httpx2.HTTPError:
                return
            if answer.status_code == 200:
                acknowledged.update(names)


def torture(home: Path, *, kills: int, seed: int) -> int:
    """Kill so many times; then everything that was acknowledged is there. Returns how much that was."""
    chance = random.Random(seed)
    server = Running(home)
    with server.client() as client:
        dataset = client.post("/api/v1/datasets", json={"name": "gauges"}).json()["data"]["id"]
    acknowledged: set[str] = set()
    for kill in range(kills):
        stop = threading.Event()
        given: dict[str, Any] = {"acknowledged": acknowledged, "stop": stop}
        threads = [
            threading.Thread(target=upload, args=(server, dataset), kwargs={**given, "prefix": f"{kill}-{n}"})
            for n in range(2)
        ]
        for thread in threads:
            thread.start()
        # However slow the machine is: the kill comes while files come in, after some were acknowledged.
        enough, end = len(acknowledged) + chance.randrange(1, 13), time.monotonic() + DONE_SECONDS
        while len(acknowledged) < enough and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.2))
        server.kill()
        stop.set()
        for thread in threads:
            thread.join()
        server.start()
    try:
        _settle(server)
    finally:
        assert server.stop() == 0
    _check(home, acknowledged)
    return len(acknowledged)


def _settle(server: Running) -> None:
    end = time.monotonic() + DONE_SECONDS
    with server.client() as client:
        while True:
            counts = client.get("/api/v1/jobs").json()["data"]["counts"]
            if not any(counts.get(state) for state in OPEN):
                return
            assert time.monotonic() < end, counts
            time.sleep(0.1)


def _check(home: Path, acknowledged: set[str]) -> None:
    ledger = Ledger(home)
    counts = ledger.jobs.counts()
    ledger.close()
    assert not set(counts) & set(OPEN), counts
    with open_home(home) as kb:
        records = kb.documents(collection="gauges")
        names = [record.uri.removeprefix("upload:/") for record in records]
        assert len(names) == len(set(names))
        assert acknowledged <= set(names)
        assert {record.state for record in records} == {"completed"}
        for record in records:
            (chunk,) = kb.chunks(record.id)
            assert chunk.text == kb.document(record.id).text[slice(*chunk.span)]
        assert kb.check() == []
        one = sorted(acknowledged)[0].removesuffix(".md")
        assert kb.search(f"gauge {one}", top_n=1)[0].title == f"Note {one}.md"


def test_five_kills_lose_nothing(tmp_path: Path) -> None:
    assert torture(tmp_path / "home", kills=5, seed=5) > 10


@pytest.mark.slow
def test_fifty_kills_lose_nothing(tmp_path: Path) -> None:
    assert torture(tmp_path / "home", kills=50, seed=50) > 100


def test_a_server_that_is_told_to_stop_ends_its_work_and_loses_nothing(tmp_path: Path) -> None:
    server = Running(tmp_path / "home")
    with server.client() as client:
        dataset = client.post("/api/v1/datasets", json={"name": "gauges"}).json()["data"]["id"]
        names = [f"{n}.md" for n in range(90)]
        files: Any = [("file", (name, text_of(name))) for name in names]
        assert client.post(f"/api/v1/datasets/{dataset}/documents", files=files).status_code == 200
    assert server.stop() == 0
    server.start()
    _settle(server)
    assert server.stop() == 0
    _check(tmp_path / "home", set(names))
