"""A home's catalog -> a name for it that no copy of it has, and no earlier state that was put back.

What several processes keep together is kept under this name. It is remembered in a small file of the home, which no
pack takes along: with the number of the catalog's file, which a copy does not have, and with the highest generation
that was reached, which a catalog that went back has not.
"""

from __future__ import annotations

import json
import os
import secrets
import uuid
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

FILE_NAME: Final = "results.cache"
# Processes that share a catalog run under one kernel: SQLite's log needs memory that they share.
_KERNEL: Final = Path("/proc/sys/kernel/random/boot_id")


class Lineage:
    """The name of one home. `catalog` is its file, or `identity` what tells it, `generation` what it is at now."""

    def __init__(self, catalog: Path, *, generation: int, identity: list[int] | None = None) -> None:
        self._path = catalog.with_name(FILE_NAME)
        self._file = identity if identity is not None else _number_of(catalog)
        known = self._read()
        same = known.get("file") == self._file and known.get("generation", -1) <= generation
        self._token = str(known["token"]) if same and known.get("token") else secrets.token_hex(16)
        self._reached = -1
        self.name = blake2b(f"{self._token}\0{_kernel()}".encode(), digest_size=16).hexdigest()
        self.reached(generation)

    def reached(self, generation: int) -> None:
        """Remember that the catalog is at least there."""
        if generation <= self._reached:
            return
        self._reached = generation
        told = {"token": self._token, "file": self._file, "generation": generation}
        draft = self._path.with_suffix(f".{os.getpid()}.new")
        # A home that cannot be written to has a new name each time: nothing is shared, and nothing is wrong.
        with suppress(OSError):
            draft.write_text(json.dumps(told), encoding="utf-8")
            draft.replace(self._path)

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and isinstance(found.get("generation"), int) else {}


def _number_of(path: Path) -> list[int]:
    try:
        told = path.stat()
    except OSError:
        return []
    return [told.st_dev, told.st_ino]


def _kernel() -> str:
    try:
        return _KERNEL.read_text(encoding="ascii").strip()
    except OSError:  # another system than Linux: the machine's own number
        return str(uuid.getnode())
