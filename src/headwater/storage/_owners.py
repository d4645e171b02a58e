"""Which documents live tickets are of, remembered for as long as nothing is committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Final

from headwater.selection import TICKET_BITS

# Tickets that are remembered, about 300 bytes each.
MOST: Final = 50_000

# By live ticket: the first id behind those that the indexes hold of it, and its document.
Held = dict[int, tuple[int, str]]
_NOBODY: Final = (0, "")


class Owners:
    """Safe for use from several threads: they share what was learned, and who looks at an older state learns alone."""

    def __init__(self) -> None:
        self._learned: tuple[int, Held] = (-1, {})

    def of(self, ids: Sequence[int], generation: int | None, read: Callable[[Set[int]], Held]) -> dict[int, str]:
        """The documents of those ids that are alive, as of a generation that was just read; None for as of now.

        `read` says it of tickets. What is dead or unknown is asked anew every time: it may come alive.
        """
        held = self._since(generation)
        if new := {id >> TICKET_BITS for id in ids}.difference(held):
            held.update(read(new))
        owned = ((id, held.get(id >> TICKET_BITS, _NOBODY)) for id in ids)
        return {id: document for id, (end, document) in owned if id < end}

    def _since(self, generation: int | None) -> Held:
        known, held = self._learned
        if generation is None or generation < known:
            return {}
        if generation > known or len(held) > MOST:
            held = {}
            self._learned = generation, held
        return held
