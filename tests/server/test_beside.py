"""What goes on beside the routes: pressure, other processes, failing models, webhooks, keys, views of one home."""

import hmac
import inspect
import json
import re
import subprocess
import sys
import threading
import time
from functools import cached_property
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from tests.server.conftest import Running

import headwater
from headwater.build import KnowledgeBase, open_home
from headwater.cli import cli
from headwater.commands.key import until
from headwater.commands.serve import is_loopback
from headwater.errors import BackendError, NotFound, UsageError
from headwater.models.hashed import HashedEmbedder
from headwater.server.pools import Busy, Pool, TooLate
from headwater.server.state import Counting, _counted
from headwater.server.worker import Worker
from headwater.storage.ledger import Ledger
from headwater.types import document_id
from headwater.views import OWN, shared_parts


def test_too_many_requests_are_told_to_come_back(tmp_path: Path) -> None:
    settings = {"HEADWATER_SERVER__RETRIEVAL_THREADS": "1", "HEADWATER_SERVER__WAITING": "0"}
    server = Running(tmp_path / "home", env=settings)
    statuses: list[int] = []
    waits: list[str] = []

    def ask() -> None:
        with server.client() as client:
            for number in range(10):
                question = {"question": [f"water {number} {n}" for n in range(50)]}
                answer = client.post("/api/v1/retrieval", json=question)
                statuses.append(answer.status_code)
                waits.extend([answer.headers["retry-after"]] if answer.status_code == 429 else [])
                assert answer.status_code == 200 or answer.json()["error"] == "OPERATING_ERROR"

    with server.client() as client:
        client.post("/api/v1/ingest/text", json={"uri": "a", "text": "The pump moves water."})
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 429} and all(int(wait) >= 1 for wait in waits)
    assert server.stop() == 0


def test_a_pool_is_bounded_and_knows_the_time() -> None:
    pool, hold = Pool("test", threads=1, waiting=1), threading.Event()
    pool.submit(hold.wait)
    pool.submit(hold.wait)
    with pytest.raises(Busy):
        pool.submit(hold.wait)
    assert pool.taken == 2
    hold.set()
    pool.close()
    assert pool.taken == 0
    import asyncio

    slow = Pool("slow", threads=1, waiting=1)
    with pytest.raises(TooLate):
        asyncio.run(slow.run(lambda: time.sleep(0.5), deadline_seconds=0.05))
    slow.close()


def test_add_in_another_process_while_the_server_runs(tmp_path: Path, handbook: Path) -> None:
    server = Running(tmp_path / "home")
    with server.client() as client:
        jobs = [
            client.post("/api/v1/ingest/text", json={"uri": f"n{n}", "text": f"note {n} about water"}).json()["data"]
            for n in range(20)
        ]
        command = [sys.executable, "-m", "headwater", "add", str(handbook), "--home", str(tmp_path / "home"), "--json"]
        added = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert added.returncode == 0, added.stderr
        assert json.loads(added.stdout)["added"] == 4
        found = client.post("/api/v1/retrieval", json={"question": "PPR-9087"}).json()["data"]["chunks"]
        assert "PPR-9087" in found[0]["content"]
        end = time.monotonic() + 60
        while client.get(f"/api/v1/jobs/{jobs[-1]['id']}").json()["data"]["state"] != "completed":
            assert time.monotonic() < end
            time.sleep(0.05)
        names = [one["name"] for one in client.get("/api/v1/datasets").json()["data"]]
        assert names == ["default"]
    assert server.stop() == 0


def test_a_worker_of_its_own_does_the_work(tmp_path: Path) -> None:
    server = Running(tmp_path / "home", arguments=("--no-worker",))
    with server.client() as client:
        job = client.post("/api/v1/ingest/text", json={"uri": "a", "text": "The pump moves water."}).json()["data"]
        assert client.get(f"/api/v1/jobs/{job['id']}").json()["data"]["state"] == "pending"
        command = [sys.executable, "-m", "headwater", "worker", "--once", "--home", str(tmp_path / "home")]
        subprocess.run(command, check=True, timeout=120, capture_output=True)
        assert client.get(f"/api/v1/jobs/{job['id']}").json()["data"]["state"] == "completed"
        assert client.post("/api/v1/retrieval", json={"question": "pump"}).json()["data"]["total"] == 1
    assert server.stop() == 0


