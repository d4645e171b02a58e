"""Nothing -> PDF files and pictures that are made to harm whoever opens them."""

import random
import struct
import zlib
from collections.abc import Iterator, Mapping

from hostile_kinds import LIMIT, Hostile, hostile

WORDS = "The gauge at the old bridge is read every morning."
FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
SHOWN = b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % WORDS.encode()
# What may become of a file that no program can read as it is: some text, none, or a reason.
ANY = f"document|empty|failed: .*(damaged|no page|password|encrypted)|{LIMIT}"


def stream(content: bytes, extra: bytes = b"") -> bytes:
    """A stream object."""
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), extra, content)


def deflated(content: bytes, times: int = 1, extra: bytes = b"") -> bytes:
    """A stream that unpacks to the content, after so many times."""
    for _ in range(times):
        content = zlib.compress(content, 9)
    return stream(content, b"/Filter [%s] %s" % (b" /FlateDecode" * times, extra))


def pdf(objects: Mapping[int, bytes], *, trailer: bytes = b"") -> bytes:
    """A file of these objects; 1 is the catalog."""
    out, places = bytearray(b"%PDF-1.7\n"), {}
    for number, body in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, size = len(out), max(objects) + 1
    out += b"xref\n0 1\n0000000000 65535 f \n"
    for number, place in places.items():
        out += b"%d 1\n%010d 00000 n \n" % (number, place)
    out += b"trailer << /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)
    return bytes(out)


def one_page(content: bytes = b"", *, box: bytes = b"0 0 612 792", resources: bytes = b"", **more: bytes) -> bytes:
    """A file with one page; further objects are called o6, o7, ..."""
    return pdf(
        {
            1: b"<< /Type /Catalog /Pages 2 0 R " + more.pop("catalog", b"") + b" >>",
            2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            3: b"<< /Type /Page /Parent 2 0 R /MediaBox [%s] /Contents 4 0 R "
            b"/Resources << /Font << /F1 5 0 R >> %s >> >>" % (box, resources),
            4: content if content.startswith(b"<<") else stream(content or SHOWN),
            5: more.pop("font", FONT),
            **{int(name[1:]): body for name, body in more.items()},
        }
    )


def many_pages(count: int, *, shared: bool) -> bytes:
    """So many pages, or one page so many times."""
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>"
    )
    own = range(10, 10 + count)
    kids = b"10 0 R " * count if shared else b"".join(b"%d 0 R " % n for n in own)
    head = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count),
        4: stream(SHOWN),
        5: FONT,
    }
    return pdf({**head, **dict.fromkeys([10] if shared else own, page)})


def deep_tree(depth: int) -> bytes:
    """A page tree that is one long chain."""
    objects = {1: b"<< /Type /Catalog /Pages 10 0 R >>", 4: stream(SHOWN), 5: FONT}
    for n in range(10, 10 + depth):
        parent = b"/Parent %d 0 R" % (n - 1) if n > 10 else b""
        objects[n] = b"<< /Type /Pages /Count 1 /Kids [%d 0 R] %s >>" % (n + 1, parent)
    objects[10 + depth] = (
        b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>" % (9 + depth)
    )
    return pdf(objects)


