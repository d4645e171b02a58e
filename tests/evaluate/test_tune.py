"""Ways to search are tried on judged questions: what is varied, what comes out, and how sure it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import headwater
from headwater.evaluate.tune import TUNED, tune, variants

NOW = {"mode": "hybrid", "keyword_weight": 0.87, "semantic_weight": 0.13, "rerank": "builtin", "top_n": 8}


def test_every_combination_is_tried_once_and_the_settings_as_they_are_first() -> None:
    choices: dict[str, list[Any]] = {"mode": ["hybrid", "keyword"], "keyword_weight": [0.87, 0.3], "top_n": []}
    assert variants(choices, now=NOW) == [
        {},
        {"keyword_weight": 0.3, "semantic_weight": 0.7},
        {"mode": "keyword"},  # with one leg there is nothing to weigh
    ]
    assert variants({}, now=NOW) == [{}]


def test_a_way_that_finds_less_is_clearly_worse(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "kb") as kb:
        for number in range(12):
            kb.add_text(f"Pump PX-{4000 + number} stands in hall {number}.", uri=f"pump-{number}")
        ids = [kb.record(f"pump-{number}").id for number in range(12)]
        questions = {
            f"PX-{4000 + number} PX-{4001 + number}": dict.fromkeys(ids[number : number + 2], 1) for number in range(11)
        }
        asked: list[Mapping[str, Any]] = []

        def search(text: str, changes: Mapping[str, Any]) -> Any:
            asked.append(changes)
            return kb.search(text, options={**changes, "rerank": "", "cache_size": 0})

        done: list[tuple[int, int]] = []
        ways: list[dict[str, Any]] = [{"mode": "keyword"}, {"mode": "keyword", "top_n": 1}, {"mode": "keyword"}]
        first, worse, same = tune(search, questions, ways, on_progress=lambda *told: done.append(told))
    assert len(asked) == 1 + 3 * 11 and done[-1] == (33, 33)
    assert first.figures == {"ndcg@10": 1.0, "mrr@10": 1.0, "page": 1.0}
    assert worse.figures["page"] == 0.5 and worse.differences["page"].high < 0  # one of two comes back
    assert set(worse.figures) == set(TUNED)
    assert {one.mean for one in same.differences.values()} == {0.0}
    assert same.changes == {"mode": "keyword"} and same.p95_ms > 0
