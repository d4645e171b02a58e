"""A document comes out of a worker as its parser made it, and its chunks and pages are what they say, of every kind."""

import io
import sys
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater
from headwater.sandbox.wire import decode_document, encode_document, read_frame, write_frame
from headwater.types import Blob, Block, Box, Document, Link, Section, Span, boxes_of

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
from mixed_files import KINDS, mark, write_mixed

sys.path.pop(0)

TEXT = "水位 level 7.42 \ud800 😀 " * 4
VALUES = st.one_of(st.text(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False))
METAS = st.dictionaries(st.text(), st.one_of(VALUES, st.lists(VALUES, max_size=3).map(tuple)), max_size=3)
SPANS = st.tuples(st.integers(0, len(TEXT)), st.integers(0, len(TEXT))).map(lambda pair: Span(*sorted(pair)))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    return Document(
        uri=draw(st.text(min_size=1)),
        text=TEXT,
        title=draw(st.text()),
        tags=tuple(draw(st.lists(st.text(), max_size=2))),
        archived=draw(st.booleans()),
        structure=tuple(Section(title=draw(st.text()), level=1, path="p", span=span) for span in draw(st.lists(SPANS))),
        blocks=tuple(
            Block(kind="table", span=span, header=draw(st.text()), rows=span, about=draw(st.none() | SPANS))
            for span in draw(st.lists(SPANS, max_size=3))
        ),
        links=tuple(Link(kind="url", target="t", span=span) for span in draw(st.lists(SPANS, max_size=2))),
        hidden=tuple(draw(st.lists(SPANS, max_size=2))),
        page_starts=tuple(sorted(draw(st.sets(st.integers(0, len(TEXT)), max_size=4)))),
        boxes=tuple(Box(a, z, 1, 0, 5, 10_000, 7) for a, z in draw(st.lists(SPANS, max_size=4))),
        attachments=tuple(Blob(uri="a", data=data, mime="m") for data in draw(st.lists(st.binary(), max_size=3))),
        coverage=draw(st.dictionaries(st.text(), VALUES, max_size=3)),
        problems=tuple(draw(st.lists(st.text(), max_size=2))),
        meta=draw(METAS),
    )


@given(documents())
def test_a_document_survives_the_way(document: Document) -> None:
    stream = io.BytesIO()
    header, parts = encode_document(document)
    write_frame(stream, {"document": header}, parts)
    stream.seek(0)
    frame = read_frame(stream)
    assert frame is not None
    assert decode_document(frame.header["document"], frame.body) == document


@given(documents(), st.data())
def test_a_message_that_was_tampered_with_is_an_error_or_a_document(document: Document, data: st.DataObject) -> None:
    header, parts = encode_document(document)
    name = data.draw(st.sampled_from(sorted(header)))
    odd = st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers() | st.none(), max_size=7), VALUES)
    try:
        made = decode_document({**header, name: data.draw(odd)}, b"".join(parts))
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return
    assert isinstance(made, Document)
    for block in made.blocks:
        assert 0 <= block.span.start <= block.span.end <= len(made.text)


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headwater.KnowledgeBase]:
    folder = tmp_path_factory.mktemp("kinds")
    write_mixed(folder / "files", 2 * len(KINDS))
    with headwater.open(folder / "kb") as kb:
        report = kb.add(folder / "files")
        assert report.added == 2 * len(KINDS) and not report.failed
        yield kb


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_pages_and_boxes_point_into_the_text(kind: str, parsed: headwater.KnowledgeBase) -> None:
    records = [record for record in parsed.documents() if record.uri.partition("#")[0].endswith(f".{kind}")]
    assert len(records) >= 2
    for record in records:
        document, chunks = parsed.document(record.id), parsed.chunks(record.id)
        assert chunks and record.state == "completed" and 0.9 <= float(record.coverage["score"]) <= 1.0
        assert (
            any(mark(int(record.uri.rpartition("file-")[2][:5])) in chunk.text for chunk in chunks) or "#" in record.uri
        )
        for chunk in chunks:
            assert document.text[slice(*chunk.span)] == chunk.text
            starts = document.page_starts
            if starts:
                last = max(chunk.span.start, chunk.span.end - 1)
                expected = bisect_right(starts, chunk.span.start), bisect_right(starts, last)
                assert (chunk.pages[0], chunk.pages[-1]) == expected
            else:
                assert chunk.pages == ()
            for box in boxes_of(document, chunk.span):
                assert box.page in range(chunk.pages[0], chunk.pages[-1] + 1)
                assert 0 <= box.left <= box.right <= 10_000 and 0 <= box.top <= box.bottom <= 10_000
