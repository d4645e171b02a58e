"""Chunks, vectors and queries -> how headwater, txtai, LanceDB and a bm25s + numpy floor handle 100,000 of them.

    python bench/scale.py --peer-python VENV/bin/python                 100,000 and 200,000 chunks, all stores
    python bench/scale.py --stores headwater --size 20000               a quick look
    python bench/scale.py --million                                     headwater alone

Prints tables and writes bench/results/scale-<size>.json and .md. bench/README.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from corpus import Corpus, prepare
from pace import slowness, told

HERE = Path(__file__).resolve().parent
MILLION = 1_000_000
SIZES = (100_000, 200_000)
STORES = ("headwater", "txtai", "lance_flat", "lance_rows", "lance", "floor")
NAMES = {
    "headwater": "headwater",
    "txtai": "txtai",
    "lance_flat": "LanceDB",
    "lance_rows": "LanceDB, fed dicts",
    "lance": "LanceDB + IVF_PQ",
    "floor": "bm25s + numpy",
}
ROUNDS = 3
# The floor writes everything anew for one document; twice is enough.
LIVE_DOCUMENTS = {"floor": 2}
DEFAULT_LIVE = 20


def _absolute(program: str) -> str:
    """From whatever folder it is started; a bare name is looked for on the PATH."""
    return os.path.abspath(program) if os.path.dirname(program) else program


class Process:
    """A store in a process of its own."""

    def __init__(self, store: str, corpus: Corpus, home: Path, *, python: str, threads: int | None) -> None:
        path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "RUST_LOG": "error", "TOKENIZERS_PARALLELISM": "false"}
        # As everything that pip has installed: compiled once, and not in every process.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        if threads is not None:
            environment |= {
                name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
            }
        self.log = home.with_suffix(".log")
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [_absolute(python), "-m", "peers.worker", store, str(corpus.folder.resolve()), str(home.resolve())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=HERE,
                env=environment,
            )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Send one command and wait for its answer."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise SystemExit(f"{do} failed; the end of {self.log}:\n{tail}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stay_on(self, cores: set[int]) -> None:
        """Let every thread it has, and those it starts, run on these cores only."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)

    def end(self) -> None:
        """Close its input, which ends it."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(timeout=60)


def measure(corpus: Corpus, homes: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Build every store, open all of them, ask them in turn, then change them."""
    own = {store: sys.executable for store in options.stores if store.startswith("headwater")}
    python = dict.fromkeys(options.stores, options.peer_python) | own
    every_core = os.sched_getaffinity(0)
    found: dict[str, dict[str, Any]] = {}
    open_stores: dict[str, Process] = {}
    for number in range(options.fills):
        for store in options.stores:
            home = homes / store
            fills = found.setdefault(store, {"load_before_build": os.getloadavg()[0], "fills": []})["fills"]
            if options.reuse and home.exists():
                fills.append(json.loads((homes / f"{store}.build.json").read_text()))
                continue
            shutil.rmtree(home, ignore_errors=True)
            note(f"{NAMES[store]}: filling, time {number + 1}")
            builder = Process(store, corpus, home, python=python[store], threads=None)
            fills.append(builder.ask("build"))
            builder.end()
    for store, one in found.items():
        # What else runs on a machine only makes a fill slower, and rarely all stores alike: the fastest is the truest.
        one["build"] = max(one["fills"], key=lambda fill: fill["chunks_per_second"])
        (homes / f"{store}.build.json").write_text(json.dumps(one["build"]))
    for store in options.stores:
        note(f"{NAMES[store]}: opening")
        reader = open_stores[store] = Process(
            store, corpus, homes / store, python=python[store], threads=options.threads
        )
        found[store]["open"] = reader.ask("open")
        found[store]["rounds"] = []
    for number in range(options.rounds):
        for store, reader in open_stores.items():
            note(f"{NAMES[store]}: queries, round {number + 1}")
            load = os.getloadavg()[0]
            asked: dict[str, Any] = {"load": load}
            asked["plain"] = reader.ask("search", rare=False, part=3 * number)
            asked["rare"] = reader.ask("search", rare=True, part=3 * number + 1)
            reader.stay_on({min(every_core)})
            asked["one_core"] = reader.ask("search", rare=False, part=3 * number + 2)
            reader.stay_on(every_core)
            found[store]["rounds"].append(asked)
    for store, reader in open_stores.items():
        note(f"{NAMES[store]}: recall, then one document in and out")
        found[store]["nearest"] = reader.ask("nearest", rare=False)
        found[store]["nearest_rare"] = reader.ask("nearest", rare=True)
        found[store]["live"] = reader.ask("live", documents=LIVE_DOCUMENTS.get(store, DEFAULT_LIVE))
        reader.end()
    return found


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def figures(found: dict[str, Any]) -> dict[str, float]:
    """What the tables show of one store: the median over rounds of each round's percentiles."""

    def over_rounds(which: str, share: float) -> float:
        return statistics.median(quantile(one[which]["milliseconds"], share) for one in found["rounds"])

    return {
        "ingest_per_second": found["build"]["chunks_per_second"],
        "ingest_seconds": found["build"]["seconds"],
        "ingest_cpu_seconds": found["build"]["cpu_seconds"],
        "ingest_peak_mb": found["build"]["peak_mb"],
        "disk_mb": found["build"]["disk_mb"],
        "import_seconds": found["open"]["import_seconds"],
        "reopen_seconds": found["open"]["seconds"],
        "rss_mb": found["open"]["rss_mb"],
        "rss_after_queries_mb": found["rounds"][-1]["plain"]["rss_mb"],
        "hybrid_p50_ms": over_rounds("plain", 0.50),
        "hybrid_p95_ms": over_rounds("plain", 0.95),
        "one_core_p50_ms": over_rounds("one_core", 0.50),
        "one_core_p95_ms": over_rounds("one_core", 0.95),
        "filtered_p50_ms": over_rounds("rare", 0.50),
        "filtered_p95_ms": over_rounds("rare", 0.95),
        "vector_p50_ms": quantile(found["nearest"]["milliseconds"], 0.50),
        "recall": found["nearest"]["recall"],
        "filtered_recall": found["nearest_rare"]["recall"],
        "known_item_found": found["rounds"][-1]["plain"]["known_item_found"],
        "added_ms": statistics.median(found["live"]["added_ms"]),
        "removed_ms": statistics.median(found["live"]["removed_ms"]),
    }


