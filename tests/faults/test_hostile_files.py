"""The hostile files of `bench/hostile.py` through a real `add`: each has its outcome in time, and the others go on."""

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import headwater
from headwater.build import KnowledgeBase
from headwater.config import Config, Setting
from headwater.types import Record, Report

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from mixed_files import KINDS, mark, write_mixed

from hostile import Hostile, every_file

del sys.path[:2]

MEGABYTE = 1024**2
WALL_SECONDS, CPU_SECONDS, MEMORY_BYTES = 12.0, 2, 400 * MEGABYTE
MAPPED_BYTES = 64 * MEGABYTE
LIMITS = {
    "ingest.parse_wall_seconds": WALL_SECONDS,
    "ingest.parse_cpu_seconds": CPU_SECONDS,
    "ingest.parse_memory_bytes": MEMORY_BYTES,
    "ingest.parse_output_chars": 3_000_000,
}
# A machine may be busy: what is asserted is that no limit is passed by minutes.
SLACK_SECONDS = 15.0
GOOD = 3 * len(KINDS)
SAMPLE_SECONDS = 0.02
FILES = every_file()
LIGHT = {one.name: one for one in FILES if not one.heavy}
HEAVY = {one.name: one for one in FILES if one.heavy}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes, devices and /proc of Linux")


@dataclass
class Seen:
    """An ingest that is over, and what was seen of its workers."""

    kb: KnowledgeBase
    folder: Path
    good: dict[int, Path] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    records: dict[str, Record] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)  # the most its worker had ever held, by uri
    seconds: dict[str, float] = field(default_factory=dict)  # how long a worker was at it, by uri
    own_seconds: float = 0.0  # of a processor, without the workers

    def add(self) -> None:
        """Add the folder, with an eye on the workers."""
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watch.start()
        began = time.process_time()
        self.report = self.kb.add(self.folder)
        self.own_seconds = time.process_time() - began
        over.set()
        watch.join()
        self.records = {record.uri: record for record in self.kb.documents()}

    def _watch(self, over: threading.Event) -> None:
        sandbox, began = self.kb.parsers.sandbox, dict[tuple[int, str], float]()
        while not over.wait(SAMPLE_SECONDS):
            with sandbox._lock:
                busy = {(worker._process.pid, blob.uri) for worker, blob in sandbox._busy.items()}
            for pid, uri in busy:
                since = began.setdefault((pid, uri), time.monotonic())
                self.seconds[uri] = max(self.seconds.get(uri, 0.0), time.monotonic() - since)
                self.peak_bytes[uri] = max(self.peak_bytes.get(uri, 0), peak_of(pid))

    def outcome(self, name: str) -> str:
        """What became of a file of this name."""
        record = self.records[(self.folder / name).as_posix()]
        return "document" if record.state == "completed" else f"{record.state}: {record.error}"


def peak_of(pid: int) -> int:
    try:
        told = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    except OSError:
        return 0
    return int(told[1]) * 1024 if told else 0


def opened(home: Path) -> KnowledgeBase:
    return headwater.open(home, config=Config({name: Setting(value, "this test") for name, value in LIMITS.items()}))


def written(folder: Path, files: dict[str, Hostile]) -> Path:
    folder.mkdir()
    for name, one in files.items():
        (folder / name).write_bytes(one.make())
    return folder


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """One ingest of all that is not heavy, with good files before, between and behind."""
    base = tmp_path_factory.mktemp("hostile")
    folder = written(base / "files", LIGHT)
    good = write_mixed(folder / "good", GOOD)
    odd_entries(folder)
    with opened(base / "kb") as kb:
        ingest = Seen(kb=kb, folder=folder, good=good)
        ingest.add()
        yield ingest


def odd_entries(folder: Path) -> None:
    """What a folder may hold beside files."""
    os.mkfifo(folder / "pipe.txt")
    (folder / "zero.txt").symlink_to("/dev/zero")
    (folder / "nowhere.txt").symlink_to(folder / "not there")
    (folder / "self").symlink_to(folder / "self")
    (folder / "round").mkdir()
    (folder / "round" / "again").symlink_to(folder)
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9-\xff.txt")).write_text("a name that is not UTF-8")
    (folder / "a\nb\t'\"`$(id).txt").write_text("a name with all that names may hold: odd but lawful")
    (folder / ("n" * 240 + ".txt")).write_text("a name as long as names may be")


def test_there_are_enough_of_them() -> None:
    assert len(FILES) > 300 and len([one for one in FILES if not one.name.startswith(("cut-", "flipped-"))]) > 250


@pytest.mark.parametrize("name", LIGHT)
def test_it_becomes_a_document_or_has_a_reason(name: str, seen: Seen) -> None:
    outcome = seen.outcome(name)
    assert re.search(LIGHT[name].expect, outcome), f"{LIGHT[name].what}: {outcome}"
    assert not re.search("unexpected|Traceback", outcome), outcome


