"""Jobs that somebody asked to stop -> documents as they were before, and jobs that say how it ended.

The ask is in the ledger, so it reaches whichever process works. Only who holds the home's lock answers it: what is not
stored yet is dropped by the indexer at its next look, and what nobody has in hand is settled before the next pass.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.attach import whole_of
from headwater.build import KnowledgeBase
from headwater.prepare import Unwanted, content_hash
from headwater.storage.ledger import STOPPED, Job, JobState, Ledger
from headwater.types import Change, Record

Finish = Callable[[Job, JobState, str], None]


class Stopping:
    """Ends the jobs of one worker that were asked to stop. `change_of` is what a job makes of its document."""

    def __init__(
        self, kb: KnowledgeBase, ledger: Ledger, *, change_of: Callable[[Job], Change | None], finish: Finish
    ) -> None:
        self.kb, self.ledger, self._change_of, self._finish = kb, ledger, change_of, finish
        self.unwanted = Unwanted()
        self._in_hand: Sequence[Job] = ()

    def begin(self, jobs: Sequence[Job]) -> None:
        """These are worked on from now on; none, when a pass is over."""
        self._in_hand = jobs
        self.unwanted.ids = frozenset()
        self.unwanted.dropped.clear()

    def look(self) -> None:
        """Learn what was asked meanwhile, and end the jobs of what was dropped for it."""
        asked = [job for job in self.ledger.jobs.stopping() if job.kind == "put"]
        ids = {job.id for job in asked}
        # Two jobs may be for one document: it is wanted as long as one of them is.
        wanted = {job.document for job in self._in_hand if job.kind == "put" and job.id not in ids}
        self.unwanted.ids = frozenset(job.document for job in asked) - wanted
        dropped = {self.unwanted.dropped.popleft() for _ in range(len(self.unwanted.dropped))}
        for job in asked:
            if job.document in dropped:
                self._end(job)

    def is_asked(self, job: Job) -> bool:
        """Whether it is to stop, as of now."""
        current = self.ledger.jobs.get(job.id)
        return current is not None and current.is_open and bool(current.stop)

    def settle_left(self) -> None:
        """End what was asked to stop and nobody has in hand: its worker died, or it waits to be tried again."""
        for job in self.ledger.jobs.stopping():
            self.settle(job)

    def settle(self, job: Job) -> None:
        """End a job as its document stands; for whoever holds the home's lock and has nothing claimed."""
        if job.kind == "put" and not self._is_stored(job):
            self._withdraw(job)
        self._end(job)

    def _end(self, job: Job) -> None:
        record = self.kb.catalog.record(job.document)
        if self._is_stored(job):
            self._finish(job, "completed", "")
            return
        if job.kind == "put" and record is not None and record.state == "indexed":
            self.kb.intake.remove([record])  # it was found by its words only
        self._finish(job, "cancelled", STOPPED)

    def _is_stored(self, job: Job) -> bool:
        """Whether the document is there as this job makes it."""
        record: Record | None = self.kb.catalog.record(job.document)
        if job.kind != "put" or record is None or record.state != "completed":
            return False
        change = self._change_of(job)
        made = change.payload if change is not None else None
        return change is not None and made is not None and content_hash(change, made) == record.content_hash

    def _withdraw(self, job: Job) -> None:
        """Close the open changes of its document and of what came inside it, which is not there without it."""
        open_changes = self.kb.catalog.claim(self.kb.catalog.pending())
        own = [
            change
            for change in open_changes
            if (change.owner, change.collection) == (job.owner, job.collection)
            and job.uri in (change.uri, whole_of(change))
        ]
        # As deletions: what closes a put records its stamp.
        self.kb.catalog.close([replace(change, kind="delete") for change in own])
