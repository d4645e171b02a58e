"""Streams and the pool they come from: a full one is told before any header, and no reader who leaves holds a place."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.server.conftest import Running

from headwater import llm
from headwater.errors import BackendError
from headwater.server.meters import Meters
from headwater.server.pools import Busy, Pool
from headwater.server.streams import Streamed
from headwater.testing.chat_server import ChatServer

LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
GOOD = "Parents are entitled to 26 weeks of leave [1]. Of these, 18 weeks are paid in full [1]."
QUESTION = "How many weeks of leave do parents get?"
SAID = [{"role": "user", "content": QUESTION}]
STREAMS: dict[str, dict[str, Any]] = {
    "/api/v1/ask": {"question": QUESTION, "stream": True},
    "/api/v1/conversations": {"question": QUESTION, "stream": True},
    "/api/v1/chats": {"question": QUESTION, "stream": True},
    "/api/v1/chats/{chat}/completions": {"question": QUESTION},
    "/v1/chat/completions": {"model": "headwater", "messages": SAID, "stream": True},
    "/api/chat": {"messages": SAID},
}


class Held:
    """A server whose model is told how to behave, and the chat of the routes above."""

    def __init__(self, folder: Path, *, threads: int, waiting: int, settled: Any, patience: float = 2.0) -> None:
        self.model = ChatServer(GOOD).__enter__()
        home = folder / "home"
        told = {"use": "openai", "model": "tiny", "base_url": self.model.url, "max_retries": 0}
        llm.install(home, {**told, "first_token_seconds": patience, "between_tokens_seconds": patience})
        pools = {"HEADWATER_SERVER__GENERATION_THREADS": str(threads), "HEADWATER_SERVER__WAITING": str(waiting)}
        self.server = Running(home, env=pools)
        with self.server.client() as client:
            told = {"uri": "leave", "text": LEAVE, "mime": "text/markdown"}
            job = client.post("/api/v1/ingest/text", json=told).json()["data"]["job_id"]
            assert settled(client, job)["state"] == "completed"
            self.chat = client.post("/api/v1/chats", json={"name": "one"}).json()["data"]["id"]

    def routes(self) -> list[tuple[str, dict[str, Any]]]:
        return [(path.replace("{chat}", self.chat), body) for path, body in STREAMS.items()]

    def number(self, name: str) -> float:
        """One of the server's metrics."""
        with self.server.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    def free(self, *, within_seconds: float = 30.0) -> None:
        """Every place comes free."""
        end = time.monotonic() + within_seconds
        while self.number("rag_generation_pool_taken"):
            assert time.monotonic() < end
            time.sleep(0.1)

    def close(self) -> None:
        assert self.server.stop() == 0
        self.model.__exit__(None, None, None)


def test_a_full_pool_is_told_before_any_header(tmp_path: Path, settled: Any) -> None:
    # The model is waited for while every route is tried, also where the machine has other things to do.
    held = Held(tmp_path, threads=1, waiting=0, settled=settled, patience=10.0)
    held.model.always = "stall"
    with (
        held.server.client() as client,
        client.stream("POST", "/api/v1/ask", json=STREAMS["/api/v1/ask"]) as taken,
    ):
        assert taken.status_code == 200 and held.number("rag_generation_pool_taken") == 1
        next(taken.iter_bytes())
        for path, body in held.routes():
            answer = client.post(path, json=body)
            assert answer.status_code == 429 and int(answer.headers["retry-after"]) >= 1, (path, answer.text)
            told = answer.json()
            assert (told["error"]["code"] if path.startswith("/v1") else told["error"]) == "OPERATING_ERROR"
        assert held.number("http_requests_refused_total") == len(STREAMS)
    held.free()
    held.model.always = ""
    with held.server.client() as client:
        # A session that was refused was not begun.
        assert client.get(f"/api/v1/chats/{held.chat}/sessions").json()["data"] == []
        for path, body in held.routes():
            held.free()
            answer = client.post(path, json=body)
            assert answer.status_code == 200 and "26 weeks" in answer.text, (path, answer.text)
    held.close()