class Failing(HashedEmbedder):
    """An embedder whose server is down for a while."""

    down = True

    def embed(self, texts: Any, role: Any) -> Any:
        if self.down:
            raise BackendError("the embedding server is down")
        return super().embed(texts, role)


def promised(ledger: Ledger, text: str) -> str:
    hash = ledger.originals.write(text.encode())
    work = {"hash": hash, "mime": "text/plain", "labels": {}}
    id = document_id("local", "default", "text:/a")
    given: Any = {"owner": "local", "collection": "default", "document": id, "uri": "text:/a"}
    return ledger.jobs.add(**given, kind="put", work=work).id


def test_a_failing_model_is_tried_again_and_then_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.storage._jobs.FIRST_PAUSE_SECONDS", 0.0)
    embedder = Failing(dim=64)
    with open_home(tmp_path / "home", embedder=embedder) as kb:
        ledger = Ledger(kb.home)
        job = promised(ledger, "The pump moves water.")
        worker = Worker(kb, ledger, attempts=3)
        worker.step()
        now = ledger.jobs.get(job)
        assert now is not None and now.state == "pending" and now.attempts == 1 and "down" in now.reason
        embedder.down = False
        worker.step()
        now = ledger.jobs.get(job)
        assert now is not None and now.state == "completed"
        assert len(kb.search("pump")) == 1
        embedder.down = True
        job = promised(ledger, "The valve leaks oil.")
        for _ in range(3):
            worker.step()
        now = ledger.jobs.get(job)
        assert now is not None and now.state == "failed" and "3 attempts" in now.reason
        assert kb.catalog.pending() == 0
        assert [hit.chunk.text for hit in kb.search("pump", mode="keyword")] == ["The pump moves water."]
        ledger.close()


