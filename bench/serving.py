"""A home -> a real `headwater serve` in a process of its own, with what the load bench and the soak test ask of it."""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

START_SECONDS = 120.0
READER = b"headwater.server.readers"
STOP_SECONDS = 90.0
READY = b"Application startup complete"


class Server:
    """The process, and how to call it."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.log = home.with_name(f"{home.name}.log")
        command = [sys.executable, "-m", "headwater", "serve", "--home", str(home), "--port", "0", *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)
        end = time.monotonic() + START_SECONDS
        while READY not in (said := self.log.read_bytes()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"the server did not start; {self.log} says:\n{said.decode()[-2000:]}")
            time.sleep(0.05)
        found = re.search(rb"http://([\d.]+):(\d+)/ serves", said)
        assert found is not None
        self.host, self.port = found[1].decode(), int(found[2])

    def connect(self) -> http.client.HTTPConnection:
        """A connection of the caller's own."""
        return http.client.HTTPConnection(self.host, self.port, timeout=120)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The data of an answer; anything but a success ends the run."""
        connection = self.connect()  # the server closes one that rests
        status, data = request(connection, method, path, body)
        connection.close()
        if status != 200:
            raise SystemExit(f"{method} {path} answered {status}: {data!r}")
        return data["data"]

    def memory(self) -> dict[str, float]:
        """Resident megabytes: of the server, of the processes it searches in, and of those it parses files in."""
        below = self._below()
        readers = {pid for pid in below if READER in _command(pid)}
        return {
            "server": resident(self.process.pid),
            "readers": sum(map(resident, readers)),
            "parsers": sum(map(resident, below - readers)),
        }

    def searching(self) -> float:
        """Resident megabytes of all that answers."""
        found = self.memory()
        return found["server"] + found["readers"]

    def cpu_seconds(self) -> float:
        """What the server and the processes below it took so far; those that have ended count too."""
        ticks = sum(map(_ticks, (self.process.pid, *self._below())))
        return ticks / os.sysconf("SC_CLK_TCK")

    def _below(self) -> set[int]:
        children = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return {int(one) for path in children for one in path.read_text().split()}

    def complaints(self) -> list[str]:
        """Lines of its log that are no notice."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if '"level": "' in line and '"level": "info"' not in line]

    def stop(self) -> int:
        """Ask it to end, and wait; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


def request(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status and the JSON of one answer. Bytes as a body are a form made by `form`."""
    headers = {}
    if isinstance(body, bytes):
        boundary = body[2 : body.index(b"\r\n")].decode()
        headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
    elif body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def form(files: dict[str, str]) -> bytes:
    """Files as an upload."""
    boundary = f"headwater{secrets.token_hex(8)}"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: text/markdown\r\n\r\n{text}\r\n"
        for name, text in files.items()
    ]
    return "".join([*parts, f"--{boundary}--\r\n"]).encode()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _ticks(pid: int) -> int:
    """Of the processor, with those of children that it waited for; 0 for a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, fields[11:15]))


def resident(pid: int) -> float:
    """Resident megabytes of a process; 0 for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = re.search(r"^VmRSS:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
