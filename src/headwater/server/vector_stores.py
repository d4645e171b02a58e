"""Vector stores over HTTP, as clients of OpenAI know them: each is a dataset."""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from headwater.server import reach, store_files, wire
from headwater.server.auth import Reader, Writer
from headwater.server.cursors import Cursor, Listed, paged
from headwater.server.datasets import may_name
from headwater.server.files import Deleted, refuse_expiry
from headwater.server.openai import ERRORS
from headwater.server.removal import remove_datasets
from headwater.server.state import Shared, State
from headwater.server.store_files import Chunking
from headwater.storage.ledger import Dataset

router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], responses=ERRORS)
MAX_FILES = 2000  # in one request, as OpenAI has it
_METADATA = "metadata"  # the option of a dataset that holds it
Id = Annotated[str, Field(min_length=1, max_length=200)]
Ids = Annotated[list[Id], Field(max_length=MAX_FILES)]
Metadata = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
]


class NewStore(wire.Body):
    """A vector store to make."""

    model_config = wire.examples({"name": "handbook", "metadata": {"team": "hr"}})
    name: str | None = Field(default=None, min_length=1, max_length=128)
    description: str | None = Field(default=None, max_length=4000)
    metadata: Metadata | None = None
    file_ids: Ids | None = None
    chunking_strategy: Chunking | None = None
    expires_after: dict[str, Any] | None = None


class StoreChanges(wire.Body):
    """What to change of a vector store; the rest stays."""

    model_config = wire.examples({"name": "handbook 2026"})
    name: str | None = Field(default=None, min_length=1, max_length=128)
    metadata: Metadata | None = None
    expires_after: dict[str, Any] | None = None


class Counts(BaseModel):
    """How many files stand where."""

    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


class Store(BaseModel):
    """A vector store."""

    model_config = ConfigDict(extra="allow")
    id: str
    object: Literal["vector_store"]
    created_at: int
    name: str
    usage_bytes: int
    file_counts: Counts
    status: Literal["in_progress", "completed"]
    metadata: dict[str, str]


@router.post("", response_model=Store, summary="Make a vector store")
def create_store(state: Shared, caller: Writer, given: NewStore) -> JSONResponse:
    """A dataset of your own, with `file_ids` in it."""
    refuse_expiry(given.expires_after, "vector store")
    name = given.name or f"vector store {secrets.token_hex(6)}"
    may_name(caller, name)
    sent = [reach.own_file(state, caller, id) for id in dict.fromkeys(given.file_ids or ())]
    cut = store_files.cut_as(state, given.chunking_strategy)
    made = state.ledger.datasets.create(
        caller.owner, name, description=given.description or "", options={_METADATA: given.metadata or {}}
    )
    for one in sent:
        store_files.attach(state, made, one, attributes={}, cut=cut)
    return JSONResponse(shape(state, made))


@router.get("", response_model=Listed, summary="List vector stores")
def list_stores(state: Shared, caller: Reader, cursor: Annotated[Cursor, Query()]) -> JSONResponse:
    """Your own datasets, and those that others share with everybody."""
    found: Sequence[Dataset] = reach.datasets(state, caller)
    return paged(found, cursor, place=lambda one: (one.created, one.id), shape=lambda one: shape(state, one))


@router.get("/{vector_store_id}", response_model=Store, summary="A vector store")
def get_store(state: Shared, caller: Reader, vector_store_id: str) -> JSONResponse:
    """With how many of its files stand where."""
    return JSONResponse(shape(state, reach.dataset(state, caller, vector_store_id)))


@router.post("/{vector_store_id}", response_model=Store, summary="Change a vector store")
def update_store(state: Shared, caller: Writer, vector_store_id: str, given: StoreChanges) -> JSONResponse:
    """Another name, or other metadata in the place of all that it had."""
    refuse_expiry(given.expires_after, "vector store")
    dataset = reach.own_dataset(state, caller, vector_store_id)
    changes: dict[str, Any] = {"name": given.name} if given.name is not None else {}
    if given.metadata is not None:
        changes["options"] = {_METADATA: given.metadata}
    return JSONResponse(shape(state, state.ledger.datasets.update(dataset.id, changes) if changes else dataset))


@router.delete("/{vector_store_id}", response_model=Deleted, summary="Delete a vector store")
def delete_store(state: Shared, caller: Writer, vector_store_id: str) -> JSONResponse:
    """With its documents; files that were sent are kept until they are deleted themselves."""
    dataset = reach.own_dataset(state, caller, vector_store_id)
    remove_datasets(state, caller, [dataset])
    return JSONResponse({"id": dataset.id, "object": "vector_store.deleted", "deleted": True})


def shape(state: State, dataset: Dataset) -> dict[str, Any]:
    """A dataset, as clients of OpenAI know it and with what is ours beside it."""
    files = store_files.listed(state, dataset)
    counts = store_files.counts(files)
    put = [one.holding.original.created for one in files if one.holding.original is not None]
    return {
        "id": dataset.id,
        "object": "vector_store",
        "created_at": wire.seconds(dataset.created),
        "name": dataset.name,
        "description": dataset.description,
        "usage_bytes": sum(map(store_files.size, files)),
        "file_counts": counts,
        "status": "in_progress" if counts["in_progress"] else "completed",
        "expires_after": None,
        "expires_at": None,
        "last_active_at": wire.seconds(max([dataset.updated, *put])),
        "metadata": dict(dataset.options.get(_METADATA, {})),
        "collection": dataset.collection,
        "owner": dataset.owner,
        "scope": dataset.scope,
    }
