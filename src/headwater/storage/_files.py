"""Files that were sent ahead of the datasets they are for, and batches of them that were put into one.

A file is bytes of `originals` with a name and an owner. Put into a dataset it becomes a document, whose uri is the
file's own; so the documents of a file are the originals of its owner with its uri and its bytes.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.storage._ledger_file import LedgerFile, now
from headwater.storage._originals import Original, Originals

ID_BYTES: Final = 6
PREFIX: Final = "file-"
_COLUMNS: Final = "id, owner, uri, hash, name, mime, bytes, purpose, collections, created"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What somebody sent. `collections` are those of the key that sent it; none for a key for all of them."""

    id: str
    owner: str
    uri: str
    hash: str
    name: str
    mime: str
    bytes: int
    purpose: str = ""
    collections: tuple[str, ...] = ()
    created: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Files that were put into a dataset together."""

    id: str
    dataset: str
    files: tuple[str, ...]
    created: str
    cancelled: str = ""


def new_file_id() -> str:
    """An id that nobody guesses; a later one comes after an earlier one."""
    return f"{PREFIX}{time.time_ns() // 1_000_000:012x}{secrets.token_hex(ID_BYTES)}"


class Files:
    """The files of a home."""

    def __init__(self, file: LedgerFile, originals: Originals) -> None:
        self._file, self._originals = file, originals

    def keep(self, sent: File) -> None:
        """Say whose bytes they are; they are kept until it is dropped."""
        row = (
            *(sent.id, sent.owner, sent.uri, sent.hash, sent.name, sent.mime, sent.bytes, sent.purpose),
            *(json.dumps(list(sent.collections)), sent.created or now()),
        )
        with self._file.writing() as db:
            db.execute(f"insert into file({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def get(self, id: str) -> File | None:
        """One by its id, whoever's it is: the caller checks."""
        return self.some([id]).get(id)

    def some(self, ids: Sequence[str]) -> dict[str, File]:
        """By id, those of these that exist."""
        sql = f"select {_COLUMNS} from file where id in (select value from json_each(?))"
        with self._file.reading() as db:
            rows = db.execute(sql, (json.dumps(list(ids)),)).fetchall()
        return {row["id"]: _made(row) for row in rows}

    def of(self, owner: str) -> list[File]:
        """All of an owner's, the oldest first."""
        with self._file.reading() as db:
            rows = db.execute(f"select {_COLUMNS} from file where owner = ? order by id", (owner,)).fetchall()
        return [_made(row) for row in rows]

    def named(self, owner: str, uris: Sequence[str]) -> dict[str, str]:
        """By uri, the ids of an owner's files; those that are no file's are left out."""
        sql = "select uri, id from file where owner = ? and uri in (select value from json_each(?))"
        with self._file.reading() as db:
            return {row[0]: row[1] for row in db.execute(sql, (owner, json.dumps(list(uris))))}

    def documents(self, sent: File) -> list[Original]:
        """The documents that were made of it, in whichever collection."""
        return [one for one in self._originals.at(sent.owner, sent.uri) if one.hash == sent.hash]

    def drop(self, id: str) -> None:
        """Forget a file; its bytes go if nobody else has them. Its documents are the caller's business."""
        with self._file.writing() as db:
            row = db.execute("select hash from file where id = ?", (id,)).fetchone()
            db.execute("delete from file where id = ?", (id,))
        self._originals.sweep([row[0]] if row else [])

    def forget(self, documents: Iterable[tuple[str, str]]) -> None:
        """Drop the files of documents, by owner and uri, that are gone; one that has another document is kept."""
        for owner, uri in documents:
            if not self._originals.at(owner, uri):
                for id in self.named(owner, [uri]).values():
                    self.drop(id)


class Batches:
    """The batches of a home."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def add(self, dataset: str, files: Sequence[str]) -> Batch:
        """Remember which files were put into a dataset together."""
        made = Batch(id=f"batch-{secrets.token_hex(12)}", dataset=dataset, files=tuple(files), created=now())
        row = (made.id, dataset, json.dumps(list(files)), made.created)
        with self._file.writing() as db:
            db.execute("insert into file_batch(id, dataset, files, created, cancelled) values (?, ?, ?, ?, '')", row)
        return made

    def get(self, dataset: str, id: str) -> Batch | None:
        """One of a dataset's."""
        sql = "select id, dataset, files, created, cancelled from file_batch where dataset = ? and id = ?"
        with self._file.reading() as db:
            row = db.execute(sql, (dataset, id)).fetchone()
        return Batch(**{**dict(row), "files": tuple(json.loads(row["files"]))}) if row else None

    def cancel(self, id: str) -> None:
        """Say that somebody gave it up."""
        with self._file.writing() as db:
            db.execute("update file_batch set cancelled = ? where id = ? and cancelled = ''", (now(), id))


def _made(row: object) -> File:
    told = dict(row)  # type: ignore[call-overload]
    return File(**{**told, "collections": tuple(json.loads(told["collections"]))})
