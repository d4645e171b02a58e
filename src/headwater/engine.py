"""The read path: one query in, events out, the last of which is the answer. Start here.

retrieve -> assemble -> generate and cite, sentence by sentence -> reflect
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Final

from headwater.assemble import assemble
from headwater.cite import cite, joined
from headwater.protocols import Generator
from headwater.reflect import reflect
from headwater.retrieve import Parts, compose
from headwater.tokens import language
from headwater.types import Answer, Event, Query, Restart, Results, Sentence, Step

REFUSALS: Final = {
    "zh": "已收录的文档没有回答这个问题。下面是最接近的段落。",
    "en": "The documents do not answer this question. The nearest passages are listed below.",
}
NOTHING_FOUND: Final = {
    "zh": "已收录的文档没有回答这个问题，也没有找到相近的段落。",
    "en": "The documents do not answer this question, and no passage comes near it.",
}


class Engine:
    """Searches and answers. Holds parts, not one retriever: every query may ask for other stages."""

    def __init__(self, parts: Parts, generator: Generator) -> None:
        self.parts, self.generator = parts, generator

    def search(self, query: Query) -> Results:
        """Ranked passages."""
        return compose(self.parts, query.options).retrieve(query)

    def ask(self, query: Query) -> Answer:
        """The last event of the stream."""
        *_, answer = self.stream(query)
        assert isinstance(answer, Answer)
        return answer

    def stream(self, query: Query) -> Iterator[Event]:
        """Steps and sentences as they are ready, then the Answer. A Restart takes back the sentences before it."""
        trace: list[Step] = []
        clock = perf_counter()

        def step(stage: str, note: str) -> Step:
            nonlocal clock
            began, clock = clock, perf_counter()
            trace.append(Step(stage=stage, milliseconds=(clock - began) * 1000, note=note))
            return trace[-1]

        results = self.search(query)
        yield step("retrieve", f"{len(results)} of {results.total} hits, {results.mode_used}")

        context = assemble(query, results.hits)
        yield step("assemble", f"{len(context.hits)} passages")

        sentences: list[Sentence] = []
        for sentence in cite(self.generator.generate(context) if context.hits else (), context):
            sentences.append(sentence)
            yield sentence
        yield step("generate", f"{len(sentences)} sentences")

        verdict = reflect(query, sentences)
        yield step("reflect", verdict.reason)

        if sentences and not verdict.accepted:
            yield Restart(reason=verdict.reason)
        text, citations = joined(sentences)
        if not verdict.accepted:
            text, citations = (REFUSALS if results.hits else NOTHING_FOUND)[language(query.text)], ()
        yield Answer(
            query=query,
            text=text,
            citations=citations,
            hits=results.hits,
            verdict=verdict,
            degraded=results.degraded,
            trace=tuple(trace),
        )
