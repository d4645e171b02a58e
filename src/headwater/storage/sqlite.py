"""The catalog in one SQLite file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.storage._catalog import IDLE_VECTORS, SqlCatalog
from headwater.storage._database import Database
from headwater.storage._rows import utc_now
from headwater.storage.scrub import scrub_catalog


class SqliteCatalog(SqlCatalog):
    """A Catalog in a file. One process at a time should commit; any number may read and enqueue."""

    def __init__(
        self,
        path: Path | str,
        *,
        writable: bool = True,
        now: Callable[[], str] = utc_now,
        idle_vectors: int = IDLE_VECTORS,
    ) -> None:
        self._path = Path(path)
        super().__init__(Database(self._path, writable=writable), now=now, idle_vectors=idle_vectors)

    def place(self) -> dict[str, str]:
        """Which catalog this is, for people."""
        return {"use": "sqlite", "file": str(self._path)}

    def scrub(self) -> None:
        """Write the file anew, without a trace of what was removed from it."""
        scrub_catalog(self._path)
