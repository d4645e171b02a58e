"""The component for Haystack, in a pipeline of that framework."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder

import headwater
from headwater.adapters.haystack import HeadwaterRetriever
from headwater.build import KnowledgeBase
from headwater.errors import NotFound

QUESTION = "How long is parental leave?"
TEMPLATE = "{% for document in documents %}[{{ document.meta.title }}] {{ document.content }}\n{% endfor %}{{ query }}"


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "leave.md").write_text("# Parental leave\n\nParents are entitled to 26 weeks of leave.\n", "utf-8")
    (folder / "pump.md").write_text("# Pump\n\nThe pump leaves the intake open for a week.\n", "utf-8")
    with headwater.open(tmp_path / "home") as made:
        made.add(folder / "leave.md", tags=["hr"])
        made.add(folder / "pump.md", tags=["ops"])
        yield made


def pipeline(retriever: HeadwaterRetriever) -> Pipeline:
    made = Pipeline()
    made.add_component("retriever", retriever)
    made.add_component("prompt", PromptBuilder(TEMPLATE, required_variables=["documents", "query"]))
    made.connect("retriever.documents", "prompt.documents")
    return made


def test_a_prompt_is_built_of_what_was_found(kb: KnowledgeBase) -> None:
    asked = {"retriever": {"query": QUESTION}, "prompt": {"query": QUESTION}}
    (prompt,) = pipeline(HeadwaterRetriever(kb, top_n=1)).run(asked)["prompt"].values()
    assert "[Parental leave]" in prompt and "26 weeks of leave" in prompt and "pump" not in prompt


def test_documents_say_where_they_are_from(kb: KnowledgeBase) -> None:
    retriever = HeadwaterRetriever(kb, where='tag = "hr"')
    (found,) = retriever.run(QUESTION)["documents"]
    assert isinstance(found, Document) and found.score and found.meta["source"].endswith("leave.md")
    text = kb.document(found.meta["document_id"]).text
    assert text[slice(*found.meta["span"])] == found.content and found.id == found.meta["chunk_id"]
    (other,) = retriever.run(QUESTION, where='tag = "ops"')["documents"]
    assert "pump" in other.content
    assert len(retriever.run(QUESTION, where="", top_n=1)["documents"]) == 1


def test_documents_say_what_a_typo_was_read_as(kb: KnowledgeBase) -> None:
    for question, corrected in (("parentel leave", {"parentel": "parental"}), (QUESTION, {})):
        (found, *_) = HeadwaterRetriever(kb).run(question)["documents"]
        assert "26 weeks" in found.content and found.meta["corrected"] == corrected


def test_it_can_be_awaited(kb: KnowledgeBase) -> None:
    made = Pipeline()
    made.add_component("retriever", HeadwaterRetriever(kb, top_n=1))
    answer = asyncio.run(made.run_async({"retriever": {"query": QUESTION}}))
    assert "26 weeks" in answer["retriever"]["documents"][0].content


def test_a_pipeline_is_written_down_and_read(kb: KnowledgeBase) -> None:
    told = pipeline(HeadwaterRetriever(kb, top_n=1, options={"mode": "keyword"})).dumps()
    kb.close()
    read = Pipeline.loads(told, allowed_modules=["headwater.adapters.haystack"])
    retriever = read.get_component("retriever")
    assert (retriever.top_n, retriever.options) == (1, {"mode": "keyword"})
    answer = read.run({"retriever": {"query": "intake"}, "prompt": {"query": "intake"}})
    assert "The pump leaves the intake open" in answer["prompt"]["prompt"]
    retriever.knowledge_base.close()


def test_a_home_that_is_not_there_is_said_when_it_is_opened(tmp_path: Path) -> None:
    retriever = HeadwaterRetriever(tmp_path / "nowhere")
    with pytest.raises(NotFound, match="nowhere"):
        retriever.warm_up()
