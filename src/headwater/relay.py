"""Batches -> prepared, stored and committed, three of them under way at a time, each step in a thread of its own.

Storing feeds an index, for which it needs the interpreter, and then waits for it, for which it does not; preparing and
committing need it all the time. So they are held back until the index is fed: it has work sooner, and both cores are
busy. Neither is held back for nothing: committing only where the next batch is there to be fed, preparing only where it
takes less time than storing. The last batch is written to the catalog while the index is still waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

Batch = TypeVar("Batch")
Stored = TypeVar("Stored")

# While a batch is being prepared, somebody who waits is told this often how far it is.
TELL_SECONDS: Final = 0.5


class Turn(Generic[Stored]):
    """A batch at the index. Whoever stores it says when the index is fed, and when all of it is durable."""

    def __init__(self) -> None:
        self.given, self.kept = Future[Stored](), Future[None]()

    def fed(self, what: Stored) -> None:
        """The index has been given all of the batch; this is to be committed once it is durable."""
        self.given.set_result(what)

    def durable(self) -> None:
        """All of it is on disk."""
        self.kept.set_result(None)

    def break_off(self) -> None:
        """What was not said yet will not be: nobody need wait for it."""
        for said in (self.given, self.kept):
            if not said.done():
                said.set_exception(InterruptedError("the run was broken off"))


def relay(
    batches: Iterator[Batch],
    *,
    store: Callable[[Batch, Turn[Stored]], None],
    commit: Callable[[Stored, Callable[[], None]], None],
    halt: Callable[[], None],
    tell: Callable[[], None] | None = None,
) -> None:
    """Store each batch and commit what it has become; all of it is done when this returns.

    `commit` calls what it is given before anything of it can be seen: that waits until all is durable, and raises where
    it will not be. `tell` is called now and then while a batch is waited for. Whatever breaks this off calls `halt`, so
    that preparing ends; what was durable by then is committed.
    """
    preparing, storing = _Timed(lambda: next(batches, None)), _Timed(store)
    turn, following, committed = Turn[Stored](), Turn[Stored](), _done()
    with (
        ThreadPoolExecutor(1, thread_name_prefix="headwater-prepare") as ahead,
        ThreadPoolExecutor(1, thread_name_prefix="headwater-commit") as behind,
    ):
        try:
            upcoming = ahead.submit(preparing)
            while (batch := _awaited(upcoming, tell)) is not None:
                is_quick = preparing.seconds < storing.seconds
                upcoming = ahead.submit(_after, turn.given if is_quick else _done(), preparing)
                before = committed
                committed = behind.submit(_committed, commit, turn, upcoming=upcoming, following=following)
                storing(batch, turn)
                before.result()
                turn, following = following, Turn[Stored]()
            committed.result()
        except BaseException:
            halt()
            raise
        finally:
            turn.break_off()
            following.break_off()


def _committed(
    commit: Callable[[Stored, Callable[[], None]], None],
    turn: Turn[Stored],
    *,
    upcoming: Future[Any],
    following: Turn[Stored],
) -> None:
    """At once where nothing comes after it; else when it is durable and, if the next one is there, that is fed."""
    what = turn.given.result()
    wait([upcoming, turn.kept], return_when=FIRST_COMPLETED)
    if not upcoming.done() or _is_there(upcoming):
        turn.kept.result()
        if _is_there(upcoming):
            wait([following.given])
    commit(what, turn.kept.result)


class _Timed:
    """A function, and the seconds that its last call took."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> Any:
        began = perf_counter()
        try:
            return self._function(*arguments)
        finally:
            self.seconds = perf_counter() - began


def _done() -> Future[Any]:
    done = Future[Any]()
    done.set_result(None)
    return done


def _after(said: Future[Any], function: Callable[[], Any]) -> Any:
    wait([said])
    return function()


def _awaited(upcoming: Future[Any], tell: Callable[[], None] | None) -> Any:
    while tell is not None and wait([upcoming], TELL_SECONDS).not_done:
        tell()
    return upcoming.result()


def _is_there(upcoming: Future[Any]) -> bool:
    """Whether a batch waits to be stored."""
    return upcoming.done() and upcoming.exception() is None and upcoming.result() is not None
