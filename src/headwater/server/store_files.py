"""The documents of a dataset <-> the files of a vector store: what each is called, where it stands, how it gets in.

A file that was sent keeps its id in every store that it is put into; a document that came another way is a file under
the document's own id. What came inside a document, or was added to it by hand, belongs to that document's file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headwater import strategies
from headwater.attach import MANUAL_OF, MAX_DEPTH, PART_OF, is_by_hand, is_part, with_parts
from headwater.errors import NotFound, SourceError, UsageError
from headwater.filters import Value
from headwater.server import attributes as attributed
from headwater.server import wire
from headwater.server.by_hand import merged
from headwater.server.holdings import Holding, holdings
from headwater.server.promises import start
from headwater.server.relabel import relabel
from headwater.server.removal import remove_documents
from headwater.server.state import State
from headwater.storage.ledger import Dataset, File, Original, now
from headwater.types import Meta, Record, document_id

Status = Literal["in_progress", "completed", "failed", "cancelled"]
STATUSES: Mapping[str, Status] = {
    **{"pending": "in_progress", "processing": "in_progress", "indexed": "in_progress"},
    **{"completed": "completed", "empty": "failed", "failed": "failed", "cancelled": "cancelled"},
}
_CUT = (strategies.STRATEGY, strategies.CHUNK_SIZE, strategies.CHUNK_OVERLAP)
_STATIC = "meta"  # the strategy that is told both a size and an overlap


class Sizes(wire.Body):
    """How long passages are at most, and how much of one is repeated in the next; in tokens."""

    max_chunk_size_tokens: int = Field(ge=100, le=4096)
    chunk_overlap_tokens: int = Field(ge=0, le=2048)

    @model_validator(mode="after")
    def _half_at_most(self) -> "Sizes":
        if 2 * self.chunk_overlap_tokens > self.max_chunk_size_tokens:
            raise ValueError("chunk_overlap_tokens may be at most half of max_chunk_size_tokens")
        return self


class Auto(wire.Body):
    """As the settings of this home say, by the kind of the document."""

    type: Literal["auto"]


class Static(wire.Body):
    """By size."""

    type: Literal["static"]
    static: Sizes


Chunking = Annotated[Auto | Static, Field(discriminator="type")]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A document of a dataset under the id that a client knows it by."""

    id: str
    dataset: Dataset
    holding: Holding
    sent: bool  # as a file; else it came another way

    @property
    def status(self) -> Status:
        """Where it stands."""
        return STATUSES[self.holding.state]

    @property
    def created(self) -> str:
        """When it was put into the store."""
        original = self.holding.original
        return original.created if original is not None else self.holding.record.created


def listed(state: State, dataset: Dataset, *, ids: Sequence[str] | None = None) -> list[StoreFile]:
    """All files of a store, or those of these ids that are in it."""
    chosen = None
    if ids is not None:
        sent = state.ledger.files.some(ids)
        uris = [(id, sent[id].uri if id in sent and sent[id].owner == dataset.owner else None) for id in ids]
        chosen = [document_id(dataset.owner, dataset.collection, uri) if uri else id for id, uri in uris]
    found = holdings(state, dataset, ids=chosen)
    if ids is None:
        found = [one for one in found if not is_part(one.record.uri, one.record.meta)]
    known = state.ledger.files.named(dataset.owner, [one.record.uri for one in found])
    return [
        StoreFile(id=known.get(uri, one.record.id), dataset=dataset, holding=one, sent=uri in known)
        for one, uri in ((one, one.record.uri) for one in found)
    ]


def file_of(state: State, dataset: Dataset, given: str) -> StoreFile:
    """One file of a store."""
    found = listed(state, dataset, ids=[given])
    if not found:
        raise NotFound(f"no file of this vector store has the id {given!r}; list its files to see those that exist")
    return found[0]


def belonging(state: State, records: Sequence[Record]) -> dict[str, tuple[str, Record]]:
    """By the id of a document, the id of the file that it belongs to and that file's own document."""
    wholes = {record.id: _whole(state, record) for record in records}
    known: dict[tuple[str, str], str] = {}
    for owner in {one.owner for one in wholes.values()}:
        uris = [one.uri for one in wholes.values() if one.owner == owner]
        known |= {(owner, uri): id for uri, id in state.ledger.files.named(owner, uris).items()}
    return {id: (known.get((one.owner, one.uri), one.id), one) for id, one in wholes.items()}


def _whole(state: State, record: Record) -> Record:
    """The document that this one came inside of, or was added to; itself where it stands alone."""
    for _ in range(MAX_DEPTH + 1):
        above = record.meta.get(MANUAL_OF) if is_by_hand(record.uri, record.meta) else None
        if above is None and is_part(record.uri, record.meta):
            above = document_id(record.owner, record.collection, str(record.meta[PART_OF]))
        found = state.kb.catalog.record(str(above)) if above is not None else None
        # A document may say that it is part of what its owner must not see.
        if found is None or (found.owner, found.collection) != (record.owner, record.collection):
            return record
        record = found
    return record


def counts(files: Sequence[StoreFile]) -> dict[str, int]:
    """How many stand where."""
    found = Counter(one.status for one in files)
    every: tuple[Status, ...] = ("in_progress", "completed", "failed", "cancelled")
    return {**{status: found[status] for status in every}, "total": len(files)}


