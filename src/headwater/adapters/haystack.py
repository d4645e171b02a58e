"""A knowledge base -> a Haystack component: a query in, documents with scores and where they stand out."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict

from headwater.build import KnowledgeBase, open_home
from headwater.shapes import hit_shape
from headwater.types import Hit
from headwater.typos import Corrections


@component
class HeadwaterRetriever:
    """`HeadwaterRetriever(headwater.open("kb"), top_n=8, where='tag = "hr"')`.

    A pipeline that is written down names the home; one that is read opens it, at `warm_up` or at the first query.
    """

    def __init__(
        self,
        knowledge_base: KnowledgeBase | str | os.PathLike[str],
        *,
        top_n: int | None = None,
        where: str = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        component.set_output_types(self, documents=list[Document])
        self._given = knowledge_base
        self._opened = knowledge_base if isinstance(knowledge_base, KnowledgeBase) else None
        self.top_n, self.where, self.collection, self.options = top_n, where, collection, dict(options or {})

    @property
    def knowledge_base(self) -> KnowledgeBase:
        """What is searched."""
        if self._opened is None:
            assert not isinstance(self._given, KnowledgeBase)
            self._opened = open_home(self._given, create=False)
        return self._opened

    def warm_up(self) -> None:
        """Open the home before the first query."""
        _ = self.knowledge_base

    def run(self, query: str, top_n: int | None = None, where: str | None = None) -> dict[str, list[Document]]:
        """Search; what is said here goes before what was said when it was made."""
        return {"documents": self._found(query, top_n, where)}

    async def run_async(
        self, query: str, top_n: int | None = None, where: str | None = None
    ) -> dict[str, list[Document]]:
        """The same, in a thread."""
        return {"documents": await asyncio.to_thread(self._found, query, top_n, where)}

    def to_dict(self) -> dict[str, Any]:
        """As a pipeline is written down."""
        home = self._given.home if isinstance(self._given, KnowledgeBase) else self._given
        told = {"top_n": self.top_n, "where": self.where, "collection": self.collection, "options": self.options}
        made: dict[str, Any] = default_to_dict(self, knowledge_base=os.fspath(home), **told)
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "HeadwaterRetriever":
        """As it was written down."""
        made: HeadwaterRetriever = default_from_dict(cls, data)
        return made

    def _found(self, query: str, top_n: int | None, where: str | None) -> list[Document]:
        results = self.knowledge_base.search(
            query,
            top_n=self.top_n if top_n is None else top_n,
            where=self.where if where is None else where,
            collection=self.collection,
            options=self.options,
        )
        return [_document(hit, results.corrected) for hit in results]


def _document(hit: Hit, corrected: Corrections) -> Document:
    told = {**hit_shape(hit), "corrected": dict(corrected)}
    text = told.pop("text")
    return Document(id=hit.chunk.name, content=text, meta={**told, "source": hit.uri}, score=float(hit.score))
