"""The verbs. One file, no code. A class fits by shape; it need not inherit.

Every protocol here has a contract suite of the same name in `headwater.testing.contracts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from headwater.filters import Filter
from headwater.messages import Message, Piece, Tool
from headwater.selection import Selection
from headwater.types import (
    Blob,
    Change,
    Chunk,
    Context,
    Document,
    Hit,
    Ids,
    Matrix,
    Query,
    Record,
    Results,
    Scored,
    Space,
    Vector,
    Version,
)


@runtime_checkable
class Source(Protocol):
    """Where documents come from."""

    def scan(self) -> Iterator[Change]:
        """Every uri it holds now, as puts, in a stable order, with a stamp where one is cheap."""
        ...

    def read(self, uri: str) -> Blob:
        """The bytes; raises SourceError with the reason when they cannot be had."""
        ...


@runtime_checkable
class Parser(Protocol):
    """Bytes of some kinds -> text with its structure."""

    mimes: frozenset[str]

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what it cannot read and EmptyDocument for what holds no text."""
        ...


@runtime_checkable
class Chunker(Protocol):
    """A document -> its passages, in order, spans into the document's text."""

    fingerprint: str  # goes into the space: another one means another index

    def chunk(self, document: Document) -> list[Chunk]: ...


@runtime_checkable
class Embedder(Protocol):
    """Texts -> unit vectors. One that says it is `instant` is called without a thread beside the search by words."""

    fingerprint: str  # goes into the space: another one means another index
    dim: int

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        """One row per text, of length 1, or 0 for a text it knows nothing about. Raises BackendError."""
        ...


