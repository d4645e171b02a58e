"""Looking for garbage seldom, while many values are made and none of them is garbage.

Python looks through its youngest values after every 700 that are made and not gone again, and through all of them now
and then. An ingest makes a million values of which none refers to itself: looking took a thirtieth of its time.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# Values made before it is looked again.
SELDOM: Final = 100_000

_lock: Final = threading.Lock()
_before: Final[list[tuple[int, int, int]]] = []  # as it was set, one for each block that is under way


@contextmanager
def seldom_looked_for() -> Iterator[None]:
    """Within it, in any thread; afterwards as before. Whoever looks never goes on never looking."""
    with _lock:
        _before.append(_before[0] if _before else gc.get_threshold())
        often, *rest = _before[0]
        gc.set_threshold(max(often, SELDOM) if often else often, *rest)
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before:
                gc.set_threshold(*before)
