"""Webhooks are told of every job that ends, whatever happens to the process that should tell them."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Running
from tests.server.test_outside import Listener

from headwater.server.announcer import Announcer
from headwater.sources.web import Web
from headwater.storage.ledger import Ledger

ALLOWED = {"HEADWATER_WEB__ALLOW_PRIVATE": "true"}
EVERY = ["job.completed", "job.empty", "job.failed", "job.cancelled"]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.close()


def job(ledger: Ledger, name: str, *, owner: str = "local") -> str:
    told: Any = {"owner": owner, "collection": "c", "kind": "put", "work": {"hash": "the-secret-of-the-work"}}
    return ledger.jobs.add(**told, document=name, uri=name).id


def until(holds: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_every_end_of_a_job_is_written_down_with_it(ledger: Ledger) -> None:
    ledger.journal.add_webhook("local", url="https://a.example/", secret="s", events=EVERY)
    ledger.journal.add_webhook("local", url="https://b.example/", secret="s", events=["job.failed"])
    ledger.journal.add_webhook("anna", url="https://c.example/", secret="s", events=EVERY)
    ledger.jobs.finish(job(ledger, "1"), "completed")
    ledger.jobs.finish(job(ledger, "2"), "failed", "no such page")
    assert ledger.jobs.cancel(job(ledger, "3"))
    replaced, later = job(ledger, "4"), job(ledger, "4")
    ledger.jobs.finish(later, "indexed")  # not an end
    told = {}
    while taken := ledger.outbox.take(limit=9, lease_seconds=0):
        for one in taken:
            told.setdefault(one.url, []).append((one.event, one.job["id"] == replaced, one.job["reason"]))
            ledger.outbox.drop(one)
            assert "work" not in one.job
    assert told == {
        "https://a.example/": [
            ("job.completed", False, ""),
            ("job.failed", False, "no such page"),
            ("job.cancelled", False, ""),
            ("job.cancelled", True, "replaced by a later one"),
        ],
        "https://b.example/": [("job.failed", False, "no such page")],
    }


def test_a_message_is_taken_by_one_at_a_time_and_in_order(ledger: Ledger) -> None:
    hook = ledger.journal.add_webhook("local", url="https://a.example/", secret="s", events=EVERY)
    for name in ("1", "2"):
        ledger.jobs.finish(job(ledger, name), "completed")
    now = time.time()
    (first,) = ledger.outbox.take(limit=9, lease_seconds=30, now=now)
    assert first.job["uri"] == "1" and first.attempts == 1
    assert ledger.outbox.take(limit=9, lease_seconds=30, now=now + 29) == []  # somebody has it, and it is the first
    (again,) = ledger.outbox.take(limit=9, lease_seconds=30, now=now + 31)  # who had it is gone
    assert (again.id, again.attempts) == (first.id, 2)
    ledger.outbox.postpone(again, until=now + 100, reason="no answer")
    assert ledger.outbox.waiting([hook]) == {hook: (2, "no answer")}
    assert ledger.outbox.take(limit=9, lease_seconds=30, now=now + 99) == []
    ledger.outbox.drop(again)
    assert [one.job["uri"] for one in ledger.outbox.take(limit=9, lease_seconds=30, now=now + 40)] == ["2"]
    assert ledger.journal.remove_webhook("local", hook) and ledger.outbox.waiting([hook]) == {}


def test_one_address_that_hangs_does_not_hold_up_another(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.announcer.TIMEOUT_SECONDS", 1.0)
    with Listener() as listener, socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (silent.getsockname()[1], listener.port):
            ledger.journal.add_webhook("local", url=f"http://127.0.0.1:{port}/", secret="s", events=EVERY)
        for name in map(str, range(3)):
            ledger.jobs.finish(job(ledger, name), "completed")
        announcer = Announcer(ledger, web=lambda: Web(allow_private=True))
        announcer.start()
        until(lambda: len(listener.got) == 3, seconds=20)
        announcer.close()
    assert [json.loads(body)["data"]["uri"] for _, body in listener.got] == ["0", "1", "2"]


def test_a_killed_server_tells_when_it_is_back(tmp_path: Path, settled: Any) -> None:
    server = Running(tmp_path / "home", env=ALLOWED)
    with Listener(500) as listener:
        with server.client() as client:
            url = f"http://127.0.0.1:{listener.port}/hook"
            assert client.post("/api/v1/webhooks", json={"url": url}).status_code == 200
            made = client.post("/api/v1/ingest/text", json={"uri": "a", "text": "The pump moves water."}).json()["data"]
            assert settled(client, made["id"])["state"] == "completed"
            until(lambda: client.get("/api/v1/webhooks").json()["data"][0]["reason"])
            (hook,) = client.get("/api/v1/webhooks").json()["data"]
            assert (hook["waiting"], hook["reason"]) == (1, "status 500")
        server.kill()
        refused = len(listener.got)
        listener.statuses = [204]
        server.start()
        with server.client() as client:
            until(lambda: client.get("/api/v1/webhooks").json()["data"][0]["waiting"] == 0)
        assert server.stop() == 0
    assert refused >= 1 and len(listener.got) == refused + 1
    assert {json.loads(body)["data"]["id"] for _, body in listener.got} == {made["id"]}


def test_a_worker_of_its_own_tells_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Listener() as listener:
        server = Running(home, env=ALLOWED, arguments=("--no-worker",))
        with server.client() as client:
            client.post("/api/v1/webhooks", json={"url": f"http://127.0.0.1:{listener.port}/hook"})
            client.post("/api/v1/ingest/text", json={"uri": "a", "text": "The pump moves water."})
        assert server.stop() == 0
        assert listener.got == []
        command = [sys.executable, "-m", "headwater", "worker", "--once", "--home", str(home)]
        subprocess.run(command, check=True, timeout=120, capture_output=True, env=server.environment)
    assert [json.loads(body)["event"] for _, body in listener.got] == ["job.completed"]
