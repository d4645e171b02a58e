"""A catalog in SQL against the one in dictionaries, under whatever may happen to them."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.filters import ALL, And, Compare, Contains, Filter, Has, In, Not, Or
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._catalog import SqlCatalog
from headwater.storage.memory_catalog import MemoryCatalog
from headwater.storage.selecting import replaced
from headwater.storage.sqlite import SqliteCatalog
from headwater.testing.versions import SPACE, made
from headwater.types import Blob, Change, Document, Labels, Version, attributes, text_hash

WORDS = ("red", "Red", "blue", "", "2025", "2025-01", "2025-01-15", "a > b", "Ünï", "河流", "１")
NUMBERS = (0, 1, 2, 3, 2025, -1, 0.5, 1.0, 2025.0, True, False)
DATES = ("", "2024-12-31T23:59:59+00:00", "2025-01-15", "2025-01", "2025-01-15T10:00:00+00:00")
KEYS = (
    *("owner", "collection", "uri", "title", "description", "tag", "folder", "content_type", "mime", "archived"),
    *("created", "updated", "date", "id", "section", "page", "kind", "lang", "size", "many", "missing", "tags"),
)
SINGLE = st.sampled_from((*WORDS, *NUMBERS, "table", "prose", "ann", "note", "u1"))
META = st.fixed_dictionaries(
    {},
    optional={
        "lang": st.sampled_from(WORDS),
        "size": st.sampled_from(NUMBERS),
        "many": st.lists(SINGLE, max_size=3).map(tuple),
        "date": st.sampled_from((*DATES, 2025, ("2024", "2025-01-01"))),
        "section": st.just("not the chunk's"),
        "title": st.just("not the document's"),
    },
)
LINES = st.sampled_from(("red", "# Methods", "# a > b", "| table", "`code`", "", "a longer line of words", "河流"))
TEXTS = st.lists(LINES, max_size=6).map("\n".join)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "title": st.sampled_from(WORDS),
        "tags": st.lists(st.sampled_from(WORDS), max_size=3).map(tuple),
        "folder": st.sampled_from(("", "f", "f/g")),
        "content_type": st.sampled_from(("text", "note")),
        "archived": st.booleans(),
        "created": st.sampled_from(DATES),
        "updated": st.sampled_from(DATES),
        "meta": META,
        "indexed_as": st.sampled_from(("", "head {}", "{} tail", "reworded")),
        "content_hash": st.sampled_from(("", "h")),
    }
)
LEAVES: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Compare, st.sampled_from(KEYS), st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), SINGLE),
    st.builds(Contains, st.sampled_from(KEYS), st.sampled_from(WORDS)),
    st.builds(In, st.sampled_from(KEYS), st.lists(SINGLE, max_size=3).map(tuple)),
    st.builds(Has, st.sampled_from(KEYS)),
    st.just(ALL),
)
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds(And, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(parts, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, parts),
    ),
    max_leaves=5,
)
CHANGES = st.builds(
    Change,
    uri=st.sampled_from(("u1", "u2", "u3", "河")),
    kind=st.sampled_from(("put", "put", "put", "delete")),
    owner=st.sampled_from(("local", "ann")),
    collection=st.sampled_from(("default", "c")),
    stamp=st.sampled_from(("", "1", "2")),
    labels=st.builds(Labels, title=st.sampled_from(WORDS), tags=st.sampled_from(((), ("red",))), meta=META),
    payload=st.none() | st.builds(Blob, uri=st.just("-"), data=st.binary(max_size=4), meta=META),
)


class Catalogs(RuleBasedStateMachine):
    """Every step is done to both; after every step both must say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = 0
        self.memory = MemoryCatalog(now=self.now)
        self.other = self.opened()
        self.drawn: list[Change] = []
        self.texts: set[str] = set()
        self.asked: list[Filter] = []

    def opened(self) -> SqlCatalog:
        # Two idle vectors at most, so that evicting them happens as well.
        return SqliteCatalog(self.folder / "catalog", now=self.now, idle_vectors=2)

    def now(self) -> str:
        return f"2025-01-01T00:00:{self.clock:02d}+00:00"

    @initialize()
    def open_spaces(self) -> None:
        assert self.memory.open_space(SPACE) == self.other.open_space(SPACE)

    @rule(changes=st.lists(CHANGES, max_size=4))
    def enqueue(self, changes: list[Change]) -> None:
        assert self.memory.enqueue(changes) == self.other.enqueue(changes)

    @rule(limit=st.integers(0, 4))
    def claim(self, limit: int) -> None:
        claimed = self.memory.claim(limit)
        assert claimed == self.other.claim(limit)
        self.drawn += claimed

    @rule(changes=st.lists(CHANGES, min_size=1, max_size=3))
    def draw(self, changes: list[Change]) -> None:
        drawn = self.memory.draw(changes)
        assert drawn == self.other.draw(changes)
        self.drawn += drawn

    @precondition(lambda self: self.drawn)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.clock = min(self.clock + 1, 59)
        versions = []
        for change in data.draw(st.lists(st.sampled_from(self.drawn), min_size=1, max_size=4)):
            outcome = data.draw(st.sampled_from(("made", "made", "made", "failed", "empty", "no vectors", "gone")))
            version = made(change, data.draw(TEXTS), **data.draw(FIELDS))
            if change.kind == "delete" or outcome == "gone":
                version = Version(change=change)
            elif outcome == "failed":
                version = Version(change=change, state="failed", error="cannot be read")
            elif outcome == "empty":
                told = data.draw(st.sampled_from((None, Document(uri=change.uri, text="", tags=("red",)))))
                version = Version(change=change, document=told, state="empty", error="no text")
            elif outcome == "no vectors":
                version = replace(version, vectors=None, state="indexed")
            versions.append(version)
            self.texts.update(chunk.searchable_text for chunk in version.chunks)
        self.memory.commit(versions)
        self.other.commit(versions)

    @precondition(lambda self: self.drawn)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        some = data.draw(st.lists(st.sampled_from(self.drawn), max_size=3))
        self.memory.close(some)
        self.other.close(some)

    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        dead = self.memory.dead()
        some = data.draw(st.lists(st.sampled_from(dead), max_size=3)) if dead else []
        self.memory.buried(some)
        self.other.buried(some)

    @rule(chunker=st.sampled_from(("lines", "pages", "whole")), embedder=st.sampled_from(("sums", "else")))
    def open_shadow(self, chunker: str, embedder: str) -> None:
        wanted = replace(SPACE, chunker=chunker, embedder=embedder)
        active = self.memory.space()
        if active is not None and (active.chunker, active.embedder) != (chunker, embedder):
            assert self.memory.open_shadow(wanted) == self.other.open_shadow(wanted)
            self.other.clear_away()

    @precondition(lambda self: len(self.memory.spaces()) > 1)
    @rule(data=st.data(), whole=st.booleans())
    def fill(self, data: st.DataObject, whole: bool) -> None:
        space = data.draw(st.sampled_from([space for space in self.memory.spaces() if space.state != "active"]))
        behind = self.memory.behind(space)
        assert sorted(behind) == sorted(self.other.behind(space))
        some = behind if whole or not behind else data.draw(st.lists(st.sampled_from(behind), unique=True))
        if not some:
            return
        first = self.memory.reserve(len(some))
        assert first == self.other.reserve(len(some))
        versions = {}
        for place, (id, ticket) in enumerate(some):
            record = self.memory.record(id)
            document = self.memory.document(id)
            assert record is not None and document is not None
            change = Change(uri=record.uri, kind="put", owner=record.owner, collection=record.collection)
            versions[ticket] = made(replace(change, ticket=first + place), document.text)
            self.texts.update(chunk.searchable_text for chunk in versions[ticket].chunks)
        self.memory.fill(space, versions)
        self.other.fill(space, versions)

    @precondition(lambda self: len(self.memory.spaces()) > 1)
    @rule(data=st.data(), what=st.sampled_from(("switch", "switch", "switch", "unfill", "drop")))
    def with_a_space(self, data: st.DataObject, what: str) -> None:
        space = data.draw(st.sampled_from([space for space in self.memory.spaces() if space.state != "active"]))
        if what == "switch":
            assert self.memory.switch(space) == self.other.switch(space)
        elif what == "unfill":
            tickets = list(self.memory.tickets(space))[:2]
            self.memory.unfill(space, tickets)
            self.other.unfill(space, tickets)
        else:
            self.memory.drop_space(space)
            self.other.drop_space(space)
        self.other.clear_away()

    @rule()
    def reopen(self) -> None:
        self.other.close_store()
        self.other = self.opened()

    @rule()
    def repair(self) -> None:
        before = self.other.generation()
        self.other.repair()
        self.memory._generation += self.other.generation() - before

    @rule(where=FILTERS)
    def ask(self, where: Filter) -> None:
        self.asked = [*self.asked[-4:], where]

    @invariant()
    def same_answers_to_filters(self) -> None:
        live = sorted(
            id for t, n in self.memory.tickets().items() for id in range(t << TICKET_BITS, (t << TICKET_BITS) + n)
        )
        for where in self.asked:
            expected = self.memory.select(where).contains(live).tolist()
            assert self.other.select(where).contains(live).tolist() == expected, where
            assert self.other.records(where) == self.memory.records(where), where
            assert self.other.records(where, limit=2, offset=1) == self.memory.records(where, limit=2, offset=1)

    @invariant()
    def same_contents(self) -> None:
        memory, other = self.memory, self.other
        assert other.statistics() == memory.statistics()
        assert other.spaces() == memory.spaces()
        for space in memory.spaces():
            assert other.tickets(space) == memory.tickets(space)
        assert (other.dead(), other.tickets(), other.pending()) == (
            memory.dead(),
            memory.tickets(),
            memory.pending(),
        )
        records = memory.records(ALL)
        assert other.records(ALL) == records
        for record in records:
            assert other.document(record.id) == memory.document(record.id)
            assert other.chunks_of(record.id) == memory.chunks_of(record.id)
            light = other.stamps(record.owner, record.collection)[record.uri]
            for name in ("id", "uri", "state", "error", "chunks", "stamp", "content_hash", "ticket"):
                assert getattr(light, name) == getattr(record, name)
        ids = [(change.ticket << TICKET_BITS) + n for change in self.drawn for n in range(7)]
        assert other.locate(ids) == memory.locate(ids)
        assert other.owners(ids) == memory.owners(ids) == other.owners(ids, generation=other.generation())
        assert other.chunks(ids) == memory.chunks(ids)
        found, expected = other.vectors(ids), memory.vectors(ids)
        rows = dict(zip(expected[0].tolist(), expected[1], strict=True))
        assert sorted(found[0].tolist()) == sorted(rows)
        for id, row in zip(found[0].tolist(), found[1], strict=True):
            assert np.array_equal(row, rows[id])

    @invariant()
    def the_cache_knows_at_least_what_is_alive(self) -> None:
        hashes = [text_hash(text) for text in self.texts]
        count = 0
        for embedder in ("sums", "else"):
            space = replace(SPACE, embedder=embedder)
            known, remembered = self.other.known_vectors(hashes, space), self.memory.known_vectors(hashes, space)
            assert all(np.array_equal(row, remembered[key]) for key, row in known.items())
            count += len(known)
        assert self.other.statistics()["vectors"] <= count <= self.other.statistics()["vectors"] + 2

    @invariant()
    def nothing_is_wrong_inside(self) -> None:
        assert self.other.check() == []

    def teardown(self) -> None:
        self.other.close_store()
        shutil.rmtree(self.folder)


