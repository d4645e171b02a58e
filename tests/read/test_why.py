"""Why a document is not among the hits: the true cause in every case, proved by undoing it and finding the document."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from headwater import cli
from headwater.build import KnowledgeBase, open_home
from headwater.causes import Explanation
from headwater.models.hashed import HashedEmbedder
from headwater.types import Change, Document, Hit, Labels, Matrix, Results

TARGET = "target.txt"
TEXT = "The gauge at the old bridge is read every morning at eight by the ferryman."
# Everything off, few hits, so that each case has one cause.
PLAIN: dict[str, Any] = {
    "mode": "keyword",
    "candidates": 100,
    "top_n": 3,
    "rerank": "",
    "fusion": "rrf",
    "collapse": False,
    "cache_size": 0,
    "enumerate": "never",
}


class ByLength:
    """A reranker that likes short passages."""

    fingerprint, instant = "by-length", True

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> list[float]:
        return [1.0 / len(hit.chunk.text) for hit in hits]


class SlowEmbedder(HashedEmbedder):
    """Takes its time with questions, and finds that all of them are about the target."""

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        if role == "query":
            time.sleep(0.3)
            return super().embed([TEXT] * len(texts), "passage")
        return super().embed(texts, role)


def put(kb: KnowledgeBase, text: str = TEXT, uri: str = TARGET, **labels: Any) -> str:
    collection = labels.pop("collection", "default")
    kb.add_text(text, uri=uri, collection=collection, labels=Labels(**labels))
    return uri


def gauges(kb: KnowledgeBase, count: int) -> None:
    """Other documents that say more of a gauge than the target."""
    documents = [
        Document(uri=f"other-{n}.txt", text=f"Gauge, gauge and gauge number {n}: the gauge of place {n}.")
        for n in range(count)
    ]
    kb.add_documents(documents)


@dataclass(frozen=True)
class Case:
    cause: str
    given: Callable[[KnowledgeBase], str]  # makes the home ready; returns what is asked for
    query: str = "gauge"
    options: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] = field(default_factory=dict)
    # What undoes the cause; without one, what the explanation itself says.
    undo: Callable[[KnowledgeBase], Any] | None = None
    says: str = ""  # stands in the reason or in the change
    slow: bool = False


def with_gauges(count: int, text: str = TEXT, **labels: Any) -> Callable[[KnowledgeBase], str]:
    def given(kb: KnowledgeBase) -> str:
        gauges(kb, count)
        return put(kb, text, **labels)

    return given


def plain(text: str = TEXT, **labels: Any) -> Callable[[KnowledgeBase], str]:
    return with_gauges(0, text, **labels)


def copied(kb: KnowledgeBase) -> str:
    shared = f"{TEXT} He writes the level into the book, and the office is told by telephone before nine. {TEXT}"
    put(kb, f"{shared} Gauge.", uri="original.txt")
    return put(kb, shared, uri="copy.txt")


def removed(kb: KnowledgeBase) -> str:
    kb.remove(put(kb))
    return TARGET


def waiting(kb: KnowledgeBase) -> str:
    put(kb, "Something else.", uri="else.txt")
    kb.catalog.enqueue([Change(uri=TARGET, kind="put")])
    return TARGET


def broken(kb: KnowledgeBase) -> str:
    file = kb.home.parent / "broken.docx"
    file.write_bytes(b"PK\x03\x04 this is no archive")
    kb.add(file)
    return str(file)


def mended(kb: KnowledgeBase) -> None:
    file = kb.home.parent / "broken.docx"
    kb.remove(str(file))
    kb.add_text(TEXT, uri=file.absolute().as_posix())


def blank(kb: KnowledgeBase) -> str:
    file = kb.home.parent / "blank.txt"
    file.write_text("   \n\n  ", encoding="utf-8")
    kb.add(file)
    return str(file)


def written(kb: KnowledgeBase) -> None:
    file = kb.home.parent / "blank.txt"
    file.write_text(TEXT, encoding="utf-8")
    kb.add(file)


def alike(kb: KnowledgeBase) -> str:
    """The second best, and much like the best; two others differ."""
    put(kb, "The gauge at the old bridge is read, and the gauge is read again. Gauge, bridge, read.", uri="best.txt")
    put(kb, "A gauge of rain stands on the roof of the school.", uri="rain.txt")
    put(kb, "Steam is kept in a kettle with a gauge on top.", uri="steam.txt")
    return put(kb, "The gauge at the old bridge is read, and the gauge is read again at night.")


def passage_of(kb: KnowledgeBase) -> str:
    """One of several passages of a long document that is cut small."""
    parts = [f"Paragraph {n} speaks of the gauge and of thing number {n}. " * 6 for n in range(6)]
    kb.add_text("\n\n".join(parts), uri=TARGET, labels=Labels(meta={"strategy": "hierarchical", "chunk_size": 64}))
    hits = kb.search("gauge thing number 2", options=PLAIN)
    return hits[1].chunk.name


def long_gauge(kb: KnowledgeBase) -> str:
    gauges(kb, 4)
    return put(
        kb, "Gauge gauge gauge gauge gauge gauge gauge gauge gauge gauge gauge gauge at the old bridge of the town."
    )


def of_the_of(kb: KnowledgeBase) -> str:
    for n in range(5):
        put(kb, f"What is the of the {n} of the what is what is the of the.", uri=f"other-{n}.txt")
    return put(kb, "The ferryman sleeps.", title="ferryman")


def short_gauge(kb: KnowledgeBase) -> str:
    for n in range(6):
        put(kb, f"Gauge gauge gauge gauge gauge gauge of place number {n}, gauge again.", uri=f"other-{n}.txt")
    return put(kb, "A gauge, see.")


CASES: dict[str, Case] = {
    "wrong filter": Case(
        "filter", plain(tags=("blue",)), search={"where": 'tag = "red" and title != "x"'}, says='tag = "red"'
    ),
    "filter on dates": Case("filter", plain(), search={"where": "date < 2001-01-01"}, says="2001-01-01"),
    "other folder": Case("filter", plain(folder="notes/2024"), search={"folder": "notes/2025"}, says="notes/2025"),
    "other collection": Case(
        "collection", plain(collection="archive"), search={"collection": "default"}, says="archive"
    ),
    "below the threshold": Case(
        "threshold", plain(), options={"mode": "semantic", "threshold": 0.99}, says="threshold <= "
    ),
    "beyond the candidates": Case(
        "candidates", with_gauges(30), options={"candidates": 5, "top_n": 3}, says="candidates >= 31"
    ),
    "beyond the page": Case("top_n", with_gauges(10), says="top_n >= 11"),
    "before the page": Case(
        "offset", plain(), query="gauge ferryman", search={}, options={"offset": 1}, says="offset <= 0"
    ),
    "near-duplicate": Case("duplicate", copied, options={"collapse": True}, says="original.txt"),
    "archived": Case("archived", plain(archived=True), says="archived"),
    "deleted": Case("unknown", removed, undo=put, says="never added, or it was removed"),
    "never added": Case("unknown", lambda kb: (gauges(kb, 1), TARGET)[1], undo=put),
    "pending": Case("pending", waiting, undo=put, says="waits"),
    "failed": Case("failed", broken, undo=mended, says="could not be read"),
    "empty": Case("empty", blank, undo=written, says="no text"),
    "inside of a longer word": Case(
        "tokeniser", plain("The footbridges are closed."), query="bridge", says="substring"
    ),
    "excluded word": Case("excluded", plain(), query="gauge -ferryman", says="ferryman"),
    "excluded phrase": Case("excluded", plain(), query='gauge -"old bridge"', says="old bridge"),
    "phrase that only others have": Case("phrase", with_gauges(3), query='"gauge number 1"', says="gauge number 1"),
    "mmr": Case("mmr", alike, query="gauge bridge read", options={"mmr_lambda": 0.1, "top_n": 2}, says="mmr off"),
    "inside of its parent": Case("parent", passage_of, query="gauge thing number 2", options={"parent": True}),
    "inside of a window": Case("window", passage_of, query="gauge thing number 2", options={"window": 2}),
    "put down by the reranker": Case("rerank", long_gauge, options={"rerank": "by-length"}, says="rerank off"),
    "not looked at again": Case(
        "rerank_depth", short_gauge, options={"rerank": "by-length", "rerank_depth": 4}, says="rerank_depth >= 7"
    ),
    "out of time": Case(
        "deadline",
        plain(),
        query="gauge",
        options={"mode": "semantic", "deadline_seconds": 0.05},
        says="60s",
        slow=True,
    ),
    "stop words only": Case("stop_words", of_the_of, query="what is the of", says="ferryman"),
    "another language": Case("language", plain("水位计每天早上八点读数。"), query="gauge", undo=put),
    "no word in common": Case("words", plain("Bread is baked at dawn."), query="gauge", undo=put),
}


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with open_home(tmp_path / "kb", embedder=HashedEmbedder()) as opened:
        opened.rerankers._made["by-length", 0.0] = ByLength()
        yield opened


def found(kb: KnowledgeBase, results: Results, asked: str) -> bool:
    uris = {asked, Path(asked).absolute().as_posix()}
    return any(hit.chunk.name == asked or hit.uri in uris for hit in results)


def hidden_by_time(case: Case, kb: KnowledgeBase, tmp_path: Path) -> KnowledgeBase:
    """The same home with an embedder that is slow with questions; the words find nothing there."""
    return open_home(tmp_path / "kb", embedder=SlowEmbedder()) if case.slow else kb


@pytest.mark.parametrize("name", CASES)
def test_the_true_cause_is_named(kb: KnowledgeBase, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    asked = case.given(kb)
    options = {**PLAIN, **case.options}
    query = case.query
    if case.slow:
        kb = hidden_by_time(case, kb, tmp_path)
        query = "zeppelin"  # a word that nobody has
        options["top_n"] = 1
    page = {"offset": options.get("offset", 0)}
    before = kb.search(query, options=options, **case.search, **page)
    assert not found(kb, before, asked), [hit.uri for hit in before]
    told = kb.why(query, asked, options=options, **case.search)
    assert not told.found and told.rank is None
    assert told.cause == case.cause, told
    assert case.says in f"{told.reason} {told.change}", told
    if case.undo is not None:
        case.undo(kb)
        again = kb.search(query, options=options, **case.search)
    else:
        assert told.change and told.changes, "an explanation says what would have helped"
        again = kb.search(told.changes.get("query", query), **changed(told, options, case.search))
    assert found(kb, again, asked), told
    if case.slow:
        kb.close()


def changed(told: Explanation, options: dict[str, Any], search: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the search with the change that the explanation names."""
    made: dict[str, Any] = {**search, "options": {**options, **told.changes.get("options", {})}}
    if "where" in told.changes:
        made.pop("collection", None)
        made.pop("folder", None)
        made["where"] = told.changes["where"]
    if told.changes.get("archived"):
        made["archived"] = True
    return made


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 20
    assert len({case.cause for case in CASES.values()}) >= 20


