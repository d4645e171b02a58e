"""What was said is kept, each owner's apart, and can be found, renamed, exported, forgotten and deleted."""

import sqlite3
import threading
from pathlib import Path

import pytest

from headwater.errors import BackendError, HomeDamaged, HomeTooNew, NotFound
from headwater.storage.conversations import ERASED, Conversations
from headwater.turns import KeptAnswer, Passage, Turn
from headwater.types import Citation, Span

CITATION = Citation(
    marker=1, document_id="d1", uri="a.md", title="A", span=Span(3, 9), quote="quoted", pages=(2,), support="weak"
)
ANSWER = KeptAnswer(
    id="",
    owner="",
    question="怎么申请？",
    asked="怎么申请？ 年假",
    text="提前两周[1]。",
    accepted=True,
    reason="fine",
    score=9.5,
    generation=7,
    options={"top_n": 3},
    where='tag = "hr"',
    citations=(CITATION,),
    passages=(Passage(name="d1:0-20", uri="a.md", title="A", text="…quoted…", pages=(2, 3)),),
    degraded=("a note",),
    hashes={"d1": "abc"},
)


@pytest.fixture
def store(tmp_path: Path) -> Conversations:
    return Conversations(tmp_path / "conversations.sqlite", owner="ann")


def test_a_conversation_is_as_it_was_in_another_process(store: Conversations, tmp_path: Path) -> None:
    made = store.create("  How long\nis   leave? " + "x" * 100)
    assert made.title.startswith("How long is leave? xxx") and len(made.title) == 60
    turn = Turn(
        role="assistant", content="26 周[1]。", asked="假期多长", model="m", citations=(CITATION,), evidence=(4, 5)
    )
    store.append(made.id, Turn(role="user", content="多长？"))
    store.append(made.id, turn)
    again = Conversations(tmp_path / "conversations.sqlite", owner="ann").get(made.id)
    assert [one.role for one in again.turns] == ["user", "assistant"]
    read = again.turns[1]
    assert (read.citations, read.evidence, read.asked, read.model) == ((CITATION,), (4, 5), "假期多长", "m")
    assert read.created and again.updated >= made.updated and again.count == 2
    exported = store.export(made.id)
    assert exported["turns"][1]["citations"][0]["span"] == [3, 9]


def test_another_owner_s_are_unknown(store: Conversations, tmp_path: Path) -> None:
    made = store.create("mine")
    kept = store.keep(ANSWER)
    other = Conversations(tmp_path / "conversations.sqlite", owner="bob")
    assert other.latest() == [] and other.search("mine") == []
    for call in (
        lambda: other.get(made.id),
        lambda: other.rename(made.id, "yours"),
        lambda: other.delete(made.id),
        lambda: other.append(made.id, Turn(role="user", content="x")),
        lambda: other.answer(kept.id),
    ):
        with pytest.raises(NotFound):
            call()
    assert other.forget(["d1"]) == 0
    assert store.get(made.id).title == "mine" and store.answer(kept.id).text == ANSWER.text


def test_they_are_listed_found_renamed_and_deleted(store: Conversations) -> None:
    first, second = store.create("leave"), store.create("50% pumps")
    store.append(first.id, Turn(role="user", content="About 100_000 weeks"))
    assert [one.id for one in store.latest()] == [first.id, second.id]
    assert [one.id for one in store.latest(limit=1, offset=1)] == [second.id]
    assert [one.id for one in store.search("100_0")] == [first.id]
    assert [one.id for one in store.search("0%")] == [second.id]
    assert store.search("100x0") == []
    store.rename(second.id, "pumps")
    assert store.get(second.id).title == "pumps"
    store.keep(ANSWER)
    store.delete(first.id)
    with pytest.raises(NotFound, match="no conversation has the id"):
        store.get(first.id)
    assert [one.id for one in store.latest()] == [second.id]


def test_an_answer_is_as_it_was(store: Conversations) -> None:
    kept = store.keep(ANSWER)
    assert store.answer(kept.id) == kept
    assert kept.id and kept.created and kept.owner == "ann"
    assert (kept.citations, kept.passages, kept.hashes) == (ANSWER.citations, ANSWER.passages, ANSWER.hashes)
    with pytest.raises(NotFound, match="no answer is kept"):
        store.answer("nosuch")


def test_what_was_quoted_of_a_document_can_be_forgotten(store: Conversations) -> None:
    made = store.create("x")
    store.append(made.id, Turn(role="user", content="What?"))
    store.append(made.id, Turn(role="assistant", content="quoted [1]", citations=(CITATION,), evidence=(1,)))
    kept = store.keep(ANSWER)
    assert store.forget(["other"]) == 0
    assert store.forget(["d1"]) == 2
    assert [turn.content for turn in store.get(made.id).turns] == ["What?", ERASED]
    with pytest.raises(NotFound):
        store.answer(kept.id)


def test_many_threads_write_at_once(store: Conversations) -> None:
    made = store.create("busy")

    def say(number: int) -> None:
        for turn in range(10):
            store.append(made.id, Turn(role="user", content=f"{number}-{turn}"))

    threads = [threading.Thread(target=say, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [turn.content for turn in store.get(made.id).turns]
    assert sorted(said) == sorted(f"{number}-{turn}" for number in range(4) for turn in range(10))


def test_a_file_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "conversations.sqlite"
    file.write_bytes(b"not a database at all, " * 100)
    with pytest.raises(HomeDamaged, match="move it away"):
        Conversations(file, owner="ann").latest()
    file.unlink()
    db = sqlite3.connect(file)
    db.execute("pragma user_version = 99")
    db.close()
    with pytest.raises(HomeTooNew):
        Conversations(file, owner="ann").latest()
    with pytest.raises(BackendError, match="cannot be used"):
        Conversations(tmp_path / "nosuch" / "c.sqlite", owner="ann").latest()
