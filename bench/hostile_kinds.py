"""What a hostile file is: a name, what is wrong with it, its bytes, and what must become of it."""

from collections.abc import Callable
from dataclasses import dataclass

# What is said of a document that took more time, memory or words than it may.
LIMIT = "parsing took more than|characters|wants more memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """`expect` is a pattern for `document`, `empty: REASON` or `failed: REASON`; `heavy` ones take seconds each."""

    name: str
    what: str
    make: Callable[[], bytes]
    expect: str
    heavy: bool = False


def hostile(name: str, what: str, make: Callable[[], bytes], expect: str, *, heavy: bool = False) -> Hostile:
    """The same, written short."""
    return Hostile(name=name, what=what, make=make, expect=expect, heavy=heavy)
