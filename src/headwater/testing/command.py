"""Run the installed command line as a person would, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a command printed and how it ended."""

    code: int
    output: str
    error: str


def headwater(
    *arguments: str,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_seconds: float = 120.0,
) -> Outcome:
    """`headwater ARGUMENTS`, with `given` on standard input."""
    done = subprocess.run(
        [sys.executable, "-m", "headwater", *arguments],
        input=given,
        capture_output=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **(environment or {})},
        timeout=timeout_seconds,
    )
    return Outcome(code=done.returncode, output=done.stdout.decode(), error=done.stderr.decode())
