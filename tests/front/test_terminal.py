"""What commands print, into whatever they print: a pipe that is closed, another encoding, a narrow terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headwater.build import KnowledgeBase, open_home
from headwater.cli import cli
from headwater.commands.manage import ProgressLines
from headwater.indexer import Progress
from headwater.types import Document

DOCUMENTS = 400


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_home(tmp_path / "kb") as kb:
        kb.add_text("泵站每年检修两次 😀 à la carte.", uri="检修.md", collection="ñandú")
    return tmp_path / "kb"


def test_a_reader_that_has_read_enough_is_no_failure(home: Path) -> None:
    with open_home(home) as kb:
        kb.add_documents(Document(uri=f"{'long' * 50}-{at}.md", text=f"Report {at}") for at in range(DOCUMENTS))
    command = [sys.executable, "-m", "headwater", "list", "--home", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().endswith(b".md)\n")  # and no more: a pipe holds less than all of it
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


@pytest.mark.parametrize("encoding", ["latin-1", "cp936", "utf-8"])
def test_a_terminal_of_another_encoding_is_printed_to(home: Path, encoding: str) -> None:
    command = [sys.executable, "-m", "headwater"]
    for arguments in (("list",), ("list", "--json"), ("search", "检修\udcff", "--json")):
        done = subprocess.run(
            [*command, *arguments, "--home", str(home)],
            capture_output=True,
            check=False,
            env={"PYTHONIOENCODING": f"{encoding}:strict"},
        )
        assert done.returncode == 0, done.stderr
        if "--json" in arguments:
            found: Any = json.loads(done.stdout.decode(encoding))
            first = found[0] if isinstance(found, list) else found["hits"][0]
            assert (first["title"], first["collection"]) == ("检修", "ñandú")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made = ProgressLines.__init__

    def on_terminal(self: ProgressLines, **given: Any) -> None:
        made(self, **given)
        self.on_terminal = True

    monkeypatch.setattr(ProgressLines, "__init__", on_terminal)
    monkeypatch.setenv("COLUMNS", "60")
    yield


@pytest.mark.usefixtures("terminal")
def test_a_bar_with_a_chinese_name_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLines(enabled=True) as bar:
        bar.show(Progress(done=1, total=2, chunks=3, uri="/文档/" + "泵站检修手册" * 9 + ".md", stage="parse"))
        bar.show(Progress(done=1, total=2, chunks=3, uri="/two\nlines\x1b[2J.md", stage="parse"))
    _, wide, strange, last = capsys.readouterr().err.split("\r")  # without what clears a line, for it is no terminal
    assert "泵站检修" in wide
    assert len(wide.encode("gb18030")) < 60  # two bytes for what takes two columns
    assert "two?lines" in strange
    assert last == ""


@pytest.mark.usefixtures("terminal")
def test_what_is_said_when_it_is_stopped_stands_in_a_line_of_its_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, on_progress: Any, **__: Any) -> None:
        on_progress(Progress(done=1, total=2, chunks=3, uri="a.md", stage="embed"))
        raise KeyboardInterrupt

    monkeypatch.setattr(KnowledgeBase, "add", stopped)
    result = CliRunner().invoke(cli, ["add", str(tmp_path), "--home", str(home)])
    assert result.exit_code == 130
    assert "\rstopped: " in result.stderr


@pytest.mark.parametrize(("answered", "code", "said"), [(b"n\n", 1, "nothing was erased"), (b"y\n", 0, "erased 1")])
def test_who_says_no_has_erased_nothing(home: Path, answered: bytes, code: int, said: str) -> None:
    outer, inner = os.openpty()
    command = [sys.executable, "-m", "headwater", "forget", "检修.md", "--home", str(home)]
    with subprocess.Popen(command, stdin=inner, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        os.write(outer, answered)
        assert process.stdout is not None
        told = process.stdout.read().decode()
    os.close(outer)
    os.close(inner)
    assert (process.returncode, said in told, "queued" in told) == (code, True, False), told
    with open_home(home) as kb:
        assert len(kb.documents()) == (1 if code else 0)
