"""Other labels, or passages to leave out -> a job for the worker, waited for a little."""

import time
from collections.abc import Sequence
from typing import Any

from headwater.server.state import State
from headwater.storage.ledger import Job
from headwater.types import Record, text_hash

# Most such jobs are done in a few hundredths of a second; who waits longer is told that it goes on.
WAIT_SECONDS = 5.0
POLL_SECONDS = 0.02
# What is asked to stop mostly does within a second.
STOP_SECONDS = 2.0


def relabel(state: State, record: Record, work: dict[str, Any]) -> Job:
    """Change a document that is there; usually done when this returns, else soon.

    It stays changed when it is indexed again: labels always, passages that were left out while its text is the same.
    """
    if work.get("hide"):
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


def merged(before: dict[str, Any], work: dict[str, Any]) -> dict[str, Any]:
    """All that was ever changed of a document: the later of each label, and all passages of the same text."""
    changes = {**before.get("changes", {}), **work.get("changes", {})}
    if "meta" in work.get("changes", {}):
        changes["meta"] = {**before.get("changes", {}).get("meta", {}), **work["changes"]["meta"]}
    hidden, text = before.get("hide", []), before.get("text", "")
    if work.get("hide"):
        hidden = [*(hidden if text == work["text"] else []), *work["hide"]]
        text = work["text"]
    return {"changes": changes, "hide": hidden, "text": text}


def followed(state: State, jobs: Sequence[Job], *, within_seconds: float = WAIT_SECONDS) -> list[Job]:
    """The jobs when all of them have ended, or as they are after a while."""
    state.worker.wake()
    end = time.monotonic() + within_seconds
    while True:
        now = [state.ledger.jobs.get(job.id) or job for job in jobs]
        if time.monotonic() >= end or state.stopping.is_set() or not any(job.is_open for job in now):
            return now
        time.sleep(POLL_SECONDS)
