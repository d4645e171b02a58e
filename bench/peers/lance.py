"""LanceDB: a table with its full-text index and its default vector index, fused by its RRF reranker."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS, Bitmap, IvfPq
from lancedb.rerankers import RRFReranker

from corpus import DIM, Corpus, Fresh, Query

TOP_N = 10
BATCH = 10_000
PATIENCE = timedelta(hours=1)
SCHEMA = pa.schema(
    [("id", pa.int64()), ("text", pa.string()), ("tag", pa.string()), ("vector", pa.list_(pa.float32(), DIM))]
)


def make(home: Path) -> LanceStore:
    """The store in this folder, with a vector index."""
    return LanceStore(home, indexed=True, rows=False)


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("lancedb", "pyarrow")}


class LanceStore:
    """One table, filled with Arrow batches or with `rows`: dicts, as its guides do it."""

    def __init__(self, home: Path, *, indexed: bool, rows: bool) -> None:
        self.home, self.indexed, self.rows = home, indexed, rows
        self.reranker = RRFReranker()

    def _batches(self, corpus: Corpus) -> Iterator[pa.RecordBatch]:
        vectors, texts = corpus.vectors(), corpus.cut()
        for low in range(0, corpus.size, BATCH):
            numbers = range(low, min(low + BATCH, corpus.size))
            tags = ["rare" if corpus.is_rare(number) else "plain" for number in numbers]
            yield _batch(numbers, list(islice(texts, len(numbers))), tags, vectors[low : numbers.stop])

    def _dicts(self, corpus: Corpus) -> Iterator[list[dict[str, Any]]]:
        vectors, texts = corpus.vectors(), corpus.cut()
        for low in range(0, corpus.size, BATCH):
            numbers = range(low, min(low + BATCH, corpus.size))
            yield [
                {"id": n, "text": text, "tag": "rare" if corpus.is_rare(n) else "plain", "vector": vectors[n]}
                for n, text in zip(numbers, texts, strict=False)
            ]

    def learn(self, corpus: Corpus) -> None:
        pass  # it is given them

    def build(self, corpus: Corpus) -> dict[str, float]:
        started = time.perf_counter()
        if self.rows:
            table = lancedb.connect(self.home).create_table("chunks", schema=SCHEMA)
            for rows in self._dicts(corpus):
                table.add(rows)
        else:
            table = lancedb.connect(self.home).create_table("chunks", self._batches(corpus), schema=SCHEMA)
        written = time.perf_counter()
        table.create_index("text", config=FTS(), wait_timeout=PATIENCE)
        table.create_index("tag", config=Bitmap(), wait_timeout=PATIENCE)
        texted = time.perf_counter()
        if self.indexed:
            table.create_index("vector", config=IvfPq(distance_type="cosine"), wait_timeout=PATIENCE)
        return {
            "write": written - started,
            "text and tag index": texted - written,
            "vector index": time.perf_counter() - texted,
        }

    def know(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.asked = corpus.query_vectors()

    def open(self) -> None:
        self.table: Any = lancedb.connect(self.home).open_table("chunks")

    def search(self, query: Query, *, rare: bool) -> list[int]:
        # Quotation marks would ask for a phrase, for which its index would have to be made with positions.
        words = query.cut.replace('"', " ")
        asked = self.table.search(query_type="hybrid").vector(self.asked[query.number]).text(words)
        if self.indexed is False:
            asked = asked.distance_type("cosine")
        if rare:
            asked = asked.where("tag = 'rare'", prefilter=True)
        found = asked.rerank(self.reranker).select(["id", "text"]).limit(TOP_N).to_arrow()
        return found.column("id").to_pylist()[:TOP_N]

    def nearest(self, query: Query, *, rare: bool) -> list[int]:
        asked = self.table.search(self.asked[query.number], vector_column_name="vector").distance_type("cosine")
        if rare:
            asked = asked.where("tag = 'rare'", prefilter=True)
        return asked.select(["id"]).limit(TOP_N).to_arrow().column("id").to_pylist()

    def add(self, fresh: Fresh) -> None:
        width = self.corpus.per_document
        rows = self.corpus.fresh_vectors()[fresh.number * width : (fresh.number + 1) * width]
        numbers = range(self._number(fresh), self._number(fresh) + len(rows))
        self.table.add(pa.Table.from_batches([_batch(numbers, fresh.cut, ["plain"] * len(rows), rows)]))

    def _number(self, fresh: Fresh) -> int:
        return self.corpus.size + fresh.number * self.corpus.per_document

    def remove(self, fresh: Fresh) -> None:
        self.table.delete(f"id >= {self._number(fresh)} and id < {self._number(fresh) + len(fresh.cut)}")

    def holds(self, fresh: Fresh) -> bool:
        found = self.table.search(fresh.word, query_type="fts").select(["id"]).limit(TOP_N).to_arrow()
        return any(number >= self.corpus.size for number in found.column("id").to_pylist())

    def close(self) -> None:
        pass


def _batch(numbers: range, texts: list[str], tags: list[str], rows: np.ndarray) -> pa.RecordBatch:
    flat = pa.array(np.ascontiguousarray(rows, dtype=np.float32).reshape(-1))
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array(texts),
        pa.array(tags),
        pa.FixedSizeListArray.from_arrays(flat, DIM),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
