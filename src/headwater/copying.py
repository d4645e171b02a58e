"""A home, whatever its catalog -> its documents in another one: nothing is read, cut or embedded again.

Documents, chunks and vectors go from catalog to catalog by what every catalog can do; the indexes of the other home are
filled with them. What is there already is left as it is, so that a copy that was broken off goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from headwater.build import KnowledgeBase, open_home
from headwater.errors import BackendError, SpaceMismatch, UsageError
from headwater.filters import ALL
from headwater.likeness import packed, sketch
from headwater.protocols import Catalog
from headwater.selection import TICKET_BITS
from headwater.stores import embedded
from headwater.types import Change, Chunk, Document, Labels, Matrix, Record, Space, State, Version

# To one flush of the indexes and one transaction, as an ingest does it; a book may have more by itself.
BATCH_CHUNKS: Final = 15_000
BATCH_DOCUMENTS: Final = 2_000
# What a home takes on disk, measured on generated ones: text and its index 1.6 bytes a character of English and up to
# 13 of Chinese, a number of a vector 2 in the catalog and 3 in the index, and what is kept of each beside it.
BYTES_PER_CHAR: Final = 2
BYTES_PER_CHINESE_CHAR: Final = 14
BYTES_PER_NUMBER: Final = 5
BYTES_PER_CHUNK: Final = 200
BYTES_PER_DOCUMENT: Final = 600
FIXED_BYTES: Final = 1 << 20
# Documents that are looked at to tell how much of a home is Chinese, and where its characters begin.
SAMPLED: Final = 50
SAMPLED_CHARS: Final = 10_000
FIRST_CHINESE: Final = "\u2e80"

OnCopied = Callable[[int, int], None]
# What becomes of changes that wait to be indexed: the copy is refused, they come along, or they are left.
Waiting = Literal["refuse", "take", "leave"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy did: documents and chunks that came, and documents that were there already."""

    documents: int
    chunks: int
    there: int


class AsMade:
    """Stands for the embedder of a space whose vectors are all made: it makes none."""

    def __init__(self, space: Space) -> None:
        self.fingerprint, self.dim = space.embedder, space.dim

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        """Raises BackendError."""
        raise BackendError(f"a copy embeds nothing, and was asked for {len(texts)} vectors of {self.fingerprint!r}")


class AsCut:
    """Stands for the chunker of a space whose documents are all cut: it cuts none."""

    def __init__(self, space: Space) -> None:
        self.fingerprint = space.chunker

    def chunk(self, document: Document) -> list[Chunk]:
        """Raises BackendError."""
        raise BackendError(f"a copy cuts nothing, and was asked for the passages of {document.uri!r}")


def copy(
    source: KnowledgeBase,
    target: KnowledgeBase,
    *,
    on_copied: OnCopied | None = None,
    only: Collection[str] | None = None,
    waiting: Waiting = "refuse",
) -> Copied:
    """Put every document of one home into another one, which is new or was made with the same embedder and chunker.

    With `only`, the documents of these ids, in the place of what the other home has of them. Both are held while it
    goes on. `on_copied` is told how many of how many are done.
    """
    if source.home.resolve() == target.home.resolve():  # it would wait for itself
        raise UsageError(f"a home cannot be copied into itself, got {str(target.home)!r}; name another folder")
    if waiting == "refuse" and (open_changes := source.catalog.pending()):
        raise UsageError(f"{open_changes} changes of {str(source.home)!r} wait to be indexed; let them be, then copy")
    space = source.catalog.space()
    if space is None:
        return Copied(documents=0, chunks=0, there=0)
    fit(target, space)
    with ExitStack() as held:
        for kb in (source, target):
            held.enter_context(kb.intake.waiting())
        records = [record for record in source.catalog.records(ALL) if only is None or record.id in only]
        new = [record for record in records if only is not None or not _is_there(target.catalog, record)]
        done = chunks = 0
        for versions in _batches(source.catalog, target.catalog, new):
            target.indexer.store_in_indexes(versions, [])
            target.catalog.commit(versions)
            done += len(versions)
            chunks += sum(len(version.indexed) for version in versions)
            if on_copied is not None:
                on_copied(done, len(new))
        if waiting == "take":
            # Nobody is at work on them while the lock is held; the next who is claims them anew.
            target.catalog.enqueue(source.catalog.claim(source.catalog.pending()))
    return Copied(documents=done, chunks=chunks, there=len(records) - len(new))


def copy_into_folder(source: KnowledgeBase, folder: Path, *, on_copied: OnCopied | None = None) -> None:
    """Make a home in a new folder, with every store in it, of all that the catalog of another one holds."""
    space = source.catalog.space()
    made = AsMade(space) if space else None
    cut = AsCut(space) if space else None
    with open_home(folder, config=embedded(source.config), embedder=made, chunker=cut) as target:
        copy(source, target, on_copied=on_copied, waiting="take")


def bytes_in_folder(catalog: Catalog) -> int:
    """About how much room `copy_into_folder` takes."""
    space = catalog.space()
    if space is None:
        return 0
    records = catalog.records(ALL)
    chunks = sum(record.chunks for record in records)
    share = _chinese(catalog, records)
    per_char = BYTES_PER_CHAR + share * (BYTES_PER_CHINESE_CHAR - BYTES_PER_CHAR)
    told = round(sum(record.chars for record in records) * per_char) + len(records) * BYTES_PER_DOCUMENT
    return FIXED_BYTES + told + chunks * (space.dim * BYTES_PER_NUMBER + BYTES_PER_CHUNK)


