"""A server that is killed while files come in and people talk: what it acknowledged is there, once; no job is stuck."""

import random
import re
import threading
import time
from dataclasses import dataclass
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


def talk(server: Running, *, said: dict[str, list[str]], stop: threading.Event, prefix: str) -> None:
    """Go on with a conversation, and remember the questions whose answer came, until the server is gone."""
    conversation, number = "", 0
    with server.client() as client:
        while not stop.is_set():
            number += 1
            question = f"How high did the water rise, {prefix} {number}?"
            told = {"question": question, "conversation_id": conversation, "stream": bool(number % 2)}
            try:
                answer = client.post("/api/v1/conversations", json=told)
            except httpx2.HTTPError:
                return
            found = re.search(r'"conversation_id": ?"(\w+)"', answer.text)
            if answer.status_code == 200 and found:
                conversation = found[1]
                said.setdefault(conversation, []).append(question)


@dataclass
class Figures:
    """What one run came to."""

    kills: int
    uploads: int
    answers: int
    jobs: int
    cut_off: int  # kills that came while an upload or an answer was under way
    minutes: float


def torture(home: Path, *, kills: int, seed: int) -> Figures:
    """Kill so many times; then everything that was acknowledged is there."""
    began = time.monotonic()
    said: dict[str, list[str]] = {}
    cut_off = 0
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
        told: dict[str, Any] = {"said": said, "stop": stop, "prefix": str(kill)}
        threads.append(threading.Thread(target=talk, args=(server,), kwargs=told))
        for thread in threads:
            thread.start()
        # However slow the machine is: the kill comes while files come in, after some were acknowledged.
        enough, end = len(acknowledged) + chance.randrange(1, 13), time.monotonic() + DONE_SECONDS
        while (len(acknowledged) < enough or len(said) <= kill) and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.2))
        cut_off += all(thread.is_alive() for thread in threads)
        server.kill()
        stop.set()
        for thread in threads:
            thread.join()
        server.start()
    try:
        _settle(server)
    finally:
        assert server.stop() == 0
    jobs = _check(home, acknowledged, said)
    answers = sum(map(len, said.values()))
    minutes = (time.monotonic() - began) / 60
    return Figures(
        kills=kills, uploads=len(acknowledged), answers=answers, jobs=jobs, cut_off=cut_off, minutes=round(minutes, 1)
    )


def _settle(server: Running) -> None:
    end = time.monotonic() + DONE_SECONDS
    with server.client() as client:
        while True:
            counts = client.get("/api/v1/jobs").json()["data"]["counts"]
            if not any(counts.get(state) for state in OPEN):
                return
            assert time.monotonic() < end, counts
            time.sleep(0.1)


def _check(home: Path, acknowledged: set[str], said: dict[str, list[str]]) -> int:
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
        for conversation, questions in said.items():
            turns = kb.conversations.get(conversation).turns
            asked = [turn.content for turn in turns if turn.role == "user"]
            assert [question for question in asked if question in questions] == questions  # each once, in order
            for question in questions:
                place = [turn.content for turn in turns].index(question)
                assert turns[place + 1].role == "assistant" and turns[place + 1].content
    return sum(counts.values())


def test_five_kills_lose_nothing(tmp_path: Path) -> None:
    figures = torture(tmp_path / "home", kills=5, seed=5)
    assert figures.uploads > 10 and figures.answers > 0 and figures.cut_off == 5, figures


@pytest.mark.slow
def test_fifty_kills_lose_nothing(tmp_path: Path) -> None:
    figures = torture(tmp_path / "home", kills=50, seed=50)
    print(figures)  # for docs/reliability.md
    assert figures.uploads > 100 and figures.answers > 50 and figures.cut_off == 50, figures


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
    _check(tmp_path / "home", set(names), {})
