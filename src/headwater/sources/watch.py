"""Folders -> word that something in them changed, once per burst, as long as they are watched.

What happened is not told: editors write a file by renaming another onto it, programs touch a thousand at once, and a
folder may go and come back. Whoever is told looks at the folder as it is then.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from headwater.sources._ignored import IGNORED

# A burst ends when nothing happened for the one, and is cut off after the other.
QUIET_MS: Final = 200
BURST_MS: Final = 3_000
# How often a folder that went away is looked for, and one that is there is checked to be the same.
POLL_MS: Final = 1_000

_HIDDEN: Final = re.compile(r"\..+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A folder changed, or went, or came back. `empty` is one that came back as another folder, without a file."""

    folder: Path
    kind: Literal["changed", "gone", "back", "empty", "begun"]


class Watch:
    """Watches folders. `ignore` are folders inside them whose changes are nobody's business: the home itself."""

    def __init__(self, folders: Sequence[Path], *, ignore: Sequence[Path] = ()) -> None:
        self.folders = [Path(folder).resolve() for folder in folders]
        self._ignore = [Path(folder).resolve() for folder in ignore]
        self._identity = {folder: _identity(folder) for folder in self.folders}
        self.stopped = threading.Event()

    def stop(self) -> None:
        """End `events` soon."""
        self.stopped.set()

    def events(self) -> Iterator[Event]:
        """Each as it comes, until `stop`. A folder that is not there is waited for."""
        while not self.stopped.is_set():
            there = [folder for folder in self.folders if self._identity[folder] is not None]
            if not there:
                self.stopped.wait(POLL_MS / 1000)
                yield from self._looked_at()
                continue
            yield from self._until_one_goes_or_comes(there)

    def _until_one_goes_or_comes(self, there: Sequence[Path]) -> Iterator[Event]:
        """The operating system tells of changes inside; that a folder was replaced has to be looked at."""
        import watchfiles

        looked, new = time.monotonic(), True
        try:
            for changes in watchfiles.watch(
                *there,
                watch_filter=None,
                debounce=BURST_MS,
                step=QUIET_MS,
                rust_timeout=POLL_MS,
                yield_on_timeout=True,
                stop_event=self.stopped,
                raise_interrupt=True,
                ignore_permission_denied=True,
            ):
                if new:  # what changed before the system began to tell
                    yield from (Event(folder=folder, kind="begun") for folder in there)
                    new = False
                touched = [Path(path) for _, path in changes]
                for folder in there:
                    if any(self._matters(path, folder) for path in touched) and _identity(folder) is not None:
                        yield Event(folder=folder, kind="changed")
                if any(path in there for path in touched):  # the folder itself: the system may have lost sight of it
                    yield from self._looked_at()
                    return
                if changes and time.monotonic() - looked < POLL_MS / 1000:
                    continue
                looked = time.monotonic()
                if events := list(self._looked_at()):
                    yield from events
                    return  # what is watched is another set of folders now
        except FileNotFoundError:  # one went in this moment
            yield from self._looked_at()

    def _looked_at(self) -> Iterator[Event]:
        for folder in self.folders:
            before, now = self._identity[folder], _identity(folder)
            if before == now:
                continue
            self._identity[folder] = now
            if now is None:
                yield Event(folder=folder, kind="gone")
            else:
                # A disk that was taken out leaves an empty folder in its place: that is no reason to forget all of it.
                yield Event(folder=folder, kind="back" if any(folder.iterdir()) else "empty")

    def _matters(self, path: Path, folder: Path) -> bool:
        if not path.is_relative_to(folder) or any(path.is_relative_to(one) for one in self._ignore):
            return False
        parts = path.relative_to(folder).parts
        return not any(_HIDDEN.fullmatch(part) or _ignored(part) for part in parts)


def _ignored(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in _PATTERNS)


_PATTERNS: Final = tuple(re.compile(re.escape(name).replace(r"\*", ".*")) for name in IGNORED)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which folder it is: another disk in its place is another folder."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if folder.is_dir() else None
