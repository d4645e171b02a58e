"""Pieces of office files and books -> the files: small, sound but for what they are given."""

import io
import zipfile
from collections.abc import Mapping

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
MAIN = "application/vnd.openxmlformats-officedocument."
MEGABYTE = 1024**2
WORDS = "The gauge at the old bridge is read every morning."


def packed(parts: Mapping[str, str | bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip file."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return stream.getvalue()


def relations(*targets: tuple[str, str]) -> str:
    """The file that says how parts of an office file belong together."""
    rows = "".join(f'<Relationship Id="r{n}" Type="{OFFICE}/{k}" Target="{t}"/>' for n, (k, t) in enumerate(targets))
    return f'<Relationships xmlns="{PACKAGE}/relationships">{rows}</Relationships>'


def types(**parts: str) -> str:
    """The file that says what each part is."""
    rows = "".join(f'<Override PartName="/{name}" ContentType="{MAIN}{kind}+xml"/>' for name, kind in parts.items())
    default = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return f'<Types xmlns="{PACKAGE}/content-types">{default}{rows}</Types>'


def letter(body: str, *, front: str = "", more: Mapping[str, str | bytes] | None = None) -> bytes:
    """A DOCX with this body."""
    return packed(
        {
            "[Content_Types].xml": types(**{"word/document.xml": "wordprocessingml.document.main"}),
            "_rels/.rels": relations(("officeDocument", "word/document.xml")),
            "word/document.xml": f'{front}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
            **(more or {}),
        }
    )


def said(text: str = WORDS) -> str:
    """A paragraph of a DOCX."""
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def workbook(data: str, *, front: str = "", strings: str = "", behind: str = "", styles: str = "") -> bytes:
    """An XLSX with one sheet of these rows."""
    kinds = {"xl/workbook.xml": "spreadsheetml.sheet.main", "xl/worksheets/s.xml": "spreadsheetml.worksheet"}
    linked = [("worksheet", "worksheets/s.xml")]
    more = {}
    if strings:
        linked.append(("sharedStrings", "strings.xml"))
        more["xl/strings.xml"] = f'{front}<sst xmlns="{SHEET}" count="4000000000">{strings}</sst>'
    if styles:
        linked.append(("styles", "styles.xml"))
        more["xl/styles.xml"] = f'<styleSheet xmlns="{SHEET}">{styles}</styleSheet>'
    names = '<sheets><sheet name="One" sheetId="1" r:id="r0"/></sheets>'
    return packed(
        {
            "[Content_Types].xml": types(**kinds),
            "_rels/.rels": relations(("officeDocument", "xl/workbook.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}">{names}</workbook>',
            "xl/_rels/workbook.xml.rels": relations(*linked),
            "xl/worksheets/s.xml": f'<worksheet xmlns="{SHEET}">{data}{behind}</worksheet>',
            **more,
        }
    )


def rows(*cells: str) -> str:
    """Sheet data; each cell `A1=text`."""
    made = "".join(
        f'<row r="{ref.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}"><c r="{ref}" t="inlineStr"><is><t>{text}</t></is></c>'
        "</row>"
        for ref, _, text in (cell.partition("=") for cell in cells)
    )
    return f"<sheetData>{made}</sheetData>"


def deck(shapes: str, *, front: str = "", more: Mapping[str, str | bytes] | None = None) -> bytes:
    """A PPTX with one slide."""
    space = f'xmlns:p="{SLIDE}" xmlns:a="{DRAWING}" xmlns:r="{OFFICE}"'
    kinds = {"ppt/presentation.xml": "presentationml.presentation.main", "ppt/slides/s.xml": "presentationml.slide"}
    return packed(
        {
            "[Content_Types].xml": types(**kinds),
            "_rels/.rels": relations(("officeDocument", "ppt/presentation.xml")),
            "ppt/presentation.xml": f'<p:presentation {space}><p:sldIdLst><p:sldId id="256" r:id="r0"/></p:sldIdLst>'
            '<p:sldSz cx="9144000" cy="6858000"/></p:presentation>',
            "ppt/_rels/presentation.xml.rels": relations(("slide", "slides/s.xml")),
            "ppt/slides/s.xml": f"{front}<p:sld {space}><p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id='1' name=''/>"
            f"<p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>{shapes}</p:spTree></p:cSld></p:sld>",
            **(more or {}),
        }
    )


def shape(text: str = WORDS) -> str:
    """A box with text."""
    return (
        "<p:sp><p:nvSpPr><p:cNvPr id='2' name='t'/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>"
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def book(
    chapter: str, *, front: str = "", href: str = "c.xhtml", more: Mapping[str, str | bytes] | None = None
) -> bytes:
    """An EPUB with one chapter."""
    container = "urn:oasis:names:tc:opendocument:xmlns:container"
    return packed(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f'<container xmlns="{container}"><rootfiles><rootfile full-path="b.opf" '
            'media-type="application/oebps-package+xml"/></rootfiles></container>',
            "b.opf": f'{front}<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata '
            'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Book</dc:title></metadata><manifest>'
            f'<item id="c" href="{href}" media-type="application/xhtml+xml"/>'
            '<item id="d" href="c.xhtml" media-type="application/xhtml+xml"/></manifest>'
            '<spine><itemref idref="c"/><itemref idref="d"/></spine></package>',
            "c.xhtml": f"<html xmlns='http://www.w3.org/1999/xhtml'><body>{chapter}</body></html>",
            **(more or {}),
        }
    )


def opened(body: str, *, sheet: bool = False) -> bytes:
    """An ODT, or an ODS."""
    kind, outer = ("spreadsheet", "spreadsheet") if sheet else ("text", "text")
    space = "urn:oasis:names:tc:opendocument:xmlns:"
    return packed(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": f'<o:document-content xmlns:o="{space}office:1.0" xmlns:text="{space}text:1.0" '
            f'xmlns:table="{space}table:1.0"><o:body><o:{outer}>{body}</o:{outer}></o:body></o:document-content>',
        },
        method=zipfile.ZIP_STORED,
    )
