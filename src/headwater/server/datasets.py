"""Collections over HTTP: `/api/v1/datasets`."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound
from headwater.server import reach, wire
from headwater.server.auth import Caller, Reader, Writer
from headwater.server.removal import remove_datasets
from headwater.server.state import Shared, State
from headwater.storage.ledger import Dataset

router = APIRouter(prefix="/api/v1", tags=["datasets"], responses=wire.ERRORS)

_EXAMPLE = {"name": "handbook", "description": "What everybody should know", "scope": "private"}


class NewDataset(wire.Body):
    """A collection to make."""

    model_config = wire.examples(_EXAMPLE)
    name: str = Field(min_length=1, max_length=128)
    description: str | None = Field(default=None, max_length=4000)
    scope: Literal["private", "shared"] | None = None
    permission: Literal["me", "team"] | None = None  # RAGFlow's word for the scope
    chunk_method: str | None = Field(default=None, max_length=64)
    parser_config: dict[str, Any] | None = None


class DatasetChanges(wire.Body):
    """What to change of a collection; the rest stays."""

    model_config = wire.examples({"name": "handbook 2026"})
    name: str | None = Field(default=None, min_length=1, max_length=128)
    description: str | None = Field(default=None, max_length=4000)
    scope: Literal["private", "shared"] | None = None
    permission: Literal["me", "team"] | None = None
    chunk_method: str | None = Field(default=None, max_length=64)
    parser_config: dict[str, Any] | None = None


def shape(state: State, dataset: Dataset) -> dict[str, Any]:
    """A dataset with its counts."""
    documents, chunks = state.counts().get((dataset.owner, dataset.collection), (0, 0))
    space = state.kb.catalog.space()
    return wire.dataset_shape(dataset, documents=documents, chunks=chunks, embedder=space.embedder if space else "")


@router.get("/datasets", response_model=wire.Success, summary="List datasets")
def list_datasets(
    *,
    state: Shared,
    caller: Reader,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 30,
    orderby: Literal["create_time", "update_time", "name"] = "create_time",
    desc: bool = True,
    id: str | None = None,
    name: str | None = None,
) -> JSONResponse:
    """Your own, and those that others share with everybody."""
    found = reach.datasets(state, caller)
    if id:
        found = [one for one in found if one.id == id]
    if name:
        found = [one for one in found if one.name == name]
    if (id or name) and not found:
        raise NotFound(f"no dataset has the {'id' if id else 'name'} {id or name!r}")
    keys = {"create_time": "created", "update_time": "updated", "name": "name"}
    found.sort(key=lambda one: (getattr(one, keys[orderby]), one.id), reverse=desc)
    start = (page - 1) * page_size
    return wire.ok([shape(state, one) for one in found[start : start + page_size]], total=len(found))


@router.post("/datasets", response_model=wire.Success, summary="Make a dataset")
def create_dataset(state: Shared, caller: Writer, given: NewDataset) -> JSONResponse:
    """A collection of your own; `scope: shared` lets everybody with a key read it."""
    may_name(caller, given.name)
    made = state.ledger.datasets.create(
        caller.owner,
        given.name,
        description=given.description or "",
        scope=_scope(given) or "private",
        options=_options(given),
    )
    return wire.ok(shape(state, made))


@router.put("/datasets/{dataset_id}", response_model=wire.Success, summary="Change a dataset")
def update_dataset(state: Shared, caller: Writer, dataset_id: str, given: DatasetChanges) -> JSONResponse:
    """Rename, describe, share. Documents stay as they are."""
    reach.own_dataset(state, caller, dataset_id)
    changes: dict[str, Any] = {}
    if given.name is not None:
        changes["name"] = given.name
    if given.description is not None:
        changes["description"] = given.description
    if (scope := _scope(given)) is not None:
        changes["scope"] = scope
    changes["options"] = _options(given)
    return wire.ok(shape(state, state.ledger.datasets.update(dataset_id, changes)))


@router.delete("/datasets", response_model=wire.Success, summary="Delete datasets")
def delete_datasets(state: Shared, caller: Writer, given: wire.Ids) -> JSONResponse:
    """With all their documents. Without `ids`, all of your own."""
    if given.ids is None:
        chosen = [one for one in reach.datasets(state, caller) if one.owner == caller.owner]
    else:
        chosen = [reach.own_dataset(state, caller, id) for id in dict.fromkeys(given.ids)]
    documents = remove_datasets(state, caller, chosen)
    return wire.ok({"datasets": len(chosen), "documents": documents})


def may_name(caller: Caller, name: str) -> None:
    """Refuse a key for some collections the name of another."""
    if caller.collections and name not in caller.collections:
        raise reach.Forbidden(f"your key is for {', '.join(caller.collections)}, not for {name!r}")


def _scope(given: NewDataset | DatasetChanges) -> Literal["private", "shared"] | None:
    if given.scope is not None:
        return given.scope
    return None if given.permission is None else "shared" if given.permission == "team" else "private"


def _options(given: NewDataset | DatasetChanges) -> dict[str, Any]:
    told = {"chunk_method": given.chunk_method, "parser_config": given.parser_config}
    return {name: value for name, value in told.items() if value is not None}
