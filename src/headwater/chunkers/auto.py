"""A document -> passages by the strategy that suits it: the one asked for, its collection's, or that of its kind.

| Document | Strategy |
|---|---|
| added with `--strategy S` (the property `strategy`) | S |
| of a collection that the setting `chunk.collections` names | that one |
| questions with their answers | `whole` |
| source code | `code`: between lines, with the path of its section |
| mostly tables | `rows`: between rows, with column names |
| sections, blocks or pages | `meta` over `recursive` |
| plain text | `recursive` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headwater.chunkers.contextual import ContextualChunker, Estimate, Notes
from headwater.chunkers.hierarchical import HierarchicalChunker
from headwater.chunkers.meta import MetaChunker
from headwater.chunkers.recursive import RecursiveChunker
from headwater.chunkers.semantic import SemanticChunker
from headwater.chunkers.sentence import SentenceChunker
from headwater.chunkers.whole import is_faq
from headwater.errors import SettingError
from headwater.protocols import Chunker, Embedder, LanguageModel
from headwater.tokens import Unit
from headwater.types import Chunk, Document

# Properties of a document that say how it is to be cut.
STRATEGY: Final = "strategy"
CHUNK_SIZE: Final = "chunk_size"
CHUNK_OVERLAP: Final = "chunk_overlap"
STRATEGIES: Final = (
    *("recursive", "sentence", "semantic", "meta", "contextual", "hierarchical", "whole", "code", "rows"),
    *("technical", "long", "faq"),
)
# Size and overlap in tokens: those of the designs for technical text and for long text.
_TECHNICAL: Final = (500, 50)
_LONG: Final = (1000, 100)
# Children of a parent; and of the size of anything else, the share that is repeated or packed at least.
_CHILD_SIZE: Final = 256
_ENTRY_SIZE: Final = 2048
_SHARE: Final = 8
_LINES: Final = ("\n\n\n", "\n\n", "\n")
# Kinds of text of that family that are no programs.
_NO_CODE: Final = ("text/x-markdown", "text/x-rst", "text/x-tex", "text/x-log")
_TABLES: Final = ("text/csv", "text/tab-separated-values", "application/x-ndjson", "application/vnd.ms-excel")


class AutoChunker:
    """Chooses per document among `strategies`.

    `size`, `overlap`, `unit` and `separators` are those of `recursive` and of what is over it.
    """

    strategies = STRATEGIES

    def __init__(
        self,
        *,
        size: int = 512,
        overlap: int = 64,
        unit: Unit = "tokens",
        separators: Sequence[str | Sequence[str]] | None = None,
        collections: Mapping[str, str] | None = None,
        embedder: Callable[[], Embedder] | None = None,
        language_model: Callable[[], LanguageModel | None] = lambda: None,
        notes: Callable[[], Notes] | None = None,
    ) -> None:
        self.size, self.overlap, self.unit, self.separators = size, overlap, unit, separators
        self._embedder, self._model, self._notes = embedder, language_model, notes
        self._collections = dict(sorted((collections or {}).items()))
        for collection, name in self._collections.items():
            check_strategy(name, f"chunk.collections.{collection}")
        self._made: dict[tuple[str, int, int | None], Chunker] = {}
        plain = self._chunker("recursive", 0)
        table = f" collections={json.dumps(self._collections, ensure_ascii=False)}" if self._collections else ""
        self.fingerprint = f"auto/1 ({plain.fingerprint}){table}"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages; none for a document without text. Raises SourceError when there are too many."""
        return self.chosen(document).chunk(document)

    def strategy(self, document: Document) -> str:
        """The name of the strategy that cuts this document."""
        asked = document.meta.get(STRATEGY)
        if asked in STRATEGIES:  # a document may have a property of that name that means something else
            return str(asked)
        return self._collections.get(document.collection) or _by_kind(document)

    def chosen(self, document: Document) -> Chunker:
        """What cuts this document."""
        size, overlap = document.meta.get(CHUNK_SIZE), document.meta.get(CHUNK_OVERLAP)
        if type(size) is not int or size < 1:
            return self._chunker(self.strategy(document), 0)
        own = overlap if type(overlap) is int and 0 <= overlap < size else None
        return self._chunker(self.strategy(document), size, own)

    def remarks(self, document: Document) -> tuple[str, ...]:
        """What the reader of a document should know about how it was cut."""
        chosen = self.chosen(document)
        return chosen.remarks(document) if isinstance(chosen, ContextualChunker) else ()

    def may_ask(self, *, strategy: object, collection: str) -> bool:
        """Whether a language model may be asked about documents that are added so."""
        return (strategy or self._collections.get(collection)) == "contextual"

    def estimate(self, document: Document) -> Estimate:
        """What a language model will be asked for it."""
        chosen = self.chosen(document)
        return chosen.estimate(document) if isinstance(chosen, ContextualChunker) else Estimate()

    def _chunker(self, name: str, size: int, overlap: int | None = None) -> Chunker:
        made = self._made.get((name, size, overlap))
        if made is None:
            made = self._made[name, size, overlap] = self._make(name, size, overlap)
        return made

    def _make(self, name: str, asked: int, repeated: int | None) -> Chunker:
        """With a size of the document's own, so much or a share of it is repeated; else the settings say how much."""
        size, unit, cuts = asked or self.size, self.unit, self.separators
        overlap = repeated if repeated is not None else size // _SHARE if asked else self.overlap
        makers: dict[str, Callable[[], Chunker]] = {
            "recursive": lambda: RecursiveChunker(size=size, overlap=overlap, unit=unit, separators=cuts),
            "sentence": lambda: SentenceChunker(size=size, minimum=size // _SHARE, unit=unit),
            "semantic": lambda: SemanticChunker(
                size=size, minimum=size // _SHARE, unit=unit, embedder=self._needed_embedder
            ),
            "meta": lambda: MetaChunker(size=size, overlap=overlap, unit=unit, separators=cuts),
            "contextual": lambda: ContextualChunker(
                size=size, overlap=overlap, unit=unit, language_model=self._model, notes=self._notes
            ),
            "hierarchical": lambda: HierarchicalChunker(
                size=asked or _CHILD_SIZE,
                overlap=(asked or _CHILD_SIZE) // _SHARE,
                parent_size=_SHARE * (asked or _CHILD_SIZE),
            ),
            "whole": lambda: MetaChunker(inner="whole", size=asked or _ENTRY_SIZE, overlap=0),
            "code": lambda: MetaChunker(size=size, overlap=0, unit=unit, separators=_LINES),
            "rows": lambda: MetaChunker(size=size, overlap=0, unit=unit),
            "technical": lambda: _profile(asked, *_TECHNICAL),
            "long": lambda: _profile(asked, *_LONG),
            "faq": lambda: MetaChunker(inner="whole", size=asked or _ENTRY_SIZE, overlap=0),
        }
        return makers[name]()

    def _needed_embedder(self) -> Embedder:
        if self._embedder is None:
            raise SettingError("the strategy 'semantic' needs an embedder and none was given; choose another strategy")
        return self._embedder()


def check_strategy(name: Any, where: str) -> str:
    """The name, or an error that lists those there are."""
    if name not in STRATEGIES:
        raise SettingError(f"{where}: no strategy is named {name!r}; there are: {', '.join(sorted(STRATEGIES))}")
    return str(name)


def _profile(asked: int, size: int, overlap: int) -> Chunker:
    return MetaChunker(size=asked or size, overlap=overlap if overlap < (asked or size) else 0)


def _by_kind(document: Document) -> str:
    if not (document.structure or document.blocks or document.page_starts):
        if _is_code(document):
            return "code"
        return "whole" if is_faq(document) else "recursive"
    if _is_code(document) or _mostly(document, "code"):
        return "code"
    if is_faq(document):
        return "whole"
    if document.mime in _TABLES or document.content_type == "table" or _mostly(document, "table"):
        return "rows"
    return "meta"


def _is_code(document: Document) -> bool:
    return document.content_type == "code" or (document.mime.startswith("text/x-") and document.mime not in _NO_CODE)


def _mostly(document: Document, kind: str) -> bool:
    inside = sum(block.span.end - block.span.start for block in document.blocks if block.kind == kind)
    return 2 * inside > len(document.text)
