"""Slide shows (PPTX, ODP) -> a section and a page per slide: its title, what stands on it from top to bottom, notes.

The speaker's notes are blocks of their own, about the slide they belong to. The old binary PPT is refused with what to
do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers._column_names import Across
from headwater.parsers._draft import Draft, one_line, plain_lines
from headwater.parsers._odp import OpenSlidesReader
from headwater.parsers._odt import CONTENT
from headwater.parsers._package import Element, Package, attribute, local, refuse_old, whole
from headwater.parsers._raised import power_of
from headwater.parsers._rows import Tables, write_table
from headwater.types import Blob, Document, Span

_PPTX: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
_OLD: Final = "application/vnd.ms-powerpoint"
_OPEN: Final = "application/vnd.oasis.opendocument.presentation"
_TITLES: Final = frozenset({"title", "ctrTitle"})
# What repeats on every slide.
_FURNITURE: Final = frozenset({"dt", "ftr", "sldNum", "hdr"})
_SHAPES: Final = frozenset({"sp", "grpSp", "graphicFrame", "pic", "cxnSp", "AlternateContent", "Choice"})
# A quarter of an inch: what differs by less stands on the same line.
_LINE_HEIGHT: Final = 228_600
_INDENT: Final = "  "
_LAST_LEVEL: Final = 8
_MAX_SPAN: Final = 64
# Groups in groups: deeper ones are made by no person.
_MAX_DEPTH: Final = 50
_TOO_DEEP: Final = f"what lies more than {_MAX_DEPTH} groups deep is left out; ungroup it and add the file again"
# How much larger than itself a group may be shown; a group in a group in a group might reach beyond all numbers.
_MAX_SCALE: Final = 1e6
# What programs write where nobody described a picture, a drawing or a chart.
_NO_TITLES: Final = ("powerpoint presentation", "powerpoint 演示文稿", "untitled")


class _Box(NamedTuple):
    left: int
    top: int
    width: int
    height: int


class _Shape(NamedTuple):
    """A shape with its place on the slide; groups are taken apart."""

    element: Element
    box: _Box
    order: int


@dataclass(slots=True)
class _Found:
    """What was met on the way through the slides."""

    tables: Tables = field(default_factory=Tables)
    notes: int = 0
    pictures: int = 0
    hidden: list[int] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    deep: bool = False  # something lies in more groups than are taken apart
    layouts: dict[str, list[Element]] = field(default_factory=dict)  # those of a layout and its master, read once


class SlidesParser:
    """Reads slide shows."""

    mimes: frozenset[str] = frozenset(
        {
            _PPTX,
            "application/vnd.openxmlformats-officedocument.presentationml.slideshow",
            "application/vnd.ms-powerpoint.presentation.macroenabled.12",
            _OLD,
            _OPEN,
        }
    )

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is damaged, locked or too old, and EmptyDocument for slides without text."""
        if blob.mime == _OLD and not blob.data.startswith(b"PK"):
            raise refuse_old(blob, save_as="PPTX")
        package = Package(blob, save_as="PPTX")
        draft, found = Draft(), _Found()
        if package.has(CONTENT):
            shown = OpenSlidesReader(package, draft)
            shown.read()
            found.tables, found.notes, found.bare = shown.tables, shown.counts["notes"], shown.bare
            slides, written, said = shown.slides, shown.written, shown.properties()
        else:
            parts = _slides(package)
            slides, written, said = len(parts), 0, package.properties()
            for number, part in enumerate(parts, 1):
                written += _Slide(package, draft, found, part=part, number=number).write()
        if not written:
            why = _TOO_DEEP if found.deep else f"{slides} slides with pictures at most"
            raise EmptyDocument(f"{blob.uri} holds no text: {why}")
        text = draft.text()
        titled = draft.structure()
        named = "" if said.title.lower().startswith(_NO_TITLES) else said.title
        return Document(
            uri=blob.uri,
            text=text,
            title=named or (titled[0].title if titled else "") or PurePosixPath(blob.uri).stem,
            description=said.description,
            tags=said.tags,
            mime=blob.mime or _PPTX,
            structure=titled,
            blocks=draft.in_order(),
            page_starts=tuple(draft.page_starts),
            coverage={
                "slides": slides,
                "slides_with_text": written,
                "notes": found.notes,
                "pictures_without_text": found.pictures,
                "tables": found.tables.tables,
                "tables_without_header": found.tables.without_header,
            },
            created=said.created,
            updated=said.updated or blob.modified,
            problems=(*_problems(found), *found.tables.problems()),
            meta={**blob.meta, **({"author": said.author} if said.author else {})},
        )


