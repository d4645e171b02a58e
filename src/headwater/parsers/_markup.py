"""A tree of HTML elements -> text in the manner of Markdown, with its headings, tables, code, captions and links.

Headings get `#`, items `-` or their number, tables one `| a | b |` line per row, code a fence. The walk keeps its own
stack, so that a page nested without end costs no more than its length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin

from headwater.documents import Block, Link, Span
from headwater.parsers._grid import Grid, grid_of, line_of
from headwater.parsers._outline import Heading
from headwater.parsers._raised import POWER_SIGN
from headwater.parsers._rendered import Rendered
from headwater.parsers._words import INLINE, NOTE_MARK, is_note_mark, is_power, is_unread, lines_of, one_blank, words_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element
else:
    Element = Any

_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_LISTS: Final = frozenset(("ul", "ol", "menu", "dir"))
_WHOLE: Final = frozenset((*_HEADINGS, "pre", "table", "img", "math", "br"))
# A longer line is no heading, whatever marks it has; what is cut off stays in the text.
_MAX_TITLE_CHARS: Final = 200
_MAX_CAPTION_CHARS: Final = 300
_MAX_ADDRESS_CHARS: Final = 2000
# Deeper lists are rare, and indentation beyond this only costs room.
_MAX_INDENT_LEVELS: Final = 6
# Shorter texts beside a picture say "photo" or name its file.
_MIN_ALT_CHARS: Final = 8

_CAPTION: Final = re.compile(
    r"(?:附?[图表圖]|插图)\s*[\d一二三四五六七八九十A-Z]|(?:Fig(?:ure|\.)|Table|Listing|Chart)\s*[\dA-Z]", re.IGNORECASE
)
_CAPTION_CLASS: Final = re.compile(r"(?:^|[\s_-])(?:fig)?caption(?:$|[\s_-])", re.IGNORECASE)
_NOTE_CLASS: Final = re.compile(r"(?:^|[\s-])(?:foot|end|rear)note(?:$|\s)")
_NOTES_CLASS: Final = re.compile(r"(?:^|[\s-])(?:foot|end|rear)notes(?:$|\s)")
_LANGUAGE: Final = re.compile(r"(?:language|lang|highlight|brush:?)[-\s]?([\w+#]+)", re.IGNORECASE)
_ADDRESS: Final = re.compile(r"(?:https?|ftp|mailto):", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_ANCHORS: Final = " §¶"  # what a heading shows to link to itself
_FILE_NAME: Final = re.compile(r"\S+\.(?:png|jpe?g|gif|webp|svg|bmp)", re.IGNORECASE)


class _Put(NamedTuple):
    """Something that was written: what it is and where."""

    kind: str
    span: Span


@dataclass(slots=True)
class _Item:
    indent: str
    marker: str  # until its first line is written


def render(root: Element, address: str = "") -> Rendered:
    """What a reader sees of the tree. Links are completed with `address`, the page's own."""
    from lxml import etree

    writer = _Writer(address)
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "start":
            if is_unread(element) or not writer.start(element, element.tag):
                walk.skip_subtree()
            else:
                writer.add(element.text or "")
        else:
            if not is_unread(element):
                writer.end(element, element.tag)
            if element is not root:
                writer.add(element.tail or "")
    return writer.finish()


