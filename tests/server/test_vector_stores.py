"""OpenAI's files and vector stores, with its own client as it is on PyPI, against a real server."""

import re
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types import VectorStore
from tests.server.conftest import Running
from tests.starter import headwater as command

from headwater.storage.ledger import Ledger
from headwater.types import document_id

LEAVE = "# Parental leave\n\nParents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n"
ANNUAL = "# 年假制度\n\n员工每年享有十五天带薪年假。入职不满一年的员工按月折算。\n"
TRAVEL = "# Travel\n\nTrains are booked in second class. Hotels cost at most 150 euros a night.\n"
DOCS = Path(__file__).parents[2] / "docs" / "protocols.md"

Connect = Callable[..., openai.OpenAI]


@pytest.fixture(scope="module")
def connect(server: Running) -> Iterator[Connect]:
    """A client of an owner; the arguments are those of a key."""
    made: list[openai.OpenAI] = []

    def client(owner: str, **given: Any) -> openai.OpenAI:
        key = server.key(owner, **{"rights": "write", **given})
        made.append(openai.OpenAI(base_url=f"{server.base}/v1", api_key=key, max_retries=0))
        return made[-1]

    yield client
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def client(connect: Connect) -> openai.OpenAI:
    return connect("anna")


@pytest.fixture
def store(client: openai.OpenAI, request: pytest.FixtureRequest) -> VectorStore:
    """A store of a test's own, with three files that say what they are about."""
    made = client.vector_stores.create(name=request.node.name)
    for name, text, about in (
        ("leave.md", LEAVE, {"topic": "leave", "year": 2024, "draft": False}),
        ("年假.md", ANNUAL, {"topic": "leave", "year": 2025, "draft": True}),
        ("travel.md", TRAVEL, {"topic": "travel", "year": 2026, "draft": False}),
    ):
        put = client.vector_stores.files.upload_and_poll(
            vector_store_id=made.id, file=(name, text.encode()), attributes=about
        )
        assert put.status == "completed", put
    return made


def names(client: openai.OpenAI, store: VectorStore, **given: Any) -> list[str]:
    given = {"query": "leave travel 年假 hotels weeks", "max_num_results": 50, **given}
    return sorted({one.filename for one in client.vector_stores.search(store.id, **given)})


# ------------------------------------------------------------------------------------------------ files


def test_a_file_from_one_end_to_the_other(client: openai.OpenAI) -> None:
    sent = client.files.create(file=("年假.md", ANNUAL.encode()), purpose="assistants")
    assert (sent.filename, sent.bytes, sent.object) == ("年假.md", len(ANNUAL.encode()), "file")
    assert client.files.retrieve(sent.id) == sent
    assert client.files.content(sent.id).read() == ANNUAL.encode()
    assert client.files.wait_for_processing(sent.id).status == "processed"
    assert sent.id in [one.id for one in client.files.list(purpose="assistants")]
    assert sent.id not in [one.id for one in client.files.list(purpose="user_data")]
    assert client.files.delete(sent.id).deleted
    with pytest.raises(openai.NotFoundError, match="no file has the id"):
        client.files.retrieve(sent.id)
    with pytest.raises(openai.NotFoundError):
        client.files.content(sent.id)
    assert sent.id not in [one.id for one in client.files.list()]


def test_files_come_in_pages(connect: Connect) -> None:
    client = connect("paula")
    sent = [client.files.create(file=(f"{n}.txt", b"water"), purpose="user_data").id for n in range(5)]
    assert [one.id for one in client.files.list(limit=2)] == sent[::-1]  # goes on by itself
    page = client.files.list(limit=2, order="asc", after=sent[1])
    assert [one.id for one in page.data] == sent[2:4] and page.has_more
    last = client.files.list(limit=2, order="asc", after=sent[3])
    assert [one.id for one in last.data] == sent[4:] and not last.has_more
    with pytest.raises(openai.BadRequestError, match="begin again without `after`"):
        client.files.list(after="file-none")
    with pytest.raises(openai.UnprocessableEntityError, match="limit"):
        client.files.list(limit=0)


def test_a_file_is_safe_when_it_is_answered(tmp_path: Path) -> None:
    server = Running(tmp_path / "home")
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=server.key("anna", rights="write")) as client:
        sent = client.files.create(file=("leave.md", LEAVE.encode()), purpose="assistants")
        key = client.api_key
    server.kill()
    server.start()
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=key) as client:
        store = client.vector_stores.create(name="later")
        assert client.vector_stores.files.create_and_poll(sent.id, vector_store_id=store.id).status == "completed"
        assert "26 weeks" in client.vector_stores.search(store.id, query="parental leave").data[0].content[0].text
    assert server.stop() == 0


