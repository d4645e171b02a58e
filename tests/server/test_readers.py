"""Searches in processes of their own: the same results, the newest ones, and nothing lost with a reader."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import headwater
from headwater.build import KnowledgeBase
from headwater.errors import UsageError
from headwater.server import readers as module
from headwater.server.readers import CROWDED, Readers

from .conftest import Running

START_SECONDS = 60.0
TEXTS = {
    "leave.md": "# Leave\n\nParental leave is 26 weeks.\n\n# Pay\n\nSalaries are paid on the 25th.",
    "pump.md": "# Pump\n\nThe pump of station four is repaired every spring.\n\n水泵每年春天检修一次。",
    "gate.md": "# Gate\n\nThe sluice gate opens at a level of 3.2 m.\n\n闸门在水位3.2米时打开。",
}
QUESTIONS = ("parental leave", "水泵 检修", "sluice gate level", "闸门 水位", "salaries")


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with headwater.open(tmp_path / "kb") as opened:
        for name, text in TEXTS.items():
            opened.add_text(text, uri=name)
        yield opened


@pytest.fixture
def readers(kb: KnowledgeBase) -> Iterator[Readers]:
    made = started(kb)
    yield made
    made.close()


def started(kb: KnowledgeBase) -> Readers:
    """Two readers, after a crowd."""
    made = Readers(kb, count=2, in_flight=lambda: 3)
    for _ in range(CROWDED):
        assert made.search(kb.query("leave")) is None  # until they run, whoever asks searches
    until(lambda: made.running == 2)
    return made


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def told(results: headwater.Results | None) -> list[tuple[int, str, float, tuple[str, ...], tuple[str, ...]]]:
    assert results is not None
    return [(hit.chunk.id, hit.chunk.text, hit.score, hit.reasons, hit.highlights) for hit in results]


def test_a_reader_finds_what_this_process_finds(kb: KnowledgeBase, readers: Readers) -> None:
    for question in QUESTIONS:
        for options in ({}, {"rerank": ""}, {"mode": "keyword"}, {"top_n": 1}):
            query = kb.query(question, options=options)
            found = told(readers.search(query))
            assert found == told(kb.search(question, options=options))
            assert found


def test_what_was_added_and_removed_since_is_seen(kb: KnowledgeBase, readers: Readers) -> None:
    kb.add_text("The lantern on the ferry is red.", uri="lantern.md")
    query = kb.query("lantern ferry", options={"mode": "keyword"})
    for _ in range(4):  # both of them
        assert [text for _, text, *_ in told(readers.search(query))] == ["The lantern on the ferry is red."]
    kb.remove("lantern.md")
    for _ in range(4):
        assert not told(readers.search(query))


def test_the_scope_of_the_caller_goes_with_the_query(kb: KnowledgeBase, readers: Readers) -> None:
    stranger = kb.for_owner("somebody-else")
    assert not told(readers.search(stranger.query("parental leave")))


def test_one_that_is_killed_costs_nothing_and_is_replaced(
    kb: KnowledgeBase, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    kb.elsewhere = readers.search
    for process in [one._process for one in readers._idle.queue]:
        process.kill()
    expected = {question: {text for _, text, *_ in told(kb.search(question))} for question in QUESTIONS}
    assert all(expected.values())
    until(lambda: readers.running == 2)
    query = kb.query("parental leave")
    assert told(readers.search(query)) == told(kb.search("parental leave", options={"cache_size": 0}))


def test_one_that_hangs_is_given_up_after_the_deadline(
    kb: KnowledgeBase, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.1)
    for process in [one._process for one in readers._idle.queue]:
        os.kill(process.pid, signal.SIGSTOP)
    query = kb.query("parental leave", options={"deadline_seconds": 0.1})
    assert readers.search(query) is None
    assert readers.running == 1


def test_who_waits_for_readers_that_are_lost_searches_itself(kb: KnowledgeBase, readers: Readers) -> None:
    busy = [readers._idle.get(timeout=1.0) for _ in range(2)]
    began = time.monotonic()
    with ThreadPoolExecutor(1) as waiting:
        asked = waiting.submit(readers.search, kb.query("leave", options={"deadline_seconds": 30.0}))
        for one in busy:
            readers._lose(one, EOFError("killed"))
        assert asked.result() is None
    assert time.monotonic() - began < 20.0  # long before the deadline


def test_an_error_of_a_search_is_the_callers(kb: KnowledgeBase, readers: Readers) -> None:
    query = replace(kb.query("leave"), text="  ")
    with pytest.raises(UsageError, match="at least one word"):
        readers.search(query)
    assert readers.running == 2


def test_what_asks_a_model_stays_here(kb: KnowledgeBase, readers: Readers) -> None:
    for options in ({"hyde": True}, {"rewrite": True}, {"rerank": "llm"}):
        assert readers.search(kb.query("leave", options=options)) is None


def test_few_searches_start_none(kb: KnowledgeBase) -> None:
    for made in (Readers(kb, count=2, in_flight=lambda: 2), Readers(kb, count=1, in_flight=lambda: 9)):
        for _ in range(3 * CROWDED):
            assert made.search(kb.query("leave")) is None
        assert made.running == 0
        made.close()


def test_they_end_when_nobody_searches(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    made = started(kb)
    until(lambda: made.running == 0)
    assert made.search(kb.query("leave")) is None
    made.close()


def test_they_end_with_the_process_that_started_them(kb: KnowledgeBase) -> None:
    made = started(kb)
    processes = [one._process for one in made._idle.queue]
    for process in processes:
        assert process.stdin is not None
        process.stdin.close()  # as the system does when this process dies
    assert [process.wait(timeout=START_SECONDS) for process in processes] == [0, 0]
    made.close()


def test_a_crowded_server_starts_them_and_answers_the_same(tmp_path: Path) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.fail("readers need two cores")
    home = tmp_path / "kb"
    with headwater.open(home) as kb:
        for name, text in TEXTS.items():
            kb.add_text(text, uri=name)
        expected = [hit.chunk.text for hit in kb.search("parental leave")]
    # As many threads as a crowd needs to be seen on a machine with many cores.
    running = Running(home, env={"HEADWATER_SERVER__RETRIEVAL_THREADS": "32", "HEADWATER_SERVER__READERS": "2"})

    def ask(number: int) -> list[str]:
        body = {"question": f"parental leave{' ' * (number % 50)}", "deadline_seconds": 20}
        with running.client() as client:
            answer = client.post("/api/v1/retrieval", json=body)
        assert answer.status_code == 200, answer.text
        return [chunk["content"] for chunk in answer.json()["data"]["chunks"]]

    try:
        with ThreadPoolExecutor(24) as threads:
            end = time.monotonic() + START_SECONDS
            while "Reader started" not in running.log.read_text("utf-8"):
                assert time.monotonic() < end
                assert all(found == expected for found in threads.map(ask, range(60)))
            assert all(found == expected for found in threads.map(ask, range(60)))
    finally:
        running.stop()
