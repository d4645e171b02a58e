"""An export of bookmarks -> a change for every page with its folder, tags, note and dates; the pages are fetched later.

Netscape HTML (every browser), Pocket HTML and CSV, Raindrop CSV, Instapaper CSV, told by what is inside. A bookmark
whose page cannot be had is a document all the same: `stand_in` writes down what the bookmark says.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from headwater.errors import NotFound, SourceError
from headwater.sources._address import PageError, normalised
from headwater.sources._stand_in import DEAD_LINK, LISTED_IN
from headwater.types import DEFAULT_COLLECTION, LOCAL_OWNER, Blob, Change, Failure, Labels, Record

# Enough to know an export by; a page may have a long comment in front.
HEAD_BYTES: Final = 8192
# An export of a hundred thousand bookmarks has 30 MB, icons included.
MAX_BYTES: Final = 256 * 1024 * 1024
_NETSCAPE: Final = re.compile(r"\s*(?:<!--.*?-->\s*)*<!doctype\s+netscape-bookmark", re.IGNORECASE | re.DOTALL)
_POCKET: Final = re.compile(r"<title>\s*Pocket Export\s*</title>", re.IGNORECASE)
# Tags stay open by design, but for those of lists.
_LIST: Final = re.compile(r"<(/?)(?:dl|ul)\b", re.IGNORECASE)
# The columns that tell a CSV; others may stand between them.
_COLUMNS: Final = {
    "raindrop": {"id", "title", "note", "excerpt", "url", "folder", "tags", "created"},
    "pocket": {"title", "url", "time_added", "tags", "status"},
    "instapaper": {"url", "title", "selection", "folder", "timestamp"},
}
# The headings of Pocket's two lists, and the status of what stands in them, as its tables name it.
_LISTS: Final = {"unread": "unread", "read archive": "archive", "archive": "archive"}
# What these services call the places that are no folders of a person's own.
_NO_FOLDERS: Final = frozenset({"unread", "archive", "unsorted", "starred"})
_NO_LABELS: Final = Labels()
# Seconds since 1970 before which no bookmark was made, and beyond which they are milli- or microseconds.
_EARLIEST: Final = 100_000_000
_LATEST: Final = 10_000_000_000


@dataclass(slots=True, kw_only=True)
class Bookmark:
    """What an export says of one page."""

    url: str
    title: str = ""
    folder: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    note: str = ""
    added: str = ""  # ISO 8601
    modified: str = ""
    status: str = ""
    meta: dict[str, str | bool] = field(default_factory=dict)


def recognised(data: bytes) -> str:
    """Which export the bytes begin: netscape, pocket, raindrop, instapaper; empty for any other file."""
    head = data[:HEAD_BYTES].decode("utf-8-sig", "ignore")
    if _NETSCAPE.match(head):
        return "netscape"
    if _POCKET.search(head):
        return "pocket"
    line = next(iter(head.splitlines()), "")
    columns = {name.strip().lower() for name in next(csv.reader([line]), [])}
    return next((name for name, wanted in _COLUMNS.items() if wanted <= columns), "")


def read_export(data: bytes) -> list[Bookmark]:
    """Every bookmark in the order of the file, each page once: what others of the same page say is joined to it."""
    kind, text = recognised(data), data.decode("utf-8-sig", "replace")
    if not kind:
        raise SourceError("this is no export of bookmarks that is known: Netscape, Pocket, Raindrop or Instapaper")
    found = _from_html(text) if _is_html(kind, text) else _from_csv(text, kind)
    pages: dict[str, Bookmark] = {}
    for one in found:
        try:
            url = normalised(one.url)
        except PageError:  # bookmarklets, places of the browser itself, files
            continue
        first = pages.setdefault(url, replace(one, url=url))
        if first.url == url and one is not first:
            first.tags = tuple(dict.fromkeys((*first.tags, *one.tags)))
            first.description = first.description or one.description
            first.note = first.note or one.note
    return list(pages.values())


def is_cut(data: bytes) -> bool:
    """Whether the end of an export is missing: a list is open, or the last row has too few columns."""
    kind, text = recognised(data), data.decode("utf-8-sig", "replace")
    if not kind:
        return False
    if _is_html(kind, text):
        closing = [bool(slash) for slash in _LIST.findall(text)]
        return closing.count(False) > closing.count(True)
    return _has_gaps(_rows(text)[-1:])


def _is_html(kind: str, text: str) -> bool:
    return kind == "netscape" or _POCKET.search(text[:HEAD_BYTES]) is not None


def labels_of(one: Bookmark, own: Labels, *, listed_in: str) -> Labels:
    """What is said of its page: by the person who adds the export, and by the export."""
    told = {"bookmarked": one.added, "note": one.note, "status": one.status, **one.meta}
    return replace(
        own,
        title=own.title or one.title,
        tags=tuple(dict.fromkeys((*own.tags, *one.tags))),
        folder="/".join(filter(None, (own.folder.strip("/"), one.folder))),
        description=own.description or "\n".join(filter(None, (one.description, one.note))),
        meta={**{key: value for key, value in told.items() if value}, **own.meta, LISTED_IN: listed_in},
    )


class BookmarkSource:
    """The pages that an export names. `record` gives what is stored of a page: a dead link is tried again."""

    def __init__(
        self,
        path: Path,
        *,
        read: Callable[[str], Blob],
        owner: str = LOCAL_OWNER,
        collection: str = DEFAULT_COLLECTION,
        labels: Labels = _NO_LABELS,
        record: Callable[[str], Record | None] = lambda _: None,
    ) -> None:
        self.path = Path(path).resolve()
        self.mark = (LISTED_IN, self.path.as_posix())
        self.owner, self.collection, self.labels, self._read, self._record = owner, collection, labels, read, record
        # Of an export that was cut nobody knows what it would have named: nothing is gone from it.
        self.is_whole = False
        self.failures: list[Failure] = []

    def scan(self) -> Iterator[Change]:
        """A put for every page; its stamp is what the export says of it."""
        if not self.path.exists():
            raise NotFound(f"no such file: {self.path}; check the path")
        with open(self.path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SourceError(f"{self.path} is larger than {MAX_BYTES} bytes; export your bookmarks in parts")
        self.is_whole, self.failures = not is_cut(data), []
        if not self.is_whole:
            told = f"{self.path} was cut: what can be read of it is read, and no page counts as gone; export it again"
            self.failures.append(Failure(uri=self.mark[1], reason=told))
        for one in read_export(data):
            yield self._change(one)

    def read(self, uri: str) -> Blob:
        """The page."""
        return self._read(uri)

    def _change(self, one: Bookmark) -> Change:
        known = self._record(one.url)
        dead = known is not None and DEAD_LINK in known.meta
        return Change(
            uri=one.url,
            kind="put",
            owner=self.owner,
            collection=self.collection,
            labels=labels_of(one, self.labels, listed_in=self.mark[1]),
            stamp="" if dead else blake2b(repr(one).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest(),
        )


# ------------------------------------------------------------------------------------------------ formats


class _Reader(HTMLParser):
    """Netscape's format and Pocket's: folders are headings with a list behind them, tags stay open by design."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[Bookmark] = []
        self._folders: list[str] = []
        self._heading = ""
        self._into = ""  # what the text that comes belongs to: heading, title, description

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self._into = ""
        if tag in ("h3", "h1"):
            # The first heading of a browser's export names the whole; lists inside a heading's are its folders.
            self._heading, self._into = "", "heading"
        elif tag == "dl":
            self._folders.append(self._heading.strip())
            self._heading = ""
        elif tag == "a" and told.get("href"):
            self._into = "title"
            self.found.append(self._bookmark(told))
        elif tag == "dd" and self.found:
            self._into = "description"

    def handle_endtag(self, tag: str) -> None:
        if tag == "dl" and self._folders:
            self._folders.pop()
        if tag in ("h3", "h1", "a", "dl"):
            self._into = ""

    def handle_data(self, data: str) -> None:
        if self._into == "heading":
            self._heading += data
        elif self._into == "title":
            self.found[-1].title += data
        elif self._into == "description":
            self.found[-1].description += data

    def _bookmark(self, told: Mapping[str, str]) -> Bookmark:
        # The outermost list has the name of the whole export.
        folder = "/".join(name.replace("/", "-") for name in self._folders[1:] if name)
        return Bookmark(
            url=told["href"],
            folder=folder,
            tags=_tags(told.get("tags", ""), ","),
            added=_date(told.get("add_date", "") or told.get("time_added", "")),
            modified=_date(told.get("last_modified", "")),
            note=told.get("shortcuturl", "") and f"shortcut {told['shortcuturl']}",
            status=told.get("status", "") or _LISTS.get(" ".join(self._heading.lower().split()), ""),
        )


