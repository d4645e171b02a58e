"""A folder in the BEIR layout -> documents, queries and judgements.

`corpus.jsonl` has `_id`, `title`, `text`; `queries.jsonl` has `_id`, `text`; `qrels/test.tsv` has a query's id, a
document's id and a grade on each line, below a header. The corpus is read as a stream, never held as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headwater.errors import NotFound, UsageError

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
QREL_COLUMNS = 3
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A document of a test set."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class JudgedSet:
    """Queries and which documents answer them. Only queries with a judgement are in it."""

    folder: Path
    queries: Mapping[str, str]  # id -> text
    judgements: Mapping[str, Mapping[str, int]]  # query id -> document id -> grade; 0 is not relevant

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    def entries(self) -> Iterator[Entry]:
        """The documents, one at a time."""
        path, seen = self.folder / CORPUS, set[str]()
        for place, row in _rows(path):
            entry = Entry(id=_id(row, place), title=_text(row, "title", place), text=_text(row, "text", place))
            if entry.id in seen:
                raise UsageError(f"{place}: the id {entry.id!r} was there before; every document needs its own")
            seen.add(entry.id)
            yield entry

    @cached_property
    def document_ids(self) -> frozenset[str]:
        """The id of every document."""
        return frozenset(entry.id for entry in self.entries())

    @cached_property
    def corpus_digest(self) -> str:
        """Differs where the documents differ."""
        found = blake2b(digest_size=16)
        with (self.folder / CORPUS).open("rb") as stream:
            while part := stream.read(READ_BYTES):
                found.update(part)
        return found.hexdigest()

    @property
    def unknown_documents(self) -> int:
        """How many documents are judged and not in the corpus: no search can find them, and they count as missed."""
        judged = {document for grades in self.judgements.values() for document, grade in grades.items() if grade > 0}
        return len(judged - self.document_ids)


def read_set(folder: Path) -> JudgedSet:
    """Read the queries and judgements of a set; a file that is missing or cannot be read is named."""
    if not folder.is_dir():
        raise NotFound(f"there is no folder {str(folder)!r}; a test set is a folder with {CORPUS}, {QUERIES}, {QRELS}")
    for name in (CORPUS, QUERIES, QRELS):
        if not (folder / name).is_file():
            raise NotFound(f"{str(folder)!r} has no {name}; a test set is a folder with {CORPUS}, {QUERIES}, {QRELS}")
    judgements = _judgements(folder / QRELS)
    texts: dict[str, str] = {}
    for place, row in _rows(folder / QUERIES):
        query_id, text = _id(row, place), _text(row, "text", place)
        if query_id in texts:
            raise UsageError(f"{place}: the id {query_id!r} was there before; every query needs its own")
        if not text.strip():
            raise UsageError(f"{place}: the query {query_id!r} has no text")
        texts[query_id] = text
    if missing := [query_id for query_id in judgements if query_id not in texts]:
        raise UsageError(f"{folder / QRELS} judges {len(missing)} queries that {QUERIES} lacks, such as {missing[0]!r}")
    queries = {query_id: text for query_id, text in texts.items() if query_id in judgements}
    return JudgedSet(folder=folder.absolute(), queries=queries, judgements=judgements)


def find_sets(folder: Path) -> list[Path]:
    """The folder itself where it is a test set, else every test set in it, by name."""
    if (folder / CORPUS).exists() or not folder.is_dir():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{CORPUS}"))
    if not found:
        raise NotFound(f"{str(folder)!r} is no test set and has none in it: no {CORPUS} there or one folder below")
    return found


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for number, line in enumerate(_lines(path), start=1):
        columns = line.rstrip("\r\n").split("\t")
        if columns == [""]:
            continue
        if len(columns) != QREL_COLUMNS:
            raise UsageError(f"{path}:{number}: want query id, document id and grade between tabs, got {line!r}")
        query_id, document_id, grade = columns
        if not grade.removeprefix("-").isdecimal():
            if number == 1:
                continue  # the header
            raise UsageError(f"{path}:{number}: a grade is a whole number, got {grade!r}")
        found.setdefault(query_id, {})[document_id] = int(grade)
    if not found:
        raise UsageError(f"{path} holds no judgement; without one there is nothing to measure")
    return found


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a file of JSON lines, and where it stands."""
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(f"{place}: not JSON ({error}); every line is one object") from error
        if not isinstance(row, dict):
            raise UsageError(f"{place}: want an object with '_id' and 'text', got {line.strip()[:80]!r}")
        yield place, row


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as stream:
            yield from stream
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8: {error}") from error


def _id(row: Mapping[str, Any], place: str) -> str:
    value = row.get("_id")
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise UsageError(f"{place}: '_id' must be a text or a whole number, got {value!r}")
    return str(value)


def _text(row: Mapping[str, Any], key: str, place: str) -> str:
    value = row.get(key, "" if key == "title" else None)
    if value is None and key == "title":
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{place}: {key!r} must be a text, got {value!r}")
    return value
