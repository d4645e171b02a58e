"""The routes of the server, each through the front door."""

import json
import threading
import time
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

from headwater.server.promises import safe_name

LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
ANNUAL = "# 年假制度\n\n员工每年享有十五天带薪年假。入职不满一年的员工按月折算。\n"


@pytest.fixture(scope="module")
def client(server: Running, settled: Any) -> Any:
    """A client of the owner `anna`, with one dataset of two documents."""
    with server.client(server.key("anna", rights="admin")) as found:
        for uri, text in (("leave", LEAVE), ("年假", ANNUAL)):
            told = {"uri": uri, "text": text, "mime": "text/markdown", "collection": "handbook", "tags": [uri]}
            answer = found.post("/api/v1/ingest/text", json=told).json()
            assert answer["data"]["status"] == "pending"
            assert settled(found, answer["data"]["job_id"])["state"] == "completed"
        yield found


def dataset_of(client: httpx2.Client, name: str = "handbook") -> str:
    return str(client.get("/api/v1/datasets", params={"name": name}).json()["data"][0]["id"])


def test_search_says_everything_about_its_hits(client: httpx2.Client) -> None:
    asked = {"question": "weeks of parental leave", "top_n": 1, "where": 'tag = "leave"'}
    found = client.post("/api/v1/retrieval", json=asked).json()
    assert found["code"] == 0
    hit = found["data"]["chunks"][0]
    assert {"keyword", "semantic", "fused"} <= set(hit["scores"])
    assert "26 weeks" in hit["content"] and hit["highlight"]
    assert found["data"]["doc_aggs"] == [{"doc_id": hit["document_id"], "doc_name": "leave", "count": 1}]
    text = client.get(f"/api/v1/datasets/{hit['dataset_id']}/documents/{hit['document_id']}/text").json()["data"][
        "text"
    ]
    start, end = hit["span"]
    assert text[start:end] == hit["content"]


def test_several_questions_in_one_request(client: httpx2.Client) -> None:
    questions = ["parental leave", "带薪年假有多少天", "zzzzqqq xqzt"]
    both = client.post("/api/v1/retrieval", json={"question": questions, "mode": "keyword"}).json()["data"]["results"]
    one = [client.post("/api/v1/retrieval", json={"question": q, "mode": "keyword"}).json()["data"] for q in questions]
    assert [[c["id"] for c in r["chunks"]] for r in both] == [[c["id"] for c in r["chunks"]] for r in one]
    assert both[0]["chunks"] and both[1]["chunks"] and not both[2]["chunks"]


def test_pages_of_a_search_join_to_the_whole(client: httpx2.Client) -> None:
    whole = client.post("/api/v1/retrieval", json={"question": "leave 年假", "page_size": 50}).json()["data"]
    ids = []
    for page in range(1, whole["total"] + 1):
        asked = {"question": "leave 年假", "page": page, "page_size": 1}
        ids += [one["id"] for one in client.post("/api/v1/retrieval", json=asked).json()["data"]["chunks"]]
    assert len(ids) >= 2 and ids == [one["id"] for one in whole["chunks"]]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"question": "请假"}'.encode("gbk"), "the body is JSON in UTF-8, got the byte 0xc7 at 14; send it in UTF-8"),
        (b"[" * 200_000, "the body is JSON that is nested too deep; make it flatter"),
        (
            b'{"question": "x", "top_n": ' + b"9" * 6000 + b"}",
            "the body is no JSON that can be read: Exceeds the limit",
        ),
    ],
)
def test_a_body_that_cannot_be_read_is_told_why(client: httpx2.Client, body: bytes, said: str) -> None:
    answer = client.post("/api/v1/retrieval", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, "ARGUMENT_ERROR")
    assert said in answer.json()["message"]


