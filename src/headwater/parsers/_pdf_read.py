"""A page of a PDF -> its words with place and font, the rules drawn on it, its links.

All through PDFium. It tells where text breaks; boxes are asked for the ends of words only, for each question costs.
"""

from __future__ import annotations

import ctypes
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from headwater.characters import composed
from headwater.parsers._pdf_shapes import CJK, UPRIGHT, Area, Line, Page, Word, is_raised, make_line
from headwater.parsers._raised import POWER_SIGN

# Device units per point: PDFium rounds to whole ones.
_PRECISION: Final = 100
_PROBE: Final = 1000.0
# PDFium puts this where a hyphen ends a line; then the next line follows without a break.
_HYPHEN: Final = "\ufffe"
_PIECE: Final = re.compile(rf"[^\s{_HYPHEN}\x00]+")
# Where the power of a figure may begin.
_MAYBE_POWER: Final = re.compile(r"(?<=\d)[-+−–]?\d")
_BREAK: Final = re.compile(r"[\r\n]")
_UNSEEN: Final = re.compile("[\x00-\x08\x0e-\x1f\x7f\xad\u200b\u200e\u200f\u2060\ufeff]")
# Ligatures, and radicals that some programs write in place of the ideographs: nobody would find them.
_FORMS: Final = re.compile("[\ufb00-\ufb06\u2f00-\u2fd5]")
# A gap of so many font sizes may be a gutter or the end of a cell; lines are joined again where it is not.
WIDE_GAP: Final = 1.0
# Share of the font size by which words of one line may stand higher or lower: superscripts.
_SAME_BASELINE: Final = 0.45
# Two characters one below the other are so many times higher than wide.
_TALL: Final = 1.5
# Text that leaves its direction by more than this, 15 degrees, is drawn across the page: a scan is never so crooked.
_SLANT: Final = 0.27
_ASLANT: Final = 4
# A drawn line is thinner than this, in points, and longer than that.
_THIN: Final = 2.5
_SHORTEST_RULE: Final = 4.0
# A path of more pieces is a drawing and no frame.
_MAX_PATH_PIECES: Final = 400
_MAX_FORM_DEPTH: Final = 3
# A page with more objects is a map or a plot: its rules are not looked at.
_MAX_OBJECTS: Final = 20_000
# An empty page may have these at its head and foot.
_FEW_RULES: Final = 4
_MAX_FONT_NAME: Final = 128
_FIXED_PITCH: Final = 1
_FORCE_BOLD: Final = 1 << 18
_BOLD_WEIGHT: Final = 600
# Hei is the sans face that Chinese typesetting uses for bold.
_BOLD_NAME: Final = re.compile(r"bold|black|heavy|demi(?!light)|simhei|heiti|-hei|黑体", re.IGNORECASE)
_MONO_NAME: Final = re.compile(r"mono|courier|consol|typewriter|menlo|cmtt|lmtt|nimbusmon", re.IGNORECASE)


class Turn(NamedTuple):
    """From the file's coordinates to those of the page as it is shown: x = a*x + c*y + e, y = b*x + d*y + f."""

    a: float
    b: float
    c: float
    d: float
    e: float
    f: float

    def area(self, left: float, bottom: float, right: float, top: float) -> Area:
        """A rectangle, turned."""
        xs = (self.a * left + self.c * bottom + self.e, self.a * right + self.c * top + self.e)
        ys = (self.b * left + self.d * bottom + self.f, self.b * right + self.d * top + self.f)
        return Area(min(xs), min(ys), max(xs), max(ys))


class _Piece(NamedTuple):
    """A word with the angle it is set at, before lines are made."""

    word: Word
    turn: int
    breaks: bool  # a line starts with it, PDFium says
    first: int  # the index of its first character, and of its last one
    last: int


