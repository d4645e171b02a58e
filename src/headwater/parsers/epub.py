"""EPUB -> a document: the chapters in the order of reading, as sections with the titles of the table of contents.

A chapter that cannot be read is a problem and no failure. Notes are blocks that know which paragraph they belong to,
also where they stand in a file of their own.
"""

from __future__ import annotations

import io
import posixpath
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from headwater.clean import is_blank
from headwater.documents import Blob, Block, Document, Link, Span
from headwater.errors import EmptyDocument, SourceError
from headwater.filters import Value
from headwater.parsers._archive import check_archive
from headwater.parsers._book import Book, Entry, read_book, read_member
from headwater.parsers._markup import render
from headwater.parsers._outline import Heading, sections
from headwater.parsers._page_meta import iso
from headwater.parsers._rendered import Rendered, below, coverage_of
from headwater.parsers._tree import decode_page, tree

# As many as fifty books have; more comes out of a small file that repeats itself.
_MAX_CHARS: Final = 50_000_000
# A chapter whose first heading stands within this begins with it.
_FRONT_CHARS: Final = 200
_MAX_TITLE_CHARS: Final = 200
_MAX_LEVEL: Final = 9
_MAX_PROBLEMS: Final = 20
_OUTSIDE: Final = ("http://", "https://", "mailto:", "ftp://")


