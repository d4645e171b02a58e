"""What every catalog must do when a home is moved to another embedder or chunker: part of the catalog's contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headwater.errors import UsageError
from headwater.filters import parse
from headwater.protocols import Catalog
from headwater.selection import TICKET_BITS
from headwater.testing.versions import DIM, SPACE, made, named, put
from headwater.types import Change, Space, Version, text_hash

OTHER = replace(SPACE, chunker="whole", embedder="else", settings='{"chunk": {}}')


def whole(change: Change, text: str, *, dim: int = DIM) -> Version:
    """What the other space makes of a text: one chunk, and a vector of its own."""
    version = made(change, text.replace("\n", " "))
    row = np.zeros((len(version.chunks), dim), dtype=np.float32)
    row[:, 0] = 1.0
    return replace(version, vectors=row if version.chunks else None)


def filled(catalog: Catalog, space: Space) -> None:
    """Bring a space up to the documents there are."""
    behind = catalog.behind(space)
    first = catalog.reserve(len(behind))
    versions = {}
    for ticket, (id, live) in enumerate(behind, start=first):
        document = catalog.document(id)
        assert document is not None
        change = put(document.uri, owner=document.owner, collection=document.collection, ticket=ticket)
        versions[live] = whole(change, document.text, dim=space.dim)
    catalog.fill(space, versions)


class CatalogSpacesContract:
    """Spaces beside the active one. Mixed into CatalogContract."""

    add: Any
    remove: Any

    def test_a_shadow_is_opened_once_and_its_number_is_never_used_again(self, catalog: Catalog) -> None:
        active = catalog.space()
        assert active is not None
        with pytest.raises(UsageError, match="nothing to reindex"):
            catalog.open_shadow(SPACE)
        shadow = catalog.open_shadow(OTHER)
        assert (shadow.state, shadow.settings) == ("shadow", OTHER.settings) and shadow.id > active.id
        assert catalog.open_shadow(OTHER) == shadow and catalog.spaces() == [active, shadow]
        another = catalog.open_shadow(replace(OTHER, chunker="third"))
        assert another.id > shadow.id and catalog.spaces() == [active, another]
        catalog.drop_space(another)
        catalog.drop_space(active)
        assert catalog.spaces() == [active] and catalog.open_shadow(OTHER).id > another.id

    def test_nothing_of_a_shadow_is_seen_before_the_switch(self, catalog: Catalog) -> None:
        first = self.add(catalog, "u", "one\ntwo", tags=("red",))
        self.add(catalog, "v", "three")
        before = (catalog.statistics(), catalog.generation(), catalog.tickets(), catalog.records(parse("tag = red")))
        chunks = catalog.chunks_of(named(first))
        shadow = catalog.open_shadow(OTHER)
        assert [id for id, _ in catalog.behind(shadow)] == [named(first), named(put("v"))]
        filled(catalog, shadow)
        assert catalog.behind(shadow) == [] and len(catalog.tickets(shadow)) == 2
        after = (catalog.statistics(), catalog.generation(), catalog.tickets(), catalog.records(parse("tag = red")))
        assert {**before[0], "vectors": 0, "last_ticket": 0} == {**after[0], "vectors": 0, "last_ticket": 0}
        assert before[1:] == after[1:] and catalog.chunks_of(named(first)) == chunks
        assert [r.uri for r in catalog.records(parse("not tag = red"))] == ["v"]
        assert catalog.check() == []

    def test_the_switch_turns_everything_at_once_and_back_again(self, catalog: Catalog) -> None:
        change = self.add(catalog, "u", "one\ntwo", tags=("red",), title="T", content_hash="h")
        empty = catalog.draw([put("e")])[0]
        catalog.commit([Version(change=empty, document=made(empty, "").document, state="empty", error="no text")])
        shadow = catalog.open_shadow(OTHER)
        assert not catalog.switch(shadow) and catalog.space() != shadow
        filled(catalog, shadow)
        generation, old = catalog.generation(), catalog.record(named(change))
        where = [parse(text) for text in ("tag = red", 'title = "T"', "page = 1", "not tag = blue")]
        selected = [catalog.select(one) for one in where]
        assert all(s.contains([change.ticket << TICKET_BITS])[0] for s in selected)
        assert catalog.switch(shadow) and catalog.generation() > generation
        active = catalog.space()
        assert active == replace(shadow, state="active") and [s.state for s in catalog.spaces()] == [
            "retired",
            "active",
        ]
        now = catalog.record(named(change))
        assert old is not None and now == replace(old, ticket=now.ticket if now else 0, chunks=1) and now != old
        [chunk] = catalog.chunks_of(named(change))
        assert chunk.text == "one two" and catalog.tickets() == {now.ticket: 1}
        assert all(catalog.select(one).contains([chunk.id])[0] for one in where)
        ids, rows = catalog.vectors([chunk.id])
        assert ids.tolist() == [chunk.id] and rows[0, 0] == 1.0
        assert catalog.statistics()["chunks"] == 1 and catalog.dead() == [] and catalog.check() == []
        retired = catalog.spaces()[0]
        assert catalog.open_shadow(SPACE) == retired and catalog.switch(retired)
        assert catalog.record(named(change)) == old and catalog.space() == replace(retired, state="active")
        assert [catalog.select(one).contains([change.ticket << TICKET_BITS])[0] for one in where] == [True] * 4

    def test_a_change_of_a_document_takes_away_what_stands_beside_it(self, catalog: Catalog) -> None:
        for uri in ("kept", "changed", "gone"):
            self.add(catalog, uri, f"text of {uri}")
        shadow = catalog.open_shadow(OTHER)
        filled(catalog, shadow)
        beside = catalog.tickets(shadow)
        new = self.add(catalog, "changed", "new text")
        self.remove(catalog, "gone")
        assert catalog.behind(shadow) == [(named(new), new.ticket)]
        assert len(catalog.tickets(shadow)) == 1 and set(beside) - set(catalog.tickets(shadow)) <= set(catalog.dead())
        assert not catalog.switch(shadow)
        filled(catalog, shadow)
        assert catalog.switch(shadow) and [c.text for c in catalog.chunks_of(named(new))] == ["new text"]
        assert catalog.check() == [] and catalog.record(named(put("gone"))) is None

    def test_what_was_made_of_an_older_version_is_left_out(self, catalog: Catalog) -> None:
        old = self.add(catalog, "u", "old")
        shadow = catalog.open_shadow(OTHER)
        late = whole(replace(put("u"), ticket=catalog.reserve(1)), "old")
        new = self.add(catalog, "u", "new")
        catalog.fill(shadow, {old.ticket: late})
        assert catalog.tickets(shadow) == {} and catalog.behind(shadow) == [(named(new), new.ticket)]
        filled(catalog, shadow)
        there = catalog.tickets(shadow)
        filled_twice = whole(replace(put("u"), ticket=catalog.reserve(1)), "twice")
        catalog.fill(shadow, {new.ticket: filled_twice})
        assert catalog.tickets(shadow) == there
        catalog.unfill(shadow, list(there))
        assert catalog.tickets(shadow) == {} and catalog.behind(shadow) == [(named(new), new.ticket)]

    def test_a_removal_drawn_before_the_switch_and_committed_after_it_counts(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "text")
        [removal] = catalog.draw([Change(uri="u", kind="delete")])
        shadow = catalog.open_shadow(OTHER)
        filled(catalog, shadow)
        assert catalog.switch(shadow)
        catalog.commit([Version(change=removal)])
        assert catalog.record(named(removal)) is None and catalog.check() == []

    def test_an_open_change_stays_open_through_a_switch(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "text")
        catalog.enqueue([put("u", stamp="2")])
        shadow = catalog.open_shadow(OTHER)
        filled(catalog, shadow)
        assert catalog.switch(shadow) and catalog.pending() == 1
        [claimed] = catalog.claim(1)
        catalog.commit([made(claimed, "newer")])
        assert [c.text for c in catalog.chunks_of(named(claimed))] == ["newer"] and catalog.pending() == 0

    def test_spaces_of_one_embedder_share_vectors(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "one")
        same = catalog.open_shadow(replace(SPACE, chunker="whole"))
        assert set(catalog.known_vectors([text_hash("one")], same)) == {text_hash("one")}
        assert catalog.known_vectors([text_hash("one")], replace(same, embedder="else")) == {}
        shadow = catalog.open_shadow(OTHER)
        filled(catalog, shadow)
        assert catalog.known_vectors([text_hash("one")], shadow)[text_hash("one")][0] == 1.0
        catalog.drop_space(shadow)
        catalog.clear_away()
        again = catalog.open_shadow(OTHER)
        assert set(catalog.known_vectors([text_hash("one")], again)) == {text_hash("one")}, "a second time is free"
        assert catalog.check() == []

    def test_a_third_space_replaces_the_retired_one(self, catalog: Catalog) -> None:
        change = self.add(catalog, "u", "one\ntwo")
        for dim in (DIM + 1, DIM + 2):
            shadow = catalog.open_shadow(replace(OTHER, dim=dim))
            filled(catalog, shadow)
            assert catalog.switch(shadow)
            catalog.clear_away()
        assert [space.dim for space in catalog.spaces()] == [DIM + 1, DIM + 2] and catalog.check() == []
        [chunk] = catalog.chunks_of(named(change))
        assert catalog.vectors([chunk.id])[1].shape == (1, DIM + 2)
