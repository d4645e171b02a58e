"""A corpus -> how long a search takes with each preset, and what each stage adds, next to a bm25s + numpy floor.

    python bench/retrieve.py --peer-python VENV/bin/python                    200,000 chunks of made text
    python bench/retrieve.py --corpus FOLDER --chunks 20000                   a quick look at your text, no floor

Prints tables and writes bench/results/retrieve.md; exits with 1 where a bar is missed. The home is filled with the
bundled embedder, kept in bench/data and used again. Every query is asked once, cold: nothing is kept from one search to
the next but what the reranker remembers of passages, as in a server. Queries are Chinese and English in turn, half of
them stretches of a chunk and half some of its rarer words (bench/corpus.py). Those that hold "exact words" or leave a
-word out are asked apart: every passage that could hold them is read.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

import headwater
from corpus import Corpus, prepare
from headwater import config as settings
from headwater.asked import read
from headwater.evaluate.run import _code_digest
from peers.headwater import ParagraphChunker, _documents
from scale import Process, machine, note, quantile

HERE: Final = Path(__file__).resolve().parent
PRESETS: Final = ("fast", "balanced", "precision", "recall")
ROUNDS: Final = 3
WARM_UP: Final = 20
MARKED: Final = "exact words, with `fast`"
PART: Final = "part of a word, mode `substring`"
PARTS: Final = 20  # of each round: each goes through every text
# Milliseconds on two cores that do nothing else.
BARS: Final = {"fast": 25.0, "balanced": 80.0}
PLAIN: Final[Mapping[str, Any]] = {"rerank": "", "enumerate": "never"}
RERANKED: Final[Mapping[str, Any]] = {"rerank": "builtin", "rerank_depth": 50, "enumerate": "never"}
# What is switched on -> with what it is compared. Each stage stands on the balanced preset without its other stages.
STAGES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "words alone": ("", {**PLAIN, "mode": "keyword"}),
    "meaning alone": ("", {**PLAIN, "mode": "semantic"}),
    "both, fused": ("", PLAIN),
    "rerank, first 50": ("both, fused", RERANKED),
    "rerank, first 100": ("both, fused", {**RERANKED, "rerank_depth": 100}),
    "collapse": ("both, fused", {**PLAIN, "collapse": True}),
    "mmr": ("both, fused", {**PLAIN, "mmr_lambda": 0.7}),
    "window of 1": ("both, fused", {**PLAIN, "window": 1}),
    "parent": ("both, fused", {**PLAIN, "parent": True}),
    "related": ("both, fused", {**PLAIN, "related": True}),
    "synonyms": ("both, fused", {**PLAIN, "synonyms": True}),
    "feedback": ("both, fused", {**PLAIN, "feedback": True}),
    "no highlights": ("both, fused", {**PLAIN, "highlight": False}),
}


@dataclass
class Timed:
    """The searches of one way to ask: milliseconds of each round, and of the stages inside."""

    rounds: list[list[float]] = field(default_factory=list)
    inside: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    degraded: dict[str, None] = field(default_factory=dict)

    def at(self, share: float) -> float:
        """The median over the rounds of what this share of a round's searches took at most."""
        return statistics.median(quantile(one, share) for one in self.rounds)


Measured = Callable[[Corpus, argparse.Namespace], tuple[Mapping[str, Timed], Timed | None, list[float]]]
Reported = Callable[[Corpus, Mapping[str, Timed], Timed | None, Sequence[float]], str]
Missed = Callable[[Mapping[str, Timed]], bool]


