"""A dataset -> its documents and those that were promised to it, each with its original and its last job."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headwater.attach import MANUAL_URI, is_by_hand
from headwater.filters import In, conjoin, parse
from headwater.server import reach, wire
from headwater.server.state import State
from headwater.storage.ledger import Dataset, Job, Original
from headwater.types import Record

# A list of more than this comes without what is known beside the catalog.
SORTED_HERE = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A document of a dataset; one that is not there yet has a record all the same."""

    record: Record
    original: Original | None = None
    job: Job | None = None

    @property
    def state(self) -> str:
        """Where it stands."""
        return wire.state_of(self.record, self.job)


def names(state: State, known: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """What documents are called whose uris and titles these are: as they were sent, or renamed since.

    A passage that a person added is called as the document that it was added to.
    """
    files = state.ledger.originals.names(list(known))
    return {
        id: wire.named(uri.partition(MANUAL_URI)[0], title) if MANUAL_URI in uri or id not in files else files[id]
        for id, (uri, title) in known.items()
    }


def holdings(state: State, dataset: Dataset, *, ids: Sequence[str] | None = None, where: str = "") -> list[Holding]:
    """All of a dataset, or those of these ids. A filter is about what the catalog has."""
    asked = conjoin(reach.only([dataset]), parse(where))
    if ids is not None:
        asked = conjoin(asked, In("id", tuple(ids)))
    records = [one for one in state.kb.catalog.records(asked) if not is_by_hand(one.uri, one.meta)]
    there = [one.id for one in records]
    jobs = state.ledger.jobs.latest(there) if len(there) <= SORTED_HERE else {}
    originals = state.ledger.originals.of(there) if len(there) <= SORTED_HERE else {}
    found = [Holding(record=one, original=originals.get(one.id), job=jobs.get(one.id)) for one in records]
    return found if where else [*found, *_waiting(state, dataset, ids, set(there))]


def _waiting(state: State, dataset: Dataset, ids: Sequence[str] | None, present: set[str]) -> Iterator[Holding]:
    """What was promised, or only kept, and is not among those that are there."""
    for job in _last_jobs(state, dataset, ids):
        if job.document in present or is_by_hand(job.uri, job.work.get("labels", {}).get("meta", {})):
            continue
        record = state.kb.catalog.record(job.document)  # it may have come since the catalog was asked
        original = state.ledger.originals.get(job.document)
        removed = job.kind == "put" and not job.is_open and original is None
        if record is None and (removed or job.state == "completed"):
            continue
        if record is None or not is_by_hand(record.uri, record.meta):
            yield Holding(record=record or wire.pending_record(job, original), original=original, job=job)
    for original in _unpromised(state, dataset, ids):
        if original.document not in present and state.kb.catalog.record(original.document) is None:
            yield Holding(record=unpromised_record(original), original=original)


def unpromised_record(original: Original) -> Record:
    """A document that is kept and that nobody asked to index."""
    return Record(
        id=original.document,
        uri=original.uri,
        owner=original.owner,
        collection=original.collection,
        title=original.name,
        mime=original.mime,
        state="pending",
        created=original.created,
        updated=original.created,
    )


def _last_jobs(state: State, dataset: Dataset, ids: Sequence[str] | None) -> list[Job]:
    if ids is None:
        return state.ledger.jobs.open_documents(dataset.owner, dataset.collection)
    last = state.ledger.jobs.latest(ids).values()
    return [job for job in last if job.kind in ("put", "url") and _is_of(dataset, job)]


def _unpromised(state: State, dataset: Dataset, ids: Sequence[str] | None) -> list[Original]:
    if ids is None:
        return state.ledger.originals.unpromised(dataset.owner, dataset.collection)
    promised = state.ledger.jobs.latest(ids)
    kept = state.ledger.originals.of(ids).values()
    return [one for one in kept if one.document not in promised and _is_of(dataset, one)]


def _is_of(dataset: Dataset, one: Job | Original) -> bool:
    return (one.owner, one.collection) == (dataset.owner, dataset.collection)
