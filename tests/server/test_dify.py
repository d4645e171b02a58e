"""External knowledge for Dify: the requests and answers of its documentation."""

from typing import Any

import pytest
from tests.server.conftest import Running

from headwater.storage.ledger import Ledger

PATHS = ("/retrieval", "/api/v1/dify/retrieval")
TEXTS = {
    "leave": ("Parental leave is 26 weeks, of which 18 are paid in full.", {"category": "hr", "year": 2025}),
    "pump": ("The pump leaves the intake open for a week.", {"category": "works", "year": 2024}),
    "holiday": ("Annual leave is 30 days for everybody.", {"category": "hr rules", "year": 2023}),
}


@pytest.fixture(scope="module")
def dataset(server: Running, settled: Any) -> str:
    with server.client() as client:
        made: str = client.post("/api/v1/datasets", json={"name": "handbook"}).json()["data"]["id"]
        for name, (text, meta) in TEXTS.items():
            told = {"uri": name, "text": text, "title": name.title(), "meta": meta, "dataset_id": made, "tags": ["t"]}
            job = client.post("/api/v1/ingest/text", json=told).json()["data"]
            assert settled(client, job["id"])["state"] == "completed"
    return made


def asked(server: Running, knowledge: str, query: str, path: str = PATHS[0], **given: Any) -> Any:
    setting = given.pop("retrieval_setting", {"top_k": 3, "score_threshold": 0.0})
    body = {"knowledge_id": knowledge, "query": query, "retrieval_setting": setting, **given}
    with server.client() as client:
        return client.post(path, json=body)


@pytest.mark.parametrize("path", PATHS)
def test_records_have_what_dify_reads(server: Running, dataset: str, path: str) -> None:
    answer = asked(server, dataset, "How long is parental leave?", path)
    assert answer.status_code == 200
    records = answer.json()["records"]
    first = records[0]
    assert first["title"] == "Leave" and "26 weeks" in first["content"]
    assert isinstance(first["metadata"], dict) and first["metadata"]["category"] == "hr"
    assert first["metadata"]["uri"] == "text:/leave" and first["metadata"]["tags"] == ["t"]
    scores = [one["score"] for one in records]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores)


def test_what_a_typo_was_read_as_stands_in_each_record(server: Running, dataset: str) -> None:
    answer = asked(server, dataset, "How long is parentel leave?").json()
    assert set(answer) == {"records"} and "26 weeks" in answer["records"][0]["content"]
    assert all(one["metadata"]["corrected"] == {"parentel": "parental"} for one in answer["records"])
    plain = asked(server, dataset, "How long is parental leave?").json()["records"]
    assert plain and all("corrected" not in one["metadata"] for one in plain)


def test_a_dataset_is_named_too_and_how_much_is_wanted(server: Running, dataset: str) -> None:
    few = asked(server, "handbook", "leave", retrieval_setting={"top_k": 1, "score_threshold": 0.0}).json()["records"]
    assert len(few) == 1
    every = asked(server, dataset, "leave").json()["records"]
    least = every[0]["score"]
    some = asked(server, dataset, "leave", retrieval_setting={"top_k": 3, "score_threshold": least}).json()["records"]
    assert some and all(one["score"] >= least for one in some) and len(some) < len(every)
    assert asked(server, dataset, "leave", retrieval_setting={"top_k": 3, "score_threshold": 1.0}).json() == {
        "records": []
    }


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ({"name": "category", "comparison_operator": "is", "value": "hr"}, {"Leave"}),
        ({"name": "category", "comparison_operator": "is not", "value": "works"}, {"Leave", "Holiday"}),
        ({"name": "category", "comparison_operator": "contains", "value": "rules"}, {"Holiday"}),
        ({"name": "category", "comparison_operator": "start with", "value": "hr"}, {"Leave", "Holiday"}),
        ({"name": "category", "comparison_operator": "start with", "value": "rules"}, set()),
        ({"name": "category", "comparison_operator": "in", "value": ["works", "hr"]}, {"Leave", "Pump"}),
        ({"name": "year", "comparison_operator": "≥", "value": 2024}, {"Leave", "Pump"}),
        ({"name": "year", "comparison_operator": "before", "value": 2024}, {"Holiday"}),
        ({"name": "nothing", "comparison_operator": "empty"}, {"Leave", "Pump", "Holiday"}),
    ],
)
def test_conditions_on_metadata(server: Running, dataset: str, condition: dict[str, Any], found: set[str]) -> None:
    told = {"logical_operator": "and", "conditions": [condition]}
    records = asked(server, dataset, "leave week pump days", metadata_condition=told).json()["records"]
    assert {one["title"] for one in records} == found


def test_either_of_two_conditions(server: Running, dataset: str) -> None:
    conditions = [{"name": "year", "comparison_operator": "=", "value": year} for year in (2023, 2024)]
    for logic, found in (("or", {"Pump", "Holiday"}), ("and", set())):
        told = {"logical_operator": logic, "conditions": conditions}
        records = asked(server, dataset, "leave week pump days", metadata_condition=told).json()["records"]
        assert {one["title"] for one in records} == found


def test_errors_say_what_dify_shows(server: Running, dataset: str) -> None:
    missing = asked(server, "unknown", "leave")
    assert missing.status_code == 404 and missing.json()["error_code"] == 2001 and missing.json()["error_msg"]
    wrong = asked(
        server, dataset, "leave", metadata_condition={"conditions": [{"name": "a", "comparison_operator": "end with"}]}
    )
    assert wrong.status_code == 400 and "end with" in wrong.json()["error_msg"]
    with server.client("no-such-key") as client:
        body = {"knowledge_id": dataset, "query": "leave", "retrieval_setting": {"top_k": 3, "score_threshold": 0.0}}
        refused = client.post(PATHS[0], json=body)
    assert refused.status_code == 401 and refused.json()["error_code"] == 1002


def test_nobody_reads_what_is_somebody_elses(server: Running, dataset: str) -> None:
    key = server.key("ben", rights="read")
    try:
        with server.client(key) as client:
            for path in PATHS:
                body = {
                    "knowledge_id": dataset,
                    "query": "leave",
                    "retrieval_setting": {"top_k": 3, "score_threshold": 0},
                }
                assert client.post(path, json=body).status_code == 404
    finally:
        ledger = Ledger(server.home)
        for one in ledger.keys.listed():
            ledger.keys.revoke(one.id)
        ledger.close()
