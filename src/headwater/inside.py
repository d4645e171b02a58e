"""A query -> what the search had in its hands: the query's vector and keywords, and by passage what was found of it.

The search runs as it always does, watched (`stages/trace.py`); nothing is taken from a cache, which keeps none of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headwater.highlight import Terms
from headwater.retrieve import Parts, compose, understood
from headwater.stages.trace import Inside, Trace
from headwater.types import Meta, Query, attributes
from headwater.typos import corrected


def inside(parts: Parts, query: Query) -> Inside:
    """The search of these options, and what it worked with."""
    trace = Trace()
    results = compose(replace(parts, trace=trace), query.options).retrieve(query)
    read = understood(query)
    read = replace(read, text=corrected(read.text, results.corrected))
    run = next((one for one in trace.runs if one.query.text == read.text), None)
    vector = run.vector if run is not None else None
    lanes = parts.cutter.query(read.text)
    terms = {"words": lanes.words, "grams": lanes.grams, "codes": lanes.codes}
    return Inside(
        results=results,
        total=results.total,
        ids=tuple(hit.chunk.name for hit in results),
        query_vector=() if vector is None else tuple(map(float, vector)),
        keywords=_keywords(read, parts),
        terms={lane: tuple(dict.fromkeys(found)) for lane, found in terms.items()},
        aggregation=results.document_counts,
        highlights={hit.chunk.name: hit.highlights for hit in results},
        fields={hit.chunk.name: _fields(attributes(hit.record, hit.chunk), hit.chunk.text) for hit in results},
        found={**results.leg_counts, **{stage: len(hits) for stage, hits in trace.stages.items()}},
    )


def _keywords(query: Query, parts: Parts) -> tuple[str, ...]:
    if query.options.mode == "substring":
        return (query.text,)
    places = sorted({(word.start, word.end) for word in Terms.of(query.text, parts.cutter).words})
    return tuple(dict.fromkeys(query.text[start:end] for start, end in places))


def _fields(seen: Meta, text: str) -> dict[str, Any]:
    return {**seen, "text": text}
