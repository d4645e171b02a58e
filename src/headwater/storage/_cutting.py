"""Texts -> their three lanes, with a second process at work when there are many.

Cutting is most of what an ingest costs and holds the interpreter's lock, so a second core helps only in a second
process. It is started at the first large batch and talks through its standard input and output; if it dies, this
process does its share. A batch can be begun before its turn: then the other core has work while an index is flushed.
A process of our own rather than `multiprocessing`, which would run a caller's script again.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Final, NamedTuple

from headwater.tokens import Cutter

Lanes = tuple[str, str, str]


class Manner(NamedTuple):
    """How an index has its texts cut: `once` as of `cut_many`, `accents` as of `Cutter`. By default as it is today."""

    once: bool = True
    accents: bool = False


TODAY: Final = Manner()

# Below this a batch is cut before another process has read it; starting one takes as long as cutting 5,000.
LARGE_BATCH: Final = 1_000
# Texts sent at a time: small enough that both sides finish together, large enough that sending costs nothing.
SLICE: Final = 64


class _Batch:
    """Texts being cut from both ends: here from the front, in the other process from the back."""

    def __init__(self, texts: Sequence[str], manner: Manner) -> None:
        self.texts, self.manner = list(texts), manner
        self.todo = deque(range(0, len(texts), SLICE))
        self.slices = len(self.todo)
        self.done: SimpleQueue[tuple[int, list[Lanes]] | None] = SimpleQueue()  # None: look at what is to do again

    def take(self, end: int) -> int | None:
        try:
            return self.todo.popleft() if end == 0 else self.todo.pop()
        except IndexError:
            return None

    def slice_at(self, start: int) -> list[str]:
        return self.texts[start : start + SLICE]


class Cutting:
    """Cuts batches of texts. `close` ends the second process."""

    def __init__(self, cutter: Cutter, *, processes: int | None = None) -> None:
        self._cutter = cutter
        self._two = (processes or os.cpu_count() or 1) > 1
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._batches: SimpleQueue[_Batch | None] = SimpleQueue()
        self._begun: deque[_Batch] = deque()

    def begin(self, texts: Sequence[str], manner: Manner = TODAY) -> None:
        """Start on these in the other process, behind what it has; a later `slices` of the same texts goes on there."""
        if self._two and len(texts) >= LARGE_BATCH:
            self._begun.append(self._given(texts, manner))

    def slices(self, texts: Sequence[str], manner: Manner = TODAY) -> Iterator[tuple[int, list[Lanes]]]:
        """The lanes of the texts from a place on, slice by slice, in no particular order."""
        if self._two and len(texts) >= LARGE_BATCH:
            batch = self._begun_with(texts, manner) or self._given(texts, manner)
        else:
            batch = _Batch(texts, manner)
        left = batch.slices
        try:
            while left:
                start = batch.take(0)
                if start is not None:
                    yield start, _cut(self._cutter, batch.slice_at(start), manner)
                    left -= 1
                while start is None or not batch.done.empty():
                    cut = batch.done.get()
                    if cut is None:  # the process died: its share is to do again
                        break
                    yield cut
                    left -= 1
                    if not left:
                        break
        finally:
            batch.todo.clear()

    def close(self) -> None:
        """End the second process, if there is one, and forget what was begun."""
        while self._begun:
            self._begun.popleft().todo.clear()
        thread, self._thread = self._thread, None
        if thread is not None:
            self._batches.put(None)
            thread.join()
        self._end_process()

    def _begun_with(self, texts: Sequence[str], manner: Manner) -> _Batch | None:
        while self._begun:
            batch = self._begun.popleft()
            if batch.texts == texts and batch.manner == manner:
                return batch
            batch.todo.clear()  # it was begun for nothing
        return None

    def _given(self, texts: Sequence[str], manner: Manner) -> _Batch:
        batch = _Batch(texts, manner)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="headwater-cut", daemon=True)
                self._thread.start()
        self._batches.put(batch)
        return batch

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            while (start := batch.take(-1)) is not None:
                try:
                    batch.done.put((start, self._elsewhere(batch.slice_at(start), batch.manner)))
                except (OSError, EOFError, pickle.UnpicklingError):
                    batch.todo.append(start)
                    batch.done.put(None)
                    self._end_process()
                    break

    def _elsewhere(self, texts: list[str], manner: Manner) -> list[Lanes]:
        if self._process is None:
            command = [sys.executable, "-m", "headwater.storage._cutting"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _send(self._process.stdin, (texts, *manner))
        lanes: list[Lanes] = pickle.load(self._process.stdout)
        return lanes

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError), process:  # what was not sent goes nowhere
                pass


def _cut(cutter: Cutter, texts: list[str], manner: Manner) -> list[Lanes]:
    return (cutter.with_accents if manner.accents else cutter).cut_many(texts, once=manner.once)


def _send(stream: IO[bytes], value: object) -> None:
    pickle.dump(value, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _serve(given: IO[bytes], answers: IO[bytes]) -> None:
    """Cut what comes until the other side closes."""
    cutter = Cutter()
    while True:
        try:
            texts, *manner = pickle.load(given)
        except EOFError:
            return
        _send(answers, _cut(cutter, texts, Manner(*manner)))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
