"""How often is the answer in the sentences that are cited? Without a language model, with the gate that refuses.

python bench/answers.py SETS [--half test] [--each 150] [--write bench/results/answers.md]

An answer counts where one of the set's answer strings stands in the quotes of its citations, of which there are at most
three, and again where it stands in the first of them; a refusal counts as wrong. The ceiling is how often it stands in
one of the eight passages that are found.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median
from time import perf_counter

from headwater.types import Answer, Sentence
from questions import SETS, holds, home, questions, quotes, show, told

MOST_SENTENCES = 3


def measured(
    sets: Path, name: str, *, half: str, each: int, work: Path
) -> tuple[list[tuple[bool, bool, bool, bool]], list[float]]:
    """For each question: answered, cited the answer, cited it at once, found it at all; and the milliseconds to the
    first sentence.
    """
    rows, first = [], []
    with home(sets / name, work) as (kb, _, _):
        kb.ask("ready?")  # the first question opens the index
        for asked in questions(sets / name, half, limit=each):
            began, spoke = perf_counter(), False
            for event in kb.stream(asked.text, options={"cache_size": 0}):
                if isinstance(event, Sentence) and not spoke:
                    first.append((perf_counter() - began) * 1000)
                    spoke = True
            assert isinstance(event, Answer)
            assert len(event.citations) <= MOST_SENTENCES
            top = any(holds(hit.chunk.text, asked.answers) for hit in event.hits)
            at_once = any(holds(one.quote, asked.answers) for one in event.citations[:1])
            rows.append((not event.refused, holds(quotes(event), asked.answers), at_once, top))
    return rows, first


def main() -> None:
    given = told(__doc__, each=150)
    lines = [
        f"# Extractive answers, half `{given.half}`",
        "",
        "| set | questions | answered | the answer is cited | in the first sentence | "
        "ceiling: found in the first eight | cited where found | cited where found and answered | "
        "first sentence, median ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    shares: list[list[float]] = []
    for name in SETS:
        rows, first = measured(given.sets, name, half=given.half, each=given.each, work=given.work)
        figures = [
            fmean(answered for answered, _, _, _ in rows),
            fmean(cited for _, cited, _, _ in rows),
            fmean(at_once for _, _, at_once, _ in rows),
            fmean(top for _, _, _, top in rows),
            fmean(cited for _, cited, _, top in rows if top),
            fmean(cited for answered, cited, _, top in rows if top and answered),
        ]
        shares.append(figures)
        shown = " | ".join(f"{figure:.3f}" for figure in figures)
        lines.append(f"| {name} | {len(rows)} | {shown} | {median(first):.1f} |")
    means = " | ".join(f"{fmean(column):.3f}" for column in zip(*shares, strict=True))
    lines.append(f"| mean | | {means} | |")
    show(lines, given.write)


if __name__ == "__main__":
    main()
