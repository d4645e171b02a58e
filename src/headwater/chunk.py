"""A document -> its passages: spans of the original text, in order, each a piece of one section.

The text is cut at the coarsest separator (paragraphs, then lines, sentences, clauses, words, characters) that gives
pieces small enough, one level deeper only inside a piece that is still too large; neighbouring pieces are then packed
together up to `size`. A chunk begins with the last `overlap` of the one before it, from the start of a sentence where
one fits, else of a clause or a word. Everything is measured against offsets that are found once: time is linear.

- No chunk crosses a section; a heading with nothing under it joins what follows under the same parent.
- A table is cut between rows, and later parts carry its header in `index_text`; code is cut between lines.
- What the document hides (frontmatter, comments) is in no chunk, and no chunk reaches across it.
"""

from __future__ import annotations

import json
import re
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple, get_args

from headwater.clean import clean
from headwater.errors import SettingError, SourceError
from headwater.selection import MAX_CHUNKS
from headwater.tokens import Unit, is_cjk, token_spans
from headwater.types import Block, Chunk, Document, Kind, Section, Span

_PARAGRAPH: Final = re.compile(r"\n\s*\n\s*|\f\s*")
_LINE: Final = re.compile(r"\n\s*")
# A pattern that starts with a set of characters is searched for ten times as fast as one that starts with a choice.
_CLAUSES: Final = (re.compile(r"[；;](?:\s+|(?<=；))"), re.compile(r"[，、：,:](?:\s+|(?<=[，、：]))"))
# Good enough to cut at, and far cheaper than telling every sentence: before a point stands no initial, no number of a
# list and no title, and after it no small letter.
_SENTENCE: Final = re.compile(
    r"[。！？….!?](?:(?<=[。！？…])[。！？…!?]*[”’」』）》\"']*\s*"
    r"|(?<![\s(.]\w\.)(?<!\b(?:Dr|Mr|Ms|St|No|vs)\.)(?<!\b(?:Mrs|Fig)\.)(?<!\bProf\.)[.!?]*[\"')\]”’]*\s+(?=[^a-z\s]))"
)
_CLAUSE: Final = re.compile("|".join(pattern.pattern for pattern in _CLAUSES))
_BLANKS: Final = re.compile(r"\s+")
_UNDERLINE: Final = re.compile(r"[ \t]*(?:=+|-+)[ \t]*(?:\n|\Z)")
# Words are shorter; what is longer (encoded data, addresses) may be torn.
_MAX_WORD_CHARS: Final = 40
# Marks on one letter, parts of one emoji.
_MAX_CLUSTER_CHARS: Final = 16
_JOINER: Final = "\u200d"

Cuts = Callable[[str, int, int], Iterable[int]]


