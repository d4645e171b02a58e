"""Source code and notebooks -> a document whose sections are types and functions, under paths such as `Class > method`.

`text` is the file itself. Python is read with its own parser, other languages by a scanner of braces, `end` and
statements; a file of a language without either is one piece of code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from headwater.clean import is_blank
from headwater.errors import EmptyDocument
from headwater.parsers._decode import decode
from headwater.parsers._draft import PATH_JOINT, Draft
from headwater.parsers._languages import LANGUAGES
from headwater.parsers._notebook import write_notebook
from headwater.parsers._python import python_parts
from headwater.parsers._scan import Part, scan
from headwater.types import Blob, Block, Document, Section, Span

_PYTHON: Final = "text/x-python"
_NOTEBOOK: Final = "application/x-ipynb+json"
# A description is a line; the rest of a docstring stays in the text.
_MAX_DESCRIPTION_CHARS: Final = 300
# No person nests types deeper; the path of each would grow with the depth.
_MAX_LEVELS: Final = 12


class CodeParser:
    """Reads programs."""

    mimes: frozenset[str] = frozenset({_PYTHON, _NOTEBOOK, *LANGUAGES})

    def parse(self, blob: Blob) -> Document:
        """Raises SourceError for what is not text and EmptyDocument for what holds none."""
        decoded = decode(blob.data, blob.uri)
        if is_blank(decoded.text):
            raise EmptyDocument(f"{blob.uri} holds no text: {len(blob.data)} bytes, nothing but blanks")
        if blob.mime == _NOTEBOOK:
            return _notebook(blob, decoded.text, decoded.problems)
        text = decoded.text
        problems = list(decoded.problems)
        description = ""
        if blob.mime == _PYTHON:
            parts, compiles = python_parts(text)
            description = _docstring(text) if compiles else ""
            if not compiles:
                problems.append("it does not compile with this Python; functions and classes are found by indentation")
        else:
            language = LANGUAGES.get(blob.mime)
            parts = scan(text, language) if language is not None else []
        parts = [part for part in parts if part.level <= _MAX_LEVELS]
        functions = sum(not part.container for part in parts)
        return Document(
            uri=blob.uri,
            text=text,
            title=PurePosixPath(blob.uri).name,
            description=description,
            content_type="code",
            mime=blob.mime or "text/plain",
            structure=tuple(_sections(parts)),
            blocks=tuple(_blocks(text, parts)),
            coverage={"functions": functions, "classes": len(parts) - functions},
            updated=blob.modified,
            problems=tuple(problems),
            meta=blob.meta,
        )


def _notebook(blob: Blob, text: str, problems: tuple[str, ...]) -> Document:
    draft = Draft()
    counts = write_notebook(draft, text, blob.uri)
    written = draft.text()
    if is_blank(written):
        raise EmptyDocument(f"{blob.uri} holds no text: a notebook without a cell that says anything")
    structure = draft.structure()
    cut = counts.pop("outputs_cut")
    return Document(
        uri=blob.uri,
        text=written,
        title=structure[0].title if structure else PurePosixPath(blob.uri).stem,
        content_type="code",
        mime=blob.mime,
        structure=structure,
        blocks=draft.in_order(),
        coverage=counts,
        updated=blob.modified,
        problems=(*problems, *([f"{cut} outputs are long and only their beginning is in the text"] if cut else [])),
        meta=blob.meta,
    )


def _sections(parts: list[Part]) -> Iterator[Section]:
    open_ones: list[tuple[Part, str]] = []
    for part in parts:
        while open_ones and open_ones[-1][0].end <= part.start:
            open_ones.pop()
        above = open_ones[-1][1] + PATH_JOINT if open_ones else ""
        # `Type::function` outside of the type belongs to it all the same.
        path = above + PATH_JOINT.join(filter(None, [part.owner.replace("::", PATH_JOINT), part.name]))
        yield Section(title=part.name, level=len(open_ones) + 1, path=path, span=Span(part.start, part.end))
        open_ones.append((part, path))


def _blocks(text: str, parts: list[Part]) -> Iterator[Block]:
    """Every stretch between two edges of parts, with the first line of the innermost part it is in."""
    edges = sorted({0, len(text), *(edge for part in parts for edge in (part.start, part.end))})
    waiting = list(reversed(parts))
    inside: list[Part] = []
    for start, end in pairwise(edges):
        while inside and inside[-1].end <= start:
            inside.pop()
        while waiting and waiting[-1].start <= start:
            inside.append(waiting.pop())
        stretch = text[start:end]
        stripped = stretch.rstrip()
        if not stripped:
            continue
        # Blank lines at the top belong to nothing; blanks in front of the first line are its indentation.
        skipped = stretch[: len(stretch) - len(stretch.lstrip())].rfind("\n") + 1
        header = inside[-1].header if inside else ""
        yield Block(kind="code", span=Span(start + skipped, start + len(stripped)), header=header)


def _docstring(text: str) -> str:
    """The first line of what a module says about itself."""
    try:
        said = ast.get_docstring(ast.parse(text)) or ""
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return said.strip().partition("\n")[0][:_MAX_DESCRIPTION_CHARS]
