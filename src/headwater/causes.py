"""What keeps a document out of a search, and what would change that: what can be told without searching again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.filters import Filter, to_text
from headwater.highlight import STOP_WORDS, Terms
from headwater.tokens import Cutter, fold, is_cjk, language
from headwater.types import Chunk, Mode, Query, Record, attributes

Lanes = Mapping[str, Mapping[str, tuple[str, ...]]]
UNKNOWN: Final = "no document has that id or uri here: it was never added, or it was removed"
# Terms of a lane that are shown: of a page pasted as a query the first tell enough.
MOST_TERMS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the best passage of a document stood after one stage; no rank where none was left."""

    stage: str
    of: int  # how many were there
    rank: int | None = None
    score: float | None = None
    passage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a document is among the hits of a query, or why not."""

    query: str
    document: str  # as it was asked for
    found: bool
    cause: str  # one word for what kept it out; empty where it was found
    reason: str
    document_id: str = ""
    uri: str = ""
    title: str = ""
    rank: int | None = None
    change: str = ""  # the smallest that was tried and brings it in; empty where none is known
    changes: Mapping[str, Any] = field(default_factory=dict)  # the same as arguments of a search
    stages: tuple[Standing, ...] = ()
    matched: tuple[str, ...] = ()  # words of the query that it has
    missing: tuple[str, ...] = ()
    lanes: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)  # how the words were cut
    filters: Mapping[str, bool] = field(default_factory=dict)  # by clause: whether a passage of it fits
    notes: tuple[str, ...] = ()


def unknown(query: str, document: str, *, pending: bool = False) -> Explanation:
    """What is said of a document that is not here, whatever the reason; one that is on its way is told to be."""
    if pending:
        reason = "it waits to be indexed; it can be found when that is done"
        change = "wait until it is indexed, or run `headwater add` again"
        return Explanation(query=query, document=document, found=False, cause="pending", reason=reason, change=change)
    return Explanation(query=query, document=document, found=False, cause="unknown", reason=UNKNOWN)


@dataclass(frozen=True, slots=True)
class Change:
    """Something to ask otherwise. What is `untried` cannot be tried by searching: it is done to the document."""

    said: str
    options: Mapping[str, Any] = field(default_factory=dict)
    where: Filter | None = None
    text: str | None = None
    archived: bool = False  # look among the archived too
    untried: bool = False

    def arguments(self) -> dict[str, Any]:
        """As arguments of a search."""
        told: dict[str, Any] = {}
        if self.text is not None:
            told["query"] = self.text
        if self.where is not None:
            told["where"] = to_text(self.where)
        if self.archived:
            told["archived"] = True
        if self.options:
            told["options"] = dict(self.options)
        return told


@dataclass(frozen=True, slots=True)
class Cause:
    """One word for what happened, a sentence, and what may help, the smallest first."""

    name: str
    reason: str
    changes: tuple[Change, ...] = ()


def out_of_reach(record: Record, chunks: Sequence[Chunk], *, archived: Filter) -> Cause | None:
    """What keeps a document out of every search of this caller."""
    again = "mend it and run `headwater add` again"
    if not record.ticket and record.state == "failed":
        return Cause("failed", f"it could not be read: {record.error}", (Change(again, untried=True),))
    if record.state in ("pending", "processing") and not chunks:
        return Cause("pending", "it waits to be indexed", (Change("wait until it is indexed", untried=True),))
    if record.state == "empty" or not chunks:
        told = "; ".join(record.problems)
        reason = f"it has no text that could be found{f' ({told})' if told else ''}"
        return Cause("empty", reason, (Change(again, untried=True),))
    if not archived.matches(attributes(record)):
        return Cause("archived", "it is archived", (Change("archived = true", archived=True),))
    return None


def says_nothing(text: str, cutter: Cutter) -> bool:
    """Whether a query has only words that stand in every text."""
    folded, words = fold(text), cutter.words_in(text)
    return bool(words) and all(folded[word.start : word.end] in STOP_WORDS for word in words)


def lexical(text: str, texts: Sequence[str], cutter: Cutter) -> tuple[tuple[str, ...], tuple[str, ...], Lanes]:
    """The words of a query that the texts have and lack, and the same for the terms of each lane of the index."""
    asked = cutter.query(text)
    cut = [cutter.cut(one) for one in texts]
    lanes: dict[str, dict[str, tuple[str, ...]]] = {}
    for lane in ("words", "grams", "codes"):
        wanted = list(dict.fromkeys(getattr(asked, lane)))[:MOST_TERMS]
        there = {term for lanes_of in cut for term in getattr(lanes_of, lane)}
        if wanted:
            lanes[lane] = {
                "matched": tuple(term for term in wanted if term in there),
                "missing": tuple(term for term in wanted if term not in there),
            }
    terms = Terms.of(text, cutter)
    found = {match.term for one in texts for match in terms.find(one)}
    words = list(dict.fromkeys((*terms.han, *(word.term for word in terms.words if not is_cjk(word.term[0])))))
    matched = tuple(terms.shown(word) for word in words if word in found)
    return matched, tuple(terms.shown(word) for word in words if word not in found), lanes


def no_words(
    text: str, texts: Sequence[str], cutter: Cutter, *, query: Query, changes: tuple[Change, ...] = ()
) -> Cause:
    """Why no leg can reach a document: another language, characters inside of longer words, or nothing in common."""
    mode: Mode = query.options.mode
    matched, missing, _ = lexical(text, texts, cutter)
    body = "\n".join(texts)
    within = [word for word in missing if fold(word) in fold(body)]
    if within:
        substring = Change("mode = substring", text=within[0], options={"mode": "substring"})
        reason = f"{within[0]!r} stands in it only inside of longer words, which are not cut there"
        return Cause("tokeniser", reason, (substring, *changes))
    if not matched and language(text) != language(body):
        reason = "the query and the document are in different languages and have no word in common"
        return Cause("language", reason, changes)
    if matched:
        reason = f"it has {', '.join(matched[:5])}, and other passages have so much more of the query"
        return Cause("candidates", reason, changes)
    reason = "it has none of the words of the query" + (f", and mode {mode} compares words only" * (mode == "keyword"))
    return Cause("words", reason, changes)
