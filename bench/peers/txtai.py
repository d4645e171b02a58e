"""txtai: hybrid index with content, over vectors made beforehand."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import txtai

from corpus import Corpus, Fresh, Query

TOP_N = 10


def make(home: Path) -> TxtaiStore:
    """The store in this folder."""
    return TxtaiStore(home)


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("txtai", "faiss-cpu", "torch")}


class TxtaiStore:
    """Ids are chunk numbers as strings. `save` writes everything; an upsert alone lives in memory only."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.known: dict[str, np.ndarray] = {}

    def _transform(self) -> Callable[[list[str]], np.ndarray]:
        """txtai calls what is not a plain function once, for the function."""
        return lambda texts: np.array([self.known[text] for text in texts], dtype=np.float32)

    def _empty(self) -> txtai.Embeddings:
        return txtai.Embeddings({"method": "external", "transform": self._transform, "hybrid": True, "content": True})

    def learn(self, corpus: Corpus) -> None:
        vectors = corpus.vectors()
        self.known = {text: vectors[number] for number, text in enumerate(corpus.cut())}

    def build(self, corpus: Corpus) -> dict[str, float]:
        texts = corpus.cut()
        started = time.perf_counter()
        self.index = self._empty()
        self.index.index(
            (str(number), text, "rare" if corpus.is_rare(number) else "plain") for number, text in enumerate(texts)
        )
        indexed = time.perf_counter()
        self.index.save(str(self.home))
        return {"index": indexed - started, "save": time.perf_counter() - indexed}

    def know(self, corpus: Corpus) -> None:
        self.corpus = corpus
        asked = corpus.query_vectors()
        self.known = {query.cut: asked[query.number] for query in corpus.queries()}

    def open(self) -> None:
        self.index = txtai.Embeddings()
        self.index.load(str(self.home), config={"transform": self._transform})

    def search(self, query: Query, *, rare: bool) -> list[int]:
        if rare:
            sql = "select id, text, score from txtai where similar(:asked) and tags = 'rare'"
            found = self.index.search(sql, TOP_N, parameters={"asked": query.cut})
        else:
            found = self.index.search(query.cut, TOP_N)
        return [int(one["id"]) for one in found]

    def nearest(self, query: Query, *, rare: bool) -> list[int]:
        if rare:
            sql = "select id, score from txtai where similar(:asked, 1.0) and tags = 'rare'"
            return [int(one["id"]) for one in self.index.search(sql, TOP_N, parameters={"asked": query.cut})]
        # The dense index alone: a hybrid search always asks both.
        found = self.index.ann.search(self.known[query.cut].reshape(1, -1).copy(), TOP_N)[0]
        return [int(number) for number, _ in found]

    def add(self, fresh: Fresh) -> None:
        width = self.corpus.per_document
        rows = self.corpus.fresh_vectors()[fresh.number * width : (fresh.number + 1) * width]
        self.known.update(zip(fresh.cut, rows, strict=True))
        self.known[fresh.word] = rows[0]
        self.index.upsert((f"{self._number(fresh) + at}", text, "plain") for at, text in enumerate(fresh.cut))

    def _number(self, fresh: Fresh) -> int:
        return self.corpus.size + fresh.number * self.corpus.per_document

    def remove(self, fresh: Fresh) -> None:
        self.index.delete([str(self._number(fresh) + at) for at in range(len(fresh.cut))])

    def holds(self, fresh: Fresh) -> bool:
        return any(int(one["id"]) >= self.corpus.size for one in self.index.search(fresh.word, TOP_N))

    def close(self) -> None:
        self.index.close()
