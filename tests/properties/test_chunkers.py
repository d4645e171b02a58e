"""Any document by any strategy: exact slices that cover all, no row and no letter cut, nothing too large."""

import time
import unicodedata
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.chunkers._layout import Blocks
from headwater.chunkers._making import facts
from headwater.chunkers.auto import STRATEGIES, AutoChunker
from headwater.chunkers.contextual import ContextualChunker
from headwater.chunkers.hierarchical import HierarchicalChunker
from headwater.chunkers.meta import MetaChunker
from headwater.chunkers.recursive import RecursiveChunker
from headwater.chunkers.semantic import SemanticChunker
from headwater.chunkers.sentence import SentenceChunker
from headwater.chunkers.whole import WholeChunker
from headwater.models.hashed import HashedEmbedder
from headwater.protocols import Chunker
from headwater.testing.chunker_contract import check_coverage, check_parents, check_rows, check_slices, sample, small
from headwater.tokens import Unit, length
from headwater.types import Chunk, Document

EMBEDDER = HashedEmbedder(dim=32)
WORDS = [
    *(
        "alpha",
        "beta",
        "C++",
        "3.14",
        "a_b.c",
        "e.g.",
        "supercalifragilistic" * 4,
        "“quoted”",
        "e\u0301",
        "👨‍👩‍👧",
        "%",
    ),
    *(
        "北京大学",
        "的",
        "检索",
        "こんにちは",
        "안녕",
        "𠮷",
        "\u200b",
        "Q:",
        "A:",
        "\n问：",
        "\n答：",
        "\nQ1. ",
        "\nA1. ",
    ),
    *("。", "！", "？", ". ", "! ", "; ", "；", "，", ", ", " ", "\n", "\n\n", "\t", "\u3000", "\f", "\r\n"),
]
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=120).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
)
outlines = st.text("HPPTCQNX", max_size=25)
sizes = st.tuples(st.integers(1, 80), st.integers(0, 79)).map(lambda pair: (pair[0], pair[1] % pair[0]))
units = st.sampled_from(["chars", "tokens"])

MAKERS: dict[str, Callable[[int, int, Unit], Chunker]] = {
    "recursive": lambda size, part, unit: RecursiveChunker(size=size, overlap=part, unit=unit),
    "sentence": lambda size, part, unit: SentenceChunker(size=size, minimum=part, unit=unit),
    "semantic": lambda size, part, unit: SemanticChunker(
        embedder=lambda: EMBEDDER, size=size, minimum=part, unit=unit, drift=0.5
    ),
    "paragraphs": lambda size, part, unit: SemanticChunker(
        embedder=lambda: EMBEDDER, size=size, minimum=part, unit=unit, grain="paragraphs"
    ),
    "meta": lambda size, part, unit: MetaChunker(size=size, overlap=part, unit=unit),
    "meta of sentences": lambda size, _, unit: MetaChunker(inner="sentence", size=size, overlap=0, unit=unit),
    "contextual": lambda size, part, unit: ContextualChunker(size=size, overlap=part, unit=unit),
    "hierarchical": lambda size, part, unit: HierarchicalChunker(
        size=size, overlap=part, parent_size=5 * size, unit=unit
    ),
    "whole": lambda size, _, unit: WholeChunker(size=size, unit=unit),
    "auto": lambda size, part, unit: AutoChunker(size=size, overlap=part, unit=unit),
}
every_strategy = pytest.mark.parametrize("name", MAKERS)
# What auto does not take from its settings.
OWN_SIZE = {"auto": 2048}


@every_strategy
@given(texts, sizes, units)
def test_any_text(name: str, text: str, bounds: tuple[int, int], unit: Unit) -> None:
    document = Document(uri="a", text=text)
    chunker = MAKERS[name](*bounds, unit)
    chunks = chunker.chunk(document)
    check_slices(document, chunks)
    check_coverage(document, chunks)
    check_parents(chunks)
    assert chunks == MAKERS[name](*bounds, unit).chunk(document)
    for chunk in small(chunks):
        assert length(chunk.text, unit) <= max(bounds[0], OWN_SIZE.get(name, 0))


