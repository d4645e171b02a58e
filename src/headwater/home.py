"""A home and its settings -> its parts, each built when it is first needed.

Listing documents loads no index, and searching loads no parser: a part is imported where it is built, for a search
from the command line spends more time on importing than on searching.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater import config as settings
from headwater.errors import SpaceMismatch
from headwater.messages import Usage
from headwater.models.known import calibration_of, weighing_of
from headwater.protocols import (
    Catalog,
    Chunker,
    Embedder,
    LanguageModel,
    Retriever,
    Rewriter,
    TextIndex,
    VectorIndex,
)
from headwater.registry import accepted, check_settings, load, settable
from headwater.rerankers import GIVEN as GIVEN_TO_RERANKERS
from headwater.rerankers import Rerankers
from headwater.retrieve import Parts
from headwater.side import Side, Sides, Unfit, recorded, with_own_chunker
from headwater.storage.cache import Cache, ResultCache
from headwater.stores import CATALOG_FILE, following, identity_of, lock_of
from headwater.tokens import Cutter
from headwater.types import LOCAL_OWNER, Options, Query, Results, Space
from headwater.writers import GIVEN as GIVEN_TO_WRITERS
from headwater.writers import Writers

if TYPE_CHECKING:
    from headwater.chats import Chats
    from headwater.engine import Engine
    from headwater.enhance import Synonyms
    from headwater.indexer import Indexer
    from headwater.intake import Intake
    from headwater.origins import Origins
    from headwater.parsing import Parsers
    from headwater.sources.web import Web
    from headwater.spaces import Spaces
    from headwater.storage.conversations import Conversations
    from headwater.storage.notes import SqliteNotes
    from headwater.wording import Prompts

DICTIONARY_FILE = "dictionary.txt"
NOTES_FILE = "notes.sqlite"
CONVERSATIONS_FILE = "conversations.sqlite"
PROMPTS_FOLDER = "prompts"  # a person's own wording, over the one that ships
SPENDING_FOLDER = "tokens"  # how many tokens models used, a file a day
# Keyword arguments that a component gets from here when it names them; settings may not give them.
GIVEN: Mapping[str, tuple[str, ...]] = {
    "catalog": ("writable", "now"),
    "text_index": ("select", "cutter", "writable"),
    "vector_index": ("dim", "select", "exact", "writable"),
    "chunk": ("embedder", "language_model", "notes"),
    "embed": ("models_folder", "known_dims", "environment"),
    "rerank": GIVEN_TO_RERANKERS,
    "generate": GIVEN_TO_WRITERS,
}


class Home:
    """The parts of one home. Safe to use from several threads."""

    # Told what a reply of a language model took: the model's name, and its tokens.
    on_usage: Callable[[str, Usage], None] | None = None
    # Searches that somebody else may do for this process; None of it: it searches itself.
    elsewhere: Callable[[Query], Results | None] | None = None

    def __init__(
        self,
        home: Path,
        config: settings.Config,
        *,
        embedder: Embedder | None = None,
        chunker: Chunker | None = None,
        language_model: LanguageModel | None = None,
        owner: str = LOCAL_OWNER,
    ) -> None:
        self.home, self.config, self.owner = home, following(config), owner
        self._given_language_model = language_model
        self._given_embedder, self._given_chunker = embedder, chunker
        self._check_sections(config, *(section for section in settings.COMPONENTS if section != "chunk"))
        self.catalog: Catalog = self._component("catalog", home / CATALOG_FILE)
        if config.written("chunk")[2]:
            self._check_sections(self.settled, "chunk")
        self._engine: Engine | None = None
        self._parts: Parts | None = None
        self._own_parts: Parts | None = None  # what they were made from
        self._indexer: Indexer | None = None

    # ------------------------------------------------------------------------------------------- parts

    def _check_sections(self, config: settings.Config, *sections: str) -> None:
        """A key that is misspelt is refused now, not when its component is first needed."""
        for section in sections:
            group, name, keys = config.written(section)
            if keys:
                check_settings(load(group, name), dict.fromkeys(keys), section=section, given=GIVEN.get(section, ()))

    def _component(self, section: str, *positional: Any, config: settings.Config | None = None, **given: Any) -> Any:
        group, name, arguments = (config or (self.settled if section == "chunk" else self.config)).component(section)
        component = load(group, name)
        if section == "chunk":
            # Called when they are needed: few ways of cutting ask a model.
            given["embedder"] = lambda: self.embedder if config is None else self._component("embed", config=config)
            given["language_model"] = lambda: self.language_model
            given["notes"] = lambda: self.notes
        if section == "embed":
            given["models_folder"] = self.home / settings.MODELS_FOLDER
            # So that no server has to be asked, nor a model loaded, to open a home.
            given["known_dims"] = {space.embedder: space.dim for space in self.catalog.spaces()}
            given["environment"] = self.config.environment
        check_settings(component, arguments, section=section, given=GIVEN.get(section, ()))
        address = None if "url" in arguments else settable(component).get("url")
        if isinstance(address, str) and address.startswith(settings.SECRET):  # may stand in the home's `.env`
            arguments["url"] = self.config.secret(f"{section}.url", address)
        return component(*positional, **accepted(component, given), **arguments)

    @cached_property
    def settled(self) -> settings.Config:
        """The settings, with the chunker that the home was made with where they name none."""
        return self.config if self._given_chunker else with_own_chunker(self.config, self.catalog.space())

    @property
    def options(self) -> Options:
        """How to search and answer when a call does not say."""
        return weighed(self.config, self.fingerprint).options()

    @property
    def fingerprint(self) -> str:
        """That of the embedder in use, without loading it; empty before there is anything to search."""
        if self._given_embedder is not None:
            return self._given_embedder.fingerprint
        space = self.catalog.space()
        return space.embedder if space else ""

    @cached_property
    def embedder(self) -> Embedder:
        """What turns texts into vectors."""
        made: Embedder = self._given_embedder or self._component("embed")
        return made

    @cached_property
    def checker(self) -> Embedder:
        """What compares sentences with their sources: always the bundled one, for its cosines are known."""
        made: Embedder = load("embedders", "static")()
        return made

    @cached_property
    def chunker(self) -> Chunker:
        """What cuts documents into passages."""
        made: Chunker = self._given_chunker or self._component("chunk")
        return made

    @property
    def language_model(self) -> LanguageModel | None:
        """What writes, where one is set."""
        return self._given_language_model or self.writers.model

    @cached_property
    def writers(self) -> Writers:
        """What writes answers, by name."""
        given = {"cutter": self.cutter, "embedder": self.checker, "spending_folder": self.home / SPENDING_FOLDER}
        given |= {"environment": self.config.environment, "on_usage": self._used}
        return Writers(self.config, given=given, model=self._given_language_model)

    def _used(self, model: str, usage: Usage) -> None:
        if self.on_usage is not None:
            self.on_usage(model, usage)

    @cached_property
    def rerankers(self) -> Rerankers:
        """What looks at passages again, by name."""
        given = {
            "models_folder": self.home / settings.MODELS_FOLDER,
            "cutter": self.cutter,
            "language_model": lambda: self.language_model,
            "prompts": self.prompts,
            "environment": self.config.environment,
        }
        return Rerankers(self.config, given=given)

    @cached_property
    def synonyms(self) -> Synonyms:
        """Words that mean the same: those that come with the package and the home's own."""
        from headwater.enhance import Synonyms

        return Synonyms.read(self.home, self.cutter)

    @cached_property
    def results_cache(self) -> Cache:
        """Results of questions that may be asked again."""
        chosen, near = asdict(self.config.cache()), ResultCache(self.options.cache_size)
        if chosen.pop("use") == "memory" or self._given_language_model is not None:  # what it writes is not settings
            return near
        from headwater.storage.redis_cache import RedisCache

        catalog, now = self.home / CATALOG_FILE, self.catalog.generation()
        own = identity_of(self.catalog)
        return RedisCache(near, catalog, generation=now, identity=own, size=self.options.cache_size, **chosen)

    @cached_property
    def prompts(self) -> Prompts:
        """What models are told."""
        from headwater.wording import Prompts

        return Prompts(self.home / PROMPTS_FOLDER)

    @cached_property
    def conversations(self) -> Conversations:
        """What was said and answered in this home."""
        from headwater.storage.conversations import Conversations

        return Conversations(self.home / CONVERSATIONS_FILE, owner=self.owner)

    @cached_property
    def chats(self) -> Chats:
        """Conversations as they go on, and answers to look at again."""
        from headwater.chats import Chats

        return Chats(
            store=self.conversations,
            engine=lambda: self.engine,
            catalog=self.catalog,
            keep=self.config.answers().keep,
        )

    @cached_property
    def notes(self) -> SqliteNotes:
        """What a language model wrote about passages."""
        from headwater.storage.notes import SqliteNotes

        return SqliteNotes(self.home / NOTES_FILE)

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
            settings=recorded(self.settled, *(section for section, part in given.items() if part is None)),
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
    def parts(self) -> Parts:
        """What a search works with, over the space that is active now."""
        own = self.sides.active().parts
        if self._parts is None or self._own_parts is not own:
            self._parts = replace(
                own,
                rewriter=self._rewriter,
                reranker=partial(self.rerankers.named, embedder=own.embedder.fingerprint),
                synonyms=self._variants,
                written=_written,
                related=self._related,
                calibration=calibration_of(own.embedder.fingerprint),
            )
            self._own_parts = own
        return self._parts

    @property
    def engine(self) -> Engine:
        """The read path, over the space that is active now."""
        from headwater.engine import Engine

        parts = self.parts
        if self._engine is None or self._engine.parts is not parts:
            writers = self.writers
            self._engine = Engine(
                parts,
                writers.default,
                fallback=writers.fallback,
                named=writers.named,
                prompts=self.prompts,
                checker=self.checker,
            )
        return self._engine

    def _related(self, inner: Retriever) -> Retriever:
        from headwater.stages.related import Related

        parts = self.sides.active().parts
        return Related(inner, catalog=parts.catalog, text_index=parts.text, cutter=parts.cutter)

    def _variants(self, text: str) -> list[str]:
        """Other ways to write a question; the table is read at the first."""
        return self.synonyms.variants(text)

    def _rewriter(self, options: Options) -> Rewriter | None:
        """What asks in other words for a query with these options: a language model, or nothing."""
        from headwater.rewrite import ModelRewriter

        writer = self.writers.named(options.llm) if options.llm else self.writers.default
        return ModelRewriter(writer, self.prompts) if isinstance(writer, LanguageModel) else None

    @property
    def indexer(self) -> Indexer:
        """The write path, into the space that is active now; refuses settings that do not fit the home."""
        side = self.sides.active()
        if self._indexer is None or self._indexer.text is not side.text:
            self._indexer = self._indexer_of(side)
        return self._indexer

    def _indexer_of(self, side: Side) -> Indexer:
        from headwater.indexer import Indexer

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
            read=self.origins.read,
            instead=self.origins.instead,
            parser=self.parsers.named,
            # A slow or paid embedder says after how many texts its work should be safe.
            batch_chunks=min(ingest.batch_chunks, getattr(side.embedder, "commit_texts", ingest.batch_chunks)),
        )

    @cached_property
    def parsers(self) -> Parsers:
        """What reads files, by mime type."""
        from headwater.parsing import Parsers

        return Parsers(self.config.ingest())

    @cached_property
    def intake(self) -> Intake:
        """What decides which documents need work, and sees it through."""
        from headwater.intake import Intake

        return Intake(
            catalog=self.catalog,
            indexer=lambda: self.indexer,
            open_source=self.origins.open,
            expect=self.origins.expect,
            lock=lock_of(self.catalog, self.home, "write"),
            let_go=self.sides.release,
            owner=self.owner,
            lock_timeout_seconds=self.config.ingest().lock_timeout_seconds,
        )

    @cached_property
    def origins(self) -> Origins:
        """Where documents come from."""
        from headwater.origins import Origins

        return Origins(
            catalog=self.catalog,
            web=lambda: self.web,
            refuse=self._refuse_unreadable,
            owner=self.owner,
            home=self.home,
            max_file_bytes=self.config.ingest().max_file_bytes,
        )

    def _refuse_unreadable(self, mime: str) -> None:
        self.parsers.named(mime)

    @cached_property
    def web(self) -> Web:
        """What fetches pages."""
        from headwater.sources.web import Web

        return Web(**asdict(self.config.web()))

    def size_bytes(self) -> int:
        """What the home takes on disk. A file that goes while it is counted, as another process ends, is not there."""
        found = 0
        for path in self.home.rglob("*"):
            with suppress(FileNotFoundError):
                found += path.stat().st_size if path.is_file() else 0
        return found

    def jobs(self, counts: Mapping[str, int]) -> dict[str, int]:
        """How many documents are in each state, with those that a server of the home was given and has not done."""
        from headwater.storage.ledger import FILE_NAME, Ledger

        done = {state: counts[state] for state in ("empty", "failed")}
        found = dict.fromkeys(("pending", "processing", "indexed"), 0)
        found["pending"] = counts["pending"]
        if (self.home / FILE_NAME).exists():
            ledger = Ledger(self.home)
            promised = ledger.jobs.counts()
            ledger.close()
            found = {state: number + promised.get(state, 0) for state, number in found.items()}
        return {**found, "completed": counts["documents"] - sum(done.values()), **done}

    @cached_property
    def spaces(self) -> Spaces:
        """Changing the embedder or the chunker, while everybody goes on."""
        from headwater.spaces import Spaces

        return Spaces(
            sides=self.sides,
            indexer_of=self._indexer_of,
            writing=self.intake.waiting,
            lock=lock_of(self.catalog, self.home, "reindex"),
        )


def _written(words: Sequence[str]) -> frozenset[str]:
    """Of these words, those that people write; the bundled vocabulary is read at the first."""
    from headwater.models.words import written

    return written(words)


def weighed(config: settings.Config, fingerprint: str) -> settings.Config:
    """The settings, with words and meaning weighed as suits an embedder where nobody but a preset said how."""
    weighing = weighing_of(fingerprint)
    if weighing is None or config.options().fusion != "adaptive":
        return config
    origin = f"embedder {fingerprint.partition(':')[0]}"
    own = {f"retrieve.{name}": settings.Setting(value, origin) for name, value in asdict(weighing).items()}
    said = [config.settings[name] for name in own if name in config.settings]
    by_hand = not all(one.origin.startswith("preset ") for one in said)
    return config if by_hand else replace(config, settings={**config.settings, **own})
