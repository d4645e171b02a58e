"""A document -> small passages that are searched, and the larger ones they were cut from, which are read.

The larger ones (`parent_size`, each within one section) come last. No index holds them; a search that asks for parents
reads them in place of what it found. `parent` of a small one counts from 0 in what is returned.
"""

from __future__ import annotations

from dataclasses import replace

from headwater.chunkers._layout import Blocks, Ruler, clipped, stretches
from headwater.chunkers._pieces import check_count, check_sizes
from headwater.chunkers.meta import with_meta
from headwater.chunkers.recursive import RecursiveChunker
from headwater.errors import SettingError
from headwater.tokens import Unit
from headwater.types import Chunk, Document


class HierarchicalChunker:
    """Children of `size`, parents of `parent_size`. With `meta`, children carry title and path for the index."""

    def __init__(
        self,
        *,
        size: int = 256,
        overlap: int = 32,
        parent_size: int = 2048,
        unit: Unit = "tokens",
        meta: bool = True,
    ) -> None:
        check_sizes(size=size, overlap=overlap, unit=unit)
        if type(parent_size) is not int or parent_size < size:
            raise SettingError(f"chunk.parent_size must be at least chunk.size ({size}), got {parent_size!r}")
        self.size, self.overlap, self.parent_size, self.unit, self.meta = size, overlap, parent_size, unit, meta
        self._children = RecursiveChunker(size=size, overlap=overlap, unit=unit)
        self._parents = RecursiveChunker(size=parent_size, overlap=0, unit=unit)
        self.fingerprint = (
            f"hierarchical/1 size={size} overlap={overlap} parent_size={parent_size} unit={unit} meta={meta}"
        )

    def chunk(self, document: Document) -> list[Chunk]:
        """The small passages in order, then the larger ones. Raises SourceError when there are too many."""
        ruler, blocks, parts = Ruler(document.text, self.unit), Blocks(document.blocks), list(stretches(document))
        parents = self._parents.cut(document, parts, ruler=ruler, blocks=blocks)
        children: list[Chunk] = []
        owners: list[int] = []
        for number, parent in enumerate(parents):
            cut = self._children.cut(document, clipped(parts, *parent.span), ruler=ruler, blocks=blocks)
            children += cut
            owners += [number] * len(cut)
            check_count(children, document, size=self.size)
        if self.meta:
            children = with_meta(document, children, blocks)
        first = len(children)
        small = [replace(child, parent=first + owner) for child, owner in zip(children, owners, strict=True)]
        # What is found by its children alone needs no words of its own for the index.
        large = [replace(parent, index_text="") for parent in parents]
        check_count([*small, *large], document, size=self.size)
        return [*small, *large]
