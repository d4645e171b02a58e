"""headwater with catalog, text and vectors in the PostgreSQL of the environment's DATABASE_URL."""

from __future__ import annotations

from pathlib import Path

from peers.headwater import HeadwaterStore, versions

__all__ = ["make", "versions"]

SETTINGS = '[catalog]\nuse = "postgres"\ncreate = true\n'


def make(home: Path) -> HeadwaterStore:
    """The store in this folder."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "headwater.toml").write_text(SETTINGS, "utf-8")
    return HeadwaterStore(home)
