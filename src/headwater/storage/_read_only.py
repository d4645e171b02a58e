"""Files of a home that cannot be written to -> opened all the same, for reading: another's folder, a read-only disk.

SQLite and tantivy both want to make a file beside what they read. SQLite can be told that nothing will change, or on a
full disk to do without that file; tantivy is given a folder of its own with links to the files.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import BackendError

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

_LOCKS: Final = ".lock"


def may_write(path: Path) -> bool:
    """Whether a file can be changed and others be made beside it; one that is still to be made can."""
    return not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def address(path: Path, *, writable: bool) -> str:
    """The uri under which SQLite opens a file; BackendError where what is in its log could not be read."""
    base = path.absolute().as_uri()
    if writable:
        return f"{base}?mode=rwc"
    if may_write(path) or path.with_name(f"{path.name}-shm").exists():  # somebody writes to it: their log is read too
        return f"{base}?mode=ro"
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise BackendError(
            f"{str(path)!r} was not closed, and what is in its log can only be read where files can be made beside it; "
            "open it once with the permission to write, or copy the folder"
        )
    return f"{base}?mode=ro&immutable=1"


def address_alone(path: Path) -> str:
    """The uri under which a file is read where its log's index finds no room on the disk: that is in memory then.

    Other processes wait meanwhile, so nobody holds such a connection for longer than one look.
    """
    return f"{path.absolute().as_uri()}?mode=rw&vfs=unix-excl"


class IndexFolder:
    """A folder for tantivy: the one that is named, or links to its files where its locks cannot be made there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._links: TemporaryDirectory[str] | None = None

    @property
    def is_linked(self) -> bool:
        """Whether what was opened are links, which know nothing of files that came since."""
        return self._links is not None

    def opened(self, tantivy: Any, schema: Any) -> Any:
        """The index in it, or a new one where there is none."""
        index = tantivy.Index(schema, path=str(self._readable()))
        index.register_tokenizer("whitespace", tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
        index.config_reader("manual", 0)
        return index

    def close(self) -> None:
        """Let go of the links."""
        links, self._links = self._links, None
        if links is not None:
            links.cleanup()

    def _readable(self) -> Path:
        if not self.path.exists() or os.access(self.path, os.W_OK):
            return self.path
        from tempfile import TemporaryDirectory  # which few need, and which takes as long to import as a search

        self.close()
        self._links = TemporaryDirectory(prefix="headwater-text-", ignore_cleanup_errors=True)
        folder = Path(self._links.name)
        for file in self.path.iterdir():
            if not file.name.endswith(_LOCKS):
                _link(file.absolute(), folder / file.name)
        return folder


def _link(file: Path, target: Path) -> None:
    try:
        target.symlink_to(file)
    except OSError:  # where links are a privilege
        shutil.copyfile(file, target)
