"""A passage's text -> its statements: sentences, list items, table rows, lines of code and titles, each a slice of it.

A title is a line that names what follows and says nothing itself: a numbered heading, a line of a table of contents,
the way through a site's menu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from headwater.tokens import is_cjk, sentences

# A footnote's number after a full stop hides the sentence's end: "in 1990.[3] The next".
NOTE: Final = re.compile(r"\[\d{1,3}\]")
_LINE: Final = re.compile(r"[^\n]*\n?")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
HEADING: Final = re.compile(r"\s{0,3}#{1,6}\s+(?=\S)")
_ROW: Final = re.compile(r"\s*\|.*\|\s*$")
RULE: Final = re.compile(r"[\s|:=+*_-]+$")  # the line under a table's head, or between two parts
_BAR: Final = re.compile(r"(?<!\\)\|")
LEAST_COLUMNS: Final = 2
# A line of so many characters may have been broken by its width; a list of Chinese phrases has shorter ones.
_FULL_CHARS: Final = 25
_FULL_LETTERS: Final = 40
_ITEM: Final = re.compile(r"\s*(?:[-*+•·>]|\d{1,3}[.)、])\s+(?=\S)")
_UNDERLINE: Final = re.compile(r"\s{0,3}(?:=+|-{3,})\s*$")

# A longer line says something, whatever it begins with. Other scripts write about three characters for a Chinese one.
_TITLE_CHARS: Final = 30
_BARE_CHARS: Final = 15  # of a line that only stands apart
_NUMBERED: Final = re.compile(
    r"\d{1,2}(?:\.\d{1,2}){2,}\.?\s*\S|\d{1,2}\.\d{1,2}\.?\s+[A-Z\u4e00-\u9fff]|[IVX]{1,5}\.\s+[A-Z]|"
    r"第[一二三四五六七八九十百零〇\d]{1,4}[章节節篇编編部卷讲講]|附[录錄件]|"
    r"(?:Chapter|Section|Part|Appendix|Article)\s+(?:\d|[IVXA-Z]\b)"
)
# So numbered are headings, and the items of a list: those come one after the other.
_COUNTED: Final = re.compile(r"[（(]?[一二三四五六七八九十]{1,3}[、）)]")
# The title, then leaders, then its page.
_CONTENTS: Final = re.compile(r".{1,120}?(?:\.{4,}|(?:\. ){3,}|…{2,}|·{4,}|_{4,})\s*(?:\d{1,4}|[ivxlc]{1,6})\s*$")
# Short parts with the same signs between them, or a list of pages without an end.
_MENU: Final = re.compile(
    r"[^\W\d][^>»›|/→。，,.:：\d]{0,24}"
    r"(?:(?:\s*[>»›→]\s*|\s+[|/]\s+)[^>»›|/→。，,.:：\d]{1,25}){2,}$"
)
_LISTED: Final = re.compile(f"(?:{_CONTENTS.pattern}|{_MENU.pattern})")
_BOLD: Final = re.compile(r"(\*\*|__)[^*_]+\1:?$")
_ASKS: Final = ("?", "？", "?**", "？**")
_STATES: Final = re.compile(r"[。；！？!?;，,:：=…]|\.(?:\s|$)")  # what a line has that says something


class Statement(NamedTuple):
    """`text[start:end]`, under a heading or the head of a table (as a span of the same text) where there is one."""

    start: int
    end: int
    kind: Literal["sentence", "row", "code", "title"]
    heading: tuple[int, int] | None


def statements(text: str) -> list[Statement]:
    """In order, without overlap. Marked headings, heads of tables and rules are no statements."""
    found: list[Statement] = []
    heading: tuple[int, int] | None = None
    prose: int | None = None  # where the prose that is being read began
    head: tuple[int, int] | None = None  # of the table that is being read
    code = False

    def close(end: int) -> None:
        nonlocal prose
        if prose is not None:
            found.extend(Statement(*span, "sentence", heading) for span in _sentences(text, prose, end))
        prose = None

    for line in _LINE.finditer(text):
        start, end = _trim(text, *line.span())
        row = _ROW.match(line[0])
        head = head if row else None
        if _FENCE.match(line[0]):
            close(line.start())
            code = not code
        elif start == end:
            close(line.start())
        elif code:
            found.append(Statement(start, end, "code", heading))
        elif mark := HEADING.match(line[0]):
            close(line.start())
            heading = (line.start() + mark.end(), end)
        elif RULE.match(line[0]):
            close(line.start())
        elif row:
            close(line.start())
            if head is None and RULE.match(_next_line(text, line.end())):
                head = (start, end)
                continue
            head = head or (start, end)
            found.append(Statement(start, end, "row", head if head != (start, end) else heading))
        elif _is_title(text, line, apart=prose is None):
            close(line.start())
            found.append(Statement(start, end, "title", heading))
            heading = heading if _LISTED.match(line[0].strip()) else (start, end)
        elif mark := _ITEM.match(line[0]):
            close(line.start())
            prose = line.start() + mark.end()
        elif prose is None:
            prose = start
    close(len(text))
    return found


def _is_title(text: str, line: re.Match[str], *, apart: bool) -> bool:
    """Whether a line names what follows; `apart` is one with nothing right above it."""
    shown = line[0].strip()
    if _LISTED.match(shown):
        return True
    numbered = _NUMBERED.match(shown) or _COUNTED.match(shown)
    size = len(shown) if is_cjk(shown[-1:]) else len(shown) / 3
    if size > _TITLE_CHARS or not (apart or numbered):
        return False
    after = text[line.end() :]
    if shown.endswith(_ASKS):  # a question on a line of its own names what follows, which answers it
        answer = after.strip().partition("\n")[0].rstrip()
        return len(list(sentences(shown))) == 1 and answer != "" and not answer.endswith(_ASKS)
    if _STATES.search(shown, numbered.end() if numbered else 0):
        return _BOLD.match(shown) is not None
    if _COUNTED.match(shown):  # items of a list follow each other, or a colon
        listed = _COUNTED.match(after.lstrip()) or text[: line.start()].rstrip().endswith((":", "："))
        return after.strip() != "" and not listed
    marked = numbered or _BOLD.match(shown) or _UNDERLINE.match(_next_line(text, line.end()))
    # Without a mark: a line between two empty ones that has no number in it and is no item. More text has to come.
    alone = size <= _BARE_CHARS and not after.partition("\n")[0].strip() and after.strip() != ""
    return bool(marked) or (alone and not _ITEM.match(line[0]) and not any(map(str.isdigit, shown)))


def reading(text: str, statement: Statement) -> str:
    """A row of a table as it is read aloud, `column: cell; column: cell.`; empty for what has no named columns."""
    if statement.kind != "row" or statement.heading is None:
        return ""
    if not RULE.match(_next_line(text, text.find("\n", statement.heading[1]) + 1)):
        return ""  # the table's head is not here: the row above is one of its rows
    names, cells = _cells(text[slice(*statement.heading)]), _cells(text[statement.start : statement.end])
    if len(names) != len(cells) or len(cells) < LEAST_COLUMNS or not any(names):
        return ""
    chinese = any(map(is_cjk, "".join(names)))
    colon, between, end = ("：", "；", "。") if chinese else (": ", "; ", ".")
    said = between.join(
        f"{name}{colon}{cell}" if name else cell for name, cell in zip(names, cells, strict=True) if cell
    )
    return said if said.endswith((".", "。", "!", "?", "！", "？")) else said + end


def _cells(row: str) -> list[str]:
    return [" ".join(cell.split()) for cell in _BAR.split(row.strip().removeprefix("|").removesuffix("|"))]


def _next_line(text: str, start: int) -> str:
    line = _LINE.match(text, start)
    return line[0] if line and line[0].strip() else "."


def _sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    shown = NOTE.sub(lambda note: " " * len(note[0]), text[start:end])
    found: list[tuple[int, int]] = []
    for low, high in sentences(shown):
        if found and _wrapped(shown, found[-1][1], low):
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return ((start + low, start + high) for low, high in found)


def _wrapped(text: str, end: int, start: int) -> bool:
    """Whether a sentence that ends with its line goes on in the next: the line is full, and nothing closes it."""
    line = text[text.rfind("\n", 0, end) + 1 : end]
    last, following = line[-1:], text[start : start + 1]
    if text[end:start].count("\n") != 1:
        return False
    if is_cjk(last):
        return len(line) >= _FULL_CHARS and is_cjk(following)
    return len(line) >= _FULL_LETTERS and last.isalnum() and (following.isdigit() or following in '("“')


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end