@runtime_checkable
class Catalog(Protocol):
    """What exists. The only truth; every index can be rebuilt from it. Safe for use from several threads."""

    def generation(self) -> int:
        """Grows with every commit that readers can see."""
        ...

    # -- spaces
    def space(self) -> Space | None:
        """The active space, or None in a new home."""
        ...

    def open_space(self, space: Space) -> Space:
        """Make the first space, or return the active one if it fits; raise SpaceMismatch with the remedy."""
        ...

    def spaces(self) -> list[Space]:
        """Every space, oldest first: the active one, at most one shadow and at most one retired."""
        ...

    def open_shadow(self, space: Space) -> Space:
        """The space to fill: the shadow or retired one that is made with the same, else a new shadow.

        A shadow made with something else is dropped. An id is never used twice.
        """
        ...

    def behind(self, space: Space) -> list[tuple[str, int]]:
        """Documents whose live version has none beside it in this space: (document id, live ticket)."""
        ...

    def reserve(self, tickets: int) -> int:
        """Take so many tickets; return the first. Open changes are left alone."""
        ...

    def fill(self, space: Space, versions: Mapping[int, Version]) -> None:
        """Store versions beside the live ones that they were made from, by the ticket of the live one.

        One whose live version was replaced meanwhile, or that is there already, is left out. No search sees them before
        the switch. A commit of a document takes away what stands beside it, in the same transaction.
        """
        ...

    def unfill(self, space: Space, tickets: Sequence[int]) -> None:
        """Take versions away again that stand beside live ones; their documents are behind."""
        ...

    def switch(self, space: Space) -> bool:
        """Make it the active space in one transaction; the active one is retired, an earlier retired one dropped.

        False, and nothing is changed, while a document is behind.
        """
        ...

    def drop_space(self, space: Space) -> None:
        """Forget a space that is not active."""
        ...

    def clear_away(self) -> None:
        """Remove what dropped spaces have left in the catalog. Safe to stop and to repeat."""
        ...

    # -- queue
    def enqueue(self, changes: Iterable[Change]) -> int:
        """Remember changes durably, the latest per (owner, collection, uri); return how many."""
        ...

    def claim(self, limit: int) -> list[Change]:
        """Open changes, oldest first, each under a fresh ticket. What an earlier ticket left behind is dead."""
        ...

    def draw(self, changes: Sequence[Change]) -> list[Change]:
        """Give each a fresh ticket without queueing: for a caller who holds the content and waits for the end.

        An open change of the same document is taken over: it is closed with the one drawn here.
        """
        ...

    def pending(self) -> int:
        """How many changes are open, claimed or not."""
        ...

    def close(self, changes: Sequence[Change]) -> None:
        """These changes need no commit (nothing had changed); they will not be claimed again."""
        ...

    # -- versions
    def commit(self, versions: Sequence[Version], *, until: Callable[[], None] = lambda: None) -> None:
        """In one transaction make each version its document's only one and close its change.

        A version whose document already has a higher ticket changes nothing. A version that failed keeps the
        earlier chunks alive and records the reason. What is no longer alive is listed by `dead`. `until` is called
        before any of it can be seen, and may wait: what it raises takes all of it back.
        """
        ...

    def note(self, document_id: str, problem: str) -> None:
        """Add a problem to a document that exists, once; without its stamp and hash, so that the next scan reads it."""
        ...

    def dead(self) -> list[int]:
        """Tickets whose chunks the indexes may still hold and must not."""
        ...

    def buried(self, tickets: Sequence[int]) -> None:
        """The indexes hold nothing of these any more."""
        ...

    def tickets(self, space: Space | None = None) -> Mapping[int, int]:
        """Every ticket of a space, else of the active one, and how many chunks it has in the indexes."""
        ...

    def last_ticket(self) -> int:
        """The highest ticket ever drawn."""
        ...

    # -- reading
    def select(self, where: Filter) -> Selection:
        """The chunk ids of the active space that the filter allows, and perhaps ids that its indexes do not hold.

        The reference is `where.matches(attributes(record, chunk))`.
        """
        ...

    def owners(self, ids: Sequence[int], *, generation: int | None = None) -> dict[int, str]:
        """For those that are alive and that the indexes hold: the document's id. Quicker than `locate`.

        With a generation that was just read, what was learned since then may be told from memory.
        """
        ...

    def locate(self, ids: Sequence[int]) -> dict[int, tuple[str, int, int]]:
        """For those that are alive: (document id, start, end)."""
        ...

    def chunks(self, ids: Sequence[int]) -> dict[int, tuple[Chunk, Record]]:
        """For those that are alive: the chunk with its text, and its document's record."""
        ...

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """The live chunks of a document in order."""
        ...

    def families(self, ids: Sequence[int]) -> Mapping[int, int]:
        """For those that are alive: the lowest id among them whose text is nearly the same, else its own.

        Only documents of one owner and collection are of a family. For the hits of a search, not for whole homes.
        """
        ...

    def alike(self, document_id: str) -> list[tuple[str, float]]:
        """Other documents of its owner and collection that are nearly the same, with how much, most alike first.

        Among those that were committed with a sketch; ties by id.
        """
        ...

    def links(self, document_ids: Sequence[str]) -> list[tuple[str, str]]:
        """References within a collection, (from, to), that begin or end at one of these documents; in order, each once.

        A reference names a title, an alias, a file name with or without its ending, a uri or a canonical address.
        """
        ...

    def is_pending(self, document_id: str) -> bool:
        """Whether a change of it is open."""
        ...

    def vectors(self, ids: Sequence[int]) -> tuple[Ids, Matrix]:
        """The exact vectors of those that are alive, in any order, with their ids. All ids are of one space."""
        ...

    def known_vectors(self, hashes: Sequence[bytes], space: Space | None = None) -> dict[bytes, Vector]:
        """Vectors of a space's embedder, else of the active one's, for texts of these hashes: the embedding cache."""
        ...

    def document(self, document_id: str) -> Document | None:
        """The document with its text."""
        ...

    def record(self, document_id: str) -> Record | None:
        """The document without its text."""
        ...

    def content_hashes(self, document_ids: Sequence[str]) -> dict[str, str]:
        """Of those that exist and were read well: what their content was hashed to."""
        ...

    def records(self, where: Filter, *, limit: int | None = None, offset: int = 0) -> list[Record]:
        """The documents that the filter allows, by collection and uri. Chunk-level keys allow any document."""
        ...

    def stamps(self, owner: str, collection: str) -> Mapping[str, Record]:
        """By uri: what is known of a collection's documents, for telling what changed."""
        ...

    def statistics(self) -> Mapping[str, int]:
        """Counts of documents, chunks, vectors, collections, pending, dead, failed, empty; generation, last_ticket."""
        ...

    def check(self) -> list[str]:
        """What is wrong inside the catalog itself, in words; empty when all is well."""
        ...

    def repair(self) -> None:
        """Drop rows that belong to nothing, so that `check` finds nothing more that can be mended here."""
        ...

    def close_store(self) -> None:
        """Let go of files and connections."""
        ...


