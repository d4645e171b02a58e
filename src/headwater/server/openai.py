"""The routes that clients of OpenAI know: models, chat completions and embeddings, answered from the documents."""

import base64
import json
import secrets
import time
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from headwater import shapes
from headwater.errors import HeadwaterError, NotFound, UsageError
from headwater.messages import Message
from headwater.server import dialogue, wire
from headwater.server.answers import remember, whole
from headwater.server.asking import Asked
from headwater.server.auth import Caller, Reader
from headwater.server.state import Shared, State
from headwater.server.streams import Streamed
from headwater.types import Answer, Event
from headwater.write import counted

MAX_MESSAGES = 1000
MAX_INPUTS = 2048  # of one request for embeddings, as OpenAI has it
MAX_INPUT_CHARS = 100_000
MAX_MESSAGE_CHARS = 1_000_000
_DONE = "data: [DONE]\n\n"
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Told(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str | None
    param: str | None


class Failed(BaseModel):
    """What a call under /v1 answers that did not go well."""

    error: Told


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failed, "description": said["description"]} for status, said in wire.ERRORS.items()
}
router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)


class Part(wire.Body):
    """A piece of a message. Only text is read."""

    type: str = Field(max_length=50)
    text: str = Field(default="", max_length=MAX_MESSAGE_CHARS)


class Said(wire.Body):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None

    def text(self) -> str:
        """What it says."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class StreamOptions(wire.Body):
    """What else a stream holds."""

    include_usage: bool = False


class Completion(Asked):
    """A conversation to go on with. What OpenAI's models are told beside it (temperature, tools ...) is not read."""

    model_config = wire.examples(
        {"model": "headwater", "messages": [{"role": "user", "content": "How long is parental leave?"}]}
    )
    model: Name
    messages: list[Said] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = None
    use_knowledge_base: bool = True


class Texts(wire.Body):
    """Texts to turn into vectors."""

    model_config = wire.examples({"model": "headwater", "input": ["How long is parental leave?"]})
    model: Name
    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1, le=100_000)
    role: Literal["query", "passage"] = "passage"  # ours: what the texts are for, where the model asks


class Model(BaseModel):
    """A name that a request may give."""

    model_config = ConfigDict(extra="allow")
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class Models(BaseModel):
    """All of them."""

    object: Literal["list"] = "list"
    data: list[Model]


class Answered(BaseModel):
    """A chat completion, with `citations` and what else is known of the answer beside it."""

    model_config = ConfigDict(extra="allow")
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