def threads_of(server: Running) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads of another process are counted in /proc")
def test_fifty_abandoned_streams_leave_nothing_behind(
    tmp_path: Path, settled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.testing.chat_server.SLOW_SECONDS", 0.02)
    held = Held(tmp_path, threads=4, waiting=64, settled=settled)
    with held.server.client() as client:
        for path, body in held.routes():
            assert client.post(path, json=body).status_code == 200
        held.free()
    before = threads_of(held.server)
    held.model.always = "slow"
    routes = held.routes()
    with held.server.client() as client:
        for number in range(50):
            path, body = routes[number % len(routes)]
            with client.stream("POST", path, json=body) as answer:  # which closes the connection where it ends
                assert answer.status_code == 200
                if number % 2:  # some read a little, the others nothing
                    next(answer.iter_bytes())
    held.free()
    assert threads_of(held.server) <= before + 4  # those of the pool, which stay
    held.model.always = ""
    with held.server.client() as client:
        assert "26 weeks" in client.post("/api/v1/ask", json={"question": QUESTION}).text
    held.close()


# --------------------------------------------------------------------------------------------- in process


def state_of(pool: Pool, *, deadline_seconds: float = 300.0) -> Any:
    settings = SimpleNamespace(deadline_seconds=deadline_seconds)
    return SimpleNamespace(generation=pool, settings=settings, meters=Meters(), stopping=threading.Event())


class Events:
    """Events of a model, which can be closed."""

    def __init__(self, *events: Any, wait: threading.Event | None = None) -> None:
        self._events, self._wait, self.closed = iter(events), wait, False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._wait is not None:
            self._wait.wait(10)
        event = next(self._events)
        if isinstance(event, BaseException):
            raise event
        return event

    def close(self) -> None:
        self.closed = True


def streamed(state: Any, events: Events) -> Streamed:
    given: Any = events
    return Streamed(state, given, shape=lambda event: f"{event}\n", failed=lambda error: f"error: {error}\n")


async def sent(response: Streamed, *, breaks: str = "") -> str:
    """What a reader gets; one that is gone breaks the connection at a message."""
    body = b""

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def send(message: Any) -> None:
        nonlocal body
        if message["type"] == breaks:
            raise OSError("the connection is gone")
        body += message.get("body", b"")

    scope: Any = {"type": "http", "asgi": {"spec_version": "2.4"}}
    await response(scope, receive, send)
    return body.decode()


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool("generation", threads=1, waiting=0)
    yield made
    made.close()


def empty(pool: Pool) -> bool:
    end = time.monotonic() + 10
    while pool.taken and time.monotonic() < end:
        time.sleep(0.01)
    return pool.taken == 0


def test_a_stream_is_sent_and_its_place_is_free(pool: Pool) -> None:
    events = Events("a", "b")
    assert asyncio.run(sent(streamed(state_of(pool), events))) == "a\nb\n"
    assert empty(pool) and events.closed


def test_a_stream_that_is_never_sent_frees_its_place(pool: Pool) -> None:
    response = streamed(state_of(pool), Events("a"))
    with pytest.raises(Busy):
        streamed(state_of(pool), Events("a"))
    del response
    gc.collect()
    assert empty(pool)


@pytest.mark.parametrize("message", ["http.response.start", "http.response.body"])
def test_a_reader_who_is_gone_frees_the_place(pool: Pool, message: str) -> None:
    events = Events("a", "b")
    with pytest.raises(Exception, match=r"^$|gone"):
        asyncio.run(sent(streamed(state_of(pool), events), breaks=message))
    assert empty(pool) and events.closed


def test_what_goes_wrong_is_told_in_the_stream(pool: Pool) -> None:
    told = asyncio.run(sent(streamed(state_of(pool), Events("a", BackendError("the model is down")))))
    assert told == "a\nerror: the model is down\n" and empty(pool)
    told = asyncio.run(sent(streamed(state_of(pool), Events("a", ValueError("a secret")))))
    assert told.startswith("a\nerror: something went wrong") and "secret" not in told and empty(pool)


def test_a_stream_ends_with_its_time(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.server.streams.MAX_ANSWER_SECONDS", 0.2)
    hold = threading.Event()
    events = Events("a", wait=hold)
    told = asyncio.run(sent(streamed(state_of(pool, deadline_seconds=0.1), events)))
    assert "not complete within 0.2 s" in told
    hold.set()
    assert empty(pool) and events.closed


def test_a_writer_does_not_run_far_ahead_of_a_slow_reader(pool: Pool) -> None:
    written: list[int] = []

    def endless() -> Iterator[int]:
        for number in range(100_000):
            written.append(number)
            yield number

    events: Any = endless()
    response = Streamed(state_of(pool), events, shape=lambda event: f"{event}\n", failed=str)

    async def read_little() -> None:
        lines: Any = response.body_iterator
        assert await anext(lines) == "0\n"
        await asyncio.sleep(0.3)
        response._leave()
        await lines.aclose()

    asyncio.run(read_little())
    assert empty(pool) and len(written) < 1000
