"""Nothing -> archives and office files that are made to harm whoever opens them."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

from hostile_kinds import LIMIT, Hostile, hostile
from hostile_office import (
    MEGABYTE,
    WORD,
    WORDS,
    book,
    deck,
    letter,
    opened,
    packed,
    relations,
    rows,
    said,
    shape,
    workbook,
)

SECRET = "file:///etc/passwd"

_GROWING = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 12))
LAUGHS = f"<!DOCTYPE l [<!ENTITY l0 'ha'>{_GROWING}]>"
BLOWUP = f"<!DOCTYPE q [<!ENTITY q '{'a' * 100_000}'>]>"
OUTSIDE = f"<!DOCTYPE x [<!ENTITY x SYSTEM '{SECRET}'>]>"
AFAR = "<!DOCTYPE x [<!ENTITY % p SYSTEM 'http://127.0.0.1:9/x.dtd'> %p; <!ENTITY x SYSTEM 'http://127.0.0.1:9/x'>]>"


# ------------------------------------------------------------------------------------------- what they declare


def overlapping() -> bytes:
    """Fifty names for one and the same member."""
    data = letter(said("a" * 100_000))
    end = data.rfind(b"PK\x05\x06")
    size, place = struct.unpack_from("<12xII", data, end)
    directory = data[place : place + size] * 50
    count = 3 * 50
    return data[:place] + directory + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), place, 0)


def with_sizes(data: bytes, *, member: int, unpacked: int) -> bytes:
    """The same archive, in which one member says that it is of another size."""
    changed = bytearray(data)
    place = -1
    for _ in range(member + 1):
        place = data.find(b"PK\x01\x02", place + 1)
    struct.pack_into("<I", changed, place + 24, unpacked)
    start = struct.unpack_from("<I", data, place + 42)[0]
    struct.pack_into("<I", changed, start + 22, unpacked)
    return bytes(changed)


def zip64() -> bytes:
    """A member that says it holds 2**62 bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, archive.open("word/document.xml", "w", force_zip64=True) as member:
        member.write(b"<a/>")
    data = bytearray(stream.getvalue())
    place = data.find(b"PK\x01\x02")
    extra = struct.pack("<HHQ", 1, 8, 1 << 62)
    struct.pack_into("<I", data, place + 24, 0xFFFFFFFF)
    name = struct.unpack_from("<H", data, place + 28)[0]
    struct.pack_into("<H", data, place + 30, len(extra))
    end = data.rfind(b"PK\x05\x06")
    size = struct.unpack_from("<I", data, end + 12)[0]
    struct.pack_into("<I", data, end + 12, size + len(extra))
    data[place + 46 + name : place + 46 + name] = extra
    return bytes(data)


def locked(data: bytes) -> bytes:
    """The same archive, in which every member says that it is encrypted."""
    changed = bytearray(data)
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.find(mark)
        while place >= 0:
            changed[place + flags] |= 1
            place = data.find(mark, place + 4)
    return bytes(changed)


def deep_archive() -> bytes:
    """Archives in archives, ten deep."""
    data: bytes = packed({"a.txt": WORDS})
    for _ in range(10):
        data = packed({"a.zip": data})
    return letter(said(), more={"word/embeddings/a.zip": data})


def ole(*streams: str, cycle: bool = False, beyond: bool = False) -> bytes:
    """An OLE file: a header, its table of sectors and a directory, which may follow itself for ever."""
    header = bytearray(512)
    struct.pack_into(
        "<8s16xHHHHHHIIIIIIIII",
        header,
        0,
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        62,
        3,
        0xFFFE,
        9,
        6,
        0,
        0,
        0,
        1,
        1,
        0,
        4096,
        0xFFFFFFFE,
        0,
        0xFFFFFFFE,
    )
    struct.pack_into("<I109I", header, 72, 0, 0, *[0xFFFFFFFF] * 108)
    if beyond:  # the directory begins where the file has ended, and goes on there
        struct.pack_into("<I", header, 48, 100)
    table = struct.pack("<128I", 0xFFFFFFFD, 1 if cycle else 0xFFFFFFFE, *[100 if beyond else 0xFFFFFFFF] * 126)
    entries = b""
    for number, name in enumerate(("Root Entry", *streams)[:4]):
        raw = name.encode("utf-16-le")
        kind, child = (5, 1 if streams else 0xFFFFFFFF) if number == 0 else (2, 0xFFFFFFFF)
        right = number + 1 if 0 < number < len(streams) else 0xFFFFFFFF
        entries += struct.pack("<64sHBBIII36xIQ", raw, len(raw) + 2, kind, 1, 0xFFFFFFFF, right, child, 0xFFFFFFFE, 0)
    return bytes(header) + table + entries.ljust(512, b"\0")


