"""Generated text + context -> sentences whose citations resolve, one by one as the text comes in.

A marker names a passage; a citation names the characters in it that the sentence rests on. Each sentence is traced:
a marker that names the wrong passage is moved to the right one or dropped, a missing one is put in, and a sentence that
no passage bears out is marked or left out. No citation is there just to have one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from headwater.evidence import Claim, Passage, Source, traced
from headwater.markers import LAST_MARKERS, complete, named, split, without
from headwater.protocols import Embedder
from headwater.tokens import is_cjk
from headwater.types import Citation, Context, Sentence, Span, Support

# Stands where a marker would, in a sentence that no passage bears out.
NO_SOURCE: Final = "[?]"
# A sentence with fewer words than this states nothing that could be looked up: "Here it is."
LEAST_UNITS: Final = 2

_END: Final = re.compile(r"[.。！？!?;；…]+\Z")
_ROW: Final = re.compile(r"\s*\|.*\|\s*\Z")
_LAST_BAR: Final = re.compile(r"\s*\|\s*\Z")
_OWN_LINE: Final = re.compile(r"[-*+•#|>]|\d{1,3}[.)、]")
_STATES_NOTHING: Final = (":", "：", "?", "？")
_BEST_FIRST: Final[Sequence[Support]] = ("supported", "weak", "unsupported")


def cite(
    pieces: Iterable[str],
    context: Context,
    *,
    embedder: Embedder | None = None,
    on_removed: Callable[[str], None] | None = None,
) -> Iterator[Sentence]:
    """Each sentence as soon as the next one has begun; markers are numbered from 1 in the order of first use.

    The embedder compares meanings; without one, words decide alone. What `unsupported` of the query's options says is
    done only where every sentence must rest on a passage; `on_removed` gets the sentences that are left out.
    """
    citer = _Citer(context, embedder, on_removed)
    buffer = ""
    for piece in pieces:
        *lines, buffer = (buffer + piece).split("\n")
        for line in lines:
            yield from citer.line(line)
        if buffer.lstrip().startswith("|"):
            continue  # a row of a table ends with its line
        ended, buffer = complete(buffer)
        for text in ended:
            yield from citer.sentence(text)
    yield from citer.line(buffer)


def joined(parts: Sequence[Sentence]) -> tuple[str, tuple[Citation, ...]]:
    """The whole text, and each citation once, by marker."""
    text = ""
    for part in parts:
        text += part.text if not text or part.text.startswith("\n") else f" {part.text}"
    found = {citation.marker: citation for part in reversed(parts) for citation in part.citations}
    return text.strip(), tuple(found[marker] for marker in sorted(found))


class _Said(NamedTuple):
    shown: str  # without markers
    body: str  # as a source would have it
    numbers: list[int]  # the passages it names, from 0


class _Citer:
    """Numbers the citations of one answer."""

    def __init__(self, context: Context, embedder: Embedder | None, on_removed: Callable[[str], None] | None) -> None:
        self._passages = [Passage(hit, embedder) for hit in context.hits]
        self._embedder, self._on_removed = embedder, on_removed
        self._held = context.grounded and bool(context.hits)
        self._remove = context.query.options.unsupported == "remove"
        self._markers: dict[tuple[str, Span], int] = {}
        self._rows = False  # the line before is a row of a table
        self._head = False  # this one is the first, which names the columns
        self._gap = ""  # what stands between the last sentence and the next: a line or a paragraph

    def line(self, line: str) -> Iterator[Sentence]:
        """The sentences of a line. One that is quoted whole, such as a row of a table, is not taken apart."""
        said = self._parsed(line)
        row = _ROW.match(said.shown) is not None
        self._head = row and not self._rows
        self._rows = row
        if row or any(self._quotes(number, said.body) for number in said.numbers):
            yield from self.sentence(line)
        else:
            for text in split(line):
                yield from self.sentence(text)
        self._head = False
        self._gap += "\n"

    def sentence(self, text: str) -> Iterator[Sentence]:
        """The sentence with its citations, unless there is nothing in it."""
        said = self._parsed(text)
        if not said.shown:
            return
        claim = Claim(said.body, self._embedder)
        found = traced(claim, self._passages, named=said.numbers)
        citations = list({one.marker: one for one in (self._citation(*pair) for pair in found)}.values())
        support = min((one.support for one in citations), key=_BEST_FIRST.index, default=None)
        mark = ""
        if support is None and self._held and _states(claim) and not self._head:
            support, mark = "unsupported", NO_SOURCE
            if self._remove:
                if self._on_removed:
                    self._on_removed(said.shown)
                return
        shown = _marked(said.shown, mark or "".join(f"[{citation.marker}]" for citation in citations))
        gap = self._gap if len(self._gap) > 1 or (self._gap and _OWN_LINE.match(shown)) else ""
        self._gap = ""
        yield Sentence(text=gap[:2] + shown, citations=tuple(citations), support=support)

    def _parsed(self, text: str) -> _Said:
        last = LAST_MARKERS.search(text)
        if last:
            body, numbers = (text[: last.start()] + text[last.end() :]).strip(), self._numbers(last[0])
            if any(self._quotes(number, body) for number in numbers):
                # A quote, so the numbers inside are notes of its source. A reader would take them for our markers.
                return _Said(without(body), body, numbers)
        body = without(text).strip()
        return _Said(body, body, self._numbers(text))

    def _quotes(self, number: int, body: str) -> bool:
        return self._passages[number].verbatim(Claim(body).plain) is not None

    def _numbers(self, text: str) -> list[int]:
        return [number - 1 for number in named(text) if 0 < number <= len(self._passages)]

    def _citation(self, number: int, source: Source) -> Citation:
        hit = self._passages[number].hit
        offset = hit.chunk.span.start
        span = Span(offset + source.start, offset + source.end)
        return Citation(
            marker=self._markers.setdefault((hit.document_id, span), len(self._markers) + 1),
            document_id=hit.document_id,
            uri=hit.uri,
            title=hit.title,
            span=span,
            quote=hit.chunk.text[source.start : source.end],
            pages=hit.chunk.pages,
            section=hit.chunk.section,
            support=source.support,
        )


def _states(claim: Claim) -> bool:
    """Whether it says something that a source could bear out: no greeting, no question, no line over a list."""
    return len(claim.terms.units) + len(claim.numbers) >= LEAST_UNITS and not claim.body.endswith(_STATES_NOTHING)


def _marked(body: str, markers: str) -> str:
    """The markers before the full stop, so that they stay with their sentence; in a row, in its last cell."""
    if not markers:
        return body
    end = _LAST_BAR.search(body) if _ROW.match(body) else _END.search(body)
    words = body[: end.start()] if end else body
    space = "" if words and is_cjk(words[-1]) else " "
    return f"{words}{space}{markers}{end[0] if end else ''}"
