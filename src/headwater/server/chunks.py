"""Passages over HTTP: list them, start and stop indexing, add, edit and delete.

A passage that a client adds or edits becomes a small document of its own, linked to its parent: so its text is a slice
of a document like any other's, and indexing the parent again keeps it. One that is deleted or edited is left out of the
parent's text from then on.
"""

import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.attach import MANUAL_OF, MANUAL_URI
from headwater.documents import INDEXED_WITH
from headwater.errors import NotFound
from headwater.server import reach, wire
from headwater.server.auth import Reader, Writer
from headwater.server.by_hand import kept_aside, set_aside
from headwater.server.promises import STOP_SECONDS, followed, promise, start
from headwater.server.relabel import relabel
from headwater.server.removal import manual_of, remove_documents
from headwater.server.state import Shared, State
from headwater.storage.ledger import Dataset, Job
from headwater.types import Chunk, Record

router = APIRouter(prefix="/api/v1/datasets/{dataset_id}", tags=["chunks"], responses=wire.ERRORS)


class DocumentIds(wire.Body):
    """Which documents."""

    model_config = wire.examples({"document_ids": ["149288c2dfeeb76d0ece"]})
    document_ids: list[str] = Field(min_length=1, max_length=10_000)
    priority: int = Field(default=0, ge=-1000, le=1000)


class NewChunk(wire.Body):
    """A passage to add to a document."""

    model_config = wire.examples({"content": "The leave may be split in two.", "important_keywords": ["leave"]})
    content: str = Field(min_length=1, max_length=100_000)
    important_keywords: list[Annotated[str, Field(max_length=200)]] | None = Field(default=None, max_length=100)
    questions: list[Annotated[str, Field(max_length=1000)]] | None = Field(default=None, max_length=100)


class ChunkChanges(wire.Body):
    """What a passage shall say instead; what is not said stays."""

    model_config = wire.examples({"content": "The leave may be split in three."})
    content: str | None = Field(default=None, min_length=1, max_length=100_000)
    important_keywords: list[Annotated[str, Field(max_length=200)]] | None = Field(default=None, max_length=100)
    questions: list[Annotated[str, Field(max_length=1000)]] | None = Field(default=None, max_length=100)
    available: bool | None = None


class ChunkIds(wire.Body):
    """Which passages; None for all."""

    model_config = wire.examples({"chunk_ids": ["149288c2dfeeb76d0ece:0-120"]})
    chunk_ids: list[str] | None = Field(default=None, max_length=10_000)


@router.post("/chunks", response_model=wire.Success, summary="Start indexing")
def start_indexing(state: Shared, caller: Writer, dataset_id: str, given: DocumentIds) -> JSONResponse:
    """Documents that were uploaded, or that failed; what is being worked on goes on."""
    dataset = reach.own_dataset(state, caller, dataset_id)
    jobs = []
    for id in dict.fromkeys(given.document_ids):
        last = state.ledger.jobs.latest([id]).get(id)
        original = state.ledger.originals.get(id)
        if original is None or (original.owner, original.collection) != (dataset.owner, dataset.collection):
            record = reach.document(state, caller, within=dataset, given=id)  # it came another way, and is there
            if record.state == "failed" and last is not None:
                state.ledger.jobs.retry(last.id)
            continue
        if last is not None and ((last.is_open and not last.stop) or last.state == "completed"):
            if last.is_open and given.priority:
                state.ledger.jobs.prioritise(last.id, given.priority)
            jobs.append(last.id)
            continue
        labels = dict(last.work.get("labels", {})) if last is not None else {}
        jobs.append(start(state, original, labels=labels, priority=given.priority).id)
    state.worker.wake()
    return wire.ok({"jobs": jobs})