@runtime_checkable
class TextIndex(Protocol):
    """Ranks chunks by their words. Safe for use from several threads; one writer per home."""

    def add(self, chunks: Sequence[tuple[Chunk, Document]]) -> None:
        """Index these; adding what is there already is harmless. Chunks of one ticket come in one call."""
        ...

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        ...

    def flush(self) -> None:
        """Make what was added and removed durable, and visible after `refresh`."""
        ...

    def refresh(self) -> None:
        """See what was last flushed, by this process or another."""
        ...

    def search(self, text: str, limit: int, where: Filter, *, all_of: str = "") -> list[Scored]:
        """Best first, ties by id, at most `limit`; only what the filter allows; never an error for odd text.

        With `all_of`, only chunks that hold every word and every pair of Chinese characters of it, in their text or
        in their document's title.
        """
        ...

    def best_score(self, text: str) -> float:
        """About what `search` would score a chunk that held all of the query: scores are shares of it.

        Words that no chunk holds count too. 0 where there is no chunk or no word.
        """
        ...

    def known(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Of these terms of the words lane, those that a chunk holds in its text or title, and about how many do.

        For hundreds of terms at once. Questions with typos need it: without it they are searched for as they are.
        """
        ...

    def tickets(self) -> Mapping[int, int]:
        """Every ticket it holds and how many chunks of it."""
        ...

    def release(self) -> None:
        """Let go of the write lock, if any; reading goes on, and the next write takes it again."""
        ...

    def clear(self) -> None:
        """Drop everything, even what cannot be read; the next flush makes it durable."""
        ...

    def close(self) -> None:
        """Let go of files and locks; what was not flushed is lost."""
        ...


@runtime_checkable
class VectorIndex(Protocol):
    """Ranks chunks by cosine. Safe for use from several threads; one writer per home."""

    def add(self, ids: Ids, vectors: Matrix) -> None:
        """Index these; adding what is there already is harmless. Ids of one ticket come in one call, from ordinal 0."""
        ...

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        ...

    def flush(self) -> None:
        """Make what was added and removed durable, and visible after `refresh`."""
        ...

    def refresh(self) -> None:
        """See what was last flushed, by this process or another."""
        ...

    def search(self, vector: Vector, limit: int, where: Filter) -> list[Scored]:
        """Best first by exact cosine, ties by id, at most `limit`; only what the filter allows."""
        ...

    def tickets(self) -> Mapping[int, int]:
        """Every ticket it holds and how many chunks of it."""
        ...

    def release(self) -> None:
        """Let go of the write lock, if any; reading goes on, and the next write takes it again."""
        ...

    def clear(self) -> None:
        """Drop everything, even what cannot be read; the next flush makes it durable."""
        ...

    def close(self) -> None:
        """Let go of files and locks; what was not flushed is lost."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """A query -> hits, best first."""

    def retrieve(self, query: Query) -> Results: ...


@runtime_checkable
class Generator(Protocol):
    """A context -> the answer's text, piece by piece, with markers [n] for passage n."""

    def generate(self, context: Context) -> Iterator[str]: ...


@runtime_checkable
class Reranker(Protocol):
    """Looks at a question and each passage together."""

    fingerprint: str

    def score(self, question: str, hits: Sequence[Hit], *, deadline_seconds: float) -> Sequence[float]:
        """One relevance per hit, higher is better. Raises BackendError, also when it cannot be done in time."""
        ...


@runtime_checkable
class Rewriter(Protocol):
    """Asks a question in other words, or imagines its answer, for a search that looks in several ways at once."""

    def rewrites(self, question: str, *, limit: int, deadline_seconds: float) -> Sequence[str]:
        """At most `limit` other ways to ask, none of them the question itself. Raises BackendError."""
        ...

    def imagined(self, question: str, *, deadline_seconds: float) -> str:
        """A passage that would answer it; empty where it cannot imagine one. Raises BackendError."""
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """Messages -> what it says, piece by piece."""

    name: str
    context_tokens: int  # what it can be shown and say, in all

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        deadline_seconds: float = 60.0,
    ) -> Iterator[Piece]:
        """With a `schema` what it says is JSON of that shape, as far as the endpoint can hold the model to it.

        Raises BackendError: what failed, and what to do.
        """
        ...


# What writes an answer.
Writer = Generator | LanguageModel
