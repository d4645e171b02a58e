"""Chunks -> a tantivy index on disk -> ids ranked by BM25.

What the reader of a score should know:

- k1 and b are tantivy's own, 1.2 and 0.75. Lengths above 40 terms are rounded to one byte, as in Lucene.
- Statistics (document frequencies, average lengths) are those of the whole index, the same in every segment. They count
  what was removed until a merge drops it, so removing a document may move the others' scores by a little.
- Sums are of 32-bit floats in no fixed order. Scores closer than `SAME_SCORE` are therefore one score, and such chunks
  are ordered by id, also where `limit` cuts through them, up to `MAX_FETCH` of them.
- The last few chunks may not be in tantivy yet (`_fresh`). Frequencies count them, average lengths do not.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import tantivy

from headwater.errors import BackendError, HomeDamaged, SettingError, UsageError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._cutting import TODAY, Cutting, Lanes, Manner
from headwater.storage._fresh import Fresh, Statistics, Terms
from headwater.storage._lanes import (
    BOOSTS,
    KNOWN_IN,
    LANE_WEIGHTS,
    LANES,
    Containing,
    Question,
    Term,
    ask,
    best_score,
    head_terms,
    rarity,
    required,
    with_defaults,
    worth,
)
from headwater.storage._ranking import Learned, ids_of, in_order, query_of, ranked, with_all
from headwater.storage._text_folder import TextFolder, told
from headwater.tokens import Cutter, Pairs
from headwater.types import Chunk, Document, Scored

TANTIVY_K1: Final = 1.2
TANTIVY_B: Final = 0.75

# Changes up to this share of the index are kept beside it (see `_fresh`): few enough that the index's own statistics
# are as good as those of both, and that reading them takes 40 ms at most when a home is opened.
FRESH_SHARE: Final = 0.01
MAX_FRESH: Final = 500

# tantivy merges eight segments of a layer, of which the lowest ends at 10,000 chunks; 2,000 chunks take 0.2 s.
MERGE_AT: Final = 8
SMALL_SEGMENT: Final = 10_000
QUICK_MERGE: Final = 2_000
# So many segments make every search pay: then a merge is waited for, however long it takes.
MANY_SEGMENTS: Final = 24


class TantivyIndex:
    """Ranks chunks by their words. Files are opened at first use, the writer at the first `add` or `remove`.

    `boosts` and `lanes` change single weights; the others keep their defaults.
    """

    def __init__(
        self,
        path: Path,
        *,
        select: Callable[[Filter], Selection],
        cutter: Cutter,
        writable: bool = True,
        boosts: Mapping[str, float] | None = None,
        lanes: Mapping[str, float] | None = None,
        k1: float = TANTIVY_K1,
        b: float = TANTIVY_B,
        heap_mb: int = 256,
        threads: int = 1,
        fresh_share: float = FRESH_SHARE,
    ) -> None:
        if (k1, b) != (TANTIVY_K1, TANTIVY_B):
            raise SettingError(
                f"the embedded text index has k1 = {TANTIVY_K1} and b = {TANTIVY_B} built in, got {k1!r} and {b!r}; "
                "leave them out, or use a text index that has them as settings (memory)"
            )
        if heap_mb < 15 * threads or threads < 1:
            raise SettingError(f"heap_mb must be at least 15 for each thread, got {heap_mb!r} for {threads!r} threads")
        self.path, self._select, self._cutter, self._writable = Path(path), select, cutter, writable
        self._boosts = with_defaults("boosts", boosts, BOOSTS)
        self._lanes = with_defaults("lanes", lanes, LANE_WEIGHTS)
        self._heap_bytes, self._threads = heap_mb * 1_000_000, threads
        self._fresh, self._fresh_share = Fresh(self.path), fresh_share
        self._folder = TextFolder(self.path)
        self._learned: Learned | None = None
        self._asked: tuple[str, Manner, Question] | None = None  # the last one
        self._uncommitted = False
        self._cutting = Cutting(cutter)
        self._lock = threading.RLock()
        self._index: Any = None
        self._searcher: Any = None
        self._writer: Any = None
        self._added = 0  # chunks, by this writer
        self._looked = False

    # ------------------------------------------------------------------------------------------ writing

    def add(self, chunks: Sequence[tuple[Chunk, Document]]) -> None:
        """Index these; adding what is there already is harmless. Chunks of one ticket come in one call."""
        if not chunks:
            return
        with self._lock:
            if len(chunks) <= self._room():
                self._fresh.add({id: {**head, **_told(lanes)} for id, head, lanes in self._cut(chunks)})
                return
            with self._writing() as writer:
                self._delete(writer, {chunk.id >> TICKET_BITS for chunk, _ in chunks})
                for id, head, lanes in self._cut(chunks):
                    writer.add_document(_row(id, head, lanes))
                self._added += len(chunks)

    def expect(self, texts: Sequence[str]) -> None:
        """These chunks' texts will come with a later `add`, in this order: work on them may begin."""
        self._cutting.begin(texts, self._folder.manner)

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        if not tickets:
            return
        with self._lock:
            if len(tickets) <= self._room():
                self._fresh.remove(map(int, tickets))
                return
            with self._writing() as writer:
                self._delete(writer, {int(ticket) for ticket in tickets})

    def flush(self) -> None:
        """Make what was added and removed durable, and visible after `refresh`."""
        with self._lock:
            if self._uncommitted:
                with self._writing() as writer:
                    writer.commit()
                    # This process's searches see it before the copy beside it goes; others read the copy first.
                    self._index.reload()
                    self._searcher = self._index.searcher()
                    self._uncommitted = False
                    self._fresh.clear()
            elif self._fresh.has_unwritten:
                with told(self.path):
                    self._folder.allow_beside()
                    self._fresh.write()

    @property
    def _its_cutter(self) -> Cutter:
        return self._cutter.with_accents if self._folder.manner.accents else self._cutter

    def _room(self) -> int:
        """How many more chunks may be kept beside the index before they all go into it."""
        self._check_writable()
        if self._uncommitted:
            return 0
        self._catch_up()
        searcher = self._view()
        most = min(MAX_FRESH, int(self._fresh_share * searcher.num_docs)) if searcher is not None else 0
        return most - max(len(self._fresh), len(self._fresh.replaced()))

    def clear(self) -> None:
        """Drop everything, even what cannot be read; the next flush makes it durable."""
        self._check_writable()
        with self._lock:
            try:
                with self._writing() as writer:
                    writer.rollback()
                    writer.delete_all_documents()
                    self._fresh.forget()
                if self._folder.manner == TODAY:
                    return
            except HomeDamaged:
                pass  # then its files go
            self.close()
            self._folder.removed()
            self.refresh()

    def release(self) -> None:
        """Let go of the write lock, if any; reading goes on. What was not flushed is lost."""
        with self._lock:
            with told(self.path):
                self._fresh.discard()
            writer, self._writer = self._writer, None
            self._uncommitted = False
            if writer is None:
                return
            self._cutting.close()
            # Giving a writer up stops its merges, which is safe but in vain: a process that adds one document and ends
            # would leave one more segment each time. So it waits, in proportion to what it added.
            if self._merge_is_worth_it():
                with told(self.path):
                    writer.wait_merging_threads()

    def close(self) -> None:
        """Let go of files and locks; what was not flushed is lost."""
        with self._lock:
            try:
                self.release()
            finally:
                self._index = self._searcher = None
                self._looked = False
                self._folder.close()

    def _delete(self, writer: Any, tickets: set[int]) -> None:
        # By a query and not by terms: tantivy 0.27 makes a term of the wrong type of an unsigned number.
        writer.delete_documents_by_query(tantivy.Query.term_set_query(self._folder.schema, "ticket", sorted(tickets)))

    def _cut(self, chunks: Sequence[tuple[Chunk, Document]]) -> Iterator[tuple[int, Terms, Lanes]]:
        """Chunk by chunk as the texts are cut, so that tantivy's own thread has work meanwhile."""
        documents = {chunk.id >> TICKET_BITS: document for chunk, document in chunks}
        heads = dict(zip(documents, head_terms(list(documents.values()), self._its_cutter), strict=True))
        texts = [chunk.searchable_text for chunk, _ in chunks]
        for start, slice_of_lanes in self._cutting.slices(texts, self._folder.manner):
            for place, lanes in enumerate(slice_of_lanes, start):
                id = chunks[place][0].id
                yield id, heads[id >> TICKET_BITS], lanes

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """The writer, opened if need be, with all that was kept beside the index put into it.

        One that failed is given up, with what it had not flushed.
        """
        self._check_writable()
        with self._lock:
            if self._index is None:
                self._index = self._folder.opened() or self._folder.created()
            try:
                with told(self.path):
                    if self._writer is None:
                        self._added = 0
                        self._writer = self._index.writer(heap_size=self._heap_bytes, num_threads=self._threads)
                    if not self._uncommitted:
                        self._take_in_fresh(self._writer)
                        self._uncommitted = True
                    yield self._writer
            except BackendError:
                self._writer, self._uncommitted = None, False
                raise

    def _catch_up(self) -> None:
        """See what another process put beside the index, or took into it."""
        with told(self.path):
            stale = self._fresh.load()
        if stale:
            self.refresh()

    def _take_in_fresh(self, writer: Any) -> None:
        self._catch_up()
        if not self._fresh.is_empty:
            self._delete(writer, self._fresh.replaced())
            for id, terms in self._fresh.rows():
                writer.add_document(_row(id, terms))

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError(f"the text index in {str(self.path)!r} was opened for reading; open it with writable=True")

    def _merge_is_worth_it(self) -> bool:
        with told(self.path):
            segments = json.loads((self.path / "meta.json").read_text("utf-8"))["segments"]
        sizes = [segment["max_doc"] for segment in segments]
        layers = [size for size in sizes if size < SMALL_SEGMENT], [size for size in sizes if size >= SMALL_SEGMENT]
        merging = sum(sum(layer) for layer in layers if len(layer) >= MERGE_AT)
        return 0 < merging <= QUICK_MERGE + self._added or len(sizes) >= MANY_SEGMENTS

    # ------------------------------------------------------------------------------------------- opening

    def refresh(self) -> None:
        """See what was last flushed, by this process or another."""
        with self._lock:
            self._looked = True
            with told(self.path):
                self._fresh.load()  # before the index: what goes from here is there by then
            if self._index is None or self._folder.must_be_opened_again:
                self._index = self._folder.opened()
            if self._index is not None:
                try:
                    with told(self.path):
                        self._index.reload()
                        self._searcher = self._index.searcher()
                except BackendError:
                    self._index = None
                    raise
            self._fresh.settle()

    def _view(self) -> Any:
        """What searches see: the searcher of the last refresh, or None where nothing was ever written."""
        if self._searcher is None and not self._looked:
            self.refresh()
        return self._searcher

    # ------------------------------------------------------------------------------------------- reading

    def tickets(self) -> Mapping[int, int]:
        """Every ticket it holds and how many chunks of it; HomeDamaged where a file is not as it was written."""
        searcher = self._view()
        beside, replaced = self._fresh.tickets(), self._fresh.replaced()
        if searcher is None or not searcher.num_docs:
            return beside
        self._folder.verify()
        with told(self.path):
            hits = searcher.search(tantivy.Query.all_query(), searcher.num_docs, count=False).hits
            ids = ids_of(searcher, hits)
        tickets, counts = np.unique(ids >> TICKET_BITS, return_counts=True)
        held = dict(zip(tickets.tolist(), counts.tolist(), strict=True))
        return {**{ticket: count for ticket, count in held.items() if ticket not in replaced}, **beside}

    def search(self, text: str, limit: int, where: Filter, *, all_of: str = "") -> list[Scored]:
        """Best first, ties by id, at most `limit`; only what the filter allows; never an error for odd text."""
        searcher = self._view()
        if searcher is None or limit <= 0:
            return []
        selection = self._select(where)
        if selection.is_empty:
            return []
        question = self._question(text)
        with told(self.path):
            needed = required(all_of, self._its_cutter) if all_of else []
            return self._found(searcher, question, limit=limit, selection=selection, needed=needed)

    def best_score(self, text: str) -> float:
        """What a chunk would score that held all of the query; 0 where there is no chunk or no word."""
        searcher = self._view()
        if searcher is None or not searcher.num_docs:
            return 0.0
        question = self._question(text)
        with told(self.path):
            index = self._statistics(searcher)
            chunks, containing = self._totals(index)
            return best_score(question, chunks=chunks, containing=containing, k1=TANTIVY_K1)

    def known(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Of these terms, those that a chunk holds in its text or title, and how many do, removed ones among them."""
        searcher = self._view()
        if searcher is None:
            return {}
        with told(self.path):
            # Past the memory of frequencies, which is for the terms of questions and not for hundreds of guesses.
            counts = {
                term: sum(searcher.doc_freq(field, term) + self._fresh.containing(field, term) for field in KNOWN_IN)
                for term in terms
            }
        return {term: count for term, count in counts.items() if count}

    def _found(
        self, searcher: Any, question: Question, *, limit: int, selection: Selection, needed: Sequence[str]
    ) -> list[Scored]:
        index = self._statistics(searcher)
        # What is beside the index first: it may go into the index at any moment, and is there then.
        beside, replaced = self._fresh.found(question, index, needed=needed, k1=TANTIVY_K1, b=TANTIVY_B)
        searcher = self._searcher or searcher

        chunks, containing = self._totals(index)

        def known(term: Term) -> bool:
            return bool(index.containing(term.field, term.token))

        def boost(term: Term) -> float:
            if not term.pair and chunks == index.chunks:
                return term.weight  # the index alone knows how rare it is
            own = rarity(index.containing(term.field, term.token), index.chunks)
            return worth(term, chunks=chunks, containing=containing) / own

        query = query_of(self._folder.schema, question, known=known, boost=boost)
        if query is not None and needed:
            query = with_all(self._folder.schema, query, needed)
        found: list[Scored] = []
        if query is not None:
            apart = Selection.of_tickets(sorted(replaced))
            found = ranked(self._folder.schema, searcher, query, limit=limit, selection=selection, apart=apart)
        allowed = [Scored(id, score) for id, score in beside.items() if selection.contains([id])[0]]
        if not allowed:
            return found
        together = sorted((*found, *allowed), key=lambda scored: -scored.score)
        ids, scores = np.array([one.chunk_id for one in together]), np.array([one.score for one in together])
        return in_order(ids, scores)[:limit]

    def _question(self, text: str) -> Question:
        """The terms of a text; a search asks for its hits and then for the best score that there could be."""
        known, manner = self._asked, self._folder.manner
        if known is None or known[:2] != (text, manner):
            asked = ask(text, self._its_cutter, boosts=self._boosts, lanes=self._lanes, once=manner.pairs != Pairs.ALL)
            known = self._asked = (text, manner, asked)
        return known[2]

    def _totals(self, index: Statistics) -> tuple[int, Containing]:
        """How many chunks there are, and have a token, in the index and beside it."""
        if not len(self._fresh):
            return index.chunks, index.containing
        chunks = index.chunks + len(self._fresh)

        def containing(field: str, token: str) -> int:
            return min(chunks, index.containing(field, token) + self._fresh.containing(field, token))

        return chunks, containing

    def _statistics(self, searcher: Any) -> Statistics:
        learned = self._learned
        if learned is None or learned.searcher is not searcher:
            learned = self._learned = Learned(self._folder.schema, searcher)

        def mean(field: str) -> float:
            return learned.mean(field, self._fresh.tokens(field))

        return Statistics(learned.chunks, learned.containing, mean)


def _told(lanes: Lanes) -> Terms:
    """By field; those with nothing in them are left out."""
    return {lane: joined for lane, joined in zip(LANES, lanes, strict=True) if joined and not joined.isspace()}


def _row(id: int, terms: Terms, lanes: Lanes = ("", "", "")) -> Any:
    row = tantivy.Document()
    row.add_unsigned("id", id)
    row.add_unsigned("ticket", id >> TICKET_BITS)
    for field, joined in terms.items():
        row.add_text(field, joined)
    for lane, joined in zip(LANES, lanes, strict=True):
        if joined and not joined.isspace():
            row.add_text(lane, joined)
    return row
