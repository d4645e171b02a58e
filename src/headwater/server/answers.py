"""Questions answered over HTTP, whole or as they come about; feedback, history, and why something was not found."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import Field, model_validator

from headwater import shapes
from headwater.errors import HeadwaterError
from headwater.server import logs, reach, wire
from headwater.server.asking import Asked, chosen_datasets, filter_of, options_of, question_of
from headwater.server.auth import Caller, Reader
from headwater.server.retrieval import Question
from headwater.server.state import Shared, State
from headwater.server.streams import MAX_ANSWER_SECONDS, Streamed
from headwater.types import Answer, Event, Restart, Sentence, Step

router = APIRouter(prefix="/api/v1", tags=["answers"], responses=wire.ERRORS)
LOOKED_THROUGH = 1000  # rows of an owner, for what a key for some collections may see of them


class Ask(Asked):
    """A question to answer."""

    model_config = wire.examples({"question": "How long is parental leave?", "stream": False})
    question: Question
    stream: bool = False
    template: str | None = Field(default=None, max_length=100)
    llm: str | None = Field(default=None, max_length=100)
    reflect: bool | None = None


class Feedback(wire.Body):
    """A thumb, or a click on something that was found."""

    model_config = wire.examples({"kind": "thumb", "value": 1, "query": "parental leave", "answer_id": ""})
    kind: Literal["thumb", "click"] = "thumb"
    value: int = Field(default=1, ge=-1, le=1)  # 1 up, -1 down
    query: str = Field(default="", max_length=10_000)
    answer_id: str = Field(default="", max_length=200)
    document_id: str = Field(default="", max_length=200)
    chunk_id: str = Field(default="", max_length=300)
    comment: str = Field(default="", max_length=10_000)

    @model_validator(mode="after")
    def is_about_something(self) -> "Feedback":
        """Feedback on nothing teaches nothing."""
        if not (self.query or self.answer_id or self.document_id or self.chunk_id):
            raise ValueError("say what it is about: query, answer_id, document_id or chunk_id")
        return self


@router.post(
    "/ask",
    summary="Ask",
    response_model=wire.Success,
    responses={200: {"content": {"text/event-stream": {}}}},
)
async def ask(request: Request, state: Shared, caller: Reader, given: Ask) -> Any:
    """The answer with its citations, or, with `stream`, server-sent events `step`, `sentence`, `restart`, `answer`."""
    events = await state.retrieval.run(
        lambda: prepared(state, caller, given), deadline_seconds=state.settings.deadline_seconds
    )
    if given.stream:
        return event_stream(state, caller, events)
    answer = await whole(state, events)
    remember(state, caller, answer)
    return wire.ok(answer_shape(answer))


def prepared(state: State, caller: Caller, given: Ask) -> Iterator[Event]:
    """The events of an answer, none of which has happened yet."""
    chosen = chosen_datasets(state, caller, given)
    where = filter_of(state, caller, given, datasets=chosen)
    options = options_of(
        state, given, where=where, most_seconds=max(state.settings.deadline_seconds, MAX_ANSWER_SECONDS)
    )
    for name in ("template", "llm", "reflect"):
        if (value := getattr(given, name)) is not None:
            options[name] = value
    question = question_of(state, caller, given, question=given.question, where=where, options=options)
    return reach.view(state, caller).stream(question, where=where, options=options, archived=given.archived)


async def whole(state: State, events: Iterator[Event]) -> Answer:
    """The last of the events, on a thread of the generation pool."""

    def last() -> Answer:
        *_, answer = events
        assert isinstance(answer, Answer)
        return answer

    return await state.generation.run(last, deadline_seconds=max(state.settings.deadline_seconds, MAX_ANSWER_SECONDS))


def event_stream(state: State, caller: Caller, events: Iterator[Event]) -> Streamed:
    """An answer as server-sent events `step`, `sentence`, `restart`, `answer` and `error`."""
    return Streamed(
        state, events, shape=lambda event: event_lines(event, caller=caller, state=state), failed=_error_line
    )


def _error_line(error: HeadwaterError) -> str:
    name = wire.fault_of(error).name
    return _line("error", {"code": wire.CODES[name], "error": name, "message": str(error)})


def event_lines(event: Event, *, caller: Caller, state: State) -> str:
    """One event as it goes over the wire."""
    if isinstance(event, Step):
        return _line("step", {"stage": event.stage, "milliseconds": event.milliseconds, "note": event.note})
    if isinstance(event, Sentence):
        citations = [shapes.citation_shape(one) for one in event.citations]
        return _line("sentence", {"text": event.text, "citations": citations})
    if isinstance(event, Restart):
        return _line("restart", {"reason": event.reason})
    remember(state, caller, event)
    return _line("answer", answer_shape(event))


def answer_shape(answer: Answer) -> dict[str, Any]:
    """An answer with all it rests on."""
    beside = {"id": answer.id, "conversation_id": answer.conversation_id, "model": answer.model}
    return {**shapes.answer_shape(answer), **beside, "refused": answer.refused, "generation": answer.generation}


def remember(state: State, caller: Caller, answer: Answer) -> None:
    """Count an answer, and put the question into the caller's history."""
    outcome = "refused" if answer.refused else "degraded" if answer.degraded else "answered"
    state.meters.answers.labels(outcome).inc()
    state.tracing.answered(answer)
    for step in answer.trace:
        state.meters.stage_seconds.labels(step.stage).observe(step.milliseconds / 1000)
    took = sum(step.milliseconds for step in answer.trace)
    logs.tell(
        "Question answered", owner=caller.owner, outcome=outcome, citations=len(answer.citations), latency_ms=took
    )
    if state.settings.history:
        state.ledger.journal.searched(
            caller.owner,
            kind="ask",
            query=answer.query.text,
            mode=answer.query.options.mode,
            hits=[hit.chunk.name for hit in answer.hits],
            total=len(answer.hits),
            took_ms=took,
        )


