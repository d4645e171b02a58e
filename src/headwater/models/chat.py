"""Messages -> what a language model says, by any server that speaks the OpenAI protocol.

OpenAI, DashScope, Zhipu, DeepSeek, Ollama, vLLM, llama.cpp. A request is sent again only while nothing of the answer
has come. What a server does not take (streaming, usage, JSON schemas, a temperature) is left out from then on.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from headwater.errors import BackendError, SettingError
from headwater.messages import Message, Piece, Tool, Usage
from headwater.models import http
from headwater.models._reply import Lines, Reply
from headwater.models.http import HOMELY, Endpoint, TooLarge, Waits, shown
from headwater.models.known import (
    OLLAMA,
    OLLAMA_CONTEXT_TOKENS,
    OPENAI,
    PROVIDERS,
    UNKNOWN_CONTEXT_TOKENS,
    ChatModel,
    Provider,
    known_chat_model,
    provider_of,
)
from headwater.models.spending import Ledger
from headwater.tokens import count_tokens

OLLAMA_PORT: Final = 11434
# Of our estimate of tokens, what a model's own count may be; beyond that the server counts something else.
LEAST_RATIO, MOST_RATIO = 0.5, 3.0
# A short prompt is mostly the marks around it, and says little about how a model cuts text.
TELLING_TOKENS: Final = 200
# A short sentence: a reply that may not be as long as that is not asked for.
LEAST_REPLY_TOKENS: Final = 16
# How often a request is sent again without something that the server does not take.
MOST_ADJUSTMENTS: Final = 6

_CONTEXT_LIMIT: Final = re.compile(
    r"(?:context|length|n_ctx|limit|maximum|at most|最大|最多|上限)\D{0,40}?(\d[\d,]{2,})", re.IGNORECASE
)
_EVENT_STARTS: Final = (b"data:", b":", b"event:", b"id:", b"retry:")
_REASONS: Final = re.compile(r"\br1\b|-r1|qwq|thinking|reasoner", re.IGNORECASE)
# What a refusal names -> what to leave out. In the order in which they are looked for.
_UNWANTED: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("stream_options", re.compile(r"stream_options|include_usage", re.IGNORECASE)),
    ("max_tokens", re.compile(r"max_completion_tokens", re.IGNORECASE)),
    ("temperature", re.compile(r"temperature", re.IGNORECASE)),
    ("json_schema", re.compile(r"json_schema|response_format|structured|grammar", re.IGNORECASE)),
    ("response_format", re.compile(r"response_format|json_object|json mode", re.IGNORECASE)),
    ("tools", re.compile(r"\btools?\b|function", re.IGNORECASE)),
    ("stream", re.compile(r"\bstream", re.IGNORECASE)),
    ("system", re.compile(r"system (?:role|message)|role\W+system", re.IGNORECASE)),
)


class OpenAIChat:
    """A model behind `/chat/completions`. Safe for use from several threads."""

    def __init__(
        self,
        *,
        model: str = "gpt-4o-mini",
        base_url: str = "",
        api_key: str = "",
        context_tokens: int = 0,
        max_tokens: int = 1024,
        temperature: float = 0.0,
        tools: str = "auto",
        timeout_seconds: float = 120.0,
        first_token_seconds: float = 60.0,
        between_tokens_seconds: float = 30.0,
        max_retries: int = 2,
        requests_per_minute: int = 0,
        tokens_a_day: int = 0,
        extra: Mapping[str, Any] | None = None,
        spending_folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        on_usage: Callable[[str, Usage], None] | None = None,
    ) -> None:
        there = os.environ if environment is None else environment
        for name, least, value in (
            ("context_tokens", 0, context_tokens),
            ("max_tokens", 1, max_tokens),
            ("max_retries", 0, max_retries),
            ("requests_per_minute", 0, requests_per_minute),
            ("tokens_a_day", 0, tokens_a_day),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SettingError(f"generate.{name} must be a whole number of at least {least}, got {value!r}")
        for name, seconds in (
            ("timeout_seconds", timeout_seconds),
            ("first_token_seconds", first_token_seconds),
            ("between_tokens_seconds", between_tokens_seconds),
        ):
            if not isinstance(seconds, int | float) or seconds <= 0:
                raise SettingError(f"generate.{name} must be more than 0, got {seconds!r}")
        if tools not in ("auto", "yes", "no"):
            raise SettingError(f"generate.tools must be one of auto, yes, no, got {tools!r}")
        known = known_chat_model(model)
        from_environment = there.get("OPENAI_BASE_URL", "")
        home = PROVIDERS.get(known.provider) if known else None
        url = base_url or from_environment or (home or OPENAI).base_url
        provider = OLLAMA if urlsplit(url).port == OLLAMA_PORT else provider_of(url)
        self.name = self.model = model
        self.context_tokens = context_tokens or _context(known, provider)
        self.max_tokens, self.timeout_seconds = max_tokens, float(timeout_seconds)
        self.takes_tools = (known is None or known.tools) if tools == "auto" else tools == "yes"
        self._waits = {"first_seconds": first_token_seconds, "next_seconds": between_tokens_seconds}
        self._temperature, self._max_retries, self._extra = temperature, max_retries, dict(extra or {})
        self._cap, self._on_usage = tokens_a_day, on_usage
        self._ledger = Ledger(spending_folder) if spending_folder is not None else None
        # A key goes only where it belongs: to its service, to a server of this machine, to the address given with it.
        ours = provider.base_url or not base_url or urlsplit(url).hostname in HOMELY or url == from_environment
        variables = provider.key_variables if ours else ()
        key = (api_key or next(filter(None, map(there.get, variables)), "")).strip()
        if not key.isascii() or not key.isprintable():
            raise SettingError("generate.api_key has characters that no key has (it is not shown here); copy it again")
        variable = (provider.key_variables or ("OPENAI_API_KEY",))[0]
        hint = f'set {variable}, or api_key = "env:{variable}" in headwater.toml'
        self._endpoint = Endpoint(url, api_key=key, requests_per_minute=requests_per_minute, key_hint=hint)
        self._lock = Lock()
        self._left_out: set[str] = set()
        self._ratio = 1.0  # of the model's own count of tokens to our estimate, as learnt

    def count_tokens(self, text: str) -> int:
        """About how many tokens of this model a text has: our estimate, corrected by what its server has counted."""
        return round(count_tokens(text) * self._ratio)

    def stream(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        schema: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        deadline_seconds: float = 60.0,
    ) -> Iterator[Piece]:
        """Pieces of text as they come; the last one has the calls, the usage and why it ended."""
        estimate = count_tokens("\n".join(message.content for message in messages))
        limit = self._within_the_cap(max_tokens or self.max_tokens, asked=round(estimate * self._ratio))
        waits = Waits(**self._waits, total_seconds=deadline_seconds)
        answer, whole = self._open(messages, tools=tools, schema=schema, max_tokens=limit, waits=waits)
        reply = Reply(reasons=bool(_REASONS.search(self.model)), cleaned=self._endpoint.cleaned)
        spoken: list[str] = []
        try:
            for text in _read(answer, reply, whole=whole):
                spoken.append(text)
                yield Piece(text=text)
        finally:  # what was said is paid for, also where nobody listens to the end
            usage = self._account(reply, estimate, "".join(spoken))
        yield Piece(tool_calls=reply.tool_calls, usage=usage, finish=reply.finish)

    def close(self) -> None:
        """Let go of the connections."""
        self._endpoint.close()

    # ---------------------------------------------------------------------------------------- request

    def _open(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
        waits: Waits,
    ) -> tuple[http.Reply, bool]:
        """The server's answer as it begins; what it does not take is left out, one after the other."""
        for _ in range(MOST_ADJUSTMENTS):
            body = self._body(messages, tools=tools, schema=schema, max_tokens=max_tokens)
            try:
                answer = self._endpoint.stream("chat/completions", body, waits=waits, max_retries=self._max_retries)
                return answer, not body.get("stream")
            except BackendError as error:
                unwanted = self._unwanted(str(error), body)
                if isinstance(error, TooLarge) and unwanted != "max_tokens":
                    self._learn_limit(str(error))
                    raise
                if not unwanted:
                    raise
                with self._lock:
                    self._left_out.add(unwanted)
                if unwanted == "tools":
                    self.takes_tools = False
                    raise BackendError(f"{self.model} does not take tools ({error})") from error
        raise BackendError(f"{shown(self._endpoint.base_url)} refuses every form of request for {self.model}")

    def _body(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool],
        schema: Mapping[str, Any] | None,
        max_tokens: int,
    ) -> dict[str, Any]:
        left_out = frozenset(self._left_out)
        limit = "max_completion_tokens" if "max_tokens" in left_out else "max_tokens"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _messages(messages, system="system" not in left_out),
            limit: max_tokens,
        }
        if "temperature" not in left_out:
            body["temperature"] = self._temperature
        if "stream" not in left_out:
            body["stream"] = True
            if "stream_options" not in left_out:
                body["stream_options"] = {"include_usage": True}
        if tools and self.takes_tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
                    },
                }
                for tool in tools
            ]
        if schema is not None and "response_format" not in left_out:
            body["response_format"] = (
                {"type": "json_object"}
                if "json_schema" in left_out
                else {"type": "json_schema", "json_schema": {"name": "reply", "schema": dict(schema), "strict": True}}
            )
        return {**body, **self._extra}

    def _unwanted(self, refusal: str, body: Mapping[str, Any]) -> str:
        """What the server refuses to take, by the words of its refusal; empty where it is something else."""
        if not re.search(r"answered (?:400|404|422|500|501)\b", refusal):
            return ""
        format = body.get("response_format", {}).get("type")
        sent = {
            **{name: name in body for name in ("stream_options", "max_tokens", "temperature", "tools", "stream")},
            "json_schema": format == "json_schema",
            "response_format": format == "json_object",
            "system": any(message["role"] == "system" for message in body["messages"]),
        }
        said = refusal.partition(": ")[2]
        return next((name for name, words in _UNWANTED if sent[name] and words.search(said)), "")

    def _learn_limit(self, refusal: str) -> None:
        """A server that says how much it can be shown is believed."""
        numbers = [int(number.replace(",", "")) for number in _CONTEXT_LIMIT.findall(refusal)]
        fitting = [number for number in numbers if 0 < number < self.context_tokens]
        self.context_tokens = max(fitting) if fitting else self.context_tokens // 2

    # --------------------------------------------------------------------------------------- accounts

    def _within_the_cap(self, limit: int, *, asked: int) -> int:
        """How long a reply may be that is to have `limit` tokens. Raises where too little is left of the day's cap."""
        if not self._cap or self._ledger is None:
            return limit
        spent = self._ledger.spent_today()
        left = self._cap - spent - asked
        if left >= min(LEAST_REPLY_TOKENS, limit):
            return min(left, limit)
        raise BackendError(
            f"the cap of {self._cap:,} tokens a day is reached ({spent:,} used since midnight UTC, this request "
            f"needs about {asked:,} and its reply); raise tokens_a_day, or wait until tomorrow"
        )

    def _account(self, reply: Reply, estimate: int, spoken: str) -> Usage:
        counted = Usage(
            input_tokens=round(estimate * self._ratio),
            output_tokens=round(count_tokens(spoken) * self._ratio),
        )
        usage = reply.usage or counted
        if self._on_usage is not None:
            self._on_usage(self.model, usage)
        if reply.usage and estimate >= TELLING_TOKENS and usage.input_tokens:
            self._ratio = min(MOST_RATIO, max(LEAST_RATIO, usage.input_tokens / estimate))
        if self._ledger is not None and (self._cap or reply.begun):
            try:
                self._ledger.add(usage.input_tokens + usage.output_tokens)
            except BackendError:
                if self._cap:
                    raise
        return usage


