"""Word processor files: what a reader sees of them, in order, with its structure."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pytest
from docx.document import Document as WordDocument
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers.word import WordParser
from headwater.types import Blob, Document

Sound = Callable[[Document], Document]
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def parse(data: bytes, uri: str = "papers/leave.docx", mime: str = DOCX) -> Document:
    return WordParser().parse(Blob(uri=uri, data=data, mime=mime, modified="2025-01-02T03:04:05+00:00"))


def saved(word: WordDocument) -> bytes:
    stream = io.BytesIO()
    word.save(stream)
    return stream.getvalue()


def with_parts(data: bytes, **parts: str) -> bytes:
    """The same package with parts added: `footnotes`, `endnotes`, `comments` with the relations they need."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "word/_rels/document.xml.rels":
                added = "".join(
                    f'<Relationship Id="rIdX{kind}" Target="{kind}.xml" Type="http://schemas.openxmlformats.org/'
                    f'officeDocument/2006/relationships/{kind}"/>'
                    for kind in parts
                )
                content = content.replace(b"</Relationships>", added.encode() + b"</Relationships>")
            new.writestr(name, content)
        for kind, xml in parts.items():
            new.writestr(f"word/{kind}.xml", xml)
    return stream.getvalue()


def test_the_manual_reads_as_it_was_checked_by_eye(
    sound: Sound, data: Path, outline: Callable[[Document], str]
) -> None:
    document = sound(parse((data / "manual.docx").read_bytes(), "manual.docx"))
    assert outline(document) == (data / "manual.docx.golden").read_text(encoding="utf-8")
    assert len(document.structure) == 9
    assert document.structure[2].path == "1 第1章 概述 > 1.1 安装 Installation > 1.1.1 细节"
    assert document.meta["author"] == "王小明"


def test_headings_lists_and_properties(sound: Sound) -> None:
    word = docx.Document()
    properties = word.core_properties
    properties.title, properties.author = "请假制度 Leave policy", "李雷"
    properties.keywords, properties.subject = "人事; leave，hr", "How to ask for leave"
    word.add_heading("总则 General", 1)
    word.add_paragraph("员工每年可以休十五天年假。")
    word.add_heading("流程 Procedure", 2)
    word.add_paragraph("提交申请", style="List Number")
    word.add_paragraph("等待批准", style="List Number")
    word.add_paragraph("附证明", style="List Bullet")
    word.add_heading("Exceptions", 1)
    word.add_paragraph("Line one\nline two\tafter a tab")
    document = sound(parse(saved(word)))
    assert document.title == "请假制度 Leave policy"
    assert document.tags == ("人事", "leave", "hr")
    assert document.description
    assert document.meta["author"] == "李雷"
    assert document.created.startswith("2013-")
    assert [section.path for section in document.structure] == [
        "总则 General",
        "总则 General > 流程 Procedure",
        "Exceptions",
    ]
    assert "1. 提交申请\n2. 等待批准\n" in document.text
    assert "\n- 附证明\n" in document.text
    assert "Line one\nline two\tafter a tab" in document.text


def test_a_style_that_is_made_from_a_heading_is_one(sound: Sound) -> None:
    word = docx.Document()
    mine = word.styles.add_style("章标题", WD_STYLE_TYPE.PARAGRAPH)
    mine.base_style = word.styles["Heading 2"]
    word.add_heading("One", 1)
    word.add_paragraph("一章", style="章标题")
    word.add_paragraph("Text of it.")
    leveled = word.add_paragraph("By its outline level")
    leveled._p.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {nsdecls("w")} w:val="2"/>'))
    word.add_paragraph("More.")
    document = sound(parse(saved(word)))
    assert [(section.level, section.title) for section in document.structure] == [
        (1, "One"),
        (2, "一章"),
        (3, "By its outline level"),
    ]


