"""Documents over HTTP: upload, list, look at, change, delete, and the original file."""

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from headwater.errors import NotFound
from headwater.server import reach, wire
from headwater.server.auth import Reader, Writer
from headwater.server.holdings import holdings, unpromised_record
from headwater.server.promises import UPLOAD, check_room, promise, safe_name
from headwater.server.relabel import relabel
from headwater.server.removal import remove_documents
from headwater.server.state import Shared, State
from headwater.storage.ledger import Dataset
from headwater.types import Record

router = APIRouter(prefix="/api/v1/datasets/{dataset_id}", tags=["documents"], responses=wire.ERRORS)


class DocumentChanges(wire.Body):
    """What to change of a document; the rest stays. `status` "0" is RAGFlow's word for archived."""

    model_config = wire.examples({"name": "leave.md", "tags": ["hr"], "archived": False})
    name: str | None = Field(default=None, min_length=1, max_length=200)
    title: str | None = Field(default=None, max_length=1000)
    description: str | None = Field(default=None, max_length=4000)
    tags: list[Annotated[str, Field(max_length=200)]] | None = Field(default=None, max_length=200)
    folder: str | None = Field(default=None, max_length=1000)
    content_type: str | None = Field(default=None, max_length=100)
    archived: bool | None = None
    status: Literal["0", "1"] | None = None
    meta_fields: dict[str, str | int | float | bool | list[str | int | float | bool] | None] | None = None


class ManyChanges(DocumentChanges):
    """The same changes for several documents."""

    model_config = wire.examples({"ids": ["149288c2dfeeb76d0ece"], "archived": True})
    ids: list[str] = Field(min_length=1, max_length=1000)


@router.post("/documents", response_model=wire.Success, summary="Upload files")
def upload(
    *,
    state: Shared,
    caller: Writer,
    dataset_id: str,
    file: Annotated[list[UploadFile], File(description="One or more files, each a part named `file`.")],
    tags: Annotated[str, Form(description="Tags for all of them, separated by commas.")] = "",
    folder: Annotated[str, Form()] = "",
    index: Annotated[bool | None, Form(description="Whether to index at once.")] = None,
) -> JSONResponse:
    """Answered when the bytes are safe; then they are indexed. A file of the same name replaces the earlier one."""
    dataset = reach.own_dataset(state, caller, dataset_id)
    if len(file) > state.settings.max_files:
        raise wire.TooLarge(f"at most {state.settings.max_files} files in one request, got {len(file)}")
    check_room(state, caller.owner, sum(one.size or 0 for one in file))
    labels = {"tags": [tag.strip() for tag in tags.split(",") if tag.strip()], "folder": folder}
    within = [safe_name(part) for part in folder.split("/") if part]
    indexes = state.settings.upload_indexes if index is None else index
    made = []
    for one in file:
        name = safe_name(one.filename)
        original, job = promise(
            state,
            dataset,
            uri=UPLOAD + "/".join([*within, name]),  # two files of one name in two folders are two documents
            data=one.file.read(),
            name=name,
            labels={**labels, "title": ""},
            index=indexes,
        )
        record = state.kb.catalog.record(original.document) or unpromised_record(original)
        made.append(wire.document_shape(record, dataset_id=dataset.id, original=original, job=job))
    return wire.ok(made)


@router.get("/documents", response_model=wire.Success, summary="List documents")
def list_documents(
    *,
    state: Shared,
    caller: Reader,
    dataset_id: str,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 30,
    orderby: Literal["create_time", "update_time", "name"] = "create_time",
    desc: bool = True,
    id: str | None = None,
    name: str | None = None,
    keywords: Annotated[str | None, Query(max_length=1000)] = None,
    where: Annotated[str, Query(max_length=10_000, description='A filter, such as `tag = "hr"`.')] = "",
    state_is: Annotated[str | None, Query(alias="state")] = None,
    create_time_from: Annotated[int, Query(ge=0)] = 0,
    create_time_to: Annotated[int, Query(ge=0)] = 0,
) -> JSONResponse:
    """With those that were promised and are not indexed yet; each says where it stands."""
    dataset = reach.dataset(state, caller, dataset_id)
    shown = _listed(state, dataset, id=id, where=where)
    if name:
        shown = [one for one in shown if name in (one["name"], one["title"])]
    if keywords:
        shown = [one for one in shown if keywords.casefold() in f"{one['name']} {one['title']}".casefold()]
    if state_is:
        shown = [one for one in shown if one["state"] == state_is]
    shown = [
        one
        for one in shown
        if one["create_time"] >= create_time_from and (not create_time_to or one["create_time"] <= create_time_to)
    ]
    shown.sort(key=lambda one: (one[orderby], one["id"]), reverse=desc)
    if id and not shown:
        raise NotFound(f"no document has the id {id!r}; list the documents to see those that exist")
    start = (page - 1) * page_size
    return wire.ok({"docs": shown[start : start + page_size], "total": len(shown)})