def test_deleting_a_file_leaves_no_bytes_of_it(tmp_path: Path) -> None:
    server = Running(tmp_path / "home")
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=server.key("anna", rights="write")) as client:
        twice = [client.files.create(file=("same.md", LEAVE.encode()), purpose="assistants").id for _ in range(2)]
        stores = [client.vector_stores.create(name=name) for name in ("one", "two")]
        for store in stores:
            client.vector_stores.files.create_and_poll(twice[0], vector_store_id=store.id)
        assert len(kept(server.home)) == 1  # the same bytes are kept once
        client.vector_stores.delete(stores[0].id)
        assert client.files.content(twice[0]).text == LEAVE  # a file outlives its stores
        assert client.files.delete(twice[0]).deleted
        assert len(client.vector_stores.search(stores[1].id, query="leave").data) == 0
        assert client.vector_stores.retrieve(stores[1].id).file_counts.total == 0
        assert client.files.content(twice[1]).text == LEAVE and len(kept(server.home)) == 1
        assert client.files.delete(twice[1]).deleted
        assert kept(server.home) == []
    assert server.stop() == 0


def kept(home: Path) -> list[Path]:
    return [path for path in (home / "originals").rglob("*") if path.is_file()]


def test_forget_erases_the_file_behind_a_document(tmp_path: Path) -> None:
    server = Running(tmp_path / "home")
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=server.key("local", rights="write")) as client:
        secret = "# Zanzibarmark\n\nThe secret word is quokkamark.\n"
        store = client.vector_stores.create(name="vault")
        put = client.vector_stores.files.upload_and_poll(
            vector_store_id=store.id, file=("namemark.md", secret.encode()), attributes={"note": "tagmark"}
        )
        other = client.files.create(file=("other.md", LEAVE.encode()), purpose="assistants")
        uri = str((put.model_extra or {})["uri"])
    assert server.stop() == 0
    marks = (b"quokkamark", b"Zanzibarmark", b"namemark", b"tagmark")
    files = [path for path in server.home.rglob("*") if path.is_file()]
    assert all(any(mark in path.read_bytes() for path in files) for mark in marks)
    done = command("forget", uri, "--home", str(server.home))
    assert done.code == 0, done.error
    files = [path for path in server.home.rglob("*") if path.is_file()]
    assert not [path for path in files for mark in marks if mark in path.read_bytes()]
    ledger = Ledger(server.home)
    assert [one.id for one in ledger.files.of("local")] == [other.id]
    ledger.close()


def test_what_no_file_may_be(client: openai.OpenAI, connect: Connect) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="purpose"):
        client.files.create(file=("x.jsonl", b"{}"), purpose="fine-tune")
    with pytest.raises(openai.BadRequestError, match="expires_after is not known here"):
        client.files.create(
            file=("x.txt", b"x"), purpose="assistants", expires_after={"anchor": "created_at", "seconds": 3600}
        )
    with pytest.raises(openai.PermissionDeniedError):
        connect("anna", rights="read").files.create(file=("x.txt", b"x"), purpose="assistants")


def test_a_file_counts_once_towards_the_room_of_its_owner(tmp_path: Path) -> None:
    server = Running(tmp_path / "home", env={"HEADWATER_SERVER__OWNER_QUOTA_BYTES": "1000"})
    key = server.key("anna", rights="write")
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=key, max_retries=0) as client:
        store = client.vector_stores.create(name="small")
        sent = client.files.create(file=("a.txt", b"water " * 100), purpose="assistants")
        assert client.vector_stores.files.create_and_poll(sent.id, vector_store_id=store.id).status == "completed"
        with pytest.raises(openai.APIStatusError, match="may keep 1000 bytes and keeps 600") as refused:
            client.files.create(file=("b.txt", b"stone " * 100), purpose="assistants")
        assert refused.value.status_code == 413
    assert server.stop() == 0


# ----------------------------------------------------------------------------------------------- stores


def test_a_store_from_one_end_to_the_other(client: openai.OpenAI) -> None:
    made = client.vector_stores.create(name="handbook", metadata={"team": "hr"}, description="What all should know")
    assert (made.name, made.object, made.status, made.metadata) == (
        "handbook",
        "vector_store",
        "completed",
        {"team": "hr"},
    )
    assert made.file_counts.total == 0 and made.usage_bytes == 0 and made.expires_after is None
    changed = client.vector_stores.update(made.id, name="手册", metadata={"team": "人事"})
    assert (changed.name, changed.metadata, changed.id) == ("手册", {"team": "人事"}, made.id)
    assert client.vector_stores.update(made.id, name=None, expires_after=None).name == "手册"
    assert client.vector_stores.retrieve(made.id).name == "手册"
    gone = client.vector_stores.delete(made.id)
    assert gone.deleted and gone.object == "vector_store.deleted"
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.retrieve(made.id)


