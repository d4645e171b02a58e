"""A parser that is about to do something slow -> whoever holds it to a time lets it take some more.

Recognising a page takes seconds, where reading one takes a hundredth: a long scan is no file that hangs. Where nobody
holds the parser to a time, asking does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[Callable[[], None] | None] = ContextVar("headwater_patience", default=None)


def ask() -> None:
    """One more slow step follows."""
    if (given := _asked.get()) is not None:
        given()


@contextmanager
def patience(given: Callable[[], None]) -> Iterator[None]:
    """What is asked for in the `with` block is asked of `given`."""
    before = _asked.set(given)
    try:
        yield
    finally:
        _asked.reset(before)
