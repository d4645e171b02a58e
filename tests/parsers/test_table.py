"""Data files: any encoding and delimiter, rows under their column names, JSON of any shape."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.chunkers.recursive import RecursiveChunker
from headwater.errors import EmptyDocument, SourceError
from headwater.parsers.table import TableParser
from headwater.types import Blob, Document

Sound = Callable[[Document], Document]
CSV, TSV, JSON, LINES = "text/csv", "text/tab-separated-values", "application/json", "application/x-ndjson"


def parse(data: bytes | str, mime: str = CSV, uri: str = "data/goods.csv", max_rows: int = 200_000) -> Document:
    raw = data.encode() if isinstance(data, str) else data
    return TableParser(max_rows=max_rows).parse(
        Blob(uri=uri, data=raw, mime=mime, modified="2025-01-02T03:04:05+00:00")
    )


@pytest.mark.parametrize(
    ("name", "mime", "rows"),
    [
        ("goods-gb18030.csv", CSV, 3000),
        ("goods.tsv", TSV, 3000),
        ("goods.json", JSON, 199),
        ("goods.jsonl", LINES, 499),
    ],
)
def test_the_goods_read_as_they_were_checked_by_eye(sound: Sound, data: Path, name: str, mime: str, rows: int) -> None:
    document = sound(parse((data / name).read_bytes(), mime, name))
    [block] = document.blocks
    assert block.header == "编号 | 名称 | 价格 | 备注"
    lines = document.text.splitlines()
    assert lines[:3] == [
        "| 编号 | 名称 | 价格 | 备注 |",
        '| SKU0 | 商品0 | 0.0 | 含逗号,引号"与 换行 |',
        "| SKU1 | 商品1 | 3.5 | 无 |",
    ]
    assert len(lines) == len(block.rows) == rows + 1
    assert lines[-1].startswith(f"| SKU{rows - 1} | 商品{rows - 1} | {3.5 * (rows - 1)} |")
    assert document.coverage == {"tables": 1, "tables_without_header": 0, "rows": rows}


def test_no_chunk_cuts_a_row(data: Path) -> None:
    document = parse((data / "goods.tsv").read_bytes(), TSV)
    chunks = RecursiveChunker(size=60, overlap=0).chunk(document)
    assert len(chunks) > 100
    for chunk in chunks:
        assert all(line.startswith("| ") and line.endswith(" |") for line in chunk.text.splitlines())
        assert chunk.kind == "table"
        assert "编号" in chunk.searchable_text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16", "big5"])
def test_delimiters_and_encodings(sound: Sound, delimiter: str, encoding: str) -> None:
    rows = [("品名", "單價", "說明"), ("水尺", "12.50", "測量水位的工具"), ("雨量計", "1,200", "a, b; c")]
    text = "\n".join(delimiter.join(f'"{cell}"' if set(",;") & set(cell) else cell for cell in row) for row in rows)
    document = sound(parse(text.encode(encoding), TSV if delimiter == "\t" else CSV))
    assert document.text == (
        "| 品名 | 單價 | 說明 |\n| 水尺 | 12.50 | 測量水位的工具 |\n| 雨量計 | 1,200 | a, b; c |\n"
    )
    assert document.blocks[0].header == "品名 | 單價 | 說明"


def test_a_separator_line_titles_and_blank_rows(sound: Sound) -> None:
    document = sound(parse("sep=;\nReport 2025;;\n\nname;days;note\nWang;12;x\n;;\nLi;8;\n"))
    assert document.text == "Report 2025\n\n| name | days | note |\n| Wang | 12 | x |\n| Li | 8 |  |\n"
    assert [block.kind for block in document.blocks] == ["caption", "table"]


def test_no_names_is_said(sound: Sound) -> None:
    document = sound(parse("1,2.5,x\n2,3.5,y\n"))
    assert document.blocks[0].header == ""
    assert document.coverage["tables_without_header"] == 1


def test_years_may_be_names(sound: Sound) -> None:
    assert sound(parse("项目,2023,2024\n收入,1.5,2.5\n")).blocks[0].header == "项目 | 2023 | 2024"


def test_words_only(sound: Sound) -> None:
    assert sound(parse("term,meaning\ngauge,水尺\nlogger,记录仪\n")).blocks[0].header == "term | meaning"


def test_a_quote_that_is_never_closed(sound: Sound) -> None:
    document = sound(parse('a,b\n1,"open\n' + "".join(f"{number},x\n" for number in range(2000))))
    assert document.coverage["rows"] == 2001
    assert any("never closed" in problem for problem in document.problems)


@pytest.mark.parametrize("end", ["", "\n", "\r\n\r\n"])
def test_a_quote_that_is_never_closed_swallows_no_rows_of_a_short_table(sound: Sound, end: str) -> None:
    document = sound(parse(f'name,size\n"Weir, upper","2\nm"\nPipe,"5 inch\nPump,3\nGauge,4{end}'))
    assert document.text.splitlines() == [
        *("| name | size |", "| Weir, upper | 2 m |", '| Pipe | "5 inch |', "| Pump | 3 |", "| Gauge | 4 |")
    ]
    assert document.problems == ("the quote that line 4 opens is never closed; from there on quotes are shown as is",)


def test_quotes_that_are_closed_are_no_problem(sound: Sound) -> None:
    document = sound(parse('name,size\n"Weir ""upper""","2"\n"Pump","a\nb"'))
    assert document.problems == () and document.text.splitlines()[1:] == ['| Weir "upper" | 2 |', "| Pump | a b |"]


