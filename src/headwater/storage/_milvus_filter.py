"""A selection of chunk ids -> filters in Milvus's language that together allow exactly these.

The server reads a set of numbers fast and ranges slowly: 5,000 numbers in 24 ms, but 32 ranges in 100 ms, and 64 are
refused for their depth (2.3.5). So whole versions become a set of tickets, single chunks a set of ids, and what is too
wide for either one of a few ranges; where what is left out is simpler to say, that is said. Numbers only: nothing that
a person typed gets into a filter.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from headwater.selection import TICKET_BITS, Ids, Selection

# To one filter.
MAX_SET: Final = 5_000
MAX_RANGES: Final = 8
# So many neighbours are written one by one: a set is cheaper than a range.
MAX_SPAN: Final = 64
_HIGH: Final = np.iinfo(np.int64).max


def filters_of(selection: Selection) -> list[str]:
    """As few as possible; one that is empty allows everything. No chunk is allowed by two of them."""
    if selection.is_everything:
        return [""]
    direct = _Terms(selection)
    if direct.is_one:
        return direct.written()
    inverse = _Terms(~selection)
    return [f"not ({inverse.written()[0]})"] if inverse.is_one else direct.written()


class _Terms:
    """What a selection is made of."""

    def __init__(self, selection: Selection) -> None:
        starts, stops = selection.starts, selection.stops
        # Of each range: what is before its first whole ticket, its whole tickets, and what is after the last.
        first = (starts >> TICKET_BITS) + ((starts & ((1 << TICKET_BITS) - 1)) > 0)
        last = np.where(stops == _HIGH, (_HIGH >> TICKET_BITS) + 1, stops >> TICKET_BITS)
        has_whole = last > first
        # One that goes on for ever, or for long, is a range from where it starts to where it stops.
        long = has_whole & (last - first > MAX_SPAN)
        whole = has_whole & ~long
        within = ~has_whole
        pieces_low = np.concatenate((starts[within], starts[whole], last[whole] << TICKET_BITS))
        pieces_high = np.concatenate((stops[within], first[whole] << TICKET_BITS, stops[whole]))
        filled = pieces_low < pieces_high
        pieces_low, pieces_high = pieces_low[filled], pieces_high[filled]
        narrow = pieces_high - pieces_low <= MAX_SPAN
        self.tickets = _every(first[whole], last[whole])
        self.ids = _every(pieces_low[narrow], pieces_high[narrow])
        low = np.concatenate((starts[long], pieces_low[~narrow])).tolist()
        high = np.concatenate((stops[long], pieces_high[~narrow])).tolist()
        self.ranges = list(zip(low, high, strict=True))

    @property
    def is_one(self) -> bool:
        """Whether one filter can say it."""
        return len(self.tickets) + len(self.ids) <= MAX_SET and len(self.ranges) <= MAX_RANGES

    def written(self) -> list[str]:
        terms = [
            *(_set("ticket", self.tickets[n : n + MAX_SET]) for n in range(0, len(self.tickets), MAX_SET)),
            *(_set("id", self.ids[n : n + MAX_SET]) for n in range(0, len(self.ids), MAX_SET)),
        ]
        ranges = [_range(low, high) for low, high in self.ranges]
        if self.is_one:
            return [" or ".join([*terms, *ranges])]
        return [*terms, *(" or ".join(ranges[n : n + MAX_RANGES]) for n in range(0, len(ranges), MAX_RANGES))]


def tickets_in(tickets: Ids) -> list[str]:
    """Filters for every chunk of these tickets."""
    return [_set("ticket", tickets[n : n + MAX_SET]) for n in range(0, len(tickets), MAX_SET)]


def _every(starts: Ids, stops: Ids) -> Ids:
    """Each number of some ranges."""
    lengths = stops - starts
    if not len(lengths):
        return starts
    offsets = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    numbers: Ids = offsets + np.arange(int(lengths.sum()))
    return numbers


def _set(field: str, numbers: Ids) -> str:
    return f"({field} in [{','.join(map(str, numbers.tolist()))}])"


def _range(low: int, high: int) -> str:
    # In brackets, always: the server's parser takes seconds for a few ranges without.
    return f"(id >= {low})" if high == _HIGH else f"(id >= {low} and id < {high})"
