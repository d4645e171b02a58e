"""A passage's text -> its statements: sentences, list items, table rows and lines of code, each a slice of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from headwater.tokens import sentences

# A footnote's number after a full stop hides the sentence's end: "in 1990.[3] The next".
NOTE: Final = re.compile(r"\[\d{1,3}\]")
_LINE: Final = re.compile(r"[^\n]*\n?")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_HEADING: Final = re.compile(r"\s{0,3}#{1,6}\s+(?=\S)")
_ROW: Final = re.compile(r"\s*\|.*\|\s*$")
_RULE: Final = re.compile(r"[\s|:=+*_-]+$")  # the line under a table's head, or between two parts
_ITEM: Final = re.compile(r"\s*(?:[-*+•·>]|\d{1,3}[.)、])\s+(?=\S)")


class Statement(NamedTuple):
    """`text[start:end]`, under a heading or the head of a table (as a span of the same text) where there is one."""

    start: int
    end: int
    kind: Literal["sentence", "row", "code"]
    heading: tuple[int, int] | None


def statements(text: str) -> list[Statement]:
    """In order, without overlap. Headings, heads of tables and rules are no statements."""
    found: list[Statement] = []
    heading: tuple[int, int] | None = None
    prose: int | None = None  # where the prose that is being read began
    head: tuple[int, int] | None = None  # of the table that is being read
    code = False

    def close(end: int) -> None:
        nonlocal prose
        if prose is not None:
            found.extend(Statement(*span, "sentence", heading) for span in _sentences(text, prose, end))
        prose = None

    for line in _LINE.finditer(text):
        start, end = _trim(text, *line.span())
        if not (row := _ROW.match(line[0])):
            head = None
        if _FENCE.match(line[0]):
            close(line.start())
            code = not code
        elif start == end:
            close(line.start())
        elif code:
            found.append(Statement(start, end, "code", heading))
        elif mark := _HEADING.match(line[0]):
            close(line.start())
            heading = (line.start() + mark.end(), end)
        elif row or _RULE.match(line[0]):
            close(line.start())
            if _RULE.match(line[0]):
                continue
            if head is None:
                head = (start, end)
                if _RULE.match(_next_line(text, line.end())):
                    continue
            found.append(Statement(start, end, "row", head if head != (start, end) else heading))
        elif mark := _ITEM.match(line[0]):
            close(line.start())
            prose = line.start() + mark.end()
        elif prose is None:
            prose = start
    close(len(text))
    return found


def _next_line(text: str, start: int) -> str:
    line = _LINE.match(text, start)
    return line[0] if line and line[0].strip() else "."


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    shown = NOTE.sub(lambda note: " " * len(note[0]), text[start:end])
    for low, high in sentences(shown):
        yield start + low, start + high


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
