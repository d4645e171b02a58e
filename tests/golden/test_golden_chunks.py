"""The golden corpus gives exactly the chunks that are written beside it.

After a change that is meant, run `python -m tests.golden.regenerate` and read the difference before committing it.
"""

from pathlib import Path

import pytest
from tests.golden.regenerate import CORPUS, expectations, render, sources

from headwater.protocols import Chunker


def test_the_corpus_is_there_and_every_file_has_an_expectation() -> None:
    names = {path.name for path in CORPUS.iterdir()}
    assert len(sources()) >= 8
    assert names == {path.name for path in sources()} | {expected.name for _, expected, _ in expectations()}


@pytest.mark.parametrize(
    ("path", "expected", "chunker"), expectations(), ids=[expected.name for _, expected, _ in expectations()]
)
def test_chunks_are_as_written(path: Path, expected: Path, chunker: Chunker) -> None:
    assert render(path, chunker) == expected.read_bytes().decode("utf-8")
