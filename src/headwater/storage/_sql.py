"""What the catalog's statements ask of a connection, whichever database is behind it.

The SQL is that of SQLite in so far as PostgreSQL has it too, with `?` for parameters. A list of numbers is one
parameter, `json_each(?) as given`, and so is a list of texts, `json_each(?) as named`; `cross join A on ...` reads the
tables in this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Rows(Protocol):
    """What a statement found."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """Runs statements inside the transaction that it was given out with."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows:
        """One statement, with what it found."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> object:
        """One statement for each of many parameters."""
        ...

    def each(self, sql: str, parameters: Sequence[Sequence[Any]], /) -> list[Any]:
        """The first row, or None, that a statement finds for each of many parameters, in their order."""
        ...

    def stream(self, sql: str, /) -> Iterator[Any]:
        """Every row of a statement that finds more than should be in memory at a time."""
        ...


class Store(Protocol):
    """Gives out connections: any number that read, one that writes."""

    def reading(self, *, snapshot: bool = ...) -> AbstractContextManager[Connection]:
        """One that sees what is committed; with `snapshot`, all its statements see the same."""
        ...

    def writing(self, *, on_failure: Any = ..., durable: bool = ...) -> AbstractContextManager[Connection]:
        """One transaction: all of it is kept when the block ends, or none of it if the block raises."""
        ...

    def checked(self, rules: Any, /) -> list[str]:
        """What the rules find wrong in one snapshot, and what the database itself does."""
        ...

    def close(self) -> None:
        """Let go of every connection."""
        ...
