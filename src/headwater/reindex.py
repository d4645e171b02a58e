"""The stored documents -> a second space, filled beside the active one, compared with it, and switched to.

No source is read again: the catalog holds each document's text and structure. The active space is not touched before
the switch, so searching and adding go on as if nothing happened. Safe to kill at any line:
  1. indexes.add, flush    a crash leaves ids that the catalog does not know; `tidy` removes them
  2. catalog.fill          the document is no longer behind, so the next run goes on with the others
  3. catalog.switch        one transaction, under the home's lock, after what was changed meanwhile is caught up with
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from headwater.filters import ALL
from headwater.indexer import BATCH_CHARS, Indexer, Progress
from headwater.protocols import Catalog, Retriever
from headwater.repair import tidy
from headwater.types import Change, Options, Query, Space, Version

# Tickets taken in one transaction. What a killed run has taken and not used is lost, and nobody misses it.
RESERVED = 500
# Enough that the average moves by less than a hundredth when the seed does; two searches each.
COMPARED_QUERIES = 50
COMPARED_HITS = 10
# Long enough to say something, short enough that a person could have typed it.
QUERY_CHARS = range(4, 80)

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How alike the old and the new space answer: the share of documents among the first ten that both find."""

    queries: int
    overlap: float
    changed: tuple[str, ...] = ()  # the queries whose answers differ most, worst first
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexed:
    """What a reindex did. `filled` counts the documents worked on now; the others were there from before."""

    before: Space
    after: Space
    documents: int
    chunks_before: int
    chunks_after: int
    filled: int
    comparison: Comparison
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    took_ms: float = 0.0


class Reindex:
    """Fills one space. `indexer` works with its parts; `writing` holds the home's lock. One at a time per home."""

    def __init__(
        self, space: Space, *, catalog: Catalog, indexer: Indexer, writing: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.space, self.catalog, self.indexer, self.writing = space, catalog, indexer, writing
        self.filled = 0

    def fill(self, on_progress: OnProgress | None = None) -> None:
        """Bring the space up to the documents there are, as often as it takes; what is there stays."""
        self._tidy()
        while behind := self.catalog.behind(self.space):
            self._fill(behind, on_progress)

    def finish(self, on_progress: OnProgress | None = None) -> None:
        """Catch up with what was changed meanwhile, and switch. Nobody else can add until it is done."""
        with self.writing():
            self.fill(on_progress)
            self._tidy()
            while not self.catalog.switch(self.space):
                self.fill(on_progress)
                self._tidy()
            # The next writer, of whatever process, finds the indexes free.
            self.indexer.text.release()
            self.indexer.vectors.release()

    def _tidy(self) -> None:
        tidy(self.catalog, self.indexer.text, self.indexer.vectors, space=self.space)

    def _fill(self, behind: Sequence[tuple[str, int]], on_progress: OnProgress | None) -> None:
        done = 0
        for batch in self._batches(self._versions(behind)):
            live, versions = [ticket for ticket, _ in batch], [version for _, version in batch]
            ready = self.indexer.embedded(versions)
            self.indexer.store_in_indexes(ready, [])
            self.catalog.fill(self.space, dict(zip(live, ready, strict=True)))
            done += len(batch)
            self.filled += len(batch)
            if on_progress is not None:
                chunks = sum(len(version.chunks) for version in ready)
                uri, stages = ready[-1].change.uri, dict(self.indexer.stage_seconds)
                on_progress(Progress(done=done, total=len(behind), chunks=chunks, uri=uri, stage_seconds=stages))

    def _versions(self, behind: Sequence[tuple[str, int]]) -> Iterator[tuple[int, Version]]:
        """By the ticket of the live version: what this space makes of the same document, under a ticket of its own."""
        for start in range(0, len(behind), RESERVED):
            some = behind[start : start + RESERVED]
            first = self.catalog.reserve(len(some))
            for ticket, (id, live) in enumerate(some, start=first):
                document = self.catalog.document(id)
                if document is not None:
                    owner, collection = document.owner, document.collection
                    change = Change(uri=document.uri, kind="put", owner=owner, collection=collection, ticket=ticket)
                    yield live, self.indexer.cut(change, document, "")

    def _batches(self, versions: Iterator[tuple[int, Version]]) -> Iterator[list[tuple[int, Version]]]:
        batch: list[tuple[int, Version]] = []
        chunks = chars = 0
        for live, version in versions:
            batch.append((live, version))
            chunks += len(version.chunks)
            chars += len(version.document.text) if version.document else 0
            if max(chunks, len(batch)) >= self.indexer.batch_chunks or chars >= BATCH_CHARS:
                yield batch
                batch, chunks, chars = [], 0, 0
        if batch:
            yield batch


def compare(old: Retriever, new: Retriever, queries: Sequence[str]) -> Comparison:
    """Ask both the same and count the documents that both find."""
    options = Options(top_n=COMPARED_HITS, highlight=False)
    overlaps: list[tuple[float, str]] = []
    degraded: dict[str, None] = {}
    for text in queries:
        answers = [one.retrieve(Query(text=text, options=options)) for one in (old, new)]
        first, second = ({hit.document_id for hit in results} for results in answers)
        most = max(len(first), len(second))
        overlaps.append((len(first & second) / most if most else 1.0, text))
        degraded.update((note, None) for results in answers for note in results.degraded)
    differing = sorted(pair for pair in overlaps if pair[0] < 1.0)
    return Comparison(
        queries=len(overlaps),
        overlap=round(sum(share for share, _ in overlaps) / len(overlaps), 4) if overlaps else 1.0,
        changed=tuple(text for _, text in differing[:5]),
        degraded=tuple(degraded),
    )


def own_queries(catalog: Catalog, *, count: int = COMPARED_QUERIES, seed: int = 0) -> list[str]:
    """Queries made from the documents themselves: a title, or a heading, of as many documents as asked for."""
    records = [record for record in catalog.records(ALL) if record.chunks]
    chosen = random.Random(seed)
    found: dict[str, None] = {}
    for record in chosen.sample(records, min(count, len(records))):
        document = catalog.document(record.id)
        headings = [section.title for section in document.structure] if document is not None else []
        fitting = [text for text in dict.fromkeys([record.title, *headings]) if len(text) in QUERY_CHARS]
        if fitting:
            found[chosen.choice(fitting)] = None
    return list(found)
