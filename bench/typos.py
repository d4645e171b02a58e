"""Test sets -> what a typo in a question costs, with `typos` and without; and that other questions stay as they are.

    python bench/typos.py FOLDER                     the English sets, up to 300 queries each
    python bench/typos.py FOLDER --sets en_squad2 --queries 100

One letter of one telling word of each question is swapped with the next, left out, doubled or replaced. Prints a table
and writes bench/results/typos.md: nDCG@10 of `balanced`, all legs and by words alone, of the questions as they are and
with their typo. Indexes are those of `headwater eval`.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from string import ascii_lowercase
from time import perf_counter
from typing import Final

from headwater import config
from headwater.build import KnowledgeBase
from headwater.evaluate.dataset import JudgedSet, read_set
from headwater.evaluate.metrics import judged
from headwater.evaluate.run import DEEPEST, document_names, indexed, make_embedder, ranked_documents
from headwater.highlight import KIND_WORDS, STOP_WORDS
from headwater.places import cache_folder

HERE: Final = Path(__file__).resolve().parent
SEED: Final = 1  # always the same queries and typos
SETS: Final = ("en_squad2", "en_scifact", "en_pubmedqa", "en_cranfield")
COLUMNS: Final = ("as it is", "with `typos`", "with a typo", "with a typo and `typos`")
_WORD: Final = re.compile("[A-Za-z]{4,}")


def mistyped(text: str, choice: random.Random) -> str:
    """The question with one slip in one telling word, if it has one."""
    words = [found for found in _WORD.finditer(text) if found[0].lower() not in STOP_WORDS | KIND_WORDS]
    if not words:
        return text
    found = choice.choice(words)
    word = slipped = found[0]
    while slipped == word:
        place, kind = choice.randrange(1, len(word)), choice.choice(("swap", "drop", "double", "replace"))
        before, letter, after = word[:place], word[place], word[place + 1 :]
        made = {
            "swap": before + after[:1] + letter + after[1:],
            "drop": before + after,
            "double": before + letter * 2 + after,
            "replace": before + choice.choice(ascii_lowercase) + after,
        }
        slipped = made[kind]
    return text[: found.start()] + slipped + text[found.end() :]


def measured(
    kb: KnowledgeBase, judged_set: JudgedSet, asked: Sequence[tuple[str, str]], *, mode: str, typos: bool
) -> tuple[float, float, int]:
    """The mean nDCG@10 and time of questions, and how many were corrected."""
    names, values, took, changed = document_names(kb, judged_set), [], [], 0
    for query_id, text in asked:
        began = perf_counter()
        found = kb.search(text, mode=mode, options={"typos": typos, "top_n": 10, "cache_size": 0})
        took.append((perf_counter() - began) * 1000)
        changed += bool(found.corrected)
        ranking = tuple(names[id] for id in ranked_documents(found)[:DEEPEST])
        values.append(judged(ranking, judged_set.judgements[query_id])["ndcg@10"])
    return fmean(values), sorted(took)[len(took) // 2], changed


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--work", type=Path, default=cache_folder() / "eval")
    parser.add_argument("--write", type=Path, default=HERE / "results" / "typos.md")
    arguments = parser.parse_args()
    settings = config.load(arguments.work / "none", preset="balanced")
    lines = [
        "# Questions with typos",
        "",
        f"`python bench/typos.py`, preset `balanced`, up to {arguments.queries} questions a set: nDCG@10, the median",
        "time, and how many were corrected.",
        "",
        f"| set | mode | {' | '.join(COLUMNS)} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
    ]
    print("\n".join(lines), flush=True)
    for name in arguments.sets:
        judged_set, choice = read_set(arguments.folder / name), random.Random(SEED)
        chosen = list(judged_set.queries.items())
        choice.shuffle(chosen)
        plain = chosen[: arguments.queries]
        slipped = [(id, mistyped(text, choice)) for id, text in plain]
        embedder = make_embedder(settings, home=arguments.work)
        with indexed(judged_set, settings, work=arguments.work, embedder=embedder) as kb:
            kb.search("anything that opens the index", options={"cache_size": 0})
            for mode in ("hybrid", "keyword"):
                row = [
                    measured(kb, judged_set, asked, mode=mode, typos=typos)
                    for asked in (plain, slipped)
                    for typos in (False, True)
                ]
                told = [f"{value:.3f}, {ms:.1f} ms, {changed}" for value, ms, changed in row]
                lines.append(f"| {name} | {mode} | {' | '.join(told)} |")
                print(lines[-1], flush=True)
    arguments.write.parent.mkdir(parents=True, exist_ok=True)
    arguments.write.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
