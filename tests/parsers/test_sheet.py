"""Workbooks: every cell as the program shows it, every row under its column names."""

import io
import struct
import zipfile
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import EmptyDocument, SourceError
from headwater.kinds import kind_of
from headwater.parsers._draft import Draft
from headwater.parsers._numberformat import number_format
from headwater.parsers._rows import write_tables
from headwater.parsers.sheet import SheetParser
from headwater.types import Blob, Document

Sound = Callable[[Document], Document]
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ODS = "application/vnd.oasis.opendocument.spreadsheet"


def parse(data: bytes, uri: str = "data/staff.xlsx", mime: str = XLSX, max_rows: int = 200_000) -> Document:
    blob = Blob(uri=uri, data=data, mime=mime, modified="2025-01-02T03:04:05+00:00")
    return SheetParser(max_rows=max_rows).parse(blob)


def saved(book: Any) -> bytes:
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def of_rows(*rows: tuple[Any, ...], title: str = "员工") -> Any:
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    return book


def tables(document: Document) -> list[tuple[str, list[str]]]:
    return [
        (block.header, document.text[block.span.start : block.span.end].split("\n"))
        for block in document.blocks
        if block.kind == "table"
    ]


def test_the_staff_list_reads_as_it_was_checked_by_eye(sound: Sound, data: Path) -> None:
    document = sound(parse((data / "staff.xlsx").read_bytes()))
    assert [section.path for section in document.structure] == ["员工", "汇总", "隐藏"]
    staff, summary = tables(document)
    assert staff[0] == "工号 | 姓名 | 部门 | 入职日期 | 工资"
    assert len(staff[1]) == 2001
    assert staff[1][1] == "| 00000 | 张0 | 销售 | 2020-01-01 | 0 |"
    assert staff[1][-1].startswith("| 01999 | 张1999 |")
    assert summary == ("部门 | 人数 | 合计", ["| 部门 | 人数 | 合计 |", "| 研发 | 10 |  |"])
    [caption] = [block for block in document.blocks if block.kind == "caption"]
    assert document.text[caption.span.start : caption.span.end] == "季度汇总表"
    assert caption.about == next(block.span for block in document.blocks if block.header.startswith("部门"))
    assert document.coverage == {"tables": 2, "tables_without_header": 0, "rows": 2002, "sheets": 3}
    assert any("'隐藏' is hidden" in problem for problem in document.problems)
    assert any("1 formulas have no stored value" in problem for problem in document.problems)


def test_cells_are_as_shown(sound: Sound) -> None:
    book = of_rows(("项目", "值"))
    shown = [
        (0.125, "0.00%", "12.50%"),
        (1200, '"¥"#,##0.00', "¥1,200.00"),
        (-1200.5, "[$¥-804]#,##0.00;[Red]-[$¥-804]#,##0.00", "-¥1,200.50"),
        (date(2025, 3, 1), "yyyy-mm-dd", "2025-03-01"),
        (date(2025, 3, 1), 'yyyy"年"m"月"d"日"', "2025年3月1日"),
        (datetime(2025, 3, 1, 18, 5), "m/d/yyyy h:mm AM/PM", "3/1/2025 6:05 PM"),
        (time(8, 30), "hh:mm", "08:30"),
        (1.5, "[h]:mm", "36:00"),
        (42, "00000", "00042"),
        (123456, "0.00E+00", "1.23E+05"),
        (2.5, "# ?/?", "2 1/2"),
        (0.1 + 0.2, "General", "0.3"),
        (123456789012345, "General", "123456789012345"),
        (True, "General", "TRUE"),
        ("#N/A", "General", "#N/A"),
        ("00123", "@", "00123"),
        (3, '0"件"', "3件"),
        ("多行\n文字", "General", "多行 文字"),
    ]
    for place, (value, code, _) in enumerate(shown, 2):
        book.active.cell(place, 1, f"第{place}项")
        cell = book.active.cell(place, 2, value)
        cell.number_format = code
    document = sound(parse(saved(book)))
    [(_, rows)] = tables(document)
    assert [row.split(" | ")[1].removesuffix(" |") for row in rows[1:]] == [text for _, _, text in shown]
    assert any("1 cells show an error" in problem for problem in document.problems)