def test_a_store_with_its_first_files(client: openai.OpenAI) -> None:
    sent = client.files.create(file=("leave.md", LEAVE.encode()), purpose="assistants")
    made = client.vector_stores.create(file_ids=[sent.id])  # a name is made up
    assert client.vector_stores.files.poll(sent.id, vector_store_id=made.id).status == "completed"
    found = client.vector_stores.retrieve(made.id)
    assert found.status == "completed" and found.file_counts.completed == found.file_counts.total == 1
    assert found.usage_bytes == len(LEAVE.encode()) and found.name
    before = {one.id for one in client.vector_stores.list(limit=100)}
    with pytest.raises(openai.NotFoundError, match="no file has the id 'file-none'"):
        client.vector_stores.create(name="half made", file_ids=[sent.id, "file-none"])
    assert {one.id for one in client.vector_stores.list(limit=100)} == before


def test_stores_come_in_pages(connect: Connect) -> None:
    client = connect("petra")
    made = [client.vector_stores.create(name=f"store {n}").id for n in range(4)]
    listed = [one.id for one in client.vector_stores.list(limit=3)]
    assert [id for id in listed if id in made] == made[::-1]  # others may be shared with everybody
    page = client.vector_stores.list(limit=2, order="asc", before=made[3])
    assert [one.id for one in page.data] == made[1:3]
    told: Any = page.model_extra
    assert page.has_more and (told["first_id"], told["last_id"]) == (made[1], made[2])


def test_what_no_store_may_be(client: openai.OpenAI) -> None:
    client.vector_stores.create(name="taken")
    with pytest.raises(openai.ConflictError, match="choose another name"):
        client.vector_stores.create(name="taken")
    never: Any = {"anchor": "last_active_at", "days": 7}
    with pytest.raises(openai.BadRequestError, match="expires_after is not known here"):
        client.vector_stores.create(name="gone soon", expires_after=never)
    with pytest.raises(openai.UnprocessableEntityError, match="metadata"):
        client.vector_stores.create(name="x", metadata={"k": "v" * 513})
    assert "gone soon" not in [one.name for one in client.vector_stores.list(limit=100)]


def test_a_dataset_is_a_store_whichever_way_its_documents_came(
    server: Running, client: openai.OpenAI, settled: Any
) -> None:
    with server.client(client.api_key) as plain:
        told = {"uri": "leave", "text": LEAVE, "collection": "told", "meta": {"author": "Anna", "pages": 3}}
        job = plain.post("/api/v1/ingest/text", json=told).json()["data"]
        assert settled(plain, job["job_id"])["state"] == "completed"
    store = next(one for one in client.vector_stores.list(limit=100) if one.name == "told")
    (hit,) = client.vector_stores.search(store.id, query="parental leave", filters=eq("author", "Anna")).data
    assert hit.file_id == document_id("anna", "told", "text:/leave") and hit.attributes
    assert hit.attributes["author"] == "Anna"
    assert client.files.content(hit.file_id).text == LEAVE
    assert client.files.retrieve(hit.file_id).filename == "leave"
    assert client.vector_stores.files.retrieve(hit.file_id, vector_store_id=store.id).status == "completed"
    assert client.files.delete(hit.file_id).deleted
    assert client.vector_stores.retrieve(store.id).file_counts.total == 0


# ---------------------------------------------------------------------------------------- files of stores


def test_a_file_in_a_store(client: openai.OpenAI, store: VectorStore) -> None:
    listed = client.vector_stores.files.list(store.id, order="asc").data
    assert [(one.model_extra or {})["filename"] for one in listed] == ["leave.md", "年假.md", "travel.md"]
    first = client.vector_stores.files.retrieve(listed[0].id, vector_store_id=store.id)
    assert first.attributes == {"topic": "leave", "year": 2024, "draft": False}
    assert first.last_error is None and first.usage_bytes == len(LEAVE.encode())
    assert first.chunking_strategy and first.chunking_strategy.type == "other"
    (said,) = client.vector_stores.files.content(listed[1].id, vector_store_id=store.id).data
    assert said.text == ANNUAL and said.type == "text"
    page = client.vector_stores.files.list(store.id, order="asc", limit=1, after=listed[0].id)
    assert [one.id for one in page.data] == [listed[1].id] and page.has_more
    assert len(client.vector_stores.files.list(store.id, filter="failed").data) == 0
    assert len(client.vector_stores.files.list(store.id, filter="completed").data) == 3
    gone = client.vector_stores.files.delete(listed[0].id, vector_store_id=store.id)
    assert gone.deleted and gone.object == "vector_store.file.deleted"
    assert names(client, store) == ["travel.md", "年假.md"]
    assert client.files.retrieve(listed[0].id).filename == "leave.md"  # the file itself is kept
    with pytest.raises(openai.NotFoundError, match="no file of this vector store"):
        client.vector_stores.files.retrieve(listed[0].id, vector_store_id=store.id)
    again = client.vector_stores.files.create_and_poll(listed[0].id, vector_store_id=store.id)
    assert again.status == "completed" and again.attributes == {}


