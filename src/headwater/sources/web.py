"""Addresses of pages -> changes with their bytes, fetched within limits and only where they changed.

Redirects are followed by hand: every hop is normalised, judged and asked for anew, as is the robots.txt of its site.
Cookies are kept from hop to hop, and forgotten with the page.
The uri of a page is its normalised address as it was asked for; where that led is in its meta.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import Final
from urllib.parse import unquote, urlsplit

from headwater.kinds import BINARY, HTML, PLAIN, kind_of
from headwater.sources._address import (
    PageError,
    Resolve,
    host_and_port,
    joined,
    normalised,
    origin,
    refusal,
    system_resolve,
)
from headwater.sources._cookies import Cookies
from headwater.sources._fetch import Answer, Limits, get
from headwater.sources._robots import ALL_ALLOWED, MAX_BYTES, NONE_ALLOWED, Robots
from headwater.types import DEFAULT_COLLECTION, LOCAL_OWNER, Blob, Change, Labels

__all__ = ["PageError", "Web", "WebSource", "fetch", "normalised"]

AGENT: Final = "headwater"
MAX_REDIRECTS: Final = 10
# Pages fetched at a time, and at most so many of one site: a guest does not run through the house.
PARALLEL: Final = 8
PER_SITE: Final = 2
# Pages that were fetched ahead and wait to be read; they are held in memory.
AHEAD: Final = 16
# What a page may be in all: some thousand times the usual one.
MAX_PAGE_BYTES: Final = 32 * 1024 * 1024
TIMEOUT_SECONDS: Final = 20.0
# What a site says in robots.txt holds for a day (RFC 9309); one that fails to say it is asked again soon.
RULES_SECONDS: Final = 24 * 3600.0
NO_RULES_SECONDS: Final = 60.0
# Of what is answered to something that was sent: nobody reads it.
MAX_REPLY_BYTES: Final = 64 * 1024

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_WORDS: Final = {
    401: "wants a sign-in: save the page from a browser, or send it with the browser extension",
    403: "refuses to give it to a program: save it from a browser, or send it with the browser extension",
    404: "has no such page; check the address",
    410: "says that the page is gone for good",
    429: "takes no more requests now; try again later",
}
_ACCEPT: Final = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_NO_LABELS: Final = Labels()
_NOTHING: Final[Callable[[str], str]] = lambda _: ""  # noqa: E731 - a default of a keyword


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchanged:
    """The server says that the page is as it was."""

    url: str


class Web:
    """The web as this program sees it. Safe for use from several threads; `close` ends what fetches ahead."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        robots: bool = True,
        max_bytes: int = MAX_PAGE_BYTES,
        timeout_seconds: float = TIMEOUT_SECONDS,
        user_agent: str = "",
        parallel: int = PARALLEL,
        resolve: Resolve = system_resolve,
    ) -> None:
        self.allow_private, self.robots, self.resolve = allow_private, robots, resolve
        self.limits = Limits(seconds=timeout_seconds, bytes=max_bytes)
        self.user_agent = user_agent or f"{AGENT}/{_version()} (+https://pypi.org/project/headwater/)"
        self._parallel = max(1, parallel)
        self._rules: dict[str, tuple[float, Robots]] = {}  # by site: until when, and what
        self._guard = threading.Lock()
        self._sites: dict[str, threading.Semaphore] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._coming: dict[str, Future[Blob]] = {}
        self._expected: list[str] = []

    def fetch(self, url: str, *, stamp: str = "") -> Blob | Unchanged:
        """The bytes of a page; with the stamp of an earlier fetch, only where it changed since.

        Raises PageError, which says what was wrong and whether another try may help.
        """
        asked = here = normalised(url)
        cookies = Cookies()
        for _ in range(MAX_REDIRECTS + 1):
            self._check_robots(here)
            answer = self._get(here, {**(_conditions(stamp) if here == asked else {}), **cookies.header(here)})
            cookies.keep(here, answer.cookies)
            if answer.status == 304 and stamp:
                return Unchanged(url=asked)
            if answer.status not in _REDIRECTS or not (target := answer.headers.get("location", "")):
                return self._blob(asked, here, answer)
            here = normalised(joined(here, target))
        raise PageError(f"{asked} sends on from page to page, {MAX_REDIRECTS} times and more; check the address")

    def post(self, url: str, body: bytes, *, headers: Mapping[str, str], seconds: float) -> int:
        """Send bytes to an address, judged like any other; what its server answers is its status, and none is followed.

        Raises PageError, which says what was wrong and whether another try may help.
        """
        query = urlsplit(url).query
        here = urlsplit(normalised(url))._replace(query=query if query.isascii() and query.isprintable() else "")
        answer = get(
            here.geturl(),
            headers={"User-Agent": self.user_agent, **headers},
            limits=Limits(seconds=seconds, bytes=MAX_REPLY_BYTES),
            resolve=self.resolve,
            allow_private=self.allow_private,
            cut=True,
            sent=body,
        )
        return answer.status

    def tried(self, url: str, *, stamp: str = "") -> Blob | Unchanged | PageError:
        """The same, with the error as an answer."""
        try:
            return self.fetch(url, stamp=stamp)
        except PageError as error:
            return error

    def remember(self, url: str, error: PageError) -> None:
        """The next read of this page fails so, without asking again."""
        failed: Future[Blob] = Future()
        failed.set_exception(error)
        with self._guard:
            self._coming[url] = failed

    def read(self, url: str) -> Blob:
        """The bytes of a page; one that was expected may be here already."""
        with self._guard:
            coming = self._coming.pop(url, None)
        found = coming.result() if coming is not None else self._whole(url)
        self._go_on()
        return found

    def expect(self, urls: Iterable[str]) -> None:
        """These will be read, in about this order: fetch ahead, a few at a time."""
        with self._guard:
            self._expected = [url for url in dict.fromkeys(urls) if url not in self._coming]
        self._go_on()

    def close(self) -> None:
        """Fetch nothing more."""
        with self._guard:
            pool, self._pool, self._expected = self._pool, None, []
            self._coming.clear()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _go_on(self) -> None:
        with self._guard:
            while self._expected and len(self._coming) < AHEAD:
                url = self._expected.pop(0)
                self._pool = self._pool or ThreadPoolExecutor(self._parallel, thread_name_prefix="headwater-web")
                self._coming[url] = self._pool.submit(self._whole, url)

    def _whole(self, url: str) -> Blob:
        found = self.fetch(url)
        assert isinstance(found, Blob)
        return found

    def _get(self, url: str, headers: Mapping[str, str], *, limits: Limits | None = None, cut: bool = False) -> Answer:
        with self._guard:
            turn = self._sites.setdefault(origin(url), threading.Semaphore(PER_SITE))
        with turn:
            return get(
                url,
                headers={"User-Agent": self.user_agent, "Accept": _ACCEPT, **headers},
                limits=limits or self.limits,
                resolve=self.resolve,
                allow_private=self.allow_private,
                cut=cut,
            )

    # ---------------------------------------------------------------------------------------- robots

    def _check_robots(self, url: str) -> None:
        rules = self._rules_of(origin(url)) if self.robots else ALL_ALLOWED
        if rules is NONE_ALLOWED:
            raise PageError(
                f"the robots.txt of {origin(url)} cannot be had now, so nothing there is asked for; try again later",
                again=True,
            )
        if not rules.allows(url):
            raise PageError(
                f"the robots.txt of {origin(url)} asks programs to leave {url} alone; "
                "save the page from a browser and add that"
            )

    def _rules_of(self, site: str) -> Robots:
        with self._guard:
            until, known = self._rules.get(site, (0.0, ALL_ALLOWED))
        if time.monotonic() >= until:
            known = self._asked_rules(site)
            with self._guard:
                lasts = NO_RULES_SECONDS if known is NONE_ALLOWED else RULES_SECONDS
                self._rules[site] = (time.monotonic() + lasts, known)
        return known

    def _asked_rules(self, site: str) -> Robots:
        """What a site says; a site without rules allows all, and one that fails to tell them nothing (RFC 9309)."""
        here = f"{site}/robots.txt"
        limits = replace(self.limits, bytes=MAX_BYTES)
        for _ in range(MAX_REDIRECTS // 2 + 1):
            answer = self._get(here, {}, limits=limits, cut=True)
            if answer.status in _REDIRECTS and (target := answer.headers.get("location", "")):
                here = normalised(joined(here, target))
                continue
            if answer.status == 200:
                return Robots(answer.body.decode("utf-8", "replace").removeprefix("\ufeff"), agent=AGENT)
            return NONE_ALLOWED if answer.status >= 500 or answer.status == 429 else ALL_ALLOWED
        return ALL_ALLOWED

    # ----------------------------------------------------------------------------------------- pages

    def _blob(self, asked: str, here: str, answer: Answer) -> Blob:
        if answer.status != 200:
            words = _WORDS.get(answer.status, "answered with an error")
            host = urlsplit(here).hostname
            raise PageError(
                f"{host} {words} ({answer.status} for {here})", again=answer.status in _AGAIN, status=answer.status
            )
        said = Message()
        said["content-type"] = answer.headers.get("content-type", "")
        name = said.get_filename() or unquote(urlsplit(here).path.rpartition("/")[2])
        meta = {"charset": said.get_content_charset() or "", "final_url": here if here != asked else ""}
        return Blob(
            uri=asked,
            data=answer.body,
            mime=_mime(name, answer.body, said.get_content_type()),
            modified=_date(answer.headers.get("last-modified", "")),
            meta={
                **{key: value for key, value in meta.items() if value},
                **{key: value for key, value in _validators(answer.headers).items() if value},
            },
        )


class WebSource:
    """Single pages. They are fetched when they are scanned, and come as changes that hold their bytes.

    `known` gives the stamp that a page was stored with; one that the server says is unchanged comes without bytes.
    `fetched` are pages that are here already, or why they are not.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        web: Web | None = None,
        owner: str = LOCAL_OWNER,
        collection: str = DEFAULT_COLLECTION,
        labels: Labels = _NO_LABELS,
        known: Callable[[str], str] = _NOTHING,
        fetched: Mapping[str, Blob | Unchanged | PageError] | None = None,
    ) -> None:
        self._fetched = dict(fetched or {})
        self.urls = [normalised(url) for url in urls]
        self.web = web or Web()
        self.owner, self.collection, self.labels, self.known = owner, collection, labels, known

    def scan(self) -> Iterator[Change]:
        """Every page once. One that cannot be fetched comes as a put that fails with the reason."""
        for url in dict.fromkeys(self.urls):
            stamp = self.known(url)
            found = self._fetched.pop(url, None) or self.web.tried(url, stamp=stamp)
            blob = found if isinstance(found, Blob) else None
            if isinstance(found, PageError):
                self.web.remember(url, found)
                stamp = ""
            elif blob is not None:
                stamp = stamp_of(blob)
            yield Change(
                uri=url,
                kind="put",
                owner=self.owner,
                collection=self.collection,
                labels=self.labels,
                stamp=stamp,
                payload=blob,
            )

    def read(self, uri: str) -> Blob:
        """The bytes of a page."""
        return self.web.read(normalised(uri))


def fetch(url: str, *, private_addresses: bool = False) -> Blob:
    """The bytes of one page, with nothing kept between calls."""
    found = Web(allow_private=private_addresses).fetch(url)
    assert isinstance(found, Blob)
    return found


def refused(url: str, *, allow_private: bool) -> str:
    """Why a normalised address that is a number is not connected to, in words; empty for a name."""
    host, _ = host_and_port(url)
    return refusal(host, allow_private=allow_private) if ":" in host or host.replace(".", "").isdecimal() else ""


def stamp_of(blob: Blob) -> str:
    """What a server needs to be told to say whether a page changed; empty where it gave nothing."""
    told = {name: blob.meta[name] for name in ("etag", "last_modified") if blob.meta.get(name)}
    return json.dumps(told, sort_keys=True, ensure_ascii=True, separators=(",", ":")) if told else ""


def _conditions(stamp: str) -> dict[str, str]:
    try:
        told = json.loads(stamp or "{}")
    except ValueError:
        return {}
    named = {"If-None-Match": told.get("etag", ""), "If-Modified-Since": told.get("last_modified", "")}
    return {name: value for name, value in named.items() if value and value.isascii() and value.isprintable()}


def _validators(headers: Mapping[str, str]) -> dict[str, str]:
    return {"etag": headers.get("etag", ""), "last_modified": headers.get("last-modified", "")}


def _mime(name: str, data: bytes, said: str) -> str:
    """What the bytes are; where they are text of any kind, what the server says of them."""
    found = kind_of(name, data)
    if found in (PLAIN, BINARY) and said in ("text/html", "application/xhtml+xml"):
        return HTML if data.strip() else PLAIN
    if found == PLAIN and re.fullmatch(r"text/(?:markdown|csv|x-[\w.+-]+)", said):
        return said
    return found


def _date(said: str) -> str:
    try:
        return parsedate_to_datetime(said).isoformat() if said else ""
    except ValueError:
        return ""


def _version() -> str:
    try:
        return metadata.version("headwater")
    except metadata.PackageNotFoundError:
        return "0"
