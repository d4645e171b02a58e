"""The reference indexes: plain, slow and obviously right. Other indexes are tested against them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from headwater.errors import BackendError, SettingError, UsageError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._lanes import (
    BOOSTS,
    KNOWN_IN,
    LANE_WEIGHTS,
    LANES,
    REQUIRED_IN,
    Term,
    ask,
    best_score,
    head_terms,
    required,
    with_defaults,
    worth,
)
from headwater.storage._metric import COSINE, check_metric, similarities
from headwater.tokens import Cutter, Pairs
from headwater.types import Chunk, Document, Ids, Matrix, Scored, Vector, attributes, record_of

Entry = TypeVar("Entry")


class _MemoryIndex(Generic[Entry]):
    """Entries by chunk id on their way from `add` over `flush` to `refresh`. No dict of a stage is ever changed."""

    def __init__(self, *, writable: bool) -> None:
        self._writable = writable
        self._lock = threading.Lock()
        self._added: dict[int, Entry] = {}
        self._flushed: dict[int, Entry] = {}
        self._visible: dict[int, Entry] = {}

    def _replace(self, tickets: Iterable[int], entries: Mapping[int, Entry]) -> None:
        """Put these entries in the place of all that the tickets had."""
        self._check_writable()
        gone = set(tickets)
        with self._lock:
            kept = {id: entry for id, entry in self._added.items() if id >> TICKET_BITS not in gone}
            self._added = {**kept, **entries}

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        self._replace(tickets, {})

    def flush(self) -> None:
        """Make what was added and removed visible after `refresh`. Nothing here outlives the process."""
        with self._lock:
            self._flushed = self._added

    def refresh(self) -> None:
        """See what was last flushed."""
        with self._lock:
            self._visible = self._flushed

    def tickets(self) -> dict[int, int]:
        """Every ticket it holds and how many chunks of it."""
        return dict(Counter(id >> TICKET_BITS for id in sorted(self._visible)))

    def clear(self) -> None:
        """Drop everything; the next flush makes it so."""
        self._check_writable()
        with self._lock:
            self._added = {}

    def release(self) -> None:
        """Forget what was not flushed; reading goes on."""
        with self._lock:
            self._added = self._flushed

    def close(self) -> None:
        """Forget what was not flushed."""
        self.release()

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError("this index was opened for reading; open it with writable=True")


class _Indexed(NamedTuple):
    chunk: Chunk
    document: Document
    counts: Mapping[str, Counter[str]]  # by field: how often each term occurs


class MemoryTextIndex(_MemoryIndex[_Indexed]):
    """BM25 over every chunk, written out. It filters by the filter's own meaning, not by `select`; it has no files."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        select: Callable[[Filter], Selection] | None = None,
        cutter: Cutter,
        writable: bool = True,
        boosts: Mapping[str, float] | None = None,
        lanes: Mapping[str, float] | None = None,
        k1: float = 1.2,
        b: float = 0.75,
    ) -> None:
        super().__init__(writable=writable)
        if k1 < 0 or not 0 <= b <= 1:
            raise SettingError(f"k1 must be 0 or more and b between 0 and 1, got {k1!r} and {b!r}")
        self._cutter, self._k1, self._b = cutter, k1, b
        self._boosts = with_defaults("boosts", boosts, BOOSTS)
        self._lanes = with_defaults("lanes", lanes, LANE_WEIGHTS)

    def add(self, chunks: Sequence[tuple[Chunk, Document]]) -> None:
        """Index these; adding what is there already is harmless. Chunks of one ticket come in one call."""
        entries = {chunk.id: self._indexed(chunk, document) for chunk, document in chunks}
        self._replace([id >> TICKET_BITS for id in entries], entries)

    def _indexed(self, chunk: Chunk, document: Document) -> _Indexed:
        (lanes,) = self._cutter.cut_many([chunk.searchable_text], pairs=Pairs.ONCE)
        body = dict(zip(LANES, lanes, strict=True))
        (head,) = head_terms([document], self._cutter)
        fields = {**head, **body}
        return _Indexed(chunk, document, {field: Counter(terms.split()) for field, terms in fields.items()})

    def search(self, text: str, limit: int, where: Filter, *, all_of: str = "") -> list[Scored]:
        """Best first, ties by id, at most `limit`; only what the filter allows; never an error for odd text."""
        needed = required(all_of, self._cutter) if all_of else []
        question = ask(text, self._cutter, boosts=self._boosts, lanes=self._lanes)
        held = self._visible
        if not held:
            return []
        total_terms: Counter[str] = Counter()
        containing: Counter[tuple[str, str]] = Counter()
        for entry in held.values():
            for field, counts in entry.counts.items():
                total_terms[field] += counts.total()
                containing.update((field, token) for token in counts)

        def score(term: Term, entry: _Indexed) -> float:
            counts = entry.counts.get(term.field)
            if not counts or not (frequency := counts[term.token]):
                return 0.0
            unit = worth(term, chunks=len(held), containing=lambda *place: containing[place])
            length = 1 - self._b + self._b * counts.total() * len(held) / total_terms[term.field]
            return unit * frequency * (self._k1 + 1) / (frequency + self._k1 * length)

        found = []
        for id, entry in held.items():
            total = sum(score(term, entry) for term in question.all_terms)
            for phrase in question.phrases:
                parts = [sum(score(term, entry) for term in terms) for terms in phrase]
                total += sum(parts) if all(parts) else 0.0
            has_all = all(any(token in entry.counts.get(field, ()) for field in REQUIRED_IN) for token in needed)
            if total > 0 and has_all and where.matches(attributes(record_of(entry.document), entry.chunk)):
                found.append(Scored(id, total))
        return sorted(found, key=lambda scored: (-scored.score, scored.chunk_id))[: max(limit, 0)]

    def best_score(self, text: str) -> float:
        """What a chunk would score that held all of the query; 0 where there is no chunk or no word."""
        question = ask(text, self._cutter, boosts=self._boosts, lanes=self._lanes)
        held = self._visible

        def containing(field: str, token: str) -> int:
            return sum(token in entry.counts.get(field, ()) for entry in held.values())

        return best_score(question, chunks=len(held), containing=containing, k1=self._k1) if held else 0.0

    def known(self, terms: Sequence[str]) -> dict[str, int]:
        """Of these terms, those that a chunk holds in its text or title, and how many times over both."""
        fields = [
            entry.counts[field] for entry in self._visible.values() for field in KNOWN_IN if field in entry.counts
        ]
        counts = {term: sum(term in held for held in fields) for term in terms}
        return {term: count for term, count in counts.items() if count}


