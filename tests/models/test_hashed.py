"""The embedder that needs no model: unit rows, the same for ever, near for what shares words."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SettingError
from headwater.models.hashed import HashedEmbedder
from headwater.protocols import Embedder

EMBEDDER = HashedEmbedder()
PLACES = [9, 18, 35, 61, 80, 93, 108, 127, 141, 157, 227, 242]
VALUES = [
    0.16054,
    0.40772,
    0.16054,
    0.40772,
    -0.24081,
    -0.24081,
    -0.16054,
    -0.24081,
    0.40772,
    -0.16054,
    -0.40772,
    0.24081,
]


def test_it_fits_the_protocol() -> None:
    assert isinstance(EMBEDDER, Embedder)
    assert (EMBEDDER.dim, EMBEDDER.fingerprint) == (256, "hashed-256/1")
    assert HashedEmbedder(dim=64).fingerprint == "hashed-64/1"
    assert EMBEDDER.embed([], "query").shape == (0, 256)


@given(st.lists(st.text(max_size=60), max_size=6))
def test_rows_are_unit_or_zero_and_do_not_depend_on_their_neighbours(texts: list[str]) -> None:
    together = EMBEDDER.embed(texts, "passage")
    assert together.shape == (len(texts), 256) and together.dtype == np.float32
    for text, row in zip(texts, together, strict=True):
        length = float(np.linalg.norm(row))
        assert length == 0 or abs(length - 1) < 1e-5
        np.testing.assert_allclose(EMBEDDER.embed([text], "query")[0], row, atol=1e-6)


@pytest.mark.parametrize("text", ["", "   ", "。，！", "\n"])
def test_a_text_without_words_is_zero(text: str) -> None:
    assert not EMBEDDER.embed([text], "passage").any()


def test_the_numbers_never_change() -> None:
    """Stored vectors must stay comparable: another number here needs another fingerprint."""
    row = EMBEDDER.embed(["parental leave 产假"], "passage")[0]
    places = np.flatnonzero(row)
    assert places.tolist() == PLACES
    np.testing.assert_allclose(row[places], VALUES, atol=1e-4)


@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        ("How long is parental leave?", "Parental leaves last 26 weeks.", "The pump needs new oil every year."),
        ("产假有多长时间", "产假的时间为一百五十八天。", "水泵每年需要更换润滑油。"),
        ("請假制度", "请假制度说明", "水泵维护手册"),
    ],
)
def test_what_shares_words_is_nearer(question: str, near: str, far: str) -> None:
    asked, right, wrong = EMBEDDER.embed([question, near, far], "passage")
    assert asked @ right > asked @ wrong + 0.1


def test_many_texts_at_once() -> None:
    texts = [
        f"第{number}条：员工在公司工作满{number}年可以申请休假，The {number}th rule of leave." * 5
        for number in range(700)
    ]
    EMBEDDER.embed(texts[:10], "passage")
    started = time.process_time()
    matrix = EMBEDDER.embed(texts, "passage")
    assert matrix.shape == (700, 256)
    # Five thousand a second on a free core; a machine that is busy or slow gets ten times that.
    assert time.process_time() - started < 1.4


@pytest.mark.parametrize("dim", [0, 7, 1 << 16, "256"])
def test_a_wrong_dimension_is_refused(dim: object) -> None:
    with pytest.raises(SettingError, match=r"embed\.dim"):
        HashedEmbedder(dim=dim)  # type: ignore[arg-type]
