"""One file that holds a home: taken while it is written to, checked before it is opened, and good anywhere."""

import io
import json
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from hashlib import blake2b
from pathlib import Path

import pytest
from tests.starter import headwater as command

import headwater
from headwater.archive import pack, unpack
from headwater.errors import HomeDamaged, HomeTooNew, NotFound, UsageError
from headwater.pack_file import FORMAT, MANIFEST, verify
from headwater.refresh import subscribe
from headwater.storage.ledger import Ledger, Original
from headwater.storage.subscriptions import Subscriptions


def fill(home: Path, handbook: Path) -> None:
    with headwater.open(home) as kb:
        kb.add(handbook, tags=["x"])
        kb.chat("How long is parental leave?")
        subscribe(kb, "https://example.org/feed", every_seconds=3600)
        ledger = Ledger(home)
        hashed = ledger.originals.write(b"the bytes that were sent")
        record = kb.record(str(handbook / "pump.md"))
        told = {"owner": "local", "collection": "default", "uri": record.uri, "name": "pump.md", "mime": "text/plain"}
        ledger.originals.keep(Original(document=record.id, hash=hashed, bytes=24, **told))
        url = "https://example.org/hook"
        ledger.journal.add_webhook("local", url=url, secret="shh-webhook", events=["job.cancelled"])
        job = ledger.jobs.add(
            document=record.id, kind="put", work={}, **{k: told[k] for k in ("owner", "collection", "uri")}
        )
        assert ledger.jobs.cancel(job.id)
        ledger.close()
    (home / "headwater.toml").write_text(
        '[embed]\nuse = "static"\n\n[llm.mine]\nuse = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\n'
        'api_key = "sk-very-secret-1"\n\n[llm.other]\nuse = "openai"\nmodel = "m"\napi_key = "env:MY_KEY"\n',
        encoding="utf-8",
    )
    (home / ".env").write_text("OPENAI_API_KEY=sk-very-secret-2\n", encoding="utf-8")
    (home / "dictionary.txt").write_text("玄武湖\n", encoding="utf-8")
    (home / "models" / "m").mkdir(parents=True)
    (home / "models" / "m" / "model.bin").write_bytes(b"weights")


def test_there_and_back(tmp_path: Path, handbook: Path) -> None:
    home, file = tmp_path / "kb", tmp_path / "out" / "backup.headwater"
    fill(home, handbook)
    with headwater.open(home) as kb:
        packed = pack(kb, file)
        wanted = [(hit.chunk.name, hit.score) for hit in kb.search("parental leave")]
    assert (packed.documents, packed.indexes, packed.bytes) == (4, True, file.stat().st_size)
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]
    assert verify(file) == packed
    shutil.rmtree(home)
    again = tmp_path / "moved" / "kb"
    assert unpack(file, again) == packed
    with headwater.open(again) as kb:
        assert [(hit.chunk.name, hit.score) for hit in kb.search("parental leave")] == wanted
        assert kb.check() == []
        assert len(kb.conversations.latest()) == 1
        assert [one.url for one in Subscriptions(again).all()] == ["https://example.org/feed"]
        ledger = Ledger(again)
        original = ledger.originals.get(kb.record(str(handbook / "pump.md")).id)
        assert original is not None and ledger.originals.read(original.hash) == b"the bytes that were sent"
        assert ledger.journal.webhooks("local") == []
        assert ledger.outbox.take(limit=9, lease_seconds=0) == []
        ledger.close()
        assert kb.add(handbook, tags=["x"]).unchanged == 4
    assert (again / "dictionary.txt").read_text(encoding="utf-8") == "玄武湖\n"
    assert (again / "models" / "m" / "model.bin").read_bytes() == b"weights"
    assert not list(again.parent.glob(".*"))


def test_no_secret_is_packed_unless_it_is_asked_for(tmp_path: Path, handbook: Path) -> None:
    home = tmp_path / "kb"
    fill(home, handbook)
    found = {}
    with headwater.open(home) as kb:
        for name, keys in (("without", False), ("with", True)):
            file = tmp_path / name
            pack(kb, file, keys=keys, models=keys)
            with zipfile.ZipFile(file) as opened:
                found[name] = {entry: opened.read(entry) for entry in opened.namelist()}
    every = b"".join(found["without"].values())
    for secret in (b"sk-very-secret-1", b"sk-very-secret-2", b"shh-webhook"):
        assert secret not in every
    assert b"env:MY_KEY" in found["without"]["headwater.toml"] and ".env" not in found["with"]
    assert b"shh-webhook" in found["with"]["ledger.sqlite"]
    assert "models/m/model.bin" in found["with"] and "models/m/model.bin" not in found["without"]


