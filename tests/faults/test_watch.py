"""`headwater watch` as a process of its own, with real files that come, change, move, go and come back."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.starter import headwater as command

import headwater
from headwater.sources.watch import Event, Watch

PATIENCE_SECONDS = 60.0


class Watching:
    """The process, and what it has said so far."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater", "watch", *arguments, "--home", str(home)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            # Where the tests run in a shell's background, Ctrl-C is ignored, and a child would ignore it too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs yet
        )
        self.lines: list[str] = []
        self.reading = threading.Thread(target=self._read, daemon=True)
        self.reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def wait_for(self, what: Callable[[], bool], why: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not what():
            assert self.process.poll() is None, f"it ended: {self.lines}"
            assert time.monotonic() < end, f"{why}: {self.lines}"
            time.sleep(0.1)

    def said(self, words: str) -> bool:
        return any(words in line for line in self.lines)

    def ends(self, number: int) -> int:
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_SECONDS)
        self.reading.join()
        return code


@contextmanager
def watching(home: Path, *arguments: str) -> Iterator[Watching]:
    made = Watching(home, *arguments)
    try:
        made.wait_for(lambda: made.said("stop with Ctrl-C"), "it never began")
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        made.reading.join()
        assert made.process.stdout is not None
        made.process.stdout.close()


def names(kb: headwater.KnowledgeBase) -> list[str]:
    return sorted(Path(record.uri).name for record in kb.documents())


def test_files_are_followed_through_all_that_happens_to_them(tmp_path: Path) -> None:
    folder, home = tmp_path / "notes", tmp_path / "notes" / "kb"  # the home inside is not watched
    folder.mkdir()
    (folder / "first.md").write_text("# First\n\nIt was there before.", encoding="utf-8")
    with watching(home, str(folder), "--tag", "w") as process, headwater.open(home) as kb:
        assert names(kb) == ["first.md"] and kb.record(str(folder / "first.md")).tags == ("w",)

        # An editor writes beside and renames onto the file.
        draft = folder / ".first.md.swp"
        draft.write_text("# First\n\nSaved by an editor: 8.15 metres.", encoding="utf-8")
        os.replace(draft, folder / "first.md")
        process.wait_for(lambda: len(kb.search("8.15 metres saved", mode="keyword")) == 1, "the edit is not seen")
        assert names(kb) == ["first.md"]

        # A burst is one pass, or a few.
        before = len(process.lines)
        for number in range(40):
            (folder / f"burst-{number}.md").write_text(f"# Burst {number}\n\nOne of many.", encoding="utf-8")
        process.wait_for(lambda: len(names(kb)) == 41, "the burst is not seen")
        assert len(process.lines) - before < 10

        # A folder is renamed: its files are followed, with no document twice.
        (folder / "deep").mkdir()
        (folder / "deep" / "inner.md").write_text("# Inner\n\nquillwort grows here", encoding="utf-8")
        process.wait_for(lambda: "inner.md" in names(kb), "the folder is not seen")
        (folder / "deep").rename(folder / "deeper")
        moved = (folder / "deeper" / "inner.md").as_posix()
        process.wait_for(
            lambda: [hit.uri for hit in kb.search("quillwort", mode="keyword")] == [moved], "the move is not followed"
        )

        (folder / "burst-7.md").unlink()
        process.wait_for(lambda: "burst-7.md" not in names(kb), "the deletion is not followed")
        assert kb.check() == []
        assert process.ends(signal.SIGINT) == 0
        assert process.said("stopped") and not process.said("Traceback")


