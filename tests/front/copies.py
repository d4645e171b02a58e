"""What tests of copies and packs share: all that is kept of documents, and an embedder that refuses passages."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headwater.build import KnowledgeBase
from headwater.config import Config, Setting
from headwater.filters import ALL
from headwater.models.static import StaticEmbedder
from headwater.types import Matrix


class Once(StaticEmbedder):
    """Embeds questions, and refuses passages: a copy has all of them."""

    def embed(self, texts: Sequence[str], role: Any) -> Matrix:
        assert role == "query", texts
        return super().embed(texts, role)


def config(**chosen: Any) -> Config:
    """Settings by name, with `__` for the dot."""
    return Config({name.replace("__", "."): Setting(value, "test") for name, value in chosen.items()})


def contents(kb: KnowledgeBase) -> list[Any]:
    """All that is kept of every document, without tickets."""
    found = []
    for record in kb.catalog.records(ALL):
        chunks = kb.catalog.chunks_of(record.id)
        larger = kb.catalog.chunks([chunk.parent for chunk in chunks if chunk.parent])
        ids, rows = kb.catalog.vectors([chunk.id for chunk in chunks])
        plain = [(replace(c, id=0, parent=0), larger[c.parent][0].text if c.parent else "") for c in chunks]
        if record.ticket:
            vectors = rows[np.argsort(ids)].tolist()
            found.append((replace(record, ticket=0), kb.catalog.document(record.id), plain, vectors))
        else:  # it could not be read: its dates are those of the trying
            found.append(replace(record, created="", updated=""))
    return found
