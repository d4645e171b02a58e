"""PDF: two-column papers whose truth was read off the rendered pages, and files that are locked, cut or scanned."""

from __future__ import annotations

import re
import struct
import unicodedata
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pypdfium2
import pytest

from headwater.errors import EmptyDocument, NotFound, SourceError
from headwater.parsers._pdf_render import render_page
from headwater.parsers.pdf import PdfParser
from headwater.types import BOX_UNITS, Blob, Document, boxes_of

DATA = Path(__file__).parents[1] / "data" / "pdf"
GOLDEN = Path(__file__).parents[1] / "golden" / "pdf"
PAPERS = ("twocol-en", "twocol-zh")
# As the pages show them: four chapters of three sections, 36 numbered paragraphs, a table in every first section and a
# figure in every second one. Table 4 of the English paper is broken over two columns.
TRUTH = {
    "twocol-en": {
        "chapter": "{0} Retrieval Methods Part {0}",
        "section": "{0}.{1} Experimental Setup {0}{1}",
        "paragraph": r"\[P(\d{3})\]",
        "end": "documents that hold tables and captions.",
        "table": [
            ["Model", "Recall", "Latency"],
            ["Alpha", "0.81", "12ms"],
            ["Beta", "0.86", "35ms"],
            ["Gamma", "0.79", "8ms"],
        ],
        "table caption": "Table {}: Recall of each model",
        "figure caption": "Figure {}: Recall by chunk length",
        "pages": 5,
        "running": ("Journal of Retrieval", "Page 1"),
    },
    "twocol-zh": {
        "chapter": "{0} 第{0}章 检索方法",
        "section": "{0}.{1} 实验设置{0}{1}",
        "paragraph": r"【段(\d{3})】",
        "end": "尤其是在含有表格和图注的长文档中。",
        "table": [
            ["模型", "召回率", "延迟"],
            ["甲模型", "0.81", "12ms"],
            ["乙模型", "0.86", "35ms"],
            ["丙模型", "0.79", "8ms"],
        ],
        "table caption": "表{} 各模型召回率对比",
        "figure caption": "图{} 召回率随片段长度的变化",
        "pages": 4,
        "running": ("页眉", "第1页"),
    },
}


@pytest.fixture(autouse=True)
def without_recognition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.parsers._ocr.available", lambda: False)


def parse(data: bytes, uri: str = "papers/paper.pdf") -> Document:
    return PdfParser().parse(Blob(uri=uri, data=data, mime="application/pdf", modified="2025-01-02T03:04:05+00:00"))


def read(name: str) -> Document:
    return parse((DATA / f"{name}.pdf").read_bytes(), f"papers/{name}.pdf")


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_reads_as_its_golden_file_says(name: str, outline: Callable[[Document], str]) -> None:
    assert outline(read(name)) + "\n" == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAPERS)
def test_headings_have_their_levels_and_nothing_else_is_one(name: str) -> None:
    truth = TRUTH[name]
    expected = []
    for chapter in range(1, 5):
        expected.append((1, truth["chapter"].format(chapter)))
        expected += [(2, truth["section"].format(chapter, part)) for part in (1, 2, 3)]
    document = read(name)
    assert [(section.level, section.title) for section in document.structure] == expected
    for section in document.structure:
        assert document.text.startswith(section.title, section.span.start)
    assert document.structure[5].path == f"{expected[4][1]} > {expected[5][1]}"


@pytest.mark.parametrize("name", PAPERS)
def test_paragraphs_are_whole_and_in_reading_order(name: str) -> None:
    truth = TRUTH[name]
    document = read(name)
    found = [part for part in document.text.split("\n\n") if re.match(truth["paragraph"], part)]
    numbers = [int(re.match(truth["paragraph"], part)[1]) for part in found]  # type: ignore[index]
    assert numbers == list(range(1, 37))
    # Every paragraph says the same twice; a slip between columns would change its words.
    assert len({re.sub(truth["paragraph"], "", part) for part in found}) == 1
    assert found[0].count(truth["end"]) == 2 and found[0].endswith(truth["end"])
    assert not any(words in document.text for words in truth["running"])


@pytest.mark.parametrize("name", PAPERS)
def test_tables_and_figures_have_their_captions(name: str) -> None:
    truth = TRUTH[name]
    document = read(name)
    tables = [block for block in document.blocks if block.kind == "table"]
    captions = [block for block in document.blocks if block.kind == "caption"]
    assert len(tables) == 4
    for table in tables:
        ends = [*table.rows[1:], table.span.end + 1]
        rows = [document.text[start : end - 1] for start, end in zip(table.rows, ends, strict=True)]
        assert [row.strip("| ").split(" | ") for row in rows] == truth["table"]
        assert table.header == " | ".join(truth["table"][0])
    said = {document.text[block.span.start : block.span.end]: block.about for block in captions}
    assert list(said) == [
        truth[kind].format(number) for number in range(1, 5) for kind in ("table caption", "figure caption")
    ]
    for number, table in enumerate(tables, 1):
        assert said[truth["table caption"].format(number)] == table.span
        about = said[truth["figure caption"].format(number)]
        assert about is not None
        # The paragraph above the figure: 6, 15, 24, 33.
        assert re.match(truth["paragraph"], document.text[about.start :])[1] == f"{9 * number - 3:03}"  # type: ignore[index]


def test_no_blank_stands_between_ideographs_but_those_of_the_author() -> None:
    text = read("twocol-zh").text
    han = "[\u3400-\u9fff，。、：；（）【】]"
    # In "第1章 检索方法" and "表1 各模型" the author put one after a number or a word of the heading.
    found = [match.group() for match in re.finditer(f"{han}+ {han}+", text)]
    assert set(found) == {"章 检索方法"}