def test_uneven_rows(sound: Sound) -> None:
    document = sound(parse("a,b\n1,2,3\n4\n"))
    assert "| 1 | 2 | C: 3 |" in document.text or "| 1 | 2 | 3 |" in document.text
    assert "| 4 |" in document.text


def test_one_column_is_text(sound: Sound) -> None:
    document = sound(parse("问题\n如何请假？\n谁来批准？\n"))
    assert document.blocks == ()
    assert document.text == "问题\n\n如何请假？\n\n谁来批准？\n"


def test_rows_beyond_the_limit(sound: Sound) -> None:
    lines = "".join(f"{number},x\n" for number in range(100))
    document = sound(parse("n,v\n" + lines, max_rows=30))
    assert document.coverage["rows"] == 30
    assert "70 rows beyond the first 30 were left out; cut the file in parts" in document.problems
    records = "".join(json.dumps({"n": number}) + "\n" for number in range(100))
    assert (
        "70 rows beyond the first 30 were left out; cut the file in parts"
        in parse(records, LINES, max_rows=30).problems
    )


def test_nested_objects_are_flattened(sound: Sound) -> None:
    value = [
        {"id": 1, "who": {"name": "王五", "unit": {"code": "R&D"}}, "tags": ["a", "b"], "ok": True, "none": None},
        {"id": 2, "who": {"name": "赵六"}, "items": [{"sku": "x", "qty": 2}, {"sku": "y", "qty": 1}], "price": 3.50},
    ]
    document = sound(parse(json.dumps(value, ensure_ascii=False).replace("3.5", "3.50"), JSON))
    assert document.blocks[0].header == "id | who.name | who.unit.code | tags | ok | none | items | price"
    assert document.text.splitlines()[1:] == [
        "| 1 | 王五 | R&D | a, b | true |  |  |  |",
        "| 2 | 赵六 |  |  |  |  | sku: x, qty: 2; sku: y, qty: 1 | 3.50 |",
    ]


def test_fields_that_come_late_bring_their_name(sound: Sound) -> None:
    lines = [json.dumps({"a": number}) for number in range(300)] + [
        json.dumps({"a": 1, "late": "晚"}, ensure_ascii=False)
    ]
    document = sound(parse("\n".join(lines), LINES))
    assert document.text.endswith("| 1 | late: 晚 |\n")