def test_a_pack_taken_while_somebody_writes_is_a_whole_home(tmp_path: Path) -> None:
    home, folder = tmp_path / "kb", tmp_path / "docs"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:03}.md").write_text(
            f"# Note {number}\n\nThe gauge showed {number} metres.", encoding="utf-8"
        )
    stop, failed = threading.Event(), []

    def write() -> None:
        with headwater.open(home) as writer:
            round_number = 0
            while not stop.is_set():
                round_number += 1
                for path in sorted(folder.iterdir())[: 20 + round_number % 40]:
                    path.write_text(path.read_text(encoding="utf-8") + f" Round {round_number}.", encoding="utf-8")
                try:
                    writer.add(folder)
                except headwater.HeadwaterError as error:
                    failed.append(error)

    with headwater.open(home) as kb:
        kb.add(folder)
        thread = threading.Thread(target=write)
        thread.start()
        try:
            packs, end = [], time.monotonic() + 60
            while len({packed.generation for packed in packs}) < 4 and time.monotonic() < end:
                packs.append(pack(kb, tmp_path / f"{len(packs)}.pack"))
                time.sleep(0.02 * len(packs))  # not always in the same moment of a round
        finally:
            stop.set()
            thread.join()
    assert failed == []
    assert len({packed.generation for packed in packs}) >= 4  # the writer was at work in between
    for number, packed in list(enumerate(packs))[-5:]:
        there = tmp_path / f"home-{number}"
        unpack(tmp_path / f"{number}.pack", there)
        with headwater.open(there) as kb:
            assert kb.check() == []
            assert kb.status()["documents"] == packed.documents == 60
            assert len(kb.search("gauge metres", top_n=5)) == 5


def test_indexes_that_are_being_written_to_are_made_again(tmp_path: Path, handbook: Path) -> None:
    home = tmp_path / "kb"
    with headwater.open(home) as kb, headwater.open(home) as other:
        kb.add(handbook)
        with other.writing():
            packed = pack(kb, tmp_path / "p")
        assert not packed.indexes
        wanted = [hit.chunk.name for hit in kb.search("parental leave")]
    with zipfile.ZipFile(tmp_path / "p") as opened:
        assert not [name for name in opened.namelist() if name.startswith(("text-", "vectors-"))]
    unpack(tmp_path / "p", tmp_path / "there")
    with headwater.open(tmp_path / "there") as kb:
        assert [hit.chunk.name for hit in kb.search("parental leave")] == wanted
        assert kb.check() == []


# ------------------------------------------------------------------------------------- what is refused


@pytest.fixture
def good(tmp_path: Path, handbook: Path) -> Path:
    with headwater.open(tmp_path / "kb") as kb:
        kb.add(handbook / "pump.md")
        pack(kb, tmp_path / "good")
    return tmp_path / "good"


def rewritten(good: Path, change: object) -> Path:
    """The same pack with its manifest and entries changed by a function."""
    with zipfile.ZipFile(good) as opened:
        entries = {name: opened.read(name) for name in opened.namelist()}
    manifest = json.loads(entries.pop(MANIFEST))
    infos = change(manifest, entries)  # type: ignore[operator]
    bad = good.with_name("bad")
    with zipfile.ZipFile(bad, "w") as out:
        for name, data in entries.items():
            out.writestr((infos or {}).get(name, name), data)
        out.writestr(MANIFEST, json.dumps(manifest))
    return bad


def add_file(manifest: dict[str, object], entries: dict[str, bytes], name: str) -> None:
    entries[name] = b"evil"
    told = {"name": name, "bytes": 4, "blake2b": blake2b(b"evil", digest_size=32).hexdigest()}
    manifest["files"].append(told)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "name", ["../evil.txt", "/tmp/evil.txt", "a/../../evil.txt", "..\\evil.txt", "C:evil.txt", "a/./b", "./evil", "x/"]
)
def test_names_that_lead_elsewhere_are_refused(good: Path, tmp_path: Path, name: str) -> None:
    bad = rewritten(good, lambda manifest, entries: add_file(manifest, entries, name))
    with pytest.raises(HomeDamaged, match="leads out"):
        unpack(bad, tmp_path / "there" / "home")
    assert not (tmp_path / "there").exists() and not list(tmp_path.rglob("evil.txt"))


