"""Retrievers for other frameworks, each in a pipeline of that framework."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from llama_index.core import get_response_synthesizer
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import NodeRelationship

import headwater
from headwater.adapters.langchain import HeadwaterRetriever as LangChainRetriever
from headwater.adapters.llama_index import HeadwaterRetriever as LlamaIndexRetriever
from headwater.build import KnowledgeBase

QUESTION = "How long is parental leave?"


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeBase]:
    folder: Path = tmp_path_factory.mktemp("documents")
    (folder / "leave.md").write_text("# Parental leave\n\nParents are entitled to 26 weeks of leave.\n", "utf-8")
    (folder / "pump.md").write_text("# Pump\n\nThe pump leaves the intake open for a week.\n", "utf-8")
    with headwater.open(tmp_path_factory.mktemp("home")) as made:
        made.add(folder / "leave.md", tags=["hr"])
        made.add(folder / "pump.md", tags=["ops"])
        yield made


def test_a_chain_of_langchain(kb: KnowledgeBase) -> None:
    shown: list[str] = []

    def together(documents: list[Document]) -> str:
        shown.append("\n".join(one.page_content for one in documents))
        return shown[-1]

    prompt = ChatPromptTemplate.from_template("From {context} answer {question}")
    retriever = LangChainRetriever(knowledge_base=kb, top_n=1)
    chain = (
        {"context": retriever | together, "question": RunnablePassthrough()}
        | prompt
        | FakeListChatModel(responses=["26 weeks"])
        | StrOutputParser()
    )
    assert chain.invoke(QUESTION) == "26 weeks"
    assert "26 weeks of leave" in shown[0] and "pump" not in shown[0]


def test_documents_of_langchain_say_where_they_are_from(kb: KnowledgeBase) -> None:
    (found,) = LangChainRetriever(knowledge_base=kb, top_n=1, where='tag = "hr"').invoke(QUESTION)
    text = kb.document(found.metadata["document_id"]).text
    assert text[slice(*found.metadata["span"])] == found.page_content
    assert found.metadata["source"].endswith("leave.md") and found.id == found.metadata["chunk_id"]
    (other,) = asyncio.run(LangChainRetriever(knowledge_base=kb, where='tag = "ops"').ainvoke(QUESTION))
    assert "pump" in other.page_content
    lists = LangChainRetriever(knowledge_base=kb, options={"mode": "keyword"}).batch([QUESTION, "intake"])
    assert [len(one) > 0 for one in lists] == [True, True] and "intake" in lists[1][0].page_content


def test_documents_and_nodes_say_what_a_typo_was_read_as(kb: KnowledgeBase) -> None:
    for question, corrected in (("parentel leave", {"parentel": "parental"}), (QUESTION, {})):
        (document, *_) = LangChainRetriever(knowledge_base=kb).invoke(question)
        (found, *_) = LlamaIndexRetriever(kb).retrieve(question)
        assert "26 weeks" in document.page_content and "26 weeks" in found.node.get_content()
        assert document.metadata["corrected"] == found.node.metadata["corrected"] == corrected


def test_a_query_engine_of_llama_index(kb: KnowledgeBase) -> None:
    engine = RetrieverQueryEngine(
        retriever=LlamaIndexRetriever(kb, top_n=1), response_synthesizer=get_response_synthesizer(llm=MockLLM())
    )
    answer = engine.query(QUESTION)
    assert "26 weeks of leave" in str(answer)  # this model repeats what it was shown
    assert "title: Parental leave" in str(answer) and "chunk_id" not in str(answer)
    assert [one.node.get_content() for one in answer.source_nodes] == [
        hit.chunk.text for hit in kb.search(QUESTION, top_n=1)
    ]


def test_nodes_of_llama_index_say_where_they_are_from(kb: KnowledgeBase) -> None:
    (found,) = LlamaIndexRetriever(kb, where='tag = "hr"').retrieve(QUESTION)
    source = found.node.relationships[NodeRelationship.SOURCE]
    text = kb.document(source.node_id).text  # type: ignore[union-attr]
    assert text[found.node.start_char_idx : found.node.end_char_idx] == found.node.text  # type: ignore[attr-defined]
    (other,) = asyncio.run(LlamaIndexRetriever(kb, where='tag = "ops"').aretrieve(QUESTION))
    assert "pump" in other.node.get_content() and other.score
