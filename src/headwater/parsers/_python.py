"""Python source -> its classes and functions with their places, by the compiler's own reading of it.

A file that does not compile (an older Python, half an edit) is read by its indentation instead.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Final

from headwater.parsers._scan import Part, line_starts

_DEFINITION: Final = re.compile(r"([ \t]*)(?:async[ \t]+)?(def|class)[ \t]+(\w+)")
_DECORATOR: Final = re.compile(r"[ \t]*@")
_COMMENT: Final = re.compile(r"[ \t]*#")
_TAB_WIDTH: Final = 8


def python_parts(text: str) -> tuple[list[Part], bool]:
    """The parts in the order of the text, and whether the file compiles."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a stranger's program does wrong is not ours to say
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _by_indentation(text), False
    starts = line_starts(text)
    lines = text.split("\n")
    parts: list[Part] = []

    def visit(inside: ast.AST, level: int) -> None:
        for found in ast.iter_child_nodes(inside):
            if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)]) - 1
                first = _with_comments(lines, first)
                last = (found.end_lineno or found.lineno) - 1
                end = starts[last + 1] if last + 1 < len(starts) else len(text)
                parts.append(
                    Part(
                        name=found.name,
                        level=level,
                        start=starts[first],
                        end=end,
                        header=_signature(lines, found),
                        container=isinstance(found, ast.ClassDef),
                    )
                )
                # What a function defines inside itself is read with it.
                if isinstance(found, ast.ClassDef):
                    visit(found, level + 1)
            elif isinstance(found, ast.If | ast.Try | ast.With):
                visit(found, level)

    visit(tree, 1)
    return sorted(parts, key=lambda part: (part.start, -part.end)), True


def _signature(lines: list[str], found: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """From `def` to the colon, on one line."""
    last = found.body[0].lineno - 1 if found.body else found.lineno
    header = " ".join(line.strip() for line in lines[found.lineno - 1 : max(last, found.lineno)])
    depth = 0
    for place, sign in enumerate(header):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == ":" and depth == 0:
            return header[:place].rstrip()
    return header.rstrip(":").rstrip()


def _with_comments(lines: list[str], first: int) -> int:
    """The line of the comment right above a definition, else that of the definition."""
    while first > 0 and _COMMENT.match(lines[first - 1]):
        first -= 1
    return first


def _by_indentation(text: str) -> list[Part]:
    starts = line_starts(text)
    lines = text.split("\n")
    parts: list[Part] = []
    open_ones: list[tuple[int, bool]] = []  # the indentation of what is open, and whether it is a class
    for number, line in enumerate(lines):
        found = _DEFINITION.match(line)
        if found is None:
            continue
        indent = _width(found[1])
        while open_ones and open_ones[-1][0] >= indent:
            open_ones.pop()
        is_class = found[2] == "class"
        if all(above for _, above in open_ones):
            first = number
            while first > 0 and (_DECORATOR.match(lines[first - 1]) or _COMMENT.match(lines[first - 1])):
                first -= 1
            last = _last_line(lines, number, indent)
            end = starts[last + 1] if last + 1 < len(starts) else len(text)
            parts.append(
                Part(
                    name=found[3],
                    level=len(open_ones) + 1,
                    start=starts[first],
                    end=end,
                    header=line.strip().rstrip(":"),
                    container=is_class,
                )
            )
        open_ones.append((indent, is_class))
    return parts


def _last_line(lines: list[str], first: int, indent: int) -> int:
    """The last line that is indented deeper than a definition."""
    last = first
    for number in range(first + 1, len(lines)):
        line = lines[number]
        if not line.strip():
            continue
        if _width(line) <= indent and not line.lstrip().startswith((")", "]", "}", "#")):
            break
        last = number
    return last


def _width(line: str) -> int:
    return len(line.expandtabs(_TAB_WIDTH)) - len(line.expandtabs(_TAB_WIDTH).lstrip())
