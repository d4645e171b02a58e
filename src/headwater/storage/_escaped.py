"""Text as Python has it <-> text as PostgreSQL takes it, which holds neither NUL nor half a surrogate pair.

Both are written as two characters that stay in their place in the order of characters, so that equal stays equal and
sorted stays sorted. The two characters that this is done with are escaped themselves; nearly no text has any of them.
"""

from __future__ import annotations

import re
from typing import Any, Final

from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from headwater.storage._rows import Halved

# NUL and what escapes it; the halves of surrogate pairs and what escapes them, which comes right after them.
LOW, HIGH = "\x01", "\ue000"
_SPECIAL: Final = re.compile("[\x00\x01\ud800-\udfff\ue000]")
_ESCAPED: Final = re.compile(f"{LOW}[\x01\x02]|{HIGH}[\u4e00-\u55ff\ue000]")
_FIRST_HALF: Final = 0xD800
_FIRST_STAND_IN: Final = 0x4E00
_LOW_BYTE, _HIGH_BYTES = LOW.encode(), HIGH.encode()


def escaped(text: str) -> str:
    """What PostgreSQL stores for a text; most texts are stored as they are."""
    return _SPECIAL.sub(_escape, text) if _SPECIAL.search(text) else text


def plain(stored: str) -> str:
    """The opposite of `escaped`."""
    return _ESCAPED.sub(_unescape, stored)


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character <= LOW:
        return LOW + chr(ord(character) + 1)
    return HIGH + (HIGH if character == HIGH else chr(ord(character) - _FIRST_HALF + _FIRST_STAND_IN))


def _unescape(found: re.Match[str]) -> str:
    escape, told = found[0][0], found[0][1]
    if escape == LOW:
        return chr(ord(told) - 1)
    return HIGH if told == HIGH else chr(ord(told) - _FIRST_STAND_IN + _FIRST_HALF)


class _TextDumper(Dumper):
    """Of no type of its own: PostgreSQL sees from the column what it is."""

    def dump(self, obj: str) -> Buffer:
        return escaped(obj).encode()


class _HalvedDumper(Dumper):
    """Of what `storable` made of a text with half a surrogate pair."""

    def dump(self, obj: bytes) -> Buffer:
        return escaped(obj.decode("utf-8", "surrogatepass")).encode()


class _TextLoader(Loader):
    """The same for both formats."""

    def load(self, data: Buffer) -> str:
        stored = bytes(data)
        text = stored.decode()
        return plain(text) if _LOW_BYTE in stored or _HIGH_BYTES in stored else text


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


def adapt(connection: Connection[Any]) -> None:
    """Let a connection take and give any text."""
    for kind, dumper in ((str, _TextDumper), (Halved, _HalvedDumper)):
        connection.adapters.register_dumper(kind, dumper)
    for loader in (_TextLoader, _BinaryTextLoader):
        connection.adapters.register_loader("text", loader)
