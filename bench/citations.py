"""How well are sentences traced to their sources? Sentences that say what a passage says, and sentences that do not.

python bench/citations.py SETS [--half test] [--each 25] [--write bench/results/citations.md] [--wrong]

Pairs are made from the test sets with a fixed seed and never kept. None of the sentences stands in its passage word for
word. Documents are cut in two halves by what they are about; thresholds were chosen on `build`, and `test` is reported.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import rjieba

import rewordings
from headwater.cite import cite
from headwater.models.static import StaticEmbedder
from headwater.protocols import Embedder
from headwater.statements import statements
from headwater.tokens import Cutter, fold
from headwater.types import Chunk, Citation, Context, Hit, Query, Record, Span

SEED: Final = 20261116
MAX_PASSAGE_CHARS: Final = 1500
# (questions with answers, documents to take sentences from)
SOURCES: Final = {
    "zh": (("zh_cmrc",), ("zh_cmrc", "zh_crud_event", "zh_dureader_robust")),
    "en": (("en_squad2",), ("en_squad2", "en_scifact", "en_pubmedqa")),
}
MOST_DOCUMENTS: Final = 1500  # of each set and half
SENTENCE_CHARS: Final = {"zh": (16, 90), "en": (50, 260)}
TRUE_KINDS: Final = ("answer", "clause dropped", "reordered", "number written", "traditional", "two passages")
# A true answer to another question about the same passage: its words are all there, and only what they mean is wrong.
# Reported by itself and in the line that says so.
BEYOND_WORDS: Final = "another answer"
# RAGFlow, rag/nlp/search.py: 0.1 of the words and 0.9 of the vectors; 0.63, and less until something is cited.
RAGFLOW_WORDS, RAGFLOW_VECTORS = 0.1, 0.9
RAGFLOW_FIRST, RAGFLOW_STEP, RAGFLOW_LEAST = 0.63, 0.8, 0.3


@dataclass(frozen=True)
class Pair:
    kind: str
    language: str
    sentence: str
    passages: tuple[str, ...]
    supported: bool  # by the passages together, and by nothing less


@dataclass(frozen=True)
class Source:
    id: str
    title: str
    text: str


# ------------------------------------------------------------------------------------------- made


def read(sets: Path, name: str, half: str) -> tuple[dict[str, Source], list[tuple[str, str, str]]]:
    """The documents of a half by id, and its questions: (document id, question, answer)."""
    documents = {}
    for row in _rows(sets / name / "corpus.jsonl"):
        about = row.get("title") or row["_id"]
        side = blake2b(f"{about}".encode(), digest_size=1).digest()[0] % 2
        if side == (half == "test") and len(row["text"]) <= MAX_PASSAGE_CHARS:
            id = f"{name} {row['_id']}"
            documents[id] = Source(id, row.get("title", ""), row["text"])
    relevant: dict[str, str] = {}
    for line in (sets / name / "qrels" / "test.tsv").read_text("utf-8").splitlines()[1:]:
        query, document, *_ = line.split("\t")
        relevant[query] = f"{name} {document}"
    questions = [
        (relevant[row["_id"]], row["text"], answer)
        for row in _rows(sets / name / "queries.jsonl")
        if row["_id"] in relevant and relevant[row["_id"]] in documents
        for answer in (row.get("metadata") or {}).get("answers", [])[:1]
        if isinstance(answer, str)
    ]
    return documents, questions


def _rows(path: Path) -> Iterator[dict]:
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


class Builder:
    """Makes the pairs of one language and half."""

    def __init__(self, sets: Path, spoken: str, half: str, embedder: Embedder) -> None:
        self.language, self.chance = spoken, random.Random(f"{SEED} {spoken} {half}")
        asked, told = SOURCES[spoken]
        self.documents: dict[str, Source] = {}
        self.questions: list[tuple[str, str, str]] = []
        for name in dict.fromkeys((*asked, *told)):
            documents, questions = read(sets, name, half)
            self.documents.update(dict(list(documents.items())[:MOST_DOCUMENTS]) if name not in asked else documents)
            if name in asked:
                self.questions += questions
        self.chance.shuffle(self.questions)
        self.ids = list(self.documents)
        self.vectors = embedder.embed([one.text for one in self.documents.values()], "passage")
        self.sentences = self._sentences()
        self.names = [(id, name) for id, said in self.sentences[:4000] for name in names(said, spoken)]

    def _sentences(self) -> list[tuple[str, str]]:
        least, most = SENTENCE_CHARS[self.language]
        found = []
        for id, source in self.documents.items():
            for one in statements(source.text):
                said = source.text[one.start : one.end]
                whole = said.endswith("。" if self.language == "zh" else ".") and "\n" not in said and "[" not in said
                if least <= len(said) <= most and whole and said.count("”") == said.count("“"):
                    found.append((id, said))
        self.chance.shuffle(found)
        return found

    def pairs(self, each: int) -> list[Pair]:
        """At most so many of each kind."""
        made: list[Pair] = []
        kinds: list[tuple[str, Callable[[], Iterator[tuple[str, tuple[str, ...]]]]]] = [
            ("answer", self._answers),
            ("clause dropped", lambda: self._reworded(lambda said: rewordings.clause_dropped(said, self.chance))),
            ("reordered", lambda: self._reworded(rewordings.reordered)),
            ("number written", lambda: self._reworded(rewordings.numbers_written)),
            ("two passages", self._spread),
            ("number changed", lambda: self._falsified(lambda id, said: rewordings.number_changed(said, self.chance))),
            ("name from elsewhere", lambda: self._falsified(self._other_name)),
            ("name of the same passage", lambda: self._falsified(self._name_beside)),
            ("another answer", self._other_answers),
            ("negated", lambda: self._falsified(lambda id, said: rewordings.negated(said, self.chance))),
            ("unrelated", self._unrelated),
            ("half of two passages", self._half),
        ]
        if self.language == "zh":
            kinds.insert(4, ("traditional", self._traditional))
        for kind, make in kinds:
            for _, (said, passages) in zip(range(each), make(), strict=False):
                made.append(Pair(kind, self.language, said, passages, kind in TRUE_KINDS))
        return made

    def _answers(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for id, question, answer in self.questions:
            said = rewordings.statement(question, answer)
            if said and said not in self.documents[id].text and answer in self.documents[id].text:
                yield said, (id,)

    def _reworded(self, change: Callable[[str], str | None]) -> Iterator[tuple[str, tuple[str, ...]]]:
        for id, sentence in self._fresh():
            said = change(sentence)
            if said and fold(said) not in fold(self.documents[id].text):
                yield said, (id,)

    def _traditional(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for said, ids in self._reworded(lambda said: rewordings.clause_dropped(said, self.chance)):
            if changed := rewordings.traditional(said):
                yield changed, ids

    def _falsified(self, change: Callable[[str, str], str | None]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What is changed is in turn a statement made of a question, a sentence without a clause, and a sentence."""
        for place, (own, sentence) in enumerate(self._fresh()):
            id, said = own, sentence
            if place % 3 == 0:
                id, question, answer = self.chance.choice(self.questions)
                said = rewordings.statement(question, answer)
            elif place % 3 == 1:
                said = rewordings.clause_dropped(sentence, self.chance)
            false = change(id, said) if said else None
            if false and fold(false) not in fold(self.documents[id].text):
                yield false, (id,)

    def _fresh(self) -> Iterator[tuple[str, str]]:
        start = self.chance.randrange(len(self.sentences))
        yield from self.sentences[start:]
        yield from self.sentences[:start]

    def _other_name(self, id: str, said: str) -> str | None:
        inside, text = names(said, self.language), fold(self.documents[id].text)
        others = [name for _, name in self.chance.sample(self.names, 30) if fold(name) not in text]
        return self._swapped(said, inside, others)

    def _name_beside(self, id: str, said: str) -> str | None:
        """A name of the same passage that the sentence does not have."""
        inside, text = names(said, self.language), self.documents[id].text
        others = [name for name in names(text, self.language) if fold(name) not in fold(said)]
        self.chance.shuffle(others)
        return self._swapped(said, inside, others)

    def _swapped(self, said: str, inside: Sequence[str], others: Sequence[str]) -> str | None:
        if not inside:
            return None
        name = self.chance.choice(inside)
        fitting = [
            other for other in others if not (set(fold(other)) >= set(fold(name))) and fold(name) not in fold(other)
        ]
        if said.count(name) != 1 or not fitting:
            return None
        return said.replace(name, fitting[0])

    def _other_answers(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The answer to another question about the same passage."""
        by_document: dict[str, list[str]] = {}
        for id, _, answer in self.questions:
            by_document.setdefault(id, []).append(answer)
        for id, question, answer in self.questions:
            others = [one for one in by_document[id] if not _alike(one, answer) and _shape(one) == _shape(answer)]
            if others and (said := rewordings.statement(question, self.chance.choice(others))):
                yield said, (id,)

    def _unrelated(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """A sentence and the passage most like its own document."""
        for id, sentence in self._fresh():
            near = np.argsort(-(self.vectors @ self.vectors[self.ids.index(id)]))
            other = next(
                self.ids[n]
                for n in near
                if (self.ids[n] != id and self.documents[self.ids[n]].title != self.documents[id].title) or n == near[9]
            )
            if fold(sentence) not in fold(self.documents[other].text):
                yield sentence, (other,)

    def _spread(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        found = [pair for pair in self.sentences if len(pair[1]) < SENTENCE_CHARS[self.language][1] * 0.6]
        for (one, first), (other, second) in zip(found[::2], found[1::2], strict=False):
            if one == other or rewordings.CONDITION.search(first + second):
                continue
            yield first[:-1] + ("，而" if self.language == "zh" else ", and ") + second, (one, other)

    def _half(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for place, (said, ids) in enumerate(self._spread()):
            if place % 2:
                yield said, ids[:1] if place % 4 == 1 else ids[1:]


def names(text: str, spoken: str) -> list[str]:
    """Names of people, places and organisations."""
    if spoken == "zh":
        found = [word for word, tag in rjieba.tag(text) if tag in ("nr", "ns", "nt", "nrt") and 2 <= len(word) <= 6]
    else:
        found = [one[0].strip() for one in re.finditer(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*(?![\w-])", text)]
    return list(dict.fromkeys(found))


def _alike(one: str, other: str) -> bool:
    first, second = fold(one), fold(other)
    return (
        first in second
        or second in first
        or len(set(first) & set(second)) > 0.6 * min(len(set(first)), len(set(second)))
    )


def _shape(answer: str) -> str:
    return "number" if re.search(r"\d", answer) else "name" if answer[:1].isupper() else "other"


# --------------------------------------------------------------------------------------- measured


def context(passages: Sequence[str]) -> Context:
    hits = tuple(
        Hit(
            chunk=Chunk(id=n << 20, span=Span(0, len(text)), text=text, document_id=str(n)),
            record=Record(id=str(n), uri=f"{n}.md", title=""),
            score=1.0,
        )
        for n, text in enumerate(passages, start=1)
    )
    return Context(query=Query(text="x"), hits=hits)


def citations(pair: Pair, texts: dict[str, str], embedder: Embedder | None, *, markers: str = "") -> list[Citation]:
    made = context([texts[id] for id in pair.passages])
    said = f"{pair.sentence[:-1]}{markers}{pair.sentence[-1]}"
    found = [one for sentence in cite([said], made, embedder=embedder) for one in sentence.citations]
    for one in found:
        assert texts[pair.passages[int(one.document_id) - 1]][one.span.start : one.span.end] == one.quote
    return found


def judged(pair: Pair, texts: dict[str, str], embedder: Embedder | None) -> bool:
    """Whether it is said to be supported, and by all the passages that it takes."""
    found = [one for one in citations(pair, texts, embedder) if one.support == "supported"]
    return len({one.document_id for one in found}) == len(pair.passages)


def ragflow(pair: Pair, texts: dict[str, str], embedder: Embedder, cutter: Cutter) -> bool:
    """The same by RAGFlow's rule, with the same embedder: whether it would cite them."""
    similar = []
    for id in pair.passages:
        first, second = embedder.embed([pair.sentence, texts[id]], "passage")
        said, there = (Counter(cutter.cut(text).words) for text in (pair.sentence, texts[id]))
        shared = sum(count for word, count in said.items() if word in there) / max(1, sum(said.values()))
        similar.append(RAGFLOW_WORDS * shared + RAGFLOW_VECTORS * float(first @ second))
    threshold = RAGFLOW_FIRST
    while threshold > RAGFLOW_LEAST and max(similar) < threshold:
        threshold *= RAGFLOW_STEP
    return min(similar) >= threshold > RAGFLOW_LEAST


def rates(rows: Sequence[tuple[Pair, bool]]) -> tuple[float, float]:
    right = sum(pair.supported and said for pair, said in rows)
    precision = right / max(1, sum(said for _, said in rows))
    return precision, right / max(1, sum(pair.supported for pair, _ in rows))


def placed(pairs: Sequence[Pair], texts: dict[str, str], embedder: Embedder) -> dict[str, float]:
    """True sentences of one passage among four: which is cited without a marker, and with a wrong one."""
    chance, ids = random.Random(SEED), sorted(texts)
    counts: Counter[str] = Counter()
    for pair in pairs:
        if not pair.supported or len(pair.passages) > 1:
            continue
        own = pair.passages[0]
        shown = [*chance.sample([id for id in ids if id != own], 3), own]
        chance.shuffle(shown)
        wrong = next(n for n, id in enumerate(shown, start=1) if id != own)
        for name, markers in (("no marker", ""), ("a wrong marker", f"[{wrong}]")):
            made = Pair(pair.kind, pair.language, pair.sentence, tuple(shown), True)
            cited = {shown[int(one.document_id) - 1] for one in citations(made, texts, embedder, markers=markers)}
            counts[f"{name}: "] += 1
            counts[f"{name}: the right one"] += cited == {own}
            counts[f"{name}: a wrong one"] += bool(cited - {own})
    return {
        name: count / counts[name.split(": ")[0] + ": "] for name, count in counts.items() if not name.endswith(": ")
    }


def main() -> None:
    told = argparse.ArgumentParser(description=__doc__)
    told.add_argument("sets", type=Path)
    told.add_argument("--half", choices=("build", "test"), default="test")
    told.add_argument("--each", type=int, default=25)
    told.add_argument("--write", type=Path)
    told.add_argument("--wrong", action="store_true", help="print what was judged wrongly")
    given = told.parse_args()
    embedder, cutter = StaticEmbedder(), Cutter()
    pairs: list[Pair] = []
    texts: dict[str, str] = {}
    for spoken in SOURCES:
        made = Builder(given.sets, spoken, given.half, embedder)
        pairs += made.pairs(given.each)
        texts.update({id: source.text for id, source in made.documents.items()})
    ours = [(pair, judged(pair, texts, embedder)) for pair in pairs]
    words = [(pair, judged(pair, texts, None)) for pair in pairs]
    theirs = [(pair, ragflow(pair, texts, embedder, cutter)) for pair in pairs]
    lines = [
        f"# Citations: {len(pairs)} sentences with passages, half `{given.half}`",
        "",
        "Precision: of what is called supported, the part that is. Recall: of what is, the part that is called so.",
        "",
        "| | pairs | precision | recall | words only: precision | recall | RAGFlow's rule: precision | recall |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, keep, kinds in (
        ("all", ("zh", "en"), False),
        ("zh", ("zh",), False),
        ("en", ("en",), False),
        (f"all, with `{BEYOND_WORDS}`", ("zh", "en"), True),
    ):
        shown = [
            [(pair, said) for pair, said in rows if pair.language in keep and (kinds or pair.kind != BEYOND_WORDS)]
            for rows in (ours, words, theirs)
        ]
        figures = " | ".join(f"{figure:.3f}" for rows in shown for figure in rates(rows))
        lines.append(f"| {name} | {len(shown[0])} | {figures} |")
    lines += [
        "",
        "Called supported, of each kind:",
        "",
        "| kind | is | zh | en | zh, RAGFlow's | en, RAGFlow's |",
        "|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(pair.kind for pair in pairs):
        cells = []
        for rows in (ours, theirs):
            for spoken in SOURCES:
                said = [one for pair, one in rows if pair.kind == kind and pair.language == spoken]
                cells.append(f"{sum(said)} of {len(said)}" if said else "")
        lines.append(f"| {kind} | {'supported' if kind in TRUE_KINDS else 'not'} | {' | '.join(cells)} |")
    lines += ["", "True sentences among four passages, of which one is theirs:", ""]
    lines += [f"- {name}: {share:.3f}" for name, share in placed(pairs, texts, embedder).items()]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.wrong:
        for pair, said in ours:
            if said != pair.supported:
                print(f"{pair.kind} ({pair.language}) called {'supported' if said else 'not'}: {pair.sentence}")
                for id in pair.passages:
                    print(f"    {texts[id][:700]}")
    if given.write:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
