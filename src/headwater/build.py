"""A home and its settings -> a knowledge base: what people and programs do with one."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any

from headwater import config as settings
from headwater import strategies
from headwater.attach import parts_of
from headwater.causes import Explanation
from headwater.errors import NotFound, SourceError
from headwater.filters import ALL, Compare, Filter, Has, In, Not, conjoin, parse, within
from headwater.forget import Forgotten, forget
from headwater.home import CATALOG_FILE
from headwater.indexer import stamped
from headwater.intake import OnProgress
from headwater.prepare import labelled
from headwater.protocols import Chunker, Embedder, LanguageModel
from headwater.repair import problems, repair
from headwater.spaces import Reindexed
from headwater.storage.cache import key_of
from headwater.turns import KeptAnswer
from headwater.types import (
    DEFAULT_COLLECTION,
    Answer,
    Blob,
    Chunk,
    Document,
    Event,
    Labels,
    Meta,
    Mode,
    Query,
    Record,
    Report,
    Results,
    attributes,
    document_id,
)
from headwater.views import Viewed
from headwater.why import why


def open_home(
    home: str | os.PathLike[str] | None = None,
    *,
    config: settings.Config | None = None,
    preset: str | None = None,
    embedder: Embedder | None = None,
    chunker: Chunker | None = None,
    language_model: LanguageModel | None = None,
    create: bool = True,
) -> "KnowledgeBase":
    """Open the knowledge base in a folder (else the default one), making it if it is new."""
    path = Path(home) if home is not None else settings.default_home()
    if not (path / CATALOG_FILE).exists():
        if not create:
            raise NotFound(f"there is no knowledge base in {str(path)!r}; make one with `headwater add SOURCE`")
        path.mkdir(parents=True, exist_ok=True)
    chosen = config or settings.load(path, preset=preset)
    return KnowledgeBase(path, chosen, embedder=embedder, chunker=chunker, language_model=language_model)


class KnowledgeBase(Viewed):
    """Documents that can be added, searched and asked. Safe to use from several threads."""

    # ------------------------------------------------------------------------------------------- write

    def add(
        self,
        *sources: str | os.PathLike[str],
        collection: str = DEFAULT_COLLECTION,
        tags: Sequence[str] = (),
        folder: str = "",
        strategy: str = "",
        chunk_size: int = 0,
        prune: bool = False,
        dry_run: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Report:
        """Add files, folders, vaults, addresses of pages, feeds and sitemaps, exports of bookmarks.

        Only what changed is worked on. `prune` removes what is no longer there.

        `strategy` and `chunk_size` say how they are cut; without them the home's chunker chooses.
        """
        labels = Labels(tags=tuple(tags), folder=folder, meta=self._asked_for(strategy, chunk_size))
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
        if labels is not None and not labels.meta.keys().isdisjoint((strategies.STRATEGY, strategies.CHUNK_SIZE)):
            strategies.check(self.sides.chunker_of(self.space), labels.meta)
        blob = Blob(uri=uri, data=text.encode("utf-8"), mime=mime, modified=_now())
        return self.intake.add_blob(blob, collection=collection, labels=labels or Labels())

    def add_bytes(
        self,
        data: bytes,
        *,
        collection: str = DEFAULT_COLLECTION,
        tags: Sequence[str] = (),
        folder: str = "",
        strategy: str = "",
        chunk_size: int = 0,
    ) -> Report:
        """Add what came from standard input: text in any encoding, named after its content."""
        uri = f"stdin:{blake2b(data, digest_size=8).hexdigest()}"
        blob = Blob(uri=uri, data=data, mime="text/plain", modified=_now())
        labels = Labels(tags=tuple(tags), folder=folder, meta=self._asked_for(strategy, chunk_size))
        return self.intake.add_blob(blob, collection=collection, labels=labels)

    def add_html(
        self,
        html: str,
        *,
        url: str,
        title: str = "",
        client_source: str = "",
        selection: str = "",
        collection: str = DEFAULT_COLLECTION,
        labels: Labels | None = None,
    ) -> Report:
        """Add a page as a browser has it; `client_source` says what sent it, `selection` what was marked in it.

        Nothing is fetched. The same page under the same address is no work.
        """
        from headwater.sources.web import normalised

        own = labels or Labels()
        told = {"client_source": client_source, "selection": selection}
        meta = {**own.meta, **{name: value for name, value in told.items() if value}}
        blob = Blob(uri=normalised(url), data=html.encode("utf-8", "replace"), mime="text/html", modified=_now())
        blob = replace(blob, meta={"charset": "utf-8"})
        named = replace(own, title=own.title or title, meta=meta)
        return self.intake.add_blob(blob, collection=collection, labels=named)

    def add_documents(self, documents: Iterable[Document], *, on_progress: OnProgress | None = None) -> int:
        """Add documents that are text already, in bulk; return how many were new or changed."""
        return self.intake.add_documents(documents, on_progress=on_progress)

    def cost(
        self,
        *sources: str | os.PathLike[str],
        collection: str = DEFAULT_COLLECTION,
        tags: Sequence[str] = (),
        folder: str = "",
        strategy: str = "",
        chunk_size: int = 0,
    ) -> strategies.Cost | None:
        """What a language model will be asked if these are added so, or without sources if the home is reindexed.

        None where none is asked. The documents are read and cut for it, and nothing is stored.
        """
        meta = self._asked_for(strategy, chunk_size)
        chunker = self.sides.chunker_of(self.space) if sources else self.chunker
        if not strategies.asks_a_model(chunker, meta, collection) and (sources or not hasattr(chunker, "estimate")):
            return None
        labels = Labels(tags=tuple(tags), folder=folder, meta=meta)
        found = self._parsed(sources, collection, labels) if sources else self._stored()
        return strategies.cost_of(chunker, found)

    def _asked_for(self, strategy: str, chunk_size: int) -> Meta:
        if not strategy and not chunk_size:
            return {}
        return strategies.asked_for(self.sides.chunker_of(self.space), strategy=strategy, chunk_size=chunk_size)

    def _parsed(self, sources: Sequence[str | os.PathLike[str]], collection: str, labels: Labels) -> Iterator[Document]:
        """The documents that an add would work on."""
        known = self.catalog.stamps(self.owner, collection)
        for source in sources:
            opened = self.origins.open(os.fspath(source), labels, collection)
            for change in map(stamped, opened.source.scan()):
                before = known.get(change.uri)
                if before is None or before.state != "completed" or before.stamp != change.stamp:
                    with suppress(SourceError):  # an add will say why
                        blob = change.payload or self.indexer.read(change)
                        yield labelled(self.indexer.parser(blob.mime).parse(blob), change)

    def _stored(self) -> Iterator[Document]:
        for record in self.catalog.records(ALL):
            if record.ticket and (document := self.catalog.document(record.id)) is not None:
                yield document

    def remove(self, *document_ids: str) -> int:
        """Remove documents; they are gone for every reader when this returns."""
        return self.intake.remove([self.record(given) for given in document_ids])

    def forget(self, *document_ids: str) -> Forgotten:
        """Erase documents everywhere: index, vectors, caches, history, answers, originals; no byte of them is left.

        The files they came from stay, and adding those again brings them back.
        """
        return forget(self, [self.record(given) for given in document_ids])

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
        folder: str | None = None,
    ) -> Query:
        """A query in this knowledge base's scope: what its caller may see, without the archived ones."""
        asked = parse(where) if isinstance(where, str) else where
        if folder is not None:
            asked = conjoin(asked, within(folder))
        if collection is not None:
            asked = conjoin(asked, Compare("collection", "=", collection))
        scope = self.scope
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
        archived: bool = False,
        folder: str | None = None,
    ) -> Results:
        """Ranked passages. `options` are the settings of the `retrieve` section."""
        chosen = _options(options, mode=mode, top_n=top_n, offset=offset)
        query = self.query(text, where=where, collection=collection, options=chosen, archived=archived, folder=folder)
        began, key = perf_counter(), self._cache_key(query)
        if key is not None and (known := self.results_cache.get(key)) is not None:
            took = (perf_counter() - began) * 1000
            return replace(known, query=query, timings_ms={"cache": took, "total": took})
        generation, engine = self.catalog.generation(), self.engine
        results = engine.search(query)
        if self.engine is not engine:
            # A switch to another space in this moment: the filters spoke of one and the indexes of the other.
            return self.engine.search(query)
        if key is not None and results.generation == generation and key == self._cache_key(query):
            self.results_cache.put(key, results)
        return results

    def _cache_key(self, query: Query) -> bytes | None:
        """Everything that the results depend on, in one key; None where they are not to be kept."""
        if query.options.cache_size < 1:
            return None
        told = [f"{name}={setting.value!r}" for name, setting in sorted(self.config.settings.items())]
        generation = self.catalog.generation()
        return key_of(query, generation=generation, space=self.space.id, settings=[str(self.home), *told])

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
        return _last(self.stream(question, mode=mode, top_n=top_n, where=where, collection=collection, options=options))

    def stream(
        self,
        question: str,
        *,
        mode: Mode | None = None,
        top_n: int | None = None,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
        archived: bool = False,
    ) -> Iterator[Event]:
        """The same as it comes about: steps, checked sentences, and the Answer last."""
        chosen = _options(options, mode=mode, top_n=top_n)
        query = self.query(question, where=where, collection=collection, options=chosen, archived=archived)
        events = self.engine.stream(query)
        return self.chats.kept(events, question) if self.config.answers().keep == "all" else events

    def chat(
        self,
        message: str,
        *,
        conversation: str = "",
        use_knowledge_base: bool = True,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Answer:
        """The answer to the next message of a conversation, else of a new one: `answer.conversation_id` says which."""
        return _last(
            self.chat_stream(
                message,
                conversation=conversation,
                use_knowledge_base=use_knowledge_base,
                where=where,
                collection=collection,
                options=options,
            )
        )

    def chat_stream(
        self,
        message: str,
        *,
        conversation: str = "",
        use_knowledge_base: bool = True,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Iterator[Event]:
        """The same as it comes about."""
        query = self.query(message, where=where, collection=collection, options=options)
        return self.chats.stream(query, conversation_id=conversation, use_knowledge_base=use_knowledge_base)

    def why(
        self,
        text: str,
        document: str,
        *,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
        archived: bool = False,
        folder: str | None = None,
    ) -> Explanation:
        """Where a document (its id, its uri, or the id of a passage) stands in that search, and what kept it out."""
        query = self.query(text, where=where, collection=collection, options=options, archived=archived, folder=folder)
        ids = [document_id(self.owner, collection or DEFAULT_COLLECTION, uri) for uri in uris_of(document)]
        hiding = ALL if archived else Not(Has("archived"))
        return why(self.engine.parts, query, document, record=self.record, ids=ids, archived=hiding)

    def replay(self, answer_id: str) -> KeptAnswer:
        """An answer as it was; `stale` names the cited documents that changed since."""
        return self.chats.replay(answer_id)

    def document(self, document_id: str) -> Document:
        """A document with its text."""
        found = self.catalog.document(self.record(document_id).id)
        if found is None:
            raise NotFound(f"document {document_id!r} has no text: {self.record(document_id).error or 'it is pending'}")
        return found

    def record(self, given: str) -> Record:
        """A document without its text, by id or by uri."""
        uris = uris_of(given)
        likely = (given, *(document_id(self.owner, DEFAULT_COLLECTION, uri) for uri in uris))
        found = next((record for id in likely if (record := self.catalog.record(id))), None)
        if found is None:  # in another collection: every document has to be looked at
            where = conjoin(self.scope, In("uri", uris))
            found = next(iter(self.catalog.records(where)), None)
        if found is None or not self.scope.matches(attributes(found)):
            raise NotFound(f"no document has the id or uri {given!r}; `headwater list` shows those that exist")
        return found

    def chunks(self, document_id: str) -> list[Chunk]:
        """The passages of a document in order."""
        return self.catalog.chunks_of(self.record(document_id).id)

    def strategy(self, document_id: str) -> str:
        """The name of the strategy that cut a document."""
        return strategies.strategy_of(self.sides.chunker_of(self.space), self.document(document_id))

    def alike(self, document_id: str) -> list[tuple[Record, float]]:
        """Documents of the same collection that are nearly the same, most alike first, with how much they share."""
        found = ((self.catalog.record(id), share) for id, share in self.catalog.alike(self.record(document_id).id))
        return [(record, share) for record, share in found if record is not None]

    def attachments(self, document_id: str) -> list[Record]:
        """The documents that came inside one, such as the files of a mail, by uri."""
        return parts_of(self.catalog, self.record(document_id))

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
        for part in ("web", "parsers", "sides", "notes", "writers", "rerankers"):
            if part in self.__dict__:  # it was needed
                getattr(self, part).close()
        if "embedder" in self.__dict__ and self._given_embedder is None and hasattr(self.embedder, "close"):
            self.embedder.close()
        self.catalog.close_store()

    def __enter__(self) -> "KnowledgeBase":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def uris_of(given: str) -> tuple[str, str]:
    """What a person may have meant: the name as it is, or a path from here."""
    return given, Path(given).absolute().as_posix()


def _last(events: Iterator[Event]) -> Answer:
    *_, answer = events
    assert isinstance(answer, Answer)
    return answer


def _options(given: Mapping[str, Any] | None, **named: Any) -> dict[str, Any]:
    return {**(given or {}), **{key: value for key, value in named.items() if value is not None}}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
