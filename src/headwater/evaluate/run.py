"""A test set and settings -> an index of its own -> every query searched -> rows that can be summed up.

The search is `KnowledgeBase.search` with the settings given: what is measured is what people get. A document of the set
is one chunk, so that figures can be compared with other systems'; `cut` has the chunker of the settings cut them, and
then a document ranks where its best chunk does. Indexes are kept in a folder and used again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from headwater.build import KnowledgeBase, open_home
from headwater.config import MODELS_FOLDER, Config
from headwater.evaluate.dataset import JudgedSet
from headwater.evaluate.metrics import DEEPEST, METRICS, judged
from headwater.indexer import Progress
from headwater.protocols import Chunker, Embedder
from headwater.registry import accepted, check_settings, load
from headwater.types import DEFAULT_COLLECTION, Chunk, Document, Mode, Results, Span, document_id

MODES: Final[tuple[Mode, ...]] = ("keyword", "semantic", "hybrid")
COMPLETE: Final = "complete"  # a file that says that all documents are in
LAYOUT: Final = 1  # grows with every change of how an entry becomes a document
# What decides how an index comes out, besides settings. Another version of it makes another index.
WRITE_PATH: Final = ("tokens.py", "clean.py", "documents.py", "chunkers/*.py", "indexer.py", "storage/*.py")
LETTERS: Final = str.maketrans("0123456789", "ghijklmnop")

OnIndexed = Callable[[Progress], None]
OnSearched = Callable[[int, int], None]


class WholeDocument:
    """A chunker that does not cut."""

    fingerprint = "whole/1"

    def chunk(self, document: Document) -> list[Chunk]:
        """The document as one passage; none where it is empty."""
        if not document.text.strip():
            return []
        return [Chunk(span=Span(0, len(document.text)), text=document.text)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One query searched in one mode. Ids are those of the set."""

    query_id: str
    ranking: tuple[str, ...]
    metrics: Mapping[str, float]
    milliseconds: float


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Every query of a set in one mode."""

    set_name: str
    documents: int
    mode: Mode
    embedder: str
    preset: str
    settings: Mapping[str, str]  # those of retrieval that differ from the defaults of the code
    rows: tuple[Row, ...]
    degraded: tuple[str, ...] = ()  # what did not work as asked, in words

    @cached_property
    def summary(self) -> dict[str, float | int]:
        """The means, how many queries, and the latency."""
        took = [row.milliseconds for row in self.rows]
        middle, late = np.percentile(took, [50, 95]).tolist()
        means: dict[str, float | int] = {name: float(np.mean(self.values(name))) for name in METRICS}
        return {**means, "queries": len(self.rows), "p50_ms": middle, "p95_ms": late}

    def values(self, metric: str) -> list[float]:
        """One value per query, in the order of the set."""
        return [row.metrics[metric] for row in self.rows]


def make_embedder(config: Config, *, home: Path) -> Embedder:
    """The embedder of the settings, with the models of a home. Made once: a large one takes long to load."""
    made: Embedder = _component(config, "embed", models_folder=home / MODELS_FOLDER)
    return made


@contextmanager
def indexed(
    judged_set: JudgedSet,
    config: Config,
    *,
    work: Path,
    embedder: Embedder,
    cut: bool = False,
    on_progress: OnIndexed | None = None,
) -> Iterator[KnowledgeBase]:
    """A knowledge base with the documents of a set, from an earlier run where there is one."""
    chunker: Chunker = _component(config, "chunk", embedder=lambda: embedder) if cut else WholeDocument()
    home = work / f"{judged_set.name}-{_key(judged_set, config, embedder, chunker)}"
    with open_home(home, config=config, embedder=embedder, chunker=chunker) as kb:
        if not (home / COMPLETE).exists():
            kb.add_documents(_documents(judged_set), on_progress=on_progress)
            (home / COMPLETE).touch()
        yield kb


def measure(
    kb: KnowledgeBase,
    judged_set: JudgedSet,
    mode: Mode,
    *,
    options: Mapping[str, Any] | None = None,
    on_progress: OnSearched | None = None,
) -> Measurement:
    """Search for every query, one after the other, with these `options` over those of the settings."""
    ids = document_names(kb, judged_set)
    rows: list[Row] = []
    degraded: dict[str, None] = {}
    texts = list(judged_set.queries.values())
    # Every search is made: one that was kept from before would take no time.
    fresh = {**(options or {}), "cache_size": 0}
    kb.search(texts[0], mode=mode, options=fresh)  # the first search opens the index; nobody waits for that twice
    for query_id, text in judged_set.queries.items():
        began = perf_counter()
        results = kb.search(text, mode=mode, options=fresh)
        took = (perf_counter() - began) * 1000
        ranking = tuple(ids[found] for found in ranked_documents(results)[:DEEPEST])
        metrics = judged(ranking, judged_set.judgements[query_id])
        rows.append(Row(query_id=query_id, ranking=ranking, metrics=metrics, milliseconds=took))
        degraded.update(dict.fromkeys(results.degraded))
        if on_progress is not None:
            on_progress(len(rows), len(texts))
    return Measurement(
        set_name=judged_set.name,
        documents=len(ids),
        mode=mode,
        embedder=kb.embedder.fingerprint,
        preset=str(kb.config.settings["preset"].value) if "preset" in kb.config.settings else "",
        settings={name: str(found.value) for name, found in sorted(kb.config.settings.items()) if "." in name},
        rows=tuple(rows),
        degraded=tuple(degraded),
    )


def document_names(kb: KnowledgeBase, judged_set: JudgedSet) -> dict[str, str]:
    """The id that a document has in the set, by the one that it has in the knowledge base."""
    return {document_id(kb.owner, DEFAULT_COLLECTION, _uri(id)): id for id in judged_set.document_ids}


def ranked_documents(results: Results) -> list[str]:
    """Every document found, by its best chunk: those of the page first, then the rest of the candidates."""
    return list(dict.fromkeys([*(hit.document_id for hit in results), *results.document_counts]))


def _documents(judged_set: JudgedSet) -> Iterator[Document]:
    for entry in judged_set.entries():
        # A page has its title on it, and that is where an embedder sees it.
        parts = (entry.title, entry.text) if not entry.text.startswith(entry.title) else (entry.text,)
        yield Document(uri=_uri(entry.id), title=entry.title, text="\n\n".join(part for part in parts if part))


def _uri(id: str) -> str:
    """A name without meaning, in letters: addresses are searched, and `42` in a query is not about document 42."""
    return blake2b(id.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest().translate(LETTERS)


def _component(config: Config, section: str, **given: object) -> Any:
    group, name, arguments = config.component(section)
    component = load(group, name)
    check_settings(component, arguments, section=section, given=tuple(given))
    return component(**accepted(component, given), **arguments)


def _key(judged_set: JudgedSet, config: Config, embedder: Embedder, chunker: Chunker) -> str:
    stores = [config.component(section) for section in ("catalog", "text_index", "vector_index")]
    parts: Sequence[object] = (
        LAYOUT,
        judged_set.corpus_digest,
        embedder.fingerprint,
        chunker.fingerprint,
        [(name, sorted(arguments.items())) for _, name, arguments in stores],
        config.tokens(),
        _code_digest(),
    )
    return blake2b(repr(parts).encode(), digest_size=6).hexdigest()


def _code_digest() -> str:
    package, found = Path(__file__).parents[1], blake2b(digest_size=16)
    for path in sorted(path for pattern in WRITE_PATH for path in package.glob(pattern)):
        found.update(path.read_bytes())
    return found.hexdigest()
