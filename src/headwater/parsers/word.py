"""Word processor files (DOCX, ODT, RTF) -> a document with its heading path, lists, tables, notes and captions.

The old binary DOC is refused with what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from headwater.clean import is_blank
from headwater.errors import EmptyDocument
from headwater.parsers._docx import WordReader
from headwater.parsers._draft import Draft
from headwater.parsers._odt import CONTENT, OpenTextReader
from headwater.parsers._package import Package, Properties, refuse_old
from headwater.parsers._rows import Tables
from headwater.parsers._rtf import RichTextReader
from headwater.types import Blob, Document

_DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_RICH_TEXT: Final = b"{\\rtf"
_OLD: Final = "application/msword"
# What programs put as a title when nobody gave one.
_NO_TITLES: Final = ("microsoft word", "word document", "untitled", "文档", "document", "无标题")


class WordParser:
    """Reads what word processors write."""

    mimes: frozenset[str] = frozenset(
        {
            _DOCX,
            "application/vnd.ms-word.document.macroenabled.12",
            "application/vnd.oasis.opendocument.text",
            "application/rtf",
            "text/rtf",
            _OLD,
        }
    )

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is damaged, locked or too old, and EmptyDocument for what holds no text."""
        draft = Draft()
        problems: list[str] = []
        title = ""
        if blob.data.startswith(_RICH_TEXT):
            rich = RichTextReader(blob.data, draft)
            rich.read()
            said, tables, counts = _of_rich_text(rich.said), rich.tables, dict[str, int]()
            if rich.torn:
                problems.append("the end of the file is missing; what is there was read")
        elif blob.mime == _OLD and not blob.data.startswith(b"PK"):
            raise refuse_old(blob, save_as="DOCX")
        else:
            package = Package(blob, save_as="DOCX")
            if package.has(CONTENT):
                open_text = OpenTextReader(package, draft)
                open_text.read()
                said, tables, counts = open_text.properties(), open_text.tables, open_text.counts
            else:
                word = WordReader(package, draft)
                word.read()
                said, tables, counts, title = package.properties(), word.tables, word.counts, word.title
        text = draft.text()
        if is_blank(text):
            raise EmptyDocument(f"{blob.uri} holds no text: pictures at most; a scanned document needs recognition")
        return _document(blob, draft, said, tables, title=title, counts=counts, problems=problems)


def _document(
    blob: Blob,
    draft: Draft,
    said: Properties,
    tables: Tables,
    *,
    title: str,
    counts: Mapping[str, int],
    problems: list[str],
) -> Document:
    named = "" if said.title.lower().startswith(_NO_TITLES) else said.title
    structure = draft.structure()
    opening = structure[0].title if structure and structure[0].span.start == 0 else ""
    return Document(
        uri=blob.uri,
        text=draft.text(),
        title=title or named or opening or PurePosixPath(blob.uri).stem,
        description=said.description,
        tags=said.tags,
        mime=blob.mime or _DOCX,
        structure=structure,
        blocks=draft.in_order(),
        hidden=tuple(draft.hidden),
        coverage={"tables": tables.tables, "tables_without_header": tables.without_header, **counts},
        created=said.created,
        updated=said.updated or blob.modified,
        problems=(*problems, *tables.problems()),
        meta={**blob.meta, **({"author": said.author} if said.author else {})},
    )


def _of_rich_text(said: Mapping[str, str]) -> Properties:
    return Properties(
        title=said.get("title", ""),
        author=said.get("author", ""),
        description=said.get("subject", ""),
        tags=tuple(filter(None, said.get("keywords", "").replace(";", ",").split(","))),
    )
