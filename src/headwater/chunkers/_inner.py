"""The name of a strategy that cuts -> its chunker, for the strategies that add something to what another cuts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from headwater.chunkers.recursive import RecursiveChunker
from headwater.chunkers.semantic import SemanticChunker
from headwater.chunkers.sentence import SentenceChunker
from headwater.chunkers.whole import WholeChunker
from headwater.errors import SettingError
from headwater.protocols import Chunker, Embedder
from headwater.tokens import Unit

Inner = Literal["recursive", "sentence", "semantic", "whole"]


def inner_chunker(
    name: Any,
    *,
    size: int,
    overlap: int,
    unit: Unit,
    separators: Sequence[str | Sequence[str]] | None = None,
    embedder: Callable[[], Embedder] | None = None,
) -> Chunker:
    """Sentences and topics are packed to an eighth of the size at least, as they are by default."""
    match name:
        case "recursive":
            return RecursiveChunker(size=size, overlap=overlap, unit=unit, separators=separators)
        case "sentence":
            return SentenceChunker(size=size, minimum=size // 8, unit=unit)
        case "semantic" if embedder is not None:
            return SemanticChunker(embedder=embedder, size=size, minimum=size // 8, unit=unit)
        case "semantic":
            raise SettingError("chunk.inner = 'semantic' needs an embedder; give one, or choose another strategy")
        case "whole":
            return WholeChunker(size=size, unit=unit)
        case _:
            raise SettingError(f"chunk.inner must be one of {', '.join(map(repr, get_args(Inner)))}, got {name!r}")
