"""Addresses to look at again and again -> a small SQLite file in the home: how often, when next, how it went."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headwater.storage._beside import opened
from headwater.types import DEFAULT_COLLECTION, LOCAL_OWNER

FILE_NAME: Final = "subscriptions.sqlite"
VERSION: Final = 1
# A page is asked no more often than this, however often a person would like to.
SHORTEST_SECONDS: Final = 60.0
_SCHEMA: Final = """
create table subscription(
  owner text not null, collection text not null, url text not null, labels text not null, every real not null,
  due real not null, checked real not null, failures integer not null, error text not null,
  primary key (owner, collection, url)) without rowid;
create index subscription_due on subscription(due);
"""
# After failures the pause doubles up to this many times the usual one.
MOST_PATIENCE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One address. Times are seconds since 1970; `labels` are tags and folder of what it brings."""

    url: str
    every_seconds: float
    owner: str = LOCAL_OWNER
    collection: str = DEFAULT_COLLECTION
    labels: Mapping[str, Any] = field(default_factory=dict)
    due: float = 0.0
    checked: float = 0.0
    failures: int = 0
    error: str = ""


class Subscriptions:
    """Those of a home. Safe for several threads and processes; without one there is no file."""

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME

    def add(self, one: Subscription) -> None:
        """Look at it from now on; an earlier one of the same address is replaced."""
        every = max(SHORTEST_SECONDS, one.every_seconds)
        row = (one.owner, one.collection, one.url, json.dumps(dict(one.labels)), every, one.due, one.checked)
        with self._opened() as db:
            db.execute("insert or replace into subscription values (?, ?, ?, ?, ?, ?, ?, 0, '')", row)

    def all(self) -> list[Subscription]:
        """Every one, by address."""
        return self._listed("order by url, owner, collection", ())

    def due(self, now: float) -> list[Subscription]:
        """Those whose time has come, the longest overdue first."""
        return self._listed("where due <= ? order by due, url", (now,))

    def done(self, one: Subscription, *, now: float, error: str = "") -> None:
        """It was looked at: the next time is a period later, or later still while it fails."""
        failures = one.failures + 1 if error else 0
        pause = one.every_seconds * min(2.0**failures, MOST_PATIENCE)
        with self._opened() as db:
            db.execute(
                "update subscription set due = ?, checked = ?, failures = ?, error = ? "
                "where owner = ? and collection = ? and url = ?",
                (now + pause, now, failures, error, one.owner, one.collection, one.url),
            )

    def of(self, owner: str) -> list[Subscription]:
        """An owner's, by address."""
        return self._listed("where owner = ? order by url, collection", (owner,))

    def remove(self, url: str, *, owner: str = LOCAL_OWNER, collection: str | None = None) -> int:
        """Look at it no more, for any collection or for one; return how many there were. What it brought stays."""
        if not self.path.exists():
            return 0
        with self._opened() as db:
            return db.execute(
                "delete from subscription where url = ? and owner = ? and collection = coalesce(?, collection)",
                (url, owner, collection),
            ).rowcount

    def leave(self, owner: str, collection: str) -> int:
        """Look at nothing more for a collection that is gone; return how many there were."""
        if not self.path.exists():
            return 0
        with self._opened() as db:
            sql = "delete from subscription where owner = ? and collection = ?"
            return db.execute(sql, (owner, collection)).rowcount

    def _listed(self, rest: str, values: tuple[object, ...]) -> list[Subscription]:
        if not self.path.exists():
            return []
        with self._opened() as db:
            rows = db.execute(f"select * from subscription {rest}", values).fetchall()
        return [
            Subscription(
                owner=row["owner"],
                collection=row["collection"],
                url=row["url"],
                labels=json.loads(row["labels"]),
                every_seconds=row["every"],
                due=row["due"],
                checked=row["checked"],
                failures=row["failures"],
                error=row["error"],
            )
            for row in rows
        ]

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        return opened(self.path, schema=_SCHEMA, version=VERSION, without="no subscriptions")
