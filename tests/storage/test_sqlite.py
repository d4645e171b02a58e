"""What only the SQLite catalog has: its file, its versions, its errors, its connections, its mending."""

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import BackendError, HomeDamaged, HomeTooNew, NotFound, UsageError
from headwater.filters import ALL, parse
from headwater.selection import TICKET_BITS
from headwater.storage import _commit, _database, schema, selecting
from headwater.storage.sqlite import SqliteCatalog
from headwater.testing.versions import SPACE, made, named, put
from headwater.types import Change, Version, text_hash


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.sqlite"


@pytest.fixture
def catalog(path: Path) -> Iterator[SqliteCatalog]:
    opened = SqliteCatalog(path)
    opened.open_space(SPACE)
    yield opened
    opened.close_store()


def add(catalog: SqliteCatalog, uri: str, text: str, **fields: Any) -> Change:
    [change] = catalog.draw([put(uri)])
    catalog.commit([made(change, text, **fields)])
    return change


def damage(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


# ------------------------------------------------------------------------------------------------- file


def test_the_file_says_whose_it_is_and_which_schema(catalog: SqliteCatalog, path: Path) -> None:
    db = sqlite3.connect(path)
    assert db.execute("pragma application_id").fetchone()[0] == schema.APPLICATION_ID
    assert db.execute("pragma user_version").fetchone()[0] == len(schema.STEPS) == 4
    assert db.execute("pragma journal_mode").fetchone()[0] == "wal"
    assert db.execute("pragma page_size").fetchone()[0] == schema.PAGE_BYTES
    assert db.execute("select written_by from counters").fetchone()[0]
    db.close()


def test_a_file_of_a_newer_version_is_refused_and_untouched(catalog: SqliteCatalog, path: Path) -> None:
    catalog.close_store()
    damage(path, "pragma user_version = 99", "update counters set written_by = '9.9.9'")
    before = path.read_bytes()
    for writable in (True, False):
        with pytest.raises(HomeTooNew, match=r"9\.9\.9.*schema 99.*update headwater"):
            SqliteCatalog(path, writable=writable)
    assert path.read_bytes() == before


def test_an_older_schema_is_brought_up_step_by_step(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = SqliteCatalog(path)
    old.open_space(SPACE)
    change = add(old, "u", "text")
    old.close_store()
    later = (
        *schema.STEPS,
        "create table remark(document text, body text)",
        "insert into remark select id, title from document; alter table remark add column stars integer default 3",
    )
    monkeypatch.setattr(schema, "STEPS", later)
    with pytest.raises(BackendError, match=f"older schema {len(later) - 2}"):
        SqliteCatalog(path, writable=False)
    new = SqliteCatalog(path)
    assert new.record(named(change)) is not None and new.check() == []
    new.close_store()
    db = sqlite3.connect(path)
    assert db.execute("pragma user_version").fetchone()[0] == len(later)
    assert db.execute("select document, stars from remark").fetchall() == [(named(change), 3)]
    db.close()


def test_a_file_of_the_first_schema_gets_spaces_and_keeps_its_vectors(path: Path) -> None:
    """The file is downgraded by hand: there was one space, and its id stood on every vector."""
    old = SqliteCatalog(path)
    space = old.open_space(SPACE)
    change = add(old, "u", "one\ntwo")
    seen = (old.records(ALL), old.chunks_of(named(change)), old.tickets())
    vectors = old.vectors(list(old.chunks([c.id for c in old.chunks_of(named(change))])))
    old.close_store()
    damage(
        path,
        *("drop table link", "drop index document_title", "drop index document_file"),
        *("alter table document drop column coverage", "alter table outline drop column boxes"),
        *("drop table sketch", "drop table likeness"),
        "drop index version_beside",
        "alter table version drop column content",
        "alter table vector rename column embedder to space",
        "drop table embedder",
        "drop index space_active",
        "alter table space drop column settings",
        "alter table counters drop column space",
        "pragma user_version = 1",
    )
    new = SqliteCatalog(path)
    assert new.check() == [] and new.spaces() == [space]
    assert (new.records(ALL), new.chunks_of(named(change)), new.tickets()) == seen
    again = new.vectors(vectors[0].tolist())
    assert again[0].tolist() == vectors[0].tolist() and (again[1] == vectors[1]).all()
    assert len(new.known_vectors([text_hash("one"), text_hash("two")])) == 2
    assert new.open_shadow(replace(SPACE, chunker="other")).id == space.id + 1
    add(new, "u", "three")
    assert new.check() == []
    new.close_store()


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SqliteCatalog(path).close_store()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "create table remark(a)", "create table remark(a)"))
    with pytest.raises(BackendError, match="already exists"):
        SqliteCatalog(path)
    monkeypatch.undo()
    catalog = SqliteCatalog(path)
    assert catalog.check() == []
    catalog.close_store()
    db = sqlite3.connect(path)
    assert db.execute("select count(*) from sqlite_master where name = 'remark'").fetchone()[0] == 0
    db.close()


