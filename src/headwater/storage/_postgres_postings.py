"""Chunks cut into terms -> rows of postings in PostgreSQL, packed by term and block; and back to arrays.

A block is some hundred chunks whose tickets follow each other, named by the lowest ticket it may hold. A row of
postings has all chunks of one block that hold one term of one field: for each where it is in the block, how often it
has the term, and how long the field is there. So a word that every other chunk has is a few rows and not thousands, a
search needs no second table for lengths, and what a removed document takes away is exact: its rows are written anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from headwater.selection import TICKET_BITS
from headwater.storage._lanes import FIELDS
from headwater.types import Ids

# A common term's row is then about 4 kB: large enough that a search reads few, small enough to be written anew when the
# next document comes.
BLOCK_CHUNKS: Final = 512
# So many chunks at once begin a block of their own: looking up what the last one has of all their terms takes longer.
OWN_BLOCK: Final = 128
# So that a place in a block has 32 bits.
BLOCK_TICKETS: Final = 1 << (32 - TICKET_BITS)
# A term is a number that its field and token give: no table of terms to ask and fill, and none that keeps the words of
# documents that are gone. That two of ten million terms share one has a chance of 3 in a million.
TERM_BYTES: Final = 8

_NARROW: Final = np.dtype([("place", "<u4"), ("frequency", "<u2"), ("length", "<u2")])
_WIDE: Final = np.dtype([("place", "<u4"), ("frequency", "<u4"), ("length", "<u4")])
_MOST_NARROW: Final = np.iinfo(np.uint16).max
# A row as `copy ... (format binary)` reads it: each column behind its size.
_ROW: Final = [
    *[("columns", ">i2"), ("term_bytes", ">i4"), ("term", ">i8"), ("block_bytes", ">i4"), ("block", ">i8")],
    *[("chunks_bytes", ">i4"), ("chunks", ">i4"), ("payload_bytes", ">i4")],
]
COPY_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END: Final = b"\xff\xff"

_Numbers = npt.NDArray[np.int64]


def term_of(field: int, token: str) -> int:
    """The number of a token in a field, any text at all."""
    data = b"%d %s" % (field, token.encode("utf-8", "surrogatepass"))
    return int.from_bytes(blake2b(data, digest_size=TERM_BYTES).digest(), "little", signed=True)


class _Terms(dict[str, int]):
    """The numbers of a field's tokens, each reckoned once."""

    def __init__(self, field: int) -> None:
        self._field = field

    def __missing__(self, token: str) -> int:
        found = self[token] = term_of(self._field, token)
        return found


class Postings(NamedTuple):
    """Which term is in which chunk, one place of every array each."""

    terms: _Numbers
    blocks: _Numbers
    ids: Ids
    frequencies: _Numbers
    lengths: _Numbers

    def where(self, keep: npt.NDArray[np.bool_]) -> Postings:
        """Only these."""
        return Postings(*(column[keep] for column in self))

    def copied(self) -> Iterator[bytes]:
        """The rows (term, block, chunks, payload) as `copy ... (format binary)` reads them.

        Rows of the same number of chunks are of the same size, so numpy writes them at once.
        """
        yield COPY_HEAD
        if len(self.ids):
            order = np.lexsort((self.ids, self.blocks, self.terms))
            terms, blocks, ids, frequencies, lengths = (column[order] for column in self)
            wide = bool(max(frequencies.max(), lengths.max()) > _MOST_NARROW)
            packed = np.empty(len(order), dtype=_WIDE if wide else _NARROW)
            packed["place"], packed["frequency"], packed["length"] = ids - (blocks << TICKET_BITS), frequencies, lengths
            begins = np.concatenate(([True], (terms[1:] != terms[:-1]) | (blocks[1:] != blocks[:-1])))
            first = np.flatnonzero(begins)
            sizes = np.diff(first, append=len(order))
            for size in np.unique(sizes).tolist():
                starts = first[sizes == size]
                rows = np.empty(len(starts), dtype=np.dtype([*_ROW, ("payload", packed.dtype, (size,))]))
                rows["columns"], rows["term_bytes"], rows["block_bytes"], rows["chunks_bytes"] = 4, 8, 8, 4
                rows["term"], rows["block"], rows["chunks"] = terms[starts], blocks[starts], size
                rows["payload_bytes"] = size * packed.itemsize
                rows["payload"] = packed[starts[:, None] + np.arange(size)]
                yield rows.tobytes()
        yield COPY_END


