"""A search of a vector store, in OpenAI's words -> the passages of its dataset, with scores from 0 to 1."""

import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from headwater.filters import conjoin
from headwater.server import attributes as attributed
from headwater.server import holdings, reach, store_files, wire
from headwater.server.asking import SEARCHING, Asked, filter_of, options_of, within
from headwater.server.auth import Caller, Reader
from headwater.server.openai import ERRORS
from headwater.server.retrieval import MAX_QUESTIONS, NO_TIME, Question, note, search
from headwater.server.similarity import similarities
from headwater.server.state import Shared, State
from headwater.types import Hit, Record, Results

router = APIRouter(prefix="/v1/vector_stores", tags=["openai"], responses=ERRORS)
_EXAMPLE = {
    "query": "How long is parental leave?",
    "max_num_results": 5,
    "filters": {"type": "gte", "key": "year", "value": 2024},
}


class Ranking(wire.Body):
    """How hits are put in order. Another ranker than ours is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")
    ranker: Literal["auto", "none"] = "auto"
    score_threshold: float = Field(default=0.0, ge=0, le=1)


class Search(wire.Body):
    """What to look for. `where`, `mode`, `options` and `archived` are ours, as in every other search."""

    model_config = wire.examples(_EXAMPLE)
    query: Question | Annotated[list[Question], Field(min_length=1, max_length=MAX_QUESTIONS)]
    filters: attributed.Wanted | None = None
    max_num_results: int = Field(default=10, ge=1, le=50)
    ranking_options: Ranking | None = None
    rewrite_query: bool | None = None
    where: str = Field(default="", max_length=10_000)
    mode: Literal["hybrid", "keyword", "semantic", "substring"] | None = None
    options: dict[str, Any] | None = None
    archived: bool = False


class Found(BaseModel):
    """What was found, best first."""

    model_config = ConfigDict(extra="allow")
    object: Literal["vector_store.search_results.page"]
    search_query: list[str]
    data: list[dict[str, Any]]
    has_more: Literal[False]
    next_page: None


@router.post("/{vector_store_id}/search", response_model=Found, summary="Search a vector store")
async def search_store(
    request: Request, state: Shared, caller: Reader, vector_store_id: str, given: Search
) -> JSONResponse:
    """One question, or several whose hits are put together by their scores."""
    id = request.scope.get("headwater.request_id", "")
    found = await state.retrieval.run(
        lambda: _found(state, caller, vector_store_id, given=given, request_id=id),
        deadline_seconds=state.settings.deadline_seconds,
    )
    return wire.Json(found)


def _found(state: State, caller: Caller, vector_store_id: str, *, given: Search, request_id: str) -> dict[str, Any]:
    until = time.monotonic() + state.settings.deadline_seconds * SEARCHING
    dataset = reach.dataset(state, caller, vector_store_id)
    ranking = given.ranking_options or Ranking()
    asked = Asked(
        top_n=given.max_num_results,
        where=given.where,
        mode=given.mode,
        options=given.options,
        rerank_id="" if ranking.ranker == "none" else None,
    )
    where = filter_of(state, caller, asked, datasets=[dataset])
    if given.filters is not None:
        where = conjoin(where, attributed.filter_of(given.filters))
    options = options_of(state, asked, most_seconds=state.settings.deadline_seconds)
    if given.rewrite_query is not None:
        options["rewrite"] = given.rewrite_query
    questions = [given.query] if isinstance(given.query, str) else given.query
    every: list[Results] = []
    late: set[str] = set()
    for question in dict.fromkeys(questions):
        left = until - time.monotonic()
        if every and left <= 0:
            late.add(NO_TIME)
            break
        options = within(state, options, left)
        every.append(search(state, caller, question, where=where, options=options, archived=given.archived))
        note(state, every[-1], caller=caller, kb_ids=[dataset.id], request_id=request_id)
    scored = [one for one in _together(every) if one[1] >= ranking.score_threshold][: given.max_num_results]
    files = store_files.belonging(state, [hit.record for hit, _ in scored])
    names = holdings.names(state, {whole.id: (whole.uri, whole.title) for _, whole in files.values()})
    return {
        "object": "vector_store.search_results.page",
        "search_query": questions,
        "data": [_shape(hit, score, files[hit.document_id], names) for hit, score in scored],
        "has_more": False,
        "next_page": None,
        "corrected": {typed: meant for results in every for typed, meant in results.corrected.items()},
        "degraded": sorted(late.union(*(results.degraded for results in every))),
    }


def _together(every: list[Results]) -> list[tuple[Hit, float]]:
    """The hits of all searches, each once with its best score; those of one search as it ordered them."""
    best: dict[str, tuple[Hit, float]] = {}
    for results in every:
        for hit, score in zip(results.hits, similarities(results.hits, results.mode_used), strict=True):
            known = best.get(hit.chunk.name)
            if known is None or score > known[1]:
                best[hit.chunk.name] = (hit, score)
    found = list(best.values())
    if len(every) > 1:
        found.sort(key=lambda one: (-one[1], one[0].document_id, one[0].chunk.span))
    return found


def _shape(hit: Hit, score: float, file: tuple[str, Record], names: Mapping[str, str]) -> dict[str, Any]:
    record, (file_id, whole) = hit.record, file
    return {
        "file_id": file_id,
        "filename": names[whole.id],
        "score": score,
        "attributes": attributed.shown(whole.meta, sent=file_id != whole.id),
        "content": [{"type": "text", "text": hit.chunk.text}],
        "document_id": record.id,
        "chunk_id": hit.chunk.name,
        "uri": record.uri,
        "title": hit.title,
        "section": hit.chunk.section,
        "span": list(hit.chunk.span),
        "pages": list(hit.chunk.pages),
        "collection": record.collection,
        "owner": record.owner,
    }
