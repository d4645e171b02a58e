"""Requests to a model's server -> its answers. Waits when told to, tries again what may succeed, says what failed.

No message holds a key: what a server says back is cleaned first, and what it says about a refused key is left out.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event, Lock
from typing import Any, Final
from urllib.parse import urlsplit

from headwater.errors import BackendError

OFFLINE_VARIABLE: Final = "HEADWATER_OFFLINE"
HOMELY: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Waits between attempts: half a second, doubled each time, up to half a minute: limits mostly count by the minute.
FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
# A server that asks for more patience than this has run out of quota, not of breath.
MOST_PATIENCE_SECONDS: Final = 120.0
# After this many refusals in a row a smaller request is worth a try: limits count texts and tokens too.
CROWDED: Final = 3
# Bytes of what a server says about its failure that are worth showing.
MOST_SAID: Final = 300

_TRY_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_TOO_LARGE: Final = re.compile(
    r"too (large|long|many|big)|larger than|longer than|batch.?size|exceed|maximum|at most|less than|max_\w*length"
    r"|最大|最多|超过|超出|超长|过长",
    re.IGNORECASE,
)
_OUT_OF_QUOTA: Final = re.compile(
    r"insufficient_quota|arrearage|exceeded your current quota|余额不足|欠费", re.IGNORECASE
)
# Keys as the services write them, whole or with their middle starred out.
_KEYS: Final = re.compile(r"\b(sk|hf|key)[-_][\w*.-]{6,}")


class TooLarge(BackendError):
    """The server would take fewer texts, or shorter ones: always, or `for_now`."""

    def __init__(self, message: str, *, for_now: bool = False) -> None:
        super().__init__(message)
        self.for_now = for_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for an answer, and how often to ask again."""

    timeout_seconds: float
    max_retries: int


class Pace:
    """When the next request may go out; shared by all threads that ask one server."""

    def __init__(self, requests_per_minute: int) -> None:
        self._gap = 60.0 / requests_per_minute if requests_per_minute else 0.0
        self._next = 0.0
        self._lock = Lock()

    def wait(self, stopped: Event | None = None) -> None:
        """Return when it is this thread's turn, or nobody waits for it any more."""
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + self._gap
        (stopped or Event()).wait(max(0.0, turn - time.monotonic()))

    def hold(self, seconds: float) -> None:
        """Nobody asks again before this much time has passed."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)


class Endpoint:
    """A server that takes and gives JSON. Safe for use from several threads."""

    def __init__(self, base_url: str, *, api_key: str = "", requests_per_minute: int = 0, key_hint: str = "") -> None:
        self.base_url = base_url.rstrip("/")
        self._api_key, self._key_hint = api_key, key_hint
        self._pace = Pace(requests_per_minute)
        self._lock = Lock()
        self._client: Any = None

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        patience: Patience,
        divisible: bool = False,
        stopped: Event | None = None,
    ) -> Any:
        """The answer. TooLarge means: ask for less; too many requests mean it only where the request is `divisible`.

        Once `stopped` is set it does not ask again.
        """
        refuse_if_offline(self.base_url)
        refused = 0
        reason = ""
        for attempt in range(patience.max_retries + 1):
            self._pace.wait(stopped)
            if stopped is not None and stopped.is_set():
                raise BackendError(reason or f"{self._name} was not asked: another request had failed")
            status, said, wait = self._ask(path, body, patience.timeout_seconds)
            if status == 200:
                return said
            reason = self._reason(status, said)
            if status not in _TRY_AGAIN and status != 0:
                raise self._refusal(status, str(said), reason)
            refused = refused + 1 if status == 429 else 0
            if status == 429 and _OUT_OF_QUOTA.search(str(said)):
                raise BackendError(f"{reason}: the account has no quota left")
            if wait is not None and wait > MOST_PATIENCE_SECONDS:
                raise BackendError(f"{reason}: it asks to wait {wait:.0f} s; try again then")
            if divisible and refused >= CROWDED:
                raise TooLarge(reason, for_now=True)
            self._pace.hold(min(FIRST_WAIT_SECONDS * 2**attempt, LONGEST_WAIT_SECONDS) if wait is None else wait)
        raise BackendError(f"{reason}; asked {patience.max_retries + 1} times")

    def hold(self, seconds: float) -> None:
        """Let the server rest."""
        self._pace.hold(seconds)

    def close(self) -> None:
        """Let go of the connections; the next request makes new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self, path: str, body: Mapping[str, Any], timeout_seconds: float) -> tuple[int, Any, float | None]:
        """Status, content and how long to wait. Status 0: no answer, or half of one."""
        import httpx2

        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        try:
            response = self._connections().post(
                f"{self.base_url}/{path}", json=body, headers=headers, timeout=timeout_seconds
            )
            if response.status_code == 200:
                content = response.json()
                if isinstance(content, dict) and content.get("error"):  # as some gateways tell of a failure
                    return 0, f"answered with an error: {content['error']}", None
                return 200, content, None
            return response.status_code, response.text, _wait_seconds(response.headers)
        except httpx2.TimeoutException:
            return 0, f"gave no answer within {timeout_seconds:g} s", None
        except httpx2.InvalidURL as error:
            raise BackendError(f"{self._name} is not an address ({error}): set base_url") from None
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            return 0, f"cannot be reached ({type(error).__name__}: {error})", None
        except ValueError:
            return 0, "answered with something that is not JSON", None

    def _connections(self) -> Any:
        import httpx2

        with self._lock:
            if self._client is None:
                self._client = httpx2.Client()
            return self._client

    @property
    def _name(self) -> str:
        return shown(self.base_url)

    def _reason(self, status: int, said: Any) -> str:
        if status == 0:
            return f"{self._name} {self._cleaned(str(said))}"
        if status == 429:
            return f"{self._name} takes no more requests now (429)"
        return f"{self._name} answered {status}: {self._cleaned(str(said)) or 'nothing'}"

    def _refusal(self, status: int, said: str, reason: str) -> BackendError:
        if status in (401, 403):
            how = "refused the key" if self._api_key else "wants a key and none was given"
            return BackendError(f"{self._name} {how} ({status}); {self._key_hint or 'set api_key'}")
        if status == 413 or (status in (400, 422) and _TOO_LARGE.search(said)):
            return TooLarge(reason)
        if status == 404:
            return BackendError(f"{reason}; check the model's name and base_url, which mostly ends in /v1")
        return BackendError(reason)

    def _cleaned(self, said: str) -> str:
        """What a server said, on one line, without the key."""
        found = re.search(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"', said)
        line = " ".join((found[1] if found else said).split())
        if self._api_key:
            line = line.replace(self._api_key, "…")
        return _KEYS.sub("…", line)[:MOST_SAID]


def shown(url: str) -> str:
    """An address without the name and password it may hold."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else url


def refuse_if_offline(url: str) -> None:
    """Raise where the person said that nothing may leave this machine."""
    switch = os.environ.get(OFFLINE_VARIABLE, "").lower()
    if switch not in ("", "0", "false", "no") and urlsplit(url).hostname not in HOMELY:
        raise BackendError(f"{OFFLINE_VARIABLE} is set, so {shown(url)} is not asked; unset it to allow the network")


def _wait_seconds(headers: Mapping[str, str]) -> float | None:
    """What `Retry-After` asks for: seconds, milliseconds in OpenAI's own header, or a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = headers.get("retry-after", "")
        return max(0.0, float(given)) if given else None
    except ValueError:
        try:
            return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
        except ValueError:
            return None
