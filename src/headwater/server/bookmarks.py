"""An export of bookmarks over HTTP -> a job for every page it names, with folder, tags, note and dates."""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from headwater.errors import UsageError
from headwater.server import reach, wire
from headwater.server.auth import Writer
from headwater.server.promises import check_room
from headwater.server.state import Shared
from headwater.storage.ledger import Dataset, Job
from headwater.types import Labels, document_id

if TYPE_CHECKING:
    from headwater.sources.bookmarks import Bookmark

router = APIRouter(prefix="/api/v1", tags=["ingest"], responses=wire.ERRORS)
MAX_BOOKMARKS = 20_000  # in one request: each is a page to fetch
_EXAMPLE = {
    "export": "title,url,time_added,tags,status\nLeave,https://example.org/leave,1767225600,hr|law,unread\n",
    "collection": "bookmarks",
}


class Export(wire.Body):
    """What a browser or a service gave out, as text, and where it goes."""

    model_config = wire.examples(_EXAMPLE)
    export: str = Field(min_length=1, max_length=30_000_000)
    name: str = Field(default="bookmarks", min_length=1, max_length=200)  # what `listed_in` says of its pages
    dataset_id: str | None = Field(default=None, max_length=200)
    collection: str | None = Field(default=None, max_length=128)  # by name; made where it is missing
    tags: list[Annotated[str, Field(max_length=200)]] = Field(default_factory=list, max_length=200)
    folder: str = Field(default="", max_length=1000)
    priority: int = Field(default=0, ge=-1000, le=1000)


@router.post("/ingest/bookmarks", response_model=wire.Success, summary="Add the pages of an export of bookmarks")
def ingest_bookmarks(state: Shared, caller: Writer, given: Export) -> JSONResponse:
    """Netscape HTML, Pocket, Raindrop or Instapaper. A page that cannot be had is found by what its bookmark says."""
    from headwater.sources.bookmarks import read_export  # needed by few

    found = read_export(given.export.encode("utf-8", "surrogatepass"))
    if len(found) > MAX_BOOKMARKS:
        raise UsageError(f"an export may have {MAX_BOOKMARKS} bookmarks, got {len(found)}; send it in parts")
    dataset = reach.destination(state, caller, dataset_id=given.dataset_id, collection=given.collection)
    check_room(state, caller.owner, 0)
    ids = state.ledger.jobs.add_all([_job(one, dataset, given) for one in found])
    state.worker.wake()
    return wire.ok({"pages": len(ids), "job_ids": ids})


def _job(bookmark: "Bookmark", dataset: Dataset, given: Export) -> Job:
    from headwater.sources.bookmarks import labels_of

    labels = labels_of(bookmark, Labels(tags=tuple(given.tags), folder=given.folder), listed_in=given.name)
    told: dict[str, Any] = {"title": labels.title, "tags": list(labels.tags), "folder": labels.folder}
    told |= {"description": labels.description, "meta": dict(labels.meta)}
    return Job(
        id="",
        owner=dataset.owner,
        collection=dataset.collection,
        document=document_id(dataset.owner, dataset.collection, bookmark.url),
        uri=bookmark.url,
        kind="url",
        work={"url": bookmark.url, "labels": told},
        priority=given.priority,
    )
