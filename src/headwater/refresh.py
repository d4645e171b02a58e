"""Pages, feeds and sitemaps that were subscribed to -> looked at again when their time has come."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headwater.build import KnowledgeBase
from headwater.errors import SourceError, UsageError
from headwater.storage.subscriptions import Subscription, Subscriptions
from headwater.types import DEFAULT_COLLECTION, Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """What became of one address: a report, or an error in words."""

    url: str
    report: Report | None = None
    error: str = ""


def subscribe(
    kb: KnowledgeBase,
    url: str,
    *,
    every_seconds: float,
    collection: str = DEFAULT_COLLECTION,
    tags: Sequence[str] = (),
    folder: str = "",
    now: float | None = None,
) -> Subscription:
    """Look at an address again and again, first one period from now: who subscribes adds it too."""
    from headwater.sources.web import normalised

    at = time.time() if now is None else now
    made = Subscription(
        url=normalised(url),
        every_seconds=every_seconds,
        owner=kb.owner,
        collection=collection,
        labels={"tags": list(tags), "folder": folder},
        due=at + every_seconds,
        checked=at,
    )
    Subscriptions(kb.home).add(made)
    return made


def unsubscribe(kb: KnowledgeBase, url: str) -> int:
    """Look at it no more; what it brought stays."""
    from headwater.sources.web import normalised

    return Subscriptions(kb.home).remove(normalised(url), owner=kb.owner)


def due(kb: KnowledgeBase, now: float | None = None) -> list[Subscription]:
    """Whose time has come, of every owner."""
    return Subscriptions(kb.home).due(time.time() if now is None else now)


def refresh(
    kb: KnowledgeBase, *, now: float | None = None, every: bool = False, goes_on: Callable[[], bool] = lambda: True
) -> list[Refreshed]:
    """Look at what is due, or at all of it, while it `goes_on`; only what changed is worked on.

    A page that cannot be had keeps what it brought, and is asked again later and later.
    """
    at = time.time() if now is None else now
    subscriptions = Subscriptions(kb.home)
    done = []
    for one in subscriptions.all() if every else subscriptions.due(at):
        if not goes_on():
            break
        view = kb if one.owner == kb.owner else kb.for_owner(one.owner)
        labels = {"tags": tuple(one.labels.get("tags", ())), "folder": str(one.labels.get("folder", ""))}
        try:
            report = view.add(one.url, collection=one.collection, tags=labels["tags"], folder=str(labels["folder"]))
        except (SourceError, UsageError) as error:
            done.append(Refreshed(url=one.url, error=str(error)))
        else:
            reason = report.failed[0].reason if report.failed and not (report.added or report.updated) else ""
            done.append(Refreshed(url=one.url, report=report, error=reason))
        subscriptions.done(one, now=at, error=done[-1].error)
    return done
