"""A home and its settings -> its parts, each built when it is first needed.

Listing documents loads no index, and searching loads no parser.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from headwater import config as settings
from headwater.engine import Engine
from headwater.errors import SourceError, SpaceMismatch
from headwater.indexer import Indexer
from headwater.intake import Intake
from headwater.protocols import Catalog, Chunker, Embedder, Generator, Parser, Source, TextIndex, VectorIndex
from headwater.registry import accepted, check_settings, installed, load, settable
from headwater.side import Side, Sides, Unfit, recorded
from headwater.spaces import Spaces
from headwater.storage.lock import HomeLock
from headwater.tokens import Cutter
from headwater.types import LOCAL_OWNER, Labels, Options, Space

CATALOG_FILE = "catalog.sqlite"
DICTIONARY_FILE = "dictionary.txt"
# Keyword arguments that a component gets from here when it names them; settings may not give them.
GIVEN: Mapping[str, tuple[str, ...]] = {
    "catalog": ("writable", "now"),
    "text_index": ("select", "cutter", "writable"),
    "vector_index": ("dim", "select", "exact", "writable"),
    "embed": ("models_folder", "known_dims"),
    "generate": ("cutter",),
}


class Home:
    """The parts of one home. Safe to use from several threads."""

    def __init__(
        self,
        home: Path,
        config: settings.Config,
        *,
        embedder: Embedder | None = None,
        chunker: Chunker | None = None,
        owner: str = LOCAL_OWNER,
    ) -> None:
        self.home, self.config, self.owner = home, config, owner
        self._given_embedder, self._given_chunker = embedder, chunker
        self._check_sections()
        self.catalog: Catalog = self._component("catalog", home / CATALOG_FILE)
        self._engine: Engine | None = None
        self._indexer: Indexer | None = None

    # ------------------------------------------------------------------------------------------- parts

    def _check_sections(self) -> None:
        """A key that is misspelt is refused now, not when its component is first needed."""
        for section in settings.COMPONENTS:
            group, name, keys = self.config.written(section)
            if keys:
                check_settings(load(group, name), dict.fromkeys(keys), section=section, given=GIVEN.get(section, ()))

    def _component(self, section: str, *positional: Any, config: settings.Config | None = None, **given: Any) -> Any:
        group, name, arguments = (config or self.config).component(section)
        component = load(group, name)
        if section == "embed":
            given["models_folder"] = self.home / settings.MODELS_FOLDER
            # So that no server has to be asked, nor a model loaded, to open a home.
            given["known_dims"] = {space.embedder: space.dim for space in self.catalog.spaces()}
        check_settings(component, arguments, section=section, given=GIVEN.get(section, ()))
        return component(*positional, **accepted(component, given), **arguments)

    @cached_property
    def options(self) -> Options:
        """How to search and answer when a call does not say."""
        return self.config.options()

    @cached_property
    def embedder(self) -> Embedder:
        """What turns texts into vectors."""
        made: Embedder = self._given_embedder or self._component("embed")
        return made

    @cached_property
    def chunker(self) -> Chunker:
        """What cuts documents into passages."""
        made: Chunker = self._given_chunker or self._component("chunk")
        return made

    @cached_property
    def sides(self) -> Sides:
        """The parts that belong to a space, of the active one and of others."""
        given = {"embed": self._given_embedder, "chunk": self._given_chunker}
        return Sides(
            home=self.home,
            catalog=self.catalog,
            component=self._component,
            cutter=lambda: self.cutter,
            embedder=lambda: self.embedder,
            chunker=lambda: self.chunker,
            settings=recorded(self.config, *(section for section, part in given.items() if part is None)),
        )

    @property
    def space(self) -> Space:
        """What this home's indexes are made with."""
        return self.sides.active().space

    @cached_property
    def cutter(self) -> Cutter:
        """What cuts text into words, with the home's own dictionary."""
        words = list(self.config.tokens().dictionary)
        own = self.home / DICTIONARY_FILE
        if own.exists():
            words += [line.strip() for line in own.read_text(encoding="utf-8").splitlines() if line.strip()]
        return Cutter(dictionary=words)

    @property
    def text(self) -> TextIndex:
        """The index of words."""
        return self.sides.active().text

    @property
    def vectors(self) -> VectorIndex:
        """The index of vectors."""
        return self.sides.active().vectors

    @property
    def engine(self) -> Engine:
        """The read path, over the space that is active now."""
        parts = self.sides.active().parts
        if self._engine is None or self._engine.parts is not parts:
            generator: Generator = self._component("generate", cutter=self.cutter)
            self._engine = Engine(parts, generator)
        return self._engine

    @property
    def indexer(self) -> Indexer:
        """The write path, into the space that is active now; refuses settings that do not fit the home."""
        side = self.sides.active()
        if self._indexer is None or self._indexer.text is not side.text:
            self._indexer = self._indexer_of(side)
        return self._indexer

    def _indexer_of(self, side: Side) -> Indexer:
        if isinstance(side.embedder, Unfit):
            raise SpaceMismatch(str(side.embedder.error))
        ingest = self.config.ingest()
        return Indexer(
            catalog=self.catalog,
            text=side.text,
            vectors=side.vectors,
            chunker=self.sides.chunker_of(side.space),
            embedder=side.embedder,
            space=side.space,
            read=lambda change: self._files(Path(change.uri), Labels(), change.collection).read(change.uri),
            parser=_parser_for,
            # A slow or paid embedder says after how many texts its work should be safe.
            batch_chunks=min(ingest.batch_chunks, getattr(side.embedder, "commit_texts", ingest.batch_chunks)),
        )

    @cached_property
    def intake(self) -> Intake:
        """What decides which documents need work, and sees it through."""
        return Intake(
            catalog=self.catalog,
            indexer=lambda: self.indexer,
            files=self._files,
            lock=HomeLock(self.home / "write.lock"),
            let_go=self.sides.release,
            owner=self.owner,
            lock_timeout_seconds=self.config.ingest().lock_timeout_seconds,
        )

    def _files(self, path: Path, labels: Labels, collection: str) -> Source:
        limit = self.config.ingest().max_file_bytes
        made: Source = load("sources", "files")(
            path, owner=self.owner, collection=collection, labels=labels, max_bytes=limit
        )
        return made

    @cached_property
    def spaces(self) -> Spaces:
        """Changing the embedder or the chunker, while everybody goes on."""
        return Spaces(
            sides=self.sides,
            indexer_of=self._indexer_of,
            writing=self.intake.waiting,
            lock=HomeLock(self.home / "reindex.lock"),
        )