def test_what_is_somebody_else_s_is_unknown_in_the_same_words(kb: KnowledgeBase) -> None:
    put(kb)
    other, owner = kb.for_owner("somebody"), kb.for_owner("local")
    theirs, nobodys = other.why("gauge", TARGET), other.why("gauge", "nonesuch.txt")
    assert (theirs.cause, theirs.reason, theirs.stages) == (nobodys.cause, nobodys.reason, nobodys.stages)
    assert (theirs.document_id, theirs.uri, theirs.title, theirs.matched) == ("", "", "", ())
    id = kb.record(TARGET).id
    assert other.why("gauge", id).cause == other.why("gauge", f"{id}:0-5").cause == "unknown"
    assert owner.why("gauge", id, options=PLAIN).found


def test_what_was_found_is_explained_too(kb: KnowledgeBase) -> None:
    gauges(kb, 2)
    put(kb, title="Readings")
    told = kb.why("ferryman gauge", TARGET, options={**PLAIN, "mode": "hybrid", "rerank": "by-length"})
    results = kb.search("ferryman gauge", options={**PLAIN, "mode": "hybrid", "rerank": "by-length"})
    rank = next(hit.rank for hit in results if hit.uri == TARGET)
    assert (told.found, told.rank, told.cause, told.change) == (True, rank, "", "")
    assert [one.stage for one in told.stages] == ["keyword", "semantic", "fused", "rerank", "page"]
    assert all(one.rank and one.score is not None and one.passage for one in told.stages)
    assert told.stages[0].rank == 1 and told.stages[-1].rank == rank
    assert told.matched == ("ferryman", "gauge") and told.missing == ()


