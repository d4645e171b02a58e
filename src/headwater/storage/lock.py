"""One writer per home: a lock that the operating system releases when its holder ends, however it ends."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from headwater.errors import BackendError, HomeLocked, UsageError

# Short enough that nobody notices, long enough to cost nothing.
POLL_SECONDS: Final = 0.05
# Windows locks bytes and hides them from readers: this one is far behind what the file says.
_LOCKED_BYTE: Final = 1 << 30
_COMMAND_CHARS: Final = 200

_held: weakref.WeakSet[HomeLock] = weakref.WeakSet()


class HomeLock:
    """Held by one process and by one object in it: taking it twice is a mistake, not a wait.

    The file stays when the lock is released: removing it would let two processes hold a lock each, on two files.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._descriptor = -1

    @property
    def held(self) -> bool:
        """Whether this object holds it."""
        return self._descriptor >= 0

    def acquire(self, *, timeout_seconds: float = 0.0) -> None:
        """Take the lock, waiting at most so long; raise HomeLocked, which says who has it."""
        if self.held:
            raise UsageError(f"the lock {str(self.path)!r} is already held by this object; release it first")
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise BackendError(f"the lock {str(self.path)!r} cannot be opened: {error}; is it yours?") from error
        end = time.monotonic() + timeout_seconds
        try:
            while not _try_lock(descriptor):
                holder = self.holder()
                if holder.get("pid") == os.getpid() or time.monotonic() >= end:
                    raise HomeLocked(sentence(repr(str(self.path.parent)), holder))
                time.sleep(POLL_SECONDS)
            with suppress(OSError):  # what the file says is for people; a full disk must not keep anybody from writing
                _write(descriptor, own())
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Let others write; fine if it is not held."""
        if not self.held:
            return
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        with suppress(OSError):  # for people, too; a full disk must not keep the lock
            _write(descriptor, {})
        _unlock(descriptor)
        os.close(descriptor)

    def holder(self) -> dict[str, Any]:
        """What the last process to take it said of itself: pid, command, since. Empty when it was released."""
        try:
            said = json.loads(self.path.read_text(encoding="utf-8") or "{}")
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) else {}

    def __enter__(self) -> HomeLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def _drop_in_child(self) -> None:
        """A forked child shares the lock and would keep it after its parent's death."""
        os.close(self._descriptor)
        self._descriptor = -1


def own() -> dict[str, Any]:
    """What this process says of itself to those who wait for it."""
    command = " ".join([Path(sys.argv[0]).name if sys.argv else "", *sys.argv[1:]])[:_COMMAND_CHARS]
    return {"pid": os.getpid(), "command": command, "since": datetime.now(UTC).isoformat(timespec="seconds")}


def sentence(what: str, holder: dict[str, Any]) -> str:
    """Who has been writing to what since when; a holder on another machine tells its name."""
    if not holder:
        return f"another process is writing to {what}; wait for it to end and try again"
    here = holder.get("host", platform.node()) == platform.node()
    pid = "this process" if here and holder.get("pid") == os.getpid() else f"process {holder.get('pid')}"
    who = f"{pid} ({str(holder.get('command', '')).strip() or 'unknown command'})"
    where = "" if here else f" on {holder['host']}"
    return f"{who}{where} has been writing to {what} since {holder.get('since')}; wait for it to end, or stop it"


def _write(descriptor: int, said: dict[str, Any]) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.ftruncate(descriptor, 0)
    if said:
        os.write(descriptor, json.dumps(said).encode())


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _drop_all_in_child() -> None:
        for lock in list(_held):
            lock._drop_in_child()
        _held.clear()

    os.register_at_fork(after_in_child=_drop_all_in_child)
