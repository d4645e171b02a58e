"""The program of a worker: blobs in by its standard input, documents out by what was its standard output.

`python -m headwater.sandbox.worker LIMITS`. What a parser prints goes nowhere. The process holds one parser of each
kind and parses one document at a time; its pool kills it when it takes too long or too much.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import IO, Any, Final

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers._archive import check_archive
from headwater.parsers._patience import patience
from headwater.protocols import Parser
from headwater.sandbox.limits import (
    MORE_TIMES,
    Limits,
    begin_document,
    confine,
    end_document,
    has_children,
    more_time,
    resident_bytes,
)
from headwater.sandbox.wire import Frame, encode_document, header_blob, read_frame, write_frame
from headwater.types import Blob, Document

# The exit code for "no memory left even to say so".
NO_MEMORY: Final = 70
# What libraries written in Rust raise where they meet what they did not foresee.
_PANIC: Final = "PanicException"
# An error may quote the whole document.
MAX_MESSAGE_CHARS: Final = 2000


class Worker:
    """Answers requests one after the other."""

    def __init__(self, limits: Limits, *, given: IO[bytes], answers: IO[bytes], folder: Path) -> None:
        self.limits, self.given, self.answers, self.folder = limits, given, answers, folder
        self._parsers: dict[str, Parser] = {}
        self._asked = 0

    def serve(self) -> None:
        """Until the other side closes. The first word is that the clock may start."""
        write_frame(self.answers, {"ready": True})
        while (request := read_frame(self.given)) is not None:
            started = perf_counter()
            header, parts = self._answer(request)
            told = {"seconds": perf_counter() - started, "resident": resident_bytes(os.getpid())}
            write_frame(self.answers, {**header, **told}, parts)
            _empty(self.folder)

    def _answer(self, request: Frame) -> tuple[dict[str, Any], list[bytes]]:
        begin_document(self.limits)
        self._asked = 0
        try:
            blob = header_blob(request.header["blob"], request.body)
            with patience(self._ask_for_more):
                document = self._parse(request.header["parser"], request.header["arguments"], blob)
            if len(document.text) > self.limits.output_chars:
                return {"error": "output"}, []
            header, parts = encode_document(document)
            return {"error": "children"} if has_children() else {"document": header}, parts
        except MemoryError:
            return {"error": "memory"}, []
        # The loop: one document that no parser foresaw is one failed document. Panics of Rust are no Exceptions.
        except BaseException as error:
            return _told(error), []
        finally:
            end_document()

    def _ask_for_more(self) -> None:
        """Tell the pool that a slow step follows, and set our own clocks forward as it does."""
        self._asked += 1
        if self._asked <= MORE_TIMES:
            write_frame(self.answers, {"more": True})
            more_time(self.limits)

    def _parse(self, named: str, arguments: dict[str, Any], blob: Blob) -> Document:
        check_archive(blob.data)
        key = f"{named} {sorted(arguments.items())}"
        if key not in self._parsers:
            module, _, name = named.partition(":")
            make: Callable[..., Parser] = getattr(import_module(module), name)
            self._parsers[key] = make(**arguments)
        return self._parsers[key].parse(blob)


def _told(error: BaseException) -> dict[str, Any]:
    """What went wrong with a document, for the pool to say."""
    match error:
        case EmptyDocument():
            return {"error": "empty", "message": str(error)}
        case SourceError():
            return {"error": "source", "message": str(error)}
        case RecursionError():
            return {"error": "source", "message": "it is nested too deeply to be read; flatten it, or save it anew"}
        case _ if type(error).__name__ == _PANIC:
            told = f"its parser gave up ({str(error)[:MAX_MESSAGE_CHARS]}): the file is damaged; save it anew"
            return {"error": "source", "message": told}
        case _:
            return {"error": "unexpected", "message": f"{type(error).__name__}: {error}"[:MAX_MESSAGE_CHARS]}


def _empty(folder: Path) -> None:
    """What a parser left in its own folder goes with its document."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the pool, out of reach of whatever reads standard input and prints."""
    given, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    return os.fdopen(given, "rb"), os.fdopen(answers, "wb")


def main() -> None:
    """Until the pool closes the pipe."""
    given, answers = _own_streams()
    limits = Limits.from_text(sys.argv[1])
    confine(limits)
    try:
        Worker(limits, given=given, answers=answers, folder=Path.cwd()).serve()
    except MemoryError:
        os._exit(NO_MEMORY)
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
