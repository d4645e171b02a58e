"""Events that come about on a thread -> an answer that is sent as they come; who leaves early holds nothing.

The place in the pool is taken before any header is sent: a full pool is told as 429, never as a stream that breaks.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headwater.errors import BackendError, HeadwaterError
from headwater.server import logs, wire
from headwater.server.pools import TooLate
from headwater.server.state import State

STREAM_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
# In all; a request may ask for less. Models that write longer than this write for nobody.
MAX_ANSWER_SECONDS: Final = 300.0
# Events that wait for a slow reader; a writer that is further ahead waits for it.
AHEAD: Final = 256
# How soon a writer that waits for its reader notices that the reader has left.
NOTICE_SECONDS: Final = 0.5
_END: Final = object()

Failed = Callable[[HeadwaterError], str]


class Streamed(StreamingResponse):
    """Server-sent events, each as `shape` writes it, an error as `failed` does. Raises Busy where the pool is full.

    `events` run on a thread of the generation pool, from when the first is asked for until the last, until the reader
    has left, or until the time is over.
    """

    def __init__(
        self,
        state: State,
        events: Iterator[Any],
        *,
        shape: Callable[[Any], str],
        failed: Failed,
        headers: Mapping[str, str] = STREAM_HEADERS,
    ) -> None:
        self._place = state.generation.reserve()
        self._state, self._events, self._shape, self._failed = state, events, shape, failed
        self._seconds = max(state.settings.deadline_seconds, MAX_ANSWER_SECONDS)
        self._left, self._room = threading.Event(), threading.Semaphore(AHEAD)
        self._running: Future[None] | None = None
        super().__init__(self._lines(), media_type="text/event-stream", headers=dict(headers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; whatever ends that, nothing goes on behind it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()

    async def _lines(self) -> AsyncIterator[str]:
        loop, ready = asyncio.get_running_loop(), asyncio.Queue[Any]()
        end = loop.time() + self._seconds
        self._running = self._place.start(lambda: self._write(loop, ready))
        while True:
            try:
                async with asyncio.timeout_at(end):
                    line = await ready.get()
            except TimeoutError:
                self._left.set()
                yield self._told(TooLate(f"the answer was not complete within {self._seconds:g} s; ask for less"))
                return
            self._room.release()
            if line is _END:
                return
            yield line

    def _write(self, loop: asyncio.AbstractEventLoop, ready: "asyncio.Queue[Any]") -> None:
        def put(line: Any) -> None:
            while not self._room.acquire(timeout=NOTICE_SECONDS):
                if self._over():
                    return
            with suppress(RuntimeError):  # the loop is closed: nobody reads any more
                loop.call_soon_threadsafe(ready.put_nowait, line)

        try:
            for event in self._events:
                if self._over():
                    break
                put(self._shape(event))
        except HeadwaterError as error:
            put(self._told(error))
        except BaseException as error:
            logs.warn("A defect", error=error)
            put(self._told(BackendError("something went wrong that nobody foresaw; the log says more")))
            raise
        finally:
            self._close()
            if not self._over():
                put(_END)

    def _over(self) -> bool:
        return self._left.is_set() or self._state.stopping.is_set()

    def _told(self, error: HeadwaterError) -> str:
        self._state.meters.errors.labels(wire.fault_of(error).name).inc()
        return self._failed(error)

    def _leave(self) -> None:
        self._left.set()
        self._place.leave()
        if self._running is None or self._running.cancel():
            self._close()  # no thread will

    def _close(self) -> None:
        """Let go of what the events hold: the connection to a model, a transaction."""
        if (close := getattr(self._events, "close", None)) is not None:
            close()
