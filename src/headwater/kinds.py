"""The bytes of a file and its name -> its mime type. What is inside decides; a name only says what bytes cannot.

In order: the first bytes of known formats; for archives and OLE files what they hold; for text what it begins with
(HTML, mail headers, JSON, a shebang), then the name, then the shape of its lines. Only the ends of the data and
a bounded part of any list in it are looked at, and nothing is unpacked.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from io import StringIO
from itertools import islice
from pathlib import PurePosixPath
from struct import error as StructError
from struct import iter_unpack, unpack_from
from typing import Final

_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
DOCX: Final = _OFFICE + "wordprocessingml.document"
PPTX: Final = _OFFICE + "presentationml.presentation"
XLSX: Final = _OFFICE + "spreadsheetml.sheet"
EPUB: Final = "application/epub+zip"
OLE: Final = "application/x-ole-storage"
ZIP: Final = "application/zip"
BINARY: Final = "application/octet-stream"
PLAIN: Final = "text/plain"
HTML: Final = "text/html"
MAIL: Final = "message/rfc822"
MAILBOX: Final = "application/mbox"
MARKDOWN: Final = "text/markdown"
JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"
CSV: Final = "text/csv"
TSV: Final = "text/tab-separated-values"

# Programs by the end of their name. Formats that only hold settings stay plain text.
CODE_SUFFIXES: Final = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "text/x-python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "text/javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts", ".tsx"), "text/x-typescript"),
    ".java": "text/x-java",
    **dict.fromkeys((".c", ".h"), "text/x-c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), "text/x-c++"),
    ".cs": "text/x-csharp",
    ".go": "text/x-go",
    ".rs": "text/x-rust",
    ".rb": "text/x-ruby",
    ".php": "text/x-php",
    **dict.fromkeys((".sh", ".bash", ".zsh"), "text/x-shellscript"),
    ".r": "text/x-r",
    ".lua": "text/x-lua",
    **dict.fromkeys((".kt", ".kts"), "text/x-kotlin"),
    ".swift": "text/x-swift",
    ".scala": "text/x-scala",
    **dict.fromkeys((".pl", ".pm"), "text/x-perl"),
    ".sql": "text/x-sql",
    ".css": "text/css",
}
# What the first line of a script calls, and the suffix such scripts have.
_INTERPRETERS: Final = {
    "python": ".py",
    "node": ".js",
    "deno": ".ts",
    "ruby": ".rb",
    "php": ".php",
    "perl": ".pl",
    "lua": ".lua",
    "Rscript": ".r",
    **dict.fromkeys(("sh", "bash", "zsh", "dash", "ksh"), ".sh"),
}

_MAGIC: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    (b"{\\rtf", "application/rtf"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ\x90\0", "application/x-executable"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/x-matroska"),
)
# These name their format behind a length.
_MAGIC_INSIDE: Final = (
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyp", "video/mp4"),
    (257, b"ustar", "application/x-tar"),
)
# The sizes that the second header of a BMP has in its versions; two letters alone would make a picture of any text.
_BMP_HEADERS: Final = (12, 40, 52, 56, 64, 108, 124)
# Where an archive does not say what it is (it is torn or locked), its name does.
_ARCHIVE_SUFFIXES: Final = {
    ".docx": DOCX,
    ".pptx": PPTX,
    ".xlsx": XLSX,
    ".epub": EPUB,
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
}
_OLE_SUFFIXES: Final = {
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".msg": "application/vnd.ms-outlook",
    **_ARCHIVE_SUFFIXES,
}
_OLE_STREAMS: Final = (
    ("worddocument", "application/msword"),
    ("powerpoint document", "application/vnd.ms-powerpoint"),
    ("workbook", "application/vnd.ms-excel"),
    ("book", "application/vnd.ms-excel"),
    ("__properties_version1.0", "application/vnd.ms-outlook"),
)
_TEXT_SUFFIXES: Final = {
    **dict.fromkeys((".md", ".markdown", ".mdx"), MARKDOWN),
    **dict.fromkeys((".html", ".htm", ".xhtml"), HTML),
    ".csv": CSV,
    **dict.fromkeys((".tsv", ".tab"), TSV),
    ".json": JSON,
    **dict.fromkeys((".jsonl", ".ndjson"), JSON_LINES),
    ".ipynb": "application/x-ipynb+json",
}
# Text that follows rules of its own: what it looks like is not asked.
_SETTLED: Final = frozenset(
    ".log .rst .org .adoc .tex .bib .srt .vtt .ini .cfg .conf .toml .yaml .yml .xml .diff .patch".split()
)

# Acrobat reads a PDF with so much in front of it, and so does everything since.
_PDF_JUNK_BYTES: Final = 1024
# Enough to tell a format by, and to see whether it is text.
_HEAD_BYTES: Final = 4096
# Text is told by its beginning; a page may have a long comment in front.
_TEXT_BYTES: Final = 32_768
# An archive names itself among its first files; one with more would only cost time.
_MAX_ENTRIES: Final = 4096
_MAX_NAME_BYTES: Final = 256
# What stands behind the list of an archive's files: a fixed part and a comment.
_END_BYTES: Final = 22 + 65_535
_OLE_ENTRY_BYTES: Final = 128
_SECTOR_SHIFTS: Final = (9, 12)  # the two sizes that the format has, as powers of two
_FREE: Final = 0xFFFFFFFF
# JSON up to here is read whole to be sure; beyond it its ends have to do.
_MAX_JSON_BYTES: Final = 262_144
# A table has a header and rows, and the cells of one are short.
_MIN_TABLE_ROWS: Final = 3
_MAX_TABLE_ROWS: Final = 30
_MAX_MEAN_CELL_CHARS: Final = 40
# Commas stand in prose too: two columns prove nothing.
_DELIMITERS: Final = (("\t", 2, TSV), (",", 3, CSV), (";", 3, CSV))

# Text has no control characters to speak of; escape begins the colours of a log.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_BUT_ZERO: Final = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_MAX_CONTROL_SHARE: Final = 0.02
_MAX_ZERO_SHARE: Final = 0.6
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_PREAMBLE: Final = re.compile(r"(?:\s+|<\?xml[^>]{0,200}>|<!--(?:[^-]|-(?!->))*-->)*", re.IGNORECASE)
_PAGE: Final = re.compile(r"<(?:!doctype\s+(?:html|netscape-bookmark)|(?:html|head|body)[\s>])", re.IGNORECASE)
_FRAGMENT: Final = re.compile(
    r"<(title|meta|link|div|p|h[1-6]|table|ul|ol|dl|article|section|main|span|a|b|img|style|script|form)[\s>/]",
    re.IGNORECASE,
)
_HEADER: Final = re.compile(r"([!-9;-~]+):[ \t]?[^\r\n]*(?:\r?\n[ \t]+\S[^\r\n]*)*(?:\r?\n|\Z)")
_MAILBOX: Final = re.compile(r"(?:From \S[^\r\n]*\d{4}[^\r\n]*\r?\n)(?=[!-9;-~]+:)")
_SENDING: Final = frozenset(("from", "received", "return-path", "delivered-to", "message-id"))
_SENT: Final = frozenset(("date", "subject", "to", "mime-version", "content-type"))
_SHEBANG: Final = re.compile(r"#![ \t]{0,9}(?:\S{0,200}/)?([A-Za-z]+)[\d.]*(?:[ \t]+-S)?(?:[ \t]+([A-Za-z]+))?")
_JSON_BEGINS: Final = re.compile(r"\{\s*(?:\"|\})|\[\s*(?:[\[{\"\]\d-]|true|false|null)")
_FRONTMATTER: Final = re.compile(r"---[ \t]*\r?\n(?:[\w\"' -]+:[^\n]*\n|[ \t]*-[^\n]*\n|[ \t]+[^\n]*\n)+---[ \t]*\r?\n")
# Any two: one alone is a comment in a program, or a habit of people who write plain text.
_MIN_MARKDOWN_SIGNS: Final = 2
_MARKDOWN_SIGNS: Final = (
    re.compile(r"\A\s*#{1,6}[ \t]+\S"),
    re.compile(r"^#{2,6}[ \t]+\S", re.MULTILINE),
    re.compile(r"^(?:```|~~~)\w*[ \t]*\r?$", re.MULTILINE),
    re.compile(r"\[[^\[\]\n]{1,200}\]\((?:https?:|\.{0,2}/|#)[^()\s]{1,500}\)"),
    re.compile(r"^\|(?:[ \t]*:?-{3,}:?[ \t]*\|)+[ \t]*\r?$", re.MULTILINE),
)


def kind_of(name: str, data: bytes) -> str:
    """The mime type of a file; `application/octet-stream` where it is nothing that is known."""
    suffix = PurePosixPath(name).suffix.lower()
    mime = _by_magic(data)
    if mime == ZIP:
        return _inside_archive(data) or _ARCHIVE_SUFFIXES.get(suffix, ZIP)
    if mime == OLE:
        return _inside_ole(data) or _OLE_SUFFIXES.get(suffix, OLE)
    if mime:
        return mime
    if not _looks_like_text(data[:_HEAD_BYTES]):
        return BINARY
    return _kind_of_text(suffix, _beginning(data), data)


def _by_magic(data: bytes) -> str:
    for magic, mime in _MAGIC:
        if data.startswith(magic):
            return mime
    for place, magic, mime in _MAGIC_INSIDE:
        if data[place : place + len(magic)] == magic:
            return mime
    if data.startswith(b"BM") and len(data) >= 26 and unpack_from("<I", data, 14)[0] in _BMP_HEADERS:
        return "image/bmp"
    start = data.find(b"%PDF-1.", 0, _PDF_JUNK_BYTES)
    # A text about PDF has no objects.
    if start >= 0 and b" obj" in data[start : start + _TEXT_BYTES]:
        return "application/pdf"
    return ""


# ------------------------------------------------------------------------------------------------ archives


def _inside_archive(data: bytes) -> str:
    """What the names in an archive make it, or nothing."""
    names = _listed(data) or _in_a_row(data)
    if "mimetype" in names:
        start = names["mimetype"]
        method, size, name_bytes, extra_bytes = unpack_from("<8xH8xI4xHH", data, start)
        begin = start + 30 + name_bytes + extra_bytes
        said = data[begin : begin + min(size, _MAX_NAME_BYTES)].strip()
        if method == 0 and re.fullmatch(rb"application/(?:epub\+zip|vnd\.[\w.-]+)", said):
            return said.decode("ascii")
    if "[Content_Types].xml" in names:
        for folder, mime in (("word/", DOCX), ("ppt/", PPTX), ("xl/", XLSX)):
            if any(name.startswith(folder) for name in names):
                return mime
    if "META-INF/container.xml" in names:
        return EPUB
    return "application/java-archive" if "META-INF/MANIFEST.MF" in names else ""


def _listed(data: bytes) -> dict[str, int]:
    """The files in the list at an archive's end, and where each begins."""
    names: dict[str, int] = {}
    end = data.rfind(b"PK\x05\x06", max(0, len(data) - _END_BYTES))
    try:
        size, offset = unpack_from("<12xII", data, end) if end >= 0 else (0, 0)
        place = end - size if end - size >= 0 else offset
        shift = place - offset  # what was put in front of the archive
        while data[place : place + 4] == b"PK\x01\x02" and len(names) < _MAX_ENTRIES:
            name_bytes, extra_bytes, comment_bytes, start = unpack_from("<28xHHH8xI", data, place)
            name = data[place + 46 : place + 46 + min(name_bytes, _MAX_NAME_BYTES)].decode("latin-1")
            if data[start + shift : start + shift + 4] == b"PK\x03\x04":
                names.setdefault(name, start + shift)
            place += 46 + name_bytes + extra_bytes + comment_bytes
    except StructError:
        return names
    return names


