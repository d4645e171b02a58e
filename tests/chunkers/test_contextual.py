"""Context from a language model: asked once, kept, gone on with after a failure, priced beforehand."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import headwater
from headwater.chunkers.auto import AutoChunker
from headwater.chunkers.contextual import ContextualChunker, Estimate
from headwater.chunkers.meta import MetaChunker
from headwater.errors import BackendError
from headwater.messages import Message, Piece
from headwater.protocols import LanguageModel
from headwater.storage.notes import SqliteNotes
from headwater.types import Document, Labels, Section, Span

TEXT = "The gauge was read at noon. " * 60 + "水位每天早上读取一次。" * 60
DOCUMENT = Document(
    uri="a",
    text=TEXT,
    title="Gauge log",
    structure=(Section(title="Readings", level=1, path="Readings", span=Span(0, len(TEXT))),),
)


class Scripted:
    """Says what it was asked for; fails at call number `fails_at`."""

    name = "scripted"
    context_tokens = 4096

    def __init__(self, *, fails_at: int = 0) -> None:
        self.prompts: list[str] = []
        self.fails_at = fails_at
        self._lock = threading.Lock()

    def stream(self, messages: Sequence[Message], **_: object) -> Iterator[Piece]:
        with self._lock:
            self.prompts.append(messages[-1].content)
            number = len(self.prompts)
        if number == self.fails_at:
            raise BackendError("the server is down; try again later")
        said = "It is about " if "passage" in messages[-1].content else "A log of gauges: "
        yield Piece(text=said)
        yield Piece(text=f"readings\n\n no. {number}. ", finish="stop")


def chunker(model: LanguageModel | None, notes: SqliteNotes, *, parallel: int = 1) -> ContextualChunker:
    return ContextualChunker(size=100, overlap=0, language_model=lambda: model, notes=lambda: notes, parallel=parallel)


def test_a_summary_once_and_a_sentence_for_each_passage(tmp_path: Path) -> None:
    model = Scripted()
    chunks = chunker(model, SqliteNotes(tmp_path / "notes")).chunk(DOCUMENT)
    assert len(chunks) > 5
    assert len(model.prompts) == 1 + len(chunks)
    assert "two or three sentences" in model.prompts[0]
    assert all("A log of gauges: readings no. 1." in prompt for prompt in model.prompts[1:])
    assert "一句简短的话" in model.prompts[-1], "a Chinese passage is asked about in Chinese"
    for number, (chunk, plain) in enumerate(zip(chunks, MetaChunker(size=100, overlap=0).chunk(DOCUMENT), strict=True)):
        assert chunk.span == plain.span
        assert chunk.index_text == plain.index_text.replace(
            "</meta>", f"\nIt is about readings no. {number + 2}.</meta>"
        )
        assert DOCUMENT.text[slice(*chunk.span)] == chunk.text


def test_what_was_written_is_not_paid_for_twice(tmp_path: Path) -> None:
    first = chunker(Scripted(), SqliteNotes(tmp_path / "notes")).chunk(DOCUMENT)
    again = Scripted()
    assert chunker(again, SqliteNotes(tmp_path / "notes"), parallel=4).chunk(DOCUMENT) == first
    assert again.prompts == []


def test_after_a_failure_it_goes_on_where_it_was(tmp_path: Path) -> None:
    failing = Scripted(fails_at=5)
    with pytest.raises(BackendError, match="the server is down"):
        chunker(failing, SqliteNotes(tmp_path / "notes")).chunk(DOCUMENT)
    going_on = Scripted()
    chunks = chunker(going_on, SqliteNotes(tmp_path / "notes")).chunk(DOCUMENT)
    # The one that failed is asked again, and those that were not reached.
    assert len(failing.prompts) < len(chunks)
    assert len(going_on.prompts) == 1 + len(chunks) - (len(failing.prompts) - 1)


def test_another_model_title_or_text_is_asked_anew(tmp_path: Path) -> None:
    notes = SqliteNotes(tmp_path / "notes")
    chunker(Scripted(), notes).chunk(DOCUMENT)
    other = Scripted()
    other.name = "other"
    assert chunker(other, notes).fingerprint != chunker(Scripted(), notes).fingerprint
    chunks = chunker(other, notes).chunk(DOCUMENT)
    assert len(other.prompts) == 1 + len(chunks)


def test_the_cost_is_known_before_it_starts(tmp_path: Path) -> None:
    notes = SqliteNotes(tmp_path / "notes")
    model = Scripted()
    contextual = chunker(model, notes)
    cost = contextual.estimate(DOCUMENT)
    assert model.prompts == []
    chunks = contextual.chunk(DOCUMENT)
    assert cost.calls == len(model.prompts) == 1 + len(chunks)
    assert cost.output_tokens == 200 + 80 * len(chunks)
    asked = sum(map(len, model.prompts)) / 4
    assert asked / 2 < cost.input_tokens < asked * 4
    assert contextual.estimate(DOCUMENT) == Estimate()


def test_a_long_document_is_shown_as_far_as_the_model_can_see(tmp_path: Path) -> None:
    model = Scripted()
    model.context_tokens = 1000
    long = Document(uri="a", text="word " * 20_000, title="Long")
    contextual = ContextualChunker(size=10_000, overlap=0, language_model=lambda: model)
    contextual.chunk(long)
    assert len(model.prompts[0]) < 5 * 1000


def test_without_a_model_it_is_meta_and_says_so() -> None:
    contextual = ContextualChunker(size=100, overlap=0)
    assert contextual.chunk(DOCUMENT) == MetaChunker(size=100, overlap=0).chunk(DOCUMENT)
    assert "no language model is set" in contextual.remarks(DOCUMENT)[0]
    assert contextual.estimate(DOCUMENT) == Estimate()
    auto = AutoChunker()
    assert auto.remarks(Document(uri="a", text="x", meta={"strategy": "contextual"}))
    assert not auto.remarks(Document(uri="a", text="x"))


def test_a_home_keeps_what_was_written(tmp_path: Path) -> None:
    labels = Labels(meta={"strategy": "contextual", "chunk_size": 60})
    model = Scripted()
    with headwater.open(tmp_path / "home", language_model=model) as kb:
        kb.add_text(TEXT, uri="log", labels=labels)
        record = kb.record("log")
        assert record.problems == ()
        assert kb.search("It is about readings", mode="keyword")[0].uri == "log"
        assert all("It is about readings" in chunk.index_text for chunk in kb.chunks(record.id))
        kb.remove(record.id)
        asked = len(model.prompts)
        kb.add_text(TEXT, uri="log", labels=labels)
        assert len(model.prompts) == asked
        assert kb.check() == []


def test_a_home_without_a_model_says_so_on_the_document(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "home") as kb:
        kb.add_text(TEXT, uri="log", labels=Labels(meta={"strategy": "contextual"}))
        assert "no language model is set" in kb.record("log").problems[0]
        assert kb.record("log").state == "completed"


def test_a_model_that_fails_stops_the_ingest_and_loses_nothing(tmp_path: Path) -> None:
    labels = Labels(meta={"strategy": "contextual", "chunk_size": 60})
    with headwater.open(tmp_path / "home", language_model=Scripted(fails_at=3)) as kb:
        with pytest.raises(BackendError, match="the server is down"):
            kb.add_text(TEXT, uri="log", labels=labels)
        assert kb.status()["pending"] == 1
    model = Scripted()
    with headwater.open(tmp_path / "home", language_model=model) as kb:
        kb.add_text(TEXT, uri="log", labels=labels)
        chunks = kb.chunks(kb.record("log").id)
        assert len(model.prompts) < 1 + len(chunks)
        assert all("It is about readings" in chunk.index_text for chunk in chunks)


def test_notes_say_what_is_wrong_with_their_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    path.write_bytes(b"this is no database, but long enough to be taken for a damaged one" * 20)
    with pytest.raises(BackendError, match="move it away"):
        SqliteNotes(path).get(b"key")
    notes = SqliteNotes(tmp_path / "other.sqlite")
    assert notes.get(b"key") is None
    assert not notes.path.exists()
    notes.put(b"key", "half a pair \ud800")
    assert notes.get(b"key") == "half a pair \ud800"
    notes.close()
