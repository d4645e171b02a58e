"""Characters -> the chunks whose text holds them exactly, upper and lower case alike.

Nothing is a sign for anything else: `%`, `_`, `*` and quotes are themselves. The text index proposes chunks by the
terms that any match must hold: pairs of Chinese characters, and words with the query going on on both sides of them.
Where there is no such term, as for a part of a word, the documents are gone through one after the other.
"""

from __future__ import annotations

from time import perf_counter
from typing import Final

from headwater.filters import Filter
from headwater.protocols import Catalog, TextIndex
from headwater.tokens import fold, is_cjk
from headwater.types import Chunk, Scored, attributes

# More than this the index is not asked for: then too many chunks hold the terms to be sure of having them all.
MOST_PROPOSED: Final = 10_000
BATCH: Final = 500  # chunks read at a time: the deadline is looked at in between


def containing(
    text: str, *, where: Filter, catalog: Catalog, text_index: TextIndex, left: float
) -> tuple[list[Scored], list[str]]:
    """Chunks by how often they hold the text, ties by id; and what keeps the list from being complete."""
    deadline = perf_counter() + left
    needle = plain(text.strip())
    counts: dict[int, int] = {}
    proposed = [chunk_id for chunk_id, _ in text_index.search(text, MOST_PROPOSED, where, all_of=anchors(needle))]
    for start in range(0, len(proposed), BATCH):
        for chunk_id, (chunk, record) in catalog.chunks(proposed[start : start + BATCH]).items():
            if where.matches(attributes(record, chunk)):
                counts[chunk_id] = times(needle, chunk)
        if perf_counter() >= deadline:
            return _ranked(counts), ["substring search stopped: no time was left"]
    lacking: list[str] = []
    if not is_anchored(needle) or len(proposed) >= MOST_PROPOSED:
        lacking = _go_through(needle, counts, where=where, catalog=catalog, deadline=deadline)
    return _ranked(counts), lacking


def plain(text: str) -> str:
    """Small letters, as many characters as before."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def times(needle: str, chunk: Chunk) -> int:
    """How often it stands in the chunk's text."""
    return plain(chunk.text).count(needle)


def found_at(needle: str, text: str) -> list[int]:
    """Where it stands in a text, places that overlap left out."""
    lower, places = plain(text), []
    start = lower.find(needle)
    while start >= 0:
        places.append(start)
        start = lower.find(needle, start + len(needle))
    return places


def is_anchored(needle: str) -> bool:
    """Whether every text that holds it has a term of it: two Chinese characters side by side, or a word inside."""
    return bool(anchors(needle))


def anchors(needle: str) -> str:
    """The parts of it that are terms of every text that holds it."""
    folded = fold(needle)
    runs = "".join(char if is_cjk(char) else " " for char in folded).split()
    words = folded.split()
    # The first and the last word may go on outside of it; one between two spaces may not.
    inside = [word for word in words[1:-1] if word.isalnum() and not any(map(is_cjk, word))]
    return " ".join([*(run for run in runs if len(run) > 1), *inside])


def _go_through(needle: str, counts: dict[int, int], *, where: Filter, catalog: Catalog, deadline: float) -> list[str]:
    records = catalog.records(where)
    for number, record in enumerate(records):
        if perf_counter() >= deadline:
            return [f"substring search stopped after {number} of {len(records)} documents: no time was left"]
        chunks = catalog.chunks_of(record.id)
        parents = {chunk.parent for chunk in chunks}
        for chunk in chunks:
            if chunk.id not in counts and chunk.id not in parents and where.matches(attributes(record, chunk)):
                counts[chunk.id] = times(needle, chunk)
    return []


def _ranked(counts: dict[int, int]) -> list[Scored]:
    found = [Scored(chunk_id, float(count)) for chunk_id, count in counts.items() if count]
    return sorted(found, key=lambda one: (-one.score, one.chunk_id))
