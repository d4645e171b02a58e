"""A disk without room: the error says so, nothing acknowledged is lost, and work goes on when there is room again."""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headwater.build import open_home
from headwater.errors import DiskFull, HomeLocked
from headwater.filters import ALL, parse
from headwater.server.wire import fault_of
from headwater.server.worker import Worker
from headwater.storage.ledger import Ledger
from headwater.storage.lock import HomeLock
from headwater.storage.sqlite import SqliteCatalog
from headwater.stores import CATALOG_FILE
from headwater.testing.versions import SPACE, made, named, put
from headwater.types import document_id


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqliteCatalog]:
    opened = SqliteCatalog(tmp_path / "catalog.sqlite")
    opened.open_space(SPACE)
    yield opened
    opened.close_store()


def bound(catalog: SqliteCatalog, *, spare_pages: int) -> None:
    """Let the file grow by so many pages and no more, which SQLite reports as it reports a full disk."""
    db = catalog._database._writer
    assert db is not None
    pages = db.execute("pragma page_count").fetchone()[0]
    db.execute(f"pragma max_page_count = {pages + spare_pages}")


def text(n: int) -> str:
    return "\n".join(f"line {line} of version {n} " + "x" * 200 for line in range(50))


def test_a_full_disk_loses_nothing_that_was_acknowledged(catalog: SqliteCatalog) -> None:
    acknowledged: dict[str, str] = {}
    refused = 0
    bound(catalog, spare_pages=40)
    for n in range(60):
        uri = f"u{n % 20}"
        try:
            [change] = catalog.draw([put(uri)])
            catalog.commit([made(change, text(n), tags=("t",))])
        except DiskFull as error:
            assert "make room" in str(error)
            refused += 1
        else:
            acknowledged[named(change)] = text(n)
        for id, expected in acknowledged.items():
            document = catalog.document(id)
            assert document is not None and document.text == expected
    assert refused > 5 and len(acknowledged) > 5
    assert catalog.check() == []
    assert {record.id for record in catalog.records(parse("tag = t"))} == set(acknowledged)

    bound(catalog, spare_pages=100_000)
    last = catalog.last_ticket()
    for n in range(20):
        [change] = catalog.draw([put(f"u{n}")])
        catalog.commit([made(change, text(n))])
    assert len(catalog.records(ALL)) == 20 and catalog.last_ticket() == last + 20
    assert catalog.check() == []


def test_a_queue_that_does_not_fit_is_refused_whole(catalog: SqliteCatalog) -> None:
    catalog.enqueue([put("kept")])
    bound(catalog, spare_pages=2)
    with pytest.raises(DiskFull):
        catalog.enqueue([put(f"u{n}", stamp="s" * 1000) for n in range(200)])
    assert catalog.pending() == 1
    assert [change.uri for change in catalog.claim(10)] == ["kept"]


def test_an_error_in_the_midst_of_a_commit_leaves_nothing_of_it(
    catalog: SqliteCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    [old] = catalog.draw([put("u")])
    catalog.commit([made(old, "# Old\nold", tags=("old",))])
    [new] = catalog.draw([put("u")])
    version = made(new, "# New\nnew", tags=("new",))

    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headwater.storage._commit.Commit._write_floors", no_room)
    with pytest.raises(DiskFull):
        catalog.commit([version])
    monkeypatch.undo()
    assert catalog.tickets() == {old.ticket: 2} and catalog.dead() == []
    assert [r.ticket for r in catalog.records(parse("tag = old"))] == [old.ticket]
    catalog.commit([version])
    assert catalog.tickets() == {new.ticket: 2} and catalog.check() == []
    assert [chunk.section for chunk in catalog.chunks_of(named(new))] == ["New", "New"]
    assert [r.ticket for r in catalog.records(parse("tag = new"))] == [new.ticket]


def test_a_file_that_does_not_fit_leaves_no_half_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    kept = ledger.originals.write(b"kept")

    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("headwater.storage._originals.os.fsync", no_room)
    with pytest.raises(DiskFull, match="no room left for a file of 6 bytes") as caught:
        ledger.originals.write(b"not it")
    assert fault_of(caught.value).status == 503
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "originals").rglob("*") if path.is_file()] == [kept]
    assert ledger.originals.read(ledger.originals.write(b"not it")) == b"not it"
    ledger.close()


