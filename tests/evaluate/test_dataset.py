"""A test set is read as it is, and what is wrong with one is named with its place."""

from pathlib import Path

import pytest

from headwater.errors import NotFound, UsageError
from headwater.evaluate.dataset import find_sets, read_set

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"


def test_a_set_is_read(small_set: Path) -> None:
    found = read_set(small_set)
    assert found.name == "small"
    assert list(found.queries) == ["q1", "q2", "q3", "q4", "q5"], "what nobody judged is left out"
    assert found.judgements["q1"] == {"leave": 2, "7": 1}
    assert found.judgements["q4"] == {"7": 1, "leave": 0}
    assert [entry.id for entry in found.entries()] == ["leave", "pump", "flood", "7", "报销", "水位"]
    assert found.unknown_documents == 0


def test_ids_may_be_numbers_and_titles_missing(small_set: Path) -> None:
    (small_set / CORPUS).write_text('{"_id": 7, "text": "one"}\n\n{"_id": "leave", "title": null, "text": "two"}\n')
    found = read_set(small_set)
    assert [(entry.id, entry.title) for entry in found.entries()] == [("7", ""), ("leave", "")]
    assert found.unknown_documents == 3, "pump, flood and 报销 are judged and not there"


def test_the_digest_follows_the_corpus(small_set: Path) -> None:
    before = read_set(small_set).corpus_digest
    assert read_set(small_set).corpus_digest == before
    with (small_set / CORPUS).open("a", encoding="utf-8") as stream:
        stream.write('{"_id": "new", "text": "more"}\n')
    assert read_set(small_set).corpus_digest != before


@pytest.mark.parametrize("name", [CORPUS, QUERIES, QRELS])
def test_a_missing_file_is_named(small_set: Path, name: str) -> None:
    (small_set / name).unlink()
    with pytest.raises(NotFound, match=name):
        read_set(small_set)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        (QUERIES, b"not json\n", "queries.jsonl:1: not JSON"),
        (QUERIES, b'["a list"]\n', "queries.jsonl:1: want an object"),
        (QUERIES, b'{"text": "no id"}\n', "'_id' must be"),
        (QUERIES, b'{"_id": "q1"}\n', "'text' must be a text"),
        (QUERIES, b'{"_id": "q1", "text": " "}\n', "'q1' has no text"),
        (QUERIES, b'{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}\n', "queries.jsonl:2: the id 'q1'"),
        (QUERIES, b'{"_id": "other", "text": "a"}\n', "judges 5 queries"),
        (QUERIES, b'{"_id": "q1", "text": "\xff"}\n', "not UTF-8"),
        (QRELS, b"query-id\tcorpus-id\tscore\n", "holds no judgement"),
        (QRELS, b"q1\tleave\t1\nq1 leave 1\n", "test.tsv:2: want query id"),
        (QRELS, b"q1\tleave\t1\nq1\tpump\thigh\n", "test.tsv:2: a grade is a whole number"),
    ],
)
def test_a_bad_line_is_named(small_set: Path, name: str, content: bytes, told: str) -> None:
    (small_set / name).write_bytes(content)
    with pytest.raises(UsageError) as raised:
        read_set(small_set)
    assert told in str(raised.value)


def test_a_document_twice_is_refused(small_set: Path) -> None:
    (small_set / CORPUS).write_text('{"_id": "a", "text": "one"}\n{"_id": "a", "text": "two"}\n')
    with pytest.raises(UsageError, match=r"corpus\.jsonl:2: the id 'a'"):
        list(read_set(small_set).entries())


def test_sets_are_found_in_a_folder(small_set: Path, tmp_path: Path) -> None:
    assert find_sets(small_set) == [small_set]
    assert find_sets(small_set.parent) == [small_set]
    (tmp_path / "nothing").mkdir()
    with pytest.raises(NotFound, match="has none in it"):
        find_sets(tmp_path / "nothing")
    with pytest.raises(NotFound, match="there is no folder"):
        read_set(tmp_path / "absent")
