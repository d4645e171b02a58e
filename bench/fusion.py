"""Which fusion of words and meaning is best? Ranks every query of the test sets by each leg once, then fuses offline.

python bench/fusion.py SETS [--embed static] [--write docs/evaluation.md]

A fusion is chosen on half of the sets and confirmed on the other half: of those that are nowhere more than 0.005
nDCG@10 below the better leg, the best on average. The same is done with the halves changed round. What is called
`adaptive`, `rrf` and `weighted_score` is `headwater.fuse.fuse` itself; the others are tried out here only.
"""

from __future__ import annotations

import argparse
import heapq
import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, log2
from pathlib import Path
from typing import Final

import numpy as np

from headwater import config as settings
from headwater.evaluate.dataset import JudgedSet, find_sets, read_set
from headwater.evaluate.report import between_markers
from headwater.evaluate.run import document_names, indexed, make_embedder
from headwater.filters import ALL
from headwater.fuse import Leg, fuse, normalised
from headwater.places import cache_folder, default_home
from headwater.tokens import language
from headwater.types import Fusion, Scored

CANDIDATES: Final = 100
TOLERANCE: Final = 0.005


@dataclass(frozen=True)
class Ranked:
    """One query: what each leg finds, and what would have been right."""

    keyword: list[Scored]
    semantic: list[Scored]
    best_keyword: float
    crosses: bool  # most of what is near in meaning is in another language than the query
    grades: Mapping[int, int]  # by chunk id

    @property
    def legs(self) -> dict[Leg, list[Scored]]:
        return {"keyword": self.keyword, "semantic": self.semantic}

    @cached_property
    def words(self) -> dict[int, float]:
        return normalised(self.keyword)

    @cached_property
    def meaning(self) -> dict[int, float]:
        return normalised(self.semantic)

    @cached_property
    def words_spread(self) -> dict[int, float]:
        return standardised(self.keyword)

    @cached_property
    def meaning_spread(self) -> dict[int, float]:
        return standardised(self.semantic)

    @cached_property
    def ideal(self) -> float:
        """The gain of the best order there could be."""
        return sum(grade / log2(rank + 1) for rank, grade in enumerate(sorted(self.grades.values())[:-11:-1], start=1))

    @property
    def coverage(self) -> float:
        """How much of the query the best hit by words holds."""
        return min(1.0, self.keyword[0].score / self.best_keyword) if self.keyword and self.best_keyword else 0.0


Score = Callable[[Ranked], Mapping[int, float]]


def collect(folder: Path, config: settings.Config, *, work: Path) -> tuple[JudgedSet, list[Ranked]]:
    """Both rankings of every query of a set."""
    found, embedder = read_set(folder), make_embedder(config, home=default_home())
    rows = []
    with indexed(found, config, work=work, embedder=embedder) as kb:
        names = document_names(kb, found)
        spoken = {entry.id: language(entry.text) for entry in found.entries()}
        kb.text.refresh()
        kb.vectors.refresh()
        for query_id, text in found.queries.items():
            vector = embedder.embed([text], "query")[0]
            keyword = kb.text.search(text, CANDIDATES, ALL)
            semantic = kb.vectors.search(vector, CANDIDATES, ALL) if vector.any() else []
            places = kb.catalog.locate([chunk_id for chunk_id, _ in (*keyword, *semantic)])
            ids = {chunk_id: names[place[0]] for chunk_id, place in places.items()}
            near = [spoken[ids[chunk_id]] for chunk_id, _ in semantic[:10]]
            grades = found.judgements[query_id]
            # What is relevant and was found by neither leg still counts in the ideal: it gets an id that no hit has.
            missing = {-n: grade for n, (id, grade) in enumerate(grades.items(), 1) if id not in set(ids.values())}
            rows.append(
                Ranked(
                    keyword=keyword,
                    semantic=semantic,
                    best_keyword=kb.text.best_score(text),
                    crosses=sum(one != language(text) for one in near) > len(near) / 2,
                    grades={**{c: grades[id] for c, id in ids.items() if id in grades}, **missing},
                )
            )
    return found, rows


# ------------------------------------------------------------------------------------------ fusions


def leg(name: Leg) -> Score:
    return lambda row: dict(row.legs[name])


