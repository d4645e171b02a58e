"""Parsers that do what no parser should, each by what the document says. A worker imports this file by its name."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from headwater.errors import EmptyDocument, SourceError
from headwater.parsers._patience import ask
from headwater.types import Blob, Box, Document


class HostileParser:
    """The first word of a document says what becomes of whoever reads it."""

    mimes = frozenset({"test/hostile"})

    def parse(self, blob: Blob) -> Document:
        """Do what it says."""
        text = blob.data.decode()
        doing = getattr(self, f"do_{text.split()[0]}", None)
        if doing is not None:
            doing()
        return Document(uri=blob.uri, text=text, boxes=(Box(0, len(text), 1, 0, 0, 10, 10),))

    def do_recognise(self) -> None:
        """Take long, and say so: twenty-four times a twelfth of what is allowed."""
        for _ in range(24):
            ask()
            time.sleep(0.2)

    def do_beg(self) -> None:
        """Ask for more time without end."""
        while True:
            ask()
            time.sleep(0.001)

    def do_panic(self) -> None:
        """End as a library written in Rust does."""
        raise type("PanicException", (BaseException,), {})("index out of bounds")

    def do_loop(self) -> None:
        """Use all of a core for ever."""
        while True:
            pass

    def do_eat(self) -> None:
        """Take all the memory there is."""
        eaten = []
        while True:
            eaten.append(bytearray(20_000_000))

    def do_eat_elsewhere(self) -> None:
        """Take it in another process."""
        code = "eaten = [bytearray(20_000_000) for _ in range(12)]; import time; time.sleep(60)"
        others = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
        others[0].wait()

    def do_crash(self) -> None:
        """Read where nothing is."""
        ctypes.string_at(0)

    def do_abort(self) -> None:
        """End as a C++ library does that is out of its depth."""
        os.abort()

    def do_exit(self) -> None:
        """Leave the process."""
        os._exit(3)

    def do_leave(self) -> None:
        """Leave politely."""
        sys.exit("enough")

    def do_print(self) -> None:
        """Write gigabytes where nobody reads."""
        line = "x" * 1_000_000
        for _ in range(1_500):
            sys.stdout.write(line)
        os.write(1, line.encode())

    def do_sleep(self) -> None:
        """Wait for something that never comes."""
        time.sleep(600)

    def do_raise(self) -> None:
        """A mistake in a parser."""
        raise KeyError("nobody foresaw this")

    def do_refuse(self) -> None:
        """What a parser should do."""
        raise SourceError("it is encrypted; take the password off")

    def do_empty(self) -> None:
        """Also what a parser should do."""
        raise EmptyDocument("its pages are pictures")

    def do_recurse(self) -> None:
        """Go down without end."""
        self.do_recurse()

    def do_children(self) -> None:
        """Leave a process behind, in a session of its own."""
        subprocess.Popen(["sleep", "611"], start_new_session=True)

    def do_orphans(self) -> None:
        """Leave one behind that has no parent either."""
        subprocess.run([sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '612'])"], check=True)

    def do_network(self) -> None:
        """Call home."""
        socket.create_connection(("127.0.0.1", 9), timeout=1)

    def do_kill(self) -> None:
        """What the system does to a process when memory runs out everywhere."""
        os.kill(os.getpid(), signal.SIGKILL)

    def do_litter(self) -> None:
        """Leave files behind."""
        (Path(tempfile.gettempdir()) / "left behind").write_text("x")
        Path("here too").write_text("x")

    def do_tell(self) -> None:
        """Show what a worker can see."""
        seen = {name for name in os.environ if "KEY" in name}
        files = [p.name for p in Path(tempfile.gettempdir()).iterdir()]
        descriptors = [name for name in os.listdir("/proc/self/fd") if int(name) > 2] if sys.platform == "linux" else []
        raise SourceError(f"keys {sorted(seen)} files {files} descriptors {len(descriptors)}")


class LongParser:
    """Makes a hundred megabytes of text out of nothing."""

    mimes = frozenset({"test/long"})

    def parse(self, blob: Blob) -> Document:
        """Very long."""
        return Document(uri=blob.uri, text="long " * 20_000_000)


class LiarParser:
    """Speaks to the pool itself, past its worker: as code would that has taken a parser over."""

    mimes = frozenset({"test/liar"})

    def parse(self, blob: Blob) -> Document:
        """Write whatever the document holds into every pipe there is."""
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, blob.data)
            except OSError:
                continue
        time.sleep(0.2)
        os._exit(0)
