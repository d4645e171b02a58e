"""Packs of homes whose stores are in servers, and packs put into such stores: the same file, and nothing done again."""

import json
import resource
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.front.copies import Once, contents
from tests.starter import headwater as command

from headwater import copying, pack_file
from headwater.archive import MARK, pack, portable_settings, unpack
from headwater.build import KnowledgeBase, open_home
from headwater.config import load, written_in
from headwater.errors import BackendError, DiskFull, SpaceMismatch, UsageError
from headwater.pack_file import verify
from headwater.storage.ledger import Ledger, Original
from headwater.testing.milvus_server import MilvusServer
from headwater.types import Change, Document

QUESTION = "How many weeks of leave are paid in full?"


class Stop(Exception):
    """What breaks a copy off."""


def served(home: Path, url: str, more: str = "") -> Path:
    """A folder whose settings choose PostgreSQL."""
    home.mkdir()
    text = f'[catalog]\nuse = "postgres"\nurl = "{url}"\ncreate = true\n{more}'
    (home / "headwater.toml").write_text(text, encoding="utf-8")
    return home


def fill(kb: KnowledgeBase, handbook: Path) -> None:
    """Documents of every state, and what lies beside them in the folder."""
    (handbook / "broken.pdf").write_bytes(b"%PDF-1.7 and no more")
    (handbook / "nothing.md").write_text("", encoding="utf-8")
    (kb.home / "dictionary.txt").write_text("玄武湖\n", encoding="utf-8")
    kb.add(handbook, tags=["x"], folder="shelf")
    kb.chat("How long is parental leave?")
    record = kb.record(str(handbook / "pump.md"))
    with closing(Ledger(kb.home)) as ledger:
        hashed = ledger.originals.write(b"the bytes that were sent")
        told = {"owner": "local", "collection": "default", "uri": record.uri, "name": "pump.md", "mime": "text/plain"}
        ledger.originals.keep(Original(document=record.id, hash=hashed, bytes=24, **told))
    kb.catalog.enqueue([Change(uri="later", kind="put")])


def left_beside(file: Path) -> list[str]:
    """Hidden files and folders: what nobody cleared away."""
    return [path.name for path in file.parent.iterdir() if path.name.startswith(".")]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process can grow beyond that, which is as if its disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def breaking(after: int) -> Callable[[int, int], None]:
    def stop(done: int, total: int) -> None:
        if done >= after:
            raise Stop

    return stop


@pytest.mark.parametrize("chunker", ["auto", "hierarchical"])
def test_a_pack_of_a_home_in_postgresql_is_a_home_without_a_server(
    tmp_path: Path, handbook: Path, postgres_url: str, chunker: str
) -> None:
    file, told = tmp_path / "kb.headwater", []
    more = f'[chunk]\nuse = "{chunker}"\n[llm.mine]\nuse = "openai"\nmodel = "m"\napi_key = "sk-secret"\n'
    with open_home(served(tmp_path / "served", postgres_url, more)) as kb:
        fill(kb, handbook)
        before, answer = contents(kb), kb.ask(QUESTION).text
        packed = pack(kb, file, on_copied=lambda done, total: told.append((done, total)))
        assert kb.catalog.pending() == 1, "what waits goes on waiting there"
        assert pack(kb, file).documents == packed.documents
    assert told == [(len(before), len(before))]
    assert packed.indexes and packed.documents == len(before) and verify(file).documents == packed.documents
    assert left_beside(file) == []
    with zipfile.ZipFile(file) as opened:
        every = b"".join(opened.read(name) for name in opened.namelist())
        names = {name.partition("/")[0] for name in opened.namelist()}
    assert {"catalog.sqlite", "text-1", "vectors-1", "ledger.sqlite", "conversations.sqlite", "originals"} <= names
    assert postgres_url.encode() not in every and b"sk-secret" not in every

    home = tmp_path / "anywhere"
    unpack(file, home)
    assert {name for name in written_in(home) if not name.startswith("llm.")} == {"chunk.use"}
    with open_home(home, embedder=Once()) as kb:
        assert contents(kb) == before
        assert kb.check() == []
        assert kb.ask(QUESTION).text == answer
        assert [change.uri for change in kb.catalog.claim(9)] == ["later"]
        assert len(kb.conversations.latest()) == 1
        with closing(Ledger(home)) as ledger:
            original = ledger.originals.get(kb.record(str(handbook / "pump.md")).id)
            assert original is not None and ledger.originals.read(original.hash) == b"the bytes that were sent"