def _problems(found: _Found) -> Iterator[str]:
    if found.hidden:
        listed = ", ".join(map(str, found.hidden))
        yield f"slides that are hidden in the show are in the text all the same: {listed}"
    if found.bare:
        yield f"slides without any text: {', '.join(map(str, found.bare))}"
    if found.deep:
        yield _TOO_DEEP


def _slides(package: Package) -> list[str]:
    """The parts of the slides in the order of the show."""
    main = package.main()
    root = package.xml(main)
    relations = package.relations(main)
    wanted = [_relation_id(slide) for slide in ([] if root is None else root.iter("{*}sldId"))]
    parts = [relations[id][1] for id in wanted if id in relations and package.has(relations[id][1])]
    if not parts:
        raise SourceError(
            f"cannot read {package.uri}: there is no slide in it ({len(wanted)} are named); save it again"
        )
    return parts


def _relation_id(element: Element) -> str:
    """The id of a relation stands under a namespace; the plain `id` beside it is another number."""
    return next((str(value) for key, value in element.attrib.items() if key.endswith("}id")), "")


class _Slide:
    """One slide on its way into the draft."""

    def __init__(self, package: Package, draft: Draft, found: _Found, *, part: str, number: int) -> None:
        self.package, self.draft, self.found, self.part, self.number = package, draft, found, part, number
        self.relations = package.relations(part)
        layout = next((target for kind, target in self.relations.values() if kind == "slideLayout"), "")
        if layout not in found.layouts:
            master = package.related(layout, "slideMaster") if layout else ""
            found.layouts[layout] = [package.xml(part) for part in (layout, master) if part]
        self.layouts = found.layouts[layout]

    def write(self) -> bool:
        """Whether there was anything to write."""
        root = self.package.xml(self.part)
        self.draft.page()
        start = self.draft.length
        if attribute(root, "show", "1") in ("0", "false"):
            self.found.hidden.append(self.number)
        shapes = list(self._shapes(root))
        title = next((shape for shape in shapes if _placeholder(shape.element)[0] in _TITLES), None)
        words = one_line(_text(title.element)) if title is not None else ""
        # A slide without a title is a section all the same, so that its text is not taken for the slide's before.
        heading = self.draft.heading(words or f"Slide {self.number}", 1)
        begin = self.draft.length
        for shape in sorted(shapes, key=_reading_order):
            if title is None or shape.element is not title.element:
                self._write_shape(shape.element)
        about = Span(start, max(self.draft.length - 1, heading.end if heading else start))
        noted = self._write_notes(about)
        if not words and self.draft.length == begin:
            self.found.bare.append(self.number)
            return False
        return bool(words) or self.draft.length > begin or noted

    # ----------------------------------------------------------------------------------------------- shapes

    def _shapes(self, root: Element) -> Iterator[_Shape]:
        tree = next(root.iter("{*}spTree"), None)
        if tree is not None:
            yield from self._inside(tree, _Box(0, 0, 0, 0), (1.0, 1.0), 0)

    def _inside(self, group: Element, origin: _Box, scale: tuple[float, float], depth: int) -> Iterator[_Shape]:
        """The shapes of a group, placed on the slide. `origin` is where the group's own zero lies."""
        for order, element in enumerate(group):
            kind = local(element)
            if kind not in _SHAPES or _is_hidden(element):
                continue
            if depth > _MAX_DEPTH:
                self.found.deep = True
                continue
            if kind in ("AlternateContent", "Choice"):
                yield from self._inside(element, origin, scale, depth + 1)
                continue
            box = self._box(element)
            placed = _Box(
                origin.left + int(box.left * scale[0]),
                origin.top + int(box.top * scale[1]),
                int(box.width * scale[0]),
                int(box.height * scale[1]),
            )
            if kind == "grpSp":
                inner = _transform(element, "chOff", "chExt") or box
                wide = min(scale[0] * box.width / inner.width, _MAX_SCALE) if inner.width else scale[0]
                high = min(scale[1] * box.height / inner.height, _MAX_SCALE) if inner.height else scale[1]
                zero = _Box(placed.left - int(inner.left * wide), placed.top - int(inner.top * high), 0, 0)
                # What is grouped is read together, where the group stands.
                members = sorted(self._inside(element, zero, (wide, high), depth + 1), key=_reading_order)
                for place, member in enumerate(members):
                    yield _Shape(member.element, placed, order * 1000 + place)
            else:
                yield _Shape(element, placed, order * 1000)

    def _box(self, element: Element) -> _Box:
        """Where a shape stands; a placeholder stands where the layout puts it."""
        if own := _transform(element, "off", "ext"):
            return own
        kind, index = _placeholder(element)
        if kind or index:
            for layout in filter(lambda root: root is not None, self.layouts):
                for shape in layout.iter("{*}sp"):
                    named, place = _placeholder(shape)
                    same = place == index if index and local(layout) == "sldLayout" else named == kind
                    if same and (box := _transform(shape, "off", "ext")):
                        return box
        return _Box(0, 0, 0, 0)

    def _write_shape(self, element: Element) -> None:
        kind = local(element)
        if _placeholder(element)[0] in _FURNITURE:
            return
        described = _alternative(element)
        if kind == "graphicFrame":
            self._write_frame(element, described)
        elif kind == "pic":
            if described:
                self.draft.block("image", described)
            else:
                self.found.pictures += 1
        else:
            self.draft.paragraph(_text(element))

    def _write_frame(self, element: Element, described: str) -> None:
        table = next(element.iter("{*}tbl"), None)
        if table is not None:
            named = next((attribute(p, "firstRow") for p in table if local(p) == "tblPr"), "") in ("1", "true")
            rows = _rows(table)
            header = 1 if named and len(rows) > 1 else None
            self.found.tables.add(write_table(self.draft, rows, header_rows=header))
            return
        for reference in element.iter("{*}chart", "{*}relIds"):
            part = next((self.relations[v][1] for v in reference.attrib.values() if v in self.relations), "")
            words = _chart_words(self.package.xml(part)) if part else ""
            if words:
                self.draft.block("image", words)
        if described:
            self.draft.block("image", described)

    def _write_notes(self, about: Span) -> bool:
        part = next((target for kind, target in self.relations.values() if kind == "notesSlide"), "")
        root = self.package.xml(part) if part else None
        words = [
            plain_lines(_text(shape))
            for shape in (() if root is None else root.iter("{*}sp"))
            if _placeholder(shape)[0] == "body"
        ]
        said = "\n".join(filter(None, words))
        if said and self.draft.block("note", said, about=about) is not None:
            self.found.notes += 1
            return True
        return False


