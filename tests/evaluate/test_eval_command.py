"""`headwater eval` as a person runs it, on a set of six documents."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.starter import headwater

from headwater import config as settings
from headwater.errors import UsageError
from headwater.evaluate.dataset import read_set
from headwater.evaluate.report import between_markers, markdown, parse_gate
from headwater.evaluate.run import indexed, make_embedder, measure, ranked_documents
from headwater.testing.command import Outcome

FIGURES = {
    *("ndcg@10", "recall@5", "recall@10", "recall@100", "mrr@10", "map@10", "precision@5"),
    *("queries", "p50_ms", "p95_ms"),
}


def run(*arguments: object, tmp_path: Path) -> Outcome:
    home, work = ("--home", str(tmp_path / "kb")), ("--work", str(tmp_path / "work"))
    return headwater("eval", *map(str, arguments), *home, *work)


def loaded(outcome: Outcome) -> Any:
    assert outcome.code == 0, outcome.error
    return json.loads(outcome.output)


def test_the_figures_have_the_shape_of_the_interface(small_set: Path, tmp_path: Path) -> None:
    found = loaded(run(small_set, "--json", tmp_path=tmp_path))
    assert set(found) == {"small"}
    assert set(found["small"]) == {"keyword", "semantic", "hybrid"}
    for figures in found["small"].values():
        assert set(figures) == FIGURES
        assert figures["queries"] == 5
        assert 0 < figures["p50_ms"] <= figures["p95_ms"]
    keyword = found["small"]["keyword"]
    # Every query shares words with its document; only the Chinese page of q1 cannot be found by English words.
    assert keyword["mrr@10"] == 1.0
    assert keyword["recall@10"] == pytest.approx((0.5 + 1 + 1 + 1 + 1) / 5)
    assert keyword["precision@5"] == pytest.approx(1 / 5)
    assert not (tmp_path / "kb").exists(), "a home is not made by measuring"


def test_a_second_run_uses_the_index_of_the_first(small_set: Path, tmp_path: Path) -> None:
    first = loaded(run(small_set, "--json", "--mode", "keyword", tmp_path=tmp_path))
    (home,) = (tmp_path / "work").iterdir()
    stamp = (home / "complete").stat().st_mtime_ns
    second = loaded(run(small_set.parent, "--json", "--mode", "keyword", tmp_path=tmp_path))
    assert list((tmp_path / "work").iterdir()) == [home]
    assert (home / "complete").stat().st_mtime_ns == stamp
    assert first["small"]["keyword"]["ndcg@10"] == second["small"]["keyword"]["ndcg@10"]
    with (small_set / "corpus.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"_id": "new", "text": "one more"}\n')
    loaded(run(small_set, "--json", "--mode", "keyword", tmp_path=tmp_path))
    assert len(list((tmp_path / "work").iterdir())) == 2, "other documents need another index"


def test_an_index_that_was_not_finished_is(small_set: Path, tmp_path: Path) -> None:
    whole = loaded(run(small_set, "--json", "--mode", "keyword", tmp_path=tmp_path))
    (home,) = (tmp_path / "work").iterdir()
    (home / "complete").unlink()
    again = loaded(run(small_set, "--json", "--mode", "keyword", tmp_path=tmp_path))
    assert again["small"]["keyword"]["recall@10"] == whole["small"]["keyword"]["recall@10"]
    assert (home / "complete").exists()


def test_gates_decide_the_exit_code(small_set: Path, tmp_path: Path) -> None:
    kept = run(small_set, "--mode", "keyword", "--gate", "mrr@10>=1", "--gate", "p95_ms<60000", tmp_path=tmp_path)
    assert kept.code == 0, kept.error
    assert kept.error.count("kept: ") == 2
    missed = run(small_set, "--mode", "keyword", "--gate", "nDCG@10 >= 1.01", "--json", tmp_path=tmp_path)
    assert missed.code == 1
    assert "missed: ndcg@10>=1.01 on small, keyword: " in missed.error
    assert set(json.loads(missed.output)["small"]) == {"keyword"}, "the figures are printed all the same"
    unnamed = run(small_set, "--gate", "recall@100>=0", tmp_path=tmp_path)
    assert "kept: recall@100>=0 on small, hybrid: " in unnamed.error
    assert unnamed.error.count("kept: ") == 1, "without a mode it is about what people get"


@pytest.mark.parametrize("gate", ["ndcg@10", "ndcg@10=0.7", "quality>=0.7", "ndcg@10>=high", ">=0.5"])
def test_a_gate_that_says_nothing_is_refused(gate: str) -> None:
    with pytest.raises(UsageError, match="a gate is a figure"):
        parse_gate(gate)


def test_wrong_input_exits_with_two(small_set: Path, tmp_path: Path) -> None:
    assert run(tmp_path / "absent", tmp_path=tmp_path).code == 2
    assert run(small_set, "--preset", "absent", tmp_path=tmp_path).code == 2
    assert run(small_set, "--compare", "absent", tmp_path=tmp_path).code == 2
    assert run(small_set, "--gate", "absent>=1", tmp_path=tmp_path).code == 2
    assert run(small_set, small_set, tmp_path=tmp_path).code == 2
    for option in ("--report", "--rows"):
        nowhere = run(small_set, option, tmp_path / "none" / "file", tmp_path=tmp_path)
        assert (nowhere.code, "cannot be written" in nowhere.error) == (2, True)
    assert not (tmp_path / "work").exists(), "nothing was measured for it"
    (small_set / "qrels" / "test.tsv").unlink()
    bad = run(small_set, tmp_path=tmp_path)
    assert (bad.code, "qrels/test.tsv" in bad.error) == (2, True)


def test_presets_are_compared(small_set: Path, tmp_path: Path) -> None:
    found = loaded(run(small_set, "--mode", "hybrid", "--compare", "fast", "--json", tmp_path=tmp_path))
    difference = found["small"]["hybrid"]["compare"]["ndcg@10"]
    assert difference["low"] <= difference["difference"] <= difference["high"]
    assert len(list((tmp_path / "work").iterdir())) == 1, "presets that differ in searching share an index"
    text = run(small_set, "--mode", "hybrid", "--compare", "fast", tmp_path=tmp_path)
    assert "`fast` over `balanced`" in text.output


def test_reports_and_rows(small_set: Path, tmp_path: Path) -> None:
    page, rows = tmp_path / "report.html", tmp_path / "rows.jsonl"
    assert run(small_set, "--report", page, "--rows", rows, "--gate", "mrr@10>=0", tmp_path=tmp_path).code == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<svg" in text
    assert "hybrid" in text
    assert not re.search(r"(?:src|href)=|@import|url\(", text), "the page needs nothing else"
    lines = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == 15
    assert {line["ranking"][0] for line in lines if line["query"] == "q5" and line["mode"] == "keyword"} == {"报销"}
    table = tmp_path / "report.md"
    assert run(small_set, "--mode", "keyword", "--report", table, tmp_path=tmp_path).code == 0
    assert table.read_text(encoding="utf-8").startswith("| set | mode | ndcg@10 |")


def test_cut_documents_rank_by_their_best_chunk(small_set: Path, tmp_path: Path) -> None:
    config = settings.load(tmp_path / "kb", flags={"chunk.size": 40, "chunk.overlap": 0, "chunk.unit": "chars"})
    questions = read_set(small_set)
    embedder = make_embedder(config, home=tmp_path / "kb")
    with indexed(questions, config, work=tmp_path / "work", embedder=embedder, cut=True) as kb:
        results = kb.search("leave weeks paid")
        assert kb.status()["chunks"] > kb.status()["documents"]
        ranked = ranked_documents(results)
        assert len(ranked) == len(set(ranked)) == len(results.document_counts)
        assert ranked[0] == results[0].document_id
        assert measure(kb, questions, "keyword").summary["mrr@10"] == 1.0


def test_document_counts_are_in_the_order_of_the_best_hit(small_set: Path, tmp_path: Path) -> None:
    config = settings.load(tmp_path / "kb")
    questions = read_set(small_set)
    embedder = make_embedder(config, home=tmp_path / "kb")
    with indexed(questions, config, work=tmp_path / "work", embedder=embedder) as kb:
        for text in questions.queries.values():
            deep, page = kb.search(text, top_n=100), kb.search(text, top_n=1)
            assert [hit.document_id for hit in deep] == list(deep.document_counts) == list(page.document_counts)


def test_the_table_marks_the_best_mode(small_set: Path, tmp_path: Path) -> None:
    config = settings.load(tmp_path / "kb")
    questions = read_set(small_set)
    with indexed(questions, config, work=tmp_path / "w", embedder=make_embedder(config, home=tmp_path)) as kb:
        found = {"small": {mode: measure(kb, questions, mode) for mode in ("keyword", "semantic")}}
    assert markdown(found).count("**") == 2


def test_a_text_goes_between_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- one -->\nold\n<!-- /one -->\nbelow\n")
    between_markers(page, "one", "new")
    between_markers(page, "one", "newer")
    assert page.read_text() == "above\n<!-- one -->\nnewer\n<!-- /one -->\nbelow\n"
    with pytest.raises(UsageError, match="<!-- two -->"):
        between_markers(page, "two", "text")
