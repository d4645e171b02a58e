"""The README's first screen is a real run: the same commands over the bundled sample print the same lines.

`python tests/docs/test_readme.py` writes what they print now into the README.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headwater.sample import copy_to

README = Path(__file__).parents[2] / "README.md"
TIMING = re.compile(r"in \d+(?:\.\d+)? (?:ms|s)\b")


def block(marker: str, language: str) -> str:
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {marker}: .*? -->\n```{language}\n(.*?)\n```\n", text, flags=re.DOTALL)
    assert found, f"the README has no {marker}"
    return found[1]


def steps(transcript: str) -> list[tuple[str, str]]:
    """Every command and what it prints."""
    parts = re.split(r"^\$ (.+)$", transcript, flags=re.MULTILINE)
    assert not parts[0].strip()
    return [(command, output.strip("\n")) for command, output in zip(parts[1::2], parts[2::2], strict=True)]


def normal(output: str) -> str:
    return TIMING.sub("in … s", output)


def run(folder: Path, *arguments: str) -> str:
    """What Python prints when it is called like this in a folder with the sample and a home of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    environment = {**inherited, "HEADWATER_HOME": str(folder / "kb"), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip("\n")


def outputs(folder: Path, commands: list[str]) -> list[str]:
    copy_to(folder / "station")
    found = []
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "headwater"
        found.append(run(folder, "-m", "headwater", *arguments))
    return found


def test_the_transcript_is_what_happens(tmp_path: Path) -> None:
    expected = steps(block("transcript", "console"))
    assert len(expected) >= 3
    real = outputs(tmp_path, [command for command, _ in expected])
    for (command, shown), printed in zip(expected, real, strict=True):
        assert normal(printed) == normal(shown), f"$ {command}"


def test_the_snippet_runs(tmp_path: Path) -> None:
    copy_to(tmp_path / "station")
    snippet = block("snippet", "python")
    shown = re.findall(r"^(.+?)  # (.+)$", snippet, flags=re.MULTILINE)
    assert shown, "the snippet shows no value"
    # A line with a comment behind it is an expression, and the comment is what it gives.
    script = re.sub(r"^(.+?)  # .+$", r"print(repr(\1))", snippet, flags=re.MULTILINE)
    assert run(tmp_path, "-c", script).splitlines() == [value for _, value in shown]


def test_the_first_screen_is_one_screen() -> None:
    first = README.read_text(encoding="utf-8").split("## Install")[0]
    assert len(first.splitlines()) <= 50
    assert len(re.findall(r"\[[^\]]+\]\([^)]+\.md\)", first)) == 3


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_quick_start_names_real_targets(target: str) -> None:
    assert f"$ make {target}" in README.read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", (README.parent / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)


def write_transcript() -> None:
    before = block("transcript", "console")
    commands = [command for command, _ in steps(before)]
    with tempfile.TemporaryDirectory() as folder:
        printed = outputs(Path(folder), commands)
    after = "\n\n".join(f"$ {command}\n{output}" for command, output in zip(commands, printed, strict=True))
    README.write_text(README.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")


if __name__ == "__main__":
    write_transcript()
