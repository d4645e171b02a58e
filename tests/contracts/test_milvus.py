"""The vector index in a real Milvus: the contract of every vector index, and what only a server can do wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.errors import BackendError, HomeDamaged, UsageError
from headwater.filters import ALL
from headwater.selection import TICKET_BITS
from headwater.storage._milvus_home import FILE_NAME, collection_name, own_name
from headwater.storage._milvus_rows import WINDOW
from headwater.storage.milvus import MilvusIndex
from headwater.testing._shelf import Shelf, ids_of, make_visible, random_rows
from headwater.testing.contracts import VectorIndexContract
from headwater.testing.milvus_server import MilvusServer

pytestmark = pytest.mark.system


def opened(server: MilvusServer, path: Path, shelf: Shelf, **more: Any) -> MilvusIndex:
    given = {"dim": 20, "uri": server.uri, "token": server.token, "select": shelf.select, "exact": shelf.exact, **more}
    return MilvusIndex(path, **given)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home") / "vectors-1"


class TestMilvus(VectorIndexContract):
    """All tests in one collection, emptied before each: the server takes two seconds to make one."""

    @pytest.fixture(autouse=True)
    def emptied(self, milvus_server: MilvusServer, folder: Path) -> None:
        self.server, self.folder = milvus_server, folder
        index = self.open_index(folder, Shelf())
        index.remove(list(index.tickets()))
        index.flush()
        index.close()

    def open_index(self, path: Path, shelf: Shelf) -> MilvusIndex:
        return opened(self.server, self.folder, shelf, dim=self.dim)

    def test_a_reader_may_not_write(self, tmp_path: Path, shelf: Shelf) -> None:
        reader = opened(self.server, tmp_path / "index", shelf, writable=False)
        assert reader.search(self.unit(1), 10, ALL) == []
        one = np.array([1 << TICKET_BITS], dtype=np.int64)
        for write in (lambda: reader.add(one, self.unit(1)[None, :]), lambda: reader.remove([1]), reader.clear):
            with pytest.raises(UsageError, match="writable"):
                write()
        assert not (tmp_path / "index").exists()

    def test_the_dead_are_left_out_and_replaced_by_the_next_best(self, index: MilvusIndex, shelf: Shelf) -> None:
        rows = random_rows(2_000, self.dim)
        near = [self.unit(1, 0.001 * n) for n in range(1_000)]
        self.fill(index, shelf, {1: near, 2: [*rows]})
        shelf.take_off(1)
        found = index.search(self.unit(1), 10, ALL)
        assert len(found) == 10
        assert {id >> TICKET_BITS for id in ids_of(found)} == {2}

    def test_more_than_the_server_gives_to_one_question(self, index: MilvusIndex, shelf: Shelf) -> None:
        rows = random_rows(WINDOW + 700, self.dim)
        tickets = np.arange(len(rows)) // 100 + 1
        ids = (tickets << TICKET_BITS) + np.arange(len(rows)) % 100
        for ticket in np.unique(tickets).tolist():
            shelf.put(ticket, *["text"] * int((tickets == ticket).sum()), vectors=rows[tickets == ticket])
        index.add(ids, rows)
        make_visible(index)
        held = index.tickets()
        assert sum(held.values()) == WINDOW + 700 and set(held) == set(tickets.tolist())
        exact = ids[np.lexsort((ids, -np.round(rows @ rows[5], 7)))]
        assert ids_of(index.search(rows[5], 10, ALL)) == exact[:10].tolist()
        # All but one document are dead: the graph cannot tell, so everything is looked at.
        for ticket in range(2, int(tickets[-1]) + 1):
            shelf.take_off(ticket)
        assert ids_of(index.search(-rows[5], 100, ALL)) == [one for one in exact[::-1] if one >> TICKET_BITS == 1]


def filled(server: MilvusServer, path: Path, shelf: Shelf, ticket: int = 1, **more: Any) -> MilvusIndex:
    """An index with one chunk in it."""
    index = opened(server, path, shelf, **{"dim": 4, **more})
    put(index, shelf, ticket)
    return index


def put(index: MilvusIndex, shelf: Shelf, ticket: int) -> None:
    row = random_rows(1, index.dim, seed=ticket)
    shelf.put(ticket, "text", vectors=row)
    index.add(np.array([ticket << TICKET_BITS]), row)
    make_visible(index)


def collections(server: MilvusServer) -> Any:
    """What the server holds, asked past our own code."""
    from pymilvus import MilvusClient

    return MilvusClient(uri=server.uri, token=server.token, timeout=10, dedicated=True)


def test_a_copy_of_a_home_and_a_dropped_space(milvus_server: MilvusServer, tmp_path: Path) -> None:
    shelf, home = Shelf(), tmp_path / "home"
    first = filled(milvus_server, home / "vectors-1", shelf, 1)
    shutil.copytree(home, tmp_path / "copy")
    copy = opened(milvus_server, tmp_path / "copy" / "vectors-1", shelf, dim=4)
    with pytest.raises(HomeDamaged, match=r"copy.*check --repair"):
        copy.refresh()
    with pytest.raises(HomeDamaged, match="copy"):
        put(copy, shelf, 3)
    copy.clear()  # what `check --repair` does
    put(copy, shelf, 3)
    assert (copy.tickets(), first.tickets()) == ({3: 1}, {1: 1}), "two homes on one server"

    # A home that was moved is the same one; a second space of it has a collection of its own.
    first.close()
    home = home.rename(tmp_path / "moved")
    second = filled(milvus_server, home / "vectors-2", shelf, 2)
    assert opened(milvus_server, home / "vectors-1", shelf, dim=4).tickets() == {1: 1}
    client = collections(milvus_server)
    prefix = f"headwater_{own_name(home / 'vectors-1')[:8]}_"
    assert [f"{prefix}1", f"{prefix}2"] == sorted(n for n in client.list_collections(timeout=10) if prefix in n)
    # What happens to the folder of a space that is no longer wanted; whoever writes later finds that it is gone.
    shutil.rmtree(home / "vectors-1")
    second.close()
    second.refresh()
    put(second, shelf, 4)
    assert [n for n in client.list_collections(timeout=10) if prefix in n] == [f"{prefix}2"]
    assert copy.tickets() == {3: 1}

    wider = opened(milvus_server, home / "vectors-2", shelf, dim=8)
    for work in (wider.refresh, wider.tickets):
        with pytest.raises(HomeDamaged, match=r"4 dimensions, wanted 8.*check --repair"):
            work()
    # Somebody dropped it: to a reader it is empty, and a writer makes it anew.
    client.drop_collection(f"{prefix}2", timeout=10)
    assert second.tickets() == {} and second.search(random_rows(1, 4)[0], 5, ALL) == []
    put(second, shelf, 5)
    assert second.tickets() == {5: 1}
    client.close()
    (home / "vectors-2" / FILE_NAME).write_text("{", encoding="utf-8")
    with pytest.raises(HomeDamaged, match="check --repair"):
        opened(milvus_server, home / "vectors-2", shelf, dim=4).tickets()


def test_a_collection_of_somebody_else_is_left_alone(milvus_server: MilvusServer, tmp_path: Path) -> None:
    from pymilvus import DataType

    shelf = Shelf()
    own = own_name(tmp_path / "vectors-1")
    client = collections(milvus_server)
    name = collection_name("headwater", tmp_path / "vectors-1", own=own)
    client.create_collection(name, dimension=4, timeout=30)
    index = opened(milvus_server, tmp_path / "vectors-1", shelf, dim=4)
    row = np.array([1 << TICKET_BITS]), random_rows(1, 4)
    for work in (index.refresh, index.tickets, lambda: (index.add(*row), index.flush())):
        with pytest.raises(BackendError, match=r"somebody else.*`collection`"):
            work()
    index.clear()
    with pytest.raises(BackendError, match="somebody else"):
        index.flush()
    assert client.has_collection(name, timeout=10)
    client.drop_collection(name, timeout=10)

    # Whoever made it was killed before it had its graph.
    schema = client.create_schema(auto_id=False, description=f"headwater home {own}")
    for field, kind in (("id", DataType.INT64), ("ticket", DataType.INT64), ("embedding", DataType.FLOAT_VECTOR)):
        schema.add_field(field, kind, is_primary=field == "id", **({"dim": 4} if field == "embedding" else {}))
    client.create_collection(name, schema=schema, timeout=10)
    with pytest.raises(HomeDamaged, match="check --repair"):
        index.refresh()
    client.drop_collection(name, timeout=10)
    client.close()


# ------------------------------------------------------------------------------- a server that is not as it should be


def test_a_wrong_token_is_told_and_no_secret_with_it(milvus_server: MilvusServer, tmp_path: Path) -> None:
    inside = milvus_server.uri.replace("//", "//root:hush-hush@")
    for given in ({"token": "root:hush-hush"}, {"token": ""}, {"token": "", "uri": inside}):
        index = opened(milvus_server, tmp_path / "vectors-1", Shelf(), **given)
        with pytest.raises(BackendError, match=r"127\.0\.0\.1:\d+: connecting failed.*`token`") as told:
            index.refresh()
        assert "hush" not in str(told.value)
