"""Files over HTTP, as clients of OpenAI send them: kept until they are put into a vector store, and as long as wanted.

The id of a document that came another way is that of a file too: what a search names can be looked at and fetched.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Query, UploadFile
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from headwater.errors import NotFound, UsageError
from headwater.kinds import kind_of
from headwater.server import reach, wire
from headwater.server.auth import Caller, Reader, Writer
from headwater.server.cursors import Cursor, Listed, paged
from headwater.server.documents import attachment
from headwater.server.openai import ERRORS
from headwater.server.promises import UPLOAD, check_room, check_size, safe_name
from headwater.server.removal import remove_documents
from headwater.server.state import Shared, State
from headwater.storage.ledger import File as Sent
from headwater.storage.ledger import new_file_id, now
from headwater.types import Record

router = APIRouter(prefix="/v1/files", tags=["openai"], responses=ERRORS)
Purpose = Literal["assistants", "user_data"]
_ALWAYS = {"object": "file", "status": "processed", "status_details": None, "expires_at": None}


class Kept(BaseModel):
    """A file."""

    model_config = ConfigDict(extra="allow")
    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: Literal["processed"]


class Deleted(BaseModel):
    """What is gone."""

    id: str
    object: str
    deleted: Literal[True]


class FileCursor(Cursor):
    """Which page of the files; all of them at once for most."""

    limit: int = Field(default=10_000, ge=1, le=10_000)
    purpose: str | None = Field(default=None, max_length=100)


def refuse_expiry(given: object, what: str) -> None:
    """No file and no store goes by itself, and nobody is to think that one did."""
    if given is not None:
        raise UsageError(
            f"expires_after is not known here, for nothing goes by itself: "
            f"leave it out, and delete the {what} when it is no longer wanted"
        )


@router.post("", response_model=Kept, summary="Send a file")
def create_file(
    *,
    state: Shared,
    caller: Writer,
    file: Annotated[UploadFile, File()],
    purpose: Annotated[Purpose, Form(description="Files are sent to be searched, whichever it is.")],
    anchor: Annotated[str | None, Form(alias="expires_after[anchor]", description="Refused.")] = None,
    seconds: Annotated[str | None, Form(alias="expires_after[seconds]", description="Refused.")] = None,
    expires_after: Annotated[str | None, Form(description="Refused.")] = None,
) -> JSONResponse:
    """Answered when the bytes are safe. It is searched once it is put into a vector store."""
    for told in (anchor, seconds, expires_after):
        refuse_expiry(told, "file")
    name, id = safe_name(file.filename), new_file_id()
    check_room(state, caller.owner, file.size or 0)
    check_size(state, name, file.size or 0)
    data = file.file.read()
    sent = Sent(
        id=id,
        owner=caller.owner,
        uri=f"{UPLOAD}{id}/{name}",
        hash=state.ledger.originals.write(data),
        name=name,
        mime=kind_of(name, data),
        bytes=len(data),
        purpose=purpose,
        collections=caller.collections,
        created=now(),
    )
    state.ledger.files.keep(sent)
    return JSONResponse(_sent_shape(sent))


@router.get("", response_model=Listed, summary="List files")
def list_files(state: Shared, caller: Reader, cursor: Annotated[FileCursor, Query()]) -> JSONResponse:
    """Those that were sent here; documents that came another way are listed by their vector stores."""
    found = [one for one in reach.files(state, caller) if cursor.purpose in (None, one.purpose)]
    return paged(found, cursor, place=lambda one: (one.id, one.id), shape=_sent_shape)


@router.get("/{file_id}", response_model=Kept, summary="A file")
def get_file(state: Shared, caller: Reader, file_id: str) -> JSONResponse:
    """Its name and size."""
    found = _found(state, caller, file_id)
    return JSONResponse(_sent_shape(found) if isinstance(found, Sent) else _record_shape(state, found))


@router.get(
    "/{file_id}/content",
    summary="A file's bytes",
    response_class=Response,
    responses={200: {"description": "The bytes as they came", "content": {"application/octet-stream": {}}}},
)
def get_content(state: Shared, caller: Reader, file_id: str) -> Response:
    """As they were sent; of a document that came another way, its text."""
    found = _found(state, caller, file_id)
    if isinstance(found, Sent):
        return attachment(state.ledger.originals.read(found.hash), found.name)
    original = state.ledger.originals.get(found.id)
    if original is not None:
        return attachment(state.ledger.originals.read(original.hash), original.name)
    document = state.kb.catalog.document(found.id)
    if document is None:
        raise NotFound(f"the document {file_id!r} has no text: {found.error or 'it is pending'}")
    return attachment(document.text.encode("utf-8", "replace"), f"{safe_name(found.title)}.txt")


@router.delete("/{file_id}", response_model=Deleted, summary="Delete a file")
def delete_file(state: Shared, caller: Writer, file_id: str) -> JSONResponse:
    """With its documents in every vector store; its bytes go with the last that has them."""
    found = _found(state, caller, file_id)
    if isinstance(found, Sent):
        reach.own_file(state, caller, file_id)
        _remove_documents_of(state, caller, found)
        state.ledger.files.drop(found.id)
        _remove_documents_of(state, caller, found)  # it may have been put into another store meanwhile
    else:
        dataset = state.ledger.datasets.ensure(found.owner, found.collection)
        reach.own_dataset(state, caller, dataset.id)
        remove_documents(state, [found])
    return JSONResponse({"id": file_id, "object": "file", "deleted": True})


def _found(state: State, caller: Caller, given: str) -> Sent | Record:
    sent = reach.file(state, caller, given)
    if sent is not None:
        return sent
    try:
        return reach.view(state, caller).seen(given)
    except NotFound:
        raise NotFound(f"no file has the id {given!r}; list the files to see those that exist") from None


def _remove_documents_of(state: State, caller: Caller, sent: Sent) -> None:
    made = state.ledger.files.documents(sent)
    mine = {(one.owner, one.collection) for one in reach.datasets(state, caller)}
    if any((one.owner, one.collection) not in mine for one in made):
        raise reach.Forbidden(f"{sent.name!r} is in collections that your key is not for; delete it with one for all")
    for one in made:
        record = state.kb.catalog.record(one.document)
        remove_documents(state, [record] if record else [], waiting=[] if record else [one.document])


def _sent_shape(sent: Sent) -> dict[str, Any]:
    told = {"id": sent.id, "bytes": sent.bytes, "filename": sent.name, "purpose": sent.purpose}
    return {**told, "created_at": wire.seconds(sent.created), **_ALWAYS}


def _record_shape(state: State, record: Record) -> dict[str, Any]:
    original = state.ledger.originals.get(record.id)
    size, created = (original.bytes, original.created) if original else (record.chars, record.created)
    told = {"id": record.id, "bytes": size, "filename": wire.name_of(record, original), "purpose": "assistants"}
    return {**told, "created_at": wire.seconds(created), **_ALWAYS}