def _reading_order(shape: _Shape) -> tuple[int, int, int]:
    return (shape.box.top // _LINE_HEIGHT, shape.box.left, shape.order)


def _transform(element: Element, offset: str, extent: str) -> _Box | None:
    """The place and size that a shape says it has, in the units of what it stands in."""
    for properties in element:
        if local(properties) not in ("spPr", "grpSpPr", "xfrm"):
            continue
        frame = properties if local(properties) == "xfrm" else next((p for p in properties if local(p) == "xfrm"), None)
        parts = {local(part): part for part in (() if frame is None else frame)}
        if offset in parts:
            size = parts.get(extent)
            width, height = (whole(attribute(size, "cx")), whole(attribute(size, "cy"))) if size is not None else (0, 0)
            return _Box(whole(attribute(parts[offset], "x")), whole(attribute(parts[offset], "y")), width, height)
    return None


def _placeholder(element: Element) -> tuple[str, str]:
    """What a shape is the place for, and which of several; two empty words for a shape that is none."""
    for properties in element:
        if local(properties).startswith("nv"):
            for found in properties.iter("{*}ph"):
                return attribute(found, "type", "obj"), attribute(found, "idx")
    return "", ""


def _is_hidden(element: Element) -> bool:
    properties = next(
        (p for part in element if local(part).startswith("nv") for p in part if local(p) == "cNvPr"), None
    )
    return properties is not None and attribute(properties, "hidden") in ("1", "true")


def _alternative(element: Element) -> str:
    for part in element:
        if local(part).startswith("nv"):
            for properties in part:
                if local(properties) == "cNvPr":
                    return one_line(attribute(properties, "descr") or attribute(properties, "title"))
    return ""


def _text(element: Element) -> str:
    """The paragraphs of a shape, those of a list under one another and indented by their level."""
    lines = []
    for body in element:
        if local(body) in ("txBody", "txbxContent"):
            for paragraph in body:
                if local(paragraph) == "p" and (words := _words(paragraph)).strip():
                    properties = next((part for part in paragraph if local(part) == "pPr"), None)
                    level = whole(attribute(properties, "lvl")) if properties is not None else 0
                    lines.append(_INDENT * min(level, _LAST_LEVEL) + words.strip())
    return "\n".join(lines)


def _words(paragraph: Element) -> str:
    parts: list[str] = []
    for part in paragraph.iter("{*}t", "{*}br", "{*}tab"):
        name = local(part)
        words = part.text or "" if name == "t" else "\n" if name == "br" else "\t"
        parts.append(power_of(words, parts) if name == "t" and _is_raised(part.getparent()) else words)
    return "".join(parts)


def _is_raised(run: Element | None) -> bool:
    properties = next((part for part in (() if run is None else run) if local(part) == "rPr"), None)
    return properties is not None and whole(attribute(properties, "baseline").rstrip("%")) > 0


def _rows(table: Element) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in (part for part in table if local(part) == "tr"):
        cells: list[str] = []
        for cell in (part for part in row if local(part) == "tc"):
            if attribute(cell, "hMerge") in ("1", "true") and cells:
                cells.append(Across(cells[-1]))
            elif attribute(cell, "vMerge") in ("1", "true") and rows and len(rows[-1]) > len(cells):
                cells.append(rows[-1][len(cells)])
            else:
                cells.append(_text(cell))
        rows.append(cells[: _MAX_SPAN * _MAX_SPAN])
    return rows


def _chart_words(root: Element | None) -> str:
    """What a chart is called, and what its axes, series and categories are."""
    if root is None:
        return ""
    names = []
    for title in root.iter("{*}title"):
        names.append("".join(part.text or "" for part in title.iter("{*}t")))
    for series in root.iter("{*}ser"):
        for part in series:
            if local(part) in ("tx", "cat"):
                values = [value.text or "" for value in part.iter("{*}v")]
                names.append(", ".join(values[:_MAX_SPAN]))
    for words in root.iter("{*}pt"):
        # Drawings of boxes and arrows keep their words in points.
        names.append("".join(part.text or "" for part in words.iter("{*}t") if local(part.getparent()) != "pt"))
    return "\n".join(dict.fromkeys(filter(None, map(one_line, names))))
