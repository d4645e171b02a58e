"""The command line as a person uses it: output, JSON shapes, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.starter import headwater

from headwater.build import open_home
from headwater.testing.command import Outcome


@pytest.fixture
def home(tmp_path: Path, handbook: Path) -> Path:
    home = tmp_path / "kb"
    assert headwater("add", str(handbook), "--home", str(home)).code == 0
    return home


def loaded(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.error
    return json.loads(outcome.output)


def test_add_is_idempotent_and_follows_changes(tmp_path: Path, handbook: Path) -> None:
    home = str(tmp_path / "kb")
    add = ("add", str(handbook), "--json", "--home", home)
    first = loaded(headwater(*add))
    assert (first["added"], first["updated"], first["unchanged"], first["removed"]) == (4, 0, 0, 0)
    assert first["failed"] == []
    assert loaded(headwater(*add))["unchanged"] == 4

    (handbook / "notes.txt").write_text("The flood of 1999 was smaller.\n", encoding="utf-8")
    (handbook / "pump.md").rename(handbook / "pump-manual.md")
    (handbook / "年假.md").unlink()
    third = loaded(headwater(*add))
    assert (third["added"], third["updated"], third["unchanged"]) == (1, 1, 1)
    assert third["removed"] == 1, "the moved file took its old place with it"
    assert [Path(uri).name for uri in third["missing"]] == ["年假.md"]

    dry = loaded(headwater(*add, "--prune", "--dry-run"))
    assert dry["removed"] == 1
    assert len(loaded(headwater("list", "--json", "--home", home))) == 4
    assert loaded(headwater(*add, "--prune"))["removed"] == 1
    assert len(loaded(headwater("list", "--json", "--home", home))) == 3


def test_search_json_has_the_shape_of_the_interface(home: Path) -> None:
    found = loaded(headwater("search", "parental leave", "--json", "--home", str(home)))
    wanted = {"query", "mode_used", "fallback_reason", "degraded", "total", "took_ms", "hits"}
    assert wanted <= set(found)
    hit = found["hits"][0]
    assert {
        *("rank", "chunk_id", "document_id", "uri", "title", "collection", "text", "section", "pages", "span"),
        *("score", "scores", "reasons", "highlights", "meta"),
    } <= set(hit)
    assert hit["rank"] == 1
    assert hit["title"] == "Parental leave"
    with open_home(home) as kb:
        start, end = hit["span"]
        assert kb.document(hit["document_id"]).text[start:end] == hit["text"]
        assert hit["chunk_id"] == f"{hit['document_id']}:{start}-{end}"


@pytest.mark.parametrize(
    ("question", "words", "file"),
    [
        ("How many weeks of parental leave are there?", "26 weeks", "leave.md"),
        ("员工每年有多少天年假？", "十五天", "年假.md"),
        ("What does PPR-9087 mean?", "intake is blocked", "pump.md"),
    ],
)
def test_ask_cites_the_exact_passage(home: Path, question: str, words: str, file: str) -> None:
    answer = loaded(headwater("ask", question, "--json", "--home", str(home)))
    assert {"question", "answer", "citations", "degraded", "verdict", "hits", "trace"} <= set(answer)
    assert words in answer["answer"]
    citation = answer["citations"][0]
    assert {"marker", "document_id", "uri", "title", "pages", "span", "quote", "support"} <= set(citation)
    assert Path(citation["uri"]).name == file
    with open_home(home) as kb:
        for cited in answer["citations"]:
            start, end = cited["span"]
            assert kb.document(cited["document_id"]).text[start:end] == cited["quote"]


@pytest.mark.parametrize("question", ["Who won the football world cup in 2010?", "珠穆朗玛峰有多高？"])
def test_a_refusal_is_an_answer(home: Path, question: str) -> None:
    answer = loaded(headwater("ask", question, "--json", "--home", str(home)))
    assert answer["citations"] == []
    assert answer["verdict"]["accepted"] is False
    assert answer["answer"]


def test_filters_narrow_both_legs(home: Path) -> None:
    search = ("search", "leave weeks pump 年假", "--json", "--home", str(home), "--where")
    assert {h["title"] for h in loaded(headwater(*search, 'tag = "ops"'))["hits"]} == {"Pump manual"}
    assert {
        h["title"] for h in loaded(headwater(*search, "date >= 2025-01-01 and date < 2025-06 and tag = hr"))["hits"]
    } == {"Parental leave"}
    assert {h["section"] for h in loaded(headwater(*search, 'section contains "Splitting"'))["hits"]} == {
        "Parental leave > Splitting"
    }
    assert loaded(headwater(*search, 'tag = "nothing"'))["hits"] == []


def test_list_show_remove_status_check(home: Path, handbook: Path) -> None:
    listed = loaded(headwater("list", "--json", "--home", str(home)))
    assert {"id", "uri", "title", "collection", "state", "chunks", "problems"} <= set(listed[0])
    shown = loaded(headwater("show", str(handbook / "pump.md"), "--json", "--home", str(home)))
    assert "PPR-9087" in shown["passages"][0]["text"]
    assert loaded(headwater("remove", shown["id"], "--json", "--home", str(home))) == {"removed": 1}
    found = loaded(headwater("search", "PPR-9087", "--json", "--home", str(home)))
    assert all(hit["document_id"] != shown["id"] for hit in found["hits"])
    state = loaded(headwater("status", "--json", "--home", str(home)))
    assert state["documents"] == 3
    assert state["bytes"] > 0
    assert loaded(headwater("check", "--json", "--home", str(home)))["problems"] == []


def test_check_finds_and_repair_mends_a_lost_index(home: Path) -> None:
    import shutil

    for folder in [*home.glob("text-*"), *home.glob("vectors-*")]:
        shutil.rmtree(folder)
    broken = headwater("check", "--json", "--home", str(home))
    assert broken.code == 1
    assert len(json.loads(broken.output)["problems"]) >= 2
    assert loaded(headwater("check", "--repair", "--json", "--home", str(home)))["problems"] == []
    found = loaded(headwater("search", "parental leave", "--mode", "semantic", "--json", "--home", str(home)))
    assert found["hits"][0]["title"] == "Parental leave"


def test_check_mends_garbage_in_the_index_files(home: Path) -> None:
    for folder in [*home.glob("text-*"), *home.glob("vectors-*")]:
        for file in folder.rglob("*"):
            if file.is_file():
                file.write_bytes(b"garbage")
    assert headwater("search", "leave", "--home", str(home)).code == 1
    assert loaded(headwater("check", "--repair", "--json", "--home", str(home)))["problems"] == []
    assert loaded(headwater("search", "parental leave", "--json", "--home", str(home)))["hits"]


@pytest.mark.parametrize("kind", ["pos", "fast"])
def test_check_mends_what_breaks_only_searches(home: Path, kind: str) -> None:
    (victim,) = home.glob(f"text-*/*.{kind}")
    content = bytearray(victim.read_bytes())
    content[5] ^= 0xFF
    victim.unlink() if kind == "pos" else victim.write_bytes(content)
    broken = loaded(headwater("search", "parental leave", "--json", "--home", str(home)))
    assert broken["mode_used"] == "semantic" and "check --repair" in broken["degraded"][0]
    assert headwater("check", "--json", "--home", str(home)).code == 1
    assert loaded(headwater("check", "--repair", "--json", "--home", str(home)))["problems"] == []
    assert loaded(headwater("search", "parental leave", "--json", "--home", str(home)))["mode_used"] == "hybrid"


def test_a_repair_says_only_what_it_mended(home: Path) -> None:
    import sqlite3

    with sqlite3.connect(home / "catalog.sqlite") as db:  # a row that an index of the file does not have
        db.execute("pragma writable_schema = on")
        db.execute(
            "update sqlite_master set rootpage = (select rootpage from sqlite_master where name = 'link_ticket') "
            "where name = 'document_collection'"
        )
    (lost,) = home.glob("text-*/*.pos")
    lost.unlink()
    outcome = headwater("check", "--repair", "--json", "--home", str(home))
    told = json.loads(outcome.output)
    assert outcome.code == 1 and told["problems"] and not set(told["problems"]) & set(told["repaired"])
    assert any("text index" in one for one in told["repaired"])
    assert any("damaged" in one for one in told["problems"])


def test_standard_input(tmp_path: Path) -> None:
    home = str(tmp_path / "kb")
    text = b"The spare key hangs behind the blue door."
    assert loaded(headwater("add", "-", "--tag", "note", "--json", "--home", home, given=text))["added"] == 1
    assert loaded(headwater("add", "-", "--tag", "note", "--json", "--home", home, given=text))["unchanged"] == 1
    answer = loaded(headwater("ask", "Where is the spare key?", "--where", "tag = note", "--json", "--home", home))
    assert "blue door" in answer["answer"]


def test_the_human_output_names_sources(home: Path) -> None:
    printed = headwater("ask", "How many weeks of parental leave are there?", "--home", str(home)).output
    assert "[1]" in printed
    assert "leave.md:" in printed
    explained = headwater("search", "parental leave", "--explain", "--home", str(home)).output
    assert "keyword" in explained and "semantic" in explained and "fused" in explained


def test_config_show_tells_origins(home: Path) -> None:
    (home / "headwater.toml").write_text("[retrieve]\ntop_n = 3\n", encoding="utf-8")
    (home / ".env").write_text("HEADWATER_RETRIEVE__RRF_K=50\n", encoding="utf-8")
    told = {"HEADWATER_RETRIEVE__CANDIDATES": "77"}
    outcome = headwater("config", "show", "--origin", "--json", "--home", str(home), environment=told)
    shown = loaded(outcome)
    assert shown["retrieve.top_n"]["value"] == 3
    assert shown["retrieve.top_n"]["origin"].endswith("headwater.toml")
    assert shown["retrieve.rrf_k"] == {"value": 50, "origin": f"{home / '.env'}: HEADWATER_RETRIEVE__RRF_K"}
    assert shown["retrieve.candidates"]["value"] == 77
    assert shown["retrieve.deadline_seconds"]["origin"] == "default"
    assert shown["chunk.size"]["origin"] == "default"
    assert len(loaded(headwater("search", "leave pump 年假 flood", "--json", "--home", str(home)))["hits"]) <= 3


def test_presets_and_flags_win_over_files(home: Path) -> None:
    (home / "headwater.toml").write_text('preset = "recall"\n[retrieve]\ntop_n = 1\n', encoding="utf-8")
    search = ("search", "leave pump 年假 flood", "--json", "--home", str(home))
    assert len(loaded(headwater(*search))["hits"]) == 1
    assert len(loaded(headwater(*search, "--preset", "precision"))["hits"]) > 1
    assert len(loaded(headwater(*search, "--top-n", "2"))["hits"]) == 2


def test_plugins_lists_the_built_ins() -> None:
    found = loaded(headwater("plugins", "--json"))
    assert "recursive" in found["chunkers"]
    assert "tantivy" in found["text_indexes"]


def test_demo_answers_in_both_languages(tmp_path: Path) -> None:
    outcome = headwater("demo", "--home", str(tmp_path / "demo"))
    assert outcome.code == 0, outcome.error
    assert outcome.output.count("[1]") >= 4
    assert any("\u4e00" <= char <= "\u9fff" for char in outcome.output)
