"""headwater with its vectors in the Milvus of the environment's MILVUS_URI and MILVUS_TOKEN."""

from __future__ import annotations

import os
from pathlib import Path

from peers.headwater import HeadwaterStore, versions

__all__ = ["make", "versions"]

SETTINGS = '[vector_index]\nuse = "milvus"\nuri = "{uri}"\ntoken = "env:MILVUS_TOKEN"\n'


def make(home: Path) -> HeadwaterStore:
    """The store in this folder."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "headwater.toml").write_text(SETTINGS.format(uri=os.environ["MILVUS_URI"]), "utf-8")
    return HeadwaterStore(home)