class MemoryVectorIndex(_MemoryIndex[Vector]):
    """How alike every vector is. It keeps the vectors it was given, so it needs no `exact`, and has no files."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        dim: int,
        select: Callable[[Filter], Selection],
        exact: Callable[[Sequence[int]], tuple[Ids, Matrix]] | None = None,
        writable: bool = True,
        metric: str = COSINE,
    ) -> None:
        super().__init__(writable=writable)
        check_metric(metric)
        self.dim, self._select, self._metric = dim, select, metric

    def add(self, ids: Ids, vectors: Matrix) -> None:
        """Index these; adding what is there already is harmless. Ids of one ticket come in one call, from ordinal 0."""
        rows = np.asarray(vectors, dtype=np.float32)
        self._check(rows.shape, (len(ids), self.dim))
        if not np.isfinite(rows).all():
            raise BackendError("a vector holds NaN or infinity; the embedder that made it is broken")
        entries = dict(zip(np.asarray(ids).tolist(), rows.copy(), strict=True))
        self._replace([id >> TICKET_BITS for id in entries], entries)

    def search(self, vector: Vector, limit: int, where: Filter) -> list[Scored]:
        """Best first by the exact metric, ties by id, at most `limit`; only what the filter allows."""
        query = np.asarray(vector, dtype=np.float32)
        self._check(query.shape, (self.dim,))
        held, selection = self._visible, self._select(where)
        if not query.any():
            return []
        allowed = {id: row for id, row in held.items() if bool(selection.contains([id])[0])}
        if not allowed:
            return []
        scores = similarities(query, np.stack(list(allowed.values())), self._metric)
        found = [Scored(*pair) for pair in zip(allowed, scores.tolist(), strict=True)]
        return sorted(found, key=lambda scored: (-scored.score, scored.chunk_id))[: max(limit, 0)]

    def _check(self, got: tuple[int, ...], wanted: tuple[int, ...]) -> None:
        if got != wanted:
            raise BackendError(
                f"the vector index has {self.dim} dimensions, got an array of shape {got}, wanted {wanted}; "
                "use the embedder that the home was made with"
            )
