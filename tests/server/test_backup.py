"""`headwater pack` of a home whose server takes uploads: what was acknowledged is in it, done or still to be done."""

import json
import threading
from pathlib import Path
from typing import Any

import httpx2
from tests.starter import headwater as command

import headwater
from headwater.pack_file import verify
from headwater.server.worker import Worker
from headwater.storage.ledger import Ledger

BEFORE = 30  # uploads that are acknowledged before the pack is begun


def test_a_pack_of_a_live_server_opens_elsewhere_and_lost_nothing(server: Any, tmp_path: Path) -> None:
    acknowledged: list[str] = []
    enough, stop = threading.Event(), threading.Event()

    with server.client() as client:
        dataset = client.post("/api/v1/datasets", json={"name": "live"}).json()["data"]["id"]

    def upload() -> None:
        with server.client() as client:
            while not stop.is_set() and len(acknowledged) < 400:
                number = len(acknowledged)
                file = (f"n{number}.md", f"# Note {number}\n\nGauge number {number} showed {number} metres.".encode())
                answer = client.post(f"/api/v1/datasets/{dataset}/documents", files={"file": file})
                assert answer.status_code == 200, answer.text
                acknowledged.append(answer.json()["data"][0]["id"])
                if len(acknowledged) >= BEFORE:
                    enough.set()

    thread = threading.Thread(target=upload)
    thread.start()
    packs = []
    try:
        assert enough.wait(120)
        for number in range(3):
            promised = list(acknowledged)
            file = tmp_path / f"{number}.headwater"
            told = command("pack", str(file), "--home", str(server.home), "--json")
            assert told.code == 0, told.error
            assert json.loads(told.output)["documents"] == verify(file).documents
            packs.append((file, promised))
    finally:
        stop.set()
        thread.join()
    assert len(acknowledged) > len(packs[0][1])  # somebody wrote meanwhile
    for file, promised in packs:
        home = tmp_path / "elsewhere" / file.stem
        told = command("unpack", str(file), "--home", str(home))
        assert told.code == 0, told.error
        with headwater.open(home) as kb:
            ledger = Ledger(home)
            done = {id for id in promised if kb.catalog.record(id) is not None}
            # What is not there yet is still promised, and nothing is called done without its document.
            for id in set(promised) - done:
                assert ledger.jobs.latest([id])[id].is_open
            worker = Worker(kb, ledger, attempts=1)
            while worker.step():
                pass
            records = [kb.catalog.record(id) for id in promised]
            assert all(record is not None and record.state == "completed" for record in records)
            assert all(ledger.originals.get(id) is not None for id in promised)
            assert kb.check() == []
            assert kb.search(f"gauge number {len(promised) - 1}", top_n=3)
            ledger.close()


def test_the_server_it_was_taken_from_goes_on(server: Any) -> None:
    with server.client() as client:
        assert isinstance(client, httpx2.Client)
        found = client.post("/api/v1/retrieval", json={"question": "gauge number 7"}).json()["data"]
    assert found["total"] > 0