def unpacked(rows: Sequence[tuple[int, int, int, bytes]]) -> Postings:
    """The postings of rows, in the order of the rows. One of the two widths is the rule for all of them."""
    narrow = [row for row in rows if len(row[3]) == row[2] * _NARROW.itemsize]
    if len(narrow) == len(rows):
        return _unpacked(rows, _NARROW)
    parts = [_unpacked([row], _NARROW if len(row[3]) == row[2] * _NARROW.itemsize else _WIDE) for row in rows]
    return together(parts)


def _unpacked(rows: Sequence[tuple[int, int, int, bytes]], dtype: np.dtype[Any]) -> Postings:
    packed = np.frombuffer(b"".join([row[3] for row in rows]), dtype=dtype)
    counts = np.array([row[2] for row in rows], dtype=np.int64)
    terms = np.repeat(np.array([row[0] for row in rows], dtype=np.int64), counts)
    blocks = np.repeat(np.array([row[1] for row in rows], dtype=np.int64), counts)
    ids = (blocks << TICKET_BITS) + packed["place"]
    return Postings(terms, blocks, ids, packed["frequency"].astype(np.int64), packed["length"].astype(np.int64))


def together(parts: Sequence[Postings]) -> Postings:
    """One after the other."""
    if not parts:
        return Postings(*(np.empty(0, dtype=np.int64) for _ in Postings._fields))
    return Postings(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Cut(NamedTuple):
    """One version of a document, cut into terms; the last four have one place for each posting."""

    chunks: int
    lengths: list[int]  # of each field, all chunks together
    terms: _Numbers
    ids: Ids
    frequencies: _Numbers
    sizes: _Numbers  # of the field, in the chunk


class Gathering:
    """What is to be written: versions by ticket."""

    def __init__(self) -> None:
        self._terms = [_Terms(field) for field in range(len(FIELDS))]
        self.cut: dict[int, Cut] = {}
        self.chunks = 0

    def put(self, ticket: int, rows: Sequence[tuple[int, Mapping[str, str]]]) -> None:
        """All chunks of a version: (chunk id, its terms by field with spaces between)."""
        terms: list[int] = []
        ids: list[int] = []
        frequencies: list[int] = []
        sizes: list[int] = []
        totals = [0] * len(FIELDS)
        counted: dict[str, Counter[str]] = {}  # chunks of one document have the same head
        for id, by_field in rows:
            for place, field in enumerate(FIELDS):
                joined = by_field.get(field, "")
                if not joined:
                    continue
                counts = counted.get(joined)
                if counts is None:
                    counts = counted[joined] = Counter(joined.split())
                length = counts.total()
                totals[place] += length
                terms.extend(map(self._terms[place].__getitem__, counts))
                frequencies.extend(counts.values())
                ids.extend(repeat(id, len(counts)))
                sizes.extend(repeat(length, len(counts)))
        columns = (np.array(column, dtype=np.int64) for column in (terms, ids, frequencies, sizes))
        self.drop([ticket])
        self.cut[ticket] = Cut(len(rows), totals, *columns)
        self.chunks += len(rows)

    def drop(self, tickets: Iterable[int]) -> None:
        """Forget versions."""
        for ticket in tickets:
            gone = self.cut.pop(ticket, None)
            self.chunks -= gone.chunks if gone is not None else 0

    def postings(self, blocks: Mapping[int, int]) -> Postings:
        """Of all versions, given the block of each."""
        parts = []
        for ticket, cut in self.cut.items():
            block = np.full(len(cut.ids), blocks[ticket], dtype=np.int64)
            parts.append(Postings(cut.terms, block, cut.ids, cut.frequencies, cut.sizes))
        return together(parts)


class Room(NamedTuple):
    """The last block, and how many chunks were put into it; none is below ticket 0."""

    block: int = -1
    chunks: int = BLOCK_CHUNKS

    def placed(self, sizes: Mapping[int, int]) -> tuple[dict[int, int], Room]:
        """A block for each ticket, which has so many chunks; and the room afterwards.

        Tickets come in order as a rule. One that comes late gets the block that has its number.
        """
        block, filled = self
        if sum(sizes.values()) >= OWN_BLOCK:
            filled = BLOCK_CHUNKS
        found = {}
        for ticket in sorted(sizes):
            if ticket < block:
                found[ticket] = ticket
                continue
            if filled >= BLOCK_CHUNKS or ticket - block >= BLOCK_TICKETS:
                block, filled = ticket, 0
            found[ticket] = block
            filled += sizes[ticket]
        return found, Room(block, filled)
