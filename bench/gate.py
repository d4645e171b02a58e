"""What is a sentence worth, and when do the passages answer? Fits `models/_worth.py` and `models/_gate.py`.

python bench/gate.py SETS [--each 200] [--golden-weight 2] [--again]

Searches for the questions of the test sets with answers, of the sets across languages and of the golden set: as they
are, without the documents that answer (hard), and those of another domain (easy). What was found is kept in
bench/data/gate, so that a second fit takes minutes; `--again` searches anew. Weights come from the half `build` and
are printed to be pasted; how they do is printed for both halves, by the least probability of an answer. Of the golden
set every second subject is in either half.

Worth: listwise, the logarithm of how likely a sentence with the answer wins among all. Gate: logistic, every set
counting alike, and within a set answerable questions as much as the others.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # the golden set lives among the tests

from tests.quality.golden.regenerate import FOLDER, read_topics

from headwater import config as settings
from headwater import documents, types
from headwater.evaluate.dataset import read_set
from headwater.evaluate.run import document_names, indexed, make_embedder
from headwater.models import _gate, _worth, extractive
from headwater.models._reading import Question as Read
from headwater.models.static import StaticEmbedder
from headwater.types import Context
from questions import DATA, ELSEWHERE, SETS, command, holds, home, questions

ACROSS = {"xx_xquad_en2zh": "xx_xquad_zh2en", "xx_xquad_zh2en": "xx_xquad_en2zh"}
OTHERS = {**ELSEWHERE, "xx_xquad_en2zh": "en_pubmedqa", "xx_xquad_zh2en": "zh_dureader_robust"}
LEAST_ANSWER = 3  # characters: shorter ones stand in any text by chance
KIND_WEIGHTS = {"answerable": 1.0, "hard": 0.5, "easy": 0.5, "none": 0.6}
RIDGE_WORTH, RIDGE_GATE = 0.02, 0.003
STEPS, RATE = 1500, 0.05
# Chosen by hand: the sets have no programs, and fragments are judged by readers.
FIXED = {"code": _worth.WEIGHTS.code, "short": _worth.WEIGHTS.short}


@dataclass(frozen=True)
class Case:
    """A question, what was found for it, and what should become of it."""

    set: str
    half: str
    kind: str  # answerable, hard, easy, none
    group: str  # the kind of the golden set
    answers: tuple[str, ...]
    context: Context


# ------------------------------------------------------------------------------------------ searching


def asked(kb: Any, text: str, **options: Any) -> Context | None:
    """What the answerer is given."""
    seen: list[Context] = []

    def generate(_: Any, context: Context) -> Iterator[str]:
        seen.append(context)
        return iter(())

    with patch.object(extractive.ExtractiveGenerator, "generate", generate):
        kb.ask(text, options={"cache_size": 0}, **options)
    return seen[-1] if seen else None


def without(uris: dict[str, str], documents: Any) -> str:
    return " and ".join(f'uri != "{uris[id]}"' for id in documents)


def set_cases(sets: Path, name: str, *, each: int, work: Path) -> Iterator[Case]:
    translated: dict[str, tuple[str, ...]] = {}
    if name in ACROSS:
        rows = {one: (sets / one / "queries.jsonl").read_text("utf-8").splitlines() for one in (name, ACROSS[name])}
        other = {row["_id"]: tuple(row["metadata"]["answers"]) for row in map(json.loads, rows[ACROSS[name]])}
        translated = {row["text"]: other.get(row["_id"], ()) for row in map(json.loads, rows[name])}
    with home(sets / name, work) as (kb, _, uris):
        for half in ("build", "test"):
            for one in questions(sets / name, half, limit=each):
                answers = translated.get(one.text, one.answers)
                if found := asked(kb, one.text):
                    yield Case(name, half, "answerable", "", answers, found)
                found = asked(kb, one.text, where=without(uris, one.documents))
                if found and not any(holds(hit.chunk.text, answers, least=LEAST_ANSWER) for hit in found.hits):
                    yield Case(name, half, "hard", "", (), found)
            for one in questions(sets / OTHERS[name], half, limit=each // 2):
                if found := asked(kb, one.text):
                    yield Case(name, half, "easy", "", (), found)


def golden_cases(work: Path) -> Iterator[Case]:
    golden, judged, config = read_topics(), read_set(FOLDER), settings.load(work)
    topics = sorted({one.id.rpartition("-q")[0] for one in golden.questions})
    with indexed(judged, config, work=work, embedder=make_embedder(config, home=work), cut=True) as kb:
        names = document_names(kb, judged)
        uris = {name: record.uri for id, name in names.items() if (record := kb.catalog.record(id)) is not None}
        for one in golden.questions:
            half = ("build", "test")[topics.index(one.id.rpartition("-q")[0]) % 2]
            answers = tuple(one.answers.values())
            if found := asked(kb, one.text):
                yield Case("golden", half, "answerable" if answers else "none", one.kind, answers, found)
            if answers and (found := asked(kb, one.text, where=without(uris, one.answers))):
                yield Case("golden", half, "hard", one.kind, (), found)


# -------------------------------------------------------------------------------------------- fitting


def fitted_worth(rows: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Weights of sentences, by the questions' features and which sentences have the answer."""
    features = np.concatenate([row for row, _ in rows])
    right = np.concatenate([gold for _, gold in rows])
    sizes = np.array([len(gold) for _, gold in rows])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    fixed = np.array([FIXED.get(name, np.nan) for name in _worth.Features._fields])
    free = np.isnan(fixed)
    weights = np.where(free, 0.0, fixed)
    first, second = np.zeros_like(weights), np.zeros_like(weights)

    def shares(values: np.ndarray) -> np.ndarray:
        return values / np.maximum(np.repeat(np.add.reduceat(values, starts), sizes), 1e-12)

    for step in range(1, STEPS + 1):
        odds = features @ weights
        odds = np.exp(odds - np.repeat(np.maximum.reduceat(odds, starts), sizes))
        slope = features.T @ (shares(odds) - shares(odds * right)) / len(rows) + RIDGE_WORTH / len(rows) * weights
        slope[~free] = 0.0
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        weights = weights - RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def fitted_gate(signs: np.ndarray, right: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Weights of the signs and a constant behind them, by Newton's method on standardised signs."""
    mean, spread = signs.mean(0), np.maximum(signs.std(0), 1e-9)
    rows = np.column_stack(((signs - mean) / spread, np.ones(len(signs))))
    weights = np.zeros(rows.shape[1])
    for _ in range(30):
        guess = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (importance * (guess - right)) + 2 * RIDGE_GATE * weights
        bend = (rows * (importance * guess * (1 - guess))[:, None]).T @ rows + 2 * RIDGE_GATE * np.eye(len(weights))
        weights -= np.linalg.solve(bend, slope)
    plain = weights[:-1] / spread
    return np.append(plain, weights[-1] - plain @ mean)


# ------------------------------------------------------------------------------------------ reporting


@dataclass(frozen=True)
class Seen:
    """A case as the answerer sees it."""

    case: Case
    read: Any
    meant: Any
    found: list[Any]
    features: np.ndarray  # of the candidates
    right: np.ndarray  # which of them have the answer

    def signs(self, weights: np.ndarray) -> tuple[list[float], list[Any]]:
        worths = (self.features @ weights).tolist()
        found = [replace(one, worth=value) for one, value in zip(self.found, worths, strict=True)]
        return list(extractive.signs_of(self.read, self.meant, found, self.case.context)), found


def seen(cases: list[Case]) -> Iterator[Seen]:
    answerer = extractive.ExtractiveGenerator(embedder=StaticEmbedder())
    for case in cases:
        read = Read.of(case.context, None)
        meant = read.meant()
        found = answerer._candidates(read, meant)
        if meant is None or not found:
            continue
        every = np.array(answerer.features(read, meant))
        right = np.array([holds(read.passages[one.number].said(one.place), case.answers) for one in found])
        yield Seen(case, read, meant, found, every[[one.index for one in found]], right)


def importance(rows: list[Seen], golden_weight: float) -> np.ndarray:
    made = np.zeros(len(rows))
    for set_name in {row.case.set for row in rows}:
        for kind, weight in KIND_WEIGHTS.items():
            which = [n for n, row in enumerate(rows) if (row.case.set, row.case.kind) == (set_name, kind)]
            made[which] = weight / max(1, len(which)) * (golden_weight if set_name == "golden" else 1.0)
    return made


def report(rows: list[Seen], weights: np.ndarray, gate: np.ndarray) -> None:
    judged = []
    for row in rows:
        signs, found = row.signs(weights)
        picked = {one.index for one in extractive._pick(found, 3)}
        cited = any(gold for one, gold in zip(row.found, row.right, strict=True) if one.index in picked)
        held = any(holds(hit.chunk.text, row.case.answers) for hit in row.case.context.hits)
        judged.append((row.case, 1 / (1 + np.exp(-(np.append(signs, 1.0) @ gate))), cited, held))
    plain = ("keyword", "natural", "code", "multi")
    for half in ("build", "test"):
        print(
            f"\n{half}: least probability, balanced accuracy mixed and hard, cited where found by set and mean; golden"
        )
        for least in np.arange(0.2, 0.56, 0.05):

            def share(right: Any, *, half: str = half, least: float = least, cited: bool = False) -> float:
                of = [
                    (p >= least) and (c or not cited)
                    for case, p, c, h in judged
                    if case.half == half and right(case, h)
                ]
                return float(np.mean(of)) if of else float("nan")

            said = share(lambda case, _: case.set in SETS and case.kind == "answerable")
            hard = 1 - share(lambda case, _: case.set in SETS and case.kind == "hard")
            easy = 1 - share(lambda case, _: case.set in SETS and case.kind == "easy")
            cited = [
                share(lambda case, held, n=n: case.set == n and case.kind == "answerable" and held, cited=True)
                for n in SETS
            ]
            golden = {
                name: share(
                    lambda case, _, k=kinds: case.set == "golden" and case.kind == "answerable" and case.group in k,
                    cited=True,
                )
                for name, kinds in (("direct", plain), ("paraphrase", ("paraphrase",)), ("cross", ("cross",)))
            }
            golden["none refused"] = 1 - share(lambda case, _: case.kind == "none")
            golden["hard refused"] = 1 - share(lambda case, _: case.set == "golden" and case.kind == "hard")
            across = [
                share(lambda case, _, k=k: case.set in ACROSS and case.kind == k)
                for k in ("answerable", "hard", "easy")
            ]
            print(
                f"{least:.2f} {(said + (hard + easy) / 2) / 2:.3f} {(said + hard) / 2:.3f} | "
                + " ".join(f"{one:.3f}" for one in (*cited, float(np.mean(cited))))
                + " | "
                + ", ".join(f"{name} {one:.2f}" for name, one in golden.items())
                + " | across: answered "
                + ", ".join(
                    f"{name} {one:.2f}" for name, one in zip(("answerable", "hard", "easy"), across, strict=True)
                )
            )


def _shape() -> str:
    """Changes with the nouns that are kept: what was kept of others would be read wrongly."""
    found = blake2b(digest_size=4)
    for module in (documents, types):
        found.update(Path(module.__file__).read_bytes())
    return found.hexdigest()


def main() -> None:
    told = command(__doc__, each=200, half=False)
    told.add_argument("--golden-weight", type=float, default=2.0, help="how much the golden set counts beside another")
    told.add_argument("--kept", type=Path, default=DATA / "gate", help="where what was found is kept")
    told.add_argument("--again", action="store_true", help="search anew")
    given = told.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    given.kept.mkdir(parents=True, exist_ok=True)
    rows: list[Seen] = []
    for name in ("golden", *SETS, *ACROSS):
        kept = given.kept / f"{name}-{given.each}-{_shape()}.pickle"
        if given.again or not kept.exists():
            made = (
                golden_cases(given.work)
                if name == "golden"
                else set_cases(given.sets, name, each=given.each, work=given.work)
            )
            kept.write_bytes(pickle.dumps(list(made)))
        rows += seen(pickle.loads(kept.read_bytes()))
        print(f"{name}: {len(rows)} questions so far", file=sys.stderr)
    build = [row for row in rows if row.case.half == "build"]
    taught = [(row.features, row.right) for row in build if row.right.any() and not row.right.all()]
    weights = fitted_worth(taught).round(2)
    print("_worth.WEIGHTS:", ", ".join(f"{k}={w:g}" for k, w in zip(_worth.Features._fields, weights, strict=True)))
    signs = np.array([row.signs(weights)[0] for row in build])
    right = np.array([row.case.kind == "answerable" for row in build])
    gate = fitted_gate(signs, right, importance(build, given.golden_weight)).round(2)
    print(
        "_gate.WEIGHTS:", ", ".join(f"{k}={w:g}" for k, w in zip((*_gate.Signs._fields, "CONSTANT"), gate, strict=True))
    )
    report(rows, weights, gate)


if __name__ == "__main__":
    main()
