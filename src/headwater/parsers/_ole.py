"""The bytes of an OLE file (XLS and others of before 2007) -> nothing, or the reason why no reader would end with it.

Its sectors are chained by a table of which follows which. A reader that follows a chain that bites its own tail
collects the same sectors until there is no memory left, so every chain is walked here first, with a count.
"""

from __future__ import annotations

import struct
from itertools import chain as joined
from typing import Final

from headwater.errors import SourceError

MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# From here on numbers of sectors mean the end of a chain, a free sector, or one of the table itself.
_LAST: Final = 0xFFFFFFF8
_SHIFTS: Final = (9, 12)  # the two sizes that sectors have, as powers of two
_ENTRY: Final = struct.Struct("<66xBx48xII4x")  # of the directory: kind, first sector, size
_STREAM, _ROOT = 2, 5


def check_ole(data: bytes, uri: str) -> None:
    """Raise SourceError where a chain of sectors goes round or leads outside."""
    try:
        _walk(data)
    except (struct.error, IndexError, ValueError) as error:
        raise SourceError(
            f"cannot read {uri}: the file is damaged (its sectors are in disorder); open it in the program it came "
            "from and save it anew"
        ) from error


def _walk(data: bytes) -> None:
    shift, first_directory = struct.unpack_from("<30xH16xI", data)
    cutoff, first_small, _, first_more, _ = struct.unpack_from("<56xIIIII", data)
    if shift not in _SHIFTS:
        raise ValueError("no such size of sectors")
    size = 1 << shift
    per_sector = size // 4
    most = len(data) // size + 1

    def sector(number: int) -> bytes:
        return data[(number + 1) * size : (number + 2) * size]

    def numbers(number: int) -> tuple[int, ...]:
        return struct.unpack(f"<{per_sector}I", sector(number))

    tables = [number for number in struct.unpack_from("<109I", data, 76) if number < _LAST]
    steps = 0
    while first_more < _LAST:
        *more, first_more = numbers(first_more)
        tables += [number for number in more if number < _LAST]
        steps += 1
        if steps > most:
            raise ValueError("a table that goes round")
    if len(tables) > most:
        raise ValueError("a table larger than the file")
    following = list(joined.from_iterable(map(numbers, tables)))
    directory = _chain(first_directory, following)
    small = list(joined.from_iterable(map(numbers, _chain(first_small, following))))
    for number in directory:
        entries = sector(number)
        for kind, first, length in _ENTRY.iter_unpack(entries[: len(entries) // _ENTRY.size * _ENTRY.size]):
            if kind == _ROOT or (kind == _STREAM and length >= cutoff):
                _chain(first, following)
            elif kind == _STREAM and length:
                _chain(first, small)


def _chain(first: int, following: list[int]) -> list[int]:
    """The sectors from the first on; an IndexError or ValueError where they lead outside or do not end."""
    found = []
    while first < _LAST:
        found.append(first)
        if len(found) > len(following):
            raise ValueError("a chain that goes round")
        first = following[first]
    return found
