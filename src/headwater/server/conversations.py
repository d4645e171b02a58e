"""Conversations over HTTP, as the page has them: list and search, go on with one, look at it again, export, delete."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound
from headwater.server import reach, wire
from headwater.server.answers import LOOKED_THROUGH, answer_shape, event_stream, remember, whole
from headwater.server.asking import Asked, chosen_datasets, filter_of, options_of
from headwater.server.auth import Caller, Reader
from headwater.server.retrieval import Question
from headwater.server.state import Shared, State
from headwater.server.streams import MAX_ANSWER_SECONDS
from headwater.turns import Conversation, Passage, Turn, plain_citation
from headwater.types import Event, attributes

router = APIRouter(prefix="/api/v1", tags=["conversations"], responses=wire.ERRORS)
STREAMS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}}


class Said(Asked):
    """The next message of a conversation, or the first of a new one."""

    model_config = wire.examples({"question": "And for fathers?", "conversation_id": "", "stream": True})
    question: Question
    stream: bool = False
    use_knowledge_base: bool = True
    llm: str | None = Field(default=None, max_length=100)


class Named(wire.Body):
    """Another title."""

    model_config = wire.examples({"title": "Parental leave"})
    title: str = Field(min_length=1, max_length=200)


@router.post(
    "/conversations",
    summary="Say something",
    response_model=wire.Success,
    responses=STREAMS,
)
async def say(state: Shared, caller: Reader, given: Said) -> Any:
    """The answer, whole or as server-sent events; `conversation_id` in it says where to go on."""
    events = await state.retrieval.run(
        lambda: prepared(state, caller, given), deadline_seconds=state.settings.deadline_seconds
    )
    if given.stream:
        return event_stream(state, caller, events)
    answer = await whole(state, events)
    remember(state, caller, answer)
    return wire.ok(answer_shape(answer))


def prepared(state: State, caller: Caller, given: Said) -> Iterator[Event]:
    """The events of the next answer, none of which has happened yet. What is wrong with the request is raised here."""
    where = filter_of(state, caller, given, datasets=chosen_datasets(state, caller, given))
    options = options_of(
        state, given, where=where, most_seconds=max(state.settings.deadline_seconds, MAX_ANSWER_SECONDS)
    )
    if given.llm:
        options["llm"] = given.llm
    seen = reach.view(state, caller)
    if given.conversation_id:
        reach.conversation(state, caller, given.conversation_id)  # refused before anything is streamed
    return seen.chat_stream(
        given.question,
        conversation=given.conversation_id or "",
        use_knowledge_base=given.use_knowledge_base,
        where=where,
        options=options,
        archived=given.archived,
    )


@router.get("/conversations", response_model=wire.Success, summary="List conversations")
def listed(
    state: Shared,
    caller: Reader,
    q: Annotated[str, Query(max_length=1000, description="Only those that hold this text.")] = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    page_size: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> JSONResponse:
    """The caller's own, the latest first, without what was said."""
    kept = reach.view(state, caller).conversations
    start = (page - 1) * page_size
    narrow = bool(caller.collections)
    limit, offset = (LOOKED_THROUGH, 0) if narrow else (page_size, start)
    found = kept.search(q, limit=limit, offset=offset) if q else kept.latest(limit=limit, offset=offset)
    if narrow:  # a title is a question, and may be one about what this key does not reach
        own = [one for one in found if reach.reads(state, caller, kept.get(one.id))]
        found = own[start : start + page_size]
    return wire.ok({"conversations": [_shape(one) for one in found]})


@router.get("/conversations/{conversation_id}", response_model=wire.Success, summary="A conversation")
def one(state: Shared, caller: Reader, conversation_id: str) -> JSONResponse:
    """All that was said; an answer whose sources changed since names them in `stale`."""
    return wire.ok(shape(state, caller, reach.conversation(state, caller, conversation_id)))


def shape(state: State, caller: Caller, found: Conversation) -> dict[str, Any]:
    """A conversation with all that was said in it."""
    seen = reach.view(state, caller)
    return {**_shape(found), "turns": [_turn(seen, turn) for turn in found.turns]}


@router.put("/conversations/{conversation_id}", response_model=wire.Success, summary="Rename a conversation")
def rename(state: Shared, caller: Reader, conversation_id: str, given: Named) -> JSONResponse:
    """Give it another title."""
    reach.conversation(state, caller, conversation_id)
    reach.view(state, caller).conversations.rename(conversation_id, given.title)
    return wire.ok({"id": conversation_id})


@router.delete("/conversations/{conversation_id}", response_model=wire.Success, summary="Delete a conversation")
def delete(state: Shared, caller: Reader, conversation_id: str) -> JSONResponse:
    """With everything that was said in it."""
    reach.conversation(state, caller, conversation_id)
    reach.view(state, caller).conversations.delete(conversation_id)
    state.ledger.chats.leave(caller.owner, [conversation_id])
    return wire.ok({"id": conversation_id})


def _shape(found: Conversation) -> dict[str, Any]:
    names = ("id", "title", "created", "updated", "count")
    return {name: getattr(found, name) for name in names}


def _turn(seen: Any, turn: Turn) -> dict[str, Any]:
    """What was said, and how it stands now."""
    stale: list[str] = []
    accepted, nearest, corrected, degraded = True, [], {}, []
    if turn.answer_id:
        try:
            kept = seen.replay(turn.answer_id)
            accepted, corrected, degraded = kept.accepted, dict(kept.corrected), list(kept.degraded)
            nearest = [] if accepted else [_passage(one) for one in kept.passages if _is_seen(seen, one)]
            changed = set(kept.stale)
            stale = list(dict.fromkeys(one.title or one.uri for one in kept.citations if one.uri in changed))
        except NotFound:  # not kept, or erased since
            stale = []
    return {
        "role": turn.role,
        "content": turn.content,
        "answer_id": turn.answer_id,
        "model": turn.model,
        "created": turn.created,
        "citations": [plain_citation(one) for one in turn.citations],
        "accepted": accepted,
        "corrected": corrected,
        "degraded": degraded,
        "hits": nearest,
        "stale": stale,
    }


def _is_seen(seen: Any, passage: Passage) -> bool:
    """Whether its document is still there, for this caller."""
    record = seen.catalog.record(_document_of(passage))
    return record is not None and seen.scope.matches(attributes(record))


def _document_of(passage: Passage) -> str:
    return passage.name.rpartition(":")[0]


def _passage(passage: Passage) -> dict[str, Any]:
    """One of those that an answer was refused with, as a hit has it."""
    start, _, end = passage.name.rpartition(":")[2].partition("-")
    return {
        "chunk_id": passage.name,
        "document_id": _document_of(passage),
        "uri": passage.uri,
        "title": passage.title,
        "text": passage.text,
        "section": passage.section,
        "pages": list(passage.pages),
        "span": [int(start), int(end)],
    }
