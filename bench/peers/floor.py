"""bm25s + numpy: what one gets with no engine at all. A change means building everything again."""

from __future__ import annotations

import importlib.metadata
import json
import time
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from corpus import Corpus, Fresh, Query

CANDIDATES = 100
TOP_N = 10
RRF_K = 60


def make(home: Path) -> FloorStore:
    """The store in this folder."""
    return FloorStore(home)


def versions() -> dict[str, str]:
    """What is measured."""
    return {name: importlib.metadata.version(name) for name in ("bm25s", "numpy")}


class FloorStore:
    """Files: the BM25 matrix, the vectors, the texts."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def learn(self, corpus: Corpus) -> None:
        pass  # it is given them

    def build(self, corpus: Corpus) -> dict[str, float]:
        texts = list(corpus.cut())
        rare = np.array([corpus.is_rare(number) for number in range(corpus.size)])
        return self._write(texts, np.asarray(corpus.vectors()), rare)

    def _write(self, texts: list[str], vectors: np.ndarray, rare: np.ndarray) -> dict[str, float]:
        started = time.perf_counter()
        self.home.mkdir(parents=True, exist_ok=True)
        retriever = bm25s.BM25()
        retriever.index(bm25s.tokenize(texts, stopwords=None, show_progress=False), show_progress=False)
        indexed = time.perf_counter()
        retriever.save(str(self.home / "bm25"))
        np.save(self.home / "vectors.npy", vectors)
        np.save(self.home / "rare.npy", rare)
        (self.home / "texts.json").write_text(json.dumps(texts, ensure_ascii=False), "utf-8")
        return {"index": indexed - started, "save": time.perf_counter() - indexed}

    def know(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.asked = corpus.query_vectors()

    def open(self) -> None:
        self.retriever = bm25s.BM25.load(str(self.home / "bm25"))
        self.vectors = np.load(self.home / "vectors.npy")
        self.rare = np.load(self.home / "rare.npy")
        self.texts: list[str] = json.loads((self.home / "texts.json").read_text("utf-8"))

    def _keyword(self, text: str, *, rare: bool) -> list[int]:
        tokens = bm25s.tokenize([text], stopwords=None, show_progress=False, return_ids=False)
        mask: Any = self.rare if rare else None
        found, scores = self.retriever.retrieve(tokens, k=CANDIDATES, show_progress=False, weight_mask=mask)
        return [int(number) for number, score in zip(found[0], scores[0], strict=True) if score > 0]

    def _dense(self, vector: np.ndarray, *, rare: bool, limit: int) -> list[int]:
        if rare:
            allowed = np.flatnonzero(self.rare)
            order = np.argsort(-(self.vectors[allowed] @ vector), kind="stable")[:limit]
            return [int(number) for number in allowed[order]]
        scores = self.vectors @ vector
        some = np.argpartition(-scores, limit)[:limit]
        return [int(number) for number in some[np.argsort(-scores[some], kind="stable")]]

    def search(self, query: Query, *, rare: bool) -> list[int]:
        fused: dict[int, float] = {}
        legs = (
            self._keyword(query.cut, rare=rare),
            self._dense(self.asked[query.number], rare=rare, limit=CANDIDATES),
        )
        for leg in legs:
            for rank, number in enumerate(leg, 1):
                fused[number] = fused.get(number, 0.0) + 1 / (RRF_K + rank)
        best = sorted(fused, key=lambda number: (-fused[number], number))[:TOP_N]
        self.shown = [self.texts[number] for number in best]
        return best

    def nearest(self, query: Query, *, rare: bool) -> list[int]:
        return self._dense(self.asked[query.number], rare=rare, limit=TOP_N)

    def add(self, fresh: Fresh) -> None:
        width = self.corpus.per_document
        rows = self.corpus.fresh_vectors()[fresh.number * width : (fresh.number + 1) * width]
        texts = [*self.texts, *fresh.cut]
        self._write(texts, np.vstack((self.vectors, rows)), np.append(self.rare, [False] * len(rows)))
        self.open()

    def remove(self, fresh: Fresh) -> None:
        keep = len(self.texts) - len(fresh.cut)
        self._write(self.texts[:keep], self.vectors[:keep], self.rare[:keep])
        self.open()

    def holds(self, fresh: Fresh) -> bool:
        return any(number >= self.corpus.size for number in self._keyword(fresh.word, rare=False))

    def close(self) -> None:
        pass
