"""Documents go from a home with a catalog in a file to one in PostgreSQL and back, as they are."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.front.copies import Once, config, contents

from headwater.build import open_home
from headwater.cli import cli
from headwater.copying import Copied, copy
from headwater.errors import SpaceMismatch, UsageError
from headwater.filters import ALL
from headwater.types import Change

CHUNKERS = ("auto", "hierarchical")


@pytest.mark.parametrize("chunker", CHUNKERS)
def test_there_and_back_again(tmp_path: Path, handbook: Path, postgres_url: str, chunker: str) -> None:
    (handbook / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (handbook / "nothing.md").write_text("", encoding="utf-8")
    served = config(catalog__use="postgres", catalog__url=postgres_url, catalog__create=True)
    with (
        open_home(tmp_path / "file", config=config(chunk__use=chunker)) as file,
        open_home(tmp_path / "served", config=served, embedder=Once()) as other,
        open_home(tmp_path / "back", embedder=Once()) as back,
    ):
        report = file.add(handbook)
        assert report.added == 4 and report.failed
        done = copy(file, other)
        assert done.documents == len(file.catalog.records(ALL)) and done.there == 0 and done.chunks >= 4
        before = contents(file)
        assert contents(other) == before
        assert other.check() == []
        assert (
            other.ask("How many weeks of leave are paid in full?").text
            == file.ask("How many weeks of leave are paid in full?").text
        )
        assert other.search("员工年假").hits[0].chunk.text == file.search("员工年假").hits[0].chunk.text
        assert copy(file, other) == Copied(documents=0, chunks=0, there=done.documents)
        assert copy(other, back).documents == done.documents
        assert contents(back) == before
        assert back.check() == []
        # The stamps came along: what did not change is not read again.
        assert back.add(handbook).added == 0


def test_what_cannot_be_copied_is_refused(tmp_path: Path, handbook: Path) -> None:
    with (
        open_home(tmp_path / "one") as one,
        open_home(tmp_path / "other", config=config(embed__use="hashed")) as other,
        open_home(tmp_path / "third") as third,
    ):
        assert copy(one, third) == Copied(documents=0, chunks=0, there=0)
        one.add(handbook)
        (tmp_path / "itself").symlink_to(tmp_path / "one")
        with open_home(tmp_path / "itself") as itself, pytest.raises(UsageError, match="into itself"):
            copy(one, itself)
        with pytest.raises(SpaceMismatch, match="same `embed` settings"):
            copy(one, other)
        assert other.catalog.space() is None, "nothing was made"
        one.catalog.enqueue([Change(uri="later", kind="put")])
        with pytest.raises(UsageError, match="1 changes"):
            copy(one, third)


def test_the_command(tmp_path: Path, handbook: Path) -> None:
    with open_home(tmp_path / "one") as kb:
        kb.add(handbook)
    command = ["copy", "--home", str(tmp_path / "one"), "--to", str(tmp_path / "two")]
    told = CliRunner().invoke(cli, [*command, "--json"], catch_exceptions=False)
    assert json.loads(told.stdout)["documents"] == 4
    assert "4 were there already" in CliRunner().invoke(cli, command, catch_exceptions=False).stdout
    told = CliRunner().invoke(cli, [*command[:-1], str(tmp_path / "three")], catch_exceptions=False)
    assert "4 of 4 documents" in told.stderr and "copied 4 documents" in told.stdout
    with open_home(tmp_path / "two", create=False) as kb:
        assert kb.search("PPR-9087").hits
