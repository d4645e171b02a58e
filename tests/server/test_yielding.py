"""The ingest yields to queries: it rests while requests are answered, makes the same documents, and does not stop."""

import threading
import time
from pathlib import Path

import pytest

import headwater
from headwater.indexer import SLICE_CHUNKS
from headwater.server.worker import LONGEST_REST_SECONDS, Worker
from headwater.storage.ledger import Ledger
from headwater.types import Document


def documents(count: int, paragraphs: int = 3) -> list[Document]:
    return [
        Document(
            uri=f"note-{number}",
            title=f"Note {number}",
            text="\n\n".join(
                f"Gauge {number} of part {part} showed {number + part} metres." for part in range(paragraphs)
            ),
        )
        for number in range(count)
    ]


def test_rests_are_taken_between_small_pieces_and_change_nothing(tmp_path: Path) -> None:
    rests: list[tuple[str, float]] = []
    found = {}
    for name in ("plain", "resting"):
        with headwater.open(tmp_path / name) as kb:
            if name == "resting":
                kb.indexer.rest = lambda worked: rests.append((threading.current_thread().name, worked))
            given = documents(3 * SLICE_CHUNKS)
            calls: list[int] = []
            add = kb.indexer.text.add
            kb.indexer.text.add = lambda pairs, add=add, calls=calls: (calls.append(len(pairs)), add(pairs))[1]  # type: ignore[method-assign]
            assert kb.add_documents(given) == len(given)
            found[name] = [(hit.uri, hit.score) for hit in kb.search("gauge 17 metres", top_n=20)]
            assert kb.check() == []
        if name == "resting":
            # A slice ends with the document that fills it.
            assert len(calls) >= 3 and max(calls) <= SLICE_CHUNKS + max(len(one.text) for one in given)
            assert sum(calls) >= len(given)
    assert found["plain"] == found["resting"] and found["plain"]
    # Once a document where they are prepared, and once for each slice and each commit.
    assert sum("prepare" in thread for thread, _ in rests) >= 3 * SLICE_CHUNKS - 1
    assert {thread.partition("_")[0] for thread, _ in rests} >= {"headwater-prepare", "headwater-commit"}
    assert all(0 <= worked < 60 for _, worked in rests)


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    kb = headwater.open(tmp_path / "kb")
    return Worker(kb, Ledger(kb.home), attempts=1)


def rested(worker: Worker, worked: float) -> float:
    """The shortest of some, for the machine may be busy."""
    took = []
    for _ in range(5):
        began = time.perf_counter()
        worker._rest(worked)
        took.append(time.perf_counter() - began)
    return min(took)


def test_a_worker_rests_only_while_somebody_waits_and_never_long(worker: Worker) -> None:
    assert rested(worker, 0.1) < 0.05  # it answers nobody
    waiting = [0]
    worker.in_flight = lambda: waiting[0]
    assert rested(worker, 0.1) < 0.05
    waiting[0] = 3
    assert rested(worker, 0.1) >= 0.1
    assert LONGEST_REST_SECONDS <= rested(worker, 60.0) < 10 * LONGEST_REST_SECONDS
    worker.stop()
    assert rested(worker, 60.0) < LONGEST_REST_SECONDS  # who waits for its end waits for no rest
    worker.ledger.close()
    worker.kb.close()
