"""The Python API of the interface, on the embedded stores."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.starter import headwater as command

import headwater
from headwater.errors import FilterError, NotFound, SettingError, UsageError
from headwater.types import Document, Labels


def test_the_face_is_what_the_interface_says(tmp_path: Path, handbook: Path) -> None:
    kb = headwater.open(tmp_path / "kb")
    report = kb.add(handbook, tags=["hr"])
    assert (report.added, report.updated, report.unchanged, report.removed, report.failed) == (4, 0, 0, 0, ())
    hits = kb.search("parental leave", top_n=8, where='tag = "hr"')
    hit = hits[0]
    assert hit.chunk.text and hit.uri.endswith("leave.md") and hit.title == "Parental leave"
    assert hit.score == hit.scores["rerank"] and hit.reasons and hit.highlights
    answer = kb.ask("How many weeks of parental leave are there?")
    assert "26 weeks" in answer.text
    quoted = answer.citations[0]
    assert kb.document(quoted.document_id).text[slice(*quoted.span)] == quoted.quote
    events = list(kb.stream("How many weeks of parental leave are there?"))
    kinds = [type(event).__name__ for event in events]
    assert kinds[-1] == "Answer" and "Sentence" in kinds and "Step" in kinds
    last = events[-1]
    assert isinstance(last, headwater.Answer) and last.text == answer.text
    assert {step.stage for step in last.trace} >= {"retrieve", "assemble", "generate", "reflect"}
    kb.close()


def test_the_public_names_are_there_and_sorted() -> None:
    assert headwater.__all__ == sorted(headwater.__all__)
    for name in headwater.__all__:
        assert getattr(headwater, name)
    with pytest.raises(AttributeError, match="nothing"):
        _ = headwater.nothing


def test_the_same_text_under_two_names_is_two_documents_and_one_embedding(tmp_path: Path) -> None:
    class Counting:
        def __init__(self) -> None:
            from headwater.models.hashed import HashedEmbedder

            self.inner, self.texts = HashedEmbedder(), 0
            self.fingerprint, self.dim = self.inner.fingerprint, self.inner.dim

        def embed(self, texts, role):  # type: ignore[no-untyped-def]
            self.texts += len(texts) if role == "passage" else 0
            return self.inner.embed(texts, role)

    counting = Counting()
    with headwater.open(tmp_path / "kb", embedder=counting) as kb:
        kb.add_text("The ferry leaves at nine.", uri="a")
        assert counting.texts == 1
        kb.add_text("The ferry leaves at nine.", uri="b")
        assert counting.texts == 1, "the same content elsewhere is no second embedding"
        assert len(kb.documents()) == 2
        kb.add_text("The ferry leaves at nine.", uri="a")
        assert counting.texts == 1
        kb.add_text("The ferry leaves at nine.", uri="a", labels=Labels(tags=("boats",)))
        assert counting.texts == 1, "another tag is another version with the vectors it had"
        assert [hit.uri for hit in kb.search("ferry", where="tag = boats")] == ["a"]
        kb.add_text("The ferry leaves at ten.", uri="a")
        assert counting.texts == 2


def test_two_owners_never_meet(tmp_path: Path) -> None:
    from headwater import config
    from headwater.build import KnowledgeBase

    home = tmp_path / "kb"
    home.mkdir()
    ours = KnowledgeBase(home, config.load(home), owner="ann")
    theirs = KnowledgeBase(home, config.load(home), owner="bob")
    ours.add_text("The safe code is 4711.", uri="note")
    theirs.add_text("The safe code is 9999.", uri="note")
    assert {hit.chunk.text for hit in ours.search("safe code")} == {"The safe code is 4711."}
    assert {hit.chunk.text for hit in theirs.search("safe code")} == {"The safe code is 9999."}
    assert len(ours.documents()) == len(theirs.documents()) == 1
    [foreign] = theirs.documents()
    for look in (ours.document, ours.record, ours.chunks, ours.remove):
        with pytest.raises(NotFound):
            look(foreign.id)
    hostile = 'owner = "bob" or owner != "nobody"'
    assert {hit.chunk.text for hit in ours.search("safe code", where=hostile)} == {"The safe code is 4711."}
    ours.close()
    theirs.close()


def test_archived_documents_are_not_found(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "kb") as kb:
        kb.add_text("The old ferry was painted green.", uri="old", labels=Labels(archived=True))
        kb.add_text("The new ferry is painted blue.", uri="new")
        assert [hit.uri for hit in kb.search("ferry painted")] == ["new"]
        assert len(kb.documents()) == 2


def test_pages_of_results_join_without_gap_or_repeat(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "kb") as kb:
        kb.add_documents(Document(uri=f"d{n}", text=f"river note number {n} about willows") for n in range(30))
        whole = [hit.uri for hit in kb.search("river willows", top_n=30)]
        parts = [hit.uri for start in range(0, 30, 7) for hit in kb.search("river willows", top_n=7, offset=start)]
        assert len(whole) == 30 and whole == parts
        results = kb.search("river willows", top_n=5)
        assert results.total == 30 and sum(results.document_counts.values()) == 30
        assert [hit.rank for hit in kb.search("river", top_n=3, offset=4)] == [5, 6, 7]


def test_searching_goes_on_while_documents_come_and_go(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "kb") as kb:
        kb.add_text("stone zero stays for ever", uri="keep")
        stop, wrong = threading.Event(), []

        def look() -> int:
            rounds = 0
            while not stop.is_set():
                found = {hit.uri for hit in kb.search("stone stays", top_n=50)}
                if "keep" not in found:
                    wrong.append(found)
                rounds += 1
            return rounds

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(look) for _ in range(2)]
            for n in range(12):
                kb.add_text(f"stone {n} comes", uri="comes")
                kb.add_text(f"stone {n} is new", uri=f"new{n}")
                if n % 3 == 0:
                    kb.remove(f"new{n}")
            stop.set()
            assert all(reader.result() > 0 for reader in readers)
        assert wrong == []
        assert kb.check() == []
        assert [hit.chunk.text for hit in kb.search("stone 11 comes", mode="keyword", top_n=1)] == ["stone 11 comes"]


def test_another_process_sees_what_was_added_and_adds_itself(tmp_path: Path) -> None:
    home = tmp_path / "kb"
    with headwater.open(home) as kb:
        kb.add_text("the heron stands in the reeds", uri="heron")
        there = command("add", "-", "--home", str(home), given=b"the otter swims at night")
        assert there.code == 0, there.error
        assert {hit.uri for hit in kb.search("otter")} == {hit.uri for hit in kb.search("otter swims")} != set()
        kb.add_text("the kingfisher dives", uri="kingfisher")
        printed = command("search", "kingfisher", "--home", str(home)).output
        assert "dives" in printed
        assert kb.check() == []


def test_a_user_dictionary_works_at_once(tmp_path: Path) -> None:
    home = tmp_path / "kb"
    with headwater.open(home) as kb:
        kb.add_text("珠海涵崧公司负责维护三码合一系统。", uri="right")
        for n in range(30):
            kb.add_text(f"珠海的公司有很多，第{n}家负责三个系统，编码合计一百。", uri=f"other{n}")
    (home / "dictionary.txt").write_text("涵崧\n三码合一\n", encoding="utf-8")
    with headwater.open(home) as kb:
        assert kb.search("三码合一", mode="keyword")[0].uri == "right"
        assert kb.search("涵崧", mode="keyword")[0].uri == "right"


def test_accents_are_typed_or_left_out(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "kb") as kb:
        kb.add_text("The café in Zürich opens at nine. The ferry to São Paulo leaves at ten.", uri="hours")
        kb.add_text("Cafe Lodz closes at seven.", uri="evening")
        for typed, uri, shown in (("cafe in Zurich", "hours", "Zürich"), ("CAFÉ ŁÓDŹ", "evening", "Lodz")):
            hit = kb.search(typed, mode="keyword", top_n=1)[0]
            assert hit.uri == uri and shown in hit.highlights[0]
        assert kb.ask("When does the cafe in Zurich open?").citations[0].quote == "The café in Zürich opens at nine."
        assert "ten" in kb.ask("When does the ferry to Sao Paulo leave?").text


def test_a_config_takes_plain_values_over_a_preset(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "kb", config=headwater.Config({"retrieve.top_n": 1})) as kb:
        kb.add_text("The ferry leaves at nine.", uri="a")
        kb.add_text("The ferry leaves at ten.", uri="b")
        assert len(kb.search("ferry")) == 1
        assert kb.options.rerank == "builtin", "as with the default preset"
    fast = headwater.Config({"preset": "fast", "tokens.dictionary": ["青砚河"]})
    with headwater.open(tmp_path / "kb", config=fast) as kb:
        assert len(kb.search("ferry")) == 2 and kb.options.candidates == 30
    for wrong, words in (({"retrieve.top_m": 1}, "top_n"), ({"retrieve.top_n": "1"}, "int"), ({"preset": "x"}, "fast")):
        with pytest.raises(SettingError, match=words):
            headwater.Config(wrong)


def test_names_and_text_with_accents_apart_are_found(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    # As some systems write the names of files, and what is copied from them.
    (notes / "Zu\u0308rich.md").write_text("Where the offices are.\n", encoding="utf-8")
    (notes / "hours.txt").write_text("The cafe\u0301 opens at nine.\n", encoding="utf-8")
    with headwater.open(tmp_path / "kb") as kb:
        kb.add(notes)
        for asked in ("Zurich", "Zürich", "Zu\u0308rich"):
            assert [hit.title for hit in kb.search(asked, mode="keyword")] == ["Zürich"]
        for asked in ("café", "cafe\u0301"):
            (hit,) = kb.search(asked, mode="substring")
            assert kb.document(hit.document_id).text[slice(*hit.chunk.span)] == "The café opens at nine."
        assert kb.ask("When does the cafe\u0301 open?").citations[0].quote == "The café opens at nine."


def test_wrong_calls_say_so(tmp_path: Path) -> None:
    with headwater.open(tmp_path / "kb") as kb:
        kb.add_text("something", uri="a")
        with pytest.raises(UsageError, match="current folder"):
            kb.add("")
        with pytest.raises(UsageError, match=r"write \['hr'\]"):
            kb.add(tmp_path, tags="hr")
        with pytest.raises(UsageError, match="at least one file"):
            kb.add()
        with pytest.raises(UsageError, match=r"write \*sources"):
            kb.add([tmp_path])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="names, folders and tags are texts, got None"):
            kb.add(tmp_path, collection=None)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"a tag is one word or more, got \[5\]"):
            kb.add(tmp_path, tags=[5])  # type: ignore[list-item]
        for uri, text in (("half \ud83d", "something"), ("whole", "half \ud83d"), ("b", b"bytes")):
            with pytest.raises(UsageError, match="Unicode"):
                kb.add_text(text, uri=uri)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="leave it out"):
            kb.documents(collection="")
        with pytest.raises(UsageError, match="top_m"):
            kb.search("x", options={"top_m": 3})
        with pytest.raises(FilterError, match="a filter is a text"):
            kb.search("x", where={"tag": "hr"})
        with pytest.raises(FilterError, match="a filter is a text"):
            kb.documents({"tag": "hr"})
        with pytest.raises(UsageError, match="a query is a text, got None"):
            kb.ask(None)
        with pytest.raises(NotFound, match="nobody"):
            kb.document("nobody")
        assert kb.search("nothing of the kind, zebra").hits is not None
    with pytest.raises(NotFound, match="headwater add"):
        headwater.open(tmp_path / "none", create=False)
    with pytest.raises(UsageError, match="current one"):
        headwater.open("")
    with pytest.raises(UsageError, match="write Config"):
        headwater.open(tmp_path / "kb", config={"retrieve.top_n": 5})  # type: ignore[arg-type]
