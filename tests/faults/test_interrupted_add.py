"""`headwater add` that is stopped with Ctrl-C: what is finished stays, the rest is queued, and it says so."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater
from headwater.indexer import FIRST_BATCH
from headwater.models.openai import OpenAIEmbedder
from headwater.testing.openai_server import OpenAIServer

PATIENCE_SECONDS = 120.0
BATCH = 100  # texts to a request
LEFT = 50
# What is stored first with an embedder that takes long.
FIRST = min(FIRST_BATCH, OpenAIEmbedder.commit_texts)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C of POSIX")


@pytest.fixture
def slow() -> Iterator[OpenAIServer]:
    """Answers for the first batch, and keeps whoever asks for the next waiting."""
    with OpenAIServer(script=["ok"] * (FIRST // BATCH) + ["wait"] * 100) as made:
        yield made


def test_what_is_finished_stays_and_the_rest_is_queued(
    tmp_path: Path, slow: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, home = tmp_path / "notes", tmp_path / "home"
    folder.mkdir()
    for number in range(FIRST + LEFT):
        (folder / f"{number:04}.txt").write_text(f"Note {number} is about the gauge.", encoding="utf-8")
    told = {"USE": "openai", "BASE_URL": slow.url, "DIMENSIONS": str(slow.dim), "API_KEY": "k", "MODEL": "m"}
    for name, value in {**told, "BATCH_SIZE": str(BATCH)}.items():
        monkeypatch.setenv(f"HEADWATER_EMBED__{name}", value)
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater", "add", str(folder), "--home", str(home)],
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=dict(os.environ),
        # Where the tests run in a shell's background, Ctrl-C is ignored, and a child would ignore it too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs yet
    )
    try:
        assert slow.waiting.wait(PATIENCE_SECONDS), process.poll()
        with headwater.open(home) as kb:
            end = time.monotonic() + PATIENCE_SECONDS
            while not kb.documents():  # the first part is being stored
                assert time.monotonic() < end
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        slow.released.set()
        _, said = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130 and "Traceback" not in said
    counts = re.search(rf"stopped: ([\d,]+) of {FIRST + LEFT:,} documents are done and stay, ([\d,]+) are queued", said)
    assert counts is not None, said
    done, left = (int(count.replace(",", "")) for count in counts.groups())
    assert done + left == FIRST + LEFT and done > 0 and left >= LEFT
    with headwater.open(home) as kb:
        assert isinstance(kb.embedder, OpenAIEmbedder)
        assert len(kb.documents()) == done and kb.catalog.pending() == left
        kb.add(folder)
        assert len(kb.documents()) == FIRST + LEFT and kb.catalog.pending() == 0
        assert kb.check() == []
