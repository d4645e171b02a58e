"""A pack and a home that has documents: what they do not share is told, and the home gets what the pack has."""

import json
import signal
import subprocess
import sys
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from tests.front.copies import Once, config, contents
from tests.starter import headwater as command

from headwater import pack_file
from headwater.archive import pack
from headwater.build import KnowledgeBase, open_home
from headwater.cli import cli
from headwater.errors import DiskFull, NotFound, SpaceMismatch, UsageError
from headwater.merging import diff, merge
from headwater.storage.ledger import Ledger, Original
from headwater.types import Change, Labels

OURS = {"same": "The pump stands by the river.", "text": "Our gauge shows one metre.", "home": "Only we have this."}
THEIRS = {"same": OURS["same"], "text": "Their gauge shows two metres.", "pack": "Only the pack: see [[same]]."}


def put(kb: KnowledgeBase, texts: dict[str, str], **labels: Any) -> None:
    for uri, text in texts.items():
        kb.add_text(text, uri=uri, collection="notes", labels=Labels(**labels), mime="text/markdown")


def keep_original(kb: KnowledgeBase, uri: str, data: bytes) -> None:
    record = kb.record(uri)
    with closing(Ledger(kb.home)) as ledger:
        hashed = ledger.originals.write(data)
        named = {"owner": record.owner, "collection": record.collection, "uri": uri, "name": uri}
        ledger.originals.keep(Original(document=record.id, hash=hashed, bytes=len(data), mime="text/plain", **named))


