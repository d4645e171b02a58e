"""Moving a home to another embedder or chunker, as people do it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.starter import headwater

from headwater.build import open_home
from headwater.errors import HomeLocked, NotFound, SpaceMismatch, UsageError
from headwater.models.hashed import HashedEmbedder
from headwater.retrieve import SEMANTIC_FAILED
from headwater.storage.lock import HomeLock
from headwater.types import Matrix

OLD = "[embed]\nuse = 'hashed'\ndim = 64\n"
NEW = "[embed]\nuse = 'hashed'\ndim = 128\n"
SMALLER = "[chunk]\nsize = 12\noverlap = 0\n"


@pytest.fixture
def home(tmp_path: Path, handbook: Path) -> Path:
    home = tmp_path / "kb"
    home.mkdir()
    configure(home, OLD)
    assert headwater("add", str(handbook), "--home", str(home)).code == 0
    return home


def configure(home: Path, text: str) -> None:
    (home / "headwater.toml").write_text(text, encoding="utf-8")


class Counting(HashedEmbedder):
    """Counts the passages it embeds."""

    passages = 0

    def embed(self, texts: Sequence[str], role: Any) -> Matrix:
        self.passages += len(texts) if role == "passage" else 0
        return super().embed(texts, role)


def test_from_the_refusal_to_the_switch_and_back(home: Path, handbook: Path) -> None:
    at = ("--home", str(home))
    configure(home, NEW)
    for refused in (("search", "parental leave"), ("search", "parental leave", "--mode", "semantic")):
        outcome = headwater(*refused, *at)
        assert outcome.code == 2 and "hashed-64" in outcome.error and "headwater reindex" in outcome.error
    assert headwater("search", "parental leave", "--mode", "keyword", *at).code == 0
    (handbook / "new.md").write_text("# New\n\nA new page.", encoding="utf-8")
    outcome = headwater("add", str(handbook), *at)
    assert outcome.code == 2 and "headwater reindex" in outcome.error

    outcome = headwater("reindex", *at)
    assert outcome.code == 0 and "overlap@10" in outcome.output and "--back" in outcome.output
    assert headwater("search", "parental leave", *at).code == 0
    assert headwater("add", str(handbook), *at).code == 0
    status = json.loads(headwater("status", "--json", *at).output)
    assert [space["state"] for space in status["spaces"]] == ["retired", "active"] and "128" in status["embedder"]
    assert headwater("check", *at).code == 0

    outcome = headwater("reindex", *at)
    assert outcome.code == 2 and "already" in outcome.error

    told = json.loads(headwater("reindex", "--back", "--json", *at).output)
    assert "64" in told["after"]["embedder"] and told["filled"] == 1, "the page that came meanwhile"
    assert told["queries"] > 0 and 0 <= told["overlap_at_10"] <= 1
    assert headwater("search", "parental leave", *at).code == 2, "the settings ask for the other one"
    configure(home, OLD)
    assert "A new page" in headwater("search", "new page", *at).output

    assert json.loads(headwater("reindex", "--confirm", "--json", *at).output) == {"dropped": 1}
    assert sorted(path.name for path in home.glob("*-*")) == ["text-1", "vectors-1"]
    outcome = headwater("reindex", "--back", *at)
    assert outcome.code == 2 and "no earlier space" in outcome.error
    assert headwater("reindex", "--back", "--confirm", *at).code == 2
    assert headwater("check", *at).code == 0


def test_a_change_of_chunking_alone_reads_on_and_reuses_vectors(home: Path) -> None:
    configure(home, OLD + SMALLER)
    assert headwater("search", "parental leave", "--home", str(home)).code == 0
    embedder = Counting(dim=64)
    with open_home(home, embedder=embedder) as kb:
        before = kb.status()["chunks"]
        done = kb.reindex()
        assert done.chunks_after > done.chunks_before == before
        cost = embedder.passages
        configure(home, OLD + '[chunk]\nuse = "auto"\n')  # said anew: what is not said stays as it is
    with open_home(home, embedder=embedder) as kb:
        kb.confirm()
        again = kb.reindex()
        assert again.filled == len(kb.documents()) and embedder.passages == cost, "every text was known"
        assert again.chunks_after == before and kb.check() == []


def test_a_reader_with_settings_goes_over_to_the_new_space(home: Path) -> None:
    with open_home(home) as reader:
        assert reader.search("parental leave").fallback_reason is None
        configure(home, NEW + SMALLER)
        with open_home(home) as writer:
            writer.reindex()
        results = reader.search("parental leave")
        assert results.fallback_reason is None and results.degraded == () and reader.space.dim == 128
        assert reader.add_text("It was added by who knew the old settings.", uri="late").added == 1
        assert reader.search("old settings", where='uri = "late"')[0].uri == "late"
        assert reader.check() == []


def test_a_reader_with_an_embedder_of_its_own_goes_on_with_words(home: Path) -> None:
    with open_home(home, embedder=HashedEmbedder(dim=64)) as reader:
        assert reader.search("parental leave", mode="semantic").mode_used == "semantic"
        with open_home(home, embedder=HashedEmbedder(dim=96)) as writer:
            writer.reindex()
        for mode in ("semantic", "hybrid"):
            results = reader.search("parental leave", mode=mode)
            assert results.hits and (results.mode_used, results.fallback_reason) == ("keyword", SEMANTIC_FAILED)
            assert "hashed-96" in results.degraded[0] and "reindex" in results.degraded[0]
        assert reader.search("parental leave", mode="keyword").degraded == ()
        with pytest.raises(SpaceMismatch, match="hashed-96"):
            reader.add_text("more", uri="more")


def test_settings_that_are_put_back_end_what_was_begun(home: Path) -> None:
    configure(home, NEW)
    with open_home(home) as kb:
        kb.catalog.open_shadow(kb.sides.wanted())
        assert kb.search("parental leave").fallback_reason is None, "a reindex to these settings is under way"
        assert kb.add_text("A page that came meanwhile.", uri="meanwhile").added == 1
        assert (kb.space.dim, kb.search("came meanwhile", top_n=1)[0].uri) == (64, "meanwhile")
    configure(home, OLD)
    with open_home(home) as kb:
        with pytest.raises(UsageError, match="already"):
            kb.reindex()
        assert [space.state for space in kb.catalog.spaces()] == ["active"] and kb.check() == []


def test_one_reindex_at_a_time(home: Path) -> None:
    configure(home, NEW)
    lock = HomeLock(home / "reindex.lock")
    lock.acquire()
    with open_home(home) as kb, pytest.raises(HomeLocked):
        kb.reindex()
    lock.release()
    with open_home(home) as kb, pytest.raises(NotFound):
        kb.reindex(back=True)


def test_check_knows_about_spaces(home: Path) -> None:
    configure(home, NEW)
    with open_home(home) as kb:
        kb.reindex()
        (home / "text-9").mkdir()
        for path in (home / "vectors-1").iterdir():
            path.unlink()
        found = kb.check()
        assert any("text-9" in problem for problem in found)
        assert any("vector index of the retired space 1 lacks" in problem for problem in found)
    assert headwater("check", "--repair", "--home", str(home)).code == 0
    assert not (home / "text-9").exists()
    with open_home(home) as kb:
        back = kb.reindex(back=True)
        assert back.filled == len(kb.documents()), "what was lost is made again"
    configure(home, OLD)
    with open_home(home) as kb:
        assert kb.search("parental leave").fallback_reason is None and kb.check() == []


def test_both_are_scored_on_a_test_set(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tiny"
    (folder / "qrels").mkdir(parents=True)
    texts = {"1": "the heron stands in the river", "2": "pumps are serviced in May", "3": "the meadow is dry"}
    corpus = "\n".join(json.dumps({"_id": id, "title": "", "text": text}) for id, text in texts.items())
    (folder / "corpus.jsonl").write_text(corpus, encoding="utf-8")
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "heron river"}), encoding="utf-8")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    configure(home, NEW)
    outcome = headwater("reindex", "--compare", str(folder), "--json", "--home", str(home))
    assert outcome.code == 0, outcome
    assert json.loads(outcome.output)["ndcg_at_10"] == {"before": 1.0, "after": 1.0}
