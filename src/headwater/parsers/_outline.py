"""Headings in the order of a text -> its sections, each with all that stands under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.documents import Section, Span

_PATH_JOINT: Final = " > "


class Heading(NamedTuple):
    """A line that names what follows it."""

    level: int
    title: str
    start: int


def sections(headings: Sequence[Heading], end: int) -> tuple[Section, ...]:
    """Each heading until the next of its own or a higher level, the last ones until `end`."""
    ends = [end] * len(headings)
    open_ones: list[int] = []
    paths: list[str] = []
    for number, heading in enumerate(headings):
        while open_ones and headings[open_ones[-1]].level >= heading.level:
            ends[open_ones.pop()] = heading.start
        above = paths[open_ones[-1]] + _PATH_JOINT if open_ones else ""
        paths.append(above + heading.title)
        open_ones.append(number)
    return tuple(
        Section(title=heading.title, level=heading.level, path=path, span=Span(heading.start, stop))
        for heading, path, stop in zip(headings, paths, ends, strict=True)
    )
