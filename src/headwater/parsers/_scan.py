"""Source code of languages with braces, with `end`, and SQL -> its types and functions with their places.

Strings and comments are blanked out first; then every brace is looked at once, together with the words before it, so
that a file costs no more than its length. What a function defines inside itself belongs to the function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from headwater.parsers._languages import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A type or a function: whole lines `[start, end)`, its first line without what is behind it, and its depth."""

    name: str
    level: int
    start: int
    end: int
    header: str
    container: bool = False  # a type: what is inside has names of its own
    owner: str = ""  # the type that it says it belongs to, where it stands outside of it


_SIGNS: Final = re.compile(r"[{}();]")
# Before a brace stand so many characters of a definition at most; more is a table or a generated file.
_MAX_HEADER_CHARS: Final = 4_000
_MAX_SHOWN_CHARS: Final = 300
_ATTRIBUTES: Final = re.compile(r"@[\w.]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?|^\s*\[[^\[\]]*\]", re.MULTILINE)
_MARKERS: Final = ("@", "#[", "[", "template")
_LABELS: Final = re.compile(r"\b(?:public|private|protected|signals|slots|default|case\s+[^:]{1,80})\s*:(?!:)")
_CALLED: Final = re.compile(
    r"((?:[A-Za-z_$][\w$]*(?:<[^<>(){}]{0,80}>)?::)*~?[A-Za-z_$][\w$]*)\s*(?:<[^<>(){}]{0,80}>\s*)?\("
)
_CONTROL: Final = frozenset(
    "if for while switch catch else do try return synchronized using lock fixed foreach unless when with until sizeof "
    "elseif elif finally match select defer go guard repeat new throw await yield typeof and or not in".split()
)
_SEEN: Final = re.compile(r"[^\n]")
_END: Final = re.compile(r"[ \t]*end\b")


@cache
def _pattern(written: str) -> re.Pattern[str]:
    return re.compile(written)


def line_starts(text: str) -> list[int]:
    """Where each line starts."""
    return [0, *(found.end() for found in re.finditer("\n", text))]


def masked(text: str, language: Language) -> str:
    """The text with strings, comments and directives blanked out; every newline and offset stays."""
    return _pattern(language.quiet).sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    return _SEEN.sub(" ", found[0])


def scan(text: str, language: Language) -> list[Part]:
    """The parts in the order of the text."""
    quiet = masked(text, language)
    if language.statements is not None:
        return _statements(text, quiet, _pattern(language.statements))
    if language.blocks is not None:
        return _by_end(text, quiet, _pattern(language.blocks))
    return _Braces(text, quiet, language).parts()


@dataclass(slots=True)
class _Open:
    """A brace that is not closed yet, and what it opened, if anything with a name."""

    part: int = -1
    container: bool = False
    opaque: bool = False
    named: int = 0  # how many of those around it and it itself have a name
    boundary: int = -1  # for one between parentheses: where the words began that go on behind it
    depth: int = 0


class _Braces:
    def __init__(self, text: str, quiet: str, language: Language) -> None:
        self.text, self.quiet, self.language = text, quiet, language
        self.found: list[Part] = []

    def parts(self) -> list[Part]:
        opened: list[_Open] = []
        ends: dict[int, int] = {}
        boundary, depth = 0, 0
        for sign in _SIGNS.finditer(self.quiet):
            kind, place = sign[0], sign.start()
            if kind in "()":
                depth = max(0, depth + (1 if kind == "(" else -1))
            elif kind == ";":
                boundary = boundary if depth else place + 1
            elif kind == "{":
                within = _Open(opaque=True, boundary=boundary, depth=depth)
                opened.append(within if depth else self._opened(boundary, place, opened))
                boundary, depth = place + 1, 0
            elif opened:
                closed = opened.pop()
                if closed.part >= 0:
                    ends[closed.part] = self._line_end(place)
                boundary, depth = (place + 1, 0) if closed.boundary < 0 else (closed.boundary, closed.depth)
        # A brace that is never closed reaches to the end, or to what follows beside it.
        return _apart([_with_end(part, ends.get(place, len(self.text))) for place, part in enumerate(self.found)])

    def _opened(self, boundary: int, place: int, opened: list[_Open]) -> _Open:
        if opened and opened[-1].opaque:
            return _Open(opaque=True)
        boundary = max(boundary, place - _MAX_HEADER_CHARS)
        words = self.quiet[boundary:place]
        inside = opened[-1].named if opened else 0
        named = self._named(words, in_type=bool(opened) and opened[-1].container)
        if named is None:
            return _Open(opaque=_is_control(words), named=inside)
        name, owner, container, offset = named
        start = self._first_line(boundary + offset)
        header = " ".join(self.text[boundary + offset : place].split())[:_MAX_SHOWN_CHARS]
        self.found.append(
            Part(name=name, level=inside + 1, start=start, end=start, header=header, container=container, owner=owner)
        )
        return _Open(len(self.found) - 1, container, not container, named=inside + 1)

    def _named(self, words: str, *, in_type: bool) -> tuple[str, str, bool, int] | None:
        """What the words before a brace define: its name, its owner, whether a type, and where they begin."""
        types = list(_pattern(self.language.types).finditer(words))
        functions = list(_pattern(self.language.functions).finditer(words)) if self.language.functions else []
        last = max([*types, *functions], key=re.Match.start, default=None)
        if last is not None and not (last in types and self._is_value(last, words)):
            groups = last.groupdict()
            name = next(groups[key] for key in ("name", "variable", "target") if groups.get(key))
            return name.strip(), (groups.get("owner") or "").strip(), last in types, last.start() + _blanks(last[0])
        if self.language.methods is not None and in_type:
            for found in _pattern(self.language.methods).finditer(words):
                if found["name"] not in _CONTROL:
                    return found["name"], "", False, found.start() + _blanks(found[0])
        return self._called(words) if self.language.plain_functions else None

    def _is_value(self, found: re.Match[str], words: str) -> bool:
        """Whether `struct name` is only the type of a variable or of what a function gives back."""
        word = found[0].split()[-2] if len(found[0].split()) > 1 else ""
        rest = words[found.end() :]
        return self.language.directives and word in ("struct", "union", "enum") and ("=" in rest or "(" in rest)

    def _called(self, words: str) -> tuple[str, str, bool, int] | None:
        """`type name(parameters)`: a function in languages that have no word for one."""
        words = _LABELS.sub(_blank, words)
        bare = _ATTRIBUTES.sub(_blank, words)
        found = _CALLED.search(bare)
        if found is None or "=" in bare[: found.start()]:
            return None
        before = bare[: found.start()].split()
        path = [part.partition("<")[0] for part in found[1].split("::")]
        if path[-1] in _CONTROL or any(word in _CONTROL for word in before):
            return None
        # A name alone is a macro, unless it says what it belongs to or is written as constructors are.
        if not before and len(path) == 1 and not path[0][:1].isupper():
            return None
        return path[-1], "::".join(path[:-1]), False, _blanks(words)

    def _first_line(self, place: int) -> int:
        """The start of the line, or of the comments and attributes right above it."""
        start = self.text.rfind("\n", 0, place) + 1
        while start > 0:
            above = self.text.rfind("\n", 0, start - 1) + 1
            line, quiet = self.text[above : start - 1], self.quiet[above : start - 1]
            directive = self.language.directives and line.lstrip().startswith("#")
            attribute = line.lstrip().startswith(_MARKERS) and not line.rstrip().endswith(("{", "}", ";", ","))
            if not line.strip() or directive or (quiet.strip() and not attribute):
                break
            start = above
        return start

    def _line_end(self, place: int) -> int:
        end = self.text.find("\n", place)
        return len(self.text) if end < 0 else end + 1


