"""A request's options, in our words and in RAGFlow's -> a query's text, filter and options."""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from headwater.errors import UsageError
from headwater.filters import ALL, Compare, Contains, Filter, Has, In, Not, conjoin, disjoin, parse
from headwater.server import reach, wire
from headwater.server.auth import Caller
from headwater.server.state import State
from headwater.storage.ledger import Dataset

# What one request may ask for at most: more is a program reading everything, which has other ways.
LIMITS: Mapping[str, float] = {
    "candidates": 10_000,
    "top_n": 1_000,
    "offset": 100_000,
    "rewrites": 10,
    "rerank_depth": 1_000,
    "window": 20,
    "max_context_tokens": 200_000,
    "max_sentences": 100,
    "reflect_rounds": 5,
    "rrf_k": 100_000,
    "deadline_seconds": 300,
}
_FIXED = ("cache_size",)  # the server's business
# Of the time of a request, for its searches: what they have found by then is still to be put together and sent.
SEARCHING = 0.8
LEAST_SECONDS = 0.001  # that the settings let a search have
Id = Annotated[str, Field(max_length=200)]
# In RAGFlow's words and in Dify's.
_COMPARISONS: Mapping[str, str] = {
    **{"=": "=", "==": "=", "is": "="},
    **{"≠": "!=", "!=": "!=", "not is": "!=", "is not": "!="},
}
_ORDERS: Mapping[str, str] = {
    **{">": ">", "<": "<", "≥": ">=", ">=": ">=", "≤": "<=", "<=": "<="},
    **{"after": ">", "before": "<"},
}
_LAST = "\U0010ffff"  # nothing that begins with a text comes after the text with this behind it


class Scoped(wire.Body):
    """Where to look. Ids may be given under either name."""

    dataset_ids: list[Id] | None = Field(default=None, max_length=1000)
    kb_ids: list[Id] | None = Field(default=None, max_length=1000)
    document_ids: list[Id] | None = Field(default=None, max_length=1000)
    doc_ids: list[Id] | None = Field(default=None, max_length=1000)
    collections: list[Id] | None = Field(default=None, max_length=1000)  # by name
    where: str = Field(default="", max_length=10_000)  # the filter language
    metadata_condition: dict[str, Any] | None = None  # RAGFlow's filters
    archived: bool = False  # archived documents too


class Asked(Scoped):
    """How to search. What is not said is as the settings say."""

    mode: Literal["hybrid", "keyword", "semantic", "substring"] | None = None
    top_n: int | None = Field(default=None, ge=1, le=1000)
    top_k: int | None = Field(default=None, ge=1, le=10_000)  # candidates
    candidates: int | None = Field(default=None, ge=1, le=10_000)
    page: int = Field(default=1, ge=1, le=100_000)
    page_size: int | None = Field(default=None, ge=1, le=1000)
    similarity_threshold: float | None = Field(default=None, ge=-1, le=1)
    vector_similarity_weight: float | None = Field(default=None, ge=0, le=1)
    keyword_similarity_weight: float | None = Field(default=None, ge=0, le=1)
    keywords_similarity_weight: float | None = Field(default=None, ge=0, le=1)
    rerank_id: str | None = Field(default=None, max_length=200)
    highlight: bool | None = None
    keyword: bool | None = None  # of RAGFlow's; words are always searched for
    cross_languages: list[str] | None = Field(default=None, max_length=20)
    conversation_id: str | None = Field(default=None, max_length=200)
    # Any option of the settings' section `retrieve`, by its name.
    options: dict[str, Any] | None = None


def chosen_datasets(state: State, caller: Caller, given: Scoped) -> list[Dataset] | None:
    """The datasets a request names; None where it names none."""
    ids = [*(given.dataset_ids or ()), *(given.kb_ids or ())]
    names = given.collections or []
    if not ids and not names:
        return None
    visible = reach.datasets(state, caller)
    chosen = [reach.dataset(state, caller, id) for id in dict.fromkeys(ids)]
    for name in names:
        found = [one for one in visible if name in (one.name, one.collection)]
        if not found:
            raise reach.NotFound(f"no dataset is named {name!r}; list the datasets to see those that exist")
        chosen += found
    return chosen


def filter_of(state: State, caller: Caller, given: Scoped, *, datasets: Sequence[Dataset] | None) -> Filter:
    """What a request wants to see; what its caller may see is and-ed below."""
    parts: list[Filter] = [parse(given.where)]
    if datasets is not None:
        parts.append(reach.only(datasets))
    if documents := [*(given.document_ids or ()), *(given.doc_ids or ())]:
        seen = reach.view(state, caller)
        known = tuple(seen.seen(id).id for id in dict.fromkeys(documents))
        # What people added to a document belongs to it.
        parts.append(disjoin(In("id", known), In("manual_of", known)))
    if given.metadata_condition:
        parts.append(condition(given.metadata_condition))
    return conjoin(*parts)


def question_of(
    state: State, caller: Caller, given: Asked, *, question: str, where: Filter, options: Mapping[str, Any]
) -> str:
    """What is asked: where it follows a conversation, with what it leaves unsaid and that says."""
    if not given.conversation_id:
        return question
    reach.conversation(state, caller, given.conversation_id)
    seen = reach.view(state, caller)
    return seen.chats.completed(seen.query(question, where=where, options=options), given.conversation_id)


