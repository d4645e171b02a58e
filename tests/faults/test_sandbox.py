"""Real worker processes, and parsers that do their worst: each is one failed document with a reason."""

import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import EmptyDocument, SourceError
from headwater.sandbox import limits, pool
from headwater.sandbox.limits import Limits
from headwater.sandbox.pool import Sandbox
from headwater.types import Blob

HOSTILE = "hostile_parsers:HostileParser"
MEGABYTE = 1024**2
LIMITS = Limits(wall_seconds=3.0, cpu_seconds=2, memory_bytes=400 * MEGABYTE, output_chars=1_000_000)
# On a busy machine a process starts late; what is asserted is that no limit is passed by minutes.
SLACK_SECONDS = 12.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills and signals of POSIX")


@pytest.fixture(scope="module")
def shared() -> Iterator[Sandbox]:
    """One sandbox for all: who comes after a crash must find it as it was."""
    sys.path.insert(0, str(Path(__file__).parent))
    sandbox = Sandbox(LIMITS, processes=2)
    yield sandbox
    sandbox.close()
    sys.path.remove(str(Path(__file__).parent))


def blob(text: str) -> Blob:
    return Blob(uri=f"/{text}", data=text.encode(), mime="test/hostile")


WORST = {
    "eat": "parsing took more than 400 MB of memory; raise ingest.parse_memory_bytes",
    "crash": "crashed (SIGSEGV)",
    "abort": "crashed (SIGABRT)",
    "exit": "crashed (exit code 3)",
    "leave": "unexpected SystemExit: enough",
    "kill": "crashed (SIGKILL)",
    "sleep": "parsing took more than 3 seconds; raise ingest.parse_wall_seconds",
    "raise": "unexpected KeyError: 'nobody foresaw this'",
    "refuse": "it is encrypted; take the password off",
    "recurse": "nested too deeply",
    "children": "left other processes running",
    "network": "may not use the network",
    "panic": "its parser gave up (index out of bounds): the file is damaged",
}


@pytest.mark.parametrize("what", WORST)
def test_the_worst_a_parser_can_do_is_one_error_with_a_reason(what: str, shared: Sandbox) -> None:
    started = time.monotonic()
    beside = shared.submit(blob("fine beside it"), HOSTILE)
    with pytest.raises(SourceError) as error:
        shared.submit(blob(f"{what} please"), HOSTILE).result()
    assert WORST[what] in str(error.value)
    assert time.monotonic() - started < LIMITS.wall_seconds + SLACK_SECONDS
    assert beside.result().document.text == "fine beside it"
    assert shared.submit(blob("fine after it"), HOSTILE).result().document.text == "fine after it"


@pytest.mark.usefixtures("shared")
def test_one_document_is_ended_and_the_others_go_on() -> None:
    """The worker is killed; who waits is told, and nothing is tried again."""
    sandbox = Sandbox(replace(LIMITS, wall_seconds=600.0, cpu_seconds=600), processes=2)
    try:
        given, same = blob("loop please"), blob("loop please")
        parsing, other = sandbox.submit(given, HOSTILE), sandbox.submit(same, HOSTILE)
        while len(sandbox.current()) < 2:
            assert not parsing.done() and not other.done()
            time.sleep(0.02)
        at_it = [worker for worker, held in sandbox._busy.items() if held is given]
        sandbox.end(given)
        with pytest.raises(SourceError, match="was stopped"):
            parsing.result()
        assert [worker._process.poll() for worker in at_it] == [-signal.SIGKILL]
        assert not other.done() and sandbox.started == 2
        sandbox.end(given)  # nobody is at it any more
        assert sandbox.submit(blob("fine after it"), HOSTILE).result().document.text == "fine after it"
    finally:
        sandbox.close()