@cache
def _parser_for(mime: str) -> Parser:
    """The parser that reads a mime type; one that nobody reads is refused with what can be read."""
    parsers: dict[str, Parser] = {}
    for name in installed("parsers"):
        made: Parser = load("parsers", name)()
        parsers.update(dict.fromkeys(made.mimes, made))
    if mime not in parsers:
        raise SourceError(
            f"no parser reads {mime or 'this kind of file'}; what can be read: {', '.join(sorted(parsers))}"
        )
    return parsers[mime]


def effective_settings(home: Path | None = None, *, preset: str | None = None) -> dict[str, settings.Setting]:
    """Every setting in force by name, the components' own among them, each with where it comes from."""
    config = settings.load(home or settings.default_home(), preset=preset)
    found = settings.defaults()
    for section, (group, default) in settings.COMPONENTS.items():
        used = config.settings.get(f"{section}.use")
        name = str(used.value) if used else default
        own = {f"{section}.{key}": value for key, value in settable(load(group, name), GIVEN.get(section, ())).items()}
        found.update({key: settings.Setting(value, "default") for key, value in own.items()})
    found.update({name: _veiled(name, setting) for name, setting in config.settings.items()})
    return dict(sorted(found.items()))


def _veiled(name: str, setting: settings.Setting) -> settings.Setting:
    """A key that was written out is not shown; one that is only named is."""
    plain = isinstance(setting.value, str) and not setting.value.startswith(settings.SECRET)
    return settings.Setting("(not shown)", setting.origin) if name.endswith("api_key") and plain else setting
