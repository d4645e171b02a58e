"""A site's robots.txt -> whether a page of it may be fetched (RFC 9309): the longest rule that fits decides."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

# RFC 9309 asks for 500 KiB at least; what stands behind it is not looked at.
MAX_BYTES: Final = 512 * 1024
_AGENT: Final = re.compile(r"[a-z_-]+", re.IGNORECASE)


class Robots:
    """The rules for one program, named by its product token."""

    def __init__(self, text: str, *, agent: str) -> None:
        groups = _groups(text)
        own = agent.lower()
        named = [rules for agents, rules in groups if own in agents]
        chosen = named or [rules for agents, rules in groups if "*" in agents]
        self._rules = [(allow, _plain(pattern)) for rules in chosen for allow, pattern in rules if pattern]

    def allows(self, url: str) -> bool:
        """Whether the page may be fetched; where an allow and a disallow are equally long, it may."""
        parts = urlsplit(url)
        path = _plain((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        if path == "/robots.txt":
            return True
        fitting = [(len(pattern), allow) for allow, pattern in self._rules if _fits(pattern, path)]
        return max(fitting)[1] if fitting else True


def _groups(text: str) -> list[tuple[set[str], list[tuple[bool, str]]]]:
    groups: list[tuple[set[str], list[tuple[bool, str]]]] = []
    naming = False
    for line in text.splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        name, said = key.strip().lower(), value.strip()
        if not colon:
            continue
        if name == "user-agent":
            if not naming:
                groups.append((set(), []))
            token = _AGENT.match(said)
            groups[-1][0].add("*" if said.startswith("*") else token[0].lower() if token else said.lower())
            naming = True
        elif name in ("allow", "disallow"):
            naming = False
            if groups:
                groups[-1][1].append((name == "allow", said))
    return groups


def _fits(pattern: str, path: str) -> bool:
    """Piece by piece, each at its first place: no pattern takes longer than the path is long."""
    first, *pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    if pattern.endswith("$"):
        if not pieces:
            return path == first
        last = pieces.pop()
        if len(path) < len(first) + len(last) or not path.endswith(last):
            return False
        path = path[: len(path) - len(last)]
    place = len(first)
    for piece in pieces:
        found = path.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _plain(path: str) -> str:
    """Both sides without %XX, so that two spellings of one path are one."""
    return unquote(path)


ALL_ALLOWED: Final = Robots("", agent="*")
NONE_ALLOWED: Final = Robots("user-agent: *\ndisallow: /", agent="*")
