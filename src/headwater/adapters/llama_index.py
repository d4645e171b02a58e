"""A knowledge base -> a LlamaIndex retriever: a query in, nodes with scores and where they stand in a document out."""

import asyncio
from collections.abc import Mapping
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from headwater.build import KnowledgeBase
from headwater.shapes import hit_shape
from headwater.types import Hit
from headwater.typos import Corrections

# What a model is shown beside the text; the rest of the metadata is for programs.
SHOWN = ("title", "section", "uri")


class HeadwaterRetriever(BaseRetriever):
    """`HeadwaterRetriever(headwater.open("kb"), top_n=8, where='tag = "hr"')`."""

    def __init__(
        self,
        knowledge_base: KnowledgeBase,
        *,
        top_n: int | None = None,
        where: str = "",
        collection: str | None = None,
        options: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> None:
        super().__init__(**given)
        self._knowledge_base = knowledge_base
        self._asked: dict[str, Any] = {"top_n": top_n, "where": where, "collection": collection, "options": options}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        results = self._knowledge_base.search(query_bundle.query_str, **self._asked)
        return [_node(hit, results.corrected) for hit in results]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit, corrected: Corrections) -> NodeWithScore:
    told = {**hit_shape(hit), "corrected": dict(corrected)}
    text = told.pop("text")
    hidden = [name for name in told if name not in SHOWN]
    node = TextNode(
        id_=hit.chunk.name,
        text=text,
        metadata=told,
        start_char_idx=hit.chunk.span.start,
        end_char_idx=hit.chunk.span.end,
        excluded_llm_metadata_keys=hidden,
        excluded_embed_metadata_keys=hidden,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.document_id)},
    )
    return NodeWithScore(node=node, score=float(hit.score))
