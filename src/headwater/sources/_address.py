"""An address of the web -> the same one as everybody writes it, and the addresses of machines it may lead to.

What a person or a program names must not reach what only this machine can reach: its own services, the network it
stands in, the place where a cloud keeps its keys. So a name is resolved here, every address that comes out is judged,
and the connection is made to one that was judged, not to the name.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit, urlunsplit

from headwater.errors import SourceError

Resolve = Callable[[str, int], Sequence[str]]  # raises PageError
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

SCHEMES: Final = {"http": 80, "https": 443}
# What campaigns and social networks append; the page is the same without it.
TRACKING: Final = re.compile(
    r"utm_\w+|fbclid|gclid|dclid|gbraid|wbraid|msclkid|yclid|igshid|mc_[ce]id|_hsenc|_hsmi|vero_id|spm|ref_src|share_source"
)
MAX_URL_CHARS: Final = 4000

# Where clouds answer their own machines; two of them are not in any private range. Refused whatever is allowed.
METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    )
)
_V4_INSIDE: Final = tuple(
    # (network, how many bits stand behind the IPv4 address in it)
    (ipaddress.IPv6Network(network), behind)
    for network, behind in (
        ("::ffff:0:0/96", 0),  # mapped
        ("::ffff:0:0:0/96", 0),  # translated, RFC 2765
        ("64:ff9b::/96", 0),  # NAT64, RFC 6052
        ("64:ff9b:1::/48", 0),  # NAT64 of a network's own, RFC 8215
        ("2002::/16", 80),  # 6to4
        ("::/96", 0),  # compatible, long out of use
    )
)
# Of these what stands inside decides. By NAT64 a network without IPv4 reaches every page of the older web; 6to4 is
# public to one version of Python and private to the next.
_OTHERS_DECIDE: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("2002::/16"))
_TEREDO: Final = ipaddress.IPv6Network("2001::/32")
# A host of nothing but numbers, dots and 0x is an address in one of its old forms, never a name.
_NUMERIC: Final = re.compile(r"(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+))*\.?", re.IGNORECASE)
_SAFE: Final = "/:@!$&'()*+,;=-._~%"


class PageError(SourceError):
    """A page that cannot be had. `again` says whether another try later may succeed, `status` what the server said."""

    def __init__(self, message: str, *, again: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.again, self.status = again, status


def normalised(url: str) -> str:
    """One spelling for one page; raises PageError for what is no address of the web.

    Without the fragment, the default port and what only says where a reader came from; host in lower case.
    """
    if len(url) > MAX_URL_CHARS:
        raise PageError(f"the address has {len(url)} characters and {MAX_URL_CHARS} are the limit")
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise PageError(f"{url!r} is no address: {error}; write https://host/page") from error
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise PageError(f"only http and https addresses can be fetched, got {url!r}")
    if parts.username is not None or parts.password is not None:
        raise PageError("an address with a name or a password in it is not fetched; leave out what stands before @")
    if "\\" in url or any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in url.strip()):
        raise PageError(f"{url!r} holds characters that no address has; write them as %XX")
    named = _host(host, url)
    place = named if port in (None, SCHEMES[scheme]) else f"{named}:{port}"
    path = quote(parts.path or "/", safe=_SAFE)
    return urlunsplit((scheme, place, path, _query(parts.query), ""))


def joined(base: str, url: str) -> str:
    """An address as a page names it, from the page's own; as it is where that cannot be, for `normalised` to refuse."""
    try:
        return urljoin(base, url)
    except ValueError:
        return url


