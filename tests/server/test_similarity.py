"""What clients of RAGFlow read as similarities: from 0 to 1 however it was searched, in the order of the hits."""

from typing import Any

import pytest
from tests.server.conftest import Running

from headwater.server.similarity import by_meaning, by_words

TEXTS = (
    "Parental leave is 26 weeks, of which 18 are paid in full. Leave, leave, leave.",
    "The pump leaves the intake open for a week.",
    "父母可享受 26 周的育儿假。",
    "A gauge stands at the old bridge, beside the weir.",
)
ASKED: tuple[dict[str, Any], ...] = (
    {"question": "How long is parental leave?"},
    {"question": "parental leave leave leave weeks paid full", "mode": "keyword"},
    {"question": "parental leave", "mode": "semantic"},
    {"question": "leave", "mode": "substring"},
    {"question": "假"},  # too short for meaning
    {"question": "parental leave", "rerank_id": "builtin"},
    {"question": "parental leave", "rerank_id": ""},
    {"question": "parental leave", "vector_similarity_weight": 0.3},
    {"question": "parental leave", "options": {"fusion": "rrf"}},
    {"question": "parental leave", "options": {"mmr_lambda": 0.1}},
)
FIELDS = ("similarity", "vector_similarity", "term_similarity")


@pytest.fixture(scope="module")
def filled(server: Running, settled: Any) -> Running:
    with server.client() as client:
        for number, text in enumerate(TEXTS):
            job = client.post("/api/v1/ingest/text", json={"uri": str(number), "text": text}).json()["data"]
            assert settled(client, job["id"])["state"] == "completed"
    return server


@pytest.mark.parametrize("body", ASKED, ids=lambda body: "-".join(map(str, list(body.values())[1:])) or "plain")
def test_they_are_shares_and_in_order(filled: Running, body: dict[str, Any]) -> None:
    with filled.client() as client:
        chunks = client.post("/api/v1/retrieval", json=body).json()["data"]["chunks"]
    assert chunks
    for one in chunks:
        assert all(0 <= one[field] <= 1 for field in FIELDS), {field: one[field] for field in FIELDS}
        assert one["score"] == pytest.approx(one["score"])
    found = [one["similarity"] for one in chunks]
    assert found == sorted(found, reverse=True)


def test_bm25_has_no_bound_and_its_share_has(filled: Running) -> None:
    with filled.client() as client:
        asked = {"question": "parental leave weeks paid full", "mode": "keyword", "rerank_id": ""}
        best = client.post("/api/v1/retrieval", json=asked).json()["data"]["chunks"][0]
    assert best["score"] > 1 and best["scores"]["keyword"] == best["score"]
    assert best["similarity"] == best["term_similarity"] == pytest.approx(best["score"] / (best["score"] + 10))


def test_each_by_itself() -> None:
    assert [by_words({"keyword": score}) for score in (-1.0, 0.0, 10.0)] == [0.0, 0.0, 0.5]
    assert 0.99 < by_words({"keyword": 1e6}) < 1
    assert [by_meaning({"semantic": score}) for score in (-0.4, 0.3, 1.2)] == [0.0, 0.3, 1.0]
    assert by_words({}) == by_meaning({}) == 0.0
