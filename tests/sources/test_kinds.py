"""What a file is, by what it holds: a wrong name must not matter, and no file costs more than a look at its ends."""

import io
import time
import zipfile
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.kinds import (
    BINARY,
    CODE_SUFFIXES,
    CSV,
    DOCX,
    EPUB,
    HTML,
    JSON,
    JSON_LINES,
    MAIL,
    MAILBOX,
    MARKDOWN,
    OLE,
    PLAIN,
    PPTX,
    TSV,
    XLSX,
    ZIP,
    kind_of,
)

PAGE = "<!DOCTYPE html><html><head><title>标题</title></head><body><p>正文</p></body></html>"
LETTER = "Received: from a by b\nFrom: a@example.org\nTo: b@example.org\nSubject: hi\n\nText.\n"
TABLE = '编号,名称,价格\n1,苹果,3.5\n2,"梨,\n或者 pear",4\n3,桃,5\n'
NOTE = "# Title\n\nSome words.\n\n## Part\n\nMore.\n"


ODF = "application/vnd.oasis.opendocument."


def archive(*names: str, mimetype: str = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        if mimetype:
            file.writestr(zipfile.ZipInfo("mimetype"), mimetype)
        for name in names:
            file.writestr(name, "<x/>" * 100)
    return packed.getvalue()


def ole(*streams: str, inside: str = "") -> bytes:
    """An OLE file with these streams at the top, and one inside a storage."""
    entries = [entry("Root Entry", kind=5, child=1)]
    for number, stream in enumerate(streams, 1):
        entries.append(entry(stream, right=number + 1 if number < len(streams) else 0xFFFFFFFF))
    if inside:
        entries[-1] = entry(streams[-1], kind=1, child=len(entries))
        entries.append(entry(inside))
    while len(entries) % 4:
        entries.append(entry(""))
    directory = b"".join(entries)
    sectors = len(directory) // 512
    chain = [number + 2 for number in range(sectors)]
    chain[-1] = 0xFFFFFFFE
    table = pack(f"<{1 + sectors}I", 0xFFFFFFFD, *chain).ljust(512, b"\xff")
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(6)
    header += pack("<IIIIIIIII", 0, 1, 1, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)
    return (header + pack("<I", 0)).ljust(512, b"\xff") + table + directory


def entry(name: str, *, kind: int = 2, right: int = 0xFFFFFFFF, child: int = 0xFFFFFFFF) -> bytes:
    raw = (name + "\0").encode("utf-16-le")
    return raw.ljust(64, b"\0") + pack("<HBBIII", len(raw), kind, 1, 0xFFFFFFFF, right, child) + bytes(48)


OFFICE = archive("[Content_Types].xml", "_rels/.rels", "word/document.xml")

CASES = [
    # -- text by its name, where nothing in it says otherwise
    ("a.md", b"# x", MARKDOWN),
    ("a.MARKDOWN", b"", MARKDOWN),
    ("a.mdx", b"x", MARKDOWN),
    ("readme.md", b'<p align="center">badge</p>\n\n# Project\n', MARKDOWN),
    ("a.txt", b"\xc4\xe3\xba\xc3", PLAIN),
    ("README", b"plain words", PLAIN),
    ("noext", "中文".encode("gbk"), PLAIN),
    ("wide", "Chinese 中文 and English, 一起。".encode("utf-16-le"), PLAIN),
    ("marked", "中".encode("utf-16"), PLAIN),
    ("empty", b"", PLAIN),
    ("a.csv", b"a,b", CSV),
    ("a.tsv", b"a\tb", TSV),
    ("a.json", b"{}", JSON),
    ("a.jsonl", b'{"a":1}\n', JSON_LINES),
    ("a.html", b"<p>", HTML),
    ("a.htm", b"words only", HTML),
    ("a.yaml", b"from: a\nto: b\nsubject: c\n", PLAIN),
    ("a.log", b"<html> was requested\n", PLAIN),
    ("a.toml", b"[a]\nb = 1\n", PLAIN),
    ("a.ipynb", b'{"cells": []}', "application/x-ipynb+json"),
    # -- programs
    ("a.py", b"import x", "text/x-python"),
    ("a.ts", b"let x = 1", "text/x-typescript"),
    ("a.JAVA", b"class A {}", "text/x-java"),
    ("a.h", b"int f(void);", "text/x-c"),
    ("a.php", b"<html><?php echo 1 ?>", "text/x-php"),
    ("run", b"#!/usr/bin/env python3\nprint(1)\n", "text/x-python"),
    ("run", b"#!/bin/bash\nls\n", "text/x-shellscript"),
    ("run.txt", b"#!/usr/bin/env -S node --harmony\n1\n", "text/javascript"),
    ("run", b"#!/usr/bin/perl -w\n", "text/x-perl"),
    ("run", b"#!/usr/bin/tcl\n", PLAIN),
    # -- HTML, whatever it is called
    ("page.txt", PAGE.encode(), HTML),
    ("page", PAGE.encode("gb18030"), HTML),
    ("page.md", PAGE.encode(), HTML),
    ("page.json", PAGE.encode(), HTML),
    ("page.csv", PAGE.encode(), HTML),
    ("page.txt", b"\xef\xbb\xbf" + PAGE.encode(), HTML),
    ("page.txt", PAGE.encode("utf-16"), HTML),
    ("page.txt", PAGE.encode("utf-16-be"), HTML),
    ("page", b"<!-- saved from url -->\n<!-- x - y -->\n<HTML>", HTML),
    ("page", b"<!-- " + b"-" * 20_000 + b" -->\n<html>", HTML),
    ("page", b'<?xml version="1.0" encoding="utf-8"?>\n<html xmlns="http://www.w3.org/1999/xhtml">', HTML),
    ("page", b"<div class='a'><p>words</p></div>", HTML),
    ("page.txt", b"<h1>Title</h1>\n<p>words</p>", HTML),
    ("marks.html", b"<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>", HTML),
    ("a.txt", b"<b is how a bold tag starts, and then nothing closes it", PLAIN),
    ("a.txt", b"a < b and c > d", PLAIN),
    ("feed.xml", b"<?xml version='1.0'?><rss></rss>", PLAIN),
    ("a.txt", b"<svg xmlns='x'></svg>", "image/svg+xml"),
    # -- mail
    ("a.eml", LETTER.encode(), MAIL),
    ("a.txt", LETTER.encode(), MAIL),
    ("noext", LETTER.replace("\n", "\r\n").encode(), MAIL),
    ("a", b"Subject: =?gbk?B?xOO6ww==?=\nFrom: a@b.c\nX-Long: one\n two\n\tthree\n\n\xc4\xe3", MAIL),
    ("a.eml", b"just some words\n", PLAIN),
    ("a.mbox", b"From a@b.c Mon Jan  5 10:00:00 2026\n" + LETTER.encode(), MAILBOX),
    ("a.txt", b"From: here to eternity\nA novel.\n", PLAIN),
    ("a.txt", b"Note: this is prose.\nTo: nobody.\n\nText", PLAIN),
    # -- data by its shape
    ("data", b'{"a": [1, 2], "b": null}', JSON),
    ("data.txt", b'\n [\n {"a": 1},\n {"a": 2}\n]\n', JSON),
    ("data", b"[" + b'"x",' * 100_000 + b'"y"]', JSON),
    ("data", b'{"a": 1}\n{"a": 2}\n', JSON_LINES),
    ("data.json", b'{"a": 1}\n{"a": 2}\n{"a": 3}', JSON_LINES),
    ("data.jsonl", b'[\n  {"a": 1}\n]\n', JSON),
    ("data.json", b'{"a": [1, 2', JSON),  # torn: its parser says so
    ("data.json", "\ufeff{}".encode("utf-16-le"), JSON),
    ("data.json", b"no json at all", PLAIN),
    ("data", b"{not json}", PLAIN),
    ("data", b"[draft] of a letter", PLAIN),
    ("data", b"[" * 100_000, PLAIN),
    ("data", TABLE.encode(), CSV),
    ("data.txt", TABLE.encode("gb18030"), CSV),
    ("data", TABLE.replace(",", "\t").encode(), TSV),
    ("data", b"a;b;c\n1;2;3\n4;5;6\n", CSV),
    ("a.txt", b"One, two.\nThree, four, five.\nSix.\n", PLAIN),
    ("a.txt", "春眠不觉晓，处处闻啼鸟。\n夜来风雨声，花落知多少。\n床前明月光，疑是地上霜。\n".encode(), PLAIN),
    ("a.txt", b"a, b\nc, d\ne, f\n", PLAIN),
    # -- Markdown by unmistakable signs
    ("note", NOTE.encode(), MARKDOWN),
    ("note.txt", b"---\ntitle: x\ntags:\n- a\n---\nwords\n", MARKDOWN),
    ("note.txt", b"Words with [a link](https://example.org).\n\n```python\nx\n```\n", MARKDOWN),
    ("note", b"# one comment\nkey = value\n", PLAIN),
    ("note", b"Words\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", PLAIN),
    # -- other formats
    ("a.pdf", b"%PDF-1.7", "application/pdf"),
    ("really-a-pdf.txt", b"%PDF-1.7\n1 0 obj", "application/pdf"),
    ("junk.pdf", b"\r\nHTTP/1.1 200 OK\r\n\r\n%PDF-1.4\n1 0 obj\n", "application/pdf"),
    ("about.txt", b"A file that begins with %PDF-1.4 is a PDF.", PLAIN),
    ("a.png", b"\x89PNG\r\n\x1a\n", "image/png"),
    ("photo.txt", b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
    ("a.webp", b"RIFF1234WEBP", "image/webp"),
    ("a", b"GIF89a", "image/gif"),
    ("a", b"II*\0", "image/tiff"),
    ("a", b"BM" + pack("<IHHII", 100, 0, 0, 54, 40) + bytes(40), "image/bmp"),
    ("a.txt", b"BMW makes cars, among other things.", PLAIN),
    ("a.heic", b"\0\0\0\x18ftypheic", "image/heic"),
    ("a.doc", b"{\\rtf1 x}", "application/rtf"),
    ("a.bin", bytes(range(256)), BINARY),
    ("a.txt", bytes(range(256)), BINARY),
    ("a.dat", bytes(4096), BINARY),
    ("a.docx", b"\x00\x01\x02\x03" * 100, BINARY),
    # -- archives
    ("a.zip", b"PK\x03\x04", ZIP),
    ("a.zip", archive("a.txt", "word/notes.txt"), ZIP),
    ("a.zip", archive(), ZIP),
    ("a.docx", b"PK\x03\x04", DOCX),
    ("a.zip", OFFICE, DOCX),
    ("a.pdf", OFFICE, DOCX),
    ("a", archive("[Content_Types].xml", "ppt/presentation.xml"), PPTX),
    ("a.docx", archive("[Content_Types].xml", "xl/workbook.xml"), XLSX),
    ("a.docx", OFFICE[: len(OFFICE) * 3 // 4], DOCX),
    ("torn", OFFICE[: len(OFFICE) * 3 // 4], DOCX),
    ("in-front", b"PK\x03\x04" + OFFICE, DOCX),
    ("a.zip", archive("META-INF/container.xml", mimetype="application/epub+zip"), EPUB),
    ("a", archive("META-INF/container.xml", "book.opf"), EPUB),
    ("a", archive("content.xml", mimetype=ODF + "text"), ODF + "text"),
    ("a.odt", archive("content.xml", mimetype=ODF + "spreadsheet"), ODF + "spreadsheet"),
    ("a", archive("x", mimetype="<script>"), ZIP),
    ("a.jar", archive("META-INF/MANIFEST.MF", "A.class"), "application/java-archive"),
    # -- OLE
    ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/msword"),
    ("a", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    ("a.xls", ole("\x05SummaryInformation", "WordDocument"), "application/msword"),
    ("a", ole("Workbook"), "application/vnd.ms-excel"),
    ("a", ole("Book"), "application/vnd.ms-excel"),
    ("a", ole("Current User", "a", "b", "c", "PowerPoint Document"), "application/vnd.ms-powerpoint"),
    ("a.doc", ole("__nameid_version1.0", "__properties_version1.0"), "application/vnd.ms-outlook"),
    ("a.doc", ole("Workbook", "MBD0001", inside="WordDocument"), "application/vnd.ms-excel"),
    ("a.docx", ole("EncryptionInfo", "EncryptedPackage"), DOCX),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "mime"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_the_type_is_told_by_content_and_name(name: str, data: bytes, mime: str) -> None:
    assert kind_of(name, data) == mime


@pytest.mark.parametrize("suffix", CODE_SUFFIXES)
def test_programs_are_told_by_their_suffix(suffix: str) -> None:
    assert kind_of(f"main{suffix}", "# 注释\nx = 1\n".encode("gbk")) == CODE_SUFFIXES[suffix]


@pytest.mark.parametrize("name", ["a.txt", "a.pdf", "a.docx", "a.html", "a", "a.csv", "a.eml"])
def test_formats_with_marks_of_their_own_need_no_name(name: str) -> None:
    marked = [case for case in CASES if case[2] in (PPTX, XLSX, EPUB, "application/pdf", "image/png", "image/jpeg")]
    assert len(marked) > 7
    assert [kind_of(name, data) for _, data, _ in marked] == [mime for _, _, mime in marked]


@given(st.binary(max_size=400), st.sampled_from(["a", "a.txt", "a.json", "a.docx", "a.doc", "a.eml", "a.html"]))
def test_any_bytes_have_a_type(data: bytes, name: str) -> None:
    for front in (b"", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"<!--", b"---\n"):
        assert "/" in kind_of(name, front + data)


@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_spoiled_archive_has_a_type(place: int, byte: int) -> None:
    for whole in (OFFICE, ole("a", "b", "c", "d", "WordDocument", inside="Workbook")):
        spoiled = bytearray(whole)
        spoiled[place % len(whole)] = byte
        assert "/" in kind_of("a", bytes(spoiled))
        assert "/" in kind_of("a", whole[: place % len(whole)])


MANY_FILES = b"PK\x03\x04" + bytes(100) + (b"PK\x01\x02" + bytes(42)) * 200_000
MANY_FILES += b"PK\x05\x06" + pack("<8xII2x", 9_200_000, 104)


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04" * 1_000_000,
        (b"PK\x03\x04" + bytes(26)) * 100_000,
        b"PK\x03\x04"
        + bytes(100)
        + (b"PK\x01\x02" + bytes(42)) * 200_000
        + b"PK\x05\x06"
        + pack("<12xII", 9_200_000, 104),
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000_000),
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x09\0" * 2_000_000,
        b"<!--" * 1_000_000,
        b"<!-- -" * 1_000_000,
        b"A: b\n " * 1_000_000,
        b"a:" * 2_000_000,
        b'{"a":' * 1_000_000,
        b"[[" * 2_000_000,
        b"[a](" * 1_000_000,
        b"---\na: b\n" * 500_000,
        b"|---" * 1_000_000,
        b'"' * 4_000_000,
        b",\n" * 2_000_000,
        b" " * 4_000_000,
        b"#!" + b" " * 4_000_000,
        b"From " * 800_000,
    ],
    ids=range(19),
)
def test_no_file_takes_long(data: bytes) -> None:
    started = time.process_time()
    for name in ("a", "a.json"):
        kind_of(name, data)
    assert time.process_time() - started < 1


def test_files_are_given_with_their_type(tmp_path: Path) -> None:
    from headwater.sources.files import FileSource

    (tmp_path / "wrong.pdf").write_bytes(OFFICE)
    assert FileSource(tmp_path).read(str(tmp_path / "wrong.pdf")).mime == DOCX
