"""The spaces of a home: filling one beside the other, comparing both, switching, going back, clearing away."""

import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

from headwater.errors import HomeLocked, NotFound, UsageError
from headwater.indexer import Indexer
from headwater.intake import Lock
from headwater.reindex import Comparison, OnProgress, Reindex, Reindexed, compare, own_queries
from headwater.repair import problems_beside, tidy
from headwater.retrieve import Hybrid
from headwater.side import Side, Sides, left_folders
from headwater.types import Space

__all__ = ["Comparison", "Reindexed", "Spaces"]


@runtime_checkable
class Spacious(Protocol):
    """An index that keeps the spaces of a home in one place outside of its folder."""

    def keep_only(self, spaces: Collection[int]) -> None:
        """Remove what belongs to others."""
        ...


class Spaces:
    """`writing` waits for the home's lock; `lock` lets one reindex at a time work on a home."""

    def __init__(
        self,
        *,
        sides: Sides,
        indexer_of: Callable[[Side], Indexer],
        writing: Callable[[], AbstractContextManager[None]],
        lock: Lock,
    ) -> None:
        self.sides, self.catalog, self.indexer_of = sides, sides.catalog, indexer_of
        self.writing, self.lock = writing, lock

    def reindex(self, *, back: bool = False, on_progress: OnProgress | None = None) -> Reindexed:
        """Fill a space beside the active one, or catch up in the retired one, and switch to it."""
        started = perf_counter()
        with self._alone():
            active = self.sides.active().space
            space = self.target(back=True) if back else self._shadow(active)
            self._clear_away()
            before = self.catalog.tickets()
            with self._opened(active) as old, self._opened(space) as new:
                work = Reindex(space, catalog=self.catalog, indexer=self.indexer_of(new), writing=self.writing)
                work.fill(on_progress)
                comparison = compare(Hybrid(old.parts), Hybrid(new.parts), own_queries(self.catalog))
                work.finish(on_progress)
            self._clear_away()
            return Reindexed(
                before=active,
                after=self.sides.active().space,
                documents=self.catalog.statistics()["documents"],
                chunks_before=sum(before.values()),
                chunks_after=sum(self.catalog.tickets().values()),
                filled=work.filled,
                comparison=comparison,
                stage_seconds=work.indexer.stage_seconds,
                took_ms=round((perf_counter() - started) * 1000, 3),
            )

    def confirm(self) -> int:
        """Drop the retired space; return how many there were."""
        with self._alone():
            retired = [space for space in self.catalog.spaces() if space.state == "retired"]
            for space in retired:
                self.catalog.drop_space(space)
            self._clear_away()
            return len(retired)

    def drop_others(self) -> int:
        """Drop every space that is not active; return how many there were."""
        with self._alone():
            others = self._others()
            for space in others:
                self.catalog.drop_space(space)
            self._clear_away()
            return len(others)

    def listed(self) -> list[dict[str, Any]]:
        """Every space with its state and how many documents it has."""
        return [
            {
                "id": space.id,
                "state": space.state,
                "embedder": space.embedder,
                "chunker": space.chunker,
                "documents": len(self.catalog.tickets(space)),
            }
            for space in self.catalog.spaces()
        ]

    def problems(self) -> list[str]:
        """What is wrong in spaces that are not active, and folders that belong to none."""
        found = [
            f"the folder {path.name!r} belongs to no space" for path in left_folders(self.sides.home, self.catalog)
        ]
        for space in self._others():
            with self._opened(space) as side:
                found += problems_beside(self.catalog, side.text, side.vectors, space=space)
        return found

    def mend(self) -> None:
        """Make it right, unless a reindex is at work: that does it itself."""
        try:
            with self._alone():
                for space in self._others():
                    with self._opened(space) as side:
                        tidy(self.catalog, side.text, side.vectors, space=space)
                self._clear_away()
        except HomeLocked:
            pass

    def _others(self) -> list[Space]:
        return [space for space in self.catalog.spaces() if space.state != "active"]

    def target(self, *, back: bool) -> Space:
        """What a reindex would switch to."""
        if not back:
            return self.sides.wanted()
        for space in self.catalog.spaces():
            if space.state == "retired":
                return space
        raise NotFound("there is no earlier space to go back to; it was dropped, or this home was never reindexed")

    def _shadow(self, active: Space) -> Space:
        wanted = self.sides.wanted()
        if (wanted.embedder, wanted.dim, wanted.chunker) != (active.embedder, active.dim, active.chunker):
            return self.catalog.open_shadow(wanted)
        for space in self._others():
            if space.state == "shadow":  # begun with other settings, which were put back
                self.catalog.drop_space(space)
        self._clear_away()
        raise UsageError(
            f"the home is made with embedder {wanted.embedder!r} and chunker {wanted.chunker!r} already; "
            "change `embed` or `chunk` in headwater.toml first"
        )

    @contextmanager
    def _opened(self, space: Space) -> Iterator[Side]:
        side = self.sides.side_of(space, lenient=True)
        try:
            yield side
        finally:
            side.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.lock.acquire(timeout_seconds=0.0)
        try:
            yield
        finally:
            self.lock.release()

    def _clear_away(self) -> None:
        self.catalog.clear_away()
        for path in left_folders(self.sides.home, self.catalog):
            shutil.rmtree(path, ignore_errors=True)
        side = self.sides.active()
        for index in (side.text, side.vectors):
            if isinstance(index, Spacious):  # tables of a server, which are in no folder
                index.keep_only([space.id for space in self.catalog.spaces()])
