"""Collections as people name them: an id, a name that can change, who may see them.

What the catalog calls a collection stays as it was made; documents do not move when somebody renames it here. A
collection that only the catalog knows (`headwater add --collection`) gets its row when it is first looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from headwater.errors import NotFound, UsageError
from headwater.storage._ledger_file import LedgerFile, now
from headwater.types import document_id

Scope = Literal["private", "shared"]
MAX_NAME_CHARS: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A collection of one owner."""

    id: str
    owner: str
    collection: str
    name: str
    description: str = ""
    scope: Scope = "private"
    options: Mapping[str, Any] = field(default_factory=dict)
    created: str = ""
    updated: str = ""


class Taken(UsageError):
    """The name is in use."""


def dataset_id(owner: str, collection: str) -> str:
    """The id of a collection: the same in every home."""
    return document_id(owner, collection, "")


class Datasets:
    """The collections of a home."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def create(
        self,
        owner: str,
        name: str,
        *,
        description: str = "",
        scope: Scope = "private",
        options: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """A new one; its name must be free."""
        name = _checked_name(name)
        _checked_scope(scope)
        with self._file.writing() as db:
            if db.execute("select 1 from dataset where owner = ? and name = ?", (owner, name)).fetchone():
                raise Taken(f"there is a dataset named {name!r}; choose another name")
            collection, number = name, 1
            while db.execute(
                "select 1 from dataset where owner = ? and collection = ?", (owner, collection)
            ).fetchone():
                number += 1
                collection = f"{name}-{number}"
            made = Dataset(
                id=dataset_id(owner, collection),
                owner=owner,
                collection=collection,
                name=name,
                description=description,
                scope=scope,
                options=options or {},
                created=now(),
                updated=now(),
            )
            db.execute("insert into dataset values (?, ?, ?, ?, ?, ?, ?, ?, ?)", _row(made))
        return made

    def ensure(self, owner: str, collection: str) -> Dataset:
        """The row of a collection that the catalog or a caller names; made where it is missing."""
        with self._file.reading() as db:
            row = db.execute("select * from dataset where owner = ? and collection = ?", (owner, collection)).fetchone()
        if row is not None:
            return _dataset(row)
        made = Dataset(
            id=dataset_id(owner, collection),
            owner=owner,
            collection=collection,
            name=collection,
            created=now(),
            updated=now(),
        )
        with self._file.writing() as db:
            taken = db.execute("select 1 from dataset where owner = ? and name = ?", (owner, made.name)).fetchone()
            name = f"{made.name} ({made.id[:6]})" if taken else made.name
            row = (*_row(made)[:3], name, *_row(made)[4:])
            db.execute("insert or ignore into dataset values (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        return self.ensure(owner, collection)

    def get(self, id: str) -> Dataset | None:
        """One by its id, whoever's it is: the caller checks."""
        with self._file.reading() as db:
            row = db.execute("select * from dataset where id = ?", (id,)).fetchone()
        return _dataset(row) if row else None

    def of(self, owner: str) -> list[Dataset]:
        """All of an owner's, by name."""
        with self._file.reading() as db:
            rows = db.execute("select * from dataset where owner = ? order by name", (owner,)).fetchall()
        return [_dataset(row) for row in rows]

    def shared(self, *, but: str) -> list[Dataset]:
        """Those that others share."""
        with self._file.reading() as db:
            rows = db.execute(
                "select * from dataset where scope = 'shared' and owner != ? order by name, owner", (but,)
            ).fetchall()
        return [_dataset(row) for row in rows]

    def update(self, id: str, changes: Mapping[str, Any]) -> Dataset:
        """Change name, description, scope or options."""
        found = self.get(id)
        if found is None:
            raise NotFound(f"no dataset has the id {id!r}")
        name = _checked_name(changes["name"]) if "name" in changes else found.name
        scope = changes.get("scope", found.scope)
        _checked_scope(scope)
        description = changes.get("description", found.description)
        options = {**found.options, **changes.get("options", {})}
        with self._file.writing() as db:
            taken = "select 1 from dataset where owner = ? and name = ? and id != ?"
            if db.execute(taken, (found.owner, name, id)).fetchone():
                raise Taken(f"there is a dataset named {name!r}; choose another name")
            db.execute(
                "update dataset set name = ?, description = ?, scope = ?, options = ?, updated = ? where id = ?",
                (name, description, scope, json.dumps(options), now(), id),
            )
        updated = self.get(id)
        assert updated is not None
        return updated

    def delete(self, ids: Sequence[str]) -> None:
        """Forget the rows; the documents are the caller's business."""
        with self._file.writing() as db:
            db.executemany("delete from dataset where id = ?", [(id,) for id in ids])
            db.executemany("delete from file_batch where dataset = ?", [(id,) for id in ids])


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise UsageError(f"a name is 1 to {MAX_NAME_CHARS} printable characters, got {name[:MAX_NAME_CHARS]!r}")
    return name


def _checked_scope(scope: str) -> None:
    if scope not in get_args(Scope):
        raise UsageError(f"a scope is one of {', '.join(get_args(Scope))}, got {scope!r}")


def _row(dataset: Dataset) -> tuple[str, ...]:
    return (
        dataset.id,
        dataset.owner,
        dataset.collection,
        dataset.name,
        dataset.description,
        dataset.scope,
        json.dumps(dict(dataset.options)),
        dataset.created,
        dataset.updated,
    )


def _dataset(row: object) -> Dataset:
    told = dict(row)  # type: ignore[call-overload]
    return Dataset(**{**told, "options": json.loads(told["options"])})