def test_words_are_told_as_the_index_cuts_them(kb: KnowledgeBase) -> None:
    put(kb, "舊橋的水位計每天早上八點讀數。")
    told = kb.why("旧桥 PPR-9087 水位计", TARGET, options=PLAIN)
    assert "水位计" in told.matched and "PPR-9087" in told.missing
    assert "旧桥" in told.lanes["grams"]["matched"] and told.lanes["codes"]["missing"] == ("ppr-9087",)


def test_clauses_are_told_one_by_one(kb: KnowledgeBase) -> None:
    put(kb, tags=("red",))
    told = kb.why("gauge", TARGET, where='tag = "red" and title = "x"', options=PLAIN)
    assert told.filters == {'tag = "red"': True, 'title = "x"': False}
    assert told.changes == {"where": 'tag = "red"'}


def test_the_command_tells_the_same(kb: KnowledgeBase) -> None:
    gauges(kb, 10)
    put(kb)
    home = str(kb.home)
    given = ["why", "gauge", TARGET, "--mode", "keyword", "--top-n", "3", "--rerank", "none", "--home", home]
    shown = CliRunner().invoke(cli.cli, given)
    assert shown.exit_code == 0 and "top_n >= 11" in shown.output and "not found" in shown.output, shown.output
    told = json.loads(CliRunner().invoke(cli.cli, [*given, "--json"]).stdout)
    assert (told["cause"], told["found"], told["changes"]) == ("top_n", False, {"options": {"top_n": 11}})
    assert told["stages"][0]["rank"] == 11
    unknown = CliRunner().invoke(cli.cli, ["why", "gauge", "nonesuch", "--home", home, "--json"])
    assert json.loads(unknown.stdout)["cause"] == "unknown"
