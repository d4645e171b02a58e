"""Indexes in PostgreSQL under a server that stops and a writer that is killed: the state before or the state after."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.errors import BackendError
from headwater.filters import ALL
from headwater.selection import TICKET_BITS
from headwater.storage.postgres_text import PostgresTextIndex
from headwater.storage.postgres_vectors import PostgresVectorIndex
from headwater.testing._shelf import Shelf, ids_of, make_visible
from headwater.testing.postgres_server import PostgresServer
from headwater.tokens import Cutter

DIM = 8


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that may be stopped: the others share theirs."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.discard()


class Both:
    """A text index and a vector index, used the same way."""

    def __init__(self, url: str, *, writable: bool = True) -> None:
        self.shelf = Shelf()
        given: dict[str, Any] = {"select": self.shelf.select, "url": url, "writable": writable}
        self.text = PostgresTextIndex(Path("text-1"), cutter=Cutter(), **given)
        self.vectors = PostgresVectorIndex(Path("vectors-1"), dim=DIM, exact=self.shelf.exact, **given)
        self.each: tuple[Any, ...] = (self.text, self.vectors)

    def add(self, index: Any, ticket: int) -> None:
        rows = np.eye(DIM, dtype=np.float32)[:3]
        pairs = self.shelf.put(ticket, *["heron at the river"] * 3, vectors=rows)
        if index is self.text:
            index.add(pairs)
        else:
            index.add(np.array([chunk.id for chunk, _ in pairs]), rows)

    def found(self, index: Any) -> set[int]:
        asked = "heron" if index is self.text else np.eye(DIM, dtype=np.float32)[0]
        return {id >> TICKET_BITS for id in ids_of(index.search(asked, 1_000, ALL))}

    def close(self) -> None:
        for index in self.each:
            index.close()


@pytest.mark.parametrize("sent", [False, True], ids=["kept in memory", "sent already"])
def test_a_server_that_stops_in_the_middle_of_an_add(
    own_server: PostgresServer, sent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sent:
        monkeypatch.setattr("headwater.storage.postgres_text.MOST_KEPT", 1)
        monkeypatch.setattr("headwater.storage.postgres_vectors.MOST_KEPT", 1)
    both = Both(own_server.url("stopped"))
    for index in both.each:
        both.add(index, 1)
        make_visible(index)
    for index in both.each:
        both.add(index, 2)
        index.remove([1])
    own_server.stop(at_once=True)
    for index in both.each:
        with pytest.raises(BackendError, match=r"127\.0\.0\.1.*database stopped"):
            index.flush()
        with pytest.raises(BackendError, match="see that the server runs"):
            index.tickets()
    own_server.start()
    for index in both.each:
        index.refresh()
        assert index.tickets() == {1: 3} and both.found(index) == {1}
        index.flush()
        assert index.tickets() == {1: 3}, "what failed is not tried again behind one's back"
        both.add(index, 2)
        make_visible(index)
        assert index.tickets() == {1: 3, 2: 3} and both.found(index) == {1, 2}
    both.close()


def test_a_connection_that_breaks_while_a_batch_is_sent(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last statement of a change never arrives."""
    both = Both(postgres_url)
    for index in both.each:
        both.add(index, 1)
        make_visible(index)
    for index, tables in zip(
        both.each, ("_postgres_text_tables.TextTables", "_postgres_vector_table.VectorTable"), strict=True
    ):
        with monkeypatch.context() as patch:
            name = f"headwater.storage.{tables}"
            change = type(index._tables).change

            def broken(self: Any, connection: Any, *given: Any, change: Any = change) -> None:
                change(self, connection, *given)
                connection.execute("select pg_terminate_backend(pg_backend_pid())")

            patch.setattr(f"{name}.change", broken)
            both.add(index, 2)
            with pytest.raises(BackendError, match=r"stopped|terminat|closed"):
                index.flush()
        index.refresh()
        assert index.tickets() == {1: 3} and both.found(index) == {1}
    both.close()


def test_another_process_sees_what_was_flushed(postgres_url: str) -> None:
    both, reader = Both(postgres_url), Both(postgres_url, writable=False)
    assert all(reader.found(index) == set() for index in reader.each)
    with _writer(postgres_url, first=1) as writer:
        assert writer.stdout is not None
        said = int(writer.stdout.readline())
        # Of what is told nothing is missing; of what is not, a ticket is there whole or not at all.
        for index in reader.each:
            index.refresh()
            held = index.tickets()
            assert said in held and set(held.values()) == {3}
        writer.kill()
    both.close()
    reader.close()


WRITER = """
import sys
sys.path.insert(0, sys.argv[3])
from test_postgres_indexes import Both
both = Both(sys.argv[1])
for ticket in range(int(sys.argv[2]), 10**6):
    for index in both.each:
        both.add(index, ticket)
        if ticket % 3 == 0:
            index.remove([ticket - 2])
        index.flush()
    print(ticket, flush=True)
"""


def _writer(url: str, *, first: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, url, str(first), str(Path(__file__).parent)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_killed_at_any_moment_nothing_flushed_is_lost(postgres_url: str) -> None:
    random, first = np.random.default_rng(0), 1
    both = Both(postgres_url, writable=False)
    for _ in range(3):
        with _writer(postgres_url, first=first) as writer:
            assert writer.stdout is not None
            said = [int(writer.stdout.readline())]
            time.sleep(float(random.uniform(0, 0.2)))
            writer.send_signal(signal.SIGKILL)
            said += [int(line) for line in writer.stdout]
        expected = {ticket: 3 for ticket in range(1, said[-1] + 1) if ticket % 3 != 1 or ticket + 2 > said[-1]}
        # The one after the last that was told may have been flushed too, with its removal.
        after = {**expected, said[-1] + 1: 3}
        if (said[-1] + 1) % 3 == 0:
            del after[said[-1] - 1]
        for index in both.each:
            index.refresh()
            assert index.tickets() in (expected, after)
        first = said[-1] + 1
        # Both indexes start from the same place again.
        whole = Both(postgres_url)
        for index in whole.each:
            index.remove([first])
            index.flush()
            if first % 3 == 0 and first - 2 not in index.tickets():
                whole.add(index, first - 2)
                index.flush()
        whole.close()
    both.close()
