"""Requests made from the OpenAPI document: no defect, no status and no shape that it does not name.

`make test` sends a few hundred of them, `make test-all` more than five thousand.
"""

import itertools
import secrets
import time
from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.server.conftest import Running

from headwater.server.app import create_app

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
FEW, MANY = 5, 90  # to each of some ninety routes; those without parameters are asked once
EACH = settings(
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def schema(server: Running) -> Any:
    """What the server says of itself."""
    return schemathesis.openapi.from_url(f"{server.base}/openapi.json", timeout=60)


def ground(server: Running, key: str) -> dict[str, str]:
    """Something that exists, for requests to be about; made again for every route, for some delete it."""
    with server.client(key) as client:
        name = f"ground {secrets.token_hex(4)}"
        dataset = client.post("/api/v1/datasets", json={"name": name}).json()["data"]["id"]
        files = [("file", ("a.md", b"# Water\n\nThe pump moves water."))]
        document = client.post(f"/api/v1/datasets/{dataset}/documents", files=files).json()["data"][0]
        end = time.monotonic() + 30
        while client.get(f"/api/v1/jobs/{document['job_id']}").json()["data"]["state"] != "completed":
            assert time.monotonic() < end
            time.sleep(0.02)
        passages = client.get(f"/api/v1/datasets/{dataset}/documents/{document['id']}/chunks").json()["data"]["chunks"]
        chat = client.post("/api/v1/chats", json={"name": name, "dataset_ids": [dataset]}).json()["data"]["id"]
        session = client.post(f"/api/v1/chats/{chat}/sessions", json={}).json()["data"]["id"]
        ids = {"dataset_id": dataset, "document_id": document["id"], "job_id": document["job_id"]}
        said = {"chat_id": chat, "session_id": session, "conversation_id": session}
        files = {"file": ("b.md", b"# Stone\n\nThe weir is of stone.")}
        sent = client.post("/v1/files", files=files, data={"purpose": "assistants"}).json()["id"]
        batch = client.post(f"/v1/vector_stores/{dataset}/file_batches", json={"file_ids": [sent]}).json()["id"]
    stored = {"vector_store_id": dataset, "file_id": sent, "batch_id": batch}
    return {**ids, **said, **stored, "chunk_id": passages[0]["id"]}


def send(schema: Any, server: Running, *, examples: int) -> Counter[int]:
    """So many requests to every route, two of three of them about something real; how many of each status."""
    seen: Counter[int] = Counter()
    key = server.key("local", rights="admin")
    real = ground(server, key)
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in sorted(operations, key=lambda one: (one.method == "delete", one.path, one.method)):
        if operation.method == "delete" and "{" in operation.path:
            real = ground(server, key)
        send_to(operation, real=real, key=key, seen=seen, examples=examples)
    return seen


def send_to(operation: Any, *, real: dict[str, str], key: str, seen: Counter[int], examples: int) -> None:
    count = itertools.count()

    @settings(EACH, max_examples=examples)
    @given(case=operation.as_strategy())
    def one(case: Any) -> None:
        if next(count) % 3 and isinstance(case.path_parameters, dict):
            case.path_parameters.update({k: v for k, v in real.items() if k in case.path_parameters})
        response = case.call(headers={"Authorization": f"Bearer {key}"})
        seen[response.status_code] += 1
        assert response.status_code != 500, response.text
        streamed = response.headers["content-type"][0].startswith("text/event-stream")
        # What a stream's events hold is not in the document; the tests of each stream read them.
        case.validate_response(response, checks=CHECKS[: -1 if streamed else None])

    one()


def test_no_request_finds_a_defect(schema: Any, server: Running) -> None:
    seen = send(schema, server, examples=FEW)
    assert sum(seen.values()) >= 200
    assert seen[200] > 20, seen


@pytest.mark.slow
def test_no_request_of_thousands_finds_a_defect(schema: Any, server: Running) -> None:
    seen = send(schema, server, examples=MANY)
    print(sum(seen.values()), sorted(seen.items()))  # for docs/reliability.md
    assert sum(seen.values()) >= 5_000, seen


def test_every_route_says_what_it_does_and_shows_an_example(tmp_path: Any) -> None:
    described = create_app(tmp_path / "home").openapi()
    models = described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for method, told in methods.items():
            assert told.get("summary") and told.get("description"), f"{method} {path}"
            body = told.get("requestBody", {}).get("content", {}).get("application/json")
            if body is not None and "$ref" in body["schema"]:
                assert models[body["schema"]["$ref"].rpartition("/")[2]].get("examples"), f"{method} {path}"
