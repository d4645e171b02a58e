"""The lock of a home, with real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.errors import BackendError, HomeLocked, UsageError
from headwater.storage.lock import HomeLock

HOLD = (
    "import sys, time; from headwater.storage.lock import HomeLock\n"
    "lock = HomeLock(sys.argv[1]); lock.acquire(); print('held', flush=True); time.sleep(float(sys.argv[2]))\n"
    "lock.release(); print('released', flush=True); time.sleep(60)"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "write.lock"


def holder(path: Path, seconds: float = 60) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline().strip() == "held"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def test_a_second_process_is_told_who_holds_it_and_since_when(path: Path) -> None:
    process = holder(path)
    try:
        with pytest.raises(HomeLocked) as caught:
            HomeLock(path).acquire()
        said = json.loads(path.read_text())
        assert said["pid"] == process.pid
        for part in (f"process {process.pid}", said["since"], str(path.parent), "wait for it"):
            assert part in str(caught.value)
    finally:
        end(process)


def test_waiting_ends_after_the_time_given(path: Path) -> None:
    process = holder(path)
    try:
        started = time.monotonic()
        with pytest.raises(HomeLocked):
            HomeLock(path).acquire(timeout_seconds=0.3)
        assert 0.3 <= time.monotonic() - started < 10
    finally:
        end(process)


def test_waiting_ends_when_the_holder_releases(path: Path) -> None:
    process = holder(path, 0.3)
    try:
        lock = HomeLock(path)
        lock.acquire(timeout_seconds=30)
        assert lock.held and process.poll() is None
        assert lock.holder()["pid"] == os.getpid()
        lock.release()
    finally:
        end(process)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_holder_leaves_no_lock(path: Path) -> None:
    process = holder(path)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    lock = HomeLock(path)
    lock.acquire(timeout_seconds=5)
    assert lock.held
    lock.release()
    end(process)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only a fork shares a lock")
def test_a_forked_child_does_not_keep_the_lock_of_its_dead_parent(path: Path) -> None:
    script = (
        "import os, sys, time; from headwater.storage.lock import HomeLock\n"
        "lock = HomeLock(sys.argv[1]); lock.acquire()\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(60); os._exit(0)\n"
        "print(child, flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        with pytest.raises(HomeLocked):
            HomeLock(path).acquire()
        process.kill()
        process.wait()
        os.kill(child, 0)  # it is still there
        lock = HomeLock(path)
        lock.acquire(timeout_seconds=5)
        lock.release()
    finally:
        os.kill(child, signal.SIGKILL)
        end(process)


def test_taking_it_twice_in_one_process_is_refused_at_once(path: Path) -> None:
    lock = HomeLock(path)
    with lock:
        with pytest.raises(UsageError, match="release it first"):
            lock.acquire(timeout_seconds=60)
        started = time.monotonic()
        with pytest.raises(HomeLocked, match="this process"):
            HomeLock(path).acquire(timeout_seconds=60)
        assert time.monotonic() - started < 10
        assert lock.held
    assert not lock.held and lock.holder() == {}
    lock.release()
    with lock:
        assert lock.held


def test_a_lock_file_full_of_nonsense_is_no_obstacle(path: Path) -> None:
    path.write_bytes(b"\xff{nonsense")
    with HomeLock(path) as lock:
        assert lock.holder()["pid"] == os.getpid()


def test_a_lock_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot be opened"):
        HomeLock(tmp_path / "no such folder" / "write.lock").acquire()