def test_a_file_in_two_stores_has_attributes_in_each(client: openai.OpenAI, store: VectorStore) -> None:
    id = client.vector_stores.files.list(store.id, order="asc").data[0].id
    other = client.vector_stores.create(name="another of two")
    put = client.vector_stores.files.create_and_poll(id, vector_store_id=other.id, attributes={"year": 1999})
    assert put.id == id and put.attributes == {"year": 1999}
    found = client.vector_stores.files.retrieve(id, vector_store_id=store.id)
    assert found.attributes and found.attributes["year"] == 2024
    assert (
        names(client, other, filters=eq("year", 1999)) == ["leave.md"]
        and names(client, other, filters=eq("year", 2024)) == []
    )


def test_other_attributes_take_the_place_of_all(client: openai.OpenAI, store: VectorStore) -> None:
    id = client.vector_stores.files.list(store.id, order="asc").data[0].id
    changed = client.vector_stores.files.update(id, vector_store_id=store.id, attributes={"topic": "假期", "rank": 1.5})
    assert changed.attributes == {"topic": "假期", "rank": 1.5}
    assert client.vector_stores.files.poll(id, vector_store_id=store.id).attributes == changed.attributes
    assert names(client, store, filters=eq("topic", "假期")) == ["leave.md"]
    assert names(client, store, filters=eq("year", 2024)) == []
    again = client.vector_stores.files.create_and_poll(id, vector_store_id=store.id, attributes={"topic": "back"})
    assert again.attributes == {"topic": "back"}
    assert names(client, store, filters=eq("topic", "back")) == ["leave.md"]
    assert client.vector_stores.files.update(id, vector_store_id=store.id, attributes=None).attributes == {}


def test_an_attribute_may_have_any_name_that_documents_use(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="names")
    about = {"title": "x", "type": "y", "date": 5, "owner": "nobody", "strategy": "sentence", "in": True, "2024": "z"}
    about |= {"attributes.title": "w", "部门": "人事", "a-b.c": "d"}
    put = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("leave.md", LEAVE.encode()), attributes=about
    )
    assert put.status == "completed" and put.attributes == about
    for key, value in about.items():
        assert names(client, store, filters=eq(key, value)) == ["leave.md"], key
        assert names(client, store, filters=eq(key, "something else")) == [], key
    hit = client.vector_stores.search(store.id, query="leave").data[0]
    assert hit.attributes == about and (hit.model_extra or {})["title"] == "Parental leave"
    for bad in ({"release year": 1}, {"": 1}, {"x": "v" * 513}, {f"k{n}": n for n in range(17)}, {"big": 2**60}):
        with pytest.raises((openai.BadRequestError, openai.UnprocessableEntityError)):
            client.vector_stores.files.update(put.id, vector_store_id=store.id, attributes=bad)


def test_what_came_inside_a_file_is_part_of_it(client: openai.OpenAI) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "anna@example.org", "ben@example.org", "The gauges"
    mail.set_content("Here are the readings of the gauges.")
    mail.add_attachment("The gauge at the weir shows three metres.", filename="weir.txt")
    store = client.vector_stores.create(name="mail")
    put = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("gauges.eml", mail.as_bytes()), attributes={"year": 2026}
    )
    assert put.status == "completed" and client.vector_stores.retrieve(store.id).file_counts.total == 1
    assert [one.id for one in client.vector_stores.files.list(store.id)] == [put.id]

    def found(year: int) -> list[tuple[str, str, Any]]:
        query = "What does the gauge at the weir show?"
        page = client.vector_stores.search(store.id, query=query, filters=eq("year", year))
        inside = [one for one in page.data if "three metres" in one.content[0].text]
        return [(one.file_id, one.filename, one.attributes) for one in inside]

    assert found(2026) == [(put.id, "gauges.eml", {"year": 2026})]
    client.vector_stores.files.update(put.id, vector_store_id=store.id, attributes={"year": 2027})
    client.vector_stores.files.poll(put.id, vector_store_id=store.id)
    assert found(2026) == [] and found(2027) == [(put.id, "gauges.eml", {"year": 2027})]
    assert client.files.delete(put.id).deleted
    assert client.vector_stores.search(store.id, query="gauge").data == []


def test_what_fails_says_why(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="failing")
    codes = {}
    for name, data in (("broken.pdf", b"%PDF-1.7 broken"), ("data.bin", b"\x00\x01\x02\x03" * 9), ("empty.md", b" \n")):
        put = client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=(name, data))
        assert put.status == "failed" and put.last_error and put.last_error.message, put
        codes[name] = put.last_error.code
    assert codes == {"broken.pdf": "invalid_file", "data.bin": "unsupported_file", "empty.md": "invalid_file"}
    found = client.vector_stores.retrieve(store.id)
    assert found.file_counts.failed == found.file_counts.total == 3 and found.status == "completed"
    failed = client.vector_stores.files.list(store.id, filter="failed").data
    assert len(failed) == 3
    with pytest.raises(openai.NotFoundError, match="has no text"):
        client.vector_stores.files.content(failed[-1].id, vector_store_id=store.id)