def size(file: StoreFile) -> int:
    """The bytes it came as; of a document that came another way, its characters."""
    original = file.holding.original
    return original.bytes if original is not None else file.holding.record.chars


def shape(state: State, file: StoreFile) -> dict[str, Any]:
    """A file of a store, with what is ours beside it."""
    record, job = file.holding.record, file.holding.job
    meta = _properties(state, record)
    return {
        "id": file.id,
        "object": "vector_store.file",
        "created_at": wire.seconds(file.created),
        "vector_store_id": file.dataset.id,
        "status": file.status,
        "last_error": _last_error(state, file),
        "usage_bytes": size(file),
        "attributes": attributed.shown(meta, sent=file.sent),
        "chunking_strategy": _strategy(meta),
        "filename": wire.name_of(record, file.holding.original),
        "document_id": record.id,
        "uri": record.uri,
        "job_id": job.id if job is not None else None,
    }


def _properties(state: State, record: Record) -> dict[str, object]:
    """Those of a document as they are to be: what was changed by hand may still wait for the worker."""
    asked = state.ledger.originals.changed(record.id).get("changes", {}).get("meta", {})
    return {name: value for name, value in {**record.meta, **asked}.items() if value is not None}


def _last_error(state: State, file: StoreFile) -> dict[str, str] | None:
    if file.status != "failed":
        return None
    record, original, job = file.holding.record, file.holding.original, file.holding.job
    if record.state not in ("failed", "empty"):
        return {"code": "server_error", "message": job.reason if job is not None else ""}
    try:
        state.kb.parsers.named(original.mime if original is not None else record.mime)
    except SourceError:
        return {"code": "unsupported_file", "message": record.error}
    return {"code": "invalid_file", "message": record.error or "the file holds no text"}


def _strategy(meta: Mapping[str, object]) -> dict[str, Any]:
    if strategies.CHUNK_OVERLAP not in meta:
        return {"type": "other"}  # chosen by the kind of the document
    told = {
        "max_chunk_size_tokens": meta.get(strategies.CHUNK_SIZE),
        "chunk_overlap_tokens": meta[strategies.CHUNK_OVERLAP],
    }
    return {"type": "static", "static": told}


# ------------------------------------------------------------------------------------------ in and out


def cut_as(state: State, given: Auto | Static | None) -> Meta:
    """The properties that ask for a chunking strategy; refused where this home cannot cut so."""
    if not isinstance(given, Static):
        return {}
    chunker = state.kb.sides.chunker_of(state.kb.space)
    if getattr(chunker, "unit", "tokens") != "tokens":
        raise UsageError("this home measures passages in characters, not in tokens; leave chunking_strategy out")
    sizes = given.static
    return strategies.asked_for(
        chunker,
        strategy=_STATIC,
        chunk_size=sizes.max_chunk_size_tokens,
        chunk_overlap=sizes.chunk_overlap_tokens,
    )


def attach(state: State, dataset: Dataset, sent: File, *, attributes: Mapping[str, Value], cut: Meta) -> str:
    """Promise to make a document of a file; give the id that it is known by."""
    original = Original(
        document=document_id(dataset.owner, dataset.collection, sent.uri),
        owner=dataset.owner,
        collection=dataset.collection,
        uri=sent.uri,
        hash=sent.hash,
        name=sent.name,
        mime=sent.mime,
        bytes=sent.bytes,
        created=now(),
    )
    before = state.ledger.originals.changed(original.document).get("changes", {}).get("meta", {})
    asked: dict[str, Any] = {**{name: None for name in _CUT if name in before}, **cut}
    if attributes or before:
        asked |= attributed.changes(before, attributes)
    state.ledger.originals.keep(original)
    if state.ledger.files.get(sent.id) is None:  # deleted in this moment, its documents with it
        state.ledger.originals.drop([original.document])
        raise NotFound(f"no file has the id {sent.id!r}; list the files to see those that exist")
    if asked:
        _remember(state, original.document, asked)
    start(state, original)
    return sent.id


def set_attributes(state: State, file: StoreFile, attributes: Mapping[str, Value]) -> None:
    """These and no others are its attributes from now on; a document that is there is found by them soon."""
    asked = attributed.changes(_properties(state, file.holding.record), attributes)
    id = file.holding.record.id
    if state.kb.catalog.record(id) is None:
        _remember(state, id, asked)  # a worker looks for them when the document is stored
    record = state.kb.catalog.record(id)
    if record is not None:
        # What came inside it goes first: when the document is done, so is all of it.
        for one in reversed(list(with_parts(state.kb.catalog, [record]))):
            relabel(state, one, {"changes": {"meta": asked}})


def detach(state: State, file: StoreFile) -> None:
    """Remove the document; a file that was sent is kept."""
    record = state.kb.catalog.record(file.holding.record.id)
    remove_documents(state, [record] if record else [], waiting=[] if record else [file.holding.record.id])


def _remember(state: State, document: str, asked: Mapping[str, Any]) -> None:
    state.ledger.originals.change(document, lambda before: merged(before, {"changes": {"meta": dict(asked)}}))
