"""What is in a home: documents go in, are looked up, and go out, and the indexes are kept in step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from headwater import strategies
from headwater.errors import NotFound, SourceError, UsageError
from headwater.filters import ALL, Compare, Filter, In, conjoin, parse
from headwater.kinds import kind_of
from headwater.types import (
    DEFAULT_COLLECTION,
    Blob,
    Chunk,
    Document,
    Labels,
    Meta,
    Record,
    Report,
    attributes,
    document_id,
)
from headwater.views import Viewed

if TYPE_CHECKING:
    from headwater.forget import Forgotten
    from headwater.intake import OnProgress
    from headwater.spaces import Reindexed


class Contents(Viewed):
    """The documents of a home. Safe to use from several threads."""

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
        labels = Labels(tags=_tags(tags), folder=folder, meta=self._asked_for(strategy, chunk_size))
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
        try:
            data = text.encode("utf-8")
        except (AttributeError, UnicodeEncodeError) as error:
            raise UsageError(f"a text is a str of Unicode, got {type(text).__name__}: {error}; mend {uri!r}") from error
        blob = Blob(uri=uri, data=data, mime=mime, modified=_now())
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
        dry_run: bool = False,
    ) -> Report:
        """Add what came from standard input, of any kind that a file can be, named after its content."""
        uri = f"stdin:{blake2b(data, digest_size=8).hexdigest()}"
        blob = Blob(uri=uri, data=data, mime=kind_of("", data), modified=_now())
        labels = Labels(tags=_tags(tags), folder=folder, meta=self._asked_for(strategy, chunk_size))
        return self.intake.add_blob(blob, collection=collection, labels=labels, dry_run=dry_run)

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
        labels = Labels(tags=_tags(tags), folder=folder, meta=meta)
        found = self._parsed(sources, collection, labels) if sources else self._stored()
        return strategies.cost_of(chunker, found)

    def _asked_for(self, strategy: str, chunk_size: int) -> Meta:
        if not strategy and not chunk_size:
            return {}
        return strategies.asked_for(self.sides.chunker_of(self.space), strategy=strategy, chunk_size=chunk_size)

    def _parsed(self, sources: Sequence[str | os.PathLike[str]], collection: str, labels: Labels) -> Iterator[Document]:
        """The documents that an add would work on."""
        from headwater.indexer import stamped
        from headwater.prepare import labelled

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
        from headwater.forget import forget

        return forget(self, [self.record(given) for given in document_ids])

    def writing(self) -> AbstractContextManager[None]:
        """Hold the home's write lock, for several adds in a row; HomeLocked if another process has it."""
        return self.intake.writing()

    def check(self, *, mend: bool = False) -> list[str]:
        """What is wrong between catalog and indexes, in words. With `mend`, what was wrong, now mended."""
        from headwater.repair import problems, repair

        if not mend:
            return problems(self.catalog, self.text, self.vectors) + self.spaces.problems()
        with self.writing():
            found = problems(self.catalog, self.text, self.vectors) + self.spaces.problems()
            repair(self.catalog, self.text, self.vectors)
            self.spaces.mend()
            left = self.check() if found else []
            return [one for one in found if one not in left]

    def reindex(self, *, back: bool = False, on_progress: OnProgress | None = None) -> Reindexed:
        """Fill a space for the embedder and chunker of the settings, compare, and switch; or go `back`.

        Everything goes on meanwhile. The former space is kept until `confirm` or the next reindex.
        """
        return self.spaces.reindex(back=back, on_progress=on_progress)

    def confirm(self) -> int:
        """Drop the space that was switched from; return how many were dropped."""
        return self.spaces.confirm()

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
        from headwater.attach import parts_of

        return parts_of(self.catalog, self.record(document_id))

    def documents(self, where: str | Filter = "", *, collection: str | None = None) -> list[Record]:
        """The documents that a filter allows."""
        asked = where if isinstance(where, Filter) else parse(where)
        if collection is not None:
            asked = conjoin(asked, in_collection(collection))
        return self.catalog.records(conjoin(self.scope, asked))


def in_collection(name: str) -> Filter:
    """What only the documents of one collection pass. A blank name is that of none: a variable was not set."""
    if isinstance(name, str) and not name.strip():
        raise UsageError(f"a collection needs a name, got {name!r}; leave it out for all of them")
    return Compare("collection", "=", name)


def uris_of(given: str) -> tuple[str, str]:
    """What a person may have meant: the name as it is, or a path from here."""
    return given, Path(given).absolute().as_posix()


def _tags(given: Sequence[str]) -> tuple[str, ...]:
    """A text is a sequence of texts too, but nobody means its letters."""
    if isinstance(given, str):
        raise UsageError(f"tags is a list of texts, got the text {given!r}; write [{given!r}]")
    if any(not isinstance(tag, str) or not tag.strip() for tag in given):
        raise UsageError(f"a tag is one word or more, got {list(given)!r}; leave the blank one out")
    return tuple(given)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
