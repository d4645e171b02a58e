"""Footnotes of PDF pages: found by size, place and mark, tied to the paragraph with the mark; small print is none."""

from __future__ import annotations

import io

import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas

from headwater.chunkers.meta import MetaChunker
from headwater.parsers.pdf import PdfParser
from headwater.types import Blob, Document

LATIN, CHINESE = "Times-Roman", "STSong-Light"
TOP, LEFT = A4[1] - 72, 72.0
BODY, SMALL = 11.0, 8.0
LEADING = 1.3
FILLER = "of the text on the gauge at the upper weir and the level of the river that it shows"


@pytest.fixture(autouse=True, scope="module")
def chinese_font() -> None:
    pdfmetrics.registerFont(UnicodeCIDFont(CHINESE))


class Sheet:
    """A page that is written on from the top down. `^1^` in a line is a raised mark."""

    def __init__(self, *, font: str = LATIN) -> None:
        self.stream, self.font = io.BytesIO(), font
        self.canvas = Canvas(self.stream, pagesize=A4)
        self.down, self.left = TOP, LEFT

    def column(self, left: float) -> None:
        self.down, self.left = TOP, left

    def line(self, text: str, size: float = BODY, *, font: str = "") -> None:
        across = self.left
        for place, part in enumerate(text.split("^")):
            own = 0.6 * size if place % 2 else size
            self.canvas.setFont(font or self.font, own)
            self.canvas.drawString(across, self.down + (0.35 * size if place % 2 else 0.0), part)
            across += self.canvas.stringWidth(part, font or self.font, own)
        self.down -= LEADING * size

    def prose(self, name: str, lines: int) -> None:
        for number in range(lines):
            self.line(f"{name} line {number} {FILLER}")

    def to_foot(self, lines: int, *, rule: bool = False) -> None:
        """Down to where so many small lines have room."""
        self.down = 60 + lines * LEADING * SMALL
        if rule:
            self.canvas.line(self.left, self.down + 1.5 * SMALL, self.left + 120, self.down + 1.5 * SMALL)

    def parsed(self) -> Document:
        self.canvas.save()
        return PdfParser().parse(Blob(uri="a.pdf", data=self.stream.getvalue(), mime="application/pdf"))


def notes(document: Document) -> list[tuple[str, str]]:
    """Each note, and how the paragraph begins that it is about."""
    return [
        (
            document.text[slice(*block.span)],
            " ".join(document.text[slice(*block.about)].split()[:3]) if block.about else "",
        )
        for block in document.blocks
        if block.kind == "note"
    ]


@pytest.mark.parametrize("rule", [True, False])
def test_notes_are_whole_and_tied_to_the_paragraph_with_their_mark(rule: bool) -> None:
    sheet = Sheet()
    sheet.prose("First", 6)
    sheet.down -= BODY
    sheet.line("Second: the level was read by hand^1^ until the flood of that year and by radio since then.")
    sheet.down -= BODY
    sheet.line("Third: another reading was made at noon.^2^ It was entered in the same log on that day.")
    sheet.to_foot(3, rule=rule)
    sheet.line("^1^ See the log of the station, volume 3, where the keeper says why he went down to the gauge", SMALL)
    sheet.line("12 times in that year.", SMALL)
    sheet.line("^2^ Noon is that of the sun.", SMALL)
    document = sheet.parsed()
    (first, its_paragraph), second = notes(document)
    assert first.startswith("1 See the log of the station, volume 3, where the keeper says")
    assert first.endswith("to the gauge 12 times in that year.")
    assert its_paragraph == "Second: the level"
    assert second == ("2 Noon is that of the sun.", "Third: another reading")
    assert document.coverage["notes"] == 2
    assert [box.page for box in document.boxes if document.text[box.start :].startswith("2 Noon")] == [1]


def test_a_paragraph_goes_on_behind_the_notes_of_its_page() -> None:
    sheet = Sheet()
    sheet.prose("First", 20)
    sheet.line("and here the keeper^1^ of the station wrote that the gate was closed in the evening by the")
    sheet.to_foot(1)
    sheet.line("^1^ Two keepers are known by name.", SMALL)
    sheet.canvas.showPage()
    sheet.column(LEFT)
    sheet.line("men of the upper weir, who then^2^ went home along the river, as they did on other days too.")
    sheet.prose("Next", 10)
    sheet.to_foot(1)
    sheet.line("^2^ At six.", SMALL)
    document = sheet.parsed()
    assert "closed in the evening by the men of the upper weir" in document.text
    assert [note for note, _ in notes(document)] == ["1 Two keepers are known by name.", "2 At six."]
    for box in document.boxes:
        assert document.page_starts[box.page - 1] <= box.start
        assert box.page == len(document.page_starts) or box.end <= document.page_starts[box.page]
    place = document.text.index("1 Two keepers")
    assert place < document.page_starts[1], "it is on the first page, and is cited there"


