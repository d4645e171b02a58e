"""How words and meaning are weighed: what is covered by chance, and the weights that suit an embedder."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater import config as settings
from headwater.build import open_home
from headwater.errors import UsageError
from headwater.fuse import Leg, covered, fuse, in_order
from headwater.home import weighed
from headwater.models.known import TRANSFORMER, TRANSFORMER_MEANING
from headwater.types import Document, Matrix, Scored


class Named:
    """An embedder that only has a name."""

    dim = 4

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint

    def embed(self, texts: Sequence[str], role: str) -> Matrix:
        return np.full((len(texts), self.dim), 0.5, dtype=np.float32)


@given(st.dictionaries(st.integers(0, 9), st.floats(0, 50), min_size=1), st.floats(0, 100), st.floats(0, 0.9))
def test_coverage_counts_from_chance_and_keeps_the_order(found: dict[int, float], best: float, chance: float) -> None:
    ranking = [Scored(id, score) for id, score in found.items()]
    plain, counted = covered(ranking, best), covered(ranking, best, chance=chance)
    for id in found:
        assert 0 <= counted[id] <= plain[id] <= 1
        assert (counted[id] == 0) == (plain[id] <= chance)
    order = sorted(found, key=lambda id: plain[id])
    assert all(counted[low] <= counted[high] for low, high in pairwise(order))


def test_a_few_words_by_chance_do_not_outrank_the_meaning() -> None:
    """A question in the other language: one passage has its meaning, another some of its commonest words."""
    both: dict[Leg, list[Scored]] = {
        "keyword": [Scored(1, 1.2)],
        "semantic": [Scored(2, 0.6), Scored(1, 0.45), Scored(3, 0.1)],
    }
    weights: dict[Leg, float] = {"keyword": 0.87, "semantic": 0.13}
    without = fuse(both, method="adaptive", weights=weights, best_keyword=10.0)
    with_chance = fuse(both, method="adaptive", weights=weights, best_keyword=10.0, chance=0.12)
    assert without[1] > without[2]
    assert with_chance[2] > with_chance[1]


def test_an_embedder_brings_its_weights_where_only_a_preset_said(tmp_path: Path) -> None:
    for fingerprint, expected in (
        ("onnx:m3e-small:0", TRANSFORMER.semantic_weight),
        ("headwater-static-1:256:0", 0.13),
    ):
        with open_home(tmp_path / fingerprint.replace(":", "-"), embedder=Named(fingerprint)) as kb:
            assert kb.options.semantic_weight == expected
            assert kb.search("words", mode="hybrid").query.options.semantic_weight == expected


def test_the_built_in_reranker_minds_the_embedder_of_the_home(tmp_path: Path) -> None:
    for fingerprint, expected in (("onnx:m3e-small:0", TRANSFORMER_MEANING), ("headwater-static-1:256:0", 0.0)):
        with open_home(tmp_path / fingerprint.replace(":", "-"), embedder=Named(fingerprint)) as kb:
            reranker = kb.engine.parts.reranker("builtin")  # type: ignore[misc]
            assert reranker._meaning_weight == expected  # type: ignore[attr-defined]
            assert reranker is kb.engine.parts.reranker("builtin")  # type: ignore[misc]


def test_weights_of_the_home_s_space_are_known_without_its_embedder(tmp_path: Path) -> None:
    with open_home(tmp_path, embedder=Named("openai:bge-m3")) as kb:
        kb.add_documents([Document(uri="a", text="The dam is 221 metres tall.")])
        assert kb.options.keyword_weight == TRANSFORMER.keyword_weight
        assert weighed(kb.config, kb.catalog.space().embedder).options() == kb.options  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "written",
    ["[retrieve]\nsemantic_weight = 0.4\n", "[retrieve]\nkeyword_weight = 0.4\n", '[retrieve]\nfusion = "rrf"\n'],
)
def test_what_a_person_wrote_stands(tmp_path: Path, written: str) -> None:
    (tmp_path / "headwater.toml").write_text(written, encoding="utf-8")
    config = settings.load(tmp_path)
    assert weighed(config, "onnx:m3e-small:0").options() == config.options()


def test_the_settings_tell_where_the_weights_come_from(tmp_path: Path) -> None:
    found = weighed(settings.load(tmp_path), "onnx:m3e-small:0").settings["retrieve.semantic_weight"]
    assert (found.value, found.origin) == (TRANSFORMER.semantic_weight, "embedder onnx")


@pytest.mark.parametrize("wrong", [-0.1, 1.0])
def test_a_share_that_is_none_is_refused(tmp_path: Path, wrong: float) -> None:
    with open_home(tmp_path) as kb, pytest.raises(UsageError, match="chance_coverage"):
        kb.search("words", options={"chance_coverage": wrong})


@given(
    st.dictionaries(st.integers(), st.tuples(st.sampled_from([0.1, 0.2, 0.3]), st.integers()), max_size=20),
    st.integers(0, 21),
)
def test_the_order_is_by_score_and_then_by_place(found: dict[int, tuple[float, int]], most: int) -> None:
    scores = {id: score for id, (score, _) in found.items()}
    places = {id: (place, id) for id, (_, place) in found.items()}
    asked: list[int] = []

    def place(ids: Sequence[int]) -> dict[int, tuple[int, int]]:
        asked.extend(ids)
        return {id: places[id] for id in ids}

    right = sorted(found, key=lambda id: (-scores[id], places[id]))
    assert in_order(found, scores, place) == right
    assert len(set(asked)) == len(asked) and all(Counter(scores.values())[scores[id]] > 1 for id in asked)
    asked.clear()
    first = in_order(found, scores, place, most=most)
    assert first[:most] == right[:most] and [scores[id] for id in first] == [scores[id] for id in right]
    assert all(scores[id] >= scores[right[most - 1]] for id in asked if most <= len(right))
