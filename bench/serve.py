"""A home of N chunks -> how many retrievals a second its server answers, quiet and while it takes documents in.

    python bench/serve.py --corpus FOLDER                     200,000 chunks
    python bench/serve.py --corpus FOLDER --chunks 20000      a quick look

Starts a real `headwater serve`, drives POST /api/v1/retrieval from another process (`load.py`), and writes
bench/results/serve.md. Three phases: both legs fused (`"rerank_id": ""`), the same with the reranker of the settings,
and the first again while documents are uploaded and indexed. bench/README.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from corpus import QUERIES, Corpus, prepare
from pace import slowness, told
from scale import Process, machine, note, passed, quantile
from serving import Server, form, request

HERE = Path(__file__).resolve().parent
CHUNKS = 200_000
INGESTED = 20_000
CONNECTIONS = 8
WARM_UP_SECONDS = 5.0
QUIET_SECONDS = 20.0
FILES_AT_ONCE = 50
POLL_SECONDS = 0.5
LONGEST_INGEST_SECONDS = 1800.0
INGEST_SECONDS = 30.0  # for which questions are made that were not asked before
MOST_PER_SECOND = 400  # questions are made for so many answers a second; none is asked twice
UPLOADS = "uploads"
PLAIN = {"rerank_id": ""}  # both legs, fused; what is not said is as the settings say
QUIET, RERANKED, BUSY = "quiet", "quiet, reranked", "while ingesting"
# (retrievals/s at least, p99 in ms at most)
BARS = {QUIET: (150.0, 250.0), BUSY: (60.0, 400.0)}
# What asks for exact words, or for words left out: another kind of search, and no accident in a question.
MARKS = re.compile(r"""["“”„«»「」『』]|(?<!\S)-+""")


@dataclass(frozen=True)
class Phase:
    """What one phase came to."""

    name: str
    milliseconds: list[float]
    other: dict[str, int]
    seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float
    answer_bytes: int

    @property
    def rate(self) -> float:
        return len(self.milliseconds) / self.seconds

    @property
    def refused(self) -> int:
        return self.other.get("429", 0)

    @property
    def errors(self) -> int:
        return sum(self.other.values()) - self.refused


# ---------------------------------------------------------------------------------------------- homes


def page(number: int, chunks: list[str]) -> str:
    """A document in Markdown, every chunk a section of its own: so each is one passage."""
    parts = [f"## Part {place}\n\n{text}" for place, text in enumerate(chunks, 1)]
    return "\n\n".join([f"# Page {number}", *parts])


