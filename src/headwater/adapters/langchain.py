"""A knowledge base -> a LangChain retriever: a query in, documents with what they rest on in their metadata out."""

import asyncio
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from headwater.build import KnowledgeBase
from headwater.shapes import hit_shape
from headwater.types import Hit
from headwater.typos import Corrections


class HeadwaterRetriever(BaseRetriever):
    """`HeadwaterRetriever(knowledge_base=headwater.open("kb"), top_n=8, where='tag = "hr"')`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    knowledge_base: KnowledgeBase
    top_n: int | None = None  # as the settings say where it is not given
    where: str = ""
    collection: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)  # of the settings' section `retrieve`

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return self._found(query)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        return await asyncio.to_thread(self._found, query)

    def _found(self, query: str) -> list[Document]:
        results = self.knowledge_base.search(
            query, top_n=self.top_n, where=self.where, collection=self.collection, options=self.options
        )
        return [_document(hit, results.corrected) for hit in results]


def _document(hit: Hit, corrected: Corrections) -> Document:
    told = {**hit_shape(hit), "corrected": dict(corrected)}
    text = told.pop("text")
    # `source` is the name that chains with sources look for.
    return Document(id=hit.chunk.name, page_content=text, metadata={**told, "source": hit.uri})
