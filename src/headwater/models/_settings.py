"""What the embedders' settings have in common: checks, prefixes, and the name of what they make."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal

from headwater.errors import SettingError
from headwater.models.known import KnownModel

Role = Literal["query", "passage"]


def whole(name: str, value: Any, *, least: int = 1) -> int:
    """The value, if it is a whole number and large enough."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(f"embed.{name} must be a whole number of at least {least}, got {value!r}")
    return value


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise SettingError(f"embed.{name} must be one of {', '.join(choices)}, got {value!r}")
    return str(value)


def prefixes(known: KnownModel | None, *, query: str | None, passage: str | None) -> Mapping[Role, str]:
    """What goes before a text by its role: as given, else as the model was trained."""
    return {
        "query": (known.query_prefix if known else "") if query is None else query,
        "passage": (known.passage_prefix if known else "") if passage is None else passage,
    }


def sendable(text: str) -> str:
    """The text as every encoder takes it: half a character, which a damaged file may hold, becomes `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def fingerprint(kind: str, model: str, *, passage_prefix: str, dimensions: int | None = None) -> str:
    """What stored vectors depend on, as far as settings say. A query's prefix may change without a new index."""
    parts = [kind, model, *([str(dimensions)] if dimensions else [])]
    if passage_prefix:
        parts.append(blake2b(passage_prefix.encode(), digest_size=4).hexdigest())
    return ":".join(parts)