def read_page(page: Any, number: int) -> Page:
    """What stands on a page (a `pypdfium2.PdfPage`). Raises PdfiumError where it cannot be read."""
    from pypdfium2 import raw

    width, height = page.get_size()
    turn = _shown(raw, page, width, height)
    textpage = page.get_textpage()
    try:
        pieces = list(_pieces(raw, textpage, turn))
        pieces = _set_downwards([piece for piece in _once(pieces) if _is_on_page(piece.word.area, width, height)])
        reading = _main_turn(pieces)
        fonts = _Fonts(raw, textpage)
        read = Page(number=number, width=width, height=height, turn=reading)
        upright = [piece for piece in pieces if piece.turn == reading]
        read.lines = [_finished(run, number, fonts) for run in _runs(upright, width, height, reading)]
        asides = [piece for piece in pieces if piece.turn != reading]
        read.asides = [_finished(run, number, fonts) for run in _aside_runs(asides)]
    finally:
        textpage.close()
    if not pieces:
        read.blank = not _is_drawn_on(raw, page)
    rules = _rules(raw, page, turn) if read.lines else ()
    links = _links(raw, page, turn) if read.lines else ()
    if reading != UPRIGHT:
        read.rules = [turned(area, reading, width=width, height=height) for area in rules]
        read.links = [(turned(area, reading, width=width, height=height), target) for area, target in links]
        if reading % 2:
            read.width, read.height = height, width
    else:
        read.rules, read.links = list(rules), list(links)
    return read


def turned(area: Area, turn: int, *, width: float, height: float) -> Area:
    """A rectangle of a page `width` x `height` as it is seen when the page is turned back by quarter turns."""
    left, top, right, bottom = area
    if turn == 1:  # the text runs downwards
        return Area(top, width - right, bottom, width - left)
    if turn == 2:
        return Area(width - right, height - bottom, width - left, height - top)
    if turn == 3:  # the text runs upwards
        return Area(height - bottom, left, height - top, right)
    return area


def turned_back(area: Area, page: Page) -> Area:
    """A rectangle of the page as it is read, on the page as it is shown."""
    # The page's own width and height are those it is read with; a turn the other way round undoes the first.
    return turned(area, -page.turn % 4, width=page.width, height=page.height)


def _shown(raw: Any, page: Any, width: float, height: float) -> Turn:
    """Rotation and crop box of the page, asked at three points."""
    size = (round(width * _PRECISION), round(height * _PRECISION))
    across, down = ctypes.c_int(), ctypes.c_int()

    def at(x: float, y: float) -> tuple[float, float]:
        raw.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        return across.value / _PRECISION, down.value / _PRECISION

    e, f = at(0.0, 0.0)
    a, b = at(_PROBE, 0.0)
    c, d = at(0.0, _PROBE)
    return Turn((a - e) / _PROBE, (b - f) / _PROBE, (c - e) / _PROBE, (d - f) / _PROBE, e, f)


def _characters(raw: Any, textpage: Any) -> str:
    """One character for each that PDFium counts, so that places in the text are its indexes."""
    count = textpage.count_chars()
    if count <= 0:
        return ""
    buffer = (ctypes.c_ushort * (count + 1))()
    got = raw.FPDFText_GetText(textpage, 0, count, buffer) - 1
    text = bytes(buffer)[: 2 * max(got, 0)].decode("utf-16-le", "surrogatepass")
    if len(text) == count and not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    # Characters without a meaning are left out of that text, and those beyond 16 bits count twice: one by one then.
    codes = (raw.FPDFText_GetUnicode(textpage, index) for index in range(count))
    return "".join(chr(code) if code < 0xD800 or 0xDFFF < code <= 0x10FFFF else "\ufffd" for code in codes)


