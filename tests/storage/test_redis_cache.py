"""Results that processes share: the same hits, nobody else's, nothing stale; and a dead server costs one short wait."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.build import KnowledgeBase, open_home
from headwater.effective import effective_settings
from headwater.errors import BackendError, SettingError
from headwater.storage._lineage import FILE_NAME, Lineage
from headwater.storage._results_json import packed, unpacked
from headwater.storage.cache import ResultCache
from headwater.storage.redis_cache import PREFIX, WAITS, RedisCache
from headwater.testing.ports import free_port
from headwater.types import Chunk, Hit, Query, Record, Results, Span

TIMEOUT = 1.0  # generous: a test machine may be busy, and no test waits for it but where it says so


class Server:
    """A Redis of our own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.fail("the tests of shared results need Redis: `apt-get install redis-server` (`make test-core` not)")
        self.port, self.folder = free_port(), folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.command += ["--dir", str(folder), "--loglevel", "warning", *arguments]
        self.start()

    def start(self) -> None:
        with (self.folder / "redis.log").open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        for _ in range(400):
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.025)
        pytest.fail(f"Redis did not start: {(self.folder / 'redis.log').read_text()}")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def client(self, **options: Any) -> Any:
        import redis

        return redis.Redis.from_url(self.url, **options)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def server(running: Server) -> Server:
    client = running.client()
    client.flushall()
    client.close()
    return running


