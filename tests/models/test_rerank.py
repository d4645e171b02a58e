"""The built-in reranker: late interaction over the pieces of the bundled model."""

import time
from dataclasses import replace

import numpy as np
import pytest

from headwater.errors import BackendError
from headwater.models import rerank
from headwater.models._pieces import load
from headwater.models.rerank import LateInteraction, evidence
from headwater.protocols import Reranker
from headwater.testing.reranker_contract import RerankerContract, hits_of
from headwater.types import Hit


class TestLateInteraction(RerankerContract):
    @pytest.fixture
    def reranker(self) -> Reranker:
        return LateInteraction()


def scored(question: str, hits: list[Hit]) -> list[float]:
    return LateInteraction().score(question, hits, deadline_seconds=60.0)


def best(question: str, *texts: str) -> str:
    hits = hits_of(texts)
    scores = scored(question, hits)
    return texts[int(np.argmax(scores))]


def test_words_that_stand_together_beat_words_far_apart() -> None:
    filler = "Nothing of that is said here, and nobody has asked for it either. " * 20
    near = f"{filler}The intake screen of the pump is cleaned every week. {filler}"
    far = f"The intake is old. {filler} A screen hangs there. {filler} The pump is new and gets cleaned."
    assert best("cleaning the intake screen of the pump", far, near) == near


def test_another_language_is_understood() -> None:
    texts = ("水库大坝的高度是二百二十一米。", "员工每年有十五天带薪年假。", "火车上午九点从车站出发。")
    assert best("How high is the dam of the reservoir?", *texts) == texts[0]
    assert best("员工的年假有几天", "The dam is tall.", "Employees have fifteen days of annual leave.") == (
        "Employees have fifteen days of annual leave."
    )


def test_the_order_of_words_decides_between_equals() -> None:
    one, other = "The dog bites the man.", "The man bites the dog."
    assert best("dog bites man", one, other) == one
    assert best("man bites dog", one, other) == other


def test_what_came_before_counts_where_the_passages_say_the_same() -> None:
    hits = hits_of(["The flood of 1998 was high."] * 3)
    hits = [replace(hit, score=score) for hit, score in zip(hits, (0.1, 0.9, 0.5), strict=True)]
    scores = scored("flood 1998", hits)
    assert scores[1] > scores[2] > scores[0]


@pytest.mark.parametrize("scale", [0.01, 1.0, 40.0])
def test_the_scale_of_the_scores_before_does_not_matter(scale: float) -> None:
    hits = hits_of(["The flood of 1998 was high.", "The dam opened in 1936.", "A flood."])
    plain = [replace(hit, score=score) for hit, score in zip(hits, (0.3, 0.9, 0.5), strict=True)]
    scaled = [replace(hit, score=hit.score * scale) for hit in plain]
    assert scored("flood 1998", scaled) == pytest.approx(scored("flood 1998", plain), abs=1e-5)


def test_a_question_without_a_known_piece_keeps_the_order() -> None:
    hits = [replace(hit, score=score) for hit, score in zip(hits_of(["one", "two"]), (0.2, 0.4), strict=True)]
    low, high = scored("🙂", hits)
    assert low < high


def test_a_widened_chunk_is_not_taken_for_the_chunk_it_grew_from() -> None:
    (hit,) = hits_of(["The canteen opens at noon."])
    wide = "The canteen opens at noon. The probation period is three months."
    wider = replace(hit, chunk=replace(hit.chunk, text=wide, span=hit.chunk.span._replace(end=len(wide))))
    looker = LateInteraction()
    (before,) = looker.score("probation period", [hit], deadline_seconds=60.0)
    (after,) = looker.score("probation period", [wider], deadline_seconds=60.0)
    assert after > before


def with_cosines(texts: list[str], cosines: list[float | None]) -> list[Hit]:
    """Hits as hybrid search gives them: one without a cosine was found by its words alone."""
    return [
        replace(hit, scores={} if cosine is None else {"semantic": cosine})
        for hit, cosine in zip(hits_of(texts), cosines, strict=True)
    ]


def test_the_cosine_of_a_better_embedder_counts_where_it_is_given_a_say() -> None:
    hits = with_cosines(["Flood gates are tested in May."] * 3, [0.2, 0.8, None])
    alone = LateInteraction().score("flood gates", hits, deadline_seconds=60.0)
    assert alone[0] == alone[1] == alone[2]
    low, high, none = LateInteraction(meaning_weight=0.6).score("flood gates", hits, deadline_seconds=60.0)
    assert high > low == none == alone[0]