def test_without_styles_bold_lines_are_headings_and_sentences_are_not(sound: Sound) -> None:
    word = docx.Document()
    for text, bold in [
        ("一、范围", True),
        ("本制度适用于全体员工。", False),
        ("注意：必须提前申请。", True),
        ("Scope", True),
    ]:
        word.add_paragraph().add_run(text).bold = bold
    document = sound(parse(saved(word)))
    assert [section.title for section in document.structure] == ["一、范围", "Scope"]
    styled = docx.Document()
    styled.add_heading("Real", 1)
    styled.add_paragraph().add_run("Only bold").bold = True
    assert [section.title for section in parse(saved(styled)).structure] == ["Real"]


def test_numbers_are_counted_as_word_counts_them(sound: Sound) -> None:
    word = docx.Document()
    numbering = word.part.numbering_part.element
    levels = [("chineseCountingThousand", "第%1章"), ("decimal", "%1.%2"), ("lowerLetter", "(%3)")]
    body = "".join(
        f'<w:lvl w:ilvl="{place}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/><w:lvlText w:val="{text}"/></w:lvl>'
        for place, (kind, text) in enumerate(levels)
    )
    abstract = parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="77">{body}</w:abstractNum>')
    numbering.insert(0, abstract)
    numbering.append(parse_xml(f'<w:num {nsdecls("w")} w:numId="77"><w:abstractNumId w:val="77"/></w:num>'))

    def item(text: str, level: int, style: str | None = None) -> None:
        paragraph = word.add_paragraph(text, style=style)
        paragraph._p.get_or_add_pPr().append(
            parse_xml(f'<w:numPr {nsdecls("w")}><w:ilvl w:val="{level}"/><w:numId w:val="77"/></w:numPr>')
        )

    item("总则", 0, "Heading 1")
    item("目的", 1)
    item("甲", 2)
    item("乙", 2)
    item("范围", 1)
    item("丙", 2)
    item("附则", 0, "Heading 1")
    item("解释", 1)
    document = sound(parse(saved(word)))
    assert [section.title for section in document.structure] == ["第一章 总则", "第二章 附则"]
    # The figure of the chapter is written in the chapter's own way, as Word does without "legal" numbering.
    items = [line.strip() for line in document.text.splitlines() if line.startswith("  ")]
    assert items == ["一.1 目的", "(a) 甲", "(b) 乙", "一.2 范围", "(a) 丙", "二.1 解释"]


def test_tables_have_their_column_names_and_merged_cells(sound: Sound) -> None:
    word = docx.Document()
    word.add_paragraph("Before.")
    table = word.add_table(rows=4, cols=3)
    for row, cells in enumerate(
        [("部门", "姓名", "天数"), ("研发", "王|五", "12"), ("", "赵六", "8"), ("合计", "", "20")]
    ):
        for column, text in enumerate(cells):
            table.cell(row, column).text = text
    table.cell(1, 0).merge(table.cell(2, 0))
    table.cell(3, 0).merge(table.cell(3, 1))
    document = sound(parse(saved(word)))
    [block] = document.blocks
    assert block.header == "部门 | 姓名 | 天数"
    assert document.text[block.span.start : block.span.end].split("\n") == [
        "| 部门 | 姓名 | 天数 |",
        "| 研发 | 王\\|五 | 12 |",
        "| 研发 | 赵六 | 8 |",
        "| 合计 |  | 20 |",
    ]
    assert document.coverage["tables"] == 1
    assert document.coverage["tables_without_header"] == 0


