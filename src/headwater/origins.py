"""What a person names -> the source that knows it; a change -> its bytes.

Addresses of the web are pages, feeds or sitemaps; files are documents or exports of bookmarks; folders may be vaults.
What is inside decides. Nothing of the web is imported before an address is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import NotFound, SourceError, UsageError
from headwater.intake import Opened
from headwater.protocols import Catalog, Source
from headwater.registry import load
from headwater.types import DEFAULT_COLLECTION, Blob, Change, Labels, Record, document_id

if TYPE_CHECKING:
    from headwater.sources.web import Web

PAGES = ("http://", "https://")
# Files that may be an export of bookmarks: others are not opened to find out.
_EXPORTS = (".html", ".htm", ".csv")


class Origins:
    """Where documents come from, for one owner. `refuse` raises SourceError for a mime type that no parser reads."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        web: Callable[[], Web],
        refuse: Callable[[str], object],
        owner: str,
        home: Path,
        max_file_bytes: int,
    ) -> None:
        self.catalog, self.web, self.refuse, self.owner = catalog, web, refuse, owner
        self.home, self.max_file_bytes = home, max_file_bytes

    def open(self, given: str, labels: Labels, collection: str) -> Opened:
        """The source for what was named; raises NotFound or UsageError where there is none."""
        if not given:  # as a variable of a shell that is not set: the current folder is not what was meant
            raise UsageError("a source is a file, a folder or an address, got ''; the current folder is '.'")
        if given.lower().startswith(PAGES):
            return self._page(given, labels, collection)
        if "://" in given:
            raise UsageError(f"only http and https addresses can be added, got {given!r}")
        path = Path(given).absolute()
        if not path.exists():
            raise NotFound(
                f"there is no file or folder {given!r}; check the spelling (looked in {path.parent.as_posix()!r})"
            )
        if path.suffix.lower() in _EXPORTS and path.is_file() and self._is_export(path):
            record = self._record(collection)
            made = load("sources", "bookmarks")(
                path, read=self.read_page, record=record, **self._whose(labels, collection)
            )
            return Opened(source=made, mark=made.mark)
        from headwater.sources.vault import vault_of

        files: Source = self.files(path, labels, collection)
        vault = vault_of(path)
        if vault is not None:
            files = load("sources", "vault")(vault, files=files, labels=labels)
        return Opened(source=files, root=path.resolve().as_posix())

    def files(self, path: Path, labels: Labels, collection: str) -> Source:
        """The files under a path."""
        whose = self._whose(labels, collection)
        made: Source = load("sources", "files")(path, leave_out=[self.home], max_bytes=self.max_file_bytes, **whose)
        return made

    @cached_property
    def _reader(self) -> Source:
        """What reads a file by its name, wherever it lies: made once, for a folder has thousands."""
        return self.files(self.home, Labels(), DEFAULT_COLLECTION)

    def expect(self, changes: Sequence[Change]) -> None:
        """Pages among these are fetched ahead."""
        pages = [change.uri for change in changes if change.uri.startswith(PAGES)]
        if pages:
            self.web().expect(pages)

    def read(self, change: Change) -> Blob:
        """The bytes of a change. A page that a list named and that cannot be had is what the list says of it."""
        if not change.uri.startswith(PAGES):
            return self._reader.read(change.uri)
        from headwater.sources._stand_in import says_nothing

        try:
            blob = self.read_page(change.uri)
            self.refuse(blob.mime)
        except SourceError as error:
            instead = self.instead(change, str(error))
            if instead is None:
                raise
            return instead
        return (self.instead(change, "the page holds no text") if says_nothing(blob) else None) or blob

    def instead(self, change: Change, reason: str) -> Blob | None:
        """What a list says of a page that cannot be had or read; none where no list named it, or it was read before.

        A site that is away for an hour must not take away what its pages said.
        """
        if not change.uri.startswith(PAGES):
            return None
        from headwater.sources._stand_in import DEAD_LINK, LISTED_IN, stand_in

        known = self.catalog.record(document_id(change.owner, change.collection, change.uri))
        was_read = known is not None and known.chunks > 0 and DEAD_LINK not in known.meta
        return None if was_read or LISTED_IN not in change.labels.meta else stand_in(change, reason)

    def read_page(self, uri: str) -> Blob:
        """The bytes of a page."""
        return self.web().read(uri)

    def _page(self, given: str, labels: Labels, collection: str) -> Opened:
        from headwater.sources.feed import recognised
        from headwater.sources.web import PageError, normalised

        try:
            url = normalised(given)
        except PageError as error:  # no page, but a mistake in what was named
            raise UsageError(str(error)) from error
        record = self._record(collection)
        found = self.web().tried(url, stamp=self._stamp(record(url)))
        whose = self._whose(labels, collection)
        if isinstance(found, Blob) and recognised(found.data):
            feed = load("sources", "feed")(url, read=self.read_page, blob=found, record=record, **whose)
            return Opened(source=feed, mark=feed.mark)
        stamp_of = lambda one: self._stamp(record(one))  # noqa: E731 - a keyword of the next call
        page = load("sources", "web")([url], web=self.web(), known=stamp_of, fetched={url: found}, **whose)
        return Opened(source=page)

    def _whose(self, labels: Labels, collection: str) -> dict[str, Any]:
        return {"owner": self.owner, "collection": collection, "labels": labels}

    def _record(self, collection: str) -> Callable[[str], Record | None]:
        return lambda uri: self.catalog.record(document_id(self.owner, collection, uri))

    @staticmethod
    def _stamp(known: Record | None) -> str:
        """What the source gave as the stamp of a document that was read well; its labels stand behind it."""
        return known.stamp.rpartition(" ")[0] if known is not None and known.state == "completed" else ""

    @staticmethod
    def _is_export(path: Path) -> bool:
        from headwater.sources.bookmarks import HEAD_BYTES, recognised

        try:
            with open(path, "rb") as file:
                return bool(recognised(file.read(HEAD_BYTES)))
        except OSError:
            return False  # adding it as a file says why
