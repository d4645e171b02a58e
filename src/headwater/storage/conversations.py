"""Conversations and answers -> rows of a SQLite file of their own in the home, each under its owner.

A file of its own: what people say is no part of the catalog, and can be deleted without touching a document. Opened
for each call, so any number of processes and threads may use it.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from headwater.errors import NotFound
from headwater.storage._beside import opened
from headwater.turns import Conversation, KeptAnswer, Passage, Turn, plain_answer, plain_citation, read_citation

VERSION: Final = 1
# Eight bytes: nobody guesses another's conversation, and a person can still type the id.
ID_BYTES: Final = 8
TITLE_CHARS: Final = 60
ERASED: Final = "…"

_SCHEMA: Final = """
create table if not exists conversation(
  id text primary key, owner text not null, title text not null, created text not null, updated text not null);
create index if not exists conversation_owner on conversation(owner, updated);
create table if not exists turn(
  id integer primary key, conversation_id text not null references conversation(id) on delete cascade,
  role text not null, content text not null, asked text not null, answer_id text not null, model text not null,
  citations text not null, evidence text not null, created text not null);
create index if not exists turn_conversation on turn(conversation_id, id);
create table if not exists answer(
  id text primary key, owner text not null, conversation_id text not null, created text not null, kept text not null);
