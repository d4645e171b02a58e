"""How slow the machine is -> what a bar in milliseconds means on it.

Bars in time are for two quiet cores on which bm25s + numpy, the least that a hybrid search can be, takes 13 ms over
100,000 chunks; its work grows with the chunks. Where it takes twice that in the same run, a bar in time is twice as
long and a bar in requests a second half as high. Where it takes less, bars are as they stand: what it does is a product
of matrices, which a faster memory halves, and starting an interpreter is not. Ratios and sizes are not touched.
"""

from __future__ import annotations

REFERENCE_MS = 13.0
REFERENCE_CHUNKS = 100_000


def slowness(floor_p50_ms: float | None, chunks: int) -> float:
    """How many times as long as the reference this machine takes; 1 where it takes less or was not measured."""
    return 1.0 if floor_p50_ms is None else max(1.0, _times(floor_p50_ms, chunks))


def _times(floor_p50_ms: float, chunks: int) -> float:
    return floor_p50_ms / (REFERENCE_MS * chunks / REFERENCE_CHUNKS)


def told(floor_p50_ms: float | None, chunks: int) -> str:
    """The same in a sentence for a result file."""
    if floor_p50_ms is None:
        return "The floor was not measured, so bars in time are as they are for a quiet reference machine."
    times = _times(floor_p50_ms, chunks)
    use = (
        "bars in time are multiplied by that, bars in requests a second divided."
        if times > 1
        else "bars in time and in requests a second are as they stand."
    )
    return (
        f"The floor's p50 of {floor_p50_ms:.1f} ms is {times:.2f} times what the reference machine takes for {chunks:,}"
        f" chunks ({REFERENCE_MS * chunks / REFERENCE_CHUNKS:g} ms): {use}"
    )
