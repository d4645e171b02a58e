"""Values <-> rows: what the catalogs make of a version, and how it lies in the tables. No SQL runs here."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np

from headwater.errors import SpaceMismatch, UsageError
from headwater.filters import ALL, All, And, Filter, Not, Or, Value, conjoin, disjoin
from headwater.likeness import families
from headwater.types import (
    Blob,
    Block,
    Box,
    Change,
    Chunk,
    Document,
    Kind,
    Labels,
    Link,
    Meta,
    Record,
    Section,
    Space,
    Span,
    Version,
    attributes,
    indexed_count,
)

# Attributes of a chunk; every other attribute belongs to the whole document.
CHUNK_KEYS: Final = frozenset({"section", "page", "kind"})
# Document attributes that nearly every document has a value of its own for: looked up in the document table.
COLUMN_KEYS: Final = frozenset({"id", "uri", "title", "description", "created", "updated", "date"})
KINDS: Final[tuple[Kind, ...]] = ("prose", "table", "caption", "code", "image", "note", "quote")
KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS)}

RECORD_COLUMNS: Final = (
    "id, owner, collection, uri, title, description, tags, folder, content_type, mime, archived, created, updated, "
    "state, error, problems, chunks, chars, stamp, content_hash, ticket, meta, coverage"
)
LIGHT_COLUMNS: Final = "uri, id, state, error, chunks, stamp, content_hash, ticket"
_ELSEWHERE: Final = CHUNK_KEYS | COLUMN_KEYS
# Most documents have no tags, problems or meta; comparing is cheaper than parsing.
_NO_LIST, _NO_MAP = "[]", "{}"
_encode: Final = json.JSONEncoder(ensure_ascii=False).encode


class Halved(bytes):
    """A text with half a surrogate pair, which databases do not take as text: its bytes, told from a value of bytes."""


class Term(NamedTuple):
    """A key with one value: a text, or any other value as JSON. Telling them apart spares texts the encoding."""

    key: str
    text: str
    other: str


def utc_now() -> str:
    """As documents are dated."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# ------------------------------------------------------------------------------------------ documents


def record_of(version: Version, *, id: str, created: str, now: str) -> Record:
    """What the catalog lists of a version. Dates the source did not tell are the catalog's own."""
    change, document = version.change, version.document
    if document is None:
        labels = change.labels
        document = Document(
            uri=change.uri,
            text="",
            title=labels.title,
            description=labels.description,
            tags=labels.tags,
            folder=labels.folder,
            content_type=labels.content_type or "text",
            archived=labels.archived,
            meta=labels.meta,
        )
    failed = version.state == "failed"
    return Record(
        id=id,
        uri=change.uri,
        owner=change.owner,
        collection=change.collection,
        title=document.title,
        description=document.description,
        tags=document.tags,
        folder=document.folder,
        content_type=document.content_type,
        mime=document.mime,
        archived=document.archived,
        created=document.created or created or now,
        updated=document.updated or now,
        state=version.state,
        error=version.error,
        problems=document.problems,
        chunks=0 if failed else indexed_count(version.chunks),
        chars=0 if failed else len(document.text),
        # Without a stamp and a hash the next scan tries again.
        stamp="" if failed else change.stamp,
        content_hash="" if failed else version.content_hash,
        ticket=0 if failed else change.ticket,
        coverage=document.coverage,
        meta=document.meta,
    )


def as_document(record: Record, *, text: str, outline: dict[str, Any]) -> Document:
    """The document that a record lists."""
    return Document(
        id=record.id,
        uri=record.uri,
        text=text,
        owner=record.owner,
        collection=record.collection,
        title=record.title,
        description=record.description,
        tags=record.tags,
        folder=record.folder,
        content_type=record.content_type,
        mime=record.mime,
        archived=record.archived,
        created=record.created,
        updated=record.updated,
        problems=record.problems,
        coverage=record.coverage,
        meta=record.meta,
        **outline,
    )


def check_space(active: Space, wanted: Space) -> None:
    """Raise unless what is there was made with what is wanted."""
    for what in ("embedder", "dim", "chunker"):
        there, asked = getattr(active, what), getattr(wanted, what)
        if there != asked:
            raise SpaceMismatch(
                f"this home was made with {what} {there!r}, the configuration asks for {asked!r}; "
                "put that setting back, or run `headwater reindex`, or use another home"
            )


