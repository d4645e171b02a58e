"""Finished jobs -> a signed message to whoever asked to be told, sent again while it does not arrive.

Signed with HMAC-SHA256 over `time.body` in `X-Headwater-Signature: t=TIME,v1=HEX`.
"""

import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound, SourceError, UsageError
from headwater.server import logs, wire
from headwater.server.auth import Admin
from headwater.server.ingest import checked_url
from headwater.server.state import Shared
from headwater.storage.ledger import Job, Ledger

if TYPE_CHECKING:
    from headwater.sources.web import Web

router = APIRouter(prefix="/api/v1", tags=["webhooks"], responses=wire.ERRORS)
PAUSES = (1.0, 5.0, 30.0)  # between attempts, in seconds
TIMEOUT_SECONDS = 10.0
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
    checked_address(given.url, allow_private=state.kb.config.web().allow_private)
    if len(state.ledger.journal.webhooks(caller.owner)) >= MAX_WEBHOOKS:
        raise UsageError(f"at most {MAX_WEBHOOKS} webhooks; remove one first")
    secret = secrets.token_urlsafe(32)
    id = state.ledger.journal.add_webhook(caller.owner, url=given.url, secret=secret, events=given.events)
    return wire.ok({"id": id, "url": given.url, "events": given.events, "secret": secret})


@router.get("/webhooks", response_model=wire.Success, summary="List webhooks")
def list_webhooks(state: Shared, caller: Admin) -> JSONResponse:
    """Without their secrets."""
    found = state.ledger.journal.webhooks(caller.owner)
    return wire.ok([{name: one[name] for name in ("id", "url", "events", "created")} for one in found])


@router.delete("/webhooks/{webhook_id}", response_model=wire.Success, summary="Remove a webhook")
def delete_webhook(state: Shared, caller: Admin, webhook_id: str) -> JSONResponse:
    """It is told nothing more."""
    if not state.ledger.journal.remove_webhook(caller.owner, webhook_id):
        raise NotFound(f"no webhook has the id {webhook_id!r}")
    return wire.ok(None)


class Announcer:
    """Sends in the background; what has not arrived when it is closed is not sent any more.

    `web` gives the way out: it resolves a name, judges every address it has, and connects to one that it judged.
    """

    def __init__(self, ledger: Ledger, *, web: "Callable[[], Web]") -> None:
        self._ledger, self._web = ledger, web
        self._sending = ThreadPoolExecutor(2, thread_name_prefix="headwater-webhooks")
        self._closed = threading.Event()

    def announce(self, job: Job) -> None:
        """Tell everybody who wants to know that a job has ended, without waiting for them."""
        event = f"job.{job.state}"
        for hook in self._ledger.journal.webhooks(job.owner):
            if event in hook["events"]:
                body = json.dumps({"event": event, "data": wire.job_shape(job)}).encode()
                self._sending.submit(self.deliver, hook, body)

    def deliver(self, hook: dict[str, Any], body: bytes) -> bool:
        """Send until it arrives, or it has been tried often enough, or another try cannot help."""
        for pause in (*PAUSES, 0.0):
            headers = {"Content-Type": "application/json", "X-Headwater-Signature": signature(hook, body)}
            try:
                status = self._web().post(hook["url"], body, headers=headers, seconds=TIMEOUT_SECONDS)
                reason, again = f"status {status}", True
                if status < 300:
                    return True
            except SourceError as error:
                reason, again = str(error), bool(getattr(error, "again", False))
            logs.warn("A webhook did not arrive", webhook=hook["id"], reason=reason)
            if not again or self._closed.wait(pause):
                break
        return False

    def close(self) -> None:
        """Forget what waits to be sent."""
        self._closed.set()
        self._sending.shutdown(wait=False, cancel_futures=True)


def signature(hook: dict[str, Any], body: bytes) -> str:
    """The time, and the proof that who sent a body at that time knows the secret."""
    moment = str(int(time.time()))
    signed = hmac.new(hook["secret"].encode(), f"{moment}.".encode() + body, "sha256").hexdigest()
    return f"t={moment},v1={signed}"


def checked_address(url: str, *, allow_private: bool) -> None:
    """Refuse what is no address to tell, or names a machine of a private network. A name is judged when it is used."""
    from headwater.sources.web import PageError, normalised, refused

    checked_url(url)
    try:
        reason = refused(normalised(url), allow_private=allow_private)
    except PageError as error:
        raise UsageError(str(error)) from error
    if reason:
        raise UsageError(f"nobody is told at {url!r}: {reason}; see web.allow_private")
