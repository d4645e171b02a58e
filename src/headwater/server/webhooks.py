"""Webhooks over HTTP: where finished jobs are told, and what waits to be told there. `announcer.py` tells it."""

import secrets
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound, UsageError
from headwater.server import reach, wire
from headwater.server.auth import Admin
from headwater.server.ingest import checked_url
from headwater.server.state import Shared

router = APIRouter(prefix="/api/v1", tags=["webhooks"], responses=wire.ERRORS)
MAX_WEBHOOKS = 20
_Event = Literal["job.completed", "job.empty", "job.failed", "job.cancelled"]
EVENTS: tuple[_Event, ...] = ("job.completed", "job.empty", "job.failed", "job.cancelled")


class NewWebhook(wire.Body):
    """Where to tell."""

    model_config = wire.examples({"url": "https://example.org/hook", "events": ["job.completed", "job.failed"]})
    url: str = Field(min_length=8, max_length=4000)
    events: list[_Event] = Field(default_factory=lambda: list(EVENTS), max_length=4)


@router.post("/webhooks", response_model=wire.Success, summary="Be told of finished jobs")
def create_webhook(state: Shared, caller: Admin, given: NewWebhook) -> JSONResponse:
    """The secret is shown this once: it signs what is sent."""
    reach.whole_owner(caller, "list of webhooks")
    checked_address(given.url, allow_private=state.kb.config.web().allow_private)
    if len(state.ledger.journal.webhooks(caller.owner)) >= MAX_WEBHOOKS:
        raise UsageError(f"at most {MAX_WEBHOOKS} webhooks; remove one first")
    secret = secrets.token_urlsafe(32)
    id = state.ledger.journal.add_webhook(caller.owner, url=given.url, secret=secret, events=given.events)
    return wire.ok({"id": id, "url": given.url, "events": given.events, "secret": secret})


@router.get("/webhooks", response_model=wire.Success, summary="List webhooks")
def list_webhooks(state: Shared, caller: Admin) -> JSONResponse:
    """Without their secrets; how many messages wait for each, and why the oldest of them did not arrive."""
    reach.whole_owner(caller, "list of webhooks")
    found = state.ledger.journal.webhooks(caller.owner)
    waiting = state.ledger.outbox.waiting([one["id"] for one in found])
    told = []
    for one in found:
        count, reason = waiting.get(one["id"], (0, ""))
        shown = {name: one[name] for name in ("id", "url", "events", "created")}
        told.append({**shown, "waiting": count, "reason": reason})
    return wire.ok(told)


@router.delete("/webhooks/{webhook_id}", response_model=wire.Success, summary="Remove a webhook")
def delete_webhook(state: Shared, caller: Admin, webhook_id: str) -> JSONResponse:
    """It is told nothing more, what waits included."""
    reach.whole_owner(caller, "list of webhooks")
    if not state.ledger.journal.remove_webhook(caller.owner, webhook_id):
        raise NotFound(f"no webhook has the id {webhook_id!r}")
    return wire.ok(None)


def checked_address(url: str, *, allow_private: bool) -> None:
    """Refuse what is no address, or names a machine of a private network. A name is judged when it is used."""
    from headwater.sources.web import PageError, normalised, refused

    checked_url(url)
    try:
        reason = refused(normalised(url), allow_private=allow_private)
    except PageError as error:
        raise UsageError(str(error)) from error
    if reason:
        raise UsageError(f"{url!r} is an address {reason}; see web.allow_private")
