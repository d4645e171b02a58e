"""What is remembered of live tickets, and for how long."""

from collections.abc import Set

import pytest

from headwater.selection import TICKET_BITS
from headwater.storage import _owners
from headwater.storage._owners import Held, Owners


class Table:
    """What a database would say, and what it was asked."""

    def __init__(self, **documents: int) -> None:
        self.documents = {ticket: name for name, ticket in documents.items()}
        self.asked: list[set[int]] = []

    def read(self, tickets: Set[int]) -> Held:
        self.asked.append(set(tickets))
        return {t: ((t << TICKET_BITS) + 2, self.documents[t]) for t in tickets if t in self.documents}


def ids(*tickets: int, ordinal: int = 0) -> list[int]:
    return [(ticket << TICKET_BITS) + ordinal for ticket in tickets]


def test_a_ticket_is_asked_for_once_in_a_generation() -> None:
    owners, table = Owners(), Table(one=1, two=2)
    assert owners.of(ids(1), 7, table.read) == dict.fromkeys(ids(1), "one")
    both = [*ids(1, ordinal=1), *ids(2)]
    assert owners.of(both, 7, table.read) == dict(zip(both, ("one", "two"), strict=True))
    assert owners.of(both, 7, table.read) == dict(zip(both, ("one", "two"), strict=True))
    assert table.asked == [{1}, {2}]


def test_an_id_behind_the_last_chunk_of_a_ticket_is_nobodys() -> None:
    assert Owners().of(ids(1, ordinal=2), 7, Table(one=1).read) == {}


def test_after_a_commit_everything_is_asked_anew() -> None:
    owners, table = Owners(), Table(one=1)
    owners.of(ids(1), 7, table.read)
    table.documents.clear()
    assert owners.of(ids(1), 8, table.read) == {}
    assert table.asked == [{1}, {1}]


def test_what_is_not_alive_is_asked_for_every_time() -> None:
    owners, table = Owners(), Table()
    assert owners.of(ids(1), 7, table.read) == {}
    table.documents[1] = "late"
    assert owners.of(ids(1), 7, table.read) == dict.fromkeys(ids(1), "late")


@pytest.mark.parametrize("generation", [6, None])
def test_who_looks_at_another_state_neither_reads_the_memory_nor_changes_it(generation: int | None) -> None:
    owners, table, other = Owners(), Table(one=1), Table(earlier=1)
    owners.of(ids(1), 7, table.read)
    assert owners.of(ids(1), generation, other.read) == dict.fromkeys(ids(1), "earlier")
    assert owners.of(ids(1), 7, table.read) == dict.fromkeys(ids(1), "one")
    assert (table.asked, other.asked) == ([{1}], [{1}])


def test_the_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_owners, "MOST", 1)
    owners, table = Owners(), Table(one=1, two=2)
    owners.of(ids(1, 2), 7, table.read)
    assert owners.of(ids(1), 7, table.read) == dict.fromkeys(ids(1), "one")
    assert table.asked == [{1, 2}, {1}]
