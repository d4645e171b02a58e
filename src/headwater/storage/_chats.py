"""Chats: how a conversation is answered (which datasets, which model, which options), and the sessions each has.

A session is a conversation of `conversations.sqlite`; here stands only which chat it belongs to.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.errors import NotFound
from headwater.storage._datasets import Taken
from headwater.storage._ledger_file import LedgerFile, now

ID_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One of an owner's. `told` is what its maker said of it, as JSON."""

    id: str
    owner: str
    name: str
    told: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    updated: str = ""


class Chats:
    """The chats of a home."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def create(self, owner: str, name: str, told: Mapping[str, Any]) -> Chat:
        """A new one; its name must be free."""
        at = now()
        made = Chat(id=secrets.token_hex(ID_BYTES), owner=owner, name=name, told=told, created=at, updated=at)
        with self._file.writing() as db:
            self._refuse_taken(db, made)
            row = (made.id, owner, name, json.dumps(dict(told)), at, at)
            db.execute("insert into chat values (?, ?, ?, ?, ?, ?)", row)
        return made

    def get(self, owner: str, id: str) -> Chat | None:
        """One of an owner's."""
        with self._file.reading() as db:
            row = db.execute("select * from chat where owner = ? and id = ?", (owner, id)).fetchone()
        return _chat(row) if row else None

    def of(self, owner: str) -> list[Chat]:
        """All of an owner's, the oldest first."""
        with self._file.reading() as db:
            rows = db.execute("select * from chat where owner = ? order by created, rowid", (owner,)).fetchall()
        return [_chat(row) for row in rows]

    def update(self, chat: Chat) -> None:
        """Another name, or something else said of it."""
        with self._file.writing() as db:
            self._refuse_taken(db, chat)
            sql = "update chat set name = ?, told = ?, updated = ? where owner = ? and id = ?"
            changed = db.execute(sql, (chat.name, json.dumps(dict(chat.told)), now(), chat.owner, chat.id))
            if not changed.rowcount:
                raise NotFound(f"no chat has the id {chat.id!r}; list the chats to see those that exist")

    def delete(self, owner: str, id: str) -> None:
        """Forget it and which sessions it had; the conversations are the caller's business."""
        with self._file.writing() as db:
            db.execute("delete from chat where owner = ? and id = ?", (owner, id))
            db.execute("delete from chat_session where owner = ? and chat = ?", (owner, id))

    # -- sessions
    def join(self, owner: str, chat: str, session: str) -> None:
        """The conversation is a session of the chat."""
        with self._file.writing() as db:
            db.execute("insert or replace into chat_session values (?, ?, ?)", (session, owner, chat))

    def leave(self, owner: str, sessions: Sequence[str]) -> None:
        """These conversations are gone."""
        with self._file.writing() as db:
            sql = "delete from chat_session where owner = ? and session = ?"
            db.executemany(sql, [(owner, one) for one in sessions])

    def sessions(self, owner: str, chat: str) -> list[str]:
        """The conversations of a chat; some may be gone since."""
        with self._file.reading() as db:
            sql = "select session from chat_session where owner = ? and chat = ? order by session"
            return [str(row[0]) for row in db.execute(sql, (owner, chat))]

    def chat_of(self, owner: str, session: str) -> str:
        """The chat that a conversation is a session of; empty where it is on its own."""
        with self._file.reading() as db:
            sql = "select chat from chat_session where owner = ? and session = ?"
            row = db.execute(sql, (owner, session)).fetchone()
        return str(row[0]) if row else ""

    def _refuse_taken(self, db: Any, chat: Chat) -> None:
        sql = "select 1 from chat where owner = ? and name = ? and id != ?"
        if db.execute(sql, (chat.owner, chat.name, chat.id)).fetchone():
            raise Taken(f"there is a chat named {chat.name!r}; choose another name")


def _chat(row: object) -> Chat:
    told = dict(row)  # type: ignore[call-overload]
    return Chat(**{**told, "told": json.loads(told["told"])})
