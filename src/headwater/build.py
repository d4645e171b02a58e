"""A home and its settings -> a knowledge base. The only module that knows both an engine and an adapter.

Parts are built when they are first needed, so that listing documents loads no index and searching loads no parser.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import cache, cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headwater import config as settings
from headwater.engine import Engine
from headwater.errors import NotFound, SourceError
from headwater.filters import Compare, Filter, Has, Not, conjoin, parse
from headwater.indexer import Indexer
from headwater.intake import Intake, OnProgress
from headwater.protocols import Catalog, Chunker, Embedder, Generator, Parser, Source, TextIndex, VectorIndex
from headwater.registry import accepted, check_settings, installed, load, settable
from headwater.repair import problems, repair
from headwater.retrieve import Parts
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
)

CATALOG_FILE = "catalog.sqlite"
DICTIONARY_FILE = "dictionary.txt"
# Keyword arguments that a component gets from here when it names them; settings may not give them.
GIVEN: Mapping[str, tuple[str, ...]] = {
    "catalog": ("writable", "now"),
    "text_index": ("select", "cutter", "writable"),
    "vector_index": ("dim", "select", "exact", "writable"),
    "generate": ("cutter",),
}
# The two legs of a search and, in a server, a second search beside them.
POOL_THREADS = 4


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
        self.catalog: Catalog = self._component("catalog", home / CATALOG_FILE)

    # ------------------------------------------------------------------------------------------- parts

    def _component(self, section: str, *positional: Any, **given: Any) -> Any:
        group, name, arguments = self.config.component(section)
        component = load(group, name)
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
    def space(self) -> Space:
        """What this home's indexes are made with; refuses another embedder. Reading needs no chunker."""
        active = self.catalog.space()
        if active is not None and active.embedder == self.embedder.fingerprint:
            return active
        return self._wanted_space()

    def _wanted_space(self) -> Space:
        wanted = Space(embedder=self.embedder.fingerprint, dim=self.embedder.dim, chunker=self.chunker.fingerprint)
        return self.catalog.open_space(wanted)

    @cached_property
    def cutter(self) -> Cutter:
        """What cuts text into words, with the home's own dictionary."""
        words = list(self.config.tokens().dictionary)
        own = self.home / DICTIONARY_FILE
        if own.exists():
            words += [line.strip() for line in own.read_text(encoding="utf-8").splitlines() if line.strip()]
        return Cutter(dictionary=words)

    @cached_property
    def text(self) -> TextIndex:
        """The index of words."""
        folder = self.home / f"text-{self.space.id}"
        made: TextIndex = self._component("text_index", folder, select=self.catalog.select, cutter=self.cutter)
        return made

    @cached_property
    def vectors(self) -> VectorIndex:
        """The index of vectors."""
        folder = self.home / f"vectors-{self.space.id}"
        given = {"dim": self.space.dim, "select": self.catalog.select, "exact": self.catalog.vectors}
        made: VectorIndex = self._component("vector_index", folder, **given)
        return made

    @cached_property
    def engine(self) -> Engine:
        """The read path."""
        generator: Generator = self._component("generate", cutter=self.cutter)
        pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="headwater-leg")
        parts = Parts(
            catalog=self.catalog,
            text=self.text,
            vectors=self.vectors,
            embedder=self.embedder,
            cutter=self.cutter,
            pool=pool,
        )
        return Engine(parts, generator)

    @cached_property
    def indexer(self) -> Indexer:
        """The write path; refuses settings that do not fit the home."""
        self._wanted_space()
        ingest = self.config.ingest()
        return Indexer(
            catalog=self.catalog,
            text=self.text,
            vectors=self.vectors,
            chunker=self.chunker,
            embedder=self.embedder,
            read=lambda change: self._files(Path(change.uri), Labels(), change.collection).read(change.uri),
            parser=_parser_for,
            batch_chunks=ingest.batch_chunks,
        )

    @cached_property
    def intake(self) -> Intake:
        """What decides which documents need work, and sees it through."""
        return Intake(
            catalog=self.catalog,
            indexer=lambda: self.indexer,
            files=self._files,
            lock=HomeLock(self.home / "write.lock"),
            let_go=self._let_go,
            owner=self.owner,
            lock_timeout_seconds=self.config.ingest().lock_timeout_seconds,
        )

    def _let_go(self) -> None:
        for part in ("text", "vectors"):
            if part in self.__dict__:
                self.__dict__[part].release()

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
            return problems(self.catalog, self.text, self.vectors)
        with self.writing():
            found = problems(self.catalog, self.text, self.vectors)
            repair(self.catalog, self.text, self.vectors)
            return found

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
        return self.engine.search(self.query(text, where=where, collection=collection, options=chosen))

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
        found = self.catalog.record(given)
        if found is None:
            absolute = Path(given).absolute().as_posix()
            same = Compare("uri", "=", given), Compare("uri", "=", absolute)
            matches = [r for uri in same for r in self.catalog.records(conjoin(Compare("owner", "=", self.owner), uri))]
            found = matches[0] if matches else None
        if found is None or found.owner != self.owner:
            raise NotFound(f"no document has the id or uri {given!r}; `headwater list` shows those that exist")
        return found

    def chunks(self, document_id: str) -> list[Chunk]:
        """The passages of a document in order."""
        return self.catalog.chunks_of(self.record(document_id).id)

    def documents(self, where: str | Filter = "", *, collection: str | None = None) -> list[Record]:
        """The documents that a filter allows."""
        return self.catalog.records(conjoin(self.query("*", where=where, collection=collection, archived=True).where))

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
        }

    def close(self) -> None:
        """Let go of files, threads and locks."""
        for part in ("text", "vectors"):
            if part in self.__dict__:
                self.__dict__[part].close()
        if "engine" in self.__dict__:
            self.engine.parts.pool.shutdown()
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
    for section in settings.COMPONENTS:
        group, name, _ = config.component(section)
        own = {f"{section}.{key}": value for key, value in settable(load(group, name), GIVEN.get(section, ())).items()}
        found.update({key: settings.Setting(value, "default") for key, value in own.items()})
    found.update(config.settings)
    return dict(sorted(found.items()))