class RecursiveChunker:
    """Cuts any text. `separators` (each a string, or several of equal rank) take the place of the natural ones."""

    def __init__(
        self,
        *,
        size: int = 512,
        overlap: int = 64,
        unit: Unit = "tokens",
        separators: Sequence[str | Sequence[str]] | None = None,
    ) -> None:
        if not isinstance(size, int) or size < 1:
            raise SettingError(f"chunk.size must be a whole number of at least 1, got {size!r}")
        if not isinstance(overlap, int) or not 0 <= overlap < size:
            raise SettingError(f"chunk.overlap must be at least 0 and below chunk.size ({size}), got {overlap!r}")
        if unit not in get_args(Unit):
            raise SettingError(f"chunk.unit must be 'tokens' or 'chars', got {unit!r}")
        self.size, self.overlap, self.unit = size, overlap, unit
        levels = None if separators is None else _levels(separators)
        self._cuts: tuple[Cuts, ...] = _NATURAL if levels is None else tuple(_cutting(level) for level in levels)
        self._any_separator = (
            None if levels is None else re.compile("|".join(level.pattern for level in levels) or "(?!)")
        )
        names = "natural" if separators is None else json.dumps(list(separators), ensure_ascii=False)
        self.fingerprint = f"recursive/1 size={size} overlap={overlap} unit={unit} separators={names}"

    def chunk(self, document: Document) -> list[Chunk]:
        """The passages; none for a document without text. Raises SourceError when there are too many."""
        ruler = _Ruler(document.text, self.unit)
        blocks = sorted(document.blocks, key=lambda block: block.span)
        chunks: list[Chunk] = []
        for region in _regions(document):
            for stretch in _visible(region, document.hidden):
                for span in self._pack(document.text, ruler, self._pieces(ruler, stretch, blocks), blocks):
                    chunks.append(_chunk(document, span, region.path, blocks))
                    if len(chunks) > MAX_CHUNKS:
                        raise SourceError(
                            f"{document.uri} gives more than {MAX_CHUNKS} chunks of {self.size} {self.unit}; "
                            "cut the file in parts or raise chunk.size"
                        )
        return chunks

    # ------------------------------------------------------------------------------------------ pieces

    def _pieces(self, ruler: _Ruler, stretch: _Region, blocks: list[Block]) -> Iterator[Span]:
        """The stretch in pieces of at most `size`, blocks apart from the prose around them."""
        text = ruler.text
        start, stop = _trimmed(text, stretch.start, stretch.end)
        if start >= stop:
            return
        if stop <= ruler.reach(start, self.size):
            yield Span(start, stop)
            return
        first = bisect_right(blocks, start, key=lambda block: block.span.end)
        for block in blocks[first:]:
            if block.span.start >= stop:
                break
            begin, end = max(start, block.span.start), min(stop, block.span.end)
            if end <= start:
                continue
            yield from self._split(ruler, Span(start, begin), stretch.body, 0)
            # A heading right before it must not stay behind alone, so they fit together or the block is cut.
            measured_from = stretch.start if stretch.body >= begin else begin
            if end <= ruler.reach(measured_from, self.size):
                yield _trimmed(text, begin, end)
            else:
                yield from self._split_lines(ruler, Span(begin, end), block.kind)
            start = end
        yield from self._split(ruler, Span(start, stop), stretch.body, 0)

    def _split(self, ruler: _Ruler, span: Span, body: int, level: int) -> Iterator[Span]:
        """Cut at one level's separators, and what is still too large at the next. Never right behind a heading."""
        start, end = _trimmed(ruler.text, *span)
        if start >= end:
            return
        if end <= ruler.reach(start, self.size):
            yield Span(start, end)
        elif level == len(self._cuts):
            yield from self._tear(ruler, Span(start, end))
        else:
            last = start
            for cut in self._cuts[level](ruler.text, start, end):
                if cut > body and last < cut < end:
                    yield from self._split(ruler, Span(last, cut), body, level + 1)
                    last = cut
            yield from self._split(ruler, Span(last, end), body, level + 1)

    def _split_lines(self, ruler: _Ruler, span: Span, kind: Kind) -> Iterator[Span]:
        """The lines of a block. A row of a table stays whole, however long."""
        last = span.start
        for cut in (*(found.end() for found in _LINE.finditer(ruler.text, *span)), span.end):
            start, end = _trimmed(ruler.text, last, cut)
            last = cut
            if start < end and (kind == "table" or end <= ruler.reach(start, self.size)):
                yield Span(start, end)
            elif start < end:
                yield from self._tear(ruler, Span(start, end))

    def _tear(self, ruler: _Ruler, span: Span) -> Iterator[Span]:
        """Words up to the limit, or characters where there are none. The overlap will need room of its own."""
        start, end = span
        while (limit := ruler.reach(start, self.size - self.overlap)) < end:
            cut = _word_end(ruler.text, start, limit)
            yield _trimmed(ruler.text, start, cut)
            start = _skip_blanks(ruler.text, cut, end)
        yield Span(start, end)

    # ----------------------------------------------------------------------------------------- packing

    def _pack(self, text: str, ruler: _Ruler, pieces: Iterator[Span], blocks: list[Block]) -> Iterator[Span]:
        """Neighbouring pieces together up to `size`, each chunk after the first with its overlap in front."""
        start = end = reach = -1
        for piece in pieces:
            if end < 0:
                start = piece.start
            elif piece.end <= reach:
                end = piece.end
                continue
            else:
                yield Span(start, end)
                start = self._overlap(text, ruler, Span(start, end), piece, blocks)
            end, reach = piece.end, ruler.reach(start, self.size)
        if end >= 0:
            yield Span(start, end)

    def _overlap(self, text: str, ruler: _Ruler, before: Span, piece: Span, blocks: list[Block]) -> int:
        """Where the chunk that goes on with `piece` starts: as early in the chunk before as overlap and size allow."""
        low = max(ruler.back(before.end, self.overlap), ruler.back(piece.end, self.size), before.start + 1)
        if low >= before.end:
            return piece.start
        place = bisect_right(blocks, low, key=lambda block: block.span.end)
        if place < len(blocks) and blocks[place].span.start < before.end:
            start = text.find("\n", low - 1, before.end) + 1 or piece.start
        else:
            start = self._good_start(text, low, before.end)
        start = _skip_blanks(text, start, before.end)
        return start if start < before.end else piece.start

    def _good_start(self, text: str, low: int, end: int) -> int:
        if text[low - 1] == "\n":
            return low
        window = text[low:end]
        for pattern in (_LINE, _SENTENCE, _CLAUSE) if self._any_separator is None else (self._any_separator,):
            if (match := pattern.search(window)) and match.end() < len(window):
                return low + match.end()
        return _word_start(text, low, end)


