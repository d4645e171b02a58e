"""A Milvus that dies under a home: answers go on without it, nothing is lost, and it is mended when it is back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.starter import headwater

from headwater.build import KnowledgeBase, open_home
from headwater.errors import BackendError
from headwater.retrieve import SEMANTIC_FAILED
from headwater.testing.milvus_server import MilvusServer

pytestmark = pytest.mark.system
# More than enough for a server to be back.
BACK_SECONDS = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MilvusServer]:
    """One of its own: it is killed."""
    made = MilvusServer(tmp_path / "milvus", session_seconds=4)
    made.folder.mkdir()
    try:
        made.start()
        yield made
    finally:
        made.stop()


def semantic(kb: KnowledgeBase, question: str) -> tuple[list[str], str | None]:
    results = kb.search(question, options={"mode": "semantic", "cache_size": 0})
    return [Path(hit.uri).name for hit in results], results.fallback_reason


def test_killed_and_started_again(server: MilvusServer, tmp_path: Path, handbook: Path) -> None:
    home = tmp_path / "kb"
    home.mkdir()
    (home / "headwater.toml").write_text(
        f"[vector_index]\nuse = 'milvus'\nuri = '{server.uri}'\ntoken = 'env:MILVUS_TOKEN'\ntimeout_seconds = 3\n",
        encoding="utf-8",
    )
    (home / ".env").write_text(f"MILVUS_TOKEN={server.token}\n", encoding="utf-8")
    with open_home(home) as kb:
        kb.add(handbook)
        before, reason = semantic(kb, "how long is parental leave")
        assert before[0] == "leave.md" and reason is None

        server.stop()
        started = time.monotonic()
        results = kb.search("parental leave weeks", options={"cache_size": 0})
        assert results.hits and results.fallback_reason == SEMANTIC_FAILED
        assert "Milvus at 127.0.0.1" in results.degraded[0] and server.token not in results.degraded[0]
        found, reason = semantic(kb, "parental leave weeks")
        assert found[0] == "leave.md" and reason == SEMANTIC_FAILED
        answer = kb.ask("How many weeks of leave are parents entitled to?")
        assert "26 weeks" in answer.text and answer.citations
        assert time.monotonic() - started < 10, "nothing hangs"
        (handbook / "new.md").write_text("# Kites\n\nKites are flown on Sundays.\n", encoding="utf-8")
        with pytest.raises(BackendError, match="Milvus at"):
            kb.add(handbook)

        server.start()
        deadline = time.monotonic() + BACK_SECONDS
        while semantic(kb, "how long is parental leave") != (before, None) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert semantic(kb, "how long is parental leave") == (before, None), "what was flushed is there"
        kb.add(handbook)
        assert semantic(kb, "when are kites flown")[0][0] == "new.md"
        assert kb.check() == []

        # Somebody empties the server: told by `check`, mended from the catalog.
        kb.vectors.clear()
        kb.vectors.flush()
    at = ("--home", str(home))
    outcome = headwater("check", *at)
    assert outcome.code == 1 and "the vector index lacks" in outcome.output + outcome.error
    assert headwater("check", "--repair", *at).code == 0
    with open_home(home) as kb:
        assert kb.check() == []
        found, reason = semantic(kb, "when are kites flown")
        assert found[0] == "new.md" and reason is None


STARTER = """
import sys
from pathlib import Path
from headwater.testing.milvus_server import MilvusServer
MilvusServer(Path(sys.argv[1])).start()
"""


def test_a_server_of_the_tests_never_outlives_who_started_it(tmp_path: Path) -> None:
    log, deadline = tmp_path / "server.log", time.monotonic() + BACK_SECONDS
    with subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)]) as starter:
        while not (log.exists() and log.read_bytes().partition(b"\n")[1]) and time.monotonic() < deadline:
            time.sleep(0.02)
        starter.kill()
    server = int(log.read_text("utf-8").partition("\n")[0])
    while Path(f"/proc/{server}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{server}").exists()
