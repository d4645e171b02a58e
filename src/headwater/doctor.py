"""A document and its chunks -> how much of the source can be found, and what is wrong with it and what would help.

`coverage` are measures: `score` is the share of the document that is there, readable and in a chunk, from 0 to 1.
`problems` are sentences for a person. Nothing is changed and nothing is read from outside; the work is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from headwater.filters import Value
from headwater.types import Chunk, Document, Section

Coverage = dict[str, Value]
Codes = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.intp]

# What a character is; accented letters also begin what Western mojibake is told by.
_PLAIN, _OTHER, _LATIN, _ACCENTED, _HAN, _KANA, _HANGUL, _STRANGE = range(8)
_BEYOND: Final = 0x10000  # what the table of kinds knows

# Reading a text in the wrong encoding leaves these: UTF-8 taken for Western text, and for GBK; and the traces of the
# programs that fill what they could not read. Each is rare where nothing went wrong.
_WESTERN: Final = re.compile(r"[ÃÂ][\u0080-\u00bf]|â€[\u0080-\u024f\u2000-\u2122]|ï»¿|ï¿½|[äåæçèé][\u0080-\u00bf]{2}")
_CHINESE: Final = ("锟斤拷", "烫烫烫", "屯屯屯", *"銆锛鐨鍦鏄鎴浠")
_GLYPH: Final = re.compile(r"\(cid:\d+\)|/g\d{2,5}(?=/g\d)")
# Encoded data and programs that were made small; no sentence has so many characters without a blank.
_ENDLESS: Final = re.compile(r"[!-~]{2000,}")
_ENDLESS_STEP: Final = 1000  # of any two thousand characters, some such stretch is whole among them
_ENGLISH: Final = re.compile(r"\b(?:the|of|and|to|in|is|for|that|with|are)\b", re.IGNORECASE)

# From here on a share is worth a sentence: fewer are accidents of any scan or export.
MAX_GARBLED_SHARE: Final = 0.005
MIN_GARBLED: Final = 3
MIN_IN_CHUNKS: Final = 0.98
MAX_EMPTY_SECTIONS_SHARE: Final = 0.3
MIN_EMPTY_SECTIONS: Final = 3
MAX_LOST_SHARE: Final = 0.3
MIN_LOST: Final = 5
# A passage so short says nothing unless something says what it belongs to: eight English words, thirteen Chinese signs.
SHORT_BYTES: Final = 40
# A Chinese character is about a word, and an English word about five letters.
LETTERS_PER_WORD: Final = 5
# Text in one language has some words of the other; below this share they do not count.
MIXED_SHARE: Final = 0.1
# Where fewer of the signs are letters that we can tell, it is in another script, or no language.
LETTERS_SHARE: Final = 0.2
# Enough to tell a language by.
_SAMPLE_CHARS: Final = 5_000
_ENGLISH_SHARE: Final = 0.02
_MAX_PAGES_NAMED: Final = 5
# A text is looked at in pieces: a character takes a dozen bytes on the way.
_PIECE_CHARS: Final = 1 << 20


def examine(document: Document, chunks: Sequence[Chunk]) -> tuple[Coverage, tuple[str, ...]]:
    """Measures and problems. What a parser has measured itself stands in `document.coverage` and is believed."""
    text = document.text
    counts, strange = _counted(text)
    coverage: Coverage = {"language": _language(text, counts)}
    problems: list[str] = []
    pages = _pages(document, coverage, problems)
    garbled = _garbled(document, strange, coverage, problems, accented=bool(counts[_ACCENTED]))
    in_chunks = _in_chunks(document, chunks, coverage, problems)
    _tables(document, coverage, problems)
    _sections(document, coverage, problems)
    _context(document, chunks, coverage, problems)
    if longest := _longest_run(text):
        coverage["longest_run"] = longest
        problems.append(
            f"it holds {longest:,} characters without a blank, encoded data or a program made small: "
            "they cannot be found by words; take them out if they are not meant to be read"
        )
    coverage["score"] = round(pages * (1 - garbled) * in_chunks, 4)
    return coverage, tuple(problems)


# ------------------------------------------------------------------------------------------------ language


def _language(text: str, kinds: Counts) -> str:
    """`zh`, `en`, `zh+en`, `ja`, `ko`, `latin` (another language in Latin letters), or `other`."""
    chinese, kana, hangul = (int(kinds[kind]) for kind in (_HAN, _KANA, _HANGUL))
    latin = int(kinds[_LATIN] + kinds[_ACCENTED])
    words = latin / LETTERS_PER_WORD
    everything = chinese + kana + hangul + words
    letters = chinese + kana + hangul + latin
    if not everything or letters < LETTERS_SHARE * (letters + int(kinds[_OTHER])):
        return "other"
    if kana > MIXED_SHARE * everything:
        return "ja"
    if hangul > MIXED_SHARE * everything:
        return "ko"
    if chinese <= MIXED_SHARE * everything:
        sample = text[:_SAMPLE_CHARS]
        return "en" if len(_ENGLISH.findall(sample)) > _ENGLISH_SHARE * len(sample.split()) else "latin"
    return "zh" if words <= MIXED_SHARE * everything else "zh+en"


def _counted(text: str) -> tuple[Counts, str]:
    """How many characters there are of each kind, and the first of the strange ones, as often as there are any."""
    counts = np.zeros(_STRANGE + 1, dtype=np.intp)
    strange = ""
    for start in range(0, len(text), _PIECE_CHARS):
        piece = text[start : start + _PIECE_CHARS]
        kinds = _kinds(np.frombuffer(piece.encode("utf-32-le", "surrogatepass"), dtype="<u4"))
        counts += np.bincount(kinds, minlength=_STRANGE + 1)
        if counts[_STRANGE] and not strange:
            strange = piece[int(np.argmax(kinds == _STRANGE))]
    return counts, strange * int(counts[_STRANGE])


def _kinds(codes: Codes) -> npt.NDArray[np.uint8]:
    """What every character is: one look into a table, for all measures at once."""
    if not len(codes) or int(codes.max()) < _BEYOND:
        return _table()[codes]
    kinds = _table()[np.minimum(codes, _BEYOND - 1)]
    kinds[codes >= _BEYOND] = _OTHER
    kinds[(codes >= 0x20000) & (codes <= 0x3FFFF)] = _HAN
    kinds[codes >= 0xF0000] = _STRANGE  # private use
    return kinds


@cache
def _table() -> npt.NDArray[np.uint8]:
    table = np.full(_BEYOND, _OTHER, dtype=np.uint8)
    table[:0x41] = _PLAIN
    for kind, ranges in {
        _LATIN: ((0x41, 0x5A), (0x61, 0x7A), (0xF0, 0x24F), (0xC0, 0xC1)),
        _ACCENTED: ((0xC2, 0xEF),),
        _HAN: ((0x3400, 0x9FFF),),
        _KANA: ((0x3040, 0x30FF),),
        _HANGUL: ((0xAC00, 0xD7AF),),
        # Control, halves of pairs, private use, replacements.
        _STRANGE: (
            (0x00, 0x08),
            (0x0B, 0x0B),
            (0x0E, 0x1F),
            (0x7F, 0x84),
            (0x86, 0x9F),
            (0xD800, 0xF8FF),
            (0xFFFD, 0xFFFF),
        ),
    }.items():
        for low, high in ranges:
            table[low : high + 1] = kind
    return table


# ------------------------------------------------------------------------------------------------- measures


def _pages(document: Document, coverage: Coverage, problems: list[str]) -> float:
    """The share of the pages that have text."""
    starts = document.page_starts
    if not starts:
        return 1.0
    ends = (*starts[1:], len(document.text))
    blank = [
        n for n, (start, end) in enumerate(zip(starts, ends, strict=True), 1) if not document.text[start:end].strip()
    ]
    coverage["pages"], coverage["pages_with_text"] = len(starts), len(starts) - len(blank)
    if blank and "pages_with_text" not in document.coverage:
        named = ", ".join(map(str, blank[:_MAX_PAGES_NAMED])) + (", ..." if len(blank) > _MAX_PAGES_NAMED else "")
        problems.append(
            f"{len(blank)} of {len(starts)} pages have no text ({named}): they are blank or pictures; "
            "for pictures install the extra `headwater[ocr]` and add the file again"
        )
    told = document.coverage.get("pages_with_text"), document.coverage.get("pages")
    with_text, pages = told if all(isinstance(n, int) for n in told) else (len(starts) - len(blank), len(starts))
    return float(with_text or 0) / float(pages or 1)


def _garbled(document: Document, strange: str, coverage: Coverage, problems: list[str], *, accented: bool) -> float:
    """The share of the characters that nobody can read. `strange` stands for those that no text has."""
    text, example, count = document.text, strange[:1], len(strange)
    patterns = [_GLYPH] if "(cid:" in text or "/g" in text else []
    if not text.isascii():
        # Counting a character is twenty times as fast as searching for a pattern, which few texts need.
        told = {sign: text.count(sign) for sign in _CHINESE}
        count += sum(len(sign) * times for sign, times in told.items())
        example = next((sign for sign, times in told.items() if times), example)
        if accented:
            patterns.append(_WESTERN)
    for pattern in patterns:
        hits = pattern.findall(text)
        count += sum(map(len, hits))
        example = hits[0] if hits else example
    share = count / max(1, len(text))
    if count:
        coverage["garbled"] = round(share, 4)
    if share > MAX_GARBLED_SHARE and count >= MIN_GARBLED:
        remedy = "save it as UTF-8" if document.mime.startswith("text/") else "export it anew with its fonts embedded"
        problems.append(
            f"{share:.1%} of its characters are garbled, such as {example!r}: what they stood for cannot be found; "
            f"{remedy}, or take it from another source"
        )
    return min(1.0, share)


def _in_chunks(document: Document, chunks: Sequence[Chunk], coverage: Coverage, problems: list[str]) -> float:
    """The share of what can be seen that is in a chunk."""
    text, hidden = document.text, sum(end - start for start, end in document.hidden)
    reached = missing = 0
    for start, end in [*sorted(chunk.span for chunk in chunks), (len(text), len(text))]:
        if start > reached:
            missing += _visible(document, reached, start)
        reached = max(reached, end)
    share = 1.0 - missing / max(1, len(text) - hidden)
    coverage["in_chunks"] = round(share, 4)
    if share < MIN_IN_CHUNKS:
        problems.append(
            f"{1 - share:.1%} of its text is in no passage and cannot be found; tell us, with the file if you can"
        )
    return share


def _visible(document: Document, start: int, end: int) -> int:
    """How many characters of a stretch are neither blank nor hidden."""
    text, hidden = document.text, document.hidden
    place, seen = start, 0
    # A document may have thousands of gaps and of hidden stretches: only those that meet are looked at.
    for number in range(bisect_right(hidden, start, key=lambda span: span.end), len(hidden)):
        if hidden[number].start >= end:
            break
        seen += sum(map(len, text[place : hidden[number].start].split()))
        place = max(place, hidden[number].end)
    return seen + sum(map(len, text[place:end].split()))


def _tables(document: Document, coverage: Coverage, problems: list[str]) -> None:
    tables = [block for block in document.blocks if block.kind == "table"]
    if not tables:
        return
    coverage["tables"] = len(tables)
    # In Markdown the row above the line of dashes is the header; there is no table without.
    headless = 0 if document.mime == "text/markdown" else sum(not block.header for block in tables)
    if headless:
        coverage["tables_without_header"] = headless
        problems.append(
            f"{headless} of {len(tables)} tables have no header: their rows are found without the names of the "
            "columns; name the columns in the first row"
        )


def _sections(document: Document, coverage: Coverage, problems: list[str]) -> None:
    if not document.structure:
        return
    coverage["sections"] = len(document.structure)
    # A function of one line is no heading.
    code = {block.span.start for block in document.blocks if block.kind == "code"}
    sections = [section for section in document.structure if section.span.start not in code]
    empty = [section for section in sections if _is_empty(document.text, section)]
    if empty:
        coverage["empty_sections"] = len(empty)
    if len(empty) >= MIN_EMPTY_SECTIONS and len(empty) > MAX_EMPTY_SECTIONS_SHARE * len(document.structure):
        problems.append(
            f"{len(empty)} of {len(document.structure)} sections have nothing under their heading, such as "
            f"{empty[0].title!r}: what was there may be pictures"
        )


def _longest_run(text: str) -> int:
    """The length of the longest stretch without a blank, of those that are no writing; 0 where there is none."""
    for start in range(0, len(text) - _ENDLESS_STEP, _ENDLESS_STEP):
        piece = text[start : start + _ENDLESS_STEP]
        if piece.isascii() and len(piece.split(None, 1)) == 1:
            return max((len(found) for found in _ENDLESS.findall(text)), default=0)
    return 0


def _is_empty(text: str, section: Section) -> bool:
    start, end = section.span
    below = text.find("\n", start, end)
    return below < 0 or not text[below : min(end, below + _SAMPLE_CHARS)].strip()


def _context(document: Document, chunks: Sequence[Chunk], coverage: Coverage, problems: list[str]) -> None:
    """Passages that are short and have nothing beside them that says what they belong to."""
    lost = sum(
        len(chunk.text) < SHORT_BYTES
        and len(chunk.text.encode("utf-8", "surrogatepass")) < SHORT_BYTES
        and not (chunk.section or chunk.index_text or chunk.parent)
        for chunk in chunks
    )
    if len(chunks) < 2 or not lost:
        return
    coverage["chunks_without_context"] = lost
    if lost >= MIN_LOST and lost > MAX_LOST_SHARE * len(chunks):
        problems.append(
            f"{lost} of {len(chunks)} passages are short and stand under no heading: they say little by themselves; "
            "give the document headings, or choose a larger chunk size"
        )