def test_a_loop_ends_with_its_processor_time(shared: Sandbox) -> None:
    sandbox = Sandbox(replace(LIMITS, wall_seconds=60.0, cpu_seconds=1), processes=1)
    try:
        with pytest.raises(
            SourceError, match=r"more than 1 seconds of processor time; raise ingest\.parse_cpu_seconds"
        ):
            sandbox.submit(blob("loop"), HOSTILE).result()
        assert sandbox.submit(blob("fine"), HOSTILE).result().document.text == "fine"
    finally:
        sandbox.close()


def test_slow_steps_that_are_announced_get_more_time(shared: Sandbox) -> None:
    """A long scan is no file that hangs: 4.8 seconds of work where 3 are allowed."""
    parsed = shared.submit(blob("recognise all pages"), HOSTILE).result()
    assert parsed.document.text == "recognise all pages"
    assert parsed.seconds > LIMITS.wall_seconds


def test_whoever_asks_for_more_time_without_end_gets_no_more_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(limits, "MORE_TIMES", 4)
    sandbox, started = Sandbox(replace(LIMITS, wall_seconds=1.2), processes=1), time.monotonic()
    try:
        with pytest.raises(SourceError, match=r"said something that makes no sense|no document|more than 1\.6 seconds"):
            sandbox.submit(blob("beg"), HOSTILE).result()
        assert time.monotonic() - started < 1.6 + SLACK_SECONDS
        assert sandbox.submit(blob("fine"), HOSTILE).result().document.text == "fine"
    finally:
        sandbox.close()


def test_folders_of_pools_that_were_killed_are_removed(shared: Sandbox) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    left = Path(tempfile.mkdtemp(prefix=f"{pool.FOLDERS}{gone.pid}-"))
    mine = Path(tempfile.mkdtemp(prefix=f"{pool.FOLDERS}{os.getpid()}-"))
    (left / "file").write_text("x")
    sandbox = Sandbox(LIMITS, processes=1)
    sandbox.submit(blob("fine"), HOSTILE).result()
    sandbox.close()
    assert not left.exists() and mine.exists()
    mine.rmdir()
    assert not [path for path in mine.parent.glob(f"{pool.FOLDERS}{os.getpid()}-*") if not shared_has(shared, path)]


def shared_has(sandbox: Sandbox, folder: Path) -> bool:
    return str(folder) in {worker._folder for worker in [*sandbox._idle, *sandbox._busy]}


def test_no_text_is_told_from_no_document(shared: Sandbox) -> None:
    with pytest.raises(EmptyDocument, match="its pages are pictures"):
        shared.submit(blob("empty"), HOSTILE).result()


def test_what_is_printed_goes_nowhere(shared: Sandbox) -> None:
    parsed = shared.submit(blob("print a lot"), HOSTILE).result()
    assert parsed.document.text == "print a lot" and parsed.seconds > 0


