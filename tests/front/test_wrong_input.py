"""Wrong input: each a clear message on standard error, the right exit code, and the index as it was."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.starter import headwater

from headwater.build import open_home
from headwater.stores import CATALOG_FILE


@pytest.fixture
def home(tmp_path: Path, handbook: Path) -> Path:
    home = tmp_path / "kb"
    assert headwater("add", str(handbook), "--home", str(home)).code == 0
    return home


def intact(home: Path) -> bool:
    with open_home(home, create=False) as kb:
        return kb.check() == [] and len(kb.documents()) >= 4 and len(kb.search("parental leave")) > 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("add", "no/such/folder"), 2, ("no/such/folder", "there is no file or folder")),
        (("add", "ftp://example.org/a"), 2, ("ftp://example.org/a", "only http and https")),
        (("add", "http://0x7f000001/"), 2, ("0x7f000001", "four numbers")),
        (("search", ""), 2, ("at least one word",)),
        (("search", "   "), 2, ("at least one word",)),
        (("ask", ""), 2, ("at least one word",)),
        (("add", ""), 2, ("the current folder is '.'",)),
        (("watch", ""), 2, ("'' is no folder",)),
        (("copy", "--to", ""), 2, ("'' is no folder",)),
        (("search", "x", "--where", "date >= 2025/01/31"), 2, ("2025-01-31", "character 9")),
        (("search", "x", "--where", "tag = hr and updated < yesterday"), 2, ("yesterday", "a date such as")),
        (("add", "https://example.org/feed", "--every", "often"), 2, ("often", "6h")),
        (("add", "a.md", "--collection", " "), 2, ("a collection needs a name",)),
        (("add", "-", "--collection", ""), 2, ("a collection needs a name",)),
        (("add", "a.md", "--tag", ""), 2, ("a tag is one word or more",)),
        (("add", "-", "--tag", "caf\udce9"), 2, ("Unicode", "UTF-8")),  # what a shell of another encoding gives
        (("add", "-", "--collection", "caf\udce9"), 2, ("Unicode", "UTF-8")),
        (("add", "-", "--folder", "caf\udce9"), 2, ("Unicode", "UTF-8")),
        (("search", "x", "--collection", ""), 2, ("a collection needs a name", "leave it out")),
        (("list", "--collection", " "), 2, ("a collection needs a name", "leave it out")),
        (("chat", "--where", "tag = "), 2, ("tag", "expected")),
        (("chat", "--llm", "nosuch"), 2, ("nosuch", "extractive")),
        (("search", "x", "--where", "tag = "), 2, ("tag", "expected")),
        (("search", "x", "--where", "tag ~ 3"), 2, ("~",)),
        (("search", "x", "--preset", "turbo"), 2, ("turbo", "balanced")),
        (("search", "x", "--mode", "magic"), 2, ("magic", "keyword")),
        (("search", "x", "--top-n", "0"), 2, ("0",)),
        (("show", "nothing"), 2, ("nothing", "headwater list")),
        (("remove", "nothing"), 2, ("nothing",)),
        (("frobnicate",), 2, ("frobnicate",)),
        (("search",), 2, ("QUERY",)),
    ],
)
def test_wrong_usage(home: Path, arguments: tuple[str, ...], code: int, words: tuple[str, ...]) -> None:
    placed = arguments if arguments[0] == "frobnicate" else (*arguments, "--home", str(home))
    outcome = headwater(*placed)
    assert outcome.code == code, outcome
    assert outcome.output == ""
    for word in words:
        assert word in outcome.error, outcome.error
    assert "Traceback" not in outcome.error
    assert intact(home)


def test_a_document_is_shown_while_other_settings_wait_for_a_reindex(home: Path, handbook: Path) -> None:
    (home / "headwater.toml").write_text("[chunk]\nsize = 100\n", encoding="utf-8")
    outcome = headwater("show", str(next(handbook.glob("*.md"))), "--home", str(home))
    assert outcome.code == 0, outcome.error
    assert "state completed" in outcome.output


def test_a_pack_takes_no_device_away(home: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    outcome = headwater("pack", str(pipe), "--home", str(home))
    assert outcome.code == 2 and "a pack is a file" in outcome.error
    assert pipe.is_fifo()


def test_a_closed_standard_input_is_said(home: Path) -> None:
    for arguments in (("add", "-"), ("chat",)):
        command = [sys.executable, "-m", "headwater", *arguments, "--home", str(home)]
        done = subprocess.run(command, preexec_fn=lambda: os.close(0), capture_output=True, check=False)
        assert done.returncode == 2 and b"standard input is closed" in done.stderr, done.stderr


def test_no_knowledge_base(tmp_path: Path) -> None:
    outcome = headwater("search", "x", "--home", str(tmp_path / "none"))
    assert outcome.code == 2
    assert "headwater add" in outcome.error
    assert not (tmp_path / "none").exists(), "looking makes nothing"
    unset = headwater("add", __file__, "--home", "", folder=tmp_path)
    assert unset.code == 2 and "'' is no folder" in unset.error and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[retrieve]\ntop_m = 3\n", ("top_m", "top_n")),
        ("[retreive]\ntop_n = 3\n", ("retreive", "retrieve")),
        ("[retrieve]\ntop_n = 'three'\n", ("top_n", "three", "int")),
        ("[retrieve]\nmode = 'magic'\n", ("magic", "'hybrid'")),
        ("[embed]\nuse = 'nothing'\n", ("nothing", "hashed")),
        ("[chunk]\nsise = 3\n", ("sise", "size")),
        ("[text_index]\nk1 = 1.5\n", ("k1", "1.2")),
        ("preset = 'turbo'\n", ("turbo", "balanced")),
        ("[retrieve\n", ("headwater.toml", "TOML")),
    ],
)
def test_wrong_settings_are_named(home: Path, text: str, words: tuple[str, ...]) -> None:
    (home / "headwater.toml").write_text(text, encoding="utf-8")
    outcome = headwater("search", "leave", "--home", str(home))
    assert outcome.code == 2, outcome
    for word in words:
        assert word in outcome.error, outcome.error
    (home / "headwater.toml").unlink()
    assert intact(home)


def test_a_settings_file_of_an_editor_that_marks_it(home: Path) -> None:
    """Notepad writes a byte order mark in front."""
    (home / "headwater.toml").write_text("[retrieve]\ntop_n = 1\n", encoding="utf-8-sig")
    (home / ".env").write_text("HEADWATER_RETRIEVE__MODE=keyword\n", encoding="utf-8-sig")
    with open_home(home) as kb:
        assert len(kb.search("leave")) == 1 and kb.search("leave").mode_used == "keyword"
    assert headwater("config", "set", "retrieve.top_n", "2", "--home", str(home)).code == 0
    with open_home(home) as kb:
        assert len(kb.search("leave")) == 2


def test_a_file_of_variables_in_another_encoding_is_named(home: Path) -> None:
    (home / ".env").write_bytes("# 检索\nHEADWATER_RETRIEVE__TOP_N=1\n".encode("gb18030"))
    outcome = headwater("search", "leave", "--home", str(home))
    assert outcome.code == 2, outcome
    assert str(home / ".env") in outcome.error and "UTF-8" in outcome.error


def test_another_embedder_is_refused_with_the_remedy(home: Path) -> None:
    (home / "headwater.toml").write_text("[embed]\nuse = 'hashed'\ndim = 128\n", encoding="utf-8")
    outcome = headwater("search", "leave", "--home", str(home))
    assert outcome.code == 2
    assert "128" in outcome.error
    (home / "headwater.toml").unlink()
    assert intact(home)


@pytest.mark.skipif(os.name == "nt", reason="permissions work differently there")
def test_an_unreadable_file_is_one_failed_document(home: Path, handbook: Path) -> None:
    broken = handbook / "binary.txt"
    broken.write_bytes(bytes(range(256)) * 40)
    empty = handbook / "empty.md"
    empty.write_text("   \n", encoding="utf-8")
    pdf = handbook / "paper.pdf"
    pdf.write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    dangling = handbook / "gone.md"
    dangling.symlink_to(handbook / "nowhere.md")
    outcome = headwater("add", str(handbook), "--home", str(home))
    assert outcome.code == 1
    for name in ("binary.txt", "empty.md", "paper.pdf"):
        assert name in outcome.error, outcome.error
    assert intact(home)
    listed = headwater("list", "--json", "--home", str(home)).output
    assert '"failed"' in listed and '"empty"' in listed


def test_a_home_of_a_newer_version_is_refused(home: Path) -> None:
    with sqlite3.connect(home / CATALOG_FILE) as db:
        db.execute("PRAGMA user_version = 9999")
    db.close()
    outcome = headwater("search", "leave", "--home", str(home))
    assert outcome.code == 1
    assert "9999" in outcome.error
    assert "newer" in outcome.error


def test_a_file_that_is_no_catalog_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / CATALOG_FILE).write_bytes(b"this is not a database, but some text that is long enough" * 20)
    outcome = headwater("search", "leave", "--home", str(tmp_path / "kb"))
    assert outcome.code == 1
    assert CATALOG_FILE in outcome.error


HOLD = """
import sys, time
from headwater.build import open_home
with open_home(sys.argv[1]) as kb, kb.writing():
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_home_whose_catalog_was_emptied_is_not_taken_for_a_new_one(home: Path, handbook: Path) -> None:
    catalog = home / CATALOG_FILE
    whole = catalog.read_bytes()
    catalog.write_bytes(b"")
    for arguments in (("search", "leave"), ("add", str(handbook)), ("check", "--repair")):
        outcome = headwater(*arguments, "--home", str(home))
        assert outcome.code == 1 and "it was cut off; put back a copy of it" in outcome.error
    assert catalog.read_bytes() == b""
    catalog.write_bytes(whole)
    assert intact(home)
    catalog.unlink()
    assert headwater("add", str(handbook), "--home", str(home)).code == 0
    assert intact(home)


def test_a_locked_home_says_who_holds_it(home: Path, handbook: Path) -> None:
    (handbook / "new.md").write_text("# New\n\nA new page about herons.\n", encoding="utf-8")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(home), "60"], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        waiting = {"HEADWATER_INGEST__LOCK_TIMEOUT_SECONDS": "0.5"}
        outcome = headwater("add", str(handbook), "--home", str(home), environment=waiting)
        assert outcome.code == 1
        assert str(holder.pid) in outcome.error
        assert headwater("search", "parental leave", "--home", str(home)).code == 0, "reading goes on"
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    assert headwater("add", str(handbook), "--home", str(home)).code == 0, "a killed holder leaves no lock behind"
    assert "heron" in headwater("search", "herons", "--home", str(home)).output
    assert intact(home)


def test_an_add_waits_for_the_one_before_it(home: Path, handbook: Path) -> None:
    (handbook / "new.md").write_text("# New\n\nA new page about herons.\n", encoding="utf-8")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(home), "2"], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    started = time.monotonic()
    assert headwater("add", str(handbook), "--home", str(home)).code == 0
    assert time.monotonic() - started > 0.5
    holder.wait()
    holder.stdout.close()
    assert "heron" in headwater("search", "herons", "--home", str(home)).output