def test_a_table_without_names_is_said(sound: Sound) -> None:
    word = docx.Document()
    table = word.add_table(rows=2, cols=2)
    for place, text in enumerate(["12", "3.5", "14", "2.5"]):
        table.cell(place // 2, place % 2).text = text
    document = sound(parse(saved(word)))
    assert document.blocks[0].header == ""
    assert document.coverage["tables_without_header"] == 1
    assert "1 of 1 tables have no row of column names" in document.problems


def test_captions_are_tied_to_their_table_or_to_the_paragraph_before(sound: Sound) -> None:
    word = docx.Document()
    word.add_paragraph("The flow is drawn below.")
    word.add_paragraph("图 1 流程", style="Caption")
    word.add_paragraph("表 1 天数", style="Caption")
    table = word.add_table(rows=2, cols=2)
    for place, text in enumerate(["姓名", "天数", "王五", "12"]):
        table.cell(place // 2, place % 2).text = text
    document = sound(parse(saved(word)))
    figure, caption, grid = document.blocks
    assert (figure.kind, caption.kind, grid.kind) == ("caption", "caption", "table")
    assert caption.about == grid.span
    assert figure.about is not None
    assert document.text[figure.about.start : figure.about.end] == "The flow is drawn below."


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def test_notes_and_comments_follow_the_paragraph_they_hang_on(sound: Sound) -> None:
    word = docx.Document()
    paragraph = word.add_paragraph("年假为十五天")
    reference = f'<w:r {W}><w:footnoteReference w:id="2"/></w:r>'
    paragraph._p.append(parse_xml(reference))
    paragraph.add_run("，可以分两次休。")
    paragraph._p.append(parse_xml(f'<w:r {W}><w:endnoteReference w:id="3"/></w:r>'))
    paragraph._p.append(parse_xml(f'<w:r {W}><w:commentReference w:id="0"/></w:r>'))
    word.add_paragraph("Next paragraph.")
    separator = '<w:footnote w:type="separator" w:id="-1"><w:p/></w:footnote>'
    note = '<w:footnote w:id="2"><w:p><w:r><w:t>试用期除外。</w:t></w:r></w:p></w:footnote>'
    document = sound(
        parse(
            with_parts(
                saved(word),
                footnotes=f"<w:footnotes {W}>{separator}{note}</w:footnotes>",
                endnotes=f'<w:endnotes {W}><w:endnote w:id="3"><w:p><w:r><w:t>See the law.</w:t></w:r></w:p>'
                "</w:endnote></w:endnotes>",
                comments=f'<w:comments {W}><w:comment w:id="0" w:author="韩梅梅"><w:p><w:r><w:t>确认一下</w:t></w:r>'
                "</w:p></w:comment></w:comments>",
            )
        )
    )
    assert document.text == (
        "年假为十五天[^1]，可以分两次休。[^e1]\n\n[^1]: 试用期除外。\n\n[^e1]: See the law.\n\n"
        "[Comment by 韩梅梅] 确认一下\n\nNext paragraph.\n"
    )
    said = "年假为十五天[^1]，可以分两次休。[^e1]"
    for block in document.blocks:
        assert block.kind == "note"
        assert block.about is not None
        assert document.text[block.about.start : block.about.end] == said
    assert document.coverage["notes"] == 3


def test_changes_fields_boxes_and_pictures(sound: Sound) -> None:
    word = docx.Document()
    paragraph = word.add_paragraph("Kept. ")
    run = "<w:r><w:t>{}</w:t></w:r>"
    paragraph._p.append(parse_xml(f"<w:ins {W}>{run.format('Inserted. ')}</w:ins>"))
    paragraph._p.append(parse_xml(f"<w:del {W}><w:r><w:delText>Deleted. </w:delText></w:r></w:del>"))
    paragraph._p.append(parse_xml(f"<w:r {W}><w:instrText> PAGEREF x </w:instrText></w:r>"))
    paragraph._p.append(parse_xml(f"<w:hyperlink {W}>{run.format('A link.')}</w:hyperlink>"))
    drawing = (
        f'<w:r {W} xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><mc:AlternateContent><mc:Choice>'
        '<w:drawing><wp:inline><wp:docPr id="1" name="p" descr="水位曲线 chart"/></wp:inline></w:drawing></mc:Choice>'
        "<mc:Fallback><w:t>twice</w:t></mc:Fallback></mc:AlternateContent></w:r>"
    )
    word.add_paragraph("Figure: ")._p.append(parse_xml(drawing))
    box = f"<w:r {W}><w:pict><w:txbxContent><w:p>{run.format('In a box 文本框')}</w:p></w:txbxContent></w:pict></w:r>"
    word.add_paragraph("Beside a box.")._p.append(parse_xml(box))
    control = f"<w:sdt {W}><w:sdtContent><w:p>{run.format('In a control')}</w:p></w:sdtContent></w:sdt>"
    word.element.body.insert(len(word.element.body) - 1, parse_xml(control))
    document = sound(parse(saved(word)))
    assert "Kept. Inserted. A link." in document.text
    assert "Deleted" not in document.text and "PAGEREF" not in document.text and "twice" not in document.text
    assert "Beside a box.\n\nIn a box 文本框\n" in document.text
    assert "In a control" in document.text
    [image] = document.blocks
    assert image.kind == "image"
    assert document.text[image.span.start : image.span.end] == "水位曲线 chart"


def test_a_table_of_contents_is_in_no_chunk(sound: Sound) -> None:
    word = docx.Document()
    word.styles.add_style("toc 1", WD_STYLE_TYPE.PARAGRAPH)
    word.add_paragraph("第一章 总则\t1", style="toc 1")
    word.add_paragraph("第二章 附则\t7", style="toc 1")
    word.add_heading("第一章 总则", 1)
    word.add_paragraph("正文。")
    document = sound(parse(saved(word)))
    [hidden] = document.hidden
    assert document.text[hidden.start : hidden.end] == "第一章 总则\t1\n\n第二章 附则\t7"


def test_headers_and_footers_stay_out(sound: Sound) -> None:
    word = docx.Document()
    word.sections[0].header.paragraphs[0].text = "CONFIDENTIAL"
    word.add_paragraph("Text.")
    assert sound(parse(saved(word))).text == "Text.\n"


def zipped(files: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


ODT = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><office:body><office:text>
<text:h text:outline-level="1">总则</text:h><text:p>年假<text:s text:c="2"/>十五天<text:note>
<text:note-citation>1</text:note-citation>
<text:note-body><text:p>试用期除外</text:p></text:note-body></text:note>。</text:p>
<text:h text:outline-level="2">Procedure</text:h>
<text:list><text:list-item><text:p>Ask</text:p></text:list-item>
<text:list-item><text:p>Wait</text:p></text:list-item></text:list>
<table:table><table:table-row><table:table-cell><text:p>姓名</text:p></table:table-cell><table:table-cell><text:p>天数</text:p>
</table:table-cell></table:table-row><table:table-row><table:table-cell><text:p>王五</text:p></table:table-cell><table:table-cell>
<text:p>12</text:p></table:table-cell></table:table-row></table:table></office:text></office:body></office:document-content>"""


def test_opendocument(sound: Sound) -> None:
    meta = (
        '<o:document-meta xmlns:o="urn:o" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:meta="urn:m"><o:meta>'
        "<dc:title>请假</dc:title><meta:keyword>hr</meta:keyword><dc:creator>李雷</dc:creator></o:meta></o:document-meta>"
    )
    kind = "application/vnd.oasis.opendocument.text"
    document = sound(parse(zipped({"mimetype": kind, "content.xml": ODT, "meta.xml": meta}), "a.odt", kind))
    assert (document.title, document.tags, document.meta["author"]) == ("请假", ("hr",), "李雷")
    assert [section.path for section in document.structure] == ["总则", "总则 > Procedure"]
    assert "年假  十五天[^1]。\n\n[^1]: 试用期除外\n" in document.text
    assert "- Ask\n- Wait\n" in document.text
    assert [block.kind for block in document.blocks] == ["note", "table"]
    assert document.blocks[1].header == "姓名 | 天数"


def test_rich_text(sound: Sound) -> None:
    data = (
        rb"{\rtf1\ansi\ansicpg936{\fonttbl{\f0\fcharset134 SimSun;}{\f1\fcharset0 Arial;}}"
        rb"{\info{\title Leave}{\author Li}}{\stylesheet{\s1 heading 1;}}{\*\generator X;}\pard\outlinelevel0 \f0 "
        + "".join(f"\\'{byte:02x}" for byte in "总则".encode("gbk")).encode()
        + rb"\par\pard\f1 Fifteen days \u8212?\u-10179?\u-8704? a year\line {\b bold} \{x\}.\par"
        rb"\trowd\intbl Name\cell Days\cell\row\trowd\intbl Wang\cell 12\cell\row\pard After.\par}"
    )
    document = sound(parse(data, "a.rtf", "application/rtf"))
    assert (document.title, document.meta["author"]) == ("Leave", "Li")
    assert [section.title for section in document.structure] == ["总则"]
    assert "Fifteen days —😀 a year\nbold {x}." in document.text
    assert "| Name | Days |\n| Wang | 12 |\n\nAfter.\n" in document.text
    assert parse(data[:-1], "a.rtf", "application/rtf").problems


@pytest.mark.parametrize(
    ("data", "mime", "reason"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "application/msword", "save it as DOCX"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), DOCX, "password"),
        (b"PK\x03\x04 torn", DOCX, "damaged"),
        (b"hello", DOCX, "no DOCX file"),
        (zipped({"readme.txt": "x"}), DOCX, "without an office document"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, mime: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        parse(data, mime=mime)


def test_every_truncation_and_many_flips_end_well() -> None:
    word = docx.Document()
    word.add_heading("总则", 1)
    word.add_paragraph("年假为十五天。")
    data = saved(word)
    for cut in range(0, len(data), 997):
        with pytest.raises(SourceError):
            parse(data[:cut])
    read = 0
    for place in range(0, len(data), 211):
        broken = bytearray(data)
        broken[place] ^= 0x55
        try:
            read += bool(parse(bytes(broken)).text)
        except SourceError:
            continue
    assert read  # a flip in a picture or a style hurts nobody


def test_entities_are_not_followed() -> None:
    word = docx.Document()
    word.add_paragraph("PLACE")
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(word))) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "word/document.xml":
                content = content.replace(
                    b"<w:document ", b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><w:document ', 1
                ).replace(b"PLACE", b"before &e; after")
            new.writestr(name, content)
    assert "root:" not in parse(stream.getvalue()).text


def test_an_empty_document_is_said() -> None:
    with pytest.raises(EmptyDocument, match="holds no text"):
        parse(saved(docx.Document()))


def test_notes_of_rich_text_stand_behind_what_they_hang_on(sound: Sound) -> None:
    data = (
        rb"{\rtf1\ansi The level rose to 25{\super\chftn}{\footnote\pard\plain{\super\chftn} At the weir.\par Twice.}"
        rb" percent.\par\pard Second.\par\trowd\cellx1\cellx2 \intbl A\cell B{\footnote Of a cell}\cell\row"
        rb"\trowd\intbl 1\cell 2\cell\row\pard After.\par}"
    )
    document = sound(parse(data, "a.rtf", "application/rtf"))
    assert document.text.split("\n\n")[:3] == [
        "The level rose to 25[^1] percent.",
        "[^1]: At the weir. Twice.",
        "Second.",
    ]
    notes = [block for block in document.blocks if block.kind == "note"]
    about = [document.text[slice(*note.about)] for note in notes if note.about]
    assert about == ["The level rose to 25[^1] percent.", "| A | B[^2] |\n| 1 | 2 |"]
    for end in range(20, len(data)):
        assert parse(data[:end], "a.rtf", "application/rtf").text  # torn anywhere, a note too


def test_a_name_over_two_columns_makes_no_names_of_the_values_below_it(sound: Sound) -> None:
    word = docx.Document()
    table = word.add_table(rows=4, cols=3)
    table.cell(0, 0).merge(table.cell(0, 1)).text = "Contact"
    table.cell(0, 2).text = "City"
    for row, values in enumerate([("Ann", "Lee", "Rome"), ("Bob", "Ray", "Oslo"), ("Cid", "Fox", "Bern")], 1):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    [block] = sound(parse(saved(word))).blocks
    assert block.header == "Contact | Contact | City"
