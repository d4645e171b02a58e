"""The files of vector stores over HTTP, one at a time and in batches."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from headwater.errors import NotFound
from headwater.server import attributes, reach, store_files, wire
from headwater.server.attributes import Attributes
from headwater.server.auth import Caller, Reader, Writer
from headwater.server.cursors import Cursor, Listed, paged
from headwater.server.files import Deleted
from headwater.server.openai import ERRORS
from headwater.server.state import Shared, State
from headwater.server.store_files import Chunking, Status, StoreFile
from headwater.server.vector_stores import MAX_FILES, Counts, Id, Ids
from headwater.storage.ledger import Batch, Dataset

router = APIRouter(prefix="/v1/vector_stores/{vector_store_id}", tags=["openai"], responses=ERRORS)
# Clients that wait ask again after so long: most files are there by then.
_AGAIN = {"openai-poll-after-ms": "250"}


class StoreCursor(Cursor):
    """Which page of a store's files."""

    filter: Status | None = None


class NewFile(wire.Body):
    """A file to put into a vector store."""

    model_config = wire.examples({"file_id": "file-0199f2c1a6be3d9c1e22a0b7", "attributes": {"year": 2026}})
    file_id: Id
    attributes: Attributes | None = None
    chunking_strategy: Chunking | None = None


class FileChanges(wire.Body):
    """Attributes in the place of those that a file has."""

    model_config = wire.examples({"attributes": {"year": 2026, "draft": False}})
    attributes: Attributes | None


class NewBatch(wire.Body):
    """Files to put into a vector store together: `file_ids`, all alike, or `files`, each with what is said of it."""

    model_config = wire.examples({"file_ids": ["file-0199f2c1a6be3d9c1e22a0b7"]})
    file_ids: Ids | None = None
    files: list[NewFile] | None = Field(default=None, max_length=MAX_FILES)
    attributes: Attributes | None = None
    chunking_strategy: Chunking | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "NewBatch":
        if bool(self.file_ids) == bool(self.files):
            raise ValueError("a batch needs file_ids or files, and not both")
        if self.files and (self.attributes or self.chunking_strategy):
            raise ValueError("with files, attributes and chunking_strategy stand with each of them")
        return self

    def each(self) -> list[NewFile]:
        """What is said of each; of one that is named twice, the last."""
        if self.files:
            return list({one.file_id: one for one in self.files}.values())
        alike = {"attributes": self.attributes, "chunking_strategy": self.chunking_strategy}
        return [NewFile.model_construct(None, file_id=id, **alike) for id in dict.fromkeys(self.file_ids or ())]


class Shown(BaseModel):
    """A file of a vector store."""

    model_config = ConfigDict(extra="allow")
    id: str
    object: Literal["vector_store.file"]
    created_at: int
    vector_store_id: str
    status: Status
    last_error: dict[str, str] | None
    usage_bytes: int
    attributes: dict[str, Any]


class Text(BaseModel):
    """What a file says."""

    model_config = ConfigDict(extra="allow")
    object: Literal["vector_store.file_content.page"]
    data: list[dict[str, str]]
    has_more: Literal[False]


class ShownBatch(BaseModel):
    """A batch."""

    id: str
    object: Literal["vector_store.files_batch"]
    created_at: int
    vector_store_id: str
    status: Status
    file_counts: Counts


# ----------------------------------------------------------------------------------------- one at a time


@router.post("/files", response_model=Shown, summary="Put a file into a vector store")
def create_store_file(state: Shared, caller: Writer, vector_store_id: str, given: NewFile) -> JSONResponse:
    """Answered at once; it is indexed then. One that is in it already is indexed again."""
    dataset = reach.own_dataset(state, caller, vector_store_id)
    (id,) = _attach(state, caller, dataset, [given])
    return _shown(state, store_files.file_of(state, dataset, id))


@router.get("/files", response_model=Listed, summary="List the files of a vector store")
def list_store_files(
    state: Shared, caller: Reader, vector_store_id: str, cursor: Annotated[StoreCursor, Query()]
) -> JSONResponse:
    """All documents of the dataset, whichever way they came; `filter` is a status."""
    dataset = reach.dataset(state, caller, vector_store_id)
    return _page(state, store_files.listed(state, dataset), cursor)


@router.get("/files/{file_id}", response_model=Shown, summary="A file of a vector store")
def get_store_file(state: Shared, caller: Reader, vector_store_id: str, file_id: str) -> JSONResponse:
    """Where it stands, and what went wrong where it failed."""
    dataset = reach.dataset(state, caller, vector_store_id)
    return _shown(state, store_files.file_of(state, dataset, file_id))


@router.post("/files/{file_id}", response_model=Shown, summary="Change a file's attributes")
def update_store_file(
    state: Shared, caller: Writer, vector_store_id: str, file_id: str, given: FileChanges
) -> JSONResponse:
    """All of them; its passages keep their vectors."""
    dataset = reach.own_dataset(state, caller, vector_store_id)
    store_files.set_attributes(state, store_files.file_of(state, dataset, file_id), given.attributes or {})
    return _shown(state, store_files.file_of(state, dataset, file_id))


