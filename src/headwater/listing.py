"""Results that are a complete list -> an answer that counts and names them: one sentence of each document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from headwater.highlight import Terms
from headwater.statements import statements
from headwater.tokens import Cutter, is_cjk, language
from headwater.types import Hit, Results

# {documents} and {passages} in all, {shown} of the documents below, {more} not.
_OPENING: Final = {
    "en": ("{documents} {document} {have} “{listed}” in {passages} {passage}{rest}:"),
    "zh": "共有{documents}份文档、{passages}处提到“{listed}”{rest}：",
}
_REST: Final = {"en": ", of which {shown} follow, and {more} more", "zh": "，以下列出{shown}份，另有{more}份未列出"}


def listing(results: Results, hits: Sequence[Hit], *, cutter: Cutter | None = None) -> Iterator[str]:
    """Lines with markers: how many there are, then the sentence of each document that has most of what was asked for.

    Passage n is `hits[n - 1]`; of a document only the first is quoted.
    """
    spoken = language(results.query.text)
    firsts: dict[str, int] = {}
    for number, hit in enumerate(hits):
        if hit.document_id in results.document_counts:
            firsts.setdefault(hit.document_id, number)
    documents, more = len(results.document_counts), len(results.document_counts) - len(firsts)
    counts = {
        "documents": documents,
        "document": "document" if documents == 1 else "documents",
        "have": "has" if documents == 1 else "have",
        "passages": results.total,
        "passage": "passage" if results.total == 1 else "passages",
        "listed": results.listed,
        "rest": _REST[spoken].format(shown=len(firsts), more=more) if more else "",
    }
    yield _OPENING[spoken].format(**counts) + "\n"
    terms = Terms.of(results.listed, cutter)
    for number in firsts.values():
        yield f"- {_sentence(hits[number], terms)} [{number + 1}]\n"


def _sentence(hit: Hit, terms: Terms) -> str:
    """The statement of the passage with the most of the words, on one line; the first of equals."""
    text = hit.chunk.text
    spans = [(one.start, one.end) for one in statements(text)] or [(0, len(text))]
    best = max(zip(terms.covered(text, spans), spans, strict=True), key=lambda pair: len(pair[0]))[1]
    lines = [" ".join(line.split()) for line in text[slice(*best)].splitlines()]
    flat = lines[0] if lines else ""
    for line in filter(None, lines[1:]):
        flat += line if flat and is_cjk(flat[-1]) and is_cjk(line[0]) else f" {line}"
    return flat