create index if not exists answer_owner on answer(owner, created);
"""


class Conversations:
    """What one owner said and was answered. Another owner's ids are unknown here."""

    def __init__(self, path: Path, *, owner: str) -> None:
        self._path, self._owner = path, owner

    # ---------------------------------------------------------------------------------- conversations

    def create(self, title: str) -> Conversation:
        """A new one, without turns."""
        now = _now()
        made = Conversation(id=_id(), title=_title(title), owner=self._owner, created=now, updated=now)
        with self._writing() as db:
            db.execute(
                "insert into conversation values (?, ?, ?, ?, ?)",
                (made.id, made.owner, made.title, made.created, made.updated),
            )
        return made

    def get(self, id: str) -> Conversation:
        """One with its turns, oldest first."""
        with self._reading() as db:
            found = self._listed(db, "and c.id = ?", (id,))
            rows = db.execute("select * from turn where conversation_id = ? order by id", (id,)).fetchall()
        if not found:
            raise self._unknown(id)
        return replace(found[0], turns=tuple(_turn(row) for row in rows))

    def latest(self, *, limit: int = 50, offset: int = 0) -> list[Conversation]:
        """The latest first, without their turns."""
        with self._reading() as db:
            return self._listed(db, "order by c.updated desc, c.rowid desc limit ? offset ?", (limit, offset))

    def search(self, text: str, *, limit: int = 50, offset: int = 0) -> list[Conversation]:
        """Those with the text in their title or in a turn, the latest first."""
        pattern = "%" + text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        inside = "select 1 from turn t where t.conversation_id = c.id and t.content like ? escape '\\'"
        where = f"and (c.title like ? escape '\\' or exists({inside}))"
        order = "order by c.updated desc, c.rowid desc limit ? offset ?"
        with self._reading() as db:
            return self._listed(db, f"{where} {order}", (pattern, pattern, limit, offset))

    def rename(self, id: str, title: str) -> None:
        """Give it another title."""
        with self._writing() as db:
            self._changed(id, db.execute(f"update conversation set title = ? {_OWN}", (_title(title), id, self._owner)))

    def delete(self, id: str) -> None:
        """Remove it with its turns and the answers that were kept of it."""
        with self._writing() as db:
            self._changed(id, db.execute(f"delete from conversation {_OWN}", (id, self._owner)))
            db.execute("delete from answer where conversation_id = ? and owner = ?", (id, self._owner))

    def append(self, id: str, turn: Turn) -> None:
        """Add a turn."""
        now = turn.created or _now()
        with self._writing() as db:
            self._changed(id, db.execute(f"update conversation set updated = ? {_OWN}", (now, id, self._owner)))
            db.execute(
                "insert into turn values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(None, id, turn.role, turn.content, turn.asked, turn.answer_id, turn.model),
                    json.dumps([plain_citation(one) for one in turn.citations], ensure_ascii=False),
                    json.dumps(list(turn.evidence)),
                    now,
                ),
            )

    def export(self, id: str) -> dict[str, Any]:
        """All of it as JSON can hold it."""
        whole = self.get(id)
        turns = [{**asdict(turn), "citations": [plain_citation(one) for one in turn.citations]} for turn in whole.turns]
        return {**asdict(replace(whole, turns=())), "turns": turns}

    # ---------------------------------------------------------------------------------------- answers

    def keep(self, answer: KeptAnswer) -> KeptAnswer:
        """Keep an answer; return it with its id and time."""
        kept = replace(answer, id=answer.id or _id(), owner=self._owner, created=answer.created or _now())
        plain = json.dumps(plain_answer(kept), ensure_ascii=False)
        with self._writing() as db:
            db.execute(
                "insert into answer values (?, ?, ?, ?, ?)",
                (kept.id, kept.owner, kept.conversation_id, kept.created, plain),
            )
        return kept

    def answer(self, id: str) -> KeptAnswer:
        """An answer as it was kept."""
        with self._reading() as db:
            row = db.execute("select kept from answer where id = ? and owner = ?", (id, self._owner)).fetchone()
        if row is None:
            raise NotFound(f"no answer is kept under {id!r}; `answers.keep` says which are kept")
        return _answer(json.loads(row["kept"]))

    def answers(self, *, limit: int = 1000) -> list[KeptAnswer]:
        """The latest first, as they were kept."""
        latest = "select kept from answer where owner = ? order by created desc, rowid desc limit ?"
        with self._reading() as db:
            return [_answer(json.loads(row["kept"])) for row in db.execute(latest, (self._owner, limit)).fetchall()]

    def forget(self, document_ids: Sequence[str]) -> int:
        """Erase what was quoted of documents: answers made from them go, and turns that cite them lose their text."""
        gone, count = set(document_ids), 0
        with self._writing() as db:
            for row in db.execute("select id, kept from answer where owner = ?", (self._owner,)).fetchall():
                kept = _answer(json.loads(row["kept"]))
                named = {one.document_id for one in kept.citations}
                named |= {passage.name.rpartition(":")[0] for passage in kept.passages}
                if named & gone:
                    db.execute("delete from answer where id = ?", (row["id"],))
                    count += 1
            rows = db.execute(
                "select t.* from turn t join conversation c on c.id = t.conversation_id where c.owner = ?",
                (self._owner,),
            )
            for row in rows.fetchall():
                if any(one.document_id in gone for one in _turn(row).citations):
                    erased = "update turn set content = ?, citations = '[]', evidence = '[]' where id = ?"
                    db.execute(erased, (ERASED, row["id"]))
                    count += 1
        return count

    # ------------------------------------------------------------------------------------------- file

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._opened() as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._opened() as db:
            db.execute("begin immediate")
            try:
                yield db
            except BaseException:
                db.execute("rollback")
                raise
            db.execute("commit")

    def _opened(self) -> AbstractContextManager[sqlite3.Connection]:
        return opened(self._path, schema=_SCHEMA, version=VERSION, without="no conversations")

    def _listed(self, db: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[Conversation]:
        count = "(select count(*) from turn t where t.conversation_id = c.id) as count"
        rows = db.execute(f"select c.*, {count} from conversation c where c.owner = ? {where}", (self._owner, *values))
        return [Conversation(**dict(row)) for row in rows.fetchall()]

    def _changed(self, id: str, cursor: sqlite3.Cursor) -> None:
        if not cursor.rowcount:
            raise self._unknown(id)

    def _unknown(self, id: str) -> NotFound:
        return NotFound(f"no conversation has the id {id!r}; `/list` in `headwater chat` shows those that exist")


_OWN: Final = "where id = ? and owner = ?"


def _turn(row: sqlite3.Row) -> Turn:
    plain = {name: row[name] for name in ("role", "content", "asked", "answer_id", "model", "created")}
    citations = tuple(read_citation(one) for one in json.loads(row["citations"]))
    return Turn(**plain, citations=citations, evidence=tuple(json.loads(row["evidence"])))


def _answer(plain: dict[str, Any]) -> KeptAnswer:
    known = {name: plain[name] for name in (field.name for field in fields(KeptAnswer)) if name in plain}
    known["passages"] = tuple(Passage(**{**one, "pages": tuple(one["pages"])}) for one in plain["passages"])
    known["citations"] = tuple(read_citation(one) for one in plain["citations"])
    known.update({name: tuple(plain[name]) for name in ("degraded", "stale")})
    return KeptAnswer(**known)


def _title(text: str) -> str:
    return " ".join(text.split())[:TITLE_CHARS] or "…"


def _id() -> str:
    return secrets.token_hex(ID_BYTES)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
