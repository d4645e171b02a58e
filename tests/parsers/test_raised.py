"""Raised digits: a power or the mark of a note must never become part of the number before it."""

import io
import zipfile
from collections.abc import Callable

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate

from headwater.documents import Blob, Document
from headwater.kinds import kind_of
from headwater.parsers import READS
from headwater.registry import load

SAID = (
    ("The pressure is 10", False),
    ("6", True),
    (" Pa for 10", False),
    ("-", True),
    ("3", True),
    (" s on 5 m", False),
)
READ = "The pressure is 10^6 Pa for 10^-3 s on 5 m"


def parse(name: str, data: bytes) -> Document:
    mime = kind_of(name, data)
    parser = next(parser for parser, mimes in READS.items() if mime in mimes)
    return load("parsers", parser)().parse(Blob(uri=name, data=data, mime=mime))


def word() -> bytes:
    document = docx.Document()
    paragraph = document.add_paragraph()
    for words, raised in SAID:
        paragraph.add_run(words).font.superscript = raised or None
    stream = io.BytesIO()
    document.save(stream)
    return stream.getvalue()


def slides() -> bytes:
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    paragraph = slide.placeholders[1].text_frame.paragraphs[0]
    for words, raised in SAID:
        run = paragraph.add_run()
        run.text = words
        if raised:
            run.font._element.set("baseline", "30000")
    stream = io.BytesIO()
    show.save(stream)
    return stream.getvalue()


def sheet() -> bytes:
    book = openpyxl.Workbook()
    parts = [TextBlock(InlineFont(vertAlign="superscript"), words) if raised else words for words, raised in SAID]
    book.active.append(["Station", "Remark"])
    book.active.append(["Weir", CellRichText(parts)])
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def rich_text() -> bytes:
    groups = "".join(f"{{\\super {words}}}" if raised else words for words, raised in SAID)
    return f"{{\\rtf1\\ansi {groups}\\par}}".encode()


def open_text() -> bytes:
    spans = "".join(
        f'<text:span text:style-name="T1">{words}</text:span>' if raised else words for words, raised in SAID
    )
    content = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
        'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" '
        'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:automatic-styles>'
        '<style:style style:name="T1" style:family="text"><style:text-properties style:text-position="super 58%"/>'
        f"</style:style></office:automatic-styles><office:body><office:text><text:p>{spans}</text:p></office:text>"
        "</office:body></office:document-content>"
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml", content)
    return stream.getvalue()


def pdf() -> bytes:
    marked = "".join(f"<super>{words}</super>" if raised else words for words, raised in SAID)
    stream = io.BytesIO()
    SimpleDocTemplate(stream).build([Paragraph(marked, getSampleStyleSheet()["BodyText"])])
    return stream.getvalue()


def page() -> bytes:
    marked = "".join(f"<sup>{words}</sup>" if raised else words for words, raised in SAID)
    return f"<!doctype html><html><body><p>{marked.replace('</sup><sup>', '')}</p></body></html>".encode()


@pytest.mark.parametrize(
    ("name", "made"),
    [
        *(("a.docx", word), ("a.pptx", slides), ("a.xlsx", sheet), ("a.rtf", rich_text), ("a.odt", open_text)),
        *(("a.pdf", pdf), ("a.html", page)),
    ],
)
def test_a_power_is_no_part_of_the_number(name: str, made: Callable[[], bytes]) -> None:
    assert READ in parse(name, made()).text


@pytest.mark.parametrize(
    "mark",
    [
        '<sup><a href="#n3">3</a></sup>',
        '<a href="#n3"><sup>3</sup></a>',
        '<a epub:type="noteref" href="notes.xhtml#n3">3</a>',
        '<a class="footnote-ref" href="#n3">3</a>',
    ],
)
def test_the_mark_of_a_note_is_no_part_of_the_number(mark: str) -> None:
    table = f"<table><tr><th>Year</th><th>Share</th></tr><tr><td>2024</td><td>25{mark}</td></tr></table>"
    text = parse("a.html", f"<!doctype html><body><p>It rose to 25{mark} percent.</p>{table}</body>".encode()).text
    assert "It rose to 25[^3] percent." in text
    assert "| 2024 | 25[^3] |" in text


def test_other_links_and_raised_words_stay_as_they_are() -> None:
    text = parse(
        "a.html",
        b'<!doctype html><p>Page <a href="/2">2</a>, the 1<sup>st</sup>, 10<sup><b>6</b></sup>, ACME<sup>TM</sup>,'
        b' see<sup><a href="#n">[4]</a></sup>.</p>',
    ).text
    assert text == "Page 2, the 1st, 10^6, ACMETM, see[4]."


MATHS = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'


@pytest.mark.parametrize(
    ("formula", "read"),
    [
        ("<m:f><m:num>{a+b}</m:num><m:den>{c}</m:den></m:f>", "(a+b)/c"),
        ("<m:sSup><m:e>{10}</m:e><m:sup>{-3}</m:sup></m:sSup>", "10^-3"),
        ("<m:sSubSup><m:e>{x}</m:e><m:sub>{1}</m:sub><m:sup>{2}</m:sup></m:sSubSup>", "x_1^2"),
        ("<m:rad><m:deg/><m:e>{a+b}</m:e></m:rad>", "√(a+b)"),
        ("<m:f><m:num>{1}</m:num><m:den><m:rad><m:deg>{3}</m:deg><m:e>{x}</m:e></m:rad></m:den></m:f>", "1/(^3√x)"),
    ],
)
def test_a_formula_of_word_says_in_a_line_what_it_says_in_two(formula: str, read: str) -> None:
    document = docx.Document()
    paragraph = document.add_paragraph("It is ")
    runs = formula.replace("{", "<m:r><m:t>").replace("}", "</m:t></m:r>")
    paragraph._p.append(parse_xml(f"<m:oMath {MATHS} {nsdecls('w')}>{runs}</m:oMath>"))
    stream = io.BytesIO()
    document.save(stream)
    assert parse("a.docx", stream.getvalue()).text.strip() == f"It is {read}"
