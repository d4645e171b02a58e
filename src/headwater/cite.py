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
from headwater.statements import HEADING, RULE
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
# A row of a table, a heading and a line of code end with their line.
_WHOLE_LINE: Final = ("|", "#", "`", "~")
# What begins a block of code. In the same line as its end it is code inside of a sentence.
_OPENS: Final = re.compile(r"\s*(`{3,}|~{3,})[^`]*\Z")
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
        if citer.in_code or buffer.lstrip().startswith(_WHOLE_LINE):
            continue
        ended, buffer = complete(buffer)
        for text in ended:
            yield from citer.sentence(text)
    yield from citer.line(buffer)
    yield from citer.end()


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
        self._whole = False  # the last one has its line for itself
        self._code: list[str] = []  # the lines of the block that is being read
        self._introduced: list[int] = []  # the passages that the line before a block names

    @property
    def in_code(self) -> bool:
        """Whether the line that comes is code."""
        return bool(self._code)

    def line(self, line: str) -> Iterator[Sentence]:
        """The sentences of a line. One that is quoted whole, such as a row of a table, is not taken apart."""
        if self._code or _OPENS.match(line):
            self._code.append(line)
            if len(self._code) > 1 and _closes(line, self._code[0]):
                yield from self.end()
                self._gap += "\n"
            return
        said = self._parsed(line)
        if self._is_bare(said):
            yield self._placed(said.shown, whole=True)
            self._rows = self._rows and RULE.match(said.shown) is not None
            self._gap += "\n"
            return
        if said.shown:
            self._introduced = said.numbers
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
        if self._head and not said.numbers:
            yield self._placed(said.shown, whole=True)
            return
        held = self._traced(claim, said.numbers)
        if held is None:
            return
        citations, support, marks = held
        row = _ROW.match(said.shown) is not None
        yield self._placed(_marked(said.shown, marks), citations, support, whole=row)

    def end(self) -> Iterator[Sentence]:
        """The block of code that is being read, as it was written; its markers stand in a line of their own."""
        lines, self._code = self._code, []
        if not lines:
            return
        inside = lines[1:-1] if _closes(lines[-1], lines[0]) else lines[1:]
        held = self._traced(Claim("\n".join(inside), self._embedder), self._introduced)
        if held is None:
            return
        citations, support, marks = held
        shown = "\n".join([*lines, marks] if marks else lines)
        self._gap = self._gap or "\n"
        yield self._placed(shown, citations, support, whole=True)

    def _traced(self, claim: Claim, named: list[int]) -> tuple[list[Citation], Support | None, str] | None:
        """The citations of a claim, its support, and what marks it; None for one that is to be left out."""
        found = traced(claim, self._passages, named=named)
        citations = list({one.marker: one for one in (self._citation(*pair) for pair in found)}.values())
        if citations:
            support = min((one.support for one in citations), key=_BEST_FIRST.index)
            return citations, support, "".join(f"[{citation.marker}]" for citation in citations)
        if not self._held or not _states(claim) or self._head:
            return [], None, ""
        if not self._remove:
            return [], "unsupported", NO_SOURCE
        if self._on_removed:
            self._on_removed(claim.body)
        return None

    def _placed(
        self, shown: str, citations: Sequence[Citation] = (), support: Support | None = None, *, whole: bool
    ) -> Sentence:
        """The sentence behind what is between it and the last one. One with a line `whole` for itself keeps it."""
        apart = self._gap and (whole or self._whole or _OWN_LINE.match(shown))
        gap = self._gap[:2] if len(self._gap) > 1 or apart else ""
        self._gap, self._whole = "", whole
        return Sentence(text=gap + shown, citations=tuple(citations), support=support)

    def _is_bare(self, said: _Said) -> bool:
        """Whether a line states nothing: a rule, or a heading. A comment in code that a passage has is none."""
        if not said.shown or RULE.match(said.shown):
            return bool(said.shown)
        quoted = any(self._passages[number].states(Claim(said.body).plain) for number in said.numbers)
        return HEADING.match(said.shown) is not None and not quoted

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


def _closes(line: str, opening: str) -> bool:
    """Whether a line ends the block that another one began: the same signs, as many at least, and nothing else."""
    begun = _OPENS.match(opening)
    return begun is not None and line.strip().startswith(begun[1]) and not line.strip(f" \t\r{begun[1][0]}")


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