def test_passages_are_cut_as_asked(server: Running, client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="cut")
    text = " ".join(f"The gauge number {n} stands at the river and is read at noon." for n in range(200)).encode()
    sizes: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 50}}
    long = client.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("long.txt", text))
    short = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("short.txt", text), chunking_strategy=sizes
    )
    plain = client.vector_stores.files.upload_and_poll(
        vector_store_id=store.id, file=("auto.txt", text), chunking_strategy={"type": "auto"}
    )
    assert short.chunking_strategy and short.chunking_strategy.model_dump() == sizes and short.attributes == {}
    spans = {}
    with server.client(client.api_key) as http:
        for one in (long, short, plain):
            route = f"/api/v1/datasets/{store.id}/documents/{(one.model_extra or {})['document_id']}/chunks"
            found = http.get(route, params={"page_size": 1000}).json()["data"]["chunks"]
            spans[one.id] = [chunk["span"] for chunk in found]
    assert spans[long.id] == spans[plain.id] and len(spans[short.id]) > 2 * len(spans[long.id])
    repeated = [before[1] - after[0] for before, after in zip(spans[short.id], spans[short.id][1:], strict=False)]
    assert all(after > 0 for after in repeated)  # half of a passage is in the next one
    wrong: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 60}}
    with pytest.raises(openai.UnprocessableEntityError, match="at most half"):
        client.vector_stores.files.create(store.id, file_id=long.id, chunking_strategy=wrong)


def test_a_home_that_cuts_all_alike_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "headwater.toml").write_text('[chunk]\nuse = "sentence"\n', encoding="utf-8")
    server = Running(home)
    key = server.key("anna", rights="write")
    sizes: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 0}}
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=key, max_retries=0) as client:
        store = client.vector_stores.create(name="alike")
        sent = client.files.create(file=("leave.md", LEAVE.encode()), purpose="assistants")
        with pytest.raises(openai.BadRequestError, match="cuts every document alike"):
            client.vector_stores.files.create(store.id, file_id=sent.id, chunking_strategy=sizes)
        assert client.vector_stores.retrieve(store.id).file_counts.total == 0
    assert server.stop() == 0


# ---------------------------------------------------------------------------------------------- batches


def test_a_batch(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="batch")
    first = client.files.create(file=("travel.md", TRAVEL.encode()), purpose="assistants")
    batch = client.vector_stores.file_batches.upload_and_poll(
        store.id,
        files=[("leave.md", LEAVE.encode()), ("年假.md", ANNUAL.encode()), ("broken.pdf", b"%PDF-1.7 broken")],
        file_ids=[first.id],
    )
    counts = batch.file_counts
    assert (counts.total, counts.completed, counts.failed, counts.in_progress) == (4, 3, 1, 0)
    assert batch.status == "completed" and batch.vector_store_id == store.id
    listed = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, limit=2)
    assert len(list(listed)) == 4
    (failed,) = client.vector_stores.file_batches.list_files(batch.id, vector_store_id=store.id, filter="failed")
    assert failed.last_error
    assert names(client, store) == ["leave.md", "travel.md", "年假.md"]
    client.vector_stores.files.delete(first.id, vector_store_id=store.id)
    again = client.vector_stores.file_batches.retrieve(batch.id, vector_store_id=store.id)
    assert again.file_counts.total == 3
    # What has ended is not given up any more.
    assert client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id).status == "completed"


def test_a_batch_with_something_said_of_each(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="each")
    ids = [client.files.create(file=(f"{n}.md", LEAVE.encode()), purpose="assistants").id for n in range(3)]
    batch = client.vector_stores.file_batches.create_and_poll(
        store.id, files=[{"file_id": id, "attributes": {"number": n}} for n, id in enumerate(ids)]
    )
    assert batch.file_counts.completed == 3
    assert names(client, store, filters={"type": "gte", "key": "number", "value": 1}) == ["1.md", "2.md"]
    client.vector_stores.file_batches.create_and_poll(store.id, file_ids=ids[:2], attributes={"number": 7})
    assert names(client, store, filters=eq("number", 7)) == ["0.md", "1.md"]


def test_a_batch_is_put_in_whole_or_not_at_all(client: openai.OpenAI) -> None:
    store = client.vector_stores.create(name="whole")
    sent = client.files.create(file=("leave.md", LEAVE.encode()), purpose="assistants")
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.file_batches.create(store.id, file_ids=[sent.id, "file-none"])
    bad: Any = [{"file_id": sent.id}, {"file_id": sent.id, "attributes": {"not a name": 1}}]
    with pytest.raises(openai.BadRequestError, match="attribute's name"):
        client.vector_stores.file_batches.create(store.id, files=bad)
    with pytest.raises(openai.UnprocessableEntityError, match="not both"):
        client.vector_stores.file_batches.create(store.id, file_ids=[sent.id], files=[{"file_id": sent.id}])
    assert client.vector_stores.retrieve(store.id).file_counts.total == 0
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.file_batches.retrieve("batch-none", vector_store_id=store.id)


