"""A page of a PDF -> a picture of it: PNG for people, an array for recognition."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headwater.errors import NotFound, SourceError

# A picture that is no wider and higher than this, in pixels: a page may claim to be a mile long.
MAX_PIXELS: Final = 8000
_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
# 8 bits a channel, red green blue.
_PNG_FORMAT: Final = bytes((8, 2, 0, 0, 0))
# The strongest compression takes three times as long for a few per cent.
_COMPRESSION: Final = 6


def render_page(data: bytes, page: int, *, width: int) -> bytes:
    """Page number `page`, from 1, as a PNG so many pixels wide. Raises NotFound for a page that is not there."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise SourceError(f"the PDF cannot be shown: {error}; add it again from its original") from error
    try:
        if not 1 <= page <= len(document):
            raise NotFound(f"page must be from 1 to {len(document)}, got {page!r}")
        shown = document[page - 1]
        return encoded(picture(shown, scale=width / max(shown.get_width(), 1.0)))
    except pypdfium2.PdfiumError as error:
        raise SourceError(f"page {page} of the PDF cannot be shown: {error}") from error
    finally:
        document.close()


def picture(page: Any, *, scale: float) -> npt.NDArray[np.uint8]:
    """A page as rows of pixels, red green blue; smaller than asked for where it would be too large."""
    largest = max(page.get_width(), page.get_height(), 1.0) * scale
    bitmap = page.render(scale=scale * min(1.0, MAX_PIXELS / largest), rev_byteorder=True, prefer_bgrx=True)
    try:
        pixels: npt.NDArray[np.uint8] = bitmap.to_numpy()[:, :, :3].copy()
    finally:
        bitmap.close()
    return pixels


def encoded(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Pixels as a PNG."""
    height, width, _channels = pixels.shape
    # Each row starts with the number of its filter: none.
    rows = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">II", width, height) + _PNG_FORMAT
    body = zlib.compress(rows.tobytes(), _COMPRESSION)
    return _PNG_SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