def _listed(state: State, dataset: Dataset, *, id: str | None = None, where: str = "") -> list[dict[str, Any]]:
    return [
        wire.document_shape(one.record, dataset_id=dataset.id, original=one.original, job=one.job)
        for one in holdings(state, dataset, ids=[id] if id else None, where=where)
    ]


@router.put("/documents/{document_id}", response_model=wire.Success, summary="Change a document")
def update_document(
    state: Shared, caller: Writer, dataset_id: str, document_id: str, given: DocumentChanges
) -> JSONResponse:
    """Rename, tag, file, archive. Its passages keep their vectors."""
    dataset = reach.own_dataset(state, caller, dataset_id)
    record = reach.document(state, caller, within=dataset, given=document_id)
    _change(state, record, given)
    changed = state.kb.catalog.record(record.id) or record
    job = state.ledger.jobs.latest([record.id]).get(record.id)
    original = state.ledger.originals.get(record.id)
    return wire.ok(wire.document_shape(changed, dataset_id=dataset.id, original=original, job=job))


@router.put("/documents", response_model=wire.Success, summary="Change several documents")
def update_documents(state: Shared, caller: Writer, dataset_id: str, given: ManyChanges) -> JSONResponse:
    """The same changes for all of `ids`."""
    dataset = reach.own_dataset(state, caller, dataset_id)
    records = [reach.document(state, caller, within=dataset, given=id) for id in dict.fromkeys(given.ids)]
    for record in records:
        _change(state, record, given)
    return wire.ok({"updated": len(records)})


def _change(state: State, record: Record, given: DocumentChanges) -> None:
    changes: dict[str, Any] = {}
    for name in ("title", "description", "tags", "folder", "content_type", "archived"):
        if (value := getattr(given, name)) is not None:
            changes[name] = value
    if given.status is not None and given.archived is None:
        changes["archived"] = given.status == "0"
    if given.name is not None:
        name = safe_name(given.name)
        state.ledger.originals.rename(record.id, name)
        changes.setdefault("title", name)
    if given.meta_fields is not None:
        changes["meta"] = dict(given.meta_fields)
    if changes:
        relabel(state, record, {"changes": changes})


@router.delete("/documents", response_model=wire.Success, summary="Delete documents")
def delete_documents(state: Shared, caller: Writer, dataset_id: str, given: wire.Ids) -> JSONResponse:
    """They are gone for every reader when this is answered. Without `ids`, all of the dataset."""
    dataset = reach.own_dataset(state, caller, dataset_id)
    listed = {one["id"]: one for one in _listed(state, dataset)}
    chosen = list(listed) if given.ids is None else list(dict.fromkeys(given.ids))
    if unknown := [id for id in chosen if id not in listed]:
        raise NotFound(f"no document has the id {unknown[0]!r}; list the documents to see those that exist")
    records = [record for id in chosen if (record := state.kb.catalog.record(id)) is not None]
    present = {record.id for record in records}
    count = remove_documents(state, records, waiting=[id for id in chosen if id not in present])
    return wire.ok({"deleted": count})


@router.get(
    "/documents/{document_id}",
    summary="The original file",
    response_class=Response,
    responses={200: {"description": "The bytes as they came", "content": {"application/octet-stream": {}}}},
)
def original(state: Shared, caller: Reader, dataset_id: str, document_id: str) -> Response:
    """As it was sent; for a document that came another way, its text."""
    dataset = reach.dataset(state, caller, dataset_id)
    kept = state.ledger.originals.get(document_id)
    if kept is not None and (kept.owner, kept.collection) == (dataset.owner, dataset.collection):
        return attachment(state.ledger.originals.read(kept.hash), kept.name)
    record = reach.document(state, caller, within=dataset, given=document_id)
    document = state.kb.catalog.document(record.id)
    if document is None:
        raise NotFound(f"the document {document_id!r} has no text: {record.error or 'it is pending'}")
    return attachment(document.text.encode("utf-8", "replace"), f"{safe_name(record.title)}.txt")


@router.get("/documents/{document_id}/text", response_model=wire.Success, summary="A document's text")
def text(state: Shared, caller: Reader, dataset_id: str, document_id: str) -> JSONResponse:
    """What spans and citations point into, with its sections."""
    dataset = reach.dataset(state, caller, dataset_id)
    record = reach.document(state, caller, within=dataset, given=document_id)
    document = state.kb.catalog.document(record.id)
    if document is None:
        raise NotFound(f"the document {document_id!r} has no text: {record.error or 'it is pending'}")
    sections = [{"title": s.title, "level": s.level, "path": s.path, "span": list(s.span)} for s in document.structure]
    shape = wire.document_shape(record, dataset_id=dataset.id, original=state.ledger.originals.get(record.id))
    return wire.ok({**shape, "text": document.text, "sections": sections, "page_starts": list(document.page_starts)})


def attachment(data: bytes, name: str) -> Response:
    """Bytes that a browser saves and never runs."""
    plain = name.encode("ascii", "replace").decode().replace("?", "_")
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    headers = {"Content-Disposition": disposition, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return Response(data, media_type="application/octet-stream", headers=headers)
