"""A span of a document -> the chunk: its exact text, and in front of it, for the index only, what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.chunkers._layout import Blocks, pages_of
from headwater.chunkers._words import word_end
from headwater.clean import clean
from headwater.documents import META_MARKS
from headwater.types import Block, Chunk, Document, Kind, Span
from headwater.wanted import check

# What is told of something that stands elsewhere: a sentence or two.
_EXCERPT_CHARS: Final = 300


class Facts(NamedTuple):
    """What is known about a passage beside its words."""

    kind: Kind
    # Column names, the first line of a function, what a caption or a note belongs to: whatever it does not show itself.
    about: tuple[str, ...]
    cleaned: str


def facts(document: Document, span: Span, blocks: Blocks) -> Facts:
    """Of a span: what most of it is made of, what it is said to be, and its words as the indexes see them."""
    text = document.text[span.start : span.end]
    kind: Kind = "prose"
    about: dict[str, None] = {}
    for block in blocks.touching(*span) if blocks.all else ():
        if 2 * (min(span.end, block.span.end) - max(span.start, block.span.start)) > span.end - span.start:
            kind = block.kind
        told = _header(document, block, span)
        if told and told not in text:
            about[told] = None
        subject = block.about
        if subject is not None and not (span.start <= subject.start and subject.end <= span.end):
            about[excerpt(document.text, subject)] = None
    return Facts(kind, tuple(filter(None, about)), clean(text, kind))


def chunk_of(document: Document, span: Span, *, path: str, blocks: Blocks) -> Chunk:
    """The chunk of a span, the path of its section and what it is about in front of what is indexed.

    Raises NotWanted where nobody wants the document any more.
    """
    check()
    kind, about, cleaned = facts(document, span, blocks)
    text = document.text[span.start : span.end]
    indexed = "\n".join(part for part in (path, *about, cleaned) if part)
    return Chunk(
        span=span,
        text=text,
        index_text="" if indexed == text else indexed,
        section=path,
        pages=pages_of(document, span),
        kind=kind,
    )


def excerpt(text: str, span: Span) -> str:
    """The beginning of something that stands elsewhere, cleaned."""
    start, end = span
    limit = start + _EXCERPT_CHARS
    return " ".join(clean(text[start : end if end <= limit else word_end(text, start, limit)]).split())


def tagged(lines: Sequence[str], content: str) -> str:
    """Meta and content, each marked as such; the content alone where there is no meta."""
    before, between, after = META_MARKS
    told = "\n".join(lines)
    return f"{before}{told}{between}{content}{after}" if told else content


def _header(document: Document, block: Block, span: Span) -> str:
    if block.header:
        return block.header
    if block.kind != "table" or block.span.start >= span.start:
        return ""
    return document.text[block.span.start : document.text.find("\n", *block.span)].strip()
