"""A file or a folder on this machine -> changes and bytes.

The uri of a file is its absolute path with forward slashes. Hidden files, what editors and version control leave
behind, and whatever is no regular file are passed over; every other file is given, and its mime type says what it is.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from headwater.errors import NotFound, SourceError
from headwater.kinds import kind_of
from headwater.sources._ignored import IGNORED
from headwater.types import DEFAULT_COLLECTION, LOCAL_OWNER, Blob, Change, Labels

# A larger file is data rather than a document: reading it would take ten times its size in memory.
MAX_BYTES: Final = 256 * 1024 * 1024

_NO_LABELS: Final = Labels()
_ESCAPED: Final = re.compile(r"\\x[89a-f][0-9a-f]")


class FileSource:
    """The files under a folder, or one file. `leave_out` are folders in it that hold no documents: the home."""

    def __init__(
        self,
        root: Path,
        *,
        owner: str = LOCAL_OWNER,
        collection: str = DEFAULT_COLLECTION,
        labels: Labels = _NO_LABELS,
        ignore: Sequence[str] = (),
        leave_out: Sequence[Path] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._left_out = frozenset(str(Path(folder).resolve()) for folder in leave_out)
        self.root = Path(root).resolve()
        self.owner, self.collection, self.labels = owner, collection, labels
        self.max_bytes = max_bytes
        self._ignored = re.compile("|".join(fnmatch.translate(pattern) for pattern in (*IGNORED, *ignore)))
        self._ignore_paths = [pattern for pattern in ignore if "/" in pattern]

    def scan(self) -> Iterator[Change]:
        """Every file, sorted by path. A folder that may not be listed comes as a put that fails with the reason."""
        if not self.root.exists():
            raise NotFound(f"no such file or folder: {self.root}; check the path")
        return map(self._change, self._walk())

    def read(self, uri: str) -> Blob:
        """The bytes of a file this source named."""
        path = Path(uri)
        try:
            with open(path, "rb", opener=_open_at_once) as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise SourceError(f"cannot read {uri}: it is no regular file; add the files that hold the text")
                if status.st_size > self.max_bytes:
                    raise SourceError(
                        f"cannot read {uri}: {status.st_size} bytes, and {self.max_bytes} are the limit; "
                        "cut it in parts or raise ingest.max_file_bytes"
                    )
                data = file.read(self.max_bytes + 1)
        except FileNotFoundError as error:
            if _ESCAPED.search(uri):
                raise SourceError(f"cannot read {uri}: its name is not UTF-8; rename it and add it again") from error
            raise SourceError(f"cannot read {uri}: there is no such file; it may have been moved or deleted") from error
        except PermissionError as error:
            raise SourceError(f"cannot read {uri}: permission denied; make it readable for this user") from error
        except IsADirectoryError as error:
            raise SourceError(f"cannot read {uri}: it is a folder that may not be listed, or no file at all") from error
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read {uri}: {error}") from error
        modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        return Blob(uri=uri, data=data, mime=kind_of(path.name, data), modified=modified)

    def _walk(self) -> Iterator[Path]:
        """Files by name. A folder that two links lead to is walked once, so that no loop goes on for ever."""
        seen: set[tuple[int, int]] = set()
        waiting = [self.root]
        while waiting:
            path = waiting.pop()
            if not path.is_dir():
                yield path
                continue
            try:
                status = path.stat()
                with os.scandir(path) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name, reverse=True)
            except OSError:
                yield path  # reading it says why
                continue
            identity = (status.st_dev, status.st_ino)
            if identity not in seen:
                seen.add(identity)
                waiting += [path / entry.name for entry in entries if not self._is_ignored(entry)]

    def _is_ignored(self, entry: os.DirEntry[str]) -> bool:
        if entry.name.startswith(".") or self._ignored.match(entry.name) or entry.path in self._left_out:
            return True
        inside = PurePosixPath(Path(entry.path).relative_to(self.root).as_posix())
        if any(inside.match(pattern) for pattern in self._ignore_paths):
            return True
        # Pipes, devices and links to nowhere or to themselves hold nothing to read.
        try:
            return not (entry.is_dir() or entry.is_file())
        except OSError:
            return True

    def _change(self, path: Path) -> Change:
        try:
            status = path.stat()
            stamp = f"{status.st_size}:{status.st_mtime_ns}"
        except OSError:
            stamp = ""  # it went away, or may not be looked at: reading it says why
        inside = path.relative_to(self.root).parent.parts
        folder = "/".join((*filter(None, [self.labels.folder.strip("/")]), *inside))
        return Change(
            uri=_uri(path),
            kind="put",
            owner=self.owner,
            collection=self.collection,
            labels=replace(self.labels, folder=folder),
            stamp=stamp,
        )


def _uri(path: Path) -> str:
    # A name that is not valid UTF-8 cannot be stored as it is; reading it then says so.
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _open_at_once(name: str, flags: int) -> int:
    """Open without waiting: a pipe that took the place of a file must not hold up the indexer."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