def test_each_column_has_its_own_notes() -> None:
    sheet = Sheet()
    for number, left in enumerate((LEFT, 310.0)):
        sheet.column(left)
        for line in range(34):
            word = f"mark^{number + 1}^" if line == 3 else "mark"
            sheet.line(f"{'Left' if not number else 'Right'} {line} has a {word} in running text here")
        sheet.to_foot(2)
        sheet.line(f"^{number + 1}^ The note of column {number + 1}, which is long enough", SMALL)
        sheet.line("to take a second line in it.", SMALL)
    found = notes(sheet.parsed())
    assert [note for note, _ in found] == [
        f"{number} The note of column {number}, which is long enough to take a second line in it." for number in (1, 2)
    ]
    assert [about.split()[0] for _, about in found] == ["Left", "Left"], "one paragraph runs through both columns"


def test_chinese_notes_in_circles() -> None:
    sheet = Sheet(font=CHINESE)
    for number in range(12):
        sheet.line(f"第{number}行说的是老桥水位站每天早上八点观测一次水位的情况以及汛期的做法", 10.5)
    sheet.line("防汛值班表由站长签发①，次日起执行。", 10.5)
    sheet.to_foot(1)
    sheet.line("① 站长外出时由副站长签发。", SMALL)
    assert [note for note, _ in notes(sheet.parsed())] == ["① 站长外出时由副站长签发。"]


def test_a_note_is_found_with_what_it_is_about() -> None:
    sheet = Sheet()
    sheet.prose("First", 8)
    sheet.down -= BODY
    sheet.line("The discharge was computed from the rating curve^1^ of the year before the flood.")
    sheet.to_foot(1)
    sheet.line("^1^ The curve was drawn by the surveyor Oduya.", SMALL)
    chunks = MetaChunker(size=60, overlap=0).chunk(sheet.parsed())
    note = next(chunk for chunk in chunks if "Oduya" in chunk.text)
    assert "rating curve" in note.searchable_text
    text = next(chunk for chunk in chunks if "rating curve" in chunk.text)
    assert "Oduya" in text.searchable_text


@pytest.mark.parametrize(
    ("opening", "heading", "small"),
    [
        ("The levels^1^ are in metres.", "", ["Printed at the office of works.", "All rights are kept."]),
        ("The levels are in metres.", "", ["1 Level in metres", "2 Level in feet"]),
        ("As Oduya^1^ and Lind^2^ say.", "References", ["1. Oduya, A. (1999) Curves.", "2. Lind, B. (2001) Weirs."]),
        ("The levels rose by 1 metre, 3.1 in all, at X-1.", "", ["1 metre is about three feet."]),
        ("The levels are in metres.", "", ["Figure 1: The weir from above", "and from below"]),
    ],
    ids=["no mark", "a list", "sources", "a number", "a caption"],
)
def test_small_print_at_the_foot_is_no_note(opening: str, heading: str, small: list[str]) -> None:
    sheet = Sheet()
    sheet.line(opening)
    sheet.down -= BODY
    sheet.prose("First", 20)
    sheet.to_foot(len(small) + 2)
    if heading:
        sheet.line(heading)
    for line in small:
        sheet.line(line, SMALL)
    document = sheet.parsed()
    assert notes(document) == []
    assert all(line.split()[-1] in document.text for line in small)


def test_large_notes_of_a_page_that_is_mostly_notes_are_left_as_text() -> None:
    """Where the sizes say nothing, nothing is marked."""
    sheet = Sheet()
    sheet.prose("First", 20)
    sheet.to_foot(2)
    sheet.line("^1^ As large as the text.")
    assert notes(sheet.parsed()) == []


def test_a_note_to_a_figure_is_tied_to_it_and_leaves_the_figure_alone() -> None:
    sheet = Sheet()
    sheet.prose("First", 6)
    sheet.down -= BODY
    sheet.line("Second the level rose to 25^1^ centimetres in the year of the flood")
    sheet.prose("Second", 5)
    sheet.to_foot(2)
    sheet.line("1 Measured at the upper weir.", SMALL)
    document = sheet.parsed()
    assert "rose to 25^1 centimetres" in document.text
    assert notes(document) == [("1 Measured at the upper weir.", "Second the level")]
