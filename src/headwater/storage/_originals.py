"""Bytes that people sent -> files named by their content, and whose documents they are."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from headwater.errors import BackendError, DiskFull, NotFound
from headwater.storage._ledger_file import LedgerFile, now

FOLDER: Final = "originals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """What a document was made from, as it came."""

    document: str
    owner: str
    collection: str
    uri: str
    hash: str
    name: str
    mime: str
    bytes: int
    created: str = ""


class Originals:
    """The files of a home. The same bytes are kept once, whoever sent them."""

    def __init__(self, file: LedgerFile, folder: Path) -> None:
        self._file, self._folder = file, folder

    def write(self, data: bytes) -> str:
        """Keep bytes durably; return their hash."""
        named = blake2b(data, digest_size=16).hexdigest()
        path = self._path(named)
        if path.exists():
            return named
        draft = path.with_name(f"{named}.{secrets.token_hex(4)}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(draft, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as error:
            draft.unlink(missing_ok=True)  # half a file is of no use, and takes the room that is missing
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"no room left for a file of {len(data)} bytes; free some and try again") from error
            raise BackendError(f"a file cannot be kept: {error.strerror}; check the folder {FOLDER!r}") from error
        return named

    def keep(self, original: Original) -> None:
        """Say whose bytes they are; the earlier ones of the same document go if nobody else has them."""
        with self._file.writing() as db:
            before = db.execute("select hash from original where document = ?", (original.document,)).fetchone()
            row = (
                *(original.document, original.owner, original.collection, original.uri, original.hash),
                *(original.name, original.mime, original.bytes, original.created or now()),
            )
            db.execute("insert or replace into original values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        if before and before[0] != original.hash:
            self.sweep([before[0]])

    def get(self, document: str) -> Original | None:
        """What is kept of a document."""
        with self._file.reading() as db:
            row = db.execute("select * from original where document = ?", (document,)).fetchone()
        return Original(**dict(row)) if row else None

    def of(self, documents: Sequence[str]) -> dict[str, Original]:
        """By document, what is kept of each."""
        sql = "select * from original where document in (select value from json_each(?))"
        with self._file.reading() as db:
            rows = db.execute(sql, (json.dumps(list(documents)),)).fetchall()
        return {row["document"]: Original(**dict(row)) for row in rows}

    def names(self, documents: Sequence[str]) -> dict[str, str]:
        """By document, what its file is called: as it was sent, or as it was renamed since."""
        sql = "select document, name from original where document in (select value from json_each(?))"
        with self._file.reading() as db:
            return {id: name for id, name in db.execute(sql, (json.dumps(list(documents)),)) if name}

    def at(self, owner: str, uri: str) -> list[Original]:
        """What an owner keeps under a uri, in whichever collection."""
        with self._file.reading() as db:
            rows = db.execute("select * from original where uri = ? and owner = ? order by document", (uri, owner))
            return [Original(**dict(row)) for row in rows]

    def unpromised(self, owner: str, collection: str) -> list[Original]:
        """Those of a collection that no job was ever made for."""
        sql = (
            "select * from original o where owner = ? and collection = ? "
            "and not exists (select 1 from job where job.document = o.document)"
        )
        with self._file.reading() as db:
            return [Original(**dict(row)) for row in db.execute(sql, (owner, collection))]

    def rename(self, document: str, name: str) -> None:
        """Give the file of a document another name."""
        with self._file.writing() as db:
            db.execute("update original set name = ? where document = ?", (name, document))

    def change(self, document: str, merge: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Remember what was changed of a document by hand, with what was changed before."""
        with self._file.writing() as db:
            row = db.execute("select work from change where document = ?", (document,)).fetchone()
            work = json.dumps(merge(json.loads(row[0]) if row else {}))
            db.execute("insert or replace into change values (?, ?)", (document, work))

    def changed(self, document: str) -> dict[str, Any]:
        """What was changed of a document by hand; empty where nothing was."""
        with self._file.reading() as db:
            row = db.execute("select work from change where document = ?", (document,)).fetchone()
        found: dict[str, Any] = json.loads(row[0]) if row else {}
        return found

    def read(self, hash: str) -> bytes:
        """The bytes."""
        try:
            return self._path(hash).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"the original {hash!r} is gone; send the file again") from error

    def used(self, owner: str) -> int:
        """How many bytes an owner's documents are, and the files that are no document yet."""
        waiting = (
            "select bytes from file f where owner = :owner "
            "and not exists (select 1 from original o where o.hash = f.hash and o.owner = f.owner)"
        )
        sql = (
            f"select coalesce(sum(bytes), 0) from (select bytes from original where owner = :owner union all {waiting})"
        )
        with self._file.reading() as db:
            return int(db.execute(sql, {"owner": owner}).fetchone()[0])

    def drop(self, documents: Sequence[str]) -> None:
        """Forget the originals of documents."""
        with self._file.writing() as db:
            hashes = []
            for document in documents:
                row = db.execute("select hash from original where document = ?", (document,)).fetchone()
                hashes += [row[0]] if row else []
                db.execute("delete from original where document = ?", (document,))
                db.execute("delete from change where document = ?", (document,))
        self.sweep(hashes)

    def sweep(self, hashes: Sequence[str]) -> None:
        """Remove the bytes that neither a document nor a file has any more."""
        held = "select 1 from original where hash = :hash union all select 1 from file where hash = :hash"
        with self._file.reading() as db:
            gone = [named for named in hashes if not db.execute(held, {"hash": named}).fetchone()]
        for named in gone:
            self._path(named).unlink(missing_ok=True)

    def _path(self, named: str) -> Path:
        return self._folder / named[:2] / named