@dataclass(slots=True)
class _Writer:
    """Gathers the words of a paragraph and writes it when a block begins or ends."""

    address: str
    parts: list[str] = field(default_factory=list)
    length: int = 0
    order: list[_Put] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    # -- the paragraph that is gathered
    run: list[str] = field(default_factory=list)
    gathered: int = 0
    run_links: list[tuple[int, int, str]] = field(default_factory=list)
    # -- what is open
    opened: list[int] = field(default_factory=list)  # links: where their words begin in the paragraph
    lists: list[int] = field(default_factory=list)  # the number of the next item; 0 where items have none
    items: list[_Item] = field(default_factory=list)
    list_puts: int = 0  # how much was written since the outermost list began
    figures: list[int] = field(default_factory=list)  # how much was written when a figure began
    quotes: int = 0
    close: bool = False  # what comes next goes on the line below, without a blank one between
    # -- what belongs together
    captions: dict[int, range] = field(default_factory=dict)  # place in `order` -> where to look for what it names
    maybe_captions: set[int] = field(default_factory=set)  # called captions, and outside of any figure
    notes: list[tuple[str, int]] = field(default_factory=list)
    note_spans: dict[str, Span] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)  # id of a note -> place in `order` of what refers to it

    # -------------------------------------------------------------------------------------------- the walk

    def start(self, element: Element, tag: str) -> bool:
        """Take note of an element that begins; False where there is no need to go inside."""
        if tag not in INLINE and tag != "br":
            self.flush()
        if name := element.get("id") or (element.get("name") if tag == "a" else None):
            self.places.setdefault(name, self.length + self.gathered)
        if _opens_note(element):
            self.notes.append((element.get("id") or "", len(self.order)))
        if tag in _WHOLE:
            return self.whole(element, tag)
        if tag == "a":
            self.opened.append(self.gathered)
            if is_note_mark(element):
                self.add(NOTE_MARK[0])
        elif tag in _LISTS:
            self.list_puts = self.list_puts if self.lists else 0
            self.lists.append(_number(element.get("start"), 1) if tag == "ol" else 0)
        elif tag == "li":
            self.items.append(self.item(element))
        elif tag == "figure":
            self.figures.append(len(self.order))
        elif tag == "blockquote":
            self.quotes += 1
        elif tag == "dd":
            self.close = True
        elif is_power(element) and self.run and self.run[-1][-1:].isalnum():
            self.add(POWER_SIGN)
        return True

    def whole(self, element: Element, tag: str) -> bool:
        """Those that are written at once."""
        if tag == "table":
            grid = grid_of(element)
            if grid is None:
                return True
            self.table(grid)
        elif tag in _HEADINGS:
            self.heading(element, _HEADINGS[tag])
        elif tag == "pre":
            self.code(element)
        elif tag == "img":
            self.image(element)
        elif tag == "br":
            self.break_line()
        else:
            self.add(element.get("alttext") or words_of(element))
        return False

    def end(self, element: Element, tag: str) -> None:
        """Take note of an element that ends."""
        place = -1
        if tag == "a" and self.opened:
            self.link(element)
        elif tag not in INLINE and tag != "br":
            place = self.flush()
            if (
                place >= 0
                and self.figures
                and (tag == "figcaption" or _CAPTION_CLASS.search(element.get("class") or ""))
            ):
                self.captions[place] = range(self.figures[-1], place)
            elif place >= 0 and _CAPTION_CLASS.search(element.get("class") or ""):
                self.maybe_captions.add(place)
        if tag in _LISTS and self.lists:
            self.lists.pop()
        elif tag == "li" and self.items:
            self.items.pop()
        elif tag == "figure" and self.figures:
            first = self.figures.pop()
            inside = range(first, len(self.order))
            self.captions |= {place: inside for place in self.captions if place in inside}
        elif tag == "blockquote":
            self.quotes -= 1
        elif tag in ("td", "th") and place >= 0:
            self.close = True  # a table that only arranges the page: its cells stand below one another
        elif tag == "table":
            self.close = False
        if self.notes and _closes_note(element):
            name, first = self.notes.pop()
            self.flush()
            if first < len(self.order):
                begin = self.order[first].span.start
                self.note_spans[name or f"#{begin}"] = Span(begin, self.length)

    # ----------------------------------------------------------------------------------------- paragraphs

    def add(self, words: str) -> None:
        """Words of the paragraph, a blank between them and what went before only where there is one."""
        words = one_blank(words)
        if not self.run or self.run[-1][-1] in " \n":
            words = words.lstrip(" ")
        if words:
            self.run.append(words)
            self.gathered += len(words)

    def break_line(self) -> None:
        if self.run:
            self.run.append("\n")
            self.gathered += 1

    def flush(self) -> int:
        """Write the paragraph that was gathered; its place in the order, or -1 where there was none."""
        text, links = "".join(self.run).rstrip(), self.run_links
        self.run, self.run_links, self.gathered = [], [], 0
        self.opened = [0] * len(self.opened)
        if not text.strip():
            return -1
        front = "> " * min(self.quotes, _MAX_INDENT_LEVELS)
        if self.items:
            front += self.items[-1].indent + (self.items[-1].marker or "  ")
            self.items[-1].marker = ""
            self.close = self.close or self.list_puts > 0
        begin = self.put("text", front + text).start + len(front)
        self.order[-1] = _Put("text", Span(begin, self.length))
        for start, end, target in links:
            if target.startswith("#"):
                self.noted.setdefault(target[1:], len(self.order) - 1)
            elif start < min(end, len(text)):
                span = Span(begin + start, begin + min(end, len(text)))
                self.links.append(Link(kind="url", target=target, span=span))
        return len(self.order) - 1

    def put(self, kind: str, text: str) -> Span:
        """Write something as a paragraph of its own."""
        if self.parts:
            joint = "\n" if self.close else "\n\n"
            self.parts.append(joint)
            self.length += len(joint)
        self.close = False
        span = Span(self.length, self.length + len(text))
        self.parts.append(text)
        self.length = span.end
        self.order.append(_Put(kind, span))
        self.list_puts += 1
        return span

    def link(self, element: Element) -> None:
        if is_note_mark(element):
            self.add(NOTE_MARK[1])
        begin, target = self.opened.pop(), _complete(element.get("href") or "", self.address)
        if target and begin < self.gathered:
            self.run_links.append((begin, self.gathered, target))

    def item(self, element: Element) -> _Item:
        number = self.lists[-1] if self.lists else 0
        if number:
            number = _number(element.get("value"), number)
            self.lists[-1] = number + 1
        indent = "  " * min(max(len(self.lists) - 1, 0), _MAX_INDENT_LEVELS)
        return _Item(indent, f"{number}. " if number else "- ")

    # --------------------------------------------------------------------------------------------- blocks

    def heading(self, element: Element, level: int) -> None:
        title = words_of(element).strip(_ANCHORS)
        begin = self.put("heading", f"{'#' * level} {title}").start if title else self.length
        if title:
            self.headings.append(Heading(level, title[:_MAX_TITLE_CHARS], begin))
        for inside in element.iter("a", "span"):
            if name := inside.get("id") or inside.get("name"):
                self.places.setdefault(name, begin)

    def code(self, element: Element) -> None:
        text = lines_of(element).strip("\n").rstrip()
        if not text.strip() or _numbers_lines(element, text):
            return
        marks = max((len(run) for run in re.findall("`{3,}", text)), default=2) + 1
        inner = next(element.iter("code"), element)
        language = _LANGUAGE.search(f"{element.get('class') or ''} {inner.get('class') or ''}")
        fence = "`" * max(3, marks)
        span = self.put("code", f"{fence}{language[1] if language else ''}\n{text}\n{fence}")
        self.blocks.append(Block(kind="code", span=span))

    def image(self, element: Element) -> None:
        alt = one_blank(element.get("alt") or "").strip()
        if self.figures or self.run:
            return  # its caption says more, or it stands in the middle of a sentence
        if len(alt) < _MIN_ALT_CHARS or _FILE_NAME.fullmatch(alt):
            self.order.append(_Put("image", Span(self.length, self.length)))
            return
        self.blocks.append(Block(kind="image", span=self.put("image", alt)))

    def table(self, grid: Grid) -> None:
        first = len(self.order)
        if grid.caption:
            self.put("text", grid.caption)
            self.captions[first] = range(first + 1, first + 2)
        lines = [line_of(grid.header)] if grid.header else []
        lines += [line_of(tuple(cell.text for cell in row)) for row in grid.rows]
        span = self.put("table", "\n".join(lines))
        starts, place = [], span.start
        for line in lines:
            starts.append(place)
            place += len(line) + 1
        header = " | ".join(grid.header)
        self.blocks.append(Block(kind="table", span=span, header=header, rows=tuple(starts)))
        skipped = len(lines) - len(grid.rows)
        for start, row, line in zip(starts[skipped:], grid.rows, lines[skipped:], strict=True):
            after = 0
            for words, href in (link for cell in row for link in cell.links):
                target, found = _complete(href, self.address), line.find(words, after)
                if found >= 0 and target and not target.startswith("#"):
                    after = found + len(words)
                    self.links.append(Link(kind="url", target=target, span=Span(start + found, start + after)))

    # ------------------------------------------------------------------------------- what belongs together

    def finish(self) -> Rendered:
        self.flush()
        text = "".join(self.parts)
        for place, put in enumerate(self.order):
            written = text[put.span.start : put.span.end]
            named = place in self.maybe_captions or _CAPTION.match(written)
            if put.kind == "text" and len(written) <= _MAX_CAPTION_CHARS and named:
                beside = [near.kind for near in self.order[max(0, place - 1) : place + 2]]
                if place not in self.captions and any(kind in ("table", "image", "code") for kind in beside):
                    self.captions[place] = range(place - 1, place + 2)
        self.blocks += [
            Block(kind="caption", span=self.order[place].span, about=self.said_of(place, near))
            for place, near in self.captions.items()
        ]
        for name, span in self.note_spans.items():
            about = self.order[self.noted[name]].span if name in self.noted else None
            self.blocks.append(Block(kind="note", span=span, about=about))
        blocks = tuple(sorted(self.blocks, key=lambda block: block.span))
        links = tuple(sorted(self.links, key=lambda link: link.span))
        return Rendered(text, tuple(self.headings), blocks, links, self.places)

    def said_of(self, place: int, near: range) -> Span | None:
        """The table, the code or the picture near a caption, else the nearest paragraph before it or after."""
        puts = [self.order[number] for number in near if 0 <= number < len(self.order)]
        for kinds in (("table",), ("code", "image")):
            for put in puts:
                if put.kind in kinds and put.span.end > put.span.start:
                    return put.span
        around = (*range(place - 1, -1, -1), *range(place + 1, len(self.order)))
        nearest = (number for number in around if self.order[number].kind == "text" and number not in self.captions)
        return next((self.order[number].span for number in nearest), None)


