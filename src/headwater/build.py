"""A home and its settings -> a knowledge base: what people and programs do with one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from headwater import config as settings
from headwater.characters import composed
from headwater.contents import Contents, in_collection, uris_of
from headwater.errors import NotFound, UsageError
from headwater.filters import ALL, And, Compare, Filter, Has, Not, conjoin, parse, within
from headwater.home import DICTIONARY_FILE, PROMPTS_FOLDER
from headwater.places import default_home, make_home
from headwater.protocols import Chunker, Embedder, LanguageModel
from headwater.retrieve import compose
from headwater.storage.cache import digest_of, key_of
from headwater.stores import CATALOG_FILE, is_served, place_of
from headwater.types import (
    DEFAULT_COLLECTION,
    Answer,
    Event,
    Mode,
    Query,
    Results,
    document_id,
)

if TYPE_CHECKING:
    from headwater.causes import Explanation
    from headwater.stages.trace import Inside
    from headwater.turns import KeptAnswer

# Settings by which no result differs: two servers of one home, on two ports, share theirs.
NOT_OF_RESULTS: Final = ("answers.", "cache.", "ingest.", "server.", "web.")
# A share of the deadline that is not worth taking off it, and what is left at least.
NO_TIME: Final = 0.05


def open_home(
    home: str | os.PathLike[str] | None = None,
    *,
    config: settings.Config | None = None,
    preset: str | None = None,
    embedder: Embedder | None = None,
    chunker: Chunker | None = None,
    language_model: LanguageModel | None = None,
    create: bool = True,
) -> KnowledgeBase:
    """Open the knowledge base in a folder (else the default one), making it if it is new."""
    if home == "":  # as a variable that is not set: the current folder is not what was meant
        raise UsageError("a home is a folder, got ''; the current one is '.'")
    if config is not None and not isinstance(config, settings.Config):
        raise UsageError(f'config is a Config, got a {type(config).__name__}; write Config({{"retrieve.top_n": 5}})')
    path = Path(home) if home is not None else default_home()
    chosen = config
    if not (path / CATALOG_FILE).exists():
        if chosen is None and (path.is_dir() or not path.exists()):
            chosen = settings.load(path, preset=preset)
        if not create and (chosen is None or not is_served(chosen)):
            raise NotFound(f"there is no knowledge base in {str(path)!r}; make one with `headwater add SOURCE`")
        make_home(path)
    chosen = chosen or settings.load(path, preset=preset)
    return KnowledgeBase(path, chosen, embedder=embedder, chunker=chunker, language_model=language_model)


class KnowledgeBase(Contents):
    """Documents that can be added, searched and asked. Safe to use from several threads."""

    _written: tuple[settings.Config, tuple[str, ...]] | None = None

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
        if not isinstance(text, str):
            raise UsageError(f"a query is a text, got {text!r}")
        asked = where if isinstance(where, Filter) else parse(where)
        if folder is not None:
            asked = conjoin(asked, within(folder))
        if collection is not None:
            asked = conjoin(asked, in_collection(collection))
        scope = self.scope
        if not archived:
            scope = conjoin(scope, Not(Has("archived")))
        only = _collection_of(asked)
        own = self.config.of_collection(only) if only is not None else {}
        chosen = settings.with_options(self.options, {**own, **(options or {})})
        return Query(text=composed(text), where=asked, scope=scope, options=chosen)

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
        began, config, limit = perf_counter(), self.config, query.options.deadline_seconds
        generation, parts = self.catalog.generation(), self.parts
        key = self._cache_key(query, generation)
        if key is not None and (known := self.results_cache.get(key, within_seconds=limit)) is not None:
            took = (perf_counter() - began) * 1000
            return replace(known, query=query, timings_ms={"cache": took, "total": took})
        results = self._found(query, since=began)
        if self.parts is not parts:
            # A switch to another space in this moment: the filters spoke of one and the indexes of the other.
            return self._found(query, since=began)
        if key is not None and results.generation == generation and self.config is config:
            self.results_cache.put(key, results)
        return results

    def _found(self, query: Query, *, since: float) -> Results:
        """The search itself, in what is left of its time; asking a cache may have taken some of it."""
        limit, spent = query.options.deadline_seconds, perf_counter() - since
        asked = query
        if spent >= limit * NO_TIME:
            left = replace(query.options, deadline_seconds=max(limit - spent, limit * NO_TIME))
            asked = replace(query, options=left)
        elsewhere = (self._root or self).elsewhere
        found = elsewhere(asked) if elsewhere is not None else None
        results = compose(self.parts, asked.options).retrieve(asked) if found is None else found
        return results if asked is query else replace(results, query=query)

    def _cache_key(self, query: Query, generation: int) -> bytes | None:
        """Everything that the results depend on, in one key; None where they are not to be kept."""
        if query.options.cache_size < 1:
            return None
        space = self.space
        told = (*self._told_settings(), str(self.home), space.embedder, space.chunker, self._shaped_by)
        return key_of(query, generation=generation, space=space.id, settings=told)

    def _told_settings(self) -> tuple[str, ...]:
        """The settings in force in writing; a server may change them while it runs."""
        config, told = self._written or (None, ())
        if config is not self.config:
            kept = {name: setting.value for name, setting in self.config.settings.items()}
            told = tuple(f"{name}={kept[name]!r}" for name in sorted(kept) if not name.startswith(NOT_OF_RESULTS))
            self._written = (self.config, told)
        return told

    @cached_property
    def _shaped_by(self) -> str:
        """This version of headwater and the home's own words and prompts: who shares results has the same."""
        if self.config.cache().use == "memory":
            return ""
        from importlib.metadata import version

        from headwater.enhance import FILE_NAME as SYNONYMS_FILE

        own = [self.home / name for name in (DICTIONARY_FILE, SYNONYMS_FILE)]
        return digest_of([*own, *(self.home / PROMPTS_FOLDER).glob("*")], version("headwater"))

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
        archived: bool = False,
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
                archived=archived,
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
        archived: bool = False,
    ) -> Iterator[Event]:
        """The same as it comes about."""
        query = self.query(message, where=where, collection=collection, options=options, archived=archived)
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
        from headwater.why import why

        query = self.query(text, where=where, collection=collection, options=options, archived=archived, folder=folder)
        ids = [document_id(self.owner, collection or DEFAULT_COLLECTION, uri) for uri in uris_of(document)]
        hiding = ALL if archived else Not(Has("archived"))
        return why(self.parts, query, document, record=self.record, ids=ids, archived=hiding)

    def inspect(
        self,
        text: str,
        *,
        where: str | Filter = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
        archived: bool = False,
        folder: str | None = None,
    ) -> Inside:
        """A search with what it worked with: the query's vector, its keywords, and by passage what was found."""
        from headwater.inside import inside

        query = self.query(text, where=where, collection=collection, options=options, archived=archived, folder=folder)
        return inside(self.parts, query)

    def replay(self, answer_id: str) -> KeptAnswer:
        """An answer as it was; `stale` names the cited documents that changed since."""
        return self.chats.replay(answer_id)

    def stale(self) -> list[KeptAnswer]:
        """Kept answers whose cited documents changed since, the latest first; each question as it was last answered."""
        return self.chats.stale()

    def status(self) -> dict[str, Any]:
        """Counts, bytes, and what the home is made with."""
        space = self.catalog.space()
        return {
            "home": str(self.home),
            "catalog": place_of(self.catalog, self.config),
            **(counts := self.catalog.statistics()),
            "jobs": self.jobs(counts),
            "bytes": self.size_bytes(),
            "embedder": space.embedder if space else "",
            "chunker": space.chunker if space else "",
            "spaces": self.spaces.listed(),
        }

    def close(self) -> None:
        """Let go of files, threads and locks."""
        for part in ("web", "parsers", "sides", "notes", "writers", "rerankers", "results_cache"):
            if part in self.__dict__:  # it was needed
                getattr(self, part).close()
        if "embedder" in self.__dict__ and self._given_embedder is None and hasattr(self.embedder, "close"):
            self.embedder.close()
        self.catalog.close_store()

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _collection_of(where: Filter) -> str | None:
    """The one collection that a filter allows; None where there may be several."""
    parts = where.parts if isinstance(where, And) else (where,)
    said = (part.value for part in parts if isinstance(part, Compare) and (part.key, part.op) == ("collection", "="))
    only = next(said, None)
    return None if only is None else str(only)


def _last(events: Iterator[Event]) -> Answer:
    *_, answer = events
    assert isinstance(answer, Answer)
    return answer


def _options(given: Mapping[str, Any] | None, **named: Any) -> dict[str, Any]:
    return {**(given or {}), **{key: value for key, value in named.items() if value is not None}}
