"""A picture of a page -> the lines of text on it, in the order of reading, each with its place.

The engine is rapidocr with the models of its wheel: Chinese and English, nothing is fetched. It is loaded once, when
the first picture comes. What is tall (a long screenshot) is read in pieces, for the engine makes every picture small.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from headwater.errors import BackendError
from headwater.parsers._blanks import strip_of, with_blanks
from headwater.parsers._patience import ask

Image = npt.NDArray[np.uint8]  # height, width, red green blue
Place = tuple[int, int, int, int]  # left, top, right, bottom, in pixels
Line = tuple[str, Place]

REMEDY: Final = "install the extra for it: pip install 'headwater[ocr]'"

# The engine scales the longer side down to 2,000 pixels: letters of a picture taller than this would be too small.
_MAX_ASPECT: Final = 2.0
_PIECE_ASPECT: Final = 1.4
_MIN_PIECED_PIXELS: Final = 2000
# A gutter between columns is wider than the blanks in a line, and what stands beside it is longer than a cell.
_GUTTER_HEIGHTS: Final = 0.8
_MIN_COLUMN_LINES: Final = 3
_MIN_LINE_HEIGHTS: Final = 6
# Headings and captions may reach over both columns; more such lines mean that there are no columns.
_MAX_CROSSING_SHARE: Final = 0.3
_MAX_DEPTH: Final = 4
_SAME_ROW: Final = 0.5

_HAN: Final = "\u3400-\u9fff\uf900-\ufaff"
# The engine takes the marks of Chinese text for those of English where they look alike.
_WIDE: Final = {",": "，", ":": "：", ";": "；", "?": "？", "!": "！"}
_NARROW_MARK: Final = re.compile(rf"(?<=[{_HAN}])[,:;?!](?![\d/])|(?<![\d\s])[,:;?!](?=[{_HAN}])")

_NO_MEMORY: Final = re.compile(r"bad.?alloc|allocat\w* memory|out of memory|insufficient memory", re.IGNORECASE)

_one_at_a_time = Lock()


def available() -> bool:
    """Whether the extra is installed."""
    return find_spec("rapidocr") is not None and find_spec("onnxruntime") is not None


def recognise(image: Image) -> list[Line]:
    """The lines of a picture; none where it shows no text. Raises BackendError where the extra is missing."""
    if not available():
        raise BackendError(f"text in pictures cannot be read: {REMEDY}")
    lines: list[Line] = []
    for top, bottom in _pieces(image):
        ask()
        lines += [
            (_marked(text), (left, upper + top, right, lower + top))
            for text, (left, upper, right, lower) in _read(image[top:bottom])
        ]
    return in_order(lines)


def in_order(lines: list[Line]) -> list[Line]:
    """Columns one after the other, and inside each from the top down and from left to right."""
    if not lines:
        return []
    height = float(np.median([bottom - top for _, (_, top, _, bottom) in lines]))
    return _ordered(lines, max(height, 1.0), 0)


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    # One thread: documents are read in several processes at once, and threads that wait for one another cost a third
    # more of the processor than they save in time.
    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    return RapidOCR(params={"Global.log_level": "error", **threads})


def _read(image: Image) -> list[Line]:
    """What the engine finds, as boxes along the sides of the picture."""
    with _one_at_a_time:
        # It was trained on blue, green, red.
        found = _asked(np.ascontiguousarray(image[:, :, ::-1]))
    if found.boxes is None or found.txts is None:
        return []
    grey = image.mean(axis=2)
    lines = []
    for number, (box, said) in enumerate(zip(found.boxes, found.txts, strict=True)):
        corners = np.asarray(box, dtype=np.float64)
        words = found.word_results[number] if number < len(found.word_results or ()) else ()
        text = with_blanks(said.strip(), _centres(words, corners), strip_of(grey, corners))
        left, top = corners.min(axis=0)
        right, bottom = corners.max(axis=0)
        if text:
            lines.append((text, (int(left), int(top), int(right), int(bottom))))
    return lines


def _asked(image: Image) -> Any:
    """What the engine says of a picture; its own errors tell nothing by their kind."""
    try:
        return _engine()(image, return_word_box=True, return_single_char_box=True)
    except Exception as error:
        told = str(error).strip().rpartition("\n")[2]
        if isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)):
            raise MemoryError(told) from error
        raise BackendError(f"the recognition of text failed: {told}; tell us, with the file if you can") from error


def _centres(words: Any, corners: npt.NDArray[np.float64]) -> list[tuple[str, float]]:
    """Every character of a line and how far from its beginning it stands."""
    centres = []
    for sign, _, box in words:
        if sign and not sign.isspace():
            middle = np.asarray(box, dtype=np.float64).mean(axis=0)
            centres.append((sign, float(np.hypot(*(middle - (corners[0] + corners[3]) / 2)))))
    return centres


def _marked(text: str) -> str:
    return _NARROW_MARK.sub(lambda mark: _WIDE[mark[0]], text)


def _pieces(image: Image) -> list[tuple[int, int]]:
    """From where to where the picture is read at a time; cut where a row of pixels is as plain as can be."""
    height, width = image.shape[:2]
    if height <= max(_MAX_ASPECT * width, _MIN_PIECED_PIXELS):
        return [(0, height)]
    size = int(max(_PIECE_ASPECT * width, _MIN_PIECED_PIXELS // 2))
    cuts = [0]
    while height - cuts[-1] > _MAX_ASPECT * width and height - cuts[-1] > size * 1.2:
        low, high = cuts[-1] + size * 3 // 4, cuts[-1] + size
        restless = image[low:high].mean(axis=2).std(axis=1)
        # Of rows that are equally plain the last, so that pieces are large.
        plain = np.flatnonzero(restless <= restless.min() + 1.0)
        cuts.append(low + int(plain[-1]))
    return list(pairwise([*cuts, height]))


# -------------------------------------------------------------------------------------------------- order


def _ordered(lines: list[Line], height: float, depth: int) -> list[Line]:
    gutter = _gutter(lines, height) if depth < _MAX_DEPTH else None
    if gutter is None:
        return _by_rows(lines)
    crossing = sorted(_crossing(lines, gutter), key=lambda line: line[1][1])
    ordered: list[Line] = []
    beside = [line for line in lines if line not in crossing]
    for edge in (*(line[1][1] for line in crossing), float("inf")):
        # What stands above the next line that reaches over both columns: first the left one, then the right.
        band = [line for line in beside if (line[1][1] + line[1][3]) / 2 < edge]
        beside = [line for line in beside if (line[1][1] + line[1][3]) / 2 >= edge]
        for side in (
            [line for line in band if line[1][2] <= gutter],
            [line for line in band if line[1][0] >= gutter],
        ):
            ordered += _ordered(side, height, depth + 1) if side else []
        if crossing and edge != float("inf"):
            ordered.append(crossing.pop(0))
    return ordered


def _gutter(lines: list[Line], height: float) -> float | None:
    """The middle of the gap between two columns, or None."""
    best: tuple[int, float, float] | None = None
    edges = sorted({line[1][2] for line in lines})
    for edge in edges:
        after = [line[1][0] for line in lines if line[1][0] > edge]
        if not after:
            continue
        middle = edge + max(1.0, (min(after) - edge) / 2)
        left = [line for line in lines if line[1][2] <= middle]
        right = [line for line in lines if line[1][0] >= middle]
        crossed = len(lines) - len(left) - len(right)
        gap = min(after) - edge
        if gap < _GUTTER_HEIGHTS * height or crossed > _MAX_CROSSING_SHARE * len(lines):
            continue
        if not (_is_column(left, height) and _is_column(right, height) and _beside(left, right)):
            continue
        if best is None or (crossed, -gap) < best[:2]:
            best = (crossed, -gap, middle)
    return None if best is None else best[2]


def _is_column(lines: list[Line], height: float) -> bool:
    if len(lines) < _MIN_COLUMN_LINES:
        return False
    return float(np.median([right - left for _, (left, _, right, _) in lines])) >= _MIN_LINE_HEIGHTS * height


def _beside(left: list[Line], right: list[Line]) -> bool:
    """Whether two stretches of lines share most of the height of the shorter."""
    spans = [(min(line[1][1] for line in side), max(line[1][3] for line in side)) for side in (left, right)]
    shared = min(spans[0][1], spans[1][1]) - max(spans[0][0], spans[1][0])
    return shared >= _SAME_ROW * min(bottom - top for top, bottom in spans)


def _crossing(lines: list[Line], gutter: float) -> list[Line]:
    return [line for line in lines if line[1][0] < gutter < line[1][2]]


def _by_rows(lines: list[Line]) -> list[Line]:
    """From the top down; what stands side by side from left to right."""
    rows: list[list[Line]] = []
    for line in sorted(lines, key=lambda line: (line[1][1] + line[1][3], line[1][0])):
        _, (_, top, _, bottom) = line
        if rows:
            _, (_, upper, _, lower) = rows[-1][0]
            shared = min(bottom, lower) - max(top, upper)
            if shared > _SAME_ROW * min(bottom - top, lower - upper):
                rows[-1].append(line)
                continue
        rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda line: line[1][0])]
