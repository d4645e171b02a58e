"""A folder -> the tantivy index in it, or a new one; and how chunks are cut for the one that is there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import tantivy

from headwater.storage._cutting import TODAY, Manner
from headwater.storage._failures import damaged, failed
from headwater.storage._ranking import make_schema
from headwater.storage._read_only import IndexFolder
from headwater.tokens import Pairs

# Grows with every change of the fields or of how they are cut. An index of an earlier release is read and written as
# that release did, until it is made anew.
FORMAT: Final = "headwater text index 5\n"
# There a chunk has a pair as often as it occurs.
FORMAT_OFTEN: Final = "headwater text index 4\n"
# And letters have their accents.
FORMAT_ACCENTS: Final = "headwater text index 3\n"
# A pair that is a word stands among the words and among the pairs.
FORMAT_TWICE: Final = "headwater text index 2\n"
# Without anything beside the index; it becomes the one above at the next write.
FORMAT_BEFORE: Final = "headwater text index 1\n"
MANNERS: Final[Mapping[str, Manner]] = {
    FORMAT: TODAY,
    FORMAT_OFTEN: Manner(Pairs.APART),
    FORMAT_ACCENTS: Manner(Pairs.APART, accents=True),
    FORMAT_TWICE: Manner(Pairs.ALL, accents=True),
    FORMAT_BEFORE: Manner(Pairs.ALL, accents=True),
}
FORMAT_FILE: Final = "format"
META_FILE: Final = "meta.json"

# What tantivy writes of every segment. Behind what a file holds stands JSON with its checksum, the length of that, and
# a number that says so, four bytes each.
PARTS: Final = ("term", "idx", "pos", "fast", "fieldnorm", "store")
FOOTER_MARK: Final = 1337
FOOTER_END_BYTES: Final = 8
PIECE_BYTES: Final = 1 << 20


class TextFolder:
    """Where a text index lies. `manner` is how chunks are cut for the one opened last."""

    def __init__(self, path: Path) -> None:
        self.path, self.manner = path, TODAY
        self._folder = IndexFolder(path)

    @property
    def schema(self) -> Any:
        """The fields of the one opened last."""
        return make_schema(pairs_once=self.manner.pairs == Pairs.ONCE)

    def opened(self) -> Any:
        """The index on disk, or None where none was made yet."""
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else set()
        if FORMAT_FILE not in names:
            # Making an index ends with the format file: without it there are no segments yet.
            if any(name.endswith(".idx") for name in names):
                raise damaged("text", self.path, f"the file {FORMAT_FILE!r} is missing")
            return None
        if META_FILE not in names:
            raise damaged("text", self.path, f"the file {META_FILE!r} is missing")
        with told(self.path):
            found = self._format()
            if found not in MANNERS:
                raise damaged("text", self.path, f"its format is {found[:80]!r}, wanted {FORMAT!r}")
            self.manner = MANNERS[found]
            return self._folder.opened(tantivy, self.schema)

    def created(self) -> Any:
        """A new index."""
        with told(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            # What a crash left of an earlier attempt, which ended before anything was indexed.
            for leftover in (".managed.json", META_FILE):
                (self.path / leftover).unlink(missing_ok=True)
            self.manner = TODAY
            index = self._folder.opened(tantivy, self.schema)
            self._write_format(FORMAT)
            return index

    def removed(self) -> None:
        """Take the files away, whatever they are."""
        self.close()
        with suppress(FileNotFoundError):
            shutil.rmtree(self.path)
        self.manner = TODAY

    @property
    def must_be_opened_again(self) -> bool:
        """Whether what was opened knows nothing of what came since: links, or an index that was made anew."""
        if self._folder.is_linked:
            return True
        with told(self.path):
            return MANNERS.get(self._format()) != self.manner

    def allow_beside(self) -> None:
        """Say that something is kept beside the index, which the first releases would not read."""
        if self._format() == FORMAT_BEFORE:
            self._write_format(FORMAT_TWICE)

    def verify(self) -> None:
        """Raises HomeDamaged unless every file holds what was written; tantivy looks only at what it needs at once."""
        with told(self.path):
            before = (self.path / META_FILE).read_bytes()
            for name in _files(json.loads(before)):
                try:
                    whole = _is_whole(self.path / name)
                except FileNotFoundError:
                    if (self.path / META_FILE).read_bytes() != before:
                        return  # another process merged in this moment: what is there now was just written
                    raise damaged("text", self.path, f"the file {name!r} is missing") from None
                if not whole:
                    raise damaged("text", self.path, f"the file {name!r} does not hold what was written to it")

    def close(self) -> None:
        """Let go of what was made for reading."""
        self._folder.close()

    def _format(self) -> str:
        return (self.path / FORMAT_FILE).read_text("utf-8")

    def _write_format(self, format: str) -> None:
        fresh = self.path / f"{FORMAT_FILE}.new"
        with fresh.open("w", encoding="utf-8", newline="\n") as file:
            file.write(format)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path / FORMAT_FILE)


def _files(meta: Mapping[str, Any]) -> Iterator[str]:
    """The names of the files that an index consists of."""
    for segment in meta["segments"]:
        name = segment["segment_id"].replace("-", "")
        yield from (f"{name}.{part}" for part in PARTS)
        if removed := segment["deletes"]:
            yield f"{name}.{removed['opstamp']}.del"


def _is_whole(path: Path) -> bool:
    """Whether what a file of tantivy's holds is what its checksum was made of."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - FOOTER_END_BYTES))
        end = file.read()
        footer_bytes, mark = int.from_bytes(end[:4], "little"), int.from_bytes(end[4:], "little")
        rest = size - FOOTER_END_BYTES - footer_bytes
        if mark != FOOTER_MARK or rest < 0:
            return False
        file.seek(rest)
        footer = json.loads(file.read(footer_bytes))
        file.seek(0)
        checksum = 0
        while rest and (piece := file.read(min(rest, PIECE_BYTES))):
            checksum = crc32(piece, checksum)
            rest -= len(piece)
        return isinstance(footer, dict) and footer.get("crc") == checksum


@contextmanager
def told(path: Path) -> Iterator[None]:
    """tantivy's errors in our words. It says everything with ValueError, and panics where bytes make no sense."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise failed("text", path, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise damaged("text", path, str(error)) from error