def record_row(record: Record) -> tuple[object, ...]:
    """In the order of RECORD_COLUMNS."""
    return (
        record.id,
        storable(record.owner),
        storable(record.collection),
        storable(record.uri),
        storable(record.title),
        storable(record.description),
        packed(record.tags) if record.tags else _NO_LIST,
        storable(record.folder),
        storable(record.content_type),
        storable(record.mime),
        int(record.archived),
        storable(record.created),
        storable(record.updated),
        record.state,
        storable(record.error),
        packed(record.problems) if record.problems else _NO_LIST,
        record.chunks,
        record.chars,
        storable(record.stamp),
        storable(record.content_hash),
        record.ticket,
        packed(dict(record.meta)) if record.meta else _NO_MAP,
        packed(dict(record.coverage)) if record.coverage else _NO_MAP,
    )


def row_record(row: Sequence[Any]) -> Record:
    """From a row of RECORD_COLUMNS."""
    if bytes in map(type, row):
        row = [readable(value) for value in row]
    return Record(
        id=row[0],
        owner=row[1],
        collection=row[2],
        uri=row[3],
        title=row[4],
        description=row[5],
        tags=() if row[6] == _NO_LIST else tuple(json.loads(row[6])),
        folder=row[7],
        content_type=row[8],
        mime=row[9],
        archived=bool(row[10]),
        created=row[11],
        updated=row[12],
        state=row[13],
        error=row[14],
        problems=() if row[15] == _NO_LIST else tuple(json.loads(row[15])),
        chunks=row[16],
        chars=row[17],
        stamp=row[18],
        content_hash=row[19],
        ticket=row[20],
        meta={} if row[21] == _NO_MAP else unpacked_meta(row[21]),
        coverage={} if row[22] == _NO_MAP else json.loads(row[22]),
    )


def light_record(row: Sequence[Any], *, owner: str, collection: str) -> Record:
    """From a row of LIGHT_COLUMNS: a collection of 100,000 documents is compared with its folder in under a second."""
    uri, id, state, error, chunks, stamp, content_hash, ticket = row
    return Record(
        id=id,
        uri=readable(uri),
        owner=owner,
        collection=collection,
        state=state,
        error=readable(error),
        chunks=chunks,
        stamp=readable(stamp),
        content_hash=readable(content_hash),
        ticket=ticket,
    )


def outline_row(document: Document) -> tuple[str | bytes, ...] | None:
    """Structure, blocks, links, page starts, what no chunk holds, and boxes, or None where there are none of them."""
    if not (
        document.structure
        or document.blocks
        or document.links
        or document.page_starts
        or document.hidden
        or document.boxes
    ):
        return None
    return (
        packed([[s.title, s.level, s.path, *s.span] for s in document.structure]),
        packed([_block_row(block) for block in document.blocks]),
        packed([[x.kind, x.target, *x.span] for x in document.links]),
        packed(document.page_starts),
        packed(document.hidden),
        _packed_boxes(document.boxes),
    )


def row_outline(row: Sequence[Any]) -> dict[str, Any]:
    """The fields of a Document that `outline_row` stored."""
    structure, blocks, links, pages, hidden = (json.loads(readable(column)) for column in row[:5])
    return {
        "structure": tuple(Section(title=t, level=n, path=p, span=Span(a, z)) for t, n, p, a, z in structure),
        "blocks": tuple(map(_row_block, blocks)),
        "links": tuple(Link(kind=kind, target=target, span=Span(a, z)) for kind, target, a, z in links),
        "page_starts": tuple(pages),
        "hidden": tuple(Span(a, z) for a, z in hidden),
        "boxes": _unpacked_boxes(row[5]),
    }


def _block_row(block: Block) -> list[object]:
    """As short as it can be: most blocks have neither header nor rows, and earlier releases wrote neither."""
    row: list[object] = [block.kind, *block.span]
    if block.header or block.rows or block.about is not None:
        row += [block.header, block.rows, block.about]
    return row


def _row_block(row: Sequence[Any]) -> Block:
    kind, start, end, *told = row
    header, rows, about = told or ("", (), None)
    subject = Span(*about) if about is not None else None
    return Block(kind=kind, span=Span(start, end), header=header, rows=tuple(rows), about=subject)


def _packed_boxes(boxes: Sequence[Box]) -> bytes:
    """The differences from one line to the next, which pack at 5 to 1."""
    if not boxes:
        return b""
    table = np.array(boxes, dtype="<i4")
    table[1:] -= table[:-1].copy()
    return zlib.compress(table.T.tobytes(), level=6)


def _unpacked_boxes(stored: bytes) -> tuple[Box, ...]:
    """The opposite of `_packed_boxes`."""
    if not stored:
        return ()
    columns = np.frombuffer(zlib.decompress(stored), dtype="<i4").reshape(len(Box._fields), -1)
    return tuple(map(Box._make, columns.cumsum(axis=1, dtype=np.int64).T.tolist()))


