"""What every catalog must do, as a test suite: subclass it, say how your catalog is opened, run pytest.

class TestMyCatalog(PersistentCatalogContract):
    def open_catalog(self, path):
        return MyCatalog(path)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.errors import SpaceMismatch, UsageError
from headwater.filters import ALL, parse
from headwater.protocols import Catalog
from headwater.selection import TICKET_BITS
from headwater.testing.catalog_reading import CatalogReadingContract
from headwater.testing.catalog_spaces import OTHER, CatalogSpacesContract, filled
from headwater.testing.versions import DIM, SPACE, cut, embedded, made, named, put
from headwater.types import (
    Blob,
    Block,
    Box,
    Chunk,
    Document,
    Labels,
    Link,
    Section,
    Span,
    Version,
)


class CatalogContract(CatalogReadingContract, CatalogSpacesContract):
    """For a Catalog."""

    # ------------------------------------------------------------------------------------------ spaces

    def test_a_new_home_has_no_space_and_takes_the_first(self, tmp_path: Path) -> None:
        catalog = self.open_catalog(tmp_path / "catalog")
        assert catalog.space() is None
        first = catalog.open_space(SPACE)
        assert first.id > 0 and catalog.space() == first == catalog.open_space(SPACE)
        catalog.close_store()

    @pytest.mark.parametrize("other", [{"embedder": "else"}, {"dim": 9}, {"chunker": "else"}])
    def test_another_space_is_refused_with_the_remedy(self, catalog: Catalog, other: dict[str, Any]) -> None:
        with pytest.raises(SpaceMismatch, match="reindex"):
            catalog.open_space(replace(SPACE, **other))

    # ------------------------------------------------------------------------------------------- queue

    def test_changes_are_claimed_oldest_first_under_fresh_growing_tickets(self, catalog: Catalog) -> None:
        assert catalog.enqueue([put("c"), put("a")]) == 2
        assert catalog.enqueue([put("b")]) == 1
        assert catalog.pending() == 3
        claimed = catalog.claim(2)
        assert [c.uri for c in claimed] == ["c", "a"]
        drawn = catalog.draw([put("z")])
        tickets = [c.ticket for c in (*claimed, *drawn)]
        assert tickets == sorted(set(tickets)) and tickets[0] > 0
        assert catalog.last_ticket() == tickets[-1]
        assert catalog.pending() == 3, "claimed is not closed"

    def test_a_change_comes_back_as_it_went_in(self, catalog: Catalog) -> None:
        blob = Blob(uri="-", data=b"\x00\xff", mime="text/plain", modified="2025-01-01", meta={"k": ("a", 1)})
        labels = Labels(
            title="T",
            tags=("x", "标"),
            folder="f",
            content_type="note",
            description="d",
            archived=True,
            meta={"n": 1, "many": (1.5, True)},
        )
        change = put("u", owner="ann", collection="c", labels=labels, stamp="s", payload=blob)
        catalog.enqueue([change])
        [claimed] = catalog.claim(1)
        assert claimed == replace(change, ticket=claimed.ticket, attempts=1)
        [again] = catalog.claim(1)
        assert again.attempts == 2

    def test_the_latest_change_of_a_document_replaces_the_open_one_in_its_place(self, catalog: Catalog) -> None:
        catalog.enqueue([put("a", stamp="1"), put("b")])
        assert catalog.enqueue([put("a", stamp="2"), put("a", stamp="3"), put("a", owner="ann")]) == 2
        claimed = catalog.claim(10)
        assert [(c.uri, c.owner, c.stamp) for c in claimed] == [
            ("a", "local", "3"),
            ("b", "local", ""),
            ("a", "ann", ""),
        ]

    def test_a_claim_kills_what_an_earlier_claim_left_behind(self, catalog: Catalog) -> None:
        catalog.enqueue([put("a")])
        [first] = catalog.claim(1)
        assert catalog.dead() == []
        [second] = catalog.claim(1)
        assert catalog.dead() == [first.ticket]
        catalog.buried([first.ticket])
        catalog.commit([made(first, "too late")])
        assert catalog.record(named(first)) is None, "a swept ticket never comes alive"
        assert catalog.dead() == [first.ticket]
        catalog.commit([made(second, "in time")])
        assert catalog.tickets() == {second.ticket: 1}

    def test_a_claim_is_remembered_through_every_change_that_replaces_it(self, catalog: Catalog) -> None:
        catalog.enqueue([put("a")])
        [first] = catalog.claim(1)
        catalog.enqueue([put("a", stamp="2")])
        catalog.enqueue([put("a", stamp="3")])
        [last] = catalog.claim(1)
        assert last.stamp == "3" and catalog.dead() == [first.ticket]

    def test_a_replaced_claim_does_not_close_the_newer_change(self, catalog: Catalog) -> None:
        catalog.enqueue([put("a", stamp="old")])
        [old] = catalog.claim(1)
        catalog.enqueue([put("a", stamp="new")])
        catalog.commit([made(old, "old")])
        assert catalog.pending() == 1
        [new] = catalog.claim(1)
        assert new.stamp == "new" and new.attempts == 1
        assert catalog.dead() == [], "the earlier claim was committed: it is alive"
        catalog.close([old])
        assert catalog.pending() == 1
        catalog.commit([made(new, "new")])
        assert catalog.pending() == 0 and catalog.dead() == [old.ticket]

    def test_closing_records_the_stamp_and_ends_a_failure(self, catalog: Catalog) -> None:
        self.add(catalog, "a", "text", stamp="1")
        catalog.enqueue([put("a", stamp="2")])
        [change] = catalog.claim(1)
        catalog.commit([Version(change=change, state="failed", error="no")])
        catalog.enqueue([put("a", stamp="3")])
        [change] = catalog.claim(1)
        catalog.close([change])
        record = catalog.record(named(change))
        assert record is not None and (record.stamp, record.state, record.error) == ("3", "completed", "")
        assert catalog.pending() == 0

    # ---------------------------------------------------------------------------------------- versions

    def test_a_document_comes_back_with_everything(self, catalog: Catalog) -> None:
        text = "# 标题\nfirst line\n| a | b |\n" + "x" * 100
        fields: dict[str, Any] = {
            "title": "A title",
            "description": "what it is",
            "tags": ("red", "蓝"),
            "folder": "notes/2025",
            "content_type": "note",
            "mime": "text/markdown",
            "archived": True,
            "structure": (Section(title="标题", level=1, path="标题", span=Span(0, 20)),),
            "blocks": (
                Block(kind="table", span=Span(16, 25), header="甲 | b", rows=(16, 20)),
                Block(kind="caption", span=Span(5, 8), about=Span(16, 25)),
                Block(kind="code", span=Span(26, 30)),
            ),
            "boxes": (Box(0, 4, 1, 100, 200, 9_000, 400), Box(5, 15, 1, 100, 500, 3, 700), Box(16, 25, 2, 0, 0, 1, 1)),
            "hidden": (Span(1, 2),),
            "links": (Link(kind="wikilink", target="other", span=Span(5, 8)),),
            "page_starts": (0, 16),
            "created": "2024-01-01T00:00:00+00:00",
            "updated": "2025-01-01T00:00:00+00:00",
            "problems": ("a table was cut",),
            "coverage": {"pages": 2, "language": "zh", "score": 0.5, "whole": True},
            "meta": {"lang": "zh", "size": 3, "ratio": 0.5, "good": True, "many": ("a", 2)},
        }
        change = self.add(
            catalog,
            "u",
            text,
            owner="ann",
            collection="c",
            stamp="s",
            content_hash="h",
            indexed_as="A title\n{}",
            **fields,
        )
        id = named(change)
        expected = Document(uri="u", text=text, owner="ann", collection="c", id=id, **fields)
        assert catalog.document(id) == expected
        record = catalog.record(id)
        assert record is not None
        assert (record.ticket, record.chunks, record.chars, record.state) == (change.ticket, 4, len(text), "completed")
        assert (record.stamp, record.content_hash, record.error) == ("s", "h", "")
        for name, value in {"owner": "ann", "collection": "c", "uri": "u", **fields}.items():
            if name not in ("structure", "blocks", "boxes", "hidden", "links", "page_starts"):
                assert getattr(record, name) == value
        chunks = [replace(chunk, document_id=id) for chunk in cut(text, change.ticket, indexed_as="A title\n{}")]
        assert catalog.chunks_of(id) == chunks
        assert catalog.chunks([chunk.id for chunk in chunks]) == {chunk.id: (chunk, record) for chunk in chunks}
        assert catalog.locate([c.id for c in chunks]) == {c.id: (id, *c.span) for c in chunks}
        assert catalog.owners([c.id for c in chunks]) == {c.id: id for c in chunks}

    def test_dates_that_nobody_told_are_given(self, catalog: Catalog) -> None:
        first = catalog.record(named(self.add(catalog, "u", "one")))
        second = catalog.record(named(self.add(catalog, "u", "two")))
        assert first is not None and second is not None
        assert first.created and first.updated and second.created == first.created

    def test_what_does_not_exist_is_none_or_absent(self, catalog: Catalog) -> None:
        change = self.add(catalog, "u", "text")
        assert catalog.document("no") is None and catalog.record("no") is None and catalog.chunks_of("no") == []
        strangers = [0, 7, (change.ticket << TICKET_BITS) + 1, (change.ticket + 1) << TICKET_BITS, 1 << 62]
        assert catalog.locate(strangers) == {} == catalog.owners(strangers) and catalog.chunks(strangers) == {}
        ids, matrix = catalog.vectors(strangers)
        assert len(ids) == 0 and matrix.shape == (0, DIM)
        assert catalog.locate([]) == {} == catalog.owners([]) and catalog.known_vectors([]) == {}

    def test_a_new_version_replaces_the_old_one_at_once(self, catalog: Catalog) -> None:
        old = self.add(catalog, "u", "one\ntwo", tags=("old",))
        before, ids = catalog.generation(), [old.ticket << TICKET_BITS]
        assert catalog.owners(ids, generation=before) == dict.fromkeys(ids, named(old))
        new = self.add(catalog, "u", "three", tags=("new",))
        assert catalog.generation() > before
        assert catalog.owners(ids, generation=catalog.generation()) == {}
        assert catalog.locate([old.ticket << TICKET_BITS]) == {} == catalog.owners([old.ticket << TICKET_BITS])
        assert catalog.tickets() == {new.ticket: 1} and catalog.dead() == [old.ticket]
        document = catalog.document(named(new))
        assert document is not None and (document.text, document.tags) == ("three", ("new",))
        catalog.buried(catalog.dead())
        assert catalog.dead() == []

    def test_the_higher_ticket_wins_whoever_comes_first(self, catalog: Catalog) -> None:
        early, late = catalog.draw([put("u"), put("u")])
        catalog.commit([made(late, "late")])
        catalog.commit([made(early, "early")])
        document = catalog.document(named(late))
        assert document is not None and document.text == "late" and catalog.dead() == [early.ticket]
        both = catalog.draw([put("v"), put("v")])
        catalog.commit([made(both[1], "late"), made(both[0], "early")])
        assert catalog.tickets() == {late.ticket: 1, both[1].ticket: 1}
        assert catalog.dead() == [early.ticket, both[0].ticket]

    def test_nothing_is_seen_before_what_a_commit_waits_for(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "before")
        [change] = catalog.draw([put("u")])
        seen = []

        def stored() -> str:
            document = catalog.document(named(change))
            return document.text if document is not None else ""

        def until() -> None:
            seen.append((stored(), catalog.generation(), dict(catalog.tickets())))

        before = catalog.generation(), dict(catalog.tickets())
        catalog.commit([made(change, "after")], until=until)
        assert seen == [("before", *before)], "it is asked once"
        assert stored() == "after" and catalog.tickets() == {change.ticket: 1}

    def test_a_commit_that_waits_in_vain_is_taken_back(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "before")
        catalog.enqueue([put("u")])
        [change] = catalog.claim(1)
        before = catalog.generation(), dict(catalog.tickets())

        def until() -> None:
            raise OSError("not durable")

        with pytest.raises(OSError, match="not durable"):
            catalog.commit([made(change, "after")], until=until)
        assert catalog.pending() == 1
        assert (catalog.generation(), dict(catalog.tickets())) == before
        catalog.commit([made(change, "after")])
        assert catalog.pending() == 0 and catalog.tickets() == {change.ticket: 1}

    def test_committing_again_changes_nothing(self, catalog: Catalog) -> None:
        [change] = catalog.draw([put("u")])
        catalog.commit([made(change, "text")])
        catalog.commit([made(change, "text")])
        assert catalog.tickets() == {change.ticket: 1} and catalog.dead() == []

    def test_a_deleted_document_is_gone_and_no_late_put_brings_it_back(self, catalog: Catalog) -> None:
        old = self.add(catalog, "u", "text")
        [late] = catalog.draw([put("u")])
        self.remove(catalog, "u")
        assert catalog.record(named(old)) is None and catalog.document(named(old)) is None
        assert catalog.dead() == [old.ticket] and catalog.records(ALL) == []
        catalog.commit([made(late, "late")])
        assert catalog.records(ALL) == [] and catalog.dead() == [old.ticket, late.ticket]
        self.remove(catalog, "never there")
        new = self.add(catalog, "u", "again")
        assert catalog.tickets() == {new.ticket: 1}

    def test_a_failure_keeps_what_is_there_and_says_why(self, catalog: Catalog) -> None:
        old = self.add(catalog, "u", "text", stamp="1", content_hash="h")
        [change] = catalog.draw([put("u", stamp="2")])
        catalog.commit([Version(change=change, state="failed", error="cannot be read", content_hash="x")])
        record = catalog.record(named(old))
        assert record is not None and (record.state, record.error) == ("failed", "cannot be read")
        assert (record.stamp, record.content_hash, record.ticket) == ("1", "h", old.ticket)
        assert catalog.tickets() == {old.ticket: 1} and catalog.dead() == [change.ticket]
        self.add(catalog, "u", "mended")
        record = catalog.record(named(old))
        assert record is not None and (record.state, record.error) == ("completed", "")

    def test_a_document_that_never_worked_is_listed_with_the_reason(self, catalog: Catalog) -> None:
        [change] = catalog.draw([put("u", stamp="1", labels=Labels(tags=("x",)))])
        catalog.commit([Version(change=change, state="failed", error="cannot be read")])
        [record] = catalog.records(parse("tag = x"))
        assert (record.state, record.error, record.ticket, record.stamp) == ("failed", "cannot be read", 0, "")
        assert catalog.tickets() == {} and catalog.statistics()["failed"] == 1
        document = catalog.document(record.id)
        assert document is not None and document.text == ""

    def test_an_empty_document_replaces_the_text_it_had(self, catalog: Catalog) -> None:
        old = self.add(catalog, "u", "text")
        [change] = catalog.draw([put("u", stamp="2")])
        empty = Document(uri="u", text="")
        catalog.commit([Version(change=change, document=empty, state="empty", error="no text", content_hash="h")])
        record = catalog.record(named(old))
        assert record is not None and (record.state, record.stamp, record.content_hash) == ("empty", "2", "h")
        assert record.ticket == change.ticket and catalog.tickets() == {} and catalog.dead() == [old.ticket]
        assert catalog.statistics()["empty"] == 1

    def test_identity_is_owner_collection_and_uri(self, catalog: Catalog) -> None:
        for owner, collection in (("ann", "c"), ("bob", "c"), ("ann", "d")):
            self.add(catalog, "u", f"{owner} {collection}", owner=owner, collection=collection)
        records = catalog.records(ALL)
        assert [(r.collection, r.owner) for r in records] == [("c", "ann"), ("c", "bob"), ("d", "ann")]
        assert len({record.id for record in records}) == 3 and catalog.statistics()["collections"] == 3
        assert list(catalog.stamps("ann", "c")) == ["u"] and catalog.stamps("bob", "d") == {}

    def test_wrong_versions_are_refused_and_leave_nothing(self, catalog: Catalog) -> None:
        good, change = catalog.draw([put("good"), put("u")])
        version = made(change, "text")
        wrong = [
            replace(version, change=replace(change, ticket=0)),
            replace(version, document=replace(version.document, text="tent")),  # type: ignore[type-var]
            replace(version, chunks=tuple(replace(c, id=c.id + 1) for c in version.chunks)),
            replace(version, vectors=embedded(["text", "more"])),
            replace(version, vectors=np.ones((1, DIM + 1), dtype=np.float32)),
            replace(version, vectors=np.full((1, DIM), np.nan, dtype=np.float32)),
            replace(version, document=None),
        ]
        before = catalog.generation()
        for one in wrong:
            with pytest.raises(UsageError):
                catalog.commit([made(good, "fine"), one])
        assert catalog.records(ALL) == [] and catalog.generation() == before

    def test_parents_are_read_by_id_and_counted_nowhere(self, catalog: Catalog) -> None:
        [change] = catalog.draw([put("u")])
        version = made(change, "one\ntwo")
        first = change.ticket << TICKET_BITS
        parent = Chunk(id=first + 2, span=Span(0, 7), text="one\ntwo")
        children = tuple(replace(chunk, parent=parent.id) for chunk in version.chunks)
        catalog.commit([replace(version, chunks=(*children, parent))])
        assert catalog.tickets() == {change.ticket: 2}
        assert [chunk.text for chunk in catalog.chunks_of(named(change))] == ["one", "two"]
        assert catalog.chunks([parent.id])[parent.id][0].text == "one\ntwo"
        assert sorted(catalog.vectors([first, first + 1, first + 2])[0].tolist()) == [first, first + 1]

    def test_odd_text_survives(self, catalog: Catalog) -> None:
        odd = "a\0b \ud800 half, 😀 and \U0010ffff"
        fields: dict[str, Any] = {"title": odd, "tags": (odd,), "meta": {"k": odd}}
        change = self.add(catalog, f"file:///{odd}", odd, owner=odd, **fields)
        document = catalog.document(named(change))
        assert document is not None
        assert (document.uri, document.text, document.owner) == (f"file:///{odd}", odd, odd)
        assert (document.title, document.tags, document.meta) == (odd, (odd,), {"k": odd})
        assert list(catalog.stamps(odd, "default")) == [f"file:///{odd}"]

    def test_a_passage_of_a_huge_document_is_the_right_one(self, catalog: Catalog) -> None:
        text = "\n".join(f"{n:06d} 水文 " + "词" * 120 for n in range(2_000))
        change = self.add(catalog, "u", text)
        first = change.ticket << TICKET_BITS
        wanted = [first + n for n in range(0, 2_000, 37)]
        found = catalog.chunks(wanted)
        assert [found[id][0].text for id in wanted] == [text[slice(*found[id][0].span)] for id in wanted]
        document = catalog.document(named(change))
        assert document is not None and document.text == text


class PersistentCatalogContract(CatalogContract):
    """For a Catalog whose contents outlive the object."""

    def test_what_is_committed_outlives_the_object(self, tmp_path: Path) -> None:
        catalog = self.open_catalog(tmp_path / "catalog")
        catalog.open_space(SPACE)
        old = self.add(catalog, "u", "old")
        new = self.add(catalog, "u", "new", tags=("t",))
        catalog.enqueue([put("v", stamp="s")])
        seen = (catalog.statistics(), catalog.records(ALL), catalog.dead())
        catalog.close_store()
        again = self.open_catalog(tmp_path / "catalog")
        assert (again.statistics(), again.records(ALL), again.dead()) == seen
        assert again.dead() == [old.ticket] and again.select(parse("tag = t")).contains([new.ticket << TICKET_BITS])[0]
        assert again.claim(1)[0].ticket > new.ticket
        again.close_store()

    def test_a_shadow_outlives_the_object_and_is_gone_on_with(self, tmp_path: Path) -> None:
        catalog = self.open_catalog(tmp_path / "catalog")
        catalog.open_space(SPACE)
        self.add(catalog, "u", "text")
        shadow = catalog.open_shadow(OTHER)
        filled(catalog, shadow)
        seen = (catalog.spaces(), catalog.tickets(shadow))
        catalog.close_store()
        again = self.open_catalog(tmp_path / "catalog")
        assert (again.spaces(), again.tickets(shadow)) == seen
        assert again.open_shadow(OTHER) == shadow and again.behind(shadow) == [] and again.switch(shadow)
        again.close_store()
