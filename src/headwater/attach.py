"""A document with others inside it -> changes for those: the files of a mail become documents of their own.

An attachment is `<uri of the whole>#<name>`, says in its meta what it is `part_of`, has the owner, the collection and
the labels of the whole, and goes where the whole goes. Its bytes travel with the change: nobody can read them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from headwater.errors import SourceError
from headwater.filters import Compare, conjoin
from headwater.protocols import Catalog
from headwater.types import Change, Document, Meta, Record

PART_OF: Final = "part_of"
JOINT: Final = "#"
# In the meta of a passage that a person added to a document over the API: the id of that document.
MANUAL_OF: Final = "manual_of"
MANUAL_URI: Final = "#manual-"  # stands in its uri, behind that of the document
# Where a record says how many it has, so that nothing has to be looked for in documents that have none.
COUNT: Final = "attachments"
# A mail in a mail in a mail: nobody's is deeper, and what is made to be has no end.
MAX_DEPTH: Final = 8
# A mailbox of a long-lived list has thousands.
MAX_ATTACHMENTS: Final = 10_000


def attached(
    change: Change, document: Document, *, refuse: Callable[[str], object]
) -> tuple[list[Change], tuple[str, ...]]:
    """The changes that put a document's attachments, and why others are left out.

    `refuse` raises SourceError for a mime type that no parser reads.
    """
    if not document.attachments:
        return [], ()
    if change.uri.count(JOINT) >= MAX_DEPTH:
        return [], (f"{len(document.attachments)} attachments are left out: they are more than {MAX_DEPTH} deep",)
    puts: dict[str, Change] = {}
    problems = []
    for blob in document.attachments[:MAX_ATTACHMENTS]:
        told = blob.uri.removeprefix(change.uri + JOINT).replace("\\", "/")
        name = _free_name(PurePosixPath(told).name or "attachment", puts)
        uri = f"{change.uri}{JOINT}{name}"
        try:
            refuse(blob.mime)
        except SourceError as error:
            problems.append(f"attachment {name!r} is left out: {error}")
            continue
        labels = replace(change.labels, title="", description="", meta={**change.labels.meta, PART_OF: change.uri})
        payload = replace(blob, uri=uri, modified=blob.modified or document.updated)
        puts[name] = Change(
            uri=uri, kind="put", owner=change.owner, collection=change.collection, labels=labels, payload=payload
        )
    if len(document.attachments) > MAX_ATTACHMENTS:
        problems.append(f"only the first {MAX_ATTACHMENTS} of {len(document.attachments)} attachments are read")
    return list(puts.values()), tuple(problems)


def _free_name(name: str, taken: Iterable[str]) -> str:
    """The name, or with a number where two are called the same."""
    free, number = name, 1
    while free in taken:
        number += 1
        path = PurePosixPath(name)
        free = f"{path.stem} ({number}){path.suffix}"
    return free


def own_title(document: Document, change: Change) -> str:
    """The title of a document; of an attachment that has no other, its own name without that of the whole."""
    whole, called = whole_of(change), PurePosixPath(change.uri)
    if not whole or document.title not in ("", called.stem, called.name):
        return document.title
    own = PurePosixPath(change.uri.removeprefix(whole + JOINT))
    return own.name if document.title == called.name else own.stem


def whole_of(change: Change) -> str:
    """The uri of what a change's document is part of, or nothing."""
    return str(change.labels.meta.get(PART_OF, ""))


def is_part(uri: str, meta: Meta) -> bool:
    """Whether a document came inside another. One that only says so in words of its own stands alone."""
    return PART_OF in meta and uri.startswith(f"{meta[PART_OF]}{JOINT}")


def is_by_hand(uri: str, meta: Meta) -> bool:
    """Whether a document is a passage that a person added to another; its own words do not make it one."""
    return MANUAL_OF in meta and MANUAL_URI in uri


def parts_of(catalog: Catalog, record: Record) -> list[Record]:
    """The documents that came inside one, by uri."""
    if not record.coverage.get(COUNT):
        return []
    where = conjoin(
        Compare("owner", "=", record.owner),
        Compare("collection", "=", record.collection),
        Compare(PART_OF, "=", record.uri),
    )
    return [part for part in catalog.records(where) if is_part(part.uri, part.meta)]


def with_parts(catalog: Catalog, records: Iterable[Record]) -> Iterator[Record]:
    """Documents, each followed by all that came inside it."""
    for record in records:
        yield record
        yield from with_parts(catalog, parts_of(catalog, record))


def removal(record: Record) -> Change:
    """The change that takes a document away."""
    return Change(uri=record.uri, kind="delete", owner=record.owner, collection=record.collection)