@router.get("/files/{file_id}/content", response_model=Text, summary="What a file says")
def get_store_file_content(state: Shared, caller: Reader, vector_store_id: str, file_id: str) -> JSONResponse:
    """Its text, as it was read: what the spans of a search point into."""
    dataset = reach.dataset(state, caller, vector_store_id)
    file = store_files.file_of(state, dataset, file_id)
    document = state.kb.catalog.document(file.holding.record.id)
    if document is None or file.status == "failed":
        why = file.holding.record.error or f"it is {file.status}"
        raise NotFound(f"the file {file_id!r} has no text: {why}")
    return JSONResponse(
        {
            "object": "vector_store.file_content.page",
            "data": [{"type": "text", "text": document.text}],
            "has_more": False,
            "next_page": None,
            "file_id": file.id,
            "filename": wire.name_of(file.holding.record, file.holding.original),
        }
    )


@router.delete("/files/{file_id}", response_model=Deleted, summary="Take a file out of a vector store")
def delete_store_file(state: Shared, caller: Writer, vector_store_id: str, file_id: str) -> JSONResponse:
    """Its document is gone for every reader when this is answered; a file that was sent is kept."""
    dataset = reach.own_dataset(state, caller, vector_store_id)
    file = store_files.file_of(state, dataset, file_id)
    store_files.detach(state, file)
    return JSONResponse({"id": file.id, "object": "vector_store.file.deleted", "deleted": True})


# -------------------------------------------------------------------------------------------- in batches


@router.post("/file_batches", response_model=ShownBatch, summary="Put files into a vector store")
def create_batch(state: Shared, caller: Writer, vector_store_id: str, given: NewBatch) -> JSONResponse:
    """All of them, or none where one of them is not there."""
    dataset = reach.own_dataset(state, caller, vector_store_id)
    ids = _attach(state, caller, dataset, given.each())
    return _shown_batch(state, dataset, state.ledger.batches.add(dataset.id, ids))


@router.get("/file_batches/{batch_id}", response_model=ShownBatch, summary="A batch")
def get_batch(state: Shared, caller: Reader, vector_store_id: str, batch_id: str) -> JSONResponse:
    """How many of its files stand where; those that were taken out since are not counted."""
    dataset = reach.dataset(state, caller, vector_store_id)
    return _shown_batch(state, dataset, _batch(state, dataset, batch_id))


@router.get("/file_batches/{batch_id}/files", response_model=Listed, summary="The files of a batch")
def list_batch_files(
    state: Shared, caller: Reader, vector_store_id: str, batch_id: str, cursor: Annotated[StoreCursor, Query()]
) -> JSONResponse:
    """Those that are still in the vector store."""
    dataset = reach.dataset(state, caller, vector_store_id)
    batch = _batch(state, dataset, batch_id)
    return _page(state, store_files.listed(state, dataset, ids=batch.files), cursor)


@router.post("/file_batches/{batch_id}/cancel", response_model=ShownBatch, summary="Give a batch up")
def cancel_batch(state: Shared, caller: Writer, vector_store_id: str, batch_id: str) -> JSONResponse:
    """What waits is cancelled, and what is in hand ends soon; what is done stays."""
    dataset = reach.own_dataset(state, caller, vector_store_id)
    batch = _batch(state, dataset, batch_id)
    jobs = [one.holding.job for one in store_files.listed(state, dataset, ids=batch.files)]
    asked = [job for job in jobs if job is not None and job.is_open and state.ledger.jobs.cancel(job.id)]
    if asked:
        state.ledger.batches.cancel(batch.id)
        state.worker.wake()
        state.announcer.wake()
    return _shown_batch(state, dataset, _batch(state, dataset, batch_id))


def _attach(state: State, caller: Caller, dataset: Dataset, given: list[NewFile]) -> list[str]:
    """Put files into a store; nothing is begun before all of them were found and can be cut as asked."""
    ready = [
        (
            reach.own_file(state, caller, one.file_id),
            one.attributes or {},
            store_files.cut_as(state, one.chunking_strategy),
        )
        for one in given
    ]
    for one in given:
        attributes.changes({}, one.attributes or {})  # a name that cannot be used is refused here
    return [store_files.attach(state, dataset, sent, attributes=told, cut=cut) for sent, told, cut in ready]


def _page(state: State, found: list[StoreFile], cursor: StoreCursor) -> JSONResponse:
    chosen = [one for one in found if cursor.filter in (None, one.status)]
    return paged(
        chosen, cursor, place=lambda one: (one.created, one.id), shape=lambda one: store_files.shape(state, one)
    )


def _shown(state: State, file: StoreFile) -> JSONResponse:
    return JSONResponse(store_files.shape(state, file), headers=_AGAIN)


def _batch(state: State, dataset: Dataset, id: str) -> Batch:
    found = state.ledger.batches.get(dataset.id, id)
    if found is None:
        raise NotFound(f"no batch of this vector store has the id {id!r}")
    return found


def _shown_batch(state: State, dataset: Dataset, batch: Batch) -> JSONResponse:
    counts = store_files.counts(store_files.listed(state, dataset, ids=batch.files))
    status: Status = "completed"
    if counts["in_progress"]:
        status = "in_progress"
    elif batch.cancelled:
        status = "cancelled"
    elif counts["failed"] and counts["failed"] == counts["total"]:
        status = "failed"
    shown = {
        "id": batch.id,
        "object": "vector_store.files_batch",
        "created_at": wire.seconds(batch.created),
        "vector_store_id": dataset.id,
        "status": status,
        "file_counts": counts,
    }
    return JSONResponse(shown, headers=_AGAIN)
