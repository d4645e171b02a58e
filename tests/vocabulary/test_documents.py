"""What a chunk is given by the indexer, field by field."""

from dataclasses import fields, replace

from headwater.types import Chunk, Span


def test_a_numbered_chunk_differs_in_its_numbers_only() -> None:
    unlike = {
        **{"span": Span(3, 9), "text": "a text", "id": 1, "document_id": "b", "index_text": "c", "section": "d > e"},
        **{"pages": (4, 5), "kind": "table", "parent": 6},
    }
    # A field that is new must be carried over too, and so stand here with a value that is not its default.
    assert [field.name for field in fields(Chunk)] == list(unlike)
    chunk = Chunk(**unlike)
    assert all(field.default != unlike[field.name] for field in fields(Chunk))
    assert chunk.numbered(id=7, document_id="f", parent=8) == replace(chunk, id=7, document_id="f", parent=8)
