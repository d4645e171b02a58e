"""`POST /api/chat`: a conversation as the Vercel AI SDK sends it -> its UI message stream, which `useChat` reads."""

import json
import secrets
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import Field

from headwater import shapes
from headwater.converse import SEARCH_NAMES
from headwater.errors import HeadwaterError
from headwater.messages import Message
from headwater.server import dialogue, wire
from headwater.server.answers import remember
from headwater.server.asking import Asked
from headwater.server.auth import Caller, Reader
from headwater.server.state import Shared, State
from headwater.server.streams import STREAM_HEADERS, Streamed
from headwater.types import Answer, Citation, Event, Restart, Sentence, Step

router = APIRouter(tags=["vercel"], responses=wire.ERRORS)
HEADERS = {**STREAM_HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
MAX_MESSAGES = 1000
MAX_PARTS = 1000
MAX_PART_CHARS = 1_000_000
EXCERPT_CHARS = 500  # of a passage, in what a tool found
_DONE = "data: [DONE]\n\n"


class Part(wire.Body):
    """A piece of a message. Only text is read; what was found before is searched for again."""

    type: str = Field(max_length=200)
    text: str = Field(default="", max_length=MAX_PART_CHARS)


class Said(wire.Body):
    """A message of the conversation, by its parts; by its `content` in earlier versions of the SDK."""

    role: Literal["system", "user", "assistant"]
    parts: list[Part] | None = Field(default=None, max_length=MAX_PARTS)
    content: str = Field(default="", max_length=MAX_PART_CHARS)

    def text(self) -> str:
        """What it says."""
        found = [part.text for part in self.parts or () if part.type == "text" and part.text]
        return "\n".join(found) or self.content


class Chat(Asked):
    """What `useChat` sends. All options of a search may stand beside it, in its `body`."""

    model_config = wire.examples(
        {
            "id": "c1",
            "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "How long is the leave?"}]}],
            "selectedChatModel": "headwater",
            "useKnowledgeBase": True,
        }
    )
    id: str = Field(default="", max_length=200)
    messages: list[Said] = Field(min_length=1, max_length=MAX_MESSAGES)
    selectedChatModel: str = Field(default=dialogue.MODEL, min_length=1, max_length=200)
    useKnowledgeBase: bool = True


@router.post(
    "/api/chat",
    summary="Chat, for the Vercel AI SDK",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The stream."}},
)
async def chat(state: Shared, caller: Reader, given: Chat) -> StreamingResponse:
    """The answer as a UI message stream, version 1: text as it is checked, then its sources and `data-citations`."""
    said = [Message(role=one.role, content=one.text()) for one in given.messages]
    events = await state.retrieval.run(
        lambda: dialogue.prepared(
            state,
            caller,
            given,
            said=said,
            llm=dialogue.checked_model(state, given.selectedChatModel),
            use_knowledge_base=given.useKnowledgeBase,
        ),
        deadline_seconds=state.settings.deadline_seconds,
    )
    telling = _Telling()

    def failed(error: HeadwaterError) -> str:
        return "".join(map(_data, telling.failed(str(error)))) + _DONE

    lines = _lines(state, caller, events, telling=telling)
    return Streamed(state, lines, shape=str, failed=failed, headers=HEADERS)


def _lines(state: State, caller: Caller, events: Iterator[Event], *, telling: "_Telling") -> Iterator[str]:
    yield from map(_data, telling.begin())
    for event in events:
        if isinstance(event, Answer):
            remember(state, caller, event)
        yield from map(_data, telling.about(event))
    yield _DONE


class _Telling:
    """Events -> parts of the stream, every one that is begun also ended."""

    def __init__(self) -> None:
        self._growing = dialogue.Growing()
        self._texts = 0
        self._open = ""  # the text that is being written, by its id
        self._calls: list[str] = []  # of tools, that have no output yet

    def begin(self) -> Iterator[dict[str, Any]]:
        """What every stream begins with."""
        yield {"type": "start", "messageId": f"msg-{secrets.token_hex(12)}"}
        yield {"type": "start-step"}

    def about(self, event: Event) -> Iterator[dict[str, Any]]:
        """The parts for one event."""
        if isinstance(event, Step):
            yield from self._step(event)
        elif isinstance(event, Sentence):
            yield from self._text(self._growing.add(event))
        elif isinstance(event, Restart):
            withdrawn = self._open
            self._growing.add(event)
            yield from self._end_text()
            if withdrawn:
                yield {"type": "data-restart", "data": {"withdrawn": withdrawn, "reason": event.reason}}
        else:
            yield from self._answer(event)

    def failed(self, reason: str) -> Iterator[dict[str, Any]]:
        """The parts for an error; nothing follows but the mark."""
        yield from self._end_text()
        for call in self._calls:
            yield {"type": "tool-output-error", "toolCallId": call, "errorText": reason}
        yield {"type": "error", "errorText": reason}

    def _step(self, step: Step) -> Iterator[dict[str, Any]]:
        name, _, question = step.note.partition(": ")
        if step.stage == "retrieve" and name in SEARCH_NAMES:
            self._calls.append(f"call-{secrets.token_hex(8)}")
            told = {"toolCallId": self._calls[-1], "toolName": name, "providerExecuted": True}
            yield {"type": "tool-input-start", **told}
            yield {"type": "tool-input-available", **told, "input": {"question": question}}
        data = {"stage": step.stage, "milliseconds": step.milliseconds, "note": step.note}
        yield {"type": "data-step", "data": data, "transient": True}

    def _text(self, text: str) -> Iterator[dict[str, Any]]:
        if not text:
            return
        if not self._open:
            self._texts += 1
            self._open = f"text-{self._texts}"
            yield {"type": "text-start", "id": self._open}
        yield {"type": "text-delta", "id": self._open, "delta": text}

    def _end_text(self) -> Iterator[dict[str, Any]]:
        if self._open:
            yield {"type": "text-end", "id": self._open}
            self._open = ""

    def _answer(self, answer: Answer) -> Iterator[dict[str, Any]]:
        yield from self._text(self._growing.add(answer))
        yield from self._end_text()
        passages = [
            {"id": hit.chunk.name, "title": hit.title, "url": hit.uri, "text": hit.chunk.text[:EXCERPT_CHARS]}
            for hit in answer.hits
        ]
        for call in self._calls:
            output = {"passages": passages}
            yield {"type": "tool-output-available", "toolCallId": call, "output": output, "providerExecuted": True}
        self._calls = []
        for citation in answer.citations:
            yield _source(citation)
        yield {"type": "data-citations", "data": [shapes.citation_shape(one) for one in answer.citations]}
        verdict = {"accepted": answer.verdict.accepted, "reason": answer.verdict.reason}
        beside = {"corrected": dict(answer.corrected), "degraded": list(answer.degraded)}
        yield {"type": "data-verdict", "data": {**verdict, **beside}}
        yield {"type": "finish-step"}
        metadata = {"answerId": answer.id, "model": answer.model, "refused": answer.refused}
        yield {"type": "finish", "finishReason": "stop", "messageMetadata": metadata}


def _source(citation: Citation) -> dict[str, Any]:
    """A page by its address, anything else as a document; the number in the text is the source's id."""
    named = {"sourceId": str(citation.marker), "title": citation.title or citation.uri}
    where = {"document_id": citation.document_id, "span": list(citation.span), "quote": citation.quote}
    beside = {"providerMetadata": {"headwater": {**where, "pages": list(citation.pages)}}}
    if urlsplit(citation.uri).scheme in ("http", "https"):
        return {"type": "source-url", **named, "url": citation.uri, **beside}
    file = PurePosixPath(citation.uri).name
    return {"type": "source-document", **named, "mediaType": "text/plain", "filename": file, **beside}


def _data(part: dict[str, Any]) -> str:
    return f"data: {json.dumps(part, ensure_ascii=False)}\n\n"
