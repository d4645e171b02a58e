"""Sessions of chats over HTTP, as clients of RAGFlow know them: conversations that are answered as their chat says.

A session is a conversation like any other. One that belongs to no chat is the only session of a chat of its own id.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound
from headwater.server import conversations, reach, wire
from headwater.server.auth import Caller, Reader
from headwater.server.state import Shared, State
from headwater.storage.ledger import Chat
from headwater.turns import Conversation, Turn

router = APIRouter(prefix="/api/v1", tags=["chats"], responses=wire.ERRORS)
Order = Literal["create_time", "update_time"]
Page = Annotated[int, Query(ge=1, le=1_000_000)]
PageSize = Annotated[int, Query(ge=1, le=1000)]


class NewSession(wire.Body):
    """A session to begin, or another name for one."""

    model_config = wire.examples({"name": "Leave"})
    name: str = Field(default="New session", min_length=1, max_length=255, pattern=r"\S")


@router.post("/chats/{chat_id}/sessions", response_model=wire.Success, summary="Begin a session")
def create_session(state: Shared, caller: Reader, chat_id: str, given: NewSession) -> JSONResponse:
    """A conversation that is answered as the chat says."""
    chat = chat_by_id(state, caller, chat_id)
    return wire.ok(_session(state, caller, chat, begun(state, caller, chat, given.name)))


@router.get("/chats/{chat_id}/sessions", response_model=wire.Success, summary="List sessions")
def list_sessions(
    *,
    state: Shared,
    caller: Reader,
    chat_id: str,
    page: Page = 1,
    page_size: PageSize = 30,
    orderby: Order = "create_time",
    desc: bool = True,
    id: str | None = None,
    name: str | None = None,
) -> JSONResponse:
    """With what was said in them."""
    found = either(state, caller, chat_id)
    chat = found if isinstance(found, Chat) else None
    kept = sessions_of(state, caller, found) if isinstance(found, Chat) else [found]
    kept = [one for one in kept if one.id == (id or one.id) and one.title == (name or one.title)]
    kept.sort(key=lambda one: (when(one, orderby), one.id), reverse=desc)
    start = (page - 1) * page_size
    shown = [_session(state, caller, chat, one) for one in kept[start : start + page_size]]
    return wire.ok(shown, total=len(kept))


@router.get("/chats/{chat_id}/sessions/{session_id}", response_model=wire.Success, summary="A session")
def one_session(state: Shared, caller: Reader, chat_id: str, session_id: str) -> JSONResponse:
    """With all that was said in it."""
    chat, found = session_of(state, caller, chat_id, session_id)
    return wire.ok(_session(state, caller, chat, found))


@router.put("/chats/{chat_id}/sessions/{session_id}", response_model=wire.Success, summary="Rename a session")
def update_session(state: Shared, caller: Reader, chat_id: str, session_id: str, given: NewSession) -> JSONResponse:
    """Give it another name."""
    session_of(state, caller, chat_id, session_id)
    reach.view(state, caller).conversations.rename(session_id, given.name)
    return wire.ok(None)


@router.delete("/chats/{chat_id}/sessions/{session_id}", response_model=wire.Success, summary="Delete a session")
def delete_session(state: Shared, caller: Reader, chat_id: str, session_id: str) -> JSONResponse:
    """With everything that was said in it."""
    session_of(state, caller, chat_id, session_id)
    return conversations.delete(state, caller, session_id)


@router.delete("/chats/{chat_id}/sessions", response_model=wire.Success, summary="Delete sessions")
def delete_sessions(state: Shared, caller: Reader, chat_id: str, given: wire.Ids) -> JSONResponse:
    """With everything that was said in them. Without `ids`, all of the chat's."""
    chat = chat_by_id(state, caller, chat_id)
    if given.ids is None:
        found = sessions_of(state, caller, chat)
    else:
        found = [session_of(state, caller, chat_id, id)[1] for id in set(given.ids)]
    for one in found:
        conversations.delete(state, caller, one.id)
    return wire.ok({"sessions": len(found)})


# ------------------------------------------------------------------------------------------------ finding


