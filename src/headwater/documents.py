"""The nouns of the write path. Frozen values that flow one way; identity and storage are the catalog's business.

Change -> Blob -> Document -> Chunk        (then the catalog and the indexes)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.filters import Value
from headwater.selection import TICKET_BITS

Vector = npt.NDArray[np.float32]  # shape (dim,)
Matrix = npt.NDArray[np.float32]  # shape (n, dim)
Ids = npt.NDArray[np.int64]  # chunk ids
Meta = Mapping[str, Value | tuple[Value, ...]]
State = Literal["pending", "processing", "indexed", "completed", "empty", "failed"]
# A note is what a speaker or a footnote says beside the text; a quote is what a mail repeats of another.
Kind = Literal["prose", "table", "caption", "code", "image", "note", "quote"]

LOCAL_OWNER = "local"
DEFAULT_COLLECTION = "default"
# Boxes are measured in this share of the page's width and height, from its top left corner.
BOX_UNITS = 10_000
# How what is told about a passage and its own words are marked in `index_text`: before, between and after them.
META_MARKS = ("<meta>", "</meta>\n<content>", "</content>")
# In a document's meta: words that its passages are found by as by their own.
INDEXED_WITH = "indexed_with"


class Span(NamedTuple):
    """Half-open character range `[start, end)` into `Document.text`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the person who adds a document says about it; it wins over what the document says of itself."""

    title: str = ""
    tags: tuple[str, ...] = ()
    folder: str = ""
    content_type: str = ""
    description: str = ""
    archived: bool = False
    meta: Meta = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something happened to a uri. The unit of work of the indexer."""

    uri: str
    kind: Literal["put", "delete"]
    owner: str = LOCAL_OWNER
    collection: str = DEFAULT_COLLECTION
    labels: Labels = Labels()
    stamp: str = ""  # a cheap sign of the content (size and time): equal stamps need no reading
    payload: Blob | None = None  # for what cannot be read again: standard input, text sent by a program
    ticket: int = 0  # drawn from the catalog at every claim, never twice; the higher ticket wins
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """The bytes of a source, with what is known about them."""

    uri: str
    data: bytes
    mime: str = ""
    modified: str = ""  # ISO 8601, UTC
    meta: Meta = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and all that stands under it. `path` joins the titles from the top with ` > `."""

    title: str
    level: int
    path: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of the text that a chunker must know about: a table, a piece of code, a caption, a note."""

    kind: Kind
    span: Span
    # What every chunk of it is said to be: the column names of a table, the first line of a function.
    header: str = ""
    rows: tuple[int, ...] = ()  # where the rows of a table start, in order; it is cut nowhere else
    about: Span | None = None  # what a caption or a note belongs to: a table, a figure, the nearest paragraph


class Box(NamedTuple):
    """Where a line of the text stands on its page: characters `[start, end)`, page from 1, in BOX_UNITS."""

    start: int
    end: int
    page: int
    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A reference from this document: a wikilink, an address."""

    kind: Literal["wikilink", "embed", "url"]
    target: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One source, as text. `text` is what spans and citations point into; cleaning never changes it."""

    uri: str
    text: str
    owner: str = LOCAL_OWNER
    collection: str = DEFAULT_COLLECTION
    id: str = ""  # given by the catalog, opaque
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    folder: str = ""
    content_type: str = "text"
    mime: str = "text/plain"
    archived: bool = False
    structure: tuple[Section, ...] = ()
    blocks: tuple[Block, ...] = ()
    links: tuple[Link, ...] = ()
    hidden: tuple[Span, ...] = ()  # what no chunk holds: frontmatter, comments; in order, apart from one another
    page_starts: tuple[int, ...] = ()  # character where page 1, 2, ... starts; empty where there are no pages
    boxes: tuple[Box, ...] = ()  # where its lines stand on the pages, in the order of the text
    attachments: tuple[Blob, ...] = ()  # documents of their own that came inside it: the files of a mail
    coverage: Mapping[str, Value] = field(default_factory=dict)  # how much of the source is in the text, by measure
    created: str = ""  # ISO 8601
    updated: str = ""
    problems: tuple[str, ...] = ()
    meta: Meta = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A passage of a document. Invariant: `document.text[span.start:span.end] == text`.

    `id` is ticket and ordinal in one integer, given by the indexer and never reused. It stays inside: outside a
    passage is named `document_id:start-end`. As a chunker gives it, `parent` is the place of the larger one in what it
    returned, where the larger ones come last.
    """

    span: Span
    text: str
    id: int = 0
    document_id: str = ""
    index_text: str = ""  # what is embedded and tokenised; empty means `text`
    section: str = ""
    pages: tuple[int, ...] = ()  # first to last, 1-based
    kind: Kind = "prose"
    parent: int = 0  # the id of the larger chunk it was cut from, or 0

    def numbered(self, *, id: int, document_id: str, parent: int) -> Chunk:
        """The same with these. Field by field: `replace` takes three times as long, and an ingest does it for each."""
        return Chunk(
            span=self.span,
            text=self.text,
            id=id,
            document_id=document_id,
            index_text=self.index_text,
            section=self.section,
            pages=self.pages,
            kind=self.kind,
            parent=parent,
        )

    @property
    def ordinal(self) -> int:
        """Its place in the document, from 0."""
        return self.id & ((1 << TICKET_BITS) - 1)

    @property
    def name(self) -> str:
        """Its public id."""
        return f"{self.document_id}:{self.span.start}-{self.span.end}"

    @property
    def searchable_text(self) -> str:
        """What the indexes see: what is told and the words, without the marks, which only dilute both."""
        if not self.index_text:
            return self.text
        before, between, after = META_MARKS
        if self.index_text.startswith(before) and self.index_text.endswith(after):
            told, marked, words = self.index_text[len(before) : -len(after)].partition(between)
            if marked:
                return f"{told}\n{words}"
        return self.index_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """All that one change makes of one document: what the indexer commits. No document means it is gone."""

    change: Change
    document: Document | None = None
    chunks: tuple[Chunk, ...] = ()
    vectors: Matrix | None = None  # one row per chunk that is indexed
    state: State = "completed"
    content_hash: str = ""
    error: str = ""
    sketch: bytes = b""  # what likeness is told by (`likeness.packed`); empty where nobody made one
    hashes: tuple[bytes, ...] = ()  # `text_hash` of what each row is the vector of; empty where nobody made them

    @property
    def indexed(self) -> tuple[Chunk, ...]:
        """The chunks that the indexes hold: all but those that others were cut from, which come last."""
        return self.chunks[: indexed_count(self.chunks)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A document as the catalog lists it: everything but its text."""

    id: str
    uri: str
    owner: str = LOCAL_OWNER
    collection: str = DEFAULT_COLLECTION
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    folder: str = ""
    content_type: str = "text"
    mime: str = "text/plain"
    archived: bool = False
    created: str = ""
    updated: str = ""
    state: State = "completed"
    error: str = ""
    problems: tuple[str, ...] = ()
    chunks: int = 0
    chars: int = 0
    stamp: str = ""
    content_hash: str = ""
    ticket: int = 0  # of its live version; 0 when there is none
    coverage: Mapping[str, Value] = field(default_factory=dict)
    meta: Meta = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What chunks, vectors and both indexes were made with. A change of either needs a space of its own."""

    id: int = 0
    embedder: str  # the embedder's fingerprint
    dim: int
    chunker: str  # the chunker's fingerprint
    state: Literal["active", "shadow", "retired"] = "active"
    # The settings of both as JSON, to make them again; empty where they were given as objects.
    settings: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A document that could not be added, and why."""

    uri: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What an `add` did."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: tuple[Failure, ...] = ()
    missing: tuple[str, ...] = ()  # documents whose file is gone and that were kept: `prune` removes them
    chunks: int = 0
    took_ms: float = 0.0


