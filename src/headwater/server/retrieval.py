"""Retrieval over HTTP: one question or several, every option, every stage's score."""

import time
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.filters import Filter
from headwater.server import holdings, logs, reach, wire
from headwater.server.asking import (
    SEARCHING,
    Asked,
    chosen_datasets,
    filter_of,
    is_past,
    options_of,
    question_of,
    within,
)
from headwater.server.auth import Caller, Reader
from headwater.server.state import Shared, State
from headwater.types import Hit, Query, Results

router = APIRouter(prefix="/api/v1", tags=["retrieval"], responses=wire.ERRORS)

MAX_QUESTIONS = 100
NO_TIME = "not searched: the questions before it took all the time that one request has"
_EXAMPLE = {
    "question": "How long is parental leave?",
    "dataset_ids": ["3868d5b1cf1f9a4b49e4"],
    "top_n": 8,
    "where": 'tag = "hr"',
}
Question = Annotated[str, Field(min_length=1, max_length=10_000)]


class Retrieval(Asked):
    """A search."""

    model_config = wire.examples(_EXAMPLE)
    question: Question | Annotated[list[Question], Field(min_length=1, max_length=MAX_QUESTIONS)]


@router.post("/retrieval", response_model=wire.Success, summary="Search")
async def retrieval(request: Request, state: Shared, caller: Reader, given: Retrieval) -> JSONResponse:
    """`{chunks, doc_aggs, total}`; for a list of questions a list of these under `results`, in order."""
    found = await state.retrieval.run(
        lambda: retrieved(state, caller, given, request_id=request.scope.get("headwater.request_id", "")),
        deadline_seconds=state.settings.deadline_seconds,
    )
    return wire.ok(found)


@router.post("/dataset/{dataset_id}/retrieval", response_model=wire.Success, summary="Search one dataset")
async def dataset_retrieval(
    request: Request, state: Shared, caller: Reader, dataset_id: str, given: Retrieval
) -> JSONResponse:
    """The same in one dataset: a test of its settings, without a conversation and kept in no history."""
    alone: dict[str, Any] = {"dataset_ids": [dataset_id], "kb_ids": None, "collections": None, "conversation_id": None}
    narrowed = given.model_copy(update=alone)
    found = await state.retrieval.run(
        lambda: retrieved(
            state, caller, narrowed, request_id=request.scope.get("headwater.request_id", ""), remember=False
        ),
        deadline_seconds=state.settings.deadline_seconds,
    )
    return wire.ok(found)


def retrieved(
    state: State, caller: Caller, given: Retrieval, *, request_id: str = "", remember: bool = True
) -> dict[str, Any]:
    """What a search finds, as it goes over the wire. Of several, those that time is left for."""
    until = time.monotonic() + state.settings.deadline_seconds * SEARCHING
    chosen = chosen_datasets(state, caller, given)
    where = filter_of(state, caller, given, datasets=chosen)
    options = options_of(state, given, where=where, most_seconds=state.settings.deadline_seconds)
    several = isinstance(given.question, list)
    questions: list[str] = given.question if isinstance(given.question, list) else [given.question]
    kb_ids = [one.id for one in chosen] if chosen is not None else []
    shown: list[dict[str, Any]] = []
    for said in questions:
        question = question_of(state, caller, given, question=said, where=where, options=options)
        left = until - time.monotonic()
        if shown and left <= 0:
            query = reach.view(state, caller).query(question, where=where, options=options, archived=given.archived)
            shown.append(shape(state, Results(query=query, degraded=(NO_TIME,))))
            continue
        if several:
            options = within(state, options, left)
        results = search(state, caller, question, where=where, options=options, archived=given.archived)
        note(state, results, caller=caller, kb_ids=kb_ids, request_id=request_id, remember=remember)
        shown.append(shape(state, replace(results, hits=()) if is_past(given) else results))
    if not several:
        return shown[0]
    return {"results": shown, "total": sum(one["total"] for one in shown), "chunks": [], "doc_aggs": []}


def search(
    state: State, caller: Caller, question: str, *, where: Filter, options: dict[str, Any], archived: bool = False
) -> Results:
    """Search as the caller: the one way in for every protocol."""
    seen = reach.view(state, caller)
    began = time.perf_counter()
    mode, status = str(options.get("mode", seen.options.mode)), "error"
    try:
        offset = int(options.get("offset", 0))
        results = seen.search(question, where=where, options=options, offset=offset, archived=archived)
        mode, status = results.mode_used, "degraded" if results.degraded else "ok"
    finally:
        state.meters.search_seconds.labels(mode, status).observe(time.perf_counter() - began)
    state.meters.search_results.labels(mode).observe(len(results))
    state.tracing.searched(results, seconds=time.perf_counter() - began)
    for stage, took in results.timings_ms.items():
        state.meters.stage_seconds.labels(stage).observe(took / 1000)
    if "cache" in results.timings_ms:
        state.meters.cache.inc()
    return results


def note(
    state: State, results: Results, *, caller: Caller, kb_ids: list[str], request_id: str, remember: bool = True
) -> None:
    """One line in the log, and one in the caller's history."""
    query: Query = results.query
    told: dict[str, Any] = {"query": query.text} if state.settings.log_text else {"query_chars": len(query.text)}
    logs.tell(
        "Retrieval completed",
        **told,
        request_id=request_id,
        owner=caller.owner,
        kb_ids=kb_ids,
        mode=results.mode_used,
        top_n=query.options.top_n,
        candidates=query.options.candidates,
        threshold=query.options.threshold,
        rerank=query.options.rerank,
        vector_count=results.leg_counts.get("semantic", 0),
        fulltext_count=results.leg_counts.get("keyword", 0),
        fused_count=results.total,
        final_count=len(results),
        rerank_moved=_moved(results.hits),
        degraded=list(results.degraded),
        latency_ms=round(results.timings_ms.get("total", 0.0), 3),
    )
    if remember and state.settings.history:
        state.ledger.journal.searched(
            caller.owner,
            kind="search",
            query=query.text,
            mode=results.mode_used,
            hits=[hit.chunk.name for hit in results],
            total=results.total,
            took_ms=results.timings_ms.get("total", 0.0),
        )


def shape(state: State, results: Results) -> dict[str, Any]:
    """Results with the ids of their datasets and the names of their documents."""
    pairs = {(hit.record.owner, hit.record.collection) for hit in results}
    ids = {(owner, name): state.ledger.datasets.ensure(owner, name).id for owner, name in pairs}
    known = {hit.document_id: (hit.uri, hit.title) for hit in results}
    known |= state.names([id for id in results.document_counts if id not in known])
    return wire.results_shape(results, ids=ids, names=holdings.names(state, known))


def _moved(hits: tuple[Hit, ...]) -> int:
    """How many of the first ten stand elsewhere than they did before they were looked at again."""
    first = [hit for hit in hits[:10] if "rerank" in hit.scores and "fused" in hit.scores]
    before = sorted(first, key=lambda hit: -hit.scores["fused"])
    return sum(one.chunk.id != other.chunk.id for one, other in zip(first, before, strict=True))
