"""Results that were found before, for the same question asked again: nothing stale, nothing of somebody else's.

The key is made of all that a result depends on: the question, what the caller may see, the filter, every option, the
settings, the words of the home's own dictionary, and the generation of the catalog, which grows with every change that
a reader could see. So nothing is ever taken out because it is old: it can no longer be asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from math import inf
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from headwater.filters import ALL, And, Compare, Contains, Filter, Has, In, Not, Or
from headwater.types import Query, Results

# A page of more hits than this is for a program that reads everything once.
MOST_HITS: Final = 100


class Cache(Protocol):
    """Results by key, of this process or of several; `put` may forget and `get` may find nothing. Never an error."""

    def get(self, key: bytes, *, within_seconds: float = ...) -> Results | None:
        """What was put under the key, or None; the query and the times in it are not those of this search.

        A store that could take more of `within_seconds` than it is worth is not asked.
        """
        ...

    def put(self, key: bytes, results: Results) -> None:
        """Keep it for a while, if it is worth keeping."""
        ...

    def clear(self) -> None:
        """Keep nothing of what there is of this home; raises BackendError where that cannot be made sure."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class ResultCache:
    """The last so many results, in this process. Safe for use from several threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[bytes, Results] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes, *, within_seconds: float = inf) -> Results | None:
        """What was put under the key, or None; it is now the newest. It takes no time worth speaking of."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: bytes, results: Results) -> None:
        """Keep it, in the place of the one that was not asked for the longest.

        What failed in part is not kept: the next time it may work.
        """
        if self._size < 1 or not is_worth_keeping(results):
            return
        with self._lock:
            self._kept[key] = results
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Keep nothing of what there is."""
        with self._lock:
            self._kept.clear()

    def close(self) -> None:
        """Nothing is held open."""

    def __len__(self) -> int:
        return len(self._kept)


def is_worth_keeping(results: Results) -> bool:
    """Whether the same question may be answered with it: not with what failed in part, nor with a whole listing."""
    return not (results.degraded or results.fallback_reason or len(results) > MOST_HITS)


def digest_of(paths: Iterable[Path], *told: str) -> str:
    """What files hold and what else is told, in one word: two processes with the same word would search alike."""
    digest = blake2b("\0".join(told).encode(), digest_size=16)
    for path in sorted(paths):
        with suppress(OSError):
            content = path.read_bytes()
            digest.update(f"{path.name}\0{len(content)}\0".encode("utf-8", "surrogatepass") + content)
    return digest.hexdigest()


def key_of(query: Query, *, generation: int, space: int, settings: Iterable[str]) -> bytes | None:
    """The key of a search; two searches that may differ in anything have different ones.

    None for a filter of somebody's own making: what it looks like in writing need not say what it does.
    """
    if not (is_known(query.scope) and is_known(query.where)):
        return None
    parts = (query.text, repr(query.scope), repr(query.where), repr(query.options), str(generation), str(space))
    digest = blake2b(digest_size=32)
    for part in (*parts, *settings):
        encoded = part.encode("utf-8", "surrogatepass")
        # Lengths in front: the end of one part is never the beginning of the next.
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()


def is_known(where: Filter) -> bool:
    """Whether a filter is made of the parts of the filter language only."""
    if isinstance(where, And | Or):
        return all(map(is_known, where.parts))
    if isinstance(where, Not):
        return is_known(where.part)
    return type(where) in (type(ALL), Compare, Contains, Has, In)
