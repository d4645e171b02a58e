"""The golden set -> figures -> how they stand to the floors in floors.toml.

`python -m tests.quality.floors` prints them; with `--raise` it writes anew those floors that are too low. None is ever
lowered by it: where a figure has to fall for the sake of another, change the floor by hand and say why in the commit.
"""

import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from tests.quality.golden.regenerate import FOLDER, GoldenQuestion, read_topics

from headwater import config as settings
from headwater.build import KnowledgeBase
from headwater.evaluate.dataset import JudgedSet, read_set
from headwater.evaluate.metrics import judged
from headwater.evaluate.run import MODES, document_names, indexed, make_embedder, ranked_documents

FLOORS = Path(__file__).with_name("floors.toml")
# What another processor's rounding may change; a few questions at most.
MARGIN = 0.01
# Questions with words of their document, and those that share few or none with it.
DIRECT = ("keyword", "natural", "code", "multi")

Figures = dict[str, float]


def figures(work: Path) -> Figures:
    """Every figure by its name, each for questions asked in English and in Chinese."""
    asked, golden = read_topics().questions, read_set(FOLDER)
    config = settings.load(work)
    with indexed(golden, config, work=work, embedder=make_embedder(config, home=work), cut=True) as kb:
        return {**_search(kb, golden, asked), **_answers(kb, asked)}


def _search(kb: KnowledgeBase, judged_set: JudgedSet, asked: Iterable[GoldenQuestion]) -> Figures:
    """The legs as they are and hybrid search as people get it, by language; hybrid by kind of question as well."""
    names = document_names(kb, judged_set)
    found: dict[str, list[float]] = {}
    for mode in MODES:
        options = {} if mode == "hybrid" else {"rerank": ""}
        for one in asked:
            if one.kind == "none":
                continue
            results = kb.search(one.text, mode=mode, options=options)
            ranking = [names[document] for document in ranked_documents(results)]
            metrics = judged(ranking, judged_set.judgements[one.id])
            for group in [one.language] + [one.kind] * (mode == "hybrid"):
                for name in ("ndcg@10", "recall@10"):
                    found.setdefault(f"{mode} {name} {group}", []).append(metrics[name])
            if one.kind == "cross" and mode != "keyword":
                found.setdefault(f"{mode} recall@10 cross {one.language}", []).append(metrics["recall@10"])
            if one.kind == "code" and mode != "semantic":
                found.setdefault(f"{mode} hit@1 code", []).append(float(ranking[0] in one.answers))
    return {name: fmean(values) for name, values in found.items()}


def _answers(kb: KnowledgeBase, asked: Iterable[GoldenQuestion]) -> Figures:
    """Right is an answer that cites the words that answer, and a refusal where no document does."""
    found: dict[str, list[float]] = {}
    for one in asked:
        answer = kb.ask(one.text)
        cited = [any(words in citation.quote for citation in answer.citations) for words in one.answers.values()]
        right = any(cited) if cited else answer.refused
        name = f"answered {'direct' if one.kind in DIRECT else one.kind}" if cited else "refused unanswerable"
        for group in (name, "right"):
            found.setdefault(f"{group} {one.language}", []).append(float(right))
        if one.kind == "multi":
            found.setdefault("answered from every document", []).append(float(all(cited)))
    return {name: fmean(values) for name, values in found.items()}


def read_floors() -> dict[str, float]:
    """The floors that are written."""
    return {name: row["floor"] for name, row in tomllib.loads(FLOORS.read_text(encoding="utf-8")).items()}


def compared(measured: Mapping[str, float], floors: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """In words: what is below its floor, and which floors could rise and by how much."""
    below, above = [], []
    for name in sorted({*measured, *floors}):
        if name not in measured or name not in floors:
            below.append(
                f"{name}: {'measured and without a floor' if name in measured else 'has a floor, not measured'}"
            )
        elif measured[name] < floors[name]:
            below.append(f"{name}: {measured[name]:.4f}, {floors[name] - measured[name]:.4f} below its floor")
        elif floor_for(measured[name]) > floors[name]:
            above.append(
                f"{name}: {measured[name]:.4f}, its floor could rise by {floor_for(measured[name]) - floors[name]:.4f}"
            )
    return below, above


def floor_for(figure: float) -> float:
    """The floor that a figure gives."""
    return max(0.0, round(figure - MARGIN, 4))


def written(measured: Mapping[str, float], floors: Mapping[str, float]) -> str:
    """The file, with floors that are higher or equal to those before."""
    lines = ["# What the golden set gives. Floors rise by `python -m tests.quality.floors --raise`."]
    for name, figure in sorted(measured.items()):
        floor = max(floors.get(name, 0.0), floor_for(figure))
        lines += ["", f'["{name}"]', f"measured = {figure:.4f}", f"floor = {floor:.4f}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write where asked to."""
    with TemporaryDirectory() as folder:
        measured = figures(Path(folder))
    for name, figure in sorted(measured.items()):
        print(f"{name:36} {figure:.4f}")
    floors = read_floors() if FLOORS.exists() else {}
    below, above = compared(measured, floors)
    print("\n".join(["", *below, *above]))
    if "--raise" in sys.argv:
        FLOORS.write_text(written(measured, floors), encoding="utf-8")


if __name__ == "__main__":
    main()
