"""Rich text (RTF) -> a draft: paragraphs, headings by outline level, tables, notes, and the title it says it has.

One pass over the control words with a stack of groups. What a group holds that is no text (fonts, colours, pictures,
styles) is skipped by its name; unknown groups that say they may be skipped are.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace
from typing import Final

from headwater.parsers._draft import Draft, one_line
from headwater.parsers._raised import power_of
from headwater.parsers._rows import Tables, write_table
from headwater.types import Span

_TOKEN: Final = re.compile(
    rb"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z'])|([{}])|[\r\n]+|([^\\{}\r\n]+)", re.DOTALL
)
_SKIPPED: Final = frozenset(
    b"fonttbl colortbl stylesheet pict object themedata colorschememapping datastore listtable listoverridetable "
    b"rsidtbl generator header headerl headerr headerf footer footerl footerr footerf fldinst xmlnstbl latentstyles "
    b"operator revtbl filetbl mmathPr bkmkstart bkmkend nonshppict template company".split()
)
_SIGNS: Final = {
    **{b"tab": "\t", b"line": "\n", b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’", b"bullet": "•"},
    **{b"ldblquote": "“", b"rdblquote": "”", b"emspace": " ", b"enspace": " "},
}
_SYMBOLS: Final = {b"~": "\xa0", b"_": "-", b"\\": "\\", b"{": "{", b"}": "}"}
# Character sets of fonts, where they are not the code page of the file.
_CHARSETS: Final = {
    128: "cp932",
    129: "cp949",
    134: "gb18030",
    136: "big5hkscs",
    204: "cp1251",
    161: "cp1253",
    238: "cp1250",
}
_LAYOUT: Final = frozenset(b"par pard sect page outlinelevel intbl cell nestcell row nestrow".split())
_MAX_DEPTH: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Group:
    skipped: bool = False
    target: str = ""  # "", title, author, keywords: where its words go
    encoding: str = "cp1252"
    unicode_skip: int = 1
    font_table: bool = False
    raised: bool = False
    note: bool = False


@dataclass(slots=True)
class RichTextReader:
    """Writes one document into a draft."""

    data: bytes
    draft: Draft
    said: dict[str, str] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    torn: bool = False
    _group: _Group = _Group()
    _stack: list[_Group] = field(default_factory=list)
    _words: list[str] = field(default_factory=list)
    _bytes: bytearray = field(default_factory=bytearray)
    _fonts: dict[int, str] = field(default_factory=dict)
    _font: int = 0
    _skip: int = 0
    _level: int = 0
    _row: list[str] = field(default_factory=list)
    _rows: list[list[str]] = field(default_factory=list)
    _in_table: bool = False
    _page: str = "cp1252"
    _outer: list[list[str]] = field(default_factory=list)  # the words around a note that is being read
    _notes: list[tuple[str, bool]] = field(default_factory=list)  # those to write, and whether they stand in a table
    _noted: int = 0

    def read(self) -> None:
        """Write all of it."""
        starred = False
        for found in _TOKEN.finditer(self.data):
            word, number, code, symbol, brace, text = found.groups()
            if brace:
                self._brace(brace)
            elif word is not None:
                self._word(word, None if number is None else int(number), starred)
            elif code is not None:
                self._byte(bytes((int(code, 16),)))
            elif symbol is not None:
                if symbol == b"*":
                    starred = True
                    continue
                self._sign(_SYMBOLS.get(symbol, "\n" if symbol in (b"\r", b"\n") else ""))
            elif text is not None:
                self._byte(text)
            starred = False
        if self._outer:
            self._end_note()
        self._paragraph()
        self._end_table()
        self.torn = bool(self._stack)

    def _brace(self, brace: bytes) -> None:
        self._flush()
        if brace == b"{":
            if len(self._stack) < _MAX_DEPTH:
                self._stack.append(self._group)
        elif self._stack:
            if self._group.target and self._group.target != self._stack[-1].target:
                self.said[self._group.target] = one_line("".join(self._words))
                self._words.clear()
            if self._group.note and not self._stack[-1].note:
                self._end_note()
            self._group = self._stack.pop()

    def _word(self, word: bytes, number: int | None, starred: bool) -> None:
        self._flush()
        if word in _SKIPPED or (starred and word not in (b"shptxt", b"shpinst")):
            self._group = replace(self._group, skipped=True, font_table=word == b"fonttbl")
        elif word in (b"title", b"author", b"keywords", b"subject") and not self._group.skipped:
            self._words.clear()
            self._group = replace(self._group, target=word.decode())
        elif word == b"footnote" and not self._group.skipped and not self._group.note:
            self._outer.append(self._words)
            self._words = []
            self._group = replace(self._group, note=True, raised=False)
        elif word == b"ansicpg" and number is not None:
            self._page = _known(f"cp{number}", "cp1252")
            self._group = replace(self._group, encoding=self._page)
        elif word == b"f" and number is not None:
            self._font = number
            self._group = replace(self._group, encoding=self._fonts.get(number, self._page))
        elif word == b"fcharset" and number is not None and self._group.font_table:
            if number in _CHARSETS:
                self._fonts[self._font] = _CHARSETS[number]
        elif word == b"uc":
            self._group = replace(self._group, unicode_skip=max(0, min(number or 0, 8)))
        elif word == b"u" and number is not None:
            self._unicode(number)
        elif not self._group.skipped:
            self._layout(word, number)

    def _layout(self, word: bytes, number: int | None) -> None:
        if word in (b"super", b"up", b"nosupersub", b"sub", b"plain"):
            raised = word in (b"super", b"up") and number != 0
            self._group = replace(self._group, raised=raised)
        elif self._group.note and word in _LAYOUT:
            self._words.append(" ")  # what a note is made of ends nothing around it
        elif word in (b"par", b"sect", b"page"):
            self._paragraph()
        elif word == b"pard":
            self._level, self._in_table = 0, False
        elif word == b"outlinelevel" and number is not None:
            self._level = number + 1 if 0 <= number < 9 else 0
        elif word == b"intbl":
            self._in_table = True
        elif word in (b"cell", b"nestcell"):
            self._row.append(one_line("".join(self._words)))
            self._words.clear()
        elif word in (b"row", b"nestrow"):
            self._rows.append(self._row)
            self._row = []
        elif word in _SIGNS:
            self._words.append(_SIGNS[word])

    def _unicode(self, number: int) -> None:
        if not self._group.skipped:
            # Numbers are signed; what lies beyond the first plane comes as two halves, joined in `_paragraph`.
            self._words.append(chr(number % 65_536))
        self._skip = self._group.unicode_skip

    def _byte(self, data: bytes) -> None:
        if self._skip:
            dropped = min(self._skip, len(data))
            self._skip -= dropped
            data = data[dropped:]
        if not self._group.skipped:
            self._bytes += data

    def _sign(self, sign: str) -> None:
        self._flush()
        if self._skip:
            self._skip -= 1
        elif not self._group.skipped:
            self._words.append(sign)

    def _flush(self) -> None:
        """Bytes are decoded together: a Chinese character is two of them."""
        if self._bytes:
            words = self._bytes.decode(self._group.encoding, "replace")
            self._words.append(power_of(words, self._words) if self._group.raised else words)
            self._bytes.clear()

    def _paragraph(self) -> None:
        self._flush()
        if self._in_table:
            self._words.append("\n")
            return
        self._end_table()
        words = _joined(self._words)
        self._words.clear()
        self._write_notes(self.draft.heading(words, self._level) if self._level else self.draft.paragraph(words))

    def _end_note(self) -> None:
        """Put its mark where the note hangs, and the note itself by."""
        words = one_line(_joined(self._words))
        self._words = self._outer.pop()
        if words:
            self._noted += 1
            self._words.append(f"[^{self._noted}]")
            self._notes.append((f"[^{self._noted}]: {words}", self._in_table))

    def _write_notes(self, about: Span | None, *, of_table: bool = False) -> None:
        for words, in_table in self._notes:
            if in_table is of_table:
                self.draft.block("note", words, about=about)
        self._notes = [note for note in self._notes if note[1] is not of_table]

    def _end_table(self) -> None:
        if self._row:
            self._rows.append(self._row)
            self._row = []
        if self._rows:
            before = len(self.draft.blocks)
            self.tables.add(write_table(self.draft, self._rows))
            self._rows = []
            table = next((block.span for block in self.draft.blocks[before:] if block.kind == "table"), None)
            self._write_notes(table, of_table=True)


def _joined(words: list[str]) -> str:
    """One text; characters beyond the first plane came in two halves."""
    return "".join(words).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _known(name: str, otherwise: str) -> str:
    try:
        codecs.lookup(name)
    except LookupError:
        return otherwise
    return "gb18030" if name == "cp936" else name
