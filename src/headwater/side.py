"""A space -> the parts of a home that belong to it: both indexes, the embedder, what searches them.

A home has one side that everybody reads, and another one while it is reindexed. Parts are built when they are first
needed.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from headwater.config import COMPONENTS, SECRET, Config, Setting
from headwater.errors import BackendError, HeadwaterError, SpaceMismatch
from headwater.protocols import Catalog, Chunker, Embedder, TextIndex, VectorIndex
from headwater.registry import installed
from headwater.retrieve import Parts
from headwater.tokens import Cutter
from headwater.types import Matrix, Space

# The two legs of a search and, in a server, a second search beside them.
POOL_THREADS = 4
# A space's folders: `text-1` and `vectors-1`.
FOLDERS: Mapping[str, str] = {"text_index": "text", "vector_index": "vectors"}


class Component(Protocol):
    """Builds the component that a section of the settings names, of other settings than the home's where given."""

    def __call__(self, section: str, *positional: Any, config: Config | None = None, **given: Any) -> Any: ...


class Unfit:
    """Stands for an embedder that a space cannot use: it says so when a vector is asked of it."""

    def __init__(self, space: Space, error: HeadwaterError) -> None:
        self.fingerprint, self.dim, self.error = space.embedder, space.dim, error

    def embed(self, texts: Sequence[str], role: Literal["query", "passage"]) -> Matrix:
        """Raises why."""
        raise type(self.error)(str(self.error))


class Side:
    """The parts of one space."""

    def __init__(
        self,
        space: Space,
        *,
        home: Path,
        catalog: Catalog,
        component: Component,
        cutter: Callable[[], Cutter],
        embedder: Callable[[], Embedder],
    ) -> None:
        self.space, self.home, self.catalog = space, home, catalog
        self._component, self._cutter, self._embedder = component, cutter, embedder

    @cached_property
    def embedder(self) -> Embedder:
        """What turns texts into vectors here, or an Unfit."""
        return self._embedder()

    @cached_property
    def text(self) -> TextIndex:
        """The index of words."""
        made: TextIndex = self._component(
            "text_index", folder(self.home, "text_index", self.space), select=self.catalog.select, cutter=self._cutter()
        )
        return made

    @cached_property
    def vectors(self) -> VectorIndex:
        """The index of vectors."""
        made: VectorIndex = self._component(
            "vector_index",
            folder(self.home, "vector_index", self.space),
            dim=self.space.dim,
            select=self.catalog.select,
            exact=self.catalog.vectors,
        )
        return made

    @cached_property
    def parts(self) -> Parts:
        """What a search works with."""
        return Parts(
            catalog=self.catalog,
            text=self.text,
            vectors=self.vectors,
            embedder=self.embedder,
            cutter=self._cutter(),
            pool=ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="headwater-leg"),
        )

    def release(self) -> None:
        """Let go of the indexes' write locks."""
        for part in ("text", "vectors"):
            if part in self.__dict__:
                self.__dict__[part].release()

    def close(self) -> None:
        """Let go of files and threads."""
        for part in ("text", "vectors"):
            if part in self.__dict__:
                self.__dict__[part].close()
        if "parts" in self.__dict__:
            self.parts.pool.shutdown()