@router.delete("/chunks", response_model=wire.Success, summary="Stop indexing")
def stop_indexing(state: Shared, caller: Writer, dataset_id: str, given: DocumentIds) -> JSONResponse:
    """What waits is cancelled, and what a worker has in hand is stopped, unless it is stored already.

    `stopping` are those that take longer than a moment to get there.
    """
    dataset = reach.own_dataset(state, caller, dataset_id)
    asked: list[Job] = []
    for id in dict.fromkeys(given.document_ids):
        job = state.ledger.jobs.latest([id]).get(id)
        if job is None or (job.owner, job.collection) != (dataset.owner, dataset.collection):
            reach.document(state, caller, within=dataset, given=id)
        elif job.is_open and (after := state.ledger.jobs.cancel(job.id)) is not None:
            asked.append(after)
    ended = followed(state, asked, within_seconds=STOP_SECONDS)
    state.announcer.wake()
    counts = Counter("stopping" if job.is_open else job.state for job in ended)
    return wire.ok({"cancelled": counts["cancelled"], "stopping": counts["stopping"]})


@router.get("/documents/{document_id}/chunks", response_model=wire.Success, summary="List passages")
def list_chunks(
    *,
    state: Shared,
    caller: Reader,
    dataset_id: str,
    document_id: str,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 30,
    keywords: Annotated[str, Query(max_length=1000)] = "",
    id: str = "",
) -> JSONResponse:
    """In the order of the text, then those that people added; also those that are not `available`."""
    dataset = reach.dataset(state, caller, dataset_id)
    record = reach.document(state, caller, within=dataset, given=document_id)
    found = _passages(state, record)
    if id:
        found = [one for one in found if one.chunk.name == id]
        if not found:
            raise NotFound(f"the document has no passage {id!r}: its text may have changed; list the passages")
    if keywords:
        found = [one for one in found if keywords.casefold() in one.chunk.text.casefold()]
    start_at = (page - 1) * page_size
    original = state.ledger.originals.get(record.id)
    name = wire.name_of(record, original)
    shown = [_shape(one, record, dataset, name=name) for one in found[start_at : start_at + page_size]]
    doc = wire.document_shape(record, dataset_id=dataset.id, original=original)
    return wire.ok({"chunks": shown, "doc": doc, "total": len(found)})


@router.post("/documents/{document_id}/chunks", response_model=wire.Success, summary="Add a passage")
def add_chunk(state: Shared, caller: Writer, dataset_id: str, document_id: str, given: NewChunk) -> JSONResponse:
    """It can be found as soon as it is indexed, and stays when the document is indexed again."""
    dataset = reach.own_dataset(state, caller, dataset_id)
    record = reach.document(state, caller, within=dataset, given=document_id)
    made = _write(
        state,
        dataset,
        record,
        content=given.content,
        keywords=given.important_keywords or [],
        questions=given.questions or [],
    )
    return wire.ok({"chunk": made})


@router.put("/documents/{document_id}/chunks/{chunk_id}", response_model=wire.Success, summary="Edit a passage")
def edit_chunk(
    *, state: Shared, caller: Writer, dataset_id: str, document_id: str, chunk_id: str, given: ChunkChanges
) -> JSONResponse:
    """The passage is left out of its document, and another one stands for it.

    One that is not `available` is listed and not found, until it is available again.
    """
    dataset = reach.own_dataset(state, caller, dataset_id)
    record = reach.document(state, caller, within=dataset, given=document_id)
    passage = _one(state, record, chunk_id)
    before = _shape(passage, record, dataset, name=_name(state, record))
    told = given.model_dump(include={"content", "important_keywords", "questions"}, exclude_none=True)
    after = {**before, **told}
    available = passage.available if given.available is None else given.available
    if after == before:
        if available != passage.available:
            _set_available(state, record, passage, available=available)
        return wire.ok({**before, "available": available and not record.archived})
    # The new one first: where it is refused, the old one is still there.
    made = _write(
        state,
        dataset,
        record,
        content=after["content"],
        keywords=after["important_keywords"],
        questions=after["questions"],
        available=available,
    )
    _leave_out(state, [passage], record)
    return wire.ok(made)


