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
from headwater.types import DEFAULT_COLLECTION, LOCAL_OWNER, Blob, Change, Labels

# Names that hold no documents of a person's. Hidden ones (.git, .obsidian, .trash, .#lock) go by their dot.
IGNORED: Final = (
    "node_modules",
    "__pycache__",
    "*~",
    "*.swp",
    "*.swo",
    "*.bak",
    "#*#",
    "~$*",
    "Thumbs.db",
    "desktop.ini",
)
# A larger file is data rather than a document: reading it would take ten times its size in memory.
MAX_BYTES: Final = 256 * 1024 * 1024
# Enough to tell a format by, and to see whether it is text.
_HEAD_BYTES: Final = 4096

_MAGIC: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"PK\x03\x04", "application/zip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"{\\rtf", "application/rtf"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ\x90\0", "application/x-executable"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/x-matroska"),
)
# RIFF and MP4 name their format behind a length.
_MAGIC_INSIDE: Final = ((8, b"WEBP", "image/webp"), (8, b"WAVE", "audio/wav"), (4, b"ftyp", "video/mp4"))
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_ARCHIVES: Final = {
    ".docx": _OFFICE + "wordprocessingml.document",
    ".pptx": _OFFICE + "presentationml.presentation",
    ".xlsx": _OFFICE + "spreadsheetml.sheet",
    ".epub": "application/epub+zip",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".msg": "application/vnd.ms-outlook",
}
_TEXTS: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".mdx": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "text/html",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".eml": "message/rfc822",
    ".svg": "image/svg+xml",
    ".ipynb": "application/x-ipynb+json",
}
# Text by their name, whatever they hold: where it is none after all, the parser says so best.
_PLAIN: Final = re.compile(
    r"\.(txt|text|log|rst|org|adoc|tex|bib|srt|vtt|ini|cfg|conf|toml|ya?ml|xml|sql|py|js|ts|java|c|h|cpp|hpp|cs|go|rs|rb|"
    r"php|sh|r|lua|kt|swift|css)"
)
# Text has no control characters to speak of; escape begins the colours of a log.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_BUT_ZERO: Final = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_MAX_CONTROL_SHARE: Final = 0.02
_MAX_ZERO_SHARE: Final = 0.6

_NO_LABELS: Final = Labels()


class FileSource:
    """The files under a folder, or one file."""

    def __init__(
        self,
        root: Path,
        *,
        owner: str = LOCAL_OWNER,
        collection: str = DEFAULT_COLLECTION,
        labels: Labels = _NO_LABELS,
        ignore: Sequence[str] = (),
        max_bytes: int = MAX_BYTES,
    ) -> None:
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
            raise SourceError(f"cannot read {uri}: there is no such file; it may have been moved or deleted") from error
        except PermissionError as error:
            raise SourceError(f"cannot read {uri}: permission denied; make it readable for this user") from error
        except IsADirectoryError as error:
            raise SourceError(f"cannot read {uri}: it is a folder that may not be listed, or no file at all") from error
        except (OSError, ValueError) as error:
            raise SourceError(f"cannot read {uri}: {error}") from error
        modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
        return Blob(uri=uri, data=data, mime=guess_mime(path, data[:_HEAD_BYTES]), modified=modified)

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
        if entry.name.startswith(".") or self._ignored.match(entry.name):
            return True
        inside = PurePosixPath(Path(entry.path).relative_to(self.root).as_posix())
        if any(inside.match(pattern) for pattern in self._ignore_paths):
            return True
        # Pipes, devices and links to nowhere hold nothing to read.
        return not (entry.is_dir() or entry.is_file())

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


def guess_mime(path: Path, head: bytes) -> str:
    """What a file is, by its first bytes and its name."""
    suffix = path.suffix.lower()
    for magic, mime in _MAGIC:
        if head.startswith(magic):
            is_archive = mime in ("application/zip", "application/x-ole-storage")
            return _ARCHIVES.get(suffix, mime) if is_archive else mime
    for place, magic, mime in _MAGIC_INSIDE:
        if head[place : place + len(magic)] == magic:
            return mime
    if suffix in _TEXTS:
        return _TEXTS[suffix]
    return "text/plain" if _PLAIN.fullmatch(suffix) or _looks_like_text(head) else "application/octet-stream"


def _looks_like_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff")):
        return True
    if len(_CONTROL.findall(head)) <= _MAX_CONTROL_SHARE * len(head):
        return True
    # UTF-16 without a mark: one byte of each pair names a block of the alphabet, and none of those is a control code.
    # The other byte is hardly ever zero, so that a file of little else is no text.
    if head.count(0) > _MAX_ZERO_SHARE * len(head):
        return False
    sides = (head[::2], head[1::2])
    return any(len(_CONTROL_BUT_ZERO.findall(side)) <= _MAX_CONTROL_SHARE * len(side) for side in sides)


def _uri(path: Path) -> str:
    # A name that is not valid UTF-8 cannot be stored as it is; reading it then says that there is no such file.
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _open_at_once(name: str, flags: int) -> int:
    """Open without waiting: a pipe that took the place of a file must not hold up the indexer."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))
