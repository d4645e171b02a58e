"""A question -> asked in several ways at once, and what they find fused by score.

The ways come from a rewriter (a language model), from a table of synonyms, from an imagined answer (HyDE, Gao et al.,
ACL 2023), or from the words of the first hits (RM3, Abdul-Jaleel et al., TREC 2004).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import replace
from math import log
from typing import Any, Final, NamedTuple

from headwater.errors import BackendError
from headwater.highlight import STOP_WORDS
from headwater.protocols import Retriever, Rewriter
from headwater.stages._request import Watch, first, in_order, made, place, stretched, wanted, with_score, within
from headwater.tokens import Cutter
from headwater.types import Hit, Query, Results

STAGE = "rewrite"
# Of what is left of the deadline, for thinking of other ways to ask: the rest is for asking.
THINKING_SHARE: Final = 0.5
# All other ways to ask together count half of the question itself, so that they cannot outvote it. docs/evaluation.md.
OTHER_WEIGHT: Final = 0.5
PICKUP_SECONDS: Final = 0.02  # as for a leg: a pool that has not begun by then is full
# RM3's usual ten documents and ten terms are for pages; passages are shorter and fewer of them are right.
FEEDBACK_HITS: Final = 5
FEEDBACK_TERMS: Final = 8
FEEDBACK_SEEN: Final = 2  # a word of one hit alone says something of that hit, not of the subject


class Way(NamedTuple):
    """One way to ask, and what differs in the options: an imagined answer is compared by meaning."""

    text: str
    options: Mapping[str, Any]
    weight: float


class Several:
    """A Retriever that asks the one inside in several ways. What fails on the way is left out and told."""

    def __init__(
        self,
        inner: Retriever,
        *,
        pool: Executor,
        rewriter: Rewriter | None = None,
        variants: Callable[[str], Sequence[str]] | None = None,
    ) -> None:
        self._inner, self._pool, self._rewriter, self._variants = inner, pool, rewriter, variants

    def retrieve(self, query: Query) -> Results:
        """The fused hits of all ways; exactly those of the question where there is no other way."""
        watch = Watch(query)
        lacking: list[str] = []
        ways = [Way(query.text, {}, 1.0), *self._ways(query, watch, lacking)]
        ways = list({(way.text, *way.options.values()): way for way in reversed(ways)}.values())[::-1]
        others = sum(way.weight == OTHER_WEIGHT for way in ways)
        depth = max(wanted(query), query.options.candidates)
        asked = [replace(first(query, depth, **way.options), text=way.text) for way in ways]
        # Begun beside each other; the question itself is searched by the caller's thread.
        begun = [self._pool.submit(self._inner.retrieve, one) for one in asked[1:]]
        found = [watch.inside(lambda: self._inner.retrieve(asked[0]))]
        weights = [1.0]
        for way, one, future in zip(ways[1:], asked[1:], begun, strict=True):
            try:
                found.append(self._await(future, one, watch))
                weights.append(way.weight / others if way.weight == OTHER_WEIGHT else way.weight)
            except BackendError as error:
                lacking.append(f"a rewritten question was left out: {error}")
        if len(found) == 1:
            return made(found[0], found[0].hits[: wanted(query)], stage=STAGE, watch=watch, lacking=lacking)
        return merged(found, weights, query=query, watch=watch, lacking=lacking)

    def _ways(self, query: Query, watch: Watch, lacking: list[str]) -> list[Way]:
        options, ways = query.options, []
        if options.synonyms and self._variants is not None:
            ways += [Way(text, {}, OTHER_WEIGHT) for text in self._variants(query.text)[: options.rewrites]]
        if (options.rewrite or options.hyde) and self._rewriter is None:
            what = " and ".join(name for name in ("rewrite", "hyde") if getattr(options, name))
            lacking.append(f"{what} skipped: no language model is set up")
            return ways
        rewriter = self._rewriter
        if rewriter is None:
            return ways
        if options.rewrite:
            limit, seconds = options.rewrites, watch.left * THINKING_SHARE
            try:
                texts = within(seconds, lambda: rewriter.rewrites(query.text, limit=limit, deadline_seconds=seconds))
                ways += [Way(text, {}, OTHER_WEIGHT) for text in texts[:limit] if text.strip()]
            except BackendError as error:
                lacking.append(f"rewrite skipped: {error}")
        if options.hyde:
            seconds = watch.left * THINKING_SHARE
            try:
                imagined = within(seconds, lambda: rewriter.imagined(query.text, deadline_seconds=seconds))
                # Words that a model made up are no words to search for; their meaning may be near the answer's.
                mode = {"mode": "semantic"} if options.mode == "hybrid" else {}
                ways += [Way(imagined, mode, 1.0)] if imagined.strip() and options.mode != "keyword" else []
            except BackendError as error:
                lacking.append(f"hyde skipped: {error}")
        return ways

    def _await(self, future: Future[Results], one: Query, watch: Watch) -> Results:
        wait([future], timeout=min(PICKUP_SECONDS, watch.left))
        if future.cancel():
            if watch.left == 0.0:
                raise BackendError("no time was left to ask it")
            return watch.inside(lambda: self._inner.retrieve(one))
        try:
            return watch.inside(lambda: future.result(timeout=watch.left))
        except TimeoutError:
            raise BackendError("it was not done in time") from None


class Fed:
    """A Retriever that asks the one inside again with the telling words of its first hits."""

    def __init__(self, inner: Retriever, *, cutter: Cutter) -> None:
        self._inner, self._cutter = inner, cutter

    def retrieve(self, query: Query) -> Results:
        """The hits of both times, fused; of the first alone where its hits have no words in common."""
        watch = Watch(query)
        depth = max(wanted(query), query.options.candidates)
        asked = first(query, depth)
        before = watch.inside(lambda: self._inner.retrieve(asked))
        words = telling(query.text, before.hits, self._cutter)
        if not words:
            return made(before, before.hits[: wanted(query)], stage="feedback", watch=watch)
        again = replace(first(query, depth, deadline_seconds=watch.left), text=f"{query.text} {' '.join(words)}")
        try:
            after = watch.inside(lambda: self._inner.retrieve(again))
        except BackendError as error:
            hits = before.hits[: wanted(query)]
            return made(before, hits, stage="feedback", watch=watch, lacking=[f"feedback skipped: {error}"])
        weights = [1.0, OTHER_WEIGHT]
        return merged([before, after], weights, query=query, watch=watch, lacking=[], stage="feedback")


def telling(text: str, hits: Sequence[Hit], cutter: Cutter) -> list[str]:
    """Words that the first hits share and the others do not, most telling first; none of the query's own."""
    own = set(cutter.cut(text).words)
    cut = [Counter(cutter.cut(hit.chunk.text).words) for hit in hits]
    everywhere: Counter[str] = Counter(word for counts in cut for word in counts)
    near: Counter[str] = Counter(word for counts in cut[:FEEDBACK_HITS] for word in counts)
    strength: Counter[str] = Counter()
    for rank, counts in enumerate(cut[:FEEDBACK_HITS], start=1):
        length = max(counts.total(), 1)
        for word, count in counts.items():
            strength[word] += count / length / rank  # type: ignore[assignment]
    scored = {
        word: value * log((len(cut) + 1) / (everywhere[word] + 0.5))
        for word, value in strength.items()
        if near[word] >= FEEDBACK_SEEN and word not in own and word not in STOP_WORDS and len(word) > 1
    }
    best = sorted(scored, key=lambda word: (-scored[word], word))[:FEEDBACK_TERMS]
    return [word for word in best if scored[word] > 0]


