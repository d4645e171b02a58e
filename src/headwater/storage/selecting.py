"""A filter -> the chunk ids it allows, from the inverted index in SQL, remembered from one search to the next.

What a version says of itself never changes, so an answer stays right for all the versions it was made from: after a
commit only the versions that came since are asked, with the filter's own `matches`.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt

from headwater.filters import All, And, Compare, Filter, Has, In, Not, Or, Value, is_date, to_text
from headwater.filters import Contains as ContainsText
from headwater.selection import TICKET_BITS, Ids, Selection
from headwater.storage._rows import (
    CHUNK_KEYS,
    COLUMN_KEYS,
    KINDS,
    RECORD_COLUMNS,
    keys_of,
    packed,
    readable,
    row_record,
    storable,
    unpacked_meta,
    unpacked_value,
)
from headwater.storage._sql import Connection
from headwater.types import Chunk, Record, Span, attributes

Leaf = Compare | ContainsText | In | Has

# Answers kept. Most searches of a home use a handful of filters; each answer takes 16 bytes per range.
REMEMBERED: Final = 256
# Asking this many new versions one by one takes as long as asking the index about 100,000 documents.
ASKED_ONE_BY_ONE: Final = 500
# Above this many values it is cheaper to read all postings of a key than to look up each value's.
LOOKED_UP: Final = 500


@dataclass(frozen=True, slots=True)
class _Moment:
    """A state of the catalog: its generation and the highest ticket that is alive."""

    generation: int
    top: int


@dataclass(frozen=True, slots=True)
class _Known:
    """An answer, and the moment whose live versions it is right for."""

    selection: Selection
    moment: _Moment


class Selector:
    """Answers filters over one catalog. Safe for use from several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def remembered(self, where: Filter, generation: int) -> Selection | None:
        """The answer, if it is known for this very generation: no snapshot is needed then."""
        if isinstance(where, All):
            return Selection.everything()
        known = self._known.get(to_text(where))
        return known.selection if known is not None and known.moment.generation == generation else None

    def select(self, db: Connection, where: Filter) -> Selection:
        """The answer as of the snapshot that the connection holds."""
        sql = "select generation, (select coalesce(max(ticket), 0) from version) from counters"
        return self._select(db, where, _Moment(*db.execute(sql).fetchone()))

    def _select(self, db: Connection, where: Filter, moment: _Moment) -> Selection:
        # The text and not the filter: 2025 and 2025.0 are equal in Python and not the same date.
        key = to_text(where)
        known = self._known.get(key)
        selection = None
        if known is not None and known.moment == moment:
            return known.selection
        if known is not None and known.moment.generation < moment.generation:
            selection = self._brought_up(db, where, known)
        if selection is None:
            selection = self._asked(db, where, moment)
        with self._lock:
            self._known[key] = _Known(selection, moment)
            self._known.move_to_end(key)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return selection

    # ------------------------------------------------------------------------------------ what came since

    def _brought_up(self, db: Connection, where: Filter, known: _Known) -> Selection | None:
        """The older answer with the versions that came since, or None where they are many."""
        sql = (
            f"select {', '.join('document.' + name for name in RECORD_COLUMNS.split(', '))} from version "
            "cross join document on document.id = version.document where version.generation > ? limit ?"
        )
        rows = db.execute(sql, (known.moment.generation, ASKED_ONE_BY_ONE + 1)).fetchall()
        if len(rows) > ASKED_ONE_BY_ONE:
            return None
        if not rows:
            return known.selection
        # Sorted here: asked to sort, SQLite walks all versions by ticket instead of the new ones by generation.
        records = sorted(map(row_record, rows), key=lambda record: record.ticket)
        tickets = np.array([record.ticket for record in records], dtype=np.int64)
        if keys_of(where) & CHUNK_KEYS:
            ids = [
                chunk.id
                for record in records
                for chunk in _bare_chunks(db, record)
                if where.matches(attributes(record, chunk))
            ]
            allowed = Selection.of_ids(ids)
        else:
            allowed = Selection.of_tickets([r.ticket for r in records if where.matches(attributes(r))])
        return replaced(known.selection, tickets, allowed, top=known.moment.top)

    # --------------------------------------------------------------------------------------- all of it

    def _asked(self, db: Connection, where: Filter, moment: _Moment) -> Selection:  # noqa: PLR0911
        def parts(filters: Iterable[Filter]) -> Iterable[Selection]:
            return (self._select(db, one, moment) for one in filters)

        match where:
            case All():
                return Selection.everything()
            case And(filters):
                return reduce(lambda a, b: a & b, parts(filters))
            case Or(filters):
                return reduce(lambda a, b: a | b, parts(filters))
            case Not(part):
                return ~self._select(db, part, moment)
            case Compare(key, "!=", value):
                return ~self._select(db, Compare(key, "=", value), moment)
            case leaf if leaf.key in CHUNK_KEYS:
                return _CHUNK_ANSWERS[leaf.key](db, leaf)
            case leaf if leaf.key in COLUMN_KEYS:
                return _by_column(db, leaf)
            case leaf:
                return _by_posting(db, leaf)


