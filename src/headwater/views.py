"""One open home, many callers -> a view for each: its own scope over the same catalog, indexes and models.

A view is cheap: it holds no part of its own but what belongs to an owner (conversations, the way in). What it may see
is and-ed with every query below the point where options are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, Final, Self

from headwater.errors import NotFound
from headwater.filters import Compare, Filter, In, conjoin, disjoin
from headwater.home import Home
from headwater.types import Record, attributes

# Parts that belong to an owner. Every other part of a home is shared by all views of it.
OWN: Final = frozenset({"conversations", "chats", "intake", "origins", "scope"})


class Viewed(Home):
    """A home that can be looked at as somebody else."""

    _root: Viewed | None = None
    _scope: Filter | None = None

    @property
    def scope(self) -> Filter:
        """What may be seen: the owner's documents, or what `for_owner` was told."""
        return self._scope if self._scope is not None else Compare("owner", "=", self.owner)

    def for_owner(
        self, owner: str, *, collections: Sequence[str] | None = None, shared: Sequence[tuple[str, str]] = ()
    ) -> Self:
        """The same open home as this owner sees it; closing a view closes nothing.

        `collections` are those of the owner's own that may be seen, None for all; `shared` are (owner, collection) of
        others that may be seen too.
        """
        root = self._root or self
        kind: Any = type(root)
        view: Self = object.__new__(_view_class(kind))
        state: dict[str, Any] = {"home": root.home, "config": root.config, "owner": owner, "_root": root}
        state |= {name: value for name, value in vars(root).items() if name.startswith("_given")}
        own: Filter = Compare("owner", "=", owner)
        if collections is not None:
            own = conjoin(own, In("collection", tuple(collections)))
        others = [conjoin(Compare("owner", "=", whose), Compare("collection", "=", name)) for whose, name in shared]
        view.__dict__.update(state, _scope=disjoin(own, *others))
        return view

    def seen(self, document_id: str) -> Record:
        """A document that may be seen, by its id; NotFound for any other, whether it exists or not."""
        found = self.catalog.record(document_id)
        if found is None or not self.scope.matches(attributes(found)):
            raise NotFound(f"no document has the id {document_id!r}; list the documents to see those that exist")
        return found


def shared_parts(of: type[Viewed]) -> list[str]:
    """The names of the parts that views take from the home itself."""
    found = {"catalog"}
    for one in of.__mro__:
        found |= {name for name, member in vars(one).items() if isinstance(member, cached_property | property)}
    return sorted(found - OWN)


@cache
def _view_class(of: Any) -> Any:
    """The class of a view: the same verbs, with the shared parts taken from the home itself."""

    def from_root(name: str) -> property:
        return property(lambda self: getattr(self._root, name))

    members: dict[str, Any] = {name: from_root(name) for name in shared_parts(of)}
    members["close"] = lambda self: None
    return type(f"{of.__name__}View", (of,), members)
