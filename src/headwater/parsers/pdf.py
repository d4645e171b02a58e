"""PDF -> a document: paragraphs in reading order, sections, tables, captions, pages, and where each line stands.

The pages are read in lots (`_pdf_read`), cleared of headers and footers (`_pdf_furniture`), searched for tables
(`_pdf_tables`) and put in order (`_pdf_columns`). What comes out is made into paragraphs (`_pdf_paragraphs`), headings
(`_pdf_headings`) and text (`_pdf_text`). Pages without text are recognised (`_ocr`) where that is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Final

from headwater.errors import BackendError, EmptyDocument, SourceError
from headwater.filters import Value
from headwater.parsers._pdf_columns import in_order
from headwater.parsers._pdf_furniture import Furniture
from headwater.parsers._pdf_headings import find_headings
from headwater.parsers._pdf_loose import with_loose_tables
from headwater.parsers._pdf_notes import body_size, mark_notes
from headwater.parsers._pdf_outline import Entry
from headwater.parsers._pdf_paragraphs import Paragraph, paragraphs_of
from headwater.parsers._pdf_read import read_page
from headwater.parsers._pdf_recognise import recognised_page, recogniser
from headwater.parsers._pdf_shapes import Line, Page, Table
from headwater.parsers._pdf_tables import find_tables
from headwater.parsers._pdf_text import header_of, write
from headwater.types import Blob, Document

# So many pages are held with all their words at a time; enough to tell a running header from a heading.
_LOT: Final = 64
# Entries of an outline beyond these are not read: a book has hundreds.
_MAX_ENTRIES: Final = 20_000
_MAX_OUTLINE_DEPTH: Final = 12
# The mark stands in the last bytes of a whole file; readers look no further back.
_END_MARK: Final = b"%%EOF"
_END_BYTES: Final = 2048
_WRONG_PASSWORD: Final = 4
_UNKNOWN_SECURITY: Final = 5
# Recognising one takes some seconds: this is half an hour.
_MAX_RECOGNISED: Final = 500
# Characters without a meaning, as a share of the text: more, and its fonts do not say what they show.
_GARBLED: Final = 0.1
_MEANINGLESS: Final = re.compile("[\ufffd\ue000-\uf8ff]")
# Gaps in a line that may be between the cells of a table, in font sizes.
_CELL_GAP: Final = 0.6

_DATE: Final = re.compile(
    r"D?:?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-])(\d\d)'?(\d\d)?)?", re.IGNORECASE
)
_NO_TITLE: Final = re.compile(
    r"\W*(?:untitled|anonymous|unspecified|none|title|document\d*|slide ?1|powerpoint[- ]presentation|ppt|"
    r"microsoft (?:word|powerpoint|excel) - .*|.*\.(?:docx?|pptx?|xlsx?|pdf|indd|tex|dvi|rtf|odt|wps)|"
    r"演示文稿\d*|幻灯片 ?1|文档\d*|无标题)\W*",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Content:
    """What came out of the pages."""

    pages: list[Page] = field(default_factory=list)
    items: list[Line | Table] = field(default_factory=list)
    unreadable: list[int] = field(default_factory=list)
    recognised: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)  # a picture and no text
    blank: list[int] = field(default_factory=list)  # nothing at all
    unrecognised: str = ""  # why recognition failed


class PdfParser:
    """Reads PDF."""

    mimes: frozenset[str] = frozenset({"application/pdf"})

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is locked or damaged and EmptyDocument for what holds no text."""
        pdf = _opened(blob)
        try:
            content = _read(pdf)
            outline = list(_entries(pdf, content.pages))
            said = {key: value.strip() for key, value in pdf.get_metadata_dict().items()}
        finally:
            pdf.close()
        if not content.items and len(content.unreadable) == len(content.pages):
            pages = _counted(len(content.pages))
            raise SourceError(f"{blob.uri} is damaged: none of its {pages} can be read; fetch or export it again")
        if not content.items:
            raise EmptyDocument(_why_empty(blob, content))
        paragraphs = paragraphs_of(content.items)
        hint = "" if _NO_TITLE.fullmatch(said.get("Title", "")) else said.get("Title", "")
        found = find_headings(paragraphs, outline, title_hint=hint)
        written = write(paragraphs, found.headings, pages=content.pages)
        garbled = len(_MEANINGLESS.findall(written.text)) / max(len(written.text), 1)
        return Document(
            uri=blob.uri,
            text=written.text,
            title=found.title or hint or PurePosixPath(blob.uri).stem,
            mime="application/pdf",
            structure=written.structure,
            blocks=tuple(written.blocks),
            links=tuple(written.links),
            hidden=tuple(written.hidden),
            page_starts=written.page_starts,
            boxes=tuple(written.boxes),
            coverage=_coverage(content, paragraphs, headings=len(found.headings), garbled=garbled),
            created=_date(said.get("CreationDate", "")),
            updated=_date(said.get("ModDate", "")) or blob.modified,
            problems=tuple(_problems(blob, content, garbled)),
            meta={**blob.meta, **_meta(said)},
        )