def test_other_json_is_written_by_its_names(sound: Sound) -> None:
    value = {
        "name": "站点配置",
        "server": {"host": "localhost", "port": 8080, "tls": {"on": False}},
        "tags": ["x", "y"],
        "big": 12345678901234567890123,
        "stations": [{"id": 1, "名": "北站"}, {"id": 2, "名": "南站"}],
        "text": "第一行\n第二行",
    }
    document = sound(parse(json.dumps(value, ensure_ascii=False), JSON))
    for line in (
        *("name: 站点配置", "server.host: localhost", "server.port: 8080", "server.tls.on: false", "tags: x, y"),
        *("big: 12345678901234567890123", "| 1 | 北站 |"),
    ):
        assert line in document.text.splitlines()
    assert "text: 第一行\n第二行" in document.text
    assert [section.path for section in document.structure] == ["stations"]
    assert document.blocks[0].header == "id | 名"


def test_records_with_long_text_are_no_rows(sound: Sound) -> None:
    lines = [json.dumps({"id": str(n), "text": "水位计的安装说明。" * 400}, ensure_ascii=False) for n in range(3)]
    document = sound(parse("\n".join(lines), LINES))
    chunks = RecursiveChunker(size=200, overlap=0).chunk(document)
    assert max(len(chunk.text) for chunk in chunks) < 1_000
    assert document.coverage["rows"] == 3


@pytest.mark.parametrize(
    "text", ["[1, 2, 3]", '"word"', "12.50", '[["a", 1], ["b", 2]]', '{"a": {"b": {"c": [[1], [2]]}}}']
)
def test_any_value(sound: Sound, text: str) -> None:
    sound(parse(text, JSON))


def test_wrong_lines_are_counted_and_the_rest_is_kept(sound: Sound) -> None:
    document = sound(parse('{"a": 1}\n{"a": \n\n{"a": 3}\n[1]\n', LINES))
    assert "1 lines are no valid JSON and are left out, the first at 2" in document.problems
    assert "| 1 |\n| 3 |" in document.text


def test_json_lines_under_another_name(sound: Sound) -> None:
    assert sound(parse('{"a": 1}\n{"a": 2}\n', JSON)).text == "| a |\n| 1 |\n| 2 |\n"
    assert sound(parse('[\n{"a": 1},\n{"a": 2}\n]\n', LINES)).text == "| a |\n| 1 |\n| 2 |\n"


@pytest.mark.parametrize("text", ['{"a": 1,}', "{'a': 1}", "[" * 100_000, "// note\n{}"])
def test_what_is_no_json_is_shown_as_it_is(sound: Sound, text: str) -> None:
    document = sound(parse(text, JSON))
    assert document.text.strip() == text
    assert document.problems


def test_halves_of_characters_and_zeros_can_be_stored(sound: Sound) -> None:
    sound(parse('[{"a": "\\ud83d x \\u0000"}]', JSON))


def test_deep_but_valid_nesting(sound: Sound) -> None:
    sound(parse('{"a":' * 200 + "1" + "}" * 200, JSON))


def test_what_holds_nothing_is_said() -> None:
    with pytest.raises(EmptyDocument):
        parse(" \n\n")
    with pytest.raises(EmptyDocument):
        parse(",,\n,,\n")
    with pytest.raises(SourceError, match="not text"):
        parse(bytes(range(256)) * 8)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=6), inner, max_size=4)),
    max_leaves=20,
)


@given(VALUES)
@settings(max_examples=150, deadline=None)
def test_every_json_gives_a_sound_document(value: Any) -> None:
    try:
        document = parse(json.dumps(value), JSON)
    except EmptyDocument:
        return
    for block in document.blocks:
        assert all(document.text[row] == "|" and (row == 0 or document.text[row - 1] == "\n") for row in block.rows)
    for chunk in RecursiveChunker(size=20, overlap=2).chunk(document):
        assert document.text[chunk.span.start : chunk.span.end] == chunk.text


@given(st.text(alphabet='ab1,;\t|"\n 张', max_size=120))
@settings(max_examples=200, deadline=None)
def test_every_csv_gives_a_sound_document(text: str) -> None:
    try:
        document = parse(text)
    except EmptyDocument:
        return
    for block in document.blocks:
        assert all(document.text[row] == "|" and (row == 0 or document.text[row - 1] == "\n") for row in block.rows)
    for chunk in RecursiveChunker(size=20, overlap=2).chunk(document):
        assert document.text[chunk.span.start : chunk.span.end] == chunk.text
