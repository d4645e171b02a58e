"""A list of messages, as other protocols send a conversation -> the next answer: its events, its text as it grows.

Such callers keep the conversation themselves and send all of it every time: nothing is stored under an owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.chats import SHOWN_TURNS
from headwater.converse import converse
from headwater.errors import NotFound, UsageError
from headwater.messages import Message
from headwater.server import reach
from headwater.server.asking import Asked, chosen_datasets, filter_of, options_of
from headwater.server.auth import Caller
from headwater.server.state import State
from headwater.server.streams import MAX_ANSWER_SECONDS
from headwater.types import Answer, Event, Hit, Restart, Sentence
from headwater.write import counted

MODEL = "headwater"  # whatever the settings say writes
MAX_QUESTION_CHARS = 10_000


def models(state: State) -> list[str]:
    """The names that a request may give: the one of the settings, and every other that is set up."""
    return [MODEL, *(name for name in state.kb.writers.names() if name != MODEL)]


def checked_model(state: State, name: str) -> str:
    """The setting `llm` for a model's name; NotFound for one that is not there."""
    known = models(state)
    if name not in known:
        raise NotFound(f"no model is named {name!r}; there are: {', '.join(known)}")
    return "" if name == MODEL else name


def split(said: Sequence[Message]) -> tuple[str, list[Message]]:
    """The question, which is the last message, and what was said before it."""
    spoken = [one for one in said if one.role in ("user", "assistant") and one.content.strip()]
    if not spoken or spoken[-1].role != "user":
        raise UsageError("the last message must be the user's, and hold text")
    question = spoken[-1].content.strip()
    if len(question) > MAX_QUESTION_CHARS:
        raise UsageError(f"a question may have {MAX_QUESTION_CHARS} characters, got {len(question)}")
    return question, spoken[:-1][-SHOWN_TURNS:]


def prepared(
    state: State, caller: Caller, given: Asked, *, said: Sequence[Message], llm: str, use_knowledge_base: bool = True
) -> Iterator[Event]:
    """The events of the next answer, none of which has happened yet. What is wrong with the request is raised here."""
    question, history = split(said)
    where = filter_of(state, caller, given, datasets=chosen_datasets(state, caller, given))
    options = options_of(
        state, given, where=where, most_seconds=max(state.settings.deadline_seconds, MAX_ANSWER_SECONDS)
    )
    if llm:
        options["llm"] = llm
    seen = reach.view(state, caller)
    query = seen.query(question, where=where, options=options, archived=given.archived)
    events = converse(seen.engine, query, history=history, use_knowledge_base=use_knowledge_base)
    return seen.chats.kept(events, question) if seen.config.answers().keep == "all" else events


class Growing:
    """What a reader has of an answer: each event -> the text to add. Joined, it is the answer's text.

    Text that was sent cannot be taken back in these protocols: after a restart the reader is told so, and the whole
    answer follows.
    """

    def __init__(self) -> None:
        self.text = ""  # since the last restart
        self.withdrawn = False

    def add(self, event: Event) -> str:
        """The text that an event adds."""
        if isinstance(event, Sentence):
            gap = "" if not self.text or event.text.startswith("\n") else " "
            piece = gap + event.text if self.text else event.text.lstrip()
            self.text += piece
            return piece
        if isinstance(event, Restart):
            self.withdrawn = self.withdrawn or bool(self.text)
            told = f"\n\n({event.reason})\n\n" if self.text else ""
            self.text = ""
            return told
        if isinstance(event, Answer):
            rest = event.text.removeprefix(self.text.rstrip())
            if len(rest) == len(event.text) and self.text:  # something else than was sent
                self.withdrawn, rest = True, f"\n\n{event.text}"
            self.text = event.text
            return rest
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """How many tokens went in and out, as we count them."""

    prompt: int
    completion: int

    def shape(self) -> dict[str, Any]:
        """As OpenAI has it."""
        total = self.prompt + self.completion
        return {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": total}


def tokens(answer: Answer, said: Sequence[Message]) -> Tokens:
    """Of what was said with the passages that were found, and of the answer."""
    shown = [one.content for one in said] + [hit.chunk.text for hit in _shown(answer)]
    return Tokens(prompt=sum(counted(None, text) for text in shown), completion=counted(None, answer.text))


def _shown(answer: Answer) -> Sequence[Hit]:
    return answer.hits[: answer.query.options.top_n]