def _from_html(text: str) -> list[Bookmark]:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    for one in reader.found:
        one.title, one.description = " ".join(one.title.split()), one.description.strip()
    return reader.found


def _from_csv(text: str, kind: str) -> list[Bookmark]:
    rows, found = _rows(text), []
    if _has_gaps(rows[-1:]):  # it was cut there, and half of an address is another address
        rows.pop()
    for row in rows:
        told = {(name or "").strip().lower(): (value or "").strip() for name, value in row.items() if name is not None}
        folder = told.get("folder", "")
        status = told.get("status", "") or (folder.lower() if folder.lower() in _NO_FOLDERS else "")
        meta: dict[str, str | bool] = {"favorite": True} if told.get("favorite", "").lower() == "true" else {}
        if told.get("highlights"):
            meta["highlights"] = told["highlights"]
        found.append(
            Bookmark(
                url=told.get("url", ""),
                title=told.get("title", ""),
                folder="" if folder.lower() in _NO_FOLDERS else folder.strip("/").replace(" / ", "/"),
                tags=_tags(told.get("tags", ""), "|" if kind == "pocket" else ","),
                description=told.get("excerpt", "") or told.get("selection", ""),
                note=told.get("note", ""),
                added=_date(told.get("created", "") or told.get("time_added", "") or told.get("timestamp", "")),
                status=status,
                meta=meta,
            )
        )
    return found


def _rows(text: str) -> list[dict[str, str | None]]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_BYTES))  # highlights of a book stand in one cell
    return list(csv.DictReader(io.StringIO(text)))


def _has_gaps(rows: list[dict[str, str | None]]) -> bool:
    return any(value is None for row in rows for value in row.values())


def _tags(said: str, separator: str) -> tuple[str, ...]:
    listed = said.strip()
    if listed.startswith("[") and listed.endswith("]"):  # as Instapaper writes them
        listed = listed[1:-1].replace('"', "")
    return tuple(dict.fromkeys(tag.strip() for tag in listed.split(separator) if tag.strip()))


def _date(said: str) -> str:
    """ISO 8601, of Unix seconds (also milli- and microseconds) or of a date that is written out."""
    if said.isdecimal():
        seconds = float(said)
        while seconds > _LATEST:
            seconds /= 1000
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds > _EARLIEST else ""
    try:
        return datetime.fromisoformat(said).isoformat(timespec="seconds") if said else ""
    except ValueError:
        return ""
