"""How many processors this process may use: in a container, or held to some of them, not all that the machine has."""

from __future__ import annotations

import os


def cores() -> int:
    """At least one. It takes a millionth of a second, and may change while a process runs."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
