"""LanceDB without a vector index: faster to fill, exact, slower to ask."""

from __future__ import annotations

from pathlib import Path

from peers.lance import LanceStore, versions


def make(home: Path) -> LanceStore:
    """The store in this folder."""
    return LanceStore(home, indexed=False, rows=False)


__all__ = ["make", "versions"]
