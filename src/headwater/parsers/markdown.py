"""Markdown, also as Obsidian writes it -> a document with sections, tables, code, tags and links.

`text` is the file itself, marks and all, so that a span shows what the author wrote. Only newlines are made plain.
The scanner goes by lines and is linear: a hostile file costs no more than its length.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from headwater.clean import is_blank
from headwater.errors import EmptyDocument
from headwater.parsers._decode import decode
from headwater.parsers._frontmatter import read_frontmatter
from headwater.parsers._html_table import HtmlTables, table_blocks
from headwater.parsers._obsidian import unseen_marks, wikilinks
from headwater.types import Blob, Block, Document, Link, Section, Span

_PATH_JOINT: Final = " > "
# A longer line is no title, whatever marks it has; what is cut off stays in the text.
_MAX_TITLE_CHARS: Final = 200

_FENCE: Final = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}|~{3,})([^\n]*)")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_LIST_ITEM: Final = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_INDENTED: Final = re.compile(r"(?: {4}| {0,3}\t)")
# Lines that are no paragraph, so that dashes under them are a rule and no heading.
_NO_PARAGRAPH: Final = re.compile(
    r"[ \t]*(?:[-*+](?:\s|$)|[>|<]|#{1,6}\s|\d{1,9}[.)]\s|!\[|([-*_])[ \t]*(?:\1[ \t]*){2,}$)"
)
_TABLE_RULE: Final = re.compile(r"[ \t>]*[|:\- \t]+$")

_BACKTICKS: Final = re.compile("`+")
_OBSIDIAN_COMMENT: Final = re.compile(
    r"(?<![\d%])%%(?!%)(?:[^%\n]|%(?!%))*%%|^%%[ \t]*\n[\s\S]*?^%%[ \t]*$", re.MULTILINE
)
_LINK: Final = re.compile(
    r"(!?)\[[^\[\]\n]*\]\([ \t]*<?([^\s()<>]+(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:[ \t]+\"[^\"\n]*\")?[ \t]*\)"
)
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"'`\[\]{}|\\^（）。，；！？、《》【】「」“”]+")
# Behind `](` and `]: ` it is where a link leads, as in a table of contents.
_TAG: Final = re.compile(r"(?:^|(?<=[\s(（，。、；：])(?<!\]\()(?<!\]: ))#([\w][\w/-]*)", re.MULTILINE)
_COLOUR: Final = re.compile(r"(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})$")
_CLOSING_MARKS: Final = re.compile(r"[ \t]+#+[ \t]*$")
_MARKUP: Final = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()]*\)|\s*\{#[^{}]*\}\s*$")
_EMPHASIS: Final = re.compile(r"(\*{1,3}|_{2,3}|~~|==|`+)(\S(?:.*?\S)?)\1")


class MarkdownParser:
    """Reads Markdown: frontmatter, headings, tables, code, #tags, [[wikilinks]], addresses."""

    trusted = True  # written here and linear: it runs where it is called, and needs no process of its own
    mimes: frozenset[str] = frozenset({"text/markdown", "text/x-markdown"})

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is not text and EmptyDocument for what holds none."""
        decoded = decode(blob.data, blob.uri)
        text = decoded.text
        front = read_frontmatter(text)
        lines = _scan(text, front.end)
        quiet = _masked(text, [Span(0, front.end), *(block.span for block in lines.blocks if block.kind == "code")])
        quiet = _masked(quiet, list(_inline_code(quiet)))
        comments = _joined([Span(0, front.end), *_comments(quiet)])
        quiet = _masked(quiet, comments)
        hidden = _joined([*comments, *unseen_marks(quiet)])
        if is_blank(_masked(text, hidden)):
            raise EmptyDocument(f"{blob.uri} holds no text: {len(blob.data)} bytes, nothing but frontmatter or blanks")
        headings = [heading for heading in lines.headings if not _within(heading.span, hidden)]
        return Document(
            uri=blob.uri,
            text=text,
            title=front.title or _title(text, headings, hidden) or PurePosixPath(blob.uri).stem,
            description=front.description,
            tags=tuple(dict.fromkeys((*front.tags, *_tags(quiet)))),
            mime="text/markdown",
            structure=_sections(headings, len(text)),
            blocks=tuple(block for block in lines.blocks if not _within(block.span, hidden)),
            links=(*wikilinks(text, front.end), *_links(quiet)),
            hidden=hidden,
            created=front.created,
            updated=front.updated or blob.modified,
            problems=(*decoded.problems, *front.problems),
            meta={**blob.meta, **front.meta},
        )


@dataclass(frozen=True, slots=True)
class _Heading:
    level: int
    title: str
    span: Span


@dataclass(slots=True)
class _Lines:
    """What a walk over the lines finds."""

    headings: list[_Heading] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)


def _scan(text: str, start: int) -> _Lines:
    """Headings, tables and code, line by line from `start`."""
    found = _Lines()
    lines = list(_spans_of_lines(text, start))
    place, in_list, after_blank = 0, False, True
    tables = HtmlTables()
    while place < len(lines):
        span = lines[place]
        line = text[span.start : span.end]
        if not line or line.isspace():
            place, after_blank = place + 1, True
            continue
        if fence := _fence(line):
            stop = _end_of_fence(text, lines, place, fence)
            found.blocks.append(Block(kind="code", span=Span(span.start, lines[stop - 1].end)))
        elif after_blank and not in_list and _INDENTED.match(line):
            stop = _end_of_indented(text, lines, place)
            found.blocks.append(Block(kind="code", span=Span(span.start, lines[stop - 1].end)))
        elif heading := _HEADING.match(line):
            stop = place + 1
            if title := _plain(heading[2]):
                found.headings.append(_Heading(len(heading[1]), title, span))
            in_list = False
        elif underline := after_blank and _setext(text, lines, place, line):
            stop = place + 2
            found.headings.append(_Heading(underline, _plain(line), Span(span.start, lines[place + 1].end)))
            in_list = False
        elif (stop := _end_of_table(text, lines, place, line)) > place:
            found.blocks.append(_table(text, lines[place:stop]))
        elif (stop := tables.end(text, lines, place)) > place:
            found.blocks += table_blocks(text, Span(span.start, lines[stop - 1].end))
        else:
            stop = place + 1
            if _LIST_ITEM.match(line):
                in_list = True
            elif after_blank and not line[0].isspace():
                in_list = False
        # After a heading or a block a new paragraph starts, as after a blank line.
        after_blank = stop != place + 1 or bool(_HEADING.match(line))
        place = stop
    return found


def _spans_of_lines(text: str, start: int) -> Iterator[Span]:
    """Every line without its newline."""
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield Span(start, end)
        start = end + 1


def _fence(line: str) -> str:
    """The marks that open a fence, or nothing. A fence of backticks has none behind it on the line."""
    opened = _FENCE.match(line)
    return "" if opened is None or (opened[1][0] == "`" and "`" in opened[2]) else opened[1]


def _end_of_fence(text: str, lines: list[Span], place: int, marks: str) -> int:
    """The line after the closing fence; a fence that is never closed goes on to the end."""
    for stop in range(place + 1, len(lines)):
        line = text[lines[stop].start : lines[stop].end].strip(" \t>")
        if line.startswith(marks) and not line.strip(marks[0]):
            return stop + 1
    return len(lines)


def _end_of_indented(text: str, lines: list[Span], place: int) -> int:
    stop = last = place + 1
    while stop < len(lines):
        line = text[lines[stop].start : lines[stop].end]
        if _INDENTED.match(line) and not line.isspace():
            last = stop + 1
        elif line and not line.isspace():
            break
        stop += 1
    return last


def _setext(text: str, lines: list[Span], place: int, line: str) -> int:
    """The level of a heading that is underlined by `===` or `---`, or 0."""
    if place + 1 >= len(lines) or _NO_PARAGRAPH.match(line) or "|" in line or _INDENTED.match(line):
        return 0
    underline = _UNDERLINE.match(text, lines[place + 1].start, lines[place + 1].end)
    return 0 if underline is None else 1 if underline[1][0] == "=" else 2


def _end_of_table(text: str, lines: list[Span], place: int, line: str) -> int:
    """The line after a table that has its header at `place`, or `place` where there is none."""
    if "|" not in line or place + 1 >= len(lines):
        return place
    rule = text[lines[place + 1].start : lines[place + 1].end]
    if "-" not in rule or "|" not in rule or not _TABLE_RULE.match(rule):
        return place
    stop = place + 2
    while stop < len(lines) and "|" in text[lines[stop].start : lines[stop].end]:
        stop += 1
    return stop


def _table(text: str, lines: list[Span]) -> Block:
    """Header, rule and rows; the rule stays with the header."""
    names = text[lines[0].start : lines[0].end].strip(" \t>").strip("|").split("|")
    return Block(
        kind="table",
        span=Span(lines[0].start, lines[-1].end),
        header=" | ".join(name.strip() for name in names),
        rows=(lines[0].start, *(line.start for line in lines[2:])),
    )


def _sections(headings: list[_Heading], end: int) -> tuple[Section, ...]:
    """Each heading with what stands under it: until the next of its own or a higher level."""
    ends = [end] * len(headings)
    open_ones: list[int] = []
    paths: list[str] = []
    for number, heading in enumerate(headings):
        while open_ones and headings[open_ones[-1]].level >= heading.level:
            ends[open_ones.pop()] = heading.span.start
        above = paths[open_ones[-1]] + _PATH_JOINT if open_ones else ""
        paths.append(above + heading.title)
        open_ones.append(number)
    return tuple(
        Section(title=heading.title, level=heading.level, path=path, span=Span(heading.span.start, stop))
        for heading, path, stop in zip(headings, paths, ends, strict=True)
    )


def _title(text: str, headings: list[_Heading], hidden: tuple[Span, ...]) -> str:
    """The first heading of level one, or whatever heading the text opens with."""
    if first := next((heading for heading in headings if heading.level == 1), None):
        return first.title
    if headings and is_blank(_masked(text[: headings[0].span.start], hidden)):
        return headings[0].title
    return ""


def _plain(title: str) -> str:
    """A heading without its marks."""
    title = _CLOSING_MARKS.sub("", title[:_MAX_TITLE_CHARS])
    title = _MARKUP.sub(lambda found: found[1] or found[2] or "", title)
    title = _EMPHASIS.sub(r"\2", title)
    return " ".join(title.split())


def _tags(quiet: str) -> Iterator[str]:
    for found in _TAG.finditer(quiet):
        tag = found[1].rstrip("/-")
        if any(sign.isalpha() for sign in tag) and not _COLOUR.match(tag):
            yield tag


def _links(quiet: str) -> tuple[Link, ...]:
    links = wikilinks(quiet)
    inline = [
        Link(kind="embed" if found[1] else "url", target=found[2], span=Span(*found.span()))
        for found in _LINK.finditer(quiet)
    ]
    bare = _masked(quiet, [link.span for link in inline])
    for found in _ADDRESS.finditer(bare):
        target = found[0].rstrip(".,;:!?)*_~")
        links.append(Link(kind="url", target=target, span=Span(found.start(), found.start() + len(target))))
    return tuple(sorted((*links, *inline), key=lambda link: link.span))


def _inline_code(text: str) -> Iterator[Span]:
    """`code` between equal runs of backticks, inside one paragraph."""
    runs = [Span(*found.span()) for found in _BACKTICKS.finditer(text)]
    following: dict[int, int] = {}
    closing = [-1] * len(runs)
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number].end - runs[number].start
        closing[number] = following.get(length, -1)
        following[length] = number
    number = 0
    while number < len(runs):
        close = closing[number]
        # A run without an equal one, or with one only in another paragraph, is plain text.
        if close < 0 or text.find("\n\n", runs[number].end, runs[close].start) >= 0:
            number += 1
            continue
        yield Span(runs[number].start, runs[close].end)
        number = close + 1


def _masked(text: str, spans: list[Span] | tuple[Span, ...]) -> str:
    """The text with these stretches blanked out, newlines kept, so that every offset stays."""
    parts, last = [], 0
    for start, end in sorted(spans):
        if end > last:
            parts.append(text[last:start])
            parts.append("\n".join(" " * len(line) for line in text[max(start, last) : end].split("\n")))
            last = end
    return "".join(parts) + text[last:]


def _comments(quiet: str) -> Iterator[Span]:
    """`<!-- HTML -->` and `%% Obsidian %%` comments; what is opened and never closed is text."""
    start = quiet.find("<!--")
    while start >= 0 and (end := quiet.find("-->", start + 4)) >= 0:
        yield Span(start, end + 3)
        start = quiet.find("<!--", end + 3)
    for found in _OBSIDIAN_COMMENT.finditer(quiet):
        yield Span(*found.span())


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    """The same stretches, in order and apart from one another."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if start == end:
            continue
        if joined and start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(end, joined[-1].end))
        else:
            joined.append(Span(start, end))
    return tuple(joined)


def _within(span: Span, spans: tuple[Span, ...]) -> bool:
    place = bisect_right(spans, span.start, key=lambda hidden: hidden.start) - 1
    return place >= 0 and span.end <= spans[place].end
