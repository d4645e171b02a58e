"""A newcomer can follow `ask` by reading at most eight files."""

import gc
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from click.testing import CliRunner

from headwater import cli
from headwater.build import open_home

PACKAGE = Path(cli.__file__).parent
# Behind a protocol: adapters, and the stages of a search, each a Retriever of its own.
ADAPTERS = {"models", "storage", "sources", "parsers", "stages"}
# Vocabulary below the nouns, and wiring other than build, are looked up, not read through.
LOOKED_UP = {
    "filters.py",
    "errors.py",
    "tokens.py",
    "characters.py",
    "scanning.py",
    "selection.py",
    "highlight.py",
    "statements.py",
    "protocols.py",
}
LOOKED_UP |= {
    "fuse.py",
    "documents.py",
    "messages.py",
    "config.py",
    "registry.py",
    "side.py",
    "home.py",
    "stores.py",
    "views.py",
    "wording.py",
    "writers.py",
    "rerankers.py",
    "flags.py",
}
LOOKED_UP |= {
    "wording.py",
    "writers.py",
    "__init__.py",
    "facts.py",
    "markers.py",
    "swaps.py",
    "typos.py",
    "evidence.py",
}


def test_ask_runs_through_at_most_eight_files(tmp_path: Path) -> None:
    (tmp_path / "dam.md").write_text("# The dam\n\nThe dam opened in 1936. It is 221 metres tall.\n", encoding="utf-8")
    with open_home(tmp_path / "kb") as kb:
        kb.add(tmp_path / "dam.md")
        kb.ask("When did the dam open?")  # so that all is imported: importing a module is not reading through it
    seen: set[str] = set()

    def part(frame: FrameType) -> tuple[str, ...]:
        path = Path(frame.f_code.co_filename)
        return path.relative_to(PACKAGE).parts if path.is_relative_to(PACKAGE) else ()

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        here = part(frame)
        caller = frame.f_back
        while caller:  # what an adapter calls is the adapter's business
            above = part(caller)
            if above and above[0] in ADAPTERS:
                return None
            caller = caller.f_back
        if here and here[0] not in ADAPTERS and here[-1] not in LOOKED_UP:
            seen.add("/".join(here))
        return None

    # What other tests left behind must not be cleared away while we look: that would run through files of theirs.
    gc.collect()
    gc.disable()
    sys.settrace(trace)
    try:
        result = CliRunner().invoke(cli.cli, ["ask", "When did the dam open?", "--home", str(tmp_path / "kb")])
    finally:
        sys.settrace(None)
        gc.enable()
    if result.exception:
        raise result.exception
    assert "1936" in result.output
    assert "[1]" in result.output
    files = seen | {"types.py"}  # the nouns hold little code to trace, but are read
    assert {"cli.py", "build.py", "engine.py", "retrieve.py"} <= files
    assert len(files) <= 8, " ".join(sorted(files))


@pytest.mark.parametrize("command", ["--help", "ask --help", "--version"])
def test_help_imports_nothing_heavy(command: str) -> None:
    import subprocess

    heavy = ("numpy", "tantivy", "turbovec", "rjieba", "Stemmer", "sqlite3", "yaml", "tokenizers")
    code = (
        "import sys; from headwater.cli import cli\n"
        f"try: cli.main({command.split()!r})\n"
        f"except SystemExit: pass\nprint('loaded:', [m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("loaded: []\n"), done.stdout
