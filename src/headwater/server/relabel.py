"""Other labels, or passages to leave out -> a job for the worker, waited for a little."""

import time
from typing import Any

from headwater.server.state import State
from headwater.storage.ledger import Job
from headwater.types import Record, text_hash

# Most such jobs are done in a few hundredths of a second; who waits longer is told that it goes on.
WAIT_SECONDS = 5.0
POLL_SECONDS = 0.02


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
    return followed(state, job)


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


def followed(state: State, job: Job) -> Job:
    """The job when it has ended, or as it is after a while."""
    state.worker.wake()
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end and not state.stopping.is_set():
        now = state.ledger.jobs.get(job.id)
        if now is None or not now.is_open:
            return now or job
        time.sleep(POLL_SECONDS)
    return state.ledger.jobs.get(job.id) or job
