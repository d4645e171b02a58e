"""The nouns as JSON on the wire, requests as checked values, and errors as a status with a name. One place for all."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import to_json

from headwater.errors import BackendError, HeadwaterError, NotFound, SourceError, SpaceMismatch, UsageError
from headwater.server.auth import Forbidden, Unauthorized
from headwater.server.pools import Busy, TooLate
from headwater.server.similarity import by_meaning, by_words, similarities
from headwater.storage.ledger import Dataset, Job, Original, Taken
from headwater.types import Chunk, Hit, Record, Results

ErrorName = Literal["AUTHENTICATION_ERROR", "ARGUMENT_ERROR", "DATA_ERROR", "OPERATING_ERROR", "SERVER_ERROR"]
# The integers that clients of RAGFlow know.
CODES: dict[str, int] = {
    "ARGUMENT_ERROR": 101,
    "DATA_ERROR": 102,
    "OPERATING_ERROR": 103,
    "AUTHENTICATION_ERROR": 109,
    "SERVER_ERROR": 500,
}
RETRY_SECONDS = 1
# Where Dify asks, and the numbers it suggests for a key that will not do and for a dataset that is not there.
DIFY_PATHS = ("/retrieval", "/api/v1/dify/retrieval")
DIFY_CODES = {401: 1002, 403: 1002, 404: 2001}
RUNS = {
    "pending": "UNSTART",
    "processing": "RUNNING",
    "indexed": "RUNNING",
    "completed": "DONE",
    "empty": "FAIL",
    "failed": "FAIL",
    "cancelled": "CANCEL",
}


class TooLarge(UsageError):
    """A body or a file over the limit."""


class OverQuota(UsageError):
    """The owner's room is used up."""


class NotHere(BackendError):
    """Something that this installation cannot do."""


class Conflict(UsageError):
    """What is asked does not go with how things are."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What an error is on the wire."""

    status: int
    name: ErrorName


# The first that fits; a message may always be shown, but for what nobody foresaw.
_FAULTS: tuple[tuple[type[HeadwaterError], Fault], ...] = (
    (Unauthorized, Fault(401, "AUTHENTICATION_ERROR")),
    (Forbidden, Fault(403, "AUTHENTICATION_ERROR")),
    (TooLarge, Fault(413, "ARGUMENT_ERROR")),
    (OverQuota, Fault(413, "DATA_ERROR")),
    (Taken, Fault(409, "DATA_ERROR")),
    (Conflict, Fault(409, "DATA_ERROR")),
    (SpaceMismatch, Fault(409, "DATA_ERROR")),
    (NotFound, Fault(404, "DATA_ERROR")),
    (UsageError, Fault(400, "ARGUMENT_ERROR")),
    (SourceError, Fault(422, "DATA_ERROR")),
    (Busy, Fault(429, "OPERATING_ERROR")),
    (TooLate, Fault(503, "OPERATING_ERROR")),
    (NotHere, Fault(501, "OPERATING_ERROR")),
    (BackendError, Fault(503, "OPERATING_ERROR")),
)


def fault_of(error: HeadwaterError) -> Fault:
    """The status and the name of an error."""
    return next((fault for kind, fault in _FAULTS if isinstance(error, kind)), Fault(500, "SERVER_ERROR"))


class Json(JSONResponse):
    """The same bytes in a fifth of the time, for every other request waits while one is written."""

    def render(self, content: Any) -> bytes:
        """JSON without spaces; what is no number is null."""
        return to_json(content, inf_nan_mode="null")


def ok(data: Any = None, **beside: Any) -> JSONResponse:
    """A success."""
    return Json({"code": 0, "message": "", "data": data, **beside})


def failed(fault: Fault, message: str, *, path: str = "") -> JSONResponse:
    """An error, in the shape that the clients of this path read."""
    headers = {"Retry-After": str(RETRY_SECONDS)} if fault.status in (429, 503) else {}
    if fault.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if path == "/v1" or path.startswith("/v1/"):
        told = {"message": message, "type": fault.name.lower(), "code": fault.name, "param": None}
        return JSONResponse({"error": told}, status_code=fault.status, headers=headers)
    body = {"code": CODES[fault.name], "error": fault.name, "message": message, "data": None}
    if path in DIFY_PATHS:
        code = DIFY_CODES.get(fault.status)
        body |= {"error_msg": message} if code is None else {"error_code": code, "error_msg": message}
    return JSONResponse(body, status_code=fault.status, headers=headers)


# ------------------------------------------------------------------------------------------- for OpenAPI


class Success(BaseModel):
    """What every call answers that went well."""

    code: Literal[0] = 0
    message: str = ""
    data: Any = None


