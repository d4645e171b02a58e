"""Test sets -> what asking in other words without a language model gains: synonyms, spellings, words of the first hits.

    python bench/expansion.py FOLDER                 every set in it, up to 300 queries each
    python bench/expansion.py FOLDER --sets en_scifact zh_cmrc --queries 100

Prints a table and writes bench/results/expansion.md: nDCG@10 of `balanced` without its reranker and as it is, each
plain, with `synonyms` and with `feedback`. Indexes are those of `headwater eval`.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any, Final

from headwater import config
from headwater.evaluate.dataset import JudgedSet, read_set
from headwater.evaluate.metrics import judged
from headwater.evaluate.run import DEEPEST, document_names, indexed, make_embedder, ranked_documents
from headwater.places import cache_folder

HERE: Final = Path(__file__).resolve().parent
SEED: Final = 1  # always the same queries
WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "fused": {"rerank": ""},
    "with synonyms": {"rerank": "", "synonyms": True},
    "with feedback": {"rerank": "", "feedback": True},
    "reranked": {},
    "reranked, synonyms": {"synonyms": True},
    "reranked, feedback": {"feedback": True},
}


def measured(judged_set: JudgedSet, settings: config.Config, *, work: Path, queries: int) -> dict[str, float]:
    """By way to ask, the mean nDCG@10."""
    chosen = list(judged_set.queries.items())
    random.Random(SEED).shuffle(chosen)
    embedder = make_embedder(settings, home=work)
    found: dict[str, float] = {}
    with indexed(judged_set, settings, work=work, embedder=embedder) as kb:
        names = document_names(kb, judged_set)
        for way, options in WAYS.items():
            values = []
            for query_id, text in chosen[:queries]:
                results = kb.search(text, options={**options, "top_n": 10, "cache_size": 0, "enumerate": "never"})
                ranking = tuple(names[id] for id in ranked_documents(results)[:DEEPEST])
                values.append(judged(ranking, judged_set.judgements[query_id])["ndcg@10"])
            found[way] = mean(values)
    return found


def main() -> None:
    """One run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--work", type=Path, default=cache_folder() / "eval")
    parser.add_argument("--write", type=Path, default=HERE / "results" / "expansion.md")
    arguments = parser.parse_args()
    names = arguments.sets or sorted(path.parent.name for path in arguments.folder.glob("*/corpus.jsonl"))
    settings = config.load(arguments.work / "none", preset="balanced")
    lines = [
        "# Asking in other words, without a language model",
        "",
        f"`python bench/expansion.py`, preset `balanced`, nDCG@10 of up to {arguments.queries} queries a set.",
        "",
        f"| set | {' | '.join(WAYS)} |",
        f"|---|{'---:|' * len(WAYS)}",
    ]
    print("\n".join(lines), flush=True)
    for name in names:
        values = measured(
            read_set(arguments.folder / name), settings, work=arguments.work, queries=arguments.queries
        ).values()
        lines.append(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |")
        print(lines[-1], flush=True)
    arguments.write.parent.mkdir(parents=True, exist_ok=True)
    arguments.write.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
