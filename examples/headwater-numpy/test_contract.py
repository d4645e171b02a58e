"""Everything that every vector index must do."""

from pathlib import Path

from headwater_numpy import NumpyIndex

from headwater.protocols import VectorIndex
from headwater.testing._shelf import Shelf
from headwater.testing.contracts import VectorIndexContract


class TestNumpyIndex(VectorIndexContract):
    def open_index(self, path: Path, shelf: Shelf) -> VectorIndex:
        return NumpyIndex(path, dim=self.dim, select=shelf.select)
