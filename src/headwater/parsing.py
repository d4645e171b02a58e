"""A mime type -> the parser that reads it: here where it is harmless, in the sandbox otherwise.

No parser is imported to be asked what it reads: the table of the built-in ones is in `headwater.parsers`. Plugins are
asked, and win over built-in parsers that read the same.
"""

from functools import cached_property

from headwater.config import Ingest
from headwater.errors import SourceError
from headwater.parsers import READS, TRUSTED
from headwater.protocols import Parser
from headwater.registry import installed, load
from headwater.sandbox.limits import Limits
from headwater.sandbox.parser import SandboxedParser
from headwater.sandbox.pool import Sandbox

_BUILT_IN = "headwater."


class Parsers:
    """The parsers of one home. Safe to use from several threads; `close` ends their processes."""

    def __init__(self, ingest: Ingest) -> None:
        self.ingest = ingest
        self._made: dict[str, Parser] = {}  # by mime type, as far as they were asked for

    @cached_property
    def sandbox(self) -> Sandbox:
        """Where files are parsed that nobody vouches for; it starts no process before the first of them."""
        limits = Limits(
            wall_seconds=self.ingest.parse_wall_seconds,
            cpu_seconds=self.ingest.parse_cpu_seconds,
            memory_bytes=self.ingest.parse_memory_bytes,
            output_chars=self.ingest.parse_output_chars,
        )
        return Sandbox(limits, processes=self.ingest.parse_processes)

    def named(self, mime: str) -> Parser:
        """The parser for a mime type; one that nobody reads is refused with what can be read."""
        found = self._made.get(mime) or self._plugins.get(mime) or self._built_in(mime)
        if found is None:
            names = ", ".join(installed("parsers"))
            raise SourceError(f"no parser reads {mime or 'this kind of file'}; there are parsers for: {names}")
        self._made[mime] = found
        return found

    def close(self) -> None:
        """End the processes, if any were started."""
        if "sandbox" in self.__dict__:
            self.sandbox.close()

    def _built_in(self, mime: str) -> Parser | None:
        name = next((name for name, mimes in READS.items() if mime in mimes), "")
        if name not in installed("parsers"):
            return None
        return self._here(name) if name in TRUSTED else self._elsewhere(name, READS[name])

    @cached_property
    def _plugins(self) -> dict[str, Parser]:
        found: dict[str, Parser] = {}
        for name, point in installed("parsers").items():
            if not point.value.startswith(_BUILT_IN):
                trusted = getattr(load("parsers", name), "trusted", False)
                mimes: frozenset[str] = load("parsers", name).mimes  # type: ignore[attr-defined]
                made = self._here(name) if trusted else self._elsewhere(name, mimes)
                found.update(dict.fromkeys(mimes, made))
        return found

    def _here(self, name: str) -> Parser:
        made: Parser = load("parsers", name)()
        return made

    def _elsewhere(self, name: str, mimes: frozenset[str]) -> Parser:
        return SandboxedParser(self.sandbox, parser=installed("parsers")[name].value, mimes=mimes)
