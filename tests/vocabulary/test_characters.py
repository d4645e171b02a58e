"""The tables that ship are those that this repository makes."""

import unicodedata

import numpy as np
import pytest

from headwater import characters

# Of the Python that the file was made with. Another one's data knows other characters, not these differently.
MADE_WITH = "14.0.0"


@pytest.fixture(scope="module")
def made() -> characters.Tables:
    return characters.made()


def test_the_file_holds_what_is_made(made: characters.Tables) -> None:
    shipped = characters.tables()
    if unicodedata.unidata_version == MADE_WITH:
        for mine, theirs in zip(shipped, made, strict=True):
            assert np.array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype
    old = np.array([unicodedata.ucd_3_2_0.category(chr(point)) != "Cn" for point in range(len(shipped.kind))])
    assert old.sum() > 80_000
    assert (shipped.kind[old] == made.kind[old]).mean() > 0.999
    assert (shipped.shift[old] == made.shift[old]).mean() > 0.999


def test_packing_loses_nothing(made: characters.Tables, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "characters.bin"
    path.write_bytes(characters.packed(made))
    monkeypatch.setattr(characters, "FILE", path)
    for mine, theirs in zip(characters.tables.__wrapped__(), made, strict=True):
        assert np.array_equal(mine, theirs)
