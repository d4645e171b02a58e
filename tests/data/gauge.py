"""Levels of a gauge -> whether a bell is rung."""

BELL_METRES = 3.0


class Gauge:
    """One staff at one bridge."""

    def __init__(self, bridge: str) -> None:
        self.bridge = bridge
        self.levels: list[float] = []

    def read(self, metres: float) -> bool:
        """Note a level; whether the bell is rung. 水位超过三米时敲钟。"""
        self.levels.append(metres)
        return metres > BELL_METRES


def mean(levels: list[float]) -> float:
    """The mean of some levels."""
    return sum(levels) / len(levels)
