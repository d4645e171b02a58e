"""What searches share while they run: how fresh the indexes are, how many run beside each other, and the time left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter

from headwater.protocols import TextIndex, VectorIndex


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
    """How many searches of an engine are under way."""

    def __init__(self) -> None:
        self.count, self._lock = 0, Lock()

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
