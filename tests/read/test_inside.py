"""A search from inside: the query's vector and keywords, what was looked up, and by passage what was found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from headwater.build import KnowledgeBase, open_home
from headwater.cli import cli
from headwater.types import Labels


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    with open_home(tmp_path_factory.mktemp("inside") / "kb") as opened:
        opened.add_text("The flood of 1998 reached the old bridge.", uri="a.txt", labels=Labels(tags=("river",)))
        opened.add_text("洪水到了旧桥。Pump PPR-9087 failed.", uri="b.txt")
        yield opened


def test_the_vector_is_the_one_that_was_searched_with(kb: KnowledgeBase) -> None:
    seen = kb.inspect('the old "flood" -pump')
    asked = "the old flood"
    assert np.allclose(seen.query_vector, kb.embedder.embed([asked], "query")[0], atol=1e-6)
    assert len(seen.query_vector) == kb.embedder.dim
    assert kb.inspect("flood", options={"mode": "keyword"}).query_vector == ()


def test_keywords_are_the_telling_words_and_terms_what_was_looked_up(kb: KnowledgeBase) -> None:
    seen = kb.inspect("What did the flooding 洪水 do to PPR-9087?")
    assert set(seen.keywords) >= {"flooding", "洪水", "PPR-9087"}
    assert "the" not in seen.keywords
    assert "flood" in seen.terms["words"] and "洪水" in seen.terms["grams"] and "ppr-9087" in seen.terms["codes"]
    assert kb.inspect("e br", options={"mode": "substring"}).keywords == ("e br",)


def test_the_rest_is_what_the_search_itself_gives(kb: KnowledgeBase) -> None:
    seen = kb.inspect("flood bridge", where='tag = "river"')
    results = kb.search("flood bridge", where='tag = "river"')
    assert seen.results.hits == results.hits
    assert seen.ids == tuple(hit.chunk.name for hit in results) and len(seen.ids) == 1
    assert (seen.total, dict(seen.aggregation)) == (results.total, dict(results.document_counts))
    assert seen.highlights == {hit.chunk.name: hit.highlights for hit in results}
    (fields,) = seen.fields.values()
    assert (fields["uri"], fields["tag"]) == ("a.txt", ("river",))
    assert fields["text"] == results[0].chunk.text
    assert seen.found["keyword"] == 1 and seen.found["semantic"] == 1 and seen.found["rerank"] == 1


def test_nobody_sees_inside_of_what_is_somebody_elses(kb: KnowledgeBase) -> None:
    seen = kb.for_owner("nobody").inspect("flood")
    assert (seen.ids, seen.total, dict(seen.fields), dict(seen.aggregation)) == ((), 0, {}, {})


def run(home: Path, *arguments: str) -> Any:
    done = CliRunner().invoke(cli, ["search", "flood", "--home", str(home), *arguments])
    assert done.exception is None, done.output
    return done.stdout


def test_the_command_tells_the_same(kb: KnowledgeBase) -> None:
    seen = kb.inspect("flood", options={"top_n": 1})
    told = json.loads(run(kb.home, "--trace", "--json", "--top-n", "1"))
    assert told["trace"]["ids"] == list(seen.ids) == [told["hits"][0]["chunk_id"]]
    assert told["trace"]["query_vector"] == pytest.approx(list(seen.query_vector))
    assert told["trace"]["keywords"] == ["flood"] and told["trace"]["found"]["keyword"] >= 1
    assert "trace" not in json.loads(run(kb.home, "--json"))
    shown = run(kb.home, "--trace")
    assert "keywords: flood; a vector of 256 numbers" in shown and "found: keyword" in shown