def test_a_batch_that_is_given_up(tmp_path: Path) -> None:
    # Nobody works here, so that what waits goes on waiting.
    server = Running(tmp_path / "home", arguments=("--no-worker",))
    key = server.key("anna", rights="write")
    with openai.OpenAI(base_url=f"{server.base}/v1", api_key=key, max_retries=0) as client:
        store = client.vector_stores.create(name="given up")
        ids = [client.files.create(file=(f"{n}.md", LEAVE.encode()), purpose="assistants").id for n in range(3)]
        batch = client.vector_stores.file_batches.create(store.id, file_ids=ids)
        assert (batch.status, batch.file_counts.in_progress) == ("in_progress", 3)
        assert client.vector_stores.retrieve(store.id).status == "in_progress"
        waiting = client.vector_stores.files.update(ids[0], vector_store_id=store.id, attributes={"year": 2026})
        assert (waiting.status, waiting.attributes) == ("in_progress", {"year": 2026})
        cancelled = client.vector_stores.file_batches.cancel(batch.id, vector_store_id=store.id)
        assert (cancelled.status, cancelled.file_counts.cancelled) == ("cancelled", 3)
        found = client.vector_stores.retrieve(store.id)
        assert (found.status, found.file_counts.cancelled, found.file_counts.total) == ("completed", 3, 3)
        one = client.vector_stores.files.retrieve(ids[0], vector_store_id=store.id)
        assert one.status == "cancelled"
        assert client.vector_stores.files.delete(ids[0], vector_store_id=store.id).deleted
        assert client.vector_stores.retrieve(store.id).file_counts.total == 2
        client.vector_stores.files.create(store.id, file_id=ids[1], attributes={"year": 2025})
    assert server.stop() == 0
    later = Running(server.home)
    with openai.OpenAI(base_url=f"{later.base}/v1", api_key=key, max_retries=0) as client:
        put = client.vector_stores.files.poll(ids[1], vector_store_id=store.id)
        assert (put.status, put.attributes) == ("completed", {"year": 2025})
        assert names(client, store) == ["1.md"]
    assert later.stop() == 0


# ----------------------------------------------------------------------------------------------- search


def eq(key: str, value: Any) -> Any:
    return {"type": "eq", "key": key, "value": value}


def test_a_search(client: openai.OpenAI, store: VectorStore) -> None:
    page = client.vector_stores.search(store.id, query="How many weeks of leave do parents get?", max_num_results=2)
    told: Any = page.model_extra
    assert page.object == "vector_store.search_results.page" and told["has_more"] is False
    assert told["search_query"] == ["How many weeks of leave do parents get?"]
    hit = page.data[0]
    assert hit.filename == "leave.md" and "26 weeks" in hit.content[0].text and hit.content[0].type == "text"
    assert hit.attributes == {"topic": "leave", "year": 2024, "draft": False}
    assert client.files.retrieve(hit.file_id).filename == "leave.md"
    more: Any = hit.model_extra
    start, end = more["span"]
    assert LEAVE[start:end] == hit.content[0].text and more["chunk_id"].startswith(more["document_id"])
    assert more["uri"].endswith("/leave.md") and more["pages"] == []
    scores = [one.score for one in client.vector_stores.search(store.id, query="leave", max_num_results=50)]
    assert scores == sorted(scores, reverse=True) and all(0 <= score <= 1 for score in scores) and len(scores) > 1


def test_a_search_in_chinese(client: openai.OpenAI, store: VectorStore) -> None:
    (hit, *_) = client.vector_stores.search(store.id, query="每年有多少天带薪年假？").data
    assert hit.filename == "年假.md" and "十五天" in hit.content[0].text


def test_several_questions_at_once(client: openai.OpenAI, store: VectorStore) -> None:
    questions = ["parental leave in weeks", "带薪年假", "parental leave in weeks"]
    page = client.vector_stores.search(store.id, query=questions, max_num_results=2)
    assert {one.filename for one in page.data} == {"leave.md", "年假.md"} and len(page.data) == 2
    assert page.data[0].score >= page.data[1].score
    every = client.vector_stores.search(store.id, query=questions, max_num_results=50).data
    chunks = [(one.model_extra or {})["chunk_id"] for one in every]
    assert len(chunks) == len(set(chunks))


def test_what_a_typo_was_read_as(client: openai.OpenAI, store: VectorStore) -> None:
    page = client.vector_stores.search(store.id, query=["parentel leave", "带薪年假"])
    told: Any = page.model_extra
    assert "leave.md" in {one.filename for one in page.data} and told["corrected"] == {"parentel": "parental"}
    assert told["search_query"] == ["parentel leave", "带薪年假"]
    plain: Any = client.vector_stores.search(store.id, query="parental leave").model_extra
    assert plain["corrected"] == {}