def test_nothing_is_on_a_page_behind_the_first_so_many(client: httpx2.Client) -> None:
    def page(number: int, **asked: Any) -> dict[str, Any]:
        told = {"question": "leave 年假", "page": number, **asked}
        found: dict[str, Any] = client.post("/api/v1/retrieval", json=told).json()["data"]
        return found

    assert page(1, page_size=1)["total"] >= 2
    assert [len(page(number, page_size=1, top_n=1)["chunks"]) for number in (1, 2, 3)] == [1, 0, 0]
    assert page(2, page_size=1, top_n=1)["total"] == page(1, page_size=1)["total"]


def test_pages_without_a_size_are_as_long_as_the_options_say(client: httpx2.Client) -> None:
    asked = {"question": "leave 年假", "options": {"top_n": 1}}
    pages = [client.post("/api/v1/retrieval", json={**asked, "page": page}).json()["data"] for page in (1, 2)]
    assert len({one["id"] for page in pages for one in page["chunks"]}) == 2
    wrong = client.post("/api/v1/retrieval", json={**asked, "options": {"top_n": "x"}, "page": 2})
    assert wrong.status_code == 400 and "retrieve.top_n must be of type int, got 'x'" in wrong.json()["message"]


@pytest.mark.parametrize(
    ("operator", "value", "years"),
    [
        ("=", "2024", {2024, "2024"}),
        ("=", 2024, {2024}),
        ("≠", "2024", {2022, 2026.5, None}),
        (">", "2022", {2024, "2024", 2026.5}),
        ("≤", "2024.0", {2022, 2024, "2024"}),
        ("in", "2022, 2024", {2022, 2024, "2024"}),
        ("in", ["2026.5"], {2026.5}),
        ("not in", ["2022", "2026.5"], {2024, "2024", None}),
        (">", "nan", set()),
    ],
)
def test_a_number_in_a_condition_may_be_written_as_text(
    client: httpx2.Client, settled: Any, operator: str, value: Any, years: set[Any]
) -> None:
    for year in (2022, 2024, "2024", 2026.5, None):
        meta = {} if year is None else {"year": year}
        told = {"uri": f"year-{year!r}", "text": f"A report of {year!r}.", "collection": "reports", "meta": meta}
        job = client.post("/api/v1/ingest/text", json=told).json()["data"]
        assert settled(client, job["id"])["state"] == "completed"
    asked = {
        "question": "report",
        "collections": ["reports"],
        "metadata_condition": {"conditions": [{"name": "year", "comparison_operator": operator, "value": value}]},
    }
    found = client.post("/api/v1/retrieval", json=asked).json()["data"]["chunks"]
    assert {one["meta"].get("year") for one in found} == years and len(found) == len(years)


def test_a_document_that_was_renamed_is_called_so_everywhere(client: httpx2.Client, settled: Any) -> None:
    id = client.post("/api/v1/datasets", json={"name": "renamed"}).json()["data"]["id"]
    path = f"/api/v1/datasets/{id}/documents"
    files = [("file", ("first.md", b"# Tulips\n\nTulips are planted in October."))]
    (sent,) = client.post(path, files=files).json()["data"]
    settled(client, sent["job_id"])
    assert client.put(f"{path}/{sent['id']}", json={"name": "second.md"}).status_code == 200
    added = client.post(f"{path}/{sent['id']}/chunks", json={"content": "Tulips want sun."}).json()["data"]["chunk"]
    assert added["document_name"] == added["docnm_kwd"] == "second.md"
    found = client.post("/api/v1/retrieval", json={"question": "tulips October", "dataset_ids": [id]}).json()["data"]
    whole = next(one for one in found["chunks"] if one["document_id"] == sent["id"])
    assert {whole[name] for name in ("document_name", "docnm_kwd", "document_keyword")} == {"second.md"}
    assert {"doc_id": sent["id"], "doc_name": "second.md", "count": 1} in found["doc_aggs"]
    by_hand = next(one for one in found["chunks"] if one["document_id"] != sent["id"])
    assert by_hand["document_name"] == "first.md"  # of the uri that it stands under
    assert client.get(f"{path}/{sent['id']}/text").json()["data"]["name"] == "second.md"
    listed = client.get(f"{path}/{sent['id']}/chunks").json()["data"]
    assert listed["doc"]["name"] == "second.md" and {one["docnm_kwd"] for one in listed["chunks"]} == {"second.md"}
    store = client.post(f"/v1/vector_stores/{id}/search", json={"query": "tulips October"}).json()["data"]
    assert {one["filename"] for one in store} == {"second.md"}
    chat = client.post("/api/v1/chats", json={"name": "tulips", "dataset_ids": [id]}).json()["data"]["id"]
    asked = {"question": "When are tulips planted?", "stream": False}
    told = client.post(f"/api/v1/chats/{chat}/completions", json=asked).json()["data"]["reference"]
    assert "second.md" in {one["document_name"] for one in told["chunks"]}
    assert "second.md" in {one["doc_name"] for one in told["doc_aggs"]}


