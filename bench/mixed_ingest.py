"""`headwater add` of 1,000 files of every kind -> how many cores it used, what it told meanwhile, and a kill survived.

python bench/mixed_ingest.py [--files 1000] [--results bench/results/mixed.md]

Three runs, each in a new home: whole; killed in the middle by SIGKILL and run again; once more over what is there.
Cores used are processor seconds of the command and its parsing processes over wall seconds. What a killed run had
finished must be as it was: the same tickets, so nothing was done twice.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path

import headwater

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "faults"))
from mixed_files import KINDS, write_mixed

POLL_SECONDS = 0.05
STAGES = re.compile(r"\d+/\d+ documents, \d+ chunks.*  \((parse [^()]*)\)$")


def add(files: Path, home: Path) -> list[str]:
    return [sys.executable, "-m", "headwater", "add", str(files), "--home", str(home)]


def whole(files: Path, home: Path) -> dict[str, float | str]:
    """A run from nothing, with what it cost."""
    began = time.perf_counter()
    with (home.parent / "said").open("w+b") as out, (home.parent / "told").open("w+b") as told:
        running = subprocess.Popen(add(files, home), stdout=out, stderr=told)
        used: dict[int, float] = {}
        while running.poll() is None:
            used |= processor_seconds(running.pid)
            time.sleep(POLL_SECONDS)
        wall, processor = time.perf_counter() - began, sum(used.values())
        told.seek(0)
        assert running.returncode == 0, told.read().decode()[-2000:]
        out.seek(0)
        told.seek(0)
        said, lines = out.read().decode().strip(), told.read().decode().splitlines()
    told_of = [found[1] for line in lines if (found := STAGES.match(line))]
    return {
        "wall": wall,
        "processor": processor,
        "cores": processor / wall,
        "lines": len(lines),
        "stages": told_of[-1] if told_of else "no stage",
        "said": said,
    }


def processor_seconds(root: int) -> dict[int, float]:
    """What a process and those it started have used: those that parse are ended at the end, and nobody counts them."""
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
                used[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    family = {root}
    while more := {one for one, parent in parents.items() if parent in family} - family:
        family |= more
    return {one: used[one] for one in family if one in used}


def finished(home: Path) -> dict[str, int]:
    """The documents that are there, with the ticket of their version."""
    if not (home / "catalog.sqlite").exists():
        return {}
    with headwater.open(home) as kb:
        return {record.uri: record.ticket for record in kb.documents()}


def stored(home: Path) -> int:
    """How many documents are in the catalog, asked without opening the home."""
    if not (home / "catalog.sqlite").exists():
        return 0
    with closing(sqlite3.connect(home / "catalog.sqlite")) as db, suppress(sqlite3.OperationalError):
        return int(db.execute("select count(*) from document").fetchone()[0])
    return 0


def killed(files: Path, home: Path, count: int) -> tuple[dict[str, int], float]:
    """Kill a run when a part of the documents is there; what that is, and after how long."""
    running = subprocess.Popen(add(files, home), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    began = time.perf_counter()
    while running.poll() is None and not 0 < stored(home) < count:
        time.sleep(POLL_SECONDS)
    running.kill()
    running.wait()
    return finished(home), time.perf_counter() - began


def main() -> None:
    """Run, check, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "mixed.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "files"
        written = write_mixed(files, arguments.files)
        mails = sum(path.suffix == ".eml" for path in written.values())
        total = len(written) + mails  # what came inside a mail is a document of its own
        first = whole(files, Path(folder) / "whole")
        home = Path(folder) / "killed"
        there, after = killed(files, home, total)
        again = subprocess.run([*add(files, home), "--json"], capture_output=True, check=True)
        report = json.loads(again.stdout)
        now = finished(home)
        kept = sum(now.get(uri) == ticket for uri, ticket in there.items())
        with headwater.open(home) as kb:
            problems = kb.check()
        third = json.loads(subprocess.run([*add(files, home), "--json"], capture_output=True, check=True).stdout)
    load = os.getloadavg()[0]
    lines = [
        "# 1,000 files of every kind",
        "",
        f"`python bench/mixed_ingest.py`, {time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, "
        f"load of the machine at the end {load:.1f}.",
        "",
        f"{len(written):,} files ({', '.join(KINDS)}), {total:,} documents with those that came inside mails.",
        "",
        "| | |",
        "|---|---|",
        f"| whole run | {first['wall']:.1f} s wall, {first['processor']:.1f} s processor: {first['cores']:.2f} cores |",
        f"| files a second | {len(written) / float(first['wall']):.0f} |",
        f"| lines of progress, without a terminal | {first['lines']}, the last with {first['stages']} |",
        f"| said at the end | {first['said']} |",
        f"| killed after | {after:.1f} s, with {len(there):,} of {total:,} documents there |",
        f"| of these, as they were after the next run | {kept:,} |",
        f"| the next run | added {report['added']:,}, failed {len(report['failed'])} |",
        f"| documents then | {len(now):,}, problems found by `check`: {len(problems)} |",
        f"| once more | unchanged {third['unchanged']:,} in {third['took_ms'] / 1000:.2f} s |",
    ]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    arguments.results.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    sound = kept == len(there) > 0 and len(now) == total and not problems and not report["failed"]
    sys.exit(0 if sound and third["unchanged"] == len(written) else 1)


if __name__ == "__main__":
    main()
