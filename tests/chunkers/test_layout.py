"""How a document is laid out for cutting: what touches a stretch is found, and length alone makes nothing slow."""

import time

from hypothesis import given
from hypothesis import strategies as st

from headwater.chunkers._layout import Blocks, clipped, stretches
from headwater.chunkers.meta import MetaChunker
from headwater.types import Block, Document, Section, Span

PART = "## Heading {0:06d}\nThe gauge is read at eight. <!-- x -->\n> Another said it.\nThen it is told onwards.\n\n"
PARTS = 50_000  # 5 MB
# A tenth of a second for 10,000 parts; when every part looked at all that follow, these took seven minutes.
SECONDS = 60.0

spans = st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda pair: Span(pair[0], pair[0] + pair[1]))


@given(st.lists(spans, max_size=40), spans)
def test_what_touches_a_stretch_is_found_in_order(given_spans: list[Span], asked: Span) -> None:
    blocks = Blocks([Block(kind="code", span=span) for span in given_spans])
    found = [block.span for block in blocks.touching(*asked)]
    assert found == [span for span in sorted(given_spans) if span.start < asked.end and span.end > asked.start]


def of_parts(count: int) -> Document:
    """Sections, each with something hidden and a quote, and one block around them all."""
    pieces = [PART.format(number) for number in range(count)]
    size, hidden, quote = len(pieces[0]), pieces[0].index("<!--"), pieces[0].index("> Another")
    starts = [number * size for number in range(count)]
    quotes = [Block(kind="quote", span=Span(start + quote, start + quote + 18)) for start in starts]
    sections = [
        Section(title=f"Heading {n:06d}", level=2, path=f"Heading {n:06d}", span=Span(start, start + size))
        for n, start in enumerate(starts)
    ]
    return Document(
        uri="long.md",
        title="Long",
        text="".join(pieces),
        structure=tuple(sections),
        hidden=tuple(Span(start + hidden, start + hidden + 10) for start in starts),
        blocks=(Block(kind="prose", span=Span(0, count * size)), *quotes),
    )


def test_five_megabytes_of_sections_quotes_and_gaps_take_seconds() -> None:
    document = of_parts(PARTS)
    assert len(document.text) > 5_000_000
    began = time.perf_counter()
    parts = list(stretches(document))
    blocks = Blocks(document.blocks)
    touched = sum(1 for part in parts for _ in blocks.touching(part.start, part.end))
    clips = sum(1 for part in parts for _ in clipped(parts, part.start, part.end))
    assert len(parts) == clips >= 2 * PARTS and touched > len(parts)
    assert time.perf_counter() - began < SECONDS


def test_a_long_document_is_cut_whole_without_what_is_hidden() -> None:
    document = of_parts(2_000)
    chunks = MetaChunker().chunk(document)
    assert all(document.text[chunk.span.start : chunk.span.end] == chunk.text for chunk in chunks)
    assert not any("<!--" in chunk.text for chunk in chunks)
    assert sum("Then it is told onwards." in chunk.text for chunk in chunks) == 2_000