def _blanks(words: str) -> int:
    return len(words) - len(words.lstrip())


def _is_control(words: str) -> bool:
    return any(word in _CONTROL for word in re.findall(r"[a-z]+", words))


def _with_end(part: Part, end: int) -> Part:
    return Part(
        name=part.name,
        level=part.level,
        start=part.start,
        end=end,
        header=part.header,
        container=part.container,
        owner=part.owner,
    )


def _apart(parts: list[Part]) -> list[Part]:
    """Parts that lie inside one another or apart: of several on one line only the first is kept."""
    kept: list[Part] = []
    open_ones: list[Part] = []
    for part in parts:
        while open_ones and open_ones[-1].end <= part.start:
            open_ones.pop()
        if open_ones and (part.start <= open_ones[-1].start or part.end > open_ones[-1].end):
            continue
        if kept and not open_ones and part.start < kept[-1].end:
            continue
        kept.append(part)
        open_ones.append(part)
    return kept


def _by_end(text: str, quiet: str, definition: re.Pattern[str]) -> list[Part]:
    """Languages whose blocks close with `end` at the indentation they were opened at."""
    starts = line_starts(text)
    lines, silent = text.split("\n"), quiet.split("\n")
    closing: dict[int, list[int]] = {}
    for number, line in enumerate(silent):
        if _END.match(line):
            closing.setdefault(_blanks(line), []).append(number)
    parts: list[Part] = []
    open_ones: list[tuple[int, bool]] = []
    passed: dict[int, int] = {}
    for number, line in enumerate(silent):
        found = definition.match(line)
        if found is None:
            continue
        while open_ones and open_ones[-1][0] < number:
            open_ones.pop()
        if not all(container for _, container in open_ones):
            continue
        indent = _blanks(line)
        ends = closing.get(indent, [])
        place = passed.get(indent, 0)
        while place < len(ends) and ends[place] < number:
            place += 1
        passed[indent] = place
        last = ends[place] if place < len(ends) else len(lines) - 1
        if open_ones and last > open_ones[-1][0]:
            continue
        first = number
        while first > 0 and lines[first - 1].strip() and not silent[first - 1].strip():
            first -= 1
        container = found["kind"] in ("class", "module")
        parts.append(
            Part(
                name=found["name"],
                level=len(open_ones) + 1,
                start=starts[first],
                end=starts[last + 1] if last + 1 < len(starts) else len(text),
                header=lines[number].strip()[:_MAX_SHOWN_CHARS],
                container=container,
            )
        )
        open_ones.append((last, container))
    return _apart(parts)


def _statements(text: str, quiet: str, statement: re.Pattern[str]) -> list[Part]:
    """SQL: what is created, each up to its semicolon, or for what holds statements itself up to the next one."""
    found = list(statement.finditer(quiet))
    parts: list[Part] = []
    for place, one in enumerate(found):
        start = text.rfind("\n", 0, one.start()) + 1
        following = text.rfind("\n", 0, found[place + 1].start()) + 1 if place + 1 < len(found) else len(text)
        end = following
        if one["kind"].lower() not in ("function", "procedure", "trigger", "package", "event"):
            semicolon = quiet.find(";", one.end(), following)
            line = text.find("\n", semicolon) if semicolon >= 0 else -1
            end = min(line + 1, following) if line >= 0 else following
        name = text[one.start("name") : one.end("name")].strip('`"[]')
        header = text[one.start() : one.end()]
        if end > start:
            parts.append(Part(name=name, level=1, start=start, end=end, header=" ".join(header.split())))
    return _apart(parts)
