"""What a person says next in a conversation -> events, the last of which is the answer.

A model that calls tools decides itself when to search, in at most three steps. One that does not, and one whose answers
are to be reflected on, gets the same by a fixed plan: the follow-up is made complete, searched for and answered.
Without a model the plan is the same, by rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

from headwater.assemble import assemble, numbered
from headwater.cite import cite, joined
from headwater.engine import Engine, concluded, left_out, refuse_instructions
from headwater.errors import BackendError
from headwater.highlight import Terms
from headwater.mend import mended_object
from headwater.messages import Message, Tool, ToolCall
from headwater.protocols import LanguageModel
from headwater.reflect import reflect
from headwater.rewrite import carried_over, condense, stands_alone
from headwater.tokens import language
from headwater.types import EXTRACTIVE, Answer, Context, Event, Hit, Query, Restart, Sentence, Step, Verdict
from headwater.typos import corrected
from headwater.wording import Fence
from headwater.write import Writing, counted, messages_of, room, spent

# Replies that a model may give to one message, searches included.
MAX_STEPS: Final = 3
MAX_STEPS_WITHOUT: Final = 1
# Searches in one step; a model that asks for more is told so.
MAX_SEARCHES: Final = 3
# Characters of an earlier turn that a model is shown again.
SHOWN_CHARS: Final = 2000

SEARCH: Final = Tool(
    name="search_knowledge",
    description="Search the user's documents for passages that answer a question. 在用户的文档中搜索能回答问题的段落。",
    parameters={
        "type": "object",
        "properties": {"question": {"type": "string", "description": "A complete question. 完整的问题。"}},
        "required": ["question"],
    },
)
SEARCH_NAMES: Final = frozenset({"search_knowledge", "getInformation"})
NO_MODEL: Final = {
    "zh": "这段对话不使用文档，而没有配置语言模型，无法回答。用 `headwater llm setup` 配置一个，或重新使用文档。",
    "en": "This conversation does not use the documents, and there is no language model to answer without them. "
    "Set one up with `headwater llm setup`, or use the documents again.",
}
_MARKER: Final = re.compile(r"\s?\[\d{1,3}\]")
_CARRIED: Final = {"zh": "前一个回答引用的段落：", "en": "Passages that the answer before cited:"}
_NOTHING: Final = {"zh": "没有找到相关段落。", "en": "No passage was found."}


def converse(
    engine: Engine,
    query: Query,
    *,
    history: Sequence[Message] = (),
    carried: Sequence[Hit] = (),
    use_knowledge_base: bool = True,
) -> Iterator[Event]:
    """The answer to `query.text` as the next message. `carried` is what the answer before rested on."""
    model = engine.model(query.options)
    if not use_knowledge_base:
        yield from _Talk(engine, query, history=history, carried=()).events(model)
    elif model is None or not getattr(model, "takes_tools", False) or query.options.reflect:
        # An answer that is judged and tried again must rest on the documents: whether to search is no question.
        yield from _planned(engine, query, history=history, carried=carried, model=model)
    else:
        yield from _Talk(engine, query, history=history, carried=carried).searching(model)


def _planned(
    engine: Engine,
    query: Query,
    *,
    history: Sequence[Message],
    carried: Sequence[Hit],
    model: LanguageModel | None,
    notes: Sequence[str] = (),
) -> Iterator[Event]:
    """Make the question complete, search, answer."""
    began = perf_counter()
    said = list(notes)
    asked = carried_over(history, query.text, about=titles_of(carried))
    follows = asked != query.text
    if model is not None and history:
        try:
            asked = condense(model, history, query.text, prompts=engine.prompts)
        except BackendError as error:
            said.append(f"the follow-up was completed without the model: {error}")
    follows = follows or asked != query.text
    events: Iterable[Event] = engine.stream(replace(query, text=asked), carried=carried if follows else ())
    if model is None and follows and stands_alone(query.text):
        events = done = _fitting(engine, query, list(events))
        asked = _answer(done).query.text
    first = Step(stage="condense", milliseconds=(perf_counter() - began) * 1000, note=asked)
    if history:
        yield first
    for event in events:
        if isinstance(event, Answer):
            trace = (first, *event.trace) if history else event.trace
            yield replace(event, trace=trace, degraded=(*said, *event.degraded))
        else:
            yield event


def _fitting(engine: Engine, query: Query, completed: list[Event]) -> list[Event]:
    """What was answered with words of the last question, unless the question by itself gets more of what it asks for.

    A short question may be a new one. Nothing is answered from the last subject that has no word of the question.
    """
    terms = Terms.of(query.text)
    share = _share(terms, completed)
    if share == 1.0 or not terms.units:
        return completed
    alone = list(engine.stream(query))
    return completed if share and share >= _share(terms, alone) else alone


def _share(terms: Terms, events: Sequence[Event]) -> float:
    """How much of a question the citations of its answer have."""
    seen = "\n".join(f"{one.title}\n{one.section}\n{one.quote}" for one in _answer(events).citations)
    return len(terms.covered(seen, [(0, len(seen))])[0]) / max(1, len(terms.units))


def _answer(events: Sequence[Event]) -> Answer:
    answer = events[-1]
    assert isinstance(answer, Answer)
    return answer


class _Talk:
    """One message to a model that answers by itself, or searches first."""

    def __init__(self, engine: Engine, query: Query, *, history: Sequence[Message], carried: Sequence[Hit]) -> None:
        self.engine, self.query, self.history, self.carried = engine, query, history, carried
        self.language = language(query.text)
        self.trace: list[Step] = []
        self.clock = perf_counter()
        self.sentences: list[Sentence] = []
        self.evidence: list[Hit] = list(carried)
        self.found: dict[int, Hit] = {}  # by the searches of this message
        self.asked = query.text  # as it was last searched for
        self.searched = False
        self.generation = 0
        self.notes: list[str] = []
        self.corrected: dict[str, str] = {}
        self.fence = Fence.new()

    def events(self, model: LanguageModel | None) -> Iterator[Event]:
        """One reply, without the documents."""
        if model is None:
            reason = "no language model"
            yield Answer(query=self.query, text=NO_MODEL[self.language], verdict=Verdict(accepted=False, reason=reason))
            return
        system, messages = self._opening("talk")
        for _ in range(MAX_STEPS_WITHOUT):
            writing = Writing(model, messages)
            yield from self._reply(writing, system)
            yield self._step("generate", f"{len(self.sentences)} sentences by {model.name}{spent(writing.usage)}")
        yield self._freely(model, "the documents were not used")

    def searching(self, model: LanguageModel) -> Iterator[Event]:
        """At most three replies, each of which may ask for searches but the last."""
        try:
            yield from self._steps(model)
        except BackendError as error:
            if self.sentences:
                yield Restart(reason=str(error))
            whole = getattr(model, "takes_tools", True)  # else it has just been learnt that it takes no tools
            note = f"answered with sentences of the documents, for the model failed: {error}"
            options = replace(self.query.options, llm=EXTRACTIVE) if whole else self.query.options
            yield from _planned(
                self.engine,
                replace(self.query, options=options),
                history=self.history,
                carried=self.carried,
                model=None if whole else model,
                notes=(note,) if whole else (),
            )
            return
        if not self.searched and not any(sentence.citations for sentence in self.sentences):
            yield self._freely(model, "the model answered without searching the documents")
            return
        query = replace(self.query, text=self.asked)
        verdict = reflect(replace(query, text=corrected(self.asked, self.corrected)), self.sentences)
        yield self._step("reflect", verdict.reason)
        if not verdict.accepted and self.sentences:
            yield Restart(reason=verdict.reason)
        hits = (*self.found.values(), *(hit for hit in self.carried if hit.chunk.id not in self.found))
        answer = Answer(
            query=query,
            text="",
            hits=hits,
            verdict=verdict,
            corrected=self.corrected,
            degraded=tuple(dict.fromkeys(self.notes)),
            trace=tuple(self.trace),
            model=model.name,
            generation=self.generation,
        )
        yield concluded(answer, sentences=self.sentences)

    def _steps(self, model: LanguageModel) -> Iterator[Event]:
        system, messages = self._opening("chat")
        for number in range(1, MAX_STEPS + 1):
            writing = Writing(model, messages, tools=(SEARCH,) if number < MAX_STEPS else ())
            yield from self._reply(writing, system)
            calls = writing.tool_calls if number < MAX_STEPS else ()
            who = f" by {model.name}" + (f", {len(calls)} calls" if calls else "") + spent(writing.usage)
            yield self._step("generate", f"{len(self.sentences)} sentences{who}")
            if not calls:
                if not self.sentences:
                    raise BackendError(f"{model.name} asked for searches and gave no answer")
                return
            if self.sentences:
                yield Restart(reason="the model searches first")
            messages.append(Message(role="assistant", content=joined(self.sentences)[0], tool_calls=calls))
            self.sentences.clear()
            for place, call in enumerate(calls):
                said = self._called(call, model, messages, allowed=place < MAX_SEARCHES)
                messages.append(Message(role="tool", content=said, tool_call_id=call.id))
                yield self._step("retrieve", f"{call.name}: {self.asked}" if call.name in SEARCH_NAMES else said)

    def _reply(self, writing: Writing, system: str) -> Iterator[Event]:
        context = Context(query=self.query, hits=tuple(self.evidence))
        removed: list[str] = []
        for sentence in cite(writing, context, embedder=self.engine.checker, on_removed=removed.append):
            self.sentences.append(sentence)
            refuse_instructions(self.sentences, system)
            yield sentence
        self.notes = [*writing.notes, *left_out(removed)]

    def _called(self, call: ToolCall, model: LanguageModel, messages: Sequence[Message], *, allowed: bool) -> str:
        """What a tool answers. Only searches exist, whatever a model was talked into."""
        if call.name not in SEARCH_NAMES:
            return f"there is no tool {call.name[:40]!r}; there is {SEARCH.name}"
        if not allowed:
            return f"not searched: {MAX_SEARCHES} searches at a time"
        self.asked = _question(call.arguments) or carried_over(
            self.history, self.query.text, about=titles_of(self.carried)
        )
        self.searched = True
        results = self.engine.search(replace(self.query, text=self.asked))
        self.generation = results.generation
        known = {hit.chunk.id for hit in self.evidence}
        fresh = [hit for hit in results.hits if hit.chunk.id not in known]
        left = room(model, taken="\n".join(message.content for message in messages)) // 2
        packed = assemble(
            replace(self.query, text=self.asked, options=replace(self.query.options, template="")),
            fresh,
            prompts=self.engine.prompts,
            budget_tokens=left,
            count=lambda text: counted(model, text),
            between=self.engine.between,
        ).hits
        first = len(self.evidence) + 1
        self.evidence += packed
        self.found.update({hit.chunk.id: hit for hit in results.hits})
        self.notes += results.degraded
        self.corrected |= results.corrected
        return self.fence.around(numbered(packed, self.query.text, first=first)) if packed else _NOTHING[self.language]

    # ----------------------------------------------------------------------------------------- wording

    def _opening(self, name: str) -> tuple[str, list[Message]]:
        """What the model is told, and the messages to begin with."""
        question = self.query.text
        if self.evidence:
            shown = self.fence.around(numbered(self.evidence, question))
            question = f"{question}\n\n{_CARRIED[self.language]}\n{shown}"
        prompt = self.engine.prompts.get(name, about=self.query.text).filled(
            {"question": question, "opening": self.fence.opening, "closing": self.fence.closing}
        )
        # Numbers of earlier answers mean other passages now.
        before = [replace(one, content=_MARKER.sub("", one.content)[:SHOWN_CHARS]) for one in self.history]
        return prompt.system, messages_of(prompt, before)

    def _freely(self, model: LanguageModel, why: str) -> Answer:
        text, _ = joined(self.sentences)
        return Answer(
            query=self.query,
            text=text,
            verdict=Verdict(accepted=True, reason=why),
            degraded=(why, *self.notes),
            trace=tuple(self.trace),
            model=model.name,
        )

    def _step(self, stage: str, note: str) -> Step:
        began, self.clock = self.clock, perf_counter()
        self.trace.append(Step(stage=stage, milliseconds=(self.clock - began) * 1000, note=note))
        return self.trace[-1]


def titles_of(hits: Sequence[Hit]) -> str:
    """What the answer before was about, as far as its passages say so."""
    return "\n".join(f"{hit.title}\n{hit.chunk.section}" for hit in hits)


def _question(arguments: str) -> str:
    """What a call asks for; empty where its arguments hold no text."""
    try:
        given: Mapping[str, Any] = mended_object(arguments)
    except ValueError:
        return " ".join(arguments.split()) if arguments.strip(" {}[]\"'") and "{" not in arguments else ""
    named = [given.get(name) for name in ("question", "query", "q", "text", "input")]
    texts = [" ".join(one.split()) for one in (*named, *given.values()) if isinstance(one, str)]
    return next(filter(None, texts), "")
