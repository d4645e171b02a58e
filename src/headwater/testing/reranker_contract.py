"""What must be true of every Reranker. Subclass it, give it a `reranker`, and run it with pytest."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import isfinite

import pytest

from headwater.errors import BackendError
from headwater.protocols import Reranker
from headwater.types import Chunk, Hit, Record, Span

GENEROUS_SECONDS = 60.0

# A question, the passage that answers it, and passages that share its words or its subject but not its answer.
ANSWERED = (
    (
        "How long is the probation period for a new employee?",
        "The probation period for a new employee is three months.",
        ("The canteen serves lunch from noon.", "A new bridge was built over the river in 1936."),
    ),
    (
        "新员工的试用期有多长？",
        "新员工的试用期为三个月。",
        ("食堂中午供应午餐。", "这座桥建于1936年。"),
    ),
)


def hits_of(texts: Sequence[str], *, score: float = 0.5) -> list[Hit]:
    """Hits as a search gives them, all with the same score."""
    made = []
    for number, text in enumerate(texts, start=1):
        record = Record(id=f"document-{number}", uri=f"{number}.md")
        chunk = Chunk(id=number << 20, document_id=record.id, span=Span(0, len(text)), text=text)
        made.append(Hit(chunk=chunk, record=record, score=score, rank=number, scores={"fused": score}))
    return made


class RerankerContract:
    """One relevance per passage, higher is better, and never more time than is left."""

    @pytest.fixture
    def reranker(self) -> Reranker:
        """The one under test."""
        raise NotImplementedError("a subclass of RerankerContract gives the fixture `reranker`")

    def test_it_fits_the_protocol(self, reranker: Reranker) -> None:
        assert isinstance(reranker, Reranker)
        assert reranker.fingerprint

    def test_one_finite_number_per_passage(self, reranker: Reranker) -> None:
        for count in (0, 1, 2, 45):
            hits = hits_of([f"Passage number {n} is about rivers and 河流。" for n in range(count)])
            scores = reranker.score("What about rivers?", hits, deadline_seconds=GENEROUS_SECONDS)
            assert len(scores) == count
            assert all(isfinite(score) for score in scores)

    @pytest.mark.parametrize(("question", "answer", "others"), ANSWERED, ids=["en", "zh"])
    def test_the_answer_stands_above_what_is_about_something_else(
        self, reranker: Reranker, question: str, answer: str, others: tuple[str, ...]
    ) -> None:
        hits = hits_of([others[0], answer, *others[1:]])
        scores = reranker.score(question, hits, deadline_seconds=GENEROUS_SECONDS)
        assert max(range(len(hits)), key=lambda index: scores[index]) == 1

    def test_the_order_of_the_passages_does_not_matter(self, reranker: Reranker) -> None:
        question, answer, others = ANSWERED[0]
        hits = hits_of([answer, *others])
        forward = reranker.score(question, hits, deadline_seconds=GENEROUS_SECONDS)
        backward = reranker.score(question, hits[::-1], deadline_seconds=GENEROUS_SECONDS)
        assert list(backward)[::-1] == pytest.approx(list(forward), abs=1e-4)

    def test_the_same_question_has_the_same_answer(self, reranker: Reranker) -> None:
        question, answer, others = ANSWERED[1]
        hits = hits_of([answer, *others])
        once, again = (reranker.score(question, hits, deadline_seconds=GENEROUS_SECONDS) for _ in range(2))
        assert list(once) == pytest.approx(list(again), abs=1e-6)

    @pytest.mark.parametrize("odd", ["", " ", "。", "?!", "🙂", "\ud800", "a" * 5_000, "字" * 5_000, "\0"])
    def test_odd_texts_are_no_error(self, reranker: Reranker, odd: str) -> None:
        texts = [odd, "The probation period is three months."]
        for question in (odd, "probation"):
            scores = reranker.score(question, hits_of(texts), deadline_seconds=GENEROUS_SECONDS)
            assert len(scores) == 2
            assert all(isfinite(score) for score in scores)

    def test_without_time_it_says_so_or_is_done(self, reranker: Reranker) -> None:
        hits = hits_of([f"Passage number {n}" for n in range(50)])
        try:
            scores = reranker.score("passage", hits, deadline_seconds=0.0)
        except BackendError as error:
            assert str(error)
        else:
            assert len(scores) == len(hits)

    def test_several_threads_get_what_one_gets(self, reranker: Reranker) -> None:
        question, answer, others = ANSWERED[0]
        hits = hits_of([answer, *others])
        alone = list(reranker.score(question, hits, deadline_seconds=GENEROUS_SECONDS))
        with ThreadPoolExecutor(4) as pool:
            work = [pool.submit(reranker.score, question, hits, deadline_seconds=GENEROUS_SECONDS) for _ in range(12)]
            for done in work:
                assert list(done.result()) == pytest.approx(alone, abs=1e-4)
