"""A list -> one page of it in OpenAI's words: so many after or before the one that a client has seen."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from headwater.errors import UsageError

_T = TypeVar("_T")


class Cursor(BaseModel):
    """Which page: in the order in which things came about, the latest first unless said otherwise."""

    limit: int = Field(default=20, ge=1, le=100)
    order: Literal["asc", "desc"] = "desc"
    after: str | None = Field(default=None, max_length=200)
    before: str | None = Field(default=None, max_length=200)


class Listed(BaseModel):
    """A page of a list."""

    model_config = ConfigDict(extra="allow")
    object: Literal["list"] = "list"
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


def paged(
    found: Sequence[_T],
    cursor: Cursor,
    *,
    place: Callable[[_T], tuple[str, str]],
    shape: Callable[[_T], dict[str, Any]],
) -> JSONResponse:
    """The page that is asked for; `place` is when each came about, and its id."""
    listed = sorted(found, key=place, reverse=cursor.order == "desc")
    ids = [place(one)[1] for one in listed]
    first = _at(ids, cursor.after, "after") + 1 if cursor.after else 0
    last = _at(ids, cursor.before, "before") if cursor.before else len(ids)
    more = last - first > cursor.limit
    if more and cursor.before and not cursor.after:
        first = last - cursor.limit  # the page that ends where the other one begins
    chosen = slice(first, max(first, min(last, first + cursor.limit)))
    shown = ids[chosen]
    return JSONResponse(
        {
            "object": "list",
            "data": [shape(one) for one in listed[chosen]],
            "first_id": shown[0] if shown else None,
            "last_id": shown[-1] if shown else None,
            "has_more": more,
        }
    )


def _at(ids: Sequence[str], id: str, name: str) -> int:
    if id not in ids:
        raise UsageError(f"nothing in this list has the id {id!r}; begin again without `{name}`")
    return ids.index(id)