def shipped(method: Fusion, share: float, chance: float = 0.0) -> Score:
    """What headwater does; `share` is that of the words."""
    weights: dict[Leg, float] = {"keyword": share, "semantic": 1 - share}
    return lambda row: fuse(row.legs, method=method, weights=weights, best_keyword=row.best_keyword, chance=chance)


def mixed(keyword: Mapping[int, float], semantic: Mapping[int, float], share: float) -> dict[int, float]:
    ids = {*keyword, *semantic}
    return {id: share * keyword.get(id, 0.0) + (1 - share) * semantic.get(id, 0.0) for id in ids}


def standardised(ranking: Sequence[Scored]) -> dict[int, float]:
    """Above the lowest, in standard deviations."""
    scores = [score for _, score in ranking]
    spread = statistics.pstdev(scores) if len(scores) > 1 else 0.0
    return {id: (score - min(scores)) / spread if spread else 1.0 for id, score in ranking}


def by_spread(share: float) -> Score:
    return lambda row: mixed(row.words_spread, row.meaning_spread, share)


def by_gap(share: float) -> Score:
    """A leg counts by how far its first stands above its tenth."""

    def gap(points: Mapping[int, float]) -> float:
        first = sorted(points.values(), reverse=True)[:10]
        return first[0] - first[-1] if first else 0.0

    return lambda row: _by_trust(row, share * gap(row.words), (1 - share) * gap(row.meaning))


def by_entropy(share: float) -> Score:
    """A leg counts by how uneven its scores are."""

    def certainty(points: Mapping[int, float]) -> float:
        if len(points) < 2:
            return 1.0
        parts = np.array(list(points.values())) + 1e-9
        parts /= parts.sum()
        return float(1 + (parts * np.log(parts)).sum() / log(len(parts)))

    return lambda row: _by_trust(row, share * certainty(row.words), (1 - share) * certainty(row.meaning))


def by_language(share: float) -> Score:
    """Meaning alone where the hits are in another language."""
    return lambda row: mixed(row.words, row.meaning, 0.0 if row.crosses else share)


def by_best_hit(share: float) -> Score:
    """Words count by how much of the query their best hit covers."""
    return lambda row: _by_trust(row, share * row.coverage, 1 - share)


def by_best_hit_spread(share: float) -> Score:
    def score(row: Ranked) -> dict[int, float]:
        words = {id: points * row.coverage for id, points in row.words_spread.items()}
        return mixed(words, row.meaning_spread, share)

    return score


def _by_trust(row: Ranked, keyword: float, semantic: float) -> dict[int, float]:
    total = keyword + semantic
    return mixed(row.words, row.meaning, keyword / total if total else 0.5)


TENTHS: Final = [tenth / 10 for tenth in range(1, 10)]
MIDDLE: Final = [0.3, 0.4, 0.5, 0.6]
HIGH: Final = [0.7, 0.75, 0.8, 0.83, 0.86, 0.9]
HIGHER: Final = [0.8, 0.83, 0.85, 0.87, 0.9, 0.93]
CHANCE: Final = 0.12  # as the presets have it
FUSIONS: Final[Mapping[str, tuple[Callable[[float], Score], Sequence[float]]]] = {
    "rrf": (lambda share: shipped("rrf", share), TENTHS),
    "weighted_score": (lambda share: shipped("weighted_score", share), TENTHS),
    "standardised": (by_spread, TENTHS),
    "gap": (by_gap, MIDDLE),
    "entropy": (by_entropy, MIDDLE),
    "language": (by_language, TENTHS),
    "coverage of the best hit": (by_best_hit, HIGH),
    "the same, standardised": (by_best_hit_spread, HIGH),
    "adaptive, from nought": (lambda share: shipped("adaptive", share), HIGH),
    "adaptive": (lambda share: shipped("adaptive", share, CHANCE), HIGHER),
}


# -------------------------------------------------------------------------------------------- study


def mean_of(rows: Iterable[Ranked], score: Score) -> float:
    """The nDCG@10."""
    gains = []
    for row in rows:
        best = heapq.nsmallest(10, ((-points, id) for id, points in score(row).items()))
        gain = sum(row.grades.get(id, 0) / log2(rank + 1) for rank, (_, id) in enumerate(best, start=1))
        gains.append(gain / row.ideal if row.ideal else 0.0)
    return statistics.fmean(gains)