def replaced(old: Selection, tickets: Ids, allowed: Selection, *, top: int) -> Selection:
    """`old`, except that of these tickets (sorted) exactly `allowed` is in. Above `top` nothing was alive in `old`."""
    first = tickets[0] << TICKET_BITS
    if tickets[0] <= top or old.is_empty or old.starts[-1] >= first:
        return (old & ~Selection.of_tickets(tickets)) | allowed
    # The usual case: new tickets are above all that is known, so the ranges are appended without sorting.
    stops = np.minimum(old.stops, first)
    if allowed.is_empty:
        return Selection(old.starts, stops)
    touching = int(stops[-1] == allowed.starts[0])
    starts = np.concatenate((old.starts, allowed.starts[touching:]))
    return Selection(starts, np.concatenate((stops[:-1] if touching else stops, allowed.stops)))


# ----------------------------------------------------------------------------------------------- documents


def _by_posting(db: Connection, leaf: Leaf) -> Selection:
    key = storable(leaf.key)
    exact = _exact(leaf)
    if exact is not None:
        wanted = [packed(value) for value in exact]
        sql = "select id from term where key = ? and value = ?"
        terms = [row[0] for value in wanted for row in db.execute(sql, (key, value))]
    else:
        rows = db.execute("select id, value from term where key = ?", (key,)).fetchall()
        terms = [term for term, value in rows if _holds(leaf, unpacked_value(value))]
    if len(terms) <= LOOKED_UP:
        sql = "select ticket from posting where term in (select value from json_each(?) as given)"
        return Selection.of_tickets(_integers(db.execute(sql, (json.dumps(terms),))))
    pairs = _integers(
        db.execute("select posting.term, ticket from term join posting on posting.term = term.id where key = ?", (key,))
    ).reshape(-1, 2)
    return Selection.of_tickets(pairs[np.isin(pairs[:, 0], np.array(terms, dtype=np.int64)), 1])


def _by_column(db: Connection, leaf: Leaf) -> Selection:
    exact = _exact(leaf)
    if leaf.key == "date":
        rows = db.execute("select ticket, updated, created, meta from document where ticket != 0").fetchall()
        dated = ((ticket, _date(updated, created, meta)) for ticket, updated, created, meta in rows)
        return _of_values(leaf, dated)
    if exact is not None:
        sql = f"select ticket from document where {leaf.key} = ? and ticket != 0"
        return Selection.of_tickets([row[0] for value in exact for row in db.execute(sql, (storable(value),))])
    rows = db.execute(f"select ticket, {leaf.key} from document where ticket != 0").fetchall()
    return _of_values(leaf, ((ticket, readable(value)) for ticket, value in rows))


def _date(updated: str | bytes, created: str | bytes, meta: str | bytes) -> Value | tuple[Value, ...]:
    told = unpacked_meta(meta) if '"date"' in readable(meta) else {}
    return told["date"] if "date" in told else str(readable(updated or created))


