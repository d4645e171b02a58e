"""Slide shows: a page and a section per slide, in the order of reading, with the speaker's notes."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pptx
import pytest
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from headwater.chunkers.recursive import RecursiveChunker
from headwater.errors import EmptyDocument, SourceError
from headwater.parsers.slides import SlidesParser
from headwater.types import Blob, Document

Sound = Callable[[Document], Document]
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
TITLE_AND_CONTENT, TITLE_ONLY, BLANK = 1, 5, 6


def parse(data: bytes, uri: str = "talks/flood.pptx", mime: str = PPTX) -> Document:
    return SlidesParser().parse(Blob(uri=uri, data=data, mime=mime, modified="2025-01-02T03:04:05+00:00"))


def saved(show: Any) -> bytes:
    stream = io.BytesIO()
    show.save(stream)
    return stream.getvalue()


def slide_of(show: Any, layout: int, title: str = "", body: str = "") -> Any:
    slide = show.slides.add_slide(show.slide_layouts[layout])
    if title:
        slide.shapes.title.text = title
    if body:
        slide.placeholders[1].text = body
    return slide


def box(slide: Any, text: str, left: float, top: float) -> Any:
    shape = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(0.5))
    shape.text_frame.text = text
    return shape


def picture() -> io.BytesIO:
    """One white pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\xff\xff\xff")) + chunk(b"IEND", b"")
    return io.BytesIO(b"\x89PNG\r\n\x1a\n" + body)


def test_the_deck_reads_as_it_was_checked_by_eye(sound: Sound, data: Path, outline: Callable[[Document], str]) -> None:
    document = sound(parse((data / "deck.pptx").read_bytes(), "deck.pptx"))
    assert outline(document) == (data / "deck.pptx.golden").read_text(encoding="utf-8")
    notes = [block for block in document.blocks if block.kind == "note"]
    assert [document.text[note.span.start : note.span.end] for note in notes] == [
        f"讲者备注{number}：提醒听众注意汇率。Speaker note {number}." for number in range(1, 6)
    ]
    assert "组合里的文字" in document.text
    assert document.coverage["slides"] == 5


def test_slides_are_pages_and_sections(sound: Sound) -> None:
    show = pptx.Presentation()
    show.core_properties.title, show.core_properties.author = "防汛 Flood", "李雷"
    show.core_properties.keywords = "防汛, flood"
    slide_of(show, TITLE_AND_CONTENT, "第一页 水位", "警戒水位 24.5 米\n保证水位 26 米")
    second = slide_of(show, TITLE_AND_CONTENT, "Duty roster", "Two people at night")
    second.notes_slide.notes_text_frame.text = "提醒：换班在六点。\nRemind them."
    document = sound(parse(saved(show)))
    assert (document.title, document.tags, document.meta["author"]) == ("防汛 Flood", ("防汛", "flood"), "李雷")
    assert [section.title for section in document.structure] == ["第一页 水位", "Duty roster"]
    assert list(document.page_starts) == [section.span.start for section in document.structure]
    [note] = document.blocks
    assert (note.kind, note.about) == ("note", (document.page_starts[1], note.span.start - 2))
    assert document.text.endswith("Two people at night\n\n提醒：换班在六点。\nRemind them.\n")
    pages = {chunk.pages for chunk in RecursiveChunker(size=400, overlap=0).chunk(document)}
    assert pages == {(1,), (2,)}


def test_shapes_are_read_from_top_to_bottom_and_groups_together(sound: Sound) -> None:
    show = pptx.Presentation()
    slide = slide_of(show, TITLE_ONLY, "Order")
    box(slide, "bottom", 1, 6)
    box(slide, "right", 5, 2.02)
    box(slide, "left", 1, 2)
    group = slide.shapes.add_group_shape()
    for text, left, top in (("组二 second", 1, 4.6), ("组一 first", 1, 4)):
        box_in_group = group.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(0.4))
        box_in_group.text_frame.text = text
    box(slide, "beside the group", 6, 4.3)
    document = sound(parse(saved(show)))
    read = [line for line in document.text.splitlines() if line]
    assert read == ["Order", "left", "right", "组一 first", "组二 second", "beside the group", "bottom"]


def test_levels_are_indented_and_breaks_are_kept(sound: Sound) -> None:
    show = pptx.Presentation()
    slide = slide_of(show, TITLE_AND_CONTENT, "Levels", "one")
    paragraph = slide.placeholders[1].text_frame.add_paragraph()
    paragraph.text, paragraph.level = "inside\vafter a break", 1
    document = sound(parse(saved(show)))
    assert "one\n  inside\nafter a break\n" in document.text


