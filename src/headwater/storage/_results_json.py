"""Results -> JSON -> the same results: plain values only, so that whoever writes to the store can run nothing here.

What was not written by this module, or by another version of it, is not read: the answer is None, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from headwater.types import Chunk, Hit, Query, Record, Results, Span

# Grows with every change of the fields below or of what they mean.
FORMAT: Final = 2

# One of each, to know the type of every field by.
_CHUNK: Final = Chunk(id=0, document_id="", span=Span(0, 0), text="")
_RECORD: Final = Record(id="", uri="")
_HIT: Final = Hit(chunk=_CHUNK, record=_RECORD, score=0.0)
_RESULTS: Final = Results(query=Query(text=""))
# What the caller knows better, or what is another the next time.
_LEFT_OUT: Final = frozenset({"query", "timings_ms"})
_MAY_BE_NONE: Final = frozenset({"fallback_reason"})


def packed(results: Results) -> bytes | None:
    """The results without their query and their times; None where they hold what JSON cannot tell."""
    told = {"format": FORMAT, **_told(results, _RESULTS)}
    told["hits"] = [
        {**_told(hit, _HIT), "chunk": _told(hit.chunk, _CHUNK), "record": _told(hit.record, _RECORD)}
        for hit in results.hits
    ]
    try:
        # ASCII: halves of surrogate pairs, as broken files have them, come back as they were.
        return json.dumps(told, separators=(",", ":"), default=float).encode("ascii")
    except (TypeError, ValueError):
        return None


def unpacked(data: bytes) -> Results | None:
    """What was packed, with an empty query; None for anything else."""
    try:
        told = json.loads(data)
        if not isinstance(told, dict) or told.get("format") != FORMAT:
            return None
        hits = tuple(
            Hit(
                chunk=Chunk(**_read(hit["chunk"], _CHUNK)),
                record=Record(**_read(hit["record"], _RECORD)),
                **_read(hit, _HIT, but=("chunk", "record")),
            )
            for hit in told["hits"]
        )
        return Results(query=_RESULTS.query, hits=hits, **_read(told, _RESULTS, but=("hits",)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _told(value: Any, like: Any) -> dict[str, Any]:
    left_out = {*_LEFT_OUT, "hits", "chunk", "record"}
    names = [field.name for field in fields(like) if field.name not in left_out]
    return {name: _plain(getattr(value, name)) for name in names}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _read(told: Mapping[str, Any], like: Any, *, but: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of one noun, each of the type it has there; TypeError for another."""
    names = [field.name for field in fields(like) if field.name not in (*_LEFT_OUT, *but)]
    return {name: _of_type(name, told[name], getattr(like, name)) for name in names}


def _of_type(name: str, value: Any, like: Any) -> Any:
    if isinstance(like, Span) or name == "found":
        return _span(value) if isinstance(like, Span) else tuple(map(_span, value))
    if isinstance(like, tuple):
        return tuple(_leaf(one, tuples=False) for one in _checked(name, value, list))
    if isinstance(like, Mapping):
        return {str(key): _leaf(one, tuples=True) for key, one in _checked(name, value, dict).items()}
    if isinstance(like, float):
        return float(_checked(name, value, int, float))
    return _checked(name, value, *((str, type(None)) if name in _MAY_BE_NONE else (type(like),)))


def _leaf(value: Any, *, tuples: bool) -> Any:
    if tuples and isinstance(value, list):
        return tuple(_leaf(one, tuples=False) for one in value)
    return _checked("value", value, str, int, float, bool)


def _span(value: Any) -> Span:
    start, end = value
    return Span(_checked("span", start, int), _checked("span", end, int))


def _checked(name: str, value: Any, *types: type) -> Any:
    if type(value) not in types:
        raise TypeError(f"{name} is a {type(value).__name__}")
    return value
