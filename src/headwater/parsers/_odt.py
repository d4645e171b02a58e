"""The content of an OpenDocument text (ODT) -> a draft: headings by their level, lists, tables, notes."""

from __future__ import annotations

from typing import Final

from headwater.parsers._column_names import Across
from headwater.parsers._draft import Draft, one_line
from headwater.parsers._package import Element, Package, Properties, attribute, local, whole
from headwater.parsers._raised import power_of
from headwater.parsers._rows import Tables, write_table
from headwater.types import Span

CONTENT: Final = "content.xml"
_META: Final = "meta.xml"
_INDENT: Final = "  "
_MAX_REPEATS: Final = 64
_LAST_HEADING_LEVEL: Final = 10
_CONTAINERS: Final = frozenset(("section", "index-body", "text-box", "frame", "a", "span"))
# Indexes repeat the headings; tracked changes hold what was deleted.
_SKIPPED: Final = frozenset(("table-of-content", "tracked-changes", "sequence-decls", "forms", "illustration-index"))


class OpenTextReader:
    """Writes one document into a draft."""

    def __init__(self, package: Package, draft: Draft) -> None:
        self.package, self.draft = package, draft
        self.tables = Tables()
        self.counts = {"headings": 0, "notes": 0}
        self._hanging: list[tuple[str, Element]] = []
        self._raised: frozenset[str] = frozenset()  # names of the styles that set text higher

    def read(self) -> None:
        """Write the body."""
        root = self.package.xml(CONTENT)
        self._raised = _raised_styles(root)
        for body in root.iter("{*}text"):
            if local(body.getparent()) == "body":
                self._blocks(body)

    def properties(self) -> Properties:
        """What the file says of itself."""
        root = self.package.xml(_META)
        said: dict[str, list[str]] = {}
        for element in () if root is None else root.iter():
            if element.text and element.text.strip():
                said.setdefault(local(element), []).append(element.text.strip())
        first = {name: values[0] for name, values in said.items()}
        return Properties(
            title=first.get("title", ""),
            author=first.get("creator", "") or first.get("initial-creator", ""),
            description=first.get("description", "") or first.get("subject", ""),
            tags=tuple(dict.fromkeys(said.get("keyword", []))),
            created=first.get("creation-date", ""),
            updated=first.get("date", ""),
        )

    def _blocks(self, element: Element) -> None:
        for part in element:
            name = local(part)
            if name == "h":
                level = min(max(whole(attribute(part, "outline-level"), 1), 1), _LAST_HEADING_LEVEL)
                self.counts["headings"] += 1
                self._notes(self.draft.heading(self._words(part), level))
            elif name == "p":
                self._notes(self.draft.paragraph(self._words(part)))
            elif name == "list":
                self.draft.gap()
                self._list(part, 0)
                self._notes(None)
            elif name == "table":
                self._table(part)
            elif name in _CONTAINERS:
                self._blocks(part)

    def _list(self, element: Element, depth: int) -> None:
        for item in element:
            if local(item) not in ("list-item", "list-header"):
                continue
            for part in item:
                if local(part) == "list":
                    self._list(part, depth + 1)
                elif local(part) in ("p", "h") and (words := one_line(self._words(part))):
                    self.draft.line(f"{_INDENT * depth}- {words}")

    def _table(self, element: Element) -> None:
        rows: list[list[str]] = []
        headers = 0
        above: dict[int, tuple[str, int]] = {}
        for row in element.iter("{*}table-row"):
            if next(row.iterancestors("{*}table"), None) is not element:
                continue
            headers += local(row.getparent()) == "table-header-rows"
            cells: list[str] = []
            for cell in row:
                covered = local(cell) == "covered-table-cell"
                if not covered and local(cell) != "table-cell":
                    continue
                words = " ".join(filter(None, (one_line(self._words(p)) for p in cell.iter("{*}p", "{*}h"))))
                text, left = above.get(len(cells), ("", 0))
                if covered and left:
                    words, above[len(cells)] = text, (text, left - 1)
                elif covered and cells:
                    words = Across(cells[-1])
                elif (down := whole(attribute(cell, "number-rows-spanned"), 1)) > 1:
                    above[len(cells)] = (words, down - 1)
                cells += [words] * min(whole(attribute(cell, "number-columns-repeated"), 1), _MAX_REPEATS)
            rows.append(cells)
        before = len(self.draft.blocks)
        self.tables.add(write_table(self.draft, rows, header_rows=headers if 0 < headers < len(rows) else None))
        written = next((block.span for block in self.draft.blocks[before:] if block.kind == "table"), None)
        self._notes(written)

    def _words(self, element: Element) -> str:
        parts = [element.text or ""]
        for inside in element:
            name = local(inside)
            if name == "s":
                parts.append(" " * min(whole(attribute(inside, "c"), 1), _MAX_REPEATS))
            elif name in ("tab", "line-break"):
                parts.append("\t" if name == "tab" else "\n")
            elif name == "note":
                number = next((c.text or "" for c in inside.iter("{*}note-citation")), "")
                parts.append(f"[^{number}]")
                self._hanging.append((f"[^{number}]: ", inside))
            elif name == "annotation":
                author = next((c.text or "" for c in inside.iter("{*}creator")), "")
                self._hanging.append((f"[Comment{' by ' + author if author else ''}] ", inside))
            elif name not in _SKIPPED:
                words = self._words(inside)
                raised = attribute(inside, "style-name") in self._raised
                parts.append(power_of(words, parts) if raised else words)
            parts.append(inside.tail or "")
        return "".join(parts)

    def _notes(self, about: Span | None) -> None:
        """Write the notes of what was just written."""
        hanging, self._hanging = self._hanging, []
        for front, note in hanging:
            words = " ".join(filter(None, (one_line("".join(p.itertext())) for p in note.iter("{*}p"))))
            if words and self.draft.block("note", front + words, about=about) is not None:
                self.counts["notes"] += 1


def _raised_styles(root: Element) -> frozenset[str]:
    """The names of the file's own styles that set text higher: `super`, or a positive share of the line."""
    found = set()
    for style in root.iter("{*}style"):
        positions = [attribute(part, "text-position") for part in style if local(part) == "text-properties"]
        if any(place.startswith("super") or whole(place.partition("%")[0]) > 0 for place in positions):
            found.add(attribute(style, "name"))
    return frozenset(found)