@pytest.mark.parametrize(
    ("code", "number", "text"),
    [
        ("#,##0.00_);(#,##0.00)", -5.5, "(5.50)"),
        ("#,##0,", 1234567, "1,235"),
        ('0.0,,"M"', 12345678, "12.3M"),
        ("[>=100]0;0.00", 5.5, "5.50"),
        ("[>=100]0;0.00", 500, "500"),
        ('0;-0;"无"', 0, "无"),
        ("000-00-0000", 123456789, "123-45-6789"),
        ("dddd d mmmm yyyy", 45717, "Saturday 1 March 2025"),
        ("aaaa", 45717, "星期六"),
        ("mm:ss.0", 0.0012345, "01:46.7"),
        ("yyyy-mm-dd", -5, "-5"),
        ("yyyy-mm-dd", 1e12, "1000000000000"),
        ("yyyy-mm-dd", 1, "1900-01-01"),
        ("#.##", 0.5, ".5"),
        ("0.0#", 1.5, "1.5"),
    ],
)
def test_number_formats(code: str, number: float, text: str) -> None:
    assert number_format(code)(number) == text


def test_a_format_beyond_all_measure_is_no_format() -> None:
    assert number_format("0" * 100_000 + ".0%")(2.5) == "2.5"


@given(code=st.text(alphabet='0#?.,%E+-/;ymdhs[]"\\_*@$¥ >年月', max_size=12), number=st.floats())
@settings(max_examples=300, deadline=None)
def test_no_format_and_no_number_is_too_odd(code: str, number: float) -> None:
    assert isinstance(number_format(code)(number), str)


def test_titles_blank_rows_and_several_tables(sound: Sound) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["B2"] = "2025 年报表"
    sheet.merge_cells("B2:D2")
    for row, cells in enumerate([("部门", "姓名", "天数"), ("研发", "王五", 12), (None, "赵六", 8)], 4):
        for column, value in enumerate(cells, 2):
            sheet.cell(row, column, value)
    sheet.merge_cells("B5:B6")
    sheet["B8"], sheet["C8"] = "设备 Device", "数量 Count"
    sheet["B9"], sheet["C9"] = "雷达", 3
    sheet["B11"] = "注：数据截至三月。"
    document = sound(parse(saved(book)))
    assert tables(document) == [
        ("部门 | 姓名 | 天数", ["| 部门 | 姓名 | 天数 |", "| 研发 | 王五 | 12 |", "| 研发 | 赵六 | 8 |"]),
        ("设备 Device | 数量 Count", ["| 设备 Device | 数量 Count |", "| 雷达 | 3 |"]),
    ]
    assert document.text.endswith("\n\n注：数据截至三月。\n")
    [caption] = [block for block in document.blocks if block.kind == "caption"]
    assert document.text[caption.span.start : caption.span.end] == "2025 年报表"


STATIONS = (("Station", "Level"), ("Upper lock", 7.4), ("Lower lock", 3.2), ("Weir", 5.5))
PUMPS = (("Pump", "Power", "Maker"), ("North", 30, "Alpha"), ("South", 45, "Beta"), ("West", 60, "Beta"))


def put(sheet: Any, corner: str, rows: tuple[tuple[Any, ...], ...]) -> None:
    start = sheet[corner]
    for down, row in enumerate(rows):
        for across, value in enumerate(row):
            sheet.cell(start.row + down, start.column + across, value)


def test_tables_side_by_side_are_tables_of_their_own(sound: Sound) -> None:
    book = openpyxl.Workbook()
    put(book.active, "B2", STATIONS)
    put(book.active, "E2", PUMPS)
    document = sound(parse(saved(book)))
    assert tables(document) == [
        ("Station | Level", ["| Station | Level |", "| Upper lock | 7.4 |", "| Lower lock | 3.2 |", "| Weir | 5.5 |"]),
        (
            "Pump | Power | Maker",
            ["| Pump | Power | Maker |", "| North | 30 | Alpha |", "| South | 45 | Beta |", "| West | 60 | Beta |"],
        ),
    ]
    assert (document.coverage["tables"], document.coverage["rows"]) == (2, 6)