def _in_a_row(data: bytes) -> dict[str, int]:
    """The files of an archive whose end is missing."""
    names: dict[str, int] = {}
    place = 0
    while place >= 0 and len(names) < _MAX_ENTRIES:
        try:
            size, name_bytes = unpack_from("<18xI4xH", data, place)
        except StructError:
            break
        name = data[place + 30 : place + 30 + min(name_bytes, _MAX_NAME_BYTES)].decode("latin-1")
        names.setdefault(name, place)
        following = place + 30 + name_bytes + size
        place = data.find(b"PK\x03\x04", following if following > place else place + 4)
    return names


def _inside_ole(data: bytes) -> str:
    """What the streams at the top of an OLE file make it, or nothing; those of documents inside it lie deeper."""
    try:
        shift, first = unpack_from("<30xH16xI", data)
        names = _top_streams(data, 1 << shift, first) if shift in _SECTOR_SHIFTS else set()
    except StructError:
        return ""
    return next((mime for stream, mime in _OLE_STREAMS if stream in names), "")


def _top_streams(data: bytes, sector_bytes: int, sector: int) -> set[str]:
    table = unpack_from("<109I", data, 76)
    per_sector = sector_bytes // 4
    entries: list[tuple[str, int, int, int]] = []
    passed = set[int]()
    while sector < _FREE - 5 and sector not in passed and len(entries) < _MAX_ENTRIES:
        passed.add(sector)
        begin = (sector + 1) * sector_bytes
        block = data[begin : begin + sector_bytes]
        block = block[: len(block) // _OLE_ENTRY_BYTES * _OLE_ENTRY_BYTES]
        for raw, length, left, right, child in iter_unpack("<64sHxxIII48x", block):
            entries.append((raw[: max(0, length - 2)].decode("utf-16-le", "replace"), left, right, child))
        if sector // per_sector >= len(table):
            break
        sector = unpack_from("<I", data, (table[sector // per_sector] + 1) * sector_bytes + sector % per_sector * 4)[0]
    names: set[str] = set()
    waiting, seen = [entries[0][3]] if entries else [], set[int]()
    while waiting:
        number = waiting.pop()
        if number < len(entries) and number not in seen:
            seen.add(number)
            names.add(entries[number][0].lower())
            waiting += entries[number][1:3]
    return names


# ---------------------------------------------------------------------------------------------------- text


def _looks_like_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff")):
        return True
    if len(_CONTROL.findall(head)) <= _MAX_CONTROL_SHARE * len(head):
        return True
    # UTF-16 without a mark: one byte of each pair names a block of the alphabet, and none of those is a control code.
    # The other byte is hardly ever zero, so that a file of little else is no text.
    if head.count(0) > _MAX_ZERO_SHARE * len(head):
        return False
    sides = (head[::2], head[1::2])
    return any(len(_CONTROL_BUT_ZERO.findall(side)) <= _MAX_CONTROL_SHARE * len(side) for side in sides)


def _beginning(data: bytes, size: int = _TEXT_BYTES) -> str:
    """The first of it as text, good enough for the signs of ASCII in it."""
    head = data[:size]
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return head[len(mark) :].decode(encoding, "replace")
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even or odd:
        return head.decode("utf-16-le" if odd > even else "utf-16-be", "replace")
    return head.decode("utf-8", "replace")


def _kind_of_text(suffix: str, text: str, data: bytes) -> str:
    named = CODE_SUFFIXES.get(suffix) or _TEXT_SUFFIXES.get(suffix, "")
    start = _PREAMBLE.match(text).end()  # type: ignore[union-attr]  # it matches nothing at all, too
    if _PAGE.match(text, start) and suffix not in (".php", ".rst", ".log"):
        return HTML
    if re.match(r"(?:<!doctype\s+svg|<svg[\s>])", text[start : start + 20], re.IGNORECASE):
        return "image/svg+xml"
    if named in (MARKDOWN, "application/x-ipynb+json") or suffix in CODE_SUFFIXES:
        return named
    if suffix in _SETTLED:
        return PLAIN
    return (
        _by_beginning(text, start, named)
        or _json_kind(text, data, named if named in (JSON, JSON_LINES) else "")
        or (named if named not in (JSON, JSON_LINES) else "")
        or _by_shape(text, whole=len(data) <= _TEXT_BYTES)
    )


def _by_beginning(text: str, start: int, named: str) -> str:
    """What announces itself: a mailbox, a mail, a piece of HTML, a script."""
    if _MAILBOX.match(text):
        return MAILBOX
    if _is_mail(text):
        return MAIL
    fragment = _FRAGMENT.match(text, start)
    if fragment and (named == HTML or "</" in text or fragment[1].lower() in ("meta", "link", "img")):
        return HTML
    if shebang := _SHEBANG.match(text):
        called = shebang[2] if shebang[1] == "env" and shebang[2] else shebang[1]
        if called in _INTERPRETERS:
            return CODE_SUFFIXES[_INTERPRETERS[called]]
    return ""


def _is_mail(text: str) -> bool:
    """Headers from the first line on, among them where it came from and what it is."""
    place, names = len(text) - len(text.lstrip("\r\n")), set[str]()
    while (header := _HEADER.match(text, place)) and header.end() > place:
        names.add(header[1].lower())
        place = header.end()
    ended = place >= len(text) or text[place] in "\r\n"
    return ended and bool(names & _SENDING) and bool(names & _SENT)


def _json_kind(text: str, data: bytes, named: str) -> str:
    """JSON, or one JSON on every line. Where the name says either, looking like it is enough."""
    stripped = text.lstrip()
    if not _JSON_BEGINS.match(stripped):
        return ""
    first, _, rest = stripped.partition("\n")
    second = rest.lstrip().partition("\n")[0]
    if second and _parses(first) and _parses(second):
        return JSON_LINES
    if len(data) <= _MAX_JSON_BYTES:
        whole = _parses(_beginning(data, _MAX_JSON_BYTES))
        if whole and not (named == JSON_LINES and not second):
            return JSON
        return named
    tail = data[-64:].replace(b"\0", b"").rstrip()
    return named or (JSON if tail.endswith((b"}", b"]")) else "")


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _by_shape(text: str, *, whole: bool) -> str:
    if _FRONTMATTER.match(text) or sum(bool(sign.search(text)) for sign in _MARKDOWN_SIGNS) >= _MIN_MARKDOWN_SIGNS:
        return MARKDOWN
    for delimiter, fewest, mime in _DELIMITERS:
        try:
            rows = [row for row in islice(csv.reader(StringIO(text), delimiter=delimiter), _MAX_TABLE_ROWS) if row]
        except csv.Error:  # a zero character, or a line end where none may be
            continue
        if not whole and len(rows) < _MAX_TABLE_ROWS:
            rows = rows[:-1]  # torn where the beginning ends
        widths, cells = {len(row) for row in rows}, [len(cell) for row in rows for cell in row]
        if len(rows) < _MIN_TABLE_ROWS or len(widths) > 1 or widths.pop() < fewest:
            continue
        if sum(cells) <= _MAX_MEAN_CELL_CHARS * len(cells):
            return mime
    return PLAIN
