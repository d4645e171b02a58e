"""What the server connects to because somebody asked it to: webhooks and pages, and no way from there inside."""

import asyncio
import hmac
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpcore2
import pytest
from tests.server.conftest import Running

from headwater.build import open_home
from headwater.server.announcer import Announcer
from headwater.server.app import create_app
from headwater.server.worker import Worker
from headwater.sources.web import Web
from headwater.storage.ledger import Ledger
from headwater.testing._loopback import Loopback
from headwater.testing.web_server import Page, Site
from headwater.types import document_id

PUBLIC = "93.184.215.14"


class Listener(Loopback):
    """Takes what it is sent; `statuses` are what it answers, the last one for all that follow."""

    def __init__(self, *statuses: int, location: str = "") -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.statuses = list(statuses) or [204]
        listener = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                listener.got.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
                statuses = listener.statuses
                self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
                if location:
                    self.send_header("Location", location)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        super().__init__(Answering)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.announcer.PAUSES", (0.0,))


def told(ledger: Ledger, web: Web, url: str, *, steps: int = 10) -> tuple[int, str]:
    """Tell an address of one job, with so many steps; how many messages wait then, and why."""
    hook = ledger.journal.add_webhook("local", url=url, secret="the secret", events=["job.completed"])
    whose: Any = {"owner": "local", "collection": "c", "document": url, "uri": url, "kind": "put", "work": {}}
    ledger.jobs.finish(ledger.jobs.add(**whose).id, "completed")
    announcer = Announcer(ledger, web=lambda: web)
    for _ in range(steps):
        announcer.step()
    return ledger.outbox.waiting([hook]).get(hook, (0, ""))


def test_a_message_is_signed_and_sent_until_it_arrives(ledger: Ledger) -> None:
    with Listener(500, 503, 204) as listener:
        url = f"http://127.0.0.1:{listener.port}/hook?a=1&utm_source=x"
        assert told(ledger, Web(allow_private=True), url) == (0, "")
    assert len(listener.got) == 3
    assert len({body for _, body in listener.got}) == 1  # the same each time, so that it is known again
    assert {headers["X-Headwater-Delivery"] for headers, _ in listener.got} == {json.loads(listener.got[0][1])["id"]}
    headers, body = listener.got[-1]
    signed = re.fullmatch(r"t=(\d+),v1=(\w+)", headers["X-Headwater-Signature"])
    assert signed is not None and abs(int(signed[1]) - time.time()) < 60
    assert hmac.new(b"the secret", f"{signed[1]}.".encode() + body, "sha256").hexdigest() == signed[2]
    assert headers["Content-Type"] == "application/json" and json.loads(body)["event"] == "job.completed"


def test_one_that_never_arrives_is_kept_for_a_day(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    with Listener(500) as listener:
        url = f"http://127.0.0.1:{listener.port}/"
        assert told(ledger, Web(allow_private=True), url) == (1, "status 500")
        assert len(listener.got) == 10
        monkeypatch.setattr("headwater.server.announcer.KEPT_SECONDS", 0.0)
        announcer = Announcer(ledger, web=lambda: Web(allow_private=True))
        assert [announcer.step(), announcer.step()] == [1, 0]
    assert len(listener.got) == 11


def test_one_that_is_refused_does_not_hold_the_others_up_for_long(ledger: Ledger) -> None:
    with Listener(400, 400, 400, 400, 204) as listener:
        url = f"http://127.0.0.1:{listener.port}/"
        assert told(ledger, Web(allow_private=True), url, steps=1) == (1, "status 400")
        whose: Any = {"owner": "local", "collection": "c", "document": "2", "uri": "two", "kind": "put", "work": {}}
        ledger.jobs.finish(ledger.jobs.add(**whose).id, "completed")
        announcer = Announcer(ledger, web=lambda: Web(allow_private=True))
        assert [announcer.step() for _ in range(5)] == [1, 1, 1, 1, 0]
    assert [json.loads(body)["data"]["uri"] for _, body in listener.got] == [*[url] * 4, "two"]


def test_a_private_address_is_not_told_whatever_its_name_says(ledger: Ledger) -> None:
    looked_up: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return [PUBLIC, "127.0.0.1"] if host == "both.test" else ["127.0.0.1"]

    with Listener() as listener:
        for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "inside.test", "both.test"):
            assert told(ledger, Web(resolve=resolve), f"http://{host}:{listener.port}/") == (0, "")
            (hook,) = ledger.journal.webhooks("local")
            assert ledger.journal.remove_webhook("local", hook["id"])
    assert listener.got == [] and looked_up == ["inside.test", "both.test"]  # each once: another try cannot help