# -------------------------------------------------------------------------------------------------- the files


def archives() -> Iterator[Hostile]:
    """Zip files whose directory lies or whose names want to go elsewhere."""
    bomb = b"\0" * (64 * MEGABYTE)
    yield hostile(
        "flat-bomb.docx",
        "64 MB of zeros in 64 KB",
        lambda: letter(said(), more={"word/media/z": bomb}),
        "only a bomb does",
    )
    layer = b"\0" * (12 * MEGABYTE)
    yield hostile(
        "nested-bomb.pptx",
        "bombs in archives in an archive",
        lambda: deck(shape(), more={f"ppt/embeddings/{n}.zip": packed({"z": layer}) for n in range(6)}),
        "only a bomb does",
    )
    yield hostile("overlapping-bomb.docx", "members that are one another", overlapping, "lie over one another")
    yield hostile(
        "says-less.docx",
        "a member larger than it says",
        lambda: with_sizes(letter(said("a" * 90_000)), member=2, unpacked=300),
        "failed: .*damaged",
    )
    yield hostile(
        "says-more.xlsx",
        "a member that says 4 GB",
        lambda: with_sizes(workbook(rows("A1=x")), member=4, unpacked=0xFFFFFFF0),
        "are the limit|unpacks to more",
    )
    yield hostile("zip64.docx", "a member that says 2**62 bytes", zip64, "failed: .*(are the limit|damaged)")
    many = {f"word/{n}": "" for n in range(60_000)}
    yield hostile("many-members.docx", "60,000 members", lambda: letter(said(), more=many), "60,003 files", heavy=True)
    yield hostile("deep-archive.docx", "archives ten deep", deep_archive, "deep")
    for number, name in enumerate(("../../../etc/cron.d/x", "/etc/passwd", "C:\\Windows\\x", "..\\..\\x")):
        made = {"word/x": "", name: "x"}
        yield hostile(
            f"traversal-{number}.docx",
            f"a member called {name}",
            lambda made=made: letter(said(), more=made),
            "wants to go to",
        )
    yield hostile(
        "traversal.epub",
        "a book whose chapter is outside it",
        lambda: book(f"<p>{WORDS}</p>", href="../../../../../etc/passwd"),
        "document|failed",
    )
    yield hostile(
        "traversal-relation.docx",
        "a body that is said to be elsewhere",
        lambda: letter(said(), more={"_rels/.rels": relations(("officeDocument", SECRET))}),
        "document|failed",
    )
    yield hostile("locked.docx", "members with a password", lambda: locked(letter(said())), "password")
    yield hostile(
        "locked-ole.docx",
        "an office file with a password",
        lambda: ole("EncryptionInfo", "EncryptedPackage"),
        "password|encrypted",
    )
    yield hostile(
        "ole-cycle.xls", "an OLE directory that follows itself", lambda: ole("Workbook", cycle=True), "failed"
    )
    yield hostile(
        "ole-beyond.xls", "one that goes round outside the file", lambda: ole("Workbook", beyond=True), "failed"
    )
    yield hostile("ole-old.doc", "a Word file of the nineties", lambda: ole("WordDocument"), "failed: .*(docx|save)")
    yield hostile("only-an-end.docx", "an archive without members", lambda: b"PK\5\6" + b"\0" * 18, "failed")
    yield hostile("twice.docx", "two bodies of one name", lambda: letter(said()) + letter(said()), "document|failed")
    junk = zlib.compress(WORDS.encode() * 999)
    yield hostile(
        "junk-in-front.docx", "an archive behind other bytes", lambda: b"MZ" + junk + letter(said()), "failed"
    )