@pytest.fixture
def shared(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Every home that is opened uses it."""
    use(monkeypatch, server.url)
    return server


def use(monkeypatch: pytest.MonkeyPatch, url: str, **more: Any) -> None:
    for name, value in {"use": "redis", "url": url, "timeout_seconds": TIMEOUT, **more}.items():
        monkeypatch.setenv(f"HEADWATER_CACHE__{name.upper()}", str(value))


def filled(home: Path) -> KnowledgeBase:
    kb = open_home(home)
    if not kb.documents():
        kb.add_text("The flood of 1998 reached the old bridge. 洪水到了旧桥。", uri="a.txt")
        kb.add_text("Pumps were ordered after the flood.", uri="b.txt")
    return kb


def is_kept(results: Results) -> bool:
    return set(results.timings_ms) == {"cache", "total"}


# ------------------------------------------------------------------------------------------------- sharing

CHILD = """
import json, sys
from headwater.build import open_home
with open_home(sys.argv[1]) as kb:
    found = kb.search(sys.argv[2], options=json.loads(sys.argv[3]))
    print(json.dumps({"kept": "cache" in found.timings_ms, "hits": [[h.chunk.name, h.score] for h in found]}))
"""


def in_another_process(home: Path, text: str, **options: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, str(home), text, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=dict(os.environ))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def is_kept_for_others(home: Path, text: str) -> bool:
    """Whether a home that is opened anew, which has nothing of its own in memory, finds it."""
    with open_home(home) as kb:
        return is_kept(kb.search(text))


@pytest.mark.system
def test_two_processes_share_a_result(shared: Server, tmp_path: Path) -> None:
    with filled(tmp_path / "kb") as kb:
        first = kb.search("flood")
        assert not is_kept(first) and len(first) == 2
        other = in_another_process(tmp_path / "kb", "flood")
        assert other == {"kept": True, "hits": [[hit.chunk.name, hit.score] for hit in first]}
        assert not in_another_process(tmp_path / "kb", "flood", top_n=1)["kept"]
        assert not in_another_process(tmp_path / "kb", "bridge")["kept"]
        # What the other process searched for is kept for this one, every field as a search gives it.
        kept = kb.search("bridge")
        fresh = kb.search("bridge", options={"cache_size": 0})
        assert is_kept(kept) and kept.hits == fresh.hits
        assert replace(kept, timings_ms={}) == replace(fresh, query=kept.query, timings_ms={})


@pytest.mark.system
def test_another_generation_never_sees_it(shared: Server, tmp_path: Path) -> None:
    with filled(tmp_path / "kb") as kb:
        kb.search("flood")
        kb.add_text("A third note on the flood.", uri="c.txt")
        assert not is_kept_for_others(tmp_path / "kb", "flood")
        seen = kb.search("flood")
        assert is_kept(seen) and {hit.uri for hit in seen} == {"a.txt", "b.txt", "c.txt"}
        kb.remove(*[record.id for record in kb.documents() if record.uri == "a.txt"])
        assert {hit.uri for hit in kb.search("flood")} == {"b.txt", "c.txt"}


@pytest.mark.system
def test_what_shapes_results_is_in_the_key_and_what_does_not_is_not(
    shared: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "kb"
    with filled(home) as kb:
        kb.search("flood")
    monkeypatch.setenv("HEADWATER_SERVER__PORT", "9999")
    assert is_kept_for_others(home, "flood"), "two servers of one home"
    monkeypatch.setenv("HEADWATER_TOKENS__DICTIONARY", '["旧桥"]')
    assert not is_kept_for_others(home, "flood")
    monkeypatch.delenv("HEADWATER_TOKENS__DICTIONARY")
    for name in ("dictionary.txt", "synonyms.tsv"):
        (home / name).write_text("flood\tdeluge\n", encoding="utf-8")
        assert not is_kept_for_others(home, "flood"), name
        (home / name).unlink()
    assert is_kept_for_others(home, "flood")


@pytest.mark.system
def test_another_owner_never_sees_it(shared: Server, tmp_path: Path) -> None:
    with filled(tmp_path / "kb") as kb:
        assert len(kb.search("flood")) == 2
        other = kb.for_owner("somebody-else")
        assert len(other.search("flood")) == 0
        narrowed = kb.for_owner(kb.owner, collections=["letters"])
        assert len(narrowed.search("flood")) == 0
        assert is_kept(kb.search("flood"))


@pytest.mark.system
def test_another_home_never_sees_it(shared: Server, tmp_path: Path) -> None:
    """Not another home in the same place with as many changes, nor a copy that went its own way, nor a packed one."""
    with filled(tmp_path / "kb") as kb:
        kb.search("flood")
        generation = kb.catalog.generation()
    shutil.copytree(tmp_path / "kb", tmp_path / "copy")
    (tmp_path / "kb").rename(tmp_path / "before")
    (tmp_path / "copy").rename(tmp_path / "kb")
    with open_home(tmp_path / "kb") as copied:
        assert copied.catalog.generation() == generation
        assert not is_kept(copied.search("flood"))
    shutil.rmtree(tmp_path / "kb")
    with open_home(tmp_path / "kb") as new:
        new.add_text("The flood is another one.", uri="a.txt")
        new.add_text("And so is the second.", uri="b.txt")
        assert new.catalog.generation() == generation
        assert [hit.chunk.text for hit in new.search("flood", mode="keyword")] == ["The flood is another one."]


def test_a_home_is_told_from_its_copies_and_from_what_it_was(tmp_path: Path) -> None:
    catalog = tmp_path / "kb" / "catalog.sqlite"
    catalog.parent.mkdir()
    catalog.write_text("x")
    lineage = Lineage(catalog, generation=3)
    assert Lineage(catalog, generation=3).name == lineage.name == Lineage(catalog, generation=5).name
    assert Lineage(catalog, generation=4).name != lineage.name, "it went back: another home was put in its place"
    again = Lineage(catalog, generation=4)
    again.reached(9)
    assert Lineage(catalog, generation=9).name == again.name != Lineage(catalog, generation=8).name
    here = Lineage(catalog, generation=10)
    shutil.copytree(tmp_path / "kb", tmp_path / "copy")
    assert Lineage(tmp_path / "copy" / "catalog.sqlite", generation=10).name != here.name
    for damaged in ("", "[]", '{"generation": "9"}', '{"token": 1'):
        (catalog.parent / FILE_NAME).write_text(damaged)
        assert Lineage(catalog, generation=10).name != here.name


def test_no_pack_takes_the_name_along(tmp_path: Path) -> None:
    import zipfile

    from headwater.archive import pack

    with filled(tmp_path / "kb") as kb:
        Lineage(kb.home / "catalog.sqlite", generation=1)
        assert (kb.home / FILE_NAME).exists()
        pack(kb, tmp_path / "kb.hw")
    assert FILE_NAME not in zipfile.ZipFile(tmp_path / "kb.hw").namelist()


# -------------------------------------------------------------------------------------------------- limits


def near(size: int = 10) -> ResultCache:
    return ResultCache(size)


def cache_at(server: Server, tmp_path: Path, *, size: int = 10, url: str = "", **options: Any) -> RedisCache:
    chosen = {"url": url or server.url, "timeout_seconds": TIMEOUT, **options}
    return RedisCache(near(), tmp_path / "catalog.sqlite", generation=0, size=size, **chosen)


def results(total: int = 1, **changes: Any) -> Results:
    return replace(Results(query=Query(text="")), total=total, **changes)


@pytest.mark.system
def test_of_one_home_only_so_many_are_kept_and_those_used_last(server: Server, tmp_path: Path) -> None:
    cache, client = cache_at(server, tmp_path, size=2), server.client()
    for number, key in enumerate((b"a", b"b"), start=1):
        cache.put(key, results(number))
        time.sleep(0.002)  # the order is by time
    other = cache_at(server, tmp_path / "other", size=2)
    other.put(b"z", results(9))
    assert cache._tried(lambda: 1) == 1
    cache._near.clear()
    assert cache.get(b"a") == results(1)
    time.sleep(0.002)
    cache.put(b"c", results(3))
    cache._near.clear()
    assert [cache.get(key) is not None for key in (b"a", b"b", b"c")] == [True, False, True]
    assert len(client.keys(f"{PREFIX}:*")) == 3, "two of this home, one of the other"
    assert other.get(b"a") is None
    for one in (cache, other, client):
        one.close()


@pytest.mark.system
def test_nothing_stays_for_ever_and_nothing_large_is_sent(server: Server, tmp_path: Path) -> None:
    client = server.client()
    cache = cache_at(server, tmp_path, ttl_seconds=0.3, max_bytes=600)
    cache.put(b"a", results())
    assert 0 < client.pttl(cache._name(b"a")) <= 300
    cache.put(b"large", results(listed="x" * 1000))
    cache.put(b"failed", results(degraded=("slow",)))
    assert [client.exists(cache._name(key)) for key in (b"a", b"large", b"failed")] == [1, 0, 0]
    deadline = time.monotonic() + 10
    while client.keys("*") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert client.keys("*") == []
    cache.close()
    client.close()


@pytest.mark.system
def test_clear_takes_out_all_of_this_home_and_no_other(server: Server, tmp_path: Path) -> None:
    cache, other, client = cache_at(server, tmp_path), cache_at(server, tmp_path / "other"), server.client()
    for key in (b"a", b"b"):
        cache.put(key, results())
        other.put(key, results())
    cache.clear()
    assert cache.get(b"a") is None and other.get(b"a") is not None
    assert len(client.keys(f"{PREFIX}:*")) == 2
    for one in (cache, other, client):
        one.close()


@pytest.mark.system
def test_what_was_forgotten_is_not_in_the_server_either(shared: Server, tmp_path: Path) -> None:
    client = shared.client()
    with filled(tmp_path / "kb") as kb:
        kb.search("flood")

        def told() -> bytes:
            return b"".join(client.get(key) for key in client.keys(f"{PREFIX}:*"))

        assert b"old bridge" in told()
        kb.forget(*[record.id for record in kb.documents() if record.uri == "a.txt"])
        assert b"old bridge" not in told()
    client.close()


@pytest.mark.system
def test_a_password_lets_in_and_is_shown_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = Server(tmp_path, "--requirepass", "s3cret-word")
    try:
        monkeypatch.setenv("REDIS_WORD", "s3cret-word")
        use(monkeypatch, locked.url, password="env:REDIS_WORD")
        with filled(tmp_path / "kb") as kb:
            kb.search("flood")
        assert is_kept_for_others(tmp_path / "kb", "flood")
        use(monkeypatch, locked.url, password="s3cret-word")
        shown = {name: one.value for name, one in effective_settings(tmp_path / "kb").items()}
        assert shown["cache.password"] == "(not shown)"
        assert shown["cache.url"] == locked.url
        use(monkeypatch, f"redis://:s3cret-word@127.0.0.1:{locked.port}/0")
        assert "s3cret" not in str(effective_settings(tmp_path / "kb"))
        use(monkeypatch, locked.url, password="wrong")
        assert not is_kept_for_others(tmp_path / "kb", "flood"), "who has not the word searches without it"
    finally:
        locked.stop()


# ------------------------------------------------------------------------------------------------ failures


def test_a_dead_server_costs_one_wait_and_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use(monkeypatch, f"redis://127.0.0.1:{free_port()}/0", timeout_seconds=0.2)
    with filled(tmp_path / "kb") as kb, caplog.at_level(logging.WARNING):
        first, second = kb.search("flood"), kb.search("bridge")
        assert len(first) == 2 and second.hits and not (first.degraded or second.degraded)
        assert is_kept(kb.search("flood")), "this process keeps its own"
        with pytest.raises(BackendError, match="could not be taken out"):
            kb.results_cache.clear()
    told = [record.message for record in caplog.records if "result cache" in record.message]
    assert len(told) == 1 and "searching without it" in told[0]


@pytest.mark.parametrize("speaks", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$99999999\r\nx"])
def test_a_silent_or_lying_server_costs_its_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: bytes
) -> None:
    wait = 0.2
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(8)
        listening.settimeout(0.01)
        taken: list[socket.socket] = []

        def answer() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                except OSError:
                    return
                taken.append(connection)
                if speaks:
                    connection.sendall(speaks)

        from threading import Thread

        thread = Thread(target=answer)
        thread.start()
        use(monkeypatch, f"redis://127.0.0.1:{listening.getsockname()[1]}/0", timeout_seconds=wait)
        with filled(tmp_path / "kb") as kb:
            plain = kb.search("flood", options={"cache_size": 0})
            began = time.monotonic()
            assert kb.search("flood").hits == plain.hits
            assert kb.search("bridge").hits
            took = time.monotonic() - began
        for connection in taken:
            connection.close()
        listening.close()
        thread.join()
    assert taken, "it was asked"
    assert took < 30, "without a wait of its own it would hang"
    assert len(taken) == 1, "and let alone afterwards"


@pytest.mark.system
def test_a_server_that_comes_back_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("headwater.storage.redis_cache.LET_ALONE_SECONDS", 0.0)
    own = Server(tmp_path)
    use(monkeypatch, own.url)
    try:
        with filled(tmp_path / "kb") as kb, caplog.at_level(logging.INFO, logger="headwater.server.cache"):
            kb.search("flood")
            own.stop()
            assert kb.search("bridge").hits and kb.search("old bridge").hits
            own.start()
            kb.search("pumps")
            assert is_kept_for_others(tmp_path / "kb", "pumps")
        told = [record.levelname for record in caplog.records if "result cache" in record.message]
        assert told == ["WARNING", "INFO"]
    finally:
        own.stop()


@pytest.mark.system
def test_a_search_with_little_time_does_not_ask_it(server: Server, tmp_path: Path) -> None:
    cache = cache_at(server, tmp_path)
    cache.put(b"a", results())
    cache._near.clear()
    assert cache.get(b"a", within_seconds=WAITS * TIMEOUT * 0.9) is None
    assert cache.get(b"a", within_seconds=WAITS * TIMEOUT) == results()
    cache.close()


def test_wrong_settings_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "http://:word@127.0.0.1/0")
    with filled(tmp_path / "kb") as kb, pytest.raises(SettingError, match=r"cache\.url.*http://127") as failure:
        kb.search("flood")
    assert "word" not in str(failure.value)


# -------------------------------------------------------------------------------------------------- values

TEXT = st.text(st.characters(exclude_categories=()), max_size=5)
VALUE = st.one_of(TEXT, st.integers(), st.booleans(), st.floats(allow_nan=False))
HITS = st.builds(
    Hit,
    chunk=st.builds(
        Chunk,
        span=st.builds(Span, st.integers(0, 9), st.integers(0, 9)),
        text=TEXT,
        id=st.integers(0, 2**62),
        pages=st.lists(st.integers(1, 9), max_size=2).map(tuple),
        kind=st.sampled_from(["prose", "table"]),
    ),
    record=st.builds(
        Record,
        id=TEXT,
        uri=TEXT,
        tags=st.lists(TEXT, max_size=2).map(tuple),
        archived=st.booleans(),
        coverage=st.dictionaries(TEXT, VALUE, max_size=2),
        meta=st.dictionaries(TEXT, st.one_of(VALUE, st.lists(VALUE, max_size=2).map(tuple)), max_size=2),
    ),
    score=st.floats(allow_nan=False),
    rank=st.integers(0, 9),
    scores=st.dictionaries(TEXT, st.floats(allow_nan=False), max_size=2),
    ranks=st.dictionaries(TEXT, st.integers(1, 9), max_size=2),
    reasons=st.lists(TEXT, max_size=2).map(tuple),
    found=st.lists(st.builds(Span, st.integers(0, 9), st.integers(0, 9)), max_size=2).map(tuple),
)
RESULTS = st.builds(
    Results,
    query=st.just(Query(text="")),
    hits=st.lists(HITS, max_size=2).map(tuple),
    total=st.integers(0, 9),
    fallback_reason=st.one_of(st.none(), TEXT),
    document_counts=st.dictionaries(TEXT, st.integers(1, 9), max_size=2),
    leg_counts=st.dictionaries(TEXT, st.integers(1, 9), max_size=2),
)


@given(RESULTS)
@settings(max_examples=60)
def test_results_come_back_as_they_were(one: Results) -> None:
    data = packed(one)
    assert data is not None
    assert unpacked(data) == one


def changed(told: Any, place: list[Any], value: Any) -> Any:
    """The same JSON with something else in one place."""
    if not place:
        return value
    copied = dict(told) if isinstance(told, dict) else list(told)
    copied[place[0]] = changed(told[place[0]], place[1:], value)
    return copied


WHOLE = results(
    hits=(
        Hit(
            chunk=Chunk(id=1, document_id="a", span=Span(0, 1), text="x"),
            record=Record(id="a", uri="u", tags=("t",)),
            score=1.0,
        ),
    )
)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["format"], 0),
        (["total"], "4"),
        (["hits"], None),
        (["hits", 0], []),
        (["hits", 0, "score"], "1"),
        (["hits", 0, "chunk", "span"], [1]),
        (["hits", 0, "chunk", "text"], None),
        (["hits", 0, "chunk", "text"], {"__reduce__": "os.system"}),
        (["hits", 0, "record", "owner"], 1),
        (["hits", 0, "record", "tags"], "abc"),
        (["hits", 0, "record", "tags"], [["deep"]]),
        (["hits", 0, "record", "meta"], {"a": {"b": 1}}),
        (["document_counts"], []),
    ],
)
def test_what_was_changed_in_the_store_is_not_read(place: list[Any], value: Any) -> None:
    data = packed(WHOLE)
    assert data is not None and unpacked(data) == WHOLE
    assert unpacked(json.dumps(changed(json.loads(data), place, value)).encode()) is None


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b"[1]", b"\x80\x04\x95.", b"\xff", b"[" * 100_000])
def test_what_is_no_result_is_nothing(data: bytes) -> None:
    assert unpacked(data) is None


@pytest.mark.system
def test_rubbish_under_a_key_is_a_search_like_any_other(shared: Server, tmp_path: Path) -> None:
    client = shared.client()
    with filled(tmp_path / "kb") as kb:
        first = kb.search("flood")
        (name,) = client.keys(f"{PREFIX}:*")
        client.set(name, b"cos\nsystem\n(S'true'\ntR.")
        kb.results_cache._near.clear()  # type: ignore[attr-defined]
        again = kb.search("flood")
        assert not is_kept(again) and again.hits == first.hits
    client.close()
