"""Characters -> the chunks whose text holds them exactly, upper and lower case alike.

Nothing is a sign for anything else: `%`, `_`, `*` and quotes are themselves. The text index proposes chunks by the
terms that any match must hold: pairs of Chinese characters, and words with the query going on on both sides of them.
Where there is no such term, as for a part of a word, the documents are gone through one after the other: their stored
bytes where the catalog shows them (`Scannable`), else their passages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final, Protocol, runtime_checkable

from headwater.filters import Filter
from headwater.protocols import Catalog, TextIndex
from headwater.tokens import fold, is_cjk
from headwater.types import Chunk, Scored, attributes

# More than this the index is not asked for: then too many chunks hold the terms to be sure of having them all.
MOST_PROPOSED: Final = 10_000
BATCH: Final = 500  # chunks read at a time: the deadline is looked at in between
# The one character beyond ASCII whose small letter is in it: the sign for kelvin, in UTF-8.
_KELVIN: Final = "\u212a".encode()


@runtime_checkable
class Scannable(Protocol):
    """A catalog whose texts can be gone through from end to end."""

    def texts(self) -> Iterator[tuple[range, bytes]]:
        """Of every document that can be found: the ids of its chunks, and its text as UTF-8."""
        ...


def containing(
    text: str, *, where: Filter, catalog: Catalog, text_index: TextIndex, left: float
) -> tuple[list[Scored], list[str]]:
    """Chunks by how often they hold the text, ties by id; and what keeps the list from being complete."""
    deadline = perf_counter() + left
    needle = plain(text.strip())
    counts: dict[int, int] = {}
    anchored = anchors(needle)
    # What has any of the words is proposed only where going through everything takes long: then the best come first.
    propose = anchored or not isinstance(catalog, Scannable)
    found = text_index.search(text, MOST_PROPOSED, where, all_of=anchored) if propose else []
    proposed = [chunk_id for chunk_id, _ in found]
    for start in range(0, len(proposed), BATCH):
        for chunk_id, (chunk, record) in catalog.chunks(proposed[start : start + BATCH]).items():
            if where.matches(attributes(record, chunk)):
                counts[chunk_id] = times(needle, chunk)
        if perf_counter() >= deadline:
            return _ranked(counts), ["substring search stopped: no time was left"]
    lacking: list[str] = []
    if not anchored or len(proposed) >= MOST_PROPOSED:
        go_through = _scan if isinstance(catalog, Scannable) else _go_through
        lacking = go_through(needle, counts, where=where, catalog=catalog, deadline=deadline)
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


def matcher(needle: str) -> Callable[[bytes], bool]:
    """What tells whether a text as UTF-8 holds it; now and then it says yes to one that does not."""
    if not all(char.isascii() or char.lower() == char.upper() for char in needle):
        return lambda body: needle in plain(body.decode("utf-8", "surrogatepass"))
    encoded = needle.encode("utf-8", "surrogatepass")
    if encoded.lower() == encoded.upper():
        return lambda body: encoded in body
    # Of bytes only ASCII letters have case, and that is all the case there is here.
    kelvin = "k" in needle
    return lambda body: encoded in body.lower() or (kelvin and _KELVIN in body)


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


def _scan(needle: str, counts: dict[int, int], *, where: Filter, catalog: Catalog, deadline: float) -> list[str]:
    """The same over the stored bytes: only of texts that hold it is anything made."""
    assert isinstance(catalog, Scannable)
    holds, allowed = matcher(needle), catalog.select(where)
    held: list[tuple[range, str]] = []

    def count() -> None:
        ids = [id for chunks, _ in held for id in chunks]
        places = catalog.locate([id for id, seen in zip(ids, allowed.contains(ids).tolist(), strict=True) if seen])
        for chunks, text in held:
            for id in chunks:
                if id in places:
                    _, start, end = places[id]
                    counts[id] = text.count(needle, start, end)
        held.clear()

    for number, (chunks, body) in enumerate(catalog.texts()):
        if holds(body):
            held.append((chunks, plain(body.decode("utf-8", "surrogatepass"))))
        if len(held) >= BATCH:
            count()
        if number % BATCH == 0 and perf_counter() >= deadline:
            return [f"substring search stopped after the texts of {number} documents: no time was left"]
    count()
    return []


def _ranked(counts: dict[int, int]) -> list[Scored]:
    found = [Scored(chunk_id, float(count)) for chunk_id, count in counts.items() if count]
    return sorted(found, key=lambda one: (-one.score, one.chunk_id))
