"""A home, whatever its catalog -> its documents in another one: nothing is read, cut or embedded again.

Documents, chunks and vectors go from catalog to catalog by what every catalog can do; the indexes of the other home are
filled with them. What is there already is left as it is, so that a copy that was broken off goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from headwater.build import KnowledgeBase
from headwater.errors import SpaceMismatch, UsageError
from headwater.filters import ALL
from headwater.likeness import packed, sketch
from headwater.protocols import Catalog
from headwater.selection import TICKET_BITS
from headwater.types import Change, Chunk, Document, Labels, Matrix, Record, Space, State, Version

# To one flush of the indexes and one transaction, as an ingest does it; a book may have more by itself.
BATCH_CHUNKS: Final = 15_000
BATCH_DOCUMENTS: Final = 2_000

OnCopied = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy did: documents and chunks that came, and documents that were there already."""

    documents: int
    chunks: int
    there: int


def copy(source: KnowledgeBase, target: KnowledgeBase, *, on_copied: OnCopied | None = None) -> Copied:
    """Put every document of one home into another one, which is new or was made with the same embedder and chunker.

    Both are held while it goes on. `on_copied` is told how many of how many are done.
    """
    if waiting := source.catalog.pending():
        raise UsageError(f"{waiting} changes of {str(source.home)!r} wait to be indexed; let them be, then copy")
    space = source.catalog.space()
    if space is None:
        return Copied(documents=0, chunks=0, there=0)
    _fit(target, space)
    with ExitStack() as held:
        for kb in (source, target):
            held.enter_context(kb.intake.waiting())
        records = source.catalog.records(ALL)
        new = [record for record in records if not _is_there(target.catalog, record)]
        done = chunks = 0
        for versions in _batches(source.catalog, target.catalog, new):
            target.indexer.store_in_indexes(versions, [])
            target.catalog.commit(versions)
            done += len(versions)
            chunks += sum(len(version.indexed) for version in versions)
            if on_copied is not None:
                on_copied(done, len(new))
    return Copied(documents=done, chunks=chunks, there=len(records) - len(new))


def _fit(target: KnowledgeBase, space: Space) -> None:
    """Make the target's space like the source's, or raise SpaceMismatch."""
    own = target.embedder
    if (own.fingerprint, own.dim) != (space.embedder, space.dim):
        raise SpaceMismatch(
            f"the home to copy was made with embedder {space.embedder!r}, the settings of {str(target.home)!r} ask for "
            f"{own.fingerprint!r}; give it the same `embed` settings"
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