def document_id(owner: str, collection: str, uri: str) -> str:
    """The opaque id of a document: the same identity has the same id in every home."""
    name = "\0".join((owner, collection, uri)).encode("utf-8", "surrogatepass")
    return blake2b(name, digest_size=10).hexdigest()


def text_hash(text: str) -> bytes:
    """The key of a text in the embedding cache."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """All their rows in one matrix: the one they were cut from, where they are all of it in its order."""
    whole = parts[0].base if len(parts) > 1 else None
    if isinstance(whole, np.ndarray) and whole.shape == (sum(map(len, parts)), parts[0].shape[1]):
        place = whole.ctypes.data
        for part in parts:
            if part.base is not whole or part.strides != whole.strides or _address(part) != place:
                break
            place += part.nbytes
        else:
            return whole
    return np.concatenate(parts)


def _address(part: Matrix) -> int:
    found: int = part.__array_interface__["data"][0]
    return found


def indexed_count(chunks: Sequence[Chunk]) -> int:
    """How many of the chunks the indexes hold: those no other was cut from. The others come last."""
    parents = {chunk.parent for chunk in chunks if chunk.parent}
    return len(chunks) - sum(chunk.id in parents for chunk in chunks) if parents else len(chunks)


def record_of(document: Document) -> Record:
    """A document without its text, as it describes itself."""
    return Record(
        id=document.id,
        uri=document.uri,
        owner=document.owner,
        collection=document.collection,
        title=document.title,
        description=document.description,
        tags=document.tags,
        folder=document.folder,
        content_type=document.content_type,
        mime=document.mime,
        archived=document.archived,
        created=document.created,
        updated=document.updated,
        problems=document.problems,
        chars=len(document.text),
        coverage=document.coverage,
        meta=document.meta,
    )


def attributes(record: Record, chunk: Chunk | None = None) -> Meta:
    """What filters see of a document, and of one chunk of it. Own fields win over `meta` of the same name."""
    seen: dict[str, Value | tuple[Value, ...]] = dict(record.meta)
    seen.update(
        owner=record.owner,
        collection=record.collection,
        uri=record.uri,
        title=record.title,
        description=record.description,
        tag=record.tags,
        folder=record.folder,
        content_type=record.content_type,
        mime=record.mime,
        archived=record.archived,
        created=record.created,
        updated=record.updated,
        id=record.id,
    )
    seen.setdefault("date", record.updated or record.created)
    if chunk is not None:
        seen.update(section=chunk.section, page=chunk.pages, kind=chunk.kind)
    return seen


def boxes_of(document: Document, span: Span) -> tuple[Box, ...]:
    """The lines that a span of the text touches, where they stand on their pages."""
    first = bisect_right(document.boxes, span.start, key=lambda box: box.end)
    last = bisect_left(document.boxes, span.end, key=lambda box: box.start)
    return document.boxes[first:last]
