"""Pages and texts over HTTP: answered at once with a job that indexes them."""

from hashlib import blake2b
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import UsageError
from headwater.server import reach, wire
from headwater.server.auth import Caller, Writer
from headwater.server.promises import check_room, promise, safe_name
from headwater.server.state import Shared, State
from headwater.storage.ledger import Dataset, Job
from headwater.types import document_id

router = APIRouter(prefix="/api/v1", tags=["ingest"], responses=wire.ERRORS)
TEXT = "text:/"
_Tag = Annotated[str, Field(max_length=200)]
_Value = str | int | float | bool


class Labelled(wire.Body):
    """Where a document goes, and what is said of it."""

    dataset_id: str | None = Field(default=None, max_length=200)
    collection: str | None = Field(default=None, max_length=128)  # by name; made where it is missing
    title: str = Field(default="", max_length=1000)
    tags: list[_Tag] = Field(default_factory=list, max_length=200)
    folder: str = Field(default="", max_length=1000)
    content_type: str = Field(default="", max_length=100)
    description: str = Field(default="", max_length=10_000)
    meta: dict[str, _Value | list[_Value]] = Field(default_factory=dict, max_length=200)
    client_source: str = Field(default="", max_length=100)  # what sent it: a browser extension, a phone
    priority: int = Field(default=0, ge=-1000, le=1000)


class Page(Labelled):
    """A page to fetch."""

    model_config = wire.examples({"url": "https://example.org/leave", "tags": ["hr"]})
    url: str = Field(min_length=1, max_length=4000)


class Html(Labelled):
    """A page as a browser has it."""

    model_config = wire.examples({"url": "https://example.org/leave", "html": "<h1>Leave</h1><p>26 weeks.</p>"})
    url: str = Field(min_length=1, max_length=4000)
    html: str = Field(min_length=1, max_length=30_000_000)


class Text(Labelled):
    """A text under a name of the caller's."""

    model_config = wire.examples({"uri": "note-1", "text": "Parental leave is 26 weeks.", "collection": "notes"})
    uri: str = Field(default="", max_length=2000)  # empty for a name made from the text
    text: str = Field(min_length=1, max_length=30_000_000)
    mime: str = Field(default="text/plain", max_length=100, pattern=r"^text/(plain|markdown|html|csv)$")


@router.post("/ingest/url", response_model=wire.Success, summary="Add a page by its address")
def ingest_url(state: Shared, caller: Writer, given: Page) -> JSONResponse:
    """Answered at once; the page is fetched, and fetched again only where it changed."""
    from headwater.sources.web import normalised  # heavy, and needed by few

    checked_url(given.url)
    url = normalised(given.url)
    dataset = target(state, caller, given)
    check_room(state, caller.owner, 0)
    job = state.ledger.jobs.add(
        owner=dataset.owner,
        collection=dataset.collection,
        document=document_id(dataset.owner, dataset.collection, url),
        uri=url,
        kind="url",
        work={"url": url, "labels": labels(given)},
        priority=given.priority,
    )
    state.worker.wake()
    return wire.ok(promised(job, title=given.title or given.url))


@router.post("/ingest/html", response_model=wire.Success, summary="Add a page as a browser has it")
def ingest_html(state: Shared, caller: Writer, given: Html) -> JSONResponse:
    """What a browser extension sends: no fetching, so pages behind a sign-in come in as they were seen."""
    from headwater.sources.web import normalised

    checked_url(given.url)
    url = normalised(given.url)  # the same page by either way is one document
    dataset = target(state, caller, given)
    name = safe_name(urlsplit(url).path.rpartition("/")[2] or "page.html")
    _, job = promise(
        state,
        dataset,
        uri=url,
        data=given.html.encode(),
        name=name,
        mime="text/html",
        labels=labels(given),
        priority=given.priority,
    )
    assert job is not None
    return wire.ok(promised(job, title=given.title or given.url))


@router.post("/ingest/text", response_model=wire.Success, summary="Add a text")
def ingest_text(state: Shared, caller: Writer, given: Text) -> JSONResponse:
    """The same text under the same name is no work; another one replaces it."""
    dataset = target(state, caller, given)
    uri = given.uri or f"{TEXT}{blake2b(given.text.encode(), digest_size=8).hexdigest()}"
    job = put_text(state, dataset, uri=uri, text=given.text, mime=given.mime, labels=labels(given))
    return wire.ok(promised(job, title=given.title or uri))


def put_text(
    state: State, dataset: Dataset, *, uri: str, text: str, mime: str, labels: dict[str, Any], priority: int = 0
) -> Job:
    """Keep a text and promise to index it."""
    # A name that looks like a path of this machine is one of the caller's own all the same.
    named = uri if "://" in uri or ":" in uri.partition("/")[0] else TEXT + uri
    _, job = promise(
        state, dataset, uri=named, data=text.encode(), name=safe_name(uri), mime=mime, labels=labels, priority=priority
    )
    assert job is not None
    return job


def target(state: State, caller: Caller, given: Labelled) -> Dataset:
    """The dataset a document goes to."""
    return reach.destination(state, caller, dataset_id=given.dataset_id, collection=given.collection)


def labels(given: Labelled) -> dict[str, Any]:
    """What is said of a document, as a job keeps it."""
    meta: dict[str, Any] = dict(given.meta)
    if given.client_source:
        meta["client_source"] = given.client_source
    told = given.model_dump(include={"title", "tags", "folder", "content_type", "description"})
    return {**told, "meta": meta}


def promised(job: Job, *, title: str) -> dict[str, Any]:
    """The answer to a promise."""
    shape = wire.job_shape(job)
    return {**shape, "job_id": job.id, "title": title, "bookmarkId": job.document}


def checked_url(url: str) -> None:
    """Refuse what is no address of a page. Where it leads is checked when it is fetched."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{url!r} is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise UsageError(f"an address is http:// or https:// with a host and without a password, got {url!r}")