ROWS = (
    ("ingest + persist, chunks/s", "ingest_per_second", "{:,.0f}"),
    ("ingest, CPU s", "ingest_cpu_seconds", "{:.1f}"),
    ("ingest, peak memory MB", "ingest_peak_mb", "{:,.0f}"),
    ("disk, MB", "disk_mb", "{:,.0f}"),
    ("import, s", "import_seconds", "{:.2f}"),
    ("reopen + first query, s", "reopen_seconds", "{:.2f}"),
    ("resident after opening, MB", "rss_mb", "{:,.0f}"),
    ("resident after the queries, MB", "rss_after_queries_mb", "{:,.0f}"),
    ("hybrid p50, ms", "hybrid_p50_ms", "{:.1f}"),
    ("hybrid p95, ms", "hybrid_p95_ms", "{:.1f}"),
    ("hybrid p50 on one core, ms", "one_core_p50_ms", "{:.1f}"),
    ("hybrid p95 on one core, ms", "one_core_p95_ms", "{:.1f}"),
    ("filtered to 1 % p50, ms", "filtered_p50_ms", "{:.1f}"),
    ("filtered to 1 % p95, ms", "filtered_p95_ms", "{:.1f}"),
    ("vector alone p50, ms", "vector_p50_ms", "{:.1f}"),
    ("vector recall@10", "recall", "{:.3f}"),
    ("filtered vector recall@10", "filtered_recall", "{:.3f}"),
    ("known item in the first ten", "known_item_found", "{:.3f}"),
    ("one document added → searchable, ms", "added_ms", "{:.1f}"),
    ("one document deleted → gone, ms", "removed_ms", "{:.1f}"),
)

# What the ratios must be at least or at most; the rest are limits on headwater's own figures.
TXTAI_SHARE, LANCE_SHARE = 0.5, 0.1
INGEST_FLOOR = 0.7
AT_100K = 100_000


