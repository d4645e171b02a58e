"""Strategies from the front door: chosen per document, kept by homes of earlier releases, parents carried through."""

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

import headwater
from headwater.chunkers.auto import STRATEGIES
from headwater.cli import cli
from headwater.config import Config, Setting
from headwater.errors import SpaceMismatch, UsageError
from headwater.types import Labels

BODY = "The pump needs new oil every year, and its seals need grease. "
GUIDE = f"# Pumps\n\n## Care\n\n{BODY * 60}\n\n## Storage\n\n{BODY * 10}\n"
FAQ = "Q: Who cleans it?\nA: The night shift.\n\nQ: With what?\nA: With oil.\n\n问：多久一次？\n答：每年一次。\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "guide.md").write_text(GUIDE, encoding="utf-8")
    (folder / "faq.txt").write_text(FAQ, encoding="utf-8")
    (folder / "plain.txt").write_text(BODY * 5, encoding="utf-8")
    return folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_each_document_is_cut_by_what_suits_it_and_show_says_by_what(tmp_path: Path, files: Path) -> None:
    home = str(tmp_path / "home")
    run("add", str(files), "--home", home)
    shown = {
        name: json.loads(run("show", str(files / name), "--json", "--home", home))
        for name in ("guide.md", "faq.txt", "plain.txt")
    }
    assert {name: told["strategy"] for name, told in shown.items()} == {
        "guide.md": "meta",
        "faq.txt": "whole",
        "plain.txt": "recursive",
    }
    assert len(shown["faq.txt"]["passages"]) == 3
    assert "strategy meta, " in run("show", str(files / "guide.md"), "--home", home)


def test_a_strategy_can_be_asked_for(tmp_path: Path, files: Path) -> None:
    home = str(tmp_path / "home")
    guide = str(files / "guide.md")
    run("add", guide, "--home", home)
    before = json.loads(run("show", guide, "--json", "--home", home))
    run("add", guide, "--strategy", "sentence", "--chunk-size", "100", "--home", home)
    after = json.loads(run("show", guide, "--json", "--home", home))
    assert (before["strategy"], after["strategy"]) == ("meta", "sentence")
    assert len(after["passages"]) > len(before["passages"])
    assert after["meta"] == {**before["meta"], "strategy": "sentence", "chunk_size": 100}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_goes_all_the_way(tmp_path: Path, files: Path, strategy: str) -> None:
    with headwater.open(tmp_path / "home") as kb:
        report = kb.add(files, strategy=strategy)
        assert report.added == 3
        assert not report.failed
        assert kb.strategy(str(files / "guide.md")) == strategy
        assert kb.search("who cleans it")[0].uri.endswith("faq.txt")
        assert kb.search("每年一次 多久")[0].uri.endswith("faq.txt")
        assert kb.check() == []


def test_an_unknown_strategy_is_refused_with_the_names(tmp_path: Path, files: Path) -> None:
    result = CliRunner().invoke(cli, ["add", str(files), "--strategy", "magic", "--home", str(tmp_path / "home")])
    assert result.exit_code == 2 or isinstance(result.exception, UsageError)
    with headwater.open(tmp_path / "other") as kb:
        with pytest.raises(UsageError, match="no strategy is named 'magic'; there are: code, contextual, faq"):
            kb.add(files, strategy="magic")
        with pytest.raises(UsageError, match="no strategy is named 'magic'"):
            kb.add_text("text", uri="a", labels=Labels(meta={"strategy": "magic"}))
        with pytest.raises(UsageError, match="chunk size"):
            kb.add(files, chunk_size=-1)
        assert kb.documents() == []


def test_a_collection_may_have_a_strategy(tmp_path: Path, files: Path) -> None:
    config = Config({"chunk.collections": Setting({"manuals": "hierarchical"}, "test")})
    with headwater.open(tmp_path / "home", config=config) as kb:
        kb.add(files, collection="manuals")
        kb.add(files)
        by_collection = {record.collection: kb.strategy(record.id) for record in kb.documents('uri contains "guide"')}
        assert by_collection == {"manuals": "hierarchical", "default": "meta"}


# ------------------------------------------------------------------------------------------- parents


def test_parents_are_kept_read_by_id_and_searched_by_their_children(tmp_path: Path, files: Path) -> None:
    home = tmp_path / "home"
    with headwater.open(home) as kb:
        kb.add(files / "guide.md", strategy="hierarchical")
        record = kb.record(str(files / "guide.md"))
        children = kb.chunks(record.id)
        assert record.chunks == len(children) == kb.status()["chunks"]
        parents = kb.catalog.chunks(sorted({child.parent for child in children}))
        assert [chunk.section for chunk, _ in parents.values()] == ["Pumps > Care", "Pumps > Storage"]
        text = kb.document(record.id).text
        for child in children:
            larger = parents[child.parent][0]
            assert larger.span.start <= child.span.start and child.span.end <= larger.span.end
            assert text[slice(*larger.span)] == larger.text
        found = kb.search("oil grease seals", top_n=50)
        assert {hit.chunk.id for hit in found} <= {child.id for child in children}
        assert kb.check() == []
    # Both indexes are lost and made again from the catalog: what no index holds stays out of them.
    for name in ("text-1", "vectors-1"):
        shutil.rmtree(home / name)
    with headwater.open(home) as kb:
        assert kb.check()
        kb.check(mend=True)
        assert kb.check() == []
        assert {hit.chunk.id for hit in kb.search("oil grease seals", top_n=50)} <= {child.id for child in children}


