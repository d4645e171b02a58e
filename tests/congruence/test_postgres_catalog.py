"""The PostgreSQL catalog against the one in dictionaries, under whatever may happen to them."""

from itertools import count

import pytest
from hypothesis import settings
from tests.congruence.test_catalog import Catalogs

from headwater.storage._catalog import SqlCatalog
from headwater.storage.postgres import PostgresCatalog
from headwater.testing.postgres_server import PostgresServer


class PostgresCatalogs(Catalogs):
    """Each run in a schema of its own."""

    url = ""
    numbers = count(1)

    def opened(self) -> SqlCatalog:
        if not hasattr(self, "schema"):
            self.schema = f"run_{next(self.numbers)}"
        return PostgresCatalog(self.folder, now=self.now, idle_vectors=2, url=self.url, schema=self.schema, create=True)


@pytest.fixture(autouse=True, scope="module")
def database(postgres_server: PostgresServer) -> None:
    PostgresCatalogs.url = postgres_server.url("congruence")


TestPostgresCatalogs = PostgresCatalogs.TestCase
# Each statement is a message to a server: fewer runs than of SQLite, which runs the same statements.
TestPostgresCatalogs.settings = settings(max_examples=settings().max_examples // 3, stateful_step_count=25)