def test_tables_charts_and_pictures(sound: Sound) -> None:
    show = pptx.Presentation()
    slide = slide_of(show, TITLE_ONLY, "Figures")
    table = slide.shapes.add_table(3, 3, Inches(1), Inches(2), Inches(6), Inches(1)).table
    for row, cells in enumerate([("站点", "水位", ""), ("", "今日", "昨日"), ("北站", "24.1", "23.9")]):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    table.cell(0, 1).merge(table.cell(0, 2))
    chart_data = CategoryChartData()
    chart_data.categories = ["一月", "二月"]
    chart_data.add_series("降雨量", (10, 20))
    frame = slide.shapes.add_chart(
        XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(4), Inches(4), Inches(2), chart_data
    )
    frame.chart.has_title = True
    frame.chart.chart_title.text_frame.text = "Rainfall by month"
    shown = slide.shapes.add_picture(picture(), Inches(6), Inches(6))
    shown._element.nvPicPr.cNvPr.set("descr", "水尺照片 staff gauge")
    plain = slide.shapes.add_picture(picture(), Inches(8), Inches(6))
    plain._element.nvPicPr.cNvPr.attrib.pop("descr", None)
    document = sound(parse(saved(show)))
    grid, chart, image = document.blocks
    assert grid.kind == "table"
    assert document.text[grid.span.start : grid.span.end].startswith("| 站点 | 水位 |  |\n")
    assert grid.header == "站点 | 水位 / 今日 | 水位 / 昨日"
    assert document.text[chart.span.start : chart.span.end].split("\n") == ["Rainfall by month", "降雨量", "一月, 二月"]
    assert document.text[image.span.start : image.span.end] == "水尺照片 staff gauge"
    assert document.coverage["pictures_without_text"] == 1


def test_hidden_empty_and_untitled_slides_are_said(sound: Sound) -> None:
    show = pptx.Presentation()
    slide_of(show, TITLE_ONLY, "Shown")
    slide_of(show, TITLE_ONLY, "Hidden")._element.set("show", "0")
    slide_of(show, BLANK)
    box(slide_of(show, BLANK), "Text without a title", 1, 1)
    document = sound(parse(saved(show)))
    assert [section.title for section in document.structure] == ["Shown", "Hidden", "Slide 3", "Slide 4"]
    assert len(document.page_starts) == 4
    assert document.coverage["slides_with_text"] == 3
    assert any("hidden" in problem and problem.endswith(": 2") for problem in document.problems)
    assert any("without any text: 3" in problem for problem in document.problems)


def test_what_cannot_be_read_says_why() -> None:
    with pytest.raises(SourceError, match="save it as PPTX"):
        parse(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), mime="application/vnd.ms-powerpoint")
    with pytest.raises(SourceError, match="damaged"):
        parse(b"PK\x03\x04 torn")
    with pytest.raises(SourceError, match="no slide"):
        parse(saved(pptx.Presentation()))
    bare = pptx.Presentation()
    slide_of(bare, BLANK)
    with pytest.raises(EmptyDocument, match="1 slides"):
        parse(saved(bare))


def test_every_truncation_ends_well() -> None:
    show = pptx.Presentation()
    slide_of(show, TITLE_ONLY, "题")
    data = saved(show)
    for cut in range(0, len(data), 1499):
        with pytest.raises(SourceError):
            parse(data[:cut])


def test_groups_that_go_too_deep_are_told() -> None:
    show = pptx.Presentation()
    slide = slide_of(show, TITLE_ONLY, "题")
    shapes = slide.shapes
    for _ in range(60):
        shapes = shapes.add_group_shape().shapes
    box_inside = shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1))
    box_inside.text_frame.text = "lost"
    document = parse(saved(show))
    assert "lost" not in document.text
    assert any("more than 50 groups deep" in problem for problem in document.problems)


ODP = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
 xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><office:body><office:presentation>
<draw:page draw:name="page1">
<draw:frame presentation:class="outline"><draw:text-box><text:list><text:list-item><text:p>Watch the gauge</text:p>
<text:list><text:list-item><text:p>every hour</text:p></text:list-item></text:list></text:list-item></text:list>
</draw:text-box></draw:frame>
<draw:frame presentation:class="title"><draw:text-box><text:p>防汛值班</text:p></draw:text-box></draw:frame>
<draw:g><draw:custom-shape><text:p>Call the pump house</text:p></draw:custom-shape></draw:g>
<presentation:notes><draw:frame><draw:text-box><text:p>Mention the 2023 flood.</text:p></draw:text-box></draw:frame>
</presentation:notes></draw:page>
<draw:page draw:name="page2"><draw:frame><table:table><table:table-row>
<table:table-cell><text:p>站点</text:p></table:table-cell>
<table:table-cell><text:p>水位</text:p></table:table-cell></table:table-row><table:table-row>
<table:table-cell><text:p>东闸</text:p>
</table:table-cell><table:table-cell><text:p>3.2</text:p></table:table-cell></table:table-row></table:table>
</draw:frame></draw:page>
<draw:page draw:name="page3"><draw:frame><draw:image/></draw:frame></draw:page>
</office:presentation></office:body></office:document-content>"""


def test_opendocument(sound: Sound) -> None:
    kind = "application/vnd.oasis.opendocument.presentation"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr("content.xml", ODP)
    document = sound(parse(stream.getvalue(), "talks/flood.odp", kind))
    assert [section.title for section in document.structure] == ["防汛值班", "Slide 2", "Slide 3"]
    assert "- Watch the gauge\n  - every hour\n" in document.text
    assert "Call the pump house" in document.text
    assert "| 东闸 | 3.2 |" in document.text
    assert [block.kind for block in document.blocks] == ["note", "table"]
    assert document.text[slice(*document.blocks[0].span)] == "Mention the 2023 flood."
    assert len(document.page_starts) == 3
    assert document.coverage["slides"] == 3
    assert document.coverage["slides_with_text"] == 2
    assert document.problems == ("slides without any text: 3",)