def test_too_much_text_is_refused_before_it_is_taken_over(shared: Sandbox) -> None:
    with pytest.raises(SourceError, match=r"more than 1,000,000 characters of text; raise ingest\.parse_output_chars"):
        shared.submit(blob("long"), "hostile_parsers:LongParser").result()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_of_processes_it_starts_counts_too(shared: Sandbox) -> None:
    with pytest.raises(SourceError, match="400 MB of memory"):
        shared.submit(blob("eat_elsewhere"), HOSTILE).result()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_nothing_that_it_started_lives_on(shared: Sandbox) -> None:
    for what in ("children", "orphans"):
        with pytest.raises(SourceError, match="left other processes running"):
            shared.submit(blob(what), HOSTILE).result()
    # They are killed, but whoever started them is gone, and nobody is told when they are.
    deadline = time.monotonic() + 30
    while (left := _started_by_it()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left


def _started_by_it() -> list[bytes]:
    running = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended in this moment
            running.append(process.read_bytes())
    return [line for line in running if line in (b"sleep\x00611\x00", b"sleep\x00612\x00")]


def test_a_worker_sees_no_keys_no_files_of_others_and_no_descriptors(
    shared: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    sandbox = Sandbox(LIMITS, processes=1)
    try:
        assert sandbox.submit(blob("litter"), HOSTILE).result().document.text == "litter"
        with pytest.raises(SourceError) as error:
            sandbox.submit(blob("tell"), HOSTILE).result()
    finally:
        sandbox.close()
    # Its own two pipes, and the folder that is being listed.
    assert str(error.value) == f"keys [] files [] descriptors {3 if sys.platform == 'linux' else 0}"


class Exploit:
    """What a pickle would do to whoever loads it."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/headwater-was-here",)


@pytest.mark.parametrize(
    "lie",
    [
        b"garbage" * 10,
        struct.pack(">QI", 1 << 60, 8),
        struct.pack(">QI", 2, 8) + b"{}",
        struct.pack(">QI", 2, 2) + b"[]",
        struct.pack(">QI", 4, 4) + b"null",
        struct.pack(">QI", 15, 15) + b'{"document": 1}',
        struct.pack(">QI", 14, 14) + b'{"error": "x"}',
        struct.pack(">QI", 200_000, 200_000) + b"[" * 200_000,
        pickle.dumps(Exploit()),
    ],
    ids=range(9),
)
def test_whatever_a_worker_says_is_only_data(lie: bytes, shared: Sandbox) -> None:
    with pytest.raises(SourceError):
        shared.submit(Blob(uri="/lie", data=lie), "hostile_parsers:LiarParser").result()
    assert not Path("/tmp/headwater-was-here").exists()
    assert shared.submit(blob("fine"), HOSTILE).result().document.text == "fine"


def test_workers_are_used_again_and_replaced_in_time(shared: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "DOCUMENTS_PER_WORKER", 5)
    sandbox = Sandbox(LIMITS, processes=1)
    try:
        texts = [f"fine {n}" for n in range(12)]
        futures = [sandbox.submit(blob(text), HOSTILE) for text in texts]
        assert [future.result().document.text for future in futures] == texts
        assert sandbox.started == 3
        assert sandbox.current() == []
    finally:
        sandbox.close()


def test_a_crash_that_an_earlier_document_may_have_caused_is_tried_again(shared: Sandbox, tmp_path: Path) -> None:
    """Memory that earlier documents left behind must not fail a later one."""
    sandbox = Sandbox(LIMITS, processes=1)
    try:
        sandbox.submit(blob("fine"), HOSTILE).result()
        before = sandbox.started
        with pytest.raises(SourceError, match="SIGSEGV"):
            sandbox.submit(blob("crash"), HOSTILE).result()
        assert sandbox.started == before + 1, "the used worker died, and a fresh one had the last word"
    finally:
        sandbox.close()


def test_closing_ends_what_is_under_way(shared: Sandbox) -> None:
    sandbox = Sandbox(LIMITS, processes=2)
    waiting = [sandbox.submit(blob("sleep"), HOSTILE) for _ in range(2)]
    while len(sandbox.current()) < 2:
        time.sleep(0.01)
    started = time.monotonic()
    sandbox.close()
    assert time.monotonic() - started < LIMITS.wall_seconds
    for future in waiting:
        with pytest.raises(SourceError, match="closed"):
            future.result()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_workers_die_with_whoever_started_them(tmp_path: Path) -> None:
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1])\n"
        "from headwater.sandbox.pool import Sandbox; from headwater.sandbox.limits import Limits\n"
        "from headwater.types import Blob\n"
        "sandbox = Sandbox(Limits(wall_seconds=500.0), processes=1)\n"
        f"sandbox.submit(Blob(uri='/', data=b'sleep'), {HOSTILE!r})\n"
        "while not sandbox.current(): time.sleep(0.01)\n"
        "print('at work', flush=True); time.sleep(500)\n"
    )
    folder = str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == b"at work\n"
        time.sleep(0.5)
        [worker] = children_of(parent.pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    end = time.monotonic() + SLACK_SECONDS
    while Path(f"/proc/{worker}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists()


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def test_many_at_once_come_back_each_to_whoever_asked(shared: Sandbox) -> None:
    texts = [f"fine number {n}" for n in range(60)]
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda text: shared.submit(blob(text), HOSTILE).result().document.text, texts))
    assert found == texts
