"""A port for a server of the tests, which nothing else takes while the server is away."""

from __future__ import annotations

import socket
from secrets import choice
from typing import Final

# Below those that Linux (from 32,768), macOS and Windows (from 49,152) give to outgoing connections: one of these would
# keep a server that was stopped from coming back.
PORTS: Final = range(15_000, 32_000)
_TRIES: Final = 1_000
_given: Final[set[int]] = set()


def free_port() -> int:
    """One that nobody listens on, and that no earlier call has given; RuntimeError where none is found."""
    for _ in range(_TRIES):
        port = choice(PORTS)
        if port in _given:
            continue
        with socket.socket() as chosen:
            try:
                chosen.bind(("", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise RuntimeError(f"none of {_TRIES} ports from {PORTS.start} to {PORTS.stop} is free; stop what listens on them")
