"""The bytes of a zip file -> nothing, or the reason why it must not be unpacked.

What the directory of the archive declares is looked at before anything is unpacked: how much comes out in all, against
how little went in, how many members, whether they lie over one another, where they want to go, and the same again for
archives inside it. Any format that is a zip file (office files, EPUB) passes here before its parser.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from typing import Final

from headwater.errors import SourceError

_MARKS: Final = (b"PK\x03\x04", b"PK\x05\x06")
# A film in a slide show is some hundred MB; no document that people read unpacks to more.
MAX_BYTES: Final = 1 << 30
MAX_MEMBERS: Final = 50_000
# The XML of a sheet packs at up to 60 to 1; a bomb at 1,000 to 1. Small files may do as they like.
MAX_RATIO: Final = 200
RATIO_FROM_BYTES: Final = 32 * 1024**2
# A sheet in a slide show in a mail is two deep.
MAX_DEPTH: Final = 3
# An archive inside it that is larger is not opened here; it counts with its own size.
_OPENED_INSIDE_BYTES: Final = 16 * 1024**2
_ENCRYPTED: Final = 0x1
_ARCHIVE_NAME: Final = re.compile(r"\.(zip|jar|docx|pptx|xlsx|docm|pptm|xlsm|epub|odt|ods|odp)$", re.IGNORECASE)
_OUTSIDE: Final = re.compile(r"^[/\\]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|$)|\0")
_REMEDY: Final = "open it in the program it came from and save it anew"
_DAMAGES: Final = (
    *(zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError),
    *(UnicodeDecodeError, OverflowError, IndexError),
)


def check_archive(
    data: bytes,
    *,
    max_bytes: int = MAX_BYTES,
    max_ratio: int = MAX_RATIO,
    max_members: int = MAX_MEMBERS,
    max_depth: int = MAX_DEPTH,
) -> None:
    """Raise SourceError for an archive that would unpack to too much, or is made to do harm; else do nothing."""
    if data.startswith(_MARKS):
        total = _declared(data, max_bytes=max_bytes, max_members=max_members, depth=max_depth)
        if total > RATIO_FROM_BYTES and total > max_ratio * len(data):
            raise SourceError(
                f"it is an archive of {len(data):,} bytes that unpacks to {total:,}, more than {max_ratio} times as "
                f"much, as only a bomb does; {_REMEDY}"
            )


def _declared(data: bytes, *, max_bytes: int, max_members: int, depth: int) -> int:
    """How many bytes come out of it and of the archives in it."""
    if depth == 0:
        raise SourceError(
            f"it is an archive in an archive, more than {MAX_DEPTH} deep; unpack it and add what it holds"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(members, len(data), max_bytes=max_bytes, max_members=max_members)
            total = sum(member.file_size for member in members)
            for member in members:
                if _ARCHIVE_NAME.search(member.filename) and member.file_size <= _OPENED_INSIDE_BYTES:
                    inside = _start_of(archive, member)
                    if inside.startswith(_MARKS):
                        total += _declared(inside, max_bytes=max_bytes, max_members=max_members, depth=depth - 1)
                if total > max_bytes:
                    raise SourceError(f"it is an archive that unpacks to more than {max_bytes:,} bytes; {_REMEDY}")
    except _DAMAGES as error:
        raise SourceError(f"it is a damaged archive: {error or type(error).__name__}; {_REMEDY}") from error
    return total


def _start_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """What is inside, as much as was declared; an archive there that cannot be read is its parser's business."""
    try:
        with archive.open(member) as stream:
            return stream.read(_OPENED_INSIDE_BYTES)
    except _DAMAGES:
        return b""


def _check_members(members: list[zipfile.ZipInfo], size: int, *, max_bytes: int, max_members: int) -> None:
    if len(members) > max_members:
        raise SourceError(f"it is an archive of {len(members):,} files, and {max_members:,} are the limit; {_REMEDY}")
    if sum(member.compress_size for member in members) > size:
        raise SourceError(f"it is an archive whose files lie over one another, as only a bomb's do; {_REMEDY}")
    for member in members:
        if member.flag_bits & _ENCRYPTED:
            raise SourceError("it is protected with a password; take the password off and add it again")
        if _OUTSIDE.search(member.orig_filename) or _OUTSIDE.search(member.filename):
            raise SourceError(f"it is an archive with a file that wants to go to {member.filename!r}; {_REMEDY}")
        if member.file_size > max_bytes:
            raise SourceError(
                f"it is an archive with a file of {member.file_size:,} bytes, and {max_bytes:,} are the limit; "
                f"{_REMEDY}"
            )
