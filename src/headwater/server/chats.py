"""Chats over HTTP, as clients of RAGFlow know them: which datasets, model and options a conversation is answered with.

A conversation that belongs to no chat is found here too, under its own id.
"""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import NotFound, UsageError
from headwater.server import conversations, dialogue, reach, sessions, wire
from headwater.server.asking import Asked
from headwater.server.auth import Caller, Forbidden, Reader, Writer
from headwater.server.conversations import STREAMS, Said
from headwater.server.sessions import Order, Page, PageSize
from headwater.server.state import Shared, State
from headwater.storage.ledger import Chat
from headwater.turns import Conversation

router = APIRouter(prefix="/api/v1", tags=["chats"], responses=wire.ERRORS)
# Of a search, what a chat keeps of the request that made it.
KEPT = frozenset(Asked.model_fields) - {"conversation_id", "page", "page_size"}


class Model(wire.Body):
    """What writes. Only the name is read: how it writes is told by this home."""

    model_name: str | None = Field(default=None, max_length=200)
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_tokens: int | None = None


class Prompt(wire.Body):
    """How to search, and what to say around an answer. The instructions to the model are this home's own."""

    similarity_threshold: float | None = Field(default=None, ge=0, le=1)
    keywords_similarity_weight: float | None = Field(default=None, ge=0, le=1)
    top_n: int | None = Field(default=None, ge=1, le=1000)
    top_k: int | None = Field(default=None, ge=1, le=10_000)
    rerank_model: str | None = Field(default=None, max_length=200)
    empty_response: str | None = Field(default=None, max_length=10_000)  # instead of the words of a refusal
    opener: str | None = Field(default=None, max_length=10_000)  # what a session begins with
    show_quote: bool | None = None  # with the passages
    prompt: str | None = Field(default=None, max_length=100_000)


class ChatChanges(Asked):
    """What a chat is to be. All options of a search may stand beside it; what is not said stays as it is."""

    model_config = wire.examples({"name": "Handbook", "dataset_ids": ["3868d5b1cf1f9a4b49e4"]})
    name: str | None = Field(default=None, min_length=1, max_length=255, pattern=r"\S")
    avatar: str | None = Field(default=None, max_length=100_000)
    description: str | None = Field(default=None, max_length=4000)
    llm: Model | Annotated[str, Field(max_length=200)] | None = None
    prompt: Prompt | None = None


class NewChat(ChatChanges):
    """A chat to make, by its `name`; or, by a `question`, the first message of a conversation without one."""

    question: str | None = Field(default=None, max_length=10_000)
    stream: bool = False
    use_knowledge_base: bool = True


@router.post("/chats", response_model=wire.Success, responses=STREAMS, summary="Make a chat, or say something")
async def create(state: Shared, caller: Reader, given: NewChat) -> Any:
    """With a `name` a chat is made; with a `question` alone it is answered as `POST /conversations` does."""
    if given.name is None:
        if not given.question:
            raise UsageError("a chat needs a name; to say something without making one, send a question")
        told = given.model_dump(exclude_unset=True, include=set(Said.model_fields) - {"llm"})
        return await conversations.say(state, caller, Said(**told, llm=_model_name(given.llm)))
    _may_write(caller)
    return wire.ok(
        _shape(state, state.ledger.chats.create(caller.owner, given.name.strip(), _told(state, caller, given)))
    )


@router.get("/chats", response_model=wire.Success, summary="List chats")
def listed(
    *,
    state: Shared,
    caller: Reader,
    page: Page = 1,
    page_size: PageSize = 30,
    orderby: Order = "create_time",
    desc: bool = True,
    id: str | None = None,
    name: str | None = None,
) -> JSONResponse:
    """The owner's own; with a key for some collections, those that ask no other."""
    found = sessions.visible(state, caller)
    if id or name:
        found = [one for one in found if one.id == (id or one.id) and one.name == (name or one.name)]
        if not found:
            raise NotFound(f"no chat has the {'id' if id else 'name'} {id or name!r}")
    found.sort(key=lambda one: (sessions.when(one, orderby), one.id), reverse=desc)
    start = (page - 1) * page_size
    return wire.ok([_shape(state, one) for one in found[start : start + page_size]], total=len(found))


