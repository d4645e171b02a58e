"""A home that cannot be written to is searched all the same, and whoever would change it is told why not."""

import ctypes
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.errors import BackendError
from headwater.storage._read_only import address

WRITING = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
# Of Linux: what lets root write where nobody may, and how a process gives it up for good.
DAC_OVERRIDE, CAPBSET_DROP = 1, 24


def closed(home: Path) -> None:
    """Take the permission to write from everything in it."""
    for path in (home, *home.rglob("*")):
        path.chmod(path.stat().st_mode & ~WRITING)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "home"
    with headwater.open(made) as kb:
        for number in range(30):
            kb.add_text(f"The gauge number {number} shows water at the weir.", uri=f"note:{number}")
        kb.add_text("Parental leave is 26 weeks.", uri="note:leave")
    closed(made)
    yield made
    for path in (made, *made.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def _as_anybody() -> None:
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(CAPBSET_DROP, DAC_OVERRIDE, 0, 0, 0)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that may write only where permissions say so."""
    command = [sys.executable, "-m", "headwater", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=_as_anybody,
    )


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="permissions are taken as Linux has them")
def test_it_is_searched_asked_and_listed(home: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    found = run("search", "parental leave", "--home", str(home))
    assert found.returncode == 0 and "26 weeks" in found.stdout, found.stderr
    answered = run("ask", "How long is parental leave?", "--home", str(home))
    assert answered.returncode == 0 and "26 weeks" in answered.stdout, answered.stderr
    assert "31 documents" in run("list", "--home", str(home)).stdout
    assert run("status", "--home", str(home)).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="permissions are taken as Linux has them")
def test_what_would_change_it_is_refused_with_a_sentence(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.md"
    file.write_text("Something new.", encoding="utf-8")
    for command in (["add", str(file)], ["remove", "note:leave"], ["forget", "note:leave"], ["serve", "--port", "0"]):
        done = run(*command, "--home", str(home))
        assert done.returncode in (1, 2) and "Traceback" not in done.stderr, done.stderr
        assert done.stderr.startswith("error: ") and str(home) in done.stderr, done.stderr
    assert "26 weeks" in run("search", "parental leave", "--home", str(home)).stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="permissions are taken as Linux has them")
def test_one_that_somebody_has_open_is_read_with_what_they_just_wrote(tmp_path: Path) -> None:
    made = tmp_path / "home"
    with headwater.open(made) as kb:
        kb.add_text("Parental leave is 26 weeks.", uri="note:leave")
        closed(made)
        try:
            found = run("search", "parental leave", "--home", str(made))
        finally:
            for path in (made, *made.rglob("*")):
                path.chmod(path.stat().st_mode | stat.S_IWUSR)
    assert found.returncode == 0 and "26 weeks" in found.stdout, found.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="permissions are taken as Linux has them")
def test_one_that_was_not_closed_says_so(tmp_path: Path) -> None:
    made, copy = tmp_path / "home", tmp_path / "copy"
    with headwater.open(made) as kb:
        kb.add_text("Parental leave is 26 weeks.", uri="note:leave")
        shutil.copytree(made, copy)  # as after a power cut: a log, and nobody who has it open
    (copy / "catalog.sqlite-shm").unlink()
    assert (copy / "catalog.sqlite-wal").stat().st_size
    closed(copy)
    try:
        refused = run("search", "parental leave", "--home", str(copy))
    finally:
        for path in (copy, *copy.rglob("*")):
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
    assert refused.returncode == 1 and "was not closed" in refused.stderr, refused.stderr
    with headwater.open(copy) as kb:
        assert kb.search("parental leave")[0].uri == "note:leave"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="permissions are taken as Linux has them")
def test_one_that_cannot_be_made_says_so(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "new.md"
    file.write_text("Something new.", encoding="utf-8")
    for command in (["add", str(file)], ["serve", "--port", "0"]):
        done = run(*command, "--home", str(home / "inside"))
        assert done.returncode == 1 and "cannot be made" in done.stderr and "unexpected" not in done.stderr
    assert run("search", "x", "--home", str(home / "inside")).returncode == 2


def test_how_sqlite_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sqlite"
    sqlite3.connect(path).close()
    path.touch()
    assert address(path, writable=True).endswith("?mode=rwc") and address(path, writable=False).endswith("?mode=ro")
    monkeypatch.setattr("headwater.storage._read_only.may_write", lambda _: False)
    assert address(path, writable=False).endswith("?mode=ro&immutable=1")
    log = tmp_path / "a.sqlite-wal"
    log.write_bytes(b"x")
    with pytest.raises(BackendError, match="not closed"):
        address(path, writable=False)
    (tmp_path / "a.sqlite-shm").touch()
    assert address(path, writable=False).endswith("?mode=ro")
