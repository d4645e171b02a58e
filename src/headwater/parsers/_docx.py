"""The parts of a Word document (DOCX) -> a draft: headings, lists with their numbers, tables, notes, captions.

Read in the order of the page: body paragraphs, tables, content controls; a footnote, an endnote, a comment or a text
box right behind the paragraph it hangs on. Text that was deleted with changes tracked is left out, inserted text is in.
Headers and footers are no part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from headwater.parsers._column_names import Across
from headwater.parsers._draft import Draft, one_line
from headwater.parsers._numbering import Numbering
from headwater.parsers._package import Element, Package, attribute, local, whole
from headwater.parsers._raised import power_of
from headwater.parsers._rows import Tables, write_table
from headwater.types import Span

_HEADING_NAME: Final = re.compile(r"(?:heading|标题|標題|titre|überschrift)\s*([1-9])", re.IGNORECASE)
_CONTENTS_NAME: Final = re.compile(r"(?:toc|目录|目錄)\s*\d|table of figures", re.IGNORECASE)
_CAPTION_NAMES: Final = frozenset({"caption", "题注", "題注"})
_TITLE_NAMES: Final = frozenset({"title", "文档标题"})
_CAPTION_TEXT: Final = re.compile(
    r"(?:(?P<table>表|table)|(?P<figure>图|圖|figure|fig\.))\s*[\dA-Z一二三四五六七八九十]", re.IGNORECASE
)
# Without styles a short paragraph in bold that is no sentence is a heading.
_MAX_BOLD_HEADING_CHARS: Final = 60
_SENTENCE_ENDS: Final = tuple("。！？；，：、.!?;,:…")
_INDENT: Final = "  "
_LAST_HEADING_LEVEL: Final = 9
# Runs of fields: what the field says is skipped, what it shows is read.
_SKIPPED: Final = frozenset(
    ("delText", "instrText", "del", "moveFrom", "rPr", "pPr", "Fallback", "rt", "sectPr", "bookmarkStart", "proofErr")
)
# What a formula sets above, below or under something; the rest of it reads in its order.
_FORMULAS: Final = frozenset(("f", "rad", "sSup", "sSubSup"))
_MATHS: Final = "/math}"
_ONE_THING: Final = re.compile(r"[\w.,]+|[-+−]\d+")
_NOTE_KINDS: Final = {"footnoteReference": "footnotes", "endnoteReference": "endnotes"}


@dataclass(frozen=True, slots=True)
class _Style:
    name: str = ""
    parent: str = ""
    outline: int = -1
    number: str = ""
    level: int = 0
    bold: bool = False


@dataclass(slots=True)
class _Line:
    """What one paragraph says, and what hangs on it."""

    text: str = ""
    notes: list[tuple[str, str]] = field(default_factory=list)  # (kind, id)
    boxes: list[Element] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)


class WordReader:
    """Writes one document into a draft."""

    def __init__(self, package: Package, draft: Draft) -> None:
        self.package, self.draft = package, draft
        self.main = package.main()
        parts = {kind: target for kind, target in package.relations(self.main).values()}
        self.numbering = Numbering(package.xml(parts.get("numbering", "")))
        self.styles, self.default_style = _styles(package.xml(parts.get("styles", "")))
        self.notes = {kind: _notes(package.xml(parts.get(kind, ""))) for kind in ("footnotes", "endnotes", "comments")}
        self.tables = Tables()
        self.title = ""
        self.captions: list[tuple[int, bool]] = []  # which block, and whether it is a table's
        self.counts = {"headings": 0, "notes": 0, "pictures_without_text": 0}
        self._numbers: dict[tuple[str, str], str] = {}
        self._bold_headings = False
        self._item_end = -1  # where the last item of a list ended

    def read(self) -> None:
        """Write the body."""
        root = self.package.xml(self.main)
        body = next((part for part in root if local(part) == "body"), root) if root is not None else ()
        blocks = list(_flattened(body))
        styled = any(local(b) == "p" and self._heading_level(self._style_of(b), b) for b in blocks)
        self._bold_headings = not styled
        for block in blocks:
            if local(block) == "p":
                self._paragraph(block)
            else:
                self._table(block)
        self._tie_captions()

    # ------------------------------------------------------------------------------------------- paragraphs

    def _paragraph(self, element: Element) -> None:
        line = self._line(element)
        text = line.text.strip()
        style = self._style_of(element)
        span = self._write(element, style, text) if text else None
        for picture in line.pictures:
            if picture:
                self.draft.block("image", picture, about=None)
            else:
                self.counts["pictures_without_text"] += 1
        for kind, name in line.notes:
            self._note(kind, name, span)
        for box in line.boxes:
            for inside in _flattened(box):
                if local(inside) == "p":
                    self._paragraph(inside)
                else:
                    self._table(inside)

    def _write(self, element: Element, style: str, text: str) -> Span | None:
        name = self.styles.get(style, _Style()).name.lower()
        level = self._heading_level(style, element)
        number, depth = self._list_of(element, style)
        label = self.numbering.label(number, depth) if number else ""
        if name in _TITLE_NAMES and not self.title:
            self.title = one_line(text)
            return self.draft.paragraph(text)
        if level:
            self.counts["headings"] += 1
            return self.draft.heading(f"{label} {text}" if label and label != "-" else text, level)
        found = _CAPTION_TEXT.match(text)
        if name in _CAPTION_NAMES or (found and _has_sequence(element)):
            return self._caption(text, is_table=bool(found and found["table"]))
        if label:
            return self._item(text, label, depth)
        in_contents = _CONTENTS_NAME.match(name) is not None
        if self._bold_headings and not in_contents and self._reads_like_heading(element, style, text):
            self.counts["headings"] += 1
            return self.draft.heading(text, 1)
        span = self.draft.paragraph(text)
        if span is not None and in_contents:
            self._hide(span)
        return span

    def _caption(self, text: str, *, is_table: bool) -> Span | None:
        span = self.draft.block("caption", text)
        if span is not None:
            self.captions.append((len(self.draft.blocks) - 1, is_table))
        return span

    def _item(self, text: str, label: str, depth: int) -> Span:
        """The items of a list stand under one another without an empty line between them."""
        indent = _INDENT * depth
        lines = f"{indent}{label} {one_line(text)}"
        if self._item_end != self.draft.length:
            self.draft.gap()
        span = self.draft.line(lines)
        self._item_end = self.draft.length
        return span

    def _hide(self, span: Span) -> None:
        hidden = self.draft.hidden
        if hidden and span.start - hidden[-1].end <= 2:
            hidden[-1] = Span(hidden[-1].start, span.end)
        else:
            hidden.append(span)

    def _style_of(self, element: Element) -> str:
        properties = _child(element, "pPr")
        named = _child(properties, "pStyle")
        return attribute(named, "val") if named is not None else self.default_style

    def _lineage(self, style: str) -> Iterator[_Style]:
        """The style and those that it is made from."""
        for _ in range(len(self.styles)):
            found = self.styles.get(style)
            if found is None:
                return
            yield found
            style = found.parent

    def _heading_level(self, style: str, element: Element) -> int:
        """From 1 for a heading, else 0."""
        own = _child(_child(element, "pPr"), "outlineLvl")
        if own is not None and (level := whole(attribute(own, "val"), -1) + 1) > 0:
            return level if level <= _LAST_HEADING_LEVEL else 0
        for found in self._lineage(style):
            if found.name.lower() in _TITLE_NAMES:
                return 0
            if named := _HEADING_NAME.fullmatch(found.name.strip()):
                return int(named[1])
            if found.outline >= 0:
                return found.outline + 1 if found.outline < _LAST_HEADING_LEVEL else 0
        return 0

    def _list_of(self, element: Element, style: str) -> tuple[str, int]:
        """To which list and level a paragraph belongs; the list is empty where to none."""
        own = _child(_child(element, "pPr"), "numPr")
        number, level = _list_properties(own)
        if number == "0":
            return "", 0
        for found in self._lineage(style):
            if not number and found.number:
                number = found.number
                level = level if level >= 0 else found.level
        if style in self.numbering.style_levels and (not number or level < 0):
            linked, depth = self.numbering.style_levels[style]
            number, level = number or linked, depth if level < 0 else level
        return ("", 0) if number in ("", "0") else (number, max(level, 0))

    def _reads_like_heading(self, element: Element, style: str, text: str) -> bool:
        if len(text) > _MAX_BOLD_HEADING_CHARS or text.endswith(_SENTENCE_ENDS) or "\n" in text:
            return False
        if next(element.iterancestors("{*}tbl", "{*}txbxContent"), None) is not None:
            return False
        bold_style = any(found.bold for found in self._lineage(style))
        runs = [run for run in element.iter("{*}r") if any((t.text or "").strip() for t in run.iter("{*}t"))]
        return bool(runs) and all(_is_bold(_child(run, "rPr"), bold_style) for run in runs)

    # ------------------------------------------------------------------------------------------------ words

    def _line(self, element: Element) -> _Line:
        line = _Line()
        line.text = self._said(element, line)
        return line

    def _gather(self, element: Element, line: _Line, parts: list[str]) -> None:
        for part in element:
            name = local(part)
            if name == "r" and _is_raised(part):
                parts.append(power_of(self._said(part, line), parts))
            elif name == "t":
                parts.append(part.text or "")
            elif name in _FORMULAS and _MATHS in part.tag:
                parts.append(_formula(name, {local(inside): self._said(inside, line) for inside in part}))
            elif name in ("tab", "ptab"):
                parts.append("\t")
            elif name in ("br", "cr"):
                parts.append("\n")
            elif name == "noBreakHyphen":
                parts.append("-")
            elif name == "sym":
                parts.append(_symbol(part))
            elif name in _NOTE_KINDS or name == "commentReference":
                self._refer(name, part, line, parts)
            elif name == "txbxContent":
                line.boxes.append(part)
            elif name == "docPr":
                line.pictures += _alternative(part)
            elif name not in _SKIPPED:
                self._gather(part, line, parts)

    def _said(self, element: Element, line: _Line) -> str:
        parts: list[str] = []
        self._gather(element, line, parts)
        return "".join(parts)

    def _refer(self, name: str, part: Element, line: _Line, parts: list[str]) -> None:
        kind, note = _NOTE_KINDS.get(name, "comments"), attribute(part, "id")
        if note not in self.notes[kind]:
            return
        if kind != "comments":
            prefix = "e" if kind == "endnotes" else ""
            count = sum(named == kind for named, _ in self._numbers) + 1
            number = self._numbers.setdefault((kind, note), f"{prefix}{count}")
            parts.append(f"[^{number}]")
        line.notes.append((kind, note))

    def _note(self, kind: str, name: str, about: Span | None) -> None:
        found = self.notes[kind].get(name)
        if found is None:
            return
        words = " ".join(filter(None, (one_line(self._line(p).text) for p in found.iter("{*}p"))))
        if not words:
            return
        if kind == "comments":
            author = attribute(found, "author")
            words = f"[Comment{' by ' + author if author else ''}] {words}"
        else:
            words = f"[^{self._numbers[kind, name]}]: {words}"
        self.draft.block("note", words, about=about)
        self.counts["notes"] += 1

    # ----------------------------------------------------------------------------------------------- tables

    def _table(self, element: Element) -> None:
        rows, headers, hanging = self._rows(element)
        if len(rows) == 1 and len([cell for cell in rows[0] if cell]) <= 1:
            # A frame around some text.
            for cell in element.iter("{*}tc"):
                for inside in _flattened(cell):
                    if local(inside) == "p":
                        self._paragraph(inside)
                    else:
                        self._table(inside)
            return
        before = len(self.draft.blocks)
        self.tables.add(write_table(self.draft, rows, header_rows=headers or None))
        written = next((block.span for block in self.draft.blocks[before:] if block.kind == "table"), None)
        for kind, name in hanging:
            self._note(kind, name, written)

    def _rows(self, table: Element) -> tuple[list[list[str]], int, list[tuple[str, str]]]:
        """The cells, how many rows at the top repeat on every page, and the notes that hang on them."""
        rows: list[list[str]] = []
        headers = 0
        hanging: list[tuple[str, str]] = []
        above: dict[int, str] = {}
        for row in _flattened(table, "tr"):
            properties = _child(row, "trPr")
            if _child(properties, "del") is not None:
                continue
            repeats = _child(properties, "tblHeader")
            if repeats is not None and attribute(repeats, "val", "1") not in ("0", "false") and headers == len(rows):
                headers += 1
            cells: list[str] = []
            for cell in _flattened(row, "tc"):
                text = self._cell(cell, hanging)
                settings = _child(cell, "tcPr")
                merged = _child(settings, "vMerge")
                if merged is not None and attribute(merged, "val", "continue") == "continue":
                    text = above.get(len(cells), text)
                elif merged is not None:
                    above[len(cells)] = text
                span = _child(settings, "gridSpan")
                width = whole(attribute(span, "val"), 1) if span is not None else 1
                cells += [text, *[Across(text)] * (min(width, 64) - 1)]
            rows.append(cells)
        return rows, headers if headers < len(rows) else 0, hanging

    def _cell(self, cell: Element, hanging: list[tuple[str, str]]) -> str:
        words = []
        for block in _flattened(cell):
            if local(block) == "tbl":
                inner, _, notes = self._rows(block)
                words += ["; ".join(filter(None, row)) for row in inner]
                hanging += notes
                continue
            line = self._line(block)
            hanging += line.notes
            number, depth = self._list_of(block, self._style_of(block))
            label = self.numbering.label(number, depth) if number and line.text.strip() else ""
            words.append(one_line(f"{label} {line.text}"))
            words += [one_line(self._line(p).text) for box in line.boxes for p in box.iter("{*}p")]
            words += [one_line(picture) for picture in line.pictures]
        return "\n".join(filter(None, words))

    def _tie_captions(self) -> None:
        """A caption is about the table or picture next to it, else about the paragraph before."""
        blocks = self.draft.blocks
        for place, is_table in self.captions:
            caption = blocks[place]
            kind = "table" if is_table else "image"
            near = [block.span for block in blocks[max(0, place - 3) : place + 4] if block.kind == kind]
            start = caption.span.start
            near.sort(key=lambda span: start - span.end if span.end <= start else span.start - start)
            blocks[place] = replace(caption, about=near[0] if near else self.draft.prose_before(start))


# ------------------------------------------------------------------------------------------------- the parts


def _flattened(element: Element, *names: str) -> Iterator[Element]:
    """The paragraphs and tables inside (or what is named), through content controls and tracked changes."""
    wanted = names or ("p", "tbl")
    for part in element:
        name = local(part)
        if name in wanted:
            yield part
        elif name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag", "AlternateContent", "Choice"):
            yield from _flattened(part, *names)


def _child(element: Element | None, name: str) -> Element | None:
    if element is None:
        return None
    return next((part for part in element if local(part) == name), None)


def _styles(root: Element | None) -> tuple[dict[str, _Style], str]:
    styles: dict[str, _Style] = {}
    default = ""
    for found in () if root is None else root:
        if local(found) != "style" or attribute(found, "type", "paragraph") != "paragraph":
            continue
        id, paragraph = attribute(found, "styleId"), _child(found, "pPr")
        outline = _child(paragraph, "outlineLvl")
        number, level = _list_properties(_child(paragraph, "numPr"))
        parent = _child(found, "basedOn")
        name = _child(found, "name")
        styles[id] = _Style(
            attribute(name, "val") if name is not None else "",
            attribute(parent, "val") if parent is not None else "",
            whole(attribute(outline, "val"), -1) if outline is not None else -1,
            number,
            level,
            _is_bold(_child(found, "rPr"), False),
        )
        if attribute(found, "default") in ("1", "true"):
            default = id
    return styles, default


def _list_properties(element: Element | None) -> tuple[str, int]:
    number, level = _child(element, "numId"), _child(element, "ilvl")
    depth = whole(attribute(level, "val"), -1) if level is not None else -1
    return attribute(number, "val") if number is not None else "", depth


def _is_bold(properties: Element | None, otherwise: bool) -> bool:
    found = _child(properties, "b")
    return otherwise if found is None else attribute(found, "val", "1") not in ("0", "false", "none")


def _notes(root: Element | None) -> dict[str, Element]:
    """Notes by their id, without the lines that separate them from the text."""
    return {
        attribute(note, "id"): note
        for note in (() if root is None else root)
        if attribute(note, "type", "normal") == "normal" and local(note) in ("footnote", "endnote", "comment")
    }


def _has_sequence(element: Element) -> bool:
    """Whether the paragraph counts figures or tables, as captions do."""
    said = "".join(part.text or "" for part in element.iter("{*}instrText"))
    said += "".join(attribute(part, "instr") for part in element.iter("{*}fldSimple"))
    return "SEQ " in said


def _is_raised(run: Element) -> bool:
    found = _child(_child(run, "rPr"), "vertAlign")
    return found is not None and attribute(found, "val") == "superscript"


def _formula(name: str, said: dict[str, str]) -> str:
    """The parts of a formula in one line, so that it says the same: a fraction is no row of digits."""
    inside, above, below = (_one_thing(said.get(part, "")) for part in ("e", "sup", "sub"))
    if name == "f":
        return f"{_one_thing(said.get('num', ''))}/{_one_thing(said.get('den', ''))}"
    if name == "rad":
        degree = said.get("deg", "").strip()
        return f"{'' if degree in ('', '2') else '^' + degree}√{inside}"
    return f"{inside}_{below}^{above}" if name == "sSubSup" else f"{inside}^{above}"


def _one_thing(words: str) -> str:
    words = words.strip()
    return words if _ONE_THING.fullmatch(words) else f"({words})"


def _symbol(element: Element) -> str:
    code = attribute(element, "char")
    try:
        sign = chr(int(code, 16))
    except (ValueError, OverflowError):
        return ""
    # Signs of fonts that are drawings have no meaning as characters.
    return "" if "\ue000" <= sign <= "\uf8ff" else sign


def _alternative(element: Element) -> list[str]:
    """The text that stands for a picture; an empty one for a picture that has none."""
    if any(local(part) == "txbxContent" for part in element.getparent().iter()):
        return []
    return [one_line(attribute(element, "descr") or attribute(element, "title"))]