def test_a_file_of_another_program_is_refused_and_untouched(path: Path) -> None:
    damage(path, "create table theirs(a)")
    before = path.read_bytes()
    with pytest.raises(HomeDamaged, match="another program"):
        SqliteCatalog(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database at all, but long enough to be looked at. " * 50)
    with pytest.raises(HomeDamaged, match="put back a copy"):
        SqliteCatalog(path)


@pytest.mark.parametrize("beside", ["text-1/meta.json", "vectors-1/mark", "catalog.sqlite-wal"])
@pytest.mark.parametrize("length", [0, 1])
def test_a_file_that_was_emptied_is_damage_and_untouched(path: Path, beside: str, length: int) -> None:
    path.write_bytes(b"S" * length)
    other = path.parent / beside
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(b"kept")
    for writable in (True, False):
        with pytest.raises(HomeDamaged, match=r"cut off; put back a copy.*add the documents again"):
            SqliteCatalog(path, writable=writable)
    assert path.read_bytes() == b"S" * length and other.read_bytes() == b"kept"


def test_a_file_that_never_had_tables_gets_them(path: Path) -> None:
    path.touch()
    (path.parent / "text-1").mkdir()
    path.with_name("write.lock").touch()
    path.with_name("headwater.toml").touch()
    catalog = SqliteCatalog(path)
    assert catalog.records(ALL) == [] and catalog.check() == []
    catalog.close_store()


def test_a_damaged_file_is_an_error_of_ours_and_check_says_so(catalog: SqliteCatalog, path: Path) -> None:
    add(catalog, "u", "\n".join(f"line {n} of a text" for n in range(3000)))
    catalog.close_store()
    with path.open("r+b") as file:
        file.seek(schema.PAGE_BYTES * 8)
        file.write(b"\xff" * (path.stat().st_size - schema.PAGE_BYTES * 8))
    again = SqliteCatalog(path)
    with pytest.raises(HomeDamaged):
        again.document(again.records(ALL)[0].id)
    assert any("damaged" in problem for problem in again.check())
    again.close_store()


def test_text_whose_bytes_were_damaged_is_told_and_given_up(catalog: SqliteCatalog, path: Path) -> None:
    harmed, whole = add(catalog, "a", "水位 is the level"), add(catalog, "b", "the bridge")
    damage(path, f"update text set body = x'e6ff' where id = {harmed.ticket << TICKET_BITS}")
    [chunk] = catalog.chunks_of(named(whole))
    assert chunk.text == "the bridge"
    for read in (catalog.document, catalog.chunks_of):
        with pytest.raises(HomeDamaged, match="check --repair"):
            read(named(harmed))
    assert catalog.check() == ["the text of 1 documents cannot be read: its bytes were damaged"]
    catalog.repair()
    assert catalog.check() == [] and set(catalog.tickets()) == {whole.ticket}
    record = catalog.record(named(harmed))
    assert record is not None and record.state == "failed" and "add it again" in record.error and record.stamp == ""
    damage(path, "update document set title = cast(x'e6ff' as text)")
    with pytest.raises(HomeDamaged, match="put back a copy"):
        catalog.record(named(whole))


def test_a_missing_file_opened_for_reading_is_not_made(path: Path) -> None:
    with pytest.raises(NotFound, match="headwater add"):
        SqliteCatalog(path, writable=False)
    assert not path.exists()


def test_readers_in_other_processes_see_what_is_committed(catalog: SqliteCatalog, path: Path) -> None:
    reader = SqliteCatalog(path, writable=False)
    assert reader.records(ALL) == [] and not reader.select(parse("tag = t")).contains([1 << TICKET_BITS])[0]
    add(catalog, "u", "text", tags=("t",))
    assert [r.uri for r in reader.records(ALL)] == ["u"]
    assert reader.select(parse("tag = t")).contains([1 << TICKET_BITS])[0]
    with pytest.raises(UsageError, match="reading only"):
        reader.enqueue([put("v")])
    script = (
        "import sys; from headwater.storage.sqlite import SqliteCatalog; from headwater.filters import ALL\n"
        "c = SqliteCatalog(sys.argv[1], writable=False); print(*[r.uri for r in c.records(ALL)]); c.close_store()"
    )
    told = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "u"
    reader.close_store()


def test_two_processes_that_make_a_home_at_once_make_one(path: Path) -> None:
    script = (
        "import sys; from headwater.storage.sqlite import SqliteCatalog; from headwater.types import Change\n"
        "from headwater.testing.versions import SPACE\n"
        "c = SqliteCatalog(sys.argv[1]); c.open_space(SPACE)\n"
        "for n in range(20): c.enqueue([Change(uri=f'{sys.argv[2]}{n}', kind='put')])\n"
        "c.close_store()"
    )
    runs = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "ab"]
    assert [run.wait(60) for run in runs] == [0, 0]
    catalog = SqliteCatalog(path)
    assert catalog.pending() == 40 and len(catalog.claim(100)) == 40 and catalog.check() == []
    catalog.close_store()


