"""The table of what parsers read says what they say themselves, and the parent imports none of them to know it."""

import subprocess
import sys
from pathlib import Path

import pytest

from headwater.config import Ingest
from headwater.errors import SourceError
from headwater.parsers import READS, TRUSTED
from headwater.parsing import Parsers
from headwater.registry import installed, load
from headwater.sandbox.parser import SandboxedParser

BUILT_IN = [name for name, point in installed("parsers").items() if point.value.startswith("headwater.")]


def test_every_built_in_parser_is_in_the_table() -> None:
    assert sorted(READS) == BUILT_IN and len(BUILT_IN) > 5
    everything = [mime for mimes in READS.values() for mime in mimes]
    assert len(everything) == len(set(everything)), "two parsers read the same"


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_table_says_what_the_parser_says(name: str) -> None:
    made = load("parsers", name)
    assert READS[name] == made.mimes
    assert (name in TRUSTED) == getattr(made, "trusted", False)


def test_plain_text_is_parsed_here_and_everything_else_in_the_sandbox() -> None:
    parsers = Parsers(Ingest())
    for name, mimes in READS.items():
        for mime in mimes:
            assert isinstance(parsers.named(mime), SandboxedParser) == (name not in TRUSTED)
    with pytest.raises(SourceError, match=r"no parser reads audio/mpeg; there are parsers for: .*pdf"):
        parsers.named("audio/mpeg")
    assert parsers.sandbox.started == 0
    parsers.close()


def test_adding_text_imports_no_other_parser_and_starts_no_process(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    for n in range(3):
        (tmp_path / "files" / f"{n}.txt").write_text(f"river {n}", encoding="utf-8")
    program = (
        "import sys, headwater\n"
        "with headwater.open(sys.argv[1]) as kb:\n"
        "    report = kb.add(sys.argv[2])\n"
        "    assert report.added == 3 and not report.failed, report\n"
        "    assert kb.parsers.sandbox.started == 0\n"
        "print(*sorted(name for name in sys.modules if name.startswith('headwater.parsers.') and '._' not in name))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "kb"), str(tmp_path / "files")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["headwater.parsers.text"], done.stderr
