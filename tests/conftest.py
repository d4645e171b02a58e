"""What all tests share: no surprises from the environment, and a run of Hypothesis that is the same everywhere."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from headwater.testing.milvus_server import MilvusServer
from headwater.testing.postgres_server import PostgresServer

# Machines are shared and noisy: a slow example is not a failing one. The quick run of `make test` and the full one of
# `make test-all` are the same everywhere; the thorough one looks for what nobody has thought of yet.
for name, examples in (("quick", 30), ("full", 60)):
    settings.register_profile(
        name, deadline=None, max_examples=examples, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the person who runs the tests may reach them."""
    for variable in list(os.environ):
        if variable.startswith("HEADWATER_"):
            monkeypatch.delenv(variable)


@pytest.fixture
def handbook(tmp_path: Path) -> Iterator[Path]:
    """A small folder in two languages."""
    folder = tmp_path / "handbook"
    (folder / "hr").mkdir(parents=True)
    (folder / "hr" / "leave.md").write_text(
        "---\ntags: [hr, leave]\ndate: 2025-03-01\n---\n# Parental leave\n\n"
        "Parents are entitled to 26 weeks of leave. Of these, 18 weeks are paid in full.\n\n"
        "## Splitting\n\nThe leave may be taken in two parts within the first year.\n",
        encoding="utf-8",
    )
    (folder / "pump.md").write_text(
        "---\ntags: [ops]\n---\n# Pump manual\n\nError PPR-9087 means the intake is blocked. "
        "Clean the screen and restart the pump.\n",
        encoding="utf-8",
    )
    (folder / "年假.md").write_text(
        "# 年假制度\n\n员工每年享有十五天带薪年假。入职不满一年的员工按月折算。\n\n"
        "## 申请\n\n年假须提前两周在系统中申请，由部门主管批准。\n",
        encoding="utf-8",
    )
    (folder / "notes.txt").write_text("The flood of 1998 reached 7.42 metres at the old bridge.\n", encoding="utf-8")
    yield folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of our own, for the whole run; where its package is missing the test fails and names it."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.discard()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database with nothing in it and a name of its own; no connection to it outlives the test."""
    name = f"test_{next(_DATABASES)}"
    yield postgres_server.url(name)
    postgres_server.empty(name)


_DATABASES = itertools.count(1)


@pytest.fixture(scope="module")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    """A Milvus of our own, for a file: it takes a tenth of a core also while nobody asks it anything.

    Where its package is missing the test fails and names it.
    """
    server = MilvusServer(tmp_path_factory.mktemp("milvus"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
