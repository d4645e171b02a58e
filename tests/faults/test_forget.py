"""`forget`: afterwards no byte of any file of the home holds anything of the document."""

import time
from pathlib import Path

import pytest
from tests.starter import headwater as command

import headwater
from headwater.errors import NotFound, UsageError
from headwater.storage.ledger import FILE_NAME, Ledger, Original
from headwater.storage.lock import HomeLock
from headwater.storage.notes import SqliteNotes
from headwater.storage.subscriptions import Subscription, Subscriptions
from headwater.types import document_id

# Words of its text, its title, a heading, a tag, its folder, its name; in two scripts.
MARKS = ("quokkamark", "Zanzibarmark", "blorpmark", "tagmark", "foldermark", "namemark", "量子泽布拉标记")


def holding(home: Path, mark: str) -> list[str]:
    """The files that hold a word, forwards or backwards (as a list of words keeps it), in either case."""
    found = []
    for path in sorted(home.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            spellings = {mark, mark.lower()}
            forms = [form for one in spellings for form in (one.encode(), one.encode()[::-1], one.encode("utf-16-le"))]
            if any(form in data for form in forms):
                found.append(path.relative_to(home).as_posix())
    return found


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "docs" / "foldermark" / "namemark.md"
    path.parent.mkdir(parents=True)
    path.write_text(
        "---\ntags: [tagmark]\n---\n# Zanzibarmark\n\nThe secret word is quokkamark. 秘密是量子泽布拉标记。\n\n"
        "## About blorpmark\n\nMore of the same.\n" + "Filler sentences make it longer. " * 400,
        encoding="utf-8",
    )
    for number in range(30):
        (tmp_path / "docs" / f"other-{number}.md").write_text(
            f"# Other {number}\n\nOrdinary words about gauge {number} remain searchable.", encoding="utf-8"
        )
    return path


def use(kb: headwater.KnowledgeBase, secret: Path) -> str:
    """Leave traces of the document wherever a home can hold some."""
    docs = secret.parents[1]
    kb.add(docs)
    record = kb.record(str(secret))
    # An earlier version, an answer, a conversation, a search, a remark, a job, an original, a note.
    secret.write_text(secret.read_text(encoding="utf-8") + "\n\nA later line.", encoding="utf-8")
    kb.add(docs)
    kb.chat("What is the secret word?")
    ledger = Ledger(kb.home)
    whose = {"owner": "local", "collection": "default", "uri": record.uri}
    hashed = ledger.originals.write(secret.read_bytes())
    ledger.originals.keep(
        Original(document=record.id, hash=hashed, name="namemark.md", mime="text/markdown", bytes=1, **whose)
    )
    told = {"kind": "search", "query": "quokkamark?", "mode": "hybrid", "hits": [f"{record.id}:0-10"], "total": 1}
    ledger.journal.searched("local", **told, took_ms=1.0)
    remark = {"kind": "thumb", "value": 1, "query": "quokkamark", "answer": "quokkamark", "chunk": "", "comment": ""}
    ledger.journal.said("local", {**remark, "document": record.id})
    ledger.journal.add_webhook("local", url="https://example.org/hook", secret="s", events=["job.cancelled"])
    job = ledger.jobs.add(document=record.id, kind="put", work={"labels": {"title": "Zanzibarmark"}}, **whose)
    ledger.jobs.cancel(job.id)
    assert ledger.outbox.take(limit=1, lease_seconds=0)[0].job["uri"] == record.uri
    ledger.close()
    Subscriptions(kb.home).add(Subscription(url=record.uri, every_seconds=3600, due=time.time() + 3600))
    notes = SqliteNotes(kb.home / "notes.sqlite")
    notes.put(b"key", "A passage about quokkamark in Zanzibarmark.")
    notes.close()
    return record.id


def test_no_byte_is_left(tmp_path: Path, secret: Path) -> None:
    home = tmp_path / "kb"
    config = headwater.Config()
    with headwater.open(home, config=config) as kb:
        id = use(kb, secret)
        before = {mark: holding(home, mark) for mark in MARKS}
        assert all(before.values()), before
        # It is where it should be, so that finding nothing afterwards means something.
        everywhere = {name for names in before.values() for name in names}
        assert any(name.startswith("catalog.sqlite") for name in everywhere)
        assert any(name.startswith("conversations.sqlite") for name in everywhere)
        assert any(name.startswith(FILE_NAME) for name in everywhere)
        assert any(name.startswith("notes.sqlite") for name in everywhere)
        assert any(name.startswith("originals/") for name in everywhere)
        assert any(name.startswith("subscriptions.sqlite") for name in everywhere)
        segments = {path.name for path in home.glob("text-*/*.term")}
        done = kb.forget(str(secret))
        assert done.documents == 1 and done.answers >= 1 and done.searches == 2
        left = {mark: holding(home, mark) for mark in MARKS}
        assert not any(left.values()), left
        assert segments.isdisjoint(path.name for path in home.glob("text-*/*.term"))
        for mark in MARKS:
            assert kb.search(mark, mode="keyword").hits == ()
        assert kb.check() == []
        assert len(kb.search("ordinary words", mode="keyword", top_n=50)) == 30
        assert len(kb.search("gauge 7", mode="semantic", top_n=5)) == 5
        with pytest.raises(NotFound):
            kb.record(id)
        # The file is still there: added again it is a document like any other.
        assert kb.add(secret).added == 1 and len(kb.search("quokkamark", mode="keyword")) == 1
        assert kb.check() == []
    assert not any(holding(home, "A later line never written") for _ in MARKS)


def test_it_works_beside_a_reader_and_after_a_close(tmp_path: Path, secret: Path) -> None:
    home = tmp_path / "kb"
    with headwater.open(home) as kb:
        use(kb, secret)
    with headwater.open(home) as reader:
        assert len(reader.search("quokkamark", mode="keyword")) == 1
        done = command("forget", str(secret), "--home", str(home))
        assert done.code == 0 and "erased 1 documents" in done.output, done.error
        assert not any(holding(home, mark) for mark in MARKS)
        assert reader.search("quokkamark", mode="keyword").hits == ()
        assert len(reader.search("ordinary words", mode="keyword", top_n=50)) == 30
    again = command("forget", str(secret), "--home", str(home))
    assert again.code == 2


def test_spaces_that_held_it_go_and_a_reindex_under_way_is_not_disturbed(tmp_path: Path, secret: Path) -> None:
    home = tmp_path / "kb"
    with headwater.open(home) as kb:
        use(kb, secret)
    (home / "headwater.toml").write_text('[chunk]\nuse = "sentence"\n', encoding="utf-8")
    with headwater.open(home) as kb:
        kb.reindex()
        assert len(kb.catalog.spaces()) == 2
        lock = HomeLock(home / "reindex.lock")
        lock.acquire()
        with pytest.raises(UsageError, match="reindex"):
            kb.forget(str(secret))
        lock.release()
        assert kb.record(str(secret)).title == "Zanzibarmark"
        done = kb.forget(str(secret))
        assert done.spaces == 1
        assert not any(holding(home, mark) for mark in MARKS)
        assert kb.check() == [] and len(kb.search("ordinary words", mode="keyword", top_n=50)) == 30


def test_what_came_inside_goes_too(tmp_path: Path) -> None:
    mail = tmp_path / "letter.eml"
    mail.write_bytes(
        b"From: a@example.org\nTo: b@example.org\nSubject: Letter\nDate: Wed, 01 Oct 2025 10:00:00 +0000\n"
        b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\nHello.\n"
        b"--x\nContent-Type: text/plain\nContent-Disposition: attachment; filename=inner.txt\n\n"
        b"The attached quokkamark stands here.\n--x--\n"
    )
    with headwater.open(tmp_path / "kb") as kb:
        kb.add(mail)
        assert len(kb.search("quokkamark", mode="keyword")) == 1 and kb.attachments(str(mail))
        assert kb.forget(str(mail)).documents == 2
        assert holding(tmp_path / "kb", "quokkamark") == []
        assert document_id("local", "default", str(mail)) not in {record.id for record in kb.documents()}
