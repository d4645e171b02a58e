"""The nouns of the read path, and by the same door those of the write path (`documents`).

write   Change -> Blob -> Document -> Chunk        (then the catalog and the indexes)
read    Query  -> Hit* -> Context  -> Answer       (an Answer carries its Citations)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from headwater.documents import (
    BOX_UNITS,
    DEFAULT_COLLECTION,
    LOCAL_OWNER,
    Blob,
    Block,
    Box,
    Change,
    Chunk,
    Document,
    Failure,
    Ids,
    Kind,
    Labels,
    Link,
    Matrix,
    Meta,
    Record,
    Report,
    Section,
    Space,
    Span,
    State,
    Vector,
    Version,
    attributes,
    boxes_of,
    document_id,
    indexed_count,
    record_of,
    stacked,
    text_hash,
)
from headwater.filters import ALL, Filter

__all__ = [
    "BOX_UNITS",
    "DEFAULT_COLLECTION",
    "LOCAL_OWNER",
    "Answer",
    "Blob",
    "Block",
    "Box",
    "Change",
    "Chunk",
    "Citation",
    "Context",
    "Document",
    "Event",
    "Failure",
    "Fusion",
    "Hit",
    "Ids",
    "Kind",
    "Labels",
    "Link",
    "Matrix",
    "Meta",
    "Mode",
    "Options",
    "Query",
    "Record",
    "Report",
    "Restart",
    "Results",
    "Scored",
    "Section",
    "Sentence",
    "Space",
    "Span",
    "State",
    "Step",
    "Support",
    "Vector",
    "Verdict",
    "Version",
    "attributes",
    "boxes_of",
    "document_id",
    "indexed_count",
    "record_of",
    "stacked",
    "text_hash",
]

Mode = Literal["hybrid", "keyword", "semantic", "substring"]
Fusion = Literal["rrf", "weighted_score", "adaptive"]
Support = Literal["supported", "weak", "unsupported"]


class Scored(NamedTuple):
    """What an index returns: an id and a score, higher is better. Never text."""

    chunk_id: int
    score: float


# As a model's name: no model, the documents' own sentences.
EXTRACTIVE: Final = "extractive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to search and answer. Request over collection over preset over default."""

    mode: Mode = "hybrid"
    candidates: int = 100  # considered per leg
    top_n: int = 8  # come back
    offset: int = 0
    fusion: Fusion = "rrf"
    keyword_weight: float = 0.5
    semantic_weight: float = 0.5
    chance_coverage: float = 0.0  # of a query, by weight: what any passage in its language has; for `adaptive`
    rrf_k: int = 60  # Cormack, Clarke, Buettcher; SIGIR 2009
    threshold: float | None = None
    # The raw cosine, the fused score, or the cosine as a share of what the embedder gives to texts that belong together
    threshold_on: Literal["semantic", "fused", "relevance"] = "semantic"
    highlight: bool = True
    # -- stages around the legs, each off by default here and switched on by presets that measured a gain
    rewrite: bool = False  # ask in several ways at once, and fuse what is found
    rewrites: int = 3
    hyde: bool = False  # search with an imagined answer; needs a language model
    synonyms: bool = False  # the offline expansion: synonyms, spellings, the other language
    feedback: bool = False  # terms of the first hits are added to the query
    typos: bool = False  # a word that no passage has is asked for as the likeliest word that one has
    rerank: str = ""  # the reranker's name; empty for none
    rerank_depth: int = 100  # of the fused order, so many are looked at again
    collapse: bool = False  # near-duplicates stand behind the best of them
    mmr_lambda: float | None = None  # 1 relevance only, 0 diversity only
    window: int = 0  # neighbours on each side that come with a passage
    parent: bool = False  # a passage stands for the larger one it was cut from
    related: bool = False  # documents that strong hits link to may come in
    related_weight: float = 0.0  # with it: what being near to the strong hits by links adds to a hit, of the best score
    enumerate: Literal["auto", "always", "never"] = "never"  # answer "list all" by going through everything
    # -- answers
    max_context_tokens: int = 3000
    pack: Literal["skip", "greedy_stop"] = "skip"  # what does not fit is left out, or ends the context
    max_sentences: int = 3
    llm: str = ""  # the model that writes; empty for the one of the settings, EXTRACTIVE for none
    template: str = ""  # the prompt's name; empty for the one of the settings
    unsupported: Literal["mark", "remove"] = "mark"  # what becomes of a sentence that no passage bears out
    reflect: bool = False
    reflect_rounds: int = 3
    reflect_min_score: float = 7.0  # of 10
    reflect_strategy: Literal["expand", "rewrite", "both"] = "both"
    deadline_seconds: float = 10.0
    cache_size: int = 1000  # results kept for a question that is asked again; 0 for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question, where to look, and how. `scope` is what the caller may see: and-ed below all options."""

    text: str
    where: Filter = ALL
    scope: Filter = ALL
    options: Options = Options()
    # What the text asks for word for word, and what it wants left out, once it was read (`asked.read`); None before.
    phrases: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A chunk and why it is here."""

    chunk: Chunk
    record: Record
    score: float
    rank: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)  # by stage: keyword, semantic, fused, ...
    ranks: Mapping[str, int] = field(default_factory=dict)  # by leg, from 1
    reasons: tuple[str, ...] = ()
    highlights: tuple[str, ...] = ()
    # Where the chunk was widened to its parent or its neighbours: the passages that were found in it, best first.
    found: tuple[Span, ...] = ()
    duplicates: tuple[str, ...] = ()  # near-duplicates that stand behind it, by their public ids

    def explained(self, *, rank: int, reasons: tuple[str, ...], highlights: tuple[str, ...]) -> Hit:
        """The same with these. Field by field: `replace` takes three times as long, for every hit that is shown."""
        return Hit(
            chunk=self.chunk,
            record=self.record,
            score=self.score,
            rank=rank,
            scores=self.scores,
            ranks=self.ranks,
            reasons=reasons,
            highlights=highlights,
            found=self.found,
            duplicates=self.duplicates,
        )

    @property
    def uri(self) -> str:
        """Where the document came from."""
        return self.record.uri

    @property
    def title(self) -> str:
        """The document's title."""
        return self.record.title

    @property
    def document_id(self) -> str:
        """The document's id."""
        return self.record.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Hits, best first, and how they came about. Iterates, counts and indexes like a list of hits."""

    query: Query
    hits: tuple[Hit, ...] = ()
    total: int = 0  # live candidates that passed filter and threshold, of which `hits` is one page
    mode_used: Mode = "hybrid"
    fallback_reason: str | None = None
    degraded: tuple[str, ...] = ()
    document_counts: Mapping[str, int] = field(default_factory=dict)  # document id -> hits among `total`, best first
    leg_counts: Mapping[str, int] = field(default_factory=dict)  # how many live candidates each leg gave
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    generation: int = 0
    corrected: Mapping[str, str] = field(default_factory=dict)  # words that nothing has -> what was asked for instead
    listed: str = ""  # where everything was gone through: what each hit holds, in words; then `total` is exact

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What the generator is shown. Passage n is `hits[n - 1]`; the prompt says so."""

    query: Query
    hits: tuple[Hit, ...]
    prompt: str = ""
    system: str = ""  # who the model is told to be, and what to keep to
    grounded: bool = True  # every sentence must rest on a passage; not where the prompt asks for new text
    best_keyword: float = 0.0  # what a passage would score by words that held all of the question; 0: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """The exact words behind a sentence: `document.text[span.start:span.end] == quote`, always."""

    marker: int
    document_id: str
    uri: str
    title: str
    span: Span
    quote: str
    pages: tuple[int, ...] = ()
    section: str = ""
    support: Support = "supported"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the answer stands, and why."""

    accepted: bool
    reason: str = ""
    score: float = 0.0  # 1 to 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The last event of a stream. A refusal is an answer without citations whose verdict is not accepted."""

    query: Query
    text: str
    citations: tuple[Citation, ...] = ()
    hits: tuple[Hit, ...] = ()
    verdict: Verdict = Verdict(accepted=True)
    corrected: Mapping[str, str] = field(default_factory=dict)  # words that nothing has -> what was asked for instead
    degraded: tuple[str, ...] = ()
    trace: tuple[Step, ...] = ()
    model: str = ""  # what wrote it, by name; empty where its sentences are the documents' own
    generation: int = 0  # of the index that it was made from
    id: str = ""  # under which it was kept, for `replay`
    conversation_id: str = ""

    @property
    def refused(self) -> bool:
        """Whether the documents were found not to answer the question."""
        return not self.verdict.accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One stage finished. Streamed to the page, summed by the benchmark."""

    stage: str
    milliseconds: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A complete, checked sentence of the answer with what it rests on. Never taken back but by a Restart."""

    text: str
    citations: tuple[Citation, ...] = ()
    support: Support | None = None  # of the best citation; None for what states nothing, or need rest on nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What was streamed so far is withdrawn; a better answer follows."""

    reason: str


Event = Step | Sentence | Restart | Answer
