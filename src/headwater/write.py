"""A language model and a prompt -> what it writes: text piece by piece, all of it at once, or a JSON object.

A model that says nothing has failed: BackendError, like an endpoint that cannot be reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from headwater.errors import BackendError
from headwater.mend import mended_object
from headwater.messages import Message, Piece, Tool, ToolCall, Usage
from headwater.protocols import LanguageModel
from headwater.tokens import count_tokens
from headwater.wording import Prompt

# What a rewritten question, a verdict or a list of queries needs at most.
SHORT_TOKENS: Final = 400
# A model asked for a short thing that takes longer than this holds the person up more than it helps.
SHORT_SECONDS: Final = 20.0
# Kept free of what a model can be shown: counts are estimates, and chats have marks of their own around messages.
MARGIN: Final = 0.1
LEAST_REPLY_TOKENS: Final = 128

NOTES: Final[Mapping[str, str]] = {
    "length": "the model's answer was cut off at its limit of tokens",
    "content_filter": "the model's service left out a part of the answer (content filter)",
    "": "the model's answer ended without a sign that it was complete",
}


class Writing:
    """One reply as it comes. Iterates over its text; the rest is known when that has ended."""

    def __init__(
        self,
        model: LanguageModel,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        deadline_seconds: float | None = None,
    ) -> None:
        self.model = model
        self.tool_calls: tuple[ToolCall, ...] = ()
        self.usage = Usage()
        self.finish = ""
        seconds = getattr(model, "timeout_seconds", 60.0) if deadline_seconds is None else deadline_seconds
        self._pieces: Iterator[Piece] = model.stream(
            messages, tools=tools, schema=schema, max_tokens=max_tokens, deadline_seconds=seconds
        )

    def __iter__(self) -> Iterator[str]:
        said = False
        for piece in self._pieces:
            self.tool_calls += piece.tool_calls
            self.usage = piece.usage or self.usage
            self.finish = piece.finish or self.finish
            if piece.text:
                said = said or not piece.text.isspace()
                yield piece.text
        if not said and not self.tool_calls:
            raise BackendError(f"{self.model.name} said nothing; try again, or choose another model")

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the text should know about how it ended."""
        return (NOTES[self.finish],) if self.finish in NOTES else ()


def messages_of(prompt: Prompt, history: Sequence[Message] = ()) -> list[Message]:
    """System, what was said before, and the request."""
    system = [Message(role="system", content=prompt.system)] if prompt.system else []
    return [*system, *history, Message(role="user", content=prompt.user)]


def said(model: LanguageModel, prompt: Prompt, *, deadline_seconds: float = SHORT_SECONDS) -> str:
    """A short reply, whole."""
    writing = Writing(model, messages_of(prompt), max_tokens=SHORT_TOKENS, deadline_seconds=deadline_seconds)
    return "".join(writing).strip()


def said_object(
    model: LanguageModel, prompt: Prompt, *, schema: Mapping[str, Any], deadline_seconds: float = SHORT_SECONDS
) -> dict[str, Any]:
    """A reply that is a JSON object, mended where it is broken; BackendError where it is none."""
    writing = Writing(
        model, messages_of(prompt), schema=schema, max_tokens=SHORT_TOKENS, deadline_seconds=deadline_seconds
    )
    text = "".join(writing)
    try:
        return mended_object(text)
    except ValueError as error:
        raise BackendError(f"{model.name} was asked for JSON: {error}") from None


def spent(usage: Usage) -> str:
    """What a reply took, for the end of a note; empty where nothing is known."""
    known = usage.input_tokens or usage.output_tokens
    return f", {usage.input_tokens}+{usage.output_tokens} tokens" if known else ""


def counted(model: LanguageModel | None, text: str) -> int:
    """Tokens of a text, as the model counts them where it knows."""
    own = getattr(model, "count_tokens", None)
    return int(own(text)) if callable(own) else count_tokens(text)


def room(model: LanguageModel, *, taken: str) -> int:
    """How many tokens of passages a model can be shown beside what else is said, with its reply still to come."""
    reply = max(LEAST_REPLY_TOKENS, int(getattr(model, "max_tokens", 0) or 0))
    reply = min(reply, model.context_tokens // 3)
    return max(0, int(model.context_tokens * (1 - MARGIN)) - reply - counted(model, taken))
