"""Plain text in any encoding -> a document. Form feeds are page breaks."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from headwater.clean import clean, is_blank
from headwater.errors import EmptyDocument
from headwater.parsers._decode import decode
from headwater.types import Blob, Document

# A title is one short line that does not read like a sentence.
_MAX_TITLE_CHARS: Final = 80
_SENTENCE_ENDS: Final = tuple("。！？；，：、.!?;,:…|")
_HEADING_MARKS: Final = re.compile(r"^#{1,6}\s+|^[=*~\s]+|[=*~\s]+$")


class TextParser:
    """Reads plain text and what is close enough to it. `text` is the decoded file with `\\n` at every line's end."""

    trusted = True  # written here and linear: it runs where it is called, and needs no process of its own
    mimes: frozenset[str] = frozenset({"text/plain"})

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is not text and EmptyDocument for what holds none."""
        decoded = decode(blob.data, blob.uri)
        if is_blank(decoded.text):
            raise EmptyDocument(f"{blob.uri} holds no text: {len(blob.data)} bytes, nothing but blanks")
        return Document(
            uri=blob.uri,
            text=decoded.text,
            title=_title(decoded.text) or PurePosixPath(blob.uri).stem,
            mime=blob.mime or "text/plain",
            page_starts=_page_starts(decoded.text),
            updated=blob.modified,
            problems=decoded.problems,
            meta=blob.meta,
        )


def _title(text: str) -> str:
    """The first line, where it stands alone and reads like a heading."""
    start = len(text) - len(text.lstrip())
    end = text.find("\n", start)
    if end < 0:
        return ""
    line = text[start:end].strip()
    following = text[end + 1 : end + 1 + _MAX_TITLE_CHARS].partition("\n")[0].strip()
    alone = not following or not following.strip("=-~*") or line.startswith("# ")
    title = clean(_HEADING_MARKS.sub("", line))
    return title if alone and len(title) <= _MAX_TITLE_CHARS and not title.endswith(_SENTENCE_ENDS) else ""


def _page_starts(text: str) -> tuple[int, ...]:
    """Where each page starts; a form feed at the very end ends the last page and starts none."""
    end = len(text.rstrip())
    starts = [found.end() for found in re.finditer("\f", text) if found.end() < end]
    return (0, *starts) if starts else ()
