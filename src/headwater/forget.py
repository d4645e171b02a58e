"""Documents -> no trace of them in the home.

Removing a document makes it invisible at once; this makes it gone: out of both indexes, which are written anew, out of
the vector cache, kept answers, conversations, history, jobs, originals and notes, and out of the free pages and logs
of every file. It costs as much as writing the indexes and the catalog once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headwater.attach import MANUAL_OF, is_by_hand, with_parts
from headwater.errors import HomeLocked, UsageError
from headwater.filters import ALL, Compare, conjoin
from headwater.home import CONVERSATIONS_FILE, NOTES_FILE, Home
from headwater.storage.conversations import Conversations
from headwater.storage.ledger import FILE_NAME as LEDGER_FILE
from headwater.storage.ledger import Ledger
from headwater.storage.scrub import owners, scrub
from headwater.storage.subscriptions import FILE_NAME as SUBSCRIPTIONS_FILE
from headwater.storage.subscriptions import Subscriptions
from headwater.stores import scrub as scrub_catalog
from headwater.types import Record, indexed_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What was erased: documents with what came inside them, answers and turns, searches and remarks."""

    documents: int
    answers: int
    searches: int
    spaces: int  # earlier spaces that were dropped, for they held the documents too


def forget(home: Home, records: Sequence[Record]) -> Forgotten:
    """Erase documents; when this returns no file of the home holds anything of them.

    Raises HomeLocked while another process writes or reindexes; then nothing is erased but what a second call finishes.
    """
    every = {one.id: one for record in records for one in _all_of(home, record)}
    with home.intake.waiting():
        spaces = _drop_others(home)
        home.intake.remove(list(every.values()))
        answers, searches = _forget_what_was_said(home, every)
        _look_no_more(home, list(every.values()))
        _rewrite_indexes(home)
        scrub_catalog(home.catalog)
        for name in (CONVERSATIONS_FILE, LEDGER_FILE, SUBSCRIPTIONS_FILE):
            scrub(home.home / name)
        # A note does not say of which document it is, and can be made again: all of them go.
        scrub(home.home / NOTES_FILE, [("delete from note", [()])])
        home.results_cache.clear()
    return Forgotten(documents=len(every), answers=answers, searches=searches, spaces=spaces)


def _all_of(home: Home, record: Record) -> list[Record]:
    """A document, what came inside it, and what people added to it."""
    own = conjoin(Compare("owner", "=", record.owner), Compare("collection", "=", record.collection))
    whole = list(with_parts(home.catalog, [record]))
    said = [one for part in whole for one in home.catalog.records(conjoin(own, Compare(MANUAL_OF, "=", part.id)))]
    return [*whole, *(one for one in said if is_by_hand(one.uri, one.meta))]


def _drop_others(home: Home) -> int:
    """Spaces that are not active have indexes of their own, with the same documents in them."""
    others = [space for space in home.catalog.spaces() if space.state != "active"]
    if not others:
        return 0
    try:
        return home.spaces.drop_others()
    except HomeLocked as error:
        raise UsageError(f"a reindex is under way: {error}; forget documents when it has ended") from error


def _forget_what_was_said(home: Home, records: Mapping[str, Record]) -> tuple[int, int]:
    ids = list(records)
    conversations = home.home / CONVERSATIONS_FILE
    whose = dict.fromkeys((*owners(conversations, "answer"), *owners(conversations, "conversation")))
    answers = sum(Conversations(conversations, owner=owner).forget(ids) for owner in whose)
    if not (home.home / LEDGER_FILE).exists():
        return answers, 0
    ledger = Ledger(home.home)
    try:
        searches = ledger.journal.forget(ids)
        ledger.jobs.forget(ids)
        ledger.outbox.forget(ids)
        ledger.originals.drop(ids)
        ledger.files.forget((record.owner, record.uri) for record in records.values())
    finally:
        ledger.close()
    return answers, searches


def _look_no_more(home: Home, records: Sequence[Record]) -> None:
    """A page that is looked at on a schedule would be back at the next look."""
    subscriptions = Subscriptions(home.home)
    for record in records:
        subscriptions.remove(record.uri, owner=record.owner, collection=record.collection)


def _rewrite_indexes(home: Home) -> None:
    """Both indexes from the catalog: an index only marks what was removed, and keeps its words until it merges.

    Other processes see the old ones until the new ones are flushed.
    """
    text, vectors, catalog = home.text, home.vectors, home.catalog
    text.clear()
    vectors.clear()
    for record in catalog.records(ALL):
        document = catalog.document(record.id) if record.ticket else None
        chunks = catalog.chunks_of(record.id) if document is not None else []
        if document is None or not chunks:
            continue
        indexed = chunks[: indexed_count(chunks)]
        text.add([(chunk, document) for chunk in indexed])
        ids, rows = catalog.vectors([chunk.id for chunk in indexed])
        order = np.argsort(ids)
        vectors.add(ids[order], rows[order])
    text.flush()
    vectors.flush()
    catalog.buried(catalog.dead())
