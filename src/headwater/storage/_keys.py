"""API keys: made once, kept as a hash, found by it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, get_args

from headwater.errors import NotFound, UsageError
from headwater.storage._ledger_file import LedgerFile, now

Rights = Literal["read", "write", "admin"]
PREFIX: Final = "hw_"
# 256 bits of chance: a plain hash is enough to keep, for nobody can go through them.
SECRET_BYTES: Final = 32
ID_BYTES: Final = 6
# A key's last use is written at most this often, so that reading does not become writing.
_USED_CHARS: Final = len("2025-01-01T00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a key allows. Without collections it allows all that its owner has, and what is shared."""

    id: str
    owner: str
    name: str = ""
    collections: tuple[str, ...] = ()
    rights: Rights = "read"
    created: str = ""
    expires: str = ""
    revoked: str = ""
    used: str = ""


class Keys:
    """The keys of a home."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def create(
        self,
        owner: str,
        *,
        name: str = "",
        collections: Sequence[str] = (),
        rights: Rights = "write",
        expires: str = "",
    ) -> tuple[Key, str]:
        """A new key and its secret, which is shown this once."""
        if rights not in get_args(Rights):
            raise UsageError(f"rights are {', '.join(get_args(Rights))}, got {rights!r}")
        if not owner.strip():
            raise UsageError("a key needs an owner; name one")
        secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        key = Key(
            id=secrets.token_hex(ID_BYTES),
            owner=owner,
            name=name,
            collections=tuple(collections),
            rights=rights,
            created=now(),
            expires=expires,
        )
        row = (key.id, _hash(secret), owner, name, json.dumps(list(collections)), rights, key.created, expires, "", "")
        with self._file.writing() as db:
            db.execute("insert into key values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return key, secret

    def find(self, secret: str) -> Key | None:
        """The key of a secret, unless it was revoked or has expired."""
        with self._file.reading() as db:
            row = db.execute("select * from key where hash = ?", (_hash(secret),)).fetchone()
        if row is None or row["revoked"] or (row["expires"] and row["expires"] <= now()):
            return None
        if row["used"][:_USED_CHARS] != now()[:_USED_CHARS]:
            with self._file.writing() as db:
                db.execute("update key set used = ? where id = ?", (now(), row["id"]))
        return _key(row)

    def listed(self) -> list[Key]:
        """Every key, oldest first."""
        with self._file.reading() as db:
            return [_key(row) for row in db.execute("select * from key order by created, id")]

    def any(self) -> bool:
        """Whether there is a key that was not revoked."""
        with self._file.reading() as db:
            return db.execute("select 1 from key where revoked = '' limit 1").fetchone() is not None

    def revoke(self, id: str) -> None:
        """Let it allow nothing from now on."""
        with self._file.writing() as db:
            if not db.execute("update key set revoked = ? where id = ? and revoked = ''", (now(), id)).rowcount:
                raise NotFound(f"no key has the id {id!r}; `headwater key list` shows those that exist")


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _key(row: object) -> Key:
    told = dict(row)  # type: ignore[call-overload]
    told.pop("hash")
    return Key(**{**told, "collections": tuple(json.loads(told["collections"]))})
