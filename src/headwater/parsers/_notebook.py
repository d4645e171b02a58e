"""A Jupyter notebook -> a draft: its text with headings, its code, and what the code printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headwater.errors import SourceError
from headwater.parsers._draft import Draft, plain_lines
from headwater.types import Block

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*?)[ \t]*#*[ \t]*$")
_FENCE: Final = re.compile(r"[ \t]*(```|~~~)")
# What is printed beyond this is a log; its beginning says what it is.
_MAX_OUTPUT_CHARS: Final = 2_000
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def write_notebook(draft: Draft, text: str, uri: str) -> dict[str, int]:
    """Write the cells in order; return how many of each kind there are."""
    try:
        notebook = json.loads(text)
        cells = _cells(notebook)
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"cannot read {uri}: it is no Jupyter notebook ({error}); open it in Jupyter and save it again"
        ) from error
    counts = {"text_cells": 0, "code_cells": 0, "outputs_cut": 0}
    for cell in cells:
        source = plain_lines(_joined(cell.get("source", cell.get("input", ""))))
        if not source.strip():
            continue
        if cell.get("cell_type") == "code":
            counts["code_cells"] += 1
            draft.gap()
            first = next(line.strip() for line in source.split("\n") if line.strip())
            draft.blocks.append(Block(kind="code", span=draft.line(source), header=first))
            for output in _outputs(cell):
                shown = output[:_MAX_OUTPUT_CHARS]
                counts["outputs_cut"] += len(output) > len(shown)
                draft.block("code", shown)
        else:
            counts["text_cells"] += 1
            if cell.get("cell_type") == "heading":
                draft.heading(source, int(cell.get("level", 1)))
            else:
                _write_text(draft, source)
    return counts


def _cells(notebook: Any) -> list[Mapping[str, Any]]:
    if not isinstance(notebook, Mapping):
        raise ValueError("it is no object")
    cells = notebook.get("cells")
    if cells is None:
        # Before version 4 cells were on worksheets.
        sheets = notebook.get("worksheets") or []
        cells = [cell for sheet in sheets if isinstance(sheet, Mapping) for cell in sheet.get("cells", [])]
    if not isinstance(cells, list):
        raise ValueError("its cells are no list")
    return [cell for cell in cells if isinstance(cell, Mapping)]


def _joined(source: Any) -> str:
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


def _write_text(draft: Draft, source: str) -> None:
    fenced = False
    waiting: list[str] = []
    for line in source.split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        if found is None:
            waiting.append(line)
            continue
        draft.paragraph("\n".join(waiting))
        waiting = []
        draft.heading(found[2], len(found[1]))
    draft.paragraph("\n".join(waiting))


def _outputs(cell: Mapping[str, Any]) -> Iterator[str]:
    """What a cell shows as text; errors as their last line."""
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, Mapping):
            continue
        kind = output.get("output_type")
        data = output.get("data")
        if kind == "error":
            yield f"{output.get('ename', '')}: {output.get('evalue', '')}"
        elif kind == "stream":
            yield _COLOURS.sub("", plain_lines(_joined(output.get("text", ""))))
        elif isinstance(data, Mapping) and "text/plain" in data:
            yield _COLOURS.sub("", plain_lines(_joined(data["text/plain"])))
