"""Kill the indexer before and after every storage call; run again; readers never see a mix and end up right."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from headwater.chunkers.recursive import RecursiveChunker
from headwater.filters import ALL
from headwater.indexer import Indexer
from headwater.models.hashed import HashedEmbedder
from headwater.parsers.text import TextParser
from headwater.repair import problems, repair
from headwater.retrieve import Parts, compose
from headwater.storage.memory import MemoryTextIndex, MemoryVectorIndex
from headwater.storage.memory_catalog import MemoryCatalog
from headwater.storage.sqlite import SqliteCatalog
from headwater.storage.text import TantivyIndex
from headwater.storage.vectors import TurbovecIndex
from headwater.testing.faults import Crash, every_crash_point
from headwater.tokens import Cutter
from headwater.types import Blob, Change, Options, Query, Space

V1 = "alpha river one.\n\nbeta river one."
V2 = "alpha river two.\n\nbeta river one.\n\ngamma river two."
CHUNKER = RecursiveChunker(size=20, overlap=0, unit="chars")
EMBEDDER = HashedEmbedder(dim=64)
CUTTER = Cutter()


class Stores:
    """One set of stores and what reads them."""

    def __init__(self, catalog: Any, text: Any, vectors: Any) -> None:
        self.catalog, self.text, self.vectors = catalog, text, vectors
        catalog.open_space(Space(embedder=EMBEDDER.fingerprint, dim=EMBEDDER.dim, chunker=CHUNKER.fingerprint))

    def indexer(self, files: dict[str, str], wrap: Callable[[Any], Any] = lambda part: part) -> Indexer:
        parts = {"catalog": wrap(self.catalog), "text": wrap(self.text), "vectors": wrap(self.vectors)}
        return Indexer(
            **parts,
            chunker=CHUNKER,
            embedder=EMBEDDER,
            read=lambda change: Blob(uri=change.uri, data=files[change.uri].encode(), mime="text/plain"),
            parser=lambda mime: TextParser(),
        )

    def found(self) -> set[str]:
        self.text.refresh()
        self.vectors.refresh()
        with ThreadPoolExecutor(1) as pool:
            parts = Parts(
                catalog=self.catalog, text=self.text, vectors=self.vectors, embedder=EMBEDDER, cutter=CUTTER, pool=pool
            )
            options = Options(top_n=20, highlight=False)
            hits = compose(parts, options).retrieve(Query(text="river", options=options))
        return {hit.chunk.text for hit in hits}

    def close(self) -> None:
        self.text.close()
        self.vectors.close()
        self.catalog.close_store()


def in_memory(folder: Path) -> Stores:
    catalog = MemoryCatalog()
    text = MemoryTextIndex(select=catalog.select, cutter=CUTTER)
    return Stores(catalog, text, MemoryVectorIndex(dim=EMBEDDER.dim, select=catalog.select))


def embedded(folder: Path) -> Stores:
    catalog = SqliteCatalog(folder / "catalog.sqlite")
    text = TantivyIndex(folder / "text", select=catalog.select, cutter=CUTTER)
    vectors = TurbovecIndex(folder / "vectors", dim=EMBEDDER.dim, select=catalog.select, exact=catalog.vectors)
    return Stores(catalog, text, vectors)


def put(uri: str = "a") -> Change:
    return Change(uri=uri, kind="put")


def expected(text: str) -> set[str]:
    return set(text.split("\n\n"))


@pytest.mark.parametrize("make", [in_memory, embedded])
def test_every_crash_point(make: Callable[[Path], Stores], tmp_path: Path) -> None:
    runs = 0
    for countdown in every_crash_point():
        runs += 1
        folder = tmp_path / str(runs)
        folder.mkdir()
        stores = make(folder)
        files = {"a": V1}
        stores.catalog.enqueue([put()])
        stores.indexer(files).run()
        assert stores.found() == expected(V1)

        files["a"] = V2
        stores.catalog.enqueue([put()])
        shaky = stores.indexer(files, countdown.wrap)
        try:
            shaky.run()
            shaky.sweep()
        except Crash:
            pass
        if make is embedded:  # what only lived in the process is gone with it
            stores.close()
            stores = make(folder)
        assert stores.found() in (expected(V1), expected(V2)), "a reader saw a mix"

        again = stores.indexer(files)
        again.run()
        again.sweep()
        assert stores.found() == expected(V2)
        assert stores.catalog.pending() == 0
        if problems(stores.catalog, stores.text, stores.vectors):
            repair(stores.catalog, stores.text, stores.vectors)
            assert stores.found() == expected(V2)
        assert problems(stores.catalog, stores.text, stores.vectors) == []
        stores.close()
    assert runs > 15


@pytest.mark.parametrize("make", [in_memory, embedded])
def test_a_reader_caught_in_the_middle_of_an_update_sees_one_version(
    make: Callable[[Path], Stores], tmp_path: Path
) -> None:
    stores = make(tmp_path)
    files = {"a": V1}
    stores.catalog.enqueue([put()])
    stores.indexer(files).run()
    search = stores.text.search
    calls = 0

    def update_behind_the_search(text: str, limit: int, where: Any) -> Any:
        nonlocal calls
        calls += 1
        ranked = search(text, limit, where)
        if calls == 1:
            files["a"] = V2
            stores.catalog.enqueue([put()])
            stores.indexer(files).run()
        return ranked

    stores.text.search = update_behind_the_search
    assert stores.found() in (expected(V1), expected(V2))
    assert calls >= 1
    stores.close()


@pytest.mark.parametrize("make", [in_memory, embedded])
def test_an_older_ticket_never_overwrites_a_newer_one(make: Callable[[Path], Stores], tmp_path: Path) -> None:
    stores = make(tmp_path)
    files = {"a": V1}
    stores.catalog.enqueue([put()])
    [first] = stores.catalog.claim(1)
    [second] = stores.catalog.claim(1)  # the first worker was taken for dead
    assert second.ticket > first.ticket
    files["a"] = V2
    indexer = stores.indexer(files)
    newer = indexer.embedded([indexer._version(second)])
    files["a"] = V1
    older = indexer.embedded([indexer._version(first)])
    for versions in (newer, older):
        indexer.store_in_indexes(versions, [])
        indexer._commit((versions, [], []), lambda: None)
    assert stores.found() == expected(V2)
    indexer.sweep()
    assert stores.found() == expected(V2)
    assert stores.catalog.records(ALL)[0].ticket == second.ticket
    stores.close()