@dataclass(frozen=True, slots=True)
class Tried:
    """A fusion with one share on all sets."""

    name: str
    share: float
    figures: Mapping[str, float]

    def mean(self, sets: Iterable[str]) -> float:
        return statistics.fmean(self.figures[name] for name in sets)

    def worst(self, sets: Iterable[str], better_leg: Mapping[str, float]) -> float:
        return min(self.figures[name] - better_leg[name] for name in sets)


def choose(tried: Sequence[Tried], sets: Sequence[str], better_leg: Mapping[str, float]) -> Tried:
    """Best on average of those within the tolerance; where none is, the one that loses least."""
    within = [one for one in tried if one.worst(sets, better_leg) >= -TOLERANCE]
    if within:
        return max(within, key=lambda one: one.mean(sets))
    return max(tried, key=lambda one: one.worst(sets, better_leg))


def study(ranked: Mapping[str, list[Ranked]]) -> str:
    names = list(ranked)
    legs = {one: {name: mean_of(rows, leg(one)) for name, rows in ranked.items()} for one in ("keyword", "semantic")}
    better = {name: max(legs["keyword"][name], legs["semantic"][name]) for name in names}
    tried = [
        Tried(name, share, {set_name: mean_of(rows, make(share)) for set_name, rows in ranked.items()})
        for name, (make, shares) in FUSIONS.items()
        for share in shares
    ]
    lines = [
        f"| fusion | share of words | {' | '.join(names)} | mean | worst |",
        f"|---|---:|{'---:|' * len(names)}---:|---:|",
    ]
    for one, figures in legs.items():
        cells = [f"{figures[name]:.3f}" for name in names]
        lines.append(f"| {one} alone | | {' | '.join(cells)} | {statistics.fmean(figures.values()):.4f} | |")
    best = [choose([one for one in tried if one.name == name], names, better) for name in FUSIONS]
    lines += [_row(one, names, better) for one in best]
    halves = names[::2], names[1::2]
    lines += [
        "",
        "Each fusion stands with the share that suits all sets best. Chosen on one half, confirmed on the other:",
        "",
    ]
    for title, among in (("of all", tried), ("of `adaptive`", [one for one in tried if one.name == "adaptive"])):
        lines += [_chosen(title, choose(among, on, better), on, other, better) for on, other in (halves, halves[::-1])]
    lines += ["", "The shipped fusion with other shares:", "", *lines[:2]]
    lines += [_row(one, names, better) for one in tried if one.name == "adaptive"]
    return "\n".join(lines)


def _chosen(title: str, one: Tried, on: Sequence[str], other: Sequence[str], better: Mapping[str, float]) -> str:
    def told(sets: Sequence[str]) -> str:
        return f"{', '.join(sets)}: mean {one.mean(sets):.4f}, worst {one.worst(sets, better):+.4f}"

    return f"- {title}: **{one.name}**, share {one.share:g}. Chosen on {told(on)}. Confirmed on {told(other)}."


def _row(one: Tried, names: Sequence[str], better: Mapping[str, float]) -> str:
    cells = [f"{one.figures[name]:.3f}" for name in names]
    told = f"{one.mean(names):.4f} | {one.worst(names, better):+.4f}"
    return f"| {one.name} | {one.share:g} | {' | '.join(cells)} | {told} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", type=Path)
    parser.add_argument("--embed", default="", help="the embedder; that of the settings else")
    parser.add_argument("--work", type=Path, default=cache_folder() / "eval")
    parser.add_argument("--write", type=Path, help="a page with the marker 'fusion'")
    arguments = parser.parse_args()
    if arguments.embed:
        os.environ["HEADWATER_EMBED__USE"] = arguments.embed
    config = settings.load(arguments.work)
    ranked = {}
    for folder in find_sets(arguments.sets):
        found, rows = collect(folder, config, work=arguments.work)
        ranked[found.name] = rows
    fingerprint = make_embedder(config, home=default_home()).fingerprint
    told = f"nDCG@10 with `{fingerprint}`, {CANDIDATES} candidates from each leg.\n\n{study(ranked)}"
    print(told)
    if arguments.write:
        between_markers(arguments.write, "fusion", told)


if __name__ == "__main__":
    main()