@pytest.mark.parametrize("name", [*PAPERS, "one"])
def test_every_line_stands_on_its_page(name: str) -> None:
    """Against PDFium's own text of the page, and its own text inside each box."""
    document = read(name)
    pdf = pypdfium2.PdfDocument(DATA / f"{name}.pdf")
    assert len(document.page_starts) == len(pdf) == document.coverage["pages"]
    assert document.boxes
    for page in {box.page for box in document.boxes}:
        textpage = pdf[page - 1].get_textpage()
        width, height = pdf[page - 1].get_size()
        whole = squeezed(textpage.get_text_range())
        for box in (box for box in document.boxes if box.page == page):
            words = squeezed(document.text[box.start : box.end])
            assert words and words in whole
            left, right = box.left * width / BOX_UNITS, box.right * width / BOX_UNITS
            top, bottom = (height - place * height / BOX_UNITS for place in (box.top, box.bottom))
            assert words in squeezed(textpage.get_text_bounded(left - 1, bottom - 1, right + 1, top + 1))
    pdf.close()


@pytest.mark.parametrize("name", [*PAPERS, "one"])
def test_spans_boxes_and_pages_fit_together(name: str) -> None:
    document = read(name)
    text = document.text
    for before, after in pairwise(document.boxes):
        assert before.start < before.end <= after.start
        assert before.page <= after.page
    for box in document.boxes:
        assert 0 <= box.left < box.right <= BOX_UNITS and 0 <= box.top < box.bottom <= BOX_UNITS
        assert document.page_starts[box.page - 1] <= box.start
        assert box.page == len(document.page_starts) or box.end <= document.page_starts[box.page]
    # Every character is in a box but what joins lines.
    covered = sum(box.end - box.start for box in document.boxes)
    assert covered == len(text) - sum(not inside(document, place) for place in range(len(text)))
    assert all(text[place] in " \n-" for place in range(len(text)) if not inside(document, place))
    assert list(document.page_starts) == sorted(document.page_starts) and document.page_starts[0] == 0
    for span in [*(section.span for section in document.structure), *(block.span for block in document.blocks)]:
        assert 0 <= span.start < span.end <= len(text)
        assert boxes_of(document, span)
    for block in document.blocks:
        assert block.about is None or 0 <= block.about.start < block.about.end <= len(text)
        assert all(text[row] == "|" and (row == 0 or text[row - 1] == "\n") for row in block.rows)


def inside(document: Document, place: int) -> bool:
    return any(
        box.start <= place < box.end for box in boxes_of(document, type(document.blocks[0].span)(place, place + 1))
    )


def squeezed(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text.replace("\ufffe", "")))


def test_an_encrypted_file_says_what_to_do() -> None:
    with pytest.raises(SourceError, match=r"papers/encrypted\.pdf is encrypted and needs a password; save a copy"):
        read("encrypted")


def test_a_scan_says_what_would_help() -> None:
    with pytest.raises(
        EmptyDocument, match=r"no text on any of its 1 page: it seems to be a scan; install headwater\[ocr"
    ):
        read("scan")


def test_a_scan_is_recognised_where_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.parsers._ocr.available", lambda: True)
    monkeypatch.setattr(
        "headwater.parsers._ocr.recognise",
        lambda image: [("The gauge is read", (100, 100, 800, 130)), ("every day.", (100, 140, 500, 170))],
    )
    document = read("scan")
    assert document.text == "The gauge is read every day."
    assert document.coverage["pages_recognised"] == 1
    assert document.problems == ("the text of page 1 was recognised from a picture and may have errors",)


def test_a_blank_file_is_empty_and_no_scan() -> None:
    pdf = pypdfium2.PdfDocument.new()
    pdf.new_page(300, 300)
    data = saved(pdf)
    with pytest.raises(EmptyDocument, match="holds no text: nothing is on its 1 page"):
        parse(data)


def saved(pdf: pypdfium2.PdfDocument) -> bytes:
    from io import BytesIO

    stream = BytesIO()
    pdf.save(stream)
    pdf.close()
    return stream.getvalue()


@pytest.mark.parametrize("data", [b"", b"%PDF-1.7", b"no PDF at all", b"%PDF-1.7\n%%EOF", bytes(1000)])
def test_what_is_no_pdf_is_refused(data: bytes) -> None:
    with pytest.raises(SourceError, match="is not a PDF that can be read"):
        parse(data)


@pytest.mark.parametrize("name", ["one", "twocol-zh"])
def test_a_file_cut_anywhere_is_refused_or_says_that_its_end_is_missing(name: str) -> None:
    whole = (DATA / f"{name}.pdf").read_bytes()
    refused = 0
    for end in range(0, len(whole) - 10, 1024):
        try:
            document = parse(whole[:end])
        except SourceError as error:
            assert "papers/paper.pdf" in str(error)
            refused += 1
        else:
            assert any("end of the file is missing" in problem for problem in document.problems)
    assert refused


def test_the_page_can_be_shown_as_a_picture() -> None:
    picture = render_page((DATA / "one.pdf").read_bytes(), 1, width=300)
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", picture[16:24])
    assert width in (300, 301) and 420 <= height <= 428
    start = picture.index(b"IDAT") + 4
    size = struct.unpack(">I", picture[start - 8 : start - 4])[0]
    rows = zlib.decompress(picture[start : start + size])
    assert len(rows) == height * (1 + 3 * width)
    # White paper and black print.
    assert rows.count(b"\xff") > len(rows) / 2 and min(rows[1:]) < 60
    with pytest.raises(NotFound, match="page must be from 1 to 1, got 2"):
        render_page((DATA / "one.pdf").read_bytes(), 2, width=300)
    with pytest.raises(SourceError, match="cannot be shown"):
        render_page(b"no PDF", 1, width=300)
