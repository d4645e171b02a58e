"""Attributes of OpenAI's files <-> properties of documents, and its filters -> ours.

An attribute is a property of the document under the same name, so every search can ask for it. A name that documents
use themselves (`title`, `type`, `date` ...) or that no filter could say stands behind `attributes.`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt

from headwater.attach import COUNT, MANUAL_OF, PART_OF
from headwater.documents import INDEXED_WITH
from headwater.errors import FilterError, UsageError
from headwater.filters import ALIASES, MAX_DEPTH, Compare, Filter, Has, In, Not, Op, Value, conjoin, disjoin
from headwater.server import wire
from headwater.strategies import CHUNK_OVERLAP, CHUNK_SIZE, STRATEGY
from headwater.types import Record
from headwater.types import attributes as seen_by_filters

MAX_ATTRIBUTES: Final = 16
MAX_KEY_CHARS: Final = 64
MAX_VALUE_CHARS: Final = 512
MAX_COMPARISONS: Final = 500  # of one filter
MAX_EXACT: Final = 2**53  # beyond it a whole number is another one for many clients
# In a document's meta: which of its properties are attributes.
NAMES: Final = "attribute_names"
_PREFIX: Final = "attributes."
# What these say of a document is ours; the last are properties that change how it is cut, found or removed.
_TAKEN: Final = frozenset(
    {
        *seen_by_filters(Record(id="", uri="")),
        *ALIASES,
        *("section", "page", "kind"),
        *(STRATEGY, CHUNK_SIZE, CHUNK_OVERLAP, INDEXED_WITH, MANUAL_OF, PART_OF, COUNT, NAMES),
        *("aliases", "listed_in", "dead_link", "important_keywords", "questions", "highlights", "client_source"),
    }
)
_OPS: Final[Mapping[str, Op]] = {"eq": "=", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _fits(number: int | float) -> int | float:
    if not math.isfinite(number) or (isinstance(number, int) and abs(number) > MAX_EXACT):
        raise ValueError(f"a number is finite, and whole ones are at most {MAX_EXACT}")
    return number


Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARS)]
Scalar = (
    Annotated[str, Field(max_length=MAX_VALUE_CHARS)]
    | StrictBool
    | Annotated[StrictInt | StrictFloat, AfterValidator(_fits)]
)
Attributes = Annotated[dict[Key, Scalar], Field(max_length=MAX_ATTRIBUTES)]


class Comparison(wire.Body):
    """An attribute stands in this relation to a value."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte"]
    key: Key
    value: Scalar


class Membership(wire.Body):
    """An attribute is one of these values, or none of them."""

    type: Literal["in", "nin"]
    key: Key
    value: list[Scalar] = Field(min_length=1, max_length=1000)


class Compound(wire.Body):
    """All of these hold, or one of them."""

    type: Literal["and", "or"]
    filters: list["Wanted"] = Field(min_length=1, max_length=MAX_COMPARISONS)


Wanted = Annotated[Comparison | Membership | Compound, Field(discriminator="type")]


def filter_of(given: Comparison | Membership | Compound) -> Filter:
    """A filter in our words."""
    if _comparisons(given, MAX_DEPTH) > MAX_COMPARISONS:
        raise UsageError(f"a filter may have {MAX_COMPARISONS} comparisons, got more; ask for less at a time")
    return _filter_of(given)


def _filter_of(given: Comparison | Membership | Compound) -> Filter:
    if isinstance(given, Compound):
        parts = map(_filter_of, given.filters)
        return conjoin(*parts) if given.type == "and" else disjoin(*parts)
    key = property_of(given.key)
    if isinstance(given, Comparison):
        return Compare(key, _OPS[given.type], given.value)
    found = In(key, tuple(given.value))
    return found if given.type == "in" else Not(found)


def _comparisons(given: Comparison | Membership | Compound, depth: int) -> int:
    if not isinstance(given, Compound):
        return 1
    if not depth:
        raise UsageError(f"a filter may be {MAX_DEPTH} deep, got a deeper one; put conditions side by side")
    return sum(_comparisons(one, depth - 1) for one in given.filters)


def property_of(name: str) -> str:
    """The property of a document that holds an attribute; a name that filters could not say is refused."""
    found = _property(name)
    if found is None:
        raise UsageError(f"an attribute's name is letters, digits, `_`, `-` and dots in between, got {name!r}")
    return found


def _property(name: str) -> str | None:
    behind = _PREFIX + name
    choices = (behind,) if name in _TAKEN or name.startswith(_PREFIX) else (name, behind)
    return next((one for one in choices if _can_be_asked(one)), None)


def _can_be_asked(key: str) -> bool:
    try:
        Has(key)
    except FilterError:
        return False
    return True


def changes(before: Mapping[str, object], attributes: Mapping[str, Value]) -> dict[str, Value | list[str] | None]:
    """What to change of a document's properties so that these are its attributes; None takes one away."""
    gone = {property_of(name): None for name in _names(before) if name not in attributes}
    names = list(attributes) or None
    return {**gone, **{property_of(name): value for name, value in attributes.items()}, NAMES: names}


def shown(meta: Mapping[str, object], *, sent: bool) -> dict[str, Value]:
    """The attributes of a document; one that was not sent as a file shows the properties it has."""
    if NAMES in meta or sent:
        known = {name: meta.get(property_of(name)) for name in _names(meta)}
    else:
        known = {name: value for name, value in meta.items() if name not in _TAKEN}
    return {name: value for name, value in known.items() if isinstance(value, str | int | float)}


def _names(meta: Mapping[str, object]) -> Sequence[str]:
    """Those that are there: a document may say something else of itself under that name."""
    told = meta.get(NAMES)
    names = told if isinstance(told, tuple | list) else (told,)
    return [name for name in names if isinstance(name, str) and _property(name) in meta]
