"""Two servers with a folder each and one catalog in PostgreSQL: what one is given, the other answers with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
from tests.server.conftest import Running
from tests.starter import headwater

from headwater.errors import HomeLocked
from headwater.storage.postgres import PostgresCatalog

SETTINGS = '[catalog]\nuse = "postgres"\ncreate = true\n'
LEAVE = "Parents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full."
ANNUAL = "员工每年享有十五天带薪年假。年假须提前两周申请，由部门主管批准。"


def serving(folder: Path, url: str) -> Running:
    folder.mkdir(parents=True)
    (folder / "headwater.toml").write_text(SETTINGS, encoding="utf-8")
    return Running(folder, env={"DATABASE_URL": url})


def test_two_servers_share_a_catalog(
    tmp_path: Path, postgres_url: str, settled: Callable[[httpx2.Client, str], dict[str, Any]]
) -> None:
    first, second = serving(tmp_path / "one", postgres_url), serving(tmp_path / "two", postgres_url)
    try:
        with first.client() as here, second.client() as there:
            for client, uri, text in ((here, "note:leave", LEAVE), (there, "note:年假", ANNUAL)):
                told = client.post("/api/v1/ingest/text", json={"uri": uri, "text": text, "title": uri}).json()["data"]
                assert settled(client, told["job_id"])["state"] == "completed", told
            for client in (here, there):
                for question, wanted in (("weeks of parental leave", "26 weeks"), ("带薪年假有多少天", "十五天")):
                    found = client.post("/api/v1/retrieval", json={"question": question}).json()
                    assert wanted in json.dumps(found["data"], ensure_ascii=False), found
                said = client.post("/api/v1/ask", json={"question": "员工每年有多少天带薪年假？"}).json()
                assert "十五天" in json.dumps(said["data"], ensure_ascii=False), said
            assert not (tmp_path / "one" / "catalog.sqlite").exists()
            # What a command takes away from one folder is gone for both servers.
            folder, environment = str(tmp_path / "two"), {"DATABASE_URL": postgres_url}
            done = headwater("remove", "note:leave", "--home", folder, environment=environment)
            assert done.code == 0, done.error
            for client in (here, there):
                found = client.post("/api/v1/retrieval", json={"question": "weeks of parental leave"}).json()
                assert "26 weeks" not in json.dumps(found["data"])
    finally:
        assert [first.stop(), second.stop()] == [0, 0]
    catalog = PostgresCatalog(tmp_path / "catalog", url=postgres_url)
    try:
        assert catalog.check() == [] and catalog.pending() == 0
        lock = catalog.lock("write")
        try:
            lock.acquire(timeout_seconds=5.0)
        except HomeLocked as error:
            raise AssertionError("a server that ended still holds the lock") from error
        lock.release()
    finally:
        catalog.close_store()
