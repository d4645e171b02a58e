"""Somebody who works for long on one document -> whether anybody still wants what it makes.

Where nobody would know, it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[Callable[[], bool] | None] = ContextVar("headwater_wanted", default=None)


class NotWanted(Exception):
    """Ends the work on a document; whoever gave it away catches this."""


def check() -> None:
    """Raise NotWanted where it need not be gone on with; for between two slow steps."""
    if (given := _asked.get()) is not None and not given():
        raise NotWanted


@contextmanager
def while_wanted(given: Callable[[], bool]) -> Iterator[None]:
    """What is checked in the `with` block asks `given`."""
    before = _asked.set(given)
    try:
        yield
    finally:
        _asked.reset(before)