TestCatalogs = Catalogs.TestCase
TestCatalogs.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=25)


@settings(max_examples=12)
@given(data=st.data())
def test_select_allows_exactly_what_matches(data: st.DataObject) -> None:
    folder = Path(tempfile.mkdtemp())
    catalog = SqliteCatalog(folder / "catalog")
    catalog.open_space(SPACE)
    uris = [f"u{n}" for n in range(12)]
    drawn = catalog.draw([Change(uri=uri, kind="put") for uri in uris])
    catalog.commit([made(change, data.draw(TEXTS), **data.draw(FIELDS)) for change in drawn])
    pairs = [(chunk, record) for record in catalog.records(ALL) for chunk in catalog.chunks_of(record.id)]
    ids = [chunk.id for chunk, _ in pairs]
    for where in data.draw(st.lists(FILTERS, min_size=25, max_size=25)):
        expected = [where.matches(attributes(record, chunk)) for chunk, record in pairs]
        assert catalog.select(where).contains(ids).tolist() == expected, where
    catalog.close_store()
    shutil.rmtree(folder)


@given(
    old=st.lists(st.integers(0, 20), max_size=8),
    fresh=st.sets(st.integers(0, 24), min_size=1, max_size=6),
    data=st.data(),
)
def test_appending_to_an_answer_is_the_same_as_computing_it(
    old: list[int], fresh: set[int], data: st.DataObject
) -> None:
    tickets = np.array(sorted(fresh), dtype=np.int64)
    yes = sorted(data.draw(st.sets(st.sampled_from(sorted(fresh)))))
    alive = data.draw(st.sets(st.integers(0, 20)))
    for known in (Selection.of_tickets(old), ~Selection.of_tickets(old)):
        found = replaced(known, tickets, Selection.of_tickets(yes), top=max(alive, default=0))
        expected = (known & ~Selection.of_tickets(tickets)) | Selection.of_tickets(yes)
        asked = [ticket << TICKET_BITS for ticket in sorted(alive | fresh)]
        assert found.contains(asked).tolist() == expected.contains(asked).tolist()
        assert (found.starts[1:] > found.stops[:-1]).all() and (found.starts < found.stops).all()