def bars(size: int, by_store: dict[str, dict[str, float]]) -> list[tuple[str, float, str, float]]:
    """(what, measured, "<=" or ">=", limit) for every bar that can be judged with the stores that ran."""
    own, slow = by_store["headwater"], slowness(floor_of(by_store), size)
    if size == MILLION:
        return [
            ("hybrid p95, ms", own["hybrid_p95_ms"], "<=", 60 * slow),
            ("resident after opening, MB", own["rss_mb"], "<=", 3000),
            ("reopen + first query, s", own["reopen_seconds"], "<=", 2 * slow),
        ]
    judged: list[tuple[str, float, str, float]] = []
    peers = (("txtai", "txtai", TXTAI_SHARE), ("lance_flat", "LanceDB", LANCE_SHARE))
    for store, name, share in peers:
        for where, key in (("", "hybrid_p50_ms"), (" on one core", "one_core_p50_ms")):
            if store in by_store:
                judged.append((f"hybrid p50 / {name}'s{where}", own[key] / by_store[store][key], "<=", share))
    for store, how in (("lance_flat", "fed Arrow batches"), ("lance_rows", "fed dicts")):
        if store in by_store:
            rate = own["ingest_per_second"] / by_store[store]["ingest_per_second"]
            judged.append((f"ingest rate / LanceDB's, {how}", rate, ">=", 1.0))
            judged.append((f"ingest rate / LanceDB's, {how}, the floor", rate, ">=", INGEST_FLOOR))
    judged += [
        ("reopen + first query, s", own["reopen_seconds"], "<=", 0.3 * slow),
        ("one document added → searchable, ms", own["added_ms"], "<=", 40 * slow),
        ("one document deleted → gone, ms", own["removed_ms"], "<=", 10 * slow),
        ("vector recall@10", own["recall"], ">=", 0.97),
        ("filtered vector recall@10", own["filtered_recall"], ">=", 1.0),
        ("filtered p50 / unfiltered p50", own["filtered_p50_ms"] / own["hybrid_p50_ms"], "<=", 2),
    ]
    if size <= AT_100K:
        judged.append(("resident after opening, MB", own["rss_mb"], "<=", 250))
        judged.append(("disk, MB", own["disk_mb"], "<=", 350))
    return judged


def floor_of(by_store: dict[str, dict[str, float]]) -> float | None:
    """The floor's hybrid p50 in milliseconds, where it ran."""
    return by_store["floor"]["hybrid_p50_ms"] if "floor" in by_store else None


def passed(measured: float, sign: str, limit: float) -> bool:
    """Whether a bar is met."""
    return measured <= limit if sign == "<=" else measured >= limit


