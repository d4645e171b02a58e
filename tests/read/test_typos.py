"""A question with a typo is answered; one without is searched for as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from headwater.build import KnowledgeBase, open_home
from headwater.errors import BackendError
from headwater.filters import parse
from headwater.models.words import written
from headwater.retrieve import compose
from headwater.storage.memory import MemoryTextIndex
from headwater.types import Document, Options, Query, Results

SOON_SECONDS = 15.0  # it takes less than one; what grows with the square of a question takes minutes
WARRANTY = "The warranty of the pump lasts 24 months from the day of delivery. It does not cover seals."


def search(shelf: Any, text: str, *, where: str = "", **options: Any) -> Results:
    chosen = Options(**{"typos": True, "mode": "keyword", **options})
    query = Query(text=text, options=chosen, **({"where": parse(where)} if where else {}))
    return compose(shelf.parts(written=written), chosen).retrieve(query)


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with open_home(tmp_path / "kb") as made:
        codes = "PPR-9087 is the part number of the valve of Captain Warren."
        made.add_documents(
            [
                Document(uri="warranty.txt", title="Warranty", text=WARRANTY),
                Document(uri="leave.txt", title="Leave", text="Parental leave is 26 weeks. It begins with the birth."),
                Document(uri="codes.txt", text=codes, tags=("lorem",)),
            ]
        )
        yield made


# -- found


@pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
def test_a_typo_is_found_and_told(kb: KnowledgeBase, mode: str) -> None:
    found = kb.search("warrenty", mode=mode)
    assert found[0].uri == "warranty.txt"
    assert found.corrected == {"warrenty": "warranty"}
    assert found.query.text == "warrenty"
    assert "typed otherwise: warrenty → warranty" in found[0].reasons
    assert "warranty" in found[0].highlights[0]
    assert found.degraded == ()
    assert "typos" in found.timings_ms


def test_a_question_with_a_typo_is_answered(kb: KnowledgeBase) -> None:
    answer = kb.ask("how long is the warrenty?")
    assert not answer.refused
    assert "24 months" in answer.text
    assert answer.corrected == {"warrenty": "warranty"}
    assert answer.query.text == "how long is the warrenty?"
    assert kb.ask("how long is the warrenty?", options={"typos": False}).refused


def test_a_refusal_names_what_was_looked_for(kb: KnowledgeBase) -> None:
    answer = kb.ask("which colour has the balloon of the warrenty officer in Lisbon?")
    assert answer.refused
    assert "warranty" in answer.text
    assert "warrenty" not in answer.text


@pytest.mark.parametrize("text", ["x" * 8_000, "水" * 60_000, " ".join(f"w{number}" for number in range(9_000))])
def test_a_very_long_question_takes_no_more_than_its_length(kb: KnowledgeBase, text: str) -> None:
    began = monotonic()
    assert kb.search(text).query.text == text
    assert kb.ask(text).refused
    assert monotonic() - began < SOON_SECONDS


def test_a_list_of_all_is_made_of_what_was_meant(kb: KnowledgeBase) -> None:
    found = kb.search("list all documents that mention the warrenty")
    assert [hit.uri for hit in found] == ["warranty.txt"]
    assert found.listed
    assert found.total == 1


def test_capitals_are_kept(kb: KnowledgeBase) -> None:
    assert kb.search("Warrenty of pumps").corrected == {"Warrenty": "Warranty"}
    assert kb.search("WARRENTY").corrected == {"WARRENTY": "WARRANTY"}


def test_two_slips_of_a_long_word(shelf: Any) -> None:
    shelf.add("a", "Accommodation is paid by the company.")
    assert search(shelf, "acomodation").corrected == {"acomodation": "accommodation"}


def test_the_other_spelling_is_one_that_people_write(shelf: Any) -> None:
    shelf.add("a", "The color of the organization is blue.")
    assert search(shelf, "colour of the organisation").corrected == {"colour": "color", "organisation": "organization"}


def test_the_stem_that_nobody_wrote_is_not_meant(kb: KnowledgeBase) -> None:
    """`warrenly` would have the stem of Warren, who is in a document."""
    assert kb.search("warrenty", where='uri = "codes.txt"').corrected == {}


def test_a_more_frequent_word_is_likelier(shelf: Any) -> None:
    shelf.add("a", "zorbian one")
    for number in range(5):
        shelf.add(f"b{number}", f"zorbion number {number}")
    assert search(shelf, "zorbiun").corrected == {"zorbiun": "zorbion"}


def test_a_document_that_was_just_added_has_its_words(kb: KnowledgeBase) -> None:
    assert kb.search("warrenty").corrected
    kb.add_text("Somebody wrote warrenty here.", uri="typo.txt")
    found = kb.search("warrenty", mode="keyword")
    assert found.corrected == {}
    assert [hit.uri for hit in found] == ["typo.txt"]


# -- left alone


@pytest.mark.parametrize(
    "text",
    [
        "warranty",
        "warranties",
        '"warrenty" pump',  # exact words
        "pump -warrenty",
        "PPR-9078",
        "vacation",  # a word that people write, and that no passage has
        "lorem",  # among the tags
        "保修期",
    ],
)
def test_what_is_left_alone(kb: KnowledgeBase, text: str) -> None:
    assert kb.search(text).corrected == {}


def test_what_is_likelier_meant_though_no_passage_has_it(shelf: Any) -> None:
    shelf.add("a", "They wield power.")
    assert search(shelf, "wierd power").corrected == {}


def test_exact_characters_are_themselves(kb: KnowledgeBase) -> None:
    assert len(kb.search("warrenty", mode="substring")) == 0


def test_it_can_be_switched_off(kb: KnowledgeBase) -> None:
    found = kb.search("warrenty", mode="keyword", options={"typos": False})
    assert (len(found), found.corrected) == (0, {})


def test_only_words_that_the_caller_may_see(kb: KnowledgeBase) -> None:
    """What is in a document of somebody else, or outside of the filter, is not told."""
    assert kb.search("warrenty", where='uri = "leave.txt"').corrected == {}
    assert kb.for_owner("somebody").search("warrenty").corrected == {}


def test_questions_without_typos_are_searched_for_as_they_are(filled: Any) -> None:
    for text in ("weeks of leave", "PPR-9087", "年假", "the flood of 1998", "vacation policy"):
        with_typos, without = search(filled, text, mode="hybrid"), search(filled, text, mode="hybrid", typos=False)
        assert [(hit.uri, hit.score, hit.reasons) for hit in with_typos] == [
            (hit.uri, hit.score, hit.reasons) for hit in without
        ]


def test_an_index_that_cannot_tell_its_words(filled: Any) -> None:
    class Silent(MemoryTextIndex):
        def known(self, terms: Any) -> Any:
            raise BackendError("it does not answer")

    silent = Silent(cutter=filled.parts().cutter)
    silent._added = silent._flushed = silent._visible = filled.text._flushed
    chosen = Options(typos=True, mode="keyword")
    parts = replace(filled.parts(written=written), text=silent)
    found = compose(parts, chosen).retrieve(Query(text="paremts leave", options=chosen))
    assert found[0].uri == "leave.md"
    assert found.corrected == {}


# -- told


def test_why_says_what_was_asked_for(kb: KnowledgeBase) -> None:
    told = kb.why("warrenty", "warranty.txt")
    assert told.found
    assert told.matched == ("warranty",)
    assert told.missing == ()
    assert told.notes == ("nothing has the word 'warrenty'; 'warranty' was asked for instead",)
    assert kb.inspect("warrenty").keywords == ("warranty",)


def test_a_conversation_tells_it(kb: KnowledgeBase) -> None:
    answer = kb.chat("how long is the warrenty?")
    assert "24 months" in answer.text
    assert answer.corrected == {"warrenty": "warranty"}
