"""HTML -> a document: the main content as text with headings, tables, captions, code and links, and what the page says
of itself.

What was read as markup is written in the manner of Markdown (`_markup`); menus, advertising and scripts are left out
(`_main_content`); title, author, dates and address come from the head (`_page_meta`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from headwater.clean import is_blank
from headwater.documents import Blob, Document
from headwater.errors import EmptyDocument
from headwater.filters import Value
from headwater.parsers._main_content import main_content
from headwater.parsers._markup import render
from headwater.parsers._outline import Heading, sections
from headwater.parsers._page_meta import PageMeta, page_meta
from headwater.parsers._rendered import Rendered, below, coverage_of
from headwater.parsers._tree import decode_page, tree

_BOOKMARKS: Final = re.compile(r"\s*<!doctype\s+netscape-bookmark", re.IGNORECASE)


class HtmlParser:
    """Reads web pages. With `main_only` off all of a page is taken, menus too."""

    mimes: frozenset[str] = frozenset({"text/html", "application/xhtml+xml"})

    def __init__(self, *, main_only: bool = True) -> None:
        self.main_only = main_only

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is not text and EmptyDocument for a page without any."""
        decoded = decode_page(blob)
        page = tree(decoded.text, blob.uri)
        address = blob.uri if blob.uri.startswith(("http://", "https://")) else ""
        meta = page_meta(page, address)
        problems = list(decoded.problems)
        base = next((element.get("href") for element in page.iter("base") if element.get("href")), "")
        body = next(page.iter("body"), page)
        if self.main_only and not _BOOKMARKS.match(decoded.text):
            body, doubtful = main_content(body)
            if doubtful:
                problems.append("the main content could not be told from the rest of the page; all of it was taken")
        rendered = render(body, meta.canonical or base or address)
        title = _title(meta, rendered)
        rendered = _with_title(rendered, title)
        if is_blank(rendered.text):
            raise EmptyDocument(
                f"{blob.uri} holds no text: {len(blob.data)} bytes of HTML with nothing to read; where a program in "
                "the page writes its text, save the page from a browser and add that"
            )
        return Document(
            uri=blob.uri,
            text=rendered.text,
            title=title or address or PurePosixPath(blob.uri).stem,
            description=meta.description,
            tags=meta.tags,
            mime="text/html",
            structure=sections(rendered.headings, len(rendered.text)),
            blocks=rendered.blocks,
            links=rendered.links,
            coverage=coverage_of(rendered),
            created=meta.published,
            updated=meta.modified or meta.published or blob.modified,
            problems=tuple(problems),
            meta={**blob.meta, **_named(meta)},
        )


def _title(meta: PageMeta, rendered: Rendered) -> str:
    """The heading that the title line of the page holds, or what the page says, or the first heading."""
    first = min(rendered.headings, key=lambda heading: (heading.level, heading.start), default=None)
    if first is not None and (not meta.title or first.title.casefold() in meta.title_line.casefold()):
        return first.title
    return meta.title


def _with_title(rendered: Rendered, title: str) -> Rendered:
    """With the title as the first heading where the content begins below it, so that everything stands under it."""
    if not title or is_blank(rendered.text) or any(h.level == 1 or h.title == title for h in rendered.headings):
        return rendered
    titled = below(f"# {title}\n\n", rendered)
    return replace(titled, headings=(Heading(1, title, 0), *titled.headings))


def _named(meta: PageMeta) -> dict[str, Value | tuple[Value, ...]]:
    authors: Value | tuple[Value, ...] = meta.authors if len(meta.authors) > 1 else "".join(meta.authors)
    said = {
        "author": authors,
        "canonical": meta.canonical,
        "language": meta.language,
        "site": meta.site,
        "published": meta.published,
        "modified": meta.modified,
    }
    return {name: value for name, value in said.items() if value}