class Vectors(BaseModel):
    """Embeddings, in the order of the texts."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    model: str
    usage: dict[str, Any]


# --------------------------------------------------------------------------------------------- models


@router.get("/models", response_model=Models, summary="List models")
def list_models(state: Shared, caller: Reader) -> JSONResponse:
    """`headwater`, which is what the settings say, and every other model that is set up."""
    return JSONResponse({"object": "list", "data": [_model(name) for name in dialogue.models(state)]})


@router.get("/models/{model}", response_model=Model, summary="A model")
def one_model(state: Shared, caller: Reader, model: Name) -> JSONResponse:
    """One of those."""
    dialogue.checked_model(state, model)
    return JSONResponse(_model(model))


def _model(name: str) -> dict[str, Any]:
    # When it came about is not known; a time that does not change is what clients can keep.
    return {"id": name, "object": "model", "created": 0, "owned_by": "headwater"}


# ----------------------------------------------------------------------------------------------- chat


@router.post(
    "/chat/completions",
    summary="Go on with a conversation",
    response_model=Answered,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def complete(state: Shared, caller: Reader, given: Completion) -> Any:
    """The answer from the documents that the caller may see, whole or as chunks; with its citations."""
    said = [Message(role=_role(one.role), content=one.text()) for one in given.messages]
    events = await state.retrieval.run(
        lambda: dialogue.prepared(
            state,
            caller,
            given,
            said=said,
            llm=dialogue.checked_model(state, given.model),
            use_knowledge_base=given.use_knowledge_base,
        ),
        deadline_seconds=state.settings.deadline_seconds,
    )
    head = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": given.model}
    if given.stream:
        lines = _lines(state, caller, events, head=head, said=said, options=given.stream_options or StreamOptions())
        return Streamed(state, lines, shape=str, failed=_failed_line)
    answer = await whole(state, events)
    remember(state, caller, answer)
    message = {"role": "assistant", "content": answer.text, "refusal": None, "citations": _citations(answer)}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    usage = dialogue.tokens(answer, said).shape()
    return JSONResponse({**head, "object": "chat.completion", "choices": [choice], "usage": usage, **_beside(answer)})


def _lines(
    state: State, caller: Caller, events: Iterator[Event], *, head: dict[str, Any], said: list[Message], options: Any
) -> Iterator[str]:
    """The events of an answer as chunks, and the mark that ends them."""
    growing = dialogue.Growing()

    def chunk(delta: dict[str, Any], *, finish: str | None = None, **beside: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        usage = {"usage": None} if options.include_usage else {}
        return _data({**head, "object": "chat.completion.chunk", "choices": [choice], **usage, **beside})

    yield chunk({"role": "assistant", "content": ""})
    for event in events:
        if text := growing.add(event):
            yield chunk({"content": text})
        if isinstance(event, Answer):
            remember(state, caller, event)
            yield chunk({}, finish="stop", **_beside(event))
            if options.include_usage:
                usage = dialogue.tokens(event, said).shape()
                yield _data({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    yield _DONE


def _failed_line(error: HeadwaterError) -> str:
    name = wire.fault_of(error).name
    return _data({"error": {"message": str(error), "type": name.lower(), "code": name, "param": None}}) + _DONE


def _beside(answer: Answer) -> dict[str, Any]:
    """What is ours: clients that do not know it leave it alone."""
    verdict = {"accepted": answer.verdict.accepted, "reason": answer.verdict.reason}
    told = {
        "answer": answer.text,
        "answer_id": answer.id,
        "refused": answer.refused,
        "verdict": verdict,
        "corrected": dict(answer.corrected),
        "degraded": list(answer.degraded),
    }
    return {"citations": _citations(answer), "headwater": told}


def _citations(answer: Answer) -> list[dict[str, Any]]:
    return [shapes.citation_shape(one) for one in answer.citations]


def _role(name: str) -> Literal["system", "user", "assistant", "tool"]:
    known: dict[str, Literal["system", "user", "assistant", "tool"]] = {
        "user": "user",
        "assistant": "assistant",
        "tool": "tool",
        "function": "tool",
    }
    return known.get(name, "system")


def _data(value: Any) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n"


# ----------------------------------------------------------------------------------------- embeddings


@router.post("/embeddings", response_model=Vectors, summary="Turn texts into vectors")
async def embed(state: Shared, caller: Reader, given: Texts) -> JSONResponse:
    """By the embedder of this home. `dimensions` keeps the first so many and makes the length 1 again."""
    texts = _texts(given.input)
    if given.model not in (dialogue.MODEL, state.kb.embedder.fingerprint):
        known = f"{dialogue.MODEL}, {state.kb.embedder.fingerprint}"
        raise NotFound(f"no embedding model is named {given.model!r}; there are: {known}")
    size = given.dimensions or state.kb.embedder.dim
    if size > state.kb.embedder.dim:
        raise UsageError(f"the vectors here have {state.kb.embedder.dim} dimensions, got dimensions {size}")
    rows = await state.retrieval.run(
        lambda: _embedded(state, texts, given.role, size), deadline_seconds=state.settings.deadline_seconds
    )
    packed = given.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": place, "embedding": _base64(row) if packed else row.tolist()}
        for place, row in enumerate(rows)
    ]
    count = sum(counted(None, text) for text in texts)
    usage = {"prompt_tokens": count, "total_tokens": count}
    return JSONResponse({"object": "list", "data": data, "model": given.model, "usage": usage})


def _texts(given: str | list[str] | list[int] | list[list[int]]) -> list[str]:
    listed = [given] if isinstance(given, str) else list(given)
    texts = [one for one in listed if isinstance(one, str)]
    if len(texts) < len(listed):
        raise UsageError("input must be text; numbers of tokens mean something to one tokenizer only")
    if not texts or not all(texts):
        raise UsageError("input needs at least one text, and none that is empty")
    if len(texts) > MAX_INPUTS or sum(map(len, texts)) > MAX_INPUT_CHARS * 10:
        raise UsageError(f"input may hold {MAX_INPUTS} texts and {MAX_INPUT_CHARS * 10} characters, got {len(texts)}")
    return texts


def _embedded(state: State, texts: list[str], role: Literal["query", "passage"], size: int) -> Any:
    import numpy as np

    rows = np.asarray(state.kb.embedder.embed(texts, role), dtype="<f4")[:, :size]
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def _base64(row: Any) -> str:
    return base64.b64encode(row.tobytes()).decode("ascii")