class _Ruler:
    """Lengths of stretches of one text. A token counts for a stretch when any part of it lies inside."""

    def __init__(self, text: str, unit: Unit) -> None:
        self.text = text
        self._starts: array[int] | None = None
        if unit == "tokens":
            self._starts = array("i", map(itemgetter(0), token_spans(text)))

    def reach(self, start: int, limit: int) -> int:
        """The furthest end for which `start` to there measures at most `limit`."""
        if self._starts is None:
            return min(start + limit, len(self.text))
        first = bisect_left(self._starts, start)
        # Whatever is no white space is part of a token: this one may have begun before.
        if start < len(self.text) and not self.text[start].isspace() and self._token(first) != start:
            first -= 1
        return self._token(first + limit)

    def back(self, end: int, limit: int) -> int:
        """The earliest start from which up to `end` measures at most `limit`."""
        if self._starts is None:
            return max(end - limit, 0)
        return self._token(max(0, bisect_left(self._starts, end) - limit))

    def _token(self, number: int) -> int:
        """Where a token starts, or the end of the text where there are not so many."""
        starts = self._starts or ()
        return starts[number] if number < len(starts) else len(self.text)


# -------------------------------------------------------------------------------------------- separators


def _cutting(pattern: re.Pattern[str]) -> Cuts:
    """Cut behind every match."""
    return lambda text, start, end: [match.end() for match in pattern.finditer(text, start, end)]


_NATURAL: Final = tuple(map(_cutting, (_PARAGRAPH, _LINE, _SENTENCE, *_CLAUSES)))


def _levels(separators: Sequence[str | Sequence[str]]) -> list[re.Pattern[str]]:
    """One pattern per level. Words and characters, often written as " " and "", come last in any case."""
    if isinstance(separators, str):
        raise SettingError(f'chunk.separators must be a list such as ["\\n\\n", "。"], got {separators!r}')
    levels = []
    for level in separators:
        group = [level] if isinstance(level, str) else level
        if not isinstance(group, list | tuple) or not all(isinstance(separator, str) for separator in group):
            raise SettingError(f"chunk.separators must hold strings or lists of strings, got {level!r}")
        if escaped := [re.escape(separator) for separator in group if separator.strip(" ")]:
            levels.append(re.compile("|".join(escaped)))
    return levels


def _word_end(text: str, start: int, limit: int) -> int:
    """The end of the last whole word at or before `limit`, or the limit where a word is longer than any."""
    if text[limit].isspace() or text[limit - 1].isspace():
        return limit
    tail = text[max(start + 1, limit - _MAX_WORD_CHARS) : limit]
    blank = max(tail.rfind(" "), tail.rfind("\n"), tail.rfind("\t"))
    if blank >= 0:
        return limit - len(tail) + blank + 1
    cut = limit
    while cut > limit - len(tail) and _in_word(text, cut):
        cut -= 1
    cut = limit if _in_word(text, cut) else cut
    lowest = max(start + 1, cut - _MAX_CLUSTER_CHARS)
    whole = next((place for place in range(cut, lowest - 1, -1) if not _in_cluster(text, place)), cut)
    return max(whole, start + 1)


def _word_start(text: str, low: int, end: int) -> int:
    """The first start of a word at or after `low`, or `low` where a word is longer than any."""
    blanks = _BLANKS.search(text, low, min(end, low + _MAX_WORD_CHARS))
    if blanks and text[low : blanks.start()].isascii():
        return blanks.end() if _in_word(text, low) else low
    for start in range(low, min(end, low + _MAX_WORD_CHARS)):
        if not _in_word(text, start) and not _in_cluster(text, start):
            return start
    return low


def _in_word(text: str, place: int) -> bool:
    """Whether the characters on both sides belong to one word of a script that has spaces."""
    before, after = text[place - 1], text[place]
    if is_cjk(before) or is_cjk(after):
        return False
    return not before.isspace() and not after.isspace() and (before.isalnum() or after.isalnum())


