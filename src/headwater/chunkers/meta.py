"""A document -> passages with what their document says about them in front, for the index only.

`index_text` becomes `<meta>title, section path, column names, caption, notes</meta><content>the words</content>`; what
the words show themselves is not told twice. No model is asked. The text index is given the same without the tags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headwater.chunkers._inner import Inner, inner_chunker
from headwater.chunkers._layout import Blocks
from headwater.chunkers._making import excerpt, facts, tagged
from headwater.documents import INDEXED_WITH
from headwater.protocols import Embedder
from headwater.tokens import Unit
from headwater.types import Chunk, Document

# A long title in front of a short passage outweighs it, and the wrong document is found: docs/chunking.md. A title of a
# few words never does.
_TITLE_SHARE: Final = 5
_SHORT_TITLE_CHARS: Final = 40


class MetaChunker:
    """Cuts as the strategy `inner` does."""

    def __init__(
        self,
        *,
        inner: Inner = "recursive",
        size: int = 512,
        overlap: int = 64,
        unit: Unit = "tokens",
        separators: Sequence[str | Sequence[str]] | None = None,
        embedder: Callable[[], Embedder] | None = None,
    ) -> None:
        self.inner = inner_chunker(
            inner, size=size, overlap=overlap, unit=unit, separators=separators, embedder=embedder
        )
        self.fingerprint = f"meta/1 ({self.inner.fingerprint})"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages; none for a document without text. Raises SourceError when there are too many."""
        return with_meta(document, self.inner.chunk(document), Blocks(document.blocks))


def with_meta(
    document: Document, chunks: Sequence[Chunk], blocks: Blocks, *, told: Mapping[int, str] | None = None
) -> list[Chunk]:
    """The same chunks with meta and content to be indexed; `told` adds a line to the chunks of these numbers."""
    made = []
    for number, chunk in enumerate(chunks):
        kind, about, cleaned = facts(document, chunk.span, blocks)
        lines = dict.fromkeys((*_lines(document, chunk, blocks), *about))
        if told and told.get(number):
            lines[told[number]] = None
        indexed = tagged(list(lines), cleaned)
        made.append(replace(chunk, index_text="" if indexed == chunk.text else indexed, kind=kind))
    return made


def _lines(document: Document, chunk: Chunk, blocks: Blocks) -> Iterator[str]:
    title = document.title.strip()
    # A name that no writer gave says nothing; one that heads the path or stands in the text is told already.
    known = title == document.uri or title in chunk.text or chunk.section.startswith(title)
    if title and not known and len(title) <= max(_SHORT_TITLE_CHARS, len(chunk.text) // _TITLE_SHARE):
        yield title
    if chunk.section:
        yield chunk.section
    for block in blocks.about(*chunk.span) if blocks.all else ():
        if said := excerpt(document.text, block.span):
            yield said
    told = document.meta.get(INDEXED_WITH, ())
    yield from map(str, told if isinstance(told, tuple) else (told,))