@router.delete("/chats", response_model=wire.Success, summary="Delete chats")
def delete_several(state: Shared, caller: Writer, given: wire.Ids) -> JSONResponse:
    """With their sessions. Without `ids`, all of them."""
    found = (
        sessions.visible(state, caller)
        if given.ids is None
        else [sessions.chat_by_id(state, caller, id) for id in set(given.ids)]
    )
    for one in found:
        sessions.delete_chat(state, caller, one)
    return wire.ok({"chats": len(found)})


@router.get("/chats/{chat_id}", response_model=wire.Success, summary="A chat, or a conversation")
def one(state: Shared, caller: Reader, chat_id: str) -> JSONResponse:
    """A chat as it is set up; a conversation without one, by its id, with all that was said."""
    found = sessions.either(state, caller, chat_id)
    return wire.ok(_shape(state, found)) if isinstance(found, Chat) else conversations.one(state, caller, chat_id)


@router.put("/chats/{chat_id}", response_model=wire.Success, summary="Change a chat")
def update(state: Shared, caller: Reader, chat_id: str, given: ChatChanges) -> JSONResponse:
    """Its name, datasets, model or options; of a conversation without one, its title."""
    found = sessions.either(state, caller, chat_id)
    if isinstance(found, Conversation):
        if given.name is None:
            raise UsageError("a conversation without a chat has only a name to change")
        reach.view(state, caller).conversations.rename(chat_id, given.name)
        return wire.ok({"id": chat_id})
    _may_write(caller)
    changed = _told(state, caller, given)
    told = {name: {**found.told.get(name, {}), **changed.get(name, {})} for name in ("llm", "prompt", "search")}
    plain = {name: changed.get(name, found.told.get(name, "")) for name in ("avatar", "description")}
    state.ledger.chats.update(replace(found, name=(given.name or found.name).strip(), told={**told, **plain}))
    return wire.ok(_shape(state, sessions.chat_by_id(state, caller, chat_id)))


@router.delete("/chats/{chat_id}", response_model=wire.Success, summary="Delete a chat")
def delete(state: Shared, caller: Reader, chat_id: str) -> JSONResponse:
    """With its sessions, or a conversation without a chat."""
    found = sessions.either(state, caller, chat_id)
    if isinstance(found, Conversation):
        return conversations.delete(state, caller, chat_id)
    _may_write(caller)
    sessions.delete_chat(state, caller, found)
    return wire.ok({"id": chat_id})


def _may_write(caller: Caller) -> None:
    if not caller.may("write"):
        raise Forbidden(f"chats are made and changed with a key with the right to write; yours is for {caller.rights}")


def _told(state: State, caller: Caller, given: ChatChanges) -> dict[str, Any]:
    """What a request says of a chat, checked: its datasets are there, and its model."""
    for id in dict.fromkeys([*(given.dataset_ids or ()), *(given.kb_ids or ())]):
        reach.dataset(state, caller, id)
    if name := _model_name(given.llm):
        dialogue.checked_model(state, name)
    asked = given.model_dump(exclude_unset=True, include=set(KEPT))
    llm = {"model_name": given.llm} if isinstance(given.llm, str) else given.llm.model_dump() if given.llm else {}
    told: dict[str, Any] = {"llm": llm, "search": asked}
    told["prompt"] = given.prompt.model_dump(exclude_unset=True) if given.prompt else {}
    return told | given.model_dump(exclude_none=True, include={"avatar", "description"})


def _model_name(given: Model | str | None) -> str | None:
    return given.model_name if isinstance(given, Model) else given


def _shape(state: State, chat: Chat) -> dict[str, Any]:
    """A chat, as clients of RAGFlow know it."""
    ids: list[str] = list(chat.told.get("search", {}).get("dataset_ids") or ())
    datasets = [found for id in ids if (found := state.ledger.datasets.get(id)) is not None]
    return {
        "id": chat.id,
        "name": chat.name,
        "avatar": chat.told.get("avatar", ""),
        "description": chat.told.get("description", ""),
        "dataset_ids": ids,
        "datasets": [{"id": one.id, "name": one.name, "collection": one.collection} for one in datasets],
        "llm": dict(chat.told.get("llm", {})),
        "prompt": dict(chat.told.get("prompt", {})),
        "prompt_type": "simple",
        "search": dict(chat.told.get("search", {})),
        "status": "1",
        "tenant_id": chat.owner,
        **sessions.times(chat),
    }
