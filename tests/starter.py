"""The command line in processes of their own, out of one that has loaded its code already.

Loading the code takes longer than most of what commands and servers do in the tests, which start hundreds of them. What
is started is the same: `headwater` with its arguments, its environment and its folder, in a process that can be killed.
None outlives the tests. What a new interpreter reads of its environment (PYTHONPATH, say) is not read again: for that
there is `headwater.testing.command`.
"""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from headwater.testing.command import Outcome

POLL_SECONDS = 0.01
PROGRAM = ["headwater"]


class Started:
    """One process, as `subprocess.Popen` shows one."""

    def __init__(self, starter: "Starter", pid: int) -> None:
        self._starter, self.pid = starter, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended, None while it runs."""
        if self.returncode is None:
            self.returncode = self._starter.ask(ended=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """How it ended, when it has."""
        end = time.monotonic() + timeout if timeout is not None else float("inf")
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(PROGRAM, timeout or 0.0)
            time.sleep(POLL_SECONDS)
        return code

    def send_signal(self, number: int) -> None:
        """Unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class Starter:
    """The process that has loaded the code, and our end of the talk with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In a session of its own: an interrupt of the tests ends them, and their end all that they started.
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(
        self,
        arguments: list[str],
        *,
        environment: Mapping[str, str],
        output: Path,
        error: Path,
        given: Path = Path(os.devnull),
        folder: Path | None = None,
    ) -> Started:
        """`headwater` with these arguments; what it says is added to the files `output` and `error`."""
        places = [str(given), str(output), str(error)]
        asked = {"arguments": arguments, "environment": dict(environment), "folder": str(folder or Path.cwd())}
        return Started(self, self.ask(places=places, **asked))

    def ask(self, **asked: Any) -> Any:
        """Its answer to one request."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and with it what it started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@cache
def starter() -> Starter:
    """The one of this run, made when the first process is asked for."""
    made = Starter()
    atexit.register(made.close)
    return made


def headwater(
    *arguments: str,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_seconds: float = 300.0,
) -> Outcome:
    """`headwater ARGUMENTS`, with `given` on standard input."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        (place / "given").write_bytes(given)
        started = starter().start(
            list(arguments),
            environment={**os.environ, **(environment or {})},
            given=place / "given",
            output=place / "output",
            error=place / "error",
            folder=folder,
        )
        try:
            code = started.wait(timeout_seconds)
        finally:
            started.kill()
        return Outcome(
            code=code, output=(place / "output").read_text("utf-8"), error=(place / "error").read_text("utf-8")
        )


# ---------------------------------------------------------------------------------------------- the other end


def load() -> None:
    """What `headwater serve` imports until it is ready; most commands need less."""
    from headwater.commands.serve import ONE_THREAD_EACH

    os.environ.update(ONE_THREAD_EACH)  # read when numpy is imported
    from headwater.server.app import PROTOCOLS

    parts = ("mcp.server.transport_security", "uvicorn.protocols.http.httptools_impl", "uvicorn.lifespan.on")
    stores = ("sqlite", "text")  # turbovec starts a thread when it is imported, and no thread is there after a fork
    for name in (
        *parts,
        *(f"headwater.server.{protocol}" for protocol in ("tools", *PROTOCOLS)),
        *(f"headwater.storage.{store}" for store in stores),
    ):
        import_module(name)


def serve_starts() -> None:
    """Start what is asked for until nobody asks; in what was started, return with its arguments in place."""
    running: set[int] = set()
    for line in iter(sys.stdin.readline, ""):
        asked = json.loads(line)
        if "ended" in asked:
            pid, status = os.waitpid(asked["ended"], os.WNOHANG)
            running.discard(pid)
            told = os.waitstatus_to_exitcode(status) if pid else None
        elif told := os.fork():
            running.add(told)
        else:
            become(asked)
            return
        print(json.dumps(told), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    sys.exit(0)


def become(asked: dict[str, Any]) -> None:
    """The process that was asked for."""
    given, *told = asked["places"]
    flags = (os.O_RDONLY, *[os.O_WRONLY | os.O_APPEND | os.O_CREAT] * len(told))
    for place, (path, flag) in enumerate(zip((given, *told), flags, strict=True)):
        opened = os.open(path, flag, 0o644)
        os.dup2(opened, place)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv[1:] = asked["arguments"]


def ended(code: int) -> None:
    """End as an interpreter does, but for taking apart all that was loaded, which takes longer than most commands."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    load()
    gc.collect()
    gc.freeze()  # what is shared after a fork is not copied to be looked at
    serve_starts()
    from headwater.cli import main

    try:
        main()
    except SystemExit as told:
        ended(told.code if isinstance(told.code, int) else int(told.code is not None))
    ended(0)
