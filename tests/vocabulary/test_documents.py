"""What a chunk is given by the indexer, field by field."""

from dataclasses import fields, replace

import numpy as np
import pytest

from headwater import indexer
from headwater.types import Chunk, Document, Matrix, Span, stacked


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


WHOLE = np.arange(40, dtype=np.float32).reshape(10, 4)


def test_parts_of_a_matrix_that_are_all_of_it_are_that_matrix() -> None:
    assert stacked(np.split(WHOLE.copy(), [3, 4, 9])).tolist() == WHOLE.tolist()
    owner = WHOLE.copy()
    assert stacked(np.split(owner, [3, 4, 9])) is owner


@pytest.mark.parametrize(
    "parts",
    [
        [WHOLE[:3], WHOLE[4:]],
        [WHOLE[3:], WHOLE[:3]],
        [WHOLE[:5], WHOLE[:5]],
        [WHOLE[::2], WHOLE[1::2]],
        [WHOLE[:5].copy(), WHOLE[5:].copy()],
        [WHOLE[:, :2], WHOLE[:, 2:]],
        [WHOLE],
        [WHOLE[2:5]],
    ],
)
def test_any_other_parts_are_put_together(parts: list[Matrix]) -> None:
    assert stacked(parts).tolist() == np.concatenate(parts).tolist()


def test_what_a_program_says_of_a_document_is_hashed_as_ever() -> None:
    said = Document(uri="a %r", text="long", title="it's", tags=("x", "y"), meta={"k": 1, "z": "%s"}, problems=("p",))
    assert indexer._ABOUT % indexer._told_of(said) == repr(replace(said, text=""))