def options_of(state: State, given: Asked, *, most_seconds: float, where: Filter = ALL) -> dict[str, Any]:
    """The options of a query, by the names of the settings; `where` is what it is asked about."""
    chosen: dict[str, Any] = {}
    for name, value in (given.options or {}).items():
        if name in _FIXED:
            raise UsageError(f"{name} cannot be set by a request; leave it out")
        chosen[name] = value
    if given.mode is not None:
        chosen["mode"] = given.mode
    if (candidates := given.candidates or given.top_k) is not None:
        chosen["candidates"] = candidates
    if given.similarity_threshold is not None:
        chosen["threshold"] = given.similarity_threshold
    weight = given.keyword_similarity_weight
    weight = given.keywords_similarity_weight if weight is None else weight
    if given.vector_similarity_weight is not None or weight is not None:
        semantic = given.vector_similarity_weight if given.vector_similarity_weight is not None else 1 - (weight or 0)
        chosen |= {"fusion": "weighted_score", "semantic_weight": float(semantic)}
        chosen["keyword_weight"] = float(1 - semantic if weight is None else weight)
        chosen.setdefault("threshold_on", "fused")
    if given.rerank_id is not None:
        chosen["rerank"] = given.rerank_id
    if given.highlight is not None:
        chosen["highlight"] = given.highlight
    if given.cross_languages:
        chosen["synonyms"] = True
    chosen |= _paged(state, given, chosen, where)
    for name, most in LIMITS.items():
        value = chosen.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > most:
            raise UsageError(f"{name} may be at most {most:g}, got {value!r}")
    return within(state, chosen, most_seconds * SEARCHING)


def within(state: State, options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The same options for a search that has so many seconds at most, and then answers with what it has."""
    usual = options.get("deadline_seconds", state.kb.options.deadline_seconds)
    # Whole seconds where there are some: a cache knows the same search again.
    most = max(float(math.floor(seconds)) or seconds, LEAST_SECONDS)
    is_longer = isinstance(usual, int | float) and usual > most
    return {**options, "deadline_seconds": most} if is_longer else dict(options)


def is_past(given: Asked) -> bool:
    """Whether a request asks for a page behind the first `top_n`: there is nothing on it."""
    if given.page_size is None or given.top_n is None:
        return False
    return (given.page - 1) * given.page_size >= given.top_n


def _paged(state: State, given: Asked, chosen: Mapping[str, Any], where: Filter) -> dict[str, int]:
    """Which part of the ranking: a page of `page_size`, of the first `top_n` where both are said."""
    if given.page_size is None:
        size = given.top_n
        if size is None:
            if given.page == 1:
                return {}
            # As many as the settings say come back, which may be those of one collection.
            size = state.kb.query("", where=where, options=chosen).options.top_n
        return {"top_n": size, "offset": (given.page - 1) * size}
    offset = (given.page - 1) * given.page_size
    size = given.page_size if given.top_n is None else min(given.page_size, given.top_n - offset)
    return {"top_n": max(1, size), "offset": offset if size > 0 else given.top_n or offset}


def condition(told: Mapping[str, Any]) -> Filter:
    """RAGFlow's `{logic, conditions: [{name, comparison_operator, value}]}` as a filter, or Dify's."""
    conditions = told.get("conditions")
    if not isinstance(conditions, list) or not all(isinstance(one, dict) for one in conditions):
        raise UsageError("metadata_condition needs `conditions`, a list of {name, comparison_operator, value}")
    if len(conditions) > 100:
        raise UsageError("metadata_condition may have at most 100 conditions")
    parts = [_one(one) for one in conditions]
    if not parts:
        return ALL
    logic = told.get("logic") or told.get("logical_operator")
    return disjoin(*parts) if logic == "or" else conjoin(*parts)


def _one(told: Mapping[str, Any]) -> Filter:
    name, how, value = told.get("name"), told.get("comparison_operator", "="), told.get("value")
    if not isinstance(name, str) or not isinstance(how, str):
        raise UsageError(f"a condition needs a name and a comparison_operator, got {dict(told)!r}")
    if how in ("empty", "not empty"):
        return Not(Has(name)) if how == "empty" else Has(name)
    if how in ("in", "not in"):
        values = tuple(value) if isinstance(value, list) else tuple(part.strip() for part in str(value).split(","))
        found_in = In(name, tuple(one for said in values for one in _meant(said)))
        return found_in if how == "in" else Not(found_in)
    if how in ("contains", "not contains"):
        found = Contains(name, str(value))
        return Not(found) if how == "not contains" else found
    if how == "start with":
        return conjoin(Compare(name, ">=", str(value)), Compare(name, "<", str(value) + _LAST))
    if how in _COMPARISONS or how in _ORDERS:
        if not isinstance(value, str | int | float | bool):
            raise UsageError(f"a condition's value is a text, a number or true or false, got {value!r}")
        op: Any = _COMPARISONS.get(how) or _ORDERS[how]
        every = [Compare(name, op, one) for one in _meant(value)]
        return conjoin(*every) if op == "!=" else disjoin(*every)
    others = ("in", "not in", "contains", "not contains", "start with", "empty", "not empty")
    known = ", ".join([*_COMPARISONS, *_ORDERS, *others])
    raise UsageError(f"no comparison_operator {how!r}; there are: {known}")


def _meant(value: str | int | float | bool) -> tuple[str | int | float | bool, ...]:
    """What a value may stand for: these protocols write numbers as texts, and a property may be either."""
    if not isinstance(value, str):
        return (value,)
    try:
        number = float(value)
    except ValueError:
        return (value,)
    return (value, int(number) if number.is_integer() else number) if math.isfinite(number) else (value,)