class Failure(BaseModel):
    """What every call answers that did not: `error` is the name, `code` the same as a number."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "code": 102,
                    "error": "DATA_ERROR",
                    "message": "no dataset has the id 'x'; list the datasets to see those that exist",
                    "data": None,
                }
            ]
        }
    )
    code: int
    error: ErrorName
    message: str
    data: None = None


_SAYS = {
    400: "ARGUMENT_ERROR: a value that cannot be used",
    401: "AUTHENTICATION_ERROR: no key, or none that is valid",
    403: "AUTHENTICATION_ERROR: a key that does not allow this",
    404: "DATA_ERROR: there is no such thing, for this caller",
    408: "ARGUMENT_ERROR: the body came too slowly",
    409: "DATA_ERROR: it does not go with how things are",
    413: "ARGUMENT_ERROR or DATA_ERROR: too large, or no room left for this owner",
    422: "ARGUMENT_ERROR: the request does not have the right shape",
    429: "OPERATING_ERROR: too many requests; see Retry-After",
    500: "SERVER_ERROR: a defect; the log says more under the request id",
    501: "OPERATING_ERROR: this installation cannot do that",
    503: "OPERATING_ERROR: a store or a model failed; see Retry-After",
}
ERRORS: dict[int | str, dict[str, Any]] = {s: {"model": Failure, "description": says} for s, says in _SAYS.items()}


def examples(*values: Any) -> ConfigDict:
    """A model's examples in OpenAPI, and that it takes more than it names."""
    return ConfigDict(extra="ignore", json_schema_extra={"examples": list(values)})


class Body(BaseModel):
    """A request's body. Half of a pair of UTF-16 is no text: it is refused before anything looks at it."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _is_text(cls, told: Any) -> Any:
        if _has_surrogate(told):
            raise ValueError("text must be valid Unicode; half of a surrogate pair is not")
        return told


def _has_surrogate(told: Any) -> bool:
    if isinstance(told, str):
        return any("\ud800" <= char <= "\udfff" for char in told) if not told.isascii() else False
    if isinstance(told, dict):
        return any(_has_surrogate(key) or _has_surrogate(value) for key, value in told.items())
    return isinstance(told, list) and any(map(_has_surrogate, told))


class Ids(Body):
    """Which ones; None for all of them."""

    model_config = examples({"ids": ["3868d5b1cf1f9a4b49e4"]})
    ids: list[str] | None = Field(default=None, max_length=10_000)


# ------------------------------------------------------------------------------------------------ nouns


def dataset_shape(dataset: Dataset, *, documents: int, chunks: int, embedder: str = "") -> dict[str, Any]:
    """A collection, as clients of RAGFlow know it and with what is ours beside it."""
    return {
        "id": dataset.id,
        "name": dataset.name,
        "description": dataset.description,
        "avatar": "",
        "tenant_id": dataset.owner,
        "permission": "team" if dataset.scope == "shared" else "me",
        "scope": dataset.scope,
        "collection": dataset.collection,
        "owner": dataset.owner,
        "document_count": documents,
        "chunk_count": chunks,
        "chunk_method": dataset.options.get("chunk_method", "naive"),
        "embedding_model": embedder,
        "parser_config": dataset.options.get("parser_config", {}),
        "pagerank": 0,
        "options": dict(dataset.options),
        "created": dataset.created,
        "updated": dataset.updated,
        "create_time": milliseconds(dataset.created),
        "update_time": milliseconds(dataset.updated),
    }


def document_shape(
    record: Record, *, dataset_id: str, original: Original | None = None, job: Job | None = None
) -> dict[str, Any]:
    """A document of a list. While a job is open its state is the job's."""
    state = state_of(record, job)
    progress = 1.0 if state == "completed" else -1.0 if state in ("failed", "empty") else 0.0
    if job is not None and job.is_open:
        progress = job.percent / 100
    reason = record.error or (job.reason if job is not None else "")
    return {
        "id": record.id,
        "dataset_id": dataset_id,
        "name": name_of(record, original),
        "uri": record.uri,
        "title": record.title,
        "type": "doc",
        "source_type": "local",
        "created_by": record.owner,
        "owner": record.owner,
        "collection": record.collection,
        "size": original.bytes if original else record.chars,
        "chunk_count": record.chunks,
        "token_count": 0,
        "chunk_method": "naive",
        "parser_config": {},
        "state": state,
        "run": "RUNNING" if job is not None and job.is_open else RUNS.get(state, "UNSTART"),
        "progress": progress,
        "progress_msg": reason,
        "process_duration": 0.0,
        "status": "0" if record.archived else "1",
        "error": reason,
        "problems": list(record.problems),
        "tags": list(record.tags),
        "folder": record.folder,
        "content_type": record.content_type,
        "description": record.description,
        "mime": record.mime,
        "archived": record.archived,
        "meta_fields": plain_meta(record.meta),
        "coverage": dict(record.coverage),
        "created": record.created,
        "updated": record.updated,
        "create_time": milliseconds(record.created),
        "update_time": milliseconds(record.updated),
        "job_id": job.id if job is not None else None,
    }


def state_of(record: Record, job: Job | None) -> str:
    """Where a document stands: its job's state while that is open, or where nothing came of it."""
    if job is not None and (job.is_open or (job.state != "completed" and not record.ticket)):
        return job.state
    return record.state


