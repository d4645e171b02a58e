"""The catalog in PostgreSQL: whose schema it is, any text, damage, and processes beside each other."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import given

from headwater.errors import BackendError, HomeDamaged, HomeTooNew, SettingError, UsageError
from headwater.filters import ALL, Compare, Contains
from headwater.selection import TICKET_BITS
from headwater.storage import _postgres_database, _postgres_schema
from headwater.storage._escaped import escaped, plain
from headwater.storage._postgres_database import translated
from headwater.storage.postgres import PostgresCatalog
from headwater.testing.versions import SPACE, made, named, put
from headwater.types import Blob, Change, Labels, Link, Span


@pytest.fixture
def catalog(postgres_url: str) -> Iterator[PostgresCatalog]:
    opened = opening(postgres_url, create=True)
    opened.open_space(SPACE)
    yield opened
    opened.close_store()


def opening(url: str, **given: Any) -> PostgresCatalog:
    return PostgresCatalog("-", url=url, **given)


def add(catalog: PostgresCatalog, uri: str, text: str, **fields: Any) -> Change:
    [change] = catalog.draw([put(uri)])
    catalog.commit([made(change, text, **fields)])
    return change


def said(url: str, *statements: str) -> None:
    with psycopg.connect(url, options="-c search_path=headwater") as db:
        for statement in statements:
            db.execute(statement.encode())


# ----------------------------------------------------------------------------------------------- schema


def test_a_database_without_our_schema_is_refused_unless_told_to_make_it(postgres_url: str) -> None:
    for asked in ({}, {"writable": False, "create": True}):
        with pytest.raises(BackendError, match=r"127\.0\.0\.1:\d+, database test_\d+ .*catalog\.create = true"):
            opening(postgres_url, **asked)
    with psycopg.connect(postgres_url) as db:
        assert db.execute("select to_regnamespace('headwater')").fetchone() == (None,)
    opening(postgres_url, create=True).close_store()
    again = opening(postgres_url)
    assert again.generation() == 0
    again.close_store()
    with pytest.raises(BackendError, match="'other'"):
        opening(postgres_url, schema="other")


def test_tables_of_another_program_are_never_touched(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as db:
        db.execute("create schema headwater; create table headwater.document(mine text)")
        db.execute("create table public.document(mine text); insert into public.document values ('theirs')")
    with pytest.raises(HomeDamaged, match=r"another program \(document\).*catalog\.schema"):
        opening(postgres_url, create=True)
    beside = opening(postgres_url, schema="ours", create=True)
    beside.open_space(SPACE)
    add(beside, "u", "one")
    beside.close_store()
    with psycopg.connect(postgres_url) as db:
        assert db.execute("select * from public.document").fetchall() == [("theirs",)]


def test_a_schema_of_a_newer_version_is_refused_and_untouched(catalog: PostgresCatalog, postgres_url: str) -> None:
    said(postgres_url, "update catalog_version set version = 999, written_by = '9.9'")
    for writable in (True, False):
        with pytest.raises(HomeTooNew, match=r"headwater 9\.9 \(schema 999\)"):
            opening(postgres_url, writable=writable, create=True)


def test_a_schema_of_an_older_version_is_brought_up_to_date_all_or_nothing(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = opening(postgres_url, create=True)
    old.open_space(SPACE)
    change = add(old, "u", "one")
    old.close_store()
    steps = _postgres_schema.STEPS
    monkeypatch.setattr(
        _postgres_schema, "STEPS", (*steps, "create table remark(a TEXT)", "create table remark(b TEXT)")
    )
    with pytest.raises(BackendError, match="remark"):
        opening(postgres_url)
    monkeypatch.setattr(_postgres_schema, "STEPS", (*steps, "create table remark(a TEXT)"))
    with pytest.raises(BackendError, match="open for reading only"):
        opening(postgres_url, writable=False)
    new = opening(postgres_url)
    assert new.record(named(change)) is not None
    new.close_store()
    with psycopg.connect(postgres_url) as db:
        assert db.execute("select version from headwater.catalog_version").fetchone() == (2,)


def test_two_processes_make_the_schema_once(postgres_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        made_here = list(pool.map(lambda _: opening(postgres_url, create=True), range(4)))
    assert len({one.open_space(SPACE).id for one in made_here}) == 1
    for one in made_here:
        one.close_store()


def test_what_the_address_and_the_schema_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(SettingError, match="DATABASE_URL"):
        PostgresCatalog("-")
    with pytest.raises(SettingError, match="letters"):
        opening("postgresql://localhost/x", schema='x"; drop table y')
    with pytest.raises(SettingError) as caught:
        opening("postgresql://me:secret@localhost:port:2/x?nothing=1")
    assert "secret" not in str(caught.value)


def test_without_its_driver_it_says_how_to_get_it() -> None:
    script = (
        "import sys; import headwater.storage.postgres as own; assert 'psycopg' not in sys.modules\n"
        "sys.modules['psycopg'] = None\n"
        "from headwater.errors import BackendError\n"
        "try: own.PostgresCatalog('-', url='postgresql://localhost/x')\n"
        "except BackendError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 'pip install "headwater[postgres]"' in told.stdout


def test_a_database_that_cannot_hold_every_character_is_refused(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as db:
        db.execute("drop database if exists latin")
        db.execute("create database latin encoding 'LATIN1' locale 'C' template template0")
    with pytest.raises(BackendError, match=r"LATIN1.*--encoding=UTF8"):
        opening(postgres_url.rpartition("/")[0] + "/latin", create=True)


def test_a_closed_catalog_and_one_for_reading_say_so(catalog: PostgresCatalog, postgres_url: str) -> None:
    reader = opening(postgres_url, writable=False)
    add(catalog, "u", "one")
    assert [record.uri for record in reader.records(ALL)] == ["u"]
    with pytest.raises(UsageError, match="open for reading only"):
        reader.enqueue([put("v")])
    reader.close_store()
    with pytest.raises(UsageError, match="closed"):
        reader.generation()


def test_a_copy_is_told_from_the_original(catalog: PostgresCatalog, postgres_url: str) -> None:
    again = opening(postgres_url)
    other = opening(postgres_url, schema="other", create=True)
    assert again.identity() == catalog.identity() != other.identity()
    assert other.place()["schema"] == "other" and "secret" not in str(other.place())
    again.close_store()
    other.close_store()


def test_a_lost_table_is_damage(catalog: PostgresCatalog, postgres_url: str) -> None:
    said(postgres_url, "drop table posting")
    with pytest.raises(HomeDamaged, match="cannot be read"):
        catalog.select(Compare("tag", "=", "red"))


# ------------------------------------------------------------------------------------------------- text


@given(
    one=st.text(st.sampled_from("\0\x01\x02a\ud7ff\ud800\udfff\ue000\ue001\u4e00\u55ff\uffff"), max_size=6),
    other=st.text(),
)
def test_any_text_is_kept_and_stays_in_its_order(one: str, other: str) -> None:
    for text in (one, other):
        stored = escaped(text)
        assert plain(stored) == text and "\0" not in stored
        stored.encode()
    assert (escaped(one) < escaped(other)) == (one < other)
    assert (escaped(one) == escaped(other)) == (one == other)


STRANGE = ("nul \0 inside", "half \ud800 pair", "\x01\x02", "\ue000\u4e00", "quote ' \\ % ? $1", "年假")


def test_strange_names_are_kept_and_found_again(catalog: PostgresCatalog) -> None:
    for n, name in enumerate(STRANGE):
        labels = Labels(title=name, tags=(name,), meta={name: name, "many": (name, 1)})
        change = Change(uri=name, kind="put", collection=name, owner=name, labels=labels, stamp=name)
        blob = Blob(uri=name, data=b"\0\xff", meta={"of": name})
        catalog.enqueue([Change(**{**{f: getattr(change, f) for f in change.__slots__}, "payload": blob})])
        [claimed] = catalog.claim(1)
        assert (claimed.uri, claimed.labels, claimed.payload) == (name, labels, blob)
        text = f"# {name}\nline {name} {n}"
        catalog.commit([made(claimed, text, title=name, tags=(name,), meta=labels.meta, indexed_as=name + "{}")])
        record = catalog.record(named(change))
        assert record is not None and (record.title, record.meta) == (name, labels.meta)
        document = catalog.document(record.id)
        assert document is not None and document.text == text
        assert catalog.stamps(name, name)[name].ticket == claimed.ticket
        [first, *_] = catalog.chunks_of(record.id)
        assert first.section == name and first.index_text.startswith(name)
        for where in (Compare("tag", "=", name), Compare("title", "=", name), Contains("section", name)):
            assert catalog.select(where).contains([first.id]).all(), where
    assert [r.collection for r in catalog.records(ALL)] == sorted(STRANGE)
    assert catalog.check() == []


def test_long_values_have_a_place(catalog: PostgresCatalog) -> None:
    long = "长" * 20_000
    links = (Link(kind="wiki", target=long, span=Span(0, 1)),)
    one = add(catalog, long, f"# {long}\none", title=long, tags=(long,), meta={"abstract": long}, links=links)
    two = add(catalog, "two", "two", meta={"abstract": long}, links=links)
    found = catalog.select(Compare("abstract", "=", long))
    assert found.contains([one.ticket << TICKET_BITS, two.ticket << TICKET_BITS]).all()
    assert catalog.links([named(one)]) == [(named(two), named(one))]
    assert catalog.check() == []


def test_lists_are_translated_by_what_they_hold() -> None:
    sql, lists = translated(
        "select 1 from json_each(?) as given cross join vector on vector.id = given.value where a = ?"
    )
    assert sql == (
        "select 1 from unnest($1::bigint[]) as given(value) join vectors as vector on vector.id = given.value "
        "where a = $2"
    )
    assert lists == ((0, "given"),)
    assert translated("select id from term where key = ? and value = ?")[0] == (
        "select id from term where digest_of(key) = digest_of($1::text) and digest_of(value) = digest_of($2::text)"
    )
    assert translated("delete from likeness where key = ?")[0] == "delete from likeness where key = $1"
    assert "digest_of" in translated("select ticket from link where target in (?, ?)")[0]
    assert translated("delete from idle where vector in (select vector from chunk)")[0].count("vectors") == 0


# ---------------------------------------------------------------------------------------------- processes

WRITER = """
import sys
from headwater.storage.postgres import PostgresCatalog
from headwater.testing.versions import SPACE, made, put
catalog = PostgresCatalog("-", url=sys.argv[1])
for n in range(15):
    [change] = catalog.draw([put(f"{sys.argv[2]}-{n}")])
    catalog.commit([made(change, f"# {n % 3}\\nline {n % 4}", tags=(str(n % 5),))])
