"""The golden corpus gives exactly the chunks that are written beside it.

After a change that is meant, run `python -m tests.golden.regenerate` and read the difference before committing it.
"""

from pathlib import Path

import pytest
from tests.golden.regenerate import CORPUS, SUFFIX, render, sources


def test_the_corpus_is_there_and_every_file_has_an_expectation() -> None:
    names = {path.name for path in CORPUS.iterdir()}
    assert len(sources()) >= 7
    assert names == {path.name for path in sources()} | {path.name + SUFFIX for path in sources()}


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_chunks_are_as_written(path: Path) -> None:
    expected = path.with_name(path.name + SUFFIX).read_bytes().decode("utf-8")
    assert render(path) == expected
