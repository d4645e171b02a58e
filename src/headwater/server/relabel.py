"""Other labels, or passages to leave out or to show again -> a job for the worker, waited for a little."""

from typing import Any

from headwater.server.by_hand import OF_TEXT, merged
from headwater.server.promises import followed
from headwater.server.state import State
from headwater.storage.ledger import Job
from headwater.types import Record, text_hash


def relabel(state: State, record: Record, work: dict[str, Any]) -> Job:
    """Change a document that is there; usually done when this returns, else soon.

    It stays changed when it is indexed again: labels always, passages that were left out while its text is the same.
    """
    if any(work.get(kind) for kind in OF_TEXT):
        document = state.kb.catalog.document(record.id)
        work = {**work, "text": text_hash(document.text).hex() if document else ""}
    state.ledger.originals.change(record.id, lambda before: merged(before, work))
    job = state.ledger.jobs.add(
        owner=record.owner,
        collection=record.collection,
        document=record.id,
        uri=record.uri,
        kind="label",
        work={},
        priority=1,  # a person waits
    )
    (done,) = followed(state, [job])
    return done
