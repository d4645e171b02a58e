"""A real ingest, killed for real. `make torture` does it 200 times and writes docs/reliability.md."""

from pathlib import Path

import pytest

from headwater.testing.torture import Torture


@pytest.mark.parametrize("kills", [8, pytest.param(25, marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path, kills: int) -> None:
    figures = Torture(tmp_path, documents=60, paragraphs=8, seed=7).run(kills=kills)
    assert figures.faults == []
    assert figures.kills >= kills * 4 // 5, "the kills must hit runs that had not finished"
    assert figures.searches >= 60 * (kills * 4 // 5)
