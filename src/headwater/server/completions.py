"""What is said in a chat -> its answer in the shape that clients of RAGFlow read, whole or as it comes about."""

import json
import time
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from headwater import shapes
from headwater.errors import HeadwaterError, UsageError
from headwater.server import conversations, dialogue, holdings, sessions, wire
from headwater.server.answers import remember, whole
from headwater.server.asking import Asked
from headwater.server.auth import Caller, Reader
from headwater.server.chats import KEPT
from headwater.server.conversations import STREAMS, Said
from headwater.server.similarity import similarities
from headwater.server.state import Shared, State
from headwater.server.streams import Streamed
from headwater.storage.ledger import Chat
from headwater.turns import Conversation
from headwater.types import Answer, Event, Sentence

router = APIRouter(prefix="/api/v1", tags=["chats"], responses=wire.ERRORS)
NEW = "New session"
# What a chat's `prompt` says of a search, and what that is called in a request.
_PROMPTED = {
    "similarity_threshold": "similarity_threshold",
    "keywords_similarity_weight": "keywords_similarity_weight",
    "top_n": "top_n",
    "top_k": "top_k",
    "rerank_model": "rerank_id",
}


class Completion(Asked):
    """The next message of a session; of a new one without `session_id`."""

    model_config = wire.examples({"question": "How long is parental leave?", "stream": False, "session_id": ""})
    question: str = Field(default="", max_length=10_000)
    session_id: str = Field(default="", max_length=200)
    stream: bool = True  # as RAGFlow has it
    use_knowledge_base: bool = True


@router.post(
    "/chats/{chat_id}/completions", response_model=wire.Success, responses=STREAMS, summary="Say something in a chat"
)
async def complete(state: Shared, caller: Reader, chat_id: str, given: Completion) -> Any:
    """`{answer, reference, session_id}`; streamed, the answer as far as it has come, and `true` at the end."""
    told = await state.retrieval.run(
        lambda: _Telling(state, caller, chat_id, given), deadline_seconds=state.settings.deadline_seconds
    )
    if given.stream:
        return Streamed(state, told.lines(), shape=str, failed=told.failed)
    if not given.question:
        return wire.ok(await state.retrieval.run(told.opened, deadline_seconds=state.settings.deadline_seconds))
    answer = await whole(state, told.events())
    remember(state, caller, answer)
    return wire.ok(told.answered(answer))


class _Telling:
    """One message and what is told of its answer. What is wrong with the request is raised when it is made."""

    def __init__(self, state: State, caller: Caller, chat_id: str, given: Completion) -> None:
        self._state, self._caller = state, caller
        found = sessions.either(state, caller, chat_id)
        self._chat = found if isinstance(found, Chat) else None
        self._id = found.id if isinstance(found, Conversation) else given.session_id
        if self._chat is not None and self._id:
            sessions.session_of(state, caller, chat_id, self._id)
        if not given.question and (self._id or self._chat is None):
            raise UsageError("a message needs a question; only a new session begins without one")
        self._prompt: dict[str, Any] = dict(self._chat.told.get("prompt", {})) if self._chat is not None else {}
        self._said = self._asked(given) if given.question else None
        if self._said is not None:
            conversations.prepared(state, caller, self._said)

    def _asked(self, given: Completion) -> Said:
        """What the chat says, and over it what the request does."""
        told: dict[str, Any] = {}
        if self._chat is not None:
            told |= self._chat.told.get("search", {})
            prompted = {name: self._prompt.get(said) for said, name in _PROMPTED.items()}
            told |= {name: value for name, value in prompted.items() if value not in (None, "")}
            told["llm"] = self._chat.told.get("llm", {}).get("model_name")
        told |= given.model_dump(exclude_unset=True, include={*KEPT, "use_knowledge_base"})
        return Said(**{**told, "question": given.question, "conversation_id": self._id})

    def events(self) -> Iterator[Event]:
        """The events of the answer. A new session begins with the first of them."""
        assert self._said is not None
        if self._chat is not None and not self._id:
            self._id = sessions.begun(self._state, self._caller, self._chat, self._said.question).id
        said = self._said.model_copy(update={"conversation_id": self._id})
        yield from conversations.prepared(self._state, self._caller, said)

    def opened(self) -> dict[str, Any]:
        """A new session, and what it begins with."""
        assert self._chat is not None
        self._id = sessions.begun(self._state, self._caller, self._chat, NEW).id
        return self._shape(str(self._prompt.get("opener") or ""))

    def lines(self) -> Iterator[str]:
        """The answer as far as it has come, after every event that changes it."""
        if self._said is None:
            yield _line(self.opened())
        else:
            growing = dialogue.Growing()
            for event in self.events():
                growing.add(event)
                if isinstance(event, Answer):
                    remember(self._state, self._caller, event)
                    yield _line(self.answered(event))
                elif isinstance(event, Sentence):
                    yield _line(self._shape(growing.text))
        yield _line(True)

    def failed(self, error: HeadwaterError) -> str:
        """The last lines of a stream that went wrong."""
        name = wire.fault_of(error).name
        told = {"answer": f"**ERROR**: {error}", "reference": {}}
        body = {"code": wire.CODES[name], "error": name, "message": str(error), "data": told}
        return f"data:{json.dumps(body, ensure_ascii=False)}\n\n{_line(True)}"

    def answered(self, answer: Answer) -> dict[str, Any]:
        """The whole answer, with the passages and citations behind it."""
        quotes = self._prompt.get("show_quote", True)
        text = str(self._prompt.get("empty_response") or answer.text) if answer.refused else answer.text
        beside = {
            "id": answer.id,
            "citations": [shapes.citation_shape(one) for one in answer.citations] if quotes else [],
            "refused": answer.refused,
            "corrected": dict(answer.corrected),
            "degraded": list(answer.degraded),
            "model": answer.model,
        }
        return {**self._shape(text), "reference": _reference(self._state, answer) if quotes else {}, **beside}

    def _shape(self, text: str) -> dict[str, Any]:
        told: dict[str, Any] = {"answer": text, "reference": {}, "prompt": "", "audio_binary": None, "id": None}
        return {**told, "session_id": self._id, "created_at": time.time()}


def _line(data: Any) -> str:
    return f"data:{json.dumps({'code': 0, 'message': '', 'data': data}, ensure_ascii=False)}\n\n"


def _reference(state: State, answer: Answer) -> dict[str, Any]:
    pairs = {(hit.record.owner, hit.record.collection) for hit in answer.hits}
    ids = {(owner, name): state.ledger.datasets.ensure(owner, name).id for owner, name in pairs}
    counts: dict[tuple[str, str], int] = {}
    names = holdings.names(state, {hit.document_id: (hit.uri, hit.title) for hit in answer.hits})
    for hit in answer.hits:
        key = (hit.document_id, names[hit.document_id])
        counts[key] = counts.get(key, 0) + 1
    chunks = [
        wire.hit_shape(
            hit,
            dataset_id=ids[hit.record.owner, hit.record.collection],
            name=names[hit.document_id],
            highlight=False,
            similarity=similarity,
        )
        for hit, similarity in zip(answer.hits, similarities(answer.hits, "hybrid"), strict=True)
    ]
    aggregates = [{"doc_id": id, "doc_name": name, "count": count} for (id, name), count in counts.items()]
    return {"total": len(chunks), "chunks": chunks, "doc_aggs": aggregates}
