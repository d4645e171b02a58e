"""Versions for testing a catalog alone: a chunk per line, a vector that depends on nothing but the text."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.selection import TICKET_BITS
from headwater.types import Change, Chunk, Document, Matrix, Space, Span, Version, document_id, text_hash

DIM = 8
SPACE = Space(embedder="sums", dim=DIM, chunker="lines")
# Where each kind of chunk can be recognised by how its line begins.
KINDS = {"|": "table", "`": "code"}


def embedded(texts: list[str]) -> Matrix:
    """A unit vector for every text, always the same for the same one."""
    rows = [np.frombuffer(text_hash(text)[:DIM], dtype=np.uint8).astype(np.float32) + 1 for text in texts]
    matrix = np.array(rows, dtype=np.float32).reshape(len(rows), DIM)
    unit: Matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    return unit


def cut(text: str, ticket: int, *, indexed_as: str = "") -> tuple[Chunk, ...]:
    """A chunk for every line that is not empty. Its section is the last line that began with #, its page its number."""
    chunks: list[Chunk] = []
    start, section = 0, ""
    for page, line in enumerate(text.split("\n"), 1):
        if line.startswith("#"):
            section = line.lstrip("# ")
        if line:
            chunk = Chunk(
                id=(ticket << TICKET_BITS) + len(chunks),
                span=Span(start, start + len(line)),
                text=line,
                index_text=indexed_as.format(line) if indexed_as else "",
                section=section,
                pages=(page, page + 1) if page % 2 else (),
                kind=KINDS.get(line[0], "prose"),  # type: ignore[arg-type]
            )
            chunks.append(chunk)
        start += len(line) + 1
    return tuple(chunks)


def made(change: Change, text: str, *, content_hash: str = "", indexed_as: str = "", **fields: Any) -> Version:
    """The version that this text makes of a change's document."""
    chunks = cut(text, change.ticket, indexed_as=indexed_as)
    document = Document(uri=change.uri, text=text, owner=change.owner, collection=change.collection, **fields)
    vectors = embedded([chunk.searchable_text for chunk in chunks]) if chunks else None
    return Version(change=change, document=document, chunks=chunks, vectors=vectors, content_hash=content_hash)


def put(uri: str, **fields: Any) -> Change:
    """A change that puts a document."""
    return Change(uri=uri, kind="put", **fields)


def named(change: Change) -> str:
    """The id of the change's document."""
    return document_id(change.owner, change.collection, change.uri)
