"""Measures the bundled model on evaluation sets in the BEIR layout, beside other embedders that are installed."""

import argparse
import csv
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headwater.models.static import StaticEmbedder

Embed = Callable[[Sequence[str]], np.ndarray]
CUT = 10


@dataclass(frozen=True)
class EvaluationSet:
    name: str
    documents: list[str]
    queries: list[str]
    relevant: list[dict[int, int]]  # document number -> grade, per query


def read_set(folder: Path) -> EvaluationSet:
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    number = {row["_id"]: i for i, row in enumerate(rows)}
    texts = {row["_id"]: row["text"] for row in map(json.loads, (folder / "queries.jsonl").open(encoding="utf-8"))}
    relevant: dict[str, dict[int, int]] = {}
    with (folder / "qrels" / "test.tsv").open(encoding="utf-8") as stream:
        for query, document, grade in list(csv.reader(stream, delimiter="\t"))[1:]:
            if int(grade) > 0:
                relevant.setdefault(query, {})[number[document]] = int(grade)
    documents = [f"{row.get('title', '')} {row['text']}".strip() for row in rows]
    return EvaluationSet(folder.name, documents, [texts[q] for q in relevant], list(relevant.values()))


def measure(found: EvaluationSet, embed: Embed) -> tuple[float, float]:
    """nDCG@10 and recall@10."""
    documents, queries = embed(found.documents), embed(found.queries)
    gains, recalls = [], []
    for query, grades in zip(queries, found.relevant, strict=True):
        best = np.argsort(-(documents @ query), kind="stable")[:CUT].tolist()
        gain = sum(grades.get(d, 0) / math.log2(rank + 2) for rank, d in enumerate(best))
        ideal = sum(g / math.log2(rank + 2) for rank, g in enumerate(sorted(grades.values(), reverse=True)[:CUT]))
        gains.append(gain / ideal)
        recalls.append(len(grades.keys() & set(best)) / len(grades))
    return float(np.mean(gains)), float(np.mean(recalls))


def embedders(names: Sequence[str]) -> dict[str, Embed]:
    ours = {dim: StaticEmbedder(dim=dim) for dim in (256, 128)}
    found: dict[str, Embed] = {
        f"headwater-{dim}": lambda texts, e=e: e.embed(texts, "passage") for dim, e in ours.items()
    }
    if "wordllama" in names:
        from wordllama import WordLlama

        model = WordLlama.load()
        found["wordllama"] = lambda texts: np.asarray(model.embed(list(texts), norm=True))
    if "minilm" in names:
        from embed import MiniLM  # bench/embed.py

        found["minilm"] = MiniLM().embed
    return {name: found[name] for name in names}


def keeping(embed: Embed, folder: Path) -> Embed:
    """The same embedder, with its vectors kept in a folder: a transformer needs half an hour, and does not change."""

    def embed_once(texts: Sequence[str]) -> np.ndarray:
        path = folder / f"{hashlib.sha256(chr(0).join(texts).encode()).hexdigest()}.npy"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            np.save(path, embed(texts))
        return np.load(path)

    return embed_once


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=Path, required=True, help="folder of evaluation sets")
    parser.add_argument("--only", nargs="*", default=[], help="names of sets")
    parser.add_argument("--embedders", nargs="*", default=["headwater-256", "headwater-128", "wordllama"])
    parser.add_argument("--keep", type=Path, help="folder for MiniLM's vectors, which a second run then reads")
    arguments = parser.parse_args()
    chosen = embedders(arguments.embedders)
    if arguments.keep and "minilm" in chosen:
        chosen["minilm"] = keeping(chosen["minilm"], arguments.keep)
    print("| set |" + "".join(f" {name} nDCG@10 | R@10 |" for name in chosen))
    print("|---|" + "---|---|" * len(chosen))
    for folder in sorted(p.parent for p in arguments.sets.glob("*/corpus.jsonl")):
        if not arguments.only or folder.name in arguments.only:
            found = read_set(folder)
            began = time.time()
            results = [measure(found, embed) for embed in chosen.values()]
            print(
                f"| {found.name} |" + "".join(f" {gain:.3f} | {recall:.3f} |" for gain, recall in results),
                f"{time.time() - began:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
