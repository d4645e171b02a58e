"""The nouns as plain data, in the shapes of the public interface: what `--json` prints."""

import json
from typing import Any

from headwater.causes import Explanation
from headwater.stages.trace import Inside
from headwater.types import Answer, Citation, Hit, Record, Report, Results


def to_json(value: Any) -> str:
    """JSON a person can read, Chinese as it is."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def report_shape(report: Report) -> dict[str, Any]:
    """What an add did."""
    failed = [{"uri": failure.uri, "reason": failure.reason} for failure in report.failed]
    counts = {name: getattr(report, name) for name in ("added", "updated", "unchanged", "removed")}
    return {**counts, "failed": failed, "missing": list(report.missing), "took_ms": report.took_ms}


def record_shape(record: Record) -> dict[str, Any]:
    """A document of a list."""
    problems = [*([record.error] if record.error else []), *record.problems]
    plain = {name: getattr(record, name) for name in ("id", "uri", "title", "collection", "state", "chunks")}
    return {**plain, "problems": problems}


def checkup_shape(record: Record, alike: list[tuple[Record, float]], attachments: list[Record]) -> dict[str, Any]:
    """What the doctor knows of a document: how much of it is there, and what it goes with."""
    return {
        "coverage": dict(record.coverage),
        "alike": [{"id": other.id, "uri": other.uri, "share": share} for other, share in alike],
        "attachments": [{"id": part.id, "uri": part.uri, "state": part.state} for part in attachments],
    }


def hit_shape(hit: Hit) -> dict[str, Any]:
    """A passage that was found."""
    return {
        "rank": hit.rank,
        "chunk_id": hit.chunk.name,
        "document_id": hit.document_id,
        "uri": hit.uri,
        "title": hit.title,
        "collection": hit.record.collection,
        "text": hit.chunk.text,
        "section": hit.chunk.section,
        "pages": list(hit.chunk.pages),
        "span": list(hit.chunk.span),
        "score": hit.score,
        "scores": dict(hit.scores),
        "reasons": list(hit.reasons),
        "highlights": list(hit.highlights),
        "found": [list(span) for span in hit.found],
        "duplicates": list(hit.duplicates),
        "meta": {**hit.record.meta, "tags": list(hit.record.tags)},
    }


def results_shape(results: Results) -> dict[str, Any]:
    """A search."""
    return {
        "query": results.query.text,
        "mode_used": results.mode_used,
        "fallback_reason": results.fallback_reason,
        "corrected": dict(results.corrected),
        "degraded": list(results.degraded),
        "total": results.total,
        "took_ms": results.timings_ms.get("total", 0.0),
        "timings_ms": dict(results.timings_ms),
        "doc_aggs": dict(results.document_counts),
        "listed": results.listed,
        "hits": [hit_shape(hit) for hit in results],
    }


def inside_shape(seen: Inside) -> dict[str, Any]:
    """A search from inside."""
    names = ("total", "ids", "query_vector", "keywords", "terms", "aggregation", "highlights", "fields", "found")
    return {name: getattr(seen, name) for name in names}


def citation_shape(citation: Citation) -> dict[str, Any]:
    """The words behind a sentence."""
    names = ("marker", "document_id", "uri", "title", "section", "quote", "support")
    plain = {name: getattr(citation, name) for name in names}
    return {**plain, "pages": list(citation.pages), "span": list(citation.span)}


def answer_shape(answer: Answer) -> dict[str, Any]:
    """An answer with all it rests on."""
    verdict = {"accepted": answer.verdict.accepted, "reason": answer.verdict.reason, "score": answer.verdict.score}
    return {
        "question": answer.query.text,
        "answer": answer.text,
        "citations": [citation_shape(citation) for citation in answer.citations],
        "corrected": dict(answer.corrected),
        "degraded": list(answer.degraded),
        "verdict": verdict,
        "hits": [hit_shape(hit) for hit in answer.hits],
        "trace": [{"stage": s.stage, "milliseconds": s.milliseconds, "note": s.note} for s in answer.trace],
    }


def explanation_shape(told: Explanation) -> dict[str, Any]:
    """Why a document was found, or not."""
    names = ("query", "document", "found", "cause", "reason", "document_id", "uri", "title", "rank", "change")
    standings = [
        {"stage": one.stage, "rank": one.rank, "of": one.of, "score": one.score, "passage": one.passage}
        for one in told.stages
    ]
    lanes = {lane: {kind: list(terms) for kind, terms in found.items()} for lane, found in told.lanes.items()}
    return {
        **{name: getattr(told, name) for name in names},
        "changes": dict(told.changes),
        "stages": standings,
        "matched": list(told.matched),
        "missing": list(told.missing),
        "lanes": lanes,
        "filters": dict(told.filters),
        "notes": list(told.notes),
    }
