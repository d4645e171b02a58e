"""Blobs -> documents, by a pool of worker processes with limits; each that goes wrong is one SourceError.

A worker is started when it is first needed, reads many documents, and is killed with all that it started when it takes
more time, memory or words than one document may. Then another takes its place, and the rest goes on.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from headwater.cores import cores
from headwater.errors import BackendError, EmptyDocument, SourceError
from headwater.sandbox import limits as system
from headwater.sandbox.limits import Limits
from headwater.sandbox.wire import Frame, TooLong, blob_header, decode_document, read_frame, write_frame
from headwater.sandbox.worker import NO_MEMORY
from headwater.types import Blob, Document

# How often a worker at work is looked at; those it has started, which takes reading all of /proc, every tenth time.
WATCH_SECONDS: Final = 0.1
TREE_EVERY: Final = 10
# Starting one takes 0.2 s and holding one 60 MB: so long it waits for more work.
IDLE_SECONDS: Final = 30.0
# Libraries leak: a worker is replaced after so many documents, or when it has kept this share of what it may use.
DOCUMENTS_PER_WORKER: Final = 500
GROWN_SHARE: Final = 0.5
# The time of a worker to start, before that of its first document; a machine may be busy.
START_SECONDS: Final = 60.0
# A message has the text, and the structure and the files that came inside the document, beside it.
BYTES_PER_CHAR: Final = 4
BESIDE_TEXT_BYTES: Final = 64 * 1024**2
# What a worker sees of the environment: where programs and settings lie, and no keys.
KEPT_VARIABLES: Final = frozenset(
    "PATH HOME USER LANG LANGUAGE TZ LD_LIBRARY_PATH DYLD_LIBRARY_PATH VIRTUAL_ENV PYTHONHOME PYTHONHASHSEED "
    "SYSTEMROOT SYSTEMDRIVE WINDIR PATHEXT COMSPEC APPDATA LOCALAPPDATA USERPROFILE".split()
)
# How libraries end that get no memory: those in Rust and C++ abort, PDFium exits.
NO_MEMORY_CODES: Final = frozenset({-6, 127})
# Folders of workers, each named after the process of its pool.
FOLDERS: Final = "headwater-sandbox-"
# One core each: the pool has as many workers as there are cores.
ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Parsed(NamedTuple):
    """A document, and how long its worker took."""

    document: Document
    seconds: float


class Sandbox:
    """Workers and who waits for them. Safe for use from several threads; `close` ends every worker."""

    def __init__(self, limits: Limits, *, processes: int = 0) -> None:
        self.limits, self.processes = limits, processes or cores()
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, Blob] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._stop = threading.Event()
        self.started = 0

    def submit(self, blob: Blob, parser: str, arguments: Mapping[str, Any] | None = None) -> Future[Parsed]:
        """Parse with `module:Class(**arguments)`, as soon as a worker is free. The future raises SourceError."""
        with self._lock:
            if self._threads is None:
                _sweep()
                self._stop = threading.Event()
                self._threads = ThreadPoolExecutor(self.processes, thread_name_prefix="headwater-sandbox")
                watch = threading.Thread(
                    target=self._watch, args=(self._stop,), name="headwater-sandbox-watch", daemon=True
                )
                watch.start()
            return self._threads.submit(self._parse, blob, parser, dict(arguments or {}))

    def current(self) -> list[str]:
        """The uris that are being parsed now."""
        with self._lock:
            return [blob.uri for blob in self._busy.values()]

    def end(self, blob: Blob) -> None:
        """Kill the worker that is at this very blob, if one is; its future raises SourceError."""
        with self._lock:
            workers = [worker for worker, given in self._busy.items() if given is blob]
        for worker in workers:
            worker.end("parsing it was stopped; add it again")

    def close(self) -> None:
        """End every worker; what they were at fails. The next `submit` starts anew."""
        self._stop.set()
        with self._lock:
            threads, self._threads = self._threads, None
            idle, self._idle = self._idle, []
            workers = [*idle, *self._busy]
        for worker in workers:
            worker.end("the sandbox was closed while it was parsed; add it again")
        for worker in idle:
            worker.release()
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    # -------------------------------------------------------------------------------------- one document

    def _parse(self, blob: Blob, parser: str, arguments: dict[str, Any]) -> Parsed:
        request = {"parser": parser, "arguments": arguments, "blob": blob_header(blob)}
        worker = self._take(blob)
        used = worker.documents > 0
        try:
            return self._ask(worker, request, blob)
        except _Died as death:
            # What earlier documents left in a worker is not this one's fault: a fresh one decides.
            if not (used and death.may_be_innocent):
                raise SourceError(str(death)) from None
        worker = self._take(blob, fresh=True)
        try:
            return self._ask(worker, request, blob)
        except _Died as death:
            raise SourceError(str(death)) from None

    def _take(self, blob: Blob, *, fresh: bool = False) -> _Worker:
        with self._lock:
            if self._stop.is_set():
                raise SourceError("the sandbox was closed; add it again")
            worker = self._idle.pop() if self._idle and not fresh else None
        if worker is None:
            worker = _Worker(self.limits)
            self.started += 1
        with self._lock:
            self._busy[worker] = blob
            if not self._stop.is_set():
                return worker
            del self._busy[worker]
        worker.end("")
        worker.release()
        raise SourceError("the sandbox was closed; add it again")

    def _ask(self, worker: _Worker, request: dict[str, Any], blob: Blob) -> Parsed:
        keep = False
        try:
            answer = worker.ask(request, blob)
            parsed = self._understood(answer)
            keep = self._is_fit(worker, answer)
            return parsed
        except (EmptyDocument, SourceError):
            keep = self._is_fit(worker, answer)
            raise
        finally:
            with self._lock:
                self._busy.pop(worker, None)
                keep = keep and not self._stop.is_set()
                if keep:
                    worker.idle_since = time.monotonic()
                    self._idle.append(worker)
            if not keep:
                worker.end("")
                worker.release()

    def _is_fit(self, worker: _Worker, answer: Frame) -> bool:
        """Whether a worker may have another document."""
        small = int(answer.header.get("resident", 0)) < GROWN_SHARE * self.limits.memory_bytes
        return small and worker.documents < DOCUMENTS_PER_WORKER

    def _understood(self, answer: Frame) -> Parsed:
        """What a worker said: a document, or the error that it stands for."""
        told = answer.header
        match told.get("error"):
            case None:
                pass
            case "empty":
                raise EmptyDocument(str(told.get("message")))
            case "source":
                raise SourceError(str(told.get("message")))
            case "unexpected":
                raise SourceError(f"unexpected {told.get('message')}")
            case "memory":
                raise _Died(_too_much_memory(self.limits), may_be_innocent=True)
            case "output":
                raise _Died(_too_many_chars(self.limits))
            case "children":
                raise _Died("its parser left other processes running; they were ended. Save the file in another format")
            case other:
                raise _Died(f"its parser said something that makes no sense: {other!r}")
        try:
            document = decode_document(told["document"], answer.body)
            seconds = float(told["seconds"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, StopIteration) as error:
            raise _Died(f"its parser gave something that is no document: {error}") from error
        return Parsed(document, seconds)

    # ------------------------------------------------------------------------------------------- watching

    def _watch(self, stop: threading.Event) -> None:
        ticks = 0
        while not stop.wait(WATCH_SECONDS):
            ticks += 1
            now = time.monotonic()
            with self._lock:
                busy = list(self._busy)
                stale = [worker for worker in self._idle if now - worker.idle_since > IDLE_SECONDS]
                self._idle = [worker for worker in self._idle if worker not in stale]
            for worker in stale:
                worker.end("")
                worker.release()
            for worker in busy:
                worker.check(now, tree=ticks % TREE_EVERY == 0)


class _Died(Exception):
    """A worker gave no document and is not to be used again. Says why, in words for a person."""

    def __init__(self, reason: str, *, may_be_innocent: bool = False) -> None:
        super().__init__(reason)
        self.may_be_innocent = may_be_innocent


@dataclass(eq=False)
class _Worker:
    """One process, and what its watcher knows of it."""

    limits: Limits
    documents: int = 0
    idle_since: float = 0.0
    reason: str = ""  # why it was killed
    allowed_seconds: float = 0.0  # for the document it is at
    _until: float = field(default=float("inf"), repr=False)

    def __post_init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
        self._once, self._ended = threading.Lock(), False
        command = [sys.executable, "-P", "-m", "headwater.sandbox.worker", self.limits.as_text()]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder,
                env=_environment(self._folder),
                close_fds=True,
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise BackendError(f"no process could be started to parse in: {error}; free some memory") from error

    def ask(self, request: dict[str, Any], blob: Blob) -> Frame:
        """Send one document and wait for what becomes of it. Raises _Died."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        most = BYTES_PER_CHAR * self.limits.output_chars + len(blob.data) + BESIDE_TEXT_BYTES
        answer = None
        try:
            if not self.documents:
                self._until = time.monotonic() + START_SECONDS
                read_frame(self._process.stdout, max_bytes=most)
            self.documents += 1
            self.allowed_seconds = self.limits.wall_seconds
            self._until = time.monotonic() + self.allowed_seconds
            write_frame(self._process.stdin, request, [blob.data])
            answer = read_frame(self._process.stdout, max_bytes=most)
            for _ in range(system.MORE_TIMES):
                if answer is None or answer.header.get("more") is not True:
                    break
                self.allowed_seconds += self.limits.more_seconds
                self._until += self.limits.more_seconds
                answer = read_frame(self._process.stdout, max_bytes=most)
        except TooLong:
            raise _Died(_too_many_chars(self.limits)) from None
        except (OSError, ValueError, RecursionError):  # it died, or talks nonsense
            pass
        finally:
            self._until = float("inf")
        if answer is None:
            raise self._death()
        return answer

    def check(self, now: float, *, tree: bool) -> None:
        """Kill it if it takes too long or too much."""
        if now > self._until:
            took = f"{self.allowed_seconds or self.limits.wall_seconds:g} seconds"
            self.end(f"parsing took more than {took}; raise ingest.parse_wall_seconds, or cut the file in parts")
        elif system.resident_bytes(self._process.pid, tree=tree) > self.limits.memory_bytes:
            self.end(_too_much_memory(self.limits))

    def end(self, reason: str) -> None:
        """Kill it with all it started; safe to call twice and from any thread."""
        with self._once:
            if self._ended:
                return
            self._ended, self.reason = True, reason
        # Also where it is gone already: what it started may not be.
        system.kill(self._process.pid, gone=self._process.poll() is not None)
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def release(self) -> None:
        """Close the pipes of a worker that has ended; only for whoever reads them, if anybody does."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            _close(stream)

    def _death(self) -> _Died:
        """Why there is no answer."""
        with self._once:
            if self.reason:
                return _Died(self.reason, may_be_innocent=self.reason == _too_much_memory(self.limits))
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return _Died("its parser stopped answering; save the file in another format", may_be_innocent=True)
        if code == NO_MEMORY:
            return _Died(_too_much_memory(self.limits), may_be_innocent=True)
        if sys.platform != "win32" and code == -signal.SIGXCPU:
            seconds = self.limits.cpu_seconds
            told = f"parsing took more than {seconds} seconds of processor time"
            return _Died(f"{told}; raise ingest.parse_cpu_seconds, or cut the file in parts")
        known = {int(one): one.name for one in signal.Signals}
        name = known.get(-code, f"exit code {code}")
        most = f"{self.limits.memory_bytes / 1024**2:,.0f} MB"
        wants = f", or wants more memory than the {most} it may have" if code in NO_MEMORY_CODES else ""
        return _Died(
            f"its parser crashed ({name}): the file is damaged or hostile{wants}; save it anew, or in another format",
            may_be_innocent=True,
        )


def _sweep() -> None:
    """Remove the folders of pools that were killed and could not do it themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*-*"):
        pid = folder.name.removeprefix(FOLDERS).partition("-")[0]
        if pid.isdigit() and not system.is_running(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _close(stream: Any) -> None:
    try:
        stream.close()
    except OSError:  # the other end is gone, and what was not sent with it
        return


def _environment(folder: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.upper() in KEPT_VARIABLES or name[:3] == "LC_"}
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)
    return {**kept, **ONE_THREAD, **temporary, "PYTHONPATH": paths, "PYTHONUTF8": "1"}


def _too_much_memory(limits: Limits) -> str:
    most = f"{limits.memory_bytes / 1024**2:,.0f} MB"
    return f"parsing took more than {most} of memory; raise ingest.parse_memory_bytes, or cut the file in parts"


def _too_many_chars(limits: Limits) -> str:
    most = f"{limits.output_chars:,} characters"
    return f"it holds more than {most} of text; raise ingest.parse_output_chars, or cut the file in parts"
