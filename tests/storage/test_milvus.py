"""What of the index in Milvus needs no server: its filters, its settings, and servers that are not there."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import BackendError, SettingError
from headwater.selection import TICKET_BITS, Selection
from headwater.storage import _milvus_filter as milvus_filter
from headwater.storage._milvus_filter import filters_of
from headwater.storage.milvus import MilvusIndex
from headwater.testing._shelf import Shelf


def index(path: Path, **more: Any) -> MilvusIndex:
    shelf = Shelf()
    return MilvusIndex(path / "vectors-1", **{"dim": 8, "select": shelf.select, "exact": shelf.exact, **more})


# ------------------------------------------------------------------------------------------------- filters

places = st.one_of(
    st.integers(0, 12).map(lambda ticket: ticket << TICKET_BITS),
    st.builds(lambda ticket, ordinal: ticket << TICKET_BITS | ordinal, st.integers(0, 12), st.integers(0, 200)),
    st.sampled_from([0, 500 << TICKET_BITS, np.iinfo(np.int64).max]),
)
selections = st.lists(st.tuples(places, places), max_size=6).map(
    lambda pairs: Selection.of_ranges([min(pair) for pair in pairs], [max(pair) for pair in pairs])
)


@given(selection=selections, inverse=st.booleans(), small=st.booleans(), ids=st.lists(places, max_size=30))
def test_filters_together_allow_exactly_the_selection(
    *, selection: Selection, inverse: bool, small: bool, ids: list[int]
) -> None:
    selection = ~selection if inverse else selection
    edges = [int(place) + off for place in (*selection.starts, *selection.stops) for off in (-1, 0, 1)]
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(milvus_filter, "MAX_SET", 2)
            patch.setattr(milvus_filter, "MAX_RANGES", 1)
        filters = [] if selection.is_empty else filters_of(selection)
    for id in {one for one in (*ids, *edges) if 0 <= one < np.iinfo(np.int64).max}:
        # The language of these filters is a part of Python's.
        allowed = [eval(one or "True", {"id": id, "ticket": id >> TICKET_BITS}) for one in filters]
        assert sum(allowed) == int(selection.contains([id])[0]), filters


def test_filters_are_as_short_as_they_can_be() -> None:
    assert filters_of(Selection.everything()) == [""]
    assert filters_of(Selection.of_tickets([3, 5])) == ["(ticket in [3,5])"]
    assert filters_of(Selection.of_ids([7 << TICKET_BITS | 1])) == [f"(id in [{7 << TICKET_BITS | 1}])"]
    ids = [ticket << TICKET_BITS | 5 for ticket in range(1, 100)]
    assert filters_of(~Selection.of_ids(ids)) == [f"not ((id in [{','.join(map(str, ids))}]))"]
    assert filters_of(Selection.of_tickets(range(100, 9_000))) == [
        f"(id >= {100 << TICKET_BITS} and id < {9_000 << TICKET_BITS})"
    ]
    many = filters_of(Selection.of_tickets(range(1, 30_000, 2)))
    assert [one.count(",") + 1 for one in many] == [5_000] * 3


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"shortlist": 0}, "shortlist"),
        ({"m": 1}, "m must"),
        ({"ef": 0}, "ef"),
        ({"ef_construction": 0}, "ef_construction"),
        ({"metric": "hamming"}, "metric"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"collection": "a-b"}, "collection"),
        ({"uri": "milvus.db"}, "uri"),
        ({"uri": "http://user:hush@:19530"}, "uri"),
        ({"uri": "http://host:99999"}, "uri"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, setting: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingError, match=told) as error:
        index(tmp_path, **setting)
    assert "hush" not in str(error.value)


# --------------------------------------------------------------------------------------- servers that are not there


def test_a_server_that_is_away_or_says_nothing_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An address each: the client shares what it knows of an address, and a refusal is repeated for a second or so.
    with socket.socket() as away, socket.socket() as silent:
        for one_socket in (away, silent):
            one_socket.bind(("127.0.0.1", 0))
        silent.listen()  # and never answers
        for server, wait, told in ((away, 60.0, "refused.*`uri`"), (silent, 1.5, "Deadline.*`timeout_seconds`")):
            uri = f"http://127.0.0.1:{server.getsockname()[1]}"
            one = index(tmp_path, uri=uri, token="root:hush", timeout_seconds=wait)
            one.add(np.array([1 << TICKET_BITS]), np.ones((1, 8), dtype=np.float32))
            for work in (one.refresh, one.flush):
                started = time.monotonic()
                with pytest.raises(BackendError, match=rf"127\.0\.0\.1:\d+.*{told}") as error:
                    work()
                assert time.monotonic() - started < 30
                assert "hush" not in str(error.value)
        # Who was late is not waited for again so soon, by search after search.
        monkeypatch.setattr(one._connection, "_connected", lambda: pytest.fail("it is asked again"))
        with pytest.raises(BackendError, match="Deadline"):
            one.refresh()


def test_without_the_client_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(BackendError, match=r'pip install "headwater\[milvus\]"'):
        index(tmp_path).refresh()


QUIET = """
import os, sys
import headwater.storage.milvus as milvus
from headwater.errors import BackendError
from headwater.testing._shelf import Shelf
assert not {"pymilvus", "grpc", "pandas"} & set(sys.modules), "imported before it is needed"
shelf = Shelf()
index = milvus.MilvusIndex(milvus.Path(sys.argv[1]), dim=8, select=shelf.select, exact=shelf.exact, uri=sys.argv[2])
before = dict(os.environ)
try:
    index.refresh()
except BackendError as error:
    assert "pymilvus" in sys.modules and "refused" in str(error), error
assert dict(os.environ) == {**before, "GRPC_ENABLE_FORK_SUPPORT": "0"}, set(os.environ) ^ set(before)
"""

FORKS = """
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from headwater.storage._milvus import _imported
_imported()
import grpc
server = grpc.server(ThreadPoolExecutor(1))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
channel = grpc.insecure_channel(f"127.0.0.1:{port}")
grpc.channel_ready_future(channel).result(10)
ended = [subprocess.run(["true"], preexec_fn=lambda: None, capture_output=True) for _ in range(300)]
print(sum(one.returncode != 0 for one in ended))
"""


def test_the_client_is_imported_late_says_nothing_and_reads_no_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MILVUS_URI=http://elsewhere\nSTRANGE=1\n", encoding="utf-8")
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{chosen.getsockname()[1]}"
        command = [sys.executable, "-W", "error", "-c", QUIET, str(tmp_path / "vectors-1"), uri]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is forked there")
def test_processes_can_be_forked_while_the_client_is_connected() -> None:
    """Without the setting about 1 in 40 is ended by gRPC before it begins: parsers run in processes."""
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr[-2000:]
