"""A document may say of itself what only the server says: it is listed, counted and removed all the same."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Running

WORDS = {
    "part.md": "part_of: Volume 2",
    "hand.md": "manual_of: the handbook",
    "both.md": "part_of: Volume 2\nmanual_of: the handbook",
}


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[httpx2.Client]:
    with server.client(server.key("anna", rights="admin")) as found:
        yield found


@pytest.fixture
def dataset(client: httpx2.Client, settled: Any) -> Iterator[str]:
    """A dataset with three documents that claim to belong to others, and a passage that does belong to one."""
    id = client.post("/api/v1/datasets", json={"name": "claims"}).json()["data"]["id"]
    files = [
        ("file", (name, f"---\n{front}\n---\n\nThe azalea of {name} is white.".encode()))
        for name, front in WORDS.items()
    ]
    made = client.post(f"/api/v1/datasets/{id}/documents", files=files).json()["data"]
    assert [settled(client, one["job_id"])["state"] for one in made] == ["completed"] * 3
    added = {"content": "Azaleas are watered on Mondays."}
    answer = client.post(f"/api/v1/datasets/{id}/documents/{made[0]['id']}/chunks", json=added)
    assert answer.json()["data"]["chunk"]["manual"]
    yield id
    client.request("DELETE", "/api/v1/datasets", json={"ids": [id]})


def found(client: httpx2.Client, dataset: str) -> set[str]:
    asked = {"question": "azalea", "dataset_ids": [dataset], "page_size": 100}
    return {
        one["uri"].partition("#")[0] for one in client.post("/api/v1/retrieval", json=asked).json()["data"]["chunks"]
    }


def test_it_is_listed(client: httpx2.Client, dataset: str) -> None:
    listed = client.get(f"/api/v1/datasets/{dataset}/documents").json()["data"]["docs"]
    assert {one["name"] for one in listed} == set(WORDS)  # without the passage that was added to one
    files = client.get(f"/v1/vector_stores/{dataset}/files").json()["data"]
    assert {one["filename"] for one in files} == set(WORDS)
    assert client.get(f"/v1/vector_stores/{dataset}").json()["file_counts"]["completed"] == 3


def test_it_is_removed(client: httpx2.Client, dataset: str) -> None:
    path = f"/api/v1/datasets/{dataset}/documents"
    hand = client.get(path, params={"name": "hand.md"}).json()["data"]["docs"][0]["id"]
    assert client.request("DELETE", path, json={"ids": [hand]}).json()["data"] == {"deleted": 1}
    assert found(client, dataset) == {"upload:/part.md", "upload:/both.md"}
    assert client.request("DELETE", path, json={}).json()["data"] == {"deleted": 2}
    assert found(client, dataset) == set()


def test_it_does_not_go_with_the_document_that_it_names(client: httpx2.Client, dataset: str) -> None:
    path = f"/api/v1/datasets/{dataset}/documents"
    ids = {one["name"]: one["id"] for one in client.get(path).json()["data"]["docs"]}
    said = {"meta_fields": {"manual_of": ids["part.md"]}}
    assert client.put(f"{path}/{ids['hand.md']}", json=said).status_code == 200
    listed = client.get(f"{path}/{ids['part.md']}/chunks").json()["data"]["chunks"]
    assert [one["content"] for one in listed if "hand.md" in one["content"]] == []
    assert client.request("DELETE", path, json={"ids": [ids["part.md"]]}).json()["data"] == {"deleted": 1}
    assert found(client, dataset) == {"upload:/hand.md", "upload:/both.md"}
