"""How one document is to be cut: what a person may ask for, what was chosen, and what it will cost.

A chunker that chooses per document (`auto`) has `strategies`, and `strategy(document)` says which it takes. One that
asks a language model has `estimate(document)`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.errors import UsageError
from headwater.protocols import Chunker
from headwater.types import Document, Meta

# Properties of a document that say how it is to be cut.
STRATEGY: Final = "strategy"
CHUNK_SIZE: Final = "chunk_size"
CHUNK_OVERLAP: Final = "chunk_overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a language model will be asked to cut some documents; what it was asked before is not counted."""

    documents: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def asked_for(chunker: Chunker, *, strategy: str = "", chunk_size: int = 0, chunk_overlap: int | None = None) -> Meta:
    """The properties that ask for it; refused where the name is unknown or the home cuts all documents alike."""
    asked: dict[str, str | int] = {STRATEGY: strategy} if strategy else {}
    if chunk_size:
        asked[CHUNK_SIZE] = chunk_size
    if chunk_overlap is not None:
        asked[CHUNK_OVERLAP] = chunk_overlap
    return check(chunker, asked)


def check(chunker: Chunker, meta: Meta) -> Meta:
    """The same properties, or an error that lists the strategies there are."""
    strategy, size, overlap = meta.get(STRATEGY), meta.get(CHUNK_SIZE), meta.get(CHUNK_OVERLAP)
    if strategy is None and size is None and overlap is None:
        return meta
    known = getattr(chunker, "strategies", ())
    if not known:
        raise UsageError(
            f"this home cuts every document alike, by {chunker.fingerprint!r}; to choose per document write "
            '`use = "auto"` under [chunk] in headwater.toml and run `headwater reindex`'
        )
    if strategy is not None and strategy not in known:
        raise UsageError(f"no strategy is named {strategy!r}; there are: {', '.join(sorted(known))}")
    if size is not None and (type(size) is not int or size < 1):
        raise UsageError(f"the chunk size must be a whole number of at least 1, got {size!r}")
    if overlap is not None and (type(overlap) is not int or type(size) is not int or not 0 <= overlap < size):
        raise UsageError(f"the chunk overlap must be from 0 to below the chunk size, got {overlap!r} of {size!r}")
    return meta


def strategy_of(chunker: Chunker, document: Document) -> str:
    """The name of the strategy that cuts this document."""
    choose: Any = getattr(chunker, "strategy", None)
    return str(choose(document)) if choose is not None else chunker.fingerprint.partition("/")[0]


def asks_a_model(chunker: Chunker, asked: Mapping[str, object], collection: str) -> bool:
    """Whether cutting documents of a collection may ask a language model."""
    return bool(getattr(chunker, "may_ask", lambda **_: False)(strategy=asked.get(STRATEGY), collection=collection))


def cost_of(chunker: Chunker, documents: Iterable[Document]) -> Cost:
    """What cutting these will cost."""
    estimate: Any = getattr(chunker, "estimate", None)
    count = calls = put = got = 0
    for document in documents if estimate is not None else ():
        found = estimate(document)
        count += 1
        calls, put, got = calls + found.calls, put + found.input_tokens, got + found.output_tokens
    return Cost(documents=count, calls=calls, input_tokens=put, output_tokens=got)