def filled(corpus: Corpus, data: Path) -> Path:
    """The home with the corpus in it, made with the settings as they come, or found made."""
    import headwater
    from headwater.parsers.markdown import MarkdownParser
    from headwater.types import Blob

    home = data / f"serve-{corpus.folder.name}"
    done = home.with_suffix(".json")
    if done.exists() and home.exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    parser, chunks = MarkdownParser(), corpus.chunks()

    def documents() -> Iterator[Any]:
        for number in range(-(-corpus.size // corpus.per_document)):
            text = page(number, list(islice(chunks, corpus.per_document)))
            yield parser.parse(Blob(uri=f"bench://{number}.md", data=text.encode(), mime="text/markdown"))

    began = time.perf_counter()
    with headwater.open(home) as kb:
        kb.add_documents(documents())
        held = kb.status()["chunks"]
    done.write_text(json.dumps({"chunks": held, "seconds": time.perf_counter() - began}))
    return home


def fresh(corpus: Corpus, count: int) -> Iterator[tuple[str, str]]:
    """Documents that the home does not have: halves of chunks that did not stand together."""
    chunks = list(islice(corpus.chunks(), min(count, corpus.size)))
    apart = len(chunks) // 2 // corpus.per_document // 2 * 2 * corpus.per_document + 3
    for number, start in enumerate(range(0, count, corpus.per_document)):
        texts = []
        for place in range(start, min(start + corpus.per_document, count)):
            one, other = chunks[place % len(chunks)], chunks[(place + apart) % len(chunks)]
            texts.append(f"{one[: len(one) // 2]} {other[len(other) // 2 :]}")
        yield f"fresh-{number:05}.md", page(number, texts)


# ----------------------------------------------------------------------------------------------- load


class Client:
    """`load.py` in a process of its own."""

    def __init__(self, server: Server, bodies: list[str], *, seconds: float | None, connections: int) -> None:
        plan = {"host": server.host, "port": server.port, "path": "/api/v1/retrieval", "connections": connections}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "load.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdin
        self.process.stdin.write(json.dumps({**plan, "seconds": seconds, "bodies": bodies}) + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Stop one that has no time of its own."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def figures(self) -> dict[str, Any]:
        """Wait for the end."""
        out, _ = self.process.communicate()
        if self.process.returncode != 0:
            raise SystemExit("the client failed")
        told: dict[str, Any] = json.loads(out)
        return told


def phase(name: str, server: Server, client: Client, cpu_before: float) -> Phase:
    """What a client and a server say of a phase that has ended."""
    told = client.figures()
    return Phase(
        name=name,
        milliseconds=told["milliseconds"],
        other=told["other"],
        seconds=told["seconds"],
        client_cpu_seconds=told["cpu_seconds"],
        server_cpu_seconds=server.cpu_seconds() - cpu_before,
        answer_bytes=told["bytes"],
    )


def ingest(server: Server, corpus: Corpus, count: int) -> dict[str, float]:
    """Upload that many chunks as files and wait until every job has ended."""
    dataset = server.call("POST", "/api/v1/datasets", {"name": UPLOADS})["id"]
    before = server.call("GET", "/api/v1/status")["chunks"]
    began = time.perf_counter()
    documents, refused = fresh(corpus, count), 0
    connection = server.connect()
    while some := dict(islice(documents, FILES_AT_ONCE)):
        body = form(some)
        while True:
            status, data = request(connection, "POST", f"/api/v1/datasets/{dataset}/documents", body)
            if status == 200:
                break
            if status != 429:
                raise SystemExit(f"an upload was answered {status}: {data!r}")
            refused += 1
            time.sleep(1)
    uploaded = time.perf_counter() - began
    while True:
        told = server.call("GET", "/api/v1/status")
        if not any(told["jobs"].get(state, 0) for state in ("pending", "processing", "indexed")):
            break
        if time.perf_counter() - began > LONGEST_INGEST_SECONDS:
            raise SystemExit(f"the ingest does not end: {told}")
        time.sleep(POLL_SECONDS)
    seconds = time.perf_counter() - began
    if told["jobs"].get("failed", 0):
        raise SystemExit(f"jobs failed: {told['jobs']}")
    added = told["chunks"] - before
    return {"chunks": added, "seconds": seconds, "uploaded": uploaded, "per_second": added / seconds, "429": refused}


def floor(corpus: Corpus, options: argparse.Namespace) -> dict[str, float] | None:
    """bm25s + numpy over the same chunks, by one thread of one client: no server, nothing but the ranking."""
    look = subprocess.run([options.peer_python, "-c", "import bm25s"], check=False, capture_output=True)
    if look.returncode != 0:
        note(f"{options.peer_python} has no bm25s, so there is no floor; see bench/README.md")
        return None
    home = options.data / f"homes-{corpus.folder.name}" / "floor"
    home.parent.mkdir(parents=True, exist_ok=True)
    if not home.exists():
        note("the floor: filling")
        builder = Process("floor", corpus, home, python=options.peer_python, threads=None)
        builder.ask("build")
        builder.end()
    reader = Process("floor", corpus, home, python=options.peer_python, threads=1)
    reader.ask("open")
    note(f"the floor: {QUERIES} queries")
    found = reader.ask("search", rare=False, part=0)["milliseconds"]
    reader.end()
    mean = sum(found) / len(found)
    return {"p50": quantile(found, 0.5), "p99": quantile(found, 0.99), "per_second": 1000 / mean}


def questions(corpus: Corpus, seconds: float) -> Iterator[str]:
    """Enough for both quiet phases and a long ingest, no two alike; then from the start."""
    made = corpus.questions(int(MOST_PER_SECOND * seconds))
    return cycle(dict.fromkeys(text for one in made if (text := MARKS.sub(" ", one).strip())))


def measure(corpus: Corpus, home: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All phases against one server."""
    asked = questions(corpus, 2 * options.seconds + WARM_UP_SECONDS + INGEST_SECONDS)
    server = Server(home)

    def ask(seconds: float | None, **beside: Any) -> Client:
        count = int(MOST_PER_SECOND * (seconds or INGEST_SECONDS))
        bodies = [json.dumps({"question": text, **beside}) for text in islice(asked, count)]
        if seconds is None:
            bodies *= 10  # an ingest that takes longer is asked some of them again; the home has changed by then
        return Client(server, bodies, seconds=seconds, connections=options.connections)

    try:
        server.call("POST", "/api/v1/retrieval", {"question": "one that opens everything"})
        found: dict[str, Any] = {"rss_opened": server.searching(), "phases": []}
        note("warm-up")
        ask(WARM_UP_SECONDS).figures()
        found["rss_warm"] = server.searching()
        found["load"] = os.getloadavg()[0]
        for name, beside in ((QUIET, PLAIN), (RERANKED, {})):
            note(name)
            before = server.cpu_seconds()
            found["phases"].append(phase(name, server, ask(options.seconds, **beside), before))
        found["rss_quiet"] = server.searching()
        note(f"while {options.ingest:,} chunks come in")
        before, client = server.cpu_seconds(), ask(None, **PLAIN)
        found["ingest"] = ingest(server, corpus, options.ingest)
        client.end()
        found["phases"].append(phase(BUSY, server, client, before))
        found["rss_after"] = server.searching()
        found["complaints"] = server.complaints()
    finally:
        code = server.stop()
    if code != 0:
        raise SystemExit(f"the server ended with {code}")
    return found


# --------------------------------------------------------------------------------------------- report


def bars(found: dict[str, Any], slow: float) -> list[tuple[str, float, str, float]]:
    """(what, measured, sign, limit) on a machine that is so many times slower than the reference."""
    judged = []
    for one in found["phases"]:
        rate, slowest = BARS.get(one.name, (0.0, math.inf))
        if one.name not in BARS:
            judged.append((f"{one.name}: errors", float(one.errors), "<=", 0.0))
            continue
        judged.append((f"{one.name}: retrievals/s", one.rate, ">=", rate / slow))
        judged.append((f"{one.name}: p99, ms", quantile(one.milliseconds, 0.99), "<=", slowest * slow))
        judged.append((f"{one.name}: errors", float(one.errors), "<=", 0.0))
    judged.append(("lines of the server's log that complain", float(len(found["complaints"])), "<=", 0.0))
    return judged


def report(corpus: Corpus, found: dict[str, Any], least: dict[str, float] | None, options: argparse.Namespace) -> str:
    """The run as Markdown."""
    phases: list[Phase] = found["phases"]
    rows = [
        ("retrievals/s", [f"{one.rate:.0f}" for one in phases]),
        *(
            (f"p{share}, ms", [f"{quantile(one.milliseconds, share / 100):.0f}" for one in phases])
            for share in (50, 95, 99)
        ),
        ("slowest, ms", [f"{max(one.milliseconds):.0f}" for one in phases]),
        ("answers", [f"{len(one.milliseconds):,}" for one in phases]),
        ("429", [f"{one.refused}" for one in phases]),
        ("errors", [f"{one.errors}" for one in phases]),
        ("seconds", [f"{one.seconds:.0f}" for one in phases]),
        ("CPU of the server, ms a retrieval", [f"{_each(one, one.server_cpu_seconds):.1f}" for one in phases]),
        ("CPU of the client, ms a retrieval", [f"{_each(one, one.client_cpu_seconds):.2f}" for one in phases]),
        ("bytes an answer", [f"{one.answer_bytes / max(1, len(one.milliseconds)):,.0f}" for one in phases]),
    ]
    done = found["ingest"]
    share = sum(one.client_cpu_seconds for one in phases) / sum(
        one.client_cpu_seconds + one.server_cpu_seconds for one in phases
    )
    lines = [
        f"# Serving {corpus.size:,} chunks",
        "",
        f"`python bench/serve.py`: {options.connections} keep-alive connections that each ask again as soon as they "
        "are answered, every question another one. "
        f"Text from `{corpus.about['source']}`, {corpus.about['mean_chars']:.0f} characters a chunk. {machine()}, "
        f"shared by server and client. Load average before: {found['load']:.1f}.",
        "",
        "| | " + " | ".join(one.name for one in phases) + " |",
        "|---|" + "---:|" * len(phases),
        *(f"| {name} | {' | '.join(values)} |" for name, values in rows),
        "",
        f"Taken in meanwhile: {done['chunks']:,.0f} chunks by upload in {done['seconds']:.0f} s, "
        f"{done['per_second']:.0f} a second, all of them searchable ({done['uploaded']:.0f} s of it until the last was "
        f"acknowledged; {done['429']:.0f} uploads were told to come back).",
        "",
        "Resident memory of the server and its readers, pages that they share counted in each: "
        f"{found['rss_opened']:.0f} MB opened, {found['rss_warm']:.0f} warm, "
        f"{found['rss_quiet']:.0f} after the quiet phase, {found['rss_after']:.0f} after the ingest.",
        "",
        f"The client took {share:.0%} of the CPU time of both.",
        "",
    ]
    if least is not None:
        lines += [
            f"The least one could do, bm25s + numpy over the same chunks, called by one thread without a server: p50 "
            f"{least['p50']:.1f} ms, p99 {least['p99']:.1f} ms, {least['per_second']:.0f} a second.",
            "",
        ]
    floor_p50 = least["p50"] if least is not None else None
    lines += [told(floor_p50, corpus.size), ""]
    lines += ["| bar | measured | limit | |", "|---|---:|---:|---|"]
    for what, measured, sign, limit in bars(found, slowness(floor_p50, corpus.size)):
        verdict = "pass" if passed(measured, sign, limit) else "**fail**"
        lines.append(f"| {what} | {measured:.4g} | {sign} {limit:.4g} | {verdict} |")
    return "\n".join(lines) + "\n"


def _each(one: Phase, seconds: float) -> float:
    return seconds * 1000 / max(1, len(one.milliseconds))


def arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=CHUNKS)
    parser.add_argument("--ingest", type=int, default=INGESTED, help="chunks that are uploaded in the second phase")
    parser.add_argument("--seconds", type=float, default=QUIET_SECONDS, help="of the first phase")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--corpus", type=Path, help="a folder of .jsonl.gz (field `pos`) or of text files")
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has bm25s, for the floor")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where corpora and homes go")
    parser.add_argument("--write", type=Path, help="the result; bench/results/serve.md for 200,000 chunks")
    return parser.parse_args()


def main() -> int:
    """Measure and write; 1 when a bar was missed."""
    options = arguments()
    note(f"corpus of {options.chunks:,} chunks")
    corpus = prepare(options.chunks, source=options.corpus, data=options.data)
    note("the home")
    home = filled(corpus, options.data)
    copy = options.data / "serve-running"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(home, copy)
    try:
        found = measure(corpus, copy, options)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    least = floor(corpus, options)
    text = report(corpus, found, least, options)
    print(text)
    named = "serve.md" if options.chunks == CHUNKS else f"serve-{options.chunks}.md"
    target = options.write or HERE / "results" / named
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")
    for line in found["complaints"][:5]:
        note(line)
    slow = slowness(least["p50"] if least is not None else None, corpus.size)
    return 0 if all(passed(value, sign, limit) for _, value, sign, limit in bars(found, slow)) else 1


if __name__ == "__main__":
    sys.exit(main())