def original(home: Path, id: str) -> bytes | None:
    with closing(Ledger(home)) as ledger:
        kept = ledger.originals.get(id)
        return ledger.originals.read(kept.hash) if kept else None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pack whose documents are partly those of `home`."""
    with open_home(tmp_path / "theirs") as kb:
        put(kb, THEIRS, folder="shelf")
        put(kb, {"tagged": "A text."}, tags=("red",), title="Theirs")
        (kb.home / "dictionary.txt").write_text("玄武湖\n青砚河\n", encoding="utf-8")
        (kb.home / "headwater.toml").write_text("[retrieve]\ntop_n = 3\n", encoding="utf-8")
        with closing(Ledger(kb.home)) as ledger:
            made = ledger.datasets.ensure("local", "notes")
            told = {"name": "Notes of the river", "description": "Water", "scope": "shared", "options": {"a": 1}}
            ledger.datasets.update(made.id, told)
        for uri in ("text", "pack", "same"):
            keep_original(kb, uri, f"{uri} as it was sent to them".encode())
    with open_home(tmp_path / "theirs") as kb:
        pack(kb, tmp_path / "theirs.headwater")
    return tmp_path / "theirs.headwater"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with open_home(tmp_path / "ours") as kb:
        put(kb, OURS, folder="shelf")
        put(kb, {"tagged": "A text."}, tags=("blue",), title="Ours")
        (kb.home / "dictionary.txt").write_text("走航式\n玄武湖\n", encoding="utf-8")
        keep_original(kb, "text", b"text as it was sent to us")
    return tmp_path / "ours"


def files(folder: Path) -> dict[str, bytes]:
    """Every file with its hash; logs and locks of a database that is open come and go."""
    return {
        str(path.relative_to(folder)): blake2b(path.read_bytes()).digest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(("-wal", "-shm", ".lock"))
    }


def texts(kb: KnowledgeBase) -> dict[str, str]:
    return {record.uri: kb.document(record.id).text for record in kb.documents()}


def test_what_they_do_not_share_is_told_and_nothing_is_written(file: Path, home: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    found = diff(file, home)
    assert [one.uri for one in found.only_in_pack] == ["pack"]
    assert [one.uri for one in found.only_in_home] == ["home"]
    assert {one.uri: one.kinds for one in found.different} == {"tagged": ("metadata", "tags"), "text": ("text",)}
    assert (found.same, found.embedder, found.chunker) == (1, None, None)
    assert found.settings == ("retrieve.top_n", "dictionary.txt")
    at = ("unpack", str(file), "--diff", "--home", str(home))
    told = CliRunner().invoke(cli, [*at, "--json"], catch_exceptions=False)
    assert told.exit_code == 0
    shown = json.loads(told.stdout)
    assert shown["different"][1] == {
        "id": found.different[1].id, "owner": "local", "collection": "notes", "uri": "text", "in": ["text"]
    }  # fmt: skip
    assert shown["only_in_pack"][0]["uri"] == "pack" and shown["embedder"] is None
    told = CliRunner().invoke(cli, at, catch_exceptions=False)
    assert told.exit_code == 0
    lines = ["only in the pack: 1", "  notes  pack", "only in the home: 1", "  notes  home", "different: 2"]
    lines += ["  notes  tagged  (metadata, tags)", "  notes  text  (text)", "settings: retrieve.top_n, dictionary.txt"]
    assert told.stdout.splitlines() == [*lines, "the same: 1"]
    assert files(tmp_path) == before


def test_two_that_are_the_same_do_not_differ(file: Path, tmp_path: Path) -> None:
    told = CliRunner().invoke(cli, ["unpack", str(file), "--diff", "--home", str(tmp_path / "theirs")])
    assert (told.exit_code, told.stdout) == (0, "the same: 4\n")


def test_a_merge_brings_what_is_missing_and_leaves_what_is_ours(file: Path, home: Path, tmp_path: Path) -> None:
    at = ("unpack", str(file), "--merge", "--home", str(home))
    told = CliRunner().invoke(cli, at, catch_exceptions=False)
    assert told.exit_code == 0 and "1 of 1 documents" in told.stderr
    lines = ["added 1 documents, replaced 0; 1 were the same, 2 stayed as they were"]
    lines += ["  notes  tagged  (metadata, tags)", "  notes  text  (text)", "added 1 words to the dictionary"]
    assert told.stdout.splitlines() == lines
    with open_home(home, embedder=Once()) as kb:
        assert texts(kb) == {**THEIRS, **OURS, "tagged": "A text."}
        assert kb.record("tagged").tags == ("blue",)
        came = kb.record("pack")
        assert (came.folder, came.collection) == ("shelf", "notes")
        assert kb.catalog.links([came.id]) == [(came.id, kb.record("same").id)]
        assert kb.search("only the pack").hits[0].record.uri == "pack"
        assert kb.check() == []
        for uri, wanted in {"text": b"text as it was sent to us", "pack": b"pack as it was sent to them"}.items():
            assert original(home, kb.record(uri).id) == wanted
    assert (home / "dictionary.txt").read_text(encoding="utf-8").split() == ["走航式", "玄武湖", "青砚河"]
    assert not (home / "headwater.toml").exists(), "settings are the home's own"
    with closing(Ledger(home)) as ledger:
        [dataset] = ledger.datasets.of("local")
    assert (dataset.name, dataset.description, dataset.options) == ("Notes of the river", "Water", {"a": 1})
    assert dataset.scope == "private", "who may see it is for this home to say"
    assert not list(tmp_path.glob(".*"))
    again = merge(file, home)
    assert (again.added, again.replaced, again.same, len(again.kept), again.words) == (0, 0, 2, 2, 0)


def test_theirs_takes_the_place_of_what_differs(file: Path, home: Path) -> None:
    at = ("unpack", str(file), "--merge", "--theirs", "--home", str(home), "--json")
    told = json.loads(CliRunner().invoke(cli, at, catch_exceptions=False).stdout)
    assert (told["added"], told["replaced"], told["same"], told["kept"]) == (1, 2, 1, [])
    with open_home(home, embedder=Once()) as kb:
        assert texts(kb) == {**OURS, **THEIRS, "tagged": "A text."}
        assert (kb.record("tagged").tags, kb.record("tagged").title) == (("red",), "Theirs")
        assert "Their gauge" in kb.search("gauge").hits[0].chunk.text
        assert not [hit for hit in kb.search("gauge metre") if "Our gauge" in hit.chunk.text]
        assert kb.check() == [] and kb.catalog.dead() == []
        assert original(home, kb.record("text").id) == b"text as it was sent to them"
    assert [one.uri for one in diff(file, home).only_in_home] == ["home"]
    assert diff(file, home).different == ()
    assert merge(file, home, theirs=True).replaced == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from headwater import copying
from headwater.merging import merge

copying.BATCH_DOCUMENTS = 1
killed = lambda done, total: os.kill(os.getpid(), signal.SIGKILL)
merge(Path(sys.argv[1]), Path(sys.argv[2]), theirs=True, on_copied=killed)
"""


def test_a_merge_that_was_killed_is_ended_by_a_second_run(file: Path, home: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(file), str(home)], check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.glob(".*")), "a killed process clears nothing away"
    left = diff(file, home)
    assert len(left.only_in_pack) + len(left.different) == 2, "one of three came"
    merged = merge(file, home, theirs=True)
    assert merged.added + merged.replaced == 2 and not list(tmp_path.glob(".*"))
    with open_home(home, embedder=Once()) as kb:
        assert texts(kb) == {**OURS, **THEIRS, "tagged": "A text."}
        assert kb.check() == []
        assert original(home, kb.record("text").id) == b"text as it was sent to them"


