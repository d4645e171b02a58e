"""Catalog against indexes: what differs, in words, and how it is mended from the catalog."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headwater.errors import HomeDamaged
from headwater.filters import ALL
from headwater.protocols import Catalog, TextIndex, VectorIndex
from headwater.types import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """By index: versions it lacks, and versions it holds that are not alive."""

    missing: frozenset[int]
    orphans: frozenset[int]


def differences(live: Mapping[int, int], held: Mapping[int, int]) -> Differences:
    """A version counts as missing unless every one of its chunks is there."""
    missing = {ticket for ticket, chunks in live.items() if chunks and held.get(ticket, 0) != chunks}
    orphans = {ticket for ticket in held if ticket not in live}
    return Differences(missing=frozenset(missing), orphans=frozenset(orphans))


def problems(catalog: Catalog, text: TextIndex, vectors: VectorIndex) -> list[str]:
    """Everything that is wrong; empty when all is well. What is dead and waits to be swept is no problem."""
    found = list(catalog.check())
    live, swept_soon = catalog.tickets(), set(catalog.dead())
    for name, index in (("text", text), ("vector", vectors)):
        try:
            index.refresh()
            differ = differences(live, index.tickets())
        except HomeDamaged as error:
            found.append(f"the {name} index cannot be read: {error}")
            continue
        if differ.missing:
            found.append(f"the {name} index lacks {len(differ.missing)} of {len(live)} documents")
        if orphans := differ.orphans - swept_soon:
            found.append(f"the {name} index holds {len(orphans)} versions that no longer exist (invisible to searches)")
    return found


def repair(catalog: Catalog, text: TextIndex, vectors: VectorIndex) -> None:
    """Make both indexes say what the catalog says. The caller holds the home's lock."""
    catalog.repair()
    live = catalog.tickets()
    documents = {record.ticket: record.id for record in catalog.records(ALL)}
    for ticket in sorted(_mend(text, live)):
        document = catalog.document(documents[ticket])
        if document is not None:
            text.add([(chunk, document) for chunk in catalog.chunks_of(document.id)])
    text.flush()
    for ticket in sorted(_mend(vectors, live)):
        ids = np.array([chunk.id for chunk in catalog.chunks_of(documents[ticket])], dtype=np.int64)
        have, rows = catalog.vectors(ids.tolist())
        order = np.argsort(have)
        vectors.add(have[order], rows[order])
    vectors.flush()
    catalog.buried(catalog.dead())


def _mend(index: TextIndex | VectorIndex, live: Mapping[int, int]) -> frozenset[int]:
    """Drop what is not alive or not whole; return what must be added again."""
    try:
        index.refresh()
        differ = differences(live, index.tickets())
    except HomeDamaged:
        index.clear()
        return frozenset(ticket for ticket, chunks in live.items() if chunks)
    index.remove(sorted(differ.missing | differ.orphans))
    return differ.missing


def problems_beside(catalog: Catalog, text: TextIndex, vectors: VectorIndex, *, space: Space) -> list[str]:
    """What is wrong in a space that is not active. What it holds too much is removed before it is used."""
    found = []
    live = catalog.tickets(space)
    for name, index in (("text", text), ("vector", vectors)):
        try:
            index.refresh()
            missing = differences(live, index.tickets()).missing
        except HomeDamaged as error:
            found.append(f"the {name} index of the {space.state} space {space.id} cannot be read: {error}")
            continue
        if missing:
            what = f"{len(missing)} of {len(live)} documents"
            found.append(f"the {name} index of the {space.state} space {space.id} lacks {what}")
    return found


def tidy(catalog: Catalog, text: TextIndex, vectors: VectorIndex, *, space: Space) -> None:
    """Make a space that is not active agree with itself: what one of its indexes lacks has to be filled again."""
    live = catalog.tickets(space)
    missing: set[int] = set()
    orphans: set[int] = set()
    for index in (text, vectors):
        try:
            index.refresh()
            differ = differences(live, index.tickets())
        except HomeDamaged:
            index.clear()
            missing.update(live)
        else:
            missing |= differ.missing
            orphans |= differ.orphans
    if missing:
        catalog.unfill(space, sorted(missing))
    if gone := sorted(missing | orphans):
        for index in (text, vectors):
            index.remove(gone)
            index.flush()
