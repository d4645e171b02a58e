"""A parser that runs elsewhere: the same verb as any parser, and one that does not wait."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from headwater.sandbox.pool import Parsed, Sandbox
from headwater.types import Blob, Document


class SandboxedParser:
    """Stands for `module:Class` of an entry point, which only a worker makes an object of."""

    def __init__(
        self, sandbox: Sandbox, *, parser: str, mimes: frozenset[str], arguments: Mapping[str, Any] | None = None
    ) -> None:
        self.sandbox, self.parser, self.mimes, self.arguments = sandbox, parser, mimes, dict(arguments or {})

    def start(self, blob: Blob) -> Future[Parsed]:
        """Begin, and come back at once; the future raises SourceError and EmptyDocument."""
        return self.sandbox.submit(blob, self.parser, self.arguments)

    def end(self, blob: Blob) -> None:
        """Stop what was started for this blob, as far as it has begun."""
        self.sandbox.end(blob)

    def parse(self, blob: Blob) -> Document:
        """Begin, and wait for the end."""
        return self.start(blob).result().document
