"""Tuning over HTTP: what is tried, what is applied to the home or to a collection, and how it is taken back."""

import time
import tomllib
from typing import Any

import pytest
from tests.server.conftest import Running

TEXTS = {
    "gate.md": "# Gate\n\nThe sluice gate opens at six.\n",
    "weir.md": "# Weir\n\nThe old weir is mended in May.\n",
}


@pytest.fixture(scope="module")
def desk(server: Running, settled: Any) -> Any:
    """Documents in a collection whose name is no bare key of TOML, and one question that was marked."""
    server.key("root", rights="admin")
    anna, ben = server.client(server.key("anna", rights="admin")), server.client(server.key("ben", rights="write"))
    dataset = anna.post("/api/v1/datasets", json={"name": "堤坝 v1.2"}).json()["data"]["id"]
    files = [("file", (name, text.encode())) for name, text in TEXTS.items()]
    sent = anna.post(f"/api/v1/datasets/{dataset}/documents", files=files).json()["data"]
    for one in sent:
        assert settled(anna, one["job_id"])["state"] == "completed"
    yield {"anna": anna, "ben": ben, "gate": sent[0]["id"], "home": server.home}
    anna.close()
    ben.close()


def told(answer: Any) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def tuned(anna: Any, **given: Any) -> Any:
    made = told(anna.post("/api/v1/tunings", json=given))
    until = time.monotonic() + 120
    while (run := told(anna.get(f"/api/v1/tunings/{made['id']}")))["state"] == "running":
        assert time.monotonic() < until
        time.sleep(0.1)
    assert run["state"] == "done", run["note"]
    return run


def file_of(desk: Any) -> Any:
    path = desk["home"] / "headwater.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def found(anna: Any, question: str, **given: Any) -> Any:
    return told(anna.post("/api/v1/retrieval", json={"question": question, **given}))


def test_a_set_is_tuned_applied_to_the_home_and_taken_back(desk: Any) -> None:
    anna = desk["anna"]
    run = tuned(anna, set="station", mode=["hybrid", "semantic"], top_n=[8, 3])
    assert [way["changes"] for way in run["ways"]] == [
        {},
        {"top_n": 3},
        {"mode": "semantic"},
        {"mode": "semantic", "top_n": 3},
    ]
    assert run["questions"] > 10 and run["ways"][0]["figures"]["ndcg@10"] > 0.8
    way = run["ways"][3]["differences"]["page"]
    assert way["low"] <= way["mean"] <= way["high"]
    applied = told(anna.post(f"/api/v1/tunings/{run['id']}/apply", json={"way": 3}))
    assert applied["stands"] and file_of(desk) == {"retrieve": {"mode": "semantic", "top_n": 3}}
    assert found(anna, "When does the gate open?")["mode_used"] == "semantic"  # at once
    shown = told(anna.get("/api/v1/settings"))["retrieve.mode"]
    assert shown["value"] == "semantic" and shown["origin"].endswith("headwater.toml")
    assert anna.post(f"/api/v1/tunings/{run['id']}/apply", json={"way": 3}).status_code == 409  # it is so already
    assert told(anna.delete(f"/api/v1/applied/{applied['id']}"))["left"] == []
    assert file_of(desk) == {} and found(anna, "When does the gate open?")["mode_used"] == "hybrid"
    assert anna.delete(f"/api/v1/applied/{applied['id']}").status_code == 404


def test_what_people_marked_is_tuned_on_and_a_collection_has_its_own(desk: Any) -> None:
    anna = desk["anna"]
    assert anna.post("/api/v1/tunings", json={"set": "feedback", "top_n": [3, 5]}).status_code == 404  # nothing yet
    question = "When does the sluice gate open?"
    said = {"kind": "click", "value": 1, "query": question, "document_id": desk["gate"]}
    told(anna.post("/api/v1/feedback", json=said))
    assert told(anna.get("/api/v1/tunings"))["said"] == 1
    run = tuned(anna, set="feedback", collection="堤坝 v1.2", mode=["hybrid", "keyword"])
    assert run["questions"] == 1 and run["ways"][0]["figures"]["mrr@10"] == 1
    (desk["home"] / "headwater.toml").write_text("# mine\n[retrieve]\ntop_n = 7\n", encoding="utf-8")
    chosen = {"way": 1, "collection": "堤坝 v1.2"}
    applied = told(anna.post(f"/api/v1/tunings/{run['id']}/apply", json=chosen))
    assert file_of(desk) == {"retrieve": {"top_n": 7}, "collection": {"堤坝 v1.2": {"mode": "keyword"}}}
    assert found(anna, question, collections=["堤坝 v1.2"])["mode_used"] == "keyword"
    assert found(anna, question)["mode_used"] == "hybrid"
    assert (
        found(anna, question, collections=["堤坝 v1.2"], mode="semantic")["mode_used"] == "semantic"
    )  # a request wins
    assert told(anna.delete(f"/api/v1/applied/{applied['id']}"))["back"] == ["collection.堤坝 v1.2.mode"]
    assert (desk["home"] / "headwater.toml").read_text(encoding="utf-8") == "# mine\n[retrieve]\ntop_n = 7\n"
    told(anna.post("/api/v1/feedback", json={**said, "value": 0}))  # taken back
    assert told(anna.get("/api/v1/tunings"))["said"] == 0


def test_what_somebody_changed_since_stays(desk: Any) -> None:
    anna, file = desk["anna"], desk["home"] / "headwater.toml"
    run = tuned(anna, set="station", mode=["keyword"], top_n=[4])
    applied = told(anna.post(f"/api/v1/tunings/{run['id']}/apply", json={"way": 1}))
    file.write_text(file.read_text(encoding="utf-8").replace("top_n = 4", "top_n = 6"), encoding="utf-8")
    assert not told(anna.get("/api/v1/tunings"))["applied"][0]["stands"]
    undone = told(anna.delete(f"/api/v1/applied/{applied['id']}"))
    assert (undone["back"], undone["left"]) == (["retrieve.mode"], ["retrieve.top_n"])
    assert file_of(desk)["retrieve"] == {"top_n": 6}


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"set": "nosuch", "top_n": [3, 5]}, 404),
        ({"set": "station"}, 400),
        ({"set": "station", "top_n": [3], "mode": ["nosuch"]}, 422),
        ({"set": "station", "keyword_weight": [n / 10 for n in range(11)], "top_n": list(range(1, 11))}, 400),
        ({"set": "feedback", "collection": "nosuch", "top_n": [3, 5]}, 404),
    ],
)
def test_wrong_requests_are_refused(desk: Any, given: dict[str, Any], status: int) -> None:
    assert desk["anna"].post("/api/v1/tunings", json=given).status_code == status
    assert desk["ben"].post("/api/v1/tunings", json=given).status_code in (403, 422)
    assert desk["ben"].get("/api/v1/tunings").status_code == 403
