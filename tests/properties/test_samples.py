"""Every sample file by every strategy: a chunk is the exact slice of the text; of a PDF, its words are on its pages.

`SAMPLES_FOLDER=FOLDER pytest tests/properties/test_samples.py` takes the files of another folder too, such as documents
that may not be part of the project: each must be read, or refused with a reason.
"""

import os
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pypdfium2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.chunkers._layout import pages_of
from headwater.chunkers.auto import AutoChunker
from headwater.chunkers.contextual import ContextualChunker
from headwater.chunkers.hierarchical import HierarchicalChunker
from headwater.chunkers.meta import MetaChunker
from headwater.chunkers.recursive import RecursiveChunker
from headwater.chunkers.semantic import SemanticChunker
from headwater.chunkers.sentence import SentenceChunker
from headwater.chunkers.whole import WholeChunker
from headwater.errors import EmptyDocument, SourceError
from headwater.kinds import kind_of
from headwater.models.hashed import HashedEmbedder
from headwater.parsers import READS
from headwater.protocols import Chunker
from headwater.registry import load
from headwater.testing.chunker_contract import check_coverage, check_parents, check_rows, check_slices
from headwater.types import Blob, Document, Span, boxes_of

DATA = Path(__file__).parents[1] / "data"
FOLDERS = [DATA, *([Path(os.environ["SAMPLES_FOLDER"])] if os.environ.get("SAMPLES_FOLDER") else [])]
SAMPLES = {
    path.relative_to(folder).as_posix(): path
    for folder in FOLDERS
    for path in sorted(folder.rglob("*"))
    if path.is_file() and path.suffix != ".golden" and "cross-encoder" not in path.parts
}
PDFS = [name for name in SAMPLES if name.endswith(".pdf")]
# What people have, by the end of the name: none may be missing here.
KINDS = "pdf docx pptx xlsx xls csv tsv json jsonl html md epub eml png py go txt".split()
# Refused, or without text where nothing recognises pictures.
WITHOUT_TEXT = {"pdf/encrypted.pdf", "pdf/scan.pdf", "scan.png"}
EMBEDDER = HashedEmbedder(dim=32)
STRATEGIES: dict[str, Callable[[], Chunker]] = {
    "recursive": lambda: RecursiveChunker(size=60, overlap=10),
    "sentence": lambda: SentenceChunker(size=60, minimum=20),
    "semantic": lambda: SemanticChunker(embedder=lambda: EMBEDDER, size=60, minimum=20),
    "meta": lambda: MetaChunker(size=60, overlap=10),
    "contextual": lambda: ContextualChunker(size=60, overlap=10),
    "hierarchical": lambda: HierarchicalChunker(size=40, overlap=5, parent_size=160),
    "whole": WholeChunker,
    "auto": lambda: AutoChunker(size=60, overlap=10),
}


@pytest.fixture(autouse=True, scope="module")
def without_recognition() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headwater.parsers._ocr.available", lambda: False)
        yield


@cache
def read(name: str) -> Document | None:
    """A sample as an ingest reads it; nothing where it is refused or empty, with a reason."""
    data = SAMPLES[name].read_bytes()
    mime = kind_of(name, data)
    [parser] = [parser for parser, mimes in READS.items() if mime in mimes]
    try:
        parsed: Document = load("parsers", parser)().parse(Blob(uri=name, data=data, mime=mime))
    except (EmptyDocument, SourceError) as error:
        assert len(str(error)) > 20
        return None
    return parsed


def test_every_kind_has_a_sample_and_those_without_text_are_known() -> None:
    assert {name.rpartition(".")[2] for name in SAMPLES} >= set(KINDS)
    own = [name for name, path in SAMPLES.items() if path.is_relative_to(DATA)]
    assert {name for name in own if read(name) is None} == WITHOUT_TEXT


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_chunk_is_the_exact_slice(name: str, strategy: str) -> None:
    document = read(name)
    if document is None:
        return
    chunks = STRATEGIES[strategy]().chunk(document)
    assert chunks
    check_slices(document, chunks)
    check_coverage(document, chunks)
    check_rows(document, chunks)
    check_parents(chunks)
    for chunk in chunks:
        assert chunk.pages == pages_of(document, chunk.span)


@cache
def printed(name: str) -> list[str]:
    """The words of each page, as PDFium tells them."""
    pdf = pypdfium2.PdfDocument(SAMPLES[name])
    pages = [squeezed(page.get_textpage().get_text_range()) for page in pdf]
    pdf.close()
    return pages


def squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text.replace("\ufffe", "")))


@pytest.mark.parametrize("name", PDFS)
@settings(max_examples=100)
@given(data=st.data())
def test_what_is_cited_of_a_pdf_stands_on_the_cited_page(name: str, data: st.DataObject) -> None:
    document = read(name)
    if document is None:
        return
    start = data.draw(st.integers(0, len(document.text) - 1))
    span = Span(start, data.draw(st.integers(start + 1, min(start + 400, len(document.text)))))
    pages = pages_of(document, span)
    for box in boxes_of(document, span):
        words = squeezed(document.text[max(box.start, span.start) : min(box.end, span.end)])
        assert box.page in pages
        assert words in printed(name)[box.page - 1]
