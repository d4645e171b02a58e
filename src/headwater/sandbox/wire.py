"""Blobs and documents <-> frames of bytes, as a sandbox and its workers speak.

No pickle: what a worker says is data, whoever has taken the worker over. A frame is its length, a header in JSON and
what the header gives the lengths of: texts, boxes and files. `decode_document` builds every value itself and raises
ValueError, TypeError or KeyError for whatever is not of the shape it should be.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final, NamedTuple, get_args

from headwater.types import Blob, Block, Box, Document, Kind, Link, Meta, Section, Span

_LENGTH: Final = struct.Struct(">QI")  # of the whole frame behind it, and of its header
_KINDS: Final = frozenset(get_args(Kind))
_LINKS: Final = frozenset({"wikilink", "embed", "url"})
_BOX_FIELDS: Final = len(Box._fields)
_PLAIN: Final = ("uri", "title", "description", "folder", "content_type", "mime", "created", "updated")


class Frame(NamedTuple):
    """One message: what it says, and the bytes that came with it."""

    header: dict[str, Any]
    body: bytes


class TooLong(ValueError):
    """A frame announces more bytes than the reader takes."""


def write_frame(stream: IO[bytes], header: Mapping[str, Any], parts: Sequence[bytes] = ()) -> None:
    """Send one message."""
    told = json.dumps(header).encode("ascii")
    stream.write(_LENGTH.pack(len(told) + sum(map(len, parts)), len(told)))
    stream.write(told)
    for part in parts:
        stream.write(part)
    stream.flush()


def read_frame(stream: IO[bytes], *, max_bytes: int | None = None) -> Frame | None:
    """The next message, or None at the end of the stream. Raises TooLong before anything of it is read."""
    start = _exactly(stream, _LENGTH.size)
    if start is None:
        return None
    length, header_length = _LENGTH.unpack(start)
    if max_bytes is not None and length > max_bytes:
        raise TooLong(f"a message of {length} bytes, and {max_bytes} are the limit")
    if header_length > length:
        raise ValueError("a message shorter than its header")
    content = _exactly(stream, length)
    if content is None:
        return None
    header = json.loads(content[:header_length])
    if not isinstance(header, dict):
        raise ValueError("a message without names")
    return Frame(header, content[header_length:])


def _exactly(stream: IO[bytes], count: int) -> bytes | None:
    """So many bytes, or None where the stream ends before."""
    content = stream.read(count)
    return content if len(content) == count else None


# ------------------------------------------------------------------------------------------------ blobs


def blob_header(blob: Blob) -> dict[str, Any]:
    """A blob without its bytes."""
    return {"uri": blob.uri, "mime": blob.mime, "modified": blob.modified, "meta": dict(blob.meta)}


def header_blob(told: Mapping[str, Any], data: bytes) -> Blob:
    """The opposite of `blob_header`."""
    return Blob(
        uri=_text(told["uri"]),
        data=data,
        mime=_text(told["mime"]),
        modified=_text(told["modified"]),
        meta=_meta(told["meta"]),
    )


# -------------------------------------------------------------------------------------------- documents


def encode_document(document: Document) -> tuple[dict[str, Any], list[bytes]]:
    """A document as the header and the parts of a frame."""
    text = document.text.encode("utf-8", "surrogatepass")
    boxes = array("i", [number for box in document.boxes for number in box]).tobytes()
    header = {
        **{name: getattr(document, name) for name in _PLAIN},
        "tags": document.tags,
        "archived": document.archived,
        "structure": [[s.title, s.level, s.path, *s.span] for s in document.structure],
        "blocks": [[b.kind, *b.span, b.header, b.rows, b.about] for b in document.blocks],
        "links": [[x.kind, x.target, *x.span] for x in document.links],
        "hidden": document.hidden,
        "page_starts": document.page_starts,
        "coverage": dict(document.coverage),
        "problems": document.problems,
        "meta": dict(document.meta),
        "text_bytes": len(text),
        "boxes_bytes": len(boxes),
        "attachments": [[blob_header(blob), len(blob.data)] for blob in document.attachments],
    }
    return header, [text, boxes, *(blob.data for blob in document.attachments)]


def decode_document(header: Mapping[str, Any], body: bytes) -> Document:
    """The opposite of `encode_document`, of whatever a worker may have said."""
    parts = _parts(body, header)
    text = next(parts).decode("utf-8", "surrogatepass")
    end = len(text)
    boxes = next(parts)
    return Document(
        text=text,
        **{name: _text(header[name]) for name in _PLAIN},
        tags=tuple(map(_text, header["tags"])),
        archived=bool(header["archived"]),
        structure=tuple(
            Section(title=_text(title), level=_whole(level), path=_text(path), span=_span((a, z), end))
            for title, level, path, a, z in header["structure"]
        ),
        blocks=tuple(_block(told, end) for told in header["blocks"]),
        links=tuple(
            Link(kind=_one_of(kind, _LINKS), target=_text(target), span=_span((a, z), end))
            for kind, target, a, z in header["links"]
        ),
        hidden=tuple(_span(pair, end) for pair in header["hidden"]),
        page_starts=tuple(_place(start, end) for start in header["page_starts"]),
        boxes=_boxes(boxes),
        attachments=tuple(header_blob(told, next(parts)) for told, _ in header["attachments"]),
        coverage={_text(key): _value(value) for key, value in header["coverage"].items()},
        problems=tuple(map(_text, header["problems"])),
        meta=_meta(header["meta"]),
    )


def _parts(body: bytes, header: Mapping[str, Any]) -> Iterator[bytes]:
    lengths = [header["text_bytes"], header["boxes_bytes"], *(length for _, length in header["attachments"])]
    if sum(map(_place, lengths)) != len(body):
        raise ValueError("a message whose parts do not add up")
    start = 0
    for length in lengths:
        yield body[start : start + length]
        start += length


def _block(told: Sequence[Any], end: int) -> Block:
    kind, start, stop, header, rows, about = told
    return Block(
        kind=_one_of(kind, _KINDS),
        span=_span((start, stop), end),
        header=_text(header),
        rows=tuple(_place(row, end) for row in rows),
        about=None if about is None else _span(about, end),
    )


def _boxes(packed: bytes) -> tuple[Box, ...]:
    numbers = array("i")
    numbers.frombytes(packed)
    if len(numbers) % _BOX_FIELDS:
        raise ValueError("boxes that are cut off")
    return tuple(map(Box._make, zip(*[iter(numbers)] * _BOX_FIELDS, strict=True)))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, got {type(value).__name__}")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"a whole number was expected, got {type(value).__name__}")
    return value


def _place(value: Any, end: int | None = None) -> int:
    if not 0 <= _whole(value) <= (value if end is None else end):
        raise ValueError(f"{value} is outside the text")
    return _whole(value)


def _span(pair: Sequence[Any], end: int) -> Span:
    start, stop = pair
    if _place(start, end) > _place(stop, end):
        raise ValueError("a span that ends before it starts")
    return Span(start, stop)


def _one_of(value: Any, allowed: frozenset[str]) -> Any:
    if value not in allowed:
        raise ValueError(f"{value!r} is none of {sorted(allowed)}")
    return value


def _value(value: Any) -> str | int | float | bool:
    if not isinstance(value, str | int | float | bool):
        raise TypeError(f"a text, a number, true or false was expected, got {type(value).__name__}")
    return value


def _meta(told: Mapping[str, Any]) -> Meta:
    return {
        _text(key): tuple(map(_value, value)) if isinstance(value, list) else _value(value)
        for key, value in told.items()
    }
