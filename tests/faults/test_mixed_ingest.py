"""`headwater add` of a folder with files of every kind: both cores, killed in the middle, all there once."""

import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.starter import headwater as command

import headwater
from headwater.commands.manage import ProgressLines, progress_line
from headwater.config import Setting
from headwater.indexer import Progress

sys.path.insert(0, str(Path(__file__).parent))
from mixed_files import KINDS, mark, write_mixed

sys.path.remove(str(Path(__file__).parent))


def started(files: Path, home: Path) -> "subprocess.Popen[bytes]":
    arguments = [sys.executable, "-m", "headwater", "add", str(files), "--json", "--home", str(home)]
    return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def check_all_there(home: Path, written: dict[int, Path]) -> None:
    with headwater.open(home) as kb:
        records = kb.documents()
        assert Counter(record.state for record in records) == {"completed": len(records)}, [
            (record.uri, record.error) for record in records if record.error
        ]
        mails = [path for path in written.values() if path.suffix == ".eml"]
        expected = {path.as_posix() for path in written.values()} | {f"{path.as_posix()}#file.txt" for path in mails}
        assert Counter(record.uri for record in records) == Counter(expected), "each once"
        for number, path in written.items():
            assert mark(number) in kb.document(path.as_posix()).text
            for chunk in kb.chunks(path.as_posix()):
                assert kb.document(path.as_posix()).text[slice(*chunk.span)] == chunk.text
        for number in random.Random(3).sample(sorted(written), 25):
            found = {
                hit.uri for hit in kb.search(mark(number), mode="keyword", top_n=20) if mark(number) in hit.chunk.text
            }
            assert written[number].as_posix() in found, number
        assert kb.check() == []


def killed_and_resumed(tmp_path: Path, *, files: int, kills: int) -> None:
    written = write_mixed(tmp_path / "files", files)
    began = time.monotonic()
    assert started(tmp_path / "files", tmp_path / "whole").wait() == 0
    whole = time.monotonic() - began
    home, chosen = tmp_path / "kb", random.Random(7)
    hit = 0
    for _ in range(4 * kills):
        running = started(tmp_path / "files", home)
        try:
            running.wait(chosen.uniform(0.3, 0.9) * whole)
        except subprocess.TimeoutExpired:
            running.kill()
            hit += 1
        running.wait()
        if hit == kills:
            break
        if running.returncode == 0:  # quicker than the kill: from the start again
            home = tmp_path / f"kb-{hit}-{time.monotonic_ns()}"
    assert hit == kills
    outcome = command("add", str(tmp_path / "files"), "--json", "--home", str(home), timeout_seconds=300)
    assert outcome.code == 0, outcome.error
    again = json.loads(command("add", str(tmp_path / "files"), "--json", "--home", str(home)).output)
    assert (again["unchanged"], again["added"], again["updated"], again["failed"]) == (files, 0, 0, [])
    check_all_there(home, written)


def test_a_mixed_folder_is_killed_and_goes_on_where_it_was(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, files=20 * len(KINDS), kills=3)


@pytest.mark.slow
def test_a_thousand_mixed_files_are_killed_and_go_on_where_they_were(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, files=1_001, kills=6)


def test_progress_says_what_is_parsed_and_how_long_each_stage_took(tmp_path: Path) -> None:
    written = write_mixed(tmp_path / "files", 4 * len(KINDS))
    told = []
    with headwater.open(tmp_path / "kb") as kb:
        report = kb.add(tmp_path / "files", on_progress=told.append)
        assert kb.parsers.sandbox.started >= 1
    assert report.added == len(written) and not report.failed
    last = told[-1]
    assert last.done == last.total == last.prepared == len(written) + 4, "the files of the mails are counted too"
    assert last.chunks >= len(written)
    assert {"read", "parse", "chunk", "check", "embed", "text index", "vector index"} <= set(last.stage_seconds)
    assert all(seconds > 0 for seconds in last.stage_seconds.values())
    assert [progress.done for progress in told] == sorted(progress.done for progress in told)


def test_without_a_terminal_lines_name_every_stage(tmp_path: Path) -> None:
    """Long before the end: the first line comes after half a second, and starting the parsers takes as long."""
    write_mixed(tmp_path / "files", 20 * len(KINDS))
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "add", str(tmp_path / "files"), "--home", str(tmp_path / "kb")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    lines = done.stderr.splitlines()
    counted = [re.match(r"(\d+)/(\d+) documents, (\d+) chunks", line) for line in lines]
    assert lines and all(counted), lines
    assert all(re.search(r"  \(parse [\d.]+ s, embed [\d.]+ s, store [\d.]+ s\)$", line) for line in lines), lines
    assert done.stdout.startswith("added 220, updated 0")


def test_lines_of_progress_come_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    lines = ProgressLines(enabled=True)
    spoken = []
    while now < 60:
        now += 0.25
        lines.show(Progress(done=1, total=2, chunks=3, uri="a/b.pdf", stage="parse", stage_seconds={"chunk": 0.26}))
        spoken += [now] if capsys.readouterr().err else []
    assert spoken[:6] == [0.5, 1.5, 3.5, 7.5, 15.5, 25.5]
    told = progress_line(Progress(done=1, total=2, chunks=3, uri="a/b.pdf", stage="parse", prepared=2))
    assert told == "1/2 documents, 3 chunks, 2 parsed  parse b.pdf  (parse 0.0 s, embed 0.0 s, store 0.0 s)"


@pytest.mark.parametrize("processes", [1, 3])
def test_the_outcome_does_not_depend_on_how_many_processes_parse(processes: int, tmp_path: Path) -> None:
    write_mixed(tmp_path / "files", 2 * len(KINDS))
    config = headwater.Config({"ingest.parse_processes": Setting(processes, "this test")})
    with headwater.open(tmp_path / "kb", config=config) as kb:
        kb.add(tmp_path / "files")
        found = [(r.uri.removeprefix(str(tmp_path)), r.chunks, r.chars, r.content_hash) for r in kb.documents()]
        assert kb.parsers.sandbox.started == processes
    with headwater.open(tmp_path / "other", config=headwater.Config({})) as kb:
        kb.add(tmp_path / "files")
        assert found == [(r.uri.removeprefix(str(tmp_path)), r.chunks, r.chars, r.content_hash) for r in kb.documents()]
