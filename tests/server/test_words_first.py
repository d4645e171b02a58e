"""Where vectors take long a new document is found by its words first: pending, processing, indexed, completed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.build import KnowledgeBase, open_home
from headwater.errors import BackendError, SpaceMismatch
from headwater.models.hashed import HashedEmbedder
from headwater.server.worker import Worker
from headwater.storage.ledger import Job, Ledger
from headwater.types import document_id


class Slow(HashedEmbedder):
    """An embedder of the slow kind; `down` while its server is."""

    commit_texts = 100
    down = False

    def __init__(self) -> None:
        super().__init__(dim=64)
        self.texts: list[str] = []

    def embed(self, texts: Any, role: Any) -> Any:
        if self.down:
            raise BackendError("the embedding server is down")
        if role == "passage":
            self.texts += texts
        return super().embed(texts, role)


@pytest.fixture
def embedder() -> Slow:
    return Slow()


@pytest.fixture
def kb(tmp_path: Path, embedder: Slow) -> Iterator[KnowledgeBase]:
    with open_home(tmp_path / "home", embedder=embedder) as made:
        yield made


@pytest.fixture
def ledger(kb: KnowledgeBase) -> Iterator[Ledger]:
    made = Ledger(kb.home)
    yield made
    made.close()


def promise(ledger: Ledger, name: str, text: str, *, mime: str = "text/plain") -> str:
    uri = f"text:/{name}"
    work = {"hash": ledger.originals.write(text.encode()), "mime": mime, "labels": {}, "bytes": len(text)}
    told: Any = {"owner": "local", "collection": "default", "document": document_id("local", "default", uri)}
    return ledger.jobs.add(**told, uri=uri, kind="put", work=work).id


def at(ledger: Ledger, id: str) -> Job:
    found = ledger.jobs.get(id)
    assert found is not None
    return found


def found(kb: KnowledgeBase, text: str, mode: Any) -> list[str]:
    return [hit.uri for hit in kb.search(text, mode=mode)]


def test_words_come_first_and_vectors_when_nothing_else_waits(
    kb: KnowledgeBase, ledger: Ledger, embedder: Slow
) -> None:
    ends: list[str] = []
    worker = Worker(kb, ledger, attempts=3, on_done=lambda job: ends.append(job.state))
    first = promise(ledger, "pump", "The pump moves water.")
    worker.step()
    assert (at(ledger, first).state, at(ledger, first).stage, at(ledger, first).percent) == ("indexed", "embed", 50)
    assert kb.record("text:/pump").state == "indexed" and embedder.texts == []
    assert found(kb, "pump", "keyword") == ["text:/pump"] and found(kb, "pump", "semantic") == []
    assert found(kb, "pump", "hybrid") == ["text:/pump"]
    second = promise(ledger, "valve", "The valve leaks oil.")
    worker.step()  # the new one goes before the vectors of the other
    assert [at(ledger, one).state for one in (first, second)] == ["indexed", "indexed"] and embedder.texts == []
    assert ends == [] and ledger.jobs.due(("put",))
    worker.step()
    assert [at(ledger, one).state for one in (first, second)] == ["completed", "completed"]
    assert len(embedder.texts) == 2 and ends == ["completed", "completed"]
    assert found(kb, "pump", "semantic")[0] == "text:/pump" and found(kb, "valve", "keyword") == ["text:/valve"]
    assert kb.record("text:/pump").state == "completed" and kb.check() == []
    assert worker.step() is False


def test_whoever_dies_in_between_is_followed_by_another(kb: KnowledgeBase, ledger: Ledger, embedder: Slow) -> None:
    id = promise(ledger, "pump", "The pump moves water.")
    Worker(kb, ledger, attempts=3).step()  # and never again
    other = Worker(kb, ledger, attempts=3)
    while other.step():
        pass
    assert at(ledger, id).state == "completed" and len(embedder.texts) == 1
    assert found(kb, "pump", "semantic") == ["text:/pump"] and kb.check() == []


def test_a_model_that_is_down_leaves_it_found_by_its_words(
    kb: KnowledgeBase, ledger: Ledger, embedder: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.storage._jobs.FIRST_PAUSE_SECONDS", 0.0)
    embedder.down = True
    id = promise(ledger, "pump", "The pump moves water.")
    worker = Worker(kb, ledger, attempts=2)
    worker.step()
    worker.step()
    assert (at(ledger, id).state, at(ledger, id).attempts) == ("indexed", 1) and "down" in at(ledger, id).reason
    worker.step()
    assert at(ledger, id).state == "failed" and "2 attempts" in at(ledger, id).reason
    assert found(kb, "pump", "keyword") == ["text:/pump"] and kb.catalog.pending() == 0
    embedder.down = False
    assert ledger.jobs.retry(id)
    worker.step()
    assert at(ledger, id).state == "completed" and found(kb, "pump", "semantic") == ["text:/pump"]


def test_what_is_there_stays_whole_until_all_of_it_is_replaced(kb: KnowledgeBase, ledger: Ledger) -> None:
    worker = Worker(kb, ledger, attempts=3)
    promise(ledger, "pump", "The pump moves water.")
    while worker.step():
        pass
    id = promise(ledger, "pump", "The pump moves oil.")
    worker.step()
    assert at(ledger, id).state == "completed"
    assert [hit.chunk.text for hit in kb.search("pump", mode="semantic")] == ["The pump moves oil."]


def test_what_is_removed_in_between_does_not_come_back(kb: KnowledgeBase, ledger: Ledger) -> None:
    worker = Worker(kb, ledger, attempts=3)
    id = promise(ledger, "pump", "The pump moves water.")
    worker.step()
    kb.remove("text:/pump")
    while worker.step():
        pass
    assert at(ledger, id).state == "cancelled" and "removed" in at(ledger, id).reason
    assert kb.documents() == [] and found(kb, "pump", "hybrid") == [] and kb.check() == []


def test_a_document_without_text_waits_for_nothing(kb: KnowledgeBase, ledger: Ledger, embedder: Slow) -> None:
    worker = Worker(kb, ledger, attempts=3)
    empty, broken = promise(ledger, "empty", "  \n"), promise(ledger, "broken", "%PDF-1.7 no", mime="application/pdf")
    worker.step()
    assert [at(ledger, one).state for one in (empty, broken)] == ["empty", "failed"] and embedder.texts == []


def test_settings_that_do_not_fit_the_home_end_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.storage._jobs.FIRST_PAUSE_SECONDS", 0.0)
    home = tmp_path / "other"
    with open_home(home, embedder=HashedEmbedder(dim=64)) as kb:
        kb.add_text("The pump moves water.", uri="text:/old")
    with open_home(home, embedder=HashedEmbedder(dim=128)) as kb:
        ledger = Ledger(kb.home)
        id = promise(ledger, "new", "The valve leaks oil.")
        worker = Worker(kb, ledger, attempts=2)
        with pytest.raises(SpaceMismatch):
            _ = kb.indexer
        worker.step()
        assert at(ledger, id).state == "pending" and "reindex" in at(ledger, id).reason
        worker.step()
        assert at(ledger, id).state == "failed"
        ledger.close()


def test_a_pass_takes_no_more_than_it_can_hold(kb: KnowledgeBase, ledger: Ledger) -> None:
    for name in "abcd":
        promise(ledger, name, "x" * 400)
    taken = ledger.jobs.take("w", limit=10, kinds=("put",), most_bytes=1000)
    assert [job.uri for job in taken] == ["text:/a", "text:/b"]
    assert len(ledger.jobs.take("w", limit=10, kinds=("put",), most_bytes=10)) == 1
    assert len(ledger.jobs.take("w", limit=10, kinds=("put",))) == 1