def report(corpus: Corpus, found: dict[str, dict[str, Any]], by_store: dict[str, dict[str, float]]) -> str:
    """The run as Markdown."""
    about = corpus.about
    stores = list(by_store)
    lines = [
        f"# {corpus.size:,} chunks",
        "",
        f"Text from `{about['source']}`: {about['text_megabytes']} MB, {about['mean_chars']:.0f} characters a chunk, "
        f"{about['chinese_share']:.0%} of the chunks with Chinese, {about['chunks_per_document']} chunks a document. "
        f"{machine()}. Load average before each fill: "
        + ", ".join(f"{NAMES[store]} {found[store]['load_before_build']:.1f}" for store in stores)
        + "; filled in turn, the fastest time of each counts, chunks/s: "
        + ", ".join(
            f"{NAMES[s]} " + "/".join(f"{one['chunks_per_second']:,.0f}" for one in found[s]["fills"]) for s in stores
        )
        + "; load before each round of queries: "
        + ", ".join(f"{NAMES[s]} " + "/".join(f"{one['load']:.1f}" for one in found[s]["rounds"]) for s in stores)
        + ".",
        "",
        "| | " + " | ".join(NAMES[store] for store in stores) + " |",
        "|---|" + "---:|" * len(stores),
    ]
    for title, key, form in ROWS:
        lines.append(f"| {title} | " + " | ".join(form.format(by_store[store][key]) for store in stores) + " |")
    if "headwater" in by_store:
        if len(stores) > 1:
            lines += ["", "headwater against each (above 1: headwater is better):", ""]
            lines += [
                "| | " + " | ".join(NAMES[store] for store in stores[1:]) + " |",
                "|---|" + "---:|" * len(stores[1:]),
            ]
            own = by_store["headwater"]
            for title, key in (
                ("ingest rate", "ingest_per_second"),
                ("hybrid p50", "hybrid_p50_ms"),
                ("memory", "rss_mb"),
            ):
                sides = [(own[key], by_store[store][key]) for store in stores if store != "headwater"]
                ratios = [mine / theirs if key == "ingest_per_second" else theirs / mine for mine, theirs in sides]
                lines.append(f"| {title} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
        lines += ["", told(floor_of(by_store), corpus.size)]
        lines += ["", "| bar | measured | limit | |", "|---|---:|---:|---|"]
        for what, measured, sign, limit in bars(corpus.size, by_store):
            verdict = "pass" if passed(measured, sign, limit) else "**fail**"
            lines.append(f"| {what} | {measured:.3g} | {sign} {limit:.3g} | {verdict} |")
        lines += ["", "Seconds per stage of headwater's ingest (stages beside each other count twice):", ""]
        stages = found["headwater"]["build"]["stages"]
        lines += [f"- {stage}: {seconds:.2f}" for stage, seconds in stages.items()]
    versions = {name: version for store in stores for name, version in found[store]["build"]["versions"].items()}
    lines += ["", "Versions: " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) + "."]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """The processor, cores, memory and Python."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line.split(":", 1)[1].strip() for line in information.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{processor}, {os.cpu_count()} cores, {gigabytes:.0f} GiB, Python {platform.python_version()}"


def note(text: str) -> None:
    """Say what is going on, away from the tables."""
    print(f"{time.strftime('%H:%M:%S')} {text} (load {os.getloadavg()[0]:.1f})", file=sys.stderr, flush=True)


def run(size: int, options: argparse.Namespace) -> bool:
    """One size from text to result files; whether every bar was met."""
    note(f"corpus of {size:,} chunks")
    corpus = prepare(size, source=options.corpus, data=options.data, per_document=options.chunks_per_document)
    homes = options.data / f"homes-{corpus.folder.name}"
    homes.mkdir(parents=True, exist_ok=True)
    found = measure(corpus, homes, options)
    if not options.keep:
        shutil.rmtree(homes)
    by_store = {store: figures(one) for store, one in found.items()}
    text = report(corpus, found, by_store)
    print(text)
    judged = bars(size, by_store) if "headwater" in by_store else []
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / f"scale-{size}.md").write_text(text, "utf-8")
    written = {
        "size": size,
        "corpus": corpus.about,
        "machine": machine(),
        "figures": by_store,
        "bars": [
            {"what": what, "measured": value, "sign": sign, "limit": limit, "passed": passed(value, sign, limit)}
            for what, value, sign, limit in judged
        ],
        "stages": {store: one["build"]["stages"] for store, one in found.items()},
        "versions": {store: one["build"]["versions"] for store, one in found.items()},
        "load": {
            store: {"build": one["load_before_build"], "rounds": [asked["load"] for asked in one["rounds"]]}
            for store, one in found.items()
        },
    }
    (options.results / f"scale-{size}.json").write_text(
        json.dumps(written, indent=1, ensure_ascii=False) + "\n", "utf-8"
    )
    return all(passed(value, sign, limit) for _, value, sign, limit in judged)


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, action="append", help="chunks; may be given several times")
    parser.add_argument("--million", action="store_true", help="1,000,000 chunks, headwater alone")
    parser.add_argument("--corpus", type=Path, help="a folder of .jsonl.gz (field `pos`) or of text files")
    parser.add_argument("--stores", type=lambda text: text.split(","), help=f"some of {','.join(STORES)}")
    parser.add_argument(
        "--peer-python", default=sys.executable, help="the Python that has bench/requirements-peers.txt"
    )
    parser.add_argument("--chunks-per-document", type=int, default=10)
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, choices=(1, 2, 3), help="how often the queries are asked, stores in turn"
    )
    parser.add_argument("--fills", type=int, default=1, help="how often each store is filled, in turn")
    parser.add_argument("--threads", type=int, default=1, help="of numpy and faiss while queries are timed")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where corpora and homes go")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--keep", action="store_true", help="leave the filled homes there")
    parser.add_argument("--reuse", action="store_true", help="do not fill again what an earlier --keep left")
    options = parser.parse_args()
    if options.million:
        options.size, options.stores = [MILLION], ["headwater"]
    options.size = options.size or list(SIZES)
    options.stores = options.stores or (list(STORES) if has_peers(options.peer_python) else ["headwater"])
    unknown = set(options.stores) - set(STORES)
    if unknown:
        parser.error(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(STORES)}")
    return options


def has_peers(python: str) -> bool:
    """Whether that Python has what we compare with; says how to get it if not."""
    look = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('bm25s', 'lancedb', 'txtai'))))"
    found = subprocess.run([python, "-c", look], check=False).returncode == 0
    if not found:
        note(f"{python} has no peers, so headwater runs alone; bench/README.md says how to install them")
    return found


def main() -> int:
    """Run every size; 1 when a bar was missed."""
    options = arguments()
    return 0 if all([run(size, options) for size in options.size]) else 1


if __name__ == "__main__":
    sys.exit(main())
