"""The routes of the page: what they show, and that they show nobody what is not theirs."""

import io
import time
from typing import Any

import pytest
from reportlab.pdfgen.canvas import Canvas
from tests.server.conftest import Running

TEXT = (
    "# Pump\n\nThe pump moves water.\n\n| Part | Days |\n|---|---|\n| Screen | 7 |\n\n"
    "## Parts\n\n🌧 The screen is steel.\n"
)


def pdf() -> bytes:
    out = io.BytesIO()
    canvas = Canvas(out, pagesize=(400, 300))
    canvas.drawString(100, 200, "The valve closes within nine seconds.")
    canvas.showPage()
    canvas.save()
    return out.getvalue()


@pytest.fixture(scope="module")
def shelf(server: Running, settled: Any) -> Any:
    """Two owners; the first has a Markdown file, a PDF, and a picture that is none."""
    server.key("root", rights="admin")
    anna, ben = server.client(server.key("anna", rights="admin")), server.client(server.key("ben", rights="write"))
    dataset = anna.post("/api/v1/datasets", json={"name": "papers"}).json()["data"]["id"]
    files = [("file", ("pump.md", TEXT.encode())), ("file", ("valve.pdf", pdf()))]
    sent = anna.post(f"/api/v1/datasets/{dataset}/documents", files=files).json()["data"]
    for one in sent:
        assert settled(anna, one["job_id"])["state"] == "completed"
    yield {"anna": anna, "ben": ben, "pump": sent[0]["id"], "valve": sent[1]["id"], "dataset": dataset}
    anna.close()
    ben.close()


def test_a_stretch_is_whole_lines_of_the_text(shelf: Any) -> None:
    told = (
        shelf["anna"].get(f"/api/v1/documents/{shelf['pump']}/stretch", params={"start": 10, "end": 12}).json()["data"]
    )
    assert told["text"] == TEXT[told["start"] : told["end"]] == "The pump moves water.\n"
    whole = shelf["anna"].get(f"/api/v1/documents/{shelf['pump']}/stretch").json()["data"]
    assert whole["text"] == TEXT and whole["total"] == len(TEXT)
    assert [one["title"] for one in whole["sections"]] == ["Pump", "Parts"]
    assert [one["kind"] for one in whole["blocks"]] == ["table"]


def test_the_facts_of_a_document(shelf: Any) -> None:
    told = shelf["anna"].get(f"/api/v1/documents/{shelf['valve']}").json()["data"]
    assert (told["kind"], told["pictures"], told["original"], told["collection"]) == ("PDF", True, True, "papers")
    assert told["page_starts"] == [0]
    passages = shelf["anna"].get(f"/api/v1/documents/{shelf['valve']}/passages").json()["data"]
    assert passages["total"] == 1 and passages["passages"][0]["pages"] == [1]


def test_a_page_is_drawn_and_a_passage_is_where_it_was_written(shelf: Any) -> None:
    picture = shelf["anna"].get(f"/api/v1/documents/{shelf['valve']}/pages/1", params={"width": 200})
    assert picture.headers["content-type"] == "image/png"
    assert int.from_bytes(picture.content[16:20], "big") == 200
    params = {"start": 0, "end": 10}
    told = shelf["anna"].get(f"/api/v1/documents/{shelf['valve']}/boxes", params=params).json()["data"]
    assert told["text"] == "The valve "
    (line,) = told["lines"]
    assert line["page"] == 1 and 0.24 < line["left"] < 0.26  # 100 of 400 points
    assert 0.28 < line["top"] < line["bottom"] < 0.36  # the baseline is at 100 of 300, from the top
    assert shelf["anna"].get(f"/api/v1/documents/{shelf['valve']}/pages/2").status_code == 404
    assert shelf["anna"].get(f"/api/v1/documents/{shelf['pump']}/pages/1").status_code == 404


def test_where_a_questions_words_stand(shelf: Any) -> None:
    texts = ["The pump moves water.", "水泵抽水。", "nothing"]
    told = shelf["ben"].post("/api/v1/matches", json={"question": "pumps 水泵", "texts": texts}).json()["data"]
    assert [texts[0][a:b] for a, b in told[0]] == ["pump"]
    assert told[2] == []


@pytest.mark.parametrize("rest", ["", "/stretch", "/passages", "/boxes?start=0&end=5", "/pages/1"])
def test_nobody_sees_a_document_of_another(shelf: Any, rest: str) -> None:
    for name in ("pump", "valve"):
        assert shelf["ben"].get(f"/api/v1/documents/{shelf[name]}{rest}").status_code == 404
    assert shelf["ben"].post(f"/api/v1/documents/{shelf['pump']}/reindex").status_code == 404
    asked = {"question": "pump", "document": shelf["pump"]}
    assert shelf["ben"].post("/api/v1/why", json=asked).status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/keys", "/api/v1/system", "/api/v1/trials", "/api/v1/settings"])
def test_what_is_of_the_whole_server_needs_the_right_to_it(shelf: Any, server: Running, path: str) -> None:
    assert shelf["anna"].get(path).status_code == 200
    assert shelf["ben"].get(path).status_code == 403
    with server.client() as nobody:
        assert nobody.get(path).status_code == 401


