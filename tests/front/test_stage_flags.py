"""The stages of a search on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headwater import cli
from headwater.build import open_home
from headwater.commands.flags import Duration


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("flags") / "kb"
    with open_home(where) as kb:
        kb.add_text("The dam opened in 1936. It is 221 metres tall.", uri="dam.txt")
        kb.add_text("The dam opened in 1936. It is 221 metres tall.", uri="copy.txt")
        kb.add_text("员工每年享有十五天带薪年假。", uri="leave.txt")
    return where


def run(home: Path, *arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli.cli, [*arguments, "--home", str(home), "--json"])
    if result.exception:
        raise result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_default_reranks_and_none_does_not(home: Path) -> None:
    assert "rerank" in run(home, "search", "dam")["hits"][0]["scores"]
    assert "rerank" not in run(home, "search", "dam", "--rerank", "none")["hits"][0]["scores"]


@pytest.mark.parametrize(
    ("flags", "stage"),
    [(["--mmr"], "mmr"), (["--mmr", "0.5"], "mmr"), (["--collapse"], "collapse"), (["--window", "1"], "window"),
     (["--parent"], "parent"), (["--feedback"], "feedback"), (["--synonyms"], "rewrite")],
)  # fmt: skip
def test_each_flag_switches_its_stage_on(home: Path, flags: list[str], stage: str) -> None:
    assert stage not in run(home, "search", "dam")["timings_ms"]
    found = run(home, "search", "dam", *flags)
    assert stage in found["timings_ms"]
    assert found["degraded"] == []


def test_copies_are_one(home: Path) -> None:
    assert len(run(home, "search", "dam opened", "--mode", "keyword")["hits"]) == 2
    (hit,) = run(home, "search", "dam opened", "--mode", "keyword", "--collapse")["hits"]
    assert any(reason.startswith("also in: ") for reason in hit["reasons"])


def test_what_needs_a_model_is_told(home: Path) -> None:
    for flag in ("--rewrite", "--hyde"):
        (note,) = run(home, "search", "dam", flag)["degraded"]
        assert note == f"{flag[2:]} skipped: no language model is set up"


def test_a_budget_that_is_too_small_leaves_stages_out_and_says_so(home: Path) -> None:
    found = run(home, "search", "dam", "--budget", "1ms")
    assert found["hits"]
    assert any(note.startswith("rerank skipped") for note in found["degraded"])
    assert run(home, "search", "dam", "--budget", "20s")["degraded"] == []
    answer = run(home, "ask", "When did the dam open?", "--budget", "1ms")
    assert any("rerank skipped" in note for note in answer["degraded"])


def test_substring_mode(home: Path) -> None:
    assert [hit["uri"] for hit in run(home, "search", "带薪", "--mode", "substring")["hits"]] == ["leave.txt"]


def test_an_unknown_reranker_is_refused_with_those_that_exist(home: Path) -> None:
    result = CliRunner().invoke(cli.cli, ["search", "dam", "--rerank", "nothing", "--home", str(home)])
    assert "builtin" in str(result.exception)


@pytest.mark.parametrize(("text", "seconds"), [("200ms", 0.2), ("1.5s", 1.5), ("2", 2.0), (" 1 M ", 60.0)])
def test_times(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0", "0ms", "-1s", "soon", "1y", "ms", "1e3s", "nan"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match="200ms"):
        Duration().convert(text, None, None)


def test_a_typo_is_found_and_told(home: Path) -> None:
    assert run(home, "search", "metrres", "--mode", "keyword", "--no-typos")["hits"] == []
    found = run(home, "search", "metrres", "--mode", "keyword")
    assert found["corrected"] == {"metrres": "metres"}
    assert "typed otherwise: metrres → metres" in found["hits"][0]["reasons"]
    assert run(home, "ask", "how many metrres tall is the dam?")["corrected"] == {"metrres": "metres"}
    for command in ("search", "ask"):
        shown = CliRunner().invoke(cli.cli, [command, "metrres of the dam", "--home", str(home)])
        assert "nothing has the word 'metrres'; 'metres' was asked for instead" in shown.stderr
