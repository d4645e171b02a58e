"""PDF layouts that are made here, so that the truth is known: columns, slides, invoices, turned pages, tables."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pypdfium2
import pytest
from PIL import Image
from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4, landscape
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.cidfonts import UnicodeCIDFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Frame,
    FrameBreak,
    NextPageTemplate,
    PageTemplate,
    Paragraph,
    Preformatted,
    Spacer,
    Table,
)

from headwater.parsers._pdf_shapes import Area, Word, in_reading_order, make_line
from headwater.parsers.pdf import PdfParser
from headwater.types import BOX_UNITS, Blob, Document, boxes_of

CHINESE = "STSong-Light"
WIDTH, HEIGHT = A4
BODY = ParagraphStyle("body", fontName="Times-Roman", fontSize=10, leading=12.5, spaceAfter=6, alignment=TA_JUSTIFY)
INDENTED = ParagraphStyle("indented", parent=BODY, firstLineIndent=14, spaceAfter=0)
TITLE = ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=20, leading=24, spaceAfter=12)
FIRST = ParagraphStyle("first", fontName="Helvetica-Bold", fontSize=14, leading=18, spaceBefore=12, spaceAfter=6)
SECOND = ParagraphStyle("second", fontName="Helvetica-Bold", fontSize=11, leading=14, spaceBefore=8, spaceAfter=4)
SMALL = ParagraphStyle("small", fontName="Times-Roman", fontSize=8.5, leading=10, spaceAfter=8)
CODE = ParagraphStyle("code", fontName="Courier", fontSize=8, leading=9.6)
ZH = ParagraphStyle("zh", fontName=CHINESE, fontSize=10.5, leading=15, spaceAfter=6, wordWrap="CJK")
GRID = [("GRID", (0, 0), (-1, -1), 0.5, colors.black), ("FONTSIZE", (0, 0), (-1, -1), 9)]
WORDS = (
    "the gauge at the upper weir records the level of the river every ten minutes and sends it by radio to the station "
    "where an operator compares it with the forecast of the morning before the gates of the reservoir are moved"
).split()


@pytest.fixture(autouse=True, scope="module")
def chinese_font() -> None:
    pdfmetrics.registerFont(UnicodeCIDFont(CHINESE))


def prose(number: int, *, words: int = 60) -> str:
    """A paragraph that names itself at both ends, so that a slip shows."""
    return (
        f"Begin{number} " + " ".join(WORDS[(number + place) % len(WORDS)] for place in range(words)) + f" end{number}."
    )


def pdf(story: list[object], *, columns: int = 1, size: tuple[float, float] = A4, rotation: int = 0) -> bytes:
    """A document of so many columns to the page."""
    width, height = size
    gap, margin = 18.0, 56.0
    column = (width - 2 * margin - (columns - 1) * gap) / columns
    frames = [
        Frame(margin + place * (column + gap), margin, column, height - 2 * margin, 0, 0, 0, 0)
        for place in range(columns)
    ]

    def decorate(canvas: Canvas, template: BaseDocTemplate) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(margin, height - 30, "Yearbook of the Stations")
        canvas.drawCentredString(width / 2, 28, f"- {template.page} -")
        if rotation:
            canvas.setPageRotation(rotation)

    stream = io.BytesIO()
    template = BaseDocTemplate(stream, pagesize=size, title="", author="")
    template.addPageTemplates([PageTemplate(frames=frames, onPage=decorate, pagesize=size)])
    template.build(story)
    return stream.getvalue()


def drawn(draw: Callable[[Canvas], None], size: tuple[float, float] = A4) -> bytes:
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=size)
    draw(canvas)
    canvas.save()
    return stream.getvalue()


def parse(data: bytes, uri: str = "papers/stations.pdf") -> Document:
    document = PdfParser().parse(Blob(uri=uri, data=data, mime="application/pdf"))
    for section in document.structure:
        assert document.text[section.span.start :].startswith(section.title.split()[0])
    pages = pypdfium2.PdfDocument(data)
    said = [squeezed(page.get_textpage().get_text_range()) for page in pages]
    pages.close()
    assert len(said) == len(document.page_starts)
    for box in document.boxes:
        assert said[box.page - 1] == "" or squeezed(document.text[box.start : box.end]) in said[box.page - 1]
        assert document.page_starts[box.page - 1] <= box.start
    return document


def squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.replace("\ufffe", ""))


def outline(document: Document) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in document.structure]


def blocks(document: Document, kind: str) -> list[str]:
    return [document.text[block.span.start : block.span.end] for block in document.blocks if block.kind == kind]


def order(document: Document) -> list[int]:
    """The numbers of the paragraphs as they begin, each checked to be whole."""
    numbers = []
    for paragraph in document.text.split("\n\n"):
        if paragraph.startswith("Begin"):
            number = int(paragraph.split()[0].removeprefix("Begin"))
            assert paragraph.endswith(f" end{number}."), paragraph
            assert paragraph.count("Begin") == 1
            numbers.append(number)
    return numbers


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_paragraphs_come_in_reading_order_in_any_number_of_columns(columns: int) -> None:
    # Of this length no paragraph ends at the edge of the foot of a column: there nobody could tell that it ends.
    document = parse(pdf([Paragraph(prose(number, words=63), BODY) for number in range(40)], columns=columns))
    assert order(document) == list(range(40))
    assert "Yearbook" not in document.text
    assert "- 1 -" not in document.text
    assert document.structure == ()


@pytest.mark.parametrize("columns", [1, 2])
def test_indents_part_paragraphs_where_no_gap_does(columns: int) -> None:
    document = parse(pdf([Paragraph(prose(number, words=37), INDENTED) for number in range(30)], columns=columns))
    assert order(document) == list(range(30))


def test_a_numbered_report_has_its_sections() -> None:
    story: list[object] = [Paragraph("Water in Dry Years", TITLE), Paragraph("A. Keeper, B. Warden", BODY)]
    story += [Paragraph("Abstract", SECOND), Paragraph(prose(0), BODY)]
    number = 1
    expected = [(1, "Water in Dry Years"), (1, "Abstract")]
    for chapter in (1, 2, 3):
        story.append(Paragraph(f"{chapter} Chapter of {chapter}", FIRST))
        expected.append((1, f"{chapter} Chapter of {chapter}"))
        for part in (1, 2):
            story.append(Paragraph(f"{chapter}.{part} Part of {chapter}", SECOND))
            expected.append((2, f"{chapter}.{part} Part of {chapter}"))
            for _ in range(3):
                story.append(Paragraph(prose(number), BODY))
                number += 1
    story += [Paragraph("References", FIRST), Paragraph("[1] A. Keeper. On gauges. Weir Press, 1999.", BODY)]
    document = parse(pdf(story))
    assert outline(document) == [*expected, (1, "References")]
    assert document.title == "Water in Dry Years"
    assert order(document) == list(range(number))
    inner = next(section for section in document.structure if section.title.startswith("2.1"))
    assert inner.path == "2 Chapter of 2 > 2.1 Part of 2"


def test_headings_without_numbers_go_by_their_size() -> None:
    story: list[object] = []
    expected = []
    for chapter in ("Levels", "Gates", "Forecasts"):
        story += [Paragraph(chapter, FIRST), Paragraph(prose(1), BODY), Paragraph(f"{chapter} by night", SECOND)]
        story += [Paragraph(prose(2), BODY), Paragraph(prose(3), BODY)]
        expected += [(1, chapter), (2, f"{chapter} by night")]
    assert outline(parse(pdf(story))) == expected


def test_a_paper_has_its_title_across_and_its_text_in_two_columns() -> None:
    full = Frame(56, HEIGHT - 220, WIDTH - 112, 164, 0, 0, 0, 0)
    column = (WIDTH - 112 - 18) / 2
    first = [Frame(56 + place * (column + 18), 56, column, HEIGHT - 290, 0, 0, 0, 0) for place in (0, 1)]
    later = [Frame(56 + place * (column + 18), 56, column, HEIGHT - 112, 0, 0, 0, 0) for place in (0, 1)]
    stream = io.BytesIO()
    template = BaseDocTemplate(stream, pagesize=A4)
    template.addPageTemplates([PageTemplate("first", [full, *first]), PageTemplate("later", later)])
    story: list[object] = [NextPageTemplate("later"), Paragraph("Gates That Open by Themselves", TITLE)]
    story += [Paragraph("Abstract. " + prose(0, words=50), BODY), FrameBreak()]
    for number in range(1, 31):
        if number in (1, 11, 21):
            story.append(Paragraph(f"{number // 10 + 1}. Section {number}", SECOND))
        story.append(Paragraph(prose(number), BODY))
    template.build(story)
    document = parse(stream.getvalue())
    assert document.title == "Gates That Open by Themselves"
    assert [title for _level, title in outline(document)] == [
        "Gates That Open by Themselves",
        "Abstract",
        "1. Section 1",
        "2. Section 11",
        "3. Section 21",
    ]
    assert order(document) == list(range(1, 31))


def test_slides_have_their_titles() -> None:
    def draw(canvas: Canvas) -> None:
        for number in range(1, 6):
            canvas.setFont("Helvetica-Bold", 28)
            canvas.drawString(60, 460, f"Lesson {number} of rivers")
            canvas.setFont("Helvetica", 16)
            for place in range(4):
                canvas.drawString(80, 380 - 40 * place, f"• Point {number}{place} about water")
            canvas.setFont("Helvetica", 9)
            canvas.drawRightString(800, 20, str(number))
            canvas.showPage()

    document = parse(drawn(draw, landscape(A4)))
    assert outline(document) == [(1, f"Lesson {number} of rivers") for number in range(1, 6)]
    assert len(document.page_starts) == 5
    assert "• Point 53 about water" in document.text.split("\n\n")


def test_an_invoice_has_its_ruled_table() -> None:
    rows = [["Item", "Quantity", "Price"], ["Gauge, steel", "2", "140.00"], ["Radio | long range", "1", "89.50"]]
    document = parse(
        pdf(
            [
                Paragraph("Invoice 2025-17", TITLE),
                Paragraph("For the works at the weir.", BODY),
                Table(rows, style=GRID),
            ]
        )
    )
    assert blocks(document, "table") == [
        "| Item | Quantity | Price |\n| Gauge, steel | 2 | 140.00 |\n| Radio ¦ long range | 1 | 89.50 |"
    ]
    (table,) = (block for block in document.blocks if block.kind == "table")
    assert table.header == "Item | Quantity | Price"
    assert [document.text[row : row + 6] for row in table.rows] == ["| Item", "| Gaug", "| Radi"]


def test_cells_with_several_lines_and_over_several_columns_stay_whole() -> None:
    long = Paragraph("the level at which the lower gate is opened by hand", SMALL)
    rows = [
        ["Levels in metres", "", ""],
        ["Gate", "Meaning", "Level"],
        ["Lower", long, "3.2"],
        ["Upper", "opens", "4.1"],
    ]
    style = [*GRID, ("SPAN", (0, 0), (2, 0))]
    document = parse(pdf([Paragraph(prose(1), BODY), Table(rows, colWidths=[60, 90, 60], style=style)]))
    assert blocks(document, "table") == [
        "| Levels in metres |  |  |\n| Gate | Meaning | Level |\n"
        "| Lower | the level at which the lower gate is opened by hand | 3.2 |\n| Upper | opens | 4.1 |"
    ]


def test_a_table_that_goes_on_over_the_page_is_one_and_its_header_stands_once() -> None:
    rows = [["Day", "Level"], *([f"day {number}", f"{number}.5"] for number in range(80))]
    table = Table(rows, colWidths=[100, 100], style=GRID, repeatRows=1)
    document = parse(pdf([Paragraph("Table 1: Levels of the spring", SMALL), table, Paragraph(prose(1), BODY)]))
    (block,) = (block for block in document.blocks if block.kind == "table")
    assert len(block.rows) == 81
    assert document.text.count("| Day | Level |") == 1
    assert len({box.page for box in boxes_of(document, block.span)}) > 1
    (caption,) = (block for block in document.blocks if block.kind == "caption")
    assert caption.about == block.span


@pytest.mark.parametrize("tall", [True, False])
def test_names_that_span_columns_are_part_of_the_names_below(tall: bool) -> None:
    rows = [
        ["Region" if tall else "", "2024", "", "2025", ""],
        ["" if tall else "Region", "Plan", "Actual", "Plan", "Actual"],
        ["North", "10", "11", "12", "13"],
        ["South", "20", "21", "22", "23"],
    ]
    style = [*GRID, ("SPAN", (1, 0), (2, 0)), ("SPAN", (3, 0), (4, 0)), *([("SPAN", (0, 0), (0, 1))] * tall)]
    data = pdf([Paragraph(prose(1), BODY), Table(rows, colWidths=[60] * 5, style=style)])
    document = PdfParser().parse(Blob(uri="budget.pdf", data=data))  # a tall cell is in no row of PDFium's own text
    (block,) = (block for block in document.blocks if block.kind == "table")
    assert block.header == "Region | 2024 / Plan | 2024 / Actual | 2025 / Plan | 2025 / Actual"
    assert document.coverage["tables_without_header"] == 0


def test_a_title_inside_of_a_table_is_no_column() -> None:
    rows = [["Levels in metres", "", ""], ["Gate", "Meaning", "Level"], ["Lower", "opens", "3.2"]]
    rows.append(["Upper", "opens", "4.1"])
    document = parse(pdf([Paragraph(prose(1), BODY), Table(rows, style=[*GRID, ("SPAN", (0, 0), (2, 0))])]))
    (block,) = (block for block in document.blocks if block.kind == "table")
    assert block.header == "Gate | Meaning | Level"


@pytest.mark.parametrize("footer", [True, False])
@pytest.mark.parametrize("grid", [True, False])
@pytest.mark.parametrize("pages", [3, 9])
def test_rows_at_the_edge_of_the_page_are_no_headers_or_footers(pages: int, grid: bool, footer: bool) -> None:
    # Where each page ends with a row like `PN-0033 | pcs | 231`, only its numbers differ from the row there before.
    count = 46 * pages
    rows = [["Part", "Unit", "Count"], *([f"PN-{number:04d}", "pcs", f"{number * 7}"] for number in range(count))]
    style = GRID if grid else [("FONTSIZE", (0, 0), (-1, -1), 9)]
    stream = io.BytesIO()
    template = BaseDocTemplate(stream, pagesize=A4)

    def decorate(canvas: Canvas, template: BaseDocTemplate) -> None:
        if footer:
            canvas.setFont("Helvetica", 8)
            canvas.drawString(56, 24, f"Stock list 2025, page {template.page} of {pages}")
            canvas.drawRightString(WIDTH - 56, 24, "12 May 2025")

    frame = Frame(56, 40, WIDTH - 112, HEIGHT - 70, 0, 0, 0, 0)
    template.addPageTemplates([PageTemplate(frames=[frame], onPage=decorate)])
    template.build([Table(rows, colWidths=[100, 80, 80], style=style)])
    document = parse(stream.getvalue())
    assert len(document.page_starts) >= pages
    words = document.text.split()
    assert [number for number in range(count) if f"PN-{number:04d}" not in words] == []
    assert [number for number in range(count) if f"{number * 7}" not in words] == []
    assert words.count("pcs") == count
    assert "Stock" not in document.text and "May" not in document.text


def test_a_table_without_rules_is_seen_by_its_gaps() -> None:
    rows = [["Month", "Rain mm", "Days"], ["January", "80.5", "12"], ["February", "61.0", "9"], ["March", "7.2", "3"]]
    style = [("ALIGN", (1, 0), (-1, -1), "RIGHT"), ("FONTSIZE", (0, 0), (-1, -1), 9)]
    story = [Paragraph(prose(1), BODY), Table(rows, colWidths=[90, 70, 60], style=style), Paragraph(prose(2), BODY)]
    document = parse(pdf(story))
    (block,) = (block for block in document.blocks if block.kind == "table")
    assert block.header == "Month | Rain mm | Days"
    assert "| February | 61.0 | 9 |" in document.text
    assert order(document) == [1, 2]


def test_captions_belong_to_their_table_or_the_nearest_paragraph() -> None:
    rows = [["Gate", "Level"], ["Lower", "3.2"], ["Upper", "4.1"]]
    story = [
        Paragraph(prose(1), BODY),
        Spacer(1, 60),
        Paragraph("Figure 1. The weir from above, in spring.", SMALL),
        Paragraph("Table 1 shows the levels of both gates. " + prose(2), BODY),
        Paragraph(prose(3), BODY),
        Table(rows, style=GRID),
        Paragraph("Table 1: Levels of the gates", SMALL),
        Paragraph(prose(4), BODY),
    ]
    document = parse(pdf(story))
    assert blocks(document, "caption") == ["Figure 1. The weir from above, in spring.", "Table 1: Levels of the gates"]
    figure, table = (block for block in document.blocks if block.kind == "caption")
    assert figure.about is not None and table.about is not None
    assert document.text[figure.about.start : figure.about.end].startswith("Begin1 ")
    assert document.text[table.about.start : table.about.end].startswith("| Gate | Level |")


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_turned_page_reads_like_an_upright_one(rotation: int) -> None:
    """Pages that the viewer turns: boxes are on the page as it is shown."""

    def draw(canvas: Canvas) -> None:
        canvas.setPageRotation(rotation)
        canvas.setFont("Helvetica", 12)
        for place in range(12):
            canvas.drawString(100, 500 - 20 * place, f"Line {place} of the turned page goes on a little.")
        canvas.showPage()

    document = parse(drawn(draw))
    assert document.text.startswith("Line 0 of the turned page goes on a little. Line 1 of")
    first, last = document.boxes[0], document.boxes[-1]
    across, down = first.right - first.left, first.bottom - first.top
    assert (across < down) == (rotation in (90, 270))
    # The first line is at the top of the unturned page: right, bottom or left of the turned one.
    towards = {90: last.left - first.left, 180: last.top - first.top, 270: last.left - first.left}[rotation]
    assert (towards < 0) == (rotation in (90, 180))


def test_text_set_upwards_is_read_and_what_is_beside_the_text_comes_last() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 11)
        canvas.saveState()
        canvas.rotate(90)
        for place in range(10):
            canvas.drawString(100, -120 - 16 * place, f"Row {place} of a wide table that was set sideways.")
        canvas.restoreState()
        canvas.showPage()
        canvas.setFont("Helvetica", 11)
        canvas.saveState()
        canvas.rotate(90)
        canvas.drawString(300, -30, "stamp of the archive")
        canvas.restoreState()
        for place in range(10):
            canvas.drawString(100, 700 - 16 * place, f"Row {place} of an upright page.")
        canvas.showPage()

    document = parse(drawn(draw))
    assert document.text.startswith("Row 0 of a wide table that was set sideways. Row 1 of")
    assert document.text.endswith("Row 9 of an upright page.\n\nstamp of the archive")
    first = document.boxes[0]
    assert first.right - first.left < first.bottom - first.top


def test_chinese_and_english_side_by_side_keep_apart_and_have_no_stray_blanks() -> None:
    chinese = "水文站每十分钟记录一次河流水位，并通过无线电发送到站里，由值班员与早晨的预报进行比较。"
    story: list[object] = [Paragraph(f"English {number}. " + prose(number, words=30), BODY) for number in range(8)]
    story += [FrameBreak(), *(Paragraph(f"【{number}】{chinese}", ZH) for number in range(8))]
    document = parse(pdf(story, columns=2))
    paragraphs = document.text.split("\n\n")
    assert [paragraph for paragraph in paragraphs if paragraph.startswith("【")] == [
        f"【{n}】{chinese}" for n in range(8)
    ]
    assert sum(paragraph.startswith("English") for paragraph in paragraphs) == 8


def test_columns_of_ideographs_are_read_downwards_from_right_to_left() -> None:
    columns = [("第一章", 24), ("春眠不觉晓处处闻啼鸟夜来风雨声", 12), ("花落知多少", 12), ("水位到七米时开闸放水", 12)]
    lefts = (500, 450, 432, 390)

    def draw(canvas: Canvas) -> None:
        for (column, size), left in zip(columns, lefts, strict=True):
            canvas.setFont(CHINESE, size)
            for place, character in enumerate(column):
                canvas.drawString(left, 760 - place * size * 1.1, character)
        canvas.showPage()

    document = parse(drawn(draw))
    assert document.text.replace("\n", "") == "".join(column for column, _ in columns)
    assert "声花落" in document.text.replace("\n\n", "|")  # a paragraph of two columns
    first = document.boxes[0]
    assert first.left > BOX_UNITS * 0.8 and first.bottom - first.top > first.right - first.left


@pytest.mark.parametrize(
    ("row", "read"),
    [
        (".חשוב 456 המספר", "המספר 456 .חשוב"),
        ("למשאבה הישנה 2.0 Pump Guide מדריך", "מדריך 2.0 Pump Guide הישנה למשאבה"),
        ("للمضخة دليل", "دليل للمضخة"),
        ("The word שלום means peace", "The word שלום means peace"),
        ("水位 7 metres", "水位 7 metres"),
    ],
)
def test_words_are_read_in_the_direction_of_their_script(row: str, read: str) -> None:
    """`row` as it stands on the page, from left to right."""
    words, left = [], 0.0
    for text in row.split():
        area = Area(left, 0.0, left + 6.0 * len(text), 10.0)
        words.append(Word(text=text, area=area, size=10.0, baseline=8.0, blank=False))
        left = area.right + 3.0
    assert make_line(in_reading_order(words), 0).text == read


def test_stretched_lines_put_no_blanks_between_ideographs() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont(CHINESE, 12)
        for line, gap in ((0, 0.0), (1, 3.0), (2, 5.0)):
            canvas.drawString(80, 700 - 30 * line, "水位每日记录一次", charSpace=gap)
        canvas.drawString(80, 600, "第一章 水位")
        canvas.showPage()

    document = parse(drawn(draw))
    assert document.text.count("水位每日记录一次") == 3
    assert "第一章 水位" in document.text


def test_words_broken_at_line_ends_are_whole_again() -> None:
    lines = [
        "The hydrological sta-",
        "tion keeps a record of long-",
        "term levels, a well-known and self-",
        "made series from 1990-",
        "1999 that the Upper-",
        "Weir office shares; long-term data helps.",
    ]

    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 11)
        for place, line in enumerate(lines):
            canvas.drawString(80, 700 - 14 * place, line)
        canvas.showPage()

    assert parse(drawn(draw)).text == (
        "The hydrological station keeps a record of long-term levels, a well-known and self-made series from "
        "1990-1999 that the Upper-Weir office shares; long-term data helps."
    )


def test_programs_keep_their_lines() -> None:
    program = "def level(gauge):\n    if gauge.dry:\n        return 0\n    return gauge.read()"
    document = parse(pdf([Paragraph(prose(1), BODY), Preformatted(program, CODE), Paragraph(prose(2), BODY)]))
    assert blocks(document, "code") == [program]


def test_a_table_of_contents_is_there_but_in_no_chunk() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 11)
        for place in range(6):
            canvas.drawString(80, 700 - 16 * place, f"{place + 1} Chapter {place + 1} " + ". " * 40 + f"{place + 3}")
        canvas.showPage()
        canvas.setFont("Helvetica", 11)
        canvas.drawString(80, 700, "The text itself begins on the page after it.")
        canvas.showPage()

    document = parse(drawn(draw))
    (hidden,) = document.hidden
    assert document.text[hidden.start : hidden.end].count("\n") == 5
    assert "The text itself" not in document.text[hidden.start : hidden.end]


def test_the_outline_of_the_file_wins_over_the_fonts() -> None:
    def draw(canvas: Canvas) -> None:
        for number in (1, 2):
            for level, title, size in ((0, f"Part {number}", 11), (1, f"Inner {number}", 18)):
                canvas.setFont("Helvetica", size)
                canvas.bookmarkPage(title)
                canvas.addOutlineEntry(title, title, level)
                canvas.drawString(80, 700 - 100 * level, title)
                canvas.setFont("Helvetica", 11)
                for place in range(3):
                    canvas.drawString(80, 670 - 100 * level - 14 * place, f"Line {place} of the text of {title}.")
            canvas.showPage()

    assert outline(parse(drawn(draw))) == [(1, "Part 1"), (2, "Inner 1"), (1, "Part 2"), (2, "Inner 2")]


def test_links_and_what_the_file_says_about_itself() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setTitle("Levels of the year")
        canvas.setAuthor("A. Keeper")
        canvas.setKeywords("water, gauges")
        canvas.setFont("Helvetica", 12)
        canvas.drawString(80, 700, "See the station page, or https://example.org/raw.")
        canvas.linkURL("https://example.org/station", (102, 696, 190, 712))
        canvas.showPage()

    document = parse(drawn(draw))
    assert document.title == "Levels of the year"
    assert document.meta["author"] == "A. Keeper"
    assert document.meta["keywords"] == ("water", "gauges")
    assert document.created.startswith("20") and document.created.endswith("+00:00")
    assert [(link.target, document.text[link.span.start : link.span.end]) for link in document.links] == [
        ("https://example.org/station", "the station page,"),
        ("https://example.org/raw", "https://example.org/raw"),
    ]


def test_running_headers_that_change_with_the_chapter_are_left_out() -> None:
    story: list[object] = []
    for number in range(120):
        story.append(Paragraph(prose(number), BODY))

    stream = io.BytesIO()
    template = BaseDocTemplate(stream, pagesize=A4)
    frame = Frame(56, 80, WIDTH - 112, HEIGHT - 160, 0, 0, 0, 0)

    def decorate(canvas: Canvas, template: BaseDocTemplate) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(
            56, HEIGHT - 40, f"Chapter {(template.page + 1) // 2}: Water {'abcdef'[template.page // 2 % 6]}"
        )
        canvas.drawRightString(WIDTH - 56, HEIGHT - 40, str(template.page))

    template.addPageTemplates([PageTemplate(frames=[frame], onPage=decorate)])
    template.build(story)
    document = parse(stream.getvalue())
    assert len(document.page_starts) >= 6
    assert "Chapter" not in document.text
    assert order(document) == list(range(120))


def test_pages_without_text_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.parsers._ocr.available", lambda: False)

    def draw(canvas: Canvas) -> None:
        for number in range(5):
            if number == 2:
                canvas.drawImage(ImageReader(Image.new("RGB", (8, 8))), 80, 80, 400, 600)
            elif number < 4:
                canvas.drawString(80, 700, f"Page {number} says something.")
            canvas.showPage()

    document = parse(drawn(draw))
    assert document.problems == (
        "1 of 5 pages has no text: it may be a scan; install headwater[ocr] and add the file again",
    )
    assert {key: document.coverage[key] for key in ("pages", "pages_with_text", "pages_blank")} == {
        "pages": 5,
        "pages_with_text": 3,
        "pages_blank": 1,
    }
    assert document.page_starts[2] == document.page_starts[3] == document.text.index("Page 3")


def test_a_page_that_was_recognised_says_so_and_has_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(canvas: Canvas) -> None:
        canvas.drawString(80, 700, "The printed page.")
        canvas.showPage()
        canvas.drawImage(ImageReader(Image.new("RGB", (8, 8))), 80, 80, 400, 600)
        canvas.showPage()

    seen = []

    def recognise(image: object) -> list[tuple[str, tuple[int, int, int, int]]]:
        height, width, channels = image.shape  # type: ignore[attr-defined]
        seen.append((height > width, channels))
        return [
            ("水位每日", (0, 0, width // 2, height // 20)),
            ("记录一次。", (0, height // 20, width // 2, height // 10)),
        ]

    monkeypatch.setattr("headwater.parsers._ocr.available", lambda: True)
    monkeypatch.setattr("headwater.parsers._ocr.recognise", recognise)
    document = parse(drawn(draw))
    assert seen == [(True, 3)]
    assert document.text == "The printed page.\n\n水位每日记录一次。"
    box = document.boxes[1]
    assert (box.page, box.left, box.top) == (2, 0, 0)
    assert abs(box.right - BOX_UNITS // 2) < 20 and abs(box.bottom - BOX_UNITS // 20) < 20
    assert document.coverage["pages_recognised"] == 1
    assert document.problems == ("the text of page 2 was recognised from a picture and may have errors",)


def workbook(pages: int, *, mark: str = "", angle: int = 45) -> Document:
    """A sheet of exercises a page, each with its number in large print, and a mark across some of them."""

    def draw(canvas: Canvas) -> None:
        for place in range(pages):
            canvas.setFont("Helvetica-Bold", 18)
            canvas.drawString(60, 790, f"Exercise {place + 1}")
            canvas.setFont("Helvetica", 10)
            canvas.drawCentredString(300, 30, f"Sheet {place + 1}")
            for line in range(12):
                canvas.drawString(60, 750 - 13 * line, f"Explain why turbine {'abcdefgh'[place]} turns {line} times.")
            if mark:
                canvas.saveState()
                canvas.translate(300, 400)
                canvas.rotate(angle)
                canvas.setFont("Helvetica", 60)
                canvas.drawCentredString(0, 0, mark if pages > 1 else f"{mark}!")
                canvas.restoreState()
            canvas.showPage()

    return parse(drawn(draw))


@pytest.mark.parametrize("pages", [2, 6])
def test_large_print_that_counts_along_with_the_pages_is_their_headings(pages: int) -> None:
    exercises = workbook(pages)
    assert outline(exercises) == [(1, f"Exercise {place + 1}") for place in range(pages)]
    assert "Sheet" not in exercises.text


@pytest.mark.parametrize("angle", [45, 55, 90])
def test_a_watermark_is_no_text_and_no_heading(angle: int) -> None:
    marked = workbook(5, mark="DRAFT", angle=angle)
    assert "DRAFT" not in marked.text
    assert outline(marked) == [(1, f"Exercise {place + 1}") for place in range(5)]


def test_what_stands_across_a_single_page_is_read_and_names_nothing() -> None:
    marked = workbook(1, mark="DRAFT")
    assert marked.text.endswith("DRAFT!") and "DRAFT" not in marked.title
    assert all("DRAFT" not in title for _level, title in outline(marked))
