"""A feed (RSS, Atom) or a sitemap -> a change for every page it names; the pages are fetched later.

Told by what is inside. An entry that says when it last changed is no work until that changes; the others are fetched
again each time, and an unchanged page is no work either.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from html import unescape
from typing import Any, Final

from headwater.errors import SourceError
from headwater.sources._address import PageError, joined, normalised
from headwater.sources._stand_in import DEAD_LINK, LISTED_IN
from headwater.types import DEFAULT_COLLECTION, LOCAL_OWNER, Blob, Change, Failure, Labels, Record

# The protocol of sitemaps allows so many pages in one file. So many files of one index are read, so many levels down.
MAX_ENTRIES: Final = 50_000
MAX_FILES: Final = 1_000
MAX_DEPTH: Final = 3
HEAD_BYTES: Final = 4096
# So many bytes a sitemap may have when it is unpacked; many sites keep theirs as sitemap.xml.gz.
MAX_UNPACKED_BYTES: Final = 52_428_800
_SITEMAPS: Final = ("urlset", "sitemapindex")
# What an entry is called, by the root.
_ENTRIES: Final = {
    "urlset": ("url",),
    "sitemapindex": ("sitemap",),
    **dict.fromkeys(("rss", "feed", "rdf"), ("item", "entry")),
}
_MOST: Final = {"urlset": MAX_ENTRIES, "sitemapindex": MAX_FILES}
_PACKED: Final = b"\x1f\x8b"
_ROOT: Final = re.compile(
    rb"\A\s*(?:<\?[^>]*\?>\s*|<!--.*?-->\s*|<!DOCTYPE[^>\[]*>\s*)*<(?:[\w.-]+:)?(rss|feed|rdf|urlset|sitemapindex)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_ROOT_END: Final = re.compile(rb"</(?:[\w.-]+:)?(?:rss|feed|rdf|urlset|sitemapindex)\s*>", re.IGNORECASE)
_TAGS: Final = re.compile(r"<[^>]*>")
_SUMMARY_CHARS: Final = 2000
_NO_LABELS: Final = Labels()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One page that a feed names."""

    url: str
    title: str = ""
    summary: str = ""
    updated: str = ""  # as it was written
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """What a feed or a sitemap names: pages, or other sitemaps. `fault` says in words why that may not be all."""

    entries: tuple[Entry, ...] = ()
    sitemaps: tuple[str, ...] = ()
    fault: str = ""


