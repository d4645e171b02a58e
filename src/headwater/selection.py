"""A set of chunk ids as ranges of the integer line: what a filter allows.

A chunk id is `ticket << TICKET_BITS | ordinal`, so a whole version of a document is one range and neighbouring
versions merge into one. `not` is the gaps between the ranges. Ids that no longer exist may be inside: the catalog
decides what is alive, a selection only what is allowed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

# 2**20 chunks in one document are more than any book has; the other 43 bits number the versions.
TICKET_BITS: Final = 20
MAX_CHUNKS: Final = 1 << TICKET_BITS

Ids = npt.NDArray[np.int64]

_LOW: Final = np.int64(0)
_HIGH: Final = np.iinfo(np.int64).max


class Selection:
    """Sorted, disjoint, non-touching half-open ranges `[starts[i], stops[i])`."""

    __slots__ = ("starts", "stops")

    def __init__(self, starts: Ids, stops: Ids) -> None:
        self.starts, self.stops = starts, stops

    @staticmethod
    def everything() -> Selection:
        """Every id there is or will be."""
        return Selection(np.array([_LOW], dtype=np.int64), np.array([_HIGH], dtype=np.int64))

    @staticmethod
    def nothing() -> Selection:
        """No id at all."""
        empty = np.empty(0, dtype=np.int64)
        return Selection(empty, empty)

    @staticmethod
    def of_ranges(starts: npt.ArrayLike, stops: npt.ArrayLike) -> Selection:
        """From ranges in any order that may overlap; empty ones hold nothing."""
        low, high = np.asarray(starts, dtype=np.int64), np.asarray(stops, dtype=np.int64)
        low, high = low[low < high], high[low < high]
        order = np.argsort(low, kind="stable")
        low, high = low[order], high[order]
        if not len(low):
            return Selection.nothing()
        reach = np.maximum.accumulate(high)
        first = np.concatenate(([True], low[1:] > reach[:-1]))
        last = np.concatenate((first[1:], [True]))
        return Selection(low[first], reach[last])

    @staticmethod
    def of_tickets(tickets: npt.ArrayLike) -> Selection:
        """Every chunk of these versions."""
        low = np.asarray(tickets, dtype=np.int64)
        return Selection.of_ranges(low << TICKET_BITS, (low + 1) << TICKET_BITS)

    @staticmethod
    def of_ids(ids: npt.ArrayLike) -> Selection:
        """Exactly these chunks."""
        low = np.asarray(ids, dtype=np.int64)
        return Selection.of_ranges(low, low + 1)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return len(self.starts) == 1 and bool(self.starts[0] == _LOW) and bool(self.stops[0] == _HIGH)

    @property
    def is_open(self) -> bool:
        """Whether it goes on beyond all that exists: everything, or all but something. What is dead may be inside."""
        return bool(len(self.stops)) and bool(self.stops[-1] == _HIGH)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is allowed."""
        return not len(self.starts)

    def __invert__(self) -> Selection:
        starts = np.concatenate(([_LOW], self.stops))
        stops = np.concatenate((self.starts, [_HIGH]))
        keep = starts < stops
        return Selection(starts[keep], stops[keep])

    def __or__(self, other: Selection) -> Selection:
        starts = np.concatenate((self.starts, other.starts))
        return Selection.of_ranges(starts, np.concatenate((self.stops, other.stops)))

    def __and__(self, other: Selection) -> Selection:
        return ~(~self | ~other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.stops, other.stops)

    def __hash__(self) -> int:
        return hash((self.starts.tobytes(), self.stops.tobytes()))

    def contains(self, ids: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """For each id whether it is allowed."""
        wanted = np.asarray(ids, dtype=np.int64)
        if self.is_empty:
            return np.zeros(wanted.shape, dtype=np.bool_)
        place = np.searchsorted(self.starts, wanted, side="right") - 1
        inside: npt.NDArray[np.bool_] = (place >= 0) & (wanted < self.stops[np.maximum(place, 0)])
        return inside

    def within(self, present: Ids) -> Ids:
        """The allowed ones of `present`, which must be sorted."""
        low = np.searchsorted(present, self.starts, side="left")
        high = np.searchsorted(present, self.stops, side="left")
        if len(low) == 1:
            return present[low[0] : high[0]]
        lengths = high - low
        total = int(lengths.sum())
        if not total:
            return present[:0]
        # The positions low[i] .. high[i]-1 of all ranges, one after the other, without a Python loop.
        offsets = np.repeat(low - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        allowed: Ids = present[offsets + np.arange(total)]
        return allowed
