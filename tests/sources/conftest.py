"""A site that tests fetch from."""

from collections.abc import Iterator

import pytest

from headwater.testing.web_server import Site


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()
