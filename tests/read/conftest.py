"""A shelf of documents on real parts: memory catalog and indexes, and an embedder that knows a few synonyms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

from headwater.engine import Engine
from headwater.filters import Filter
from headwater.models.extractive import ExtractiveGenerator
from headwater.protocols import Generator
from headwater.retrieve import Hybrid, Parts
from headwater.selection import TICKET_BITS
from headwater.storage.memory import MemoryTextIndex, MemoryVectorIndex
from headwater.storage.memory_catalog import MemoryCatalog
from headwater.tokens import Cutter
from headwater.types import Change, Chunk, Document, Matrix, Options, Query, Results, Space, Span, Version, document_id

# One dimension per meaning: words of one line mean the same.
MEANINGS = ("leave holiday 假 年假 休假", "pump 水泵", "flood 洪水 high-water", "error fault 故障", "salary pay 工资")


class MeaningEmbedder:
    """Counts words by meaning, so that a synonym and a translation are near."""

    fingerprint, dim = "meanings/1", len(MEANINGS) + 1

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for place, words in enumerate(MEANINGS):
                row[place] = sum(text.lower().count(word) for word in words.split())
            row[-1] = 0.1 * ("?" not in text)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


class Shelf:
    """Documents that were added one after the other, the newest version of each alive."""

    def __init__(self, pool: ThreadPoolExecutor, *, embedder: Any = None) -> None:
        self.embedder = embedder or MeaningEmbedder()
        self.catalog = MemoryCatalog()
        self.catalog.open_space(Space(embedder="meanings/1", dim=MeaningEmbedder.dim, chunker="lines/1"))
        self.text = MemoryTextIndex(cutter=Cutter())
        self.vectors = MemoryVectorIndex(dim=MeaningEmbedder.dim, select=self.catalog.select)
        self.pool = pool

    def add(self, uri: str, text: str, *, chunks: Sequence[str] = (), **about: Any) -> Document:
        """Every chunk given must stand in the text; without any, the text is one chunk."""
        (change,) = self.catalog.draw([Change(uri=uri, kind="put", owner=about.get("owner", "local"))])
        id = document_id(change.owner, change.collection, uri)
        document = Document(uri=uri, text=text, id=id, **about)
        cut: list[Chunk] = []
        for ordinal, part in enumerate(chunks or (text,)):
            start = text.index(part)
            ticketed = change.ticket << TICKET_BITS | ordinal
            span = Span(start, start + len(part))
            cut.append(Chunk(id=ticketed, span=span, text=part, document_id=id))
        vectors = MeaningEmbedder().embed([chunk.text for chunk in cut], "passage")
        self.text.add([(chunk, document) for chunk in cut])
        self.vectors.add(np.array([chunk.id for chunk in cut], dtype=np.int64), vectors)
        self.text.flush()
        self.vectors.flush()
        self.catalog.commit([Version(change=change, document=document, chunks=tuple(cut), vectors=vectors)])
        return document

    def remove(self, uri: str) -> None:
        """Dead in the catalog; the indexes still hold it, as they do until the sweep."""
        self.catalog.commit([Version(change=change) for change in self.catalog.draw([Change(uri=uri, kind="delete")])])

    def parts(self, **other: Any) -> Parts:
        made = Parts(catalog=self.catalog, text=self.text, vectors=self.vectors, embedder=self.embedder, pool=self.pool)
        return replace(made, **other)

    def search(self, text: str, *, where: Filter | None = None, parts: Parts | None = None, **options: Any) -> Results:
        query = Query(text=text, options=Options(**options))
        return Hybrid(parts or self.parts()).retrieve(query if where is None else replace(query, where=where))

    def engine(self, generator: Generator | None = None) -> Engine:
        return Engine(self.parts(), generator or ExtractiveGenerator())


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
def shelf(pool: ThreadPoolExecutor) -> Shelf:
    return Shelf(pool)


@pytest.fixture
def filled(shelf: Shelf) -> Shelf:
    hr, ops = {"tags": ("hr",)}, {"tags": ("ops",)}
    leave = "Parents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full."
    pump = "Error PPR-9087 means that the intake of the pump is blocked. Clean the screen."
    annual = "员工每年享有十五天带薪年假。年假须提前两周申请，由部门主管批准。"
    shelf.add("leave.md", leave, title="Parental leave", **hr)
    shelf.add("holiday.md", "A holiday of three weeks is granted after the first year.", title="Vacation", **hr)
    shelf.add("pump.md", pump, title="Pump manual", **ops)
    shelf.add("年假.md", annual, title="年假制度", **hr)
    shelf.add("flood.txt", "The flood of 1998 reached 7.42 metres at the old bridge.", title="Flood notes")
    return shelf