def families_of(chunks: Mapping[int, tuple[Chunk, Record]]) -> dict[int, int]:
    """By id: the lowest of these ids whose text is nearly the same, within an owner's collection."""
    scopes: dict[tuple[str, str], list[int]] = {}
    for id in sorted(chunks):
        record = chunks[id][1]
        scopes.setdefault((record.owner, record.collection), []).append(id)
    found: dict[int, int] = {}
    for ids in scopes.values():
        firsts = families([chunks[id][0].text for id in ids])
        found.update((id, ids[first]) for id, first in zip(ids, firsts, strict=True))
    return found


def terms_of(record: Record) -> set[Term]:
    """Every value of every attribute that is looked up in the inverted index."""
    found = set()
    for key, value in attributes(record).items():
        if key not in _ELSEWHERE:
            for one in value if isinstance(value, tuple) else (value,):
                found.add(Term(key, one, "") if isinstance(one, str) else Term(key, "", _encoded(one)))
    return found


def _encoded(value: Value) -> str:
    """As `_encode`, which takes ten times as long for what every document has."""
    return "true" if value is True else "false" if value is False else _encode(value)


def term_row(term: Term) -> tuple[str | bytes, str | bytes]:
    """key, value."""
    return storable(term.key), term.other or packed(term.text)


# --------------------------------------------------------------------------------------------- changes


def change_row(change: Change) -> tuple[object, ...]:
    """owner, collection, uri, kind, labels, stamp, payload, about."""
    labels, blob = change.labels, change.payload
    told = [labels.title, labels.tags, labels.folder, labels.content_type, labels.description, labels.archived]
    about = [blob.uri, blob.mime, blob.modified, dict(blob.meta)] if blob is not None else None
    return (
        storable(change.owner),
        storable(change.collection),
        storable(change.uri),
        change.kind,
        packed([*told, dict(labels.meta)]),
        storable(change.stamp),
        blob.data if blob is not None else None,
        packed(about),
    )


def row_change(row: Sequence[Any], *, ticket: int, attempts: int) -> Change:
    """The opposite of `change_row`."""
    owner, collection, uri, kind, labels, stamp, payload, about = row
    title, tags, folder, content_type, description, archived, meta = json.loads(readable(labels))
    blob = None
    if payload is not None:
        blob_uri, mime, modified, blob_meta = json.loads(readable(about))
        blob = Blob(uri=blob_uri, data=payload, mime=mime, modified=modified, meta=as_meta(blob_meta))
    return Change(
        uri=readable(uri),
        kind=kind,
        owner=readable(owner),
        collection=readable(collection),
        labels=Labels(
            title=title,
            tags=tuple(tags),
            folder=folder,
            content_type=content_type,
            description=description,
            archived=archived,
            meta=as_meta(meta),
        ),
        stamp=readable(stamp),
        payload=blob,
        ticket=ticket,
        attempts=attempts,
    )


# ---------------------------------------------------------------------------------------------- values


def storable(text: str) -> str | bytes:
    """SQLite text must be UTF-8. A name with half a surrogate pair is kept as bytes, which is found again as well."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return Halved(text.encode("utf-8", "surrogatepass"))
    return text


def readable(value: Any) -> Any:
    """The opposite of `storable`."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def packed(value: object) -> str | bytes:
    """As JSON, which keeps true, 1, 1.0 and "1" apart."""
    try:
        return storable(_encode(value))
    except TypeError as error:
        raise UsageError(f"meta holds strings, numbers, true and false, and tuples of them, got {value!r}") from error


def as_meta(decoded: dict[str, Any]) -> Meta:
    """JSON knows lists where a Meta has tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in decoded.items()}


def unpacked_meta(column: str | bytes) -> Meta:
    """The opposite of `packed` for a Meta."""
    return as_meta(json.loads(readable(column)))


def unpacked_value(column: str | bytes) -> Value:
    """The opposite of `packed` for one value."""
    value: Value = json.loads(readable(column))
    return value


# --------------------------------------------------------------------------------------------- filters


def keys_of(where: Filter) -> frozenset[str]:
    """Every key the filter names."""
    match where:
        case All():
            return frozenset()
        case And(parts) | Or(parts):
            return frozenset().union(*map(keys_of, parts))
        case Not(part):
            return keys_of(part)
        case leaf:
            return frozenset({leaf.key})


def for_documents(where: Filter, *, negated: bool = False) -> Filter:
    """What the filter says about documents alone: a condition on chunks, negated or not, allows any document."""
    match where:
        case Not(part):
            return for_documents(part, negated=not negated)
        case And(parts) | Or(parts):
            reduced = [for_documents(part, negated=negated) for part in parts]
            if isinstance(where, Or) == negated:
                return conjoin(*reduced)
            return ALL if ALL in reduced else disjoin(*reduced)
        case All():
            return Not(ALL) if negated else ALL
        case leaf:
            if leaf.key in CHUNK_KEYS:
                return ALL
            return Not(leaf) if negated else leaf