def _of_values(leaf: Leaf, values: Iterable[tuple[int, Value | tuple[Value, ...]]]) -> Selection:
    """The tickets whose value the leaf allows. Many documents share a day: each value is asked about once."""
    # True, 1 and 1.0 are one key of a dictionary, and one value to a filter as well.
    answers: dict[Value | tuple[Value, ...], bool] = {}
    allowed = []
    for ticket, value in values:
        answer = answers.get(value)
        if answer is None:
            answer = answers[value] = leaf.matches({leaf.key: value})
        if answer:
            allowed.append(ticket)
    return Selection.of_tickets(allowed)


def _exact(leaf: Leaf) -> list[str] | None:
    """The strings the attribute must be equal to, or None where that is not all the leaf means (a year, a number)."""
    match leaf:
        case Compare(_, "=", value):
            values: tuple[Value, ...] = (value,)
        case In(_, given):
            values = given
        case _:
            return None
    strings = [value for value in values if isinstance(value, str) and not is_date(value)]
    return list(dict.fromkeys(strings)) if len(strings) == len(values) else None


def _holds(leaf: Leaf, value: Value) -> bool:
    return leaf.matches({leaf.key: value})


# -------------------------------------------------------------------------------------------------- chunks


def _by_section(db: Connection, leaf: Leaf) -> Selection:
    paths = db.execute("select id, path from section").fetchall()
    return _by_number(db, leaf, "section", [(0, ""), *((id, readable(path)) for id, path in paths)])


def _by_kind(db: Connection, leaf: Leaf) -> Selection:
    return _by_number(db, leaf, "kind", list(enumerate(KINDS)))


def _by_number(db: Connection, leaf: Leaf, column: str, values: list[tuple[int, str]]) -> Selection:
    """Most chunks have number 0 and no index entry: what allows those is the rest of what it does not allow."""
    allowed = {number for number, value in values if _holds(leaf, value)}
    wanted = [number for number, _ in values if number and (number in allowed) != (0 in allowed)]
    sql = f"select id from chunk where {column} in (select value from json_each(?) as given) and {column} != 0"
    found = Selection.of_ids(_integers(db.execute(sql, (json.dumps(wanted),))))
    return ~found if 0 in allowed else found


def _by_page(db: Connection, leaf: Leaf) -> Selection:
    rows = _integers(db.execute("select id, first_page, last_page from chunk where first_page != 0")).reshape(-1, 3)
    if not len(rows):
        return Selection.nothing()
    ids, first, last = rows[:, 0], rows[:, 1], rows[:, 2]
    low, high = int(first.min()), int(last.max())
    good = np.cumsum([0, *(_holds(leaf, page) for page in range(low, high + 1))])
    return Selection.of_ids(ids[good[last - low + 1] > good[first - low]])


_CHUNK_ANSWERS: Final[dict[str, Callable[[Connection, Leaf], Selection]]] = {
    "section": _by_section,
    "kind": _by_kind,
    "page": _by_page,
}


def _bare_chunks(db: Connection, record: Record) -> list[Chunk]:
    """The chunks of a version with all that filters see of them."""
    sql = (
        "select chunk.id, coalesce(path, ''), first_page, last_page, kind from chunk "
        "left join section on section.id = chunk.section where chunk.id >= ? and chunk.id < ?"
    )
    bounds = (record.ticket << TICKET_BITS, (record.ticket + 1) << TICKET_BITS)
    return [
        Chunk(id=id, span=Span(0, 0), text="", section=readable(path), pages=pages(first, last), kind=KINDS[kind])
        for id, path, first, last, kind in db.execute(sql, bounds)
    ]


def pages(first: int, last: int) -> tuple[int, ...]:
    """Every page from the first to the last; none for 0."""
    return tuple(range(first, last + 1)) if first else ()


def _integers(rows: Iterable[tuple[int, ...]]) -> npt.NDArray[np.int64]:
    """All columns of all rows, one after the other."""
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64)
