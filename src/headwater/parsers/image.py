"""A picture -> a document of the text on it, read by OCR, with the place of every line.

TIFF files may have many pages; of other pictures the first is taken.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from headwater.documents import BOX_UNITS, Blob, Box, Document
from headwater.errors import BackendError, EmptyDocument, SourceError
from headwater.parsers import _ocr

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
else:
    Picture = Any

# A sheet of A3 at 600 dots per inch; more is a map or a trap.
_MAX_PIXELS: Final = 70_000_000
# At some seconds a page this is an hour.
_MAX_PAGES: Final = 500
# Lines farther apart than this share of their height belong to different paragraphs.
_PARAGRAPH_GAP: Final = 0.9


class ImageParser:
    """Reads the text on pictures, with the extra `ocr`."""

    mimes: frozenset[str] = frozenset(
        {"image/png", "image/jpeg", "image/tiff", "image/webp", "image/gif", "image/bmp", "image/x-ms-bmp"}
    )

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for a damaged picture, EmptyDocument for one without text and without the extra."""
        if not _ocr.available():
            raise EmptyDocument(f"{blob.uri} is a picture, and no text can be read from it: {_ocr.REMEDY}")
        parts: list[str] = []
        boxes: list[Box] = []
        page_starts: list[int] = []
        length = read = 0
        problems: list[str] = []
        for number, pixels in enumerate(_pages(blob, problems), 1):
            page_starts.append(length)
            try:
                lines = _ocr.recognise(pixels)
            except BackendError as error:
                raise SourceError(f"{blob.uri}: {error}") from error
            read += bool(lines)
            for line, box in _laid_out(lines, length, number, pixels.shape[:2]):
                parts.append(line)
                length += len(line)
                boxes += [box] if box else []
        text = "".join(parts)
        if not text.strip():
            raise EmptyDocument(f"{blob.uri} holds no text: a picture on which none was recognised")
        pages = len(page_starts)
        if read < pages:
            problems.append(f"{pages - read} of {pages} pages show no text")
        return Document(
            uri=blob.uri,
            text=text,
            title=PurePosixPath(blob.uri).stem,
            mime=blob.mime or "image/png",
            page_starts=tuple(page_starts),
            boxes=tuple(boxes),
            coverage={"pages": pages, "pages_with_text": read, "ocr": True},
            updated=blob.modified,
            problems=tuple(problems),
            meta=blob.meta,
        )


def _pages(blob: Blob, problems: list[str]) -> Iterator[_ocr.Image]:
    """The pages of a picture, upright, as colours on white."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    # Whatever a header that lies may lead to in a reader that believes it; want of memory is not the picture's.
    damages = (
        *(OSError, ValueError, SyntaxError, EOFError, TypeError, LookupError, ArithmeticError, AssertionError),
        *(RuntimeError, struct.error, zlib.error),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large pictures and odd metadata: what matters is checked below
            with Image.open(io.BytesIO(blob.data)) as picture:
                count = getattr(picture, "n_frames", 1) if picture.format == "TIFF" else 1
                if count > _MAX_PAGES:
                    problems.append(
                        f"pages beyond the first {_MAX_PAGES} of {count} were left out; cut the file in parts"
                    )
                for number in range(min(count, _MAX_PAGES)):
                    picture.seek(number)
                    if picture.width * picture.height > _MAX_PIXELS:
                        raise SourceError(
                            f"{blob.uri} is {picture.width} x {picture.height} pixels, and {_MAX_PIXELS} in all are "
                            "the limit; save it smaller"
                        )
                    yield _on_white(ImageOps.exif_transpose(picture))
    except Image.DecompressionBombError as error:
        raise SourceError(f"{blob.uri} is too large a picture: {error}; save it smaller") from error
    except UnidentifiedImageError as error:
        raise SourceError(f"{blob.uri} is no picture that can be read; save it as PNG or JPEG") from error
    except damages as error:
        raise SourceError(f"{blob.uri} is a damaged picture: {error}; save it anew") from error


def _on_white(picture: Picture) -> _ocr.Image:
    from PIL import Image

    if picture.mode.startswith(("I", "F")):  # 16 bits and more for each dot, as scanners write
        values = np.asarray(picture, dtype=np.float64)
        top = max(float(values.max(initial=1.0)), 1.0)
        picture = Image.fromarray((values * (255.0 / top)).clip(0, 255).astype(np.uint8))
    if picture.has_transparency_data:
        seen = picture.convert("RGBA")
        white = Image.new("RGBA", seen.size, "white")
        white.alpha_composite(seen)
        picture = white
    return np.asarray(picture.convert("RGB"))


def _laid_out(
    lines: list[_ocr.Line], start: int, page: int, shape: tuple[int, ...]
) -> Iterator[tuple[str, Box | None]]:
    """The lines with what stands between them, and the box of each."""
    height, width = shape
    last: tuple[int, int, int, int] | None = None
    for text, place in lines:
        if start and (last is not None or page > 1):
            gap = "\n\n" if last is None or place[1] - last[3] > _PARAGRAPH_GAP * (place[3] - place[1]) else "\n"
            yield gap, None
            start += len(gap)
        left, top, right, bottom = place
        units = [round(BOX_UNITS * value / size) for value, size in zip(place, (width, height) * 2, strict=True)]
        left, top, right, bottom = (min(max(unit, 0), BOX_UNITS) for unit in units)
        yield text, Box(start, start + len(text), page, left, top, right, bottom)
        start += len(text)
        last = place
