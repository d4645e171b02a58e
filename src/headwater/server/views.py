"""A document as the page shows it: its facts, a stretch of its text, its passages, pictures of its pages."""

import asyncio
import os
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from headwater import shapes
from headwater.errors import NotFound, SourceError
from headwater.highlight import Terms
from headwater.kinds import kind_of
from headwater.server import console, conversations, reach, trials, tuning, wire
from headwater.server.asking import Asked, chosen_datasets, filter_of, options_of, question_of
from headwater.server.auth import Caller, Reader, Writer
from headwater.server.promises import start
from headwater.server.retrieval import Question
from headwater.server.state import Shared, State
from headwater.types import BOX_UNITS, Change, Document, Record, Span, boxes_of

router = APIRouter(prefix="/api/v1", tags=["page"], responses=wire.ERRORS)

# A browser draws so many characters at once without a pause; a longer text comes in stretches.
MAX_STRETCH = 120_000
PASSAGES = 100  # to a page of a document's passages
# A passage in a list is told by its first words.
FIRST_CHARS = 200
PDF = "application/pdf"
PICTURES = ("image/png", "image/jpeg", "image/webp", "image/gif")
MAX_WIDTH = 2000  # of a page's picture, in pixels
# A page is drawn in a process of its own: a file may be made to take gigabytes, or for ever.
RENDER_SECONDS = 20
RENDER_BYTES = 2 * 1024**3
KEPT_PICTURES = 64
MAX_TEXTS = 200

_RENDER = """
import contextlib, sys
with contextlib.suppress(ImportError):  # Windows has no such limits; the time is limited there too
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[4]),) * 2)
from headwater.parsers._pdf_render import render_page
sys.stdout.buffer.write(render_page(sys.stdin.buffer.read(), int(sys.argv[1]), width=int(sys.argv[2])))
"""


def install(app: FastAPI) -> None:
    """The other routes that only the page needs."""
    for module in (console, conversations, trials, tuning):
        app.include_router(module.router)


class Texts(wire.Body):
    """Texts to look for a question's words in."""

    model_config = wire.examples({"question": "parental leave", "texts": ["Parental leave is 26 weeks."]})
    question: str = Field(min_length=1, max_length=10_000)
    texts: list[Annotated[str, Field(max_length=200_000)]] = Field(max_length=MAX_TEXTS)