FILTERS: list[tuple[Any, list[str]]] = [
    (eq("topic", "leave"), ["leave.md", "年假.md"]),
    (eq("draft", True), ["年假.md"]),
    ({"type": "ne", "key": "topic", "value": "leave"}, ["travel.md"]),
    ({"type": "gt", "key": "year", "value": 2025}, ["travel.md"]),
    ({"type": "gte", "key": "year", "value": 2025}, ["travel.md", "年假.md"]),
    ({"type": "lt", "key": "year", "value": 2024.5}, ["leave.md"]),
    ({"type": "lte", "key": "year", "value": 2025}, ["leave.md", "年假.md"]),
    ({"type": "in", "key": "year", "value": [2024, 2026]}, ["leave.md", "travel.md"]),
    ({"type": "nin", "key": "year", "value": [2024, 2026]}, ["年假.md"]),
    ({"type": "and", "filters": [eq("topic", "leave"), eq("draft", False)]}, ["leave.md"]),
    ({"type": "or", "filters": [eq("topic", "travel"), eq("draft", True)]}, ["travel.md", "年假.md"]),
    (
        {
            "type": "and",
            "filters": [{"type": "or", "filters": [eq("year", 2024), eq("year", 2026)]}, eq("topic", "travel")],
        },
        ["travel.md"],
    ),
    (eq("topic", 'leave" or owner != "'), []),
    (eq("unknown", 1), []),
]


def test_filters(client: openai.OpenAI, store: VectorStore) -> None:
    for filters, right in FILTERS:
        assert names(client, store, filters=filters) == right, filters


def test_filters_that_cannot_be_used(client: openai.OpenAI, store: VectorStore) -> None:
    deep: Any = eq("year", 1)
    for _ in range(80):
        deep = {"type": "and", "filters": [deep]}
    wide: Any = {"type": "or", "filters": [{"type": "or", "filters": [eq("year", n) for n in range(300)]}] * 2}
    for filters in (
        deep,
        wide,
        eq("not a name", 1),
        {"type": "like", "key": "year", "value": 1},
        {"type": "eq", "key": "year", "value": [1]},
        {"type": "in", "key": "year", "value": 1},
        {"type": "and", "filters": []},
    ):
        with pytest.raises((openai.BadRequestError, openai.UnprocessableEntityError)) as refused:
            client.vector_stores.search(store.id, query="x", filters=filters)
        assert refused.value.code == "ARGUMENT_ERROR" and refused.value.message


def test_options_of_a_search(client: openai.OpenAI, store: VectorStore) -> None:
    every = client.vector_stores.search(store.id, query="parental leave", max_num_results=50).data
    least = every[0].score
    sure = client.vector_stores.search(store.id, query="parental leave", ranking_options={"score_threshold": least})
    assert [one.score for one in sure.data] == [one.score for one in every if one.score >= least]
    for ranker in ("none", "auto"):
        found = client.vector_stores.search(store.id, query="parental leave", ranking_options={"ranker": ranker})
        assert found.data[0].filename == "leave.md"
    with pytest.raises(openai.UnprocessableEntityError, match="ranker"):
        client.vector_stores.search(store.id, query="x", ranking_options={"ranker": "default-2024-11-15"})
    for count in (0, 51):
        with pytest.raises(openai.UnprocessableEntityError, match="max_num_results"):
            client.vector_stores.search(store.id, query="x", max_num_results=count)
    rewritten = client.vector_stores.search(store.id, query="parental leave", rewrite_query=True)
    assert rewritten.data[0].filename == "leave.md"
    told: Any = rewritten.model_extra
    assert any("rewrite" in one for one in told["degraded"])  # there is no model here to do it, and it says so
    assert names(client, store, extra_body={"where": "year = 2026", "mode": "keyword"}) == ["travel.md"]


# ------------------------------------------------------------------------------------------ who may what