def test_a_reindex_makes_parents_and_takes_them_away_again(tmp_path: Path, files: Path) -> None:
    home = tmp_path / "home"
    with headwater.open(home) as kb:
        kb.add(files)
    hierarchical = Config(
        {
            "chunk.use": Setting("hierarchical", "test"),
            "chunk.size": Setting(50, "test"),
            "chunk.overlap": Setting(5, "test"),
        }
    )
    with headwater.open(home, config=hierarchical) as kb:
        done = kb.reindex()
        assert done.chunks_after > done.chunks_before
        children = kb.chunks(str(files / "guide.md"))
        assert all(child.parent for child in children)
        assert len(kb.catalog.chunks([child.parent for child in children])) == 2
        assert kb.check() == []
        kb.reindex(back=True)
        assert not any(chunk.parent for chunk in kb.chunks(str(files / "guide.md")))
        assert kb.check() == []


def test_blocks_come_back_whole_for_a_reindex(tmp_path: Path) -> None:
    """Column names and rows are stored with a document, so that a reindex cuts it as the first time."""
    from headwater.testing.chunker_contract import sample

    with headwater.open(tmp_path / "home") as kb:
        document = sample("HPTNPCQ")
        kb.add_documents([document])
        stored = kb.document(kb.record("sample").id)
        assert stored.blocks == document.blocks
        cut = kb.chunks(kb.record("sample").id)
        again = kb.chunker.chunk(stored)
        assert [(c.span, c.index_text) for c in again] == [(c.span, c.index_text) for c in cut]


# ------------------------------------------------------------------------------------- earlier homes


def old_home(path: Path, **chunk: object) -> None:
    """As the first releases made one: recursive, with the settings recorded."""
    written = {"chunk.use": Setting("recursive", "test")}
    written |= {f"chunk.{key}": Setting(value, "test") for key, value in chunk.items()}
    with headwater.open(path, config=Config(written)) as kb:
        kb.add_text(GUIDE, uri="guide", mime="text/markdown")


@pytest.mark.parametrize("recorded", [True, False])
def test_a_home_keeps_its_chunker_when_the_default_changes(tmp_path: Path, recorded: bool) -> None:
    home = tmp_path / "home"
    old_home(home)
    if not recorded:  # the first schema had no settings
        with sqlite3.connect(home / "catalog.sqlite") as db:
            db.execute("update space set settings = ''")
        db.close()
    with headwater.open(home) as kb:
        assert kb.space.chunker.startswith("recursive/1")
        kb.add_text(GUIDE + "More.", uri="other", mime="text/markdown")
        assert kb.strategy("other") == "recursive"
        assert not kb.chunks("other")[0].index_text.startswith("<meta>")
        with pytest.raises(UsageError, match="already"):
            kb.reindex()
        with pytest.raises(UsageError, match='`use = "auto"` under'):
            kb.add_text("text", uri="third", labels=Labels(meta={"strategy": "whole"}))
    told = json.loads(run("config", "show", "--json", "--origin", "--home", str(home)))
    assert told["chunk.use"] == {"value": "recursive", "origin": "space 1"}


def test_a_home_with_sizes_of_its_own_keeps_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    old_home(home, size=100, overlap=10)
    (home / "headwater.toml").write_text("[chunk]\nsize = 100\noverlap = 10\n", encoding="utf-8")
    with headwater.open(home) as kb:
        kb.add_text(GUIDE + "More.", uri="other", mime="text/markdown")
        assert kb.space.chunker == "recursive/1 size=100 overlap=10 unit=tokens separators=natural"
    (home / "headwater.toml").write_text("[chunk]\nsize = 200\n", encoding="utf-8")
    with headwater.open(home) as kb, pytest.raises(SpaceMismatch, match="headwater reindex"):
        kb.add_text("text", uri="third")


def test_an_earlier_home_moves_to_auto_when_asked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    old_home(home)
    (home / "headwater.toml").write_text('[chunk]\nuse = "auto"\n', encoding="utf-8")
    with headwater.open(home) as kb:
        kb.reindex()
        assert kb.strategy("guide") == "meta"
        assert kb.chunks("guide")[1].index_text.startswith("<meta>")
        assert kb.check() == []
    (home / "headwater.toml").unlink()
    with headwater.open(home) as kb:
        kb.add_text("text", uri="third", labels=Labels(meta={"strategy": "whole"}))
        assert kb.strategy("third") == "whole"


# --------------------------------------------------------------------------------------------- cost


def test_the_cost_is_told_before_the_work(tmp_path: Path, files: Path) -> None:
    from tests.chunkers.test_contextual import Scripted

    model = Scripted()
    with headwater.open(tmp_path / "home", language_model=model) as kb:
        assert kb.cost(files) is None
        cost = kb.cost(files, strategy="contextual")
        assert cost is not None
        assert model.prompts == []
        kb.add(files, strategy="contextual")
        assert cost.documents == 3
        assert cost.calls == len(model.prompts)
        again = kb.cost(files, strategy="contextual")
        assert again is not None
        assert again.calls == 0
    told = run("add", str(files), "--strategy", "contextual", "--home", str(tmp_path / "second"))
    assert "the language model need not be asked" in told
