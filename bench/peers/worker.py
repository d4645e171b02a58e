"""Commands on standard input -> measurements on standard output, for one store in a process of its own.

    python -m peers.worker STORE CORPUS HOME      (with bench/ on PYTHONPATH)

A command is a line of JSON `{"do": name, ...}`; the answer is a line of JSON. `build` needs a process of its own,
so that what it leaves in memory is not counted with an opened store.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from corpus import QUERIES, Corpus, Fresh, Query, recall

WARM_UP = 20
TOP_N = 10


class Store(Protocol):
    """What a store must do to be measured. Chunks are named by their number in the corpus."""

    def learn(self, corpus: Corpus) -> None:
        """Learn the chunks' vectors: what stands for an embedder, and is not timed."""
        ...

    def build(self, corpus: Corpus) -> dict[str, float]:
        """Index everything and make it durable; seconds per stage where they can be told apart."""
        ...

    def know(self, corpus: Corpus) -> None:
        """Learn the queries' and fresh documents' vectors: what stands for an embedder, and is not timed."""
        ...

    def open(self) -> None:
        """Open what `build` left."""
        ...

    def search(self, query: Query, *, rare: bool) -> list[int]:
        """Hybrid, the ten best with their text."""
        ...

    def nearest(self, query: Query, *, rare: bool) -> list[int]:
        """By vector alone, the ten best."""
        ...

    def add(self, fresh: Fresh) -> None:
        """Index one more document."""
        ...

    def remove(self, fresh: Fresh) -> None:
        """Take it out again."""
        ...

    def holds(self, fresh: Fresh) -> bool:
        """Whether a search for its word finds it."""
        ...

    def close(self) -> None:
        """Let go."""
        ...


def memory() -> dict[str, float]:
    """Resident megabytes of this process: all, private, and the highest so far."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    megabytes = {key: int(fields[key].split()[0]) / 1024 for key in ("VmRSS", "RssAnon", "VmHWM")}
    return {"rss_mb": megabytes["VmRSS"], "anonymous_mb": megabytes["RssAnon"], "peak_mb": megabytes["VmHWM"]}


def disk_megabytes(home: Path) -> float:
    """What the store left on disk."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) / 1e6


class Bench:
    """One method per command."""

    def __init__(self, name: str, corpus: Corpus, home: Path) -> None:
        started = time.perf_counter()
        module = importlib.import_module(f"peers.{name}")
        self.import_seconds = time.perf_counter() - started
        self.corpus, self.home = corpus, home
        self.store: Store = module.make(home)
        self.versions: dict[str, str] = module.versions()

    def build(self) -> dict[str, Any]:
        """Everything from text and vectors to files that can be opened."""
        self.store.learn(self.corpus)
        started, cpu = time.perf_counter(), os.times()
        stages = self.store.build(self.corpus)
        self.store.close()
        seconds, after = time.perf_counter() - started, os.times()
        return {
            "seconds": seconds,
            "cpu_seconds": sum(after[:4]) - sum(cpu[:4]),
            "chunks_per_second": self.corpus.size / seconds,
            "stages": stages,
            "disk_mb": disk_megabytes(self.home),
            "versions": self.versions,
            **memory(),
        }

    def open(self) -> dict[str, Any]:
        """Open and answer the first query."""
        self.queries = self.corpus.queries()
        self.store.know(self.corpus)
        before = memory()["rss_mb"]
        started = time.perf_counter()
        self.store.open()
        opened = time.perf_counter() - started
        hits = self.store.search(self.queries[0], rare=False)
        seconds = time.perf_counter() - started
        return {
            "import_seconds": self.import_seconds,
            "open_seconds": opened,
            "seconds": seconds,
            "hits": len(hits),
            "before_mb": before,
            **memory(),
        }

    def search(self, rare: bool, part: int) -> dict[str, Any]:
        """Every query of a set once, after some that are not counted."""
        queries = self.queries[part * QUERIES : (part + 1) * QUERIES]
        for query in self.queries[-WARM_UP:]:
            self.store.search(query, rare=rare)
        milliseconds, found, right = [], 0, 0
        for query in queries:
            started = time.perf_counter()
            hits = self.store.search(query, rare=rare)
            milliseconds.append((time.perf_counter() - started) * 1000)
            found += query.chunk in hits[:TOP_N]
            right += all(self.corpus.is_rare(hit) for hit in hits) if rare else 1
        return {
            "milliseconds": milliseconds,
            "known_item_found": found / len(queries),
            "obeyed": right,
            **memory(),
        }

    def nearest(self, rare: bool) -> dict[str, Any]:
        """Recall at ten of the vector search against brute force."""
        milliseconds, found = [], []
        for query in self.queries[:QUERIES]:
            started = time.perf_counter()
            found.append(self.store.nearest(query, rare=rare))
            milliseconds.append((time.perf_counter() - started) * 1000)
        asked, rows = self.corpus.query_vectors()[:QUERIES], self.corpus.vectors()
        return {"recall": recall(asked, rows, found, self.corpus.exact(rare=rare)), "milliseconds": milliseconds}

    def live(self, documents: int) -> dict[str, Any]:
        """Add a document and wait until a search finds it; remove it and wait until none does."""
        added, removed = [], []
        for fresh in self.corpus.fresh()[:documents]:
            started = time.perf_counter()
            self.store.add(fresh)
            added.append(self._wait(fresh, started, present=True))
            started = time.perf_counter()
            self.store.remove(fresh)
            removed.append(self._wait(fresh, started, present=False))
        return {"added_ms": added, "removed_ms": removed}

    def _wait(self, fresh: Fresh, started: float, *, present: bool) -> float:
        """Milliseconds to the start of the first search that sees the change."""
        while True:
            asked = time.perf_counter()
            if self.store.holds(fresh) == present:
                return (asked - started) * 1000
            if asked - started > 600:
                raise TimeoutError(f"document {fresh.number} is not {'searchable' if present else 'gone'} after 600 s")


def main() -> None:
    """Answer commands until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not look like an answer
    name, corpus, home = sys.argv[1:4]
    bench = Bench(name, Corpus(Path(corpus)), Path(home))
    for line in sys.stdin:
        command = json.loads(line)
        result = getattr(bench, command.pop("do"))(**command)
        answers.write(json.dumps(result) + "\n")
        answers.flush()
    os._exit(0)  # some libraries hang in their threads at exit


if __name__ == "__main__":
    main()
