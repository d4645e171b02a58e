"""The spaces of a catalog file: opening one beside the active one, telling what it lacks, switching, dropping.

A version of the active space has the generation of its commit; one that stands beside it, in a shadow or a retired
space, has generation 0. The filter index and the document table speak of the active space alone, so reading is as it
is with one space; a switch rewrites them in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headwater.errors import UsageError
from headwater.storage._commit import PIECE_VERSIONS, retire_vectors, take_away
from headwater.storage._sql import Connection
from headwater.types import Space

_COLUMNS: Final = "id, embedder, dim, chunker, state, settings"
_BEHIND: Final = (
    "from document where ticket != 0 and not exists (select 1 from version "
    "where version.document = document.id and version.space = ? and version.generation = 0)"
)


def all_spaces(db: Connection) -> list[Space]:
    """Oldest first."""
    rows = db.execute(f"select {_COLUMNS} from space order by id").fetchall()
    return [Space(id=r[0], embedder=r[1], dim=r[2], chunker=r[3], state=r[4], settings=r[5]) for r in rows]


def active_space(db: Connection) -> Space | None:
    """The space that readers see."""
    row = db.execute(f"select {_COLUMNS} from space where state = 'active'").fetchone()
    return Space(id=row[0], embedder=row[1], dim=row[2], chunker=row[3], settings=row[5]) if row else None


def make_space(db: Connection, space: Space) -> Space:
    """A new one in the given state, under an id that was never used: its folders may outlive it."""
    id = int(db.execute("select space from counters").fetchone()[0]) + 1
    db.execute("update counters set space = ?", (id,))
    made = (id, space.embedder, space.dim, space.chunker, space.state, space.settings)
    db.execute(f"insert into space({_COLUMNS}) values (?, ?, ?, ?, ?, ?)", made)
    return replace(space, id=id)


def open_shadow(db: Connection, wanted: Space) -> Space:
    """The space to fill: one that is there already and made with the same, else a new shadow."""
    for there in all_spaces(db):
        if same(there, wanted):
            if there.state == "active":
                raise UsageError("the home is made with these settings already; there is nothing to reindex")
            return there
    db.execute("delete from space where state = 'shadow'")
    return make_space(db, replace(wanted, state="shadow"))


def same(one: Space, other: Space) -> bool:
    """Whether both are made with the same embedder and chunker."""
    return (one.embedder, one.dim, one.chunker) == (other.embedder, other.dim, other.chunker)


def behind(db: Connection, space: Space) -> list[tuple[str, int]]:
    """Documents whose live version has none beside it: id and live ticket, in the order they came."""
    return db.execute(f"select id, ticket {_BEHIND} order by number", (space.id,)).fetchall()


def unfill(db: Connection, space: Space, tickets: Sequence[int], *, keep: int) -> None:
    """Take away versions that stand beside live ones."""
    sql = (
        "select ticket from version where space = ? and generation = 0 "
        "and ticket in (select value from json_each(?) as given)"
    )
    found = [ticket for (ticket,) in db.execute(sql, (space.id, json.dumps([*map(int, tickets)])))]
    retire_vectors(db, take_away(db, found), keep=keep)


def switch(db: Connection, space: Space) -> bool:
    """Make it active, if no document is behind in it."""
    states = {there.id: there.state for there in all_spaces(db)}
    if states.get(space.id, "active") == "active":
        raise UsageError(f"there is no space {space.id} beside the active one; open it first")
    if db.execute(f"select 1 {_BEHIND} limit 1", (space.id,)).fetchone():
        return False
    db.execute("update counters set generation = generation + 1")
    db.execute("delete from posting where ticket not in (select ticket from version where generation != 0)")
    db.execute(
        "update posting set ticket = (select beside.ticket from version as live cross join version as beside "
        "on beside.document = live.document and beside.space = ? and beside.generation = 0 "
        "where live.ticket = posting.ticket)",
        (space.id,),
    )
    db.execute(
        "update document set (ticket, chunks) = (select ticket, chunks from version "
        "where version.document = document.id and version.space = ? and version.generation = 0) where ticket != 0",
        (space.id,),
    )
    db.execute("update version set generation = 0 where generation != 0")
    db.execute("update version set generation = (select generation from counters) where space = ?", (space.id,))
    db.execute("delete from space where state = 'retired' and id != ?", (space.id,))
    db.execute("update space set state = 'retired' where state = 'active'")
    db.execute("update space set state = 'active' where id = ?", (space.id,))
    return True


def drop(db: Connection, space: Space) -> None:
    """Forget a space; its versions belong to nothing then."""
    db.execute("delete from space where id = ? and state != 'active'", (space.id,))


def clear_piece(db: Connection, *, keep: int) -> bool:
    """Remove some of the versions of dropped spaces; whether there were any."""
    sql = "select ticket from version where generation = 0 and space not in (select id from space) limit ?"
    tickets = [ticket for (ticket,) in db.execute(sql, (PIECE_VERSIONS,))]
    retire_vectors(db, take_away(db, tickets), keep=keep)
    return bool(tickets)
