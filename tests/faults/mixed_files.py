"""Folders of files of every kind, each with a word of its own that finds it. Made with the standard library alone."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
FILLER = (
    "The gauge at the old bridge is read every morning and the level is told to the office.",
    "老桥水位站每天早上八点观测一次水位，汛期每小时观测一次。",
)


def mark(number: int) -> str:
    """The word that stands in file `number` and in no other."""
    return f"markword{number:05d}x"


def sentence(number: int) -> str:
    """A sentence with it, in one language or the other."""
    return f"{mark(number)}: {FILLER[number % 2]}"


def zipped(parts: dict[str, str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


def relations(*targets: tuple[str, str]) -> str:
    rows = "".join(
        f'<Relationship Id="r{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets)
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{rows}</Relationships>'


def types(**parts: str) -> str:
    rows = "".join(f'<Override PartName="/{name}" ContentType="{kind}"/>' for name, kind in parts.items())
    default = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return f'<Types xmlns="{PACKAGE}/content-types">{default}{rows}</Types>'


def text(number: int) -> bytes:
    return f"Note {number}\n\n{sentence(number)}\n".encode()


def markdown(number: int) -> bytes:
    return f"# Heading {number}\n\n{sentence(number)}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode()


def table(number: int) -> bytes:
    rows = "".join(f"{n},{FILLER[0]}\n" for n in range(5))
    return f"number,remark\n{rows}{number},{mark(number)}\n".encode()


def data(number: int) -> bytes:
    return json.dumps([{"name": mark(number), "remark": FILLER[number % 2]}], ensure_ascii=False).encode()


def page(number: int) -> bytes:
    body = f"<h1>Page {number}</h1><p>{sentence(number)}</p><p>{FILLER[0]} {FILLER[1]}</p>"
    return f"<!doctype html><html><head><title>P</title></head><body><article>{body}</article></body></html>".encode()


def program(number: int) -> bytes:
    return f'"""A program."""\n\n\ndef {mark(number)}(level):\n    """{FILLER[0]}"""\n    return level + 1\n'.encode()


def mail(number: int) -> bytes:
    head = "From: a@example.org\nTo: b@example.org\nDate: Mon, 3 Mar 2025 08:00:00 +0000\nMIME-Version: 1.0\n"
    parts = (
        f"--x\nContent-Type: text/plain; charset=utf-8\n\n{sentence(number)}\n"
        f'--x\nContent-Type: text/plain; charset=utf-8\nContent-Disposition: attachment; filename="file.txt"\n\n'
        f"attached{mark(number)} {FILLER[0]}\n--x--\n"
    )
    return f'{head}Subject: Mail {number}\nContent-Type: multipart/mixed; boundary="x"\n\n{parts}'.encode()


def letter(number: int) -> bytes:
    body = f"<w:p><w:r><w:t>{sentence(number)}</w:t></w:r></w:p>"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    return zipped(
        {
            "[Content_Types].xml": types(**{"word/document.xml": main}),
            "_rels/.rels": relations(("officeDocument", "word/document.xml")),
            "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
        }
    )


def sheet(number: int) -> bytes:
    cells = [("name", "remark"), (mark(number), FILLER[0])]
    rows = "".join(
        f'<row r="{n}">'
        + "".join(f'<c r="{c}{n}" t="inlineStr"><is><t>{v}</t></is></c>' for c, v in zip("AB", row, strict=True))
        + "</row>"
        for n, row in enumerate(cells, 1)
    )
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml."
    names = '<sheets><sheet name="Levels" sheetId="1" r:id="r0"/></sheets>'
    return zipped(
        {
            "[Content_Types].xml": types(
                **{"xl/workbook.xml": kind + "sheet.main+xml", "xl/worksheets/sheet1.xml": kind + "worksheet+xml"}
            ),
            "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}">{names}</workbook>',
            "xl/_rels/workbook.xml.rels": relations(("worksheet", "worksheets/sheet1.xml")),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
        }
    )


def pdf(number: int) -> bytes:
    """One page, one line, and a table of where the objects are."""
    content = f"BT /F1 12 Tf 72 700 Td ({mark(number)} {FILLER[0]}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for n, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (n, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    tail = b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(out)
    return out + b"xref\n0 6\n0000000000 65535 f \n" + rows + tail


def book(number: int) -> bytes:
    chapter = f"<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>One</h1><p>{sentence(number)}</p></body></html>"
    manifest = '<manifest><item id="c" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
            "b.opf": '<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Book</dc:title></metadata>'
            f'{manifest}<spine><itemref idref="c"/></spine></package>',
            "c.xhtml": chapter,
        }
    )


KINDS: dict[str, Callable[[int], bytes]] = {
    "txt": text,
    "md": markdown,
    "csv": table,
    "json": data,
    "html": page,
    "py": program,
    "eml": mail,
    "docx": letter,
    "xlsx": sheet,
    "pdf": pdf,
    "epub": book,
}


def write_mixed(folder: Path, count: int) -> dict[int, Path]:
    """So many files, of one kind after the other, in folders of a hundred."""
    written = {}
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        path = folder / f"{number // 100:02d}" / f"file-{number:05d}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(KINDS[kind](number))
        written[number] = path
    return written
