"""A chunk -> the terms of each field; a query -> the terms it asks of each field. The same for every text index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import log
from types import MappingProxyType
from typing import Final, NamedTuple

from headwater.errors import SettingError
from headwater.highlight import STOP_WORDS
from headwater.tokens import Cutter, QueryLanes, is_cjk
from headwater.types import Document

LANES: Final = ("words", "grams", "codes")
# What all chunks of a document share. One field each, with the terms of all lanes in it: they are short.
HEAD: Final = ("title", "tags", "description", "url")
# The content has a field for each lane, named like it, so that words count among words and pairs among pairs.
FIELDS: Final = (*HEAD, *LANES)

BOOSTS: Final[Mapping[str, float]] = MappingProxyType(
    {"title": 5.0, "tags": 4.0, "description": 3.0, "content": 2.0, "url": 1.0}
)
# A Chinese word of two characters is a pair as well and would count twice at full weight.
LANE_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType({"words": 1.0, "grams": 0.5, "codes": 1.0})

# Where a required term may stand.
REQUIRED_IN: Final = ("words", "grams", "title")

# Texts of heads that are cut together: they are short, and cutting one by one takes five times as long.
HEADS: Final = 256

# Of each lane the first so many different terms of a query are asked: a whole page pasted as a query stays affordable.
MAX_TERMS: Final = 128


class Term(NamedTuple):
    """One term asked of one field, and how much it counts."""

    field: str
    token: str
    weight: float


class Question(NamedTuple):
    """What a query asks: any of the terms; and of each phrase, on top, all of its terms in one field."""

    terms: list[Term]
    phrases: list[list[Term]]


def with_defaults(name: str, given: Mapping[str, float] | None, defaults: Mapping[str, float]) -> dict[str, float]:
    """The weights in force; SettingError for a name or a value that cannot be."""
    for key, value in (given or {}).items():
        if key not in defaults:
            raise SettingError(f"{name} knows no {key!r}; it has: {', '.join(defaults)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise SettingError(f"{name}.{key} must be a number of 0 or more, got {value!r}")
    return {**defaults, **(given or {})}


def head_terms(documents: Sequence[Document], cutter: Cutter) -> list[dict[str, str]]:
    """By field, the terms that each document gives to its chunks, with spaces between; empty fields left out."""
    texts = [text for document in documents for text in _head(document)]
    cut = [lanes for start in range(0, len(texts), HEADS) for lanes in cutter.cut_many(texts[start : start + HEADS])]
    joined = [" ".join(" ".join(lanes).split()) for lanes in cut]
    by_document = (zip(HEAD, joined[start : start + len(HEAD)], strict=True) for start in range(0, len(cut), len(HEAD)))
    return [{field: terms for field, terms in fields if terms} for fields in by_document]


def _head(document: Document) -> tuple[str, ...]:
    """In the order of HEAD."""
    aliases = document.meta.get("aliases", ())
    names = (document.title, *map(str, aliases if isinstance(aliases, tuple) else (aliases,)))
    return ("\n".join(names), "\n".join(document.tags), document.description, document.uri)


def ask(text: str, cutter: Cutter, *, boosts: Mapping[str, float], lanes: Mapping[str, float]) -> Question:
    """The terms of a query. A term of several lanes is asked once of the fields that hold all lanes."""
    query = cutter.query(text)
    weights: dict[tuple[str, str], float] = {}
    for lane, tokens in zip(LANES, (query.words, query.grams, query.codes), strict=True):
        for token in list(dict.fromkeys(tokens))[:MAX_TERMS]:
            for field, weight in _fields(lane, boosts, lanes):
                weights[field, token] = max(weight, weights.get((field, token), 0.0))
    phrases = [
        [Term(field, token, weight) for token in phrase]
        for phrase in query.phrases[:MAX_TERMS]
        for field, weight in _fields(_lane_of(phrase, query), boosts, lanes)
    ]
    return Question([Term(field, token, weight) for (field, token), weight in weights.items()], phrases)


def required(text: str, cutter: Cutter) -> list[str]:
    """What every text holds that holds this one: its words, and of Chinese its pairs, for words depend on the place."""
    words, grams, _ = cutter.cut(text)
    pairs = [gram for gram in grams if len(gram) > 1]
    return list(dict.fromkeys([*(word for word in words if not is_cjk(word[0])), *pairs]))


def best_score(question: Question, *, chunks: int, containing: Callable[[Term], int], k1: float) -> float:
    """The BM25 that a chunk approaches which holds every term of the question over and over in its content.

    A term that no chunk holds counts as well: what is asked for and nowhere to be had is missing from every hit. But
    not a stop word: where a home is so small that it holds none, "where is the" would outweigh what is asked for.
    """
    asked = ((term, containing(term)) for term in question.terms if term.field in LANES)
    telling = ((term, held) for term, held in asked if held or term.token not in _stop_terms())
    return sum(term.weight * rarity(held, chunks) * (k1 + 1) for term, held in telling)


@cache
def _stop_terms() -> frozenset[str]:
    words, grams, _ = Cutter().cut("\n".join(sorted(STOP_WORDS)))
    return frozenset((*words, *grams))


def rarity(containing: int, chunks: int) -> float:
    """The idf of BM25 in the form of Lucene, which is never negative."""
    return log(1 + (chunks - containing + 0.5) / (containing + 0.5))


def _fields(lane: str, boosts: Mapping[str, float], lanes: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    for field, boost in ((lane, boosts["content"]), *((field, boosts[field]) for field in HEAD)):
        if boost * lanes[lane] > 0:
            yield field, boost * lanes[lane]


def _lane_of(phrase: list[str], query: QueryLanes) -> str:
    if len(phrase) > 1 or is_cjk(phrase[0][0]):
        return "grams"
    return "codes" if phrase[0] in query.codes else "words"
