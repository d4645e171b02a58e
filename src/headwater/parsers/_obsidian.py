"""The text of a note -> what only Obsidian knows: marks that it does not show, and links in the properties.

All of it is looked for in text whose code and comments were blanked out, and costs no more than the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from headwater.types import Link, Span

# `> [!note]- Title`: the kind of a callout is a colour and an icon to a reader; its title and its words stay.
_CALLOUT: Final = re.compile(r"^[ \t]*(?:>[ \t]*)+\[![^\[\]\n]{1,60}\][+-]?[ \t]*", re.MULTILINE)
# ` ^37066d` at the end of a paragraph, or in a line of its own: what links to the paragraph call it.
_BLOCK_ID: Final = re.compile(r"(?:^|(?<![ \t])[ \t]+)\^([A-Za-z0-9-]+)[ \t]*$", re.MULTILINE)
_MIN_ID_CHARS: Final = 3  # a shorter one is a power: 10 ^2
_WIKILINK: Final = re.compile(r"(!?)\[\[([^\[\]\n|]+)(?:\|[^\[\]\n]*)?\]\]")


def unseen_marks(quiet: str) -> Iterator[Span]:
    """The marks of callouts and the names of blocks."""
    for found in _CALLOUT.finditer(quiet):
        yield Span(*found.span())
    for found in _BLOCK_ID.finditer(quiet):
        if len(found[1]) >= _MIN_ID_CHARS or found.start(1) - 1 == found.start():
            yield Span(*found.span())


def wikilinks(quiet: str, end: int | None = None) -> list[Link]:
    """`[[Note]]`, `[[Note#Heading|alias]]`, `[[Note#^block]]` and `![[embed]]`, as far as `end`."""
    return [
        Link(kind="embed" if found[1] else "wikilink", target=found[2].strip().rstrip("\\"), span=Span(*found.span()))
        for found in _WIKILINK.finditer(quiet, 0, len(quiet) if end is None else end)
    ]