class EpubParser:
    """Reads books of EPUB 2 and 3."""

    mimes: frozenset[str] = frozenset({"application/epub+zip"})

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is damaged or locked and EmptyDocument for a book without words."""
        try:
            check_archive(blob.data)
            with zipfile.ZipFile(io.BytesIO(blob.data)) as archive:
                book = read_book(archive)
                written = _write(archive, book, blob.uri)
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise SourceError(f"{blob.uri} cannot be read as EPUB: {error}; export the book again") from error
        except EmptyDocument:
            raise
        except SourceError as error:
            raise SourceError(f"{blob.uri} cannot be read as EPUB: {error}") from error
        if is_blank(written.text):
            if written.problems:
                raise SourceError(f"{blob.uri}: no chapter can be read: {written.problems[0]}; export the book again")
            raise EmptyDocument(f"{blob.uri} holds no text: {len(book.chapters)} chapters, perhaps all of pictures")
        return _document(blob, book, written)


@dataclass(slots=True)
class _Written:
    """The chapters that were read so far, as one text."""

    parts: list[str] = field(default_factory=list)
    length: int = 0
    headings: list[Heading] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    chapters: int = 0

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def add(self, name: str, chapter: Rendered) -> None:
        front = "\n\n" if self.parts else ""
        moved = below(" " * (self.length + len(front)), replace(chapter, text=""))
        self.parts += [front, chapter.text]
        self.length += len(front) + len(chapter.text)
        self.headings += moved.headings
        self.blocks += moved.blocks
        self.links += moved.links
        self.places |= {f"{name}#{place}": start for place, start in moved.places.items()}
        self.chapters += 1


def _write(archive: zipfile.ZipFile, book: Book, uri: str) -> _Written:
    written = _Written()
    written.problems += [f"chapter {name} is missing from the archive" for name in book.missing]
    contents: dict[str, list[Entry]] = {}
    for entry in book.contents:
        contents.setdefault(entry.name, []).append(entry)
    for name in book.chapters:
        try:
            page = tree(decode_page(Blob(uri=f"{uri}#{name}", data=read_member(archive, name))).text, name)
        except EmptyDocument:
            continue
        except SourceError as error:
            written.problems.append(f"chapter {name} was left out: {error}")
            continue
        chapter = _titled(render(next(page.iter("body"), page), name), contents.get(name, []))
        if not is_blank(chapter.text):
            written.add(name, chapter)
        if written.length > _MAX_CHARS:
            raise SourceError(f"its text is longer than {_MAX_CHARS} characters, the limit for one document")
    _tie_notes(written)
    return written


def _titled(chapter: Rendered, entries: list[Entry]) -> Rendered:
    """With the levels of the table of contents, and with the titles that the chapter itself does not have."""
    if not entries or is_blank(chapter.text):
        return chapter
    first = entries[0]
    top = min((heading.level for heading in chapter.headings), default=1)
    levelled = [h._replace(level=min(max(1, h.level - top + first.depth), _MAX_LEVEL)) for h in chapter.headings]
    chapter = replace(chapter, headings=tuple(levelled))
    begins_itself = any(heading.start <= _FRONT_CHARS for heading in levelled)
    taken = {heading.start for heading in levelled}
    for entry in entries:
        start = chapter.places.get(entry.place, -1) if entry.place else -1
        while 0 <= start < len(chapter.text) and chapter.text[start].isspace():
            start += 1
        if start < 0 or start in taken or chapter.text[start - 1 : start] not in ("", "\n"):
            continue
        near = any(heading.start <= start + _FRONT_CHARS and heading.title == entry.title for heading in levelled)
        if not near:
            taken.add(start)
            levelled.append(Heading(entry.depth, entry.title[:_MAX_TITLE_CHARS], start))
    levelled.sort(key=lambda heading: heading.start)
    chapter = replace(chapter, headings=tuple(levelled))
    # What the table of contents names within the chapter is no heading of the chapter as a whole.
    if begins_itself or (levelled and (levelled[0].start == 0 or first.place)):
        return chapter
    titled = below(f"# {first.title}\n\n", chapter)
    own = Heading(first.depth, first.title[:_MAX_TITLE_CHARS], 0)
    lower = (h._replace(level=min(max(h.level, first.depth + 1), _MAX_LEVEL)) for h in titled.headings)
    return replace(titled, headings=(own, *lower))


def _tie_notes(written: _Written) -> None:
    """Give notes that stand in another file the paragraph that refers to them, and drop links inside the book."""
    text = written.text
    named: dict[int, Span] = {}
    for link in written.links:
        start = written.places.get(_normal(link.target), -1)
        if start >= 0:
            begin = text.rfind("\n", 0, link.span.start) + 1
            end = text.find("\n", link.span.end)
            named.setdefault(start, Span(begin, end if end >= 0 else len(text)))
    for number, block in enumerate(written.blocks):
        if block.kind == "note" and block.about is None:
            near = (start for start in range(block.span.start, block.span.start - 5, -1) if start in named)
            written.blocks[number] = replace(block, about=next((named[start] for start in near), None))
    written.links = [link for link in written.links if link.target.startswith(_OUTSIDE)]


def _normal(target: str) -> str:
    file, _, place = target.partition("#")
    return f"{posixpath.normpath(file)}#{place}"


def _document(blob: Blob, book: Book, written: _Written) -> Document:
    said = {name: values[0] for name, values in book.said.items()}
    authors = tuple(book.said.get("creator", ()))
    meta: dict[str, Value | tuple[Value, ...]] = {
        "author": authors if len(authors) > 1 else "".join(authors),
        "language": said.get("language", ""),
        "publisher": said.get("publisher", ""),
        "identifier": said.get("identifier", ""),
        "published": iso(said.get("date", "")),
    }
    text = written.text
    problems = written.problems[:_MAX_PROBLEMS]
    if len(written.problems) > _MAX_PROBLEMS:
        problems.append(f"and {len(written.problems) - _MAX_PROBLEMS} more chapters")
    counts = coverage_of(Rendered(text, tuple(written.headings), tuple(written.blocks)))
    return Document(
        uri=blob.uri,
        text=text,
        title=said.get("title", "") or PurePosixPath(blob.uri).stem,
        description=said.get("description", ""),
        tags=tuple(dict.fromkeys(book.said.get("subject", ()))),
        mime="application/epub+zip",
        structure=sections(written.headings, len(text)),
        blocks=tuple(sorted(written.blocks, key=lambda block: block.span)),
        links=tuple(written.links),
        coverage={"chapters": len(book.chapters) + len(book.missing), "chapters_read": written.chapters, **counts},
        created=iso(said.get("date", "")),
        updated=iso(said.get("modified", "")) or blob.modified,
        problems=tuple(problems),
        meta={**blob.meta, **{name: value for name, value in meta.items() if value}},
    )
