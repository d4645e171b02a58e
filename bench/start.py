"""From nothing to the first cited answer, and how long one command takes: `python bench/start.py`.

1. An empty virtual environment, `pip install` of this repository, 20 files added, one question answered with citations:
   seconds and megabytes. What pip downloads is timed too, so the figure depends on the package index.
2. `headwater search` as a person types it, on a home of 10,000 chunks that was used before: wall time of the whole
   process, the interpreter's start included, in English and in Chinese. Beside it the bare interpreter and numpy alone.

With `--peer-python VENV/bin/python` (bench/requirements-peers.txt) the bm25s + numpy floor is measured in the same run
and the bar in milliseconds is scaled by it (bench/pace.py).
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from corpus import prepare
from pace import REFERENCE_CHUNKS, slowness, told
from serve import HERE, floor

REPOSITORY = Path(__file__).resolve().parents[1]
SAMPLE = REPOSITORY / "src" / "headwater" / "sample" / "station"
FIRST_ANSWER_SECONDS, FIRST_ANSWER_MB = 60, 400  # with the server, the page and every parser but OCR
SEARCH_MILLISECONDS = 400
WORDS_EN = "river gauge sluice meadow ferry willow station ledger margin harbour copper lantern orchard valley".split()
WORDS_ZH = "水位 河流 泵站 闸门 流量 雨季 观测 记录 维修 仪器 上游 下游 堤防 报告 校准 值班".split()


def timed(*command: str, environment: dict[str, str] | None = None) -> tuple[float, str]:
    """Seconds a command takes, and what it prints; it must succeed."""
    started = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    took = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return took, done.stdout


def megabytes(folder: Path) -> float:
    """Size of everything in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def first_answer(folder: Path) -> list[tuple[str, str]]:
    """Install into an empty environment, add the sample's 20 files, ask."""
    venv = folder / "venv"
    made, _ = timed(sys.executable, "-m", "venv", str(venv))
    before = megabytes(venv)
    binaries = venv / ("Scripts" if os.name == "nt" else "bin")
    installed, _ = timed(str(binaries / "pip"), "install", "--quiet", "--disable-pip-version-check", str(REPOSITORY))
    home = str(folder / "kb")
    added, _ = timed(str(binaries / "headwater"), "add", str(SAMPLE), "--home", home)
    question = "How long is parental leave?"
    asked, printed = timed(str(binaries / "headwater"), "ask", question, "--json", "--home", home)
    citations = json.loads(printed)["citations"]
    if not citations:
        raise SystemExit("the first answer has no citation")
    total, size = made + installed + added + asked, megabytes(venv)
    return [
        ("empty environment to first cited answer", f"{total:.1f} s (bar {FIRST_ANSWER_SECONDS} s)"),
        ("of which pip install", f"{installed:.1f} s"),
        ("of which adding 20 files", f"{added:.1f} s"),
        ("of which the question", f"{asked:.2f} s"),
        ("environment with everything", f"{size:.0f} MB, {before:.0f} of it pip's own (bar {FIRST_ANSWER_MB} MB)"),
    ]


def search_command(folder: Path, rounds: int, slow: float) -> list[tuple[str, str]]:
    """Wall time of `headwater search` on 10,000 chunks, on a machine so many times slower than the reference."""
    from headwater.build import open_home
    from headwater.types import Document

    rng = random.Random(5)
    home = folder / "ten-thousand"
    pages = []
    for number in range(1000):
        words = WORDS_EN if number % 2 else WORDS_ZH
        paragraphs = [
            f"# Part {n}\n\n" + " ".join([*rng.choices(words, k=50), f"item{number}x{n}", "."]) for n in range(10)
        ]
        pages.append(Document(uri=f"page-{number}.md", title=f"Page {number}", text="\n\n".join(paragraphs)))
    from headwater.parsers.markdown import MarkdownParser
    from headwater.types import Blob

    parser = MarkdownParser()
    parsed = [parser.parse(Blob(uri=p.uri, data=p.text.encode(), mime="text/markdown")) for p in pages]
    with open_home(home) as kb:
        kb.add_documents(parsed)
        chunks = kb.status()["chunks"]
    rows = [("chunks in the home", f"{chunks:,}")]
    python = sys.executable
    commands = {
        "the interpreter alone": (python, "-c", "pass"),
        "import numpy alone": (python, "-c", "import numpy"),
        "headwater --help": (python, "-m", "headwater", "--help"),
        "headwater search, English": (python, "-m", "headwater", "search", "copper lantern", "--home", str(home)),
        "headwater search, Chinese": (python, "-m", "headwater", "search", "泵站 维修 记录", "--home", str(home)),
    }
    for name, command in commands.items():
        took = [timed(*command)[0] * 1000 for _ in range(rounds + 1)][1:]
        bar = f" (bar {SEARCH_MILLISECONDS * slow:.0f} ms)" if "search" in name else ""
        rows.append((name, f"{statistics.median(took):.0f} ms{bar}"))
    return rows


def main() -> None:
    """Run both, print a table and write it to bench/results/start.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--corpus", type=Path, help="for the floor: a folder of .jsonl.gz (field `pos`) or of texts")
    parser.add_argument("--peer-python", help="a Python that has bm25s; without one the floor is not measured")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where the floor's corpus and home go")
    given = parser.parse_args()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    chunks = prepare(REFERENCE_CHUNKS, source=given.corpus, data=given.data) if given.peer_python else None
    least = floor(chunks, given) if chunks is not None else None
    floor_p50 = least["p50"] if least is not None else None
    with tempfile.TemporaryDirectory() as folder:
        found = search_command(Path(folder), given.rounds, slowness(floor_p50, REFERENCE_CHUNKS))
        rows = [*found, *first_answer(Path(folder))]
    lines = ["# From nothing to an answer", "", "`python bench/start.py`", "", "| what | figure |", "| --- | --- |"]
    lines += [f"| {name} | {figure} |" for name, figure in rows]
    lines += [f"| load average at the start, of {os.cpu_count()} cores | {load:.1f} |"]
    lines += ["", told(floor_p50, REFERENCE_CHUNKS)]
    page = "\n".join(lines) + "\n"
    print(page)
    (Path(__file__).parent / "results").mkdir(exist_ok=True)
    (Path(__file__).parent / "results" / "start.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
