"""What must be true of every document, whatever it was read from."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from headwater.chunkers.recursive import RecursiveChunker
from headwater.types import Document

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def data() -> Path:
    """The folder of the sample files."""
    return DATA


@pytest.fixture
def sound() -> Callable[[Document], Document]:
    """A check of a document's spans; gives the document back."""
    return _sound


def _sound(document: Document) -> Document:
    text = document.text
    assert text.strip()
    assert not set("\r\0") & set(text)
    text.encode("utf-8")
    at_line_start = {0, *(place + 1 for place, sign in enumerate(text) if sign == "\n")}
    for section in document.structure:
        assert 0 <= section.span.start < section.span.end <= len(text)
        assert section.span.start in at_line_start
        assert section.path.split(" > ")[-1] == section.title
        assert section.title and section.level >= 1
    for block in document.blocks:
        assert 0 <= block.span.start < block.span.end <= len(text)
        assert block.span.start in at_line_start
        assert list(block.rows) == sorted(set(block.rows))
        for row in block.rows:
            assert block.span.start <= row < block.span.end
            assert row in at_line_start
            assert text[row] == "|"
        if block.kind == "table":
            assert block.rows[0] == block.span.start
            assert text[block.span.start : block.span.end].count("\n") == len(block.rows) - 1
        if block.about is not None:
            assert 0 <= block.about.start < block.about.end <= len(text)
    for before, after in pairwise(document.blocks):
        assert before.span.end <= after.span.start
    assert all(start in at_line_start for start in document.page_starts)
    for size in (40, 400):
        chunks = RecursiveChunker(size=size, overlap=size // 10).chunk(document)
        assert chunks
        for chunk in chunks:
            assert text[chunk.span.start : chunk.span.end] == chunk.text
    return document


@pytest.fixture
def outline() -> Callable[[Document], str]:
    """A document as lines to compare with: its sections, its blocks, then its text."""
    return _outline


def _outline(document: Document) -> str:
    lines = [f"title {document.title}"]
    lines += [f"section {section.level} {section.path} {list(section.span)}" for section in document.structure]
    for block in document.blocks:
        about = f" about {list(block.about)}" if block.about else ""
        lines.append(f"{block.kind} {list(block.span)} rows {len(block.rows)} [{block.header}]{about}")
    lines += [f"page {start}" for start in document.page_starts]
    lines += [f"problem {problem}" for problem in document.problems]
    return "\n".join([*lines, "---", document.text])
