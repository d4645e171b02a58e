"""Searches -> their results, found in processes of their own while several people search at once.

Threads of one process take turns at the interpreter, so one process searches on one core whatever the machine has.
Where searches crowd, readers are started: each opens the home, waits at its standard input for a query and writes what
it found. They hold nothing that matters: one that dies or hangs is replaced, and this process does its search. They end
when they have had nothing to do for a while, or when this process does.
"""

import pickle
import selectors
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, LifoQueue
from typing import IO, Any

from headwater.build import KnowledgeBase
from headwater.config import Config
from headwater.errors import BackendError, HeadwaterError
from headwater.server import logs
from headwater.types import Query, Results

# Searches crowd where so many of the last seconds began beside as many others as there are cores.
CROWDED, CROWDED_SECONDS = 20, 10.0
IDLE_SECONDS = 300.0  # then their memory is given back
LOOK_SECONDS = 5.0
POLL_SECONDS = 0.1
START_SECONDS = 30.0  # to open a home, on a machine that is busy
# A search ends by itself at its deadline; a reader that has not answered so long after it hangs.
GRACE_SECONDS = 2.0
BUILT_IN = "builtin"  # the reranker that asks nobody
BROKEN = (OSError, EOFError, pickle.UnpicklingError, AttributeError, ValueError)


class Readers:
    """At most `count` processes that search the home; none until searches crowd. Safe for use from several threads."""

    def __init__(self, kb: KnowledgeBase, *, count: int, in_flight: Callable[[], int]) -> None:
        self._kb, self._count, self._in_flight = kb, count, in_flight
        self._idle: LifoQueue[_Reader] = LifoQueue()
        self._crowded: deque[float] = deque(maxlen=CROWDED)
        self._lock = threading.Lock()
        self._running = 0
        self._used = time.monotonic()
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None

    @property
    def running(self) -> int:
        """How many there are now."""
        return self._running

    def search(self, query: Query) -> Results | None:
        """What a reader found; None where none runs, or where the query is not for them: then search here."""
        if self._count < 2 or not _is_plain(query):
            return None
        if not self._running:
            self._notice()
            return None
        self._used = began = time.monotonic()
        limit = query.options.deadline_seconds
        reader = self._free(limit)
        if reader is None:
            return None
        try:
            answer = reader.ask(query, seconds=max(0.0, limit - (time.monotonic() - began)) + GRACE_SECONDS)
        except BROKEN as error:
            self._lose(reader, error)
            return None
        self._idle.put(reader)
        if isinstance(answer, HeadwaterError):
            raise answer
        found: Results = answer
        return found

    def close(self) -> None:
        """End them."""
        self._closing.set()
        if self._keeper is not None:
            self._keeper.join(START_SECONDS)
        self._end_idle()

    def _free(self, seconds: float) -> "_Reader | None":
        """One that has nothing to do, or None where the last one was lost or ended while this waited for it."""
        end = time.monotonic() + seconds
        while self._running:
            left = end - time.monotonic()
            if left <= 0:
                raise BackendError(f"every reader was busy for {seconds:g} s; try again in a moment")
            with suppress(Empty):
                return self._idle.get(timeout=min(left, POLL_SECONDS))
        return None

    # ------------------------------------------------------------------------------------- the processes

    def _notice(self) -> None:
        """Start them where this search is one too many of many."""
        if self._in_flight() <= self._count or not getattr(self._kb.embedder, "instant", False):
            return  # where an embedder is waited for, the interpreter is free meanwhile
        now = time.monotonic()
        self._crowded.append(now)
        if len(self._crowded) < CROWDED or now - self._crowded[0] > CROWDED_SECONDS:
            return
        with self._lock:
            if self._keeper is None and not self._closing.is_set():
                self._keeper = threading.Thread(target=self._keep, name="headwater-readers", daemon=True)
                self._keeper.start()

    def _keep(self) -> None:
        """Start readers, replace those that were lost, and end all when nobody searches."""
        self._used = time.monotonic()
        while not self._closing.is_set() and time.monotonic() - self._used < IDLE_SECONDS:
            while self._running < self._count and not self._closing.is_set():
                try:
                    self._idle.put(_Reader(self._kb.home, self._kb.config))
                except BROKEN as error:
                    logs.warn("A reader did not start", error=error, reason=str(error))
                    break
                with self._lock:
                    self._running += 1
                logs.tell("Reader started", readers=self._running)
            self._closing.wait(LOOK_SECONDS)
        with self._lock:
            self._crowded.clear()
            self._keeper = None
        self._end_idle()

    def _lose(self, reader: "_Reader", error: Exception) -> None:
        reader.end()
        with self._lock:
            self._running -= 1
        logs.warn("A reader was lost; its search is done here", error=error, reason=str(error) or type(error).__name__)

    def _end_idle(self) -> None:
        """Those at work are ended by whoever finds them broken, or by the end of this process."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().end()
                with self._lock:
                    self._running -= 1


class _Reader:
    """One process."""

    def __init__(self, home: Path, config: Config) -> None:
        command = [sys.executable, "-m", "headwater.server.readers"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._given, self._answers = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)
        try:
            self.ask((home, config), seconds=START_SECONDS)
        except BROKEN:
            self.end()
            raise

    def ask(self, asked: object, *, seconds: float) -> Any:
        """Send and wait so long; raises one of BROKEN."""
        _send(self._given, asked)
        if not self._selector.select(seconds):
            raise TimeoutError(f"it did not answer within {seconds:.0f} s")
        return pickle.load(self._answers)

    def end(self) -> None:
        """At once: it holds nothing."""
        self._selector.close()
        self._process.kill()
        with suppress(BrokenPipeError), self._process:  # what was not sent goes nowhere
            pass


def _is_plain(query: Query) -> bool:
    """Whether no other service is asked on the way: what those take is counted in this process."""
    options = query.options
    return not (options.rewrite or options.hyde) and options.rerank in ("", BUILT_IN)


def _send(stream: IO[bytes], value: object) -> None:
    pickle.dump(value, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _serve(given: IO[bytes], answers: IO[bytes]) -> None:
    """Search for what comes until the other side closes."""
    from headwater.build import open_home
    from headwater.retrieve import compose

    home, config = pickle.load(given)
    with open_home(home, config=config) as kb:
        _send(answers, kb.catalog.generation())
        while True:
            try:
                query: Query = pickle.load(given)
            except EOFError:
                return
            parts = kb.parts
            try:
                with parts.company.joined():  # there are other readers: no core is to spare for a second thread
                    found = compose(parts, query.options).retrieve(query)
            except HeadwaterError as error:
                _send(answers, error)
            else:
                _send(answers, found)


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
