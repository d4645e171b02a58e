"""Results that are a complete list -> an answer that counts and names them: one sentence of each document.

Where what is asked for stands over rows or items and in none of them, as in a table of codes, all of them are said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from headwater.highlight import Terms
from headwater.statements import Statement, reading, statements
from headwater.tokens import Cutter, is_cjk, language
from headwater.types import Hit, Results

# {documents} and {passages} in all, {shown} of the documents below, {more} not.
_OPENING: Final = {
    "en": ("{documents} {document} {have} “{listed}” in {passages} {passage}{rest}:"),
    "zh": "共有{documents}份文档、{passages}处提到“{listed}”{rest}：",
}
# What stands before an item of a list on its line, and nothing after it.
_ITEM: Final = re.compile(r"(?:^|\n)[ \t]*(?:[-*+•·]|\d{1,3}[.)、])[ \t]+\Z")
_HEADING: Final = re.compile(r"^#{1,6}[ \t].*$", re.MULTILINE)
_REST: Final = {"en": ", of which {shown} follow, and {more} more", "zh": "，以下列出{shown}份，另有{more}份未列出"}


def listing(results: Results, hits: Sequence[Hit], *, cutter: Cutter | None = None) -> Iterator[str]:
    """Lines with markers: how many there are, then the sentence of each document that has most of what was asked for.

    Passage n is `hits[n - 1]`; of a document only the first is quoted, and others whose heads say what is asked for.
    """
    spoken = language(results.query.text)
    places: dict[str, list[int]] = {}
    for number, hit in enumerate(hits):
        if hit.document_id in results.document_counts:
            places.setdefault(hit.document_id, []).append(number)
    documents, more = len(results.document_counts), len(results.document_counts) - len(places)
    counts = {
        "documents": documents,
        "document": "document" if documents == 1 else "documents",
        "have": "has" if documents == 1 else "have",
        "passages": results.total,
        "passage": "passage" if results.total == 1 else "passages",
        "listed": results.listed,
        "rest": _REST[spoken].format(shown=len(places), more=more) if more else "",
    }
    yield _OPENING[spoken].format(**counts) + "\n"
    terms = Terms.of(results.listed, cutter)
    for first, *others in places.values():
        under = _listed(hits[first], terms)
        for line in under or [_sentence(hits[first], terms)]:
            yield f"- {line} [{first + 1}]\n"
        for number in others if under else []:
            for line in _listed(hits[number], terms):
                yield f"- {line} [{number + 1}]\n"


def _listed(hit: Hit, terms: Terms) -> list[str]:
    """The rows and items under the head that has the words, where no sentence of the passage has one of them."""
    text, found = hit.chunk.text, _read(hit, terms)
    most = max((over for _, _, over in found), default=0)
    if any(own for own, _, _ in found) or not most:
        return []
    under = [one for _, one, over in found if over == most]
    return [_shown(text, one) for one in under if one.kind == "row" or _ITEM.search(text[: one.start])]


def _sentence(hit: Hit, terms: Terms) -> str:
    """The statement of the passage with the most of the words, in it or else over it; the first of equals."""
    text = hit.chunk.text
    found = _read(hit, terms) or [(0, Statement(0, len(text), "sentence", None), 0)]
    return _shown(text, max(found, key=lambda one: (one[0], one[2]))[1])


def _read(hit: Hit, terms: Terms) -> list[tuple[int, Statement, int]]:
    """The statements of a passage, each with how many of the words stand in it and how many over it."""
    text = hit.chunk.text
    found = [one for one in statements(text) if one.kind != "title"]
    own = terms.covered(text, [(one.start, one.end) for one in found])
    made = []
    for units, one in zip(own, found, strict=True):
        above = list(_HEADING.finditer(text, 0, one.start))
        heads = [above[-1][0] if above else hit.chunk.section, text[slice(*one.heading)] if one.heading else ""]
        head = "\n".join(heads)
        made.append((len(units), one, len(terms.covered(head, [(0, len(head))])[0])))
    return made


def _shown(text: str, statement: Statement) -> str:
    """A statement on one line; a row of a table with the names of its columns."""
    if row := reading(text, statement):
        return row
    lines = [" ".join(line.split()) for line in text[statement.start : statement.end].splitlines()]
    flat = lines[0] if lines else ""
    for line in filter(None, lines[1:]):
        flat += line if flat and is_cjk(flat[-1]) and is_cjk(line[0]) else f" {line}"
    return flat