def host_and_port(url: str) -> tuple[str, int]:
    """Of a normalised address, the host without brackets."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or SCHEMES[parts.scheme]


def origin(url: str) -> str:
    """Scheme, host and port: what a robots.txt speaks for."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def judged(host: str, port: int, *, resolve: Resolve, allow_private: bool) -> list[str]:
    """The addresses a host has, all of them allowed; raises PageError with the reason where one is not.

    All must be: a name that has a public and a private address is a trap, or a network that must not be reached by
    chance.
    """
    try:
        found = [str(ipaddress.ip_address(host))]
    except ValueError:
        found = list(resolve(host, port))
    if not found:
        raise PageError(f"{host!r} has no address; check the spelling")
    for one in found:
        if reason := refusal(one, allow_private=allow_private):
            remedy = "" if reason == _KEYS else "; web.allow_private lets pages of private networks be fetched"
            raise PageError(f"{host!r} leads to {one}, {reason}{remedy}")
    return found


_KEYS: Final = "where a cloud keeps its keys: that is never fetched"


def refusal(address: str, *, allow_private: bool = False) -> str:
    """Why an address is not connected to, in words; empty where it may be."""
    plain = address.partition("%")[0]  # a zone says which card, not which machine
    try:
        found = ipaddress.ip_address(plain)
    except ValueError:
        return "which is no address"
    every = [found, *_inside(found)]
    if any(one in METADATA for one in every):
        return _KEYS
    if allow_private:
        return ""
    for one in every:
        if kind := _kind(one):
            return f"which is {kind}" if one == found else f"which holds {one}, which is {kind}"
    return ""


def system_resolve(host: str, port: int) -> Sequence[str]:
    """What this machine's own resolver says."""
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        again = getattr(error, "errno", None) == socket.EAI_AGAIN
        raise PageError(f"the name {host!r} cannot be resolved ({error}); check the spelling", again=again) from error
    return list(dict.fromkeys(str(row[4][0]) for row in rows))


def _host(host: str, url: str) -> str:
    if not host:
        raise PageError(f"{url!r} names no host; write https://host/page")
    if "%" in host:  # a zone: a network card of this machine
        raise PageError(f"{host!r} is no host name; write https://host/page")
    if ":" in host:
        try:
            return f"[{ipaddress.IPv6Address(host).compressed}]"
        except ValueError as error:
            raise PageError(f"{url!r} names no host: {error}") from error
    try:
        # Also makes plain digits of wide ones, so that no form of an address passes for a name.
        plain = host.encode("idna").decode("ascii").lower().rstrip(".")
    except UnicodeError as error:
        raise PageError(f"{host!r} is no host name: {error}") from error
    if _NUMERIC.fullmatch(plain):
        try:
            return str(ipaddress.IPv4Address(plain))
        except ValueError as error:
            raise PageError(f"{host!r} is no host name; write an address as four numbers from 0 to 255") from error
    if not plain or re.search(r"[^a-z0-9._-]", plain):
        raise PageError(f"{host!r} is no host name; write https://host/page")
    return plain


def _query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = [(name, value) for name, value in pairs if not TRACKING.fullmatch(name)]
    if len(kept) == len(pairs):  # as it was written: some servers tell %20 and + apart
        return quote(query, safe=_SAFE + "?/[]")
    return urlencode(kept)


def _inside(address: Address) -> list[Address]:
    """The IPv4 addresses that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    number = int(address)
    if address in _TEREDO:
        return [ipaddress.IPv4Address(number >> 64 & 0xFFFFFFFF), ipaddress.IPv4Address(~number & 0xFFFFFFFF)]
    return [ipaddress.IPv4Address(number >> bits & 0xFFFFFFFF) for network, bits in _V4_INSIDE if address in network]


_KINDS: Final = (
    ("is_unspecified", "no machine's address"),
    ("is_loopback", "this machine itself"),
    ("is_link_local", "for the nearest network only"),
    ("is_multicast", "a group of machines"),
    ("is_private", "of a private network"),
    ("is_reserved", "reserved"),
)


def _kind(address: Address) -> str:
    """What is wrong with an address in itself; empty where nothing is."""
    if any(address in network for network in _OTHERS_DECIDE):
        return ""
    for attribute, words in _KINDS:
        if getattr(address, attribute):
            return words
    if getattr(address, "is_site_local", False):
        return "of a private network"
    return "" if address.is_global else "not part of the public network"
