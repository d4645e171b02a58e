"""Two catalogs -> what they do not share: documents that only one has, and documents that differ, and in what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from headwater.filters import ALL
from headwater.protocols import Catalog
from headwater.types import Record

Kind = Literal["text", "metadata", "tags"]
# What people say of a document, and what it says of itself. Dates are those of its file, and differ between machines.
METADATA: Final = ("title", "description", "folder", "content_type", "mime", "archived", "meta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A document that only one of them has, or in what it differs."""

    id: str
    owner: str
    collection: str
    uri: str
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Documents by collection and uri: only in the first, only in the second, in both and different."""

    first: tuple[Named, ...]
    second: tuple[Named, ...]
    different: tuple[Named, ...]
    same: int


def compare(first: Catalog, second: Catalog) -> Compared:
    """What two catalogs do not share."""
    others = {record.id: record for record in second.records(ALL)}
    only, different, same = [], [], 0
    for record in first.records(ALL):
        other = others.pop(record.id, None)
        if other is None:
            only.append(_named(record))
        elif kinds := _kinds(first, second, record, other):
            different.append(_named(record, kinds))
        else:
            same += 1
    left = tuple(_named(record) for record in others.values())
    return Compared(first=tuple(only), second=left, different=tuple(different), same=same)


def _named(record: Record, kinds: tuple[Kind, ...] = ()) -> Named:
    return Named(id=record.id, owner=record.owner, collection=record.collection, uri=record.uri, kinds=kinds)


def _kinds(first: Catalog, second: Catalog, record: Record, other: Record) -> tuple[Kind, ...]:
    found: dict[Kind, bool] = {"text": not _is_same_text(first, second, record, other)}
    if record.ticket and other.ticket:  # of one that could not be read nothing is known but that
        found["metadata"] = any(getattr(record, name) != getattr(other, name) for name in METADATA)
        found["tags"] = sorted(record.tags) != sorted(other.tags)
    return tuple(kind for kind, differs in found.items() if differs)


def _is_same_text(first: Catalog, second: Catalog, record: Record, other: Record) -> bool:
    if not record.ticket or not other.ticket:
        return bool(record.ticket) == bool(other.ticket)
    if record.chars != other.chars:
        return False
    if record.content_hash and record.content_hash == other.content_hash:
        return True
    one, two = first.document(record.id), second.document(other.id)
    return (one and one.text) == (two and two.text)
