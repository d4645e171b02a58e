"""The content of an OpenDocument slide show (ODP) -> a draft: a section and a page per slide, with its notes."""

from __future__ import annotations

from headwater.parsers._draft import Draft, one_line
from headwater.parsers._odt import CONTENT, OpenTextReader
from headwater.parsers._package import Element, Package, attribute, local
from headwater.types import Span


class OpenSlidesReader(OpenTextReader):
    """Writes one slide show into a draft. Inside a shape text stands as in a text document."""

    def __init__(self, package: Package, draft: Draft) -> None:
        super().__init__(package, draft)
        self.slides = self.written = 0
        self.bare: list[int] = []

    def read(self) -> None:
        """Write the slides in the order of the show."""
        root = self.package.xml(CONTENT)
        for page in () if root is None else root.iter("{*}page"):
            if local(page.getparent()) == "presentation":
                self.slides += 1
                self._slide(page)

    def _slide(self, page: Element) -> None:
        self.draft.page()
        start = self.draft.length
        shapes = [shape for shape in page if local(shape) not in ("notes", "forms")]
        title = next((shape for shape in shapes if attribute(shape, "class") == "title"), None)
        words = "" if title is None else " ".join(filter(None, (one_line(self._words(p)) for p in title.iter("{*}p"))))
        heading = self.draft.heading(words or f"Slide {self.slides}", 1)
        begin = self.draft.length
        for shape in shapes:
            if shape is not title:
                self._shape(shape)
        about = Span(start, max(self.draft.length - 1, heading.end if heading else start))
        for notes in page.iterfind("{*}notes"):
            said = " ".join(filter(None, (one_line(self._words(p)) for p in notes.iter("{*}p"))))
            if said and self.draft.block("note", said, about=about) is not None:
                self.counts["notes"] += 1
        if words or self.draft.length > begin:
            self.written += 1
        else:
            self.bare.append(self.slides)

    def _shape(self, shape: Element) -> None:
        if local(shape) == "g":  # a group
            for inside in shape:
                self._shape(inside)
        else:
            self._blocks(shape)
