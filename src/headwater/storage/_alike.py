"""Sketches of documents <-> rows, and which documents are nearly the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from headwater.likeness import bands, likeness, unpacked
from headwater.storage._sql import Connection
from headwater.types import Record

# Two documents that share so much are versions of one another, or copies: one word in thirty may differ.
ALIKE_DOCUMENTS: Final = 0.8


def scope_of(record: Record) -> str:
    """Documents of different scopes are never alike."""
    return f"{record.owner}\0{record.collection}"


def write_sketches(db: Connection, sketches: Sequence[tuple[Record, bytes]]) -> None:
    """Store the sketches of documents that are there and have none."""
    if not sketches:
        return
    sql = "select id, number from document where id in (select value from json_each(?) as named)"
    numbers = dict(db.execute(sql, (json.dumps([record.id for record, _ in sketches]),)))
    db.executemany("insert into sketch values (?, ?)", sorted((numbers[r.id], data) for r, data in sketches))
    keys = {(key, numbers[record.id]) for record, data in sketches for key in bands(data, scope_of(record))}
    db.executemany("insert into likeness values (?, ?)", sorted(keys))


def forget_sketches(db: Connection, records: Iterable[Record]) -> None:
    """Remove those of documents that change or go; called while they are still listed, as they were."""
    scopes = {record.id: scope_of(record) for record in records}
    sql = (
        "select number, id, data from document cross join sketch on sketch.document = document.number "
        "where id in (select value from json_each(?) as named)"
    )
    rows = db.execute(sql, (json.dumps(list(scopes)),)).fetchall()
    keys = [(key, number) for number, id, data in rows for key in bands(data, scopes[id])]
    db.executemany("delete from likeness where key = ? and document = ?", keys)
    db.executemany("delete from sketch where document = ?", [(number,) for number, _, _ in rows])


def find_alike(db: Connection, record: Record) -> list[tuple[str, float]]:
    """Documents that have a key in common with one, and are alike."""
    own = db.execute(
        "select number, data from document cross join sketch on sketch.document = document.number where id = ?",
        (record.id,),
    ).fetchone()
    if own is None:
        return []
    number, data = own
    sql = (
        "select document.id, sketch.data from json_each(?) as given "
        "cross join likeness on likeness.key = given.value and likeness.document != ? "
        "cross join sketch on sketch.document = likeness.document "
        "cross join document on document.number = likeness.document"
    )
    return ranked(data, dict(db.execute(sql, (json.dumps(bands(data, scope_of(record))), number))))


def alike_among(sketches: Mapping[str, tuple[Record, bytes]], document_id: str) -> list[tuple[str, float]]:
    """The same of sketches that are at hand, by document id."""
    if document_id not in sketches:
        return []
    keys = {id: {*bands(sketch, scope_of(record))} for id, (record, sketch) in sketches.items()}
    own = keys.pop(document_id)
    return ranked(sketches[document_id][1], {id: sketches[id][1] for id, others in keys.items() if own & others})


def ranked(sketch: bytes, candidates: Mapping[str, bytes]) -> list[tuple[str, float]]:
    """Those of the candidates that are alike, most alike first, ties by id."""
    if not candidates:
        return []
    shares = likeness(unpacked([sketch])[0], unpacked(list(candidates.values())))
    found = [(id, round(float(share), 2)) for id, share in zip(candidates, shares, strict=True)]
    return sorted(((id, share) for id, share in found if share >= ALIKE_DOCUMENTS), key=lambda one: (-one[1], one[0]))
