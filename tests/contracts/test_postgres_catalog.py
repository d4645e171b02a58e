from hashlib import blake2b
from pathlib import Path

import pytest

from headwater.protocols import Catalog
from headwater.storage.postgres import PostgresCatalog
from headwater.testing.catalog_contract import PersistentCatalogContract


class TestPostgresCatalog(PersistentCatalogContract):
    url = ""

    @pytest.fixture(autouse=True)
    def database(self, postgres_url: str) -> None:
        type(self).url = postgres_url

    def open_catalog(self, path: Path) -> Catalog:
        schema = f"home_{blake2b(str(path).encode(), digest_size=8).hexdigest()}"
        return PostgresCatalog(path, url=self.url, schema=schema, create=True)


def test_it_fits_the_protocol(tmp_path: Path, postgres_url: str) -> None:
    catalog = PostgresCatalog(tmp_path, url=postgres_url, create=True)
    assert isinstance(catalog, Catalog)
    catalog.close_store()
