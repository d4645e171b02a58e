"""A job that is cancelled while it is worked on: at every safe point the document is as it was, or all of it is in."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from tests.chunkers.test_contextual import Scripted

from headwater.build import KnowledgeBase, open_home
from headwater.chunkers._layout import STEP_TOKENS
from headwater.chunkers._making import chunk_of
from headwater.errors import BackendError
from headwater.messages import Message, Piece
from headwater.models.hashed import HashedEmbedder
from headwater.sandbox.limits import Limits
from headwater.sandbox.parser import SandboxedParser
from headwater.sandbox.pool import Sandbox
from headwater.server.worker import Worker
from headwater.storage.ledger import STOPPED, TOO_LATE, Job, Ledger
from headwater.testing.openai_server import OpenAIServer
from headwater.tokens import token_spans
from headwater.types import Blob, document_id

PATIENCE_SECONDS = 60.0
OLD, NEW = "The pump moves water.", "The pump moves oil."
HOOK = "https://listener.example/"
CONTEXTUAL = """[chunk]
use = "contextual"
size = 100
overlap = 0
parallel = 1
"""


class Killed(BaseException):
    """What ends a worker where it stands."""


class Embedder(HashedEmbedder):
    """Calls `before` with each call's texts; `texts` are those it was given."""

    def __init__(self) -> None:
        super().__init__(dim=64)
        self.texts: list[str] = []
        self.before: Callable[[list[str]], None] = lambda _: None

    def embed(self, texts: Any, role: Any) -> Any:
        if role == "passage":
            self.before(texts)
            self.texts += texts
        return super().embed(texts, role)


class Slow(Embedder):
    """One of the slow kind: new documents are found by their words first."""

    commit_texts = 1000


@pytest.fixture
def embedder(request: pytest.FixtureRequest) -> Embedder:
    kind: type[Embedder] = getattr(request, "param", Embedder)
    return kind()


@pytest.fixture
def kb(tmp_path: Path, embedder: Embedder) -> Iterator[KnowledgeBase]:
    with open_home(tmp_path / "home", embedder=embedder) as made:
        yield made


@pytest.fixture
def ledger(kb: KnowledgeBase) -> Iterator[Ledger]:
    made = Ledger(kb.home)
    made.journal.add_webhook("local", url=HOOK, secret="s", events=["job.cancelled", "job.completed"])
    yield made
    made.close()


@pytest.fixture
def worker(kb: KnowledgeBase, ledger: Ledger) -> Worker:
    return Worker(kb, ledger, attempts=3)


def promise(ledger: Ledger, name: str, data: str | bytes, *, mime: str = "text/plain", kind: Any = "put") -> str:
    uri, given = f"text:/{name}", data.encode() if isinstance(data, str) else data
    work = {"hash": ledger.originals.write(given), "mime": mime, "labels": {}, "bytes": len(given)}
    told: Any = {"owner": "local", "collection": "default", "document": document_id("local", "default", uri)}
    return ledger.jobs.add(**told, uri=uri, kind=kind, work=work).id


def at(ledger: Ledger, id: str) -> Job:
    found = ledger.jobs.get(id)
    assert found is not None
    return found


def ended(ledger: Ledger, id: str) -> tuple[str, str]:
    return at(ledger, id).state, at(ledger, id).reason


def finish(worker: Worker) -> None:
    while worker.step():
        pass


def texts(kb: KnowledgeBase) -> list[str]:
    assert kb.catalog.pending() == 0
    assert kb.check() == []
    return sorted(kb.document(record.id).text for record in kb.documents())


def events(ledger: Ledger) -> list[str]:
    told = []
    while taken := ledger.outbox.take(limit=9, lease_seconds=0):
        for message in taken:
            told.append(message.event)
            ledger.outbox.drop(message)
    return told


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def around(monkeypatch: pytest.MonkeyPatch, of: object, name: str, first: Callable[[], object]) -> None:
    """Have something happen the first time that a method is called, before it does its work."""
    real, called = getattr(type(of), name), []

    def stand_in(self: Any, *positional: Any, **named: Any) -> Any:
        if not called:
            called.append(True)
            first()
        return real(self, *positional, **named)

    monkeypatch.setattr(type(of), name, stand_in)