def test_what_stands_above_and_below_tables_side_by_side_goes_with_them(sound: Sound) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A1"] = "Yearly report"
    sheet.merge_cells("A1:F1")
    put(sheet, "A2", (("Levels",), *STATIONS))
    put(sheet, "D3", PUMPS)
    put(sheet, "A8", (("Sluice", 1.5),))
    put(sheet, "D8", (("East", 75, "Gamma"),))
    put(
        sheet,
        "A10",
        (("Who", "Role", "Since", "Where"), ("Ann", "keeper", 2019, "Weir"), ("Bob", "diver", 2021, "Weir")),
    )
    document = sound(parse(saved(book)))
    assert [(header, len(rows)) for header, rows in tables(document)] == [
        ("Station | Level", 5),
        ("Pump | Power | Maker", 5),
        ("Who | Role | Since | Where", 3),
    ]
    assert document.text.index("Yearly report") < document.text.index("Levels") < document.text.index("| Station")
    captions = [document.text[b.span.start : b.span.end] for b in document.blocks if b.kind == "caption"]
    assert captions == ["Yearly report", "Levels"]
    assert "| Sluice | 1.5 |" in document.text and "| East | 75 | Gamma |" in document.text


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (STATIONS, STATIONS),  # the same columns once more
        ((("Year", "Rain"), (2023, 510), (2024, 480)), (("Year", "Snow"), (2023, 12), (2024, 30))),
        (STATIONS, (("No", "Sum"), (1, 10), (2, 20))),  # figures first, but fewer rows
        ((("站点", "水位"), ("上闸", 7.4), ("下闸", 3.2)), (("水泵", "功率"), ("北", 30), ("南", 45))),
    ],
)
def test_it_is_clear_that_they_are_two(sound: Sound, left: Any, right: Any) -> None:
    book = openpyxl.Workbook()
    put(book.active, "A1", left)
    put(book.active, "D1", right)
    found = tables(sound(parse(saved(book))))
    assert [len(rows) for _, rows in found] == [len(left), len(right)]


@pytest.mark.parametrize(
    "right",
    [
        (("Change", "Share"), (0.5, 12), (-0.2, 30), (0.1, 58)),  # figures of the same rows, set apart
        (("Pump", "Power"), ("North", 30), ("North", 45), ("South", 60)),  # what does not tell rows apart
        (("Remark",), ("dry",), ("wet",), ("closed",)),  # one column
        (("Pump", "Power"), ("North", 30), (None, 45), ("South", 60)),
        (("Pump", "Power"), ("North", 30), (None, None), ("South", 60)),
        ((1, 2), (3, 4), (5, 6), (7, 8)),  # no names
    ],
)
def test_what_may_be_one_table_stays_one(sound: Sound, right: Any) -> None:
    book = openpyxl.Workbook()
    put(book.active, "A1", STATIONS)
    put(book.active, "D1", right)
    [(_, rows)] = tables(sound(parse(saved(book))))
    assert len(rows) == 4


def test_a_cell_between_makes_one_table_of_two(sound: Sound) -> None:
    book = openpyxl.Workbook()
    put(book.active, "A1", STATIONS)
    put(book.active, "D1", PUMPS)
    book.active["C4"] = "see right"
    [(_, rows)] = tables(sound(parse(saved(book))))
    assert "| Weir | 5.5 | see right | West | 60 | Beta |" in rows


def test_rows_that_are_too_many_to_hold_are_one_table() -> None:
    def rows() -> Iterator[list[str]]:
        yield ["Left", "Size", *[""] * 400, "Right", "Size"]
        for number in range(2_000):
            held.append(draft.length)
            yield [f"left {number}", "1", *[""] * 400, f"right {number}", "2"]

    draft = Draft()
    held: list[int] = []
    assert write_tables(draft, rows()).tables == 1
    assert held.count(0) < 1_500  # written while the rest was still to come