def _read(answer: http.Reply, reply: Reply, *, whole: bool) -> Iterator[str]:
    """The text of an answer as it comes."""
    lines = Lines()
    for value in _values(answer.chunks(told=lambda: reply.begun), lines, streamed=_streamed(answer, whole=whole)):
        if text := reply.take(value):
            yield text
    if text := reply.rest():
        yield text
    if lines.done and not reply.finish:
        reply.finish = "stop"


def _streamed(answer: http.Reply, *, whole: bool) -> bool | None:
    """Whether events come; None where only the first bytes will tell."""
    if whole:
        return False
    return True if answer.mime == "text/event-stream" else None


def _values(chunks: Iterator[bytes], lines: Lines, *, streamed: bool | None) -> Iterator[Any]:
    """The JSON values of an answer: one for each event, or one in all where the server does not stream."""
    held = b""
    for chunk in chunks:
        held += chunk
        if streamed is None and held.strip():
            streamed = held.lstrip().startswith(_EVENT_STARTS)
        if streamed:
            yield from lines.feed(held)
            held = b""
        if lines.done:
            return
    if streamed:
        yield from lines.feed(b"", last=True)
    else:
        yield _whole(held)


def _whole(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        beginning = " ".join(data[:80].decode("utf-8", "replace").split())
        raise BackendError(
            f"the model's server answered with something that is not JSON ({beginning!r}); check base_url, which "
            "mostly ends in /v1"
        ) from None


def _messages(messages: Sequence[Message], *, system: bool) -> list[dict[str, Any]]:
    """As the protocol writes them. For models without a system role, its words go before the first of the user's."""
    shown: list[dict[str, Any]] = []
    before = "" if system else "\n\n".join(one.content for one in messages if one.role == "system")
    for message in messages:
        if message.role == "system" and not system:
            continue
        content = _sendable(message.content)
        if before and message.role == "user":
            content, before = f"{_sendable(before)}\n\n{content}", ""
        written: dict[str, Any] = {"role": message.role, "content": content}
        if message.tool_calls:
            written["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in message.tool_calls
            ]
        if message.tool_call_id:
            written["tool_call_id"] = message.tool_call_id
        shown.append(written)
    return shown


def _sendable(text: str) -> str:
    """Half a character, which a damaged file may hold, becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _context(known: ChatModel | None, provider: Provider) -> int:
    if provider is OLLAMA:
        return OLLAMA_CONTEXT_TOKENS
    return known.context_tokens if known else UNKNOWN_CONTEXT_TOKENS
