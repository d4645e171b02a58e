"""What an index engine raises -> the error that says what to do."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Final

from headwater.errors import BackendError, DiskFull, HomeDamaged, HomeLocked

# An engine's worker that found the disk full only says that it died. Below this a disk counts as full.
LITTLE_ROOM_BYTES: Final = 4 * 1024 * 1024


def failed(what: str, path: Path, error: Exception) -> BackendError:
    """The error for what went wrong with an index: engines tell it in words only."""
    reason, number = str(error), getattr(error, "errno", None)
    if "LockBusy" in reason:
        return HomeLocked(f"another process is writing to the {what} index in {str(path)!r}; wait for it or stop it")
    if number == errno.ENOSPC or "os error 28" in reason or _is_full(path):
        return DiskFull(f"no room left for the {what} index in {str(path)!r}; free some and try again, nothing is lost")
    if number in (errno.EACCES, errno.EPERM) or "os error 13" in reason:
        return BackendError(f"no permission for the {what} index in {str(path)!r}: {reason[:200]}")
    return damaged(what, path, reason)


def damaged(what: str, path: Path, reason: str) -> HomeDamaged:
    """The error for files that make no sense."""
    return HomeDamaged(
        f"the {what} index in {str(path)!r} cannot be read: {reason[:200]}; "
        "`headwater check --repair` builds it again from the catalog"
    )


def _is_full(path: Path) -> bool:
    there = next((folder for folder in (path, *path.parents) if folder.exists()), None)
    return there is not None and shutil.disk_usage(there).free < LITTLE_ROOM_BYTES
