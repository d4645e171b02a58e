"""What every chunker must do with any document, and documents to try it with.

class TestMyChunker(ChunkerContract):
    def chunker(self) -> Chunker:
        return MyChunker()
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from headwater.protocols import Chunker
from headwater.types import Block, Chunk, Document, Section, Span, indexed_count

HEADINGS = ("# Pumps\n\n", "## 安全\n\n", "# Seals\n\n")
PROSE = (
    "The pump runs at 3.14 bar, e.g. at night. See https://example.com/a.b for more! Dr. Miller knows.\n\n",
    "水泵每天早上八点启动。压力不能超过三点五！为什么？因为阀门会漏。\n\n",
    "A naïve cafe\u0301 owner 👨‍👩‍👧 asked twice; nobody answered, however, and so it went on and on.\n\n",
)
ROWS = ("Part\tWeight\n", "Valve, large\t3.5 kg\n", 'Bolt "M8"\nlong\t23 g\n', "密封圈\t2 克\n")


def sample(parts: str, *, title: str = "Pump guide") -> Document:
    """A document by letters: Heading, Prose, Table, Code, Quote, Note about what stands before it, X for hidden."""
    text, blocks, hidden = "", [], []
    starts: list[tuple[int, str]] = []
    before = Span(0, 0)
    for number, part in enumerate(parts):
        start = len(text)
        match part:
            case "H":
                text += HEADINGS[number % len(HEADINGS)]
                starts.append((start, HEADINGS[number % len(HEADINGS)].strip("# \n")))
            case "T":
                rows = [start + sum(map(len, ROWS[:n])) for n in range(len(ROWS))]
                text += "".join(ROWS)
                blocks.append(Block(kind="table", span=Span(start, len(text)), header="Part, Weight", rows=tuple(rows)))
                text += "\n"
            case "C":
                text += "def torque(bolt):\n    table = {8: 23.0}\n    return table[bolt]\n"
                blocks.append(Block(kind="code", span=Span(start, len(text)), header="def torque(bolt):"))
                text += "\n"
            case "Q":
                text += "> What did the pump cost?\n> It was cheap. 很便宜。\n"
                blocks.append(Block(kind="quote", span=Span(start, len(text))))
                text += "\n"
            case "N":
                text += "Note: mind the gap between valve and seal.\n"
                blocks.append(Block(kind="note", span=Span(start, len(text)), about=before))
                text += "\n"
            case "X":
                text += "<!-- hidden -->"
                hidden.append(Span(start, len(text)))
                text += "\n"
            case _:
                text += PROSE[number % len(PROSE)]
        before = Span(start, len(text))
    edges = [start for start, _ in starts] + [len(text)]
    structure = tuple(
        Section(title=name, level=1, path=name, span=Span(start, end))
        for (start, name), end in zip(starts, edges[1:], strict=True)
    )
    return Document(
        uri="sample",
        text=text,
        title=title,
        structure=structure,
        blocks=tuple(blocks),
        hidden=tuple(hidden),
        page_starts=(0, len(text) // 2),
    )


SAMPLES = (
    "",
    "P",
    "HPPP",
    "PTP",
    "HPTNHPCP",
    "HHP",
    "QPQP",
    "HPXPX",
    "XHX",
    "PPPPPPPPPPPPHPPPPPPPPTTTTCCCCNQPPPPPP",
    "TTTTT",
)


class ChunkerContract:
    """Subclass it and say how the chunker is made."""

    def chunker(self) -> Chunker:
        """A new one, each time made in the same way."""
        raise NotImplementedError

    def test_chunks_are_exact_slices_in_order(self) -> None:
        for parts in SAMPLES:
            check_slices(sample(parts), self.chunker().chunk(sample(parts)))

    def test_all_but_what_is_hidden_is_covered(self) -> None:
        for parts in SAMPLES:
            check_coverage(sample(parts), self.chunker().chunk(sample(parts)))

    def test_no_row_of_a_table_is_cut(self) -> None:
        for parts in SAMPLES:
            check_rows(sample(parts), self.chunker().chunk(sample(parts)))

    def test_parents_come_last_and_hold_their_children(self) -> None:
        for parts in SAMPLES:
            check_parents(self.chunker().chunk(sample(parts)))

    def test_the_same_document_gives_the_same_chunks(self) -> None:
        chunker = self.chunker()
        for parts in SAMPLES:
            assert chunker.chunk(sample(parts)) == self.chunker().chunk(sample(parts))

    def test_nothing_comes_of_nothing(self) -> None:
        assert self.chunker().chunk(Document(uri="empty", text="")) == []
        assert self.chunker().chunk(Document(uri="blank", text=" \n\n \f ")) == []

    def test_the_fingerprint_is_a_line_that_stays(self) -> None:
        assert self.chunker().fingerprint == self.chunker().fingerprint
        assert self.chunker().fingerprint.isprintable()

    def test_it_does_not_mind_who_the_document_belongs_to(self) -> None:
        document = sample("HPTP")
        other = replace(document, owner="else", uri="other", id="x")
        cut = [(chunk.span, chunk.text) for chunk in self.chunker().chunk(document)]
        assert cut == [(chunk.span, chunk.text) for chunk in self.chunker().chunk(other)]


def small(chunks: list[Chunk]) -> list[Chunk]:
    """Those that are indexed."""
    numbered = [replace(chunk, id=number) for number, chunk in enumerate(chunks)]
    return chunks[: indexed_count(numbered)]


def check_slices(document: Document, chunks: list[Chunk]) -> None:
    """Every text is what stands at its span, without blanks at its ends, each after the one before."""
    for chunk in chunks:
        assert document.text[chunk.span.start : chunk.span.end] == chunk.text
        assert chunk.text
        assert chunk.text == chunk.text.strip()
    for before, after in pairwise(small(chunks)):
        assert before.span.start < after.span.start
        assert before.span.end < after.span.end


def check_coverage(document: Document, chunks: list[Chunk]) -> None:
    """Every visible character is in a chunk that is indexed, and nothing hidden is in any."""
    seen = bytearray(len(document.text))
    for chunk in small(chunks):
        seen[chunk.span.start : chunk.span.end] = b"\1" * len(chunk.text)
    for start, end in document.hidden:
        assert not any(seen[start:end]), "a chunk reaches over something hidden"
        seen[start:end] = b"\1" * (end - start)
    missed = [place for place, char in enumerate(document.text) if not seen[place] and not char.isspace()]
    assert not missed, f"{document.text[missed[0] :][:40]!r} is in no chunk"


def check_rows(document: Document, chunks: list[Chunk]) -> None:
    """A chunk starts and ends between rows, or outside of the table."""
    for block in document.blocks:
        for start, end in pairwise((*block.rows, block.span.end)) if block.rows else ():
            row = document.text[start:end]
            first, last = start + len(row) - len(row.lstrip()), start + len(row.rstrip())
            for chunk in chunks:
                for edge in chunk.span:
                    assert not first < edge < last, f"{chunk.text!r} cuts the row {row!r}"


def check_parents(chunks: list[Chunk]) -> None:
    """A parent is a chunk behind all that are indexed, and its children lie in it."""
    count = len(small(chunks))
    for number, chunk in enumerate(chunks):
        if chunk.parent:
            assert number < count <= chunk.parent < len(chunks)
            larger = chunks[chunk.parent].span
            assert larger.start <= chunk.span.start
            assert chunk.span.end <= larger.end
        else:
            assert number >= count or all(not other.parent for other in chunks[:count])