def test_a_lock_is_taken_on_a_full_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    lock = HomeLock(tmp_path / "write.lock")
    monkeypatch.setattr("headwater.storage.lock.os.write", no_room)
    lock.acquire()
    assert lock.held
    with pytest.raises(HomeLocked):
        HomeLock(lock.path).acquire()
    lock.release()


def without_room(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that can lengthen no file by a byte."""
    limited = ["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", sys.executable, "-m", "headwater"]
    return subprocess.run([*limited, *arguments], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(os.name != "posix", reason="a limit of the shell, and a way to open SQLite files there")
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_what_only_reads_needs_no_room(tmp_path: Path, closed: bool) -> None:
    note, home = tmp_path / "note.txt", tmp_path / "home"
    note.write_text("The pump failed at dawn.", encoding="utf-8")
    with open_home(home) as kb:
        kb.add(note)
    if not closed:  # what was committed last is still in the log, without the index of it
        with closing(sqlite3.connect(home / CATALOG_FILE, isolation_level=None)) as db:
            db.execute("pragma wal_autocheckpoint = 0")
            db.execute("update document set title = 'Night'")
            shutil.copytree(home, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm"))
        home = tmp_path / "copy"
        assert (home / f"{CATALOG_FILE}-wal").stat().st_size
    for arguments in (("search", "pump"), ("ask", "When did the pump fail?"), ("list",), ("check",)):
        done = without_room(*arguments, "--home", str(home))
        assert done.returncode == 0 and done.stderr == "", (arguments, done)
    assert ("note" if closed else "Night") in without_room("search", "pump", "--home", str(home)).stdout
    refused = without_room("add", str(note), "--tag", "new", "--home", str(home))
    assert refused.returncode == 1 and "is full; nothing acknowledged is lost" in refused.stderr
    with open_home(home) as kb:
        assert kb.check() == [] and kb.record(note.as_posix()).tags == ()
        assert kb.add(note, tags=["new"]).updated == 1


@pytest.mark.skipif(os.name != "posix", reason="a limit of the shell, and a way to open SQLite files there")
def test_a_home_is_not_made_where_there_is_no_room(tmp_path: Path) -> None:
    done = without_room("search", "pump", "--home", str(tmp_path / "home"))
    assert done.returncode == 2 and "there is no knowledge base" in done.stderr
    done = without_room("add", __file__, "--home", str(tmp_path / "home"))
    assert done.returncode == 1 and "Traceback" not in done.stderr


def test_a_worker_outlives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_home(tmp_path) as kb:
        ledger = Ledger(tmp_path)
        worker = Worker(kb, ledger, attempts=3)
        failing, failed = True, threading.Event()
        step = worker.step

        def sometimes() -> bool:
            if not failing:
                return step()
            failed.set()
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(worker, "step", sometimes)
        worker.start()
        assert failed.wait(30)
        failing = False
        hash = ledger.originals.write(b"The pump failed at dawn.")
        work = {"hash": hash, "mime": "text/plain", "modified": "", "bytes": 24, "labels": {}}
        id = document_id("local", "default", "note:1")
        job = ledger.jobs.add(owner="local", collection="default", document=id, uri="note:1", kind="put", work=work)
        end = time.monotonic() + 60
        while (now := ledger.jobs.get(job.id)) is None or now.is_open:
            assert time.monotonic() < end
            worker.wake()
            time.sleep(0.05)
        assert now.state == "completed"
        worker.stop(timeout_seconds=30)
        ledger.close()
