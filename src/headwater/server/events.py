"""What happened in another system -> documents here: each event once, and an old one never over a newer one."""

from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import AliasChoices, Field

from headwater.errors import HeadwaterError, UsageError
from headwater.server import ingest, reach, wire
from headwater.server.auth import Caller, Forbidden, Writer
from headwater.server.removal import remove_documents
from headwater.server.state import Shared, State
from headwater.types import document_id

router = APIRouter(prefix="/api/v1", tags=["events"], responses=wire.ERRORS)
_EXAMPLE = {
    "id": "evt-1",
    "type": "document.created",
    "time": "2026-01-01T12:00:00Z",
    "document": {
        "id": "chapter-7",
        "project_id": "novel",
        "content": "The pump failed at dawn.",
        "content_type": "chapter",
    },
}


class Told(wire.Body):
    """A document as another system knows it. `user_id` is the owner, `project_id` the collection."""

    id: str = Field(min_length=1, max_length=2000, validation_alias=AliasChoices("id", "uri", "document_id"))
    user_id: str = Field(default="", max_length=200, validation_alias=AliasChoices("user_id", "owner"))
    project_id: str = Field(default="", max_length=128, validation_alias=AliasChoices("project_id", "collection"))
    content: str = Field(default="", max_length=30_000_000, validation_alias=AliasChoices("content", "text"))
    title: str = Field(default="", max_length=1000)
    tags: list[str] = Field(default_factory=list, max_length=200)
    content_type: str = Field(default="", max_length=100)
    metadata: dict[str, Any] = Field(default_factory=dict, max_length=200)
    mime: str = Field(default="text/plain", max_length=100, pattern=r"^text/(plain|markdown|html|csv)$")


class Happened(wire.Body):
    """An event. Its id says that it is this one; its time says which is the later."""

    model_config = wire.examples(_EXAMPLE)
    id: str = Field(min_length=1, max_length=200)
    type: Literal["document.created", "document.updated", "document.deleted", "created", "updated", "deleted"]
    time: str = Field(default="", max_length=64)
    document: Told


@router.post("/events", response_model=wire.Success, summary="Tell of a document")
def events(state: Shared, caller: Writer, given: Happened) -> JSONResponse:
    """Created and updated index it, deleted removes it. Twice is once, and late is nothing."""
    if given.document.user_id and given.document.user_id != caller.owner:
        raise Forbidden(f"your key is for the owner {caller.owner!r}, not for {given.document.user_id!r}")
    return wire.ok(happened(state, caller, given))


def happened(state: State, caller: Caller, given: Happened) -> dict[str, Any]:
    """What an event comes to."""
    told, time = given.document, _time(given.time)
    deleted = given.type.endswith("deleted")
    if not deleted and not told.content:
        raise UsageError("a document that was created or updated needs its content")
    dataset = reach.destination(state, caller, collection=told.project_id)
    uri = told.id if "://" in told.id or ":" in told.id.partition("/")[0] else ingest.TEXT + told.id
    id = document_id(dataset.owner, dataset.collection, uri)
    outcome = state.ledger.journal.event(caller.owner, given.id, document=id, time=time)
    if outcome != "new":
        return {"event": given.id, "applied": False, "reason": outcome, "document_id": id}
    try:
        if deleted:
            record = state.kb.catalog.record(id)
            remove_documents(state, [record] if record else [], waiting=[] if record else [id])
            state.ledger.journal.applied(caller.owner, given.id)
            return {"event": given.id, "applied": True, "document_id": id, "job_id": None}
        labels = {
            "title": told.title,
            "tags": told.tags,
            "content_type": told.content_type,
            "meta": {key: value for key, value in told.metadata.items() if _is_plain(value)},
        }
        job = ingest.put_text(state, dataset, uri=uri, text=told.content, mime=told.mime, labels=labels)
        state.ledger.journal.applied(caller.owner, given.id)
    except HeadwaterError:
        state.ledger.journal.unsee(caller.owner, given.id)  # so that sending it again helps
        raise
    return {"event": given.id, "applied": True, "document_id": id, "job_id": job.id, "status": job.state}


def _time(given: str) -> str:
    """In one form, so that the order of texts is the order of times."""
    if not given:
        return datetime.now(UTC).isoformat(timespec="microseconds")
    try:
        moment = datetime.fromisoformat(given)
        return (
            (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="microseconds")
        )
    except (ValueError, OverflowError) as error:
        raise UsageError(f"a time is ISO 8601, such as 2026-01-01T12:00:00Z, got {given!r}") from error


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(one, str | int | float | bool) for one in value)
    return isinstance(value, str | int | float | bool)
