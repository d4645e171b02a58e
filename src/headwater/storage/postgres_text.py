"""Chunks -> postings in tables of PostgreSQL -> ids ranked by BM25.

Fields, lanes, weights and scores are those of every text index (`_lanes`), and k1 and b are settings. The database
keeps the postings and gives the packed rows of a question's terms; numpy adds up the scores, where SQL would add up a
row for each term and chunk. Statistics are exact at any moment: what was removed does not count.

Searches read what was last flushed, by anybody, in one moment of the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from headwater.errors import SettingError
from headwater.filters import Filter
from headwater.selection import TICKET_BITS, Selection
from headwater.storage._cutting import Cutting
from headwater.storage._lanes import (
    BOOSTS,
    FIELDS,
    KNOWN_IN,
    LANE_WEIGHTS,
    LANES,
    Question,
    ask,
    best_score,
    head_terms,
    required,
    with_defaults,
)
from headwater.storage._postgres_index import PostgresIndex, space_of
from headwater.storage._postgres_postings import Gathering, term_of
from headwater.storage._postgres_ranking import NOTHING_COUNTED, Counted, Key, Ranking, keys_of
from headwater.storage._postgres_text_tables import Statistics, TextTables
from headwater.tokens import Cutter
from headwater.types import Chunk, Document, Scored

if TYPE_CHECKING:
    from headwater.storage._postgres import Connection

# Cut chunks take about 10 kB each in memory: so many are written before `flush` asks for it.
MOST_KEPT: Final = 5_000
# Versions that are taken out together: the rows that each has a part in are written anew, some thousand of them.
REMOVED_AT_ONCE: Final = 128
# Questions whose frequencies are remembered until the next refresh: a search asks for hits, then for the best score.
KEPT_QUESTIONS: Final = 64
# And words that it holds, for telling typos: those of a thousand questions.
KEPT_WORDS: Final = 20_000
# Where an index that was made anew took the old one's place in the very moment of a search, the search begins again,
# so often at most.
MOMENTS: Final = 10

Found = TypeVar("Found")


class PostgresTextIndex(PostgresIndex[TextTables]):
    """Ranks chunks by their words. The database is asked at first use; tables are made by the first `flush`."""

    def __init__(
        self,
        path: Path,
        *,
        select: Callable[[Filter], Selection],
        cutter: Cutter,
        writable: bool = True,
        boosts: Mapping[str, float] | None = None,
        lanes: Mapping[str, float] | None = None,
        k1: float = 1.2,
        b: float = 0.75,
        url: str = "env:DATABASE_URL",
        schema: str = "headwater",
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            raise SettingError(f"k1 must be 0 or more and b between 0 and 1, got {k1!r} and {b!r}")
        space = space_of(path, "text")
        tables, beside = TextTables(space), TextTables(space, beside=True)
        super().__init__(space, tables=tables, beside=beside, writable=writable, url=url, schema=schema)
        self._select, self._cutter, self._k1, self._b = select, cutter, k1, b
        self._boosts = with_defaults("boosts", boosts, BOOSTS)
        self._lanes = with_defaults("lanes", lanes, LANE_WEIGHTS)
        self._cutting = Cutting(cutter)
        self._added, self._removed = Gathering(), set[int]()
        self._exists = False
        self._counted: dict[str, Counted] = {}
        self._words: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------ writing

    def add(self, chunks: Sequence[tuple[Chunk, Document]]) -> None:
        """Index these; adding what is there already is harmless. Chunks of one ticket come in one call."""
        self._check_writable()
        if not chunks:
            return
        documents = {chunk.id >> TICKET_BITS: document for chunk, document in chunks}
        heads = dict(zip(documents, head_terms(list(documents.values()), self._cutter), strict=True))
        texts = [chunk.searchable_text for chunk, _ in chunks]
        cut: dict[int, Mapping[str, str]] = {}
        for start, slice_of_lanes in self._cutting.slices(texts):
            for lanes, (chunk, _) in zip(slice_of_lanes, chunks[start : start + len(slice_of_lanes)], strict=True):
                body = {lane: terms for lane, terms in zip(LANES, lanes, strict=True) if terms and not terms.isspace()}
                cut[chunk.id] = {**heads[chunk.id >> TICKET_BITS], **body}
        rows: dict[int, list[tuple[int, Mapping[str, str]]]] = {ticket: [] for ticket in documents}
        for id, terms in sorted(cut.items()):
            rows[id >> TICKET_BITS].append((id, terms))
        with self._lock:
            for ticket, of_ticket in rows.items():
                self._added.put(ticket, of_ticket)
            if self._added.chunks >= MOST_KEPT:
                self._written()

    def expect(self, texts: Sequence[str]) -> None:
        """These chunks' texts will come with a later `add`, in this order: work on them may begin."""
        self._cutting.begin(texts)

    def remove(self, tickets: Sequence[int]) -> None:
        """Drop every chunk of these tickets; unknown ones are fine."""
        self._check_writable()
        with self._lock:
            gone = {int(ticket) for ticket in tickets}
            self._added.drop(gone)
            self._removed |= gone

    def _is_kept(self) -> bool:
        return bool(self._added.cut or self._removed)

    def _send(self, connection: Connection, tables: TextTables) -> None:
        gone = sorted(self._removed)
        for start in range(0, len(gone), REMOVED_AT_ONCE):
            tables.change(connection, gone[start : start + REMOVED_AT_ONCE], Gathering())
        tables.change(connection, [], self._added)

    def _forget(self) -> None:
        self._added, self._removed = Gathering(), set()

    def release(self) -> None:
        """Let go of what was not flushed and of the thread that cuts; reading goes on."""
        super().release()
        self._cutting.close()

    # ------------------------------------------------------------------------------------------------ reading

    def refresh(self) -> None:
        """See what was last flushed, by this process or another: searches do anyway."""
        self._counted, self._words, self._exists = {}, {}, False

    def tickets(self) -> Mapping[int, int]:
        """Every ticket it holds and how many chunks of it."""
        return self._read(self._tables.tickets, {})

    def search(self, text: str, limit: int, where: Filter, *, all_of: str = "") -> list[Scored]:
        """Best first, ties by id, at most `limit`; only what the filter allows; never an error for odd text."""
        selection = self._select(where) if limit > 0 else Selection.nothing()
        if selection.is_empty:
            return []
        question = self._question(text)
        needed = required(all_of, self._cutter) if all_of else []
        keys = keys_of(question, needed)
        if not keys:
            return []

        def found(connection: Connection, statistics: Statistics) -> list[Scored]:
            counts, postings = self._tables.lists(connection, _asked(keys), selection)
            ranking = Ranking(keys, counts, postings, statistics=statistics, k1=self._k1, b=self._b)
            self._remember(text, ranking.counted)
            return ranking.best(question, needed=needed, selection=selection, limit=limit)

        return self._read(found, [])

    def best_score(self, text: str) -> float:
        """What a chunk would score that held all of the query; 0 where there is no chunk or no word."""
        question = self._question(text)
        counted = self._counted.get(text) or self._read(lambda *asked: self._count(question, *asked), NOTHING_COUNTED)
        if not counted.chunks:
            return 0.0
        return best_score(question, chunks=counted.chunks, containing=counted.containing, k1=self._k1)

    def known(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Of these terms, those that a chunk holds in its text or title, and how many do."""
        if all(term in self._words for term in terms):
            return {term: self._words[term] for term in terms}
        keys = [(field, term) for term in dict.fromkeys(terms) for field in KNOWN_IN]

        def counted(connection: Connection, _: Statistics) -> Counter[str]:
            found = Counter[str]()
            for place, count in self._tables.counts(connection, _asked(keys)).items():
                found[keys[place - 1][1]] += count
            return found

        found = self._read(counted, Counter[str]())
        if len(self._words) + len(found) > KEPT_WORDS:
            self._words = {}
        self._words.update(found)
        return found

    def _count(self, question: Question, connection: Connection, statistics: Statistics) -> Counted:
        keys = keys_of(question, ())
        counts = self._tables.counts(connection, _asked(keys)) if keys else {}
        return Counted(statistics.chunks, {key: counts.get(place, 0) for place, key in enumerate(keys, start=1)})

    def _question(self, text: str) -> Question:
        return ask(text, self._cutter, boosts=self._boosts, lanes=self._lanes)

    def _remember(self, text: str, counted: Counted) -> None:
        if len(self._counted) >= KEPT_QUESTIONS:
            self._counted = {}
        self._counted[text] = counted

    def _read(self, work: Callable[[Connection, Statistics], Found], otherwise: Found) -> Found:
        """What `work` finds in one moment of the index, or something else where nothing was ever written."""
        for _ in range(MOMENTS):
            with self._database().reading() as connection:
                if not self._exists and not self._tables.exist(connection):
                    return otherwise
                self._exists = True
                statistics = self._tables.statistics(connection)
                if statistics is not None:
                    return work(connection, statistics)
        return otherwise


def _asked(keys: Sequence[Key]) -> list[int]:
    """As the tables know them."""
    return [term_of(FIELDS.index(field), token) for field, token in keys]
