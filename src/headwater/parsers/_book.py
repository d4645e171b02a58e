"""The archive of an EPUB -> what the book says of itself, its chapters in the order of reading, its table of contents.

Names lead only to members of the archive, whatever they say; XML is read without entities, DTDs or the network.
"""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from headwater.errors import SourceError

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
else:
    Element = Any

# The largest novels are 5 MB in one file; what is larger is no chapter.
MAX_CHAPTER_BYTES: Final = 32 * 1024**2
_MAX_ENTRIES: Final = 20_000
_MAX_DEPTH: Final = 9
_MAX_VALUE_CHARS: Final = 5000
_CHAPTERS: Final = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml")
_NAMES: Final = ("title", "creator", "language", "date", "description", "publisher", "subject", "identifier")
_DAMAGES: Final = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, KeyError, ValueError),
    *(OverflowError, IndexError),
)


class Entry(NamedTuple):
    """A line of the table of contents: how deep, what it says, the chapter's file and the place in it."""

    depth: int
    title: str
    name: str
    place: str


@dataclass(frozen=True, slots=True)
class Book:
    """What stands in the package of an EPUB."""

    said: dict[str, list[str]]
    chapters: list[str]  # names of members, in the order of reading, each once
    missing: list[str]  # named in the order of reading, and not in the archive
    contents: list[Entry]


def read_book(archive: zipfile.ZipFile) -> Book:
    """Raises SourceError where it is no book, or locked."""
    names = set(archive.namelist())
    package_name = _package_name(archive, names)
    package = _xml(archive, package_name)
    folder = posixpath.dirname(package_name)
    items = {
        item.get("id") or "": (
            _member(folder, item.get("href")),
            item.get("media-type") or "",
            item.get("properties") or "",
        )
        for item in _elements(package, "item")
    }
    nav = next((name for name, _, properties in items.values() if "nav" in properties.split() and name in names), "")
    order = [
        items[ref.get("idref") or ""] for ref in _elements(package, "itemref") if (ref.get("idref") or "") in items
    ]
    listed = [name for name, mime, _ in order if mime in _CHAPTERS or name.endswith((".xhtml", ".html", ".htm"))]
    listed = [name for name in dict.fromkeys(listed) if name != nav][:_MAX_ENTRIES]
    if not listed:
        raise SourceError("its list of chapters is empty or damaged; export the book again")
    _refuse_locked(archive, names, listed)
    return Book(
        said=_said(package),
        chapters=[name for name in listed if name in names],
        missing=[name for name in listed if name not in names],
        contents=_contents(archive, names, nav, [name for name, mime, _ in items.values() if "dtbncx" in mime]),
    )


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The bytes of a member; raises SourceError with what is wrong with it."""
    try:
        with archive.open(name) as stream:
            data = stream.read(MAX_CHAPTER_BYTES + 1)
    except _DAMAGES as error:
        raise SourceError(f"{name} is damaged: {error or type(error).__name__}") from error
    if len(data) > MAX_CHAPTER_BYTES:
        raise SourceError(f"{name} is larger than {MAX_CHAPTER_BYTES} bytes")
    return data


def _package_name(archive: zipfile.ZipFile, names: set[str]) -> str:
    if "META-INF/container.xml" in names:
        for root in _elements(_xml(archive, "META-INF/container.xml"), "rootfile"):
            if (name := _member("", root.get("full-path"))) in names:
                return name
    for name in sorted(names):
        if name.lower().endswith(".opf"):
            return name
    raise SourceError("it has no list of its chapters (no .opf file); export the book again")


def _refuse_locked(archive: zipfile.ZipFile, names: set[str], chapters: list[str]) -> None:
    """Fonts may be scrambled; where chapters are, the book can be read with its key only."""
    if "META-INF/encryption.xml" in names:
        locked = {
            _member("", part.get("URI"))
            for part in _elements(_xml(archive, "META-INF/encryption.xml"), "CipherReference")
        }
        if locked & set(chapters):
            raise SourceError("its chapters are encrypted (DRM); add a copy of the book without copy protection")


def _said(package: Element) -> dict[str, list[str]]:
    said: dict[str, list[str]] = {}
    for part in package.iter():
        name = _local(part)
        if name in _NAMES and "purl.org/dc" in str(part.tag):
            words = " ".join("".join(part.itertext())[:_MAX_VALUE_CHARS].split())
            if words:
                said.setdefault(name, []).append(words)
        elif name == "meta" and part.get("property") == "dcterms:modified" and part.text:
            said["modified"] = [part.text.strip()]
    return said


def _contents(archive: zipfile.ZipFile, names: set[str], nav: str, others: list[str]) -> list[Entry]:
    """The table of contents, of the newer kind or of the older; none where neither can be read."""
    for name, read in ((nav, _from_nav), *((other, _from_ncx) for other in others)):
        if name in names:
            try:
                entries = read(_xml(archive, name), posixpath.dirname(name))
            except SourceError:
                continue
            if entries:
                return entries[:_MAX_ENTRIES]
    return []


def _from_nav(root: Element, folder: str) -> list[Entry]:
    navs = _elements(root, "nav")
    marked = [
        n for n in navs if "toc" in (n.get("{http://www.idpf.org/2007/ops}type") or "") or n.get("role") == "doc-toc"
    ]
    entries = []
    for nav in (marked or navs)[:1]:
        for link in _elements(nav, "a"):
            depth = sum(
                _local(above) in ("ol", "ul")
                for above in link.iterancestors()
                if nav in (above, *above.iterancestors())
            )
            entries.append(_entry(depth, "".join(link.itertext()), link.get("href"), folder))
    return [entry for entry in entries if entry is not None]


def _from_ncx(root: Element, folder: str) -> list[Entry]:
    entries = []
    for point in _elements(root, "navPoint"):
        depth = 1 + sum(_local(above) == "navPoint" for above in point.iterancestors())
        title = next((" ".join(label.itertext()) for label in point if _local(label) == "navLabel"), "")
        source = next((content.get("src") for content in point if _local(content) == "content"), None)
        entries.append(_entry(depth, title, source, folder))
    return [entry for entry in entries if entry is not None]


def _entry(depth: int, title: str, href: str | None, folder: str) -> Entry | None:
    title = " ".join(title[:_MAX_VALUE_CHARS].split())
    file, _, place = (href or "").partition("#")
    if not title or not file:
        return None
    return Entry(min(max(depth, 1), _MAX_DEPTH), title, _member(folder, file), unquote(place))


def _member(folder: str, href: str | None) -> str:
    """The name in the archive that a reference means."""
    return posixpath.normpath(posixpath.join(folder, unquote((href or "").partition("#")[0]))) if href else ""


def _xml(archive: zipfile.ZipFile, name: str) -> Element:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True)
    try:
        root = etree.fromstring(read_member(archive, name), parser)
    except (etree.LxmlError, ValueError) as error:
        raise SourceError(f"{name} is no XML: {error}") from error
    if root is None:
        raise SourceError(f"{name} is no XML")
    return root


def _local(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _elements(root: Element, name: str) -> list[Element]:
    """Those of this name in any namespace."""
    return [element for element in root.iter(f"{{*}}{name}")]