def _pieces(raw: Any, textpage: Any, turn: Turn) -> Iterator[_Piece]:
    text = _characters(raw, textpage)
    box, matrix = raw.FS_RECTF(), raw.FS_MATRIX()
    loose, placed, sized = raw.FPDFText_GetLooseCharBox, raw.FPDFText_GetMatrix, raw.FPDFText_GetFontSize
    a, b, c, d, _e, f = turn
    upright = b == 0 and c == 0
    end = 0
    for found in _PIECE.finditer(text):
        start, before, end = found.start(), text[end : found.start()], found.end()
        if not loose(textpage, start, box):
            continue
        first = turn.area(box.left, box.bottom, box.right, box.top)
        if end - start > 1:
            loose(textpage, end - 1, box)
            last = turn.area(box.left, box.bottom, box.right, box.top)
            area = Area(
                min(first.left, last.left),
                min(first.top, last.top),
                max(first.right, last.right),
                max(first.bottom, last.bottom),
            )
        else:
            area = first
        placed(textpage, start, matrix)
        size = sized(textpage, start) * math.hypot(matrix.c, matrix.d)
        towards = _quarter(a * matrix.a + c * matrix.b, b * matrix.a + d * matrix.b)
        shown = found.group()
        if _MAYBE_POWER.search(shown):
            shown = _with_powers(raw, textpage, shown, first=start, turn=turn)
        words = composed(_FORMS.sub(_plain_form, _UNSEEN.sub("", shown)))
        if not words or not size or not math.isfinite(size):
            continue
        yield _Piece(
            Word(
                text=words,
                area=area,
                size=round(size * 4) / 4,  # rounding of the file's own is no other size
                baseline=d * matrix.f + f if upright else area.bottom,
                blank=" " in before and not raw.FPDFText_IsGenerated(textpage, start - 1),
                hyphen=text.startswith(_HYPHEN, end),
            ),
            towards,
            bool(_BREAK.search(before)) or _HYPHEN in before,
            start,
            end - 1,
        )


def _with_powers(raw: Any, textpage: Any, shown: str, *, first: int, turn: Turn) -> str:
    """The same with `^` in front of digits that are set higher than those before them: 10⁶ must not read 106."""
    matrix, across, up = raw.FS_MATRIX(), ctypes.c_double(), ctypes.c_double()

    def measured(index: int) -> tuple[float, float]:
        raw.FPDFText_GetMatrix(textpage, index, matrix)
        raw.FPDFText_GetCharOrigin(textpage, index, across, up)
        size = raw.FPDFText_GetFontSize(textpage, index) * math.hypot(matrix.c, matrix.d)
        return size, turn.b * across.value + turn.d * up.value + turn.f

    parts, done = [], 0
    for found in _MAYBE_POWER.finditer(shown):
        place = found.start()
        if is_raised(*measured(first + place), *measured(first + place - 1)):
            parts += [shown[done:place], POWER_SIGN]
            done = place
    return "".join((*parts, shown[done:]))


