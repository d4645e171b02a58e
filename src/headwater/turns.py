"""What is kept of conversations and answers, to go on with one and to look at the other again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from headwater.types import Citation, Hit, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing that was said. `asked` is the question as it was searched for, `evidence` the chunks it rested on."""

    role: Literal["user", "assistant"]
    content: str
    asked: str = ""
    answer_id: str = ""
    model: str = ""
    citations: tuple[Citation, ...] = ()
    evidence: tuple[int, ...] = ()
    created: str = ""  # ISO 8601, UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns under a title. A list of conversations leaves the turns out and only counts them."""

    id: str
    title: str
    owner: str
    created: str = ""
    updated: str = ""
    count: int = 0
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A passage as it was shown: `name` is its public id."""

    name: str
    uri: str
    title: str
    text: str
    section: str = ""
    pages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """An answer as it was: with the generation of the index, the options and the passages that it was made from."""

    id: str
    owner: str
    question: str
    asked: str
    text: str
    accepted: bool
    reason: str
    score: float
    model: str = ""
    generation: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""
    citations: tuple[Citation, ...] = ()
    passages: tuple[Passage, ...] = ()
    corrected: Mapping[str, str] = field(default_factory=dict)  # words that nothing had -> what was asked for instead
    degraded: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)  # of the cited documents' content, by document id
    conversation_id: str = ""
    created: str = ""
    stale: tuple[str, ...] = ()  # uris of cited documents that changed or went since; found when it is read again


def passage_of(hit: Hit) -> Passage:
    """A hit as it is kept."""
    return Passage(
        name=hit.chunk.name,
        uri=hit.uri,
        title=hit.title,
        text=hit.chunk.text,
        section=hit.chunk.section,
        pages=hit.chunk.pages,
    )


def plain_citation(citation: Citation) -> dict[str, Any]:
    """A citation as JSON can hold it."""
    return {**asdict(citation), "span": list(citation.span), "pages": list(citation.pages)}


def read_citation(plain: Mapping[str, Any]) -> Citation:
    """The other way round."""
    known = {**plain, "span": Span(*plain["span"]), "pages": tuple(plain["pages"])}
    return Citation(**known)


def plain_answer(kept: KeptAnswer) -> dict[str, Any]:
    """A kept answer as JSON can hold it."""
    return {**asdict(kept), "citations": [plain_citation(one) for one in kept.citations]}
