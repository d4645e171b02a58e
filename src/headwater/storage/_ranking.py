"""A question -> a query of tantivy -> ids in order, of those that a selection allows."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tantivy

from headwater.selection import TICKET_BITS, Selection
from headwater.storage._lanes import FIELDS, HEAD, REQUIRED_IN, Question, Term
from headwater.types import Ids, Scored

# How a filter is met, measured at 100,000 chunks, p50: no filter 0.8 ms; one range 1 ms, and 0.4 ms for each more;
# a set of 1,000 tickets or ids 2 ms, of 3,000 10 ms; fetching 1,000 hits to check them 1.7 ms, 5,000 hits 4.7 ms.
MAX_RANGES: Final = 4
MAX_SET: Final = 2_000
OVER_FETCH: Final = 4
MAX_FETCH: Final = 20_000
# One more than asked for would show a tie at the end; a few more resolve the usual ones at no cost.
TIE_MARGIN: Final = 16
# Relative. A sum of a hundred 32-bit terms is off by a few millionths at most.
SAME_SCORE: Final = 1e-5
# Terms whose frequencies are remembered: the words of a thousand questions.
KEPT_FREQUENCIES: Final = 20_000
# A field of which so many words were asked that no chunk has may be one that no chunk has anything in.
DOUBTED_AFTER: Final = 64


@cache
def make_schema(*, pairs_once: bool) -> Any:
    """The fields of the index; `pairs_once` says that no chunk has a pair twice, so that nobody has to count them."""
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("id", indexed=True, fast=True)
    builder.add_unsigned_field("ticket", indexed=True)
    for field in FIELDS:
        # Frequencies without positions: no query of ours needs an order of words, and positions double the size.
        told = "basic" if pairs_once and field == "grams" else "freq"
        builder.add_text_field(field, tokenizer_name="whitespace", index_option=told)
    return builder.build()


def query_of(schema: Any, question: Question, *, known: Callable[[Term], bool], boost: Callable[[Term], float]) -> Any:
    """The query, or None where the index holds none of its terms; `boost` multiplies the score of a term."""

    def asked(term: Term) -> Any:
        query = tantivy.Query.term_query(schema, term.field, term.token, index_option="freq")
        return tantivy.Query.boost_query(query, boost(term))

    should = [asked(term) for term in question.all_terms if known(term)]
    if not should:
        return None
    for phrase in question.phrases:
        places = [[asked(term) for term in terms if known(term)] for terms in phrase]
        if all(places):
            should.append(_boolean(tantivy.Occur.Must, (_boolean(tantivy.Occur.Should, either) for either in places)))
    return _boolean(tantivy.Occur.Should, should)


def with_all(schema: Any, query: Any, tokens: Iterable[str]) -> Any:
    """The query, only where each of these stands somewhere a required term may stand."""
    needed = [
        _unscored(
            _boolean(
                tantivy.Occur.Should,
                [tantivy.Query.term_query(schema, field, token, index_option="freq") for field in REQUIRED_IN],
            )
        )
        for token in tokens
    ]
    return _boolean(tantivy.Occur.Must, (query, *needed)) if needed else query


def ranked(
    schema: Any, searcher: Any, query: Any, *, limit: int, selection: Selection, apart: Selection
) -> list[Scored]:
    """The best that the selection allows and that is not apart."""
    clause, exact = _clause(schema, selection)
    fetch = (limit if exact else limit * OVER_FETCH) + TIE_MARGIN
    while True:
        asked = query if clause is None else _boolean(tantivy.Occur.Must, (query, clause))
        hits = searcher.search(asked, fetch, count=False).hits
        ids, scores = ids_of(searcher, hits), np.array([score for score, _ in hits], dtype=np.float64)
        if selection.is_everything and apart.is_empty:
            best = in_order(ids, scores)
        else:
            allowed = selection.contains(ids) & ~apart.contains(ids)
            best = in_order(ids[allowed], scores[allowed])
        exhausted = len(hits) < fetch
        enough = len(best) >= limit and best[limit - 1].score > scores[-1] * (1 + SAME_SCORE)
        if exhausted or enough or (len(best) >= limit and fetch >= MAX_FETCH):
            return best[:limit]
        fetch *= OVER_FETCH
        if clause is None and fetch > MAX_FETCH and not selection.is_everything:
            # The filter allows little of what the query finds: now a large set of tickets is the cheaper way.
            clause = _ticket_clause(schema, selection & Selection.of_ranges([0], [_end(searcher)]))
            fetch = limit * OVER_FETCH


def _clause(schema: Any, selection: Selection) -> tuple[Any, bool]:
    """A condition that lets at least the selection through, or None; and whether it lets nothing else through."""
    if selection.is_everything:
        return None, True
    if len(selection.starts) <= MAX_RANGES:
        pairs = zip(selection.starts.tolist(), (selection.stops - 1).tolist(), strict=True)
        kind = tantivy.FieldType.Unsigned
        ranges = [tantivy.Query.range_query(schema, "id", kind, first, last) for first, last in pairs]
        return _unscored(_boolean(tantivy.Occur.Should, ranges)), True
    lengths = selection.stops - selection.starts
    if float(lengths.sum(dtype=np.float64)) <= MAX_SET:  # in floats: an open end would overflow the sum
        ids = np.repeat(selection.stops - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
        return _unscored(tantivy.Query.term_set_query(schema, "id", ids.tolist())), True
    low, high = selection.starts >> TICKET_BITS, (selection.stops - 1) >> TICKET_BITS
    if int((high - low + 1).sum()) > MAX_SET:
        return None, False
    return _ticket_clause(schema, selection), False


def _ticket_clause(schema: Any, selection: Selection) -> Any:
    low, high = selection.starts >> TICKET_BITS, (selection.stops - 1) >> TICKET_BITS
    tickets = {
        ticket for pair in zip(low.tolist(), high.tolist(), strict=True) for ticket in range(pair[0], pair[1] + 1)
    }
    return _unscored(tantivy.Query.term_set_query(schema, "ticket", sorted(tickets)))


def _end(searcher: Any) -> int:
    """One above the highest id."""
    hits = searcher.search(tantivy.Query.all_query(), 1, count=False, order_by_field="id").hits
    return int(ids_of(searcher, hits).max(initial=0)) + 1


def _boolean(occur: Any, parts: Any) -> Any:
    return tantivy.Query.boolean_query([(occur, part) for part in parts])


def _unscored(query: Any) -> Any:
    return tantivy.Query.const_score_query(query, 0.0)


class Learned:
    """What was learned of what a searcher sees, so far as it was asked for."""

    def __init__(self, schema: Any, searcher: Any) -> None:
        self.searcher, self.chunks = searcher, int(searcher.num_docs)
        self._schema = schema
        self._means: dict[str, float] = {}
        self._frequencies: dict[tuple[str, str], int] = {}
        self._missed = Counter[str]()  # by field that may be empty, the words that it does not have
        self._empty: set[str] = set()

    def mean(self, field: str, tokens: Iterable[str]) -> float:
        """How many terms a chunk has in this field on average, learned with one of the tokens."""
        if field not in self._means:
            self._means[field] = mean_length(self._schema, self.searcher, field, tokens)
        return self._means[field]

    def containing(self, field: str, token: str) -> int:
        """How many chunks have a token in a field; those that were removed count until a merge drops them."""
        if field in self._empty:
            return 0
        key = field, token
        found = self._frequencies.get(key)
        if found is None:
            if len(self._frequencies) >= KEPT_FREQUENCIES:
                self._frequencies.clear()
            found = self._frequencies[key] = min(self.chunks, int(self.searcher.doc_freq(field, token)))
            if field in HEAD:
                self._doubt(field, found)
        return found

    def _doubt(self, field: str, found: int) -> None:
        """Many documents have no tags and no description: of such fields nothing has to be asked.

        To see that one is empty takes no time, but with many titles it takes long to see that it is not.
        """
        self._missed[field] = -sys.maxsize if found else self._missed[field] + 1
        if self._missed[field] == DOUBTED_AFTER and not self.searcher.terms_with_prefix(field, "", limit=1):
            self._empty.add(field)


def mean_length(schema: Any, searcher: Any, field: str, tokens: Iterable[str]) -> float:
    """How many terms a chunk has in this field on average; 0 where the index holds none of the tokens.

    tantivy keeps it and tells it only where it explains a score.
    """
    token = next((token for token in tokens if searcher.doc_freq(field, token)), None)
    if token is None:
        return 0.0
    query = tantivy.Query.term_query(schema, field, token, index_option="freq")
    hits = searcher.search(query, 1, count=False).hits
    if not hits:
        return 0.0
    told = json.loads(query.explain(searcher, hits[0][1]).to_json())
    parts = [told]
    while parts:
        part = parts.pop()
        if part["description"].startswith("avgdl"):
            return float(part["value"])
        parts.extend(part.get("details", ()))
    return 0.0


def ids_of(searcher: Any, hits: Sequence[tuple[Any, Any]]) -> Ids:
    """The chunks' ids. ValueError where a chunk has none, as in a file that is damaged."""
    ids = searcher.fast_field_values("id", [address for _, address in hits])
    if None in ids:
        raise ValueError("a chunk has no id")
    return np.array(ids, dtype=np.int64)


def in_order(ids: Ids, scores: npt.NDArray[np.float64]) -> list[Scored]:
    """By score, those of the same score by id; `scores` comes in falling."""
    if not len(ids):
        return []
    falls = scores[1:] < scores[:-1] * (1 - SAME_SCORE)
    if falls.all():
        return list(map(Scored, ids.tolist(), scores.tolist()))
    first = np.concatenate(([True], falls))
    shared = scores[first][np.cumsum(first) - 1]
    order = np.lexsort((ids, -shared))
    return list(map(Scored, ids[order].tolist(), shared[order].tolist()))
