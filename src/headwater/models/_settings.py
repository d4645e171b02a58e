"""What the settings of models have in common: checks, prefixes, and the name of what embedders make."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Literal

from headwater.errors import SettingError
from headwater.models.known import KnownModel

Role = Literal["query", "passage"]


def whole(name: str, value: Any, *, least: int = 1, section: str = "embed") -> int:
    """The value, if it is a whole number and large enough."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingError(f"{section}.{name} must be a whole number of at least {least}, got {value!r}")
    return value


def one_of(name: str, value: Any, choices: tuple[str, ...], *, section: str = "embed") -> str:
    """The value, if it is one of the choices."""
    if value not in choices:
        raise SettingError(f"{section}.{name} must be one of {', '.join(choices)}, got {value!r}")
    return str(value)


def share_of(value: Any, *, section: str) -> float:
    """The value, if it is above 0 and not above 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise SettingError(f"{section}.share must be above 0 and at most 1, got {value!r}")
    return float(value)


def key_of(
    api_key: str, variables: tuple[str, ...], *, section: str, environment: Mapping[str, str] | None = None
) -> str:
    """A service's key: as given, else from the environment."""
    there = os.environ if environment is None else environment
    key = (api_key or next(filter(None, map(there.get, variables)), "")).strip()
    if not key.isascii() or not key.isprintable():
        raise SettingError(f"{section}.api_key holds characters that no key has (it is not shown here); copy it again")
    return key


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
