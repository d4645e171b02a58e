"""Chooses the weights of the built-in reranker, and measures the cosines of texts apart and together.

    python bench/rerank.py --choose SETS                                       WINDOW_WEIGHT, on half of the sets
    python bench/rerank.py --choose SETS --onnx en_=FOLDER --onnx zh_=FOLDER   what a transformer's cosine counts
    python bench/rerank.py TEXTS... [--across TEXTS...]                        the same weights fitted on made questions

`--choose` ranks every query once and weighs offline. Weights are chosen on every second set: of those that make no set
worse than the fused order, the best on average; the other sets confirm it, and then the same the other way round. The
shipped WINDOW_WEIGHT is older, and the rule comes to it again. With `--onnx`, sets whose names begin so are embedded by
that model and the weight of its cosine is chosen, the others standing: of those within 0.005 nDCG@10 of the best system
in the table of SETS/README.md, the best on average (`known.TRANSFORMER_MEANING`).

The fit is a check by other data. TEXTS are gzip JSON lines with a passage under `pos`. Questions are made from the
passages: a sentence that is taken out of its passage, or some words of a sentence in another order behind a question
word. With `--across`, `query` holds the same text in the other language, and the question is made from that. None of it
may be in the sets of docs/evaluation.md, and pairs that the embedder was trained on must not be used as they are: they
flatter its cosine. Three numbers per passage (what it came with by the best coverage, the best window, the pairs) are
weighed so that the passage a question was made from is the likeliest of its candidates: softmax over each list, weights
of 0 or more.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from evaluation import baselines
from headwater import config as settings
from headwater.build import KnowledgeBase
from headwater.evaluate.dataset import find_sets, read_set
from headwater.evaluate.run import document_names, indexed, make_embedder
from headwater.models._pieces import load
from headwater.models.known import reranking_of
from headwater.models.onnx import OnnxEmbedder
from headwater.models.rerank import PAIR_WEIGHT, WINDOW_WEIGHT, _meaning, _question, evidence
from headwater.places import cache_folder, default_home
from headwater.protocols import Embedder
from headwater.tokens import language, sentences

Row = npt.NDArray[Any]

DISCOUNTS: Final = 1 / np.log2(np.arange(2, 12))  # of the first ten, as nDCG has them
SEED: Final = 7
PASSAGES: Final = 4000
QUESTIONS: Final = 400
TAKEN_OUT: Final = 0.4  # of the questions: a sentence that its passage no longer has
CANDIDATES: Final = 100
STEPS: Final = 400
ACROSS_WEIGHT: Final = 0.3  # questions in the other language are rarer than they are here
CHINESE: Final = ("什么是", "哪一年", "谁", "哪里", "多少", "为什么", "怎么", "如何", "哪些", "何时")
ENGLISH: Final = ("What", "When", "Who", "Where", "How many", "Why", "How", "Which", "In what year")


def question_of(sentence: str, dice: random.Random) -> str:
    """Some of the words of a sentence, in another order, mostly with a question word; empty where it has too few."""
    if language(sentence) == "zh":
        parts = [part for part in re.split(r"[，、,：:（）()“”\"《》\s]+", sentence) if len(part) > 1]
        dice.shuffle(parts)
        kept = [_cut(part, dice) for part in parts[: dice.randint(1, 3)]]
        asked = "".join(kept)
        return asked + dice.choice(CHINESE) + "？" if kept and dice.random() < 0.7 else asked
    words = re.findall(r"[A-Za-z0-9][\w'-]*", sentence)
    start = dice.randint(0, max(0, len(words) - 10))
    words = [word for word in words[start : start + dice.randint(6, 14)] if dice.random() < 0.65]
    if len(words) < 3:
        return ""
    if dice.random() < 0.5:
        at = dice.randint(1, len(words) - 1)
        words = words[at:] + words[:at]
    asked = " ".join(words)
    return f"{dice.choice(ENGLISH)} {asked}?" if dice.random() < 0.7 else asked


def _cut(part: str, dice: random.Random) -> str:
    if len(part) < 8:
        return part
    start = dice.randint(0, len(part) - 5)
    return part[start : start + dice.randint(4, 8)]


def make_set(texts: Path, folder: Path, *, across: bool) -> Path:
    """A test set of questions made from a file of passages."""
    dice = random.Random(SEED)
    with gzip.open(texts, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows = list({row["pos"]: row for row in rows if len(row["pos"]) > 120}.values())
    dice.shuffle(rows)
    passages = [row["pos"][:2500] for row in rows[:PASSAGES]]
    asked: list[tuple[str, int]] = []
    for number in dice.sample(range(len(passages)), len(passages)):
        source = rows[number]["query"] if across else passages[number]
        found = [source[start:end] for start, end in sentences(source[:2500]) if 12 < end - start < 300]
        if len(found) < (1 if across else 3):
            continue
        sentence = dice.choice(found)
        if not across and dice.random() < TAKEN_OUT:
            passages[number] = passages[number].replace(sentence, "")
            asked.append((sentence, number))
        elif made := question_of(sentence, dice):
            asked.append((made, number))
        if len(asked) == QUESTIONS:
            break
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    _write(folder / "corpus.jsonl", [{"_id": f"p{n}", "title": "", "text": text} for n, text in enumerate(passages)])
    _write(folder / "queries.jsonl", [{"_id": f"q{n}", "text": text} for n, (text, _) in enumerate(asked)])
    judged = "".join(f"q{n}\tp{number}\t1\n" for n, (_, number) in enumerate(asked))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")
    return folder


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def lists_of(kb: KnowledgeBase, folder: Path) -> tuple[list[Any], list[float], list[float]]:
    """For every question whose passage is among the candidates the numbers of each; and cosines apart and together."""
    judged, model = read_set(folder), load()
    names, lists, together = document_names(kb, judged), [], []
    plain = {"rerank": "", "top_n": CANDIDATES, "cache_size": 0, "highlight": False}
    for query_id, text in judged.queries.items():
        hits = kb.search(text, options=plain).hits
        asked = _question(model, text)
        right = [float(names[hit.document_id] in judged.judgements[query_id]) for hit in hits]
        if asked is None or not any(right):
            continue
        together += [
            hit.scores["semantic"] for hit, yes in zip(hits, right, strict=True) if yes and "semantic" in hit.scores
        ]
        found = evidence(model, asked, model.cut([hit.chunk.text for hit in hits]))
        before = np.array([max(hit.score, 0.0) for hit in hits])
        before = before / max(float(before.max()), 1e-9) * found.covered
        lists.append((np.stack([before, found.windows, found.pairs], axis=1), np.array(right) / sum(right)))
    questions = kb.embedder.embed(list(judged.queries.values()), "query")
    texts = [entry.text for entry in judged.entries()][: len(questions)]
    others = kb.embedder.embed(texts, "passage")
    apart = (questions[: len(others)] * np.roll(others, 1, axis=0)[: len(questions)]).sum(axis=1)
    return lists, apart.tolist(), together


def fitted(groups: list[tuple[list[Any], float]]) -> np.ndarray[Any, Any]:
    """The weights, by Adam; every file counts alike, whatever the number of its questions."""
    rows = [(numbers, right, weight / len(lists)) for lists, weight in groups for numbers, right in lists]
    spread = np.concatenate([numbers for numbers, _, _ in rows]).std(axis=0) + 1e-9
    weights, mean, square = np.ones(3), np.zeros(3), np.zeros(3)
    whole = sum(weight for _, _, weight in rows)
    for step in range(1, STEPS + 1):
        slope = 1e-3 * weights
        for numbers, right, weight in rows:
            likely = np.exp((scores := numbers / spread @ weights) - scores.max())
            slope = slope + weight / whole * (likely / likely.sum() - right) @ (numbers / spread)
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        move = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        weights = np.maximum(weights - 0.05 * move, 0.0)
    return weights / spread


# ------------------------------------------------------------------------------------------- choosing

DEPTH: Final = 50  # as the presets have it
WINDOWS: Final = (0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
MEANINGS: Final = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
TOLERANCE: Final = 0.005  # of nDCG@10, below the best of others


class Looked(NamedTuple):
    """One query: what speaks for each of the first hits, whether it was right, and the gain of the best order."""

    before: Row  # the fused score, its best being 1
    meaning: Row
    windows: Row
    pairs: Row
    covered: float
    grades: Row
    ideal: float

    def gain(self, window: float, meaning: float) -> float:
        """nDCG@10 of the order that these weights make."""
        looked = (self.before + meaning * self.meaning) * self.covered
        order = np.argsort(-(looked + window * self.windows + PAIR_WEIGHT * self.pairs), kind="stable")[:10]
        return float((self.grades[order] * DISCOUNTS[: len(order)]).sum() / self.ideal) if self.ideal else 0.0

    @property
    def fused(self) -> float:
        """nDCG@10 of the order it came in."""
        first = self.grades[:10]
        return float((first * DISCOUNTS[: len(first)]).sum() / self.ideal) if self.ideal else 0.0


def looked_at(kb: KnowledgeBase, folder: Path) -> list[Looked]:
    """Every query of a set."""
    judged, model, rows = read_set(folder), load(), []
    names = document_names(kb, judged)
    plain = {"rerank": "", "top_n": DEPTH, "cache_size": 0, "highlight": False, "deadline_seconds": 600.0}
    for query_id, text in judged.queries.items():
        right = judged.judgements[query_id]
        best = np.sort(np.array(list(right.values()), dtype=float))[::-1][:10]
        hits = kb.search(text, options=plain).hits
        before = np.array([max(hit.score, 0.0) for hit in hits])
        before = before / max(float(before.max(initial=0.0)), 1e-9)
        nothing, asked = np.zeros(len(hits)), _question(model, text)
        pieces = model.cut([hit.chunk.text for hit in hits])
        found = evidence(model, asked, pieces) if asked is not None and any(map(len, pieces)) else None
        rows.append(
            Looked(
                before=before,
                meaning=_meaning(hits) if hits else nothing,
                windows=found.windows if found else nothing,
                pairs=found.pairs if found else nothing,
                covered=found.covered if found else 1.0,
                grades=np.array([right.get(names[hit.document_id], 0) for hit in hits], dtype=float),
                ideal=float((best * DISCOUNTS[: len(best)]).sum()),
            )
        )
    return rows


def choose(sets: Path, config: settings.Config, *, work: Path, onnx: Mapping[str, Embedder]) -> None:
    """Print a table of weights on all sets, and which of them each half of the sets chooses."""
    own = make_embedder(config, home=default_home())
    least: dict[str, float] = {}
    rows: dict[str, list[Looked]] = {}
    others = baselines(sets / "README.md")
    for folder in find_sets(sets):
        embedder = next((one for start, one in onnx.items() if folder.name.startswith(start)), None if onnx else own)
        if embedder is None:
            continue
        with indexed(read_set(folder), config, work=work, embedder=embedder) as kb:
            rows[folder.name] = looked_at(kb, folder)
        fused = float(np.mean([row.fused for row in rows[folder.name]]))
        best = max(others.get(folder.name, {}).values(), default=fused)
        least[folder.name] = best - TOLERANCE if onnx else fused
        print(
            f"{folder.name}: {len(rows[folder.name])} queries, fused {fused:.4f}, best of others {best:.4f}", flush=True
        )
    grid = [(WINDOW_WEIGHT, meaning) for meaning in MEANINGS] if onnx else [(window, 0.0) for window in WINDOWS]
    tried = {
        weights: {name: float(np.mean([row.gain(*weights) for row in found])) for name, found in rows.items()}
        for weights in grid
    }
    print(f"\n| window | meaning | {' | '.join(rows)} | mean |\n|---:|---:|{'---:|' * (len(rows) + 1)}")
    for (window, meaning), figures in tried.items():
        cells = " | ".join(f"{figure:.4f}{'' if figure >= least[name] else ' !'}" for name, figure in figures.items())
        print(f"| {window:g} | {meaning:g} | {cells} | {np.mean(list(figures.values())):.4f} |")
    halves = list(rows)[1::2], list(rows)[::2]
    for on, other in (halves if onnx else halves[::-1], halves[::-1] if onnx else halves):
        sound = [one for one in grid if all(tried[one][name] >= least[name] for name in on)] or grid
        pick = max(sound, key=lambda one: float(np.mean([tried[one][name] for name in on])))
        worst = min(tried[pick][name] - least[name] for name in other)
        print(
            f"\nchosen on {', '.join(on)}: window {pick[0]:g}, meaning {pick[1]:g}; at worst {worst:+.4f} over what is "
            f"asked for on {', '.join(other)}"
        )
    shipped = WINDOW_WEIGHT, reranking_of(next(iter(onnx.values())).fingerprint) if onnx else 0.0
    print(f"\nshipped: window {shipped[0]:g}, meaning {shipped[1]:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path, nargs="*")
    parser.add_argument("--choose", type=Path, metavar="SETS", help="test sets to choose weights on")
    parser.add_argument("--onnx", action="append", default=[], metavar="NAME=FOLDER", help="a model for sets named so")
    parser.add_argument("--across", type=Path, nargs="*", default=[], help="files whose `query` is a translation")
    parser.add_argument("--work", type=Path, default=cache_folder() / "rerank")
    arguments = parser.parse_args()
    home = default_home()
    config = settings.load(home)
    if arguments.choose:
        folders = dict(one.split("=", 1) for one in arguments.onnx)
        onnx = {start: OnnxEmbedder(model=folder, precision="int8") for start, folder in folders.items()}
        choose(arguments.choose, config, work=arguments.work.parent / "eval", onnx=onnx)
        return
    if not arguments.texts:
        parser.error("name files of texts, or --choose SETS")
    embedder, groups = make_embedder(config, home=home), []
    apart: list[float] = []
    together: list[float] = []
    for texts, across in [(path, False) for path in arguments.texts] + [(path, True) for path in arguments.across]:
        folder = make_set(texts, arguments.work / texts.name.partition(".")[0], across=across)
        with indexed(read_set(folder), config, work=arguments.work, embedder=embedder) as kb:
            lists, far, near = lists_of(kb, folder)
        groups.append((lists, ACROSS_WEIGHT if across else 1.0))
        apart.append(float(np.median(far)))
        together.append(float(np.median(near)))
        print(
            f"{texts.name}: {len(lists)} questions, cosine apart {apart[-1]:.3f}, together {together[-1]:.3f}",
            flush=True,
        )
    weights = fitted(groups)
    print(f"window {weights[1] / weights[0]:.3f}, pairs {weights[2] / weights[0]:.3f} of what a passage came with")
    print(f"calibration: apart {np.mean(apart):.2f}, together {np.mean(together):.2f}")


if __name__ == "__main__":
    main()