def test_cosines_that_are_all_alike_change_no_order() -> None:
    hits = with_cosines(["Flood gates are tested in May.", "The canteen opens at noon."], [0.4, 0.4])
    gates, canteen = LateInteraction(meaning_weight=0.6).score("flood gates", hits, deadline_seconds=60.0)
    assert gates > canteen


def test_without_cosines_the_say_is_nothing() -> None:
    hits = hits_of(["Flood gates are tested in May.", "The canteen opens at noon."])
    weighed = LateInteraction(meaning_weight=0.6).score("flood gates", hits, deadline_seconds=60.0)
    assert weighed == LateInteraction().score("flood gates", hits, deadline_seconds=60.0)


def test_long_questions_are_multiplied_in_parts_too() -> None:
    """A product is made of a few pieces at a time; how many must make no difference."""
    model = load()
    texts = ["The dam on the river is 221 metres tall. " * 20, "员工每年享有十五天带薪年假，试用期三个月。" * 9]
    passages = model.cut(texts)
    asked = rerank._question(model, " ".join(texts))
    assert asked is not None
    different = np.unique(np.concatenate(passages))
    vectors = model.table[different].astype(np.float32)
    whole = asked.vectors @ (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).T
    assert len(different) > rerank.LEAST_AT_ONCE
    np.testing.assert_allclose(rerank._cosines(model, asked, different), whole, atol=1e-5)


def test_a_start_that_does_not_fit_the_time_left_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load()), "is_ready", property(lambda self: False))
    with pytest.raises(BackendError, match="are left"):
        LateInteraction().score("flood", hits_of(["flood"] * 20), deadline_seconds=0.01)
    assert LateInteraction().score("flood", hits_of(["flood"]), deadline_seconds=10.0)


def test_no_time_in_the_middle_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(load()), "is_ready", property(lambda self: True))
    with pytest.raises(BackendError, match="no time"):
        LateInteraction().score("flood", hits_of([f"flood {n}" for n in range(20)]), deadline_seconds=0.0)


def test_passages_are_forgotten_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rerank, "CACHED_PASSAGES", 3)
    looker = LateInteraction()
    for text in ("one", "two"):
        looker.score("one", hits_of([f"{text} {n}" for n in range(5)]), deadline_seconds=60.0)
    assert len(looker._cut) == 3


def test_the_evidence_is_that_of_a_plain_reading() -> None:
    """The vectorised reading against one written out: every piece, every window."""
    model = load()
    texts = ["The dam on the river is 221 metres tall. " * 6, "员工每年享有十五天带薪年假", "", "tall tall"]
    question = "How tall is the dam? 年假"
    asked = rerank._question(model, question)
    assert asked is not None
    passages = model.cut(texts)
    found = evidence(model, asked, passages)

    def unit(piece: int) -> np.ndarray:
        row = model.table[piece].astype(np.float64)
        return row / np.linalg.norm(row)

    for number, pieces in enumerate(passages):
        starts = range(0, max(len(pieces), 1), rerank.BLOCK)
        windows = [pieces[start : start + rerank.BLOCK * rerank.WINDOW_BLOCKS] for start in starts]
        values = [
            sum(
                weight * max(float(unit(int(own)) @ unit(int(other))) for other in window)
                for own, weight in zip(asked.pieces, asked.weights, strict=True)
            )
            for window in windows
            if len(window)
        ]
        assert found.windows[number] == pytest.approx(max(values, default=0.0), abs=1e-3)
        beside = set(zip(pieces[:-1].tolist(), pieces[1:].tolist(), strict=True))
        named = {(int(asked.pieces[a]), int(asked.pieces[b])): share for (a, b), share in asked.pairs.items()}
        assert found.pairs[number] == pytest.approx(sum(s for pair, s in named.items() if pair in beside), abs=1e-5)


def test_a_hundred_passages_take_little_time() -> None:
    """Cut before, as those of a question asked again; a wide margin, for other work may run beside."""
    texts = [f"Passage {n}. " + "The pump stands beside the river and its screen is cleaned. " * 12 for n in range(100)]
    looker, hits = LateInteraction(), hits_of(texts)
    looker.score("cleaning the screen", hits, deadline_seconds=60.0)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        looker.score("How often is the screen of the pump cleaned?", hits, deadline_seconds=60.0)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.5