def marked_up() -> Iterator[Hostile]:
    """Office files and books whose XML is a trap."""
    yield hostile(
        "laughs.docx",
        "entities that grow to 10**11",
        lambda: letter(said("&l11;"), front=LAUGHS),
        "document|empty|failed",
    )
    yield hostile(
        "laughs.xlsx",
        "the same among shared strings",
        lambda: workbook(
            '<sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row></sheetData>',
            front=LAUGHS,
            strings="<si><t>&l11;</t></si>",
        ),
        "document|empty|failed",
    )
    yield hostile(
        "laughs.epub",
        "the same in a book",
        lambda: book("<p>x</p>", front=LAUGHS.replace("ha", WORDS)),
        "document|empty|failed",
    )
    yield hostile(
        "laughs.pptx",
        "one long entity, many times",
        lambda: deck(shape("&q;" * 5000), front=BLOWUP),
        "document|empty|failed",
    )
    yield hostile(
        "xxe-file.docx",
        "an entity that is a file of the machine",
        lambda: letter(said(WORDS + " &x;"), front=OUTSIDE),
        "document|failed",
    )
    yield hostile(
        "xxe-file.pptx", "the same in slides", lambda: deck(shape(WORDS + " &x;"), front=OUTSIDE), "document|failed"
    )
    yield hostile(
        "xxe-network.xlsx",
        "an entity from the network",
        lambda: workbook(
            '<sheetData><row r="1"><c r="A1" t="s"><v>0</v></c></row></sheetData>',
            front=AFAR,
            strings="<si><t>words &x;</t></si>",
        ),
        "document|empty|failed",
    )
    yield hostile(
        "xxe-network.epub",
        "a book that asks the network",
        lambda: book(f"<p>{WORDS}</p>", front=AFAR),
        "document|failed",
    )
    deep = 30_000
    yield hostile(
        "deep-tables.docx",
        "tables in tables",
        lambda: letter("<w:tbl><w:tr><w:tc>" * deep + said() + "</w:tc></w:tr></w:tbl>" * deep),
        f"document|deep|damaged|{LIMIT}",
    )
    yield hostile(
        "deep-groups.pptx",
        "groups in groups",
        lambda: deck("<p:grpSp>" * deep + shape() + "</p:grpSp>" * deep),
        f"document|deep|damaged|{LIMIT}",
    )
    yield hostile(
        "deep-groups-200.pptx",
        "as many as XML readers allow",
        lambda: deck("<p:grpSp>" * 200 + shape() + "</p:grpSp>" * 200),
        "document|deep",
    )
    yield hostile(
        "deep.epub",
        "30,000 elements in one another",
        lambda: book("<div>" * deep + WORDS + "</div>" * deep),
        f"document|deep|damaged|{LIMIT}",
    )
    yield hostile(
        "deep.odt",
        "lists in lists",
        lambda: opened(
            "<text:list><text:list-item>" * deep + "<text:p>x</text:p>" + "</text:list-item></text:list>" * deep
        ),
        f"document|empty|deep|damaged|{LIMIT}",
    )
    yield hostile(
        "blanks.odt",
        "two thousand million blanks",
        lambda: opened(f'<text:p>{WORDS}<text:s text:c="2000000000"/>x</text:p>'),
        f"document|{LIMIT}",
    )
    yield hostile(
        "long-run.docx",
        "20 MB of text in one run",
        lambda: letter(said("level of the river " * 1_000_000)),
        "characters of text|too long",
    )
    yield hostile(
        "paragraphs.docx", "200,000 paragraphs", lambda: letter(said("x") * 200_000), f"document|{LIMIT}", heavy=True
    )
    styled = "".join(
        f'<w:style w:styleId="s{n}" w:type="paragraph"><w:basedOn w:val="s{(n + 1) % 9}"/></w:style>' for n in range(9)
    )
    yield hostile(
        "style-cycle.docx",
        "styles that are based on one another in a ring",
        lambda: letter(
            f'<w:p><w:pPr><w:pStyle w:val="s1"/></w:pPr><w:r><w:t>{WORDS}</w:t></w:r></w:p>',
            more={
                "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{styled}</w:styles>',
                "word/_rels/document.xml.rels": relations(("styles", "styles.xml")),
            },
        ),
        "document",
    )
    yield hostile(
        "self-slide.pptx",
        "a slide that is its own layout and notes",
        lambda: deck(
            shape(),
            more={
                "ppt/slides/_rels/s.xml.rels": relations(
                    *[(kind, "s.xml") for kind in ("slideLayout", "notesSlide", "slideMaster", "slide")]
                )
            },
        ),
        "document",
    )
    yield hostile(
        "relations.pptx",
        "100,000 relations",
        lambda: deck(
            shape(), more={"ppt/slides/_rels/s.xml.rels": relations(*[("image", f"{n}.png") for n in range(100_000)])}
        ),
        f"document|{LIMIT}",
    )
    yield hostile("no-xml.docx", "a body that is no XML", lambda: letter("<w:p", front="\0\1\2"), "failed: .*damaged")
    yield hostile("empty-body.docx", "a body without words", lambda: letter(""), "empty")