def _line(event: str, data: Any) -> str:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


@router.post("/feedback", response_model=wire.Success, summary="Say how good something was")
def feedback(state: Shared, caller: Reader, given: Feedback) -> JSONResponse:
    """Thumbs for answers, clicks on hits: kept under the caller's owner, for measuring and tuning."""
    document = given.document_id or given.chunk_id.rpartition(":")[0]
    if document:
        reach.view(state, caller).seen(document)
    told = given.model_dump()
    told |= {"answer": told.pop("answer_id"), "document": document, "chunk": told.pop("chunk_id")}
    return wire.ok({"id": state.ledger.journal.said(caller.owner, told)})


@router.get("/feedback", response_model=wire.Success, summary="What was said")
def list_feedback(
    state: Shared,
    caller: Reader,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 30,
) -> JSONResponse:
    """The caller's own, the latest first; with a key for some collections, that about documents in them."""
    start = (page - 1) * page_size
    if not caller.collections:
        rows, total = state.ledger.journal.feedback(caller.owner, limit=page_size, offset=start)
        return wire.ok({"feedback": rows, "total": total})
    rows, _ = state.ledger.journal.feedback(caller.owner, limit=LOOKED_THROUGH)
    own = reach.visible(state, caller, [row["document"] for row in rows if row["document"]])
    rows = [row for row in rows if row["document"] in own]
    return wire.ok({"feedback": rows[start : start + page_size], "total": len(rows)})


@router.get("/history", response_model=wire.Success, summary="Past searches")
def history(
    state: Shared,
    caller: Reader,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 30,
) -> JSONResponse:
    """The caller's own, the latest first; with a key for some collections, those that found nothing elsewhere."""
    start = (page - 1) * page_size
    if not caller.collections:
        rows, total = state.ledger.journal.history(caller.owner, limit=page_size, offset=start)
        return wire.ok({"history": rows, "total": total})
    rows, _ = state.ledger.journal.history(caller.owner, limit=LOOKED_THROUGH)
    found = {id.rpartition(":")[0] for row in rows for id in row["hits"]}
    own = reach.visible(state, caller, found)
    rows = [row for row in rows if row["hits"] and all(id.rpartition(":")[0] in own for id in row["hits"])]
    return wire.ok({"history": rows[start : start + page_size], "total": len(rows)})


@router.delete("/history", response_model=wire.Success, summary="Forget past searches")
def clear_history(state: Shared, caller: Reader) -> JSONResponse:
    """All of the caller's own."""
    reach.whole_owner(caller, "history")
    return wire.ok({"deleted": state.ledger.journal.clear_history(caller.owner)})


@router.get("/why", response_model=wire.Success, summary="Why is it not found?")
async def why(
    state: Shared,
    caller: Reader,
    query: Annotated[str, Query(min_length=1, max_length=10_000)],
    document: Annotated[str, Query(min_length=1, max_length=200, description="A document's id.")],
) -> JSONResponse:
    """Where in the pipeline a document stands for a query, and what kept it out."""

    def explained() -> dict[str, Any]:
        seen = reach.view(state, caller)
        return shapes.explanation_shape(seen.why(query, seen.seen(document).id))

    return wire.ok(await state.retrieval.run(explained, deadline_seconds=state.settings.deadline_seconds))
