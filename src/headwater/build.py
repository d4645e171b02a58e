"""A home and its settings -> a knowledge base: what people and programs do with one."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from headwater import config as settings
from headwater.errors import NotFound
from headwater.filters import Compare, Filter, Has, In, Not, conjoin, parse
from headwater.home import CATALOG_FILE, Home
from headwater.intake import OnProgress
from headwater.protocols import Chunker, Embedder
from headwater.repair import problems, repair
from headwater.spaces import Reindexed
from headwater.types import (
    DEFAULT_COLLECTION,
    Answer,
    Blob,
    Chunk,
    Document,
    Event,
    Labels,
    Mode,
    Query,
    Record,
    Report,
    Results,
    document_id,
)


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


class KnowledgeBase(Home):
    """Documents that can be added, searched and asked. Safe to use from several threads."""

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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