def sheets() -> Iterator[Hostile]:
    """Workbooks that are larger than they look."""
    yield hostile(
        "sparse.xlsx",
        "two cells, seventeen thousand million apart",
        lambda: workbook(rows("A1=first", "XFD1048576=last")),
        "document",
    )
    yield hostile(
        "dimension.xlsx",
        "one cell that says it is a whole sheet",
        lambda: workbook('<dimension ref="A1:XFD1048576"/>' + rows("A1=name", "A2=Lin")),
        "document",
    )
    yield hostile(
        "columns.xlsx",
        "16,384 columns of 5 rows",
        lambda: workbook(
            "<sheetData>"
            + "".join(f'<row r="{n}">' + "<c><v>1</v></c>" * 16_384 + "</row>" for n in range(1, 6))
            + "</sheetData>"
        ),
        f"document|{LIMIT}",
    )
    long = f"<si><t>{'river ' * 5000}</t></si>"
    yield hostile(
        "shared-bomb.xlsx",
        "a long string that 20,000 cells share",
        lambda: workbook(
            "<sheetData>"
            + "".join(f'<row r="{n}"><c r="A{n}" t="s"><v>0</v></c></row>' for n in range(1, 20_001))
            + "</sheetData>",
            strings=long,
        ),
        f"document|{LIMIT}",
    )
    yield hostile(
        "shared-lies.xlsx",
        "shared strings that do not exist",
        lambda: workbook(
            '<sheetData><row r="1"><c r="A1" t="s"><v>-1</v></c><c r="B1" t="s"><v>999999999999999999999</v></c>'
            '<c r="C1" t="s"><v>x</v></c></row></sheetData>',
            strings="<si><t>only</t></si>",
        ),
        "document|empty|failed",
    )
    areas = (
        '<mergeCells count="9">' + "".join('<mergeCell ref="A1:XFD1048576"/>' for _ in range(20_000)) + "</mergeCells>"
    )
    yield hostile(
        "merges.xlsx",
        "the whole sheet merged, 20,000 times",
        lambda: workbook(rows("A1=name", "A2=Lin", "A3=Wang"), behind=areas),
        f"document|{LIMIT}",
    )
    yield hostile(
        "formula-cycle.xlsx",
        "cells that are each other",
        lambda: workbook(
            '<sheetData><row r="1"><c r="A1"><f>B1</f></c><c r="B1"><f>A1</f><v>1</v></c></row></sheetData>'
        ),
        "document|empty",
    )
    odd = "".join(
        f'<c s="0"><v>{value}</v></c>' for value in ("1e308", "1e999", "-1e999", "nan", "9" * 5000, "1e15", "-1", "")
    )
    formats = '<numFmts><numFmt numFmtId="200" formatCode="{}"/></numFmts><cellXfs><xf numFmtId="200"/></cellXfs>'
    for number, code in enumerate(
        ("yyyy-mm-dd hh:mm:ss.000", "0" * 20_000 + ".0%", "[" * 9000, "#,##0;" * 4000, "&quot;" * 4001)
    ):
        yield hostile(
            f"numbers-{number}.xlsx",
            f"numbers beyond all bounds as {code[:20]}",
            lambda code=code: workbook(
                f'<sheetData><row r="1">{odd}</row><row r="2">{odd}</row></sheetData>', styles=formats.format(code)
            ),
            "document",
        )
    yield hostile(
        "row-number.xlsx",
        "a row beyond all rows",
        lambda: workbook(
            '<sheetData><row r="99999999999999999999"><c r="AAAAAAAA9" t="inlineStr"><is><t>name</t></is></c>'
            '<c t="inlineStr"><is><t>Lin</t></is></c></row></sheetData>'
        ),
        "document|empty",
    )
    yield hostile(
        "repeated.ods",
        "a cell repeated seventeen thousand million times",
        lambda: opened(
            '<table:table table:name="T"><table:table-row table:number-rows-repeated="1048576">'
            f'<table:table-cell table:number-columns-repeated="16384"><text:p>{WORDS}</text:p></table:table-cell>'
            "</table:table-row></table:table>",
            sheet=True,
        ),
        f"document|failed|{LIMIT}",
    )
    yield hostile(
        "not-a-workbook.xls", "text under an old name", lambda: b"\x09\x08\x10\0\0\6\5\0" + b"\xff\1\2" * 4000, "failed"
    )
