"""Subscriptions over HTTP: made, looked at, listed, removed; each owner's own, and none of private networks."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import Running
from tests.server.test_refresher import ALLOWED, feed, page, texts, until

from headwater.storage.subscriptions import Subscriptions
from headwater.testing.web_server import Site


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


def test_a_feed_is_subscribed_to_looked_at_and_left(tmp_path: Path, site: Site) -> None:
    site.pages["/feed"] = feed(site, "first")
    site.pages["/first"] = page("The first report of the weir.")
    server = Running(tmp_path / "home", env=ALLOWED)
    with server.client() as client:
        asked = {"url": site.url("/feed"), "every_seconds": 3600, "collection": "news", "tags": ["weir"]}
        made = client.post("/api/v1/subscriptions", json=asked).json()["data"]
        assert (made["url"], made["collection"], made["tags"], made["every_seconds"]) == (*_of(asked), 3600)
        until(client, "report weir", "first report")
        (found,) = client.get("/api/v1/subscriptions").json()["data"]
        end = time.monotonic() + 20
        while not found["checked"] and time.monotonic() < end:
            time.sleep(0.1)
            (found,) = client.get("/api/v1/subscriptions").json()["data"]
        assert (
            found["id"] == made["id"] and found["checked"] and found["error"] == "" and found["due"] > found["checked"]
        )
        (hit,) = client.post("/api/v1/retrieval", json={"question": "report", "collections": ["news"]}).json()["data"][
            "chunks"
        ]
        assert hit["meta"]["tags"] == ["weir"] and hit["meta"]["listed_in"] == site.url("/feed")
        # The same again is looked at again, at once.
        site.pages["/feed"] = feed(site, "first", "second")
        site.pages["/second"] = page("The second report of the weir.")
        assert client.post("/api/v1/subscriptions", json=asked).json()["data"]["id"] == made["id"]
        until(client, "report weir", "second report")
        assert client.delete(f"/api/v1/subscriptions/{made['id']}").status_code == 200
        assert client.get("/api/v1/subscriptions").json()["data"] == []
        assert client.delete(f"/api/v1/subscriptions/{made['id']}").status_code == 404
        assert "first report" in " ".join(texts(client, "report weir"))  # what it brought stays
    assert server.stop() == 0


def _of(asked: dict[str, Any]) -> tuple[str, str, list[str]]:
    return asked["url"], asked["collection"], asked["tags"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"url": "http://127.0.0.1:1/feed"}, 400),
        ({"url": "http://169.254.169.254/"}, 400),
        ({"url": "file:///etc/passwd"}, 400),
        ({"url": "https://user:secret@example.org/"}, 400),
        ({"url": "https://example.org/", "every_seconds": 5}, 422),
        ({"url": "https://example.org/", "dataset_id": "unknown"}, 404),
        ({}, 422),
    ],
)
def test_what_cannot_be_subscribed_to(server: Running, body: dict[str, Any], status: int) -> None:
    with server.client() as client:
        assert client.post("/api/v1/subscriptions", json=body).status_code == status
        assert client.get("/api/v1/subscriptions").json()["data"] == []


def test_each_sees_and_removes_its_own(tmp_path: Path) -> None:
    server = Running(tmp_path / "home", arguments=("--no-worker",))
    keys = {
        "anna": server.key("anna", rights="write"),
        "ben": server.key("ben", rights="write"),
        "reader": server.key("anna", rights="read"),
        "narrow": server.key("anna", rights="write", collections=("beta",)),
    }
    clients = {name: server.client(key) for name, key in keys.items()}
    asked = {"url": "https://example.org/feed", "collection": "alpha"}
    made = clients["anna"].post("/api/v1/subscriptions", json=asked).json()["data"]
    seen = {name: client.get("/api/v1/subscriptions").json()["data"] for name, client in clients.items()}
    assert {name: len(found) for name, found in seen.items()} == {"anna": 1, "ben": 0, "reader": 1, "narrow": 0}
    removed = {
        name: client.delete(f"/api/v1/subscriptions/{made['id']}") for name, client in clients.items() if name != "anna"
    }
    assert {name: answer.status_code for name, answer in removed.items()} == {"ben": 404, "reader": 403, "narrow": 404}
    assert clients["reader"].post("/api/v1/subscriptions", json=asked).status_code == 403
    assert clients["narrow"].post("/api/v1/subscriptions", json=asked).status_code == 403
    # It goes with its dataset, which the next look would make again.
    assert clients["anna"].get("/api/v1/datasets", params={"name": "alpha"}).status_code == 200
    clients["ben"].post("/api/v1/subscriptions", json=asked)
    assert clients["anna"].request("DELETE", "/api/v1/datasets", json={"ids": None}).status_code == 200
    assert [one.owner for one in Subscriptions(server.home).all()] == ["ben"]
    for client in clients.values():
        client.close()
    assert server.stop() == 0
