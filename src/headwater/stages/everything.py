"""Words and a condition -> every live chunk that holds it, not only the best ones.

The text index proposes what has any of the words, deeper and deeper to the end of its list, and the catalog's text
decides. Where the words must stand together it proposes what has all of them, and the best of the others: where a line
ends inside of a Chinese word, a pair of its characters is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final, NamedTuple

from headwater.filters import Filter
from headwater.protocols import Catalog, TextIndex
from headwater.types import Chunk, Record, attributes

# The first look, and how much deeper each next one goes: what holds all of the words stands near the top.
FIRST_LOOK: Final = 500
DEEPER: Final = 4
# More than this is not gone through: a word of every second passage of a large home tells nothing.
MOST_LOOKED_AT: Final = 32_000
# Of those that lack one of the words, so many are looked at.
NEAR_MISSES: Final = 100
BATCH: Final = 500  # chunks read at a time: the deadline is looked at in between


class Held(NamedTuple):
    """A chunk that holds what was asked for, and the score that the text index gave it."""

    chunk: Chunk
    record: Record
    score: float


def everything(
    text: str,
    holds: Callable[[Chunk, Record], bool],
    *,
    where: Filter,
    catalog: Catalog,
    text_index: TextIndex,
    left: float,
    together: str = "",
    most: int | None = None,
) -> tuple[list[Held], str]:
    """Best first; and what keeps the list from being complete, empty where nothing does.

    `together` is what each of them holds as it stands. Who only wants to know whether there are more than `most`
    documents need not wait for all.
    """
    deadline = perf_counter() + left
    found: list[Held] = []
    documents: set[str] = set()
    seen: set[int] = set()
    limit = FIRST_LOOK
    near = text_index.search(text, NEAR_MISSES, where) if together else []
    while True:
        ranking = text_index.search(text, limit, where, all_of=together)
        proposed = {one.chunk_id: one for one in (*ranking, *near)}
        fresh = sorted((one for id, one in proposed.items() if id not in seen), key=lambda one: -one.score)
        for start in range(0, len(fresh), BATCH):
            some = fresh[start : start + BATCH]
            rows = catalog.chunks([one.chunk_id for one in some])
            for chunk_id, score in some:
                seen.add(chunk_id)
                chunk, record = rows.get(chunk_id, (None, None))
                if chunk is None or record is None or not where.matches(attributes(record, chunk)):
                    continue
                if holds(chunk, record):
                    found.append(Held(chunk, record, score))
                    documents.add(record.id)
            if most is not None and len(documents) > most:
                return found, ""
            if perf_counter() >= deadline:
                return found, f"{len(seen)} passages were gone through, and there was no time for more"
        if len(ranking) < limit:
            return found, ""
        if limit >= MOST_LOOKED_AT:
            return found, f"the first {limit} passages with any of the words were gone through, and there are more"
        limit *= DEEPER