# ------------------------------------------------------------------------------------------ in this process


@pytest.mark.parametrize("before", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize("stage", ["read", "parse", "chunk", "embed"])
def test_what_is_not_stored_yet_is_left_as_it_was(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, monkeypatch: pytest.MonkeyPatch, *, stage: str, before: bool
) -> None:
    if before:
        promise(ledger, "pump", OLD)
        finish(worker)
        events(ledger)
    id, beside = promise(ledger, "pump", NEW), promise(ledger, "valve", "The valve leaks.")
    indexer = kb.indexer
    parts = {
        "read": (ledger.originals, "read"),
        "parse": (indexer.parser("text/plain"), "parse"),
        "chunk": (indexer.chunker, "chunk"),
        "embed": (indexer.embedder, "embed"),
    }
    around(monkeypatch, *parts[stage], lambda: ledger.jobs.cancel(id))
    worker.step()
    assert ended(ledger, id) == ("cancelled", STOPPED) and ended(ledger, beside) == ("completed", "")
    assert texts(kb) == [*([OLD] if before else []), "The valve leaks."]
    assert sorted(events(ledger)) == ["job.cancelled", "job.completed"]
    assert ledger.jobs.cancel(id) is None and worker.step() is False
    assert ledger.jobs.retry(id) and not at(ledger, id).stop
    finish(worker)
    assert ended(ledger, id) == ("completed", "") and NEW in texts(kb) and OLD not in texts(kb)


@pytest.mark.parametrize("stage", ["index", "commit", "close"])
def test_what_is_stored_by_then_is_completed_and_says_so(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    id = promise(ledger, "pump", NEW)
    parts = {"index": (kb.text, "flush"), "commit": (kb.catalog, "commit"), "close": (ledger.jobs, "finish")}
    around(monkeypatch, *parts[stage], lambda: ledger.jobs.cancel(id))
    worker.step()
    assert ended(ledger, id) == ("completed", TOO_LATE) and texts(kb) == [NEW]
    assert events(ledger) == ["job.completed"] and ledger.jobs.cancel(id) is None


@pytest.mark.parametrize("embedder", [Slow], indirect=True)
def test_embedding_ends_between_two_batches(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.indexer.EMBED_TEXTS", 2)
    long = "\n\n".join(f"# Part {n}\n\n{f'The gauge {n} is read at dawn. ' * 40}" for n in range(12))
    id, beside = promise(ledger, "long", long, mime="text/markdown"), promise(ledger, "valve", "The valve leaks.")
    worker.step()
    assert at(ledger, id).state == "indexed" and kb.search("gauge", mode="keyword")
    count = kb.record("text:/long").chunks
    assert count > 6

    def stop(given: list[str]) -> None:
        if len(embedder.texts) == 2:
            ledger.jobs.cancel(id)
            until(lambda: worker._stopping.unwanted.ids)

    embedder.before = stop
    finish(worker)
    assert ended(ledger, id) == ("cancelled", STOPPED) and ended(ledger, beside) == ("completed", "")
    assert len(embedder.texts) == 2 + 2 + 1  # one batch, the one under way, and the other document
    assert texts(kb) == ["The valve leaks."] and not kb.search("gauge", mode="keyword")
    assert ledger.jobs.retry(id)
    finish(worker)
    assert at(ledger, id).state == "completed" and kb.record("text:/long").chunks == count


@pytest.mark.parametrize("embedder", [Slow], indirect=True)
def test_what_is_found_by_its_words_goes_too_whoever_waits_for_its_vectors(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, embedder: Embedder
) -> None:
    id = promise(ledger, "pump", NEW)
    worker.step()
    asked = ledger.jobs.cancel(id)
    assert asked is not None and asked.state == "indexed" and asked.stop
    later = promise(ledger, "valve", "The valve leaks.")
    worker.step()
    assert ended(ledger, id) == ("cancelled", STOPPED) and at(ledger, later).state == "indexed"
    finish(worker)
    assert texts(kb) == ["The valve leaks."] and embedder.texts == ["The valve leaks."]


def test_a_parser_that_is_at_it_is_killed(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "faults"))
    sandbox = Sandbox(Limits(wall_seconds=600, cpu_seconds=600), processes=2)
    hostile = SandboxedParser(sandbox, parser="hostile_parsers:HostileParser", mimes=frozenset({"test/hostile"}))
    monkeypatch.setattr(kb.indexer._prepare, "parser", lambda _: hostile)
    first = promise(ledger, "first", "loop for ever", mime="test/hostile")
    second = promise(ledger, "second", "loop for ever too", mime="test/hostile")
    fine = promise(ledger, "fine", "fine after them", mime="test/hostile")
    working = threading.Thread(target=worker.step)
    working.start()
    try:
        until(lambda: len(sandbox.current()) == 2)
        processes = [one._process for one in sandbox._busy]
        ledger.jobs.cancel(second)  # it is not its turn, and it does not wait for it
        until(lambda: at(ledger, second).state == "cancelled")
        assert at(ledger, first).state == "processing"
        ledger.jobs.cancel(first)
        until(lambda: at(ledger, first).state == "cancelled")
        working.join(PATIENCE_SECONDS)
        assert not working.is_alive() and [one.poll() for one in processes] == [-signal.SIGKILL] * 2
    finally:
        sandbox.close()
        working.join()
    assert ended(ledger, first) == ended(ledger, second) == ("cancelled", STOPPED)
    assert at(ledger, fine).state == "completed" and texts(kb) == ["fine after them"]


def test_what_came_inside_a_document_does_not_come_without_it(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, embedder: Embedder
) -> None:
    id = promise(ledger, "mail", letter("The first.", "notes about the weir"), mime="message/rfc822")
    finish(worker)
    before = texts(kb)
    assert len(before) == 2
    id = promise(ledger, "mail", letter("The second.", "notes about the gate", "more"), mime="message/rfc822")
    embedder.before = lambda _: ledger.jobs.cancel(id) and None
    finish(worker)
    assert ended(ledger, id) == ("cancelled", STOPPED) and texts(kb) == before


def test_two_jobs_for_one_document_are_told_apart(kb: KnowledgeBase, ledger: Ledger, worker: Worker) -> None:
    first = promise(ledger, "pump", OLD)
    ledger.jobs.take("a worker that died", limit=1, kinds=("put",))
    second = promise(ledger, "pump", NEW)
    assert ledger.jobs.cancel(first) is not None
    finish(worker)
    assert ended(ledger, first) == ("cancelled", STOPPED) and ended(ledger, second) == ("completed", "")
    assert texts(kb) == [NEW]


def test_a_job_whose_model_fails_is_not_tried_again_once_it_is_to_stop(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, embedder: Embedder
) -> None:
    def fail(_: list[str]) -> None:
        raise BackendError("the embedding server is down")

    embedder.before = fail
    id = promise(ledger, "pump", NEW)
    worker.step()
    assert at(ledger, id).state == "pending" and kb.catalog.pending() == 1
    asked = ledger.jobs.cancel(id)  # it waits, but its change is open
    assert asked is not None and asked.stop
    worker.step()
    assert ended(ledger, id) == ("cancelled", STOPPED) and texts(kb) == []
    again = promise(ledger, "pump", NEW)
    embedder.before = lambda texts: (ledger.jobs.cancel(again), fail(texts))[1]
    worker.step()
    assert ended(ledger, again) == ("cancelled", STOPPED) and texts(kb) == []


def test_other_labels_are_not_given_once_that_is_to_stop(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    promise(ledger, "pump", OLD)
    finish(worker)
    ledger.originals.change(kb.record("text:/pump").id, lambda _: {"changes": {"title": "Other"}})
    id = promise(ledger, "pump", OLD, kind="label")
    around(monkeypatch, kb.indexer, "run", lambda: ledger.jobs.cancel(id))
    worker.step()
    assert ended(ledger, id) == ("cancelled", STOPPED) and kb.record("text:/pump").title != "Other"


def test_a_page_that_is_being_fetched_is_cancelled_at_once(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = "https://pages.example/pump"
    told: Any = {"owner": "local", "collection": "default", "document": document_id("local", "default", uri)}
    id = ledger.jobs.add(**told, uri=uri, kind="url", work={"url": uri, "labels": {}}).id

    def fetched(_: Any, url: str, *, stamp: str) -> Blob:
        cancelled = ledger.jobs.cancel(id)
        assert cancelled is not None and cancelled.state == "cancelled"
        return Blob(uri=url, data=b"<p>The pump moves water.</p>", mime="text/html")

    monkeypatch.setattr(type(kb.web), "tried", fetched)
    finish(worker)
    assert ended(ledger, id) == ("cancelled", STOPPED) and texts(kb) == []
    assert ledger.originals.get(told["document"]) is None


def test_a_job_of_an_earlier_ledger_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.storage import _ledger_file as file

    before = file.STEPS[: file.STEPS.index(file._STOP)]
    monkeypatch.setattr(file, "STEPS", before)
    earlier = file.LedgerFile(tmp_path / "ledger.sqlite")
    with earlier.writing() as db:
        row = "'local', 'c', 'd', 'u', 'put', 'processing', 'parse', 30, '', 1, 0, '{}', 'then', 'then', 0, 'w', 1"
        db.execute(f"insert into job values ('j', {row})")
    earlier.close()
    monkeypatch.undo()
    ledger = Ledger(tmp_path)
    assert at(ledger, "j").stop == "" and ledger.jobs.stopping() == []
    asked = ledger.jobs.cancel("j")
    assert asked is not None and [job.id for job in ledger.jobs.stopping()] == ["j"]
    assert (ledger.jobs.cancel("j") or asked).stop == asked.stop  # the second ask changes nothing
    ledger.close()


class Writer(Scripted):
    """A language model that calls `before` with how often it was asked."""

    before: Callable[[int], None]

    def stream(self, messages: Sequence[Message], **given: object) -> Iterator[Piece]:
        self.before(len(self.prompts))
        return super().stream(messages, **given)


def test_a_language_model_is_not_asked_about_the_rest(tmp_path: Path) -> None:
    def stop(count: int) -> None:
        if count == 3:
            ledger.jobs.cancel(id)
            until(lambda: worker._stopping.unwanted.ids)
        elif count > 3:
            time.sleep(0.05)  # so long it takes to say something: the rest would take several seconds

    home, model = tmp_path / "home", Writer()
    home.mkdir()
    (home / "headwater.toml").write_text(CONTEXTUAL, encoding="utf-8")
    with open_home(home, embedder=HashedEmbedder(dim=64), language_model=model) as kb:
        ledger = Ledger(home)
        worker = Worker(kb, ledger, attempts=3)
        model.before = stop
        id = promise(ledger, "long", " ".join(f"The gauge {n} is read at dawn." for n in range(1000)))
        worker.step()
        assert ended(ledger, id) == ("cancelled", STOPPED) and texts(kb) == []
        asked, model.before = len(model.prompts), lambda _: None
        assert ledger.jobs.retry(id)
        finish(worker)
        passages = kb.record("text:/long").chunks
        assert ended(ledger, id) == ("completed", "") and asked < passages
        assert len(model.prompts) == 1 + passages  # what was written before is kept
        ledger.close()


@pytest.mark.parametrize("step", ["headwater.chunkers._layout.token_spans", "headwater.chunkers.recursive.chunk_of"])
def test_a_long_text_is_not_cut_to_its_end(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    taken = 0

    def take() -> None:
        nonlocal taken
        taken += 1
        if taken == 10:
            ledger.jobs.cancel(id)
            until(lambda: worker._stopping.unwanted.ids)

    def spans(text: str) -> Iterator[tuple[int, int]]:
        for span in token_spans(text):
            take()
            yield span

    def made(*given: Any, **told: Any) -> Any:
        take()
        return chunk_of(*given, **told)

    id = promise(ledger, "long", " ".join(f"The gauge {n} is read at dawn." for n in range(30_000)))
    with monkeypatch.context() as patched:
        patched.setattr(step, spans if step.endswith("token_spans") else made)
        worker.step()
    assert ended(ledger, id) == ("cancelled", STOPPED) and texts(kb) == []
    assert taken == (STEP_TOKENS if step.endswith("token_spans") else 10)  # of more than three times as many
    assert ledger.jobs.retry(id)
    finish(worker)
    assert ended(ledger, id) == ("completed", "") and kb.record("text:/long").chunks > 100


# --------------------------------------------------------------------------------- whoever is killed in between


@pytest.mark.parametrize("mime", ["text/plain", "message/rfc822"])
def test_one_that_was_killed_before_it_stopped_is_settled_by_the_next(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, embedder: Embedder, mime: str
) -> None:
    def die(_: list[str]) -> None:
        raise Killed

    embedder.before = die
    id = promise(ledger, "pump", NEW if mime == "text/plain" else letter("Hello.", "notes"), mime=mime)
    with pytest.raises(Killed):
        worker.step()
    assert at(ledger, id).state == "processing" and kb.catalog.pending() > 0
    ledger.jobs.cancel(id)
    finish(Worker(kb, ledger, attempts=3))
    assert ended(ledger, id) == ("cancelled", STOPPED) and texts(kb) == []


def test_one_that_was_killed_after_it_stored_is_completed_by_the_next(
    kb: KnowledgeBase, ledger: Ledger, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise Killed

    id = promise(ledger, "mail", letter("Hello.", "notes about the weir"), mime="message/rfc822")
    with monkeypatch.context() as patch:
        around(patch, ledger.jobs, "finish", die)
        with pytest.raises(Killed):
            worker.step()
    ledger.jobs.cancel(id)
    finish(Worker(kb, ledger, attempts=3))
    assert ended(ledger, id) == ("completed", TOO_LATE) and len(texts(kb)) == 2


def letter(text: str, *attachments: str) -> bytes:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "About the pump", "a@example.org", "b@example.org"
    message.set_content(text)
    for number, attached in enumerate(attachments):
        message.add_attachment(attached, filename=f"{number}.txt")
    return message.as_bytes()


# ------------------------------------------------------------------------------------------ in another process


@pytest.fixture
def slow() -> Iterator[OpenAIServer]:
    with OpenAIServer(script=["wait"] * 100) as made:
        yield made


def settings(slow: OpenAIServer) -> dict[str, str]:
    told = {"USE": "openai", "BASE_URL": slow.url, "DIMENSIONS": str(slow.dim), "API_KEY": "k", "MODEL": "m"}
    return {f"HEADWATER_EMBED__{name}": value for name, value in told.items()}


def working(home: Path, slow: OpenAIServer) -> subprocess.Popen[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    command = [sys.executable, "-m", "headwater", "worker", "--home", str(home)]
    return subprocess.Popen(command, env={**kept, **settings(slow)}, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("before", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize("killed", [False, True], ids=["stops", "killed"])
def test_a_worker_in_another_process_is_reached(
    tmp_path: Path, slow: OpenAIServer, monkeypatch: pytest.MonkeyPatch, *, killed: bool, before: bool
) -> None:
    for name, value in settings(slow).items():
        monkeypatch.setenv(name, value)
    home = tmp_path / "home"
    with open_home(home) as kb:
        if before:
            slow.released.set()
            kb.add_text(OLD, uri="text:/pump")
            slow.released.clear()
            slow.waiting.clear()
        ledger = Ledger(home)
        id = promise(ledger, "pump", NEW)
        process = working(home, slow)
        try:
            assert slow.waiting.wait(PATIENCE_SECONDS), process.poll()
            asked = ledger.jobs.cancel(id)
            assert asked is not None and asked.stop and asked.state == ("processing" if before else "indexed")
            if killed:
                process.kill()
                process.wait()
                slow.released.set()
                finish(Worker(kb, ledger, attempts=3))
            else:
                slow.released.set()
                until(lambda: not at(ledger, id).is_open)
        finally:
            process.kill()
            process.wait()
        assert ended(ledger, id) == ("cancelled", STOPPED)
        assert texts(kb) == ([OLD] if before else [])
        assert ledger.jobs.retry(id)
        finish(Worker(kb, ledger, attempts=3))
        assert ended(ledger, id) == ("completed", "") and texts(kb) == [NEW]
        ledger.close()