@router.delete("/documents/{document_id}/chunks", response_model=wire.Success, summary="Delete passages")
def delete_chunks(state: Shared, caller: Writer, dataset_id: str, document_id: str, given: ChunkIds) -> JSONResponse:
    """They are found no more; the document's text stays as it is. Without ids, all of them."""
    dataset = reach.own_dataset(state, caller, dataset_id)
    record = reach.document(state, caller, within=dataset, given=document_id)
    if given.chunk_ids is None:
        chosen = _passages(state, record)
    else:
        chosen = [_one(state, record, id) for id in dict.fromkeys(given.chunk_ids)]
    _leave_out(state, chosen, record)
    return wire.ok({"deleted": len(chosen)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passage:
    """A passage, the document that it is of, a small one where people added it, and whether it can be found."""

    chunk: Chunk
    owner: Record
    available: bool = True


def _passages(state: State, record: Record) -> list[_Passage]:
    found = [_Passage(chunk=chunk, owner=record) for chunk in state.kb.catalog.chunks_of(record.id)]
    by_hand = state.ledger.originals.changed(record.id)
    document = state.kb.catalog.document(record.id) if by_hand.get("aside") else None
    if document is not None:
        found += [_Passage(chunk=chunk, owner=record, available=False) for chunk in set_aside(document, by_hand)]
        found.sort(key=lambda passage: passage.chunk.span)
    for manual in manual_of(state, record):
        chunks = state.kb.catalog.chunks_of(manual.id)
        found += [_Passage(chunk=chunk, owner=manual, available=not manual.archived) for chunk in chunks]
    return found


def _one(state: State, record: Record, id: str) -> _Passage:
    for passage in _passages(state, record):
        if passage.chunk.name == id:
            return passage
    raise NotFound(f"the document has no passage {id!r}: its text may have changed; list the passages")


def _set_available(state: State, record: Record, passage: _Passage, *, available: bool) -> None:
    if passage.owner.id != record.id:
        relabel(state, passage.owner, {"changes": {"archived": not available}})
    elif available:
        relabel(state, record, {"show": [list(passage.chunk.span)]})
    else:
        relabel(state, record, {"aside": [kept_aside(passage.chunk)]})


def _leave_out(state: State, chosen: list[_Passage], record: Record) -> None:
    manual = {passage.owner.id: passage.owner for passage in chosen if passage.owner.id != record.id}
    if manual:
        remove_documents(state, list(manual.values()))
    spans = [list(passage.chunk.span) for passage in chosen if passage.owner.id == record.id]
    if spans:
        relabel(state, record, {"hide": spans})


def _write(
    state: State,
    dataset: Dataset,
    record: Record,
    *,
    content: str,
    keywords: list[str],
    questions: list[str],
    available: bool = True,
) -> dict[str, Any]:
    uri = f"{record.uri}{MANUAL_URI}{secrets.token_hex(6)}"
    meta: dict[str, Any] = {MANUAL_OF: record.id, "strategy": "whole"}
    meta |= {"important_keywords": keywords} if keywords else {}
    meta |= {"questions": questions} if questions else {}
    meta |= {INDEXED_WITH: [*keywords, *questions]} if keywords or questions else {}
    labels = {
        "title": record.title,
        "tags": list(dict.fromkeys([*record.tags, *keywords])),
        "folder": record.folder,
        "content_type": record.content_type,
        "description": " ".join(questions),
        "archived": not available,
        "meta": meta,
    }
    _, job = promise(
        state, dataset, uri=uri, data=content.encode(), name="passage.txt", mime="text/plain", labels=labels, priority=1
    )
    assert job is not None
    (done,) = followed(state, [job])
    made = state.kb.catalog.record(job.document)
    found = state.kb.catalog.chunks_of(job.document)
    if made is None or not found:
        if done.state in ("failed", "empty"):
            raise wire.Conflict(f"the passage cannot be indexed: {done.reason}")
        return {"id": f"{job.document}:0-{len(content)}", "content": content, "job_id": job.id}
    passage = _Passage(chunk=found[0], owner=made, available=available)
    return _shape(passage, record, dataset, name=_name(state, record))


def _name(state: State, record: Record) -> str:
    return wire.name_of(record, state.ledger.originals.get(record.id))


def _shape(passage: _Passage, record: Record, dataset: Dataset, *, name: str) -> dict[str, Any]:
    """A passage under the document it was added to."""
    told = wire.chunk_shape(passage.chunk, passage.owner, dataset_id=dataset.id, name=name)
    return {
        **told,
        "document_id": record.id,
        "manual": passage.owner.id != record.id,
        "available": told["available"] and passage.available,
    }