def test_a_key_for_some_collections(connect: Connect) -> None:
    wide, narrow = connect("nora"), connect("nora", collections=("open",))
    stores = {name: wide.vector_stores.create(name=name) for name in ("open", "closed")}
    sent = {name: wide.files.create(file=(f"{name}.md", LEAVE.encode()), purpose="assistants") for name in stores}
    loose = wide.files.create(file=("loose.md", TRAVEL.encode()), purpose="assistants")
    for name, store in stores.items():
        assert wide.vector_stores.files.create_and_poll(sent[name].id, vector_store_id=store.id).status == "completed"
    assert [one.name for one in narrow.vector_stores.list()] == ["open"]
    assert [one.id for one in narrow.files.list()] == [sent["open"].id]
    assert narrow.files.content(sent["open"].id).text == LEAVE
    own = narrow.files.create(file=("own.md", ANNUAL.encode()), purpose="assistants")
    assert {one.id for one in narrow.files.list()} == {own.id, sent["open"].id}
    assert own.id in {one.id for one in wide.files.list()}
    closed = stores["closed"].id
    for refused in (
        lambda: narrow.vector_stores.retrieve(closed),
        lambda: narrow.vector_stores.search(closed, query="leave"),
        lambda: narrow.vector_stores.files.list(closed),
        lambda: narrow.vector_stores.files.create(closed, file_id=own.id),
        lambda: narrow.vector_stores.files.create(stores["open"].id, file_id=loose.id),
        lambda: narrow.vector_stores.files.retrieve(sent["closed"].id, vector_store_id=stores["open"].id),
        lambda: narrow.files.retrieve(sent["closed"].id),
        lambda: narrow.files.content(loose.id),
        lambda: narrow.files.delete(loose.id),
        lambda: narrow.vector_stores.delete(closed),
    ):
        with pytest.raises(openai.NotFoundError):
            refused()
    with pytest.raises(openai.PermissionDeniedError):
        narrow.vector_stores.create(name="third")
    # A file that is elsewhere too is not this key's to delete.
    wide.vector_stores.files.create_and_poll(sent["open"].id, vector_store_id=closed)
    with pytest.raises(openai.PermissionDeniedError):
        narrow.files.delete(sent["open"].id)
    assert wide.files.content(sent["open"].id).text == LEAVE
    assert narrow.vector_stores.files.create_and_poll(own.id, vector_store_id=stores["open"].id).status == "completed"
    assert narrow.files.delete(own.id).deleted


def test_what_is_somebody_elses(connect: Connect, client: openai.OpenAI, store: VectorStore) -> None:
    other = connect("mallory")
    id = client.vector_stores.files.list(store.id).data[0].id
    mine = other.vector_stores.create(name="mine")
    for refused in (
        lambda: other.files.retrieve(id),
        lambda: other.files.content(id),
        lambda: other.files.delete(id),
        lambda: other.vector_stores.files.create(mine.id, file_id=id),
        lambda: other.vector_stores.create(name="copy", file_ids=[id]),
        lambda: other.vector_stores.files.content(id, vector_store_id=store.id),
        lambda: other.vector_stores.search(store.id, query="leave"),
        lambda: other.vector_stores.update(store.id, name="x"),
    ):
        with pytest.raises(openai.NotFoundError):
            refused()
    assert other.files.list().data == [] and client.files.retrieve(id).id == id


def test_a_document_with_the_uri_of_a_foreign_file_opens_nothing(
    server: Running, connect: Connect, client: openai.OpenAI, store: VectorStore, settled: Any
) -> None:
    victim = client.vector_stores.files.list(store.id).data[0]
    other = connect("mallory")
    uri = str((victim.model_extra or {})["uri"])
    with server.client(other.api_key) as http:
        job = http.post("/api/v1/ingest/text", json={"uri": uri, "text": "bait", "collection": "bait"}).json()["data"]
        assert settled(http, job["job_id"])["state"] == "completed"
    bait = next(one for one in other.vector_stores.list(limit=100) if one.name == "bait")
    (hit,) = other.vector_stores.search(bait.id, query="bait").data
    assert hit.file_id != victim.id
    with pytest.raises(openai.NotFoundError):
        other.files.content(victim.id)
    assert client.files.content(victim.id).read()


def test_what_others_share_is_read_and_not_changed(server: Running, connect: Connect) -> None:
    owner, reader = connect("sarah"), connect("rita")
    store = owner.vector_stores.create(name="shared by sarah")
    put = owner.vector_stores.files.upload_and_poll(vector_store_id=store.id, file=("leave.md", LEAVE.encode()))
    with pytest.raises(openai.NotFoundError):
        reader.files.content(put.id)
    with server.client(owner.api_key) as http:
        assert http.put(f"/api/v1/datasets/{store.id}", json={"scope": "shared"}).status_code == 200
    (hit,) = reader.vector_stores.search(store.id, query="parental leave").data
    assert hit.file_id == put.id and reader.files.content(put.id).text == LEAVE
    for refused in (
        lambda: reader.files.delete(put.id),
        lambda: reader.vector_stores.files.delete(put.id, vector_store_id=store.id),
        lambda: reader.vector_stores.files.update(put.id, vector_store_id=store.id, attributes={"a": 1}),
        lambda: reader.vector_stores.update(store.id, name="mine"),
        lambda: reader.vector_stores.create(name="of rita", file_ids=[put.id]),
    ):
        with pytest.raises(openai.PermissionDeniedError):
            refused()
    assert put.id not in [one.id for one in reader.files.list()]


def test_the_example_of_the_documentation_runs(server: Running, connect: Connect) -> None:
    page = DOCS.read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n([^`]*vector_stores\.search[^`]*)^```$", page, flags=re.MULTILINE)
    key = connect("reader of the page").api_key
    said = example.replace("http://127.0.0.1:8571", server.base).replace('"KEY"', repr(key))
    assert said != example
    found: dict[str, Any] = {"leave": LEAVE}
    exec(said, found)
    assert "26 weeks" in found["hit"].content[0].text and found["hit"].filename == "leave.md"
    found["client"].close()
