"""An ingest in which parsers do their worst, and documents with others inside them, through the whole write path."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import headwater
from headwater.attach import own_title
from headwater.build import KnowledgeBase
from headwater.config import Config, Setting
from headwater.errors import EmptyDocument, SourceError
from headwater.filters import ALL
from headwater.indexer import Indexer, Progress
from headwater.models.hashed import HashedEmbedder
from headwater.prepare import LOOK_AHEAD, LOOK_AHEAD_SMALL, SMALL_BYTES
from headwater.sandbox.parser import SandboxedParser
from headwater.storage.memory import MemoryTextIndex, MemoryVectorIndex
from headwater.storage.memory_catalog import MemoryCatalog
from headwater.testing.faults import Crash, every_crash_point
from headwater.tokens import Cutter
from headwater.types import Blob, Change, Document, Labels, Record, Space, document_id

CUTTER = Cutter()
LIMITS = {
    "ingest.parse_wall_seconds": 3.0,
    "ingest.parse_cpu_seconds": 2,
    "ingest.parse_memory_bytes": 400 * 1024**2,
    "ingest.parse_output_chars": 1_000_000,
}


@pytest.fixture
def kb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KnowledgeBase]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    config = Config({name: Setting(value, "this test") for name, value in LIMITS.items()})
    with headwater.open(tmp_path / "kb", config=config) as opened:
        named = SandboxedParser(
            opened.parsers.sandbox, parser="hostile_parsers:HostileParser", mimes=frozenset({"test/hostile"})
        )
        opened.parsers._made["test/hostile"] = named
        yield opened


def put(uri: str, text: str, mime: str = "test/hostile") -> Change:
    return Change(uri=uri, kind="put", payload=Blob(uri=uri, data=text.encode(), mime=mime))


@pytest.mark.skipif(sys.platform == "win32", reason="kills and signals of POSIX")
def test_each_is_one_failed_document_and_the_others_are_indexed(kb: KnowledgeBase) -> None:
    worst = ("loop", "eat", "crash", "sleep", "raise", "exit", "recurse", "children", "refuse", "empty")
    changes = []
    for n, what in enumerate(worst):
        changes += [put(f"/fine-{n}", f"the heron number {n} stands in the river"), put(f"/{what}", what)]
        changes.append(put(f"/plain-{n}.txt", f"the willow number {n} stands on the bank", "text/plain"))
    kb.catalog.enqueue(changes)
    told: list[Progress] = []
    with kb.writing():
        kb.indexer.run(told.append)
    records = {record.uri: record for record in kb.documents()}
    assert len(records) == len(changes) and kb.catalog.pending() == 0
    for what in worst:
        record = records[f"/{what}"]
        assert record.state == ("empty" if what == "empty" else "failed") and record.error, what
    for n in range(len(worst)):
        assert records[f"/fine-{n}"].state == records[f"/plain-{n}.txt"].state == "completed"
        assert kb.document(f"/fine-{n}").boxes, "boxes come back from the worker and from the catalog"
        assert records[f"/fine-{n}"].coverage["score"] == 1.0
    for word in ("heron", "willow"):
        found = {hit.uri for hit in kb.search(f"{word} number", mode="keyword", top_n=50)}
        assert len([uri for uri in found if records[uri].state == "completed"]) >= len(worst), word
    assert told and told[-1].stage_seconds["parse"] > 0 and told[-1].done == len(changes)
    waiting = [progress for progress in told if progress.stage == "parse"]
    assert {"/loop", "/sleep"} & {progress.uri for progress in waiting}, "whoever waits is told what for"
    assert kb.check() == []


def test_results_come_in_order_whoever_is_quicker() -> None:
    """Parsers elsewhere finish in any order; a few are started ahead, and no more."""
    started: list[tuple[str, Future[tuple[Document, float]]]] = []
    most = 0

    class Elsewhere:
        mimes = frozenset({"x/y"})

        def start(self, blob: Blob) -> Future[tuple[Document, float]]:
            nonlocal most
            future: Future[tuple[Document, float]] = Future()
            started.append((blob.uri, future))
            open_ones = [one for one in started if not one[1].done()]
            most = max(most, len(open_ones))
            if len(open_ones) > 5:  # the latest of the first few is ready before the others
                for uri, other in reversed(open_ones):
                    other.set_result((Document(uri=uri, text=f"text of {uri}"), 0.5))
            return future

        def parse(self, blob: Blob) -> Document:
            raise AssertionError("it has been started")

    indexer = made(lambda mime: Elsewhere(), {})
    indexer.catalog.enqueue([put(f"/{n}", "x", "x/y") for n in range(24)])
    versions = list(indexer._prepare.versions(indexer.catalog.claim(100)))
    assert [version.change.uri for version in versions] == [f"/{n}" for n in range(24)]
    assert [v.document.text for v in versions] == [f"text of /{n}" for n in range(24)]  # type: ignore[union-attr]
    assert 5 < most <= 9 and indexer.stage_seconds["parse"] == 12.0


@pytest.mark.parametrize(("size", "ahead"), [(1, LOOK_AHEAD_SMALL), (SMALL_BYTES // 4, LOOK_AHEAD)])
def test_small_files_are_given_away_further_ahead_than_large_ones(size: int, ahead: int) -> None:
    begun, most = 0, 0
    gate = threading.Event()

    class Elsewhere:
        mimes = frozenset({"x/y"})

        def start(self, blob: Blob) -> Future[tuple[Document, float]]:
            nonlocal begun, most
            begun += 1
            most = max(most, begun)
            return pool.submit(self.parsed, blob)

        def parsed(self, blob: Blob) -> tuple[Document, float]:
            nonlocal begun
            assert gate.wait(10)
            begun -= 1
            return Document(uri=blob.uri, text="text"), 0.0

    with ThreadPoolExecutor(1) as pool:
        indexer = made(lambda mime: Elsewhere(), {})
        indexer.catalog.enqueue([put(f"/{n:03d}", size * "x", "x/y") for n in range(100)])
        opened = threading.Timer(0.5, gate.set)
        opened.start()
        assert len(list(indexer._prepare.versions(indexer.catalog.claim(100)))) == 100
        opened.join()
    assert most == ahead + 1


def test_what_took_long_to_parse_is_safe_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        mimes = frozenset({"x/y"})

        def parse(self, blob: Blob) -> Document:
            time.sleep(0.05)
            if blob.uri == "/9":
                raise Crash
            return Document(uri=blob.uri, text=f"text of {blob.uri}")

    monkeypatch.setattr("headwater.indexer.BATCH_SECONDS", 0.1)
    indexer = made(lambda mime: Slow(), {})
    indexer.catalog.enqueue([put(f"/{n}", "x", "x/y") for n in range(12)])
    with pytest.raises(Crash):
        indexer.run()
    assert len(listed(indexer)) >= 4, "only the last batches are lost"


# ------------------------------------------------------------------------------------------- attachments


class MailParser:
    """Bodies and attachments, as `body|name=content|name=content`."""

    mimes = frozenset({"text/mail", "text/part"})

    def parse(self, blob: Blob) -> Document:
        body, *files = blob.data.decode().split("|")
        if body == "broken":
            raise SourceError("it is broken")
        if body == "blank":
            raise EmptyDocument("it is blank")
        attachments = []
        for file in files:
            name, _, content = file.partition("=")
            mime = "text/unknown" if name.endswith(".bin") else "text/part"
            attachments.append(Blob(uri=name, data=content.encode(), mime=mime))
        return Document(uri=blob.uri, text=body, attachments=tuple(attachments))


def in_memory() -> tuple[MemoryCatalog, MemoryTextIndex, MemoryVectorIndex]:
    catalog = MemoryCatalog()
    text = MemoryTextIndex(select=catalog.select, cutter=CUTTER)
    return catalog, text, MemoryVectorIndex(dim=32, select=catalog.select)


def made(
    parser: Callable[[str], object], files: dict[str, str], *, stores: tuple[object, ...] | None = None
) -> Indexer:
    from headwater.chunkers.recursive import RecursiveChunker

    embedder = HashedEmbedder(dim=32)
    catalog, text, vectors = stores or in_memory()
    catalog.open_space(Space(embedder=embedder.fingerprint, dim=32, chunker="test"))  # type: ignore[attr-defined]
    return Indexer(
        catalog=catalog,  # type: ignore[arg-type]
        text=text,  # type: ignore[arg-type]
        vectors=vectors,  # type: ignore[arg-type]
        chunker=RecursiveChunker(),
        embedder=embedder,
        read=lambda change: Blob(uri=change.uri, data=files[change.uri].encode(), mime="text/mail"),
        parser=parser,  # type: ignore[arg-type]
    )


def mail_parser(mime: str) -> MailParser:
    if mime not in MailParser.mimes:
        raise SourceError(f"no parser reads {mime}")
    return MailParser()


def listed(indexer: Indexer) -> dict[str, Record]:
    return {record.uri: record for record in indexer.catalog.records(ALL)}


def run(indexer: Indexer, uri: str = "/mail", **fields: object) -> dict[str, Record]:
    indexer.catalog.enqueue([Change(uri=uri, kind="put", **fields)])  # type: ignore[arg-type]
    indexer.run()
    assert indexer.catalog.pending() == 0
    return listed(indexer)


def test_attachments_are_documents_of_their_own_with_the_labels_of_the_whole() -> None:
    files = {"/mail": "hello|a.txt=first|a.txt=second|../up/b.txt=third|c.bin=nobody reads it"}
    indexer = made(mail_parser, files)
    labels = Labels(title="The mail", tags=("hr",), folder="in", meta={"year": 2025})
    found = run(indexer, owner="ann", collection="post", labels=labels)
    assert set(found) == {"/mail", "/mail#a.txt", "/mail#a (2).txt", "/mail#b.txt"}
    whole, part = found["/mail"], found["/mail#a (2).txt"]
    assert (part.owner, part.collection, part.tags, part.folder) == ("ann", "post", ("hr",), "in")
    assert part.meta == {"year": 2025, "part_of": "/mail"} and part.title != "The mail"
    document = indexer.catalog.document(part.id)
    assert document is not None and document.text == "second"
    assert whole.coverage["attachments"] == 3 and whole.state == "completed"
    assert whole.problems == ("attachment 'c.bin' is left out: no parser reads text/unknown",)


def test_attachments_follow_their_whole() -> None:
    files = {"/mail": "hello|a.txt=first|b.txt=inner\x00", "/other": "text"}
    indexer = made(mail_parser, files)
    assert set(run(indexer)) == {"/mail", "/mail#a.txt", "/mail#b.txt"}
    before = listed(indexer)["/mail#a.txt"].ticket
    files["/mail"] = "hello again|a.txt=first|c.txt=new"
    after = run(indexer)
    assert set(after) == {"/mail", "/mail#a.txt", "/mail#c.txt"}
    assert after["/mail#a.txt"].ticket == before, "an attachment that did not change is no work"
    files["/mail"] = "broken"
    assert set(run(indexer)) == set(after), "what cannot be read keeps what is there"
    files["/mail"] = "blank"
    assert set(run(indexer)) == {"/mail"}
    files["/mail"] = "hello|d.txt=x"
    assert set(run(indexer)) == {"/mail", "/mail#d.txt"}
    indexer.catalog.enqueue([Change(uri="/mail", kind="delete")])
    indexer.run()
    assert listed(indexer) == {}


def test_an_attachment_that_fails_is_a_problem_of_the_whole_and_is_tried_again() -> None:
    files = {"/mail": "hello|a.txt=broken|b.txt=blank|c.txt=fine"}
    indexer = made(mail_parser, files)
    found = run(indexer, stamp="1")
    states = {uri: record.state for uri, record in found.items()}
    assert states == {
        "/mail": "completed",
        "/mail#a.txt": "failed",
        "/mail#b.txt": "empty",
        "/mail#c.txt": "completed",
    }
    assert found["/mail"].problems == ("attachment 'a.txt': it is broken", "attachment 'b.txt': it is blank")
    assert found["/mail"].stamp == "" == found["/mail"].content_hash
    assert found["/mail#c.txt"].problems == ()


def test_a_mail_in_a_mail_has_an_end() -> None:
    class Nested:
        mimes = frozenset({"text/mail"})

        def parse(self, blob: Blob) -> Document:
            return Document(uri=blob.uri, text="again", attachments=(Blob(uri="m", data=blob.data, mime="text/mail"),))

    found = run(made(lambda mime: Nested(), {"/mail": "x"}))
    assert len(found) == 9
    assert any("deep" in problem for record in found.values() for problem in record.problems)


def test_attachments_survive_a_crash_at_every_call() -> None:
    """Whatever call is the last one: after another run everything is there, once."""
    files = {"/mail": "hello|a.txt=first|b.txt=second"}
    crashes = 0
    for countdown in every_crash_point():
        stores = in_memory()
        good = made(mail_parser, files, stores=stores)
        good.catalog.enqueue([Change(uri="/mail", kind="put")])
        bad = made(mail_parser, files, stores=stores)
        bad.catalog = bad._prepare.catalog = countdown.wrap(stores[0])
        bad.text, bad.vectors = countdown.wrap(stores[1]), countdown.wrap(stores[2])
        try:
            bad.run()
        except Crash:
            crashes += 1
        good.run()
        found = listed(good)
        assert {uri: record.state for uri, record in found.items()} == dict.fromkeys(
            ("/mail", "/mail#a.txt", "/mail#b.txt"), "completed"
        )
        whole = good.catalog.record(document_id("local", "default", "/mail"))
        assert whole is not None and whole.coverage["attachments"] == 2 and good.catalog.pending() == 0
    assert crashes > 20


# ---------------------------------------------------------------------------------------- the front door


MAIL = (
    "From: a@example.org\nTo: b@example.org\nSubject: Survey of the weir\nMIME-Version: 1.0\n"
    'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: text/plain; charset=utf-8\n\n{body}\n'
    "--x\nContent-Type: text/plain; charset=utf-8\n"
    'Content-Disposition: attachment; filename="report.txt"\n\n{report}\n--x--\n'
)


def test_a_mail_with_a_file_is_found_shown_and_removed_as_a_whole(tmp_path: Path) -> None:
    folder = tmp_path / "post"
    folder.mkdir()
    mail = folder / "survey.eml"
    mail.write_text(MAIL.format(body="See the report on the weir.", report="The weir leaks at the left bank."), "utf-8")
    (folder / "note.txt").write_text("Nothing about it.", encoding="utf-8")
    uri = mail.resolve().as_posix()
    with headwater.open(tmp_path / "kb") as kb:
        assert (kb.add(folder).added, kb.add(folder).unchanged) == (2, 2)
        [hit] = kb.search("leaks at the left bank", mode="keyword", top_n=1)
        assert hit.uri == f"{uri}#report.txt" and hit.record.meta["part_of"] == uri
        assert [part.uri for part in kb.attachments(uri)] == [f"{uri}#report.txt"]
        assert hit.record.title == "report", "not survey.eml#report"
        report = kb.add(folder, prune=True)
        assert (report.unchanged, report.removed, report.missing) == (2, 0, ())
        mail.write_text(MAIL.format(body="The report was wrong.", report="It does not leak at all."), "utf-8")
        assert kb.add(folder).updated == 1
        assert not [h for h in kb.search("leaks at the left bank", mode="keyword") if "leaks" in h.chunk.text]
        mail.unlink()
        report = kb.add(folder)
        assert report.missing == (uri,) and len(kb.documents()) == 3
        assert kb.add(folder, prune=True).removed == 1 and [r.uri for r in kb.documents()] == [f"{folder}/note.txt"]
        mail.write_text(MAIL.format(body="Once more.", report="A last word."), "utf-8")
        kb.add(folder)
        assert kb.remove(uri) == 2 and len(kb.documents()) == 1
        assert kb.check() == []


@pytest.mark.parametrize(
    ("uri", "told", "title"),
    [
        ("/post/mail.eml#报告.xlsx", "mail.eml#报告", "报告"),
        ("/post/mail.eml#报告.xlsx", "年度报告", "年度报告"),
        ("/post/mail.eml#run.py", "mail.eml#run.py", "run.py"),
        ("/post/mail.eml#README", "mail", "README"),
        ("/post/mail.eml#a#b.csv", "mail.eml#a#b", "a#b"),
        ("/post/mail.eml#b.csv", "", "b"),
    ],
)
def test_an_attachment_is_called_by_its_own_name(uri: str, told: str, title: str) -> None:
    labels = Labels(meta={"part_of": "/post/mail.eml"})
    change = Change(uri=uri, kind="put", labels=labels)
    assert own_title(Document(uri=uri, text="x", title=told), change) == title
    plain = Change(uri="/a#b.csv", kind="put")
    assert own_title(Document(uri="/a#b.csv", text="x", title="a#b"), plain) == "a#b"
