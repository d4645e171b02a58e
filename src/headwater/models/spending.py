"""Tokens used -> what was spent today, by every process that shares a home.

A file a day, a line a reply: appending needs no lock, and half a line after a crash is skipped.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from headwater.errors import BackendError


class Ledger:
    """What the models of a home have used. Days are those of UTC."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, tokens: int) -> None:
        """Remember that so many were used now."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._today().open("ab") as file:
                file.write(f"{tokens}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BackendError(
                f"tokens cannot be counted in {self._folder}: {error}; make it writable, or set tokens_a_day = 0"
            ) from error

    def spent_today(self) -> int:
        """How many were used since midnight."""
        try:
            lines = self._today().read_text(encoding="ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return 0
        return sum(int(line) for line in lines if line.isdecimal())

    def _today(self) -> Path:
        return self._folder / datetime.now(UTC).date().isoformat()
