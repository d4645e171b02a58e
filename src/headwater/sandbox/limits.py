"""What a worker may use, and how a process is held to it: by the system where it can, by its watcher where not."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

if sys.platform != "win32":
    import resource

# A worker whose watcher is gone ends itself this long after its time was up.
ALARM_GRACE_SECONDS: Final = 5
# Nothing that a parser leaves in its own temporary folder need be larger.
MAX_FILE_BYTES: Final = 1 << 30
# Recognising a page takes 3 to 5 seconds: a twelfth of what a document may take (120 s) is twice as much. It is given
# for so many pages; that may be an hour and a half, and what wants more must be cut in parts.
MORE_SHARE: Final = 12
MORE_TIMES: Final = 500
# What has asked for the network or listens on it; a parser has the bytes and needs nothing else.
NETWORK_EVENTS: Final = frozenset(
    {"socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"}
)
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
# Of sched.h and prctl.h.
_NEW_USER, _NEW_NETWORK = 0x1000_0000, 0x4000_0000
_DEATH_SIGNAL, _SUBREAPER = 1, 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Per document; memory counts the whole worker."""

    wall_seconds: float = 120.0
    cpu_seconds: int = 120
    memory_bytes: int = 2 * 1024**3
    output_chars: int = 50_000_000

    @property
    def more_seconds(self) -> float:
        """What each slow step that a parser announces adds to the time on the wall; as much to that of a processor."""
        return self.wall_seconds / MORE_SHARE

    def as_text(self) -> str:
        """For a command line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> Limits:
        """The opposite of `as_text`."""
        return Limits(**json.loads(text))


# ---------------------------------------------------------------------------------------- inside a worker


def confine(limits: Limits) -> None:
    """Hold this process to its limits, for good: called once, before anything else runs in it."""
    sys.addaudithook(_refuse_network)
    if sys.platform == "win32":
        return
    for what, most in (("CORE", 0), ("FSIZE", MAX_FILE_BYTES), ("DATA", limits.memory_bytes)):
        _limit(what, most, most)
    if sys.platform == "linux":
        _die_with_parent()
        _leave_network()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def begin_document(limits: Limits) -> None:
    """Start the clocks of one document: the time of a processor, and what ends a worker that nobody watches."""
    if sys.platform == "win32":
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit("CPU", int(used.ru_utime + used.ru_stime) + 1 + limits.cpu_seconds, resource.RLIM_INFINITY)
    signal.alarm(int(limits.wall_seconds) + 1 + ALARM_GRACE_SECONDS)


def more_time(limits: Limits) -> None:
    """Set the clocks of the document forward by one slow step."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
        if soft != resource.RLIM_INFINITY:
            _limit("CPU", soft + math.ceil(limits.cpu_seconds / MORE_SHARE), hard)
        signal.alarm(signal.alarm(0) + math.ceil(limits.more_seconds))


def end_document() -> None:
    """Stop them."""
    if sys.platform != "win32":
        signal.alarm(0)
        _limit("CPU", resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def has_children() -> bool:
    """Whether this process has started others that still run."""
    if sys.platform == "win32":
        return False
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


def _limit(what: str, soft: int, hard: int) -> None:
    number = getattr(resource, f"RLIMIT_{what}", None)
    if number is not None:
        # A limit that this system does not know, or that is lower already: the watcher stays.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(number, (soft, hard))


def _refuse_network(event: str, _: Any) -> None:
    if event in NETWORK_EVENTS:
        raise PermissionError("a parser may not use the network")


def _die_with_parent() -> None:
    """Linux ends this process when the one that started it is gone, and gives it the orphans of its children."""
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_SUBREAPER, 1, 0, 0, 0)
    parent = os.getppid()
    system.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _leave_network() -> None:
    """Into a network of its own, with nobody on it, where the system lets a plain user do that."""
    import ctypes

    system = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if user and system.unshare(_NEW_USER) == 0:
        with contextlib.suppress(OSError):
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    system.unshare(_NEW_NETWORK)


# -------------------------------------------------------------------------------------- beside a worker


def resident_bytes(pid: int, *, tree: bool = False) -> int:
    """What a process, and with `tree` those it started, holds in memory now; 0 where the system does not say."""
    if sys.platform == "linux":
        return sum(_resident_on_linux(one) for one in (pid, *(descendants(pid) if tree else ())))
    if sys.platform == "win32":
        return 0
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return int(told.stdout) * 1024 if told.stdout.strip().isdigit() else 0


def is_running(pid: int) -> bool:
    """Whether there is such a process; where the system would have to be asked by killing it, yes."""
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def kill(pid: int, *, gone: bool = False) -> None:
    """End a process that leads its group, and all that it has started; where it is `gone`, the rest of its group."""
    if sys.platform == "win32":
        if not gone:
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(pid)], capture_output=True, check=False)
        return
    others = [] if gone else descendants(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for other in others:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(other, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs; none where the system does not say."""
    if sys.platform != "linux":
        return []
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name of a program stands in brackets and may hold anything.
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def _resident_on_linux(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return 0
