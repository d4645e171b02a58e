"""Texts -> their three lanes, with a second process at work when there are many.

Cutting is most of what an ingest costs and holds the interpreter's lock, so a second core helps only in a second
process. It is started at the first large batch and talks through its standard input and output; if it dies, this
process does its share. A process of our own rather than `multiprocessing`, which would run a caller's script again.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, Final

from headwater.tokens import Cutter

Lanes = tuple[str, str, str]

# Below this a batch is cut before another process has read it; starting one takes as long as cutting 5,000.
LARGE_BATCH: Final = 1_000
# Texts sent at a time: small enough that both sides finish together, large enough that sending costs nothing.
SLICE: Final = 64


class Cutting:
    """Cuts batches of texts. One batch at a time; `close` ends the second process."""

    def __init__(self, cutter: Cutter, *, processes: int | None = None) -> None:
        self._cutter = cutter
        self._two = (processes or os.cpu_count() or 1) > 1
        self._process: subprocess.Popen[bytes] | None = None

    def slices(self, texts: Sequence[str]) -> Iterator[tuple[int, list[Lanes]]]:
        """The lanes of the texts from a place on, slice by slice, in no particular order."""
        todo = deque(range(0, len(texts), SLICE))
        if not self._two or len(texts) < LARGE_BATCH:
            yield from self._here(texts, todo)
            return
        done: deque[tuple[int, list[Lanes]]] = deque()
        other = threading.Thread(target=self._elsewhere, args=(texts, todo, done), name="headwater-cut")
        other.start()
        try:
            for cut in self._here(texts, todo):
                yield cut
                while done:
                    yield done.popleft()
        finally:
            todo.clear()
            other.join()
        yield from done
        yield from self._here(texts, todo)  # what a process that died gave back

    def close(self) -> None:
        """End the second process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with process:
                process.kill()

    def _here(self, texts: Sequence[str], todo: deque[int]) -> Iterator[tuple[int, list[Lanes]]]:
        while todo:
            try:
                start = todo.popleft()
            except IndexError:  # the other side was quicker
                return
            yield start, self._cutter.cut_many(texts[start : start + SLICE])

    def _elsewhere(self, texts: Sequence[str], todo: deque[int], done: deque[tuple[int, list[Lanes]]]) -> None:
        if self._process is None:
            command = [sys.executable, "-m", "headwater.storage._cutting"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        start = -1
        try:
            while todo:
                start = todo.pop()
                _send(self._process.stdin, texts[start : start + SLICE])
                done.append((start, pickle.load(self._process.stdout)))
        except IndexError:  # nothing was left
            return
        except (OSError, EOFError, pickle.UnpicklingError):
            todo.append(start)
            self.close()


def _send(stream: IO[bytes], value: object) -> None:
    pickle.dump(value, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _serve(given: IO[bytes], answers: IO[bytes]) -> None:
    """Cut what comes until the other side closes."""
    cutter = Cutter()
    while True:
        try:
            texts = pickle.load(given)
        except EOFError:
            return
        _send(answers, cutter.cut_many(texts))


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
