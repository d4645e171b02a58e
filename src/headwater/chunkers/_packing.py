"""Pieces in order -> chunks: some together, none too large, none too small where it can be helped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headwater.chunkers._layout import Ruler
from headwater.types import Span


class Bounds:
    """How large a chunk may and should be, measured along one text."""

    def __init__(self, ruler: Ruler, *, size: int, minimum: int) -> None:
        self.ruler, self.size, self.minimum = ruler, size, minimum

    def enough(self, start: int, end: int) -> bool:
        """Whether it has the minimum."""
        return not self.minimum or end > self.ruler.reach(start, self.minimum - 1)

    def fits(self, start: int, end: int) -> bool:
        """Whether it is not too large."""
        return end <= self.ruler.reach(start, self.size)


def packed(pieces: Sequence[Span], bounds: Bounds, ends: Callable[[int], bool] = lambda _: True) -> Iterator[Span]:
    """Chunks of at least the minimum, ended before piece n where `ends(n)` says so; a small rest joins the last one."""
    held: Span | None = None
    start = end = -1
    for number, piece in enumerate(pieces):
        if end < 0:
            start = piece.start
        elif not bounds.fits(start, piece.end) or (ends(number) and bounds.enough(start, end)):
            if held is not None:
                yield held
            held, start = Span(start, end), piece.start
        end = piece.end
    if end < 0:
        return
    if held is not None and not bounds.enough(start, end) and bounds.fits(held.start, end):
        start = held.start
    elif held is not None:
        yield held
    yield Span(start, end)
