"""headwater through its front door: documents with their Chinese uncut, all lanes, catalog included."""

from __future__ import annotations

import importlib.metadata
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import headwater
from corpus import DIM, Corpus, Fresh, Query
from headwater.types import Chunk, Document, Span

TOP_N = 10
RARE = 'tag = "rare"'
PARAGRAPH = "\n\n"
DOCUMENT_URI = "bench://{}"
FRESH_URI = "fresh://{}"


def make(home: Path) -> HeadwaterStore:
    """The store in this folder."""
    return HeadwaterStore(home)


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("headwater", "tantivy", "turbovec", "rjieba", "numpy")}


def plain(text: str) -> str:
    """Without the signs that ask headwater for exact words or for their absence: to the others they are nothing."""
    return " ".join(re.sub(r'["＂“”「」『』]|(?:^|(?<=\s))[-－]+', " ", text).split())


class PrecomputedEmbedder:
    """Looks vectors up instead of computing them. Keyed by the hash of the text, which is 64 bits wide."""

    fingerprint = "bench-384"
    instant = True  # a vector is looked up, as the bundled model computes one: nothing is waited for
    dim = DIM

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.matrix: np.ndarray = np.empty((0, DIM), dtype=np.float32)

    def know(self, texts: Sequence[str], vectors: np.ndarray) -> None:
        self.rows = {hash(text): row for row, text in enumerate(texts)}
        self.matrix = vectors

    def embed(self, texts: Sequence[str], role: str) -> np.ndarray:
        rows = [self.rows[hash(text)] for text in texts]
        # In the order of the corpus they are given as the other stores are given them: a stretch of the file.
        if rows == list(range(rows[0], rows[0] + len(rows))):
            return np.asarray(self.matrix[rows[0] : rows[-1] + 1], dtype=np.float32)
        return np.asarray(self.matrix[rows], dtype=np.float32)


class ParagraphChunker:
    """One chunk per paragraph, so that headwater's chunks are the corpus's."""

    fingerprint = "bench-paragraph"

    def chunk(self, document: Document) -> list[Chunk]:
        made, start = [], 0
        for text in document.text.split(PARAGRAPH):
            made.append(Chunk(span=Span(start, start + len(text)), text=text))
            start += len(text) + len(PARAGRAPH)
        return made


class Stopwatch:
    """Seconds spent inside methods of the parts, for telling the stages of an ingest apart.

    Stages that run beside each other on two cores add up to more than the wall clock shows.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()

    def watch(self, part: Any, method: str, stage: str) -> None:
        inner: Callable[..., Any] = getattr(part, method)

        def timed(*positional: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return inner(*positional, **named)
            finally:
                with self._lock:
                    self.seconds[stage] += time.perf_counter() - started

        setattr(part, method, timed)


class HeadwaterStore:
    """A home folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.embedder = PrecomputedEmbedder()
        self.ids: dict[int, str] = {}

    def _open(self) -> Any:
        return headwater.open(self.home, embedder=self.embedder, chunker=ParagraphChunker())

    def learn(self, corpus: Corpus) -> None:
        self.embedder.know(list(corpus.chunks()), corpus.vectors())

    def build(self, corpus: Corpus) -> dict[str, float]:
        watch = Stopwatch()
        started = time.perf_counter()
        self.base = self._open()
        for part, method, stage in STAGES:
            watch.watch(getattr(self.base, part), method, stage)
        self.base.add_documents(_documents(corpus))
        self.base.close()
        return {**watch.seconds, "wall": time.perf_counter() - started}

    def know(self, corpus: Corpus) -> None:
        self.corpus = corpus
        texts, vectors = [plain(query.text) for query in corpus.queries()], corpus.query_vectors()
        fresh = corpus.fresh()
        texts += [text for one in fresh for text in one.chunks] + [one.word for one in fresh]
        rows = corpus.fresh_vectors()
        self.embedder.know(texts, np.vstack((vectors, rows, rows[:: corpus.per_document])))

    def open(self) -> None:
        self.base = self._open()

    def search(self, query: Query, *, rare: bool) -> list[int]:
        return self._found(query, "hybrid", rare=rare)

    def nearest(self, query: Query, *, rare: bool) -> list[int]:
        return self._found(query, "semantic", rare=rare)

    def _found(self, query: Query, mode: str, *, rare: bool) -> list[int]:
        # As the others do it: two legs fused, nothing looked at again, and asked as it is: vectors are of these words.
        where, options = RARE if rare else "", {"rerank": "", "typos": False}
        return self._numbers(self.base.search(plain(query.text), mode=mode, top_n=TOP_N, where=where, options=options))

    def _numbers(self, results: Any) -> list[int]:
        return [int(hit.uri.rpartition("/")[2]) * self.corpus.per_document + hit.chunk.ordinal for hit in results]

    def add(self, fresh: Fresh) -> None:
        self.base.add_documents([Document(uri=FRESH_URI.format(fresh.number), text=PARAGRAPH.join(fresh.chunks))])

    def remove(self, fresh: Fresh) -> None:
        self.base.remove(self.ids[fresh.number])

    def holds(self, fresh: Fresh) -> bool:
        uri = FRESH_URI.format(fresh.number)
        found = [hit for hit in self.base.search(fresh.word, mode="keyword", top_n=TOP_N) if hit.uri == uri]
        if found:
            self.ids[fresh.number] = found[0].document_id
        return bool(found)

    def close(self) -> None:
        self.base.close()


STAGES = (
    ("chunker", "chunk", "chunk"),
    ("embedder", "embed", "look up vectors"),
    ("text", "add", "text: cut and add"),
    ("text", "flush", "text: flush"),
    ("vectors", "add", "vectors: add"),
    ("vectors", "flush", "vectors: flush"),
    ("catalog", "draw", "catalog: tickets"),
    ("catalog", "known_vectors", "catalog: known vectors"),
    ("catalog", "commit", "catalog: commit"),
)


def _documents(corpus: Corpus) -> Iterator[Document]:
    chunks = corpus.chunks()
    for number in range(-(-corpus.size // corpus.per_document)):
        text = PARAGRAPH.join(islice(chunks, corpus.per_document))
        tags = ("rare",) if corpus.is_rare(number * corpus.per_document) else ()
        yield Document(uri=DOCUMENT_URI.format(number), text=text, tags=tags)
