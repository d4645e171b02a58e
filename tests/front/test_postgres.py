"""A home whose settings name PostgreSQL, through the command line: the same verbs, the same answers, clear refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.starter import headwater

from headwater.build import open_home
from headwater.cli import cli
from headwater.effective import effective_settings
from headwater.errors import BackendError, HeadwaterError, HomeLocked, SettingError
from headwater.sample import copy_to, questions
from headwater.storage.postgres import PostgresCatalog
from headwater.testing.postgres_server import PostgresServer

TWO_LINES = '[catalog]\nuse = "postgres"\n'
Run = Callable[..., Any]


def run(*arguments: str, code: int = 0) -> Any:
    """In this process, for speed; errors as they are raised."""
    outcome = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=True)
    if isinstance(outcome.exception, HeadwaterError):
        raise outcome.exception
    assert outcome.exit_code == code, outcome.output
    return json.loads(outcome.stdout)


@pytest.fixture
def home(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Made by two lines of settings and an address in the environment."""
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    home = tmp_path / "kb"
    home.mkdir()
    (home / "headwater.toml").write_text(f"{TWO_LINES}create = true\n", encoding="utf-8")
    return str(home)


def test_every_verb_works_over_postgresql(
    home: str, handbook: Path, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    at = ("--home", home)
    assert run("add", str(handbook), *at)["added"] == 4
    assert run("add", str(handbook), *at)["unchanged"] == 4
    assert not (Path(home) / "catalog.sqlite").exists()
    assert not list(Path(home).glob("text-*")) and not list(Path(home).glob("vectors-*"))

    listed = {one["title"]: one["id"] for one in run("list", *at)}
    assert "年假制度" in listed and len(listed) == 4
    found = run("search", "parental leave weeks", *at)["hits"]
    assert "26 weeks" in found[0]["text"]
    assert "PPR-9087" in run("search", "PPR-9087", "--where", "tag = ops", *at)["hits"][0]["text"]
    asked = run("ask", "员工每年有多少天带薪年假？", *at)
    assert "十五天" in json.dumps(asked, ensure_ascii=False) and asked["citations"]
    assert "7.42" in json.dumps(run("ask", "How high was the flood of 1998?", *at))
    assert "十五天带薪年假" in json.dumps(run("show", listed["年假制度"], *at), ensure_ascii=False)

    told = run("status", *at)
    port = postgres_server.port
    assert told["catalog"]["use"] == "postgres" and told["catalog"]["host"] == f"127.0.0.1:{port}"
    assert told["catalog"]["schema"] == "headwater" and told["catalog"]["database"].startswith("test_")
    assert (told["documents"], told["pending"]) == (4, 0)
    plain = CliRunner().invoke(cli, ["status", *at])
    assert f"postgres, host 127.0.0.1:{port}, database test_" in plain.stdout
    assert postgres_server.password not in plain.stdout + json.dumps(told)

    assert run("check", *at)["problems"] == []
    assert run("remove", listed["Pump manual"], *at)["removed"] == 1
    assert run("search", "PPR-9087", "--mode", "keyword", *at)["hits"] == []
    run("config", "set", "chunk.use", "sentence", *at)
    assert run("reindex", *at)["documents"] == 3
    assert "26 weeks" in run("search", "parental leave weeks", *at)["hits"][0]["text"]
    assert run("check", *at)["problems"] == []
    assert run("pack", str(tmp_path / "home.zip"), *at)["documents"] == 3
    there = run("unpack", str(tmp_path / "home.zip"), "--diff", *at)
    assert (there["same"], there["different"], there["only_in_pack"], there["settings"]) == (3, [], [], [])


def test_the_sample_is_answered_as_over_sqlite(home: str, tmp_path: Path) -> None:
    sample = tmp_path / "sample"
    copy_to(sample)
    with open_home(home) as served, open_home(tmp_path / "file") as file:
        assert served.add(sample).added == file.add(sample).added > 10
        assert served.status()["chunks"] == file.status()["chunks"]
        asked = [question["text"] for question in questions()]
        assert len(asked) >= 3
        for question in asked:
            one, other = served.ask(question), file.ask(question)
            assert one.text == other.text, question
            assert [c.quote for c in one.citations] == [c.quote for c in other.citations]


def test_the_indexes_follow_the_catalog_where_nothing_is_said(home: str, postgres_url: str) -> None:
    found = effective_settings(Path(home))
    assert {found[f"{section}.use"].value for section in ("text_index", "vector_index")} == {"postgres"}
    assert found["text_index.use"].origin == "catalog.use" and found["catalog.create"].value is True
    with pytest.raises(BackendError, match="holds no catalog"):  # looking at settings made none
        PostgresCatalog(home, url=postgres_url)
    assert found["catalog.url"].value == "env:DATABASE_URL"
    settings = f'{TWO_LINES}url = "{postgres_url}"\nschema = "other"\n[text_index]\nuse = "tantivy"\n'
    (Path(home) / "headwater.toml").write_text(settings, encoding="utf-8")
    found = effective_settings(Path(home))
    assert found["text_index.use"].value == "tantivy" and "text_index.url" not in found
    assert (found["vector_index.use"].value, found["vector_index.schema"].value) == ("postgres", "other")
    assert found["vector_index.url"].value == found["catalog.url"].value
    assert "(not shown)@127.0.0.1" in found["catalog.url"].value


def test_an_address_may_stand_in_the_homes_own_file(
    home: str, postgres_url: str, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL")
    with pytest.raises(SettingError, match="DATABASE_URL"):
        open_home(home)
    (Path(home) / ".env").write_text(f"DATABASE_URL={postgres_url}\n", encoding="utf-8")
    with open_home(home) as kb:
        assert kb.add(handbook / "pump.md").added == 1
        assert kb.search("PPR-9087").hits


def test_an_address_in_the_environment_alone_changes_nothing(
    tmp_path: Path, postgres_url: str, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    with open_home(tmp_path / "kb") as kb:
        kb.add(handbook / "pump.md")
        assert kb.status()["catalog"] == {"use": "sqlite", "file": str(tmp_path / "kb" / "catalog.sqlite")}
    assert (tmp_path / "kb" / "catalog.sqlite").exists()


def test_what_is_wrong_is_said_without_the_password(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    home = tmp_path / "kb"
    home.mkdir()
    database = postgres_url.rpartition("/")[2]
    (home / "headwater.toml").write_text(TWO_LINES, encoding="utf-8")
    secret = postgres_server.password

    def refused(url: str, *words: str, code: int = 1) -> None:
        outcome = headwater("status", "--home", str(home), environment={"DATABASE_URL": url})
        assert outcome.code == code, outcome
        assert secret not in outcome.error and "Traceback" not in outcome.error
        for word in words:
            assert word in outcome.error, outcome.error

    place = f"127.0.0.1:{postgres_server.port}"
    refused(postgres_url, place, database, "'headwater'", "catalog.create = true")
    refused(postgres_server.address(database, password="wrong"), place, "password")
    refused(postgres_server.address("nowhere"), place, "nowhere", "createdb")
    refused(f"postgresql://name:{secret}@127.0.0.1:9/{database}", "127.0.0.1:9", "see that the server runs")
    refused(f"mysql://name:{secret}@localhost/x", "postgresql://", code=2)


def test_settings_can_be_looked_at_while_the_server_is_away(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://name:secret@127.0.0.1:9/none")
    assert run("config", "show", "--home", home)["catalog.use"] == "postgres"
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:9, database none"):
        run("search", "river", "--home", home)


def test_forgetting_leaves_nothing_in_the_database(home: str, handbook: Path, postgres_url: str) -> None:
    with open_home(home) as kb:
        kb.add(handbook)
        [record] = [one for one in kb.documents() if one.title == "Pump manual"]
        kb.forget(record.id)
        assert kb.search("PPR-9087", mode="keyword").hits == () or not kb.search("PPR-9087", mode="keyword").hits
        assert kb.check() == []
        assert len(kb.documents()) == 3
    import psycopg

    with psycopg.connect(postgres_url) as db:
        bodies = b"".join(row[0] for row in db.execute("select body from headwater.text"))
        assert b"flood" in bodies and b"PPR-9087" not in bodies
        assert db.execute("select count(*) from headwater.idle").fetchone() == (0,)


def test_one_writer_among_all_processes(home: str, handbook: Path) -> None:
    with open_home(home) as one, open_home(home) as other:
        with one.writing(), pytest.raises(HomeLocked, match="this process"), other.writing():
            raise AssertionError
        with other.writing():
            assert other.add(handbook / "pump.md").added == 1
        assert one.search("PPR-9087").hits