@pytest.mark.parametrize("names", [("kb_ids", "doc_ids"), ("dataset_ids", "document_ids")])
def test_ids_have_two_names_and_mean_the_same(client: httpx2.Client, names: tuple[str, str]) -> None:
    dataset = dataset_of(client)
    listed = client.get(f"/api/v1/datasets/{dataset}/documents").json()["data"]["docs"]
    wanted = next(one["id"] for one in listed if one["tags"] == ["年假"])
    asked = {"question": "leave 年假", names[0]: [dataset], names[1]: [wanted]}
    found = client.post("/api/v1/retrieval", json=asked).json()["data"]["chunks"]
    assert found and {one["document_id"] for one in found} == {wanted}


def test_the_test_page_and_the_search_give_the_same(client: httpx2.Client) -> None:
    dataset = dataset_of(client)
    asked = {"question": "leave", "vector_similarity_weight": 0.3, "keywords_similarity_weight": 0.7}
    test = client.post(f"/api/v1/dataset/{dataset}/retrieval", json=asked).json()["data"]
    search = client.post("/api/v1/retrieval", json={**asked, "dataset_ids": [dataset]}).json()["data"]
    assert [c["score"] for c in test["chunks"]] == [c["score"] for c in search["chunks"]]
    assert test["chunks"]


def test_a_question_may_follow_a_conversation(client: httpx2.Client, server: Running) -> None:
    first = client.post("/api/v1/conversations", json={"question": "How many weeks is parental leave?"}).json()["data"]
    follows = {"question": "And how much of it is paid?", "conversation_id": first["conversation_id"]}
    found = client.post("/api/v1/retrieval", json=follows).json()["data"]
    assert found["question"].startswith(follows["question"]) and "leave" in found["question"].lower()
    assert "18 weeks" in found["chunks"][0]["content"]
    alone = client.post("/api/v1/retrieval", json={**follows, "conversation_id": ""}).json()["data"]
    assert alone["question"] == follows["question"]
    answer = client.post("/api/v1/ask", json=follows).json()["data"]
    assert "18 weeks" in answer["answer"] and answer["question"] == found["question"]
    # A test of a dataset is without a conversation, and none is changed by a search.
    tried = client.post(f"/api/v1/dataset/{dataset_of(client)}/retrieval", json=follows).json()["data"]
    assert tried["question"] == follows["question"]
    kept = client.get(f"/api/v1/conversations/{first['conversation_id']}").json()["data"]
    assert len(kept["turns"]) == 2
    with server.client(server.key("bert")) as other:
        for path in ("/api/v1/retrieval", "/api/v1/ask"):
            assert other.post(path, json=follows).status_code == 404


def test_a_conversation_that_is_opened_again_tells_what_was_read_for_a_typo(client: httpx2.Client) -> None:
    said = {"question": "How many weeks is parentel leave?"}
    answer = client.post("/api/v1/conversations", json=said).json()["data"]
    kept = client.get(f"/api/v1/conversations/{answer['conversation_id']}").json()["data"]
    assert [turn["corrected"] for turn in kept["turns"]] == [{}, {"parentel": "parental"}]
    assert answer["corrected"] == {"parentel": "parental"}


