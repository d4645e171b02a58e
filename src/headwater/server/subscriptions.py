"""Subscriptions over HTTP: pages, feeds and sitemaps that are looked at again and again, by `refresher.py`."""

import time
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound, UsageError
from headwater.server import reach, wire
from headwater.server.auth import Caller, Reader, Writer
from headwater.server.promises import check_room
from headwater.server.state import Shared, State
from headwater.server.webhooks import checked_address
from headwater.storage.subscriptions import SHORTEST_SECONDS, Subscription, Subscriptions
from headwater.types import document_id

router = APIRouter(prefix="/api/v1", tags=["subscriptions"], responses=wire.ERRORS)
MAX_SUBSCRIPTIONS = 500  # of an owner: each is asked for ever
DAY_SECONDS = 24 * 3600
YEAR_SECONDS = 366 * DAY_SECONDS
_Tag = Annotated[str, Field(max_length=200)]


class NewSubscription(wire.Body):
    """An address to look at, how often, and where what it brings goes."""

    model_config = wire.examples({"url": "https://example.org/feed.xml", "every_seconds": 21_600, "tags": ["news"]})
    url: str = Field(min_length=1, max_length=4000)
    every_seconds: int = Field(default=DAY_SECONDS, ge=int(SHORTEST_SECONDS), le=YEAR_SECONDS)
    dataset_id: str | None = Field(default=None, max_length=200)
    collection: str | None = Field(default=None, max_length=128)  # by name; made where it is missing
    tags: list[_Tag] = Field(default_factory=list, max_length=200)
    folder: str = Field(default="", max_length=1000)


@router.post("/subscriptions", response_model=wire.Success, summary="Look at an address again and again")
def subscribe(state: Shared, caller: Writer, given: NewSubscription) -> JSONResponse:
    """A page, or every page that a feed or a sitemap names; first in a moment. The same address again replaces it."""
    from headwater.sources.web import normalised  # heavy, and needed by few

    checked_address(given.url, allow_private=state.kb.config.web().allow_private)
    kept = Subscriptions(state.kb.home)
    if len(kept.of(caller.owner)) >= MAX_SUBSCRIPTIONS:
        raise UsageError(f"at most {MAX_SUBSCRIPTIONS} subscriptions; remove one first")
    check_room(state, caller.owner, 0)
    dataset = reach.destination(state, caller, dataset_id=given.dataset_id, collection=given.collection)
    made = Subscription(
        url=normalised(given.url),
        every_seconds=float(given.every_seconds),
        owner=dataset.owner,
        collection=dataset.collection,
        labels={"tags": given.tags, "folder": given.folder},
        due=time.time(),
    )
    kept.add(made)
    return wire.ok(_shape(made))


@router.get("/subscriptions", response_model=wire.Success, summary="List subscriptions")
def list_subscriptions(state: Shared, caller: Reader) -> JSONResponse:
    """Your own: when each was looked at, when it is the next time, and what went wrong."""
    return wire.ok([_shape(one) for one in _own(state, caller)])


@router.delete("/subscriptions/{subscription_id}", response_model=wire.Success, summary="Look at an address no more")
def unsubscribe(state: Shared, caller: Writer, subscription_id: str) -> JSONResponse:
    """What it brought stays."""
    found = next((one for one in _own(state, caller) if _id(one) == subscription_id), None)
    if found is None:
        raise NotFound(f"no subscription has the id {subscription_id!r}; list them to see those that exist")
    Subscriptions(state.kb.home).remove(found.url, owner=found.owner, collection=found.collection)
    return wire.ok(None)


def _own(state: State, caller: Caller) -> list[Subscription]:
    found = Subscriptions(state.kb.home).of(caller.owner)
    if not caller.collections:
        return found
    seen = {one.collection for one in reach.datasets(state, caller) if one.owner == caller.owner}
    return [one for one in found if one.collection in seen]


def _id(one: Subscription) -> str:
    """That of the document, where the address is a page."""
    return document_id(one.owner, one.collection, one.url)


def _shape(one: Subscription) -> dict[str, Any]:
    return {
        "id": _id(one),
        "url": one.url,
        "every_seconds": one.every_seconds,
        "collection": one.collection,
        "tags": list(one.labels.get("tags", ())),
        "folder": str(one.labels.get("folder", "")),
        "checked": _moment(one.checked),
        "due": _moment(one.due),
        "failures": one.failures,
        "error": one.error,
    }


def _moment(seconds: float) -> str:
    """As every other time on the wire; empty for never."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else ""
