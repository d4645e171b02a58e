"""The content of an ODS workbook -> its sheets and their rows. The file holds every cell's text as it is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headwater.parsers._column_names import Across
from headwater.parsers._package import Element, Package, attribute, local, whole

CONTENT: Final = "content.xml"
# Programs fill the rest of a sheet with one cell that is repeated; with text in it so many are plenty.
_MAX_REPEATS: Final = 1_000
_MAX_COLUMNS: Final = 16_384


def sheets(package: Package) -> list[tuple[str, bool]]:
    """The name of every sheet, and whether it is hidden."""
    unseen: set[str] = set()
    found = []
    # Rows are named only so that each is forgotten once it has passed.
    for element in package.walk(CONTENT, "{*}style", "{*}table", "{*}table-row"):
        if local(element) == "table-row":
            continue
        if local(element) == "style":
            if any(attribute(inside, "display") == "false" for inside in element):
                unseen.add(attribute(element, "name"))
        elif not any(local(above) == "table-cell" for above in element.iterancestors()):
            found.append((attribute(element, "name"), attribute(element, "style-name") in unseen))
    return found


def rows(package: Package, name: str) -> Iterator[list[str]]:
    """The rows of one sheet."""
    for row in package.walk(CONTENT, "{*}table-row"):
        # The name of a table is an attribute that is known before its rows are.
        table = next((above for above in row.iterancestors() if local(above) == "table"), None)
        if table is None or attribute(table, "name") != name:
            continue
        cells = _cells(row)
        repeats = min(_repeats(row, "number-rows-repeated"), _MAX_REPEATS) if cells else 1
        for _ in range(repeats):
            yield cells


def _cells(row: Element) -> list[str]:
    cells: list[str] = []
    empty, across, before = 0, 0, ""
    for cell in row:
        kind = local(cell)
        if kind not in ("table-cell", "covered-table-cell"):
            continue
        shown = _shown(cell)
        repeats = _repeats(cell, "number-columns-repeated")
        if kind == "table-cell":
            across, before = _repeats(cell, "number-columns-spanned") - 1, shown
        elif not shown and across > 0:
            shown = Across(before)
            across -= repeats
        if not shown:
            empty += repeats
            continue
        cells += [""] * min(empty, _MAX_COLUMNS - len(cells))
        empty = 0
        cells += [shown] * min(repeats, _MAX_REPEATS, _MAX_COLUMNS - len(cells))
    return cells


def _shown(cell: Element) -> str:
    return "\n".join(_words(part) for part in cell if local(part) == "p")


def _words(element: Element) -> str:
    """The text inside, with spaces and line breaks, without notes that hang on it."""
    parts = [element.text or ""]
    for inside in element:
        name = local(inside)
        if name == "s":
            parts.append(" " * min(_repeats(inside, "c"), _MAX_REPEATS))
        elif name in ("tab", "line-break"):
            parts.append("\t" if name == "tab" else "\n")
        elif name not in ("annotation", "note"):
            parts.append(_words(inside))
        parts.append(inside.tail or "")
    return "".join(parts)


def _repeats(element: Element, name: str) -> int:
    return max(1, whole(attribute(element, name), 1))