def test_no_worker_took_longer_than_it_may(seen: Seen) -> None:
    assert seen.seconds
    late = {uri: took for uri, took in seen.seconds.items() if took > WALL_SECONDS + SLACK_SECONDS}
    assert not late


def test_what_is_read_without_a_worker_takes_no_longer_than_it_is_long(seen: Seen) -> None:
    """Telling kinds, plain text, Markdown, cutting, checking, indexing: 20 seconds for all; one slip is a minute."""
    assert seen.own_seconds < 60.0


def test_no_worker_took_more_memory_than_it_may(seen: Seen) -> None:
    assert max(seen.peak_bytes.values()) > 100 * MEGABYTE, "there are some that try"
    # The limit is on what a worker takes for itself; the peak counts the mapped files of its libraries as well.
    most = MEMORY_BYTES + MAPPED_BYTES
    over = {uri: peak // MEGABYTE for uri, peak in seen.peak_bytes.items() if peak > most}
    assert not over


def test_good_files_beside_them_are_indexed_and_found(seen: Seen) -> None:
    for number, path in seen.good.items():
        assert seen.records[path.as_posix()].state == "completed", path
        hits = seen.kb.search(mark(number), mode="keyword", top_n=5)
        assert path.as_posix() in {hit.uri for hit in hits if mark(number) in hit.chunk.text}


def test_what_is_no_file_is_passed_over_and_odd_names_are_no_trouble(seen: Seen) -> None:
    names = {Path(uri).name for uri in seen.records}
    assert not names & {"pipe.txt", "zero.txt", "nowhere.txt", "self", "again"}
    assert "a\nb\t'\"`$(id).txt" in names and "n" * 240 + ".txt" in names
    [odd] = [record for uri, record in seen.records.items() if "caf\\xe9" in uri]
    assert odd.state == "failed" and "its name is not UTF-8; rename it" in odd.error


def test_no_secret_of_the_machine_is_in_any_text(seen: Seen) -> None:
    secret = Path("/etc/passwd").read_text(encoding="utf-8").splitlines()[0]
    asked = [uri for uri, record in seen.records.items() if record.state == "completed" and "cut-" not in uri]
    assert len(asked) > 100
    for uri in asked:
        if re.search(r"xxe|traversal|base|schema", uri):
            assert secret not in seen.kb.document(uri).text, uri


def test_the_home_is_sound_afterwards(seen: Seen) -> None:
    assert seen.kb.check() == []
    assert {Path(failure.uri).name for failure in seen.report.failed} >= {"flat-bomb.docx", "locked.pdf", "huge.png"}
    assert all(failure.reason for failure in seen.report.failed)
    for record in seen.records.values():
        assert record.state in ("completed", "empty", "failed")
        assert bool(record.error) == (record.state != "completed")


@pytest.mark.slow
def test_the_heavy_ones_too(tmp_path: Path) -> None:
    folder = written(tmp_path / "files", HEAVY)
    write_mixed(folder / "good", len(KINDS))
    with opened(tmp_path / "kb") as kb:
        ingest = Seen(kb=kb, folder=folder)
        ingest.add()
        for name, one in HEAVY.items():
            assert re.search(one.expect, ingest.outcome(name)), f"{name}: {ingest.outcome(name)}"
        assert max(ingest.peak_bytes.values()) <= MEMORY_BYTES + MAPPED_BYTES
        assert max(ingest.seconds.values()) <= WALL_SECONDS + SLACK_SECONDS
        assert kb.check() == []


def test_files_that_change_and_vanish_while_they_are_read(tmp_path: Path) -> None:
    """Whatever is seen of them, nothing stops; when they rest, all is as they are."""
    files, stop = write_mixed(tmp_path / "files", 4 * len(KINDS)), threading.Event()
    contents = {path: path.read_bytes() for path in files.values()}

    def stir() -> None:
        while not stop.is_set():
            for path, content in contents.items():
                path.unlink(missing_ok=True)
                path.write_bytes(content[: len(content) // 2])
                path.write_bytes(content * 2)
                path.unlink()
                time.sleep(0.001)

    moving = threading.Thread(target=stir, daemon=True)
    moving.start()
    with opened(tmp_path / "kb") as kb:
        for _ in range(2):
            report = kb.add(tmp_path / "files")
            assert all(failure.reason for failure in report.failed)
        stop.set()
        moving.join()
        for path, content in contents.items():
            path.write_bytes(content)
        assert not kb.add(tmp_path / "files").failed
        for number, path in files.items():
            assert mark(number) in kb.document(path.as_posix()).text
        assert kb.check() == []
