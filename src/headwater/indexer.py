"""The write path: changes in, searchable chunks out. Safe to kill at any line.

The order is the whole proof:
  1. indexes.add, flush    a crash leaves ids the catalog does not know: invisible; the change is still open
  2. catalog.commit        one transaction: the new chunks are the truth, the old ticket is dead, the change is closed;
                           what it writes may be written before, and it ends after
  3. indexes.remove(dead)  with the next flush; late or twice it is harmless, for a ticket is never used again
While a batch goes into the indexes the next one is prepared (`prepare`) and embedded and the one before is committed
(`relay`).
One indexer per home: the caller holds its lock.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from operator import attrgetter
from time import perf_counter

import numpy as np

from headwater.errors import BackendError, SourceError
from headwater.garbage import seldom_looked_for
from headwater.prepare import Preparation, Stages, Unwanted, labels_digest
from headwater.protocols import Catalog, Chunker, Embedder, Parser, TextIndex, VectorIndex
from headwater.relay import Turn, relay
from headwater.selection import MAX_CHUNKS, TICKET_BITS
from headwater.types import (
    Blob,
    Change,
    Chunk,
    Document,
    Matrix,
    Space,
    Vector,
    Version,
    document_id,
    stacked,
    text_hash,
)

# Changes claimed at a time: enough to fill batches, few enough that their labels fit in memory whatever the corpus.
CLAIM = 10_000
# A batch ends here too, so that long passages do not fill the memory: three batches are under way at a time.
BATCH_CHARS = 20_000_000
# The first batch is small, so that something can be seen and found early; then see `_next_limit`.
FIRST_BATCH = 5_000
SLOW_SECONDS = 10.0
# After so many batches of one size they are twice as large: every batch makes a segment of the text index, and eight of
# about one size are merged, which takes a tenth of the work so far.
SAME_SIZE = 6
# A batch ends when it took so long to prepare: what is parsed is safe soon, however long the rest takes. The first ends
# sooner and each next one later, so that of a short run, too, one part is stored while another is parsed; but not
# before it has so many documents or chunks that storing them pays.
FIRST_BATCH_SECONDS = 0.5
BATCH_SECONDS = 5.0
WORTH_STORING = 100
# Documents whose tickets are drawn in one transaction, which has to wait for a commit under way.
DRAW = 20_000
# Where searches are to come first, so many chunks go into the text index at a time: a search that wants to see what was
# just stored waits for one such slice, some hundredths of a second, and not for a batch.
SLICE_CHUNKS = 128
# So many texts at least are given to an embedder that takes long for them, and then it is looked whether to go on: few
# seconds for most, and enough that the requests of a remote one overlap.
EMBED_TEXTS = 256
# What `repr` tells of a document without its text, in a third of the time.
_NAMES = [one.name for one in fields(Document)]
_ABOUT = "Document(" + ", ".join("text=''" if name == "text" else f"{name}=%r" for name in _NAMES) + ")"
_told_of = attrgetter(*(name for name in _NAMES if name != "text"))


# What the indexes hold: versions, changes that needed no work, and tickets that were removed.
_Stored = tuple[list[Version], list[Change], list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a run has come. `stage_seconds` sums what each stage took so far, over all processes.

    `stage` is what is done with `uri` now, and `prepared` counts the documents that have come past it.
    """

    done: int
    total: int
    chunks: int
    uri: str
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    stage: str = ""
    prepared: int = 0


