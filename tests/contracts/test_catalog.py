from pathlib import Path

from headwater.protocols import Catalog
from headwater.storage.memory_catalog import MemoryCatalog
from headwater.storage.sqlite import SqliteCatalog
from headwater.testing.catalog_contract import CatalogContract, PersistentCatalogContract


class TestMemoryCatalog(CatalogContract):
    def open_catalog(self, path: Path) -> Catalog:
        return MemoryCatalog(path)


class TestSqliteCatalog(PersistentCatalogContract):
    def open_catalog(self, path: Path) -> Catalog:
        return SqliteCatalog(path)


def test_both_fit_the_protocol(tmp_path: Path) -> None:
    catalog = SqliteCatalog(tmp_path / "catalog")
    assert isinstance(MemoryCatalog(), Catalog) and isinstance(catalog, Catalog)
    catalog.close_store()
