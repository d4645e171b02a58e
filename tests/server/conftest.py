"""A real server in a process of its own, on a free port, over a home in a temporary folder."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.starter import starter

from headwater.storage.ledger import Ledger

# A machine that many share may take so long.
START_SECONDS = 240.0
DONE_SECONDS = 240.0


class Running:
    """A server process, and a client for it."""

    def __init__(self, home: Path, *, env: dict[str, str] | None = None, arguments: tuple[str, ...] = ()) -> None:
        self.home, self._env, self._arguments = home, env or {}, arguments
        home.mkdir(parents=True, exist_ok=True)
        self.log = home.parent / f"{home.name}.log"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        arguments = ["serve", "--home", str(self.home), "--port", "0", *self._arguments]
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")} | self._env
        self.log.touch()
        written = self.log.stat().st_size
        self.process = starter().start(arguments, environment=self.environment, output=self.log, error=self.log)
        end = time.monotonic() + START_SECONDS
        while True:
            said = self.log.read_bytes()[written:].decode()
            if "Application startup complete" in said:
                break
            assert self.process.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.05)
        self.base = said[said.index("http://") :].partition("/ serves")[0]

    def client(self, key: str = "", **given: Any) -> httpx2.Client:
        """A client with a key."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Plain HTTP: without `verify` no certificates are read, which takes longer than most requests.
        return httpx2.Client(base_url=self.base, headers=headers, timeout=60.0, verify=False, **given)

    def key(self, owner: str, **given: Any) -> str:
        """A new key of an owner."""
        ledger = Ledger(self.home)
        try:
            return ledger.keys.create(owner, **given)[1]
        finally:
            ledger.close()

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server for the tests of a file."""
    running = Running(tmp_path_factory.mktemp("server") / "home")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def settled() -> Callable[[httpx2.Client, str], dict[str, Any]]:
    """Follows a job to its end."""

    def follow(client: httpx2.Client, job_id: str) -> dict[str, Any]:
        end = time.monotonic() + DONE_SECONDS
        while True:
            job: dict[str, Any] = client.get(f"/api/v1/jobs/{job_id}").json()["data"]
            if job["state"] not in ("pending", "processing", "indexed"):
                return job
            assert time.monotonic() < end, job
            time.sleep(0.03)

    return follow
