"""The bytes of an office file -> its parts: a zip of XML files that refer to one another.

Only the parts that are asked for are unpacked, so pictures and films inside a file cost nothing. The XML is read
without entities, without the network and with the depth and size limits of libxml2.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import IO, Any, Final

from headwater.errors import SourceError
from headwater.types import Blob

OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS: Final = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_MARK: Final = b"PK\x03\x04"
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The name of the stream that holds a file with a password, as the directory of the old container writes it.
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_KEYWORDS: Final = re.compile(r"[;；,，、\n]+")
# Places on a slide are counted in millionths of a metre and less: that many digits and no more.
_MAX_DIGITS: Final = 15
# What a damaged archive raises, besides its own error.
DAMAGES: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError)

# lxml has no types of its own; an element is Any here.
Element = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """What the file says of itself."""

    title: str = ""
    author: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    created: str = ""
    updated: str = ""


class Package:
    """One office file, opened. `save_as` is what to do with an old or a damaged one."""

    def __init__(self, blob: Blob, *, save_as: str) -> None:
        self.uri, self.save_as = blob.uri, save_as
        if blob.data.startswith(_OLE):
            raise SourceError(_why_not_open(blob, save_as))
        if not blob.data.startswith(_MARK):
            raise SourceError(
                f"cannot read {blob.uri}: it is no {save_as} file, for it begins with {blob.data[:8]!r}; "
                f"open it in the program it came from and save it as {save_as}"
            )
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(blob.data))
        except DAMAGES as error:
            raise self.damaged(error) from error
        self._names = {name.lower().lstrip("/"): name for name in self._zip.namelist()}

    def has(self, part: str) -> bool:
        """Whether there is such a part."""
        return part.lower() in self._names

    def open(self, part: str) -> IO[bytes]:
        """The bytes of a part as a stream."""
        try:
            return self._zip.open(self._names[part.lower()])
        except KeyError as error:
            raise SourceError(
                f"cannot read {self.uri}: {part!r} is missing in it; "
                f"open it in the program it came from and save it as {self.save_as} again"
            ) from error
        except DAMAGES as error:
            raise self.damaged(error) from error

    def xml(self, part: str) -> Element:
        """The root of a part, or None where there is no such part."""
        if not self.has(part):
            return None
        from lxml import etree

        parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
        try:
            with self.open(part) as stream:
                return etree.parse(stream, parser).getroot()
        except (etree.XMLSyntaxError, *DAMAGES) as error:
            raise self.damaged(error) from error

    def walk(self, part: str, *tags: str) -> Iterator[Element]:
        """Every element with one of these tags, when it is complete; each is forgotten afterwards."""
        from lxml import etree

        try:
            with self.open(part) as stream:
                walked = etree.iterparse(
                    stream, events=("end",), tag=tags, resolve_entities=False, no_network=True, remove_comments=True
                )
                for _, element in walked:
                    yield element
                    element.clear(keep_tail=False)
                    while element.getprevious() is not None:
                        del element.getparent()[0]
        except (etree.XMLSyntaxError, *DAMAGES) as error:
            raise self.damaged(error) from error

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """What a part refers to: id -> (the last word of its type, the part or address)."""
        folder, name = posixpath.split(part)
        root = self.xml(posixpath.join(folder, "_rels", name + ".rels"))
        found: dict[str, tuple[str, str]] = {}
        for relation in () if root is None else root.iter(_RELATIONS):
            target = relation.get("Target", "")
            if relation.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")
            found[relation.get("Id", "")] = (relation.get("Type", "").rsplit("/", 1)[-1], target)
        return found

    def main(self) -> str:
        """The part that the package is about."""
        for kind, target in self.relations("").values():
            if kind == "officeDocument" and self.has(target):
                return target
        raise SourceError(
            f"cannot read {self.uri}: it is a zip archive without an office document in it; "
            f"unpack it and add the files, or save it as {self.save_as}"
        )

    def related(self, part: str, kind: str) -> str:
        """The part of this kind that a part refers to, or nothing."""
        return next((target for named, target in self.relations(part).values() if named == kind), "")

    def properties(self) -> Properties:
        """Title, author, dates and keywords; a part of it that is missing is empty."""
        part = next((target for kind, target in self.relations("").values() if kind == "core-properties"), "")
        root = self.xml(part) if part else None
        said: dict[str, str] = {}
        for element in () if root is None else root:
            if isinstance(element.tag, str) and element.text:
                said[local(element)] = " ".join(element.text.split())
        return Properties(
            title=said.get("title", ""),
            author=said.get("creator", ""),
            description=said.get("description", "") or said.get("subject", ""),
            tags=tuple(dict.fromkeys(filter(None, map(str.strip, _KEYWORDS.split(said.get("keywords", "")))))),
            created=said.get("created", ""),
            updated=said.get("modified", ""),
        )

    def damaged(self, error: Exception) -> SourceError:
        """The error to raise for what cannot be unpacked or parsed."""
        return SourceError(
            f"cannot read {self.uri}: the file is damaged ({error}); "
            f"open it in the program it came from and save it as {self.save_as} again"
        )


def refuse_old(blob: Blob, *, save_as: str) -> SourceError:
    """The error for a format of before 2007."""
    return SourceError(_why_not_open(blob, save_as))


def _why_not_open(blob: Blob, save_as: str) -> str:
    if blob.data.startswith(_OLE) and _ENCRYPTED in blob.data:
        return f"cannot read {blob.uri}: it is locked with a password; save a copy without one and add that"
    return (
        f"cannot read {blob.uri}: it is in the binary format of before 2007; "
        f"open it in Word, PowerPoint, WPS or LibreOffice and save it as {save_as}"
    )


@cache
def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def whole(said: str | None, default: int = 0) -> int:
    """The whole number that an attribute says, or the default where it says none or one that no file needs."""
    said = (said or "").strip()
    digits = said.removeprefix("-")
    return int(said) if digits.isdecimal() and len(digits) <= _MAX_DIGITS else default


def local(element: Element) -> str:
    """The name of an element without its namespace; nothing for what is no element."""
    return _local(element.tag) if isinstance(element.tag, str) else ""


def attribute(element: Element, name: str, default: str = "") -> str:
    """An attribute by its name, whatever its namespace."""
    found = element.get(name)
    if found is None:
        found = next((value for key, value in element.attrib.items() if _local(key) == name), default)
    return str(found)