def test_a_pack_fills_the_stores_that_a_folder_chooses(tmp_path: Path, handbook: Path, postgres_url: str) -> None:
    file, told = tmp_path / "kb.headwater", []
    with open_home(tmp_path / "kb") as kb:
        fill(kb, handbook)
        before, answer = contents(kb), kb.ask(QUESTION).text
        pack(kb, file)
    home = served(tmp_path / "served", postgres_url)
    settings = (home / "headwater.toml").read_bytes()
    packed = unpack(file, home, on_copied=lambda done, total: told.append((done, total)))
    assert packed.documents == len(before) and told == [(len(before), len(before))]
    assert (home / "headwater.toml").read_bytes() == settings
    assert not (home / "catalog.sqlite").exists() and not (home / MARK).exists() and not left_beside(home)
    with open_home(home, embedder=Once()) as kb:
        assert contents(kb) == before
        assert kb.check() == []
        assert kb.ask(QUESTION).text == answer
        assert [change.uri for change in kb.catalog.claim(9)] == ["later"]
        assert len(kb.conversations.latest()) == 1
    assert (home / "dictionary.txt").read_text(encoding="utf-8") == "玄武湖\n"
    # It has documents now, in this folder and in every other one that chooses the same catalog.
    for taken in (home, served(tmp_path / "other", postgres_url)):
        with pytest.raises(UsageError, match="--merge"):
            unpack(file, taken)


