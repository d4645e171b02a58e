"""All that the routes of one server share: the open home, the ledger, the pools, the worker, the numbers."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol, cast, runtime_checkable

from fastapi import Depends, Request

from headwater.build import KnowledgeBase
from headwater.config import Server
from headwater.server.announcer import Announcer
from headwater.server.meters import Meters
from headwater.server.pools import Pool
from headwater.server.readers import Readers
from headwater.server.tracing import Tracing
from headwater.server.worker import Worker
from headwater.storage.ledger import Ledger
from headwater.types import Record

Counts = dict[tuple[str, str], tuple[int, int]]  # (owner, collection) -> documents, chunks


@runtime_checkable
class Counting(Protocol):
    """A catalog that counts by itself: faster than going through every document, which any catalog allows."""

    def collections(self) -> Counts:
        """Documents and chunks of every collection of every owner."""
        ...


@dataclass(kw_only=True)
class State:
    """One server's. `open_access` says that callers without a key are the local owner while there are no keys."""

    kb: KnowledgeBase
    ledger: Ledger
    settings: Server
    worker: Worker
    retrieval: Pool
    generation: Pool
    meters: Meters
    open_access: bool
    announcer: Announcer
    readers: Readers
    tracing: Tracing = field(default_factory=Tracing)
    stopping: threading.Event = field(default_factory=threading.Event)
    _counts: tuple[int, Counts] = (-1, {})

    def needs_key(self) -> bool:
        """Whether a caller must show a key: unless the server is open and nobody made one."""
        return not self.open_access or self.ledger.keys.any()

    def names(self, documents: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Uri and title of documents; asked for together, for a search names more than a hundred."""
        together = getattr(self.kb.catalog, "names", None)
        if together is not None:
            return cast(dict[str, tuple[str, str]], together(documents))
        found = map(self.kb.catalog.record, documents)
        return {record.id: (record.uri, record.title) for record in found if record is not None}

    def counts(self) -> Counts:
        """Documents and chunks of every collection of every owner."""
        generation = self.kb.catalog.generation()
        if self._counts[0] != generation:
            self._counts = (generation, _counted(self.kb))
        return self._counts[1]


def _counted(kb: KnowledgeBase) -> Counts:
    from headwater.filters import ALL

    if isinstance(kb.catalog, Counting):
        return kb.catalog.collections()
    found: Counts = {}
    records: list[Record] = kb.catalog.records(ALL)
    for record in records:
        documents, chunks = found.get((record.owner, record.collection), (0, 0))
        found[record.owner, record.collection] = (documents + 1, chunks + record.chunks)
    return found


def state_of(request: Request) -> State:
    """The state of the server that a request came to."""
    return cast(State, request.app.state.headwater)


async def _shared(request: Request) -> State:
    return state_of(request)  # as a coroutine: for a plain function the framework takes a thread, for every request


Shared = Annotated[State, Depends(_shared)]
