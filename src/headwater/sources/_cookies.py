"""What servers ask to be told again -> what they are told, within one fetch (RFC 6265).

A page that sets a cookie and sends the reader back to itself expects the cookie there. A cookie goes back only to the
host that set it, also where it names a whole domain: nobody here knows which domains belong to one site.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

# What browsers keep of one host, and of one cookie.
MAX_COOKIES: Final = 50
MAX_CHARS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cookie:
    host: str
    path: str
    name: str
    value: str
    secure: bool


class Cookies:
    """Those of one fetch, which starts with none."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], _Cookie] = {}

    def keep(self, url: str, told: tuple[str, ...]) -> None:
        """Take what the server of this address set, header by header; what breaks a rule is passed over."""
        for line in told:
            found = _read(url, line)
            if found is None:
                continue
            cookie, lasts = found
            key = (cookie.host, cookie.path, cookie.name)
            if not lasts:
                self._kept.pop(key, None)
            elif key in self._kept or len(self._kept) < MAX_COOKIES:
                self._kept[key] = cookie

    def header(self, url: str) -> dict[str, str]:
        """What the server of this address is told, the longest path first."""
        parts = urlsplit(url)
        own = [
            cookie
            for cookie in self._kept.values()
            if cookie.host == parts.hostname
            and _is_within(parts.path, cookie.path)
            and (parts.scheme == "https" or not cookie.secure)
        ]
        own.sort(key=lambda cookie: -len(cookie.path))
        return {"Cookie": "; ".join(f"{cookie.name}={cookie.value}" for cookie in own)} if own else {}


def _read(url: str, line: str) -> tuple[_Cookie, bool] | None:
    """The cookie, and whether it lasts; None for one that this server may not set or that cannot be sent back."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    pair, *rest = line.split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if not name or not equals or len(line) > MAX_CHARS or not (line.isascii() and line.isprintable()):
        return None
    said = {key.strip().lower(): value.strip() for key, _, value in (part.partition("=") for part in rest)}
    domain, secure = said.get("domain", "").lower().removeprefix("."), "secure" in said
    if (domain and host != domain and not host.endswith(f".{domain}")) or (secure and parts.scheme != "https"):
        return None
    path = said.get("path", "")
    if not path.startswith("/"):
        path = parts.path.rpartition("/")[0] or "/"
    return _Cookie(host=host, path=path, name=name, value=value, secure=secure), _lasts(said)


def _lasts(said: dict[str, str]) -> bool:
    """Whether a cookie is not over at once; one that does not say so lasts, and so does one that says it wrongly."""
    if (age := said.get("max-age", "")).removeprefix("-").isdecimal():
        return not age.startswith("-") and int(age) > 0
    try:
        return parsedate_to_datetime(said.get("expires", "")).timestamp() > time.time()
    except (ValueError, OverflowError):
        return True


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")
