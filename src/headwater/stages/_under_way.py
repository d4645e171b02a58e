"""What searches share while they run: how fresh the indexes are, how many run beside each other, and the time left.

And how a search hands a part of its work to another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Event, Lock, Thread
from time import perf_counter
from typing import Generic, TypeVar

from headwater.protocols import TextIndex, VectorIndex

Value = TypeVar("Value")
# Threads beside those of the pool: more that wait for a model say that it answers nobody.
MAX_ALONE = 32


class Freshness:
    """Which generation of the catalog each index has been brought up to. Shared by all queries of an engine."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._locks: dict[str, Lock] = {"keyword": Lock(), "semantic": Lock()}

    def bring(self, leg: str, index: TextIndex | VectorIndex, *, generation: int) -> None:
        """Refresh the index if it has not been since this generation; the first to notice does it for all."""
        if self._seen.get(leg, -1) < generation:
            with self._locks[leg]:
                if self._seen.get(leg, -1) < generation:
                    index.refresh()
                    self._seen[leg] = generation


class Company:
    """How many searches of an engine are under way, and places for work that no thread of the pool is free for."""

    def __init__(self) -> None:
        self.count, self._lock = 0, Lock()
        self.places = BoundedSemaphore(MAX_ALONE)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """One more for as long as this lasts."""
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1


class Beside(Generic[Value]):
    """Work that a thread of a pool does meanwhile. What it made comes through a queue, which wakes the waiting once."""

    def __init__(self, pool: Executor, work: Callable[[], Value]) -> None:
        self.begun = Event()
        self._done: SimpleQueue[tuple[Value | None, BaseException | None]] = SimpleQueue()
        self._work = work
        self._future = pool.submit(self._run)

    @property
    def is_under_way(self) -> bool:
        """Whether it has not ended yet."""
        return self._done.empty()

    def is_withdrawn(self, *, after_seconds: float) -> bool:
        """Whether it had not begun by then, and never will."""
        return not self.begun.wait(after_seconds) and self._future.cancel()

    def go_alone(self, places: BoundedSemaphore) -> None:
        """Begin in a thread of its own after it was withdrawn; where no place is free it is as if it took too long."""
        if places.acquire(blocking=False):
            Thread(target=self._run_alone, args=(places,), daemon=True).start()
        else:
            self._done.put((None, TimeoutError()))

    def result(self, timeout_seconds: float) -> Value:
        """What it made, or its error; TimeoutError when there is neither by then."""
        try:
            value, error = self._done.get(timeout=timeout_seconds)
        except Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def _run_alone(self, places: BoundedSemaphore) -> None:
        with suppress(BaseException):  # whoever waits for it is told
            self._run()
        places.release()

    def _run(self) -> None:
        self.begun.set()
        try:
            self._done.put((self._work(), None))
        except BaseException as error:
            self._done.put((None, error))
            raise


class Clock:
    """Milliseconds per stage, and how much of the deadline is left."""

    def __init__(self, deadline_seconds: float) -> None:
        self.began = perf_counter()
        self.deadline = self.began + deadline_seconds
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        try:
            yield
        finally:
            took = (perf_counter() - begin) * 1000
            self.milliseconds[name] = self.milliseconds.get(name, 0.0) + took

    @property
    def left(self) -> float:
        return max(0.0, self.deadline - perf_counter())

    @property
    def over(self) -> bool:
        return self.left == 0.0

    def timings(self) -> dict[str, float]:
        return {**self.milliseconds, "total": (perf_counter() - self.began) * 1000}