def test_a_job_is_listed_with_the_title_of_its_document(shelf: Any) -> None:
    jobs = shelf["anna"].get("/api/v1/jobs").json()["data"]["jobs"]
    assert {job["document_id"]: job["title"] for job in jobs}[shelf["pump"]] == "Pump"


def test_a_document_is_indexed_again(shelf: Any, settled: Any) -> None:
    job = shelf["anna"].post(f"/api/v1/documents/{shelf['pump']}/reindex").json()["data"]["job_id"]
    assert settled(shelf["anna"], job)["state"] == "completed"


def test_a_conversation_is_kept_and_says_when_it_is_stale(shelf: Any, settled: Any) -> None:
    anna, ben = shelf["anna"], shelf["ben"]
    answer = anna.post("/api/v1/conversations", json={"question": "What does the pump move?"}).json()["data"]
    id = answer["conversation_id"]
    assert answer["citations"][0]["quote"] == "The pump moves water."
    kept = anna.get(f"/api/v1/conversations/{id}").json()["data"]
    assert [turn["role"] for turn in kept["turns"]] == ["user", "assistant"]
    assert kept["turns"][1]["stale"] == []
    assert ben.get(f"/api/v1/conversations/{id}").status_code == 404
    assert ben.post("/api/v1/conversations", json={"question": "And?", "conversation_id": id}).status_code == 404
    assert ben.get("/api/v1/conversations").json()["data"]["conversations"] == []
    for text, stale in ((TEXT.replace("water", "sand"), ["Pump"]), (TEXT, [])):
        files = [("file", ("pump.md", text.encode()))]
        sent = anna.post(f"/api/v1/datasets/{shelf['dataset']}/documents", files=files).json()["data"]
        settled(anna, sent[0]["job_id"])
        assert anna.get(f"/api/v1/conversations/{id}").json()["data"]["turns"][1]["stale"] == stale
    found = anna.get("/api/v1/conversations", params={"q": "pump move"}).json()["data"]["conversations"]
    assert [one["id"] for one in found] == [id]
    assert anna.put(f"/api/v1/conversations/{id}", json={"title": "Pumps"}).status_code == 200
    assert anna.get(f"/api/v1/conversations/{id}").json()["data"]["title"] == "Pumps"
    assert anna.delete(f"/api/v1/conversations/{id}").status_code == 200
    assert anna.get(f"/api/v1/conversations/{id}").status_code == 404


def test_a_key_for_some_collections_reads_no_answer_from_another(shelf: Any, server: Running) -> None:
    anna = shelf["anna"]
    answer = anna.post("/api/v1/conversations", json={"question": "How fast does the valve close?"}).json()["data"]
    assert answer["citations"]
    path = f"/api/v1/conversations/{answer['conversation_id']}"
    with server.client(server.key("anna", collections=["other"])) as narrow:
        assert narrow.get(path).status_code == 404
    assert "nine seconds" in anna.get(path).text


def test_the_sample_is_measured_in_the_background(shelf: Any) -> None:
    anna = shelf["anna"]

    def ended(id: str) -> dict[str, Any]:
        until = time.monotonic() + 240
        while (run := anna.get(f"/api/v1/trials/{id}").json()["data"])["state"] == "running":
            assert time.monotonic() < until
            time.sleep(0.2)
        found: dict[str, Any] = run
        return found

    for _ in range(10):
        made = anna.post("/api/v1/trials", json={"set": "station", "preset": "fast"}).json()["data"]
        second = anna.post("/api/v1/trials", json={"set": "station"})
        if second.status_code == 409:
            break
        # On a busy machine the first may be over before the second is read.
        for id in (made["id"], second.json()["data"]["id"]):
            ended(id)
            anna.delete(f"/api/v1/trials/{id}")
    assert second.status_code == 409
    assert anna.post("/api/v1/trials", json={"set": "../x"}).status_code == 404
    run = ended(made["id"])
    assert run["state"] == "done", run["note"]
    assert set(run["modes"]) == {"keyword", "semantic", "hybrid"}
    assert run["modes"]["hybrid"]["summary"]["ndcg@10"] > 0.8
    assert sum(count for _, count in run["modes"]["hybrid"]["latency"]) == run["modes"]["hybrid"]["summary"]["queries"]
    params = {"against": made["id"]}
    compared = anna.get(f"/api/v1/trials/{made['id']}", params=params).json()["data"]["compared"]
    assert compared["hybrid"]["mean"] == 0
    assert anna.delete(f"/api/v1/trials/{made['id']}").status_code == 200
    assert anna.get("/api/v1/trials").json()["data"]["runs"] == []


def test_the_page_is_sent_small_and_once(server: Running) -> None:
    with server.client() as client:
        first = client.get("/app.js")
        assert first.headers["content-encoding"] == "gzip"
        again = client.get("/app.js", headers={"If-None-Match": first.headers["etag"]})
        assert again.status_code == 304
        assert client.get("/../views.py").status_code == 404