def visible(state: State, caller: Caller) -> list[Chat]:
    """The caller's chats: with a key for some collections, those that ask no other."""
    found = state.ledger.chats.of(caller.owner)
    if not caller.collections:
        return found
    known = {one.id for one in reach.datasets(state, caller)}
    return [one for one in found if known.issuperset(one.told.get("search", {}).get("dataset_ids") or ())]


def chat_by_id(state: State, caller: Caller, id: str) -> Chat:
    """One of them; NotFound for any other."""
    found = next((one for one in visible(state, caller) if one.id == id), None)
    if found is None:
        raise NotFound(f"no chat has the id {id!r}; list the chats to see those that exist")
    return found


def either(state: State, caller: Caller, id: str) -> Chat | Conversation:
    """A chat, or a conversation that belongs to none."""
    try:
        return chat_by_id(state, caller, id)
    except NotFound:
        if state.ledger.chats.chat_of(caller.owner, id):
            raise
    try:
        return reach.conversation(state, caller, id)
    except NotFound:
        raise NotFound(f"no chat has the id {id!r}; list the chats to see those that exist") from None


def session_of(state: State, caller: Caller, chat_id: str, id: str) -> tuple[Chat | None, Conversation]:
    """A session of a chat; a conversation that belongs to none is the one session of itself."""
    found = either(state, caller, chat_id)
    if isinstance(found, Conversation):
        if id == found.id:
            return None, found
    elif state.ledger.chats.chat_of(caller.owner, id) == found.id:
        return found, reach.conversation(state, caller, id)
    raise NotFound(f"no session of this chat has the id {id!r}; list its sessions to see those that exist")


def sessions_of(state: State, caller: Caller, chat: Chat) -> list[Conversation]:
    """The conversations of a chat that the caller may know of, with what was said."""
    return [one for one in _every_session(state, caller, chat) if reach.reads(state, caller, one)]


def _every_session(state: State, caller: Caller, chat: Chat) -> list[Conversation]:
    kept = reach.view(state, caller).conversations
    found = []
    for id in state.ledger.chats.sessions(caller.owner, chat.id):
        try:
            found.append(kept.get(id))
        except NotFound:  # deleted by somebody who knows nothing of chats
            state.ledger.chats.leave(caller.owner, [id])
    return found


def begun(state: State, caller: Caller, chat: Chat, name: str) -> Conversation:
    """A new conversation of a chat."""
    made = reach.view(state, caller).conversations.create(name)
    state.ledger.chats.join(caller.owner, chat.id, made.id)
    return made


def delete_chat(state: State, caller: Caller, chat: Chat) -> None:
    """A chat and its conversations are gone."""
    for one in _every_session(state, caller, chat):
        reach.view(state, caller).conversations.delete(one.id)
    state.ledger.chats.delete(caller.owner, chat.id)


# ------------------------------------------------------------------------------------------------ shapes


def _session(state: State, caller: Caller, chat: Chat | None, found: Conversation) -> dict[str, Any]:
    """A conversation, as clients of RAGFlow know it."""
    shown = conversations.shape(state, caller, found)
    opener = str(chat.told.get("prompt", {}).get("opener") or "") if chat is not None else ""
    first = [{"role": "assistant", "content": opener}] if opener else []
    said = [_message(turn, told) for turn, told in zip(found.turns, shown["turns"], strict=True)]
    named = {"id": found.id, "chat_id": chat.id if chat is not None else found.id, "name": found.title}
    return {**shown, **named, **times(found), "messages": [*first, *said]}


def _message(turn: Turn, told: dict[str, Any]) -> dict[str, Any]:
    plain = {"role": turn.role, "content": told["content"], "id": told["answer_id"] or None}
    if turn.role == "user":
        return plain
    quotes = [
        {"content": one["quote"], "document_id": one["document_id"], "document_name": one["title"] or one["uri"]}
        for one in told["citations"]
    ]
    return {**plain, "reference": quotes}


def times(found: Chat | Conversation) -> dict[str, Any]:
    """When something came about and was last changed, in both forms."""
    created, updated = found.created, found.updated
    return {
        "created": created,
        "updated": updated,
        "create_time": wire.milliseconds(created),
        "update_time": wire.milliseconds(updated),
    }


def when(found: Chat | Conversation, orderby: Order) -> str:
    """The same, for putting them in order."""
    return found.created if orderby == "create_time" else found.updated
