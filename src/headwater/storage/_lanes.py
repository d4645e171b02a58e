"""A chunk -> the terms of each field; a query -> the terms it asks of each field. The same for every text index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import log
from types import MappingProxyType
from typing import Final, NamedTuple

from headwater.errors import SettingError
from headwater.highlight import STOP_WORDS
from headwater.tokens import Cutter, QueryLanes, fold, is_cjk
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

# Where two characters side by side may stand: a chunk that has them as a word does not have them as a pair again.
PAIR_FIELDS: Final = ("words", "grams")
PAIR_CHARS: Final = 2

# Where a required term may stand.
REQUIRED_IN: Final = ("words", "grams", "title")

# Where a word stands that is known.
KNOWN_IN: Final = ("words", "title")

# Texts of heads that are cut together: they are short, and cutting one by one takes five times as long.
HEADS: Final = 256

# Of each lane the first so many different terms of a query are asked: a whole page pasted as a query stays affordable.
MAX_TERMS: Final = 128


# How many chunks have a token in a field.
Containing = Callable[[str, str], int]


class Term(NamedTuple):
    """One term asked of one field: how much it counts by how rare it is there, and by how rare it is as a pair."""

    field: str
    token: str
    weight: float
    pair: float = 0.0


class Question(NamedTuple):
    """What a query asks: any of the terms; and of each phrase, on top, one term of each of its places."""

    terms: list[Term]
    phrases: list[list[tuple[Term, ...]]]
    others: list[Term]  # the same in other words: a chunk that has none of them lacks nothing

    @property
    def all_terms(self) -> list[Term]:
        """What a chunk is found by."""
        return self.terms + self.others


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


def ask(
    text: str, cutter: Cutter, *, boosts: Mapping[str, float], lanes: Mapping[str, float], once: bool = True
) -> Question:
    """The terms of a query. A term of several lanes is asked once of the fields that hold all lanes.

    `once` says that a chunk has a pair that is a word of it among its words only: then pairs are asked of both.
    """
    query = cutter.query(text)
    plain: dict[tuple[str, str], float] = {}
    paired: dict[tuple[str, str], float] = {}
    for lane, tokens in zip(LANES, (query.words, query.grams, query.codes), strict=True):
        fields = list(_fields(lane, boosts, lanes))
        for token in list(dict.fromkeys(tokens))[:MAX_TERMS]:
            for field, weight in fields:
                if once and _is_pair(field, token):
                    paired.update(dict.fromkeys([(either, token) for either in PAIR_FIELDS], weight))
                elif weight > plain.get((field, token), 0.0):
                    plain[field, token] = weight
    asked = {**plain, **paired}
    terms = [Term(*key, plain.get(key, 0.0), paired.get(key, 0.0)) for key in asked]
    phrases = [
        [_terms(field, token, weight, once=once) for token in phrase]
        for phrase in query.phrases[:MAX_TERMS]
        for field, weight in _fields(_lane_of(phrase, query), boosts, lanes)
    ]
    others = [term for term in _others(text, cutter, boosts, lanes) if term[:2] not in asked]
    return Question(terms, phrases, others)


def _others(text: str, cutter: Cutter, boosts: Mapping[str, float], lanes: Mapping[str, float]) -> Iterator[Term]:
    """Dates and numbers as the other language or notation writes them, asked of the content like what was typed."""
    from headwater.forms import forms  # its expressions take some milliseconds, which a start need not wait for

    for form in forms(fold(text)):
        words, _, codes = cutter.cut(form)
        lane, tokens = ("codes", codes) if codes else ("words", words)
        weight = boosts["content"] * lanes[lane]
        # One digit or one character stands in every other chunk.
        yield from (Term(lane, token, weight) for token in dict.fromkeys(tokens) if len(token) > 1 and weight > 0)


def _is_pair(field: str, token: str) -> bool:
    """A character that stands alone is among the pairs too, and is no word of two."""
    return field == "grams" and len(token) == PAIR_CHARS


def _terms(field: str, token: str, weight: float, *, once: bool) -> tuple[Term, ...]:
    """What asks for a token of a field, of which a chunk has one at most."""
    if once and _is_pair(field, token):
        return tuple(Term(either, token, 0.0, weight) for either in PAIR_FIELDS)
    return (Term(field, token, weight),)


def required(text: str, cutter: Cutter) -> list[str]:
    """What every text holds that holds this one: its words, and of Chinese its pairs, for words depend on the place."""
    words, grams, _ = cutter.cut(text)
    pairs = [gram for gram in grams if len(gram) > 1]
    return list(dict.fromkeys([*(word for word in words if not is_cjk(word[0])), *pairs]))


def best_score(question: Question, *, chunks: int, containing: Containing, k1: float) -> float:
    """The BM25 that a chunk approaches which holds every term of the question over and over in its content.

    A term that no chunk holds counts as well: what is asked for and nowhere to be had is missing from every hit. But
    not a stop word: where a home is so small that it holds none, "where is the" would outweigh what is asked for.
    """
    total = 0.0
    for term in question.terms:
        if term.field in LANES:
            # A chunk has a pair in one of two fields, so it counts in one of them.
            asked = term._replace(pair=0.0) if term.field == "words" else term
            held = pairs(term.token, containing) if asked.pair else containing(term.field, term.token)
            if held or term.token not in _stop_terms():
                total += worth(asked, chunks=chunks, containing=containing) * (k1 + 1)
    return total


def worth(term: Term, *, chunks: int, containing: Containing) -> float:
    """What a term counts for, before how often a chunk has it: its weight by how rare it is."""
    field, token, weight, pair = term
    plain = weight * rarity(containing(field, token), chunks) if weight else 0.0
    return plain + pair * rarity(min(chunks, pairs(token, containing)), chunks) if pair else plain


def pairs(token: str, containing: Containing) -> int:
    """How many chunks have two characters side by side, whether they are a word there or not."""
    words, grams = PAIR_FIELDS
    return containing(words, token) + containing(grams, token)


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