def pending_record(job: Job, original: Original | None) -> Record:
    """A document that was promised and is not there yet."""
    labels = job.work.get("labels", {})
    return Record(
        id=job.document,
        uri=job.uri,
        owner=job.owner,
        collection=job.collection,
        title=labels.get("title") or (original.name if original else job.uri),
        tags=tuple(labels.get("tags", ())),
        folder=labels.get("folder", ""),
        content_type=labels.get("content_type") or "text",
        archived=bool(labels.get("archived")),
        mime=original.mime if original else "",
        state="pending",
        created=job.created,
        updated=job.updated,
        meta=labels.get("meta", {}),
    )


def name_of(record: Record, original: Original | None = None) -> str:
    """What a document is called in a list: the file's name, else the end of its uri."""
    if original is not None and original.name:
        return original.name
    return named(record.uri, record.title)


def named(uri: str, title: str) -> str:
    """The end of a uri, else the title."""
    return uri.rstrip("/").rpartition("/")[2] or title


def chunk_shape(chunk: Chunk, record: Record, *, dataset_id: str, name: str) -> dict[str, Any]:
    """A passage of a document."""
    return {
        "id": chunk.name,
        "content": chunk.text,
        "document_id": record.id,
        "document_name": name,
        "docnm_kwd": name,
        "dataset_id": dataset_id,
        "important_keywords": list(map(str, _several(record.meta.get("important_keywords")))),
        "questions": list(map(str, _several(record.meta.get("questions")))),
        "available": not record.archived,
        "image_id": "",
        "positions": [[page, chunk.span.start, chunk.span.end] for page in chunk.pages],
        "span": list(chunk.span),
        "section": chunk.section,
        "pages": list(chunk.pages),
        "kind": chunk.kind,
    }


def hit_shape(hit: Hit, *, dataset_id: str, name: str, highlight: bool, similarity: float) -> dict[str, Any]:
    """A passage that was found, with the score of every stage; what is called a similarity is from 0 to 1."""
    scores = {name: float(value) for name, value in hit.scores.items()}
    return {
        **chunk_shape(hit.chunk, hit.record, dataset_id=dataset_id, name=name),
        "chunk_id": hit.chunk.name,
        "kb_id": dataset_id,
        "document_keyword": name,
        "similarity": similarity,
        "vector_similarity": by_meaning(scores),
        "term_similarity": by_words(scores),
        "highlight": " … ".join(hit.highlights) if highlight else "",
        "highlights": list(hit.highlights) if highlight else [],
        "rank": hit.rank,
        "score": float(hit.score),
        "scores": scores,
        "ranks": dict(hit.ranks),
        "reasons": list(hit.reasons),
        "uri": hit.uri,
        "title": hit.title,
        "collection": hit.record.collection,
        "owner": hit.record.owner,
        "found": [list(span) for span in hit.found],
        "duplicates": list(hit.duplicates),
        "doc_type": hit.record.content_type,
        "meta": {**plain_meta(hit.record.meta), "tags": list(hit.record.tags)},
    }


def results_shape(results: Results, *, ids: dict[tuple[str, str], str], names: dict[str, str]) -> dict[str, Any]:
    """A search: one page of passages, how many hits each document has, and how it came about."""
    aggregates = [
        {"doc_id": id, "doc_name": names.get(id, id), "count": count} for id, count in results.document_counts.items()
    ]
    asked = results.query.options
    alike = similarities(results.hits, results.mode_used)
    whose = [ids.get((hit.record.owner, hit.record.collection), "") for hit in results]
    return {
        "question": results.query.text,
        "chunks": [
            hit_shape(
                hit,
                dataset_id=dataset_id,
                name=names[hit.document_id],
                highlight=asked.highlight,
                similarity=similarity,
            )
            for hit, dataset_id, similarity in zip(results, whose, alike, strict=True)
        ],
        "doc_aggs": aggregates,
        "total": results.total,
        "mode_used": results.mode_used,
        "fallback_reason": results.fallback_reason,
        "corrected": dict(results.corrected),
        "degraded": list(results.degraded),
        "timings_ms": dict(results.timings_ms),
        "generation": results.generation,
    }


def job_shape(job: Job) -> dict[str, Any]:
    """Where a piece of work stands."""
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state,
        "status": job.state,
        "stage": job.stage,
        "percent": job.percent,
        "stopping": job.is_open and bool(job.stop),
        "reason": job.reason,
        "attempts": job.attempts,
        "priority": job.priority,
        "document_id": job.document,
        "uri": job.uri,
        "collection": job.collection,
        "created": job.created,
        "updated": job.updated,
    }


def plain_meta(meta: Any) -> dict[str, Any]:
    """Properties as JSON has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in meta.items()}


def seconds(moment: str) -> int:
    """A time of ours as clients of OpenAI know it; 0 where there is none."""
    return milliseconds(moment) // 1000


def milliseconds(moment: str) -> int:
    """A time of ours as clients of RAGFlow know it; 0 where there is none."""
    try:
        return int(datetime.fromisoformat(moment).timestamp() * 1000)
    except ValueError:
        return 0


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else () if value is None else (value,)
