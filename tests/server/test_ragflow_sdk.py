"""The unmodified client of RAGFlow from PyPI against a real server."""

import time

import pytest
from ragflow_sdk import RAGFlow
from tests.server.conftest import Running

LEAVE = b"# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
PUMP = b"# Pump manual\n\nError PPR-9087 means the intake is blocked. Clean the screen and restart the pump.\n"


def test_a_passage_is_not_available_and_available_again(server: Running) -> None:
    rag = RAGFlow(server.key("otto", rights="admin"), server.base)
    dataset = rag.create_dataset("gauges")
    lines = [
        f"Gauge {n} stands at kilometre {n * 7} and is read at dawn by the keeper of weir {n}." for n in range(200)
    ]
    sent = b"---\ntitle: Gauges\n---\n\n" + " ".join(lines).encode() + b"\n\n%%a note to myself%%\n\nThe last word.\n"

    def index() -> None:
        (document,) = dataset.upload_documents([{"display_name": "gauges.md", "blob": sent}])
        dataset.parse_documents([document.id])

    def listed() -> list[tuple[str, str, bool]]:
        return [(one.id, one.content, one.available) for one in document.list_chunks(page_size=100)]

    def found(question: str) -> list[str]:
        return [
            one.content for one in rag.retrieve(dataset_ids=[dataset.id], question=question, similarity_threshold=0)
        ]

    def set_available(id: str, available: bool) -> None:
        next(one for one in document.list_chunks(page_size=100) if one.id == id).update({"available": available})

    index()
    document = dataset.list_documents()[0]
    added = document.add_chunk("The keeper sleeps at noon.", important_keywords=["siesta"])
    before = listed()
    assert len(before) > 4 and all(available for _, _, available in before)
    second = before[1][0]  # its neighbours have words in common with it
    (last,) = (id for id, content, _ in before if content == "The last word.")
    words = before[1][1].split(". ")[3]
    for id in (second, added.id):
        set_available(id, False)
    assert {id for id, _, available in listed() if not available} == {second, added.id}
    assert not any(words in content for content in found(words))
    assert not any("sleeps" in content for content in found("siesta keeper sleeps at noon"))
    index()  # again, and it stays so
    set_available(last, True)  # it is: nothing changes
    assert {id for id, _, available in listed() if not available} == {second, added.id}

    for id in (second, added.id):
        set_available(id, True)
    assert listed() == before  # every passage under its old id, and what the document hides is hidden
    assert any(words in content for content in found(words))
    assert any("sleeps" in content for content in found("siesta keeper sleeps at noon"))
    assert not any("note to myself" in content for _, content, _ in before)

    # One that is edited while it is away stays away, and one that is deleted does not come back.
    set_available(second, False)
    next(one for one in document.list_chunks(page_size=100) if one.id == second).update({"content": "The gauges rust."})
    (edited,) = (one for one in listed() if one[1] == "The gauges rust.")
    assert edited[2] is False and second not in {id for id, _, _ in listed()}
    set_available(edited[0], True)
    assert "The gauges rust." in found("gauges rust")
    set_available(last, False)
    document.delete_chunks([last])
    assert last not in {id for id, _, _ in listed()}
    with pytest.raises(Exception, match="has no passage"):
        document.delete_chunks([last])