def _opened(blob: Blob) -> Any:
    import pypdfium2

    try:
        pdf = pypdfium2.PdfDocument(blob.data)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (_WRONG_PASSWORD, _UNKNOWN_SECURITY):
            raise SourceError(
                f"{blob.uri} is encrypted and needs a password; save a copy without one and add that"
            ) from error
        cut = "" if _is_whole(blob.data) else ", and its end is missing"
        raise SourceError(
            f"{blob.uri} is not a PDF that can be read: damaged{cut} ({len(blob.data)} bytes); fetch or export it again"
        ) from error
    if not len(pdf):
        pdf.close()
        raise SourceError(f"{blob.uri} is damaged: no page of it can be found; fetch or export it again")
    return pdf


def _is_whole(data: bytes) -> bool:
    return _END_MARK in data[-_END_BYTES:]


def _read(pdf: Any) -> _Content:
    content = _Content()
    furniture = Furniture()
    recognise = recogniser()
    for first in range(0, len(pdf), _LOT):
        lot = [_page(pdf, number, recognise, content) for number in range(first, min(first + _LOT, len(pdf)))]
        furniture.learn(lot)
        body = body_size(lot)
        for page in lot:
            page.lines = furniture.cleared(page)
            tables, lines = find_tables(page)
            items = with_loose_tables(in_order(page, lines, tables=tables))
            mark_notes(items, page, body=body)
            content.items += items
            for number, aside in enumerate(furniture.cleared_asides(page), 1):
                aside.column = -number
                content.items.append(aside)
            content.pages.append(page)
        for page in lot:
            page.lines, page.asides, page.rules = [], [], []
        _let_go(content, first)
    return content


def _page(pdf: Any, number: int, recognise: Any, content: _Content) -> Page:
    """A page, read or recognised; an empty one where neither goes."""
    import pypdfium2

    try:
        opened = pdf[number]
    except pypdfium2.PdfiumError:
        content.unreadable.append(number)
        return Page(number=number, width=1.0, height=1.0)
    try:
        width, height = opened.get_size()
        if not (0 < width < float("inf") and 0 < height < float("inf")):
            content.unreadable.append(number)
            return Page(number=number, width=1.0, height=1.0)
        page = read_page(opened, number)
        if page.blank:
            content.blank.append(number)
        elif not page.lines and not page.asides:
            if recognise is not None and len(content.recognised) + len(content.empty) < _MAX_RECOGNISED:
                try:
                    page = recognised_page(opened, number, recognise=recognise)
                except BackendError as error:
                    content.unrecognised = content.unrecognised or str(error)
            (content.recognised if page.lines else content.empty).append(number)
        return page
    except pypdfium2.PdfiumError:
        content.unreadable.append(number)
        return Page(number=number, width=1.0, height=1.0)
    finally:
        opened.close()


def _let_go(content: _Content, first: int) -> None:
    """Forget the words of lines that nobody will ask for: a long document has millions."""
    linked = {page.number for page in content.pages if page.links}
    for item in reversed(content.items):
        if item.page < first:
            break
        if isinstance(item, Line) and item.page not in linked and not _has_gaps(item):
            item.words, item.starts = [], []


def _has_gaps(line: Line) -> bool:
    return any(after.area.left - before.area.right > _CELL_GAP * after.size for before, after in pairwise(line.words))


def _entries(pdf: Any, pages: Sequence[Page]) -> Iterator[Entry]:
    """The outline."""
    import pypdfium2
    from pypdfium2 import raw

    for count, bookmark in enumerate(pdf.get_toc(max_depth=_MAX_OUTLINE_DEPTH)):
        if count >= _MAX_ENTRIES:
            return
        try:
            aim = bookmark.get_dest()
            number = None if aim is None else aim.get_index()
            view: Sequence[float] = ()
            mode = None
            if aim is not None:
                mode, view = aim.get_view()
        except pypdfium2.PdfiumError:
            continue
        title = " ".join(bookmark.get_title().split())
        if not title or number is None or not 0 <= number < len(pages):
            continue
        # Only this way of aiming says left and top, from the bottom of the page.
        has_top = mode == raw.PDFDEST_VIEW_XYZ and len(view) > 1
        top = pages[number].height - view[1] if has_top else None
        yield Entry(title=title, level=bookmark.level + 1, page=number, top=top)


