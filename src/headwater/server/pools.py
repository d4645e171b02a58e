"""Work for a bounded number of threads, and a polite no for what would wait too long."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from headwater.errors import BackendError

T = TypeVar("T")


class Busy(BackendError):
    """Every thread is taken and enough requests wait: come back later."""

    def __init__(self, message: str, *, pool: str = "") -> None:
        super().__init__(message)
        self.pool = pool


class TooLate(BackendError):
    """The request's deadline passed before there was an answer."""


class Pool:
    """Threads with a bounded queue before them."""

    def __init__(self, name: str, *, threads: int, waiting: int) -> None:
        self.name, self.threads = name, threads
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"headwater-{name}")
        self._places = threading.Semaphore(threads + waiting)
        self._lock, self._taken = threading.Lock(), 0

    @property
    def taken(self) -> int:
        """Requests that run or wait now."""
        return self._taken

    def reserve(self) -> "Place":
        """A place for work that begins later; raises Busy where there is none. Whoever has it starts or leaves."""
        if not self._places.acquire(blocking=False):
            told = f"all {self.threads} {self.name} threads are busy and the queue is full; try again in a moment"
            raise Busy(told, pool=self.name)
        with self._lock:
            self._taken += 1
        return Place(self)

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Start the work as soon as a thread is free; raises Busy where none will be soon."""
        return self.reserve().start(work)

    async def run(self, work: Callable[[], T], *, deadline_seconds: float) -> T:
        """The same, awaited; raises TooLate after the deadline (a thread that has begun goes on to its end)."""
        future = self.submit(work)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), deadline_seconds)
        except TimeoutError:
            future.cancel()
            raise TooLate(f"there was no answer within {deadline_seconds:g} s; ask for less or try again") from None

    def close(self) -> None:
        """Let what runs end; drop what waits."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _begin(self, work: Callable[[], T]) -> Future[T]:
        # What is known of the request, such as the span it stands in, is known to its thread too.
        return self._executor.submit(contextvars.copy_context().run, work)

    def _leave(self) -> None:
        with self._lock:
            self._taken -= 1
        self._places.release()


class Place:
    """One place of a pool. It is free again when its work ends, or when it is left or forgotten without any."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self._lock, self._begun, self._free = pool, threading.Lock(), False, False

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Do the work here, as soon as a thread is free."""
        self._begun = True
        try:
            future = self._pool._begin(work)
        except BaseException:
            self._give_back()
            raise
        future.add_done_callback(lambda _: self._give_back())
        return future

    def leave(self) -> None:
        """No work comes; harmless where some did."""
        if not self._begun:
            self._give_back()

    def __del__(self) -> None:
        self.leave()

    def _give_back(self) -> None:
        with self._lock:
            if self._free:
                return
            self._free = True
        self._pool._leave()
