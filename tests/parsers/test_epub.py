"""Books: chapters in the order of reading, titles from the table of contents, notes, and archives that do harm."""

import io
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers.epub import EpubParser
from headwater.types import Blob, Document

CONTAINER = (
    '<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>水文手册</dc:title><dc:creator>李雷</dc:creator><dc:creator>Han Mei</dc:creator><dc:language>zh</dc:language>
<dc:date>2026-03-04</dc:date><dc:subject>水文</dc:subject><dc:description>一本
手册。</dc:description><dc:publisher>某社</dc:publisher><meta property="dcterms:modified">2026-04-01T00:00:00Z</meta>
</metadata><manifest>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
<item id="two" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="text/one.xhtml" media-type="application/xhtml+xml"/>
<item id="notes" href="text/notes.xhtml" media-type="application/xhtml+xml"/>
<item id="cover" href="cover.png" media-type="image/png"/>
</manifest><spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="two"/><itemref idref="one"/>
<itemref idref="notes"/></spine></package>"""
NAV = """<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>
<nav epub:type="toc"><ol><li><a href="text/one.xhtml">第一章 测量</a><ol><li><a href="text/one.xhtml#tools">工具</a>
</li></ol></li><li><a href="text/two%20b.xhtml">Chapter Two</a></li></ol></nav>
<nav epub:type="landmarks"><ol><li><a href="cover.xhtml">Cover</a></li></ol></nav></body></html>"""
ONE = """<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title/></head><body>
<h2>第一章 测量</h2><p>水位每天测量<a href="notes.xhtml#n1" epub:type="noteref">1</a>。</p>
<p id="tools"><b>工具</b></p><p>水尺与流速仪。见<a href="https://example.org/">网站</a>。</p>
<table><tr><th>站</th><th>水位</th></tr><tr><td>甲</td><td>12</td></tr></table></body></html>"""
TWO = "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>This chapter has no heading of its own.</p></body></html>"
NOTES = """<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>
<aside epub:type="footnote" id="n1"><p>早晨八点。</p></aside></body></html>"""
NCX = """<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Part A</text></navLabel>
<content src="text/one.xhtml"/><navPoint><navLabel><text>Inner</text></navLabel><content src="text/two%20b.xhtml"/>
</navPoint></navPoint></navMap></ncx>"""
PARTS = {
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": PACKAGE,
    "OEBPS/nav.xhtml": NAV,
    "OEBPS/text/one.xhtml": ONE,
    "OEBPS/text/two b.xhtml": TWO,
    "OEBPS/text/notes.xhtml": NOTES,
    "OEBPS/cover.png": "not a picture",
}


def book(**changed: str | None) -> bytes:
    """A book, with parts changed by the last part of their names, or left out."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), "application/epub+zip")
        for name, content in PARTS.items():
            short = name.rpartition("/")[2].partition(".")[0].replace(" ", "_")
            written = changed.get(short, content)
            if written is not None:
                archive.writestr(name, written)
        if "extra" in changed:
            archive.writestr("OEBPS/toc.ncx", changed["extra"] or "")
        if "locked" in changed:
            archive.writestr("META-INF/encryption.xml", changed["locked"] or "")
    return packed.getvalue()


def parse(data: bytes) -> Document:
    return EpubParser().parse(Blob(uri="/books/manual.epub", data=data, mime="application/epub+zip"))


def piece(document: Document, span: tuple[int, int] | None) -> str:
    assert span is not None
    return document.text[span[0] : span[1]]


def test_chapters_come_in_the_order_of_reading_with_their_titles() -> None:
    manual = parse(book())
    assert [(section.level, section.path) for section in manual.structure] == [
        (1, "第一章 测量"),
        (2, "第一章 测量 > 工具"),
        (1, "Chapter Two"),
    ]
    assert manual.text.index("水位每天") < manual.text.index("no heading of its own") < manual.text.index("早晨八点")
    assert manual.text.count("水位每天") == 1 and "landmarks" not in manual.text and "Cover" not in manual.text
    assert "# Chapter Two\n\nThis chapter" in manual.text
    assert piece(manual, manual.structure[1].span).startswith("工具\n\n水尺")


def test_the_book_says_what_it_is() -> None:
    manual = parse(book())
    assert (manual.title, manual.description, manual.tags) == ("水文手册", "一本 手册。", ("水文",))
    assert (manual.created, manual.updated) == ("2026-03-04", "2026-04-01T00:00:00+00:00")
    assert dict(manual.meta) == {
        "author": ("李雷", "Han Mei"),
        "language": "zh",
        "publisher": "某社",
        "published": "2026-03-04",
    }
    assert manual.problems == () and manual.coverage["chapters"] == manual.coverage["chapters_read"] == 3


def test_tables_links_and_notes_are_kept() -> None:
    manual = parse(book())
    [table] = [block for block in manual.blocks if block.kind == "table"]
    assert piece(manual, table.span) == "| 站 | 水位 |\n| 甲 | 12 |" and table.header == "站 | 水位"
    [note] = [block for block in manual.blocks if block.kind == "note"]
    assert piece(manual, note.span) == "早晨八点。" and piece(manual, note.about) == "水位每天测量[^1]。"
    assert [(link.target, piece(manual, link.span)) for link in manual.links] == [("https://example.org/", "网站")]


def test_the_older_table_of_contents_is_read_too() -> None:
    package = PACKAGE.replace(' properties="nav"', "").replace(
        "</manifest>", '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/></manifest>'
    )
    manual = parse(book(book=package.replace('<itemref idref="nav"/>', ""), nav=None, extra=NCX))
    assert [(section.level, section.title) for section in manual.structure] == [(1, "第一章 测量"), (2, "Inner")]


def test_a_chapter_keeps_its_title_where_a_part_of_it_begins_soon() -> None:
    """The title of a chapter may be a picture, and only the table of contents says it."""
    two = TWO[: TWO.index("<body")] + '<body><p>Short.</p><div id="part"><p>Words.</p></div></body></html>'
    inner = (
        '<li><a href="text/two%20b.xhtml">Chapter Two</a><ol><li><a href="text/two%20b.xhtml#part">Part</a></li></ol>'
    )
    nav = NAV.replace('<li><a href="text/two%20b.xhtml">Chapter Two</a>', inner)
    paths = [section.path for section in parse(book(nav=nav, two_b=two)).structure]
    assert paths[-2:] == ["Chapter Two", "Chapter Two > Part"]


def test_without_a_table_of_contents_headings_do() -> None:
    assert [section.title for section in parse(book(nav="<html/>")).structure] == ["第一章 测量"]


def test_a_chapter_that_is_missing_or_damaged_is_a_problem() -> None:
    assert parse(book(two_b=None)).problems == ("chapter OEBPS/text/two b.xhtml is missing from the archive",)
    data = bytearray(book())
    place = data.index(b"two b.xhtml") + len(b"two b.xhtml") + 10
    data[place : place + 20] = bytes(20)
    manual = parse(bytes(data))
    [problem] = manual.problems
    assert problem.startswith("chapter OEBPS/text/two b.xhtml was left out:") and "水位每天" in manual.text
    assert manual.coverage["chapters_read"] == 2


def test_a_chapter_of_binary_is_left_out() -> None:
    [problem] = parse(book(two_b="\0\1\2\3" * 500)).problems
    assert "not text" in problem


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cannot be read as EPUB"),
        (b"PK\x03\x04 torn", "cannot be read as EPUB"),
        (book()[:-30], "cannot be read as EPUB"),
        (book(container=None, book=None), "no list of its chapters"),
        (book(book="no xml"), "is no XML"),
        (book(one=None, two_b=None, notes=None), "no chapter can be read"),
        (
            book(locked='<e><CipherReference URI="OEBPS/text/one.xhtml"/></e>'),
            r"encrypted \(DRM\)",
        ),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        parse(data)


def test_scrambled_fonts_are_no_lock() -> None:
    assert parse(book(locked='<e><CipherReference URI="OEBPS/font.otf"/></e>')).title == "水文手册"


def test_a_book_without_words_is_empty() -> None:
    picture = "<html><body><img src='cover.png'/></body></html>"
    with pytest.raises(EmptyDocument, match="holds no text: 3 chapters"):
        parse(book(one=picture, two_b=picture, notes=picture))


def test_nothing_outside_the_archive_is_read() -> None:
    entity = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    package = entity + PACKAGE.partition("?>")[2].replace("水文手册", "Title &e;").replace(
        "text/one.xhtml", "../../../etc/passwd"
    )
    manual = parse(book(book=package, one=entity + ONE.replace("水位", "&e;")))
    assert "root:" not in manual.text + manual.title
    assert "etc/passwd is missing" in manual.problems[0]


def test_bombs_are_refused() -> None:
    laughs = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
    )
    with pytest.raises(SourceError, match="empty or damaged"):
        parse(book(book=laughs + "]>" + PACKAGE.partition("?>")[2].replace("某社", "&j;")))
    with pytest.raises(SourceError, match="only a bomb does"):
        parse(book(two_b="<p>" + "a" * 60_000_000))


WHOLE = book()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255), st.booleans())
def test_spoiled_books_are_read_or_refused(place: int, byte: int, cut: bool) -> None:
    spoiled = bytearray(WHOLE[:place] if cut else WHOLE)
    if not cut:
        spoiled[place] = byte
    try:
        manual = parse(bytes(spoiled))
    except SourceError:
        return
    for block in manual.blocks:
        assert 0 <= block.span.start < block.span.end <= len(manual.text)