def test_unpacking_into_a_server_goes_on_where_it_was_broken_off(
    tmp_path: Path, handbook: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_home(tmp_path / "kb") as kb:
        kb.add(handbook)
        before = contents(kb)
        pack(kb, tmp_path / "a.headwater")
        kb.add_text("more", uri="more")
        pack(kb, tmp_path / "b.headwater")
    home = served(tmp_path / "served", postgres_url)
    monkeypatch.setattr(copying, "BATCH_DOCUMENTS", 1)
    with pytest.raises(Stop):
        unpack(tmp_path / "a.headwater", home, on_copied=breaking(2))
    with open_home(home) as kb:
        assert kb.catalog.statistics()["documents"] == 2
    assert not left_beside(home)
    with pytest.raises(UsageError, match="broken off"):
        unpack(tmp_path / "b.headwater", home)
    unpack(tmp_path / "a.headwater", home)
    with open_home(home, embedder=Once()) as kb:
        assert contents(kb) == before and kb.check() == []


@pytest.mark.parametrize("section", ["embed", "chunk"])
def test_a_home_with_another_embedder_or_chunker_is_not_filled(
    tmp_path: Path, handbook: Path, postgres_url: str, section: str
) -> None:
    with open_home(tmp_path / "kb") as kb:
        kb.add(handbook)
        pack(kb, tmp_path / "a.headwater")
    other = {"embed": "hashed", "chunk": "sentence"}[section]
    home = served(tmp_path / "served", postgres_url, f'[{section}]\nuse = "{other}"\n')
    with pytest.raises(SpaceMismatch, match=f"same `{section}` settings"):
        unpack(tmp_path / "a.headwater", home)
    with open_home(home) as kb:
        assert kb.catalog.statistics()["documents"] == 0 and kb.catalog.space() is None
    assert {path.name for path in home.iterdir()} == {"headwater.toml"} and not left_beside(home)


def test_a_folder_with_settings_of_its_own_keeps_them(tmp_path: Path, handbook: Path) -> None:
    with open_home(tmp_path / "kb") as kb:
        kb.add(handbook)
        before = contents(kb)
        pack(kb, tmp_path / "a.headwater")
    home = tmp_path / "own"
    home.mkdir()
    (home / "headwater.toml").write_text("[retrieve]\ntop_n = 3\n", encoding="utf-8")
    unpack(tmp_path / "a.headwater", home)
    assert written_in(home) == {"retrieve.top_n": 3}
    with open_home(home, embedder=Once()) as kb:
        assert contents(kb) == before and kb.check() == [] and len(kb.search("leave")) == 3
    (tmp_path / "not-a-home").mkdir()
    (tmp_path / "not-a-home" / "letter.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(UsageError, match=r"letter\.txt"):
        unpack(tmp_path / "a.headwater", tmp_path / "not-a-home")


def test_servers_that_the_environment_chooses_are_filled(
    tmp_path: Path, handbook: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_home(tmp_path / "kb") as kb:
        kb.add(handbook)
        before = contents(kb)
        pack(kb, tmp_path / "a.headwater")
    monkeypatch.setenv("HEADWATER_CATALOG__USE", "postgres")
    monkeypatch.setenv("HEADWATER_CATALOG__URL", postgres_url)
    monkeypatch.setenv("HEADWATER_CATALOG__CREATE", "true")
    unpack(tmp_path / "a.headwater", tmp_path / "there")
    assert not (tmp_path / "there" / "catalog.sqlite").exists()
    with open_home(tmp_path / "there", embedder=Once()) as kb:
        assert kb.status()["catalog"]["use"] == "postgres" and contents(kb) == before and kb.check() == []


def test_indexes_in_postgresql_beside_a_catalog_in_the_folder(
    tmp_path: Path, handbook: Path, postgres_url: str
) -> None:
    for name in ("one", "two"):  # a schema each, for both homes have a space 1
        sections = "".join(
            f'[{section}]\nuse = "postgres"\nurl = "{postgres_url}"\nschema = "{name}"\n'
            for section in ("text_index", "vector_index")
        )
        (tmp_path / name).mkdir()
        (tmp_path / name / "headwater.toml").write_text(sections, encoding="utf-8")
    with open_home(tmp_path / "one") as kb:
        kb.add(handbook)
        before, answer = contents(kb), kb.ask(QUESTION).text
        assert not pack(kb, tmp_path / "a.headwater").indexes
    for name in ("two", "anywhere"):
        unpack(tmp_path / "a.headwater", tmp_path / name)
        with open_home(tmp_path / name, embedder=Once()) as kb:
            assert contents(kb) == before and kb.check() == [] and kb.ask(QUESTION).text == answer
    assert not list((tmp_path / "two").glob("text-*/*")) and list((tmp_path / "anywhere").glob("text-1/*"))


# ------------------------------------------------------------------------------------------ no room, and failures


def test_without_room_nothing_is_begun(
    tmp_path: Path, handbook: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out" / "kb.headwater"
    with open_home(served(tmp_path / "served", postgres_url)) as kb:
        kb.add(handbook)
        pack(kb, file)
        earlier = file.read_bytes()
        monkeypatch.setattr(pack_file.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
        with pytest.raises(DiskFull, match=r"need about [\d,]+ bytes for a while, and .* has 1,000 left"):
            pack(kb, file)
    assert file.read_bytes() == earlier and left_beside(file) == []
    with pytest.raises(DiskFull, match="make room"):
        unpack(file, tmp_path / "there")
    assert not (tmp_path / "there").exists() and not left_beside(tmp_path / "there")


@pytest.mark.parametrize("letters", [range(0x61, 0x7B), range(0x4E00, 0x5600)], ids=["english", "chinese"])
def test_the_room_that_is_asked_for_is_about_what_is_taken(tmp_path: Path, letters: range) -> None:
    chosen, words = Random(7), []
    with open_home(tmp_path / "kb") as kb:
        for _ in range(2000):
            words.append("".join(chr(chosen.choice(letters)) for _ in range(chosen.randrange(2, 6))))
        texts = (" ".join(chosen.choices(words, k=600)) for _ in range(60))
        kb.add_documents(Document(uri=f"u{number}", text=text) for number, text in enumerate(texts))
        asked = copying.bytes_in_folder(kb.catalog)
        copying.copy_into_folder(kb, tmp_path / "made")
    taken = sum(path.stat().st_size for path in (tmp_path / "made").rglob("*") if path.is_file())
    assert taken < asked < 4 * taken


def test_a_disk_that_fills_in_the_middle_leaves_nothing_behind(
    tmp_path: Path, handbook: Path, postgres_url: str
) -> None:
    file = tmp_path / "out" / "kb.headwater"
    with open_home(served(tmp_path / "served", postgres_url)) as kb:
        kb.add(handbook)
        pack(kb, file)
        earlier = file.read_bytes()
        with files_of_at_most(48 * 1024), pytest.raises(BackendError):
            pack(kb, file)
        assert file.read_bytes() == earlier and left_beside(file) == []
        with files_of_at_most(48 * 1024), pytest.raises(BackendError):
            unpack(file, tmp_path / "there")
        assert not (tmp_path / "there").exists() and not left_beside(tmp_path / "there")
        assert pack(kb, file).documents == 4, "and when there is room it goes on"


def test_a_copy_that_breaks_off_leaves_the_earlier_pack(
    tmp_path: Path, handbook: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "out" / "kb.headwater"
    monkeypatch.setattr(copying, "BATCH_DOCUMENTS", 1)
    with open_home(served(tmp_path / "served", postgres_url)) as kb:
        kb.add(handbook)
        pack(kb, file)
        earlier = file.read_bytes()
        with pytest.raises(Stop):
            pack(kb, file, on_copied=breaking(2))
        assert file.read_bytes() == earlier and left_beside(file) == []
        assert kb.add_text("more", uri="more").added == 1, "the home is free again"


# ---------------------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    "text",
    [
        '[catalog]\nuse = "postgres"\n# where\nurl = "env:DB"\n\n[retrieve]\ntop_n = 3\n',
        'catalog.use = "postgres"\ncatalog.url = "env:DB"\nretrieve.top_n = 3\n',
        'catalog = { use = "postgres", url = "env:DB" }\nretrieve = { top_n = 3 }\n',
        '[catalog]\nuse = "postgres"\n[text_index]\nk1 = 1.5\n[vector_index]\nuse = "milvus"\n[retrieve]\ntop_n = 3\n',
    ],
)
def test_settings_in_a_pack_name_no_server(tmp_path: Path, text: str) -> None:
    (tmp_path / "headwater.toml").write_text(text, encoding="utf-8")
    made = portable_settings(tmp_path, load(tmp_path))
    (tmp_path / "headwater.toml").write_text(made, encoding="utf-8")
    assert written_in(tmp_path) == {"retrieve.top_n": 3}


# ------------------------------------------------------------------------------------------------------ Milvus


@pytest.mark.system
def test_vectors_in_milvus_go_out_and_in(milvus_server: MilvusServer, tmp_path: Path, handbook: Path) -> None:
    secret = {"MILVUS_TOKEN": milvus_server.token}
    index = f"[vector_index]\nuse = 'milvus'\nuri = '{milvus_server.uri}'\ntoken = 'env:MILVUS_TOKEN'\n"
    embed = "[embed]\nuse = 'hashed'\ndim = 64\n"
    homes = {name: tmp_path / name for name in ("there", "anywhere", "again")}
    file = str(tmp_path / "kb.headwater")

    def run(name: str, *arguments: str, environment: dict[str, str] | None = None) -> Any:
        outcome = command(*arguments, "--json", "--home", str(homes[name]), environment=environment)
        assert outcome.code == 0, outcome
        return json.loads(outcome.output)

    def found(name: str, environment: dict[str, str] | None = None) -> list[Any]:
        told = run(name, "search", "how many weeks of leave", "--mode", "semantic", environment=environment)
        assert (told["mode_used"], told["fallback_reason"], told["degraded"]) == ("semantic", None, [])
        return [(hit["chunk_id"], round(hit["score"], 4)) for hit in told["hits"]]

    for name in ("there", "again"):
        homes[name].mkdir()
        (homes[name] / "headwater.toml").write_text(index + embed, encoding="utf-8")
    run("there", "add", str(handbook), environment=secret)
    wanted = found("there", secret)
    packed = run("there", "pack", file, environment=secret)
    assert packed["documents"] == 4 and packed["indexes"] is False
    with zipfile.ZipFile(file) as opened:
        assert not [name for name in opened.namelist() if name.startswith("vectors-")]

    run("anywhere", "unpack", file)
    assert list(homes["anywhere"].rglob("*.tvim")), "the vectors are in the home"
    assert found("anywhere") == wanted

    assert run("again", "unpack", file, environment=secret)["documents"] == 4
    assert not list(homes["again"].rglob("*.tvim")) and not left_beside(homes["again"])
    assert found("again", secret) == wanted
    assert run("again", "check", environment=secret)["problems"] == []
    # Neither knows of the other's collection.
    run("again", "remove", str(handbook / "hr" / "leave.md"), environment=secret)
    assert found("there", secret) == wanted
