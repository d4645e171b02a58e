"""Changes -> versions without vectors: read, parsed, cut, checked; what came inside them is queued.

Parsers that run elsewhere are given several documents ahead, and what they make of them comes out in order. Whatever
goes wrong with one document becomes its failed version, with the reason.
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from hashlib import blake2b
from time import perf_counter

from headwater.attach import COUNT, attached, own_title, parts_of, removal, whole_of
from headwater.characters import composed
from headwater.doctor import examine
from headwater.errors import BackendError, EmptyDocument, SourceError
from headwater.filters import Value
from headwater.likeness import packed, sketch
from headwater.protocols import Catalog, Parser
from headwater.types import Blob, Change, Document, Record, Version, document_id
from headwater.wanted import NotWanted, while_wanted

# So many documents, of so many bytes together, are with parsers that run elsewhere: enough for all cores to be busy
# while one is cut, few enough that even the largest ones a parser may give fit in memory.
LOOK_AHEAD = 8
LOOK_AHEAD_BYTES = 64 * 1024**2
# Small files take milliseconds: more of them wait, so that parsers have work while a batch is embedded. Packed as tight
# as can be, a thousand to one, so many bytes hold less text than eight documents may.
LOOK_AHEAD_SMALL = 64
SMALL_BYTES = 256 * 1024
# While a parser is waited for, it is looked this often whether somebody still wants what it makes.
LOOK_SECONDS = 0.1


class Stages:
    """What each stage took so far, in seconds over all processes, and what is being done now: a stage and a uri."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.now = ("", "")

    def add(self, stage: str, seconds: float) -> None:
        """Count time of a stage that was measured elsewhere."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    def timed(self, stage: str) -> "_Stopwatch":
        """Count the time of a `with` block."""
        return _Stopwatch(self, stage)


class _Stopwatch:
    """Adds the time of a `with` block to a stage; a class, for it is used once per document."""

    def __init__(self, stages: Stages, stage: str) -> None:
        self.stages, self.stage, self.started = stages, stage, 0.0

    def __enter__(self) -> None:
        self.started = perf_counter()

    def __exit__(self, *_: object) -> None:
        self.stages.add(self.stage, perf_counter() - self.started)


class Unwanted:
    """What is to be left undone, by document id, and which of it was. For whoever indexes and whoever stops that."""

    def __init__(self) -> None:
        self.ids: Collection[str] = frozenset()  # replaced as a whole, by one thread
        self.dropped: deque[str] = deque()

    def has(self, change: Change) -> bool:
        """Whether it puts a document that nobody wants any more."""
        return bool(self.ids) and change.kind == "put" and _document(change) in self.ids


@dataclass(slots=True)
class _Begun:
    """A change that was read. It has its outcome, or a parser elsewhere is at it, or it is parsed in its turn."""

    change: Change
    outcome: Version | Change | None = None
    blob: Blob | None = None
    known: Record | None = None
    content_hash: str = ""
    parsing: Future[tuple[Document, float]] | None = None
    end: Callable[[Blob], None] | None = None  # stops a parser that runs elsewhere
    stands_in: bool = False  # the blob is not what the source gave

    @property
    def is_ready(self) -> bool:
        """Whether its turn can come without waiting."""
        return self.parsing is None or self.parsing.done()

    @property
    def is_stored(self) -> bool:
        """Whether these bytes were read before, and well."""
        known = self.known
        return known is not None and known.content_hash == self.content_hash and known.state == "completed"

    def give_up(self) -> None:
        """End whatever parses it; when this returns, nothing does."""
        while self.parsing is not None and not self.parsing.done() and not self.parsing.cancel():
            if self.end is not None and self.blob is not None:
                self.end(self.blob)  # again and again: it may be about to begin
            wait([self.parsing], LOOK_SECONDS)


class Preparation:
    """Prepares changes for one indexer. `cut` makes a version of a document that is text already.

    `instead` has what to store in place of a document that could not be read, for the reason given, or nothing.
    """

    def __init__(
        self,
        *,
        catalog: Catalog,
        read: Callable[[Change], Blob],
        parser: Callable[[str], Parser],
        cut: Callable[[Change, Document, str], Version],
        stages: Stages,
        instead: Callable[[Change, str], Blob | None] = lambda *_: None,
    ) -> None:
        self.instead = instead
        self.catalog, self.read, self.parser, self.cut, self.stages = catalog, read, parser, cut, stages
        self.count = 0  # of the documents that came out
        self.unwanted, self.halted = Unwanted(), False
        self._queued: dict[int, list[Change]] = {}  # by ticket, what a document that is not stored yet has queued

    def begin(self) -> None:
        """Start anew, also after a run that was broken off."""
        self.count, self.halted = 0, False
        self._queued.clear()

    def halt(self) -> None:
        """The run is broken off: what is prepared meanwhile ends as soon as it can."""
        self.halted = True

    def versions(self, changes: Iterable[Change]) -> Iterator[Version | Change]:
        """What each change makes of its document, in order, some of them parsed ahead of their turn.

        What nobody wants any more is left out; all that is left, once the run was broken off.
        """
        left, waiting = deque(changes), deque[_Begun]()
        while (left or waiting) and not self.halted:
            if self.unwanted.ids:
                left, waiting = self._without_unwanted(left, waiting)
            first = waiting[0] if waiting else None
            if left and (first is None or not (first.is_ready or _are_enough(waiting))):
                waiting.append(self._begin(left.popleft()))
            elif first is not None and first.parsing is not None and not first.is_ready:
                self.stages.now = ("parse", first.change.uri)
                wait([first.parsing], LOOK_SECONDS)
            elif first is not None and (made := self._finish(waiting.popleft())) is not None:
                yield made

    def wanted(self, versions: list[Version]) -> list[Version]:
        """Those that somebody still wants; the others are dropped."""
        gone = {version.change.ticket: version.change for version in versions if self.unwanted.has(version.change)}
        self._drop(list(gone.values()))
        return [version for version in versions if version.change.ticket not in gone] if gone else versions

    def _without_unwanted(self, left: deque[Change], waiting: deque[_Begun]) -> tuple[deque[Change], deque[_Begun]]:
        """The same without what nobody wants any more; whatever parses it is ended."""
        gone = {change.ticket: change for change in left if self.unwanted.has(change)}
        for begun in waiting:
            if self.unwanted.has(begun.change):
                gone[begun.change.ticket] = begun.change
                begun.give_up()
        self._drop(list(gone.values()))
        kept = deque(begun for begun in waiting if begun.change.ticket not in gone)
        return deque(change for change in left if change.ticket not in gone), kept

    def _drop(self, changes: Sequence[Change]) -> None:
        """Close changes without a commit, with all that they have queued: their documents stay as they are."""
        if not changes:
            return
        queued = [part for change in changes for part in self._queued.pop(change.ticket, ())]
        # As deletions: what closes a put records its stamp.
        self.catalog.close([replace(one, kind="delete") for one in (*changes, *self.catalog.draw(queued))])
        self.unwanted.dropped.extend(map(_document, changes))

    def _begin(self, change: Change) -> _Begun:
        begun = _Begun(change)
        begun.outcome = self._outcome(begun, self._read)
        return begun

    def _finish(self, begun: _Begun) -> Version | Change | None:
        """Its outcome; none where nobody wants it any more."""
        change = begun.change
        self.stages.now = ("parse", change.uri)
        try:
            with while_wanted(lambda: not (self.halted or self.unwanted.has(change))):
                outcome = begun.outcome or self._outcome(begun, self._parse)
        except NotWanted:
            self._drop([change] if not self.halted else [])
            return None
        self.count += 1
        return outcome

    def _outcome(self, begun: _Begun, step: Callable[[_Begun], Version | Change | None]) -> Version | Change | None:
        """What a step makes of a change, or what its error makes of it."""
        change = begun.change
        try:
            return step(begun)
        except (BackendError, NotWanted):
            raise
        except SourceError as error:
            if begun.blob is not None and not begun.stands_in and (instead := self.instead(change, str(error))):
                begun.blob, begun.parsing, begun.stands_in = instead, None, True
                begun.content_hash = content_hash(change, instead)
                return change if begun.is_stored else self._outcome(begun, self._parse)
            if not isinstance(error, EmptyDocument):
                return Version(change=change, state="failed", error=str(error))
            self._queue(change, self._gone_parts(begun.known))
            empty = labelled(Document(uri=change.uri, text=""), change)
            return Version(change=change, document=empty, state="empty", error=str(error))
        except Exception as error:  # the loop: one document that no parser foresaw must not stop the others
            return Version(change=change, state="failed", error=f"unexpected {type(error).__name__}: {error}")

    def _read(self, begun: _Begun) -> Version | Change | None:
        """Read the bytes, and where they are new to us give them to a parser that runs elsewhere, if theirs does."""
        change = begun.change
        if change.kind == "delete":
            self._queue(change, self._gone_parts(self.catalog.record(_document(change))))
            return Version(change=change)
        with self.stages.timed("read"):
            begun.blob = change.payload or self.read(change)
        begun.content_hash = content_hash(change, begun.blob)
        begun.known = self.catalog.record(_document(change))
        if begun.is_stored:
            return change
        parser = self.parser(begun.blob.mime)
        if start := getattr(parser, "start", None):
            begun.parsing, begun.end = start(begun.blob), getattr(parser, "end", None)
        return None

    def _parse(self, begun: _Begun) -> Version:
        """The text, its passages, and what the doctor says of both."""
        assert begun.blob is not None
        change, blob = begun.change, begun.blob
        if begun.parsing is not None:
            document, seconds = begun.parsing.result()
            self.stages.add("parse", seconds)
        else:
            with self.stages.timed("parse"):
                document = self.parser(blob.mime).parse(blob)
        document, attachments = self._with_attachments(change, labelled(document, change), begun.known)
        version = self.cut(change, document, begun.content_hash)
        if not version.chunks and not document.attachments:
            raise EmptyDocument("it was read, and holds nothing that could be found")
        checked = self._checked(version, {COUNT: attachments} if attachments else {})
        return replace(version, document=checked, sketch=packed(sketch(document.text)))

    def _checked(self, version: Version, told: Mapping[str, Value]) -> Document:
        """The document with what the doctor says of it; what its parser knows better stays."""
        document = version.document
        assert document is not None
        with self.stages.timed("check"):
            coverage, problems = examine(document, version.indexed)
        return replace(
            document,
            coverage={**coverage, **document.coverage, **told},
            problems=tuple(dict.fromkeys((*document.problems, *problems))),
            attachments=(),
        )

    # --------------------------------------------------------------------------------------- attachments

    def _with_attachments(self, change: Change, document: Document, known: Record | None) -> tuple[Document, int]:
        """Queue what came inside a document and the end of what no longer does; then the document, and how many.

        They are queued before the document is committed: killed between the two, both are done again.
        """
        puts, problems = attached(change, document, refuse=self.parser)
        self._queue(change, [*self._gone_parts(known, but={put.uri for put in puts}), *puts])
        return replace(document, problems=(*document.problems, *problems)), len(puts)

    def _gone_parts(self, known: Record | None, *, but: Collection[str] = ()) -> list[Change]:
        parts = parts_of(self.catalog, known) if known is not None else []
        return [removal(part) for part in parts if part.uri not in but]

    def _queue(self, change: Change, parts: Sequence[Change]) -> None:
        if parts:
            self.catalog.enqueue(parts)
            self._queued[change.ticket] = [replace(part, payload=None) for part in parts]

    def note_parts(self, versions: Sequence[Version]) -> None:
        """An attachment that could not be read is a problem of the whole it came in."""
        for version in versions:
            change = version.change
            self._queued.pop(change.ticket, None)
            if version.error and (whole := whole_of(change)):
                name = change.uri.removeprefix(whole)[1:]
                named = document_id(change.owner, change.collection, whole)
                self.catalog.note(named, f"attachment {name!r}: {version.error}")


def _are_enough(waiting: Collection[_Begun]) -> bool:
    """Whether no more need wait ahead of their turn."""
    held = sum(len(begun.blob.data) for begun in waiting if begun.blob is not None)
    most = LOOK_AHEAD_SMALL if held <= SMALL_BYTES else LOOK_AHEAD
    return len(waiting) > most or held > LOOK_AHEAD_BYTES


def _document(change: Change) -> str:
    return document_id(change.owner, change.collection, change.uri)


def labelled(document: Document, change: Change) -> Document:
    """The document under the change's identity, what the person said over what the document says of itself."""
    labels = change.labels
    return replace(
        document,
        uri=change.uri,
        owner=change.owner,
        collection=change.collection,
        title=composed(labels.title or own_title(document, change) or change.uri),
        tags=tuple(dict.fromkeys((*labels.tags, *document.tags))),
        folder=labels.folder or document.folder,
        content_type=labels.content_type or document.content_type,
        description=labels.description or document.description,
        archived=labels.archived or document.archived,
        meta={**document.meta, **labels.meta},
    )


def labels_digest(change: Change) -> str:
    """Of what was said about a document; equal for equal labels."""
    labels = change.labels
    told = [labels.title, labels.tags, labels.folder, labels.content_type, labels.description, labels.archived]
    text = json.dumps([*told, sorted(labels.meta.items())], ensure_ascii=False)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def content_hash(change: Change, blob: Blob) -> str:
    """Of the bytes first, so that a file that moved is known by it, then of what was said about them."""
    return f"{blake2b(blob.data, digest_size=16).hexdigest()} {blob.mime} {labels_digest(change)}"
