"""What index tests work on: documents on a shelf, which is the part of a catalog that an index needs, and odd text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from headwater.filters import ALL, Filter, Not
from headwater.protocols import TextIndex, VectorIndex
from headwater.selection import TICKET_BITS, Selection
from headwater.types import Chunk, Document, Ids, Matrix, Scored, Span, Vector, attributes, record_of

Pair = tuple[Chunk, Document]

HOSTILE = (
    *("", " ", "\t\n", '"', "'", '"unclosed', "a" * 10_000, "词" * 10_000, "many words " * 1_000, "\0", "a\0b", "😀🎉"),
    *(
        "'; DROP TABLE chunks; --",
        "title:x AND (",
        "* OR *",
        "id:[0 TO 9]",
        "\\",
        "-",
        "+",
        "~",
        "^2",
        "\ud800",
        "％＄",
    ),
    *("\u202eabc", "́", "NOT", "a/b/../c", "<script>alert(1)</script>", "{{x}}", "%s %d", "１２３"),
)
FILTERS = (
    *('tag = "red"', 'tag != "red"', 'not tag = "red"', "archived", "not archived", "page >= 2", "page = 1"),
    *('section contains "Methods"', 'tag = "red" and page >= 2', 'owner = "ann" or owner = "bob"', 'owner = "nobody"'),
    *('not (tag = "red" or page = 1)', 'kind = "table"', "year >= 2021", "year in (2020, 2022)", 'missing = "x"'),
)


class Shelf:
    """Every chunk that was put on it, with its document and its vector. All are alive until taken off."""

    def __init__(self) -> None:
        self._pairs: dict[int, Pair] = {}
        self._vectors: dict[int, Vector] = {}

    def put(
        self,
        ticket: int,
        *texts: str,
        chunks: Sequence[dict[str, Any]] = (),
        vectors: Matrix | None = None,
        **about: Any,
    ) -> list[Pair]:
        """A document of these passages. `about` describes it, `chunks` each passage beyond its text."""
        text = "\n".join(texts)
        document = Document(**{"uri": f"note-{ticket}", "id": f"document-{ticket}", "text": text, **about})
        pairs, start = [], 0
        for ordinal, passage in enumerate(texts):
            chunk = Chunk(span=Span(start, start + len(passage)), text=passage, id=ticket << TICKET_BITS | ordinal)
            pairs.append((replace(chunk, **(chunks[ordinal] if chunks else {})), document))
            start += len(passage) + 1
            if vectors is not None:
                self._vectors[chunk.id] = vectors[ordinal]
        self._pairs.update((chunk.id, (chunk, document)) for chunk, document in pairs)
        return pairs

    def take_off(self, ticket: int) -> None:
        """Let a document die without telling the index."""
        for id in [id for id in self._pairs if id >> TICKET_BITS == ticket]:
            del self._pairs[id]
            self._vectors.pop(id, None)

    def select(self, where: Filter) -> Selection:
        """What the filter allows, in the shapes a catalog gives: whole versions, single chunks, and gaps for `not`."""
        if where == ALL:
            return Selection.everything()
        if isinstance(where, Not):
            return ~self.select(where.part)
        allowed = {id for id, pair in self._pairs.items() if self.matches(where, pair)}
        parts = {id >> TICKET_BITS for id in self._pairs if id not in allowed}
        whole = {id >> TICKET_BITS for id in allowed} - parts
        return Selection.of_tickets(sorted(whole)) | Selection.of_ids(sorted(allowed))

    @staticmethod
    def matches(where: Filter, pair: Pair) -> bool:
        """Whether the filter allows this chunk of this document."""
        chunk, document = pair
        return where.matches(attributes(record_of(document), chunk))

    def allowed(self, where: Filter) -> set[int]:
        """The ids that the filter allows, one by one."""
        return {id for id, pair in self._pairs.items() if self.matches(where, pair)}

    def exact(self, ids: Sequence[int]) -> tuple[Ids, Matrix]:
        """The vectors of those that are alive, with their ids."""
        alive = [id for id in ids if id in self._vectors]
        rows = [self._vectors[id] for id in alive]
        dim = len(next(iter(self._vectors.values()))) if self._vectors else 0
        return np.array(alive, dtype=np.int64), np.array(rows, dtype=np.float32).reshape(len(alive), dim)


def ids_of(found: Sequence[Scored]) -> list[int]:
    """The chunk ids of a result, in order."""
    return [scored.chunk_id for scored in found]


def make_visible(index: TextIndex | VectorIndex) -> None:
    """Flush and refresh."""
    index.flush()
    index.refresh()


def mixed_documents(shelf: Shelf, *, count: int, vectors: Matrix | None = None) -> list[list[Pair]]:
    """Documents of three passages that differ in all that filters look at; every passage has the word heron."""
    made = []
    for n in range(count):
        chunks = [
            {"pages": (page,), "section": "Methods" if page == n % 4 else "Results > Tables", "kind": kind}
            for page, kind in zip((1, 2, 3), ("prose", "table" if n % 5 == 0 else "prose", "code"), strict=True)
        ]
        made.append(
            shelf.put(
                2 * n + 1,
                *(f"heron {'river ' * (n * passage % 7)}" for passage in range(3)),
                chunks=chunks,
                vectors=None if vectors is None else vectors[3 * n : 3 * n + 3],
                tags=("red", "blue")[: n % 3],
                owner=("ann", "bob", "cid")[n % 3],
                archived=n % 6 == 0,
                meta={"year": 2020 + n % 4},
            )
        )
    return made


def random_rows(count: int, dim: int, seed: int = 0) -> Matrix:
    """Unit vectors in all directions."""
    rows = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    unit: Matrix = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def alongside(write: Callable[[], None], read: Callable[[], Sequence[int]]) -> None:
    """Read in two threads until the writing is done; a read that raises or comes back empty fails."""
    done = threading.Event()

    def reading() -> int:
        reads = 0
        while not done.is_set():
            assert list(read()), "a search came back empty"
            reads += 1
        return reads

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(reading) for _ in range(2)]
        try:
            write()
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
