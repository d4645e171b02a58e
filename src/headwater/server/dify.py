"""The route that Dify asks when a dataset is its external knowledge: a query in, records with scores from 0 to 1 out.

Dify adds `/retrieval` to the address it was given: that of this server, or `/api/v1/dify` of it, as RAGFlow has it.
"""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from headwater.server import reach, wire
from headwater.server.asking import Asked, Id, filter_of, options_of
from headwater.server.auth import Caller, Reader
from headwater.server.retrieval import Question, note, search
from headwater.server.similarity import similarities
from headwater.server.state import Shared, State
from headwater.storage.ledger import Dataset
from headwater.types import Hit

router = APIRouter(tags=["dify"], responses=wire.ERRORS)
_EXAMPLE = {
    "knowledge_id": "3868d5b1cf1f9a4b49e4",
    "query": "How long is parental leave?",
    "retrieval_setting": {"top_k": 4, "score_threshold": 0.2},
}


class HowMany(wire.Body):
    """How much is wanted."""

    top_k: int | None = Field(default=None, ge=1, le=1000)
    score_threshold: float = Field(default=0.0, ge=0, le=1)


class Wanted(wire.Body):
    """A search, in Dify's words."""

    model_config = wire.examples(_EXAMPLE)
    knowledge_id: Id = Field(min_length=1)  # of a dataset, or its name
    query: Question
    retrieval_setting: HowMany = Field(default_factory=HowMany)
    metadata_condition: dict[str, Any] | None = None


class Kept(BaseModel):
    """A passage, in Dify's words."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]


class Records(BaseModel):
    """What was found, best first."""

    records: list[Kept]


async def retrieve(request: Request, state: Shared, caller: Reader, given: Wanted) -> Records:
    """The passages of one dataset, for Dify's external knowledge."""
    id = request.scope.get("headwater.request_id", "")
    return await state.retrieval.run(
        lambda: _found(state, caller, given, request_id=id), deadline_seconds=state.settings.deadline_seconds
    )


for _path in wire.DIFY_PATHS:
    router.add_api_route(
        _path, retrieve, methods=["POST"], response_model=Records, summary="Search for Dify", name=f"dify {_path}"
    )


def _found(state: State, caller: Caller, given: Wanted, *, request_id: str) -> Records:
    dataset = _dataset(state, caller, given.knowledge_id)
    asked = Asked(top_n=given.retrieval_setting.top_k, metadata_condition=given.metadata_condition)
    where = filter_of(state, caller, asked, datasets=[dataset])
    options = options_of(state, asked, most_seconds=state.settings.deadline_seconds)
    results = search(state, caller, given.query, where=where, options=options)
    note(state, results, caller=caller, kb_ids=[dataset.id], request_id=request_id)
    scored = zip(results.hits, similarities(results.hits, results.mode_used), strict=True)
    least = given.retrieval_setting.score_threshold
    # Dify reads records and nothing beside them: what is to be told of the search stands in each.
    beside = {"corrected": dict(results.corrected)} if results.corrected else {}
    return Records(records=[_record(hit, score, beside) for hit, score in scored if score >= least])


def _dataset(state: State, caller: Caller, given: str) -> Dataset:
    """By id, else by name: people write names into Dify's form."""
    named = [one for one in reach.datasets(state, caller) if given in (one.id, one.name, one.collection)]
    return named[0] if named else reach.dataset(state, caller, given)


def _record(hit: Hit, score: float, beside: dict[str, Any]) -> Kept:
    told = {
        "document_id": hit.document_id,
        "chunk_id": hit.chunk.name,
        "uri": hit.uri,
        "section": hit.chunk.section,
        "pages": list(hit.chunk.pages),
        "span": list(hit.chunk.span),
        "tags": list(hit.record.tags),
    }
    return Kept(
        content=hit.chunk.text,
        score=score,
        title=hit.title,
        metadata={**wire.plain_meta(hit.record.meta), **told, **beside},
    )
