"""What every catalog must answer: the half of `CatalogContract` that reads."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwater.filters import ALL, parse
from headwater.likeness import packed, sketch
from headwater.protocols import Catalog
from headwater.selection import TICKET_BITS
from headwater.testing.versions import SPACE, embedded, made, named, put
from headwater.types import (
    Change,
    Link,
    Span,
    Version,
    document_id,
    text_hash,
)

SAID = "The gauge at the old bridge is read every morning at eight, and the level is told to the office by telephone. "
ELSE = "员工每年享有十五天带薪年假，入职不满一年的按月折算，年假须提前两周在系统中提出申请，由部门主管批准后方可休假。"


class CatalogReadingContract:
    """For a Catalog that can be committed to."""

    def open_catalog(self, path: Path) -> Catalog:
        """The catalog under test at this path, which may not exist yet; it is opened anew several times."""
        raise NotImplementedError

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Any:
        """A new catalog with a space."""
        made_catalog = self.open_catalog(tmp_path / "catalog")
        made_catalog.open_space(SPACE)
        yield made_catalog
        assert made_catalog.check() == []
        made_catalog.close_store()

    def add(self, catalog: Catalog, uri: str, text: str, **fields: Any) -> Change:
        """Draw a ticket and commit; what `made` takes goes to it, `owner`, `collection` and `stamp` to the change."""
        own = {key: fields.pop(key) for key in ("owner", "collection", "stamp") if key in fields}
        [change] = catalog.draw([put(uri, **own)])
        catalog.commit([made(change, text, **fields)])
        return change

    def remove(self, catalog: Catalog, uri: str) -> Change:
        [change] = catalog.draw([Change(uri=uri, kind="delete")])
        catalog.commit([Version(change=change)])
        return change

    # ----------------------------------------------------------------------------------------- vectors

    def test_vectors_come_with_their_ids_and_once_per_text(self, catalog: Catalog) -> None:
        change = self.add(catalog, "u", "one\ntwo\none")
        self.add(catalog, "v", "two")
        first = change.ticket << TICKET_BITS
        ids, matrix = catalog.vectors([first + 2, first, first + 1, first])
        assert sorted(ids.tolist()) == [first, first + 1, first + 2]
        expected = dict(zip([first, first + 1, first + 2], embedded(["one", "two", "one"]), strict=True))
        for id, row in zip(ids.tolist(), matrix, strict=True):
            assert np.allclose(row, expected[id], atol=1e-3)
        assert matrix.dtype == np.float32 and catalog.statistics()["vectors"] == 2

    def test_known_vectors_are_those_of_texts_seen_before(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "one\ntwo", indexed_as="t: {}")
        known = catalog.known_vectors([text_hash("t: one"), text_hash("one"), text_hash("t: two")])
        assert set(known) == {text_hash("t: one"), text_hash("t: two")}
        assert np.allclose(known[text_hash("t: one")], embedded(["t: one"])[0], atol=1e-3)
        self.remove(catalog, "u")
        assert set(catalog.known_vectors([text_hash("t: one")])) == {text_hash("t: one")}, "the text may come back"
        assert catalog.statistics()["vectors"] == 0

    def test_text_without_vectors_is_stored_too(self, catalog: Catalog) -> None:
        [change] = catalog.draw([put("u")])
        catalog.commit([replace(made(change, "text"), vectors=None, state="indexed")])
        assert catalog.tickets() == {change.ticket: 1}
        assert len(catalog.vectors([change.ticket << TICKET_BITS])[0]) == 0

    # ------------------------------------------------------------------------------------------- links

    def test_links_are_found_in_both_directions(self, catalog: Catalog) -> None:
        def linked(*targets: str) -> tuple[Link, ...]:
            return tuple(Link(kind="wikilink", target=target, span=Span(0, 1)) for target in targets)

        hub = self.add(catalog, "notes/Hub.md", "hub", title="All notes", links=linked("Pump manual", "ice#Thick", "x"))
        pump = self.add(catalog, "a/pump.md", "pump", title="Pump Manual", links=linked("../notes/hub.md"))
        ice = self.add(catalog, "a/ice.md", "ice", title="On ice", links=linked("#top", "https://h.example/p?q=1"))
        page = self.add(catalog, "https://h.example/p?q=1", "page", title="Page", meta={"aliases": ("冰", "Eis")})
        self.add(catalog, "a/frost.md", "frost", title="Frost", links=linked("冰", "pump", "frost", "a/ice.md"))
        self.add(catalog, "b", "other", collection="other", title="Other", links=linked("Pump manual"))
        frost = document_id("local", "default", "a/frost.md")
        ids = {name: named(change) for name, change in (("hub", hub), ("pump", pump), ("ice", ice), ("page", page))}
        assert catalog.links([ids["pump"]]) == sorted(
            [(ids["hub"], ids["pump"]), (ids["pump"], ids["hub"]), (frost, ids["pump"])]
        )
        assert catalog.links([ids["page"]]) == sorted([(ids["ice"], ids["page"]), (frost, ids["page"])])
        assert catalog.links([ids["ice"]]) == sorted(
            [(ids["hub"], ids["ice"]), (ids["ice"], ids["page"]), (frost, ids["ice"])]
        )
        assert catalog.links([]) == catalog.links(["unknown"]) == []
        self.add(catalog, "notes/Hub.md", "hub", title="All notes")
        self.remove(catalog, "a/frost.md")
        assert catalog.links([ids["pump"]]) == [(ids["pump"], ids["hub"])]

    def test_a_change_is_pending_until_it_is_committed_or_closed(self, catalog: Catalog) -> None:
        waiting = put("u")
        assert not catalog.is_pending(named(waiting))
        catalog.enqueue([waiting])
        assert catalog.is_pending(named(waiting))
        [change] = catalog.claim(1)
        assert catalog.is_pending(named(waiting))
        catalog.commit([made(change, "text")])
        assert not catalog.is_pending(named(waiting))

    # ----------------------------------------------------------------------------------------- filters

    def test_filters_mean_what_matches_says(self, catalog: Catalog) -> None:
        red = self.add(
            catalog, "a", "# Methods\none\n| t", tags=("red", "2025-03-09"), updated="2025-03-01", meta={"year": 2020}
        )
        none = self.add(catalog, "b", "two\n`c`", archived=True, updated="2024-03-01", meta={"year": 2022.5})
        ids = {"a0": red, "a1": red, "a2": red, "b0": none, "b1": none}
        by_name = {name: (change.ticket << TICKET_BITS) + int(name[1]) for name, change in ids.items()}
        for text, expected in {
            "*": "a0 a1 a2 b0 b1",
            "tag = red": "a0 a1 a2",
            "tag != red": "b0 b1",
            "not tag = green": "a0 a1 a2 b0 b1",
            "tag = 2025-03": "a0 a1 a2",
            "tag in (2025, x)": "a0 a1 a2",
            "updated = 2024": "b0 b1",
            "archived": "b0 b1",
            "not archived and date >= 2025": "a0 a1 a2",
            "year > 2020": "b0 b1",
            "missing = 1": "",
            "missing != 1": "a0 a1 a2 b0 b1",
            "section = Methods": "a0 a1 a2",
            "section != Methods": "b0 b1",
            "kind = table or kind = code": "a2 b1",
            "kind = prose": "a0 a1 b0",
            "page = 2": "a0 b0",
            "page >= 3": "a2",
            "tag = red and page >= 3 or kind = code": "a2 b1",
            "tag in ()": "",
            "uri = a": "a0 a1 a2",
            f"id in ({named(red)}, x)": "a0 a1 a2",
        }.items():
            allowed = catalog.select(parse(text)).contains(list(by_name.values()))
            found = " ".join(name for name, yes in zip(by_name, allowed, strict=True) if yes)
            assert found == expected, text

    def test_a_filter_sees_what_came_after_it_was_first_asked(self, catalog: Catalog) -> None:
        filters = [parse(t) for t in ("tag = red", "tag != red", "page = 1", "not page = 1", "tag = red or page = 1")]
        early, *_ = drawn = catalog.draw([put("a"), put("b"), put("c"), put("d")])
        for change in (*drawn[1:], early):  # the lowest ticket comes last
            for where in filters:
                catalog.select(where)
            tags = ("red",) if change.uri in "ac" else ()
            catalog.commit([made(change, "one\ntwo\nthree", tags=tags)])
            live = [(t << TICKET_BITS) + n for t, count in catalog.tickets().items() for n in range(count)]
            red = {c.ticket for c in drawn if c.uri in "ac"}
            answers = {
                "tag = red": [id >> TICKET_BITS in red for id in live],
                "tag != red": [id >> TICKET_BITS not in red for id in live],
                "page = 1": [id % 8 == 0 for id in live],
                "not page = 1": [id % 8 != 0 for id in live],
                "tag = red or page = 1": [id >> TICKET_BITS in red or id % 8 == 0 for id in live],
            }
            for where, expected in zip(filters, answers.values(), strict=True):
                assert catalog.select(where).contains(live).tolist() == expected

    def test_records_are_in_order_and_in_pages(self, catalog: Catalog) -> None:
        for uri in ("b", "a", "d", "c"):
            self.add(
                catalog, uri, "# S\ntext", collection="y" if uri == "a" else "x", tags=("t",) if uri != "c" else ()
            )
        assert [r.uri for r in catalog.records(ALL)] == ["b", "c", "d", "a"]
        assert [r.uri for r in catalog.records(ALL, limit=2, offset=1)] == ["c", "d"]
        assert [r.uri for r in catalog.records(parse("tag = t"), limit=2, offset=1)] == ["d", "a"]
        assert catalog.records(parse("tag = t"), limit=0) == [] and catalog.records(parse("tag = u")) == []
        for where in (
            "section = S",
            "section = no",
            "not section = S",
            "page = 1 and kind = prose",
            "tag = u or page = 9",
        ):
            assert len(catalog.records(parse(where))) == 4, "conditions on chunks allow any document"
        assert [r.uri for r in catalog.records(parse("not (tag = t or section = no)"))] == ["c"]

    # ---------------------------------------------------------------------------------------- likeness

    def test_chunks_that_say_nearly_the_same_are_of_a_family(self, catalog: Catalog) -> None:
        first = self.add(catalog, "a", f"{SAID}\n{ELSE}\n{SAID} 修订")
        again = self.add(catalog, "b", SAID.replace("eight", "nine"))
        theirs = self.add(catalog, "a", SAID, owner="bob")
        a, b, c = (change.ticket << TICKET_BITS for change in (first, again, theirs))
        assert catalog.families([b, a + 2, a, a + 1, c]) == {a: a, a + 1: a + 1, a + 2: a, b: a, c: c}
        assert catalog.families([b, 1 << 50]) == {b: b} and catalog.families([]) == {}

    def test_documents_that_are_nearly_the_same_are_told_while_they_are_there(self, catalog: Catalog) -> None:
        for uri, text in (("a", SAID * 3), ("b", SAID * 3 + ELSE[:20]), ("c", ELSE * 3), ("plain", SAID * 3)):
            [change] = catalog.draw([put(uri)])
            told = b"" if uri == "plain" else packed(sketch(text))
            catalog.commit([replace(made(change, text), sketch=told)])
        [theirs] = catalog.draw([put("a", owner="bob")])
        catalog.commit([replace(made(theirs, SAID * 3), sketch=packed(sketch(SAID * 3)))])
        a, b, c = (document_id("local", "default", uri) for uri in "abc")
        [(found, share)] = catalog.alike(a)
        assert found == b and 0.8 <= share <= 1.0
        assert [id for id, _ in catalog.alike(b)] == [a] and catalog.alike(c) == [] == catalog.alike("nobody")
        assert catalog.alike(document_id("local", "default", "plain")) == []
        [change] = catalog.draw([put("b")])
        catalog.commit([replace(made(change, ELSE * 3), sketch=packed(sketch(ELSE * 3)))])
        assert catalog.alike(a) == [] and [id for id, _ in catalog.alike(c)] == [b]
        self.remove(catalog, "b")
        assert catalog.alike(c) == []

    def test_a_note_is_added_once_and_has_the_document_read_again(self, catalog: Catalog) -> None:
        change = self.add(catalog, "a", "text", stamp="1", content_hash="h", problems=("first",))
        for _ in range(2):
            catalog.note(named(change), "第二")
        record = catalog.record(named(change))
        assert record is not None and record.problems == ("first", "第二")
        assert (record.stamp, record.content_hash, record.state) == ("", "", "completed")
        assert catalog.statistics()["with_problems"] == 1
        catalog.note("nobody", "nothing")

    # ------------------------------------------------------------------------------------------- whole

    def test_content_hashes_are_of_what_was_read_well(self, catalog: Catalog) -> None:
        [well, badly] = catalog.draw([put("well"), put("badly")])
        catalog.commit(
            [
                replace(made(well, "text"), content_hash="abc"),
                Version(change=badly, state="failed", error="broken", content_hash="def"),
            ]
        )
        ids = [document_id(c.owner, c.collection, c.uri) for c in (well, badly)]
        assert catalog.content_hashes([*ids, "nobody"]) == {ids[0]: "abc"}
        assert catalog.content_hashes([]) == {}

    def test_a_removal_takes_the_open_change_with_it(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "old")
        catalog.enqueue([put("u"), put("other")])
        [claimed, _] = catalog.claim(2)
        self.remove(catalog, "u")
        assert [change.uri for change in catalog.claim(5)] == ["other"]
        catalog.commit([made(claimed, "came too late")])
        assert catalog.record(document_id(claimed.owner, claimed.collection, "u")) is None
        assert claimed.ticket in catalog.dead()

    def test_statistics_count(self, catalog: Catalog) -> None:
        self.add(catalog, "u", "one\ntwo")
        self.add(catalog, "u", "one\ntwo\nthree")
        catalog.enqueue([put("v"), put("w")])
        counts = catalog.statistics()
        expected = {"documents": 1, "chunks": 3, "vectors": 3, "collections": 1, "pending": 2, "failed": 0, "empty": 0}
        assert {key: counts[key] for key in expected} == expected
        assert (counts["dead"], counts["last_ticket"], counts["generation"]) == (1, 2, catalog.generation())

    def test_it_can_be_used_from_several_threads(self, catalog: Catalog) -> None:
        change = self.add(catalog, "steady", "one\ntwo", tags=("t",))
        first, wrong = change.ticket << TICKET_BITS, []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                found = catalog.chunks([first, first + 1])
                allowed = catalog.select(parse("tag = t")).contains([first])
                if [c.text for c, _ in found.values()] != ["one", "two"] or not allowed[0]:
                    wrong.append(found)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for n in range(30):
            self.add(catalog, f"u{n % 3}", f"text {n}", tags=("t",) if n % 2 else ())
        stop.set()
        for reader in readers:
            reader.join()
        assert wrong == [] and catalog.statistics()["documents"] == 4

    def test_readers_see_the_old_or_the_new_and_nothing_between(self, catalog: Catalog) -> None:
        id = named(self.add(catalog, "u", "0 0\n0 1\n0 2"))
        stop, wrong = threading.Event(), []

        def read() -> None:
            while not stop.is_set():
                chunks = catalog.chunks_of(id)
                versions = {chunk.text.split()[0] for chunk in chunks}
                if len(chunks) != 3 or len(versions) != 1:
                    wrong.append(chunks)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for n in range(1, 40):
            self.add(catalog, "u", f"{n} 0\n{n} 1\n{n} 2")
        stop.set()
        for reader in readers:
            reader.join()
        assert wrong == []
