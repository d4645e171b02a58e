"""The read path: one query in, events out, the last of which is the answer. Start here.

retrieve -> assemble -> generate and cite, sentence by sentence -> reflect, and again while it is not good enough
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from statistics import fmean
from time import perf_counter
from typing import Final

from headwater.assemble import assemble, numbered, overhead
from headwater.cite import cite, joined
from headwater.errors import BackendError, SettingError
from headwater.listing import listing
from headwater.messages import Message, Usage
from headwater.protocols import Embedder, Generator, LanguageModel, Writer
from headwater.reflect import Judgement, judge, looked_for
from headwater.retrieve import Parts, compose, understood
from headwater.rewrite import rewrites
from headwater.tokens import language
from headwater.types import (
    EXTRACTIVE,
    Answer,
    Context,
    Event,
    Hit,
    Options,
    Query,
    Restart,
    Results,
    Sentence,
    Span,
    Step,
    Verdict,
)
from headwater.typos import corrected
from headwater.wording import Prompt, Prompts, repeats
from headwater.write import Writing, counted, messages_of, room, spent

REFUSALS: Final = {
    "zh": "已收录的文档没有回答这个问题。下面是最接近的段落。",
    "en": "The documents do not answer this question. The nearest passages are listed below.",
}
NOTHING_FOUND: Final = {
    "zh": "已收录的文档没有回答这个问题，也没有找到相近的段落。",
    "en": "The documents do not answer this question, and no passage comes near it.",
}
# Each further round of reflection looks so much deeper, and asks in so many other ways.
DEEPER: Final = 2
OTHER_WAYS: Final = 2
LEAST_SECONDS: Final = 1.0  # for a step that begins just before the deadline

_UNJUDGED: Final = Judgement(Verdict(accepted=False), {}, "")


class Engine:
    """Searches and answers. Holds parts, not one retriever: every query may ask for other stages."""

    def __init__(
        self,
        parts: Parts,
        generator: Writer,
        *,
        fallback: Generator | None = None,
        named: Callable[[str], Writer] | None = None,
        prompts: Prompts | None = None,
        checker: Embedder | None = None,
    ) -> None:
        self.parts, self.generator, self.fallback = parts, generator, fallback
        self.checker = checker  # compares what is said with its sources; without one, words decide alone
        self.prompts = prompts or Prompts()
        self._named = named

    def writer(self, options: Options) -> Writer:
        """What writes the answer: the one that the options name, else the one of the settings."""
        if not options.llm:
            return self.generator
        if options.llm == EXTRACTIVE and self.fallback is not None:
            return self.fallback
        if self._named is None:
            raise SettingError(f"no model is named {options.llm!r}: this engine knows one writer only")
        return self._named(options.llm)

    def model(self, options: Options) -> LanguageModel | None:
        """The language model among the writers, if it is one."""
        writer = self.writer(options)
        return writer if isinstance(writer, LanguageModel) else None

    def search(self, query: Query) -> Results:
        """Ranked passages."""
        return compose(self.parts, query.options).retrieve(query)

    def ask(self, query: Query) -> Answer:
        """The last event of the stream."""
        *_, answer = self.stream(query)
        assert isinstance(answer, Answer)
        return answer

    def stream(self, query: Query, *, carried: Sequence[Hit] = (), history: Sequence[Message] = ()) -> Iterator[Event]:
        """Steps and sentences as they are ready, then the Answer. A Restart takes back the sentences before it.

        `carried` passages come behind those that are found; a model is shown the `history`.
        """
        return _Run(self, query, carried=carried, history=history).events()

    def between(self, document_id: str, span: Span) -> str | None:
        """The text of a document between two characters."""
        document = self.parts.catalog.document(document_id)
        return document.text[span.start : span.end] if document else None


def concluded(answer: Answer, *, sentences: Sequence[Sentence]) -> Answer:
    """The answer with the text of its sentences, or with the words of a refusal where its verdict is one."""
    if answer.refused:
        spoken = language(answer.query.text)
        refusal = (REFUSALS if answer.hits else NOTHING_FOUND)[spoken]
        words = looked_for(replace(answer.query, text=corrected(answer.query.text, answer.corrected)))
        return replace(answer, text=refusal + (" " if words and spoken == "en" else "") + words, citations=())
    text, citations = joined(sentences)
    return replace(answer, text=text, citations=citations)


def left_out(removed: Sequence[str]) -> list[str]:
    """What a reader should know of sentences that were not shown."""
    many = "1 sentence was" if len(removed) == 1 else f"{len(removed)} sentences were"
    return [f"{many} left out: no passage bears out what was said"] if removed else []


def refuse_instructions(sentences: list[Sentence], instructions: str) -> None:
    """Take back the last sentence and raise where a model gives away what it was told: a document asked for that."""
    if repeats(" ".join(sentence.text for sentence in sentences), instructions):
        sentences.pop()
        raise BackendError("it repeated its instructions instead of answering")


@dataclass(slots=True)
class _Round:
    """What one pass came to."""

    results: Results
    context: Context
    sentences: list[Sentence] = field(default_factory=list)
    judgement: Judgement = _UNJUDGED
    model: str = ""
    notes: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    again: bool = False  # there is an answer already; this round may only make a better one
    failure: str = ""

    @property
    def worth(self) -> tuple[bool, bool, float]:
        """Marks of a model first: a score by citations alone, where the time was over, is on another scale."""
        verdict = self.judgement.verdict
        return verdict.accepted, bool(self.judgement.marks), verdict.score


class _Run:
    """One query on its way."""

    def __init__(self, engine: Engine, query: Query, *, carried: Sequence[Hit], history: Sequence[Message]) -> None:
        self.engine, self.carried, self.history = engine, carried, history
        self.given, self.query = query, understood(query)  # as it was put, and as it was read
        self.meant = self.query  # with what was asked for in the place of typos
        self.writer = engine.writer(query.options)
        self.model = self.writer if isinstance(self.writer, LanguageModel) else None
        self.trace: list[Step] = []
        self.began = self.clock = perf_counter()

    def events(self) -> Iterator[Event]:
        """Rounds until one is good enough; with reflection, sentences are sent when it is known which round stands."""
        options = self.query.options
        done: list[_Round] = []
        late: list[str] = []
        for number in range(1, (options.reflect_rounds if options.reflect else 1) + 1):
            asked = self._asked(number, done[-1].judgement if done else None)
            for event in self._round(asked, done):
                if not options.reflect or not isinstance(event, Sentence | Restart):
                    yield event
            yield self._judged(done[-1], number)
            verdict = done[-1].judgement.verdict
            if verdict.accepted and verdict.score >= options.reflect_min_score:
                break
            if options.reflect and self._left() <= 0:
                late.append(f"reflection ended after round {number}: {options.deadline_seconds:g} s were over")
                break
        best = max(done, key=lambda one: one.worth)
        if not best.judgement.verdict.accepted and best.sentences and not options.reflect:
            yield Restart(reason=best.judgement.verdict.reason)
        elif best.judgement.verdict.accepted and options.reflect:
            yield from best.sentences
        answer = Answer(
            query=self.given,
            text="",
            hits=best.results.hits,
            verdict=best.judgement.verdict,
            corrected=best.results.corrected,
            degraded=tuple(dict.fromkeys((*best.results.degraded, *best.notes, *late))),
            trace=tuple(self.trace),
            model=best.model,
            generation=best.results.generation,
        )
        yield concluded(answer, sentences=best.sentences)

    def _step(self, stage: str, note: str) -> Step:
        began, self.clock = self.clock, perf_counter()
        self.trace.append(Step(stage=stage, milliseconds=(self.clock - began) * 1000, note=note))
        return self.trace[-1]

    def _left(self) -> float:
        return self.query.options.deadline_seconds - (perf_counter() - self.began)

    # ----------------------------------------------------------------------------------------- a round

    def _round(self, asked: Sequence[Query], done: list[_Round]) -> Iterator[Event]:
        found = [self.engine.search(query) for query in asked]
        results = found[0] if len(found) == 1 else replace(found[0], hits=_interleaved(found))
        self.meant = replace(self.query, text=corrected(self.query.text, results.corrected))
        yield self._step("retrieve", f"{len(results)} of {results.total} hits, {results.mode_used}")

        known = {hit.chunk.id for hit in results.hits}
        hits = (*results.hits, *(hit for hit in self.carried if hit.chunk.id not in known))
        this = _Round(
            results=replace(results, query=self.query, hits=hits), context=self._context(hits), again=bool(done)
        )
        done.append(this)
        yield self._step("assemble", f"{len(this.context.hits)} passages")

        yield from self._written(this)
        who = f" by {this.model}{spent(this.usage)}" if this.model else ""
        why = f", which failed: {this.failure}" if this.failure else ""
        yield self._step("generate", f"{len(this.sentences)} sentences{who}{why}")

    def _context(self, hits: Sequence[Hit]) -> Context:
        # A model is shown the question as it was put: it can read it.
        asked = self.meant if self.model is None else self.query
        packed = partial(assemble, asked, hits, prompts=self.engine.prompts, between=self.engine.between)
        if self.model is None:
            best = 0.0
            with suppress(BackendError):  # the search has said so already, and its hits have no scores by words
                # What was asked for in the place of a typo counts less than what was typed.
                best = fmean(map(self.engine.parts.text.best_score, {asked.text, self.query.text}))
            return replace(packed(), best_keyword=best)
        said = "\n".join(message.content for message in self.history)
        taken = f"{overhead(self.query, self.engine.prompts)}\n{said}"
        return packed(budget_tokens=room(self.model, taken=taken), count=partial(counted, self.model))

    def _written(self, this: _Round) -> Iterator[Event]:
        """Sentences by the writer; where it fails, what it said is taken back and the documents' own words follow."""
        if not this.context.hits:
            return
        if this.results.listed:  # counted, which no model can do from a few passages
            for sentence in cite(listing(this.results, this.context.hits), this.context, embedder=self.engine.checker):
                this.sentences.append(sentence)
                yield sentence
            return
        if self.query.options.template and self.model is None:
            this.notes.append(f"the template {self.query.options.template!r} needs a language model and there is none")
        limit = self.model.context_tokens if self.model else 0
        try:
            yield from self._attempt(this)
            return
        except BackendError as error:
            failure = error
        if self.model and self.model.context_tokens < limit:  # the server said how much it can be shown
            this.context = self._context(this.results.hits)
            try:
                yield from self._attempt(this)
                return
            except BackendError as error:
                failure = error
        if this.again:  # the rounds before it stand; what other sentences are worth cannot be compared with a model's
            this.sentences.clear()
            this.failure = str(failure)
            return
        if self.engine.fallback is None:
            raise failure
        reason = f"answered with sentences of the documents, for the model failed: {failure}"
        this.notes.append(reason)
        if this.sentences:
            yield Restart(reason=reason)
        this.sentences.clear()
        this.model = ""
        this.context = replace(this.context, query=self.meant, grounded=True)
        said = self.engine.fallback.generate(this.context)
        for sentence in cite(said, this.context, embedder=self.engine.checker):
            this.sentences.append(sentence)
            yield sentence

    def _attempt(self, this: _Round) -> Iterator[Event]:
        writing: Writing | None = None
        pieces: Iterable[str]
        if isinstance(self.writer, LanguageModel):
            this.model = self.writer.name
            prompt = Prompt(system=this.context.system, user=this.context.prompt)
            # A first answer takes as long as its model may; further rounds end with the request.
            limit = max(LEAST_SECONDS, self._left()) if this.again else None
            pieces = writing = Writing(self.writer, messages_of(prompt, self.history), deadline_seconds=limit)
        else:
            pieces = self.writer.generate(this.context)
        removed: list[str] = []
        for sentence in cite(pieces, this.context, embedder=self.engine.checker, on_removed=removed.append):
            this.sentences.append(sentence)
            if writing is not None:
                refuse_instructions(this.sentences, this.context.system)
            yield sentence
        if writing is not None:
            this.notes += writing.notes
            this.usage = writing.usage
        this.notes += left_out(removed)

    # -------------------------------------------------------------------------------------- reflection

    def _judged(self, this: _Round, number: int) -> Step:
        options = self.query.options
        judging = self.model if options.reflect and self._left() > 0 else None
        this.judgement = judge(
            self.meant,
            this.sentences,
            model=judging,
            prompts=self.engine.prompts,
            passages=numbered(this.context.hits, self.query.text) if judging else "",
            deadline_seconds=max(LEAST_SECONDS, self._left()),
        )
        verdict = this.judgement.verdict
        if not this.context.grounded and this.sentences:
            this.judgement = this.judgement._replace(
                verdict=replace(verdict, accepted=True, reason=f"new text, not held to its sources; {verdict.reason}")
            )
        note = this.judgement.verdict.reason
        if options.reflect:
            note = f"round {number}: {verdict.score:g} of 10, {note}"
            note += f"; to do: {this.judgement.suggestion}" if this.judgement.suggestion else ""
        if this.judgement.failure:
            this.notes.append(f"judged by its citations only: {this.judgement.failure}")
        return self._step("reflect", note)

    def _asked(self, number: int, before: Judgement | None) -> list[Query]:
        """What this round searches for: the question, then deeper, in other words, or both."""
        options = self.query.options
        if before is None:
            return [self.query]
        if options.reflect_strategy in ("expand", "both"):
            more = DEEPER ** (number - 1)
            options = replace(
                options,
                candidates=options.candidates * more,
                top_n=options.top_n * more,
                window=max(options.window, number - 1),
            )
        texts = [self.query.text]
        if options.reflect_strategy in ("rewrite", "both"):
            options = replace(options, synonyms=True, feedback=True)
            if self.model is not None and self._left() > 0:
                with suppress(BackendError):  # the offline expansion must do; the round says what it found
                    texts += rewrites(
                        self.model,
                        self.query.text,
                        prompts=self.engine.prompts,
                        limit=OTHER_WAYS,
                        hint=before.suggestion,
                        deadline_seconds=max(LEAST_SECONDS, self._left()),
                    )
        return [replace(self.query, text=text, options=options) for text in texts]


def _interleaved(found: Sequence[Results]) -> tuple[Hit, ...]:
    """The best of each search first, then the second of each, every passage once."""
    kept: dict[int, Hit] = {}
    for row in zip_longest(*(results.hits for results in found)):
        for hit in row:
            if hit is not None:
                kept.setdefault(hit.chunk.id, hit)
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(kept.values(), start=1))
