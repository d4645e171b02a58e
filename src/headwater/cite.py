"""Generated text + context -> sentences whose citations resolve, one by one as the text comes in.

A marker names a passage; a citation names the characters in it that the sentence rests on. A marker to nothing is
removed, a sentence without one is looked up in all passages, and a citation says how well it supports its sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from headwater.highlight import Terms
from headwater.statements import statements
from headwater.tokens import is_cjk, language, sentences
from headwater.types import Citation, Context, Hit, Sentence, Span, Support

# [1] [1,2] 【1】 [ID:1] [来源 1] [^1]; what else stands in brackets is text. Four digits are a year.
_MARKER: Final = re.compile(
    r"[ \t]?[\[【［]\s*(?:ID\s*[:：]\s*|来源\s*|source\s*|\^)?(\d{1,3}(?:\s*[,，、]\s*\d{1,3})*)\s*[\]】］]",
    re.IGNORECASE,
)
_LAST_MARKERS: Final = re.compile(rf"(?:{_MARKER.pattern})+(?=[\s.。!！?？;；…]*\Z)", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_END: Final = re.compile(r"[.。！？!?;；…]+\Z")
_OWN_LINE: Final = re.compile(r"[-*+•#|>]|\d{1,3}[.)、]")

# The share of a sentence's words that its source must have. Two thirds leave room for another wording; a third is what
# two sentences on one subject share anyway.
SUPPORTED_SHARE: Final = 0.66
WEAK_SHARE: Final = 0.33
# Two source sentences instead of one must explain so much more of it: a shorter quote is the better one.
SECOND_SENTENCE_GAIN: Final = 0.15


def cite(pieces: Iterable[str], context: Context) -> Iterator[Sentence]:
    """Each sentence as soon as the next one has begun; markers are numbered from 1 in the order of first use."""
    citer = _Citer(context)
    buffer = ""
    for piece in pieces:
        *lines, buffer = (buffer + piece).split("\n")
        for line in lines:
            yield from citer.line(line)
        *complete, buffer = _split(buffer)
        for text in complete:
            yield from citer.sentence(text)
    yield from citer.line(buffer)


def joined(parts: Sequence[Sentence]) -> tuple[str, tuple[Citation, ...]]:
    """The whole text, and each citation once, by marker."""
    text = ""
    for part in parts:
        text += part.text if not text or part.text.startswith("\n") else f" {part.text}"
    found = {citation.marker: citation for part in reversed(parts) for citation in part.citations}
    return text.strip(), tuple(found[marker] for marker in sorted(found))


def _split(text: str) -> list[str]:
    """Sentences, each with the markers that follow it. Together they are the text, and there is at least one."""
    shown = _MARKER.sub(lambda marker: " " * len(marker[0]), text)
    starts = [0, *(start for start, _ in sentences(shown)[1:]), len(text)]
    return [text[low:high] for low, high in pairwise(starts)]


class _Source(NamedTuple):
    start: int
    end: int
    support: Support


class _Said(NamedTuple):
    shown: str  # without markers
    body: str  # as a source would have it
    numbers: list[int]  # the passages it names, from 0


class _Citer:
    """Numbers the citations of one answer."""

    def __init__(self, context: Context) -> None:
        self._passages = [_Passage(hit) for hit in context.hits]
        self._markers: dict[tuple[str, Span], int] = {}
        self._gap = ""  # what stands between the last sentence and the next: a line or a paragraph

    def line(self, line: str) -> Iterator[Sentence]:
        """The sentences of a line. One that is quoted whole, such as a row of a table, is not taken apart."""
        said = self._parsed(line)
        if any(self._passages[number].verbatim(said.body) for number in said.numbers):
            yield from self.sentence(line)
        else:
            for text in _split(line):
                yield from self.sentence(text)
        self._gap += "\n"

    def sentence(self, text: str) -> Iterator[Sentence]:
        """The sentence with its citations, unless there is nothing in it."""
        said = self._parsed(text)
        if not said.shown:
            return
        citations = self._citations(said)
        shown = _marked(said.shown, "".join(f"[{citation.marker}]" for citation in citations))
        gap = self._gap if len(self._gap) > 1 or (self._gap and _OWN_LINE.match(shown)) else ""
        self._gap = ""
        yield Sentence(text=gap[:2] + shown, citations=tuple(citations))

    def _parsed(self, text: str) -> _Said:
        last = _LAST_MARKERS.search(text)
        if last:
            body, numbers = (text[: last.start()] + text[last.end() :]).strip(), self._numbers(last[0])
            if any(self._passages[number].verbatim(body) for number in numbers):
                # A quote, so the numbers inside are notes of its source. A reader would take them for our markers.
                return _Said(_MARKER.sub("", body), body, numbers)
        body = _MARKER.sub("", text).strip()
        return _Said(body, body, self._numbers(text))

    def _numbers(self, text: str) -> list[int]:
        named = (
            int(number) - 1
            for marker in _MARKER.finditer(text)
            for number in _NUMBER.findall(marker[1].replace(",", " "))
        )
        return list(dict.fromkeys(number for number in named if 0 <= number < len(self._passages)))

    def _citations(self, said: _Said) -> list[Citation]:
        numbers = said.numbers or range(len(self._passages))
        found = {number: self._passages[number].source(said.body) for number in numbers}
        supported = {number: source for number, source in found.items() if source.support == "supported"}
        if not said.numbers:
            # It names nothing: the first passage that says the same is its source, or it has none.
            found = dict(list(supported.items())[:1])
        elif supported:
            found = {number: source for number, source in found.items() if source.support != "unsupported"}
        return list({one.marker: one for one in (self._citation(*pair) for pair in found.items())}.values())

    def _citation(self, number: int, source: _Source) -> Citation:
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


class _Passage:
    """A passage that sentences are traced back to."""

    def __init__(self, hit: Hit) -> None:
        self.hit, self._text = hit, hit.chunk.text
        self._places = [place for place, char in enumerate(self._text) if not char.isspace()]
        self._dense = "".join(self._text[place] for place in self._places)

    def verbatim(self, body: str) -> tuple[int, int] | None:
        """Where it stands word for word; white space may differ, for generated text has its own line breaks."""
        dense = "".join(_plain(body).split())
        start = self._dense.find(dense) if dense else -1
        return None if start < 0 else (self._places[start], self._places[start + len(dense) - 1] + 1)

    def source(self, body: str) -> _Source:
        """The characters it rests on and how well they support it."""
        exact = self.verbatim(body) or self.verbatim(_END.sub("", body))
        if exact:
            return _Source(*exact, "supported")
        spans = [(one.start, one.end) for one in statements(self._text)] or [(0, len(self._text))]
        terms = Terms.of(body)
        covered = terms.covered(self._text, spans)
        share = [len(units) / max(1, len(terms.units)) for units in covered]
        best = max(range(len(spans)), key=share.__getitem__)
        (start, end), most = spans[best], share[best]
        for first, second in pairwise(range(len(spans))):
            both = len(covered[first] | covered[second]) / max(1, len(terms.units))
            if both > most + SECOND_SENTENCE_GAIN:
                start, end, most = spans[first][0], spans[second][1], both
        if language(body) != language(self._text):
            # Words cannot tell whether a translation is right; only its numbers can.
            whole = not most
            span = (0, len(self._text)) if whole else (start, end)
            return _Source(*span, "weak" if _numbers(body) <= _numbers(self._text) else "unsupported")
        return _Source(start, end, self._support(body, self._text[start:end], most))

    def _support(self, body: str, quote: str, share: float) -> Support:
        numbers = _numbers(body)
        if share >= SUPPORTED_SHARE and numbers <= _numbers(quote):
            return "supported"
        return "weak" if share >= WEAK_SHARE and numbers <= _numbers(self._text) else "unsupported"


def _numbers(text: str) -> set[str]:
    return {number.replace(",", "") for number in _NUMBER.findall(text)}


def _plain(text: str) -> str:
    """Without the bullet that a writer puts before a quoted sentence."""
    return text.removeprefix("- ").removeprefix("* ")


def _marked(body: str, markers: str) -> str:
    """The markers before the full stop, so that they stay with their sentence."""
    if not markers:
        return body
    end = _END.search(body)
    words = body[: end.start()] if end else body
    space = "" if words and is_cjk(words[-1]) else " "
    return f"{words}{space}{markers}{end[0] if end else ''}"