def form(content: bytes, resources: bytes) -> bytes:
    """A piece of a page that pages and pieces use."""
    return stream(content, b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << %s >>" % resources)


def fan_out(levels: int, width: int) -> bytes:
    """Forms that each use the next one ten times."""
    forms = {
        f"o{10 + n}": form(
            b"/X Do " * width if n < levels - 1 else SHOWN, b"/Font << /F1 5 0 R >> /XObject << /X %d 0 R >>" % (11 + n)
        )
        for n in range(levels)
    }
    return one_page(b"/X Do", resources=b"/XObject << /X 10 0 R >>", **forms)


def scattered(words: int) -> bytes:
    """Words all over one page, in no order."""
    chosen = random.Random(5)
    shown = (
        b"1 0 0 1 %d %d Tm (w%d) Tj" % (chosen.randrange(20, 580), chosen.randrange(20, 780), n) for n in range(words)
    )
    return one_page(deflated(b"BT /F1 4 Tf %s ET" % b"\n".join(shown)))


def ruled(lines: int) -> bytes:
    """A page full of rules that cross, with a word in it."""
    chosen = random.Random(6)
    drawn = []
    for n in range(lines):
        x, y = chosen.randrange(600), chosen.randrange(780)
        drawn.append(b"%d %d m %d %d l S" % ((x, y, x, y + 99) if n % 2 else (x, y, x + 99, y)))
    return one_page(deflated(b"\n".join([*drawn, SHOWN])))


def unicode_map() -> bytes:
    """A font that says what a million codes mean."""
    ranges = b"".join(b"100 beginbfrange\n%s endbfrange\n" % (b"<0000> <FFFF> <0041>\n" * 100) for _ in range(50))
    return deflated(b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n%s endcmap" % ranges)


LOCK = b"/Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <%s> /U <%s> >> /ID [<%s> <%s>]" % (
    b"ab" * 32,
    b"cd" * 32,
    b"01" * 16,
    b"01" * 16,
)


def pdfs() -> Iterator[Hostile]:
    """PDF files."""
    tree = {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 5 >>"}
    ring = {**tree, 3: b"<< /Type /Pages /Parent 2 0 R /Kids [2 0 R] /Count 5 >>"}
    yield hostile("page-ring.pdf", "a page tree that is its own child", lambda: pdf(ring), ANY)
    yield hostile("deep-tree.pdf", "a page 20,000 levels down", lambda: deep_tree(20_000), ANY)
    yield hostile("deep-tree-500.pdf", "a page 500 levels down", lambda: deep_tree(500), ANY)
    use = b"/XObject << /X 6 0 R /Y 7 0 R >> /Font << /F1 5 0 R >>"
    yield hostile(
        "form-self.pdf",
        "a form that uses itself",
        lambda: one_page(b"/X Do", resources=use, o6=form(b"/X Do " + SHOWN, use)),
        ANY,
    )
    yield hostile(
        "form-ring.pdf",
        "two forms that use each other",
        lambda: one_page(b"/X Do", resources=use, o6=form(b"/Y Do " * 9, use), o7=form(b"/X Do " * 9 + SHOWN, use)),
        ANY,
    )
    yield hostile("form-fan.pdf", "forms that use forms, 10**8 in all", lambda: fan_out(9, 10), ANY)
    yield hostile(
        "flate-bomb.pdf", "a page of 300 MB in 300 KB", lambda: one_page(deflated(b" " * 300_000_000)), ANY, heavy=True
    )
    yield hostile(
        "flate-twice.pdf",
        "a page of 100 MB in some hundred bytes",
        lambda: one_page(deflated(b" " * 100_000_000, 3)),
        ANY,
    )
    for number, box in enumerate(
        (b"0 0 1e9 1e9", b"0 0 0 0", b"0 0 -5 -5", b"0 0 1e99 nan", b"0 0 99999 99999", b"[[ 0")
    ):
        yield hostile(f"box-{number}.pdf", f"a page of {box.decode()}", lambda box=box: one_page(box=box), ANY)
        if number in (0, 4):
            drawn = b"0 0 9999 9999 re f"
            yield hostile(
                f"box-{number}-drawn.pdf",
                "the same without text",
                lambda box=box, drawn=drawn: one_page(drawn, box=box),
                ANY,
            )
    yield hostile("pages.pdf", "20,000 pages", lambda: many_pages(20_000, shared=False), ANY, heavy=True)
    yield hostile(
        "pages-shared.pdf", "one page 100,000 times", lambda: many_pages(100_000, shared=True), ANY, heavy=True
    )
    yield hostile("pages-2000.pdf", "2,000 pages", lambda: many_pages(2_000, shared=False), ANY)
    count = {
        **tree,
        2: b"<< /Type /Pages /Kids [3 0 R] /Count 2147483647 >>",
        3: b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>",
    }
    yield hostile("page-count.pdf", "one page that says it is two thousand million", lambda: pdf(count), ANY)
    outline = {"catalog": b"/Outlines 6 0 R", "o6": b"<< /Type /Outlines /First 7 0 R /Last 7 0 R /Count 1 >>"}
    entry = b"<< /Title (x) /Parent 6 0 R /Next 7 0 R /First 7 0 R /Dest [3 0 R /Fit] >>"
    yield hostile(
        "outline-ring.pdf", "an outline entry that follows itself", lambda: one_page(**outline, o7=entry), ANY
    )
    yield hostile("scattered.pdf", "20,000 words all over a page", lambda: scattered(20_000), ANY, heavy=True)
    yield hostile("scattered-2000.pdf", "2,000 words all over a page", lambda: scattered(2_000), ANY)
    yield hostile("ruled.pdf", "a page with 15,000 rules", lambda: ruled(15_000), ANY)
    composed = (
        b"<< /Type /Font /Subtype /Type0 /BaseFont /A /Encoding /Identity-H /ToUnicode 6 0 R "
        b"/DescendantFonts [7 0 R] >>"
    )
    descendant = (
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /A "
        b"/CIDSystemInfo << /Registry (A) /Ordering (I) /Supplement 0 >> >>"
    )
    yield hostile(
        "unicode-map.pdf",
        "a font with 5,000 maps of 65,536 codes",
        lambda: one_page(b"BT /F1 9 Tf 9 9 Td <00410042> Tj ET", font=composed, o6=unicode_map(), o7=descendant),
        ANY,
    )
    glyph = (
        b"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 9 9] /FontMatrix [1 0 0 1 0 0] /CharProcs << /a 6 0 R >> "
        b"/Encoding << /Type /Encoding /Differences [97 /a] >> /FirstChar 97 /LastChar 97 /Widths [9] "
        b"/Resources << /Font << /F1 5 0 R >> >> >>"
    )
    yield hostile(
        "glyph-ring.pdf",
        "a letter that is written with itself",
        lambda: one_page(b"BT /F1 9 Tf 9 9 Td (aaa) Tj ET", font=glyph, o6=stream(b"BT /F1 9 Tf (aa) Tj ET")),
        ANY,
    )
    image = b"/Type /XObject /Subtype /Image /Width 100000 /Height 100000 /BitsPerComponent 8 /ColorSpace /DeviceRGB"
    painted = b"q 600 0 0 700 0 0 cm /X Do Q "
    yield hostile(
        "image.pdf",
        "a picture of 30 GB",
        lambda: one_page(painted, resources=use, o6=deflated(b"\0" * 1_000_000, extra=image)),
        ANY,
    )
    for kind in (b"JBIG2Decode", b"JPXDecode", b"DCTDecode", b"CCITTFaxDecode", b"LZWDecode", b"RunLengthDecode"):
        torn = stream(bytes(range(256)) * 40, image.replace(b"100000", b"3000") + b" /Filter /" + kind)
        yield hostile(
            f"torn-{kind.decode()}.pdf",
            "a torn picture",
            lambda torn=torn: one_page(painted + SHOWN, resources=use, o6=torn),
            ANY,
        )
    pattern = b"/Pattern << /P 6 0 R >>"
    tile = stream(
        b"/Pattern cs /P scn 0 0 9 9 re f",
        b"/PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 9 9] /XStep 0.001 /YStep 0.001 "
        b"/Resources << /Pattern << /P 6 0 R >> >>",
    )
    yield hostile(
        "pattern-ring.pdf",
        "a pattern of itself",
        lambda: one_page(b"/Pattern cs /P scn 0 0 600 700 re f", resources=pattern, o6=tile),
        ANY,
    )
    yield hostile(
        "arrays.pdf", "brackets 100,000 deep", lambda: one_page(catalog=b"/X " + b"[" * 100_000 + b"]" * 100_000), ANY
    )
    yield hostile(
        "operators.pdf", "a million times the same", lambda: one_page(deflated(b"q " * 1_000_000 + SHOWN)), ANY
    )
    yield hostile(
        "locked.pdf",
        "a password is needed",
        lambda: one_page().replace(b"/Root 1 0 R", b"/Root 1 0 R " + LOCK),
        "password|damaged",
    )
    yield hostile(
        "locked-unknown.pdf",
        "locked in a way nobody knows",
        lambda: one_page().replace(b"/Root 1 0 R", b"/Root 1 0 R /Encrypt << /Filter /Nobody /V 9 >>"),
        ANY,
    )
    yield hostile(
        "xref-ring.pdf",
        "a table that comes after itself",
        lambda: one_page().replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev %d" % one_page().find(b"xref")),
        ANY,
    )
    yield hostile(
        "xref-far.pdf",
        "a table beyond the end",
        lambda: one_page().replace(b"startxref\n", b"startxref\n99999999999999"),
        ANY,
    )
    yield hostile("no-xref.pdf", "no table at all", lambda: one_page().partition(b"xref")[0], ANY)
    yield hostile("only-a-head.pdf", "nothing behind the first line", lambda: b"%PDF-1.7\n%%EOF", "failed|empty")
    yield hostile(
        "script.pdf",
        "a file that runs a program",
        lambda: one_page(
            catalog=b"/OpenAction << /S /JavaScript /JS (while\\(1\\){}) >> /AA << /WC << /S /Launch /F (/bin/sh) >> >>"
        ),
        "document",
    )
    yield hostile(
        "length.pdf",
        "a stream that says it is longer than the file",
        lambda: one_page().replace(b"/Length 7", b"/Length 99999997"),
        ANY,
    )


# ------------------------------------------------------------------------------------------------- pictures


def chunk(kind: bytes, data: bytes) -> bytes:
    """A part of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: int) -> bytes:
    """A grey PNG with as many rows as there is data for."""
    content = zlib.compress((b"\0" + b"\xff" * width) * rows, 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", content) + chunk(b"IEND", b"")


def tiff_ring() -> bytes:
    """A TIFF whose second page is its first."""
    tags = [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 200), (277, 1), (278, 1), (279, 1)]
    listed = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return (b"II*\0" + struct.pack("<IH", 8, len(tags)) + listed + struct.pack("<I", 8)).ljust(300, b"\0")


def pictures() -> Iterator[Hostile]:
    """Pictures."""
    said = "failed|empty"
    yield hostile("huge.png", "a picture that says 100,000 x 100,000", lambda: png(100_000, 100_000, 1), said)
    yield hostile("bomb.png", "8,000 x 8,000 of white in 60 KB", lambda: png(8_000, 8_000, 8_000), said, heavy=True)
    yield hostile("torn.png", "a picture without its end", lambda: png(600, 600, 600)[:300], said)
    yield hostile(
        "torn.jpg",
        "the beginning of a photograph",
        lambda: b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0" + b"\xff\xc0" * 99,
        said,
    )
    yield hostile(
        "frames.gif",
        "100,000 frames",
        lambda: b"GIF89a\x10\0\x10\0\0\0\0" + b",\0\0\0\0\x10\0\x10\0\0\2\2\x4c\1\0" * 100_000 + b";",
        said,
    )
    yield hostile("ring.tiff", "pages in a ring", tiff_ring, said)
    yield hostile(
        "huge.bmp",
        "two thousand million rows",
        lambda: struct.pack(
            "<2sIHHIIiiHHIIiiII", b"BM", 999, 0, 0, 54, 40, 2**31 - 1, -(2**31), 1, 24, 0, 0, 0, 0, 0, 0
        ),
        said,
    )
    yield hostile("torn.webp", "three numbers and a name", lambda: b"RIFF\xff\xff\xff\xffWEBPVP8X" + b"\xff" * 99, said)
    yield hostile(
        "drawing.svg",
        "a drawing with an entity from outside",
        lambda: (
            b"<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><svg xmlns='http://www.w3.org/2000/svg'><text>&x;</text></svg>"
        ),
        said,
    )
