"""A home whose vectors are in Milvus, as people use it: two settings, and then all the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.starter import headwater

from headwater.config import load
from headwater.testing.milvus_server import MilvusServer


@pytest.mark.system
def test_every_command_on_a_home_in_milvus(milvus_server: MilvusServer, tmp_path: Path, handbook: Path) -> None:
    home = tmp_path / "kb"
    secret = {"MILVUS_TOKEN": milvus_server.token}

    def run(*arguments: str, code: int = 0) -> str:
        outcome = headwater(*arguments, "--home", str(home), environment=secret)
        assert outcome.code == code, (arguments, outcome)
        return outcome.output

    def found(question: str, mode: str) -> list[str]:
        told: dict[str, Any] = json.loads(run("search", question, "--mode", mode, "--json"))
        assert (told["mode_used"], told["fallback_reason"], told["degraded"]) == (mode, None, [])
        return [Path(hit["uri"]).name for hit in told["hits"]]

    embed = "[embed]\nuse = 'hashed'\ndim = 64\n"
    settings = f"[vector_index]\nuse = 'milvus'\nuri = '{milvus_server.uri}'\ntoken = 'env:MILVUS_TOKEN'\n"
    home.mkdir()
    (home / "headwater.toml").write_text(settings + embed, encoding="utf-8")

    run("add", str(handbook))
    assert found("how many weeks of parental leave", "semantic")[0] == "leave.md"
    assert found("带薪年假", "hybrid")[0] == "年假.md"
    assert not list(home.rglob("*.tvim")), "no vectors in the home"

    run("remove", str(handbook / "pump.md"))
    assert "pump.md" not in found("PPR-9087", "semantic")

    # Another embedder is another space, and so another collection.
    (home / "headwater.toml").write_text(settings + embed.replace("64", "96"), encoding="utf-8")
    assert "overlap@10" in run("reindex")
    assert found("how many weeks of parental leave", "semantic")[0] == "leave.md"
    assert "all is well" in run("check")


def test_the_yaml_of_the_writing_platform_chooses_milvus(tmp_path: Path) -> None:
    file = tmp_path / "rag.yaml"
    file.write_text("rag:\n  milvus: {host: db.example, port: 19531}\n", encoding="utf-8")
    outcome = headwater("config", "import", str(file), "--home", str(tmp_path / "kb"), "--json")
    assert outcome.code == 0 and json.loads(outcome.output)["left"] == {}
    group, name, arguments = load(tmp_path / "kb").component("vector_index")
    assert (group, name, arguments) == ("vector_indexes", "milvus", {"uri": "http://db.example:19531"})


def test_settings_of_the_index_are_checked_where_they_are_written(tmp_path: Path) -> None:
    at = ("--home", str(tmp_path / "kb"))
    assert headwater("config", "set", "vector_index.use", "milvus", *at).code == 0
    assert headwater("config", "set", "vector_index.ef", "100", *at).code == 0
    wrong = headwater("config", "set", "vector_index.bits", "4", *at)
    assert wrong.code == 2 and "bits" in wrong.error and "ef_construction" in wrong.error
