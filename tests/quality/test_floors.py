"""Search, answers and refusals on the golden set never fall below what they reached."""

from pathlib import Path

from tests.quality.floors import compared, figures, floor_for, read_floors, written


def test_nothing_is_below_its_floor(tmp_path: Path) -> None:
    below, above = compared(figures(tmp_path), read_floors())
    print("\n".join(above))
    assert not below, "\n".join(["", *below])


def test_a_figure_below_its_floor_is_told_and_one_above_may_raise_it() -> None:
    below, above = compared(
        {"fell": 0.58, "rose": 0.75, "same": 0.5, "new": 0.1}, {"fell": 0.6, "rose": 0.7, "same": 0.495, "gone": 0.2}
    )
    assert [line.split(":")[0] for line in below] == ["fell", "gone", "new"]
    assert "0.0200 below" in below[0]
    assert above == ["rose: 0.7500, its floor could rise by 0.0400"]


def test_floors_are_written_a_little_below_and_never_lowered() -> None:
    assert floor_for(0.754) == 0.744
    text = written({"better": 0.9, "worse": 0.5}, {"better": 0.8, "worse": 0.7})
    assert "floor = 0.8900" in text
    assert "measured = 0.5000\nfloor = 0.7000" in text
