"""All that the routes of one server share: the open home, the ledger, the pools, the worker, the numbers."""

import threading
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from headwater.build import KnowledgeBase
from headwater.config import Server
from headwater.server.meters import Meters
from headwater.server.pools import Pool
from headwater.server.worker import Worker
from headwater.storage.ledger import Ledger
from headwater.types import Record

Counts = dict[tuple[str, str], tuple[int, int]]  # (owner, collection) -> documents, chunks


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
    announcer: Any  # a webhooks.Announcer, whose routes need this module
    stopping: threading.Event = field(default_factory=threading.Event)
    _counts: tuple[int, Counts] = (-1, {})

    def needs_key(self) -> bool:
        """Whether a caller must show a key: unless the server is open and nobody made one."""
        return not self.open_access or self.ledger.keys.any()

    def counts(self) -> Counts:
        """Documents and chunks of every collection of every owner."""
        generation = self.kb.catalog.generation()
        if self._counts[0] != generation:
            self._counts = (generation, _counted(self.kb))
        return self._counts[1]


def _counted(kb: KnowledgeBase) -> Counts:
    from headwater.filters import ALL

    grouped = getattr(kb.catalog, "collections", None)
    if grouped is not None:
        return cast(Counts, grouped())
    found: Counts = {}
    records: list[Record] = kb.catalog.records(ALL)
    for record in records:
        documents, chunks = found.get((record.owner, record.collection), (0, 0))
        found[record.owner, record.collection] = (documents + 1, chunks + record.chunks)
    return found


def state_of(request: Request) -> State:
    """The state of the server that a request came to."""
    return cast(State, request.app.state.headwater)


Shared = Annotated[State, Depends(state_of)]