class _Pictures:
    """The pictures that were drawn last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int, int], bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, str, int, int]) -> bytes | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: tuple[str, str, int, int], picture: bytes) -> None:
        with self._lock:
            self._kept[key] = picture
            while len(self._kept) > KEPT_PICTURES:
                self._kept.popitem(last=False)


_pictures = _Pictures()


@router.get("/documents/{document_id}", response_model=wire.Success, summary="A document's facts")
def facts(state: Shared, caller: Reader, document_id: str) -> JSONResponse:
    """With its sections, where its pages start, what it is like and what came inside it."""
    record = reach.view(state, caller).seen(document_id)
    document = state.kb.catalog.document(record.id)
    original = state.ledger.originals.get(record.id)
    job = state.ledger.jobs.latest([record.id]).get(record.id)
    dataset = state.ledger.datasets.ensure(record.owner, record.collection)
    shape = wire.document_shape(record, dataset_id=dataset.id, original=original, job=job)
    return wire.ok(
        {
            **shape,
            "collection": dataset.name,
            "kind": kind_name(record),
            "chars": record.chars,
            "original": original is not None,
            "pictures": _has_pictures(state, record, document),
            "page_starts": list(document.page_starts) if document else [],
            "sections": _sections(document) if document else [],
            "alike": [
                {"id": other.id, "title": other.title or wire.name_of(other), "share": share}
                for other, share in _alike(state, caller, record)
            ],
            "attachments": [
                {"id": part.id, "title": part.title or wire.name_of(part)}
                for part in reach.view(state, caller).attachments(record.id)
            ],
        }
    )


def _alike(state: State, caller: Caller, record: Record) -> list[tuple[Record, float]]:
    """Those that the caller may see."""
    seen = reach.view(state, caller)
    from headwater.types import attributes

    return [(other, share) for other, share in seen.alike(record.id) if seen.scope.matches(attributes(other))]


def kind_name(record: Record) -> str:
    """What kind of file it is, in a word."""
    name = record.uri.rpartition("/")[2].rpartition("#")[2]
    suffix = Path(name).suffix.lstrip(".").upper() if "://" not in record.uri else ""
    kinds = {"text/html": "HTML", PDF: "PDF", "text/markdown": "Markdown", "text/plain": "Text"}
    return kinds.get(record.mime) or suffix or record.mime.rpartition("/")[2]


@router.get("/documents/{document_id}/stretch", response_model=wire.Success, summary="A stretch of a document's text")
def stretch(
    state: Shared,
    caller: Reader,
    document_id: str,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int, Query(ge=0)] = MAX_STRETCH,
) -> JSONResponse:
    """Whole lines around `[start, end)`, with the sections, tables, code and pages that stand in it."""
    record, document = _document(state, caller, document_id)
    text = document.text
    start = min(start, len(text))
    low = text.rfind("\n", 0, start) + 1
    high = text.find("\n", min(end, len(text)))
    high = len(text) if high < 0 else high + 1
    high = min(high, max(low + MAX_STRETCH, start))

    def shown(span: Span) -> bool:
        return span.start < high and span.end > low

    return wire.ok(
        {
            "start": low,
            "end": high,
            "total": len(text),
            "text": text[low:high],
            "mime": record.mime,
            "sections": [one for one in _sections(document) if low <= one["span"][0] < high],
            "blocks": [
                {"kind": block.kind, "span": list(block.span), "header": block.header}
                for block in document.blocks
                if shown(block.span)
            ],
            "hidden": [list(span) for span in document.hidden if shown(span)],
            "pages": [[page, at] for page, at in enumerate(document.page_starts, start=1) if low <= at < high],
        }
    )


@router.get("/documents/{document_id}/passages", response_model=wire.Success, summary="How a document was cut")
def passages(
    state: Shared, caller: Reader, document_id: str, page: Annotated[int, Query(ge=1, le=1_000_000)] = 1
) -> JSONResponse:
    """In the order of the text, each with its first words."""
    record = reach.view(state, caller).seen(document_id)
    found = state.kb.catalog.chunks_of(record.id)
    first = (page - 1) * PASSAGES
    shown = [
        {
            "id": chunk.name,
            "number": number,
            "span": list(chunk.span),
            "section": chunk.section,
            "pages": list(chunk.pages),
            "kind": chunk.kind,
            "text": chunk.text[:FIRST_CHARS],
        }
        for number, chunk in enumerate(found[first : first + PASSAGES], start=first + 1)
    ]
    return wire.ok({"passages": shown, "total": len(found)})


@router.get(
    "/documents/{document_id}/boxes", response_model=wire.Success, summary="Where a passage stands on its pages"
)
def boxes(
    state: Shared,
    caller: Reader,
    document_id: str,
    start: Annotated[int, Query(ge=0)],
    end: Annotated[int, Query(ge=0)],
) -> JSONResponse:
    """Its lines, in shares of the page's width and height from the top left; and its words."""
    _, document = _document(state, caller, document_id)
    lines = [
        {
            "page": box.page,
            "left": box.left / BOX_UNITS,
            "top": box.top / BOX_UNITS,
            "right": box.right / BOX_UNITS,
            "bottom": box.bottom / BOX_UNITS,
        }
        for box in (boxes_of(document, Span(start, end)) if end > start else ())
    ]
    return wire.ok({"lines": lines, "text": document.text[start : min(end, start + MAX_STRETCH)]})


@router.get(
    "/documents/{document_id}/pages/{page}",
    summary="A picture of a page",
    response_class=Response,
    responses={200: {"description": "A picture", "content": {mime: {} for mime in PICTURES}}},
)
async def page_picture(
    state: Shared, caller: Reader, document_id: str, page: int, width: Annotated[int, Query(ge=50, le=MAX_WIDTH)] = 1000
) -> Response:
    """Of a PDF, as a PNG; a picture is its own first page."""
    record, document = await asyncio.to_thread(_document, state, caller, document_id)
    key = (record.id, record.content_hash, page, width)
    if record.mime in PICTURES and page == 1:
        return Response(await asyncio.to_thread(_bytes, state, record), media_type=record.mime)
    if (known := _pictures.get(key)) is None:
        if not 1 <= page <= len(document.page_starts) or record.mime != PDF:
            raise NotFound(f"page must be from 1 to {len(document.page_starts)}, got {page!r}")
        known = await asyncio.to_thread(_drawn, _bytes(state, record), page, width)
        _pictures.put(key, known)
    return Response(known, media_type="image/png", headers={"Cache-Control": "private, max-age=3600"})


