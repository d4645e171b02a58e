"""A home and its settings -> a knowledge base. The only module that knows both an engine and an adapter.

Parts are built when they are first needed, so that listing documents loads no index and searching loads no parser.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headwater import config as settings
from headwater.engine import Engine
from headwater.errors import NotFound, SourceError, SpaceMismatch
from headwater.filters import Compare, Filter, Has, In, Not, conjoin, parse
from headwater.indexer import Indexer
from headwater.intake import Intake, OnProgress
from headwater.protocols import Catalog, Chunker, Embedder, Generator, Parser, Source, TextIndex, VectorIndex
from headwater.registry import accepted, check_settings, installed, load, settable
from headwater.repair import problems, repair
from headwater.side import Side, Sides, Unfit, recorded
from headwater.spaces import Reindexed, Spaces
from headwater.storage.lock import HomeLock
from headwater.tokens import Cutter
from headwater.types import (
    DEFAULT_COLLECTION,
    LOCAL_OWNER,
    Answer,
    Blob,
    Chunk,
    Document,
    Event,
    Labels,
    Mode,
    Options,
    Query,
    Record,
    Report,
    Results,
    Space,
    document_id,
)

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


def open_home(
    home: str | os.PathLike[str] | None = None,
    *,
    config: settings.Config | None = None,
    preset: str | None = None,
    embedder: Embedder | None = None,
    chunker: Chunker | None = None,
    create: bool = True,
) -> "KnowledgeBase":
    """Open the knowledge base in a folder (else the default one), making it if it is new."""
    path = Path(home) if home is not None else settings.default_home()
    if not (path / CATALOG_FILE).exists():
        if not create:
            raise NotFound(f"there is no knowledge base in {str(path)!r}; make one with `headwater add SOURCE`")
        path.mkdir(parents=True, exist_ok=True)
    return KnowledgeBase(path, config or settings.load(path, preset=preset), embedder=embedder, chunker=chunker)


class KnowledgeBase:
    """Documents that can be added, searched and asked. Safe to use from several threads."""

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

    # ------------------------------------------------------------------------------------------- write

    def add(
        self,
        *sources: str | os.PathLike[str],
        collection: str = DEFAULT_COLLECTION,
        tags: Sequence[str] = (),
        folder: str = "",
        prune: bool = False,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Report:
        """Add files and folders; only what changed is worked on. `prune` removes what is no longer there."""
        labels = Labels(tags=tuple(tags), folder=folder)
        return self.intake.add(
            sources, collection=collection, labels=labels, prune=prune, dry_run=dry_run, on_progress=on_progress
        )

    def add_text(
        self,
        text: str,
        *,
        uri: str,
        collection: str = DEFAULT_COLLECTION,
        labels: Labels | None = None,
        mime: str = "text/plain",
    ) -> Report:
        """Add one text under a name of the caller's; the same text under the same name is no work."""
        blob = Blob(uri=uri, data=text.encode("utf-8"), mime=mime, modified=_now())
        return self.intake.add_blob(blob, collection=collection, labels=labels or Labels())

    def add_bytes(
        self, data: bytes, *, collection: str = DEFAULT_COLLECTION, tags: Sequence[str] = (), folder: str = ""
    ) -> Report:
        """Add what came from standard input: text in any encoding, named after its content."""
        uri = f"stdin:{blake2b(data, digest_size=8).hexdigest()}"
        blob = Blob(uri=uri, data=data, mime="text/plain", modified=_now())
        return self.intake.add_blob(blob, collection=collection, labels=Labels(tags=tuple(tags), folder=folder))

    def add_documents(self, documents: Iterable[Document], *, on_progress: OnProgress | None = None) -> int:
        """Add documents that are text already, in bulk; return how many were new or changed."""
        return self.intake.add_documents(documents, on_progress=on_progress)

    def remove(self, *document_ids: str) -> int:
        """Remove documents; they are gone for every reader when this returns."""
        return self.intake.remove([self.record(given) for given in document_ids])

    def writing(self) -> AbstractContextManager[None]:
        """Hold the home's write lock, for several adds in a row; HomeLocked if another process has it."""
        return self.intake.writing()

    def check(self, *, mend: bool = False) -> list[str]:
        """What is wrong between catalog and indexes, in words. With `mend`, what was wrong, now mended."""
        if not mend:
            return problems(self.catalog, self.text, self.vectors) + self.spaces.problems()
        with self.writing():
            found = problems(self.catalog, self.text, self.vectors) + self.spaces.problems()
            repair(self.catalog, self.text, self.vectors)
            self.spaces.mend()
            return found

    @cached_property
    def spaces(self) -> Spaces:
        """Changing the embedder or the chunker, while everybody goes on."""
        return Spaces(
            sides=self.sides,
            indexer_of=self._indexer_of,
            writing=self.intake.waiting,
            lock=HomeLock(self.home / "reindex.lock"),
        )

    def reindex(self, *, back: bool = False, on_progress: OnProgress | None = None) -> Reindexed:
        """Fill a space for the embedder and chunker of the settings, compare, and switch; or go `back`.

        Everything goes on meanwhile. The former space is kept until `confirm` or the next reindex.
        """
        return self.spaces.reindex(back=back, on_progress=on_progress)

    def confirm(self) -> int:
        """Drop the space that was switched from; return how many were dropped."""
        return self.spaces.confirm()

    # -------------------------------------------------------------------------------------------- read

    def query(
        self,
        text: str,
        *,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
        archived: bool = False,
    ) -> Query:
        """A query in this knowledge base's scope: its owner's documents, without the archived ones."""
        asked = parse(where) if isinstance(where, str) else where
        if collection is not None:
            asked = conjoin(asked, Compare("collection", "=", collection))
        scope: Filter = Compare("owner", "=", self.owner)
        if not archived:
            scope = conjoin(scope, Not(Has("archived")))
        chosen = settings.with_options(self.options, options or {})
        return Query(text=text, where=asked, scope=scope, options=chosen)

    def search(
        self,
        text: str,
        *,
        mode: Mode | None = None,
        top_n: int | None = None,
        offset: int = 0,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Results:
        """Ranked passages. `options` are the settings of the `retrieve` section."""
        chosen = _options(options, mode=mode, top_n=top_n, offset=offset)
        query = self.query(text, where=where, collection=collection, options=chosen)
        engine = self.engine
        results = engine.search(query)
        # A switch to another space in this moment: the filters spoke of one and the indexes of the other.
        return results if self.engine is engine else self.engine.search(query)

    def ask(
        self,
        question: str,
        *,
        mode: Mode | None = None,
        top_n: int | None = None,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer, every sentence with the exact passage behind it, or a refusal."""
        chosen = _options(options, mode=mode, top_n=top_n)
        return self.engine.ask(self.query(question, where=where, collection=collection, options=chosen))

    def stream(
        self,
        question: str,
        *,
        mode: Mode | None = None,
        top_n: int | None = None,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[Event]:
        """The same as it comes about: steps, checked sentences, and the Answer last."""
        chosen = _options(options, mode=mode, top_n=top_n)
        return self.engine.stream(self.query(question, where=where, collection=collection, options=chosen))

    def document(self, document_id: str) -> Document:
        """A document with its text."""
        found = self.catalog.document(self.record(document_id).id)
        if found is None:
            raise NotFound(f"document {document_id!r} has no text: {self.record(document_id).error or 'it is pending'}")
        return found

    def record(self, given: str) -> Record:
        """A document without its text, by id or by uri."""
        uris = (given, Path(given).absolute().as_posix())
        likely = (given, *(document_id(self.owner, DEFAULT_COLLECTION, uri) for uri in uris))
        found = next((record for id in likely if (record := self.catalog.record(id))), None)
        if found is None:  # in another collection: every document has to be looked at
            where = conjoin(Compare("owner", "=", self.owner), In("uri", uris))
            found = next(iter(self.catalog.records(where)), None)
        if found is None or found.owner != self.owner:
            raise NotFound(f"no document has the id or uri {given!r}; `headwater list` shows those that exist")
        return found

    def chunks(self, document_id: str) -> list[Chunk]:
        """The passages of a document in order."""
        return self.catalog.chunks_of(self.record(document_id).id)

    def documents(self, where: str | Filter = "", *, collection: str | None = None) -> list[Record]:
        """The documents that a filter allows."""
        asked = self.query("*", where=where, collection=collection, archived=True)
        return self.catalog.records(conjoin(asked.scope, asked.where))

    def status(self) -> dict[str, Any]:
        """Counts, bytes, and what the home is made with."""
        space = self.catalog.space()
        files = [path for path in self.home.rglob("*") if path.is_file()]
        return {
            "home": str(self.home),
            **self.catalog.statistics(),
            "bytes": sum(path.stat().st_size for path in files),
            "embedder": space.embedder if space else "",
            "chunker": space.chunker if space else "",
            "spaces": self.spaces.listed(),
        }

    def close(self) -> None:
        """Let go of files, threads and locks."""
        if "sides" in self.__dict__:
            self.sides.close()
        if "embedder" in self.__dict__ and self._given_embedder is None and hasattr(self.embedder, "close"):
            self.embedder.close()
        self.catalog.close_store()

    def __enter__(self) -> "KnowledgeBase":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _options(given: Mapping[str, Any] | None, **named: Any) -> dict[str, Any]:
    return {**(given or {}), **{key: value for key, value in named.items() if value is not None}}


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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


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