def test_an_answer_cites_the_exact_words(client: httpx2.Client) -> None:
    answer = client.post("/api/v1/ask", json={"question": "How many weeks of leave are parents entitled to?"}).json()
    citation = answer["data"]["citations"][0]
    assert not answer["data"]["refused"]
    dataset = dataset_of(client)
    told = client.get(f"/api/v1/datasets/{dataset}/documents/{citation['document_id']}/text").json()["data"]
    start, end = citation["span"]
    assert told["text"][start:end] == citation["quote"]


def events_of(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_stream_ends_with_the_answer(client: httpx2.Client) -> None:
    asked = {"question": "How many weeks of leave are parents entitled to?", "stream": True}
    answer = client.post("/api/v1/ask", json=asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    assert [name for name, _ in events][-1] == "answer"
    sentences = " ".join(data["text"] for name, data in events if name == "sentence")
    assert sentences == events[-1][1]["answer"]
    assert {name for name, _ in events} >= {"step", "sentence", "answer"}


def test_a_refusal_is_an_answer(client: httpx2.Client) -> None:
    answer = client.post("/api/v1/ask", json={"question": "Who won the chess championship of 1972?"}).json()
    assert answer["code"] == 0 and answer["data"]["refused"] and answer["data"]["citations"] == []


def test_archived_documents_are_found_only_when_asked_for(client: httpx2.Client) -> None:
    dataset = dataset_of(client)
    listed = client.get(f"/api/v1/datasets/{dataset}/documents").json()["data"]["docs"]
    wanted = next(one["id"] for one in listed if one["tags"] == ["leave"])
    changed = client.put(f"/api/v1/datasets/{dataset}/documents/{wanted}", json={"archived": True}).json()
    assert changed["data"]["archived"] is True
    question = {"question": "parental leave weeks"}
    assert wanted not in {
        c["document_id"] for c in client.post("/api/v1/retrieval", json=question).json()["data"]["chunks"]
    }
    both = client.post("/api/v1/retrieval", json={**question, "archived": True}).json()["data"]["chunks"]
    assert wanted in {c["document_id"] for c in both}
    for path in ("/api/v1/ask", "/api/v1/conversations"):
        asked = {"question": "How many weeks of leave are parents entitled to?", "archived": True}
        cited = client.post(path, json=asked).json()["data"]["citations"]
        assert wanted in {one["document_id"] for one in cited}, path
    client.put(f"/api/v1/datasets/{dataset}/documents", json={"ids": [wanted], "status": "1"})
    assert wanted in {
        c["document_id"] for c in client.post("/api/v1/retrieval", json=question).json()["data"]["chunks"]
    }


def test_uploads_keep_the_original_and_the_name(client: httpx2.Client, settled: Any) -> None:
    dataset = client.post("/api/v1/datasets", json={"name": "files"}).json()["data"]["id"]
    files = [
        ("file", ("../../etc/通知.md", ANNUAL.encode())),
        ("file", ("page.html", b"<script>x</script><p>Water</p>")),
    ]
    made = client.post(f"/api/v1/datasets/{dataset}/documents", files=files, data={"tags": "a, b"}).json()["data"]
    assert [one["name"] for one in made] == ["通知.md", "page.html"]
    for one in made:
        assert settled(client, one["job_id"])["state"] == "completed"
    back = client.get(f"/api/v1/datasets/{dataset}/documents/{made[1]['id']}")
    assert back.content == b"<script>x</script><p>Water</p>"
    assert back.headers["content-type"] == "application/octet-stream"
    assert back.headers["content-disposition"].startswith("attachment")
    assert back.headers["x-content-type-options"] == "nosniff"
    listed = client.get(f"/api/v1/datasets/{dataset}/documents", params={"where": 'tag = "b"'}).json()["data"]
    assert listed["total"] == 2
    # The same bytes again are no work, and no second document.
    again = client.post(f"/api/v1/datasets/{dataset}/documents", files=[files[0]]).json()["data"][0]
    settled(client, again["job_id"])
    assert again["id"] == made[0]["id"]
    assert client.get(f"/api/v1/datasets/{dataset}/documents").json()["data"]["total"] == 2


def test_a_document_without_text_says_so(client: httpx2.Client, settled: Any) -> None:
    dataset = client.post("/api/v1/datasets", json={"name": "odd"}).json()["data"]["id"]
    files = [("file", ("empty.txt", b"   \n")), ("file", ("broken.pdf", b"%PDF-1.4 nothing"))]
    made = client.post(f"/api/v1/datasets/{dataset}/documents", files=files).json()["data"]
    ended = [settled(client, one["job_id"]) for one in made]
    assert [one["state"] for one in ended] == ["empty", "failed"]
    assert all(one["reason"] for one in ended)
    # The list says the same, and a retry is possible.
    listed = {d["name"]: d for d in client.get(f"/api/v1/datasets/{dataset}/documents").json()["data"]["docs"]}
    assert listed["broken.pdf"]["state"] == "failed" and listed["broken.pdf"]["error"]
    assert client.post(f"/api/v1/jobs/{ended[1]['id']}/retry").json()["data"]["state"] == "pending"
    assert settled(client, ended[1]["id"])["state"] == "failed"
    late = client.post(f"/api/v1/jobs/{ended[1]['id']}/cancel")
    assert late.status_code == 409 and late.json()["error"] == "DATA_ERROR"


def test_events_are_applied_once_and_in_order(client: httpx2.Client, settled: Any) -> None:
    def event(id: str, kind: str, time: str, **document: Any) -> dict[str, Any]:
        told = {"id": "chapter-7", "project_id": "novel", "user_id": "anna", **document}
        body = {"id": id, "type": f"document.{kind}", "time": time, "document": told}
        return dict(client.post("/api/v1/events", json=body).json()["data"])

    first = event("e1", "created", "2026-01-01T10:00:00Z", content="The pump failed at dawn.", content_type="chapter")
    assert first["applied"] and settled(client, first["job_id"])["state"] == "completed"
    assert event("e1", "created", "2026-01-01T10:00:00Z", content="The pump failed at dawn.")["reason"] == "seen"
    newer = event("e3", "updated", "2026-01-01T12:00:00Z", content="The pump failed at noon.")
    settled(client, newer["job_id"])
    assert event("e2", "updated", "2026-01-01T11:00:00Z", content="The pump failed at eleven.")["reason"] == "late"
    asked = {"question": "when did the pump fail", "collections": ["novel"]}
    texts = [c["content"] for c in client.post("/api/v1/retrieval", json=asked).json()["data"]["chunks"]]
    assert texts == ["The pump failed at noon."]
    assert event("e4", "deleted", "2026-01-01T13:00:00Z")["applied"]
    assert event("e0", "updated", "2026-01-01T09:00:00Z", content="Back again.")["reason"] == "late"
    assert client.post("/api/v1/retrieval", json=asked).json()["data"]["chunks"] == []


def test_history_and_feedback_are_kept(client: httpx2.Client) -> None:
    client.delete("/api/v1/history")
    hit = client.post("/api/v1/retrieval", json={"question": "parental leave"}).json()["data"]["chunks"][0]
    kept = client.get("/api/v1/history").json()["data"]
    assert kept["total"] == 1 and kept["history"][0]["query"] == "parental leave"
    assert hit["id"] in kept["history"][0]["hits"]
    told = {"kind": "click", "query": "parental leave", "chunk_id": hit["id"]}
    assert client.post("/api/v1/feedback", json=told).status_code == 200
    assert client.get("/api/v1/feedback").json()["data"]["feedback"][0]["document"] == hit["document_id"]


def test_metrics_have_the_names_that_were_promised(client: httpx2.Client) -> None:
    client.post("/api/v1/retrieval", json={"question": "parental leave"})
    text = client.get("/metrics").text
    for name in (
        "rag_search_duration_seconds_bucket",
        "rag_index_duration_seconds_bucket",
        "rag_search_results_count_bucket",
    ):
        assert name in text
    for name in ("rag_queue_depth", "rag_cache_hits_total", "rag_errors_total", "rag_stage_duration_seconds_bucket"):
        assert name in text
    assert "parental" not in text


def test_the_log_has_the_fields_and_no_text(client: httpx2.Client, server: Running) -> None:
    secret = "quelleneinzugsgebiet"
    client.post("/api/v1/retrieval", json={"question": secret}, headers={"X-Request-ID": "abc-123"})
    client.post("/api/v1/ask", json={"question": secret})
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    told = next(line for line in lines if line.get("request_id") == "abc-123" and "kb_ids" in line)
    assert told["message"] == "Retrieval completed"
    assert {"vector_count", "fulltext_count", "final_count", "latency_ms", "owner"} <= set(told)
    assert told["vector_count"] >= told["final_count"]  # nothing holds the word, so every hit is the vectors'
    assert told["fulltext_count"] == 0
    log = server.log.read_text()
    assert secret not in log and "26 weeks" not in log and "hw_" not in log


def test_a_request_id_comes_back_and_nothing_else_does(client: httpx2.Client) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": "abc"}).headers["x-request-id"] == "abc"
    odd = client.get("/healthz", headers={"X-Request-ID": "a b<script>"}).headers["x-request-id"]
    assert "<" not in odd and len(odd) == 16


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/api/v1/datasets", "/v1/models", "/", "/docs"])
def test_what_can_be_looked_at_can_be_asked_after(client: httpx2.Client, path: str) -> None:
    asked, looked = client.head(path), client.get(path)
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers["content-type"] == looked.headers["content-type"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/api/v1/retrieval", "POST"),
        ("HEAD", "/api/v1/retrieval", "POST"),
        ("PUT", "/api/v1/datasets", "GET, POST, DELETE, HEAD"),
        ("GET", "/v1/chat/completions", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/", "GET, HEAD"),
        ("GET", "/mcp", "POST"),
        ("DELETE", "/mcp", "POST"),
    ],
)
def test_a_path_that_is_for_another_method_says_so(client: httpx2.Client, method: str, path: str, allowed: str) -> None:
    refused = client.request(method, path)
    assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
    if method != "HEAD":
        assert f"{path!r} is not for {method}" in refused.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/v1/nothing", "/v1/responses", "/nothing"])
def test_a_path_that_nobody_has_is_not_found_by_any_method(client: httpx2.Client, method: str, path: str) -> None:
    refused = client.request(method, path)
    assert refused.status_code == 404 and "allow" not in refused.headers


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", ""])
def test_json_that_is_sent_as_something_else_is_told_so(client: httpx2.Client, kind: str) -> None:
    # What `curl -d` does when nobody says otherwise.
    refused = client.post("/api/v1/retrieval", content=b'{"question": "leave"}', headers={"Content-Type": kind})
    assert refused.status_code == 422 and f"`Content-Type: application/json`, got {kind!r}" in refused.json()["message"]


def test_settings_tell_no_secret(client: httpx2.Client) -> None:
    told = client.get("/api/v1/settings").json()["data"]
    assert told["server.port"]["value"] == 8571
    assert not any("api_key" in name for name in told)


def test_docs_fetch_nothing_from_elsewhere(client: httpx2.Client) -> None:
    page = client.get("/docs").text
    assert "/api/v1/retrieval" in page and "https://" not in page and "<script" not in page


@pytest.mark.parametrize(
    ("given", "name"),
    [("../../etc/passwd", "passwd"), ("..\\..\\boot.ini", "boot.ini"), ("", "unnamed"), ("a\x00b.txt", "a_b.txt")],
)
def test_names_stay_names(given: str, name: str) -> None:
    assert safe_name(given) == name


def test_a_reader_who_leaves_frees_the_thread(server: Running, client: httpx2.Client) -> None:
    def leave() -> None:
        with (
            server.client(str(client.headers["authorization"]).split()[1]) as other,
            other.stream("POST", "/api/v1/ask", json={"question": "How long is the leave?", "stream": True}) as answer,
        ):
            next(answer.iter_raw())

    threads = [threading.Thread(target=leave) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = time.monotonic() + 20
    while "rag_generation_pool_taken 0.0" not in client.get("/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.1)