def test_links_are_refused(good: Path, tmp_path: Path) -> None:
    def change(manifest: dict[str, object], entries: dict[str, bytes]) -> dict[str, zipfile.ZipInfo]:
        add_file(manifest, entries, "prompts")
        link = zipfile.ZipInfo("prompts")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        return {"prompts": link}

    with pytest.raises(HomeDamaged, match="leads out"):
        unpack(rewritten(good, change), tmp_path / "there")


def test_what_is_not_what_was_packed_is_refused(good: Path, tmp_path: Path) -> None:
    def spoil(manifest: dict[str, object], entries: dict[str, bytes]) -> None:
        data = bytearray(entries["catalog.sqlite"])
        data[len(data) // 2] ^= 1
        entries["catalog.sqlite"] = bytes(data)

    def lose(manifest: dict[str, object], entries: dict[str, bytes]) -> None:
        entries.pop("catalog.sqlite")

    def slip_in(manifest: dict[str, object], entries: dict[str, bytes]) -> None:
        entries["extra.txt"] = b"x"

    for change in (spoil, lose, slip_in, lambda manifest, entries: manifest.clear()):
        bad = rewritten(good, change)
        for tried in (lambda file: unpack(file, tmp_path / "there"), verify):
            with pytest.raises(HomeDamaged):
                tried(bad)
    torn = good.with_name("torn")
    torn.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    with pytest.raises(HomeDamaged, match="no pack"):
        verify(torn)
    plain = io.BytesIO()
    with zipfile.ZipFile(plain, "w") as out:
        out.writestr("a.txt", "hello")
    torn.write_bytes(plain.getvalue())
    with pytest.raises(HomeDamaged, match="manifest"):
        unpack(torn, tmp_path / "there")
    assert not (tmp_path / "there").exists()
    with pytest.raises(NotFound):
        verify(tmp_path / "nothing")


def test_a_newer_format_is_refused(good: Path, tmp_path: Path) -> None:
    bad = rewritten(good, lambda manifest, entries: manifest.update(format=FORMAT + 1, written_by="9.9"))
    with pytest.raises(HomeTooNew, match=r"9\.9"):
        unpack(bad, tmp_path / "there")


def test_nothing_is_written_over(good: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not empty"):
        unpack(good, tmp_path / "kb")
    with headwater.open(tmp_path / "kb") as kb, pytest.raises(UsageError, match="home it is made of"):
        pack(kb, tmp_path / "kb" / "inside.pack")
    (tmp_path / "empty").mkdir()
    unpack(good, tmp_path / "empty")
    assert (tmp_path / "empty" / "catalog.sqlite").exists()


def test_the_command_line(tmp_path: Path, handbook: Path) -> None:
    home, file = str(tmp_path / "kb"), str(tmp_path / "b.pack")
    assert command("add", str(handbook), "--home", home).code == 0
    done = command("pack", file, "--json", "--home", home)
    assert done.code == 0 and json.loads(done.output)["documents"] == 4
    assert "all is well" in command("unpack", file, "--check").output
    assert command("unpack", file, "--home", str(tmp_path / "there")).code == 0
    assert command("check", "--home", str(tmp_path / "there")).code == 0
    assert command("unpack", file, "--home", home).code == 2


# Waits at the very end, when all of a pack is written under another name, or all of a home.
WAITING = """
import signal, sys, time
signal.signal(signal.Signals[sys.argv.pop(1)], signal.SIG_DFL)  # it may be ignored where the tests run
from headwater import archive
from headwater.cli import main
archive._settle = archive._check = lambda *_: (print("there", flush=True), time.sleep(600))
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("told", ["SIGTERM", "SIGHUP"])
def test_who_is_told_to_end_leaves_nothing_half_written(good: Path, tmp_path: Path, told: str) -> None:
    before = set(tmp_path.iterdir())
    commands = [["pack", str(tmp_path / "new"), "--home", str(tmp_path / "kb")]]
    commands += [["unpack", str(good), "--home", str(tmp_path / "there")]]
    for arguments in commands:
        process = subprocess.Popen([sys.executable, "-c", WAITING, told, *arguments], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None and process.stdout.readline() == "there\n"
            assert set(tmp_path.iterdir()) > before
            process.send_signal(signal.Signals[told])
            assert process.wait(60) == 128 + signal.Signals[told]
        finally:
            process.kill()
            process.communicate()
        assert set(tmp_path.iterdir()) == before