catalog.close_store()
"""


def test_processes_that_write_at_once_lose_nothing(catalog: PostgresCatalog, postgres_url: str) -> None:
    running = [subprocess.Popen([sys.executable, "-c", WRITER, postgres_url, name]) for name in "abc"]
    seen, last = 0, 0
    while any(one.poll() is None for one in running):
        now = len(catalog.records(ALL))
        assert now >= seen and catalog.generation() >= last
        seen, last = now, catalog.generation()
        assert catalog.check() == []
    assert [one.wait() for one in running] == [0, 0, 0]
    records = catalog.records(ALL)
    assert len(records) == 45 and len({record.ticket for record in records}) == 45
    assert catalog.check() == [] and catalog.generation() == 45


def test_who_waits_for_too_long_is_told(
    catalog: PostgresCatalog, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        _postgres_database, "_TURN", "set local lock_timeout = '50ms'; lock table turn in exclusive mode"
    )
    with psycopg.connect(postgres_url) as other:
        other.execute("lock table headwater.turn in exclusive mode")
        with pytest.raises(BackendError, match="another process has been writing"):
            catalog.enqueue([put("u")])
        assert catalog.pending() == 0, "readers do not wait"
    assert catalog.enqueue([put("u")]) == 1


# ------------------------------------------------------------------------------------------------ mending

DAMAGES = {
    "versions belong to no document": "delete from document where uri = 'u'",
    "documents point to a version that is not there": "delete from version where ticket = 1",
    "versions lack some of their chunks": f"delete from chunk where id = {1 << TICKET_BITS}",
    "documents lack a part of their text": "delete from text where id >> 20 = 1",
    "vectors have the wrong size": "update vectors set data = '' where id = 1",
    "not listed as idle": "insert into vectors values (99, 1, 'x', '0123456789abcdef')",
    "both alive and dead": "insert into dead values (1)",
    "(harmless)": "insert into posting values (1, 77)",
    "never drawn": "update counters set ticket = 1",
}
NOT_MENDED = {"vectors have the wrong size"}


@pytest.mark.parametrize("problem", DAMAGES)
def test_damage_is_found_and_mended_where_it_can_be(catalog: PostgresCatalog, postgres_url: str, problem: str) -> None:
    add(catalog, "u", "# One\ntwo")
    add(catalog, "v", "# Three\nfour")
    assert catalog.check() == []
    said(postgres_url, DAMAGES[problem])
    assert any(problem in found for found in catalog.check())
    catalog.repair()
    assert problem in NOT_MENDED or catalog.check() == []
    add(catalog, "u", "# One\ntwo, again")
    add(catalog, "v", "# Three\nfour, again")
    assert [r.state for r in catalog.records(ALL)] == ["completed", "completed"]


def test_texts_are_streamed(catalog: PostgresCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_postgres_database, "STREAMED_ROWS", 2)
    changes = [add(catalog, f"u{n}", f"text {n}") for n in range(7)]
    found = list(catalog.texts())
    assert [ids.start >> TICKET_BITS for ids, _ in found] == [change.ticket for change in changes]
    assert [body for _, body in found] == [f"text {n}".encode() for n in range(7)]
    catalog.close_store()
