"""PostgreSQL under a home: clients killed in the middle of a commit, a server that goes away, and who may write."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.faults.test_crash import CUTTER, EMBEDDER, V1, V2, Stores, expected

from headwater.errors import BackendError, HomeLocked, UsageError
from headwater.filters import ALL
from headwater.storage.memory import MemoryTextIndex, MemoryVectorIndex
from headwater.storage.postgres import PostgresCatalog
from headwater.storage.postgres_lock import PostgresLock
from headwater.testing.faults import Crash, every_crash_point
from headwater.testing.postgres_server import PostgresServer
from headwater.testing.versions import SPACE, made, put
from headwater.types import Version

DOCUMENTS = 40

# Puts every document anew, all in one commit, again and again: a reader sees one round or another, never a mix.
ROUNDS = f"""
import sys
from headwater.storage.postgres import PostgresCatalog
from headwater.testing.versions import SPACE, made, put
catalog = PostgresCatalog("-", url=sys.argv[1])
print("ready", flush=True)
for round in range(1000):
    changes = catalog.draw([put(f"u{{n}}") for n in range({DOCUMENTS})])
    catalog.commit([made(c, f"# {{round}}\\nround {{round}}\\nline {{c.uri}}", tags=(str(round),)) for c in changes])
"""

HOLDER = """
import sys, time
from headwater.storage.postgres_lock import PostgresLock
lock = PostgresLock(sys.argv[1], schema="headwater", name="write")
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that may be stopped: the others share theirs."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.discard()


@pytest.fixture
def catalog(postgres_url: str) -> Iterator[PostgresCatalog]:
    opened = PostgresCatalog("-", url=postgres_url, create=True)
    opened.open_space(SPACE)
    yield opened
    opened.close_store()


def started(script: str, *arguments: str) -> subprocess.Popen[str]:
    running = subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None and running.stdout.readline()
    return running


def ended(running: subprocess.Popen[str]) -> None:
    running.kill()
    running.wait()
    assert running.stdout is not None
    running.stdout.close()


def whole(catalog: PostgresCatalog) -> str:
    """The one round that is there."""
    tags = {record.tags for record in catalog.records(ALL)}
    assert len(tags) <= 1, "a reader saw a mix"
    return next(iter(tags), ("",))[0]


def test_a_client_that_is_killed_in_a_commit_leaves_the_old_or_the_new(
    catalog: PostgresCatalog, postgres_url: str
) -> None:
    for kill in range(6):
        before = catalog.generation()
        running = started(ROUNDS, postgres_url)
        while catalog.generation() < before + 1 + kill % 3:  # it has written something
            assert running.poll() is None
            whole(catalog)
        end = time.monotonic() + 0.013 * kill  # and is somewhere in the next one
        while time.monotonic() < end:
            whole(catalog)
        os.kill(running.pid, signal.SIGKILL)
        ended(running)
        assert whole(catalog)
        assert catalog.check() == []
        [change] = catalog.draw([put("after")])  # nothing of the dead one stands in the way
        catalog.commit([made(change, "one", tags=(whole(catalog),))])
        catalog.commit([Version(change=catalog.draw([put("after")])[0])])
    assert len(catalog.records(ALL)) == DOCUMENTS


@pytest.mark.parametrize("at_once", [False, True])
def test_a_server_that_is_stopped_and_started_again_has_lost_nothing(own_server: PostgresServer, at_once: bool) -> None:
    url = own_server.url("home")
    catalog = PostgresCatalog("-", url=url, create=True)
    catalog.open_space(SPACE)
    [change] = catalog.draw([put("kept")])
    catalog.commit([made(change, "kept")])
    before = catalog.generation()
    running = started(ROUNDS, url)
    while catalog.generation() < before + 2:
        time.sleep(0.01)
    own_server.stop(at_once=at_once)
    with pytest.raises(BackendError, match=r"127\.0\.0\.1:\d+, database home"):
        catalog.records(ALL)
    with pytest.raises(BackendError):
        catalog.enqueue([put("v")])
    assert running.wait() != 0, "who was writing is told"
    ended(running)
    own_server.start()
    records = catalog.records(ALL)
    assert "kept" in {record.uri for record in records}
    assert len({record.tags for record in records if record.uri != "kept"}) == 1 and len(records) == DOCUMENTS + 1
    assert catalog.check() == [] and catalog.generation() >= before + 2
    assert catalog.enqueue([put("v")]) == 1
    catalog.close_store()