def recognised(data: bytes) -> str:
    """rss, feed (Atom), rdf, urlset or sitemapindex; empty for anything else."""
    found = _ROOT.match(_unpacked(data, HEAD_BYTES)[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf"))
    return found[1].decode().lower() if found else ""


def read_entries(data: bytes, base: str) -> Listed:
    """What it names, as far as it can be read; SourceError for what is neither a feed nor a sitemap."""
    text = _unpacked(data, MAX_UNPACKED_BYTES, whole=True)
    root, wrong = _tree(text, base)
    kind = _name(root)
    if kind not in _ENTRIES:
        raise SourceError(f"{base} is no feed that can be read: it begins with <{kind}>; check the address")
    listed = [one for one in (root if kind in _SITEMAPS else root.iter()) if _name(one) in _ENTRIES[kind]]
    fault = ""
    if wrong:
        plain = text.replace(b"\0", b"")  # of UTF-16 the letters
        cut = _ROOT_END.search(plain) is None
        if cut and _is_open(plain, _ENTRIES[kind]):  # half of an address is another address
            listed = listed[:-1]
        fault = (
            f"{base} {'was cut' if cut else 'is broken'} ({wrong}): what can be read of it is read, and no page "
            "counts as gone; add it again when it is whole"
        )
    if (most := _MOST.get(kind, len(listed))) < len(listed):
        fault = fault or (
            f"{base} names {len(listed)} and {most} are the limit: the first {most} are read, and no page counts as "
            "gone; cut it in parts"
        )
        listed = listed[:most]
    if kind == "sitemapindex":
        return Listed(sitemaps=tuple(_child(one, "loc") for one in listed), fault=fault)
    if kind == "urlset":
        pages = [Entry(url=_child(one, "loc"), updated=_child(one, "lastmod")) for one in listed]
    else:
        pages = [_entry(one, base) for one in listed]
    return Listed(entries=tuple(pages), fault=fault)


class FeedSource:
    """The pages that a feed or a sitemap names now. `read` fetches; `blob` is the feed itself where it is at hand."""

    def __init__(
        self,
        url: str,
        *,
        read: Callable[[str], Blob],
        blob: Blob | None = None,
        owner: str = LOCAL_OWNER,
        collection: str = DEFAULT_COLLECTION,
        labels: Labels = _NO_LABELS,
        record: Callable[[str], Record | None] = lambda _: None,
    ) -> None:
        self.url = normalised(url)
        self.mark = (LISTED_IN, self.url)
        self._blob, self._read, self._record = blob, read, record
        self.owner, self.collection, self.labels = owner, collection, labels
        # A feed shows its latest entries, a sitemap all of its pages: only there a page that is missing is gone.
        self.is_whole = False
        # Sitemaps that an index names and that could not be read, and those that were cut or are broken.
        self.failures: list[Failure] = []
        self._looked_at: set[str] = set()

    def scan(self) -> Iterator[Change]:
        """A put for every page, in the order of the feed."""
        seen: set[str] = set()
        self.is_whole, self.failures, self._looked_at = True, [], {self.url}
        for entry in self._entries(self.url, self._blob, MAX_DEPTH):
            try:
                url = normalised(joined(self.url, entry.url))
            except PageError:
                continue
            if url not in seen and url != self.url:
                seen.add(url)
                yield self._change(url, entry)

    def read(self, uri: str) -> Blob:
        """The page."""
        return self._read(uri)

    def _entries(self, url: str, blob: Blob | None, depth: int) -> Iterator[Entry]:
        data = (blob or self._read(url)).data
        listed = read_entries(data, url)
        is_sitemap = recognised(data) in _SITEMAPS
        self.is_whole &= is_sitemap and not listed.fault
        if is_sitemap and listed.fault:  # feeds are broken more often than not, and nothing is ever gone from them
            self.failures.append(Failure(uri=url, reason=listed.fault))
        yield from listed.entries
        for one in listed.sitemaps:
            yield from self._entries_of_part(joined(url, one), depth - 1)

    def _entries_of_part(self, url: str, depth: int) -> Iterator[Entry]:
        """What one sitemap of an index names; one that cannot be read takes nothing from the others."""
        try:
            part = normalised(url)
            if part in self._looked_at:
                return
            self._looked_at.add(part)
            if not depth:
                raise SourceError(f"{part} is a sitemap {MAX_DEPTH} levels down, and it is not read; add it by itself")
            yield from self._entries(part, None, depth)
        except SourceError as error:
            self.is_whole = False
            self.failures.append(Failure(uri=url, reason=str(error)))

    def _change(self, url: str, entry: Entry) -> Change:
        known = self._record(url)
        told = blake2b(repr(entry).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        dead = known is not None and DEAD_LINK in known.meta
        own, meta = self.labels, {"published": _date(entry.updated)}
        labels = replace(
            own,
            title=own.title or entry.title,
            description=own.description or entry.summary,
            tags=tuple(dict.fromkeys((*own.tags, *entry.tags))),
            meta={**{key: value for key, value in meta.items() if value}, **own.meta, self.mark[0]: self.mark[1]},
        )
        return Change(
            uri=url,
            kind="put",
            owner=self.owner,
            collection=self.collection,
            labels=labels,
            stamp=told if entry.updated and not dead else "",
        )


# ---------------------------------------------------------------------------------------------------- XML


def _tree(text: bytes, base: str) -> tuple[Any, str]:
    """The root, with all that can be read, and what is wrong with the XML."""
    from lxml import etree  # only here: most people add no feed

    # No entities, no files of others, nothing huge: a feed comes from anybody.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=False)
    try:
        root = etree.fromstring(text.lstrip(), parser)  # blanks before the declaration are no XML, but usual
    except etree.XMLSyntaxError as error:
        raise SourceError(f"{base} is no feed that can be read: {error}") from error
    if root is None:
        raise SourceError(f"{base} is no feed that can be read")
    wrong = [f"{' '.join(one.message.split())}, line {one.line}" for one in parser.error_log.filter_from_fatals()]
    return root, wrong[0] if wrong else ""


def _is_open(cut: bytes, names: tuple[str, ...]) -> bool:
    """Whether the last entry begins and does not end."""
    name = rb"(?:[\w.-]+:)?(?:%b)" % "|".join(names).encode()
    marks = re.findall(rb"<(/%b\s*>|%b(?=[\s>]|\Z))" % (name, name), cut, re.IGNORECASE)
    return bool(marks) and not marks[-1].startswith(b"/")


def _unpacked(data: bytes, most: int, *, whole: bool = False) -> bytes:
    """What was packed with gzip, the first so many bytes; else as it is. A part is nothing where all of it counts."""
    if not data.startswith(_PACKED):
        return data
    packed = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        found = packed.decompress(data, most)
    except zlib.error:  # not what it looks like: no feed
        return b""
    return found if packed.eof or not whole else b""


def _name(element: Any) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _child(element: Any, *names: str) -> str:
    """The text of the first child of one of these names, in their order."""
    texts: dict[str, str] = {}
    for child in element:
        texts.setdefault(_name(child), "".join(child.itertext()).strip())
    return next((texts[name] for name in names if texts.get(name)), "")


def _entry(element: Any, base: str) -> Entry:
    links = [one for one in element if _name(one) == "link"]
    # Atom: the page itself is what is not called otherwise. RSS: the text.
    own = [one for one in links if one.get("rel", "alternate") == "alternate" and one.get("href")]
    url = own[0].get("href") if own else _child(element, "link") or _permalink(element)
    categories = [one.get("term") or (one.text or "") for one in element if _name(one) == "category"]
    return Entry(
        url=joined(base, url.strip()) if url else "",
        title=_plain(_child(element, "title")),
        summary=_plain(_child(element, "summary", "description", "encoded", "content"))[:_SUMMARY_CHARS],
        updated=_child(element, "updated", "modified", "pubdate", "published", "date"),
        tags=tuple(dict.fromkeys(one.strip() for one in categories if one.strip())),
    )


def _permalink(element: Any) -> str:
    for one in element:
        if _name(one) == "guid" and one.get("ispermalink", one.get("isPermaLink", "true")) != "false":
            return str(one.text or "")
    return ""


def _plain(text: str) -> str:
    """HTML in a feed, as a line of text."""
    return " ".join(unescape(_TAGS.sub(" ", unescape(text))).split())


def _date(said: str) -> str:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return read(said).isoformat()
        except (ValueError, TypeError):
            continue
    return ""
