"""A vector and rows -> how alike they are, by cosine, inner product or distance; higher is always more alike."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headwater.errors import SettingError
from headwater.types import Matrix, Vector

COSINE: Final = "cosine"
INNER_PRODUCT: Final = "ip"
DISTANCE: Final = "l2"
METRICS: Final = (COSINE, INNER_PRODUCT, DISTANCE)
# Digits that mean something: stored vectors have 11 bits.
DIGITS: Final = 7

Scores = np.ndarray[Any, np.dtype[np.float64]]


def check_metric(metric: str) -> None:
    """Raises SettingError for one that is not there."""
    if metric not in METRICS:
        raise SettingError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")


def similarities(query: Vector, rows: Matrix, metric: str) -> Scores:
    """One number for each row. A distance d counts as 1 / (1 + d): 1 for the same vector, towards 0 for far ones.

    In 64 bits and rounded, so that equal vectors have equal scores wherever they stand in the matrix.
    """
    exact, wanted = rows.astype(np.float64), query.astype(np.float64)
    if metric == DISTANCE:
        away = exact - wanted
        found = 1.0 / (1.0 + np.sqrt(np.einsum("ij,ij->i", away, away)))
    else:
        found = exact @ wanted
        if metric == COSINE:
            lengths = np.sqrt(np.einsum("ij,ij->i", exact, exact)) * np.linalg.norm(wanted)
            found /= np.where(lengths > 0, lengths, 1.0)
    scores: Scores = np.round(found, DIGITS) + 0.0
    return scores
