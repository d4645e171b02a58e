"""A real ingest, killed for real. `make torture` does it 200 times and writes docs/reliability.md."""

from pathlib import Path

from headwater.testing.torture import Torture

KILLS = 25


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    figures = Torture(tmp_path, documents=60, paragraphs=8, seed=7).run(kills=KILLS)
    assert figures.faults == []
    assert figures.kills >= KILLS * 4 // 5, "the kills must hit runs that had not finished"
    assert figures.searches >= 60 * (KILLS * 4 // 5)