def test_tables_side_by_side_keep_to_the_limit_of_rows(sound: Sound) -> None:
    book = openpyxl.Workbook()
    put(book.active, "A1", STATIONS)
    put(book.active, "D1", PUMPS)
    document = sound(parse(saved(book), max_rows=4))
    assert [len(rows) for _, rows in tables(document)] == [4, 2]
    assert any("2 rows beyond the first 4 were left out" in problem for problem in document.problems)


def test_two_rows_of_names_are_joined(sound: Sound) -> None:
    book = of_rows(("部门", "2024", None, "2025", None), (None, "Q1", "Q2", "Q1", "Q2"), ("研发", 1, 2, 3, 4))
    for area in ("A1:A2", "B1:C1", "D1:E1"):
        book.active.merge_cells(area)
    [(header, rows)] = tables(sound(parse(saved(book))))
    assert header == "部门 | 2024 / Q1 | 2024 / Q2 | 2025 / Q1 | 2025 / Q2"
    assert rows == ["| 部门 | 2024 |  | 2025 |  |", "| 部门 | Q1 | Q2 | Q1 | Q2 |", "| 研发 | 1 | 2 | 3 | 4 |"]


def test_a_table_without_names_is_counted_and_said(sound: Sound) -> None:
    document = sound(parse(saved(of_rows((1, 2.5, "a"), (2, 3.5, "b")))))
    assert document.blocks[0].header == ""
    assert document.coverage["tables_without_header"] == 1
    assert any("no row of column names" in problem for problem in document.problems)


def test_wide_rows_carry_the_names_of_their_columns(sound: Sound) -> None:
    names = [f"指标{number}" for number in range(20)]
    document = sound(parse(saved(of_rows(tuple(names), tuple(range(20)), (7, *[None] * 18, 9)))))
    [(header, rows)] = tables(document)
    assert header == " | ".join(names)
    assert rows[1].startswith("| 指标0: 0 | 指标1: 1 | 指标2: 2 |")
    assert rows[2] == "| 指标0: 7 | 指标19: 9 |"


def test_a_row_with_long_text_is_written_in_lines(sound: Sound) -> None:
    long = "这是一段很长的说明。" * 300
    document = sound(parse(saved(of_rows(("题目", "正文"), ("短", "一"), ("长", long), ("末", "二")))))
    assert f"\n\n题目: 长\n正文: {long}\n\n| 末 | 二 |\n" in document.text
    assert [block.header for block in document.blocks] == ["题目 | 正文", "题目 | 正文"]


def test_rows_beyond_the_limit_are_counted(sound: Sound) -> None:
    book = of_rows(("号", "值"), *((number, number * 2) for number in range(50)))
    book.create_sheet("second").append(("x", "y"))
    document = sound(parse(saved(book), max_rows=10))
    assert document.coverage["rows"] == 10
    assert any(problem.startswith("41 rows beyond the first 10") for problem in document.problems)


SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def with_sheet(xml: str) -> bytes:
    """A workbook whose only sheet is this XML."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(of_rows(("a", "b"))))) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            new.writestr(name, xml if name == "xl/worksheets/sheet1.xml" else old.read(name))
    return stream.getvalue()


def test_a_sparse_sheet_costs_nothing(sound: Sound) -> None:
    far = '<c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c>'
    xml = (
        f'<worksheet xmlns="{SHEET}"><dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1"><v>1</v></c>'
        f'<c r="B1"><v>2</v></c></row><row r="1048576">{far}</row></sheetData></worksheet>'
    )
    document = sound(parse(with_sheet(xml)))
    assert "far" in document.text
    assert len(document.text) < 1_000


def test_odd_xml_is_read_as_far_as_it_goes(sound: Sound) -> None:
    xml = (
        f'<x:worksheet xmlns:x="{SHEET}"><x:sheetData><x:row><x:c t="inlineStr"><x:is><x:r><x:t>名</x:t></x:r>'
        '<x:r><x:t>称</x:t></x:r></x:is></x:c><x:c t="str"><x:v>值</x:v></x:c></x:row>'
        '<x:row><x:c t="s"><x:v>99999</x:v></x:c><x:c t="b"><x:v>1</x:v></x:c></x:row>'
        '<x:row><x:c t="d"><x:v>2025-03-01</x:v></x:c><x:c t="n" s="777"><x:v>1.50</x:v></x:c></x:row>'
        "</x:sheetData></x:worksheet>"
    )
    document = sound(parse(with_sheet(xml)))
    assert "| 名称 | 值 |\n|  | TRUE |\n| 2025-03-01 | 1.5 |" in document.text


@given(
    st.lists(
        st.lists(
            st.one_of(st.none(), st.integers(-(10**9), 10**9), st.booleans(), st.text("ab 张三|\n", max_size=8)),
            min_size=1,
            max_size=5,
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=60, deadline=None)
def test_every_value_is_in_the_text(rows: list[list[Any]]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append([f"值{cell}" if isinstance(cell, str) else cell for cell in row])
    try:
        text = parse(saved(book)).text
    except EmptyDocument:
        assert all(cell is None for row in rows for cell in row)
        return
    for cell in (cell for row in rows for cell in row if cell is not None):
        if isinstance(cell, str):
            assert " ".join(f"值{cell}".split()).replace("|", "\\|") in " ".join(text.split()) or "|" in cell
        else:
            assert str(cell).upper() in text


def test_what_stands_left_of_a_table_is_not_lost(sound: Sound) -> None:
    book = openpyxl.Workbook()
    book.active.append([None, None, "站名", "水位"])
    for number in range(60):
        book.active.append([None, None, f"站{number}", number])
    book.active.append(["far down", None, "站60", 60])
    book.active.append([])
    book.active.append(["note", "检查", None])
    text = sound(parse(saved(book))).text
    assert "| 站60 | 60 | A: far down |" in text and "站名" in text
    assert "note" in text and "检查" in text


def binary_record(kind: int, body: bytes = b"") -> bytes:
    """A record of the binary workbook: kind and length by seven bits, then the body."""
    length, written = len(body), b""
    while length > 0x7F:
        written, length = written + bytes([length & 0x7F | 0x80]), length >> 7
    named = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
    return named + written + bytes([length]) + body


def wide(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def binary_book(rows: list[list[Any]], sheet: str) -> bytes:
    """The least that is a workbook in the binary format: begin and end of book, sheets and rows."""
    cells = binary_record(129) + binary_record(148, struct.pack("<IIII", 0, len(rows), 0, 9)) + binary_record(145)
    for number, row in enumerate(rows):
        cells += binary_record(0, struct.pack("<IIHBBBI", number, 0, 300, 0, 0, 0, 0))
        for column, value in enumerate(row):
            place = struct.pack("<II", column, 0)
            said = (6, wide(value)) if isinstance(value, str) else (5, struct.pack("<d", value))
            cells += binary_record(said[0], place + said[1])
    named = binary_record(156, struct.pack("<II", 0, 1) + wide("r1") + wide(sheet))
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relation = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        '<Relationship Id="r1" Type="{}" Target="{}"/></Relationships>'
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        kinds = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
        archive.writestr("[Content_Types].xml", kinds)
        archive.writestr("_rels/.rels", relation.format(f"{office}/officeDocument", "xl/workbook.bin"))
        book = binary_record(131) + binary_record(143) + named + binary_record(144) + binary_record(132)
        archive.writestr("xl/workbook.bin", book)
        archive.writestr("xl/_rels/workbook.bin.rels", relation.format(f"{office}/worksheet", "worksheets/sheet1.bin"))
        archive.writestr("xl/worksheets/sheet1.bin", cells + binary_record(146) + binary_record(130))
    return stream.getvalue()


@pytest.mark.parametrize("name", ["levels.xlsb", "levels.xlsx", ""])
def test_the_binary_format_is_read_whatever_it_is_called(sound: Sound, name: str) -> None:
    data = binary_book([["站名", "水位"], ["老桥", 7.42], ["新桥", 3.0]], "水位表")
    document = sound(parse(data, name or "stdin:1", kind_of(name, data)))
    assert document.text == "水位表\n\n| 站名 | 水位 |\n| 老桥 | 7.42 |\n| 新桥 | 3 |\n"
    assert document.blocks[-1].header == "站名 | 水位"


def test_opendocument(sound: Sound) -> None:
    cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"
    kinds = ("office", "text", "table", "style")
    spaces = " ".join(f'xmlns:{kind}="urn:oasis:names:tc:opendocument:xmlns:{kind}:1.0"' for kind in kinds)
    rows = [
        cell.format("", "姓名") + cell.format("", "比例"),
        cell.format("", "王五") + cell.format(' office:value="0.125"', "12.50%"),
        cell.format(' table:number-columns-repeated="2"', "同")
        + '<table:table-cell table:number-columns-repeated="16000"/>',
    ]
    body = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    body += '<table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row>'
    hidden = (
        '<office:automatic-styles><style:style style:name="h"><style:table-properties table:display="false"/>'
        "</style:style></office:automatic-styles>"
    )
    xml = (
        f"<office:document-content {spaces}>{hidden}<office:body><office:spreadsheet>"
        f'<table:table table:name="甲">{body}</table:table>'
        f'<table:table table:name="乙" table:style-name="h"><table:table-row>{cell.format("", "x")}'
        "</table:table-row></table:table></office:spreadsheet></office:body></office:document-content>"
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("mimetype", ODS)
        archive.writestr("content.xml", xml)
    document = sound(parse(stream.getvalue(), "a.ods", ODS))
    assert [section.title for section in document.structure] == ["甲", "乙"]
    assert tables(document) == [("姓名 | 比例", ["| 姓名 | 比例 |", "| 王五 | 12.50% |", "| 同 | 同 |"])]
    assert any("'乙' is hidden" in problem for problem in document.problems)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "damaged|cannot read"),
        (b"PK\x03\x04 torn", "damaged"),
        (b"a,b\n1,2\n", "no XLSX file"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        parse(data)


def test_the_old_binary_format_gives_values(sound: Sound, data: Path) -> None:
    document = sound(parse((data / "old.xls").read_bytes(), "old.xls", "application/vnd.ms-excel"))
    [(header, rows)] = tables(document)
    assert header == "工号 | 姓名 | 入职 | 比例 | 在职"
    assert rows[1:] == [
        "| 1001 | 张三 | 2020-03-01 | 0.125 | TRUE |",
        "| 1002 | Li Lei | 2021-03-01 08:30:00 | 2.5 |  |",
    ]
    assert any("without their formats" in problem for problem in document.problems)
    assert any("'隐藏' is hidden" in problem for problem in document.problems)


def test_an_empty_workbook_is_said() -> None:
    with pytest.raises(EmptyDocument, match="1 sheets without a cell"):
        parse(saved(openpyxl.Workbook()))


def test_every_truncation_ends_well() -> None:
    data = saved(of_rows(("a", "b"), (1, 2)))
    for cut in range(0, len(data), 499):
        with pytest.raises(SourceError):
            parse(data[:cut])


def test_a_chain_of_sectors_that_goes_round_is_told_at_once(data: Path) -> None:
    """A reader that follows it takes all the memory there is."""
    old = bytearray((data / "old.xls").read_bytes())
    [table] = struct.unpack_from("<I", old, 76)
    [directory] = struct.unpack_from("<I", old, 48)
    struct.pack_into("<I", old, (table + 1) * 512 + 4 * directory, directory)
    with pytest.raises(SourceError, match="its sectors are in disorder"):
        parse(bytes(old), "old.xls", "application/vnd.ms-excel")
