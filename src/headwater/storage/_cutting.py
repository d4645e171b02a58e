"""Texts -> their three lanes, with a second thread at work when there are many.

A batch can be begun before its turn: then it is being cut while an index is flushed, which needs nothing of Python.
Nearly all of cutting lets other threads run meanwhile. A second process would cut without waiting for any
of them, but to send texts and lanes back and forth takes more of the processors than that gains.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Final, NamedTuple

from headwater.cores import cores
from headwater.tokens import Cutter, Pairs

Lanes = tuple[str, str, str]


class Manner(NamedTuple):
    """How an index has its texts cut: `pairs` as of `cut_many`, `accents` as of `Cutter`. By default as it is today."""

    pairs: Pairs = Pairs.ONCE
    accents: bool = False


TODAY: Final = Manner()

# Below this a batch is cut before another thread has begun.
LARGE_BATCH: Final = 1_000
# Texts cut at a time: small enough that both sides finish together, large enough that cutting them together pays.
SLICE: Final = 64


class _Batch:
    """Texts being cut from both ends: from the front by whoever wants them, from the back by the other thread."""

    def __init__(self, texts: Sequence[str], manner: Manner, cutter: Cutter) -> None:
        self.texts, self.manner = list(texts), manner
        self._cutter = cutter.with_accents if manner.accents else cutter
        self.todo = deque(range(0, len(texts), SLICE))
        self.done: SimpleQueue[tuple[int, list[Lanes]]] = SimpleQueue()
        self.beside: Future[None] | None = None

    def slices(self) -> Iterator[tuple[int, list[Lanes]]]:
        """Cut what is to do, and what the other thread has cut meanwhile."""
        try:
            while self.todo:
                yield from self._next(self.todo.popleft)
                yield from self._finished()
            if self.beside is not None:
                self.beside.result()
            yield from self._finished()
        finally:
            self.todo.clear()

    def from_the_back(self) -> None:
        """What the other thread does."""
        while self.todo:
            for one in self._next(self.todo.pop):
                self.done.put(one)

    def _next(self, take: Callable[[], int]) -> Iterator[tuple[int, list[Lanes]]]:
        try:
            start = take()
        except IndexError:  # the other side was quicker
            return
        yield start, self._cutter.cut_many(self.texts[start : start + SLICE], pairs=self.manner.pairs)

    def _finished(self) -> Iterator[tuple[int, list[Lanes]]]:
        while not self.done.empty():
            yield self.done.get()


class Cutting:
    """Cuts batches of texts. `close` ends the second thread."""

    def __init__(self, cutter: Cutter, *, threads: int | None = None) -> None:
        self._cutter = cutter
        self._two = (threads or cores()) > 1
        self._thread: ThreadPoolExecutor | None = None
        self._begun: deque[_Batch] = deque()

    def begin(self, texts: Sequence[str], manner: Manner = TODAY) -> None:
        """Start on these in the other thread, behind what it has; a later `slices` of the same texts goes on there."""
        if self._is_large(texts):
            self._begun.append(self._given(texts, manner))

    def slices(self, texts: Sequence[str], manner: Manner = TODAY) -> Iterator[tuple[int, list[Lanes]]]:
        """The lanes of the texts from a place on, slice by slice, in no particular order."""
        begun = self._begun_with(texts, manner) if self._is_large(texts) else None
        return (begun or self._given(texts, manner)).slices()

    def close(self) -> None:
        """End the second thread, if there is one, and forget what was begun."""
        while self._begun:
            self._begun.popleft().todo.clear()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown()

    def _is_large(self, texts: Sequence[str]) -> bool:
        """Whether a second thread is worth it."""
        return self._two and len(texts) >= LARGE_BATCH

    def _begun_with(self, texts: Sequence[str], manner: Manner) -> _Batch | None:
        while self._begun:
            batch = self._begun.popleft()
            if batch.texts == texts and batch.manner == manner:
                return batch
            batch.todo.clear()  # it was begun for nothing
        return None

    def _given(self, texts: Sequence[str], manner: Manner) -> _Batch:
        batch = _Batch(texts, manner, self._cutter)
        if self._is_large(texts):
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="headwater-cut")
            batch.beside = self._thread.submit(batch.from_the_back)
        return batch