def test_a_pack_is_merged_into_a_home_in_postgresql(file: Path, tmp_path: Path, postgres_url: str) -> None:
    served = config(catalog__use="postgres", catalog__url=postgres_url, catalog__create=True)
    home = tmp_path / "served"
    home.mkdir()
    settings = f'[catalog]\nuse = "postgres"\nurl = "{postgres_url}"\n'
    (home / "headwater.toml").write_text(settings, encoding="utf-8")
    with open_home(home, config=served) as kb:
        put(kb, OURS, folder="shelf")
    assert len(diff(file, home).only_in_pack) == 2
    merged = merge(file, home)
    assert (merged.added, merged.same, [one.uri for one in merged.kept]) == (2, 1, ["text"])
    with open_home(home, embedder=Once()) as kb, open_home(tmp_path / "theirs") as theirs:
        assert texts(kb) == {**THEIRS, **OURS, "tagged": "A text."}
        assert [one for one in contents(kb) if one[0].uri == "pack"] == [
            one for one in contents(theirs) if one[0].uri == "pack"
        ]
        assert kb.check() == []


def test_what_does_not_fit_is_refused_and_says_what_to_do(file: Path, tmp_path: Path, handbook: Path) -> None:
    for name, chosen in {"embedder": config(embed__use="hashed"), "chunker": config(chunk__use="sentence")}.items():
        home = tmp_path / name
        with open_home(home, config=chosen) as kb:
            kb.add(handbook)
        before = files(home)
        with pytest.raises(SpaceMismatch, match=rf"made with {name} .*headwater reindex"):
            merge(file, home)
        assert files(home) == before
        found = diff(file, home)
        assert getattr(found, name) is not None and len(found.only_in_home) == 4
    with pytest.raises(NotFound, match="no knowledge base"):
        merge(file, tmp_path / "nowhere")
    with pytest.raises(NotFound, match="no knowledge base"):
        diff(file, tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_merge_waits_for_what_is_queued(file: Path, home: Path) -> None:
    with open_home(home) as kb:
        kb.catalog.enqueue([Change(uri="text", kind="put", collection="notes")])
    with pytest.raises(UsageError, match="1 changes"):
        merge(file, home)


def test_changes_that_wait_in_the_pack_are_told(file: Path, home: Path, tmp_path: Path) -> None:
    with open_home(tmp_path / "theirs") as kb:
        kb.catalog.enqueue([Change(uri="later", kind="put")])
        pack(kb, file)
    told = CliRunner().invoke(cli, ["unpack", str(file), "--merge", "--home", str(home)], catch_exceptions=False)
    assert told.exit_code == 0 and "1 changes were not indexed" in told.stderr


def test_what_the_pack_could_not_read_replaces_nothing(home: Path, tmp_path: Path) -> None:
    paper = tmp_path / "paper.md"
    with open_home(tmp_path / "broken") as kb:
        paper.write_bytes(b"%PDF-1.7 and no more")
        assert kb.add(paper).failed
        pack(kb, tmp_path / "broken.headwater")
    with open_home(home) as kb:
        paper.write_text("The paper, whole.", encoding="utf-8")
        assert kb.add(paper).added == 1
    [kept] = merge(tmp_path / "broken.headwater", home, theirs=True).kept
    assert (kept.uri, kept.kinds) == (str(paper), ("text",))
    with open_home(home) as kb:
        assert texts(kb)[str(paper)] == "The paper, whole." and kb.record(str(paper)).state == "completed"


def test_without_room_nothing_is_merged(
    file: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(home)
    monkeypatch.setattr(pack_file.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    for attempt in (merge, diff):
        with pytest.raises(DiskFull, match="make room"):
            attempt(file, home)
    assert files(home) == before and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--check", "--diff"], "three things"),
        (["--merge", "--diff"], "three things"),
        (["--theirs"], "--merge"),
        (["--merge", "--ours", "--theirs"], "exclude"),
    ],
)
def test_flags_that_do_not_go_together(file: Path, home: Path, flags: list[str], said: str) -> None:
    told = command("unpack", str(file), *flags, "--home", str(home))
    assert told.code == 2 and said in told.error
