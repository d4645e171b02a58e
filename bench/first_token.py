"""A corpus -> how long the first sentence of a streamed answer takes, next to a bm25s + numpy floor that only searches.

    python bench/first_token.py --corpus FOLDER --peer-python VENV/bin/python       200,000 chunks
    python bench/first_token.py --corpus FOLDER --chunks 20000                      a quick look, no floor

Prints a table and writes bench/results/first-token.md; exits with 1 where the bar is missed. No language model: an
answer is made of the documents' own sentences. The clock runs from the call to the first `Sentence` event, which has
its citation already; a question that is refused is timed to its end and told apart. The home is that of
bench/retrieve.py, kept in bench/data. Every question is asked once and nothing is kept between them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Final

import headwater
from corpus import Corpus
from headwater.types import Answer, Sentence, Step
from retrieve import WARM_UP, Timed, _floor, apart, filled, run
from scale import machine, note, quantile

BAR_MS: Final = 100.0  # at 200,000 chunks on two cores that do nothing else
FIRST, REFUSED = "first sentence", "refusal, whole"


def ask(base: headwater.KnowledgeBase, texts: Sequence[str], timed: Mapping[str, Timed]) -> None:
    """One round: every text once."""
    took: dict[str, list[float]] = {FIRST: [], REFUSED: []}
    for text in texts:
        began, spoke = time.perf_counter(), False
        for event in base.stream(text, options={"cache_size": 0, "enumerate": "never"}):
            if isinstance(event, Sentence) and not spoke:
                took[FIRST].append((time.perf_counter() - began) * 1000)
                spoke = True
            elif isinstance(event, Step):
                timed[event.stage].inside["ms"].append(event.milliseconds)
        assert isinstance(event, Answer)
        if not spoke:
            took[REFUSED].append((time.perf_counter() - began) * 1000)
    for name, values in took.items():
        if values:
            timed[name].rounds.append(values)


def measure(corpus: Corpus, arguments: argparse.Namespace) -> tuple[dict[str, Timed], Timed | None, list[float]]:
    """Rounds with questions that this process has not seen; the floor beside them."""
    texts, _ = apart([query.text for query in corpus.queries()])
    timed: dict[str, Timed] = defaultdict(Timed)
    floor, floor_timed, loads = _floor(corpus, arguments), Timed(), []
    plain = cycle(texts[:-WARM_UP])
    with filled(corpus, arguments.data) as base:
        ask(base, texts[-WARM_UP:], defaultdict(Timed))
        for number in range(arguments.rounds):
            loads.append(os.getloadavg()[0])
            note(f"round {number + 1}")
            ask(base, list(islice(plain, arguments.queries)), timed)
            if floor is not None:
                floor_timed.rounds.append(floor.ask("search", rare=False, part=number)["milliseconds"])
    if floor is not None:
        floor.end()
    return timed, floor_timed if floor is not None else None, loads


def report(corpus: Corpus, timed: Mapping[str, Timed], floor: Timed | None, loads: Sequence[float]) -> str:
    """The run as Markdown."""
    about, spoke = corpus.about, sum(map(len, timed[FIRST].rounds))
    asked = spoke + sum(map(len, timed[REFUSED].rounds))
    lines = [
        "# The first sentence of a streamed answer",
        "",
        f"`python bench/first_token.py` with {corpus.size:,} chunks from `{about['source']}` ({about['mean_chars']:.0f}"
        f" characters each, {about['chinese_share']:.0%} with Chinese), the preset and embedder that ship, no language "
        f"model, one client, the cache off. {machine()}. Load average before each round: "
        f"{', '.join(f'{load:.1f}' for load in loads)}. Milliseconds: the median over {len(loads)} rounds of each "
        f"round's percentiles. {spoke} of {asked} questions were answered.",
        "",
        "| | p50 | p95 | bar on p95 | |",
        "|---|---:|---:|---:|---|",
    ]
    for name in (FIRST, REFUSED):
        if timed[name].rounds:
            verdict = "pass" if timed[name].at(0.95) < BAR_MS else "**fail**"
            told = f"< {BAR_MS:g} | {verdict}" if name == FIRST else " | "
            lines.append(f"| {name} | {timed[name].at(0.5):.1f} | {timed[name].at(0.95):.1f} | {told} |")
    if floor is not None:
        lines.append(f"| bm25s + numpy, a search alone | {floor.at(0.5):.1f} | {floor.at(0.95):.1f} | | |")
    lines += ["", "| step of an answer | p50 | p95 |", "|---|---:|---:|"]
    for step in ("retrieve", "assemble", "generate", "reflect"):
        if took := timed[step].inside["ms"]:
            lines.append(f"| {step} | {quantile(took, 0.5):.1f} | {quantile(took, 0.95):.1f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(
        run(
            __doc__,
            name="first-token",
            measured=measure,
            reported=report,
            missed=lambda timed: timed[FIRST].at(0.95) >= BAR_MS,
        )
    )