def merged(
    found: Sequence[Results],
    weights: Sequence[float],
    *,
    query: Query,
    watch: Watch,
    lacking: Sequence[str],
    stage: str = STAGE,
) -> Results:
    """Several results -> one, by the weighted sum of their scores, each way's stretched over 0 to 1.

    A hit keeps the scores of the first way that found it. Ranks in the place of scores would not do: what is certain by
    the question's own words, far ahead of all others, is worth no more there than any first place (docs/evaluation.md).
    """
    points: dict[int, float] = {}
    hits: dict[int, Hit] = {}
    total = sum(weights)
    for number, (results, weight) in enumerate(zip(found, weights, strict=True)):
        strengths = stretched([hit.score for hit in results.hits])
        for hit, strength in zip(results.hits, strengths, strict=True):
            id = hit.chunk.id
            points[id] = points.get(id, 0.0) + weight / total * strength
            if id not in hits:
                said = () if number == 0 else ("found by another way to ask",)
                hits[id] = replace(hit, reasons=(*hit.reasons, *said))
            elif hit.scores.get("fused", 0.0) > hits[id].scores.get("fused", 0.0):
                hits[id] = with_score(hits[id], "fused", hit.scores["fused"])
    order = sorted(hits.values(), key=lambda hit: (-points[hit.chunk.id], place(hit)))
    scored = [with_score(hit, stage, points[hit.chunk.id], score=points[hit.chunk.id]) for hit in order]
    base = found[0]
    counts: dict[str, int] = {}
    for results in found:
        for document_id, count in results.document_counts.items():
            counts[document_id] = max(count, counts.get(document_id, 0))
    notes = [note for results in found[1:] for note in results.degraded]
    whole = replace(
        base, total=max(*(results.total for results in found), len(order)), document_counts=in_order(scored, counts)
    )
    return made(whole, scored[: wanted(query)], stage=stage, watch=watch, lacking=[*notes, *lacking])