def test_a_name_is_connected_to_by_the_number_that_was_judged(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that means the public at first and this machine later: every try is judged anew, and none gets inside."""
    connected: list[str] = []
    with Listener(500) as listener:
        inner = httpcore2.SyncBackend.connect_tcp

        def connect(self: Any, host: str, port: int, **given: Any) -> Any:
            connected.append(host)
            return inner(self, "127.0.0.1", listener.port, **given)  # all of the public stands on this machine

        monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)
        answers = iter([[PUBLIC], [PUBLIC], ["127.0.0.1"], ["127.0.0.1"]])
        web = Web(resolve=lambda host, port: next(answers))
        assert told(ledger, web, "http://rebind.test/hook") == (0, "")
    assert connected == [PUBLIC, PUBLIC]
    assert {headers["Host"] for headers, _ in listener.got} == {"rebind.test"}


def test_a_redirect_of_a_webhook_is_not_followed(ledger: Ledger) -> None:
    with Listener() as inside, Listener(307, location=f"http://127.0.0.1:{inside.port}/") as listener:
        assert told(ledger, Web(allow_private=True), f"http://127.0.0.1:{listener.port}/") == (0, "")
    assert len(listener.got) == 4 and inside.got == []


def test_finished_jobs_are_told_to_their_owner_only(tmp_path: Path) -> None:
    with Listener() as listener:
        server = Running(tmp_path / "home", env={"HEADWATER_WEB__ALLOW_PRIVATE": "true"})
        keys = {owner: server.key(owner, rights="admin") for owner in ("anna", "ben")}
        url = f"http://127.0.0.1:{listener.port}/hook"
        with server.client(keys["anna"]) as client:
            assert client.post("/api/v1/webhooks", json={"url": url}).status_code == 200
        for owner in ("ben", "anna"):
            with server.client(keys[owner]) as client:
                client.post("/api/v1/ingest/text", json={"uri": owner, "text": f"The pump of {owner}."})
        end = time.monotonic() + 60
        while not listener.got:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert server.stop() == 0
    jobs = [json.loads(body)["data"] for _, body in listener.got]
    assert [one["uri"] for one in jobs] == ["text:/anna"] and "owner" not in jobs[0]


# ------------------------------------------------------------------------------------------------ pages


def fetched(tmp_path: Path, web: Web, url: str) -> tuple[str, str]:
    """The state and the reason of a job that fetches a page."""
    with open_home(tmp_path / "home") as kb:
        kb.__dict__["web"] = web
        ledger = Ledger(kb.home)
        job = ledger.jobs.add(
            owner="local",
            collection="default",
            document=document_id("local", "default", url),
            uri=url,
            kind="url",
            work={"url": url, "labels": {}},
        )
        worker = Worker(kb, ledger, attempts=1)
        while worker.step():
            pass
        ended = ledger.jobs.get(job.id)
        ledger.close()
    assert ended is not None
    return ended.state, ended.reason


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://2852039166/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_FLUSHALL",
    ],
)
def test_a_redirect_does_not_lead_inside(tmp_path: Path, site: Site, target: str) -> None:
    """Also where pages of private networks are allowed: the keys of a cloud never are, nor what is no page."""
    site.pages["/away"] = Page(status=302, headers={"Location": target})
    state, reason = fetched(tmp_path, Web(allow_private=True), site.url("/away"))
    assert state == "failed" and re.search("never fetched|only http|no host name", reason), reason
    assert "/away" in site.paths()


def test_a_page_whose_name_turns_round_is_not_fetched(
    tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[str] = []
    inner = httpcore2.SyncBackend.connect_tcp

    def connect(self: Any, host: str, port: int, **given: Any) -> Any:
        connected.append(host)
        return inner(self, "127.0.0.1", site.port, **given)

    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", connect)
    site.html("/secret", "<h1>Inside</h1><p>The keys.</p>")
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    state, reason = fetched(tmp_path, Web(resolve=lambda host, port: next(answers)), "http://rebind.test/secret")
    assert state == "failed" and "this machine itself" in reason
    assert connected == [PUBLIC] and site.paths() == ["/robots.txt"]


# ------------------------------------------------------------------------------------------- slow bodies


def answer_to(tmp_path: Path, pieces: list[tuple[float, bytes]]) -> int:
    """The status that a body gets whose pieces come so many seconds apart, and then no more."""
    app = create_app(tmp_path / "home", work=False)
    sent: list[Any] = []
    coming = iter(pieces)

    async def receive() -> Any:
        wait, piece = next(coming, (60.0, b""))
        await asyncio.sleep(wait)
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        async with app.router.lifespan_context(app):
            scope = {
                "type": "http",
                "method": "POST",
                "path": "/api/v1/retrieval",
                "raw_path": b"/api/v1/retrieval",
                "query_string": b"",
                "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")],
                "http_version": "1.1",
                "scheme": "http",
            }
            await app(scope, receive, send)

    asyncio.run(main())
    return int(sent[0]["status"])


def test_a_body_that_stops_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.gate.SLOW_SECONDS", 0.3)
    assert answer_to(tmp_path, [(0.0, b'{"question": "')]) == 408


def test_a_body_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.gate.SLOW_SECONDS", 0.3)
    began = time.monotonic()
    assert answer_to(tmp_path, [(0.05, b" ")] * 1000) == 408
    assert time.monotonic() - began < 20


def test_threads_of_webhooks_end_with_the_server(ledger: Ledger) -> None:
    announcer = Announcer(ledger, web=lambda: Web(allow_private=True))
    announcer.start()
    assert any(thread.name == "headwater-webhooks" for thread in threading.enumerate())
    announcer.close()
    end = time.monotonic() + 5
    while any(thread.name.startswith("headwater-webhooks") for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)
