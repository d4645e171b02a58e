"""The picture of a line and the places of its characters -> the line with the blanks that an OCR engine leaves out.

Engines for Chinese know no blank beside a Chinese character, so `请使用 ragctl` comes back as one word. The gaps in the
ink tell: one of a blank is wider than those between the characters of the same line.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

Grey = npt.NDArray[np.float64]  # height, width; 0 is black
Quad = npt.NDArray[np.float64]  # the corners of a line: top left, top right, bottom right, bottom left

_HAN: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff]")
_LATIN: Final = re.compile("[A-Za-z0-9]")
# In shares of the height of the letters, beyond the usual gap in the line: a blank is a quarter to a third of it
# (tests/parsers/test_image.py, at three sizes).
_MIXED: Final = 0.1
_BETWEEN_HAN: Final = 0.28
_USUAL_GAP: Final = 0.07
_MIN_GAPS: Final = 4
# A line of so few pixels is too coarse to measure gaps in.
_MIN_HEIGHT: Final = 12


def with_blanks(text: str, centres: list[tuple[str, float]], strip: Grey) -> str:
    """The text with blanks where the strip has room for them; `centres` are the characters and where they stand."""
    letters = [sign for sign in text if not sign.isspace()]
    if [sign for sign, _ in centres] != letters or strip.shape[0] < _MIN_HEIGHT:
        return text
    gaps, height = _gaps(strip)
    found: list[float] = []
    for (_, left), (_, right) in pairwise(centres):
        found.append(max((min(end, right) - max(start, left) for start, end in gaps), default=0.0) / height)
    pairs = list(pairwise(sign for sign, _ in centres))
    usual = [gap for gap, (one, two) in zip(found, pairs, strict=True) if _HAN.match(one) and _HAN.match(two)]
    base = float(np.median(usual)) if len(usual) >= _MIN_GAPS else _USUAL_GAP
    spaced = [letters[0]] if letters else []
    place = text.find(letters[0]) + 1 if letters else 0
    for gap, (one, two) in zip(found, pairs, strict=True):
        there = text[place].isspace()
        if there or ((limit := _limit(one, two)) and gap - base >= limit):
            spaced.append(" ")
        while text[place].isspace():
            place += 1
        spaced.append(two)
        place += 1
    return "".join(spaced)


def strip_of(grey: Grey, quad: Quad) -> Grey:
    """The pixels of a line, turned upright."""
    width, height = (max(1, round(float(np.hypot(*(quad[corner] - quad[0]))))) for corner in (1, 3))
    along, down = (quad[1] - quad[0]) / width, (quad[3] - quad[0]) / height
    places = quad[0] + np.arange(width)[None, :, None] * along + np.arange(height)[:, None, None] * down
    columns = np.clip(np.rint(places[..., 0]).astype(int), 0, grey.shape[1] - 1)
    rows = np.clip(np.rint(places[..., 1]).astype(int), 0, grey.shape[0] - 1)
    return np.asarray(grey[rows, columns])


def _limit(one: str, two: str) -> float:
    """How much wider than usual a gap must be between these; 0 where none is looked for."""
    if _HAN.match(one) and _HAN.match(two):
        return _BETWEEN_HAN
    mixed = (_HAN.match(one) and _LATIN.match(two)) or (_LATIN.match(one) and _HAN.match(two))
    return _MIXED if mixed else 0.0


def _gaps(strip: Grey) -> tuple[list[tuple[int, int]], int]:
    """Where no ink is, from column to column, and how high the letters are."""
    soft = _softened(strip)
    dark, light = np.percentile(soft, (3, 80))
    ink = soft < (dark + light) / 2
    rows = np.flatnonzero(ink.any(axis=1))
    height = int(rows[-1] - rows[0] + 1) if len(rows) else strip.shape[0]
    empty = np.concatenate(([False], ~ink.any(axis=0), [False]))
    edges = np.flatnonzero(empty[1:] != empty[:-1])
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)), height


def _softened(strip: Grey) -> Grey:
    """Each dot as the mean of it and its neighbours, so that the dust of a scan is no ink."""
    padded = np.pad(strip, 1, mode="edge")
    height, width = strip.shape
    return np.asarray(sum(padded[y : y + height, x : x + width] for y in range(3) for x in range(3)) / 9)
