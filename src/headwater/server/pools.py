"""Work for a bounded number of threads, and a polite no for what would wait too long."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from headwater.errors import BackendError

T = TypeVar("T")


class Busy(BackendError):
    """Every thread is taken and enough requests wait: come back later."""


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

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Start the work as soon as a thread is free; raises Busy where none will be soon."""
        if not self._places.acquire(blocking=False):
            raise Busy(f"all {self.threads} {self.name} threads are busy and the queue is full; try again in a moment")
        with self._lock:
            self._taken += 1
        try:
            future = self._executor.submit(work)
        except BaseException:
            self._leave(None)
            raise
        future.add_done_callback(self._leave)
        return future

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

    def _leave(self, _: "Future[Any] | None") -> None:
        with self._lock:
            self._taken -= 1
        self._places.release()