def test_the_most_urgent_job_comes_first(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    given: Any = {"owner": "local", "collection": "c", "kind": "put", "work": {}}
    ids = [ledger.jobs.add(**given, document=str(n), uri=str(n), priority=n % 3).id for n in range(6)]
    ledger.jobs.prioritise(ids[0], 9)
    taken = [job.id for job in ledger.jobs.take("w", limit=4, kinds=("put",))]
    assert taken == [ids[0], ids[2], ids[5], ids[1]]
    asked, ended = ledger.jobs.cancel(ids[2]), ledger.jobs.cancel(ids[4])
    assert asked is not None and (asked.state, bool(asked.stop)) == ("processing", True)
    assert ended is not None and ended.state == "cancelled"
    assert ledger.jobs.recover(kinds=("put",)) == 4
    ledger.close()


class Listening(BaseHTTPRequestHandler):
    """Refuses the first message and takes the second."""

    got: ClassVar[list[tuple[dict[str, str], bytes]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((dict(self.headers), body))
        self.send_response(500 if len(self.got) == 1 else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def test_webhooks_are_signed_and_sent_again(tmp_path: Path) -> None:
    listener = HTTPServer(("127.0.0.1", 0), Listening)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    server = Running(tmp_path / "home", env={"HEADWATER_WEB__ALLOW_PRIVATE": "true"})
    with server.client() as client:
        url = f"http://127.0.0.1:{listener.server_port}/hook"
        secret = client.post("/api/v1/webhooks", json={"url": url, "events": ["job.completed"]}).json()["data"][
            "secret"
        ]
        job = client.post("/api/v1/ingest/text", json={"uri": "a", "text": "The pump moves water."}).json()["data"]
        end = time.monotonic() + 60
        while len(Listening.got) < 2:
            assert time.monotonic() < end
            time.sleep(0.05)
    headers, body = Listening.got[1]
    signed = re.fullmatch(r"t=(\d+),v1=(\w+)", headers["X-Headwater-Signature"])
    assert signed is not None
    assert hmac.new(secret.encode(), f"{signed[1]}.".encode() + body, "sha256").hexdigest() == signed[2]
    assert json.loads(body)["event"] == "job.completed" and json.loads(body)["data"]["id"] == job["id"]
    assert server.stop() == 0
    listener.shutdown()
    listener.server_close()


def test_keys_are_made_listed_and_revoked(tmp_path: Path) -> None:
    runner, home = CliRunner(), str(tmp_path / "home")
    made = json.loads(runner.invoke(cli, ["key", "create", "--owner", "anna", "--home", home, "--json"]).output)
    ledger = Ledger(tmp_path / "home")
    found = ledger.keys.find(made["key"])
    assert found is not None and found.owner == "anna" and found.id == made["id"]
    listed = runner.invoke(cli, ["key", "list", "--home", home, "--json"]).output
    assert made["id"] in listed and made["key"] not in listed
    assert runner.invoke(cli, ["key", "revoke", made["id"], "--home", home]).exit_code == 0
    assert ledger.keys.find(made["key"]) is None and not ledger.keys.any()
    with pytest.raises(NotFound):
        ledger.keys.revoke("unknown")
    ledger.close()
    assert until("") == "" and until("30d") > until("1h") and until("2030-01-01").startswith("2030-01-01")
    for wrong in ("soon", "2001-01-01", "0h", f"{10**12}y"):
        with pytest.raises(UsageError, match=re.escape(repr(wrong))):
            until(wrong)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_nobody_listens_elsewhere_without_a_key(tmp_path: Path, host: str) -> None:
    command = [sys.executable, "-m", "headwater", "serve", "--home", str(tmp_path), "--host", host, "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2 and "key create" in ended.stderr


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "localhost.evil.example"]))


def test_views_of_one_home_share_its_parts_and_not_its_documents(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "home") as kb:
        anna = kb.for_owner("anna")
        ben = kb.for_owner("ben", shared=[("anna", "open")])
        anna.add_text("The secret of anna.", uri="s")
        anna.add_text("The open word of anna.", uri="o", collection="open")
        ben.add_text("The secret of ben.", uri="s")
        assert anna.catalog is ben.catalog and anna.engine is ben.engine
        assert {hit.record.owner for hit in anna.search("secret word")} == {"anna"}
        texts = {hit.chunk.text for hit in ben.search("secret word of anna")}
        assert texts == {"The secret of ben.", "The open word of anna."}
        assert [one.uri for one in kb.documents()] == []
        secret = document_id("anna", "default", "s")
        for verb in (ben.record, ben.document, ben.chunks, ben.remove, ben.seen):
            with pytest.raises(NotFound):
                verb(secret)
        narrow = kb.for_owner("anna", collections=["open"])
        assert [one.uri for one in narrow.documents()] == ["o"]
        assert ben.for_owner("anna").seen(secret).uri == "s"
        anna.close()
        assert len(kb.for_owner("anna").search("secret")) >= 1  # closing a view closes nothing


def test_no_part_that_knows_an_owner_is_shared_by_views() -> None:
    for name in shared_parts(KnowledgeBase):
        for one in KnowledgeBase.__mro__:
            member = vars(one).get(name)
            read = member.func if isinstance(member, cached_property) else getattr(member, "fget", None)
            if read is not None:
                assert "self.owner" not in inspect.getsource(read), f"{name} belongs to an owner: name it in views.OWN"
    assert all(hasattr(KnowledgeBase, name) for name in OWN)


def test_the_command_line_does_not_load_the_server() -> None:
    code = "import sys, headwater.cli; print(sorted({'fastapi', 'uvicorn', 'prometheus_client'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_collections_are_counted_alike_by_the_catalog_and_by_hand(tmp_path: Path) -> None:
    with open_home(tmp_path / "home") as kb:
        kb.add_text("The pump moves water.", uri="a")
        kb.add_text("The weir holds it.", uri="b", collection="weirs")
        assert isinstance(kb.catalog, Counting)
        plain: Any = SimpleNamespace(catalog=SimpleNamespace(records=kb.catalog.records))
        assert not isinstance(plain.catalog, Counting)
        assert _counted(kb) == _counted(plain) == {("local", "default"): (1, 1), ("local", "weirs"): (1, 1)}