def test_a_closed_catalog_says_so(catalog: SqliteCatalog) -> None:
    catalog.close_store()
    catalog.close_store()
    with pytest.raises(UsageError, match="closed"):
        catalog.generation()
    with pytest.raises(UsageError, match="closed"):
        catalog.enqueue([put("u")])


def test_who_waits_too_long_for_another_writer_is_told(
    catalog: SqliteCatalog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    monkeypatch.setattr(_database, "BUSY_SECONDS", 0.05)
    impatient = SqliteCatalog(path)
    with pytest.raises(BackendError, match="another process has been writing"):
        impatient.enqueue([put("u")])
    other.execute("rollback")
    assert impatient.enqueue([put("u")]) == 1
    other.close()
    impatient.close_store()


def test_connections_are_as_many_as_read_at_the_same_time(catalog: SqliteCatalog) -> None:
    readers = [threading.Thread(target=catalog.generation) for _ in range(20)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert 1 <= len(catalog._database._idle) <= 20
    before = len(catalog._database._idle)
    for _ in range(50):
        thread = threading.Thread(target=catalog.statistics)
        thread.start()
        thread.join()
    assert len(catalog._database._idle) == before


# ----------------------------------------------------------------------------------------------- inside


def test_a_huge_text_lies_in_parts_and_a_chunk_text_is_stored_once(catalog: SqliteCatalog, path: Path) -> None:
    text = "\n".join("词" * 400 for _ in range(200))
    add(catalog, "u", text, indexed_as="title\n{}")
    with catalog._database.reading() as db:
        parts = [len(body.decode()) for (body,) in db.execute("select body from text order by id")]
        heads = db.execute("select distinct before, after from index_text").fetchall()
    assert parts == [_commit.PART_CHARS] * 2 + [len(text) - 2 * _commit.PART_CHARS]
    assert heads == [("title\n", "")]


def test_vectors_of_gone_texts_stay_up_to_a_number_and_the_oldest_go_first(path: Path) -> None:
    catalog = SqliteCatalog(path, idle_vectors=3)
    catalog.open_space(SPACE)
    for n in range(6):
        add(catalog, "u", f"text {n}")
    known = catalog.known_vectors([text_hash(f"text {n}") for n in range(6)])
    assert set(known) == {text_hash(f"text {n}") for n in (2, 3, 4, 5)}
    add(catalog, "u", "text 2")
    assert catalog.check() == [] and catalog.statistics()["vectors"] == 1
    assert text_hash("text 2") in catalog.known_vectors([text_hash("text 2")])
    catalog.close_store()


def test_the_record_of_removals_does_not_grow_for_ever(catalog: SqliteCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_commit, "KEPT_FLOORS", 5)
    changes = catalog.draw([Change(uri=f"u{n}", kind="delete") for n in range(20)])
    for change in changes:
        catalog.commit([Version(change=change)])
    with catalog._database.reading() as db:
        kept = [ticket for (ticket,) in db.execute("select ticket from floor order by ticket")]
    assert kept == [change.ticket for change in changes[-5:]]


def test_many_new_versions_are_asked_together(catalog: SqliteCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "ASKED_ONE_BY_ONE", 3)
    monkeypatch.setattr(selecting, "LOOKED_UP", 2)
    where = parse("size >= 3 and not tag = t")
    drawn = catalog.draw([put(f"u{n}") for n in range(30)])
    ids = [change.ticket << TICKET_BITS for change in drawn]
    for start, stop in ((0, 2), (2, 4), (4, 20), (20, 30)):
        batch = [
            made(drawn[n], f"text {n}", meta={"size": n}, tags=("t",) if n % 2 else ()) for n in range(start, stop)
        ]
        catalog.commit(batch)
        found = catalog.select(where).contains(ids[:stop]).tolist()
        assert found == [n >= 3 and n % 2 == 0 for n in range(stop)]


def test_filters_are_remembered_up_to_a_number(catalog: SqliteCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "REMEMBERED", 4)
    add(catalog, "u", "text", meta={"size": 5})
    for n in range(20):
        assert catalog.select(parse(f"size = {n}")).contains([1 << TICKET_BITS])[0] == (n == 5)
    assert len(catalog._selector._known) <= 4


def test_equal_numbers_of_other_kinds_are_other_filters(catalog: SqliteCatalog) -> None:
    add(catalog, "u", "text", updated="2025-03-01")
    ids = [1 << TICKET_BITS]
    assert catalog.select(parse("date = 2025")).contains(ids)[0]
    assert not catalog.select(parse("date = 2025.0")).contains(ids)[0]


def test_another_process_may_commit_between_ours(catalog: SqliteCatalog, path: Path) -> None:
    add(catalog, "u", "# One\ntext", tags=("a",))
    other = SqliteCatalog(path)
    other.repair()
    add(other, "v", "# Two\ntext", tags=("b",))
    add(other, "u", "none")
    other.repair()  # the numbers of "a" and "One" are free again
    add(other, "w", "# Three\ntext", tags=("c",))
    add(catalog, "x", "# One\ntext", tags=("a", "c"))
    [record] = catalog.records(parse("tag = a"))
    assert record.uri == "x" and [r.uri for r in catalog.records(parse("tag = c"))] == ["w", "x"]
    assert catalog.chunks_of(record.id)[1].section == "One"
    assert catalog.check() == [] == other.check()
    other.close_store()


# ---------------------------------------------------------------------------------------------- mending

DAMAGES = {
    "versions belong to no document": "delete from document where uri = 'u'",
    "documents point to a version that is not there": "delete from version where ticket = 1",
    "versions lack some of their chunks": f"delete from chunk where id = {1 << TICKET_BITS}",
    "documents lack a part of their text": "delete from text where id >> 20 = 1",
    "chunks point to a vector that is not there": "delete from vector",
    "chunks point to a section that is not there": "delete from section",
    "documents count their chunks wrongly": "update document set chunks = 7 where uri = 'u'",
    "chunks reach outside": f"update chunk set stop = 900 where id = {1 << TICKET_BITS}",
    "vectors have the wrong size": "update vector set data = x'00' where id = 1",
    "not listed as idle": "insert into vector values (99, 1, x'01', zeroblob(16))",
    "both alive and dead": "insert into dead values (1)",
    "(harmless)": "insert into posting values (1, 77)",
    "never drawn": "update counters set ticket = 1",
    "chunks of completed documents have no vector": f"update chunk set vector = 0 where id = {1 << TICKET_BITS}",
}
# Only the documents themselves can tell what these were.
NOT_MENDED = {
    "chunks point to a section that is not there",
    "chunks reach outside",
    "vectors have the wrong size",
    "chunks of completed documents have no vector",
    "chunks point to a vector that is not there",
}


@pytest.mark.parametrize("problem", DAMAGES)
def test_damage_is_found_and_mended_where_it_can_be(catalog: SqliteCatalog, path: Path, problem: str) -> None:
    add(catalog, "u", "# One\ntwo")
    add(catalog, "v", "# Three\nfour")
    assert catalog.check() == []
    damage(path, DAMAGES[problem])
    assert any(problem in found for found in catalog.check())
    catalog.repair()
    assert [found for found in catalog.check() if problem in found] == [] or problem in NOT_MENDED
    if problem not in NOT_MENDED:
        assert catalog.check() == []
    add(catalog, "u", "# One\ntwo, again")
    add(catalog, "v", "# Three\nfour, again")
    assert [r.state for r in catalog.records(ALL)] == ["completed", "completed"]


def test_a_document_that_lost_its_text_says_so_and_is_read_again(catalog: SqliteCatalog, path: Path) -> None:
    change = add(catalog, "u", "one\ntwo", content_hash="h")
    damage(path, "delete from text")
    catalog.repair()
    record = catalog.record(named(change))
    assert record is not None and record.state == "failed" and "add it again" in record.error
    assert record.content_hash == "" and catalog.dead() == [change.ticket]


def test_opening_does_not_need_the_packages_that_search(path: Path) -> None:
    script = "import sys, headwater.storage.sqlite; print('tantivy' in sys.modules or 'turbovec' in sys.modules)"
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert told.stdout.strip() == "False"
