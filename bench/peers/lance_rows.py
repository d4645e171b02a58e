"""LanceDB without a vector index, filled with dicts as its guides do: what a program with Python objects does."""

from __future__ import annotations

from pathlib import Path

from peers.lance import LanceStore, versions


def make(home: Path) -> LanceStore:
    """The store in this folder."""
    return LanceStore(home, indexed=False, rows=True)


__all__ = ["make", "versions"]