def test_a_folder_that_goes_takes_nothing_with_it(tmp_path: Path) -> None:
    folder, away, home = tmp_path / "disk", tmp_path / "elsewhere", tmp_path / "kb"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(f"# {name}\n\nSome text.", encoding="utf-8")
    with watching(home, str(folder)) as process, headwater.open(home) as kb:
        folder.rename(away)
        process.wait_for(lambda: process.said("went away"), "it does not notice")
        assert names(kb) == ["a.md", "b.md"]
        folder.mkdir()  # where a disk was taken out an empty folder is left
        process.wait_for(lambda: process.said("and empty"), "it does not notice the other folder")
        assert names(kb) == ["a.md", "b.md"]
        folder.rmdir()
        (away / "c.md").write_text("# c\n\nAdded while it was away.", encoding="utf-8")
        away.rename(folder)
        process.wait_for(lambda: names(kb) == ["a.md", "b.md", "c.md"], "it does not come back")
        (folder / "d.md").write_text("# d\n\nStill watched.", encoding="utf-8")
        process.wait_for(lambda: "d.md" in names(kb), "it is not watched any more")
        assert process.ends(signal.SIGTERM) == 0


def test_what_went_before_goes_with_prune_and_stays_with_no_delete(tmp_path: Path) -> None:
    folder, home = tmp_path / "notes", tmp_path / "kb"
    folder.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (folder / name).write_text(f"# {name}\n\nSome text.", encoding="utf-8")
    (folder / "bad.bin").write_bytes(b"\x00\x01\x02" * 100)
    assert command("add", str(folder), "--home", str(home)).code == 1
    (folder / "a.md").unlink()
    with headwater.open(home) as kb:
        with watching(home, str(folder), "--no-delete", "--json") as process:
            [first] = [json.loads(line) for line in process.lines if line.startswith("{")]
            assert first["missing"] == [(folder / "a.md").as_posix()]
            assert [failure["uri"] for failure in first["failed"]] == [(folder / "bad.bin").as_posix()]
            (folder / "b.md").unlink()
            (folder / "e.md").write_text("# e\n\nNew.", encoding="utf-8")
            process.wait_for(lambda: "e.md" in names(kb), "it does not notice")
            assert names(kb) == ["a.md", "b.md", "bad.bin", "c.md", "e.md"]
            process.wait_for(lambda: any('"added": 1' in line for line in process.lines), "it does not say so")
            later = [json.loads(line) for line in process.lines if line.startswith("{")][1:]
            assert later and not any(report["failed"] for report in later)  # the bad file was tried once
            assert process.ends(signal.SIGINT) == 0
        with watching(home, str(folder), "--prune") as process:
            assert names(kb) == ["bad.bin", "c.md", "e.md"]
            assert process.said("removed 2")


def test_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_text("x", encoding="utf-8")
    for arguments in ((str(file),), (str(tmp_path), "--prune", "--no-delete")):
        done = command("watch", *arguments, "--home", str(tmp_path / "kb"))
        assert done.code == 2 and not (tmp_path / "kb").exists()


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[tuple[Path, list[Event]]]:
    folder = tmp_path / "watched"
    folder.mkdir()
    watch = Watch([folder], ignore=[folder / "home"])
    events: list[Event] = []

    def collect() -> None:
        for event in watch.events():
            if event.kind != "begun":  # that comes once, whatever happens
                events.append(event)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    time.sleep(1.0)
    yield folder, events
    watch.stop()
    thread.join(10)
    assert not thread.is_alive()


def test_what_is_no_document_wakes_nobody(seen: tuple[Path, list[Event]]) -> None:
    folder, events = seen
    for name in (".git/index", "a.md~", "b.swp", "#c#", "node_modules/x.js", "home/catalog.sqlite"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    time.sleep(1.5)
    assert [event for event in events if event.kind != "changed"] == []
    events.clear()
    (folder / "home" / "catalog.sqlite").write_text("y", encoding="utf-8")
    (folder / "a.md~").write_text("y", encoding="utf-8")
    time.sleep(1.5)
    assert events == []
    (folder / "a.md").write_text("y", encoding="utf-8")
    end = time.monotonic() + PATIENCE_SECONDS
    while not events and time.monotonic() < end:
        time.sleep(0.05)
    assert events == [Event(folder=folder.resolve(), kind="changed")]
    shutil.rmtree(folder)
    while not any(event.kind == "gone" for event in events) and time.monotonic() < end:
        time.sleep(0.05)
    assert events[-1].kind == "gone"