def apart(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Plain queries, and those with marks: exact words, words to leave out."""
    marked = [text for text in texts if read(text)[1:] != ((), ())]
    return [text for text in texts if text not in set(marked)], marked


def parts_of_words(texts: Sequence[str]) -> list[str]:
    """Of each query with a long word in Latin letters, the inside of it: no index of words knows where that stands."""
    long = (re.search(r"[A-Za-z]{7,}", text) for text in texts)
    return list(dict.fromkeys(found[0][1:-1] for found in long if found))


def options_of(preset: str) -> dict[str, Any]:
    """How a preset searches: what it says, and for the rest the defaults of the code."""
    said = {**settings.defaults(), **settings.read_preset(preset)}.items()
    return {name.partition(".")[2]: one.value for name, one in said if name.startswith("retrieve.")}


@contextmanager
def filled(corpus: Corpus, data: Path) -> Iterator[headwater.KnowledgeBase]:
    """A home with the corpus; one of an earlier run where nothing that writes it has changed."""
    home = data / f"retrieve-{corpus.folder.name}"
    stamp, now = home / "filled", _code_digest()
    if not stamp.exists() or stamp.read_text() != now:
        shutil.rmtree(home, ignore_errors=True)
        note(f"filling a home with {corpus.size:,} chunks")
        with headwater.open(home, chunker=ParagraphChunker()) as base:
            base.add_documents(_documents(corpus))
        stamp.write_text(now)
    with headwater.open(home, chunker=ParagraphChunker()) as base:
        yield base


def ask(base: headwater.KnowledgeBase, texts: Sequence[str], options: Mapping[str, Any], timed: Timed) -> None:
    """One round: every text once."""
    took = []
    for text in texts:
        began = time.perf_counter()
        results = base.search(text, options={**options, "cache_size": 0})
        took.append((time.perf_counter() - began) * 1000)
        for stage, milliseconds in results.timings_ms.items():
            timed.inside[stage].append(milliseconds)
        timed.degraded.update(dict.fromkeys(results.degraded))
    timed.rounds.append(took)


def measure(corpus: Corpus, arguments: argparse.Namespace) -> tuple[dict[str, Timed], Timed | None, list[float]]:
    """Every way to ask, in turn, each round with queries that this process has not seen; the floor beside them."""
    texts, quoted = apart([query.text for query in corpus.queries()])
    balanced = options_of("balanced")
    ways = {preset: options_of(preset) for preset in PRESETS}
    ways |= {stage: {**balanced, **options} for stage, (_, options) in STAGES.items()}
    timed, loads = {name: Timed() for name in ways}, []
    floor, floor_timed = _floor(corpus, arguments), Timed()
    plain = cycle(texts[:-WARM_UP])
    with filled(corpus, arguments.data) as base:
        for options in ways.values():
            ask(base, texts[-WARM_UP:], options, Timed())
        for number in range(arguments.rounds):
            loads.append(os.getloadavg()[0])
            for name, options in ways.items():
                note(f"round {number + 1}: {name}")
                # Every way gets queries of its own; where they run out, those of long ago come again.
                ask(base, list(islice(plain, arguments.queries)), options, timed[name])
            if quoted:
                timed.setdefault(MARKED, Timed())
                ask(base, quoted[number :: arguments.rounds][: arguments.queries], ways["fast"], timed[MARKED])
            timed.setdefault(PART, Timed())
            some = parts_of_words(texts)[number :: arguments.rounds][:PARTS]
            ask(base, some, {**ways["fast"], "mode": "substring"}, timed[PART])
            if floor is not None:
                note(f"round {number + 1}: floor")
                floor_timed.rounds.append(floor.ask("search", rare=False, part=number)["milliseconds"])
    if floor is not None:
        floor.end()
    return timed, floor_timed if floor is not None else None, loads


def _floor(corpus: Corpus, arguments: argparse.Namespace) -> Process | None:
    """bm25s and numpy over the same chunks, in a process of its own, filled where it is not yet."""
    if subprocess.run([arguments.peer_python, "-c", "import bm25s"], check=False, stderr=subprocess.DEVNULL).returncode:
        note(f"{arguments.peer_python} has no bm25s: there will be no floor to compare with")
        return None
    home = arguments.data / f"homes-{corpus.folder.name}" / "floor"
    home.parent.mkdir(parents=True, exist_ok=True)

    def start() -> Process:
        return Process("floor", corpus, home, python=arguments.peer_python, threads=1)

    if not (home / "texts.json").exists():
        note("filling the floor")
        builder = start()
        builder.ask("build")
        builder.end()
    reader = start()
    reader.ask("open")
    return reader


def report(corpus: Corpus, timed: Mapping[str, Timed], floor: Timed | None, loads: Sequence[float]) -> str:
    """The run as Markdown."""
    about = corpus.about
    lines = [
        "# Searching, stage by stage",
        "",
        f"`python bench/retrieve.py` with {corpus.size:,} chunks from `{about['source']}` ({about['mean_chars']:.0f} "
        f"characters each, {about['chinese_share']:.0%} with Chinese), the bundled embedder, one client, the cache "
        f"off. {machine()}. Load average before each round: {', '.join(f'{load:.1f}' for load in loads)}. "
        f"Milliseconds: the median over {len(loads)} rounds of each round's percentiles.",
        "",
        "| preset | p50 | p95 | bar on p95 | |",
        "|---|---:|---:|---:|---|",
    ]
    for preset in PRESETS:
        bar = BARS.get(preset)
        verdict = "" if bar is None else "pass" if timed[preset].at(0.95) < bar else "**fail**"
        told = "" if bar is None else f"< {bar:g}"
        lines.append(
            f"| `{preset}` | {timed[preset].at(0.5):.1f} | {timed[preset].at(0.95):.1f} | {told} | {verdict} |"
        )
    if floor is not None:
        lines.append(f"| bm25s + numpy, the floor | {floor.at(0.5):.1f} | {floor.at(0.95):.1f} | | |")
    lines += ["", "| stage | p50 | p95 | p50 more than | |", "|---|---:|---:|---|---:|"]
    for stage, (beside, _) in STAGES.items():
        more = f"{timed[stage].at(0.5) - timed[beside].at(0.5):+.1f}" if beside else ""
        lines.append(f"| {stage} | {timed[stage].at(0.5):.1f} | {timed[stage].at(0.95):.1f} | {beside} | {more} |")
    for way in (MARKED, PART):
        if way in timed:
            lines.append(f"| {way} | {timed[way].at(0.5):.1f} | {timed[way].at(0.95):.1f} | | |")
    lines += [
        "",
        "Inside of `balanced`, as `timings_ms` tells it (the legs run beside each other):",
        "",
        "| part | p50 | p95 |",
        "|---|---:|---:|",
    ]
    inside = timed["balanced"].inside
    lines += [f"| {part} | {quantile(took, 0.5):.2f} | {quantile(took, 0.95):.2f} |" for part, took in inside.items()]
    lost = dict.fromkeys(told for one in timed.values() for told in one.degraded)
    lines += ["", f"Degraded: {'; '.join(lost) or 'nothing'}."]
    return "\n".join(lines) + "\n"


def run(about: str, *, name: str, measured: Measured, reported: Reported, missed: Missed) -> int:
    """The command line of a measurement with rounds: prepares, measures, writes its file; 1 when a bar was missed."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=200_000)
    parser.add_argument("--corpus", type=Path, help="a folder of .jsonl.gz (field `pos`) or of text files")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has bm25s, for the floor")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--queries", type=int, default=100, help="of each round of each way to ask")
    parser.add_argument("--data", type=Path, default=HERE / "data", help="where corpora and homes go")
    parser.add_argument("--write", type=Path, default=HERE / "results" / f"{name}.md")
    arguments = parser.parse_args()
    corpus = prepare(arguments.chunks, source=arguments.corpus, data=arguments.data)
    timed, floor, loads = measured(corpus, arguments)
    text = reported(corpus, timed, floor, loads)
    print(text)
    arguments.write.parent.mkdir(parents=True, exist_ok=True)
    arguments.write.write_text(text, "utf-8")
    return int(missed(timed))


if __name__ == "__main__":
    sys.exit(
        run(
            __doc__,
            name="retrieve",
            measured=measure,
            reported=report,
            missed=lambda timed: any(timed[preset].at(0.95) >= bar for preset, bar in BARS.items()),
        )
    )
