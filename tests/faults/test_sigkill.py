"""A real ingest, killed for real. `make torture` does it 200 times and writes docs/reliability.md."""

from pathlib import Path

from headwater.testing.torture import Torture


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    figures = Torture(tmp_path, documents=60, paragraphs=8, seed=7).run(kills=25)
    assert figures.faults == []
    assert figures.kills >= 20, "the kills must hit runs that had not finished"
    assert figures.searches >= 60 * 20