def _plain_form(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", found.group())


def _quarter(across: float, down: float) -> int:
    """How writing runs on the page as shown: 0 to the right, 1 downwards, 2 to the left, 3 upwards, 4 aslant."""
    if min(abs(across), abs(down)) > _SLANT * max(abs(across), abs(down)):
        return _ASLANT
    if abs(across) >= abs(down):
        return UPRIGHT if across >= 0 else 2
    return 1 if down > 0 else 3


def _once(pieces: list[_Piece]) -> Iterator[_Piece]:
    """Each word once: some programs draw it twice, a little apart, to make it bold."""
    seen: dict[str, Area] = {}
    for piece in pieces:
        area, before = piece.word.area, seen.get(piece.word.text)
        close = piece.word.size / 8
        if before is None or abs(before.left - area.left) > close or abs(before.top - area.top) > close:
            seen[piece.word.text] = area
            yield piece


def _is_on_page(area: Area, width: float, height: float) -> bool:
    return 0 <= area.centre <= width and 0 <= area.middle <= height


def _set_downwards(pieces: list[_Piece]) -> list[_Piece]:
    """On a page whose ideographs stand one below the other, the columns are lines, the first on the right.

    So it is as if the page were turned: all that is known of lines holds for them.
    """
    upright = [piece for piece in pieces if piece.turn == UPRIGHT]
    columns = {id(piece) for piece in upright if _is_column(piece.word)}
    in_columns = sum(len(piece.word.text) for piece in upright if id(piece) in columns)
    if in_columns * 2 <= sum(len(piece.word.text) for piece in upright):
        return pieces
    # A single character has no direction of its own.
    single = {id(piece) for piece in upright if len(piece.word.text) == 1}
    return [piece._replace(turn=1) if id(piece) in columns | single else piece for piece in pieces]


def _is_column(word: Word) -> bool:
    return len(word.text) > 1 and word.area.height > _TALL * word.area.width and CJK.match(word.text) is not None


def _main_turn(pieces: list[_Piece]) -> int:
    chars: Counter[int] = Counter()
    for piece in pieces:
        chars[piece.turn] += len(piece.word.text) * (piece.turn != _ASLANT)
    return max(chars, key=lambda turn: (chars[turn], -turn)) if any(chars.values()) else UPRIGHT


def _runs(pieces: list[_Piece], width: float, height: float, turn: int) -> Iterator[list[_Piece]]:
    """Words that follow each other on one line without a wide gap."""
    run: list[_Piece] = []
    for piece in pieces:
        word = piece.word
        if turn != UPRIGHT:
            word.area = turned(word.area, turn, width=width, height=height)
            word.baseline = word.area.bottom
        if run:
            before = run[-1].word
            size = max(word.size, before.size)
            follows = -size / 2 < word.area.left - before.area.right < WIDE_GAP * size
            if piece.breaks or not follows or abs(word.baseline - before.baseline) > _SAME_BASELINE * size:
                yield run
                run = []
        run.append(piece)
    if run:
        yield run


def _aside_runs(pieces: list[_Piece]) -> Iterator[list[_Piece]]:
    run: list[_Piece] = []
    for piece in pieces:
        if run and (piece.breaks or piece.turn != run[-1].turn):
            yield run
            run = []
        run.append(piece)
    if run:
        yield run


class _Fonts:
    """What the name of a font says about it, asked once per name."""

    def __init__(self, raw: Any, textpage: Any) -> None:
        self._raw, self._textpage = raw, textpage
        self._buffer = ctypes.create_string_buffer(_MAX_FONT_NAME)
        self._flags = ctypes.c_int()
        self._known: dict[tuple[bytes, int], tuple[bool, bool]] = {}

    def style(self, index: int) -> tuple[bool, bool]:
        """Whether a character is bold, and whether its font has one width for all."""
        self._raw.FPDFText_GetFontInfo(self._textpage, index, self._buffer, _MAX_FONT_NAME, self._flags)
        key = (self._buffer.value, self._flags.value)
        if key not in self._known:
            name, flags = key[0].decode("utf-8", "replace"), key[1]
            weight = self._raw.FPDFText_GetFontWeight(self._textpage, index)
            bold = bool(flags & _FORCE_BOLD) or weight >= _BOLD_WEIGHT or _BOLD_NAME.search(name) is not None
            mono = bool(flags & _FIXED_PITCH) or _MONO_NAME.search(name) is not None
            # Fonts of ideographs are of one width by nature and often say so.
            self._known[key] = (bold, mono and not re.search("cjk|song|ming|sun|hei|kai|fang|gothic", name.lower()))
        return self._known[key]


def _finished(run: list[_Piece], number: int, fonts: _Fonts) -> Line:
    for piece in run:
        bold, mono = fonts.style(piece.first)
        if (bold or mono) and piece.last > piece.first:
            # Ideographs follow a Latin word without a blank, in another font.
            last_bold, last_mono = fonts.style(piece.last)
            bold, mono = bold and last_bold, mono and last_mono
        piece.word.bold, piece.word.mono = bold, mono
    return make_line([piece.word for piece in run], number)


def _rules(raw: Any, page: Any, turn: Turn) -> list[Area]:
    """Straight lines: thin boxes, edges of frames, strokes."""
    found: list[Area] = []
    bounds = [ctypes.c_float() for _ in range(4)]
    count = raw.FPDFPage_CountObjects(page)
    if count > _MAX_OBJECTS:
        return []
    for index in range(count):
        item = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(item) == raw.FPDF_PAGEOBJ_PATH:
            _add_path(raw, item, turn, found, bounds)
        elif raw.FPDFPageObj_GetType(item) == raw.FPDF_PAGEOBJ_FORM:
            _add_form(raw, item, turn, found, bounds, depth=1)
    return found


def _is_drawn_on(raw: Any, page: Any) -> bool:
    """Whether a page without text shows something: a picture, or more than a rule or two."""
    count = raw.FPDFPage_CountObjects(page)
    if count > _FEW_RULES:
        return True
    kinds = (raw.FPDFPageObj_GetType(raw.FPDFPage_GetObject(page, index)) for index in range(count))
    return any(kind != raw.FPDF_PAGEOBJ_PATH for kind in kinds)


def _add_form(raw: Any, form: Any, turn: Turn, found: list[Area], bounds: list[ctypes.c_float], *, depth: int) -> None:
    """The rules of a drawing inside the page: its objects are told in its own coordinates."""
    matrix = raw.FS_MATRIX()
    count = raw.FPDFFormObj_CountObjects(form)
    if depth > _MAX_FORM_DEPTH or count > _MAX_OBJECTS or not raw.FPDFPageObj_GetMatrix(form, matrix):
        return
    inner = Turn(
        turn.a * matrix.a + turn.c * matrix.b,
        turn.b * matrix.a + turn.d * matrix.b,
        turn.a * matrix.c + turn.c * matrix.d,
        turn.b * matrix.c + turn.d * matrix.d,
        turn.a * matrix.e + turn.c * matrix.f + turn.e,
        turn.b * matrix.e + turn.d * matrix.f + turn.f,
    )
    for index in range(count):
        item = raw.FPDFFormObj_GetObject(form, index)
        kind = raw.FPDFPageObj_GetType(item)
        if kind == raw.FPDF_PAGEOBJ_PATH:
            _add_path(raw, item, inner, found, bounds)
        elif kind == raw.FPDF_PAGEOBJ_FORM:
            _add_form(raw, item, inner, found, bounds, depth=depth + 1)


def _add_path(raw: Any, path: Any, turn: Turn, found: list[Area], bounds: list[ctypes.c_float]) -> None:
    if not raw.FPDFPageObj_GetBounds(path, *bounds):
        return
    area = turn.area(*(bound.value for bound in bounds))
    if max(area.width, area.height) < _SHORTEST_RULE:
        return
    if min(area.width, area.height) <= _THIN:
        found.append(area)
        return
    fill, stroke = ctypes.c_int(), ctypes.c_int()
    count = raw.FPDFPath_CountSegments(path)
    if not raw.FPDFPath_GetDrawMode(path, fill, stroke) or not stroke.value or count > _MAX_PATH_PIECES:
        return
    matrix, x, y = raw.FS_MATRIX(), ctypes.c_float(), ctypes.c_float()
    raw.FPDFPageObj_GetMatrix(path, matrix)
    start = before = (0.0, 0.0)
    for index in range(count):
        piece = raw.FPDFPath_GetPathSegment(path, index)
        raw.FPDFPathSegment_GetPoint(piece, x, y)
        point = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        kind = raw.FPDFPathSegment_GetType(piece)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO:
            _add_stroke(turn, before, point, found)
        before = point
        if raw.FPDFPathSegment_GetClose(piece):
            _add_stroke(turn, before, start, found)
            before = start


def _add_stroke(turn: Turn, start: tuple[float, float], end: tuple[float, float], found: list[Area]) -> None:
    area = turn.area(*start, *end)
    if min(area.width, area.height) <= _THIN and max(area.width, area.height) >= _SHORTEST_RULE:
        found.append(area)


def _links(raw: Any, page: Any, turn: Turn) -> list[tuple[Area, str]]:
    """Addresses behind areas of the page."""
    found = []
    place, link, box = ctypes.c_int(0), raw.FPDF_LINK(), raw.FS_RECTF()
    while raw.FPDFLink_Enumerate(page, place, link):
        action = raw.FPDFLink_GetAction(link)
        if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
            continue
        size = raw.FPDFAction_GetURIPath(page.pdf, action, None, 0)
        buffer = ctypes.create_string_buffer(size)
        raw.FPDFAction_GetURIPath(page.pdf, action, buffer, size)
        target = buffer.value.decode("utf-8", "replace").strip()
        if target and raw.FPDFLink_GetAnnotRect(link, box):
            found.append((turn.area(box.left, box.bottom, box.right, box.top), target))
    return found