def _in_cluster(text: str, place: int) -> bool:
    """Whether both sides are drawn as one: a letter and its marks, the parts of an emoji."""
    before, after = text[place - 1], text[place]
    return _JOINER in (before, after) or unicodedata.category(after) in ("Mn", "Mc", "Me", "Sk")


# ----------------------------------------------------------------------------------------------- regions


class _Region(NamedTuple):
    """A stretch under one heading; up to `body` it is headings."""

    start: int
    end: int
    body: int
    path: str


def _regions(document: Document) -> Iterator[_Region]:
    """The text by section, a heading that has nothing under it together with what follows."""
    text = document.text
    bare: _Region | None = None
    bare_until = 0
    for start, end, sections in _segments(document):
        path = sections[-1].path if sections else ""
        body = _body_start(text, start, end) if sections and sections[-1].span.start == start else start
        if bare is not None and start >= bare_until:
            yield bare
            bare = None
        region = _Region(start if bare is None else bare.start, end, body, path)
        if body < end:
            yield region
            bare = None
        else:
            bare, bare_until = region, sections[-2].span.end if len(sections) > 1 else len(text)
    if bare is not None:
        yield bare


def _segments(document: Document) -> Iterator[tuple[int, int, list[Section]]]:
    """The text between any two section boundaries, with the sections it is in from the outermost."""
    waiting = sorted(document.structure, key=lambda section: (section.span.start, -section.span.end), reverse=True)
    edges = {0, len(document.text), *(edge for section in document.structure for edge in section.span)}
    inside: list[Section] = []
    for start, end in pairwise(sorted(edges)):
        while inside and inside[-1].span.end <= start:
            inside.pop()
        while waiting and waiting[-1].span.start <= start:
            inside.append(waiting.pop())
        if _skip_blanks(document.text, start, end) < end:
            yield start, end, inside


def _body_start(text: str, start: int, end: int) -> int:
    """The first character after the heading at `start`, its underline and blanks; `end` if there is none."""
    start = _skip_blanks(text, start, end)
    newline = text.find("\n", start, end)
    if newline < 0:
        return end
    underline = _UNDERLINE.match(text, newline + 1, end)
    after = underline.end() if underline else newline + 1
    return _skip_blanks(text, after, end)


def _visible(region: _Region, hidden: tuple[Span, ...]) -> Iterator[_Region]:
    """The region without what is hidden, in as many parts as that leaves."""
    start = region.start
    for gap in hidden[bisect_right(hidden, start, key=lambda span: span.end) :]:
        if gap.start >= region.end:
            break
        if gap.start > start:
            yield region._replace(start=start, end=gap.start)
        start = max(start, gap.end)
    if start < region.end:
        yield region._replace(start=start)


# ------------------------------------------------------------------------------------------------ chunks


def _chunk(document: Document, span: Span, path: str, blocks: list[Block]) -> Chunk:
    text = document.text[span.start : span.end]
    kind: Kind = "prose"
    header = ""
    place = bisect_right(blocks, span.start, key=lambda block: block.span.end)
    while place < len(blocks) and blocks[place].span.start < span.end:
        block = blocks[place]
        # Of what most of it is made.
        if 2 * (min(span.end, block.span.end) - max(span.start, block.span.start)) > span.end - span.start:
            kind = block.kind
        if block.kind == "table" and block.span.start < span.start:
            header = document.text[block.span.start : document.text.find("\n", *block.span)].strip()
        place += 1
    cleaned = clean(text, kind)
    indexed = "\n".join(part for part in (path, header, cleaned) if part)
    return Chunk(
        span=span,
        text=text,
        index_text="" if indexed == text else indexed,
        section=path,
        pages=_pages(document.page_starts, span),
        kind=kind,
    )


def _pages(starts: tuple[int, ...], span: Span) -> tuple[int, ...]:
    if not starts:
        return ()
    first, last = bisect_right(starts, span.start), bisect_left(starts, span.end)
    return tuple(range(max(first, 1), max(last, 1) + 1))


def _skip_blanks(text: str, start: int, end: int) -> int:
    blanks = _BLANKS.match(text, start, end)
    return start if blanks is None else blanks.end()


def _trimmed(text: str, start: int, end: int) -> Span:
    """Without the white space at either end."""
    start = _skip_blanks(text, start, end)
    if start < end and text[end - 1].isspace():
        end = start + len(text[start:end].rstrip())
    return Span(start, end)