def test_datasets_documents_chunks_and_retrieval(server: Running) -> None:
    rag = RAGFlow(server.key("anna", rights="admin"), server.base)
    dataset = rag.create_dataset("handbook", description="all of it")
    assert [one.name for one in rag.list_datasets()] == ["handbook"]
    assert rag.get_dataset("handbook").id == dataset.id

    documents = dataset.upload_documents(
        [{"display_name": "leave.md", "blob": LEAVE}, {"display_name": "pump.md", "blob": PUMP}]
    )
    assert [one.name for one in documents] == ["leave.md", "pump.md"]
    finished = dataset.parse_documents([one.id for one in documents])
    assert {(id, run) for id, run, _, _ in finished} == {(one.id, "DONE") for one in documents}
    assert all(chunks > 0 for _, _, chunks, _ in finished)

    leave = dataset.list_documents(id=documents[0].id)[0]
    assert leave.run == "DONE" and leave.progress == 1.0 and leave.chunk_count > 0
    assert {one.name for one in dataset.list_documents(orderby="name", desc=False)} == {"leave.md", "pump.md"}
    assert [one.name for one in dataset.list_documents(keywords="pump")] == ["pump.md"]
    passages = leave.list_chunks()
    assert any("26 weeks" in one.content for one in passages)
    assert leave.download() == LEAVE

    found = rag.retrieve(dataset_ids=[dataset.id], question="how many weeks of parental leave")
    assert "26 weeks" in found[0].content and found[0].similarity > 0
    assert found[0].document_id == leave.id and found[0].dataset_id == dataset.id
    only = rag.retrieve(dataset_ids=[dataset.id], document_ids=[documents[1].id], question="leave pump intake")
    assert only and {one.document_id for one in only} == {documents[1].id}

    documents[1].update({"meta_fields": {"machine": "pump"}})
    wanted = {"logic": "and", "conditions": [{"name": "machine", "comparison_operator": "is", "value": "pump"}]}
    tagged = rag.retrieve(dataset_ids=[dataset.id], question="restart", metadata_condition=wanted)
    assert {one.document_id for one in tagged} == {documents[1].id}

    added = leave.add_chunk("The leave may be taken in two parts.", important_keywords=["splitting"])
    assert added.content == "The leave may be taken in two parts."
    again = rag.retrieve(dataset_ids=[dataset.id], document_ids=[leave.id], question="taken in two parts splitting")
    assert again[0].content == "The leave may be taken in two parts."
    added.update({"content": "The leave may be taken in three parts."})
    assert "The leave may be taken in three parts." in [one.content for one in leave.list_chunks()]
    assert "The leave may be taken in two parts." not in [one.content for one in leave.list_chunks()]

    # What is not said stays, and keywords alone can be changed.
    changed = next(one for one in leave.list_chunks() if "three parts" in one.content)
    assert changed.important_keywords == ["splitting"]
    changed.update({"important_keywords": ["apportioning"]})
    changed = next(one for one in leave.list_chunks() if "three parts" in one.content)
    assert changed.important_keywords == ["apportioning"]
    found = rag.retrieve(dataset_ids=[dataset.id], document_ids=[leave.id], question="apportioning")
    assert found[0].content == "The leave may be taken in three parts."
    changed.update({"questions": ["How often may it be split?"]})
    (changed,) = (one for one in leave.list_chunks() if "three parts" in one.content)
    assert (changed.important_keywords, changed.questions) == (["apportioning"], ["How often may it be split?"])

    first = next(one for one in leave.list_chunks() if "26 weeks" in one.content)
    leave.delete_chunks([first.id])
    assert not any("26 weeks" in one.content for one in leave.list_chunks())
    # Indexing it again keeps what people added, changed and left out.
    leave.update({"name": "parental.md", "meta_fields": {"kept": "yes"}})
    again = dataset.upload_documents([{"display_name": "leave.md", "blob": LEAVE}])
    dataset.parse_documents([again[0].id])
    assert again[0].id == leave.id
    contents = [one.content for one in leave.list_chunks()]
    assert any("three parts" in one for one in contents) and not any("26 weeks" in one for one in contents)
    assert dataset.list_documents(id=leave.id)[0].meta_fields.kept == "yes"
    leave.update({"name": "parental.md"})

    dataset.update({"name": "manual"})
    assert rag.get_dataset("manual").id == dataset.id
    dataset.delete_documents([documents[1].id])
    assert [one.name for one in dataset.list_documents()] == ["parental.md"]
    rag.delete_datasets([dataset.id])
    assert rag.list_datasets() == []
    with pytest.raises(Exception, match="no dataset has the id"):
        rag.retrieve(dataset_ids=[dataset.id], question="leave")


def test_a_wrong_key_is_told_so(server: Running) -> None:
    server.key("anna")
    with pytest.raises(Exception, match="unknown, revoked or expired"):
        RAGFlow("hw_wrong", server.base).list_datasets()


def test_indexing_can_be_stopped_while_it_waits(server: Running) -> None:
    rag = RAGFlow(server.key("ben", rights="admin"), server.base)
    dataset = rag.create_dataset("many")
    blobs = [{"display_name": f"{n}.txt", "blob": f"text number {n} about water".encode()} for n in range(60)]
    documents = dataset.upload_documents(blobs)
    dataset.async_cancel_parse_documents([one.id for one in documents])
    end = time.monotonic() + 60
    while any(one.run == "RUNNING" for one in dataset.list_documents(page_size=100)):
        assert time.monotonic() < end
        time.sleep(0.05)
    states = {one.run for one in dataset.list_documents(page_size=100)}
    assert states <= {"DONE", "CANCEL"}
    dataset.async_parse_documents([one.id for one in documents])
    while any(one.run != "DONE" for one in dataset.list_documents(page_size=100)):
        assert time.monotonic() < end
        time.sleep(0.05)
