"""Jobs over HTTP: where each stands, and cancel, retry, hurry."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound
from headwater.server import reach, wire
from headwater.server.auth import Caller, Reader, Writer
from headwater.server.promises import STOP_SECONDS, followed
from headwater.server.state import Shared, State
from headwater.storage.ledger import Job

router = APIRouter(prefix="/api/v1", tags=["jobs"], responses=wire.ERRORS)
_States = Literal["pending", "processing", "indexed", "completed", "empty", "failed", "cancelled"]


class Urgency(wire.Body):
    """How urgent a job is."""

    model_config = wire.examples({"priority": 10})
    priority: int = Field(ge=-1000, le=1000)  # more is sooner


@router.get("/jobs", response_model=wire.Success, summary="List jobs")
def list_jobs(
    state: Shared,
    caller: Reader,
    state_is: Annotated[list[_States] | None, Query(alias="state")] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 30,
) -> JSONResponse:
    """Your own, the latest first, and how many are in each state."""
    own, start = reach.own_collections(state, caller), (page - 1) * page_size
    jobs = state.ledger.jobs
    found = jobs.of(caller.owner, states=state_is or (), collections=own, limit=page_size, offset=start)
    counts = jobs.counts(caller.owner, collections=own)
    return wire.ok({"jobs": [_titled(state, job) for job in found], "counts": counts})


@router.get("/jobs/{job_id}", response_model=wire.Success, summary="Where a job stands")
def get_job(state: Shared, caller: Reader, job_id: str) -> JSONResponse:
    """State, stage, percent, and the reason where it failed."""
    return wire.ok(wire.job_shape(_own(state, caller, job_id)))


@router.post("/jobs/{job_id}/cancel", response_model=wire.Success, summary="Cancel a job")
def cancel_job(state: Shared, caller: Writer, job_id: str) -> JSONResponse:
    """At once while nobody has begun with it, else at the next safe point; a second time is harmless.

    `stopping` says that it goes on until there. One that is stored by then is `completed`.
    """
    job = _own(state, caller, job_id)
    if state.ledger.jobs.cancel(job.id) is None:
        job = _own(state, caller, job_id)
        if job.state != "cancelled":
            raise wire.Conflict(f"the job is {job.state}; only one that has not ended can be cancelled")
    followed(state, [job], within_seconds=STOP_SECONDS)
    state.announcer.wake()
    return wire.ok(wire.job_shape(_own(state, caller, job_id)))


@router.post("/jobs/{job_id}/retry", response_model=wire.Success, summary="Try a job again")
def retry_job(state: Shared, caller: Writer, job_id: str) -> JSONResponse:
    """One that failed, was empty or was cancelled."""
    job = _own(state, caller, job_id)
    if not state.ledger.jobs.retry(job.id):
        raise wire.Conflict(f"the job is {job.state}; only one that failed, was empty or was cancelled is tried again")
    state.worker.wake()
    return wire.ok(wire.job_shape(_own(state, caller, job_id)))


@router.put("/jobs/{job_id}", response_model=wire.Success, summary="Hurry a job")
def hurry_job(state: Shared, caller: Writer, job_id: str, given: Urgency) -> JSONResponse:
    """A higher priority is worked on sooner."""
    job = _own(state, caller, job_id)
    state.ledger.jobs.prioritise(job.id, given.priority)
    return wire.ok(wire.job_shape(_own(state, caller, job_id)))


def _titled(state: State, job: Job) -> dict[str, Any]:
    """A job with the title of its document, where that is known: a person knows it by that."""
    record = state.kb.catalog.record(job.document)
    return {**wire.job_shape(job), "title": record.title if record is not None else ""}


def _own(state: State, caller: Caller, id: str) -> Job:
    job = state.ledger.jobs.get(id)
    if job is None or job.owner != caller.owner or not _reaches(reach.own_collections(state, caller), job):
        raise NotFound(f"no job has the id {id!r}; list the jobs to see those that exist")
    return job


def _reaches(collections: list[str] | None, job: Job) -> bool:
    return collections is None or job.collection in collections
