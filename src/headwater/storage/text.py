"""Chunks -> a tantivy index on disk -> ids ranked by BM25.

What the reader of a score should know:

- k1 and b are tantivy's own, 1.2 and 0.75. Lengths above 40 terms are rounded to one byte, as in Lucene.
- Statistics (document frequencies, average lengths) are those of the whole index, the same in every segment. They count
  what was removed until a merge drops it, so removing a document may move the others' scores by a little.
- Sums are of 32-bit floats in no fixed order. Scores closer than `SAME_SCORE` are therefore one score, and such chunks
  are ordered by id, also where `limit` cuts through them, up to `MAX_FETCH` of them.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tantivy

from headwater.errors import BackendError, HomeDamaged, SettingError, UsageError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._cutting import Cutting
from headwater.storage._failures import damaged, failed
from headwater.storage._lanes import (
    BOOSTS,
    FIELDS,
    LANE_WEIGHTS,
    LANES,
    Question,
    Term,
    ask,
    best_score,
    head_terms,
    with_defaults,
)
from headwater.tokens import Cutter
from headwater.types import Chunk, Document, Ids, Scored

# Grows with every change of the fields or of how they are cut: another number means the index must be rebuilt.
FORMAT: Final = "headwater text index 1\n"
FORMAT_FILE: Final = "format"
TANTIVY_K1: Final = 1.2
TANTIVY_B: Final = 0.75

# How a filter is met, measured at 100,000 chunks, p50: no filter 0.8 ms; one range 1 ms, and 0.4 ms for each more;
# a set of 1,000 tickets or ids 2 ms, of 3,000 10 ms; fetching 1,000 hits to check them 1.7 ms, 5,000 hits 4.7 ms.
MAX_RANGES: Final = 4
MAX_SET: Final = 2_000
OVER_FETCH: Final = 4
MAX_FETCH: Final = 20_000
# One more than asked for would show a tie at the end; a few more resolve the usual ones at no cost.
TIE_MARGIN: Final = 16
# Relative. A sum of a hundred 32-bit terms is off by a few millionths at most.
SAME_SCORE: Final = 1e-5

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
        heap_mb: int = 128,
        threads: int = 1,
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
        self._schema = _schema()
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
        with self._writing() as writer:
            self._delete(writer, {chunk.id >> TICKET_BITS for chunk, _ in chunks})
            for row in self._rows(chunks):
                writer.add_document(row)
            self._added += len(chunks)

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        if not tickets:
            return
        with self._writing() as writer:
            self._delete(writer, {int(ticket) for ticket in tickets})

    def flush(self) -> None:
        """Make what was added and removed durable, and visible after `refresh`."""
        with self._lock:
            if self._writer is not None:
                with self._writing() as writer:
                    writer.commit()

    def clear(self) -> None:
        """Drop everything, even what cannot be read; the next flush makes it durable."""
        self._check_writable()
        with self._lock:
            try:
                with self._writing() as writer:
                    writer.rollback()
                    writer.delete_all_documents()
            except HomeDamaged:
                self.close()
                with suppress(FileNotFoundError):
                    shutil.rmtree(self.path)
                self.refresh()

    def release(self) -> None:
        """Let go of the write lock, if any; reading goes on. What was not flushed is lost."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is None:
                return
            self._cutting.close()
            # Giving a writer up stops its merges, which is safe but in vain: a process that adds one document and ends
            # would leave one more segment each time. So it waits, in proportion to what it added.
            if self._merge_is_worth_it():
                with _told(self.path):
                    writer.wait_merging_threads()

    def close(self) -> None:
        """Let go of files and locks; what was not flushed is lost."""
        with self._lock:
            try:
                self.release()
            finally:
                self._index = self._searcher = None
                self._looked = False

    def _delete(self, writer: Any, tickets: set[int]) -> None:
        # By a query and not by terms: tantivy 0.27 makes a term of the wrong type of an unsigned number.
        writer.delete_documents_by_query(tantivy.Query.term_set_query(self._schema, "ticket", sorted(tickets)))

    def _rows(self, chunks: Sequence[tuple[Chunk, Document]]) -> Iterator[Any]:
        """Row by row as the texts are cut, so that tantivy's own thread has work meanwhile."""
        heads: dict[int, dict[str, str]] = {}
        for start, slice_of_lanes in self._cutting.slices([chunk.searchable_text for chunk, _ in chunks]):
            pairs = chunks[start : start + len(slice_of_lanes)]
            for lanes, (chunk, document) in zip(slice_of_lanes, pairs, strict=True):
                ticket = chunk.id >> TICKET_BITS
                head = heads.get(ticket)
                if head is None:
                    head = heads[ticket] = head_terms(document, self._cutter)
                row = tantivy.Document()
                row.add_unsigned("id", chunk.id)
                row.add_unsigned("ticket", ticket)
                for field, terms in head.items():
                    row.add_text(field, terms)
                for lane, terms in zip(LANES, lanes, strict=True):
                    if terms:
                        row.add_text(lane, terms)
                yield row

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        """The writer, opened if need be. One that failed is given up, with what it had not flushed."""
        self._check_writable()
        with self._lock:
            if self._index is None:
                self._index = self._open() or self._create()
            try:
                with _told(self.path):
                    if self._writer is None:
                        self._added = 0
                        self._writer = self._index.writer(heap_size=self._heap_bytes, num_threads=self._threads)
                    yield self._writer
            except BackendError:
                self._writer = None
                raise

    def _check_writable(self) -> None:
        if not self._writable:
            raise UsageError(f"the text index in {str(self.path)!r} was opened for reading; open it with writable=True")

    def _merge_is_worth_it(self) -> bool:
        with _told(self.path):
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
            if self._index is None:
                self._index = self._open()
            if self._index is None:
                return
            try:
                with _told(self.path):
                    self._index.reload()
                    self._searcher = self._index.searcher()
            except BackendError:
                self._index = None
                raise

    def _view(self) -> Any:
        """What searches see: the searcher of the last refresh, or None where nothing was ever written."""
        if self._searcher is None and not self._looked:
            self.refresh()
        return self._searcher

    def _open(self) -> Any:
        """The index on disk, or None where none was made yet."""
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        if FORMAT_FILE not in names:
            # Making an index ends with the format file: without it there are no segments yet.
            if any(name.endswith(".idx") for name in names):
                raise damaged("text", self.path, f"the file {FORMAT_FILE!r} is missing")
            return None
        if "meta.json" not in names:
            raise damaged("text", self.path, "the file 'meta.json' is missing")
        with _told(self.path):
            found = (self.path / FORMAT_FILE).read_text("utf-8")
            if found != FORMAT:
                raise damaged("text", self.path, f"its format is {found[:80]!r}, wanted {FORMAT!r}")
            return self._prepared()

    def _create(self) -> Any:
        with _told(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            # What a crash left of an earlier attempt, which ended before anything was indexed.
            for leftover in (".managed.json", "meta.json"):
                (self.path / leftover).unlink(missing_ok=True)
            index = self._prepared()
            fresh = self.path / f"{FORMAT_FILE}.new"
            with fresh.open("w", encoding="utf-8", newline="\n") as file:
                file.write(FORMAT)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self.path / FORMAT_FILE)
            return index

    def _prepared(self) -> Any:
        index = tantivy.Index(self._schema, path=str(self.path))
        index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
        index.config_reader("manual", 0)
        return index

    # ------------------------------------------------------------------------------------------- reading

    def tickets(self) -> Mapping[int, int]:
        """Every ticket it holds and how many chunks of it."""
        searcher = self._view()
        if searcher is None or not searcher.num_docs:
            return {}
        with _told(self.path):
            hits = searcher.search(tantivy.Query.all_query(), searcher.num_docs, count=False).hits
            ids = _ids(searcher, hits)
        tickets, counts = np.unique(ids >> TICKET_BITS, return_counts=True)
        return dict(zip(tickets.tolist(), counts.tolist(), strict=True))

    def search(self, text: str, limit: int, where: Filter) -> list[Scored]:
        """Best first, ties by id, at most `limit`; only what the filter allows; never an error for odd text."""
        searcher = self._view()
        if searcher is None or limit <= 0:
            return []
        selection = self._select(where)
        if selection.is_empty:
            return []
        question = ask(text, self._cutter, boosts=self._boosts, lanes=self._lanes)
        with _told(self.path):
            query = self._query(searcher, question)
            return [] if query is None else self._ranked(searcher, query, limit=limit, selection=selection)

    def best_score(self, text: str) -> float:
        """What a chunk would score that held all of the query; 0 where there is no chunk or no word."""
        searcher = self._view()
        if searcher is None or not searcher.num_docs:
            return 0.0
        question = ask(text, self._cutter, boosts=self._boosts, lanes=self._lanes)
        chunks = int(searcher.num_docs)

        def containing(term: Term) -> int:
            return min(chunks, int(searcher.doc_freq(term.field, term.token)))  # it counts what was removed as well

        with _told(self.path):
            return best_score(question, chunks=chunks, containing=containing, k1=TANTIVY_K1)

    def _query(self, searcher: Any, question: Question) -> Any:
        """The query, or None where the index holds none of its terms."""

        def known(term: Term) -> bool:
            return bool(searcher.doc_freq(term.field, term.token))

        should = [self._term(term) for term in question.terms if known(term)]
        if not should:
            return None
        for phrase in question.phrases:
            if all(map(known, phrase)):
                should.append(_boolean(tantivy.Occur.Must, map(self._term, phrase)))
        return _boolean(tantivy.Occur.Should, should)

    def _term(self, term: Term) -> Any:
        query = tantivy.Query.term_query(self._schema, term.field, term.token, index_option="freq")
        return tantivy.Query.boost_query(query, term.weight)

    def _ranked(self, searcher: Any, query: Any, *, limit: int, selection: Selection) -> list[Scored]:
        clause, exact = self._clause(selection)
        fetch = (limit if exact else limit * OVER_FETCH) + TIE_MARGIN
        while True:
            asked = query if clause is None else _boolean(tantivy.Occur.Must, (query, clause))
            hits = searcher.search(asked, fetch, count=False).hits
            ids, scores = _ids(searcher, hits), np.array([score for score, _ in hits], dtype=np.float64)
            allowed = selection.contains(ids)
            ranked = _in_order(ids[allowed], scores[allowed])
            exhausted = len(hits) < fetch
            enough = len(ranked) >= limit and ranked[limit - 1].score > scores[-1] * (1 + SAME_SCORE)
            if exhausted or enough or (len(ranked) >= limit and fetch >= MAX_FETCH):
                return ranked[:limit]
            fetch *= OVER_FETCH
            if clause is None and fetch > MAX_FETCH and not selection.is_everything:
                # The filter allows little of what the query finds: now a large set of tickets is the cheaper way.
                clause = self._ticket_clause(selection & Selection.of_ranges([0], [self._end(searcher)]))
                fetch = limit * OVER_FETCH

    def _clause(self, selection: Selection) -> tuple[Any, bool]:
        """A condition that lets at least the selection through, or None; and whether it lets nothing else through."""
        if selection.is_everything:
            return None, True
        if len(selection.starts) <= MAX_RANGES:
            pairs = zip(selection.starts.tolist(), (selection.stops - 1).tolist(), strict=True)
            kind = tantivy.FieldType.Unsigned
            ranges = [tantivy.Query.range_query(self._schema, "id", kind, first, last) for first, last in pairs]
            return _unscored(_boolean(tantivy.Occur.Should, ranges)), True
        lengths = selection.stops - selection.starts
        if float(lengths.sum(dtype=np.float64)) <= MAX_SET:  # in floats: an open end would overflow the sum
            ids = np.repeat(selection.stops - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
            return _unscored(tantivy.Query.term_set_query(self._schema, "id", ids.tolist())), True
        low, high = selection.starts >> TICKET_BITS, (selection.stops - 1) >> TICKET_BITS
        if int((high - low + 1).sum()) > MAX_SET:
            return None, False
        return self._ticket_clause(selection), False

    def _ticket_clause(self, selection: Selection) -> Any:
        low, high = selection.starts >> TICKET_BITS, (selection.stops - 1) >> TICKET_BITS
        tickets = {
            ticket for pair in zip(low.tolist(), high.tolist(), strict=True) for ticket in range(pair[0], pair[1] + 1)
        }
        return _unscored(tantivy.Query.term_set_query(self._schema, "ticket", sorted(tickets)))

    @staticmethod
    def _end(searcher: Any) -> int:
        """One above the highest id."""
        hits = searcher.search(tantivy.Query.all_query(), 1, count=False, order_by_field="id").hits
        return int(_ids(searcher, hits).max(initial=0)) + 1


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("id", indexed=True, fast=True)
    builder.add_unsigned_field("ticket", indexed=True)
    for field in FIELDS:
        # Frequencies without positions: no query of ours needs an order of words, and positions double the size.
        builder.add_text_field(field, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def _boolean(occur: Any, parts: Any) -> Any:
    return tantivy.Query.boolean_query([(occur, part) for part in parts])


def _unscored(query: Any) -> Any:
    return tantivy.Query.const_score_query(query, 0.0)


def _ids(searcher: Any, hits: Sequence[tuple[Any, Any]]) -> Ids:
    return np.array(searcher.fast_field_values("id", [address for _, address in hits]), dtype=np.int64)


def _in_order(ids: Ids, scores: npt.NDArray[np.float64]) -> list[Scored]:
    """By score, those of the same score by id; `scores` comes in falling."""
    if not len(ids):
        return []
    first = np.concatenate(([True], scores[1:] < scores[:-1] * (1 - SAME_SCORE)))
    shared = scores[first][np.cumsum(first) - 1]
    order = np.lexsort((ids, -shared))
    return [Scored(*pair) for pair in zip(ids[order].tolist(), shared[order].tolist(), strict=True)]


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """tantivy's errors in our words. It says everything with ValueError, and panics where bytes make no sense."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise failed("text", path, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged("text", path, str(error)) from error
