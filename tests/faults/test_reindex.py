"""A reindex that is killed, before and after every storage call and for real; and one with others at work meanwhile."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from headwater.build import KnowledgeBase, open_home
from headwater.chunkers.recursive import RecursiveChunker
from headwater.filters import ALL
from headwater.indexer import Indexer
from headwater.models.hashed import HashedEmbedder
from headwater.parsers.text import TextParser
from headwater.reindex import Reindex
from headwater.repair import problems, problems_beside
from headwater.storage.memory import MemoryTextIndex, MemoryVectorIndex
from headwater.storage.memory_catalog import MemoryCatalog
from headwater.storage.sqlite import SqliteCatalog
from headwater.storage.text import TantivyIndex
from headwater.storage.vectors import TurbovecIndex
from headwater.testing.faults import Crash, every_crash_point
from headwater.tokens import Cutter
from headwater.types import Blob, Change, Matrix, Space, Version

FILES = {"a": "alpha river one.\n\nbeta river one.", "b": "gamma river.", "c": "delta river three.\n\nriver four."}
CUTTER = Cutter()
OLD = (RecursiveChunker(size=20, overlap=0, unit="chars"), HashedEmbedder(dim=64))
NEW = (RecursiveChunker(size=400, overlap=0, unit="chars"), HashedEmbedder(dim=32))


def space_of(parts: tuple[RecursiveChunker, HashedEmbedder]) -> Space:
    chunker, embedder = parts
    return Space(embedder=embedder.fingerprint, dim=embedder.dim, chunker=chunker.fingerprint)


class Home:
    """A catalog with the indexes of two spaces."""

    def __init__(self, folder: Path, kind: str, earlier: "Home | None" = None) -> None:
        self.folder, self.kind = folder, kind
        if kind == "memory" and earlier is not None:
            self.catalog, self.sides = earlier.catalog, earlier.sides
            return
        self.catalog: Any = MemoryCatalog() if kind == "memory" else SqliteCatalog(folder / "catalog.sqlite")
        self.sides = [self._indexes(name, parts[1].dim) for name, parts in (("old", OLD), ("new", NEW))]

    def _indexes(self, name: str, dim: int) -> tuple[Any, Any]:
        select = self.catalog.select
        if self.kind == "memory":
            return MemoryTextIndex(select=select, cutter=CUTTER), MemoryVectorIndex(dim=dim, select=select)
        vectors = TurbovecIndex(self.folder / f"v-{name}", dim=dim, select=select, exact=self.catalog.vectors)
        return TantivyIndex(self.folder / f"t-{name}", select=select, cutter=CUTTER), vectors

    def indexer(self, side: int, wrap: Callable[[Any], Any] = lambda part: part, space: Space | None = None) -> Indexer:
        chunker, embedder = (OLD, NEW)[side]
        text, vectors = self.sides[side]
        return Indexer(
            catalog=wrap(self.catalog),
            text=wrap(text),
            vectors=wrap(vectors),
            chunker=chunker,
            embedder=embedder,
            space=space,
            read=lambda change: Blob(uri=change.uri, data=FILES[change.uri].encode(), mime="text/plain"),
            parser=lambda mime: TextParser(),
            batch_chunks=2,
        )

    def reindex(self, wrap: Callable[[Any], Any] = lambda part: part) -> None:
        catalog = wrap(self.catalog)
        space = catalog.open_shadow(space_of(NEW))
        work = Reindex(space, catalog=catalog, indexer=self.indexer(1, wrap, space), writing=unlocked)
        work.fill()
        work.finish()
        catalog.clear_away()

    def found(self, side: int) -> set[str]:
        text = self.sides[side][0]
        text.refresh()
        ids = [scored.chunk_id for scored in text.search("river", 50, ALL)]
        return {chunk.text for chunk, _ in self.catalog.chunks(ids).values()}

    def close(self) -> None:
        for text, vectors in self.sides:
            text.close()
            vectors.close()
        self.catalog.close_store()


@contextmanager
def unlocked() -> Iterator[None]:
    yield


@pytest.mark.parametrize("kind", ["memory", "embedded"])
def test_every_crash_point(kind: str, tmp_path: Path) -> None:
    pieces = {piece for text in FILES.values() for piece in text.split("\n\n")}
    wholes = set(FILES.values())
    runs = 0
    for countdown in every_crash_point():
        runs += 1
        folder = tmp_path / str(runs)
        folder.mkdir()
        home = Home(folder, kind)
        home.catalog.open_space(space_of(OLD))
        home.catalog.enqueue([Change(uri=uri, kind="put") for uri in FILES])
        home.indexer(0).run()
        assert home.found(0) == pieces
        with suppress(Crash):
            home.reindex(countdown.wrap)
        again = home
        if kind == "embedded":  # what only lived in the process is gone with it
            home.close()
            again = Home(folder, kind)
        switched = again.catalog.space().embedder == NEW[1].fingerprint
        assert again.found(1 if switched else 0) == (wholes if switched else pieces), "a reader saw a mix"
        if not switched:
            # Someone removes a document before the next run.
            [removal] = again.catalog.draw([Change(uri="b", kind="delete")])
            again.catalog.commit([Version(change=removal)])
            again.reindex()
            again.indexer(1).sweep()
            assert again.found(1) == wholes - {FILES["b"]}
        active = again.catalog.space()
        assert active.embedder == NEW[1].fingerprint
        again.catalog.clear_away()
        assert problems(again.catalog, *again.sides[1]) == []
        [retired] = [space for space in again.catalog.spaces() if space.state == "retired"]
        assert problems_beside(again.catalog, *again.sides[0], space=retired) == []
        again.close()
    assert runs > 40


# ------------------------------------------------------------------------------------------ for real


def write_documents(folder: Path, count: int, version: int = 1) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        paragraphs = [f"mark{number}v{version} paragraph {n} " + "river gauge 水位 " * 12 for n in range(8)]
        (folder / f"d{number:03d}.md").write_text(f"# Station {number}\n\n" + "\n\n".join(paragraphs), encoding="utf-8")


def headwater(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_killed_reindex_is_gone_on_with_and_loses_nothing(tmp_path: Path) -> None:
    files, home = tmp_path / "files", tmp_path / "kb"
    write_documents(files, 40)
    home.mkdir()
    settings = home / "headwater.toml"
    old = "[embed]\nuse = 'hashed'\ndim = 64\n[ingest]\nbatch_chunks = 12\n"
    settings.write_text(old)
    assert headwater("add", str(files), "--home", str(home)).returncode == 0
    settings.write_text(old.replace("dim = 64", "dim = 96") + "[chunk]\nsize = 80\noverlap = 0\n")
    command = [sys.executable, "-m", "headwater", "reindex", "--json", "--home", str(home)]
    chance = random.Random(5)
    killed, seen = 0, []
    for _ in range(5):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with open_home(home) as kb:
            since = time.monotonic()
            before = shadow_documents(kb)
            # Wait until it has done something new, then a little more: the kill shall hit the work.
            while running.poll() is None and shadow_documents(kb) == before and time.monotonic() - since < 60:
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.1))
            if running.poll() is None:
                running.send_signal(signal.SIGKILL)
                killed += 1
            running.communicate()
            seen.append(shadow_documents(kb))
            # The settings ask for what is being filled: the active space answers as it did.
            results = kb.search("mark7v1 river", top_n=3)
            assert results.hits and results.fallback_reason is None and results.degraded == ()
    assert killed >= 3 and seen == sorted(seen), (killed, seen)
    done = headwater("reindex", "--json", "--home", str(home))
    if done.returncode == 2:  # the last one was killed after it had switched
        assert "already" in done.stderr
    else:
        told = json.loads(done.stdout)
        assert told["documents"] == 40 and told["filled"] <= 40 - min(seen[-1], 40)
    checked = headwater("check", "--repair", "--json", "--home", str(home))
    assert json.loads(checked.stdout)["problems"] == []
    with open_home(home) as kb:
        assert len(kb.documents()) == 40 and kb.space.dim == 96
        for number in range(40):
            [hit] = kb.search(f"mark{number}v1", mode="keyword", top_n=1)
            assert hit.uri.endswith(f"d{number:03d}.md")


def shadow_documents(kb: KnowledgeBase) -> int:
    spaces = [space for space in kb.catalog.spaces() if space.state == "shadow"]
    if not spaces:  # not opened yet, or switched to
        return 1000 if kb.catalog.spaces()[-1].dim == 96 else 0
    return len(kb.catalog.tickets(spaces[0]))


# ------------------------------------------------------------------------------- with others at work


class SlowEmbedder(HashedEmbedder):
    """Stops half-way until it is told to go on, and counts."""

    def __init__(self, *, dim: int = 48) -> None:
        super().__init__(dim=dim)
        self.calls = self.passages = 0
        self.half_way, self.go_on = threading.Event(), threading.Event()

    def embed(self, texts: Sequence[str], role: Any) -> Matrix:
        if role == "passage":
            self.calls += 1
            self.passages += len(texts)
            if self.calls == 3:
                self.half_way.set()
                assert self.go_on.wait(60)
        return super().embed(texts, role)


def test_adding_removing_and_searching_go_on_meanwhile(tmp_path: Path) -> None:
    files, home = tmp_path / "files", tmp_path / "kb"
    write_documents(files, 30)
    home.mkdir()
    (home / "headwater.toml").write_text("[ingest]\nbatch_chunks = 4\n")
    with open_home(home, embedder=HashedEmbedder(dim=64)) as kb:
        kb.add(files)
    slow = SlowEmbedder()
    finished = threading.Event()
    failures: list[BaseException] = []
    with (
        open_home(home, embedder=HashedEmbedder(dim=64)) as writer,
        open_home(home, embedder=slow) as other,
        open_home(home, embedder=HashedEmbedder(dim=64)) as reader,
    ):
        modes: set[str] = set()

        def searching() -> None:
            try:
                while not finished.is_set():
                    for mode in ("keyword", "semantic", "hybrid"):
                        results = reader.search("mark20v1 river", mode=mode, top_n=5)  # type: ignore[arg-type]
                        assert results.hits, mode
                        if other.catalog.space() == old and results.fallback_reason is None:
                            modes.add(results.mode_used)
            except BaseException as error:
                failures.append(error)

        def changing() -> None:
            try:
                assert slow.half_way.wait(60)
                for number in range(3):
                    writer.add_text(f"fresh{number} arrived 新来", uri=f"fresh-{number}")
                    writer.remove(str(files / f"d{number:03d}.md"))
                (files / "d010.md").write_text("# Changed\n\nmark10v2 is another text", encoding="utf-8")
                writer.add(files / "d010.md")
                while len(modes) < 3 and not failures:
                    time.sleep(0.01)
            except BaseException as error:
                failures.append(error)
            finally:
                slow.go_on.set()

        old = other.catalog.space()
        threads = [threading.Thread(target=searching), threading.Thread(target=changing)]
        work = threading.Thread(target=lambda: done.append(other.reindex()))
        done: list[Any] = []
        work.start()
        for thread in threads:
            thread.start()
        work.join()
        finished.set()
        for thread in threads:
            thread.join()
        assert failures == [] and len(done) == 1
        assert modes == {"keyword", "semantic", "hybrid"}
    with open_home(home, embedder=slow) as kb:
        assert kb.check() == [] and kb.space.dim == 48
        assert len(kb.documents()) == 30 and len(kb.catalog.tickets()) == 30
        for mode in ("keyword", "hybrid"):
            assert "fresh1" in kb.search("fresh1 arrived", mode=mode, top_n=1)[0].chunk.text
            assert "mark10v2" in kb.search("mark10v2", mode=mode, top_n=1)[0].chunk.text
        assert all("mark1v1" not in hit.chunk.text for hit in kb.search("mark1v1", mode="keyword", top_n=20))
        before = slow.passages
        with open_home(home, embedder=HashedEmbedder(dim=64)) as earlier:
            back = earlier.reindex(back=True)
            assert back.after.dim == 64 and earlier.check() == []
            assert "mark10v2" in earlier.search("mark10v2", top_n=1)[0].chunk.text
            assert len(earlier.documents()) == 30
        again = kb.reindex()
        assert (again.filled, slow.passages) == (0, before), "nothing changed: nothing is done twice"
        assert kb.check() == []
