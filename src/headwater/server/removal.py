"""Documents and datasets -> gone, with what hangs on them: originals, jobs, passages that people added."""

from collections.abc import Sequence

from headwater.attach import MANUAL_OF, is_by_hand
from headwater.filters import Compare, conjoin
from headwater.server import reach
from headwater.server.auth import Caller
from headwater.server.state import State
from headwater.storage.ledger import Dataset
from headwater.storage.subscriptions import Subscriptions
from headwater.types import Record


def remove_documents(state: State, records: Sequence[Record], *, waiting: Sequence[str] = ()) -> int:
    """Remove documents of one owner and collection; those of `waiting` were promised and are not there yet."""
    ids = [*(record.id for record in records), *waiting]
    for id, job in state.ledger.jobs.latest(ids).items():
        ended = state.ledger.jobs.cancel(job.id) if job.is_open else job
        if (ended is None or ended.is_open) and id in waiting:
            # A worker may have it in hand: what it makes is removed by the tombstone that is committed here.
            state.kb.intake.remove([_promised(job.owner, job.collection, job.uri, id)])
    manual = [one for record in records for one in manual_of(state, record)]
    state.kb.intake.remove([*records, *manual])
    gone = [*ids, *(one.id for one in manual)]
    state.ledger.originals.drop(gone)
    state.ledger.jobs.forget(gone)
    return len(ids)


def manual_of(state: State, record: Record) -> list[Record]:
    """The passages that people added to a document."""
    own = conjoin(Compare("owner", "=", record.owner), Compare("collection", "=", record.collection))
    said = state.kb.catalog.records(conjoin(own, Compare(MANUAL_OF, "=", record.id)))
    return [one for one in said if is_by_hand(one.uri, one.meta)]


def remove_datasets(state: State, caller: Caller, chosen: Sequence[Dataset]) -> int:
    """Remove datasets with their documents; return how many documents there were."""
    count = 0
    for dataset in chosen:
        records = state.kb.catalog.records(reach.only([dataset]))
        present = {record.id for record in records}
        jobs = state.ledger.jobs.open_documents(dataset.owner, dataset.collection)
        waiting = [job.document for job in jobs if job.document not in present]
        count += remove_documents(state, records, waiting=waiting)
        # Or the next look at an address would make the dataset again.
        Subscriptions(state.kb.home).leave(dataset.owner, dataset.collection)
    state.ledger.datasets.delete([dataset.id for dataset in chosen])
    return count


def _promised(owner: str, collection: str, uri: str, id: str) -> Record:
    return Record(id=id, uri=uri, owner=owner, collection=collection)
