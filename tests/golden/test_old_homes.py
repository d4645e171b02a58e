"""A home of every earlier release opens with the code of today, and goes on being one."""

import tarfile
from pathlib import Path

import pytest

import headwater

ARCHIVES = sorted((Path(__file__).parent / "homes").glob("*.tar.xz"))


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as archive:
        # Python 3.11.3 and earlier have no filters; 3.12 and later warn of who names none.
        archive.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return tmp_path / "home"


def test_there_are_homes_to_open() -> None:
    assert ARCHIVES


def test_what_was_written_can_be_read(home: Path) -> None:
    with headwater.open(home) as kb:
        assert {record.uri for record in kb.documents()} == {
            "note:weir",
            "note:levels",
            "note:changed",
            "note:archived",
        }
        assert kb.search("weir gates W-14")[0].uri == "note:weir"
        assert kb.search("观测站编号")[0].uri == "note:levels"
        assert "note:archived" not in {hit.uri for hit in kb.search("archived", top_n=20)}
        assert kb.search("水文", where='tag = "水文"')[0].uri == "note:levels"
        answer = kb.ask("When was the weir rebuilt?")
        assert "1987" in answer.text
        for citation in answer.citations:
            assert kb.document(citation.document_id).text[slice(*citation.span)] == citation.quote
        assert kb.check() == []


def test_it_can_be_written_to(home: Path) -> None:
    with headwater.open(home) as kb:
        kb.add_text("The pump house moved to the east bank.", uri="note:changed")
        kb.add_text("A new gauge stands at the old bridge.", uri="note:gauge")
        assert kb.search("gauge at the bridge")[0].uri == "note:gauge"
        assert "two people" not in kb.document(kb.record("note:changed").id).text
        assert kb.check(mend=True) is not None
        assert kb.check() == []
    with headwater.open(home) as again:
        assert again.status()["documents"] == 5
