"""Exact characters: nothing is a sign for something else, and every place is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.build import KnowledgeBase, open_home
from headwater.filters import parse
from headwater.retrieve import compose
from headwater.stages.substring import Scannable, containing, is_anchored, matcher, plain
from headwater.types import Document, Options, Query, Results

TEXTS = {
    "percent.md": "The discount is 100% on _all_ items, not 100x.",
    "plain.md": "The discount is 1000 on all items.",
    "water.md": "Headwater flows. Underwater cables do not.",
    "zh.md": "水位超过警戒线时，立即上报值班室。",
    "mixed.md": "型号 PPR-9087 的 pump 已停用。",
    "quote.md": 'She said "it\'s done" and (left).',
}


@pytest.fixture
def texts(shelf: Any) -> Any:
    for uri, text in TEXTS.items():
        shelf.add(uri, text, tags=("zh",) if uri == "zh.md" else ("en",))
    return shelf


def search(shelf: Any, text: str, *, where: str = "", **options: Any) -> Results:
    chosen = Options(mode="substring", **options)
    return compose(shelf.parts(), chosen).retrieve(Query(text=text, where=parse(where), options=chosen))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100%", {"percent.md"}),
        ("%", {"percent.md"}),
        ("_all_", {"percent.md"}),
        ("100_", set()),
        ("1__%", set()),
        ("ater", {"water.md"}),
        ("WATER FLOWS", {"water.md"}),
        ("er flows. un", {"water.md"}),
        ("警戒线时", {"zh.md"}),
        ("位", {"zh.md"}),
        ("线时，立", {"zh.md"}),
        ("警戒立即", set()),
        ("PR-90", {"mixed.md"}),
        ("7 的 p", {"mixed.md"}),
        ("it's done\"", {"quote.md"}),
        ("(left).", {"quote.md"}),
        ("discount is", {"percent.md", "plain.md"}),
        ("all items", {"plain.md"}),
    ],
)
def test_exact_characters(texts: Any, text: str, expected: set[str]) -> None:
    results = search(texts, text)
    assert {hit.uri for hit in results} == expected
    assert (results.mode_used, results.degraded, results.total) == ("substring", (), len(expected))


def test_filters_hold(texts: Any) -> None:
    assert {hit.uri for hit in search(texts, "a", where='tag = "en"')} == {
        uri for uri, text in TEXTS.items() if "a" in text.lower() and uri != "zh.md"
    }
    assert len(search(texts, "警戒", where='tag = "en"')) == 0


def test_more_places_come_first_and_are_told(texts: Any) -> None:
    results = search(texts, "water")
    assert results[0].scores["substring"] == 2.0
    assert results[0].reasons == ("contains 'water' 2 times",)
    assert "Headwater flows." in results[0].highlights[0]


def test_stages_that_read_meaning_into_it_are_left_out(texts: Any) -> None:
    results = search(texts, "water", rerank="builtin", rewrite=True, synonyms=True, feedback=True)
    assert {hit.uri for hit in results} == {"water.md"}
    assert "rerank" not in results[0].scores


def test_without_time_the_list_says_that_it_is_not_complete(texts: Any) -> None:
    found, lacking = containing("ater", where=parse(""), catalog=texts.catalog, text_index=texts.text, left=0.0)
    assert found == []
    assert "stopped" in lacking[0]


@given(st.text(alphabet="ab 水位%_A.", min_size=1, max_size=5).filter(str.strip))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_what_python_finds(shelf: Any, text: str) -> None:
    if not shelf.catalog.statistics()["documents"]:
        for number, body in enumerate(["ab a b%", "水位 a水 b", "A_B.ab", "位水水位", "aAbB 水%位_", "b.a .b a"]):
            shelf.add(f"{number}.md", body)
    expected = {
        record.uri
        for record in shelf.catalog.records(parse(""))
        if plain(text.strip()) in plain(shelf.catalog.document(record.id).text)
    }
    assert {hit.uri for hit in search(shelf, text)} == expected


@pytest.mark.parametrize(
    ("text", "anchored"),
    [("water", False), ("the water flows", True), ("水位", True), ("水", False), ("a 水 b", False), ("a b", False)],
)
def test_when_the_index_knows_every_chunk_that_may_hold_it(text: str, anchored: bool) -> None:
    assert is_anchored(plain(text)) is anchored


# ------------------------------------------------------------------------------- a catalog that shows its texts


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with open_home(tmp_path_factory.mktemp("substring") / "kb") as kb:
        for number, body in enumerate(ODD):
            kb.add_documents([Document(uri=f"{number}.txt", text=body)])
        kb.add_text("gone: waterfall", uri="gone.txt")
        kb.remove(*[record.id for record in kb.documents() if record.uri == "gone.txt"])
        kb.add_text("before: ater", uri="0.txt")
        kb.add_text(ODD[0], uri="0.txt")
        yield kb


ODD = [
    "Headwater flows. 100% of it.",
    "\u212aelvin is the sign; kelvin is the word",  # its small letter is an ASCII k
    "École élémentaire ÉCOLE, ΑΘΗΝΑ Αθήνα",
    "İstanbul ıldız Straße STRASSE",
    "水位超过警戒线，立即上报。ＦＵＬＬ width",
    "half a pair \ud800 and the rest",
    f"{'x ' * 20_000}across the border of two parts{' y' * 20_000}",
]


@pytest.mark.parametrize(
    "text",
    ["ater", "ATER", "%", "kelvin", "KELVIN", "\u212aelvin", "elvin is", "é", "École", "αθηνα", "ΑΘΉΝΑ", "stanbul",
     "İs", "ıl", "ß", "strasse", "位", "戒", "ＦＵ", "ull w", "\ud800", "r of tw", "x a", "s y", "before", "waterfall",
     "zzz"],
)  # fmt: skip
def test_the_stored_bytes_tell_what_python_finds(stored: KnowledgeBase, text: str) -> None:
    needle = plain(text)
    expected = {f"{n}.txt" for n, body in enumerate(ODD) if needle in plain(body)}
    results = stored.search(text, mode="substring", top_n=100)
    assert {hit.uri for hit in results} == expected
    assert results.degraded == ()
    assert isinstance(stored.catalog, Scannable)


def test_texts_are_those_of_live_documents(stored: KnowledgeBase) -> None:
    texts: Any = stored.catalog
    live = {stored.document(record.id).text: stored.chunks(record.id) for record in stored.documents()}
    shown = {body.decode("utf-8", "surrogatepass"): list(chunks) for chunks, body in texts.texts()}
    assert shown == {text: [chunk.id for chunk in chunks] for text, chunks in live.items()}
    assert len(shown) == len(ODD)


def test_filters_hold_where_texts_are_gone_through(stored: KnowledgeBase) -> None:
    assert [hit.uri for hit in stored.search("ater", mode="substring", where='uri = "0.txt"')] == ["0.txt"]
    assert len(stored.search("ater", mode="substring", where='uri = "1.txt"')) == 0
    assert len(stored.for_owner("nobody").search("ater", mode="substring")) == 0


def test_many_documents_are_counted_a_batch_at_a_time(stored: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.stages.substring.BATCH", 2)
    results = stored.search("e", mode="substring", top_n=100, where='uri != "0.txt"', options={"cache_size": 0})
    expected = [chunk for record in stored.documents('uri != "0.txt"') for chunk in stored.chunks(record.id)]
    assert {hit.chunk.id: hit.score for hit in results} == {
        chunk.id: plain(chunk.text).count("e") for chunk in expected if "e" in plain(chunk.text)
    }


def test_texts_that_there_is_no_time_for_are_told(stored: KnowledgeBase) -> None:
    given = {"catalog": stored.catalog, "text_index": stored.text}
    found, lacking = containing("ater", where=parse(""), left=0.0, **given)
    assert found == [] and "no time was left" in lacking[0]


@given(st.text(alphabet="abkKéÉ 水\u212a%ß", min_size=1, max_size=4), st.text(alphabet="abkKéÉ 水\u212a%ß", max_size=9))
def test_bytes_are_never_missed(needle: str, text: str) -> None:
    if plain(needle) in plain(text):
        assert matcher(plain(needle))(text.encode("utf-8", "surrogatepass"))
