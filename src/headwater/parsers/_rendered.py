"""What markup was turned into: text and its parts, and the same at another place of a longer text."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from headwater.documents import Block, Link, Span
from headwater.filters import Value
from headwater.parsers._outline import Heading


@dataclass(frozen=True, slots=True)
class Rendered:
    """The text of a tree and what is known of its parts."""

    text: str
    headings: tuple[Heading, ...] = ()
    blocks: tuple[Block, ...] = ()
    links: tuple[Link, ...] = ()
    places: dict[str, int] = field(default_factory=dict)  # where the element of an id begins


def below(front: str, rendered: Rendered) -> Rendered:
    """The same with something in front of its text."""
    by = len(front)
    return Rendered(
        front + rendered.text,
        tuple(heading._replace(start=heading.start + by) for heading in rendered.headings),
        tuple(
            replace(
                block,
                span=_moved(block.span, by),
                rows=tuple(row + by for row in block.rows),
                about=None if block.about is None else _moved(block.about, by),
            )
            for block in rendered.blocks
        ),
        tuple(replace(link, span=_moved(link.span, by)) for link in rendered.links),
        {name: place + by for name, place in rendered.places.items()},
    )


def coverage_of(rendered: Rendered) -> dict[str, Value]:
    """How much was found, by name."""
    tables = [block for block in rendered.blocks if block.kind == "table"]
    return {
        "headings": len(rendered.headings),
        "tables": len(tables),
        "tables_without_header": sum(not table.header for table in tables),
        "captions": sum(block.kind == "caption" for block in rendered.blocks),
    }


def _moved(span: Span, by: int) -> Span:
    return Span(span.start + by, span.end + by)
