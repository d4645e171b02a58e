"""References between documents <-> rows: who links to whom within a collection.

A reference names a document by its title, one of its aliases, its file name with or without the ending, its uri or its
canonical address. SQL proposes, `names_of` decides: the same for every catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import unquote

from headwater.storage._rows import packed, readable, storable
from headwater.storage._sql import Connection
from headwater.types import Document, Link, Record, document_id

_ASCII_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
# Properties that hold further names of a document.
_NAMES: Final = ("aliases", "canonical")
# What stands behind the last slash, in the way SQLite can say it; the schema has an index of exactly this.
_FILE: Final = "lower(replace(uri, rtrim(uri, replace(uri, '/', '')), ''))"
# Of one document: a page of a thousand links is a list of links, and none of them says much.
MOST_LINKS: Final = 200


def lowered(name: str) -> str:
    """Small letters as SQLite makes them: of the Latin ones only."""
    return name.translate(_ASCII_LOWER)


def names_of(record: Record) -> set[str]:
    """What a reference to this document may say."""
    file = lowered(record.uri.rpartition("/")[2])
    names = {record.uri, lowered(record.title), file, file.rpartition(".")[0]}
    for key in _NAMES:
        told = record.meta.get(key, ())
        names.update(map(str, told if isinstance(told, tuple) else (told,)))
    return names - {""}


def keys_of(target: str) -> set[str]:
    """The names that a reference may stand for: without its heading, as it is, in small letters, and its last part."""
    whole = unquote(target).partition("#")[0].strip()
    keys = {whole, lowered(whole)}
    if "://" not in whole:
        keys.add(lowered(whole.rstrip("/").rpartition("/")[2]))
    return keys - {""}


def link_rows(ticket: int, links: Sequence[Link]) -> list[tuple[str | bytes, int]]:
    """The rows of one version, each key once."""
    keys = {key for link in links[:MOST_LINKS] for key in keys_of(link.target)}
    return [(storable(key), ticket) for key in sorted(keys)]


def links_among(documents: Iterable[Document], records: Sequence[Record], ids: Sequence[str]) -> list[tuple[str, str]]:
    """All references that begin or end at these documents, by looking at every one: what is meant."""
    found: set[tuple[str, str]] = set()
    for document in documents:
        keys = {key for link in document.links[:MOST_LINKS] for key in keys_of(link.target)}
        scope = (document.owner, document.collection)
        for record in records if keys else ():
            if (record.owner, record.collection) == scope and record.id != document.id and keys & names_of(record):
                found.add((document.id, record.id))
    return sorted(pair for pair in found if not set(ids).isdisjoint(pair))


def find_links(
    db: Connection, records: Sequence[Record], read: Callable[[set[int]], Iterable[Record]]
) -> list[tuple[str, str]]:
    """The same from the rows."""
    found: set[tuple[str, str]] = set()
    for record in records:
        scope = (record.owner, record.collection)
        for other in read(_tickets_to(db, record)):
            if (other.owner, other.collection) == scope and other.id != record.id:
                found.add((other.id, record.id))
        keys = {readable(key) for (key,) in db.execute("select target from link where ticket = ?", (record.ticket,))}
        for other in read(_tickets_named(db, record, keys)):
            if (other.owner, other.collection) == scope and other.id != record.id and keys & names_of(other):
                found.add((record.id, other.id))
    return sorted(found)


def _tickets_to(db: Connection, record: Record) -> set[int]:
    """Live versions that refer to it."""
    names = [storable(name) for name in names_of(record)]
    if not names:
        return set()
    sql = f"select ticket from link where target in ({', '.join('?' * len(names))})"
    return {ticket for (ticket,) in db.execute(sql, names)}


def _tickets_named(db: Connection, record: Record, keys: set[str]) -> set[int]:
    """Versions of documents that may bear one of these names."""
    found: set[int] = set()
    for sql, values in _proposals(record, keys):
        found.update(ticket for (ticket,) in db.execute(sql, values))
    return found


def _proposals(record: Record, keys: set[str]) -> Iterator[tuple[str, tuple[object, ...]]]:
    for key in sorted(keys):
        stored = storable(key)
        yield "select ticket from document where id = ?", (document_id(record.owner, record.collection, key),)
        yield "select ticket from document where lower(title) = ?", (stored,)
        yield f"select ticket from document where {_FILE} = ?", (stored,)
        # note.md for [[note]]: between `note.` and what comes after it.
        low, high = storable(f"{key}."), storable(f"{key}/")
        yield f"select ticket from document where {_FILE} >= ? and {_FILE} < ?", (low, high)
        for name in _NAMES:
            sql = "select ticket from posting where term = (select id from term where key = ? and value = ?)"
            yield sql, (name, packed(key))