def _why_empty(blob: Blob, content: _Content) -> str:
    pages = _counted(len(content.pages))
    if not content.empty:
        return f"{blob.uri} holds no text: nothing is on its {pages}"
    return f"{blob.uri} has no text on any of its {pages}: it seems to be a scan; {_remedy(content)}"


def _remedy(content: _Content) -> str:
    """What to do about pages without text."""
    if content.unrecognised:
        return f"recognition failed: {content.unrecognised}"
    if len(content.recognised) + len(content.empty) > _MAX_RECOGNISED and recogniser():
        return f"only the first {_MAX_RECOGNISED} are recognised: cut the file in parts and add those"
    return "recognition found none either" if recogniser() else "install headwater[ocr] and add the file again"


def _counted(pages: int) -> str:
    return "1 page" if pages == 1 else f"{pages} pages"


def _coverage(content: _Content, paragraphs: Sequence[Paragraph], *, headings: int, garbled: float) -> dict[str, Value]:
    tables = [paragraph for paragraph in paragraphs if paragraph.kind == "table"]
    without = len(content.empty) + len(content.unreadable) + len(content.blank)
    return {
        "pages": len(content.pages),
        "pages_with_text": len(content.pages) - without,
        "pages_blank": len(content.blank),
        "pages_recognised": len(content.recognised),
        "headings": headings,
        "tables": len(tables),
        "tables_without_header": sum(not header_of(table) for table in tables),
        "captions": sum(paragraph.kind == "caption" for paragraph in paragraphs),
        "notes": sum(paragraph.kind == "note" for paragraph in paragraphs),
        "garbled_share": round(garbled, 4),
    }


def _problems(blob: Blob, content: _Content, garbled: float) -> Iterator[str]:
    pages = len(content.pages)
    if content.empty:
        looks = "has no text: it may be a scan" if len(content.empty) == 1 else "have no text: they may be scans"
        yield f"{len(content.empty)} of {_counted(pages)} {looks}; {_remedy(content)}"
    if content.recognised:
        yield f"the text of {_listed(content.recognised)} was recognised from a picture and may have errors"
    if content.unreadable:
        yield f"{_listed(content.unreadable)} of {pages} cannot be read: the file is damaged; export it again"
    if garbled > _GARBLED:
        yield f"{garbled:.0%} of the characters have no meaning: the fonts do not say what they show; export it again"
    if not _is_whole(blob.data):
        yield "the end of the file is missing: pages may be lost; fetch or export it again"


def _listed(pages: Sequence[int]) -> str:
    shown = ", ".join(str(page + 1) for page in pages[:10]) + (" ..." if len(pages) > 10 else "")
    return f"page {shown}" if len(pages) == 1 else f"{len(pages)} pages ({shown})"


def _meta(said: dict[str, str]) -> dict[str, Value | tuple[Value, ...]]:
    """What the file says about itself, where it says something."""
    meta: dict[str, Value | tuple[Value, ...]] = {}
    for key in ("Author", "Subject", "Creator"):
        value = " ".join(said.get(key, "").split())
        if value and not _NO_TITLE.fullmatch(value):
            meta[key.lower()] = value
    words = [word.strip() for word in re.split("[,;，；、]", said.get("Keywords", ""))]
    if any(words):
        meta["keywords"] = tuple(word for word in words if word)
    return meta


def _date(said: str) -> str:
    """A date as PDF writes it, D:20250131120000+08'00', in ISO 8601; empty where it is none."""
    found = _DATE.match(said)
    if found is None:
        return ""
    year, month, day, hour, minute, second = (int(part) if part else None for part in found.groups()[:6])
    zone = UTC
    if found[8]:
        offset = timedelta(hours=int(found[9]), minutes=int(found[10] or 0))
        zone = timezone(-offset if found[8] == "-" else offset) if offset < timedelta(hours=24) else UTC
    try:
        at = datetime(year or 1, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=zone)
    except ValueError:
        return ""
    if hour is None:
        return at.date().isoformat()
    try:
        return at.astimezone(UTC).isoformat()
    except OverflowError:
        return ""