def test_a_server_that_was_away_for_a_moment_is_asked_again(own_server: PostgresServer) -> None:
    catalog = PostgresCatalog("-", url=own_server.url("home"), create=True)
    catalog.open_space(SPACE)
    for ask in (catalog.generation, lambda: catalog.records(ALL), lambda: catalog.enqueue([put("u")])):
        own_server.stop()
        own_server.start()
        ask()
    assert catalog.pending() == 1
    catalog.close_store()


def test_every_crash_point_at_the_catalog(postgres_server: PostgresServer) -> None:
    url, runs = postgres_server.url("crashes"), 0
    for countdown in every_crash_point():
        runs += 1
        catalog = PostgresCatalog("-", url=url, schema=f"run_{runs}", create=True)
        text = MemoryTextIndex(select=catalog.select, cutter=CUTTER)
        stores = Stores(catalog, text, MemoryVectorIndex(dim=EMBEDDER.dim, select=catalog.select))
        files = {"a": V1}
        catalog.enqueue([put("a")])
        stores.indexer(files).run()
        assert stores.found() == expected(V1)
        files["a"] = V2
        catalog.enqueue([put("a")])
        shaky = stores.indexer(files, lambda part, of=catalog, to=countdown: to.wrap(part) if part is of else part)
        with suppress(Crash):
            shaky.run()
            shaky.sweep()
        assert stores.found() in (expected(V1), expected(V2)), "a reader saw a mix"
        again = stores.indexer(files)
        again.run()
        again.sweep()
        assert stores.found() == expected(V2) and catalog.pending() == 0 and catalog.check() == []
        stores.close()
    assert runs > 8


# -------------------------------------------------------------------------------------------------- lock


def lock(url: str, **given: Any) -> PostgresLock:
    return PostgresLock(url, **{"schema": "headwater", "name": "write", **given})


def test_the_lock_says_who_holds_it_and_is_free_when_its_holder_dies(
    catalog: PostgresCatalog, postgres_url: str
) -> None:
    holding = started(HOLDER, postgres_url)
    ours = lock(postgres_url)
    with pytest.raises(HomeLocked, match=rf"process {holding.pid} .*has been writing to the catalog at 127\.0\.0\.1"):
        ours.acquire(timeout_seconds=0.3)
    assert ours.holder()["pid"] == holding.pid and not ours.held
    with lock(postgres_url, name="reindex") as other:
        assert other.held
    os.kill(holding.pid, signal.SIGKILL)
    ended(holding)
    ours.acquire(timeout_seconds=10)
    assert ours.held and ours.holder()["pid"] == os.getpid()
    with pytest.raises(UsageError, match="already held"):
        ours.acquire()
    with pytest.raises(HomeLocked, match="this process"):
        lock(postgres_url).acquire(timeout_seconds=60)
    ours.release()
    ours.release()
    assert ours.holder() == {} and not ours.held
    with lock(postgres_url):
        pass


def test_two_homes_in_one_database_have_a_lock_each(catalog: PostgresCatalog, postgres_url: str) -> None:
    PostgresCatalog("-", url=postgres_url, schema="other", create=True).close_store()
    with lock(postgres_url), lock(postgres_url, schema="other") as other:
        assert other.held


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_neither_keeps_nor_ends_the_lock(catalog: PostgresCatalog, postgres_url: str) -> None:
    script = (
        "import os, sys, time; from headwater.storage.postgres_lock import PostgresLock\n"
        "lock = PostgresLock(sys.argv[1], schema='headwater', name='write'); lock.acquire()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    assert not lock.held; time.sleep(30); os._exit(0)\n"
        "print(child, flush=True); time.sleep(30)\n"
    )
    running = subprocess.Popen([sys.executable, "-c", script, postgres_url], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    child = int(running.stdout.readline())
    try:
        with pytest.raises(HomeLocked):
            lock(postgres_url).acquire(timeout_seconds=0.3)
        ended(running)
        ours = lock(postgres_url)
        ours.acquire(timeout_seconds=10)  # although the child is still alive
        ours.release()
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_lock_whose_server_went_away_is_let_go_without_a_word(own_server: PostgresServer) -> None:
    url = own_server.url("home")
    PostgresCatalog("-", url=url, create=True).close_store()
    held = lock(url)
    held.acquire()
    own_server.stop()
    held.release()
    with pytest.raises(BackendError, match="database home"):
        lock(url).acquire()
    own_server.start()
    with lock(url):
        pass