def _numbers_lines(element: Element, text: str) -> bool:
    """Whether it is the column of line numbers that stands beside a piece of code."""
    above = element.getparent()
    if above is None or above.tag != "td":
        return False
    lines = text.split()
    first = _number(lines[0], -1)
    return first >= 0 and lines == [str(first + place) for place in range(len(lines))] and above.getnext() is not None


def _opens_note(element: Element) -> bool:
    """A footnote of its own: marked as one, or an item in a list of them."""
    if element.tag == "dl" or element.tag in INLINE:
        return False
    if _NOTE_CLASS.search(_said(element)):
        return True
    above = element.getparent()
    if element.tag == "dt":
        return above is not None and bool(_NOTE_CLASS.search(_said(above)))
    if element.tag not in ("li", "p") or not element.get("id") or above is None:
        return False
    return bool(_NOTES_CLASS.search(_said(above)) or _NOTES_CLASS.search(_said(above.getparent())))


def _closes_note(element: Element) -> bool:
    """Where a note ends: a term in a list of notes is followed by what it says."""
    if element.tag == "dd":
        return bool(_NOTE_CLASS.search(_said(element.getparent())))
    return element.tag != "dt" and _opens_note(element)


def _said(element: Element | None) -> str:
    """What an element says of its purpose."""
    return "" if element is None else " ".join(element.get(name) or "" for name in ("epub:type", "role", "class"))


def _complete(href: str, address: str) -> str:
    """Where a link leads; a place on the same page keeps its `#`, what leads nowhere is nothing."""
    href = href.strip()
    if href.startswith("#") or len(href) > _MAX_ADDRESS_CHARS:
        return href if 1 < len(href) <= _MAX_ADDRESS_CHARS else ""
    if not _ADDRESS.match(href):
        if _SCHEME.match(href) or not href:
            return ""  # programs and data
        try:
            href = urljoin(address, href)
        except ValueError:
            return ""
    return href


def _number(said: str | None, otherwise: int) -> int:
    return int(said) if said and said.isdecimal() and 0 < len(said) < 7 else otherwise