class Indexer:
    """Applies changes. `read` gives the bytes of a change, `parser` the parser for a mime type.

    A parser that has `start(blob) -> Future[tuple[Document, seconds]]` runs elsewhere. Without a space it works for the
    active one.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        text: TextIndex,
        vectors: VectorIndex,
        chunker: Chunker,
        embedder: Embedder,
        read: Callable[[Change], Blob],
        parser: Callable[[str], Parser],
        batch_chunks: int = 20_000,
        space: Space | None = None,
        instead: Callable[[Change, str], Blob | None] = lambda *_: None,
    ) -> None:
        self.catalog, self.text, self.vectors = catalog, text, vectors
        self.chunker, self.embedder, self.read, self.parser = chunker, embedder, read, parser
        self.batch_chunks, self.space = batch_chunks, space
        # Called with the seconds of each small piece of work, by whichever thread did it: may rest for as long as it
        # likes. Without it, all the work is done as fast as can be.
        self.rest: Callable[[float], None] | None = None
        self.stages, self._chunks = Stages(), 0
        self._prepare = Preparation(
            catalog=catalog, read=read, parser=parser, cut=self.cut, stages=self.stages, instead=instead
        )

    @property
    def unwanted(self) -> Unwanted:
        """Which documents are to be left undone; looked at between pieces of work, until a version is stored."""
        return self._prepare.unwanted

    @unwanted.setter
    def unwanted(self, given: Unwanted) -> None:
        self._prepare.unwanted = given

    @property
    def stage_seconds(self) -> Mapping[str, float]:
        """What each stage took so far, over all processes."""
        return self.stages.seconds

    def run(self, on_progress: Callable[[Progress], None] | None = None) -> int:
        """Apply every open change; return how many there were."""
        self._get_ready()
        done = self._chunks = 0
        while changes := self.catalog.claim(CLAIM):
            total = done + self.catalog.pending()
            done = self._apply(self._prepare.versions(changes), done, total, on_progress)
        return done

    def load(self, documents: Iterable[Document], on_progress: Callable[[Progress], None] | None = None) -> int:
        """Take in documents that are parsed already; when it returns, all of them are stored."""
        self._get_ready()
        self._chunks = 0
        return self._apply(self._drawn(documents), 0, 0, on_progress)

    def sweep(self) -> int:
        """Remove from the indexes what is dead; return how many tickets."""
        dead = self.catalog.dead()
        if dead:
            self.store_in_indexes([], dead)
            self.catalog.buried(dead)
        return len(dead)

    def _get_ready(self) -> None:
        """Start from what the indexes hold now: another process may have written since."""
        if hasattr(self.vectors, "expect"):  # an index whose first use takes long can begin it now
            self.vectors.expect()
        self.text.refresh()
        self.vectors.refresh()
        self._prepare.begin()

    # ------------------------------------------------------------------------------------- one version

    def _version(self, change: Change) -> Version | Change:
        """What a change makes of its document, or the change itself where there is nothing to do."""
        return next(self._prepare.versions([change]))

    def cut(self, change: Change, document: Document, content_hash: str) -> Version:
        """The version that this content makes of a document, with its chunks numbered and no vectors yet."""
        with self.stages.timed("chunk"):
            chunks = self.chunker.chunk(document)
        if len(chunks) > MAX_CHUNKS:
            raise SourceError(f"it gives {len(chunks)} chunks and {MAX_CHUNKS} are the limit; cut the file in parts")
        first = change.ticket << TICKET_BITS
        named = document_id(change.owner, change.collection, change.uri)
        numbered = tuple(
            c.numbered(id=first + n, document_id=named, parent=first + c.parent if c.parent else 0)
            for n, c in enumerate(chunks)
        )
        # A chunker may have something to say about how it cut a document.
        remarks = self.chunker.remarks(document) if hasattr(self.chunker, "remarks") else ()
        told = replace(document, id=named, problems=tuple(dict.fromkeys((*document.problems, *remarks))))
        return Version(change=change, document=told, chunks=numbered, content_hash=content_hash)

    def _drawn(self, documents: Iterable[Document]) -> Iterator[Version | Change]:
        for some in _handfuls(documents):
            puts = [Change(uri=d.uri, kind="put", owner=d.owner, collection=d.collection) for d in some]
            known = self.catalog.content_hashes([document_id(d.owner, d.collection, d.uri) for d in some])
            for change, document in zip(self.catalog.draw(puts), some, strict=True):
                content_hash = _document_hash(document)
                if known.get(document_id(change.owner, change.collection, change.uri)) != content_hash:
                    yield self.cut(change, document, content_hash)

    # -------------------------------------------------------------------------------------- in batches

    def _apply(
        self,
        versions: Iterator[Version | Change],
        done: int,
        total: int,
        on_progress: Callable[[Progress], None] | None,
    ) -> int:
        """Take all of it through the indexes into the catalog, batch by batch."""

        def store(batch: tuple[list[Version], list[Change]], turn: Turn[_Stored]) -> None:
            nonlocal done
            ready, unchanged = batch
            uri = next((change.uri for change in (*(one.change for one in ready[-1:]), *unchanged[-1:])), "")
            if on_progress is not None:
                on_progress(replace(self._progress(done, total), uri=uri, stage="store"))
            ready = self._prepare.wanted(ready)  # from here on it is too late to stop them
            dead = self.catalog.dead()
            self.store_in_indexes(ready, dead, fed=lambda: turn.fed((ready, unchanged, dead)))
            turn.durable()
            done += len(ready) + len(unchanged)
            self._chunks += sum(len(version.chunks) for version in ready)
            if on_progress is not None:
                on_progress(replace(self._progress(done, total), uri=uri, stage="store"))

        def tell() -> None:
            assert on_progress is not None
            on_progress(self._progress(done, total))

        with seldom_looked_for():
            batches, waiting = self._batches(versions), tell if on_progress is not None else None
            relay(batches, store=store, commit=self._commit, halt=self._prepare.halt, tell=waiting)
        return done

    def _progress(self, done: int, total: int) -> Progress:
        stage, uri = self.stages.now
        return Progress(
            done=done,
            total=max(done, total),
            chunks=self._chunks,
            uri=uri,
            stage_seconds=dict(self.stages.seconds),
            stage=stage,
            prepared=self._prepare.count,
        )

    def _batches(self, versions: Iterator[Version | Change]) -> Iterator[tuple[list[Version], list[Change]]]:
        """Versions with their vectors, about `batch_chunks` chunks at a time, and the changes that need no work."""
        ready: list[Version] = []
        unchanged: list[Change] = []
        chunks = chars = whole = 0
        limit, seconds = min(FIRST_BATCH, self.batch_chunks), min(FIRST_BATCH_SECONDS, BATCH_SECONDS)
        started = since = perf_counter()
        for version in versions:
            since = self._rested(since)
            if isinstance(version, Change):
                unchanged.append(version)
            else:
                ready.append(version)
                chunks += len(version.chunks)
                chars += len(version.document.text) if version.document else 0
            size, elapsed = max(chunks, len(ready) + len(unchanged)), perf_counter() - started
            enough = chars >= BATCH_CHARS or size >= limit or (elapsed >= seconds and size >= WORTH_STORING)
            if enough or elapsed >= BATCH_SECONDS:
                began = perf_counter()
                self.stages.now = ("embed", self.stages.now[1])
                embedded = self.embedded(self._prepare.wanted(ready))
                whole += limit >= self.batch_chunks
                most = self.batch_chunks if whole < SAME_SIZE else 2 * self.batch_chunks
                limit = self._next_limit(limit, perf_counter() - began, most=most)
                seconds = min(2 * seconds, BATCH_SECONDS)
                yield embedded, unchanged
                ready, unchanged, chunks, chars = [], [], 0, 0
                started = since = perf_counter()
        if (ready or unchanged) and not self._prepare.halted:
            yield self.embedded(self._prepare.wanted(ready)), unchanged

    @staticmethod
    def _next_limit(limit: int, embedding_seconds: float, *, most: int) -> int:
        """Batches grow while embedding is quick and shrink while it is slow: what a crash loses is one batch."""
        if embedding_seconds > SLOW_SECONDS:
            return max(1, limit // 2)
        return min(4 * limit, most) if embedding_seconds < SLOW_SECONDS / 4 else limit

    def embedded(self, versions: list[Version]) -> list[Version]:
        """The same versions with a vector for every chunk; a text that was embedded before is not embedded again.

        What nobody wants any more in the middle of it is left out.
        """
        texts = _texts_of(versions)
        if not texts:
            return versions
        if hasattr(self.text, "expect"):  # an index with work of its own to do can begin it now
            self.text.expect(texts)
        with self.stages.timed("embed"):
            hashes = [text_hash(text) for text in texts]
            known = self.catalog.known_vectors(hashes, self.space)
            new = {key: text for key, text in zip(hashes, texts, strict=True) if key not in known}
            step = self._texts_at_once(len(new))
            # A first ingest knows nothing and repeats nothing: the rows are in order already.
            if step >= len(new) == len(texts):
                matrix = self._embed(texts)
            else:
                kept = self._learn(new, known, versions=versions, step=step)
                if len(kept) < len(versions):
                    versions, hashes = kept, [text_hash(text) for text in _texts_of(kept)]
                if not hashes:
                    return versions
                matrix = np.stack([known[key] for key in hashes])
        rows = np.cumsum([len(version.indexed) for version in versions])[:-1].tolist()
        filled = zip(versions, np.split(matrix, rows), _split(hashes, rows), strict=True)
        return [replace(v, vectors=part, hashes=keys) if keys else v for v, part, keys in filled]

    def _texts_at_once(self, count: int) -> int:
        """All of them, but for an embedder that takes long: one that says so wants its work to be safe often, too."""
        if not hasattr(self.embedder, "commit_texts"):
            return count
        return max(EMBED_TEXTS, getattr(self.embedder, "at_once", 0))

    def _learn(
        self, new: Mapping[bytes, str], known: dict[bytes, Vector], *, versions: list[Version], step: int
    ) -> list[Version]:
        """Put the vectors of new texts into `known`, a step at a time; the versions that are still wanted then."""
        left = list(new)
        while left:
            if self._prepare.halted:
                raise BackendError("the run was broken off while texts were embedded; the changes are still open")
            some, left = left[:step], left[step:]
            known.update(zip(some, self._embed([new[key] for key in some]), strict=True))
            kept = self._prepare.wanted(versions)
            if len(kept) < len(versions):
                versions, still = kept, {text_hash(text) for text in _texts_of(kept)}
                left = [key for key in left if key in still]
        return versions

    def _embed(self, texts: list[str]) -> Matrix:
        vectors = self.embedder.embed(texts, "passage")
        self._check_vectors(vectors, len(texts))
        return vectors

    def _check_vectors(self, vectors: Matrix, count: int) -> None:
        if vectors.shape != (count, self.embedder.dim):
            wanted = (count, self.embedder.dim)
            name = self.embedder.fingerprint
            raise BackendError(f"the embedder {name!r} gave a matrix of shape {vectors.shape}, wanted {wanted}")
        if not np.isfinite(vectors).all():
            raise BackendError(f"the embedder {self.embedder.fingerprint!r} gave numbers that are not finite")

    def _commit(self, stored: _Stored, durable: Callable[[], None]) -> None:
        """Make it the truth once the indexes hold all of it durably."""
        versions, unchanged, dead = stored
        since = perf_counter()

        def until() -> None:
            nonlocal since
            began = perf_counter()
            durable()
            since += perf_counter() - began  # to wait for the indexes is no work of the catalog's

        if versions:
            self.catalog.commit(versions, until=until)
            self._prepare.note_parts(versions)
        until()
        if unchanged:
            self.catalog.close(unchanged)
        if dead:
            self.catalog.buried(dead)
        self.stages.add("catalog", perf_counter() - since)
        self._rested(since)

    def store_in_indexes(
        self, versions: Sequence[Version], dead: Sequence[int], *, fed: Callable[[], None] = lambda: None
    ) -> None:
        """Put the chunks into both indexes durably, and remove what is dead. `fed` is called when the text index is."""
        slices: list[list[tuple[Chunk, Document]]] = [[]]
        for version in versions:
            if version.document is not None:
                if self.rest is not None and len(slices[-1]) >= SLICE_CHUNKS:
                    slices.append([])
                slices[-1].extend((chunk, version.document) for chunk in version.indexed)
        if not slices[0] and not dead:
            fed()
            return
        with ThreadPoolExecutor(1, thread_name_prefix="headwater-vectors") as beside:
            vectors = beside.submit(self._store_vectors, versions, dead)
            with self.stages.timed("text index"):
                since = perf_counter()
                self.text.remove(dead)
                for some in slices:
                    self.text.add(some)
                    since = self._rested(since)
                fed()
                self.text.flush()
            vectors.result()

    def _rested(self, since: float) -> float:
        """Say how long the work since then took, where somebody wants to know; the time afterwards."""
        if self.rest is not None:
            self.rest(perf_counter() - since)
        return perf_counter()

    def _store_vectors(self, versions: Sequence[Version], dead: Sequence[int]) -> None:
        with self.stages.timed("vector index"):
            self.vectors.remove(dead)
            filled = [(version.indexed, version.vectors) for version in versions if version.vectors is not None]
            if filled:
                ids = np.array([chunk.id for chunks, _ in filled for chunk in chunks], dtype=np.int64)
                self.vectors.add(ids, stacked([rows for _, rows in filled]))
            self.vectors.flush()


def _texts_of(versions: Sequence[Version]) -> list[str]:
    return [chunk.searchable_text for version in versions for chunk in version.indexed]


def _split(hashes: Sequence[bytes], rows: Sequence[int]) -> Iterator[tuple[bytes, ...]]:
    """As `np.split`."""
    return (tuple(hashes[start:end]) for start, end in zip((0, *rows), (*rows, len(hashes)), strict=True))


def _handfuls(documents: Iterable[Document]) -> Iterator[list[Document]]:
    some: list[Document] = []
    chars = 0
    for document in documents:
        some.append(document)
        chars += len(document.text)
        if len(some) == DRAW or chars >= BATCH_CHARS:
            yield some
            some, chars = [], 0
    if some:
        yield some


def stamped(change: Change) -> Change:
    """The change with its labels in its stamp, so that an equal stamp means nothing at all is new."""
    return replace(change, stamp=f"{change.stamp} {labels_digest(change)}") if change.stamp else change


def _document_hash(document: Document) -> str:
    """Of all that a program says of a document."""
    about = (_ABOUT % _told_of(document)).encode("utf-8", "surrogatepass")
    return blake2b(about + text_hash(document.text), digest_size=16).hexdigest()