@router.post("/documents/{document_id}/reindex", response_model=wire.Success, summary="Index a document again")
def reindex(state: Shared, caller: Writer, document_id: str) -> JSONResponse:
    """From its original; answered at once. The document stays searchable as it was until then."""
    record = reach.view(state, caller).seen(document_id)
    if record.owner != caller.owner:
        raise reach.Forbidden(f"{record.title!r} belongs to somebody else; only its owner indexes it again")
    original = state.ledger.originals.get(record.id)
    if original is not None:
        last = state.ledger.jobs.latest([record.id]).get(record.id)
        job = start(state, original, labels=dict(last.work.get("labels", {})) if last is not None else {})
        return wire.ok({"job_id": job.id})
    change = Change(uri=record.uri, kind="put", owner=record.owner, collection=record.collection)
    state.kb.catalog.enqueue([change])
    state.worker.wake()
    return wire.ok({"job_id": ""})


@router.post("/matches", response_model=wire.Success, summary="Where a question's words stand in texts")
def matches(state: Shared, caller: Reader, given: Texts) -> JSONResponse:
    """For each text the places `[start, end)` of the words that search looks for."""
    terms = Terms.of(given.question, state.kb.cutter)
    return wire.ok([_merged([(one.start, one.end) for one in terms.find(text)]) for text in given.texts])


class WhyAsked(Asked):
    """A search, and the document to explain in it."""

    model_config = wire.examples({"question": "parental leave", "document": "149288c2dfeeb76d0ece"})
    question: Question
    document: str = Field(min_length=1, max_length=200)


@router.post("/why", response_model=wire.Success, summary="Why is it found, or not?")
async def why(state: Shared, caller: Reader, given: WhyAsked) -> JSONResponse:
    """The same search as `/retrieval` makes of this body, with its filters and options, explained for one document."""

    def explained() -> dict[str, Any]:
        where = filter_of(state, caller, given, datasets=chosen_datasets(state, caller, given))
        options = options_of(state, given, where=where, most_seconds=state.settings.deadline_seconds)
        seen = reach.view(state, caller)
        record = seen.seen(given.document)
        question = question_of(state, caller, given, question=given.question, where=where, options=options)
        told = seen.why(question, record.id, where=where, options=options, archived=given.archived)
        return shapes.explanation_shape(told)

    return wire.ok(await state.retrieval.run(explained, deadline_seconds=state.settings.deadline_seconds))


def _merged(spans: list[tuple[int, int]]) -> list[list[int]]:
    kept: list[list[int]] = []
    for low, high in sorted(spans):
        if kept and low <= kept[-1][1]:
            kept[-1][1] = max(kept[-1][1], high)
        else:
            kept.append([low, high])
    return kept


def _document(state: State, caller: Caller, id: str) -> tuple[Record, Document]:
    record = reach.view(state, caller).seen(id)
    document = state.kb.catalog.document(record.id)
    if document is None:
        raise NotFound(f"the document {record.title or id!r} has no text: {record.error or 'it is pending'}")
    return record, document


def _sections(document: Document) -> list[dict[str, Any]]:
    found = []
    for one in document.structure:
        line = document.text.find("\n", one.span.start, one.span.end)
        chars = (line if line >= 0 else one.span.end) - one.span.start
        found.append(
            {"title": one.title, "level": one.level, "path": one.path, "span": list(one.span), "title_chars": chars}
        )
    return found


def _has_pictures(state: State, record: Record, document: Document | None) -> bool:
    if document is None or not document.page_starts or record.mime not in (PDF, *PICTURES):
        return False
    return state.ledger.originals.get(record.id) is not None or os.path.isfile(record.uri)


def _bytes(state: State, record: Record) -> bytes:
    """The file that a document was made from: what was sent, else what lies where it was added from."""
    original = state.ledger.originals.get(record.id)
    if original is not None:
        return state.ledger.originals.read(original.hash)
    path = Path(record.uri)
    if not path.is_absolute() or not path.is_file():
        raise NotFound(f"the original of {record.title!r} is not here; its text is")
    data = path.read_bytes() if path.stat().st_size <= state.kb.config.ingest().max_file_bytes else b""
    if kind_of(path.name, data) != record.mime:
        # What lies there now is something else than what was added.
        raise NotFound(f"the original of {record.title!r} has changed; index it again, or read its text")
    return data


def _drawn(data: bytes, page: int, width: int) -> bytes:
    arguments = [str(page), str(width), str(RENDER_BYTES), str(RENDER_SECONDS)]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _RENDER, *arguments],
            input=data,
            capture_output=True,
            timeout=RENDER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"page {page} takes too long to draw; read its text instead") from None
    if done.returncode != 0 or not done.stdout.startswith(b"\x89PNG"):
        raise SourceError(f"page {page} cannot be drawn; read its text instead")
    return done.stdout