class Sides:
    """The sides of a home: the one that is read, as it is now, and others for a while. Safe for several threads.

    `embedder` and `chunker` give what the settings ask for. A home that was made with something else refuses it, but
    for two cases: while a reindex to these very settings is under way, and after another process has switched under
    our eyes. Then what the active space was made with is made again from the settings it recorded.
    """

    def __init__(
        self,
        *,
        home: Path,
        catalog: Catalog,
        component: Component,
        cutter: Callable[[], Cutter],
        embedder: Callable[[], Embedder],
        chunker: Callable[[], Chunker],
        settings: str,
    ) -> None:
        self.home, self.catalog, self._component, self._cutter = home, catalog, component, cutter
        self._embedder, self._chunker, self._settings = embedder, chunker, settings
        self._turn = threading.RLock()
        self._side: Side | None = None
        self._left: list[Side] = []  # searches may still be under way in them
        self._seen = -1

    def wanted(self) -> Space:
        """What the settings ask for."""
        embedder, chunker = self._embedder(), self._chunker()
        return Space(
            embedder=embedder.fingerprint, dim=embedder.dim, chunker=chunker.fingerprint, settings=self._settings
        )

    def active(self) -> Side:
        """The side that is read now; whoever notices a switch first changes over for all."""
        generation = self.catalog.generation()
        side = self._side
        if side is not None and generation == self._seen:
            return side
        with self._turn:
            space = self.catalog.space() or self.catalog.open_space(self.wanted())
            if self._side is None or self._side.space.id != space.id:
                if self._side is not None:
                    self._left.append(self._side)
                self._side = self.side_of(space)
            self._seen = generation
            return self._side

    def side_of(self, space: Space, *, lenient: bool = False) -> Side:
        """A side of its own, which the caller closes. With `lenient`, of what the space was made with, not we."""
        return Side(
            space,
            home=self.home,
            catalog=self.catalog,
            component=self._component,
            cutter=self._cutter,
            embedder=lambda: self._embedder_of(space, lenient=lenient),
        )

    def chunker_of(self, space: Space) -> Chunker:
        """What cuts documents for a space; raises SpaceMismatch where that cannot be had."""
        own = self._chunker()
        if own.fingerprint == space.chunker:
            return own
        made: Chunker | None = self._made_again(space, "chunk") if self._may_differ(space) else None
        if made is None or made.fingerprint != space.chunker:
            raise self._mismatch(space, chunker=own.fingerprint)
        return made

    def _embedder_of(self, space: Space, *, lenient: bool) -> Embedder:
        own = self._embedder()
        if (own.fingerprint, own.dim) == (space.embedder, space.dim):
            return own
        mismatch = self._mismatch(space, embedder=own.fingerprint, dim=own.dim)
        if not lenient and not self._may_differ(space):
            return Unfit(space, mismatch)
        try:
            made: Embedder | None = self._made_again(space, "embed")
        except HeadwaterError as error:
            return Unfit(space, BackendError(f"{mismatch} (making it again failed: {error})"))
        fits = made is not None and (made.fingerprint, made.dim) == (space.embedder, space.dim)
        return made if made is not None and fits else Unfit(space, BackendError(str(mismatch)))

    def _may_differ(self, space: Space) -> bool:
        if self._left or space.state != "active":
            return True
        wanted = self.wanted()
        shadows = [there for there in self.catalog.spaces() if there.state == "shadow"]
        return any((s.embedder, s.chunker) == (wanted.embedder, wanted.chunker) for s in shadows)

    def _mismatch(self, space: Space, **own: Any) -> SpaceMismatch:
        try:
            self.catalog.open_space(replace(space, **own))
        except SpaceMismatch as error:
            return error
        what = ", ".join(f"{key} {value!r}" for key, value in own.items())
        return SpaceMismatch(f"space {space.id} was not made with {what}; put back the setting that it was made with")

    def _made_again(self, space: Space, section: str) -> Any:
        config = made_with(space, Config())
        return self._component(section, config=config) if f"{section}.use" in config.settings else None

    def release(self) -> None:
        """Let go of the indexes' write locks."""
        for side in [*self._left, *([self._side] if self._side else [])]:
            side.release()

    def close(self) -> None:
        """Let go of files and threads."""
        for side in [*self._left, *([self._side] if self._side else [])]:
            side.close()


def made_with(space: Space, config: Config) -> Config:
    """The settings with those sections that the space recorded in place of their own."""
    told = json.loads(space.settings or "{}")
    kept = {name: setting for name, setting in config.settings.items() if name.partition(".")[0] not in told}
    origin = f"space {space.id}"
    own = {f"{section}.{key}": Setting(value, origin) for section in told for key, value in told[section].items()}
    return replace(config, settings={**kept, **own})


def with_own_chunker(config: Config, space: Space | None) -> Config:
    """The settings, where they do not name a chunker, with the one that the home was made with.

    So another default in a later release changes no home: it is for new ones.
    """
    if space is None or "chunk.use" in config.settings:
        return config
    # The first release recorded no settings; its chunker tells its name.
    told = json.loads(space.settings or "{}").get("chunk", {})
    used = told.get("use") or space.chunker.partition("/")[0]
    if used not in installed("chunkers"):
        return config
    written = any(name.startswith("chunk.") for name in config.settings)
    # A home that was made with a preset is added to without it: nothing is said of cutting, so all stays as it was.
    own = {"use": used} if written else {**told, "use": used}
    kept = {f"chunk.{key}": Setting(value, f"space {space.id}") for key, value in own.items()}
    return replace(config, settings={**config.settings, **kept})


def recorded(config: Config, *sections: str) -> str:
    """These sections of the settings as JSON, without keys that are written out: a space keeps them."""
    told: dict[str, dict[str, Any]] = {}
    for section in sections:
        own = {name.partition(".")[2]: s.value for name, s in config.settings.items() if name.startswith(section + ".")}
        shown = {key: value for key, value in own.items() if key != "api_key" or str(value).startswith(SECRET)}
        told[section] = {"use": COMPONENTS[section][1], **shown}
    return json.dumps(told)


def folder(home: Path, section: str, space: Space) -> Path:
    """Where an index of a space lies."""
    return home / f"{FOLDERS[section]}-{space.id}"


def left_folders(home: Path, catalog: Catalog) -> list[Path]:
    """Folders of spaces that were dropped."""
    named = [path for name in FOLDERS.values() for path in sorted(home.glob(f"{name}-*"))]
    there = [path for path in named if path.is_dir() and path.name.partition("-")[2].isdecimal()]
    # Asked after looking: a space is in the catalog before its folders are made.
    wanted = {folder(home, section, space) for section in FOLDERS for space in catalog.spaces()}
    return [path for path in there if path not in wanted]