def _chinese(catalog: Catalog, records: Sequence[Record]) -> float:
    """About how much of a home's text is Chinese, from 0 to 1."""
    some = [catalog.document(record.id) for record in records[:: len(records) // SAMPLED + 1] if record.ticket]
    text = "".join(document.text[:SAMPLED_CHARS] for document in some if document is not None)
    return sum(char >= FIRST_CHINESE for char in text) / max(1, len(text))


def fit(target: KnowledgeBase, space: Space) -> None:
    """Make the target's space like the source's, or raise SpaceMismatch."""
    own = target.embedder
    if (own.fingerprint, own.dim) != (space.embedder, space.dim):
        raise SpaceMismatch(
            f"the home to copy was made with embedder {space.embedder!r}, the settings of {str(target.home)!r} ask for "
            f"{own.fingerprint!r}; give it the same `embed` settings"
        )
    is_named = target.catalog.space() is None and "chunk.use" in target.config.settings
    if is_named and target.chunker.fingerprint != space.chunker:
        raise SpaceMismatch(
            f"the home to copy was made with chunker {space.chunker!r}, the settings of {str(target.home)!r} ask for "
            f"{target.chunker.fingerprint!r}; give it the same `chunk` settings"
        )
    target.catalog.open_space(replace(space, id=0))


def _is_there(catalog: Catalog, record: Record) -> bool:
    known = catalog.record(record.id)
    if known is None or bool(known.ticket) != bool(record.ticket):
        return False
    if not record.ticket:
        return known.error == record.error
    told = (known.state, known.chunks, known.content_hash, known.stamp)
    return told == _as_copied(record) and known.updated == record.updated


def _as_copied(record: Record) -> tuple[str, int, str, str]:
    """State, chunks, hash and stamp that a record will have: one whose last reading failed is to be read again."""
    if record.state == "failed" and record.ticket:
        return "completed", record.chunks, "", ""
    return record.state, record.chunks, record.content_hash, record.stamp


def _batches(source: Catalog, target: Catalog, records: Sequence[Record]) -> Iterator[list[Version]]:
    batch: list[Record] = []
    chunks = 0
    for record in records:
        batch.append(record)
        chunks += record.chunks
        if chunks >= BATCH_CHUNKS or len(batch) >= BATCH_DOCUMENTS:
            yield _versions(source, target, batch)
            batch, chunks = [], 0
    if batch:
        yield _versions(source, target, batch)


def _versions(source: Catalog, target: Catalog, records: Sequence[Record]) -> list[Version]:
    changes = target.draw([_change(record) for record in records])
    return [_version(source, record, change) for record, change in zip(records, changes, strict=True)]


def _change(record: Record) -> Change:
    labels = Labels(
        title=record.title,
        tags=record.tags,
        folder=record.folder,
        content_type=record.content_type,
        description=record.description,
        archived=record.archived,
        meta=record.meta,
    )
    stamp = _as_copied(record)[3]
    return Change(
        uri=record.uri, kind="put", owner=record.owner, collection=record.collection, labels=labels, stamp=stamp
    )


def _version(source: Catalog, record: Record, change: Change) -> Version:
    document = source.document(record.id) if record.ticket else None
    if document is None:
        return Version(change=change, state="failed", error=record.error)
    if record.state == "empty":
        told = record.content_hash
        return Version(change=change, document=document, state="empty", error=record.error, content_hash=told)
    chunks = _renumbered(_all_chunks(source, record), record, change)
    vectors = _vectors(source, record)
    made: State = "completed" if vectors is not None else "indexed"
    return Version(
        change=change,
        document=document,
        chunks=chunks,
        vectors=vectors,
        state=made if record.state == "failed" else record.state,
        content_hash=_as_copied(record)[2],
        sketch=_sketched(document),
    )


def _sketched(document: Document) -> bytes:
    return packed(sketch(document.text))


def _all_chunks(source: Catalog, record: Record) -> list[Chunk]:
    """Those that are indexed, then the larger ones that they were cut from, of which there are never more."""
    indexed = source.chunks_of(record.id)
    if not any(chunk.parent for chunk in indexed):
        return indexed
    first = (record.ticket << TICKET_BITS) + len(indexed)
    larger = source.chunks(range(first, first + len(indexed)))
    return [*indexed, *(larger[id][0] for id in sorted(larger))]


def _renumbered(chunks: Sequence[Chunk], record: Record, change: Change) -> tuple[Chunk, ...]:
    moved = (change.ticket - record.ticket) << TICKET_BITS
    return tuple(
        chunk.numbered(id=chunk.id + moved, document_id=record.id, parent=chunk.parent + moved if chunk.parent else 0)
        for chunk in chunks
    )


def _vectors(source: Catalog, record: Record) -> Matrix | None:
    first = record.ticket << TICKET_BITS
    ids, rows = source.vectors(range(first, first + record.chunks))
    if len(ids) < record.chunks or not record.chunks:
        return None
    ordered: Matrix = rows[np.argsort(ids)]
    return ordered