@every_strategy
@given(outlines, sizes, units)
def test_any_structure(name: str, parts: str, bounds: tuple[int, int], unit: Unit) -> None:
    document = sample(parts)
    chunks = MAKERS[name](*bounds, unit).chunk(document)
    check_slices(document, chunks)
    check_coverage(document, chunks)
    check_rows(document, chunks)
    check_parents(chunks)
    tables = [(*block.rows, block.span.end) for block in document.blocks if block.rows]
    rows = {document.text[start:end].strip() for table in tables for start, end in pairwise(table)}
    for chunk in small(chunks):
        assert chunk.text in rows or length(chunk.text, unit) <= max(bounds[0], OWN_SIZE.get(name, 0))


@every_strategy
@given(outlines, st.integers(25, 80))
def test_letters_and_headings_stay_whole(name: str, parts: str, size: int) -> None:
    """From a size on at which they fit: marks stay on their letters, a heading with the start of its text."""
    document = sample(parts)
    text = document.text
    chunks = MAKERS[name](size, size // 5, "tokens").chunk(document)
    for chunk in chunks:
        for edge in chunk.span:
            if 0 < edge < len(text):
                assert unicodedata.category(text[edge]) not in ("Mn", "Mc", "Me"), text[edge - 3 : edge + 3]
                assert "\u200d" not in text[edge - 1 : edge + 1]
    bodies = [section for section in document.structure if _follows(document, section.span.start)]
    for section in bodies:
        holding = [chunk for chunk in small(chunks) if chunk.span.start <= section.span.start < chunk.span.end]
        assert holding
        heading_end = text.index("\n", section.span.start)
        assert all(chunk.span.end > heading_end + 1 for chunk in holding), holding


def _follows(document: Document, heading: int) -> bool:
    """Whether text that may be in the same chunk follows the heading."""
    end = document.text.index("\n", heading)
    start = end + len(document.text[end:]) - len(document.text[end:].lstrip())
    apart = [*document.hidden, *(block.span for block in document.blocks if block.rows)]
    return start < len(document.text) and not any(span.start <= start < span.end for span in apart)


@given(outlines, st.sampled_from(["recursive", "sentence", "semantic"]))
def test_quotes_are_apart_from_prose(parts: str, name: str) -> None:
    document = sample(parts.replace("H", "P"))
    for chunk in MAKERS[name](200, 20, "tokens").chunk(document):
        inside = [block for block in document.blocks if block.kind == "quote" and _touch(block.span, chunk)]
        assert all(block.span.start <= chunk.span.start and chunk.span.end <= block.span.end for block in inside)


def _touch(span: tuple[int, int], chunk: Chunk) -> bool:
    return span[0] < chunk.span.end and chunk.span.start < span[1]


@given(outlines, st.sampled_from(["meta", "auto", "hierarchical"]))
def test_what_is_told_is_for_the_index_only(parts: str, name: str) -> None:
    document = sample(parts)
    blocks = Blocks(document.blocks)
    for chunk in small(MAKERS[name](40, 5, "tokens").chunk(document)):
        words = facts(document, chunk.span, blocks).cleaned
        assert chunk.searchable_text.endswith(words)
        assert "<meta>" not in chunk.searchable_text
        if chunk.index_text.startswith("<meta>"):
            assert chunk.index_text.endswith(f"</meta>\n<content>{words}</content>")
            assert chunk.section in chunk.index_text


MEGABYTES = 5
HEAVY = {
    "prose": "The gauge at the weir was read at 3.14 m, e.g. before noon. 水位计每天早上八点读数，然后上报。\n\n",
    "one line": "word 字",
    "questions": "Q: How high is it?\nA: Two metres.\n\n",
}


@pytest.mark.parametrize("kind", HEAVY)
@every_strategy
def test_time_is_linear(name: str, kind: str) -> None:
    """Five megabytes of prose; of what is odd, a fifth. The bound is ten times what it takes."""
    share = 1 if kind == "prose" else 5
    text = HEAVY[kind] * (MEGABYTES * 1_000_000 // share // len(HEAVY[kind].encode()))
    chunker = MAKERS[name](512, 64, "tokens")
    chunker.chunk(Document(uri="warm", text="warm 暖"))
    started = time.process_time()
    chunks = chunker.chunk(Document(uri="a", text=text))
    assert len(chunks) > 100
    assert time.process_time() - started < 60 / share


def test_every_strategy_of_auto_is_tried() -> None:
    covered = {"code", "rows", "technical", "long", "faq"}  # other names for those above, with other sizes
    assert set(STRATEGIES) <= set(MAKERS) | covered
